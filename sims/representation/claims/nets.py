"""A claim on trained nets: PS-8."""

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.representation.digits import digits_images, trained_digits
from porism.sims.representation.worlds import reshuffled, scramble
from porism.theory.representation import privileged_similarity, similarity

__all__ = ["digits"]


@claim(
    "PS-8",
    kind="empirical",
    source="our own trial; the data set's paper is named at `digits_images`",
    statement="On scikit-learn's digits, scales and dead units take CKA of a trained net with itself below "
    "0.9 and leave privileged CKA at 1. Between nets trained independently privileged and plain CKA agree "
    "to 0.05: it takes the noise of symmetries away, and does not make different solutions more alike.",
    control="outgoing weights of the net shuffled and rescaled, which CKA of hidden matrices cannot see",
)
def digits(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    count, epochs = (2, 15) if scale == "smoke" else (4, 80)
    seeds = rng.integers(2**31, size=count).tolist()
    trained = [trained_digits(seed, epochs=epochs) for seed in seeds]
    nets, X = [one.layer for one in trained], digits_images()[2]
    pairs = [(nets[i], nets[j]) for i in range(count) for j in range(i)]
    raw = float(np.mean([similarity(a.hidden(X), b.hidden(X)) for a, b in pairs]))
    privileged = float(np.mean([privileged_similarity(a, b, X) for a, b in pairs]))
    net = nets[0]
    other = reshuffled(net, rng) if broken else scramble(net, rng, ["scale", "null"], extra=40)
    itself = similarity(net.hidden(X), other.hidden(X))
    loss = abs(1 - privileged_similarity(net, other, X))
    moved = float(np.abs(net(X) - other(X)).max())
    return Evidence(
        loss <= 1e-9 and itself < 0.9 and moved <= 1e-11 and abs(raw - privileged) <= 0.05,
        loss,
        0.0,
        1e-9,
        "rounding, as in PS-6",
        len(pairs) + 1,
        {
            "CKA of the net and its copy": itself,
            "largest difference of their logits": moved,
            "mean CKA between nets": raw,
            "mean privileged CKA between nets": privileged,
            "lowest accuracy": min(one.accuracy for one in trained),
        },
        quantity="distance of privileged CKA from 1, net and copy",
    )
