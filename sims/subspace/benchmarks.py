"""Benchmarks of latent reuse: the closed law beside dense linear algebra, in seconds and in digits.

Peers are NumPy's and SciPy's LAPACK, as no package has the law; SciPy's `subspace_angles` gives angles only.
Rows on digits hold relative errors in ``ours`` and ``theirs``, against 80-digit arithmetic.
"""

from typing import Any

import numpy as np

from porism.sims.benchmark import compare
from porism.sims.subspace._exact import decimal_error, dense_error, factored_error, trace_error
from porism.sims.subspace.worlds import latent_covariance, sample_pair
from porism.theory.linalg import principal_angles
from porism.theory.subspace import reuse_error, reuse_error_general

__all__ = ["BENCHMARKS"]

D, DIM = 1024, 32
ALPHA2, SIGNAL, NOISE = 0.8, 1.0, 0.1
LEVELS = (0.05, 0.1, 0.5, 1.0)
PEERS = {
    "inverses, from the definition": dense_error,
    "inverses, traces": trace_error,
    "Cholesky and triangular inverses, traces": factored_error,
}


def _pair(D: int = D, d: int = DIM) -> tuple[Any, ...]:
    angles = np.sort(np.random.default_rng(0).uniform(0.1, 1.4, d))
    return angles, *sample_pair(D, d, angles, 1)


def _law(task: str, peer: Any) -> Any:
    def benchmark() -> dict[str, Any]:
        angles, U, V = _pair()
        C = latent_covariance(V, SIGNAL, NOISE)
        handed = [(U, ALPHA2 * C + h2 * np.eye(D), h2) for h2 in LEVELS]  # at no cost for the peer
        return compare(
            f"error of reuse at {len(LEVELS)} noise levels, D = {D}, d = {DIM}; peer: {task}",
            "scipy" if peer is factored_error else "numpy",
            lambda: [reuse_error(angles, SIGNAL, NOISE, ALPHA2, h2, D, DIM).total for h2 in LEVELS],
            lambda: [peer(*matrices) for matrices in handed],
            lambda ours, theirs: max(abs(b / a - 1) for a, b in zip(ours, theirs, strict=True)),
            1e-12,
            rounds=7,
        )

    benchmark.__name__ = f"closed law against {task}"
    benchmark.__doc__ = f"The closed law at D = {D} beside {task}."
    return benchmark


def _digits(h2: float, general: bool) -> Any:
    form = "denoiser form" if general else "closed law"

    def benchmark() -> dict[str, Any]:
        size, d, noise = 40, 4, 1e-3
        angles, U, V = _pair(size, d)
        C = latent_covariance(V, SIGNAL, noise)
        exact = decimal_error(angles, SIGNAL, noise, 1.0, h2, size)
        ours = (
            reuse_error_general(U, C, 1.0, h2)
            if general
            else reuse_error(angles, SIGNAL, noise, 1.0, h2, size, d).total
        )
        errors = [abs(found / exact - 1) for found in (ours, trace_error(U, C + h2 * np.eye(size), h2))]
        return {
            "task": f"digits, {form}, D = {size}, h^2 = {h2:g}: relative errors; peer: inverses, traces",
            "peer": "numpy",
            "ratio": errors[1] / max(errors[0], 1e-16),
            "ours": errors[0],
            "theirs": errors[1],
        }

    benchmark.__name__ = f"digits of the {form}, h2 = {h2:g}"
    benchmark.__doc__ = f"Relative error of the {form} at h^2 = {h2:g} beside the trace of dense inverses."
    return benchmark


def angles() -> dict[str, Any]:
    """Principal angles with their vectors beside SciPy, which gives angles only."""
    from scipy.linalg import subspace_angles

    _, U, V = _pair()
    return compare(
        f"principal angles, {D} x {DIM}; ours with vectors",
        "scipy",
        lambda: principal_angles(U, V).angles,
        lambda: subspace_angles(U, V)[::-1],
        lambda ours, theirs: float(np.abs(ours - theirs).max()),
        1e-12,
    )


BENCHMARKS = [
    *(_law(task, peer) for task, peer in PEERS.items()),
    *(_digits(h2, general) for general in (False, True) for h2 in (1e2, 1e4, 1e6)),
    angles,
]
