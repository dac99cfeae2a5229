"""Claims on what a distance means: PD-17, PD-18, PD-19."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.kernels import pattern_cost
from porism.sims.pattern._hooks import run_with_maps
from porism.sims.pattern._oracles import EXACT, any_matrix, family, least, masses, orders, solve
from porism.sims.pattern.planted import random_softmax
from porism.sims.pattern.worlds import minilm, real_text
from porism.theory.pattern import Mask, masks
from porism.theory.pattern.nulls import null_moments, pattern_null

__all__ = ["misleading_null", "row_shuffles", "small_by_chance"]

Floats = NDArray[np.float64]


@claim(
    "PD-17",
    kind="refuted",
    source="abstract; our reconstruction",
    statement="A small distance shows that a matrix has the pattern. (False: with free orders, maps of "
    "nothing but noise come as close as one likes to blocks and bands as their rows get peaked.)",
    control="the same maps in the order they come in",
)
def small_by_chance(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    n, worlds = (24, 2) if scale == "smoke" else (64, 3)
    scales = (0.0, 2.0, 8.0) if scale == "smoke" else (0.0, 1.0, 2.0, 4.0, 8.0)
    library = {"blocks": masks.block_diagonal([n // 4] * 4), "band": masks.band(n, 3)}
    found: dict[str, list[float]] = {}
    for name, mask in library.items():
        found[name] = []
        for spread in scales:
            maps = [random_softmax(n, spread, random_state=rng) for _ in range(worlds)]
            order = "none" if broken else "independent"
            fits = [solve(A, mask, order, rng, n_restarts=4) for A in maps]
            found[name].append(float(np.mean([fit.mass_outside for fit in fits])))
    falls = all(b < a for values in found.values() for a, b in pairwise(values))
    largest = max(values[-1] for values in found.values())
    # rows with one entry each, two rows a column: blocks hold them all if rows and columns part company
    ones = np.zeros((6, 6))
    ones[np.arange(6), [2, 2, 4, 4, 0, 0]] = 1
    pairs = masks.block_diagonal([2, 2, 2])
    apart, tied = least(ones, pairs, "independent"), least(ones, pairs, "common")
    numbers: dict[str, float | int | str] = {
        f"{name}, logits of scale {spread:g}": value
        for name, values in found.items()
        for spread, value in zip(scales, values, strict=True)
    }
    numbers |= {"one-hot rows, free orders": apart, "one-hot rows, common order": tied}
    if not broken:
        noise = random_softmax(16, 8.0, random_state=rng)
        judged = pattern_null(
            noise, masks.block_diagonal([4] * 4), n_null=19, n_restarts=0, random_state=int(rng.integers(99))
        )
        numbers |= {
            "a map of noise": judged.observed,
            "its row shuffles, mean": float(judged.d2_null.mean()),
            "its p": judged.p_value,
        }
    return Evidence(
        largest <= 0.05 and falls and apart <= EXACT and abs(tied - 0.5) <= EXACT,
        largest,
        "<= 0.05",
        0.0,
        "threshold stated in advance for logits of scale 8",
        worlds * len(scales) * len(library),
        numbers,
        quantity="mean mass outside of noise",
    )


@claim(
    "PD-18",
    kind="refuted",
    source="abstract; our reconstruction",
    statement="A map with block structure lies closer to blocks than its row shuffles. (False where all rows "
    "share a sink: no block holds it, but shuffling spreads it into peaks that blocks do hold. Without the "
    "sink, the same test finds the blocks.)",
    control="a map without a sink, or real heads with the least of it",
)
def misleading_null(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    size, trials = (12, 2) if scale == "smoke" else (20, 6)
    misled, p_rows, p_rest = 0, [], []
    for _ in range(trials):
        A = _blocks_and_sink(size, 0.0 if broken else 0.6, rng)
        rows, rest = (_judge(A, null, 19, rng) for null in ("rows", "rows_without_sinks(1)"))
        p_rows.append(rows[0])
        p_rest.append(rest[0])
        misled += rows[0] >= 0.5 and rows[1] < 0 and rest[0] <= 0.05 + EXACT
    numbers: dict[str, float | int | str] = {
        "smallest p, rows": min(p_rows),
        "largest p, rows without the sink": max(p_rest),
    }
    real = True
    if scale == "paper":
        for name, A in _heads(3, least_sink=broken):
            rows, rest = (_judge(A, null, 9, rng) for null in ("rows", "rows_without_sinks(4)"))
            real &= rows[0] >= 0.5 and rows[1] < 0
            numbers |= {
                f"{name}: p and effect, rows": f"{rows[0]:.2g}, {rows[1]:.3g}",
                f"{name}: p and effect, rows without 4 sinks": f"{rest[0]:.2g}, {rest[1]:.3g}",
            }
    return Evidence(
        misled == trials and real,
        misled / trials,
        1.0,
        0.0,
        "p >= 0.5 and a negative effect with the sink, the smallest possible p without it",
        trials,
        numbers,
        quantity="share of block maps that look worse than chance",
    )


@claim(
    "PD-19",
    kind="theorem",
    source="reconstruction; Hoeffding 1951 for the variance",
    statement="At fixed order, mean and variance of the mass outside over shuffles inside the admissible "
    "cells of each row have closed forms; the mean is sum_i mass_i times the mean penalty of those cells.",
    control="all cells of a row taken as admissible where only those up to the diagonal are",
)
def row_shuffles(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worst, total = 0.0, 0
    for number in range(2 if scale == "smoke" else 20):
        for place, mask in enumerate([*family(4, rng), *family(5, rng)]):
            n, causal = mask.shape[0], bool((number + place) % 2)
            mass = "abs" if place % 4 < 2 else "squared"
            A = any_matrix(mask, "gauss", rng) * (np.tri(n) if causal else 1.0)
            B = masses(A) if mass == "squared" else np.abs(A) / np.abs(A).sum()
            mean = variance = 0.0
            for i in range(n):
                cells = np.arange(i + 1 if causal else n)
                values = B[i, cells][orders(len(cells))] @ mask.penalty[i, cells]  # every shuffle of the row
                mean, variance = mean + float(values.mean()), variance + float(values.var())
            told = null_moments(A, mask, mass=mass, admissible="causal" if causal and not broken else None)
            _, closed = pattern_cost.head_null(A[None], mask.S[None], causal=causal and not broken, mass=mass)
            worst = max(worst, abs(told[0] - mean), abs(told[1] - variance), abs(float(closed[0, 0]) - mean))
            total += 1
    n, count = (24, 400) if scale == "smoke" else (64, 4000)
    score = 0.0
    for causal in (False, True):  # the shuffles as they are drawn
        A = random_softmax(n, 2.0, causal, random_state=rng)
        window = masks.toeplitz(n, range(5), causal=True) if causal else masks.band(n, 4)
        where = "causal" if causal else None
        drawn = pattern_null(A, window, order="none", n_null=count, admissible=where, random_state=rng)
        mean, variance = null_moments(A, window, admissible=where)
        score = max(score, abs(float(drawn.d2_null.mean()) - mean) / (variance / count) ** 0.5)
    return Evidence(
        worst <= 8 * EXACT and score <= 5.0,
        worst,
        0.0,
        8 * EXACT,
        "rounding against all shuffles; drawn shuffles within 5 standard errors",
        total,
        {"drawn mean, in standard errors": score},
        quantity="largest error of a moment",
    )


def _blocks_and_sink(n: int, share: float, rng: np.random.Generator) -> Floats:
    """Rows that look into their own quarter, at one shared column, and a little everywhere; shuffled."""
    quarter = np.repeat(np.arange(4), n // 4)
    logits = 2.0 * rng.standard_normal((n, n))
    weights = np.where(quarter[:, None] == quarter, np.exp(logits), 0.0)
    A: Floats = (1 - share) * (0.9 * weights / weights.sum(axis=1, keepdims=True) + 0.1 / n)
    A[:, 0] += share
    p = rng.permutation(n)
    return A[np.ix_(p, p)]


def _quarters(n: int) -> Mask:
    return masks.block_diagonal([n // 4] * 3 + [n - 3 * (n // 4)])


def _judge(A: Floats, null: str, n_null: int, rng: np.random.Generator) -> tuple[float, float]:
    """P-value and effect of four blocks with a common order."""
    seed = int(rng.integers(2**31))
    found = pattern_null(
        A, _quarters(len(A)), null=null, n_null=n_null, order="common", n_restarts=2, random_state=seed
    )
    return found.p_value, found.effect


def _heads(count: int, least_sink: bool) -> list[tuple[str, Floats]]:
    """Heads of MiniLM on real text with the most, or least, mass in one column."""
    model, tokenizer = minilm()
    maps: list[Floats] = []
    inputs = tokenizer(real_text(characters=100), return_tensors="pt")
    run_with_maps(model, inputs, lambda layer, found: maps.append(found[0].double().cpu().numpy()))
    heads = np.concatenate(maps)
    mass = heads**2
    share = mass.sum(axis=1).max(axis=1) / mass.sum(axis=(1, 2))
    chosen = np.argsort(share if least_sink else -share, kind="stable")[:count]
    per_layer = len(maps[0])
    return [(f"layer {k // per_layer}, head {k % per_layer}", heads[k]) for k in chosen]
