"""Triton kernels of the pattern costs; ``triton.py`` checks arguments, launches them and documents them.

Every sum over tiles is compensated or kept in float64. Numbers of programs and offsets are int64.
Loops run to a constant ``SPAN``, the length rounded up to whole tiles, so a kernel is compiled once for each.
"""

import triton
import triton.language as tl

__all__ = ["diagonal", "gathered", "outside", "prefixes", "streamed", "swaps"]


@triton.jit
def _add(total: tl.tensor, lost: tl.tensor, part: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Compensated ``total + part``; ``lost`` is what the last addition rounded off, negated."""
    part = part - lost
    new = total + part
    return new, (new - total) - part


@triton.jit
def gathered(
    A: tl.tensor,
    q: tl.tensor,
    W: tl.tensor,
    out: tl.tensor,
    m: tl.tensor,
    n: tl.tensor,
    A_b: tl.tensor,
    A_r: tl.tensor,
    A_c: tl.tensor,
    W_i: tl.tensor,
    W_j: tl.tensor,
    SIDE: tl.constexpr,
    DEPTH: tl.constexpr,
    SPAN: tl.constexpr,
) -> None:
    """One tile of ``C[b] = (A[b][:, q[b]] squared) W'``; positions vary fastest: rows stay in the cache."""
    program = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(m, SIDE)
    i = program % tiles * SIDE + tl.arange(0, SIDE)
    r = program // tiles % tiles * SIDE + tl.arange(0, SIDE)
    b = program // tiles // tiles
    total = tl.zeros([SIDE, SIDE], tl.float32)
    lost = tl.zeros([SIDE, SIDE], tl.float32)
    for first in range(0, SPAN, DEPTH):
        j = (first + tl.arange(0, DEPTH)).to(tl.int64)
        column = tl.load(q + b * n + j, mask=j < n, other=0)
        inside = (r[:, None] < m) & (j[None, :] < n)
        a = tl.load(A + b * A_b + r[:, None] * A_r + column[None, :] * A_c, mask=inside, other=0.0)
        a = a.to(tl.float32)
        inside = (j[:, None] < n) & (i[None, :] < m)
        w = tl.load(W + i[None, :] * W_i + j[:, None] * W_j, mask=inside, other=0.0)
        total, lost = _add(total, lost, tl.dot(a * a, w, input_precision="ieee"))
    inside = (r[:, None] < m) & (i[None, :] < m)
    tl.store(out + (b * m + r[:, None]) * m + i[None, :], total, mask=inside)


@triton.jit
def prefixes(
    A: tl.tensor,
    q: tl.tensor,
    sums: tl.tensor,
    m: tl.tensor,
    n: tl.tensor,
    A_b: tl.tensor,
    A_r: tl.tensor,
    A_c: tl.tensor,
    STEP: tl.constexpr,
    SPAN: tl.constexpr,
) -> None:
    """``sums[b, r, j]``: squares of a row at positions before j, in float64."""
    row = tl.program_id(0).to(tl.int64)
    b, r = row // m, row % m
    carry = tl.zeros([], tl.float64)
    tl.store(sums + row * (n + 1), carry)
    for first in range(0, SPAN, STEP):
        j = (first + tl.arange(0, STEP)).to(tl.int64)
        column = tl.load(q + b * n + j, mask=j < n, other=0)
        a = tl.load(A + b * A_b + r * A_r + column * A_c, mask=j < n, other=0.0).to(tl.float64)
        tl.store(sums + row * (n + 1) + j + 1, carry + tl.cumsum(a * a, 0), mask=j < n)
        carry += tl.sum(a * a, 0)


@triton.jit
def outside(
    sums: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    out: tl.tensor,
    m: tl.tensor,
    n: tl.tensor,
    STEP: tl.constexpr,
    SPAN: tl.constexpr,
) -> None:
    """One row of C from its prefix sums: what lies before ``low[i]`` and from ``high[i]`` on."""
    row = tl.program_id(0).to(tl.int64)
    whole = tl.load(sums + row * (n + 1) + n)
    for first in range(0, SPAN, STEP):
        i = (first + tl.arange(0, STEP)).to(tl.int64)
        before = tl.load(sums + row * (n + 1) + tl.load(low + i, mask=i < m, other=0), mask=i < m, other=0.0)
        upto = tl.load(sums + row * (n + 1) + tl.load(high + i, mask=i < m, other=0), mask=i < m, other=0.0)
        cost = before + tl.maximum(whole - upto, 0.0)
        tl.store(out + row * m + i, cost.to(tl.float32), mask=i < m)


@triton.jit
def diagonal(
    B: tl.tensor,
    W: tl.tensor,
    p: tl.tensor,
    out: tl.tensor,
    n: tl.tensor,
    B_i: tl.tensor,
    B_j: tl.tensor,
    W_i: tl.tensor,
    W_j: tl.tensor,
    SIDE: tl.constexpr,
    DEPTH: tl.constexpr,
    SPAN: tl.constexpr,
) -> None:
    """``g[a] = sum_c W[a, c] P[a, c] + W[c, a] P[c, a]`` with ``P[i, j] = B[p[i], p[j]]``."""
    a = tl.program_id(0).to(tl.int64) * SIDE + tl.arange(0, SIDE)
    source = tl.load(p + a, mask=a < n, other=0)
    total = tl.zeros([SIDE], tl.float32)
    lost = tl.zeros([SIDE], tl.float32)
    for first in range(0, SPAN, DEPTH):
        c = (first + tl.arange(0, DEPTH)).to(tl.int64)
        other = tl.load(p + c, mask=c < n, other=0)
        inside = (a[:, None] < n) & (c[None, :] < n)
        w = tl.load(W + a[:, None] * W_i + c[None, :] * W_j, mask=inside, other=0.0)
        b = tl.load(B + source[:, None] * B_i + other[None, :] * B_j, mask=inside, other=0.0)
        total, lost = _add(total, lost, tl.sum(w * b, 1))
        w = tl.load(W + c[None, :] * W_i + a[:, None] * W_j, mask=inside, other=0.0)
        b = tl.load(B + other[None, :] * B_i + source[:, None] * B_j, mask=inside, other=0.0)
        total, lost = _add(total, lost, tl.sum(w * b, 1))
    tl.store(out + a, total, mask=a < n)


@triton.jit
def _exchange(
    X: tl.tensor, a: tl.tensor, b: tl.tensor, i: tl.tensor, j: tl.tensor, live: tl.tensor
) -> tl.tensor:
    """``X[a, a] + X[b, b] - X[a, b] - X[b, a]`` on a tile, with strides i and j."""
    same = tl.load(X + a * (i + j), mask=live, other=0.0) + tl.load(X + b * (i + j), mask=live, other=0.0)
    cross = tl.load(X + a * i + b * j, mask=live, other=0.0) + tl.load(
        X + b * i + a * j, mask=live, other=0.0
    )
    return same - cross


@triton.jit
def swaps(
    B: tl.tensor,
    W: tl.tensor,
    p: tl.tensor,
    g: tl.tensor,
    out: tl.tensor,
    n: tl.tensor,
    B_i: tl.tensor,
    B_j: tl.tensor,
    W_i: tl.tensor,
    W_j: tl.tensor,
    SIDE: tl.constexpr,
    DEPTH: tl.constexpr,
    SPAN: tl.constexpr,
) -> None:
    """One tile of the differences on or above the diagonal and its mirror image; G never leaves registers."""
    program = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(n, SIDE)
    upper, left = program // tiles, program % tiles
    if upper <= left:
        a = upper * SIDE + tl.arange(0, SIDE)
        b = left * SIDE + tl.arange(0, SIDE)
        at, bt = tl.load(p + a, mask=a < n, other=0), tl.load(p + b, mask=b < n, other=0)
        total = tl.zeros([SIDE, SIDE], tl.float32)
        lost = tl.zeros([SIDE, SIDE], tl.float32)
        for first in range(0, SPAN, DEPTH):
            c = (first + tl.arange(0, DEPTH)).to(tl.int64)
            ct = tl.load(p + c, mask=c < n, other=0)
            rows = (a[:, None] < n) & (c[None, :] < n)
            columns = (c[:, None] < n) & (b[None, :] < n)
            x = tl.load(W + a[:, None] * W_i + c[None, :] * W_j, mask=rows, other=0.0)
            y = tl.load(B + bt[None, :] * B_i + ct[:, None] * B_j, mask=columns, other=0.0)
            total, lost = _add(total, lost, tl.dot(x, y, input_precision="ieee"))
            x = tl.load(W + c[None, :] * W_i + a[:, None] * W_j, mask=rows, other=0.0)
            y = tl.load(B + ct[:, None] * B_i + bt[None, :] * B_j, mask=columns, other=0.0)
            total, lost = _add(total, lost, tl.dot(x, y, input_precision="ieee"))
            x = tl.load(B + at[:, None] * B_i + ct[None, :] * B_j, mask=rows, other=0.0)
            y = tl.load(W + b[None, :] * W_i + c[:, None] * W_j, mask=columns, other=0.0)
            total, lost = _add(total, lost, tl.dot(x, y, input_precision="ieee"))
            x = tl.load(B + ct[None, :] * B_i + at[:, None] * B_j, mask=rows, other=0.0)
            y = tl.load(W + c[:, None] * W_i + b[None, :] * W_j, mask=columns, other=0.0)
            total, lost = _add(total, lost, tl.dot(x, y, input_precision="ieee"))
        live = (a[:, None] < n) & (b[None, :] < n)
        own = tl.load(g + a, mask=a < n, other=0.0)[:, None] + tl.load(g + b, mask=b < n, other=0.0)[None, :]
        both = _exchange(W, a[:, None], b[None, :], W_i, W_j, live)
        both = both * _exchange(B, at[:, None], bt[None, :], B_i, B_j, live)
        change = tl.where(a[:, None] == b[None, :], 0.0, (total - own - lost) + both)
        tl.store(out + a[:, None] * n + b[None, :], change, mask=live & (a[:, None] <= b[None, :]))
        tl.store(out + b[None, :] * n + a[:, None], change, mask=live & (a[:, None] < b[None, :]))


@triton.jit
def streamed(
    A: tl.tensor,
    masks: tl.tensor,
    beyond: tl.tensor,
    null: tl.tensor,
    mass: tl.tensor,
    heads: tl.tensor,
    kinds: tl.tensor,
    m: tl.tensor,
    n: tl.tensor,
    A_h: tl.tensor,
    A_i: tl.tensor,
    A_j: tl.tensor,
    S_k: tl.tensor,
    S_i: tl.tensor,
    S_j: tl.tensor,
    CAUSAL: tl.constexpr,
    SQUARED: tl.constexpr,
    ROWS: tl.constexpr,
    HEADS: tl.constexpr,
    KINDS: tl.constexpr,
    STEP: tl.constexpr,
    SPAN: tl.constexpr,
) -> None:
    """Mass outside the masks, its mean over shuffles and the mass, of a tile of heads in some rows.

    Each tile is divided by its largest entry before the product and multiplied back in float64.
    """
    program = tl.program_id(0).to(tl.int64)
    across, down = tl.cdiv(kinds, KINDS), tl.cdiv(heads, HEADS)
    k = program % across * KINDS + tl.arange(0, KINDS)
    h = program // across % down * HEADS + tl.arange(0, HEADS)
    chunk = program // across // down
    out = tl.zeros([HEADS, KINDS], tl.float64)
    mean = tl.zeros([HEADS, KINDS], tl.float64)
    whole = tl.zeros([HEADS], tl.float64)
    for step in range(ROWS):
        i = chunk * ROWS + step
        row = tl.zeros([HEADS], tl.float64)
        share = tl.zeros([KINDS], tl.float64)
        for first in range(0, SPAN, STEP):
            j = (first + tl.arange(0, STEP)).to(tl.int64)
            inside = (h[:, None] < heads) & (j[None, :] < n) & (i < m)
            x = tl.load(A + h[:, None] * A_h + i * A_i + j[None, :] * A_j, mask=inside, other=0.0)
            x = tl.abs(x.to(tl.float32))
            top = tl.max(x, 1)
            x = x / tl.where(top == 0, 1.0, top)[:, None]
            unit = top.to(tl.float64)
            if SQUARED:
                x = x * x
                unit = unit * unit
            inside = (k[None, :] < kinds) & (j[:, None] < n) & (i < m)
            w = tl.load(masks + k[None, :] * S_k + i * S_i + j[:, None] * S_j, mask=inside, other=1.0)
            w = (1.0 - w) * (1.0 - w)
            out += tl.dot(x, w, input_precision="ieee").to(tl.float64) * unit[:, None]
            row += tl.sum(x, 1).to(tl.float64) * unit
            if CAUSAL:
                w = tl.where(j[:, None] <= i, w, 0.0)
            share += tl.sum(w, 0).to(tl.float64)
        cells = tl.minimum(i + 1, n) if CAUSAL else i * 0 + n
        mean += row[:, None] * (share / cells.to(tl.float64))[None, :]
        whole += row
    inside = (h[:, None] < heads) & (k[None, :] < kinds)
    at = (chunk * heads + h[:, None]) * kinds + k[None, :]
    tl.store(beyond + at, out, mask=inside)
    tl.store(null + at, mean, mask=inside)
    tl.store(mass + chunk * heads + h, whole, mask=(h < heads) & (program % across == 0))
