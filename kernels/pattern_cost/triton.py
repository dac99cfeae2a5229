"""Triton path of the pattern costs: gathers and squares in registers, float32 products, compensated sums.

Every sum over tiles is compensated (or kept in float64), so that its rounding does not grow with the size.
Products of float32 tiles are exact to float32 (``input_precision="ieee"``, no TF32); float16 and bfloat16
entries are cast before they are squared. Outputs are written once, without atomics: runs repeat bit for bit.

Importing this file needs torch and triton; ``porism.kernels.pattern_cost`` does so on first use.
"""

from typing import Any

import numpy as np

from porism.checks import integer, one_of, require

__all__ = ["batched_cost", "head_null", "interval_cost", "swap_deltas"]

require("torch", "torch")  # so that a missing package names the extra
require("triton", "torch")

import torch  # noqa: E402

from porism.kernels import _device as device  # noqa: E402
from porism.kernels.pattern_cost import _jit  # noqa: E402

TILE = 64  # rows and columns of an output tile at most
DEPTH = 16  # terms added up in plain float32 before a compensated addition
STEP = 32  # columns of a head held at once
ROWS = 16  # rows of a head a program adds up


def batched_cost(A: Any, q: Any, W: Any) -> Any:
    """Half-step costs on the GPU; see :func:`porism.kernels.pattern_cost.batched_cost`.

    Parameters
    ----------
    A : float CUDA tensor or array, shape (b, m, n)
        Matrices with any strides; float64 is rounded to float32, arrays are copied to the GPU. CPU tensors
        are taken under ``TRITON_INTERPRET=1`` only.
    q, W
        As there; W is nonnegative and rounded to float32.

    Returns
    -------
    float32 tensor (float64 array where A is an array), shape (b, m, m)
        Sources on rows, positions on columns.

    Notes
    -----
    Relative error at most 22 * 2^-24 = 1.3e-6 for nonnegative W, whatever n: squares, products and sums of
    16 terms round at most 20 times, the compensated sum over tiles twice. This holds while squares stay in
    the normal range of float32, that is entries between 1e-17 and 1e19; divide by the largest entry first.

    Floor: 2 b m^2 n FLOP and ``b (m n s + 4 m^2) + 4 m n`` bytes with s bytes an entry, 3 b m n s less than
    square, gather and product one after the other. Rows of A are gathered again for every 64 positions,
    which the caches should serve. Time on a GPU: not measured. Checked against float64 in Triton's
    interpreter, and compiled for sm_80 and sm_90.
    """
    plain = not isinstance(A, torch.Tensor)
    A = _checked("A", A, 3)
    q, W = _indices("q", q, A.shape[2], A.device), _beside("W", W, 2, A.device)
    b, m, n = A.shape
    if W.shape != (m, n) or q.shape != (b, n):
        raise ValueError(f"A {tuple(A.shape)}, q {tuple(q.shape)} and W {tuple(W.shape)} do not fit: "
                         "want (b, m, n), (b, n), (m, n)")  # fmt: skip
    out = torch.empty((b, m, m), dtype=torch.float32, device=A.device)
    side = device.side(m, TILE)
    if out.numel():
        with device.current(A):
            _jit.gathered[(b * (-(-m // side)) ** 2,)](
                A, q, W, out, m, n, *A.stride(), *W.stride(),
                SIDE=side, DEPTH=DEPTH, SPAN=_span(n, DEPTH), num_warps=8 if side == TILE else 4,
            )  # fmt: skip
    return _returned(out, plain, "A and W must be finite, with squares in the range of float32")


def interval_cost(A: Any, q: Any, low: Any, high: Any) -> Any:
    """Cost where the penalty of row i is 0 on positions ``low[i] .. high[i]-1`` and 1 elsewhere, on the GPU.

    ``C[b, r, i] = sum_{j < low[i] or j >= high[i]} A[b, r, q[b, j]]^2``: bands, blocks and triangles.

    Parameters
    ----------
    A, q
        As for :func:`batched_cost`.
    low, high : int tensor or array, shape (m,)
        First position of the interval and the one after its last, 0 <= low <= high <= n.

    Returns
    -------
    float32 tensor (float64 array where A is an array), shape (b, m, m)
        Sources on rows, positions on columns.

    Notes
    -----
    Prefix sums in float64, so that the difference at the right end loses no more than about
    n * 1e-16 of a row's sum. Floor: 2 b m n FLOP, ``b (m n (s + 8) + 4 m^2)`` bytes (the sums are written
    once and read near the ends of intervals), against 2 b m^2 n FLOP of :func:`batched_cost`. Time on a
    GPU: not measured.

    Examples
    --------
    On a machine with a GPU::

        interval_cost(torch.rand(1, 3, 3, device="cuda"), [[2, 0, 1]], [0, 0, 1], [2, 3, 3])
    """
    plain = not isinstance(A, torch.Tensor)
    A = _checked("A", A, 3)
    b, m, n = A.shape
    q = _indices("q", q, n, A.device)
    low, high = (_indices(name, ends, n + 1, A.device) for name, ends in (("low", low), ("high", high)))
    if q.shape != (b, n) or low.shape != (m,) or high.shape != (m,):
        raise ValueError(f"A {tuple(A.shape)}, q {tuple(q.shape)}, low {tuple(low.shape)} and high "
                         f"{tuple(high.shape)} do not fit: want (b, m, n), (b, n), (m,), (m,)")  # fmt: skip
    if bool((low > high).any()):
        raise ValueError("low must be at most high in every row; an empty interval has low equal to high")
    out = torch.empty((b, m, m), dtype=torch.float32, device=A.device)
    if out.numel():
        sums = torch.empty((b, m, n + 1), dtype=torch.float64, device=A.device)
        with device.current(A):
            _jit.prefixes[(b * m,)](A, q, sums, m, n, *A.stride(), STEP=256, SPAN=_span(n, 256))
            _jit.outside[(b * m,)](sums, low, high, out, m, n, STEP=256, SPAN=_span(m, 256))
    return _returned(out, plain, "A must be finite, with squares in the range of float32")


def swap_deltas(B: Any, W: Any, p: Any) -> Any:
    """All swap differences on the GPU; see :func:`porism.kernels.pattern_cost.swap_deltas`.

    Parameters
    ----------
    B : float CUDA tensor or array, shape (n, n)
        Masses with any strides; all precisions become float32. CPU tensors are taken under
        ``TRITON_INTERPRET=1`` only.
    W, p
        As there.

    Returns
    -------
    float32 tensor (float64 array where B is an array), shape (n, n)
        Exactly symmetric, exactly zero on the diagonal.

    Notes
    -----
    G + G' is formed for tiles on or above the diagonal only. Differences cancel, so the error is absolute:
    about 2e-6 times the sum of G + G' at (a, b) and of g at a and b, whatever n. Evaluate a swap anew before
    it is taken.

    Floor: 4 n^3 FLOP and 12 n^2 bytes (two matrices read, one written). Time on a GPU: not measured.
    Checked against float64 in Triton's interpreter, and compiled for sm_80 and sm_90.
    """
    plain = not isinstance(B, torch.Tensor)
    B = _checked("B", B, 2).to(torch.float32)
    n = B.shape[0]
    p, W = _indices("p", p, n, B.device), _beside("W", W, 2, B.device)
    if not B.shape == W.shape == (n, n) or p.shape != (n,):
        raise ValueError(f"B {tuple(B.shape)}, W {tuple(W.shape)} and p {tuple(p.shape)} do not fit: "
                         "want (n, n), (n, n), (n,)")  # fmt: skip
    out = torch.empty((n, n), dtype=torch.float32, device=B.device)
    if n:
        g = torch.empty(n, dtype=torch.float32, device=B.device)
        side = device.side(n, 32)
        tiles = -(-n // side)
        options = {"SIDE": side, "DEPTH": DEPTH, "SPAN": _span(n, DEPTH)}
        with device.current(B):
            _jit.diagonal[(tiles,)](B, W, p, g, n, *B.stride(), *W.stride(), **options)
            _jit.swaps[(tiles**2,)](B, W, p, g, out, n, *B.stride(), *W.stride(), **options)
    return _returned(out, plain, "B and W must be finite")


def head_null(
    A: Any, masks: Any, *, causal: bool = False, mass: str = "squared", rows: int = ROWS
) -> tuple[Any, Any]:
    """Fixed-order distances and null means on the GPU; see :func:`porism.kernels.pattern_cost.head_null`.

    Parameters
    ----------
    A : float CUDA tensor or array, shape (heads, m, n)
        Matrices with any strides. Float64 is divided by the largest entry of each matrix, then rounded to
        float32. CPU tensors are taken under ``TRITON_INTERPRET=1`` only.
    masks, causal, mass
        As there.
    rows : int, default 16
        Rows a program adds up.

    Returns
    -------
    (float64, float64) tensors, or arrays where A is an array, each of shape (heads, k)
        Mass outside and its mean over shuffles inside rows; NaN for a matrix of zeros.

    Notes
    -----
    One product [heads, m n] x [m n, k], streamed over rows; tiles of 32 columns in float32, sums of tiles in
    float64: relative error at most 38 * 2^-24 = 2.3e-6 whatever the size, and no overflow or underflow
    of squares, since each tile is divided by its largest entry. Floor: 2 heads k m n FLOP, heads m n s
    bytes with s bytes an entry: A is read once for up to 64 masks, the masks once for every 16 heads.
    Partial sums take 16 heads k m / rows bytes. Time on a GPU: not measured. Checked against float64 in
    Triton's interpreter, and compiled for sm_80 and sm_90.
    """
    one_of("mass", mass, ("squared", "abs"))
    rows = integer("rows", rows, 1, 1 << 16)
    plain = not isinstance(A, torch.Tensor)
    A = _checked("A", A, 3, scaled=True)
    masks = _beside("masks", masks, 3, A.device)
    if A.shape[1:] != masks.shape[1:]:
        raise ValueError(
            f"masks {tuple(masks.shape)} do not fit A {tuple(A.shape)}: the last two axes must agree"
        )
    heads, kinds, (m, n) = A.shape[0], masks.shape[0], A.shape[1:]
    chunks = -(-m // rows)
    parts = torch.empty((2, chunks, heads, kinds), dtype=torch.float64, device=A.device)
    whole = torch.empty((chunks, heads), dtype=torch.float64, device=A.device)
    if parts.numel():
        tile = {"HEADS": 16, "KINDS": device.side(kinds, 64)}
        grid = chunks * -(-heads // tile["HEADS"]) * -(-kinds // tile["KINDS"])
        with device.current(A):
            _jit.streamed[(grid,)](
                A, masks, *parts, whole, heads, kinds, m, n, *A.stride(), *masks.stride(),
                CAUSAL=bool(causal), SQUARED=mass == "squared", ROWS=rows, STEP=STEP,
                SPAN=_span(n, STEP), num_warps=8, **tile,
            )  # fmt: skip
    elif kinds == 0:
        whole.fill_(1.0)
    parts, total = parts.sum(1), whole.sum(0)
    if not bool(torch.isfinite(parts).all() & torch.isfinite(total).all()):
        raise ValueError("A and masks must be finite, got NaN or infinity; drop or repair those matrices")
    d2, null = (parts / total[:, None]).cpu().numpy() if plain else parts / total[:, None]
    return d2, null


def _span(size: int, step: int) -> int:
    """Length rounded up to whole steps."""
    return -(-size // step) * step


def _returned(out: torch.Tensor, plain: bool, rule: str) -> Any:
    """Result as the caller gave its input: a tensor, or a float64 array; refused where it is not finite."""
    if not device.all_finite(out):
        raise ValueError(f"{rule}, got a result that is not finite; divide by the largest entry first")
    return out.cpu().numpy().astype(np.float64) if plain else out


def _indices(name: str, value: Any, stop: int, place: torch.device) -> torch.Tensor:
    """Indices as contiguous int64 beside the matrices; a kernel must never read out of bounds."""
    index = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
    if index.numel() and (index.dtype.is_floating_point or index.dtype == torch.bool):
        raise TypeError(f"{name} must hold integers, got {index.dtype}; convert it first")
    index = index.to(device=place, dtype=torch.int64).contiguous()
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < stop:
        raise ValueError(f"{name} must be in 0..{stop - 1}, got {int(index.min())}..{int(index.max())}; "
                         "pass positions of an axis, without negative ones")  # fmt: skip
    return index


def _beside(name: str, value: Any, ndim: int, place: torch.device) -> torch.Tensor:
    """A float32 tensor on the device of the matrices."""
    if not isinstance(value, torch.Tensor):
        value = torch.from_numpy(np.array(value, dtype=np.float64))  # a copy: arrays may be read-only
    if value.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {tuple(value.shape)}; reshape it")
    return value.detach().to(device=place, dtype=torch.float32)


def _checked(name: str, value: Any, ndim: int, scaled: bool = False) -> torch.Tensor:
    """Matrices as float32, float16 or bfloat16 where the kernels run, or an error."""
    value = device.placed(name, value, dtype=np.float64)
    if value.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {tuple(value.shape)}; reshape it")
    if value.dtype != torch.float64:
        return value
    if scaled and value.numel():
        top = value.abs().amax(tuple(range(1, ndim)), keepdim=True)
        value = value / torch.where(top == 0, 1.0, top)
    return value.to(torch.float32)
