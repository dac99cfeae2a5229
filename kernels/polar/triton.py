"""Triton path of polar factors of batches: exact by Gram and eigenvectors, or odd polynomials.

Everything works on members (r, d), the short side first; other layouts are views, so nothing is copied.
Products of float32 tiles are exact to float32 (``input_precision="ieee"``) unless TF32 is asked for; float16
and bfloat16 entries are cast before they are multiplied, and autocast changes nothing. Every number is
written once, without atomics: runs repeat bit for bit. Tiles are fixed by r, so there is nothing to tune.

Importing this file needs torch and triton; ``porism.kernels.polar`` does so on first use.
"""

import math
from collections.abc import Sequence
from typing import Any

from porism.checks import one_of, require
from porism.kernels.polar._common import EPS64, METHODS, POLAR_EXPRESS, TAYLOR, Triple, default_rtol

__all__ = ["apply", "gram", "newton_schulz", "polar", "polynomial"]

require("torch", "torch")  # so that a missing package names the extra
require("triton", "torch")

import torch  # noqa: E402

from porism.kernels import _device as device  # noqa: E402
from porism.kernels.polar._launch import apply, gram, polynomial, power, unit_of  # noqa: E402


def polar(
    G: Any,
    *,
    smoothing: float = 0.0,
    method: str = "auto",
    rtol: float | None = None,
    return_rank: bool = False,
) -> Any:
    """Polar factors of members of any strides; see :func:`porism.kernels.polar.polar_factor`.

    Parameters
    ----------
    G : float CUDA tensor, shape (..., m, n)
        Members. CPU tensors are taken under ``TRITON_INTERPRET=1`` only.
    smoothing, rtol, return_rank
        As there; `rtol` is never below ``sqrt(r eps)`` of float64 where a Gram is used.
    method : {"auto", "gram", "svd", "polynomial"}
        "gram" is the float64 Gram kernel, ``torch.linalg.eigh``, and the product kernel; "auto" is the same,
        but members of float64 input beyond a condition number of 1e3 go to "svd", in float64. "polynomial"
        is Polar Express and two Taylor steps, see :func:`polynomial`.

    Returns
    -------
    tensor, shape (..., m, n), and with `return_rank` an int64 tensor (...)
        As there; a member with NaN or infinity is NaN, the others are not touched by it.

    Notes
    -----
    Error in operator norm about 1e-6 plus 2e-8 times the condition number: the Gram is in float64, the
    product in float32 (float64 for float64 input). Zero rows and columns stay exactly zero.

    Floor of "gram" for K members: ``3 K r d b`` bytes with b bytes an entry, 2 K r^2 d FLOP in float64,
    2 K r^2 d in float32, and eigenvectors, which should take most of the time; those wait for the host once.
    Time on a GPU: not measured. Checked against float64 in Triton's interpreter, and compiled for sm_80 and
    sm_90.
    """
    one_of("method", method, METHODS)
    if not 0 <= smoothing < float("inf"):
        raise ValueError(f"smoothing must be a finite number >= 0, got {smoothing}; 0 means none")
    if method == "polynomial":
        if smoothing or return_rank:
            raise ValueError("method must not be 'polynomial' with smoothing or return_rank: odd polynomials "
                             "approximate the sign only; take method='gram'")  # fmt: skip
        return newton_schulz(G, [*POLAR_EXPRESS, TAYLOR, TAYLOR], 1.02)
    G = device.placed("G", G)
    X, out, Y = _members(G)
    info = torch.finfo(G.dtype)
    limit = default_rtol(info.bits, float(info.eps)) if rtol is None else rtol
    if X.numel() == 0:
        rank = torch.zeros(len(X), dtype=torch.int64, device=X.device)
    elif method == "svd":
        rank = _svd(X, Y, smoothing, limit)
    else:
        rank, hard = _exact(X, Y, smoothing, limit)
        if method == "auto" and G.dtype == torch.float64 and bool(hard.any()):
            again = torch.empty(tuple(X[hard].shape), dtype=X.dtype, device=X.device)
            rank[hard] = _svd(X[hard], again, smoothing, limit)
            Y[hard] = again
    return (out, rank.reshape(G.shape[:-2])) if return_rank else out


