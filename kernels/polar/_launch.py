"""Launches of the kernels in ``_tiles.py`` on batches of members (K, r, d), and the polynomials of them."""

import functools
from collections.abc import Sequence

import numpy as np
import torch
import triton

from porism.checks import one_of
from porism.kernels import _device as device
from porism.kernels.polar import _tiles
from porism.kernels.polar._common import Triple

__all__ = ["apply", "gram", "polynomial", "power", "unit_of"]

SMALL = 128  # rows that one program handles alone
FORMS = ("auto", "fused", "split", "tiled")
STEPS = {16: 128, 32: 64, 64: 32, 128: 32}  # columns held at once, by side
WARPS = {16: 4, 32: 8, 64: 8, 128: 16}


def polynomial(
    X: torch.Tensor,
    triples: Sequence[Triple],
    *,
    safety: float = 1.0,
    form: str = "auto",
    precision: str = "ieee",
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Iterate an odd polynomial on members (r, d) by one of three kernels.

    Up to 128 rows in Gram space: ``Q = a I + b M + c M^2; P <- Q P; M <- Q M Q``, then ``P X``.

    Parameters
    ----------
    X : float32, float16 or bfloat16 CUDA tensor, shape (K, r, d)
        Members with any strides.
    triples : sequence of (float, float, float)
        Coefficients of each step, finite.
    safety : float, default 1
        Factor on the norm that X is divided by, positive.
    form : {"auto", "fused", "split", "tiled"}
        "fused" is one launch, one program a member (r <= 128). "split" spreads the columns over programs and
        adds up partial Grams in a second pass (r <= 128). "tiled" iterates on X itself, three launches a
        step. "auto" takes "tiled" above 128 rows, else "split" where members are fewer than processors.
    precision : {"ieee", "tf32"}
        Rounding of the factors of products; TF32 keeps 10 bits and is not available everywhere.
    out : tensor, shape (K, r, d), optional
        Where to write, any strides.

    Returns
    -------
    tensor, shape (K, r, d)
        The last iterate, in the dtype of X or of `out`.

    Notes
    -----
    Polar Express and two Taylor steps against the polar factor, in operator norm: below 2e-5 at condition
    number 10, 5e-4 at 100, and of no use beyond 1e3 in Gram space, where a float32 Gram loses small
    directions. Invariant under scaling of a member: a power of two is taken out of each, exactly.

    Floor for b bytes an entry: "fused" ``3 K r d b`` bytes (X twice, the second time from the cache where a
    member fits), "split" ``4 K r d b`` and its Grams, both ``K (4 r^2 d + 8 steps r^3)`` FLOP; "tiled" steps
    times ``3 K r d b`` bytes and ``K (3 r^2 d + r^3)`` FLOP, with b = 4 after the first step. 256 x 16 x 4096
    in float32, seven steps, are 201 MB and 1.13 GFLOP: bound by bandwidth. Above 32 rows the matrices of a
    member (16 KB each, 64 KB above 64 rows) live in the cache, and above 64 rows some registers spill. Time
    on a GPU: not measured.

    References
    ----------
    N. Amsel et al. (2025), The Polar Express, arXiv:2505.16932.
    """
    K, r, d = X.shape
    steps = _steps(triples)
    one_of("form", form, FORMS)
    one_of("precision", precision, ("ieee", "tf32"))
    if not 0 < safety < float("inf"):
        raise ValueError(f"safety must be positive and finite, got {safety}; 1 keeps the norm")
    if form == "auto":
        form = "tiled" if r > SMALL else "fused" if _processors(X) <= K else "split"
    if form != "tiled" and r > SMALL:
        raise ValueError(f"form must be 'tiled' above {SMALL} rows, got {form!r} for {r} rows")
    if out is None:
        out = torch.empty((K, r, d), dtype=X.dtype, device=X.device)
    if X.numel() == 0:
        return out
    if form == "tiled":
        return _tiled(X, steps, safety, precision, out)
    side = device.side(r, SMALL)
    slots = 1 if side <= _tiles.REGISTERS.value else 4
    work = torch.empty((K, slots, side, side), dtype=torch.float32, device=X.device)
    table = _table(steps, X.device)
    options = {"STEPS": len(steps), "SIDE": side, "SLOTS": slots, "PRECISION": precision}
    if form == "fused":
        chunk = max(STEPS[side], min(512, triton.next_power_of_2(d)))
        with device.current(X):
            _tiles.fused[(K,)](
                X, out, work, table, r, d, *X.stride(), *out.stride(), float(safety),
                STEP=STEPS[side], CHUNK=chunk, num_warps=WARPS[side], **options,
            )  # fmt: skip
        return out
    unit = unit_of(X)
    parts = _partial(X, unit, torch.float32, precision)
    P = torch.empty((K, r, r), dtype=torch.float32, device=X.device)
    with device.current(X):
        _tiles.middle[(K,)](
            parts, P, work, table, r, parts.shape[1], float(safety), num_warps=WARPS[side], **options
        )
    return apply(P, X, unit=unit, out=out, precision=precision)


def gram(
    X: torch.Tensor, *, unit: torch.Tensor | None = None, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """Gram matrices (K, r, r) of the rows of members (K, r, d), ``unit^2 X X'``, in float64 or float32.

    Columns are split in chunks that depend on r only, whose sums are added in their order: the result does
    not depend on the other members. Floor: K r d b bytes, K r^2 d FLOP for b bytes an entry.
    """
    if X.numel() == 0:
        return torch.zeros((*X.shape[:2], X.shape[1]), dtype=dtype, device=X.device)
    parts = _partial(X, unit, dtype, "ieee")
    return parts[:, 0] if parts.shape[1] == 1 else parts.sum(1)


def apply(
    P: torch.Tensor,
    X: torch.Tensor,
    *,
    unit: torch.Tensor | None = None,
    shift: float = 0.0,
    out: torch.Tensor | None = None,
    precision: str = "ieee",
) -> torch.Tensor:
    """Products ``unit (shift X + P X)`` of small matrices P (K, r, r) and members X (K, r, d).

    In float64 where both are, else in float32; written to `out`, which is not X, or in the dtype of X.
    Floor: 2 K r d b bytes, 2 K r^2 d FLOP.
    """
    K, r, d = X.shape
    if out is None:
        out = torch.empty((K, r, d), dtype=X.dtype, device=X.device)
    if X.numel():
        wide = device.wide(X.dtype if X.dtype == P.dtype else torch.float32)
        side, step = device.side(r, 64), 32 if wide == torch.float64 else 64
        with device.current(X):
            _tiles.apply[(K * -(-r // side) * -(-d // step),)](
                P.contiguous(), X, P if unit is None else unit, out, r, d,
                *X.stride(), *out.stride(), float(shift),
                SIDE=side, STEP=step, SPAN=-(-r // 16) * 16, SCALED=unit is not None, SHIFTED=shift != 0,
                ACC=device.TYPES[wide], PRECISION=precision, num_warps=WARPS[side],
            )  # fmt: skip
    return out


def _partial(X: torch.Tensor, unit: torch.Tensor | None, dtype: torch.dtype, precision: str) -> torch.Tensor:
    """Grams of chunks of columns, (K, chunks, r, r)."""
    K, r, d = X.shape
    side = device.side(r, 64)
    size = max(512, 16 * triton.next_power_of_2(r))  # partial Grams then take an eighth of X, or less
    chunks = -(-d // size)
    parts = torch.empty((K, chunks, r, r), dtype=dtype, device=X.device)
    with device.current(X):
        _tiles.gram[(K * chunks * (-(-r // side)) ** 2,)](
            X, parts if unit is None else unit, parts, r, d, chunks, *X.stride(),
            SIDE=side, STEP={16: 64, 32: 32, 64: 16}[side],
            CHUNK=min(size, max(64, triton.next_power_of_2(d))),
            SCALED=unit is not None, ACC=device.TYPES[dtype],
            PRECISION=precision, num_warps=WARPS[side],
        )  # fmt: skip
    return parts


def _tiled(
    X: torch.Tensor, steps: tuple[Triple, ...], safety: float, precision: str, out: torch.Tensor
) -> torch.Tensor:
    """P3: Gram, its polynomial, product; the norm is divided out in the first step."""
    K, r, _ = X.shape
    size = unit_of(X)
    unit: torch.Tensor | None = size
    side = device.side(r, 64)
    for place, (a, b, c) in enumerate(steps or ((1.0, 0.0, 0.0),)):
        M = _partial(X, unit, torch.float32, precision).sum(1)
        if place == 0:
            trace = M.diagonal(dim1=1, dim2=2).sum(1)
            inverse = torch.where(trace == 0, 0.0, 1 / (trace.sqrt() * safety)) + trace * 0.0
            M, unit = M * inverse[:, None, None] ** 2, size * inverse
        B = torch.empty((K, r, r), dtype=torch.float32, device=X.device)
        with device.current(X):
            _tiles.square[(K * (-(-r // side)) ** 2,)](
                M, B, r, float(b), float(c), SIDE=side, SPAN=-(-r // 16) * 16, PRECISION=precision,
                num_warps=WARPS[side],
            )  # fmt: skip
        last = place + 1 >= len(steps)
        new = out if last else torch.empty(tuple(X.shape), dtype=torch.float32, device=X.device)
        X, unit = apply(B, X, unit=unit, shift=a, out=new, precision=precision), None
    return out


def unit_of(X: torch.Tensor) -> torch.Tensor:
    """Powers of two, (K,), that bring the largest entry of each member near 1: an exact division."""
    double = X.dtype == torch.float64
    top = torch.linalg.vector_norm(X, float("inf"), (1, 2), dtype=torch.float64 if double else torch.float32)
    return power(top, 1000 if double else 126)


def power(value: torch.Tensor, limit: int) -> torch.Tensor:
    """The power of two next to 1 / value, between ``2^-limit`` and ``2^limit`` whatever the value."""
    exponent = torch.frexp(torch.nan_to_num(value, nan=1.0)).exponent.clamp(-limit, limit)
    return torch.ldexp(torch.ones_like(value), -exponent)


@functools.lru_cache(maxsize=64)
def _table(steps: tuple[Triple, ...], place: torch.device) -> torch.Tensor:
    """Coefficients beside the matrices, uploaded once."""
    return torch.tensor([*steps, (0.0, 0.0, 0.0)], dtype=torch.float32, device=place)


def _steps(triples: Sequence[Triple]) -> tuple[Triple, ...]:
    """Coefficients as floats."""
    steps = tuple((float(a), float(b), float(c)) for a, b, c in triples)
    if not np.isfinite(np.array(steps)).all():
        raise ValueError(f"triples must be finite, got {steps}; pass (a, b, c) for each step")
    return steps


def _processors(X: torch.Tensor) -> int:
    """Programs that the device of X runs at once, at least."""
    return torch.cuda.get_device_properties(X.device).multi_processor_count if X.is_cuda else 4
