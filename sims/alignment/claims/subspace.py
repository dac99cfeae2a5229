"""Claims on bounds of angles: DK-1, DK-2, DK-3."""

import math

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.alignment.claims._oracles import (
    EXACT,
    ROUNDING,
    middle_case,
    orthonormal,
    sin_size,
    sines,
    spiked_pair,
)
from porism.theory.alignment import davis_kahan_bound, wedin_bound

__all__ = ["population_gap", "sample_gap", "singular_subspaces"]

CELLS = ((60, 600, 3.0), (30, 40, 6.0), (80, 20, 8.0), (20, 2000, 0.5), (50, 200, 2.0))
"""Coordinates, rows and strength of two equal spikes."""


@claim(
    "DK-1",
    kind="theorem",
    source="Davis and Kahan 1970",
    statement="For symmetric S and S_hat with top-r eigenspaces V and V_hat and gap = lambda_r(S) - "
    "lambda_{r+1}(S_hat) > 0, the largest sine between them is at most |S_hat - S|_op / gap; without a gap "
    "the bound is infinite, not negative.",
    control="the next r eigenvectors of S_hat in the place of its top r",
)
def sample_gap(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws = 4 if scale == "smoke" else 12
    worst, off, void, total = 0.0, 0.0, 0, 0
    for d, n, ell in CELLS:
        for _ in range(draws):
            true, seen = spiked_pair(rng, d, n, np.full(2, ell))
            for r in (1, 2, 3):
                # r = 1 and 3 cut a group of equal eigenvalues of S: the theorem does not ask for a gap of S
                found = davis_kahan_bound(true, seen, r)
                w, v = np.linalg.eigh(true)
                w_hat, v_hat = np.linalg.eigh(seen)
                other = v_hat[:, -2 * r : -r] if broken else v_hat[:, -r:]
                sine = float(sines(v[:, -r:], other).max())
                gap = w[-r] - w_hat[-r - 1]
                own = float(np.abs(np.linalg.eigvalsh(seen - true)).max()) / gap if gap > 0 else math.inf
                void += math.isinf(own)
                total += 1
                agree = own == found.davis_kahan or abs(own / found.davis_kahan - 1) < EXACT
                off = max(off, 1.0 - agree)
                if r == 2:  # where the eigenspace of S is unique
                    off = max(off, abs(float(sines(v[:, -r:], v_hat[:, -r:]).max()) - found.sin_op))
                worst = max(worst, sine / found.davis_kahan)
    return Evidence(
        worst <= 1 + EXACT and off <= EXACT and 0 < void < total,
        worst,
        "<= 1",
        EXACT,
        ROUNDING,
        total,
        {"difference from the library's sines and bounds (tolerance 1e-10)": off, "without a gap": void},
        quantity="largest sine over its bound",
    )


@claim(
    "DK-2",
    kind="theorem",
    source="Yu, Wang and Samworth 2015, theorem 2",
    statement="With the gap of S alone, |sin|_F <= 2 min(sqrt(r) |S_hat - S|_op, |S_hat - S|_F) / gap: for "
    "the top r the gap is lambda_r - lambda_{r+1}, for a block in the middle the smaller of its two outer "
    "gaps.",
    control="only the lower of the two gaps of a block in the middle",
)
def population_gap(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws = 6 if scale == "smoke" else 40
    worst, off, total = 0.0, 0.0, 0
    for d, n, ell in CELLS:
        for _ in range(draws):
            true, seen = spiked_pair(rng, d, n, ell * np.array([1.0, 0.8]))
            for r in (1, 2):
                found = davis_kahan_bound(true, seen, r)
                v, v_hat = (np.linalg.eigh(matrix)[1][:, -r:] for matrix in (true, seen))
                error = seen - true
                size = min(math.sqrt(r) * float(np.linalg.norm(error, 2)), float(np.linalg.norm(error)))
                own = 2 * size / (0.2 * ell if r == 1 else 0.8 * ell)
                off = max(off, abs(sin_size(v, v_hat) - found.sin_f), abs(own / found.yu_wang_samworth - 1))
                worst = max(worst, sin_size(v, v_hat) / own)
                total += 1
    middle = 0.0
    for close in (0.3, 0.03, 0.003):
        true, seen, block = middle_case(rng, 8, close)
        v, v_hat = (np.linalg.eigh(matrix)[1][:, ::-1][:, block] for matrix in (true, seen))
        error = seen - true
        size = min(float(np.linalg.norm(error, 2)), float(np.linalg.norm(error)))
        middle = max(middle, sin_size(v, v_hat) / (2 * size / (3.0 if broken else close)))
        total += 1
    return Evidence(
        max(worst, middle) <= 1 + EXACT and off <= EXACT,
        max(worst, middle),
        "<= 1",
        EXACT,
        ROUNDING,
        total,
        {
            "the same for blocks in the middle": middle,
            "difference from the library (tolerance 1e-10)": off,
        },
        quantity="largest |sin|_F over its bound",
    )


@claim(
    "DK-3",
    kind="theorem",
    source="Wedin 1972",
    statement="For X = M + N with rank M = r, the top-r singular subspaces of M and X satisfy "
    "sqrt(|sin U|_F^2 + |sin V|_F^2) <= sqrt(|N V_hat|_F^2 + |N' U_hat|_F^2) / sigma_r(X).",
    control="M of rank r + 1, its last two singular values nearly equal",
)
def singular_subspaces(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws = 20 if scale == "smoke" else 200
    worst, off, total = 0.0, 0.0, 0
    for number in range(draws):
        p, q = (int(k) for k in rng.integers(8, 30, 2))
        r = int(rng.integers(1, 4))
        s = np.sort(rng.uniform(1, 3, r))[::-1]
        if broken:
            s = np.append(s, s[-1] - 1e-3)
        m = (orthonormal(rng, len(s), p).T * s) @ orthonormal(rng, len(s), q)
        x = m + 10.0 ** -(number % 4) * rng.standard_normal((p, q)) / math.sqrt(p + q)
        sides = []
        for matrix in (m, x):
            u, w, vt = np.linalg.svd(matrix)
            sides.append((u[:, :r], w, vt[:r].T))
        joint = math.hypot(sin_size(sides[0][0], sides[1][0]), sin_size(sides[0][2], sides[1][2]))
        noise = x - m
        parts = np.linalg.norm(noise @ sides[1][2]), np.linalg.norm(noise.T @ sides[1][0])
        own = math.hypot(*(float(part) for part in parts)) / sides[1][1][r - 1]
        if not broken:  # the library refuses a signal of another rank
            found = wedin_bound(m, x, r)
            off = max(off, abs(found.joint - joint), abs(found.bound / own - 1))
        worst = max(worst, joint / own)
        total += 1
    return Evidence(
        worst <= 1 + EXACT and off <= EXACT,
        worst,
        "<= 1",
        EXACT,
        ROUNDING,
        total,
        {"difference from the library (tolerance 1e-10)": off},
        quantity="largest joint sine over its bound",
    )
