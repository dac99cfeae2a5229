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
import triton  # noqa: E402

from porism.kernels.pattern_cost._jit import (  # noqa: E402
    diagonal,
    gathered,
    outside,
    prefixes,
    streamed,
    swaps,
)

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
TILE = 64  # rows and columns of an output tile at most
DEPTH = 16  # terms added up in plain float32 before a compensated addition
STEP = 32  # columns of a head held at once
ROWS = 16  # rows of a head a program adds up


def batched_cost(A: Any, q: Any, W: Any) -> Any:
    """Cost of each source row at each position, for fixed column orders, on the GPU.

    ``C[b, r, i] = sum_j A[b, r, q[b, j]]^2 W[i, j]``.

    Parameters
    ----------
    A : float32, float16 or bfloat16 CUDA tensor or array, shape (b, m, n)
        Matrices with any strides; float64 is rounded to float32, arrays are copied to the GPU. CPU tensors
        are taken under ``TRITON_INTERPRET=1`` only.
    q : int tensor or array, shape (b, n)
        Source column at each position, 0 .. n-1.
    W : float tensor or array, shape (m, n)
        Penalty of each cell, nonnegative; rounded to float32.

    Returns
    -------
    float32 tensor (float64 array where A is an array), shape (b, m, m)
        Sources on rows, positions on columns.

    Raises
    ------
    ValueError, TypeError
        If an argument does not fit, a result is not finite, or A is not where the kernels can run.

    Notes
    -----
    Relative error at most 22 * 2^-24 = 1.3e-6 for nonnegative W, whatever n: squares, products and sums of
    16 terms round at most 20 times, the compensated sum over tiles twice. This holds while squares stay in
    the normal range of float32, that is entries between 1e-17 and 1e19; divide by the largest entry first.

    Floor: 2 b m^2 n FLOP and ``b (m n s + 4 m^2) + 4 m n`` bytes with s bytes an entry, 3 b m n s less than
    square, gather and product one after the other. Rows of A are gathered again for every 64 positions,
    which the caches should serve. Time on a GPU: not measured. Checked against float64 in Triton's
    interpreter, and compiled for sm_80 and sm_90.

    Examples
    --------
    On a machine with a GPU::

        batched_cost(torch.rand(2, 37, 45, device="cuda"), torch.arange(45).expand(2, 45), torch.ones(37, 45))
    """
    plain = not isinstance(A, torch.Tensor)
    A = _placed("A", A, 3)
    q, W = _indices("q", q, A.shape[2], A.device), _beside("W", W, 2, A.device)
    b, m, n = A.shape
    if W.shape != (m, n) or q.shape != (b, n):
        raise ValueError(f"A {tuple(A.shape)}, q {tuple(q.shape)} and W {tuple(W.shape)} do not fit: "
                         "want (b, m, n), (b, n), (m, n)")  # fmt: skip
    out = torch.empty((b, m, m), dtype=torch.float32, device=A.device)
    side = _side(m)
    if out.numel():
        with torch.cuda.device(A.get_device()):  # Triton launches on the current device; -1 changes nothing
            gathered[(b * (-(-m // side)) ** 2,)](
                A,
                q,
                W,
                out,
                m,
                n,
                *A.stride(),
                *W.stride(),
                SIDE=side,
                DEPTH=DEPTH,
                SPAN=_span(n, DEPTH),
                num_warps=8 if side == TILE else 4,
            )
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

    Raises
    ------
    ValueError, TypeError
        If an argument does not fit, a result is not finite, or A is not where the kernels can run.

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
    A = _placed("A", A, 3)
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
        with torch.cuda.device(A.get_device()):
            prefixes[(b * m,)](A, q, sums, m, n, *A.stride(), STEP=256, SPAN=_span(n, 256))
            outside[(b * m,)](sums, low, high, out, m, n, STEP=256, SPAN=_span(m, 256))
    return _returned(out, plain, "A must be finite, with squares in the range of float32")


def swap_deltas(B: Any, W: Any, p: Any) -> Any:
    """Change of the cost of an order by every swap of two positions, on the GPU.

    ``D[a, b] = f(p with p[a], p[b] exchanged) - f(p)`` with ``f(p) = sum_ij W[i, j] B[p[i], p[j]]``.

    Parameters
    ----------
    B : float CUDA tensor or array, shape (n, n)
        Masses with any strides; all precisions become float32. CPU tensors are taken under
        ``TRITON_INTERPRET=1`` only.
    W : float tensor or array, shape (n, n)
        Penalty of each cell; neither matrix need be symmetric.
    p : int tensor or array, shape (n,)
        Source at each position, 0 .. n-1.

    Returns
    -------
    float32 tensor (float64 array where B is an array), shape (n, n)
        Exactly symmetric, exactly zero on the diagonal.

    Raises
    ------
    ValueError, TypeError
        If an argument does not fit, a result is not finite, or B is not where the kernels can run.

    Notes
    -----
    The identity of :func:`porism.kernels.pattern_cost.swap_deltas`; G + G' is formed for tiles on or above
    the diagonal only. Differences cancel, so the error is absolute: about 2e-6 times the sum of G + G' at
    (a, b) and of g at a and b, whatever n. Evaluate a swap anew before it is taken.

    Floor: 4 n^3 FLOP and 12 n^2 bytes (two matrices read, one written). Time on a GPU: not measured.
    Checked against float64 in Triton's interpreter, and compiled for sm_80 and sm_90.

    Examples
    --------
    On a machine with a GPU::

        swap_deltas(torch.rand(9, 9, device="cuda"), torch.rand(9, 9), torch.randperm(9))
    """
    plain = not isinstance(B, torch.Tensor)
    B = _placed("B", B, 2).to(torch.float32)
    n = B.shape[0]
    p, W = _indices("p", p, n, B.device), _beside("W", W, 2, B.device)
    if not B.shape == W.shape == (n, n) or p.shape != (n,):
        raise ValueError(f"B {tuple(B.shape)}, W {tuple(W.shape)} and p {tuple(p.shape)} do not fit: "
                         "want (n, n), (n, n), (n,)")  # fmt: skip
    out = torch.empty((n, n), dtype=torch.float32, device=B.device)
    if n:
        g = torch.empty(n, dtype=torch.float32, device=B.device)
        side = min(32, _side(n))
        tiles = -(-n // side)
        options = {"SIDE": side, "DEPTH": DEPTH, "SPAN": _span(n, DEPTH)}
        with torch.cuda.device(B.get_device()):
            diagonal[(tiles,)](B, W, p, g, n, *B.stride(), *W.stride(), **options)
            swaps[(tiles**2,)](B, W, p, g, out, n, *B.stride(), *W.stride(), **options)
    return _returned(out, plain, "B and W must be finite")


def head_null(
    A: Any, masks: Any, *, causal: bool = False, mass: str = "squared", rows: int = ROWS
) -> tuple[Any, Any]:
    """Fixed-order distances of many matrices to many masks, and their means over row shuffles, on the GPU.

    ``d2[h, k] = sum_ij W_k[i, j] B_h[i, j] / sum B_h`` and
    ``null[h, k] = sum_i mass_h[i] mean_{admissible j} W_k[i, j] / sum B_h`` with ``W = (1 - S)^2``.

    Parameters
    ----------
    A : float32, float16 or bfloat16 CUDA tensor or array, shape (heads, m, n)
        Matrices with any strides. Float64 is divided by the largest entry of each matrix, then rounded to
        float32. CPU tensors are taken under ``TRITON_INTERPRET=1`` only.
    masks : float tensor or array, shape (k, m, n)
        Masks S, values in [0, 1].
    causal : bool, default False
        Admissible cells of row i are j <= i instead of all.
    mass : {"squared", "abs"}
        Mass of an entry.
    rows : int, default 16
        Rows a program adds up.

    Returns
    -------
    (float64, float64) tensors, or arrays where A is an array, each of shape (heads, k)
        Mass outside and its mean over shuffles inside rows; NaN for a matrix of zeros.

    Raises
    ------
    ValueError, TypeError
        If an argument does not fit or is not finite, or A is not where the kernels can run.

    Notes
    -----
    One product [heads, m n] x [m n, k], streamed over rows; tiles of 32 columns in float32, sums of tiles in
    float64: relative error at most 38 * 2^-24 = 2.3e-6 whatever the size, and no overflow or underflow
    of squares, since each tile is divided by its largest entry. Floor: 2 heads k m n FLOP, heads m n s
    bytes with s bytes an entry: A is read once for up to 64 masks, the masks once for every 16 heads.
    Partial sums take 16 heads k m / rows bytes. Time on a GPU: not measured. Checked against float64 in
    Triton's interpreter, and compiled for sm_80 and sm_90.

    References
    ----------
    PD-19 (reconstruction): closed form of the row-shuffle null.

    Examples
    --------
    On a machine with a GPU::

        d2, null = head_null(torch.rand(144, 128, 128, device="cuda"), torch.eye(128)[None], causal=True)
    """
    one_of("mass", mass, ("squared", "abs"))
    rows = integer("rows", rows, 1, 1 << 16)
    plain = not isinstance(A, torch.Tensor)
    A = _placed("A", A, 3, scaled=True)
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
        tile = {"HEADS": 16, "KINDS": min(64, max(16, triton.next_power_of_2(kinds)))}
        grid = chunks * -(-heads // tile["HEADS"]) * -(-kinds // tile["KINDS"])
        with torch.cuda.device(A.get_device()):
            streamed[(grid,)](
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


def _side(size: int) -> int:
    """Side of a square output tile: 16, 32 or 64."""
    return min(TILE, max(16, triton.next_power_of_2(size)))


def _span(size: int, step: int) -> int:
    """Length rounded up to whole steps."""
    return -(-size // step) * step


def _returned(out: torch.Tensor, plain: bool, rule: str) -> Any:
    """Result as the caller gave its input: a tensor, or a float64 array; refused where it is not finite."""
    if out.numel() and not bool(torch.isfinite(torch.stack(torch.aminmax(out))).all()):  # NaN is both
        raise ValueError(f"{rule}, got a result that is not finite; divide by the largest entry first")
    return out.cpu().numpy().astype(np.float64) if plain else out


def _indices(name: str, value: Any, stop: int, device: torch.device) -> torch.Tensor:
    """Indices as contiguous int64 beside the matrices; a kernel must never read out of bounds."""
    index = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
    if index.numel() and (index.dtype.is_floating_point or index.dtype == torch.bool):
        raise TypeError(f"{name} must hold integers, got {index.dtype}; convert with .long()")
    index = index.to(device=device, dtype=torch.int64).contiguous()
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < stop:
        raise ValueError(f"{name} must be in 0..{stop - 1}, got {int(index.min())}..{int(index.max())}; "
                         "pass positions of an axis, without negative ones")  # fmt: skip
    return index


def _beside(name: str, value: Any, ndim: int, device: torch.device) -> torch.Tensor:
    """A float32 tensor on the device of the matrices."""
    if not isinstance(value, torch.Tensor):
        value = torch.from_numpy(np.array(value, dtype=np.float64))  # a copy: arrays may be read-only
    if value.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {tuple(value.shape)}; reshape it")
    return value.detach().to(device=device, dtype=torch.float32)


def _placed(name: str, value: Any, ndim: int, scaled: bool = False) -> torch.Tensor:
    """Matrices as float32, float16 or bfloat16 where the kernels run, or an error."""
    interpreted = not isinstance(gathered, triton.JITFunction)
    if not isinstance(value, torch.Tensor):
        if not (interpreted or torch.cuda.is_available()):
            raise ValueError(
                "backend must not be 'triton' here: torch sees no CUDA device; take 'cpu' or 'auto'"
            )
        value = torch.from_numpy(np.array(value, dtype=np.float64)).to("cpu" if interpreted else "cuda")
    if value.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {tuple(value.shape)}; reshape it")
    if not (interpreted or value.is_cuda):
        raise ValueError(f"{name} must be on a CUDA device for Triton, got a tensor on {value.device}; "
                         "move it with .cuda(), or take backend='cpu'")  # fmt: skip
    value = value.detach()
    if value.dtype in FLOATS:
        return value
    if value.dtype != torch.float64:
        raise TypeError(f"{name} must be float, got {value.dtype}; convert it with .float()")
    if scaled and value.numel():
        top = value.abs().amax(tuple(range(1, ndim)), keepdim=True)
        value = value / torch.where(top == 0, 1.0, top)
    return value.to(torch.float32)
