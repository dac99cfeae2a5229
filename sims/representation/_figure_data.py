"""What the figures of the representation module show, as arrays."""

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator
from porism.sims.representation._kernels import drawn_similarities
from porism.sims.representation.digits import digits_images, trained_digits
from porism.sims.representation.worlds import alive_layer, random_kernels, random_layer, reshuffled, scramble
from porism.theory.representation import Layer, canonicalise, cka_range, privileged_similarity, similarity

__all__ = [
    "MEASURES",
    "digits_pairs",
    "lowest_draws",
    "measures_by_primitive",
    "scrambled_pairs",
    "two_units",
]

Floats = NDArray[np.float64]

MEASURES = ("CKA", "CCA", "Procrustes", "RSA", "CKA, parallel merged", "privileged CKA")
"""Rows of `measures_by_primitive`."""

WITHOUT_LINEAR = ("duplicate", "null", "cancel", "scale", "permute")


def scrambled_pairs(count: int, linear: bool, rng: np.random.Generator | int | None) -> Floats:
    """CKA of two scrambled copies of one layer, (3, count): plain, parallel units merged, privileged.

    If linear, copies hold groups that cancel as linear pieces.
    """
    draw, rows = generator(rng), []
    for _ in range(count):
        X, net = draw.normal(size=(200, 5)), random_layer(12, 5, 3, draw)
        primitives = (*WITHOUT_LINEAR, "linear") if linear else WITHOUT_LINEAR
        a, b = (scramble(net, draw, primitives) for _ in range(2))
        rows.append((similarity(a.hidden(X), b.hidden(X)), _merged(a, b, X), privileged_similarity(a, b, X)))
    return np.array(rows).T


def two_units(layers: int, draws: int, rng: np.random.Generator | int | None) -> tuple[Floats, Floats]:
    """Squared correlations (layers,) of two units, the infimum of PS-2; CKA of scalings (layers, draws)."""
    draw, bounds, found = generator(rng), [], []
    for _ in range(layers):
        mix = draw.uniform(0, 1)
        common = draw.normal(size=40)
        own = draw.normal(size=(40, 2))
        H = (np.sqrt(mix) * common[:, None] + np.sqrt(1 - mix) * own) * np.exp(draw.normal(size=2))
        bounds.append(cka_range(H).lower)
        found.append([_scaled(H, draw) for _ in range(draws)])
    return np.array(bounds), np.array(found)


def _scaled(H: Floats, draw: np.random.Generator) -> float:
    return similarity(*(H * np.sqrt(random_kernels(H, 2, draw)[k]) for k in draw.integers(0, 2, 2)))


def lowest_draws(layers: int, draws: int, rng: np.random.Generator | int | None) -> Floats:
    """Infimum by PS-2 and lowest CKA of scalings of seven units, both sides and one side; (2, 2, layers)."""
    draw, rows = generator(rng), []
    for _ in range(layers):
        X = draw.normal(size=(60, 4))
        H, fixed = (alive_layer(units, X, 2, draw).hidden(X) for units in (7, 5))
        *_, both, single = drawn_similarities(H, fixed, draws, draw)
        rows.append([[cka_range(H).lower, both.min()], [cka_range(H, fixed).lower, single.min()]])
    return np.array(rows).transpose(1, 2, 0)


def measures_by_primitive(count: int, rng: np.random.Generator | int | None) -> tuple[list[str], Floats]:
    """Names of symmetries, and the mean of what each of `MEASURES` (rows) says of copies made by them."""
    primitives = {
        "scale": ["scale"],
        "duplicate": ["duplicate"],
        "add null,\none side": ["null"],
        "add null,\nboth sides": ["null"],
        "add six,\nboth sides": ["linear"],
        "all": [*WITHOUT_LINEAR, "linear"],
    }
    draw, total = generator(rng), np.zeros((len(MEASURES), len(primitives)))
    for _ in range(count):
        X, net = draw.normal(size=(150, 5)), random_layer(12, 5, 3, draw)
        for column, (name, chosen) in enumerate(primitives.items()):
            other = scramble(net, draw, chosen)
            start = scramble(net, draw, chosen) if "both" in name or name == "all" else net
            hidden = start.hidden(X), other.hidden(X)
            total[:4, column] += [similarity(*hidden, kind) for kind in ("cka", "cca", "procrustes", "rsa")]
            total[4:, column] += [_merged(start, other, X), privileged_similarity(start, other, X)]
    return list(primitives), total / count


def digits_pairs(
    nets: int, copies: int, rng: np.random.Generator | int | None, epochs: int = 80
) -> dict[str, Floats]:
    """CKA and privileged CKA (2, pairs) on held-out digits, by kind of pair; copies are of the first net."""
    draw = generator(rng)
    seeds = draw.integers(2**31, size=nets).tolist()
    trained = [trained_digits(seed, epochs=epochs).layer for seed in seeds]
    X, first = digits_images()[2], trained[0]
    pairs: dict[str, list[tuple[Layer, Layer]]] = {
        "trained independently": [(trained[i], trained[j]) for i in range(nets) for j in range(i)],
        "same function, scrambled": [
            (first, scramble(first, draw, ["scale", "null"], extra=40)) for _ in range(copies)
        ],
        "same units, other function": [(first, reshuffled(first, draw)) for _ in range(copies)],
    }
    return {
        name: np.array(
            [(similarity(a.hidden(X), b.hidden(X)), privileged_similarity(a, b, X)) for a, b in found]
        ).T
        for name, found in pairs.items()
    }


def _merged(a: Layer, b: Layer, X: Floats) -> float:
    """CKA after parallel units are merged."""
    one, two = (canonicalise(net, "parallel").features(X) for net in (a, b))
    return similarity(one, two)
