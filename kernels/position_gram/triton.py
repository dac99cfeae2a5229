"""Triton path of the position Gram: one tile of examples a program, over all positions or for one.

Two products of a tile run over features, their entrywise product joins a sum with Kahan's compensation, and
tiles on and below the diagonal are written twice, once mirrored. Products of float32 are exact to float32
(``input_precision="ieee"``); runs repeat bit for bit.

Importing this file needs torch and triton; ``porism.kernels.position_gram`` does so on first use.
"""

from typing import Any

from porism.checks import require

__all__ = ["gram", "position_gram"]

require("torch", "torch")  # so that a missing package names the extra
require("triton", "torch")

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from porism.kernels import _device as device  # noqa: E402

SIDE, DEPTH, WARPS = 32, 32, 4  # examples on a side of a tile, features held at once


@triton.jit
def _products(
    x: tl.tensor,
    i: tl.tensor,
    j: tl.tensor,
    N: tl.tensor,
    d: tl.tensor,
    x_n: tl.tensor,
    x_d: tl.tensor,
    SIDE: tl.constexpr,
    DEPTH: tl.constexpr,
    KIND: tl.constexpr,
    ACC: tl.constexpr,
) -> tl.tensor:
    """Scalar products of examples i and j at one position."""
    total = tl.zeros([SIDE, SIDE], ACC)
    first = tl.full([], 0, tl.int64)
    while first < d:
        c = first + tl.arange(0, DEPTH)
        inside = (i[:, None] < N) & (c[None, :] < d)
        left = tl.load(x + i[:, None] * x_n + c[None, :] * x_d, mask=inside, other=0.0).to(KIND)
        inside = (j[:, None] < N) & (c[None, :] < d)
        right = tl.load(x + j[:, None] * x_n + c[None, :] * x_d, mask=inside, other=0.0).to(KIND)
        total += tl.dot(left, tl.trans(right), input_precision="ieee", out_dtype=ACC)
        first += DEPTH
    return total


@triton.jit
def gram(
    x: tl.tensor,
    g: tl.tensor,
    out: tl.tensor,
    N: tl.tensor,
    T: tl.tensor,
    span: tl.tensor,
    d_i: tl.tensor,
    d_o: tl.tensor,
    x_n: tl.tensor,
    x_t: tl.tensor,
    x_d: tl.tensor,
    g_n: tl.tensor,
    g_t: tl.tensor,
    g_d: tl.tensor,
    SIDE: tl.constexpr,
    DEPTH: tl.constexpr,
    KIND: tl.constexpr,
    ACC: tl.constexpr,
) -> None:
    """One tile of the sum over `span` positions; programs above the diagonal end at once."""
    program = tl.program_id(0).to(tl.int64)
    wide = tl.full([], 0, tl.int64)
    tiles = (wide + N + SIDE - 1) // SIDE
    left, upper = program % tiles, program // tiles % tiles
    group = program // tiles // tiles
    if left <= upper:
        i, j = upper * SIDE + tl.arange(0, SIDE), left * SIDE + tl.arange(0, SIDE)
        total = tl.zeros([SIDE, SIDE], ACC)
        lost = tl.zeros([SIDE, SIDE], ACC)
        t = group * span
        end = tl.minimum(t + span, wide + T)
        while t < end:
            a = _products(x + t * x_t, i, j, N, d_i, x_n, x_d, SIDE, DEPTH, KIND, ACC)
            b = _products(g + t * g_t, i, j, N, d_o, g_n, g_d, SIDE, DEPTH, KIND, ACC)
            part = a * b - lost
            new = total + part
            lost = (new - total) - part
            total = new
            t += 1
        lower = (i[:, None] < N) & (j[None, :] <= i[:, None])
        row = group * N * N
        tl.store(out + row + i[:, None] * N + j[None, :], total, mask=lower)
        tl.store(out + row + j[None, :] * N + i[:, None], total, mask=lower)


def position_gram(x: Any, g: Any, per_position: bool, chunk: int) -> Any:
    """The Gram of checked arguments; see :func:`porism.kernels.position_gram.position_gram`."""
    plain = not isinstance(x, torch.Tensor)
    x, g = device.placed("inputs", x), device.placed("grads", g)
    each = torch.promote_types(x.dtype, g.dtype)
    x, g = x.to(each), g.to(each)
    N, T, d = x.shape
    out = torch.empty((T, N, N) if per_position else (N, N), dtype=device.wide(each), device=x.device)
    tiles = triton.cdiv(N, SIDE)
    if out.numel():
        with device.current(x):
            gram[(tiles * tiles * (T if per_position else 1),)](
                x, g, out, N, T, 1 if per_position else T, d, g.shape[2], *x.stride(), *g.stride(),
                SIDE=SIDE, DEPTH=DEPTH, KIND=device.product_type(each), ACC=device.TYPES[out.dtype],
                num_warps=WARPS,
            )  # fmt: skip
    return out.cpu().numpy() if plain else out