def newton_schulz(
    G: Any, triples: Sequence[Triple], safety: float = 1.0, *, form: str = "auto", precision: str = "ieee"
) -> Any:
    """Odd polynomials from ``G / (||G||_F safety)``; see :func:`polynomial` for the other arguments.

    Members (..., m, n) with any strides. Float64 is rounded to float32 after its scale is taken out; a zero
    member stays zero, one with NaN or infinity becomes NaN.
    """
    G = device.placed("G", G)
    X, out, Y = _members(G)
    if X.dtype == torch.float64 and X.numel():
        X = (X * unit_of(X)[:, None, None]).to(torch.float32)
    polynomial(X, triples, safety=safety, form=form, precision=precision, out=Y)
    return out


def _exact(
    X: torch.Tensor, out: torch.Tensor, smoothing: float, rtol: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Write the factors by eigenvectors of a float64 Gram; ranks, and members of condition above 1e3."""
    double = X.dtype == torch.float64
    unit = unit_of(X) if double else None
    M = gram(X, unit=unit)
    diagonal = M.diagonal(dim1=1, dim2=2)
    fine = torch.isfinite(M).all(2).all(1)
    size = power(torch.where(fine, diagonal.sum(1).sqrt(), 1.0), 20 if double else 126)  # one over the norm
    zero = diagonal == 0  # zero rows: their eigenvectors may hold rounding
    M = torch.where(fine[:, None, None], M * (size * size)[:, None, None], 0.0)
    w, V = torch.linalg.eigh(M)
    w = w.clamp_min(0.0)
    floor = X.shape[1] * EPS64 * w[:, -1:]  # what the Gram can tell from zero
    limit = torch.maximum(rtol**2 * w[:, -1:], floor)
    unit = size if unit is None else size * unit
    damped = w + ((smoothing * unit) ** 2)[:, None]
    kept = (damped > (floor if smoothing else limit)) & (w[:, -1:] > 0)
    gain = torch.where(kept, damped.rsqrt(), 0.0)
    P = (V * gain[:, None, :]) @ V.mT
    P = torch.where(zero[:, :, None] | zero[:, None, :], 0.0, P)
    P = torch.where(fine[:, None, None], P, torch.nan)
    kind = torch.float64 if double else torch.float32
    apply(P.to(kind), X, unit=unit.to(kind), out=out)
    return (w > limit).sum(1), fine & (w[:, 0] < 1e-6 * w[:, -1])


def _svd(X: torch.Tensor, out: torch.Tensor, smoothing: float, rtol: float) -> torch.Tensor:
    """Write the factors by QR and a singular value decomposition in float64, in torch; ranks."""
    X = X.to(torch.float64)
    fine = torch.isfinite(X).all(2).all(1)
    unit = torch.where(fine, unit_of(X), 0.0)
    X = torch.where(fine[:, None, None], X, 0.0) * unit[:, None, None]
    Q, R = torch.linalg.qr(X.mT)
    U, s, V = torch.linalg.svd(R, full_matrices=False)
    kept = s > rtol * s[:, :1]
    gain = torch.where(s > 0, s / torch.hypot(s, (smoothing * unit)[:, None]), 0.0) if smoothing else kept
    factor = ((Q @ U) * gain[:, None, :]) @ V
    live = (X != 0).any(2)[:, :, None] & (X != 0).any(1)[:, None, :]
    out.copy_(torch.where(fine[:, None, None], torch.where(live, factor.mT, 0.0), torch.nan))
    return kept.sum(1)


def _members(G: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Members as (K, r, d) with r <= d, an output like G, and the output seen as members."""
    m, n = G.shape[-2:]
    out = torch.empty(tuple(G.shape), dtype=G.dtype, device=G.device)
    K = math.prod(G.shape[:-2])
    X, Y = G.reshape(K, m, n), out.view(K, m, n)
    return (X.mT, out, Y.mT) if m > n else (X, out, Y)
