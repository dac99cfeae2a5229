"""Triton path of :func:`level_margin`: two passes over the coalitions in score order, in int64 throughout.

After ``torch.sort``, ``totals`` adds up the weights of every player within each block, torch turns them
into the counts that each block starts from, and ``sweep`` runs down the levels inside the blocks. Integer
sums do not depend on the order of addition, so the result equals that of the CPU path bit for bit.

Importing this file needs torch and triton; ``porism.kernels.coalition`` does so on first use.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, require

__all__ = ["level_margin"]

require("torch", "torch")  # so that a missing package names the extra
require("triton", "torch")

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from porism.kernels import _device as device  # noqa: E402

MAX_BLOCK = 1 << 16
TILE = 2048  # int64 numbers a program holds at once: 16 a thread with the default four warps
NOTHING = tl.constexpr((1 << 63) - 1)  # margin where a block ends no level; sums stay below 2^62


@triton.jit
def _reached(
    order: tl.tensor, weights: tl.tensor, at: tl.tensor, live: tl.tensor, lane: tl.tensor
) -> tl.tensor:
    """What the coalitions at some positions add to every player: the weight of the size, or 0."""
    mask = tl.load(order + at, mask=live, other=0).to(tl.int32)
    held = (mask[:, None] >> lane[None, :]) & 1  # (tile, lanes); the empty set pads
    weight = tl.load(weights + tl.sum(held, 1))
    return tl.where(held == 1, weight[:, None], 0)


@triton.jit
def totals(
    order: tl.tensor,
    weights: tl.tensor,
    partial: tl.tensor,
    size: tl.tensor,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Sum of the weights of each player's coalitions within each block, ``partial[block, lane]``."""
    block = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    count = tl.zeros([LANES], tl.int64)
    for first in range(0, BLOCK, ROWS):
        row = first + tl.arange(0, ROWS)
        at = block * BLOCK + row
        count += tl.sum(_reached(order, weights, at, (row < BLOCK) & (at < size), lane), 0)
    tl.store(partial + block * LANES + lane, count)


@triton.jit(do_not_specialize=["upper", "lower"])
def sweep(
    order: tl.tensor,
    values: tl.tensor,
    weights: tl.tensor,
    carry: tl.tensor,
    least: tl.tensor,
    where: tl.tensor,
    size: tl.tensor,
    upper: tl.tensor,
    lower: tl.tensor,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Least margin of the levels that end in each block, and its last position (the lowest level)."""
    block = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    above = ((upper >> lane) & 1) == 1
    below = ((lower >> lane) & 1) == 1
    count = tl.load(carry + block * LANES + lane)
    best = tl.full([], NOTHING, tl.int64)
    found = tl.full([], -1, tl.int64)
    for first in range(0, BLOCK, ROWS):
        row = first + tl.arange(0, ROWS)
        at = block * BLOCK + row
        live = (row < BLOCK) & (at < size)
        added = _reached(order, weights, at, live, lane)
        reach = tl.cumsum(added, 0) + count[None, :]
        down = tl.min(tl.where(above[None, :], reach, NOTHING), 1)
        up = tl.max(tl.where(below[None, :], reach, -NOTHING), 1)
        ends = live & (at < size - 1)
        value = tl.load(values + at, mask=ends, other=0.0)
        ends = ends & (value != tl.load(values + at + 1, mask=ends, other=0.0))
        margin = tl.where(ends, down - up, NOTHING)
        lowest = tl.min(margin, 0)
        last = tl.max(tl.where(ends & (margin == lowest), at, -1), 0)
        found = tl.where((last >= 0) & (lowest <= best), last, found)
        best = tl.minimum(best, lowest)
        count += tl.sum(added, 0)
    tl.store(least + block, best)
    tl.store(where + block, found)


def level_margin(
    scores: Any, weights: NDArray[np.int64], upper: int, lower: int, *, block: int = 1024
) -> tuple[int, float, tuple[int, int]]:
    """The margin of checked weights and sides; see :func:`porism.kernels.coalition.level_margin`.

    Parameters
    ----------
    scores : float64 or float32 CUDA tensor or array, shape (2**n,)
        Float32 is upcast, arrays are copied to the GPU. CPU tensors are taken under ``TRITON_INTERPRET=1``
        only.
    weights, upper, lower
        As there.
    block : int
        Coalitions a program sweeps, 1 .. 65536; need not divide 2^n nor be a power of two.

    Returns
    -------
    (int, float, (int, int))
        As there.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of its range, or the scores are not where the kernels can run.
    RuntimeError
        If a recount of the winning level does not give the margin, so that the kernels were miscompiled.

    Notes
    -----
    Floor, after the sort: no FLOP but 2^n comparisons of scores, 2 n 2^n integer additions and 2 n 2^n
    integer comparisons; 24 * 2^n bytes read (the order twice, the sorted scores once). The counts at the
    ends of blocks add about 40 * lanes * 2^n / block bytes, with lanes = max(16, n rounded up to a power
    of two); padded lanes and the scan along a tile cost as much arithmetic again. Memory: 16 * 2^n bytes
    beside the scores, and what ``torch.sort`` needs, which should also take most of the time.

    Time on a GPU: not measured. Checked against the CPU path in Triton's interpreter, and compiled for
    sm_80 and sm_90 (no spilled registers), with Triton 3.6.0 and 3.7.1.
    """
    n = weights.size - 1
    block = integer("block", block, 1, MAX_BLOCK)
    scores = device.placed("scores", scores, device.FLOATS[:2], np.float64).double().contiguous()
    if scores.shape != (1 << n,):
        raise ValueError(f"scores must have shape ({1 << n},) as weights are for {n} players, got "
                         f"{tuple(scores.shape)}; pass one score a coalition")  # fmt: skip
    if not device.all_finite(scores):
        raise ValueError("scores must be finite, got NaN or infinity; drop or replace them")
    values, order = torch.sort(scores, descending=True)
    lanes = max(16, 1 << (n - 1).bit_length())
    tile = {"BLOCK": block, "ROWS": min(TILE // lanes, 1 << (block - 1).bit_length()), "LANES": lanes}
    size, blocks = values.numel(), -(-values.numel() // block)
    table = torch.tensor(weights, device=values.device)
    partial = torch.empty((blocks, lanes), dtype=torch.int64, device=values.device)
    least, where = torch.empty((2, blocks), dtype=torch.int64, device=values.device)
    with device.current(values):
        totals[(blocks,)](order, table, partial, size, **tile)
        carry = partial.cumsum(0) - partial
        sweep[(blocks,)](order, values, table, carry, least, where, size, upper, lower, **tile)
    margin = int(least.min())
    end = int(where[least == margin].max())
    if end < 0:
        raise ValueError("scores must have two different values, got a constant; no level separates players")
    first = end // block * block  # recount on the CPU, from the start of the block
    held = order[first : end + 1, None].cpu().numpy() >> np.arange(n) & 1
    reach = carry[end // block, :n].cpu().numpy() + weights[held.sum(1)] @ held
    i = min((i for i in range(n) if upper >> i & 1), key=reach.__getitem__)
    j = max((j for j in range(n) if lower >> j & 1), key=reach.__getitem__)
    if int(reach[i]) - int(reach[j]) != margin:
        raise RuntimeError(f"Triton {triton.__version__} gives margin {margin} on {values.device}, a recount "
                           f"{int(reach[i]) - int(reach[j])}; take backend='cpu'")  # fmt: skip
    return margin, float(values[end]) + 0.0, (i, j)
