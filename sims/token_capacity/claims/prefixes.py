"""Claims on what causal states can tell apart: TC-5, TC-5b, TC-5c."""

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.token_capacity.claims._oracles import (
    ROUNDING,
    SOURCE,
    hidden_states,
    matrix_rank,
    outside,
    prefixes,
)
from porism.sims.token_capacity.worlds import delimited_rows, random_model
from porism.theory.token_capacity import prefix_count

__all__ = ["ceiling", "exact_range", "later_dominates"]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

RAGGED = [[1], [2], [3], [1, 4]]
"""The ragged rows [a], [b], [c], [a, e]."""


def _padded(rows: list[list[int]], left: bool) -> tuple[Ids, Ids]:
    width = max(map(len, rows))
    ids, mask = np.zeros((2, len(rows), width), dtype=np.int64)
    for i, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, place], mask[i, place] = row, 1
    return ids, mask


def _refines(fine: NDArray[np.int64], coarse: NDArray[np.int64]) -> bool:
    """Whether rows that agree in the fine partition agree in the coarse one, over rows that reach both."""
    both = (fine >= 0) & (coarse >= 0)
    pairs = set(zip(fine[both].tolist(), coarse[both].tolist(), strict=True))
    return len(pairs) == len({a for a, _ in pairs})


def _within(X: Floats, number: NDArray[np.int64]) -> float:
    """Largest distance of a row from the first one of its class, over the largest entry."""
    first = {int(c): i for i, c in reversed(list(enumerate(number)))}
    return float(np.abs(X - X[[first[int(c)] for c in number]]).max() / np.abs(X).max())


