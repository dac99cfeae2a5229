"""Odd polynomials of thin matrices in torch: on the matrix itself, or on its small Gram."""

from typing import Any

from porism.kernels.polar._common import TAYLOR, Triple

__all__: list[str] = []

STEPS = 5
"""Largest number of steps of `about_the_mean`; more would cost what an eigendecomposition costs."""
SPREAD = 0.3
"""Largest relative variance of the Gram's eigenvalues at which `about_the_mean` is tried."""
CLOSE = 1e-2
"""Distance of the Gram from I (Frobenius) before the last step: 2.5 (CLOSE / 2)^3 = 3e-7 remains."""


def scaled(X: Any) -> Any:
    """Bring members whose squares would leave the range of the dtype to order one by powers of two."""
    import torch

    if X.numel() == 0:
        return X
    top = X.abs().amax((-2, -1))
    edge = 1e8 if X.dtype == torch.float32 else 1e100
    outside = ((top > edge) | (top < 1 / edge)) & (top > 0) & top.isfinite()
    if not outside.any():
        return X
    power = torch.where(outside, -torch.frexp(top)[1], 0)
    half = torch.div(power, 2, rounding_mode="floor")  # 2^149 is no float32, so in two halves
    two = torch.tensor(2.0, dtype=X.dtype, device=X.device)
    return X * two.pow(half)[:, None, None] * two.pow(power - half)[:, None, None]


def normalised(X: Any, safety: float) -> Any:
    """Divide by the Frobenius norm and the safety factor; zero stays zero."""
    import torch

    norm = torch.linalg.vector_norm(X, dim=(-2, -1), keepdim=True) * safety
    return torch.where(norm == 0, 0, X / norm)


def direct(X: Any, triples: list[Triple]) -> Any:
    """Steps on normalised (K, r, d) matrices themselves: 4 r^2 d + 2 r^3 each."""
    import torch

    for a, b, c in triples:
        M = torch.bmm(X, X.mT)
        B = torch.baddbmm(M, M, M, beta=b, alpha=c)
        X = torch.baddbmm(X, B, X, beta=a)
    return X


def multiplier(M: Any, triples: list[Triple], safety: float) -> Any:
    """P (K, r, r) with ``P X`` what the steps make of X, from the Gram ``M = X X^T`` alone: 8 r^3 a step."""
    import torch

    norm = M.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None].sqrt().mul_(safety)
    inverse = torch.where(norm == 0, 0, 1 / norm)
    M = M * inverse.square()
    eye = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device).expand_as(M)
    P = eye * inverse
    for k, triple in enumerate(triples):
        P, M = _step(P, M, eye, triple, k + 1 < len(triples))
    return P


def about_the_mean(M: Any) -> tuple[Any, Any]:
    """Inverse square roots of well-conditioned Grams by Taylor steps, and which members are done.

    The spectrum is centred: its mean goes to 1, where a step takes an error e of a singular value to about
    2.5 e^3. A member whose eigenvalues spread too far is not tried, one that stays off I is not done.
    """
    import torch

    r = M.shape[-1]
    mean = M.diagonal(dim1=-2, dim2=-1).mean(-1)
    size = torch.linalg.matrix_norm(M)
    done = (size / mean).square() / r - 1 < SPREAD  # false where the mean is 0 or NaN
    P = torch.zeros_like(M)
    index = done.nonzero()[:, 0]
    if not len(index):
        return P, done
    eye = torch.eye(r, dtype=M.dtype, device=M.device)
    scale = mean[index, None, None]
    N, Q = M[index] / scale, scale.rsqrt() * eye
    off = torch.full_like(mean[index], torch.inf)
    for step in range(STEPS):
        off = torch.linalg.matrix_norm(N - eye)
        last = step + 1 == STEPS or not bool((off >= CLOSE).any())
        Q, N = _step(Q, N, eye.expand_as(N), TAYLOR, not last)
        if last:
            break
    done[index] = off < CLOSE
    P[index] = Q
    return P, done


def _step(P: Any, M: Any, eye: Any, triple: Triple, more: bool) -> tuple[Any, Any]:
    """``P <- Q P`` and ``M <- Q M Q``, both made symmetric again, with ``Q = a I + b M + c M^2``."""
    import torch

    a, b, c = triple
    Q = torch.baddbmm(M, M, M, beta=b, alpha=c).add_(eye, alpha=a)
    P = torch.bmm(Q, P)
    P = (P + P.mT).mul_(0.5)
    if more:
        M = torch.bmm(torch.bmm(Q, M), Q)
        M = (M + M.mT).mul_(0.5)
    return P, M
