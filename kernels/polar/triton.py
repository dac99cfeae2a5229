"""Triton path of polar factors of batches: exact by Gram and eigenvectors, or odd polynomials.

Everything works on members (r, d), the short side first; other layouts are views, so nothing is copied.
Products of float32 tiles are exact to float32 (``input_precision="ieee"``) unless TF32 is asked for; float16
and bfloat16 entries are cast before they are multiplied, and autocast changes nothing. Every number is
written once, without atomics: runs repeat bit for bit. Tiles are fixed by r, so there is nothing to tune.

Importing this file needs torch and triton; ``porism.kernels.polar`` does so on first use.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from porism.checks import one_of, require
from porism.kernels.polar._common import EPS64, METHODS, POLAR_EXPRESS, TAYLOR, Triple, default_rtol

__all__ = ["apply", "gram", "newton_schulz", "polar", "polynomial"]

require("torch", "torch")  # so that a missing package names the extra
require("triton", "torch")

import torch  # noqa: E402
import triton  # noqa: E402

from porism.kernels.polar import _tiles  # noqa: E402
from porism.kernels.polar._launch import apply, gram, polynomial, power, unit_of  # noqa: E402


def polar(
    G: Any,
    *,
    smoothing: float = 0.0,
    method: str = "auto",
    rtol: float | None = None,
    return_rank: bool = False,
) -> Any:
    """Polar factor of each member, a partial isometry, or its smoothed version.

    ``T(G) = G (G'G + smoothing^2 I)^(-1/2)``; at 0 directions below ``rtol s_1`` map to 0.

    Parameters
    ----------
    G : float CUDA tensor or array, shape (..., m, n)
        Members with any strides; arrays are copied to the GPU. CPU tensors are taken under
        ``TRITON_INTERPRET=1`` only.
    smoothing : float, default 0
        Scale of singular values below which the factor fades, >= 0, in units of G; `rtol` is for 0 only.
    method : {"auto", "gram", "svd", "polynomial"}
        "gram" is the float64 Gram kernel, ``torch.linalg.eigh``, and the product kernel; "auto" is the same,
        but members of float64 input beyond a condition number of 1e3 go to "svd", in float64. "polynomial"
        is Polar Express and two Taylor steps, see :func:`polynomial`.
    rtol : float, optional
        Rank tolerance relative to s_1; by default 8 eps (1 eps below 32 bits). Never below
        ``sqrt(r eps)`` of float64 where a Gram is used.
    return_rank : bool, default False
        Also return the numerical ranks.

    Returns
    -------
    tensor (array where G is an array), shape (..., m, n), of the dtype of G
        The factors; a member with NaN or infinity is NaN, the others are not touched by it.
    int64 tensor or array, shape (...)
        Only with ``return_rank``.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of its range, or G is not where the kernels can run.

    Notes
    -----
    Error in operator norm about 1e-6 plus 2e-8 times the condition number: the Gram is in float64, the
    product in float32 (float64 for float64 input). Zero rows and columns stay exactly zero.

    Floor of "gram" for K members: ``3 K r d b`` bytes with b bytes an entry, 2 K r^2 d FLOP in float64,
    2 K r^2 d in float32, and eigenvectors, which should take most of the time; those wait for the host once.
    Time on a GPU: not measured. Checked against float64 in Triton's interpreter, and compiled for sm_80 and
    sm_90.

    References
    ----------
    N. J. Higham (1986), Computing the polar decomposition, doi:10.1137/0907079.

    Examples
    --------
    On a machine with a GPU::

        polar(torch.randn(256, 16, 4096, device="cuda"))
    """
    one_of("method", method, METHODS)
    if not 0 <= smoothing < float("inf"):
        raise ValueError(f"smoothing must be a finite number >= 0, got {smoothing}; 0 means none")
    if method == "polynomial":
        if smoothing or return_rank:
            raise ValueError("method must not be 'polynomial' with smoothing or return_rank: odd polynomials "
                             "approximate the sign only; take method='gram'")  # fmt: skip
        return newton_schulz(G, [*POLAR_EXPRESS, TAYLOR, TAYLOR], 1.02)
    plain = not isinstance(G, torch.Tensor)
    G = _placed("polar_factor", G)
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
    rank = rank.reshape(G.shape[:-2])
    if plain:
        return (out.cpu().numpy(), rank.cpu().numpy()) if return_rank else out.cpu().numpy()
    return (out, rank) if return_rank else out


def newton_schulz(
    G: Any, triples: Sequence[Triple], safety: float = 1.0, *, form: str = "auto", precision: str = "ieee"
) -> Any:
    """Iterate an odd quintic polynomial on each member, from ``G / (||G||_F safety)``.

    ``X <- a X + (b M + c M^2) X`` with ``M = X X'`` of the short side, for each (a, b, c) in turn.

    Parameters
    ----------
    G : float CUDA tensor or array, shape (..., m, n)
        As for :func:`polar`. Float64 is rounded to float32 after its scale is taken out.
    triples : sequence of (float, float, float)
        Coefficients a, b, c of each step.
    safety : float, default 1
        What the norm is multiplied by before G is divided by it, positive.
    form, precision
        As for :func:`polynomial`.

    Returns
    -------
    tensor (array where G is an array), shape (..., m, n), of the dtype of G
        The last iterate, computed in float32; zero for a zero member, NaN for one with NaN or infinity.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of its range, or G is not where the kernels can run.

    Notes
    -----
    Cost and accuracy are those of :func:`polynomial`.

    Examples
    --------
    On a machine with a GPU::

        newton_schulz(torch.randn(256, 16, 4096, device="cuda"), [(3.4445, -4.775, 2.0315)] * 5)
    """
    plain = not isinstance(G, torch.Tensor)
    G = _placed("newton_schulz", G)
    X, out, Y = _members(G)
    if X.dtype == torch.float64 and X.numel():
        X = (X * unit_of(X)[:, None, None]).to(torch.float32)
    polynomial(X, triples, safety=safety, form=form, precision=precision, out=Y)
    return out.cpu().numpy() if plain else out


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
    X, Y = G.reshape(int(np.prod(G.shape[:-2])), m, n), out.view(int(np.prod(G.shape[:-2])), m, n)
    return (X.mT, out, Y.mT) if m > n else (X, out, Y)


def _placed(name: str, G: Any) -> torch.Tensor:
    """A float tensor where the kernels run, or an error that says how to get it there."""
    interpreted = not isinstance(_tiles.gram, triton.JITFunction)
    if not isinstance(G, torch.Tensor):
        if not (interpreted or torch.cuda.is_available()):
            raise ValueError(
                "backend must not be 'triton' here: torch sees no CUDA device; take 'cpu' or 'auto'"
            )
        G = torch.from_numpy(np.array(G)).to("cpu" if interpreted else "cuda")
    if G.ndim < 2:
        raise ValueError(f"{name} needs a matrix (..., m, n); got shape {tuple(G.shape)}; add an axis first")
    if not G.dtype.is_floating_point:
        raise TypeError(f"{name} needs a real floating dtype; got {G.dtype}; convert it with .float()")
    if not (interpreted or G.is_cuda):
        raise ValueError(f"G must be on a CUDA device for Triton, got a tensor on {G.device}; "
                         "move it with .cuda(), or take backend='cpu'")  # fmt: skip
    return G.detach()