@claim(
    "TC-5",
    kind="theorem",
    source=SOURCE,
    statement="In a causal model the states at t are a function of the visible prefix, in every layer: rank "
    "A_t is at most the number n_t of distinct prefixes. Functions of prefixes are nested in t, and n_t does "
    "not fall, over the examples that reach t; the ragged rows [a], [b], [c], [a, e] give 3, 1 aligned at "
    "the start, and aligned at the end the chain holds as it is.",
    control="a bidirectional model",
)
def ceiling(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    models = 2 if scale == "smoke" else 10
    off, excess, wrong, total, numbers = 0.0, -(10**9), 0, 0, {}
    for number in range(models):
        ids = delimited_rows(rng)
        classes = prefixes(ids.tolist(), "start")
        counts = np.array([len(set(part.tolist())) for part in classes])
        wrong += int((prefix_count(ids, align="absolute") != counts).any())
        wrong += sum(not _refines(classes[t], classes[t - 1]) for t in range(1, ids.shape[1]))
        wrong += int((np.diff(counts) < 0).any())
        family = "bert" if broken else ("llama", "gpt2")[number % 2]
        for layer, X in enumerate(hidden_states(random_model(family, rng, width=64), ids)):
            ranks = [matrix_rank(X[:, t]) for t in range(X.shape[1])]
            off = max(off, *(_within(X[:, t], classes[t]) for t in range(X.shape[1])))
            excess = max(excess, int((np.array(ranks) - counts).max()))
            numbers[f"ranks at layer {layer}"] = " ".join(map(str, ranks))
            total += len(ranks)
        numbers["distinct prefixes"] = " ".join(map(str, counts))
    for _ in range(5 * models):
        sizes = rng.integers(1, 7, 20)
        ragged = [rng.integers(1, 4, size).tolist() for size in sizes]
        for align in ("start", "end"):
            classes = prefixes(ragged, align)
            if align == "start":
                pairs = [(classes[t], classes[t - 1]) for t in range(1, len(classes))]
            else:
                pairs = [(classes[j], classes[j + 1]) for j in range(len(classes) - 1)]
            wrong += sum(not _refines(fine, coarse) for fine, coarse in pairs)
            counts = np.array([len(set(part.tolist()) - {-1}) for part in classes])
            wrong += int(align == "end" and (np.diff(counts) > 0).any())
            for left in (False, True):
                ids, mask = _padded(ragged, left)
                wrong += int((prefix_count(ids, mask, align=align) != counts).any())
    given = [prefix_count(*_padded(RAGGED, False), align=align).tolist() for align in ("start", "end")]
    wrong += given != [[3, 1], [4, 1]]
    return Evidence(
        off <= 1e-10 and excess <= 0 and wrong == 0,
        off,
        0.0,
        1e-10,
        ROUNDING + ", three layers",
        total,
        numbers | {"largest excess of a rank over n_t": excess, "chains that fail": wrong},
        quantity="largest difference of states with one prefix, relative",
    )


def _laplacian(X: Floats) -> Floats:
    """exp(-|x - y| / scale): strictly positive definite on distinct points."""
    gaps = np.sqrt(((X[:, None] - X[None]) ** 2).sum(-1))
    # equal prefixes differ by rounding, of which the root of the kernel's exponent would make more
    gaps[gaps <= 1e-9 * gaps.max()] = 0
    kernel: Floats = np.exp(-gaps / max(float(np.median(gaps)), 1e-300))
    return kernel


@claim(
    "TC-5c",
    kind="theorem",
    source=SOURCE,
    statement="A strictly positive definite kernel on states that tell all prefixes apart has as its range "
    "all functions of prefixes: its rank is n_t, its range at s lies in that at t > s, and strictly so where "
    "the partition is refined.",
    control="the linear kernel of a model of width 8",
)
def exact_range(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    models, worst, wrong, total = 2 if scale == "smoke" else 8, 0.0, 0, 0
    for _ in range(models):
        ids = delimited_rows(rng)
        counts = prefix_count(ids, align="absolute")
        X = hidden_states(random_model("llama", rng, width=8 if broken else 16), ids)[-1]
        kernels = [X[:, t] @ X[:, t].T if broken else _laplacian(X[:, t]) for t in range(ids.shape[1])]
        ranks = [matrix_rank(K, 1e-9) for K in kernels]
        wrong += sum(rank != n for rank, n in zip(ranks, counts.tolist(), strict=True))
        for t in range(1, len(kernels)):
            for s in range(t):
                worst = max(worst, outside(kernels[s], kernels[t], 1e-9))
                wrong += int((ranks[s] < ranks[t]) != (counts[s] < counts[t]))
                total += 1
    return Evidence(
        worst <= 1e-6 and wrong == 0,
        worst,
        0.0,
        1e-6,
        "rounding over the smallest eigenvalue that counts, 1e-9",
        total,
        {"ranks that differ from n_t, and strict inclusions without a refinement": wrong},
        quantity="largest part of an earlier range outside a later one",
    )


@claim(
    "TC-5b",
    kind="refuted",
    source="abstract",
    statement="Later positions of a causal model strictly dominate: the range of A_s lies in that of A_t for "
    "s < t. (False for the model as it is: rank 1 at a token that is the same in all rows, in the first "
    "layer; and with width 8 and 64 rows the range of A_3 is not inside that of A_6.)",
    control="indicators of the prefix in the place of the states",
)
def later_dominates(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    models, least, fell, numbers = 3 if scale == "smoke" else 12, np.inf, 0, {}
    for _ in range(models):
        ids = delimited_rows(rng)
        states = hidden_states(random_model("llama", rng, width=8), ids)
        first, last = states[0], states[-1]
        if broken:
            classes = prefixes(ids.tolist(), "start")
            first = last = np.stack([np.eye(len(ids))[part] for part in classes], axis=1)
        ranks = matrix_rank(first[:, 5]), matrix_rank(first[:, 6])
        fell += ranks[1] == 1 < ranks[0]
        left = outside(last[:, 3], last[:, 6])
        least = min(least, left)
        numbers["of at most"] = float(np.sqrt(matrix_rank(last[:, 3])))
    return Evidence(
        least > 0.1 and fell == models,
        least,
        "0 by the wording",
        0.1,
        "a counterexample, far from rounding",
        models,
        numbers | {"models with rank 1 at the constant token of layer 0": f"{fell} of {models}"},
        quantity="smallest part of the range of A_3 outside that of A_6",
    )
