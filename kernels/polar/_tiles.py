"""Triton kernels of polar factors; ``triton.py`` checks arguments, launches them and documents them.

P1 is ``fused``; P2 is ``gram``, ``middle`` and ``apply``; P3 repeats ``gram``, ``square`` and ``apply``.
Numbers of programs and offsets are int64. Loops have constant bounds or are ``while`` loops, so nothing is
compiled anew for another length of long rows. ``X`` and ``out`` have any strides; Grams and factors are
dense.
"""

import triton
import triton.language as tl

__all__ = ["apply", "fused", "gram", "middle", "square"]

REGISTERS = tl.constexpr(32)  # largest side whose polynomial stays in registers
DEPTH = tl.constexpr(16)  # terms of a product held at once
EXPONENT = tl.constexpr(0x7F800000)  # bits of the exponent of a float32
LEAST = tl.constexpr(1 << 23)  # bits of 2^-126
MOST = tl.constexpr(253 << 23)  # bits of 2^126
ONE = tl.constexpr(127 << 23)  # bits of 1
TWICE = tl.constexpr(254 << 23)  # less the bits of a power of two: those of its inverse


@triton.jit
def _product(left: tl.tensor, right: tl.tensor, SIDE: tl.constexpr, PRECISION: tl.constexpr) -> tl.tensor:
    """``left @ right`` for dense matrices in memory, a few columns at a time."""
    i = tl.arange(0, SIDE).to(tl.int64)
    total = tl.zeros([SIDE, SIDE], tl.float32)
    for first in range(0, SIDE, DEPTH):
        k = first + tl.arange(0, DEPTH).to(tl.int64)
        columns = tl.load(left + i[:, None] * SIDE + k[None, :])
        rows = tl.load(right + k[:, None] * SIDE + i[None, :])
        total += tl.dot(columns, rows, input_precision=PRECISION)
    return total


@triton.jit
def _in_registers(
    M: tl.tensor, triples: tl.tensor, STEPS: tl.constexpr, SIDE: tl.constexpr, PRECISION: tl.constexpr
) -> tl.tensor:
    """P with ``P X`` the iterate after all steps from X, where ``M = X X'``; M and P stay symmetric."""
    i = tl.arange(0, SIDE)
    unit = (i[:, None] == i[None, :]).to(tl.float32)
    P = unit
    for _ in range(STEPS):
        a, b, c = tl.load(triples), tl.load(triples + 1), tl.load(triples + 2)
        triples += 3
        Q = a * unit + b * M + c * tl.dot(M, M, input_precision=PRECISION)
        P = tl.dot(Q, P, input_precision=PRECISION)
        P = 0.5 * (P + tl.trans(P))
        M = tl.dot(tl.dot(Q, M, input_precision=PRECISION), Q, input_precision=PRECISION)
        M = 0.5 * (M + tl.trans(M))
    return P


