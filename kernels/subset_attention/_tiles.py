"""Triton kernels of subset attention; ``triton.py`` launches them and documents them.

Rows are the queries of all heads that share keys: row r is head ``r // k`` of the group at query
``r % k``, so each tile of keys is read once for the group. Loops are ``while`` loops, so nothing is compiled
anew for another number of keys; offsets are int64; every number is written once, without atomics.
"""

import triton
import triton.language as tl

__all__ = ["attend", "fresh", "queries"]


@triton.jit
def _load(
    base: tl.tensor, at: tl.tensor, inside: tl.tensor, c: tl.tensor, d: tl.tensor, KIND: tl.constexpr
) -> tl.tensor:
    """Rows at offsets `at` as KIND; zeros outside."""
    mask = inside[:, None] & (c[None, :] < d)
    return tl.load(base + at[:, None] + c[None, :], mask=mask, other=0.0).to(KIND)


@triton.jit
def _kept(keep: tl.tensor, j: tl.tensor, n: tl.tensor, MASKED: tl.constexpr) -> tl.tensor:
    """Which keys of a tile are there and valid."""
    inside = j < n
    if MASKED:
        inside = inside & (tl.load(keep + j, mask=inside, other=0) != 0)
    return inside


@triton.jit
def _scores(
    q: tl.tensor,
    k: tl.tensor,
    i: tl.tensor,
    j: tl.tensor,
    live: tl.tensor,
    kept: tl.tensor,
    ACC: tl.constexpr,
    SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
) -> tl.tensor:
    """Scores of rows at indices i and keys at indices j; minus infinity where a row does not see a key."""
    s = tl.dot(q, tl.trans(k), input_precision="ieee", out_dtype=ACC) * SCALE
    seen = live[:, None] & kept[None, :]
    ahead = j[None, :] - i[:, None]
    if CAUSAL:
        seen = seen & (ahead <= 0)
    if WINDOW > 0:
        seen = seen & (ahead < WINDOW) & (ahead > -WINDOW)
    return tl.where(seen, s, float("-inf"))


