"""Claims on what one position can hold: TC-2, TC-2a, TC-2c, TC-2d, TC-2f, TC-2x."""

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.token_capacity.claims._oracles import (
    EXACT,
    ROUNDING,
    SOURCE,
    complex_slope,
    entropy_rank,
    exact_rank,
    marginal_ranks,
    participation,
    rows,
)
from porism.theory.token_capacity import capacity_bound, effective_rank, position_ntk

__all__ = ["adapters", "entropy", "participation_ratio", "rank", "tail", "unweighted"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def _plain(X: Floats) -> float:
    """Entropy rank of a Gram matrix as it is, without weights."""
    return entropy_rank(np.linalg.svd(X, compute_uv=False) ** 2)


@claim(
    "TC-2",
    kind="theorem",
    source=SOURCE + "; subadditivity of entropy, Araki and Lieb 1970",
    statement="The entropy effective rank of a position's kernel is at most that of its inputs times that of "
    "its gradients, both as cosine kernels weighted by the diagonal of the kernel.",
    control="the Gram matrices without the weights",
)
def entropy(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, worst, off = 200 if scale == "smoke" else 2000, -np.inf, 0.0
    for number in range(draws):
        N, d_in, d_out = (int(k) for k in rng.integers((2, 1, 1), (20, 9, 6)))
        X = rows(rng, N, d_in, number % 4)
        G = rows(rng, N, d_out, number // 4 % 4)
        if number % 3 == 0:  # long inputs beside short gradients
            G /= np.linalg.norm(X, axis=1, keepdims=True)
        found = capacity_bound(X, G)
        own = marginal_ranks(X, G)
        seen = found.effective_rank, found.input_rank, found.gradient_rank
        off = max(off, *(abs(math.log(a / b)) for a, b in zip(own, seen, strict=True)))
        parts = (_plain(X), _plain(G)) if broken else own[1:]
        worst = max(worst, math.log(own[0]) - math.log(parts[0]) - math.log(parts[1]))
    return Evidence(
        worst <= EXACT and off <= EXACT,
        worst,
        "<= 0",
        EXACT,
        "eigenvalues below 1e-14 of the trace may be dropped",
        draws,
        {"difference from the library, in logarithms (tolerance 1e-10)": off},
        quantity="largest log of effective rank over its bound",
    )


def _low(rng: np.random.Generator, count: int, width: int) -> Integers:
    """Small integers of a random low rank."""
    low = int(rng.integers(1, width + 1))
    return rng.integers(-2, 3, (count, low)) @ rng.integers(-2, 3, (low, width))


@claim(
    "TC-2a",
    kind="theorem",
    source=SOURCE + "; Schur product of sums of rank-one matrices",
    statement="For C outputs the kernel of one position, of N C rows, has rank at most min(N C, rank A_t "
    "rank B_t).",
    control="the tied kernel of three positions against the bound of the first",
)
def rank(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, excess, equal, off = 40 if scale == "smoke" else 300, -(10**9), 0, 0.0
    for _ in range(draws):
        N, C = int(rng.integers(2, 6)), int(rng.integers(1, 3))
        X = np.stack([np.repeat(_low(rng, N, 3), C, axis=0) for _ in range(3)], axis=1)
        G = np.stack([_low(rng, N * C, 2) for _ in range(3)], axis=1)
        A, B = X[:, 0] @ X[:, 0].T, G[:, 0] @ G[:, 0].T
        blocks = [np.outer(x, g).ravel() for x, g in zip(X[:, 0], G[:, 0], strict=True)]
        gradients = np.array(blocks)
        kernel = A * B
        found = position_ntk(X.astype(float), G.astype(float), positions=[0])[0]
        off = max(off, float(np.abs(found - kernel).max()))
        if broken:
            gradients = np.einsum("nti,nto->nio", X, G).reshape(N * C, -1)
        bound = min(N * C, exact_rank(A) * exact_rank(B))
        reached = exact_rank(gradients @ gradients.T)
        excess = max(excess, reached - bound)
        equal += reached == bound
    return Evidence(
        excess <= 0 and off == 0,
        excess,
        "<= 0",
        0.0,
        "integers, ranks by elimination in fractions",
        draws,
        {"cases that reach the bound": equal, "largest difference from the library's blocks": off},
        quantity="largest excess of the rank over its bound",
    )


@claim(
    "TC-2c",
    kind="refuted",
    source="a natural variant of the bound",
    statement="The same inequality holds for the participation ratio tr(M)^2 / |M|_F^2. (False: 2 m unit "
    "rows with PR(A) = PR(B) = 4 m / (m + 1) < 4 have PR(A o B) = 2 m, for every m from 6 on.)",
    control="the entropy effective rank on the same rows",
)
def participation_ratio(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    sizes = (6, 8, 16, 32) if scale == "smoke" else (6, 7, 8, 12, 16, 32, 64, 128)
    least, off, numbers = np.inf, 0.0, {}
    for m in sizes:
        axis = np.eye(m + 1)
        turn = rng.permutation(2 * m)
        X = np.concatenate([np.repeat(axis[:1], m, axis=0), axis[1:]])[turn]
        G = np.concatenate([axis[1:], np.repeat(axis[:1], m, axis=0)])[turn]
        A, B = X @ X.T, G @ G.T
        matrices = (A, B, A * B)
        if broken:
            found = [float(effective_rank(M)) for M in matrices]
            closed = [2 * math.sqrt(m), 2 * math.sqrt(m), 2.0 * m]
        else:
            found = [float(effective_rank(M, kind="participation")) for M in matrices]
            exact = [Fraction(4 * m, m + 1), Fraction(4 * m, m + 1), Fraction(2 * m)]
            closed = [float(value) for value in exact]
            off = max(off, *(abs(participation(M) / c - 1) for M, c in zip(matrices, closed, strict=True)))
        off = max(off, *(abs(a / b - 1) for a, b in zip(found, closed, strict=True)))
        least = min(least, found[2] / (found[0] * found[1]))
        numbers[f"m = {m}: inputs, gradients, kernel"] = ", ".join(f"{value:.4g}" for value in found)
    return Evidence(
        least > 1 + 1e-12 and off <= 1e-12,
        least,
        "<= 1 by the wording",
        1e-12,
        "rounding; the values are exact fractions",
        len(sizes),
        numbers | {"relative difference from the closed forms (tolerance 1e-12)": off},
        quantity="smallest ratio of the kernel's number to the product",
    )


def _tail(A: Floats, B: Floats, r: int, s: int) -> tuple[float, float, float]:
    """Tail of the kernel beyond r s, and the two terms that bound it."""
    top, rest = [], []
    for M, keep in ((A, r), (B, s)):
        w, v = np.linalg.eigh(M)
        largest = v[:, len(w) - keep :]
        part = largest @ np.diag(w[len(w) - keep :]) @ largest.T
        top.append(part)
        rest.append(M - part)
    values = np.linalg.eigvalsh(A * B)[::-1]
    terms = float(np.trace(top[0] * rest[1])), float(np.trace(rest[0] * B))
    return float(values[r * s :].sum()), *terms


@claim(
    "TC-2d",
    kind="theorem",
    source=SOURCE + "; Ky Fan",
    statement="With the top r and top s parts A_r, B_s and the rests R_A, R_B, the eigenvalues of the kernel "
    "beyond the first r s sum to at most tr(A_r o R_B) + tr(R_A o B).",
    control="the second term dropped",
)
def tail(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, worst, total = 100 if scale == "smoke" else 500, -np.inf, 0
    for number in range(draws):
        N, d_in, d_out = (int(k) for k in rng.integers((8, 2, 2), (20, 9, 6)))
        X, G = rows(rng, N, d_in, number % 4), rows(rng, N, d_out, number // 4 % 4)
        A, B = X @ X.T, G @ G.T
        for r, s in ((1, 1), (1, 2), (2, 1), (2, 2), (1, d_out), (d_in, 1)):
            if r * s >= N:
                continue
            left, first, second = _tail(A, B, r, s)
            bound = first if broken else first + second
            worst = max(worst, (left - bound) / float(np.trace(A * B)))
            total += 1
    return Evidence(
        worst <= 1e-12,
        worst,
        "<= 0",
        1e-12,
        ROUNDING + " to the trace",
        total,
        quantity="largest tail minus its bound, share of the trace",
    )


@claim(
    "TC-2f",
    kind="theorem",
    source=SOURCE,
    statement="For W0 + s B A of rank r the blocks are s^2 A_t o (G B B' G') for A and s^2 (X A' A X') o B_t "
    "for B, of rank at most r rank A_t and r rank B_t; at B = 0 the first one is exactly 0.",
    control="r - 1 in the place of r",
)
def adapters(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, off, excess, start = 30 if scale == "smoke" else 200, 0.0, -(10**9), 0.0
    for _ in range(draws):
        d_in, d_out, r = 3, 4, int(rng.integers(1, 3))
        N, s = int(rng.integers(9, 13)), float(rng.uniform(0.5, 2))
        X = rows(rng, N, d_in, 1)
        W, A = rng.standard_normal((d_out, d_in)), rng.standard_normal((r, d_in))
        B, slope = rng.standard_normal((d_out, r)), rng.standard_normal(d_out)

        for up in (B, np.zeros_like(B)):
            G = np.cos(X @ (W + s * up @ A).T) * slope

            def value(
                down: Any, above: Any, X: Floats = X, W: Floats = W, s: float = s, c: Floats = slope
            ) -> Any:
                return np.sin(X @ (W + s * above @ down).T) @ c

            own = [
                complex_slope(partial(value, above=up), A).T,
                complex_slope(partial(value, A), up).T,
            ]
            pairs = ((X, s * G @ up), (s * X @ A.T, G))
            for J, (x, g) in zip(own, pairs, strict=True):
                found = position_ntk(x[:, None], g[:, None])[0]
                off = max(off, float(np.abs(J @ J.T - found).max() / max(np.abs(found).max(), 1e-300)))
            if up is B:
                for J, side in zip(own, (X, G), strict=True):
                    limit = (r - 1 if broken else r) * np.linalg.matrix_rank(side)
                    excess = max(excess, int(np.linalg.matrix_rank(J)) - int(limit))
            else:
                start = max(start, float(np.abs(own[0]).max()))
    return Evidence(
        off <= 1e-12 and excess <= 0 and start == 0,
        excess,
        "<= 0",
        0.0,
        "ranks; blocks to rounding, 1e-12 relative",
        2 * draws,
        {
            "relative difference from complex steps (tolerance 1e-12)": off,
            "largest slope of A at B = 0": start,
        },
        quantity="largest excess of a rank over its bound",
    )


@claim(
    "TC-2x",
    kind="refuted",
    source="the bound without its weights",
    statement="rank_e(A o B) <= rank_e(A) rank_e(B) for the Gram matrices as they are. (False: with inputs "
    "diag(1, h, ..., h) and gradients (h, 1, ..., 1) the two factors tend to 1 as h falls while the kernel "
    "keeps effective rank N.)",
    control="the weighted kernels of the theorem",
)
def unweighted(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    cases = [(n, h) for n in (3, 6, 12) for h in (1e-2, 1e-3)]
    cases += [(int(rng.integers(3, 20)), float(rng.uniform(1e-4, 1e-2))) for _ in range(4)]
    least, off = np.inf, 0.0
    for n, h in cases:
        X, G = np.diag([1.0] + [h] * (n - 1)), np.array([[h]] + [[1.0]] * (n - 1))
        found = capacity_bound(X, G)
        kernel = float(effective_rank((X @ X.T) * (G @ G.T)))
        off = max(off, abs(kernel / n - 1), abs(found.effective_rank / n - 1))
        product = found.bound if broken else float(effective_rank(X @ X.T) * effective_rank(G @ G.T))
        least = min(least, kernel / product)
    return Evidence(
        least > 1 + EXACT and off <= EXACT,
        least,
        "<= 1 by the wording",
        EXACT,
        "rounding of entropies",
        len(cases),
        {
            "N = 6, h = 1e-3: inputs": float(effective_rank(np.diag([1.0] + [1e-6] * 5))),
            "relative difference of the kernel's rank from N (tolerance 1e-10)": off,
        },
        quantity="smallest ratio of the kernel's rank to the product",
    )
