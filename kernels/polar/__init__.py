"""Polar factors of batches of thin matrices: the direction in which Muon and spectral descent step.

``polar_factor`` is exact, ``newton_schulz`` applies an odd polynomial, ``polar_factors`` takes a list of
matrices of any shapes, and ``SpectralMuon`` (with torch installed) is the optimiser built on them.

Notes
-----
Operator-norm error of ``polar_factor`` and of five quintic steps in bfloat16 against the known factor,
float32 input, log-spaced singular values, 16 x 512 and 512 x 16 (measured, the worst of 40; the rounding of
the input is part of it):

======  =======  =======  =======  ==========  =======
kappa   auto     gram     svd      polynomial  quintic
======  =======  =======  =======  ==========  =======
3       3.9e-7   5.9e-8   5.9e-8   4.4e-6      0.32
10      2.8e-6   1.4e-7   1.4e-7   1.6e-5      0.32
19      9.3e-6   2.6e-7   2.6e-7   1.5e-5      0.32
1e2     1.2e-6   1.2e-6   1.2e-6   3.1e-4      0.32
1e3     1.0e-5   1.0e-5   1.0e-5   2.0e-2      0.70
1e4     9.6e-5   9.6e-5   9.6e-5   0.7         1.0
1e5     9.8e-4   9.8e-4   9.8e-4   1.0         1.1
1e6     9.2e-3   9.2e-3   9.2e-3   1.0         1.1
======  =======  =======  =======  ==========  =======

In short ``max(1e-5, 1e-8 kappa)`` for "auto": up to kappa 20 a float32 Gram decides, beyond it the Gram is
taken in float64 and what remains is the rounding of the input. Beyond kappa 1e6 the default `rtol` of float32
drops the smallest directions. For float64 input "auto" and "svd" stay below 1e-15 kappa + 1e-10.

Floor: 4 r^2 d FLOP, two readings and one writing of a matrix r x d. Measured on one
core of a server CPU (AVX-512), float32: a list of 256 matrices 16 x 4096 takes 26 ms, a stack 50 ms, half of
which is fresh memory for the result (pass `out`); the loop of ``torch.optim.Muon`` takes 92 ms.
"""

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from porism.checks import not_negative, one_of, require
from porism.kernels._arrays import BACKENDS, is_tensor
from porism.kernels.polar import _common as common

if TYPE_CHECKING:
    from porism.kernels.polar._muon import SpectralMuon

__all__ = ["newton_schulz", "polar_factor", "polar_factors"]

if TYPE_CHECKING or importlib.util.find_spec("torch"):
    __all__ += ["SpectralMuon"]


def __getattr__(name: str) -> Any:
    if name != "SpectralMuon":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("torch", "torch")
    from porism.kernels.polar._muon import SpectralMuon

    globals()[name] = SpectralMuon
    return SpectralMuon