@triton.jit
def _fold(
    m: tl.tensor,
    total: tl.tensor,
    acc: tl.tensor,
    q: tl.tensor,
    i: tl.tensor,
    live: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    index: tl.tensor,
    keep: tl.tensor,
    n: tl.tensor,
    d: tl.tensor,
    k_j: tl.tensor,
    v_j: tl.tensor,
    KEYS: tl.constexpr,
    HEAD: tl.constexpr,
    KIND: tl.constexpr,
    ACC: tl.constexpr,
    SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    MASKED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Online softmax over one group of keys: largest score, sum and weighted values so far."""
    c = tl.arange(0, HEAD)
    first = tl.full([], 0, tl.int64)
    while first < n:
        at = first + tl.arange(0, KEYS)
        kept = _kept(keep, at, n, MASKED)
        j = tl.load(index + at, mask=at < n, other=0).to(tl.int64)
        keys = _load(k, at * k_j, kept, c, d, KIND)
        s = _scores(q, keys, i, j, live, kept, ACC, SCALE, CAUSAL, WINDOW)
        new = tl.maximum(m, tl.max(s, 1))
        base = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp(s - base[:, None])
        shrink = tl.exp(m - base)
        values = _load(v, at * v_j, kept, c, d, KIND)
        acc = acc * shrink[:, None] + tl.dot(p.to(KIND), values, input_precision="ieee", out_dtype=ACC)
        total = total * shrink + tl.sum(p, 1)
        m = new
        first += KEYS
    return m, total, acc


@triton.jit
def attend(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    k_frozen: tl.tensor,
    v_frozen: tl.tensor,
    at_query: tl.tensor,
    at_fresh: tl.tensor,
    at_frozen: tl.tensor,
    keep_fresh: tl.tensor,
    keep_frozen: tl.tensor,
    out: tl.tensor,
    lse: tl.tensor,
    n: tl.tensor,
    group: tl.tensor,
    shared: tl.tensor,
    F: tl.tensor,
    U: tl.tensor,
    d: tl.tensor,
    q_b: tl.tensor,
    q_h: tl.tensor,
    q_i: tl.tensor,
    k_b: tl.tensor,
    k_h: tl.tensor,
    k_j: tl.tensor,
    v_b: tl.tensor,
    v_h: tl.tensor,
    v_j: tl.tensor,
    fk_b: tl.tensor,
    fk_h: tl.tensor,
    fk_j: tl.tensor,
    fv_b: tl.tensor,
    fv_h: tl.tensor,
    fv_j: tl.tensor,
    aq_b: tl.tensor,
    as_b: tl.tensor,
    af_b: tl.tensor,
    ks_b: tl.tensor,
    kf_b: tl.tensor,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    HEAD: tl.constexpr,
    KIND: tl.constexpr,
    ACC: tl.constexpr,
    SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    KEEP_FRESH: tl.constexpr,
    KEEP_FROZEN: tl.constexpr,
) -> None:
    """Output and logsumexp of one tile of rows."""
    program = tl.program_id(0).to(tl.int64)
    many = tl.full([], 0, tl.int64) + n
    many = many * group
    tiles = tl.cdiv(many, ROWS)
    pair = program // tiles
    b, h = pair // shared, pair % shared
    r = program % tiles * ROWS + tl.arange(0, ROWS)
    live = r < many
    head, place = h * group + r // n, r % n
    c = tl.arange(0, HEAD)
    i = tl.load(at_query + b * aq_b + place, mask=live, other=0).to(tl.int64)
    x = _load(q, b * q_b + head * q_h + place * q_i, live, c, d, KIND)
    m = tl.full([ROWS], float("-inf"), ACC)
    total = tl.zeros([ROWS], ACC)
    acc = tl.zeros([ROWS, HEAD], ACC)
    m, total, acc = _fold(
        m, total, acc, x, i, live, k_frozen + b * fk_b + h * fk_h, v_frozen + b * fv_b + h * fv_h,
        at_frozen + b * af_b, keep_frozen + b * kf_b, U, d, fk_j, fv_j,
        KEYS, HEAD, KIND, ACC, SCALE, CAUSAL, WINDOW, KEEP_FROZEN,
    )  # fmt: skip
    m, total, acc = _fold(
        m, total, acc, x, i, live, k + b * k_b + h * k_h, v + b * v_b + h * v_h,
        at_fresh + b * as_b, keep_fresh + b * ks_b, F, d, k_j, v_j,
        KEYS, HEAD, KIND, ACC, SCALE, CAUSAL, WINDOW, KEEP_FRESH,
    )  # fmt: skip
    none = m == float("-inf")
    total = tl.where(none, 1.0, total)
    row = (b * shared * group + head) * n + place
    kept = live[:, None] & (c[None, :] < d)
    acc = acc / total[:, None]
    tl.store(out + row[:, None] * d + c[None, :], acc.to(out.dtype.element_ty), mask=kept)
    tl.store(lse + row, tl.where(none, 0.0, m + tl.log(total)), mask=live)


@triton.jit
def _pull(
    acc: tl.tensor,
    q: tl.tensor,
    down: tl.tensor,
    level: tl.tensor,
    delta: tl.tensor,
    i: tl.tensor,
    live: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    index: tl.tensor,
    keep: tl.tensor,
    n: tl.tensor,
    d: tl.tensor,
    k_j: tl.tensor,
    v_j: tl.tensor,
    KEYS: tl.constexpr,
    HEAD: tl.constexpr,
    KIND: tl.constexpr,
    ACC: tl.constexpr,
    SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """Add what one group of keys gives to the gradient of the queries."""
    c = tl.arange(0, HEAD)
    first = tl.full([], 0, tl.int64)
    while first < n:
        at = first + tl.arange(0, KEYS)
        kept = _kept(keep, at, n, MASKED)
        j = tl.load(index + at, mask=at < n, other=0).to(tl.int64)
        keys = _load(k, at * k_j, kept, c, d, KIND)
        values = _load(v, at * v_j, kept, c, d, KIND)
        p = tl.exp(_scores(q, keys, i, j, live, kept, ACC, SCALE, CAUSAL, WINDOW) - level[:, None])
        up = tl.dot(down, tl.trans(values), input_precision="ieee", out_dtype=ACC)
        ds = p * (up - delta[:, None]) * SCALE
        acc += tl.dot(ds.to(KIND), keys, input_precision="ieee", out_dtype=ACC)
        first += KEYS
    return acc


@triton.jit
def queries(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    k_frozen: tl.tensor,
    v_frozen: tl.tensor,
    at_query: tl.tensor,
    at_fresh: tl.tensor,
    at_frozen: tl.tensor,
    keep_fresh: tl.tensor,
    keep_frozen: tl.tensor,
    lse: tl.tensor,
    delta: tl.tensor,
    grad: tl.tensor,
    dq: tl.tensor,
    n: tl.tensor,
    group: tl.tensor,
    shared: tl.tensor,
    F: tl.tensor,
    U: tl.tensor,
    d: tl.tensor,
    q_b: tl.tensor,
    q_h: tl.tensor,
    q_i: tl.tensor,
    k_b: tl.tensor,
    k_h: tl.tensor,
    k_j: tl.tensor,
    v_b: tl.tensor,
    v_h: tl.tensor,
    v_j: tl.tensor,
    fk_b: tl.tensor,
    fk_h: tl.tensor,
    fk_j: tl.tensor,
    fv_b: tl.tensor,
    fv_h: tl.tensor,
    fv_j: tl.tensor,
    aq_b: tl.tensor,
    as_b: tl.tensor,
    af_b: tl.tensor,
    ks_b: tl.tensor,
    kf_b: tl.tensor,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    HEAD: tl.constexpr,
    KIND: tl.constexpr,
    ACC: tl.constexpr,
    SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    KEEP_FRESH: tl.constexpr,
    KEEP_FROZEN: tl.constexpr,
) -> None:
    """Gradient of the queries of one tile of rows."""
    program = tl.program_id(0).to(tl.int64)
    many = tl.full([], 0, tl.int64) + n
    many = many * group
    tiles = tl.cdiv(many, ROWS)
    pair = program // tiles
    b, h = pair // shared, pair % shared
    r = program % tiles * ROWS + tl.arange(0, ROWS)
    live = r < many
    head, place = h * group + r // n, r % n
    c = tl.arange(0, HEAD)
    i = tl.load(at_query + b * aq_b + place, mask=live, other=0).to(tl.int64)
    row = (b * shared * group + head) * n + place
    x = _load(q, b * q_b + head * q_h + place * q_i, live, c, d, KIND)
    down = _load(grad, row * d, live, c, d, KIND)
    level = tl.load(lse + row, mask=live, other=0.0)
    lost = tl.load(delta + row, mask=live, other=0.0)
    acc = tl.zeros([ROWS, HEAD], ACC)
    acc = _pull(
        acc, x, down, level, lost, i, live, k_frozen + b * fk_b + h * fk_h, v_frozen + b * fv_b + h * fv_h,
        at_frozen + b * af_b, keep_frozen + b * kf_b, U, d, fk_j, fv_j,
        KEYS, HEAD, KIND, ACC, SCALE, CAUSAL, WINDOW, KEEP_FROZEN,
    )  # fmt: skip
    acc = _pull(
        acc, x, down, level, lost, i, live, k + b * k_b + h * k_h, v + b * v_b + h * v_h,
        at_fresh + b * as_b, keep_fresh + b * ks_b, F, d, k_j, v_j,
        KEYS, HEAD, KIND, ACC, SCALE, CAUSAL, WINDOW, KEEP_FRESH,
    )  # fmt: skip
    kept = live[:, None] & (c[None, :] < d)
    tl.store(dq + row[:, None] * d + c[None, :], acc.to(dq.dtype.element_ty), mask=kept)


@triton.jit
def fresh(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    at_query: tl.tensor,
    at_fresh: tl.tensor,
    keep_fresh: tl.tensor,
    lse: tl.tensor,
    delta: tl.tensor,
    grad: tl.tensor,
    dk: tl.tensor,
    dv: tl.tensor,
    n: tl.tensor,
    group: tl.tensor,
    shared: tl.tensor,
    F: tl.tensor,
    d: tl.tensor,
    q_b: tl.tensor,
    q_h: tl.tensor,
    q_i: tl.tensor,
    k_b: tl.tensor,
    k_h: tl.tensor,
    k_j: tl.tensor,
    v_b: tl.tensor,
    v_h: tl.tensor,
    v_j: tl.tensor,
    aq_b: tl.tensor,
    as_b: tl.tensor,
    ks_b: tl.tensor,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    HEAD: tl.constexpr,
    KIND: tl.constexpr,
    ACC: tl.constexpr,
    SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    KEEP_FRESH: tl.constexpr,
) -> None:
    """Gradients of one tile of fresh keys and values: the sum over all rows that share them."""
    program = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(tl.full([], 0, tl.int64) + F, KEYS)
    many = tl.full([], 0, tl.int64) + n
    many = many * group
    pair = program // tiles
    b, h = pair // shared, pair % shared
    at = program % tiles * KEYS + tl.arange(0, KEYS)
    kept = _kept(keep_fresh + b * ks_b, at, F, KEEP_FRESH)
    c = tl.arange(0, HEAD)
    j = tl.load(at_fresh + b * as_b + at, mask=at < F, other=0).to(tl.int64)
    keys = _load(k, b * k_b + h * k_h + at * k_j, kept, c, d, KIND)
    values = _load(v, b * v_b + h * v_h + at * v_j, kept, c, d, KIND)
    key_sum = tl.zeros([KEYS, HEAD], ACC)
    value_sum = tl.zeros([KEYS, HEAD], ACC)
    first = tl.full([], 0, tl.int64)
    while first < many:
        r = first + tl.arange(0, ROWS)
        live = r < many
        head, place = h * group + r // n, r % n
        i = tl.load(at_query + b * aq_b + place, mask=live, other=0).to(tl.int64)
        row = (b * shared * group + head) * n + place
        x = _load(q, b * q_b + head * q_h + place * q_i, live, c, d, KIND)
        down = _load(grad, row * d, live, c, d, KIND)
        level = tl.load(lse + row, mask=live, other=0.0)
        lost = tl.load(delta + row, mask=live, other=0.0)
        p = tl.exp(_scores(x, keys, i, j, live, kept, ACC, SCALE, CAUSAL, WINDOW) - level[:, None])
        value_sum += tl.dot(tl.trans(p).to(KIND), down, input_precision="ieee", out_dtype=ACC)
        up = tl.dot(down, tl.trans(values), input_precision="ieee", out_dtype=ACC)
        ds = p * (up - lost[:, None]) * SCALE
        key_sum += tl.dot(tl.trans(ds).to(KIND), x, input_precision="ieee", out_dtype=ACC)
        first += ROWS
    to = ((b * shared + h) * F + at)[:, None] * d + c[None, :]
    there = (at < F)[:, None] & (c[None, :] < d)
    tl.store(dk + to, key_sum.to(dk.dtype.element_ty), mask=there)
    tl.store(dv + to, value_sum.to(dv.dtype.element_ty), mask=there)
