"""Triton path of assignment: an auction with falling bid increments, one program a problem.

All sources without a position bid at once (Jacobi). Costs and prices of a problem stay in registers. The
kernel is not trusted: its prices bound the optimum from below in float64, and what is no permutation, or
not proven close enough, is solved by the exact solver on the CPU.

Importing this file needs torch and triton; ``porism.kernels.lap`` does so on first use.
"""

from typing import Any

import numpy as np

from porism.checks import detached, integer, require

__all__ = ["auction", "batched"]

require("torch", "torch")  # so that a missing package names the extra
require("triton", "torch")

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from porism.kernels import _device as device  # noqa: E402
from porism.kernels._arrays import is_tensor, like  # noqa: E402
from porism.kernels.lap import cpu  # noqa: E402

MAX_SIDE = 128  # costs of a problem are kept in registers: 32 a thread
FAR = tl.constexpr(-1e30)  # value of a position that is padding


@triton.jit
def bids(
    costs: tl.tensor,
    holder: tl.tensor,
    price: tl.tensor,
    rounds: tl.tensor,
    n: tl.tensor,
    limit: tl.tensor,
    start: tl.tensor,
    last: tl.tensor,
    SIDE: tl.constexpr,
) -> None:
    """Auction of one problem with costs in [0, 1]: increments fall from ``start`` to ``last`` by fifths."""
    b = tl.program_id(0).to(tl.int64)
    r = tl.arange(0, SIDE)
    i = tl.arange(0, SIDE)
    turn = (i[None, :] - r[:, None]) & (SIDE - 1)  # of equal positions each source prefers another one
    real = (r[:, None] < n) & (i[None, :] < n)
    cost = tl.load(costs + (b * n + r[:, None]) * n + i[None, :], mask=real, other=0.0)
    paid = tl.zeros([SIDE], tl.float32)
    held = tl.full([SIDE], -1, tl.int32)
    step = start + 0.0
    count = tl.full([], 0, tl.int32)
    waiting = tl.full([], 1, tl.int32)
    while (waiting > 0) & (count < limit):
        idle = (r < n) & (tl.sum((held[None, :] == r[:, None]).to(tl.int32), 1) == 0)
        value = tl.where(i[None, :] < n, -cost - paid[None, :], FAR)
        best = tl.max(value, 1)
        nearest = tl.min(tl.where(value == best[:, None], turn, SIDE), 1)
        first = turn == nearest[:, None]
        second = tl.max(tl.where(first, FAR, value), 1)
        offer = tl.where(idle[:, None] & first, (best - second + step)[:, None], -1.0)
        most = tl.max(offer, 0)
        winner = tl.argmax(offer, 0)
        paid = tl.where(most > 0, paid + most, paid)
        held = tl.where(most > 0, winner, held)
        count += 1
        waiting = tl.sum(((i < n) & (held < 0)).to(tl.int32), 0)
        again = (waiting == 0) & (step > last)  # every position is taken: bid again in smaller steps
        waiting = tl.where(again, 1, waiting)
        held = tl.where(again, -1, held)
        step = tl.where(again, tl.maximum(step * 0.2, last), step)
    tl.store(holder + b * n + i, held, mask=i < n)
    tl.store(price + b * n + i, paid, mask=i < n)
    tl.store(rounds + b, count)


def _warps(side: int) -> int:
    """Warps of a program: at most 32 costs a thread."""
    return {16: 4, 32: 4, 64: 8, 128: 16}[side]


