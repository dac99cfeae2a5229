"""Triton path of the token Gram: a tile of the lower triangle a program, rows gathered as it goes.

Products of float32 tiles are exact to float32 (``input_precision="ieee"``: TF32 would keep 10 bits), partial
sums are added with Kahan's compensation, and every number is written once, without atomics: runs repeat bit
for bit. The columns of ones and of classes are made in registers.

Importing this file needs torch and triton; ``porism.kernels.moments`` does so on first use.
"""

from typing import Any

import numpy as np

from porism.checks import require

__all__ = ["gram", "token_gram"]

require("torch", "torch")  # so that a missing package names the extra
require("triton", "torch")

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from porism.kernels import _device as device  # noqa: E402
from porism.kernels._arrays import same_device  # noqa: E402

SIDE, ROWS, WARPS = 64, 16, 8  # side of a tile, samples held at once


@triton.jit
def _columns(
    h: tl.tensor,
    shift: tl.tensor,
    b: tl.tensor,
    at: tl.tensor,
    label: tl.tensor,
    j: tl.tensor,
    D: tl.tensor,
    h_b: tl.tensor,
    h_l: tl.tensor,
    h_d: tl.tensor,
    ACC: tl.constexpr,
) -> tl.tensor:
    """Columns j of the rows of samples b; zeros where a sample is skipped or a column is not there."""
    real = at >= 0
    inside = real[:, None] & (j[None, :] < D)
    place = b[:, None] * h_b + at[:, None] * h_l + j[None, :] * h_d
    x = tl.load(h + place, mask=inside, other=0.0).to(ACC)
    x = tl.where(inside, x - tl.load(shift + j, mask=j < D, other=0.0)[None, :], 0.0)
    made = (j[None, :] == D) | ((j[None, :] > D) & (label[:, None] == j[None, :] - D - 1))
    return tl.where(made & real[:, None], 1.0, x).to(ACC)


@triton.jit
def gram(
    h: tl.tensor,
    index: tl.tensor,
    shift: tl.tensor,
    y: tl.tensor,
    out: tl.tensor,
    B: tl.tensor,
    D: tl.tensor,
    W: tl.tensor,
    h_b: tl.tensor,
    h_l: tl.tensor,
    h_d: tl.tensor,
    o_r: tl.tensor,
    o_c: tl.tensor,
    SIDE: tl.constexpr,
    ROWS: tl.constexpr,
    LABELLED: tl.constexpr,
    ACC: tl.constexpr,
) -> None:
    """Add one tile on or below the diagonal; programs above it end at once."""
    program = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(W, SIDE)
    left, upper = program % tiles, program // tiles
    if left <= upper:
        i, j = upper * SIDE + tl.arange(0, SIDE), left * SIDE + tl.arange(0, SIDE)
        total = tl.zeros([SIDE, SIDE], ACC)
        lost = tl.zeros([SIDE, SIDE], ACC)
        first = tl.full([], 0, tl.int64)
        while first < B:
            b = first + tl.arange(0, ROWS)
            at = tl.load(index + b, mask=b < B, other=-1)
            label = tl.full([ROWS], -1, tl.int64)
            if LABELLED:
                label = tl.load(y + b, mask=b < B, other=-1)
            x = _columns(h, shift, b, at, label, i, D, h_b, h_l, h_d, ACC)
            z = _columns(h, shift, b, at, label, j, D, h_b, h_l, h_d, ACC)
            part = tl.dot(tl.trans(x), z, input_precision="ieee", out_dtype=ACC) - lost
            new = total + part
            lost = (new - total) - part
            total = new
            first += ROWS
        lower = (i[:, None] < W) & (j[None, :] <= i[:, None])
        place = out + i[:, None] * o_r + j[None, :] * o_c
        before = tl.load(place, mask=lower, other=0.0)
        # what compensation still holds back goes in where `out` has the bits for it
        tl.store(place, before + (total.to(before.dtype) - lost.to(before.dtype)), mask=lower)


def token_gram(h: Any, index: Any, shift: Any, y: Any, C: int, out: Any) -> Any:
    """Add the moments of one token a sample; see :func:`porism.kernels.moments.token_gram`.

    Parameters
    ----------
    h : float CUDA tensor or array, shape (B, L, D)
        Activations of float64, float32, float16 or bfloat16; arrays are copied to the GPU. CPU tensors are
        taken under ``TRITON_INTERPRET=1`` only.
    index, shift, y, C, out
        As there, checked, the first three as arrays; C classes, 0 without y.

    Returns
    -------
    tensor, or array where h is an array
        As there.

    Raises
    ------
    ValueError
        If h or out is not where the kernel can run.

    Notes
    -----
    Time on a GPU: not measured. Checked in Triton's interpreter, and compiled for sm_80 and sm_90.
    """
    plain = not isinstance(h, torch.Tensor)
    h = device.placed("h", h)
    B, _, D = h.shape
    W = D + 1 + C
    wide = device.wide(h.dtype)
    target = torch.zeros((W, W), dtype=wide, device=h.device) if out is None else out
    if not isinstance(target, torch.Tensor):
        target = torch.from_numpy(np.array(target)).to(h.device)
    same_device("out", target, "h", h)

    def send(value: Any) -> torch.Tensor:
        return torch.from_numpy(value).to(h.device)

    places = send(index)
    tiles = triton.cdiv(W, SIDE)
    if B:
        with device.current(h):
            gram[(tiles * tiles,)](
                h, places, send(shift).to(wide), places if y is None else send(y), target, B, D, W,
                *h.stride(), *target.stride(), SIDE=SIDE, ROWS=ROWS, LABELLED=y is not None,
                ACC=device.TYPES[wide], num_warps=WARPS,
            )  # fmt: skip
    if isinstance(out, torch.Tensor):
        return out
    if out is not None:
        out[...] = target.cpu().numpy()
        return out
    return target.cpu().numpy() if plain else target
