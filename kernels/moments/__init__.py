"""Gram matrix, sums and class sums of one token a sample, gathered from activations in one pass.

The reference adds outer products in float64 (``reference.py``), the CPU path gathers blocks of rows and
multiplies in float64 (``cpu.py``), the Triton path (``triton.py``) gathers inside the kernel and adds up in
float32 with compensation. For fewer samples than features, storing the rows is cheaper than any Gram.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer
from porism.kernels._arrays import floats, implementation, integers, is_tensor, like, reals

__all__ = ["Moments", "read_moments", "token_gram"]

Array = NDArray[np.float64]


class Moments(NamedTuple):
    """What a Gram of tokens holds, in float64.

    Parameters
    ----------
    n : int
        Samples that were not skipped.
    mean : float array, shape (D,)
        Mean of the gathered rows; NaN without samples.
    covariance : float array, shape (D, D)
        Their covariance, divided by ``n - 1``; NaN below two samples.
    class_counts : int array, shape (C,)
        Samples of each class.
    class_means : float array, shape (C, D)
        Mean of each class; NaN for classes without samples.

    Examples
    --------
    >>> read_moments(token_gram([[[1.0], [2.0]], [[3.0], [6.0]]], [0, 1], [0.0]), [0.0]).mean
    array([3.5])
    """

    n: int
    mean: Array
    covariance: Array
    class_counts: NDArray[np.int64]
    class_means: Array


def token_gram(
    h: Any,
    index: Any,
    shift: Any,
    y: Any = None,
    out: Any = None,
    *,
    n_classes: int | None = None,
    backend: str = "auto",
) -> Any:
    """Gather one token a sample, subtract a shift, and add its moments to a Gram matrix.

    ``out += Z' Z`` on and below the diagonal, with rows ``z_b = (h[b, index[b]] - shift, 1, onehot(y[b]))``
    for the samples that are not skipped: Gram, sums, count, class sums and class counts in one matrix.

    Parameters
    ----------
    h : float array or tensor, shape (B, L, D)
        Activations: sample, position, feature. Any strides; nothing but the rows asked for is read.
    index : int array or tensor, shape (B,)
        Position of each sample's token, in 0..L-1; -1 skips the sample.
    shift : float array or tensor, shape (D,)
        Subtracted from each row, e.g. the first row ever seen: without it the Gram of features far from 0
        loses their variance. Triton rounds it to float32 (float64 for float64 activations); rows of h are
        exact there.
    y : int array or tensor, shape (B,), optional
        Classes in 0..n_classes-1; those of skipped samples do not matter.
    out : array or tensor, shape (W, W), W = D + 1 + n_classes, optional
        Matrix to add to, of float32 or float64, on the device of h; what is above its diagonal is neither
        read nor written. Use float64 to add up many batches.
    n_classes : int, optional
        Number of classes C >= 1; needed with y, and 0 without it.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors and the CPU path for the rest.

    Returns
    -------
    array or tensor, shape (W, W)
        `out`, or a new matrix of zeros above its diagonal: float64, by Triton float32 for activations below
        64 bits. :func:`read_moments` reads it.

    Raises
    ------
    TypeError
        If h is not float, or index or y are not integers.
    ValueError
        If shapes do not fit, a position or a class is out of range, or y comes without n_classes.

    Notes
    -----
    Relative error in Frobenius norm against float64 of the same inputs: rounding of float64 on the CPU, below
    1e-6 by Triton. NaN and infinity propagate from rows that are used, and from no others.

    Floor for activations of b bytes: ``B D^2`` FLOP (one triangle), ``B D b`` bytes read and ``2 D^2``
    written in float32; a tile of 64 reads each row ``D / 64`` times over, mostly from the cache. Gathering
    all positions instead would cost L times as much. Positions and classes are checked on the host. Time on
    a GPU: not measured; the opponent there is ``index_select``, ``float`` and ``addmm``.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque (1983), Algorithms for computing the sample variance,
    doi:10.1080/00031305.1983.10483115 (why the shift); W. Kahan (1965), doi:10.1145/363707.363723.

    Examples
    --------
    >>> h = [[[1.0, 0.0], [9.0, 9.0]], [[9.0, 9.0], [3.0, 2.0]], [[9.0, 9.0], [9.0, 9.0]]]
    >>> token_gram(h, [0, 1, -1], [0.0, 0.0])
    array([[10.,  0.,  0.],
           [ 6.,  4.,  0.],
           [ 4.,  2.,  2.]])
    """
    h = floats("h", h)
    if h.ndim != 3 or h.shape[2] < 1:
        raise ValueError(f"h must have shape (B, L, D) with D >= 1, got {tuple(h.shape)}; one row a token")
    backend, path = implementation(__name__, backend, h)
    B, L, D = h.shape
    index = _whole("index", index, B)
    if ((index < -1) | (index >= L)).any():
        b = int(np.flatnonzero((index < -1) | (index >= L))[0])
        raise ValueError(f"index must be in 0..{L - 1}, or -1 to skip, got {index[b]} for sample {b}")
    C, y = _classes(y, n_classes, index)
    shift = _shift(shift, D)
    W = D + 1 + C
    if out is not None:
        kind = str(getattr(out, "dtype", "no array")).rpartition(".")[2]
        if kind not in ("float32", "float64"):
            raise TypeError(
                f"out must hold float32 or float64, got {kind}; take what an earlier call returned"
            )
        if tuple(out.shape) != (W, W):
            raise ValueError(
                f"out must have shape ({W}, {W}) for {D} features and {C} classes, got {tuple(out.shape)}"
            )
    if backend == "triton":
        return path.token_gram(h, index, shift, y, C, out)
    return _added(path.token_gram(h, index, shift, y, C), h, out)


def read_moments(gram: Any, shift: Any) -> Moments:
    """Turn a Gram of tokens into mean, covariance and class means.

    ``mean = shift + s / n`` and ``covariance = (G - s s' / n) / (n - 1)``, with sums s and Gram G of the
    shifted rows.

    Parameters
    ----------
    gram : array or tensor, shape (D + 1 + C, D + 1 + C)
        What :func:`token_gram` returned.
    shift : float array or tensor, shape (D,)
        The shift it was made with.

    Returns
    -------
    Moments
        Numbers in float64.

    Raises
    ------
    ValueError
        If the matrix is too small for the shift, or not square.

    Examples
    --------
    >>> gram = token_gram([[[1001.0]], [[1003.0]], [[1002.0]]], [0, 0, 0], [1000.0], [0, 1, 1], n_classes=2)
    >>> found = read_moments(gram, [1000.0])
    >>> found.covariance, found.class_means.ravel()
    (array([[1.]]), array([1001. , 1002.5]))
    """
    matrix, offset = reals("gram", gram), reals("shift", shift)
    D = offset.shape[0] if offset.ndim == 1 else -1
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or D < 1 or len(matrix) < D + 1:
        raise ValueError(
            f"gram must have shape (D + 1 + C, D + 1 + C) for a shift of shape (D,), got {matrix.shape} and "
            f"{offset.shape}; pass both as they were given to token_gram"
        )
    n = int(matrix[D, D])
    lower = np.tril(matrix[:D, :D])
    full = lower + np.tril(lower, -1).T
    total = matrix[D, :D]
    counts = matrix[D + 1 :, D]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / n if n else np.full(D, np.nan)
        spread = (full - np.outer(total, mean)) / (n - 1) if n > 1 else np.full((D, D), np.nan)
        means = offset + matrix[D + 1 :, :D] / counts[:, None]
    return Moments(n, offset + mean, spread, counts.astype(np.int64), means)


def _whole(name: str, value: Any, B: int) -> NDArray[np.int64]:
    array: NDArray[np.int64] = integers(name, value)
    if array.shape != (B,):
        raise ValueError(f"{name} must have shape ({B},) for h of {B} samples, got {array.shape}")
    return array


def _classes(y: Any, n_classes: int | None, index: NDArray[np.int64]) -> tuple[int, Any]:
    if y is None:
        if n_classes:
            raise ValueError(f"n_classes belongs to y, got {n_classes} without it; pass y too")
        return 0, None
    if n_classes is None:
        raise ValueError("n_classes must be given with y: later batches may hold other classes than this one")
    C = integer("n_classes", n_classes, 1)
    y = _whole("y", y, len(index))
    bad = np.flatnonzero((index >= 0) & ((y < 0) | (y >= C)))
    if bad.size:
        raise ValueError(
            f"y must be in 0..{C - 1}, got {y[bad[0]]} for sample {bad[0]}; skip samples by index -1"
        )
    return C, y


def _shift(shift: Any, D: int) -> Array:
    shift = reals("shift", shift)
    if shift.shape != (D,):
        raise ValueError(f"shift must have shape ({D},) for h of {D} features, got {shift.shape}")
    return shift


def _added(gram: Array, h: Any, out: Any) -> Any:
    """The lower triangle added to `out`, or as an array or tensor like h."""
    if out is None:
        return like(gram, h)
    rows, columns = np.tril_indices(len(gram))
    part = like(gram[rows, columns], out)
    part = part.to(out.dtype) if is_tensor(out) else part.astype(out.dtype)
    out[like(rows, out), like(columns, out)] += part
    return out
