"""Claims on rank: VH-3, VH-3b, VH-7 to VH-7d."""

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.attention.worlds import minilm_queries, planted_heads, random_mix, sample_layer
from porism.theory.attention import RopeLayout, factor_virtual, fold_query_mix, virtual_rank

__all__ = ["by_frequency", "gauge", "inverse", "mixes_of_dimensions", "real_heads", "rows"]

SOURCE = "own derivation"
LOST = {6: (0.55, 0.70), 9: (0.36, 0.50), 11: (0.18, 0.30)}
"""Heads kept of twelve, and where the relative error of MiniLM's layers lies."""


@claim(
    "VH-3",
    kind="theorem",
    source=SOURCE,
    statement="A group folded from P physical heads by a mix of heads has rank at most P as heads, and at "
    "most P d_h as rows of the projection: it is plain grouped attention with a constraint and the "
    "same cache, so that gains can only come from optimisation.",
    control="a projection of G heads of its own",
)
def rows(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, over, seen = 5 if scale == "smoke" else 50, 0, set()
    for _ in range(trials):
        P, G, d, D = 4, 8, 16, 96
        folded = planted_heads(2, G, G if broken else P, d, D, rng)
        for heads, rank in zip(folded, virtual_rank(folded).rank, strict=True):
            stacked = int(np.linalg.matrix_rank(heads.reshape(G * d, D)))
            seen.add((int(rank), stacked))
            over += rank > P or stacked > P * d
    return Evidence(
        over == 0,
        ", ".join(f"{a} and {b}" for a, b in sorted(seen)),
        "at most 4 and 64",
        0.0,
        "ranks, at max(size) eps",
        2 * trials,
        {"groups above a bound": over},
        quantity="ranks as heads and as rows, P = 4, G = 8, d_h = 16, D = 96",
    )


@claim(
    "VH-3b",
    kind="refuted",
    source="a natural reading of VH-3",
    statement="Whatever folds has rank at most P as heads. (False for mixes of dimensions that commute with "
    "the rotation: rank G as heads, although P d_h as rows.)",
    control="mixes of heads alone",
)
def mixes_of_dimensions(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, least, most = 5 if scale == "smoke" else 50, 99, 0
    layout = RopeLayout.standard("half", 16)
    for _ in range(trials):
        W = sample_layer(96, 1, 4, 16, rng=rng).W_q
        mix = random_mix(1, 8, 4, layout, 16, "heads" if broken else "commuting", rng)
        folded = fold_query_mix(W, mix, rope=layout, applied="after").weight
        least = min(least, int(virtual_rank(folded).rank[0]))
        most = max(most, int(np.linalg.matrix_rank(folded.reshape(128, 96))))
    return Evidence(
        least > 4 and most <= 64,
        least,
        "at most 4 by the wording",
        0.0,
        "ranks, at max(size) eps",
        trials,
        {"largest rank as rows, P d_h = 64": most},
        quantity="smallest rank as heads, P = 4",
    )


@claim(
    "VH-7",
    kind="theorem",
    source=SOURCE + "; Eckart and Young 1936",
    statement="A group of query heads comes from P physical heads by a mix of heads if and only if its heads "
    "have rank at most P as rows; the best P heads otherwise leave the tail of the singular values, "
    "and other choices of P heads leave more.",
    control="heads shuffled among groups",
)
def inverse(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, better, wrong = 5 if scale == "smoke" else 60, 0.0, 0, 0
    for _ in range(trials):
        n, G, P, d, D = 3, 6, 2, 4, 20
        W = planted_heads(n, G, P, d, D, rng)
        if broken:
            W = rng.permutation(W.reshape(n * G, d, D)).reshape(n, G, d, D)
        wrong += not (virtual_rank(W).rank == P).all()
        physical, mix, error = factor_virtual(W, P)
        worst = max(worst, float(error.max()), *_off(W, fold_query_mix(physical, mix).weight))
        W = sample_layer(D, n, G, d, rng=rng).W_q
        physical, mix, error = factor_virtual(W, P)
        found = _off(W, fold_query_mix(physical, mix).weight)
        worst = max(
            worst,
            float(np.abs(found - error).max()),
            float(np.abs(virtual_rank(W).error_at(P) - error).max()),
        )
        for _ in range(5):  # other physical heads near the best, each with its best mix
            other = (physical + 0.1 * rng.standard_normal(physical.shape)).reshape(n, P, d * D)
            for k in range(n):
                rows = W[k].reshape(G, d * D)
                rest = rows - rows @ np.linalg.pinv(other[k]) @ other[k]
                better += np.linalg.norm(rest) / np.linalg.norm(rows) < error[k]
    return Evidence(
        worst <= 1e-12 and better == 0 and wrong == 0,
        worst,
        0.0,
        1e-12,
        "rounding of a singular value decomposition",
        trials,
        {"planted groups of another rank": wrong, "choices that leave less": int(better)},
        quantity="largest error of a planted group, or of the predicted tail",
    )


def _off(W: np.ndarray, folded: np.ndarray) -> np.ndarray:
    """Relative error of each group."""
    axes = (1, 2, 3)
    return np.sqrt(np.square(W - folded).sum(axis=axes) / np.square(W).sum(axis=axes))


@claim(
    "VH-7b",
    kind="theorem",
    source=SOURCE,
    statement="With the mixes that commute with the rotation the best P heads are found a frequency at a "
    "time, as complex matrices, and never leave more than with mixes of heads; the mix found folds "
    "after the rotation.",
    control="one physical head less",
)
def by_frequency(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, gains = 6 if scale == "smoke" else 60, -np.inf, []
    for trial in range(trials):
        layout = RopeLayout.standard(("half", "interleaved")[trial % 2], (8, 4)[trial // 2 % 2])
        W = planted_heads(2, 6, 3, 8, 20, rng) if trial % 3 == 0 else sample_layer(20, 2, 6, 8, rng=rng).W_q
        heads = factor_virtual(W, 3)[2]
        physical, mix, error = factor_virtual(W, 2 if broken else 3, layout)
        folded = fold_query_mix(physical, mix, rope=layout, applied="after").weight
        worst = max(worst, float((error - heads).max()), float(np.abs(_off(W, folded) - error).max()))
        if trial % 3:
            gains.append(float((error / heads).mean()))
    return Evidence(
        bool(worst <= 1e-12),
        float(worst),
        "at most 0",
        1e-12,
        "rounding of a singular value decomposition",
        trials,
        {"error by frequency over error by heads, Gaussian weights, mean": float(np.mean(gains))},
        quantity="largest excess of the error over that of mixes of heads, or over what it is said to be",
    )


@claim(
    "VH-7c",
    kind="theorem",
    source=SOURCE,
    statement="Turning queries by a map that all heads of a group share, and their key by its inverse, "
    "changes no score and not the rank of the group.",
    control="a map for each head, each with a key of its own: no score changes, the rank does",
)
def gauge(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, changed, scores = 5 if scale == "smoke" else 60, 0, 0.0
    for _ in range(trials):
        W, K = planted_heads(1, 6, 2, 4, 20, rng)[0], rng.standard_normal((4, 20))
        keys = np.broadcast_to(K, (6, 4, 20))
        turn = np.linalg.qr(rng.standard_normal((6, 4, 4)))[0] * rng.uniform(0.5, 2, (6, 1, 4))
        maps = turn if broken else np.broadcast_to(turn[0], (6, 4, 4))
        new, new_keys = maps @ W, np.linalg.inv(maps).swapaxes(1, 2) @ keys
        before, after = (q.swapaxes(1, 2) @ k for q, k in ((W, keys), (new, new_keys)))
        scores = max(scores, float(np.abs(before - after).max() / np.abs(before).max()))
        changed += int(virtual_rank(new[None], 1e-10).rank[0]) != 2
    return Evidence(
        changed == 0 and scores <= 1e-12,
        changed,
        0,
        0.0,
        "ranks at 1e-10 of the largest singular value",
        trials,
        {"largest relative change of a score": scores},
        quantity="groups of rank 2 whose rank changed",
    )


@claim(
    "VH-7d",
    kind="empirical",
    source="query weights of the packaged MiniLM, 6 layers of 12 heads",
    statement="Real heads are far from virtual: in every layer of MiniLM keeping 6, 9 or 11 of 12 leaves a "
    "relative error of .55-.70, .36-.50 and .18-.30. Each head has a key of its own, so that the "
    "numbers describe weights, and no function.",
    control="heads mixed from nine of each layer",
)
def real_heads(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    W = minilm_queries()
    if broken:
        W = fold_query_mix(W[:, :9], random_mix(6, 12, 9, rng=rng)).weight
    found = virtual_rank(W)
    errors = {P: found.error_at(P) for P in LOST}
    holds = all(low < errors[P].min() and errors[P].max() < high for P, (low, high) in LOST.items())
    ratio = found.singular_values[:, 0] / found.singular_values[:, -1]
    noise = virtual_rank(rng.standard_normal(W.shape)).singular_values
    return Evidence(
        bool(holds),
        float(errors[9].min()),
        "0.36 to 0.50",
        0.07,
        "bounds set around what these six layers gave",
        len(W),
        {f"error with {P} heads": f"{e.min():.3f} to {e.max():.3f}" for P, e in errors.items()}
        | {
            "largest over smallest singular value": f"{ratio.min():.2f} to {ratio.max():.2f}",
            "the same of Gaussian weights": f"{(noise[:, 0] / noise[:, -1]).max():.2f} at most",
        },
        quantity="smallest relative error of nine heads",
    )
