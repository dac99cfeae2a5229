"""Triton path of the value of information: a tile of whole rows a program, psi in float32.

Gaps to the leader are taken in the precision of the means, so means far from zero lose nothing; psi is
``phi(z) - z/2 (1 - erf(z/sqrt 2))``, good to 1e-7 in absolute terms, not relative ones.

Importing this file needs torch and triton; ``porism.kernels.voi`` does so on first use.
"""

from typing import Any

import numpy as np

from porism.checks import one_of, require
from porism.kernels.voi import _inputs

__all__ = ["best", "voi_argmax"]

require("torch", "torch")  # so that a missing package names the extra
require("triton", "torch")

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from porism.kernels import _device as device  # noqa: E402

MAX_WIDTH = 1024  # a row must fit into the registers of a program
CELLS = 2048  # entries of a tile
DENSITY = tl.constexpr(0.3989422804014327)
ROOT = tl.constexpr(0.7071067811865476)


@triton.jit
def _psi(z: tl.tensor) -> tl.tensor:
    z = tl.minimum(z, 40.0)
    return DENSITY * tl.exp(-0.5 * z * z) - 0.5 * z * (1.0 - tl.erf(z * ROOT))


@triton.jit
def best(
    m: tl.tensor,
    nu: tl.tensor,
    c: tl.tensor,
    w: tl.tensor,
    price: tl.tensor,
    done: tl.tensor,
    net: tl.tensor,
    arg: tl.tensor,
    top: tl.tensor,
    gap: tl.tensor,
    n: tl.tensor,
    K: tl.tensor,
    m_q: tl.tensor,
    m_k: tl.tensor,
    outside: tl.tensor,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    MANY: tl.constexpr,
    PRICED: tl.constexpr,
    MARKED: tl.constexpr,
    BY_INDEX: tl.constexpr,
) -> None:
    """Best refinement of ROWS queries; WIDTH is a power of two >= K; MANY: nu, c, w have a row a query."""
    q = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    i = tl.arange(0, WIDTH)[None, :]
    width = tl.full([], 0, tl.int64) + K
    real = (q < n) & (i < K)
    x = tl.load(m + q * m_q + i.to(tl.int64) * m_k, mask=real, other=0.0)
    if x.dtype != tl.float64:
        x = x.to(tl.float32)
    if PRICED:
        x = x - tl.load(price + i, mask=i < K, other=0.0).to(x.dtype)
    bad = tl.max((real & (x != x)).to(tl.int32), 1)[:, None] > 0
    x = tl.where(bad, 0.0, x)
    level = tl.where(i < K, x, float("-inf"))
    first = tl.max(level, 1)[:, None]
    lead = tl.min(tl.where(level == first, i, WIDTH), 1)[:, None]
    second = tl.max(tl.where(i == lead, float("-inf"), level), 1)[:, None]
    none = tl.load(outside + tl.arange(0, 1))[:, None]  # by pointer: numbers are passed in float32
    lead = tl.where(none > first, -1, lead)
    second = tl.maximum(second, tl.minimum(first, none))
    first = tl.maximum(first, none)

    if MANY:
        at = q * width + i
        inside = real
    else:
        at = i
        inside = i < K
    spread = tl.load(nu + at, mask=inside, other=0.0)
    cost = tl.load(c + at, mask=inside, other=0.0)
    half = tl.load(w + at, mask=inside, other=float("-inf"))
    alone = (i == lead) & (second == float("-inf"))  # no second: an infinite gap
    other = tl.where(second == float("-inf"), 0.0, second)
    ahead = tl.where(first == float("-inf"), 0.0, first)
    x = tl.where(x == float("-inf"), 0.0, x)
    d = tl.where(i == lead, x - other, ahead - x)
    d = tl.where(alone | (level == float("-inf")), float("inf"), d).to(tl.float32)
    free = (d < half) & real & (bad == 0)
    if MARKED:
        words = (width + 63) // 64
        word = tl.load(done + q * words + i // 64, mask=real, other=0)
        free = free & (((word >> (i % 64).to(tl.int64)) & 1) == 0)
    z = tl.where(free, d, 0.0) / tl.where(spread > 0.0, spread, 1.0)
    gain = tl.where(free, spread * _psi(z) - cost, float("-inf"))
    key = gain
    if BY_INDEX:
        key = tl.where(free, tl.where(free, x, 0.0).to(tl.float32) + half, float("-inf"))
    most = tl.max(key, 1)[:, None]
    pick = tl.min(tl.where(free & (key == most), i, WIDTH), 1)[:, None]
    value = tl.max(tl.where(i == pick, gain, float("-inf")), 1)[:, None]
    value = tl.maximum(value, 0.0)
    value = tl.where(bad, float("nan"), value)
    lost = tl.where(second == float("-inf"), float("inf"), ahead - other)
    lost = tl.where(bad, float("nan"), lost)
    tl.store(net + q, value, mask=q < n)
    tl.store(arg + q, tl.where(pick == WIDTH, -1, pick), mask=q < n)
    tl.store(top + q, tl.where(bad, -1, lead), mask=q < n)
    tl.store(gap + q, lost, mask=q < n)


def _tile(K: int) -> tuple[int, int]:
    """Rows and width of a tile."""
    width: int = triton.next_power_of_2(K)
    return max(1, CELLS // width), width


def voi_argmax(
    m: Any,
    nu: Any,
    c: Any,
    w: Any,
    *,
    price: Any = None,
    done: Any = None,
    outside: float = -float("inf"),
    rule: str = "net",
) -> tuple[Any, Any, Any, Any]:
    """Pick the refinement of largest net value for each query; see :func:`porism.kernels.voi.voi_argmax`.

    Parameters
    ----------
    m, nu, c, w, price, done, outside, rule
        As there, K <= 1024. Means of float64, float32, float16 or bfloat16; nu, c and w are rounded to
        float32, so within rounding of the edge of a band the decision may differ from that in float64.
        Arrays are copied to the GPU. CPU tensors are taken under ``TRITON_INTERPRET=1`` only.

    Returns
    -------
    tuple of tensors, or of arrays where m is an array
        As there.

    Notes
    -----
    Floor: one read of the means, 16 bytes a query written. Time on a GPU: not measured. Checked in Triton's
    interpreter, and compiled for sm_80 and sm_90.
    """
    one_of("rule", rule, ("net", "index"))
    plain = not isinstance(m, torch.Tensor)
    m = device.placed("m", _inputs.means(m) if plain else m)
    if m.ndim != 2 or m.shape[1] < 1:
        raise ValueError(f"m must have shape (n, K) with K >= 1, got {tuple(m.shape)}; one row a query")
    n, K = m.shape
    if K > MAX_WIDTH:
        raise ValueError(f"m must have at most {MAX_WIDTH} columns for Triton, got {K}; take backend='cpu'")
    like = np.broadcast_to(0.0, (n, K))  # the checks of arguments want to know the shape of the means
    rows = [_inputs.rows(name, value, like) for name, value in (("nu", nu), ("c", c), ("w", w))]
    many = any(len(row) != 1 for row in rows)
    outside = _inputs.below_infinity(outside)

    def send(value: Any, kind: Any) -> torch.Tensor:
        return torch.from_numpy(value).to(device=m.device, dtype=kind)

    spread, cost, half = (send(row, torch.float32).expand(n if many else 1, K).contiguous() for row in rows)
    words, prices = _inputs.masks(done, like), _inputs.money("price", price, like)
    wide = device.wide(m.dtype)
    net, gap = (torch.empty(n, dtype=wide, device=m.device) for _ in range(2))
    arg, top = (torch.empty(n, dtype=torch.int32, device=m.device) for _ in range(2))
    size, width = _tile(K)
    if n:
        with device.current(m):
            best[(triton.cdiv(n, size),)](
                m, spread, cost, half, send(prices, wide), send(words, torch.int64),
                net, arg, top, gap, n, K, m.stride(0), m.stride(1),
                send(np.array([outside]), wide),
                ROWS=size, WIDTH=width, MANY=many, PRICED=price is not None, MARKED=len(words) > 0,
                BY_INDEX=rule == "index", num_warps=4,
            )  # fmt: skip
    out = (net, arg, top, gap)
    return tuple(value.cpu().numpy() for value in out) if plain else out  # type: ignore[return-value]