def polar_factor(
    G: Any,
    *,
    smoothing: float = 0.0,
    method: str = "auto",
    rtol: float | None = None,
    out: Any = None,
    check_finite: bool = True,
    return_rank: bool = False,
    backend: str = "auto",
) -> Any:
    """Polar factor of each matrix, as a partial isometry, or its smoothed form.

    ``T_beta(G) = G (G^T G + beta^2 I)^(-1/2) = P diag(s / sqrt(s^2 + beta^2)) Q^T``; for beta = 0 singular
    values below ``rtol s_1`` go to 0 and the others to 1.

    Parameters
    ----------
    G : float tensor or array, shape (..., m, n)
        Matrices, finite, in any layout; never written to.
    smoothing : float, default 0
        beta >= 0, in the unit of G.
    method : {"auto", "gram", "svd", "polynomial"}
        "auto": the cheapest that is accurate, a Gram (float64 where it must be), for float64 input above
        condition number 1e3 an SVD, for a short side >= 128 a polynomial where the spectrum is flat enough;
        "gram": a float64 Gram always; "svd": QR and an SVD in float64; "polynomial": Polar Express and
        polishing in the working precision, see Notes.
    rtol : float, optional
        Rank tolerance relative to s_1, in [0, 1); default 8 eps of float32 and float64, eps of half
        precision. A Gram in float64 cannot go below sqrt(r eps64), 6e-8 for a short side r = 16.
    out : tensor or array, optional
        Where the result goes: shape and dtype of G. It may be G itself.
    check_finite : bool, default True
        Whether NaN and infinity are refused; otherwise they give NaN in their own matrix only.
    return_rank : bool, default False
        Whether the numerical ranks come along.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors, torch for other tensors, and the plain float64
        reference for arrays, which is an SVD whatever the method.

    Returns
    -------
    tensor or array, shape (..., m, n)
        The factor, in the dtype of G; half precision is computed in float32.
    int64 tensor or array, shape (...)
        Numerical rank, with ``return_rank=True`` only.

    Raises
    ------
    TypeError
        If the dtype is not real floating.
    ValueError
        If G is no matrix, a matrix holds NaN or infinity, or smoothing is negative, NaN or infinite.
    RuntimeError
        If G asks for a gradient while gradients are recorded.

    Notes
    -----
    4 r^2 d FLOP and O(r^3) a matrix, r the short side, d the long one. Zero rows and columns stay exactly
    zero. A Gram squares the condition number; the table above says what remains. Autocast is switched off
    inside. "polynomial" knows no rank and no smoothing: it blows up what is small, and is off by 1e-2 at
    kappa 1e3 and useless beyond.

    References
    ----------
    N. J. Higham (2008), Functions of Matrices, chapter 8, doi:10.1137/1.9780898717778; our reconstruction of
    the smoothed form of arXiv:2602.06385.

    Examples
    --------
    >>> polar_factor([[1.0, 1.0], [0.0, 1.0]]).round(4).tolist()
    [[0.8944, 0.4472], [-0.4472, 0.8944]]
    """
    beta, rtol = not_negative("smoothing", smoothing), common.rtol_value(rtol)
    method = one_of("method", method, common.METHODS)
    backend = one_of("backend", backend, BACKENDS)
    if method == "polynomial" and (beta or return_rank):
        raise ValueError(
            "method='polynomial' has no smoothing and finds no rank; use method='auto' or 'gram' for these"
        )
    if not is_tensor(G):
        array = common.as_array(G, "polar_factor")
        if backend not in ("auto", "reference"):
            raise TypeError(f"backend={backend!r} takes tensors; pass torch.as_tensor(G)")
        return _arrays(array, beta, rtol, out, check_finite, return_rank)
    common.check_tensor(G, "polar_factor")
    from porism.kernels.polar import _tensors as tensors

    result, rank = tensors.polar(G, beta, method, rtol, out, check_finite, return_rank, backend)
    return (result, rank) if return_rank else result


def polar_factors(
    matrices: Sequence[Any],
    *,
    smoothing: float = 0.0,
    method: str = "auto",
    rtol: float | None = None,
    out: list[Any] | None = None,
    check_finite: bool = True,
) -> list[Any]:
    """Polar factors of a list of matrices of any shapes, those of one short and long side together.

    ``[T_beta(G) for G in matrices]``

    Parameters
    ----------
    matrices : sequence of float tensors, each (m, n)
        Matrices, finite; a tall and a wide one of the same sides share a batch.
    smoothing, method, rtol, check_finite
        As in `polar_factor`.
    out : list of tensors, optional
        What an earlier call with the same shapes returned: it is written again. Fresh memory can cost as
        much as the arithmetic, so loops should pass it.

    Returns
    -------
    list of tensors, each (m, n)
        The factors, in the order and the dtypes of the input.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        As in `polar_factor`; a message about non-finite entries names places in the list.

    Notes
    -----
    On a CPU nothing is stacked: each matrix is read where it lies. Cost as in `polar_factor`.

    Examples
    --------
    >>> [g.tolist() for g in polar_factors([np.array([[2.0]]), np.array([[0.0, -3.0]])])]
    [[[1.0]], [[0.0, -1.0]]]
    """
    beta, rtol = not_negative("smoothing", smoothing), common.rtol_value(rtol)
    method = one_of("method", method, common.METHODS)
    matrices = list(matrices)
    if out is not None and len(out) != len(matrices):
        raise ValueError(f"out must hold {len(matrices)} tensors, got {len(out)}; leave it out once")
    if not all(is_tensor(G) for G in matrices):
        places: list[Any] = [None] * len(matrices) if out is None else out
        return [
            polar_factor(G, smoothing=beta, method=method, rtol=rtol, out=place, check_finite=check_finite)
            for G, place in zip(matrices, places, strict=True)
        ]
    for G in matrices:
        common.check_tensor(G, "polar_factor")
        if G.ndim != 2:
            raise ValueError(f"matrices must hold 2-D tensors, got shape {tuple(G.shape)}; use polar_factor")
    if method == "polynomial" and beta:
        raise ValueError("method='polynomial' has no smoothing; use method='auto' or 'gram'")
    if not matrices:
        return []
    from porism.kernels.polar import _tensors as tensors

    return tensors.polars(matrices, beta, method, rtol, out, check_finite)


