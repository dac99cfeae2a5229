"""Claims on training one latent for both domains: LR-7 and LR-8."""

import math

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.subspace.worlds import sample_pair
from porism.theory.subspace import lost_energy, mixture_spectrum, shared_dimension

__all__ = ["shared_latent", "spectrum"]

Floats = NDArray[np.float64]
SOURCE = "arXiv:2605.13448, abstract; our reconstruction and derivation"


def _mixture(U: Floats, V: Floats, w: float) -> tuple[Floats, Floats]:
    """Eigenvalues and vectors of the mixture of projectors, descending."""
    values, vectors = np.linalg.eigh(w * U @ U.T + (1 - w) * V @ V.T)
    return values[::-1], vectors[:, ::-1]


@claim(
    "LR-7",
    kind="theorem",
    source=SOURCE,
    statement="The mixture w P_s + (1 - w) P_t has eigenvalues (1 +- sqrt(1 - 4 w (1 - w) sin^2 "
    "t_k))/2, which is (1 +- cos t_k)/2 at equal weights, and zeros; a latent for both at "
    "tolerance tau < 1/2 has d + #{k: minor eigenvalue > tau} dimensions.",
    control="w = 0.3 with the formula of equal weights",
)
def spectrum(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, miscounted = 40 if scale == "smoke" else 400, 0.0, 0
    for _ in range(trials):
        d = int(rng.integers(1, 6))
        theta = rng.uniform(0, math.pi / 2, d)
        w = 0.3 if broken else float(rng.choice([0.5, rng.uniform(0, 1)]))
        U, V = sample_pair(2 * d + 3, d, theta, rng)
        dense, _ = _mixture(U, V, w)
        used = 0.5 if broken else w
        found = mixture_spectrum(theta, used)
        worst = max(worst, float(np.abs(dense - np.append(found, np.zeros(3))).max()))
        if used == 0.5:
            halves = np.concatenate([1 + np.cos(theta), 1 - np.cos(theta)]) / 2
            worst = max(worst, float(np.abs(np.sort(halves)[::-1] - found).max()))
        minor = (1 - np.sqrt(1 - 4 * used * (1 - used) * np.sin(theta) ** 2)) / 2
        for tol in rng.uniform(0.001, 0.499, 5):
            counts = (
                shared_dimension(theta, tol, used),
                d + int((minor > tol).sum()),
                int((dense > tol).sum()),
            )
            miscounted += len(set(counts)) > 1
    return Evidence(
        worst <= 1e-12 and miscounted == 0,
        worst,
        0.0,
        1e-12,
        "eigenvalues of a symmetric matrix of norm 1, times rounding",
        trials,
        {"dimensions counted differently": miscounted},
        quantity="largest error of an eigenvalue",
    )


@claim(
    "LR-8",
    kind="theorem",
    source=SOURCE,
    statement="At equal weights and angles below pi/2 the top m directions of the mixture lose, in "
    "either domain, the sum of the eigenvalues discarded; at m = d that is sum_k "
    "sin^2(t_k/2). Both together lose 2 sum sin^2(t_k/2) <= sum sin^2 t_k: sharing never "
    "costs more than freezing. At a right angle only the sum over both domains is determined.",
    control="w = 0.3, where only the weighted mean agrees",
)
def shared_latent(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, dearer = 40 if scale == "smoke" else 200, 0.0, 0
    w, weighted = (0.3 if broken else 0.5), 0.0
    for _ in range(trials):
        d = int(rng.integers(1, 6))
        theta = rng.uniform(0, 1.5, d)
        U, V = sample_pair(2 * d + 3, d, theta, rng)
        values, vectors = _mixture(U, V, w)
        for m in range(1, 2 * d + 1):
            lost = [lost_energy(domain, vectors[:, :m]) for domain in (U, V)]
            discarded = float(values[m:].sum())
            worst = max(worst, *(abs(one - discarded) for one in lost))
            weighted = max(weighted, abs(w * lost[0] + (1 - w) * lost[1] - discarded))
            if m == d:
                half = float((np.sin(theta / 2) ** 2).sum())
                worst = max(worst, *(abs(one - half) for one in lost))
                dearer += sum(lost) > lost_energy(V, U) + 1e-12
    right = [np.eye(2)[:, :1], np.eye(2)[:, 1:]]  # the mixture is I/2: any direction is a top one
    turned = np.array([[math.cos(0.4)], [math.sin(0.4)]])
    both = sum(lost_energy(domain, turned) for domain in right)
    return Evidence(
        worst <= 1e-10 and weighted <= 1e-10 and dearer == 0 and abs(both - 1) <= 1e-12,
        worst,
        0.0,
        1e-10,
        "eigenvectors at a gap of cos 1.5 = 0.07 and more, times rounding",
        trials,
        {
            "weighted mean off by": weighted,
            "pairs where sharing is dearer": dearer,
            "both at a right angle, any direction": both,
        },
        quantity="largest difference of lost energy from the discarded sum",
    )
