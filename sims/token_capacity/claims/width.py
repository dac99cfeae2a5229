"""Claims on capacity against the width of a model: TC-2e, TC-2g, TC-2h."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from porism.claims import Evidence, claim
from porism.sims.token_capacity.claims._oracles import SOURCE, entropy_rank
from porism.sims.token_capacity.worlds import width_family
from porism.theory.token_capacity import effective_rank

__all__ = ["grows", "law", "settles"]

Floats = NDArray[np.float64]


def _widths(scale: str) -> tuple[int, ...]:
    return (16, 64, 256, 1024) if scale == "smoke" else (16, 64, 256, 1024, 4096)


@claim(
    "TC-2e",
    kind="refuted",
    source="abstract, as unconditional wording",
    statement="The capacity of a position does not grow with the model. (False without a condition on the "
    "data: for independent hidden states of N = 64 examples the effective rank rises with every width, up to "
    "nearly N.)",
    control="ReLU features of data of dimension 4, whose spectrum converges",
)
def grows(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    repeats, widths = 3 if scale == "smoke" else 10, _widths(scale)
    runs = []
    for _ in range(repeats):
        family = width_family("features" if broken else "independent", widths, rng)
        runs.append([float(effective_rank(X @ X.T)) for X in family])
    found = np.array(runs)
    last, step = float(found[:, -1].min()), float(np.diff(found, axis=1).min())
    numbers = {f"width {d}: mean effective rank": float(found[:, i].mean()) for i, d in enumerate(widths)}
    return Evidence(
        last >= 0.9 * 64 and step > 0,
        last,
        ">= 57.6, nine tenths of N",
        0.0,
        "a counterexample: it rises at every step and comes near its ceiling",
        repeats,
        numbers | {"smallest rise from one width to the next": step},
        quantity="smallest effective rank at the largest width",
    )


@claim(
    "TC-2g",
    kind="statistical",
    source=SOURCE,
    statement="For N examples of independent centred Gaussian states of width d, tr(A)^2 and the squared "
    "Frobenius norm of A have the ratio of means (N d + 2) / (N + d + 1): the participation ratio is about "
    "N d / (N + d + 1).",
    control="states with mean 1 in every coordinate",
)
def law(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws = 400 if scale == "smoke" else 4000
    cells = ((8, 4), (8, 32), (16, 16), (24, 6))
    scores, numbers = [], {}
    for N, d in cells:
        ratio = (N * d + 2) / (N + d + 1)
        parts = []
        for X in rng.standard_normal((draws, N, d)) + float(broken):
            A = X @ X.T
            parts.append((float(np.trace(A)) ** 2, float((A * A).sum())))
        traces, squares = np.array(parts).T
        gap = traces - ratio * squares  # mean 0 by the law
        scores.append(float(gap.mean() / gap.std(ddof=1) * math.sqrt(draws)))
        numbers[f"N = {N}, d = {d}: ratio of means / law"] = (
            f"{float(traces.mean() / squares.mean()):.4f} / {ratio:.4f}"
        )
    limit = -float(ndtri(1e-4 / (2 * len(cells))))
    worst = max(map(abs, scores))
    return Evidence(
        worst <= limit,
        worst,
        "0 on average",
        limit,
        "normal quantile, error 1e-4 over all cells",
        draws * len(cells),
        numbers,
        quantity="largest deviation in standard errors",
    )


def _limit(data: Floats) -> Floats:
    """Mean of relu(w . x) relu(w . y) over Gaussian w: the kernel of Cho and Saul of degree 1."""
    length = np.linalg.norm(data, axis=1)
    cosine = np.clip(data @ data.T / np.outer(length, length), -1, 1)
    angle = np.arccos(cosine)
    kernel: Floats = np.outer(length, length) * (np.sin(angle) + (np.pi - angle) * cosine) / (2 * np.pi)
    return kernel


@claim(
    "TC-2h",
    kind="empirical",
    source=SOURCE,
    statement="For random ReLU features of data of dimension 4 the effective rank of 64 examples settles: at "
    "the largest width it is within 5 per cent of that of the limiting kernel, which has no width.",
    control="data whose dimension is a quarter of the width",
)
def settles(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    repeats, widths = 3 if scale == "smoke" else 10, _widths(scale)
    gaps: list[list[float]] = []
    for _ in range(repeats):
        data = rng.standard_normal((64, 4))
        limit = entropy_rank(np.linalg.eigvalsh(_limit(data)))
        row = []
        for d in widths:
            seen = rng.standard_normal((64, max(d // 4, 1))) if broken else data
            X = np.maximum(seen @ rng.standard_normal((seen.shape[1], d)), 0) / math.sqrt(d)
            row.append(float(effective_rank(X @ X.T)) / limit - 1)
        gaps.append(row)
    found = np.array(gaps)
    worst = float(np.abs(found[:, -1]).max())
    numbers = {
        f"width {d}: mean of rank / limit - 1": float(found[:, i].mean()) for i, d in enumerate(widths)
    }
    return Evidence(
        worst <= 0.05,
        worst,
        0.0,
        0.05,
        "stated before the run",
        repeats,
        numbers,
        quantity="largest relative distance from the limit at the largest width",
    )