@triton.jit
def _in_memory(
    M: tl.tensor,
    work: tl.tensor,
    triples: tl.tensor,
    STEPS: tl.constexpr,
    SIDE: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """The same with M, P, Q and Q M in ``work``: 128 rows do not fit into registers.

    Only this program touches its ``work``, and a barrier parts each write from the reads by other threads.
    """
    i = tl.arange(0, SIDE).to(tl.int64)
    at = i[:, None] * SIDE + i[None, :]
    unit = (i[:, None] == i[None, :]).to(tl.float32)
    P, Q, R = work + SIDE * SIDE, work + 2 * SIDE * SIDE, work + 3 * SIDE * SIDE
    tl.store(work + at, M)
    tl.store(P + at, unit)
    tl.debug_barrier()
    for _ in range(STEPS):
        a, b, c = tl.load(triples), tl.load(triples + 1), tl.load(triples + 2)
        triples += 3
        tl.store(Q + at, a * unit + b * tl.load(work + at) + c * _product(work, work, SIDE, PRECISION))
        tl.debug_barrier()
        tl.store(R + at, _product(Q, work, SIDE, PRECISION))
        new = _product(Q, P, SIDE, PRECISION)
        tl.debug_barrier()
        tl.store(P + at, 0.5 * (new + tl.trans(new)))
        new = _product(R, Q, SIDE, PRECISION)
        tl.store(work + at, 0.5 * (new + tl.trans(new)))
        tl.debug_barrier()
    return tl.load(P + at)


@triton.jit
def _factor(
    M: tl.tensor,
    work: tl.tensor,
    triples: tl.tensor,
    safety: tl.tensor,
    STEPS: tl.constexpr,
    SIDE: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """P of ``X / (norm of X * safety)`` divided by that norm; zeros where X is zero."""
    i = tl.arange(0, SIDE)
    trace = tl.sum(tl.sum(tl.where(i[:, None] == i[None, :], M, 0.0), 1), 0)
    inverse = 1.0 / (tl.sqrt_rn(tl.where(trace > 0, trace, 1.0)) * safety)
    inverse += trace * 0.0  # NaN where the member is not finite
    M = M * inverse * inverse
    if SIDE <= REGISTERS:
        P = _in_registers(M, triples, STEPS, SIDE, PRECISION)
    else:
        P = _in_memory(M, work, triples, STEPS, SIDE, PRECISION)
    return P * inverse


@triton.jit
def fused(
    X: tl.tensor,
    out: tl.tensor,
    work: tl.tensor,
    triples: tl.tensor,
    r: tl.tensor,
    d: tl.tensor,
    X_k: tl.tensor,
    X_r: tl.tensor,
    X_c: tl.tensor,
    O_k: tl.tensor,
    O_r: tl.tensor,
    O_c: tl.tensor,
    safety: tl.tensor,
    STEPS: tl.constexpr,
    SIDE: tl.constexpr,
    STEP: tl.constexpr,
    CHUNK: tl.constexpr,
    SLOTS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """P1, one matrix a program: Gram, polynomial, product.

    The Gram is that of X over a power of two near its largest entry so far; it is rescaled, exactly, as
    that grows.
    """
    b = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, SIDE).to(tl.int64)
    work += b * (SLOTS * SIDE * SIDE)
    M = tl.zeros([SIDE, SIDE], tl.float32)
    bits = tl.full([], LEAST, tl.int32)
    first = tl.full([], 0, tl.int64)
    while first < d:
        for step in range(0, CHUNK, STEP):
            j = first + step + tl.arange(0, STEP)
            inside = (i[:, None] < r) & (j[None, :] < d)
            x = tl.load(X + b * X_k + i[:, None] * X_r + j[None, :] * X_c, mask=inside, other=0.0)
            x = x.to(tl.float32)
            top = tl.max(tl.max(tl.abs(x), 1), 0)
            new = tl.maximum(bits, tl.minimum(top.to(tl.int32, bitcast=True) & EXPONENT, MOST))
            fall = tl.maximum(bits - new + ONE, 0).to(tl.float32, bitcast=True)
            x = x * (-new + TWICE).to(tl.float32, bitcast=True)
            M = M * (fall * fall) + tl.dot(x, tl.trans(x), input_precision=PRECISION)
            bits = new
        first += CHUNK
    P = _factor(M, work, triples, safety, STEPS, SIDE, PRECISION)
    tl.store(work + i[:, None] * SIDE + i[None, :], P)
    tl.debug_barrier()
    unit = (-bits + TWICE).to(tl.float32, bitcast=True)
    first = tl.full([], 0, tl.int64)
    while first < d:
        j = first + tl.arange(0, STEP)
        total = tl.zeros([SIDE, STEP], tl.float32)
        for start in range(0, SIDE, DEPTH):
            k = start + tl.arange(0, DEPTH).to(tl.int64)
            p = tl.load(work + i[:, None] * SIDE + k[None, :])
            inside = (k[:, None] < r) & (j[None, :] < d)
            x = tl.load(X + b * X_k + k[:, None] * X_r + j[None, :] * X_c, mask=inside, other=0.0)
            total += tl.dot(p, x.to(tl.float32) * unit, input_precision=PRECISION)
        inside = (i[:, None] < r) & (j[None, :] < d)
        total = total.to(out.dtype.element_ty)
        tl.store(out + b * O_k + i[:, None] * O_r + j[None, :] * O_c, total, mask=inside)
        first += STEP


@triton.jit
def gram(
    X: tl.tensor,
    unit: tl.tensor,
    parts: tl.tensor,
    r: tl.tensor,
    d: tl.tensor,
    chunks: tl.tensor,
    X_k: tl.tensor,
    X_r: tl.tensor,
    X_c: tl.tensor,
    SIDE: tl.constexpr,
    STEP: tl.constexpr,
    CHUNK: tl.constexpr,
    SCALED: tl.constexpr,
    ACC: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """``parts[b, chunk]``: a tile on or below the diagonal of the Gram of some columns, and its mirror."""
    program = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(r, SIDE)
    left, upper = program % tiles, program // tiles % tiles
    part = program // tiles // tiles
    b, chunk = part // chunks, part % chunks
    if left <= upper:
        i, j = upper * SIDE + tl.arange(0, SIDE), left * SIDE + tl.arange(0, SIDE)
        total = tl.zeros([SIDE, SIDE], ACC)
        scale = tl.load(unit + b) if SCALED else 1.0
        for first in range(0, CHUNK, STEP):
            c = chunk * CHUNK + first + tl.arange(0, STEP)
            inside = (i[:, None] < r) & (c[None, :] < d)
            x = tl.load(X + b * X_k + i[:, None] * X_r + c[None, :] * X_c, mask=inside, other=0.0).to(ACC)
            inside = (c[:, None] < d) & (j[None, :] < r)
            y = tl.load(X + b * X_k + j[None, :] * X_r + c[:, None] * X_c, mask=inside, other=0.0).to(ACC)
            total += tl.dot(x * scale, y * scale, input_precision=PRECISION, out_dtype=ACC)
        inside = (i[:, None] < r) & (j[None, :] < r)
        tl.store(parts + (part * r + i[:, None]) * r + j[None, :], total, mask=inside)
        inside = inside & (j[None, :] < i[:, None])
        tl.store(parts + (part * r + j[None, :]) * r + i[:, None], total, mask=inside)


@triton.jit
def middle(
    parts: tl.tensor,
    out: tl.tensor,
    work: tl.tensor,
    triples: tl.tensor,
    r: tl.tensor,
    chunks: tl.tensor,
    safety: tl.tensor,
    STEPS: tl.constexpr,
    SIDE: tl.constexpr,
    SLOTS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """Second pass of P2, one matrix a program: partial Grams added up in their order, then the polynomial."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, SIDE).to(tl.int64)
    at = i[:, None] * r + i[None, :]
    inside = (i[:, None] < r) & (i[None, :] < r)
    M = tl.zeros([SIDE, SIDE], tl.float32)
    chunk = tl.full([], 0, tl.int64)
    while chunk < chunks:
        M += tl.load(parts + (b * chunks + chunk) * r * r + at, mask=inside, other=0.0)
        chunk += 1
    P = _factor(M, work + b * (SLOTS * SIDE * SIDE), triples, safety, STEPS, SIDE, PRECISION)
    tl.store(out + b * r * r + at, P, mask=inside)


@triton.jit
def square(
    M: tl.tensor,
    out: tl.tensor,
    r: tl.tensor,
    linear: tl.tensor,
    quadratic: tl.tensor,
    SIDE: tl.constexpr,
    SPAN: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """``linear M + quadratic M M`` for symmetric M: a tile on or below the diagonal, and its mirror image."""
    program = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(r, SIDE)
    left, upper, b = program % tiles, program // tiles % tiles, program // tiles // tiles
    if left <= upper:
        i, j = upper * SIDE + tl.arange(0, SIDE), left * SIDE + tl.arange(0, SIDE)
        total = tl.zeros([SIDE, SIDE], tl.float32)
        for first in range(0, SPAN, DEPTH):
            k = first + tl.arange(0, DEPTH).to(tl.int64)
            inside = (i[:, None] < r) & (k[None, :] < r)
            x = tl.load(M + (b * r + i[:, None]) * r + k[None, :], mask=inside, other=0.0)
            inside = (k[:, None] < r) & (j[None, :] < r)
            y = tl.load(M + (b * r + k[:, None]) * r + j[None, :], mask=inside, other=0.0)
            total += tl.dot(x, y, input_precision=PRECISION)
        inside = (i[:, None] < r) & (j[None, :] < r)
        own = tl.load(M + (b * r + i[:, None]) * r + j[None, :], mask=inside, other=0.0)
        total = linear * own + quadratic * total
        tl.store(out + (b * r + i[:, None]) * r + j[None, :], total, mask=inside)
        inside = inside & (j[None, :] < i[:, None])
        tl.store(out + (b * r + j[None, :]) * r + i[:, None], total, mask=inside)


@triton.jit
def apply(
    P: tl.tensor,
    X: tl.tensor,
    unit: tl.tensor,
    out: tl.tensor,
    r: tl.tensor,
    d: tl.tensor,
    X_k: tl.tensor,
    X_r: tl.tensor,
    X_c: tl.tensor,
    O_k: tl.tensor,
    O_r: tl.tensor,
    O_c: tl.tensor,
    shift: tl.tensor,
    SIDE: tl.constexpr,
    STEP: tl.constexpr,
    SPAN: tl.constexpr,
    SCALED: tl.constexpr,
    SHIFTED: tl.constexpr,
    ACC: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """One tile of ``unit (shift X + P X)``; tiles of rows vary fastest: columns of X stay in the cache."""
    program = tl.program_id(0).to(tl.int64)
    rows, columns = tl.cdiv(r, SIDE), tl.cdiv(d, STEP)
    i = program % rows * SIDE + tl.arange(0, SIDE)
    j = program // rows % columns * STEP + tl.arange(0, STEP)
    b = program // rows // columns
    scale = tl.load(unit + b) if SCALED else 1.0
    total = tl.zeros([SIDE, STEP], ACC)
    for first in range(0, SPAN, DEPTH):
        k = first + tl.arange(0, DEPTH).to(tl.int64)
        inside = (i[:, None] < r) & (k[None, :] < r)
        p = tl.load(P + (b * r + i[:, None]) * r + k[None, :], mask=inside, other=0.0).to(ACC)
        inside = (k[:, None] < r) & (j[None, :] < d)
        x = tl.load(X + b * X_k + k[:, None] * X_r + j[None, :] * X_c, mask=inside, other=0.0).to(ACC)
        total += tl.dot(p, x * scale, input_precision=PRECISION, out_dtype=ACC)
    inside = (i[:, None] < r) & (j[None, :] < d)
    if SHIFTED:
        x = tl.load(X + b * X_k + i[:, None] * X_r + j[None, :] * X_c, mask=inside, other=0.0).to(ACC)
        total += shift * (x * scale)
    total = total.to(out.dtype.element_ty)
    tl.store(out + b * O_k + i[:, None] * O_r + j[None, :] * O_c, total, mask=inside)