def auction(costs: Any, *, epsilon: float = 2.0**-16, limit: int = 1 << 15) -> tuple[Any, Any]:
    """Assign sources to positions approximately, with a proven bound on what the assignment loses.

    ``sum_i C[p[i], i] <= min + gap`` with ``gap = sum_i C[p[i], i] + v[i] - min_k (C[p[i], k] + v[k])``
    for the final prices v, in float64.

    Parameters
    ----------
    costs : float CUDA tensor or array, shape (b, n, n)
        Cost of source r (row) at position i (column), finite, n <= 128; arrays are copied to the GPU. CPU
        tensors are taken under ``TRITON_INTERPRET=1`` only.
    epsilon : float, default 2**-16
        Last bid increment as a share of the range of a problem's costs, in (0, 1/4].
    limit : int, default 32768
        Rounds of bids after which a problem is given up.

    Returns
    -------
    (int64 tensor, float64 tensor), or arrays where costs are an array; shapes (b, n) and (b,)
        Source at each position, and the gap; infinity where the auction gave up or left no permutation.

    Notes
    -----
    In exact arithmetic the gap is at most n * epsilon * range; in float32 that needs epsilon well above the
    rounding of prices. The reported gap is computed, not assumed: it holds whatever the kernel did.

    Floor: 4 b n^2 bytes read once; about 10 n^2 operations a round, rounds depend on the problem (tens to
    hundreds at n = 48, more where costs tie). Time on a GPU: not measured. Checked against the exact solver
    in Triton's interpreter, and compiled for sm_80 and sm_90 (above 64 sources some registers spill).

    References
    ----------
    D. P. Bertsekas (1988), The auction algorithm, doi:10.1007/BF02186476.
    """
    if not 0 < epsilon <= 0.25:
        raise ValueError(f"epsilon must be in (0, 1/4], got {epsilon}; it is a share of the range of costs")
    limit = integer("limit", limit, 1, (1 << 31) - 1)
    given, costs = costs, _checked(costs)
    b, n = costs.shape[:2]
    everyone = torch.arange(n, device=costs.device)
    if n < 2 or b == 0:
        p, gap = everyone.expand(b, n).clone(), torch.zeros(b, dtype=torch.float64, device=costs.device)
        return (p, gap) if is_tensor(given) else (detached(p), detached(gap))
    exact = costs.to(torch.float64)
    low = exact.amin((1, 2), keepdim=True)
    span = exact.amax((1, 2), keepdim=True) - low
    unit = ((exact - low) / torch.where(span > 0, span, 1.0)).to(torch.float32).contiguous()
    holder = torch.empty((b, n), dtype=torch.int32, device=costs.device)
    price = torch.empty((b, n), dtype=torch.float32, device=costs.device)
    rounds = torch.empty(b, dtype=torch.int32, device=costs.device)
    side = device.side(n, MAX_SIDE)
    with device.current(costs):
        bids[(b,)](
            unit, holder, price, rounds, n, limit, max(0.25, epsilon), float(epsilon),
            SIDE=side, num_warps=_warps(side),
        )  # fmt: skip
    p = holder.to(torch.int64)
    valid = (p.sort(1).values == everyone).all(1)
    p = torch.where(valid[:, None], p, everyone)
    asked = exact + price.to(torch.float64)[:, None, :] * span
    taken = asked.gather(1, p[:, None, :])[:, 0]  # source p[i] at position i
    lost = (taken - asked.amin(2).gather(1, p)).sum(1)
    gap = torch.where(valid & torch.isfinite(lost), lost, torch.inf)
    return (p, gap) if is_tensor(given) else (detached(p), detached(gap))


def batched(costs: Any, *, tolerance: float = 0.0, epsilon: float = 2.0**-16, limit: int = 1 << 15) -> Any:
    """Solve several assignment problems of one size: by auction, then exactly where that proves too little.

    Arguments as for :func:`auction`; results are permutations. `tolerance` is the loss that is accepted
    without the exact solver, in units of the costs: with whole costs any value below 1 is exact; at 0 every
    result is that of the exact solver, unless the auction proves no loss. What the solver gets is copied to
    the CPU at once.
    """
    if not 0 <= tolerance < float("inf"):
        raise ValueError(f"tolerance must be finite and at least 0, got {tolerance}; 0 asks for the optimum")
    p, gap = auction(costs, epsilon=epsilon, limit=limit)
    open_ = np.flatnonzero(~(detached(gap) <= tolerance))
    if open_.size:
        given = costs if is_tensor(costs) else np.asarray(costs)
        left = np.asarray(detached(given[like(open_, given)]), dtype=np.float64)
        p[like(open_, p)] = like(cpu.batched(left), p)
    return p


def _checked(costs: Any) -> torch.Tensor:
    """Costs where the kernel runs, or an error."""
    costs = device.placed("costs", costs, dtype=np.float64)
    if costs.ndim != 3 or costs.shape[1] != costs.shape[2]:
        raise ValueError(
            f"costs must be square, got shape {tuple(costs.shape)}; pad with constant rows or columns"
        )
    if costs.shape[1] > MAX_SIDE:
        raise ValueError(f"costs must have at most {MAX_SIDE} sources for Triton, got {costs.shape[1]}; "
                         "take backend='cpu'")  # fmt: skip
    if not device.all_finite(costs):
        raise ValueError("costs must be finite, got NaN or infinity; forbid a pair by a large cost instead")
    return costs