def newton_schulz(
    G: Any,
    coefficients: Any = "quintic",
    steps: int | None = None,
    polish: int = 0,
    dtype: Any = None,
    gram: bool | str = "auto",
    *,
    backend: str = "auto",
) -> Any:
    """Odd matrix polynomial that drives singular values towards 1, as Muon uses it.

    ``X <- a X + (b M + c M^2) X`` with ``M = X X^T``, from ``X = G / (||G||_F safety)``; zero stays zero.

    Parameters
    ----------
    G : float tensor or array, shape (..., m, n)
        Matrices, finite; never written to.
    coefficients : {"quintic", "polar_express", "taylor"} or list of (a, b, c)
        Muon's (3.4445, -4.7750, 2.0315), the five triples of Polar Express (safety 1.02), the polishing
        triple (1.875, -1.25, 0.375), or your own; the last triple of a list is repeated as needed.
    steps : int, optional
        Number of steps, >= 0; default 5 for a name, one a triple for a list.
    polish : int, default 0
        Taylor steps that follow.
    dtype : torch.dtype, optional
        Working precision; default float32, for float64 input float64. Tensors only.
    gram : bool or "auto"
        Whether the steps act on the small Gram, 8 r^3 each, and not on the matrix, 4 r^2 d + 2 r^3. "auto":
        where that is cheaper, the precision is not half, and nothing is polished, as a Gram loses digits.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors whose steps act on the Gram.

    Returns
    -------
    tensor or array, shape (..., m, n)
        ``P diag(p(s / (||s||_2 safety))) Q^T``, in the dtype of G.

    Raises
    ------
    TypeError
        If the dtype is not real floating.
    ValueError
        If G is no matrix or not finite, or the coefficients are no triples.
    RuntimeError
        If G asks for a gradient while gradients are recorded.

    Notes
    -----
    Scale-invariant: nothing is added to the norm. Five quintic steps map [0.01, 1] to [0.68, 1.13] and reach
    1.2024 at 0.00411; they are not monotone. Polar Express maps [0.01, 1] to [0.86, 1.14]; two polishing
    steps leave 1.3e-6 on [1e-3, 1]. Values below 1e-3 are multiplied by 485 and 970 at first.

    References
    ----------
    K. Jordan et al. (2024), Muon, https://kellerjordan.github.io/posts/muon/; N. Amsel et al. (2025), The
    Polar Express, arXiv:2505.16932.

    Examples
    --------
    >>> newton_schulz([[1.0]]).round(8).tolist()
    [[0.69643641]]
    """
    triples, safety = common.schedule(coefficients, steps, polish)
    backend = one_of("backend", backend, BACKENDS)
    if gram not in (True, False, "auto") or (isinstance(gram, int) and not isinstance(gram, bool)):
        raise ValueError(f"gram must be True, False or 'auto', got {gram!r}")
    if not is_tensor(G):
        array = common.as_array(G, "newton_schulz")
        if backend not in ("auto", "reference") or dtype is not None:
            raise TypeError("backend and dtype are for tensors; pass torch.as_tensor(G)")
        from porism.kernels.polar import reference

        flat = _flat(array)
        common.refuse_nonfinite(np.flatnonzero(~np.isfinite(flat).all((1, 2))), array.shape[:-2])
        return reference.newton_schulz(flat, triples, safety).astype(array.dtype).reshape(array.shape)
    common.check_tensor(G, "newton_schulz")
    from porism.kernels.polar import _tensors as tensors

    return tensors.newton_schulz(G, triples, safety, polish, dtype, gram, backend)


def _flat(array: Any) -> Any:
    """One axis of matrices, float64."""
    count = int(np.prod(array.shape[:-2], dtype=np.int64))
    return array.astype(np.float64).reshape(count, *array.shape[-2:])


def _arrays(
    array: Any, beta: float, rtol: float | None, out: Any, check_finite: bool, return_rank: bool
) -> Any:
    """The reference on numpy arrays, whatever the method: it is an SVD."""
    from porism.kernels.polar import reference

    flat = _flat(array)
    if check_finite:
        common.refuse_nonfinite(np.flatnonzero(~np.isfinite(flat).all((1, 2))), array.shape[:-2])
    info = np.finfo(array.dtype)
    tolerance = common.default_rtol(info.bits, float(info.eps)) if rtol is None else rtol
    made, rank = reference.polar(flat, beta, tolerance)
    result = made.astype(array.dtype).reshape(array.shape)
    if out is not None:
        if not isinstance(out, np.ndarray) or out.shape != array.shape or out.dtype != array.dtype:
            raise ValueError(f"out must be an array of shape {array.shape} and dtype {array.dtype}")
        out[...] = result
        result = out
    return (result, rank.reshape(array.shape[:-2])) if return_rank else result
