"""Triton path of subset attention: launches of the kernels in ``_tiles.py`` and their autograd function.

Frozen and fresh keys are read where they lie, with any strides but a unit one for features; masks come from
indices inside the kernels. Products of float32 tiles are exact to float32 (``input_precision="ieee"``), those
of half precision add up in float32, and runs repeat bit for bit.

Importing this file needs torch and triton; ``porism.kernels.subset_attention`` does so on first use.
"""

import sys
from typing import Any

from porism.checks import require

__all__ = ["attend", "backward", "forward"]

require("torch", "torch")  # so that a missing package names the extra
require("triton", "torch")

import torch  # noqa: E402
import triton  # noqa: E402

from porism.kernels import _device as device  # noqa: E402
from porism.kernels.subset_attention import _tiles  # noqa: E402
from porism.kernels.subset_attention._function import apply  # noqa: E402

WARPS = 4
MAX_HEAD = 256


def attend(
    q: Any, k_fresh: Any, v_fresh: Any, k_frozen: Any, v_frozen: Any,
    places: Any, causal: bool, window: int, scale: float,
) -> Any:  # fmt: skip
    """Differentiable attention of checked arguments; see :func:`porism.kernels.subset_attention`."""
    # Triton 3.7 does not compile such chains of products in float64
    device.placed("q", q, device.FLOATS[0 if device.interpreted() else 1 :])
    if q.shape[3] > MAX_HEAD:
        raise ValueError(f"q must have at most {MAX_HEAD} features for Triton, got {q.shape[3]}; "
                         "take backend='cpu'")  # fmt: skip
    rule = causal, window, scale
    return apply(
        q, k_fresh, v_fresh, k_frozen.detach(), v_frozen.detach(), places, rule, sys.modules[__name__]
    )


def forward(q: Any, k: Any, v: Any, k_frozen: Any, v_frozen: Any, places: Any, rule: Any) -> tuple[Any, Any]:
    """Output, and logsumexp (B, H, k) of the scores of each query; 0 where it sees no key."""
    sizes, flags = _sizes(q, k, k_frozen), _flags(q, places, rule)
    q, k, v, k_frozen, v_frozen = map(_unit, (q, k, v, k_frozen, v_frozen))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=device.wide(q.dtype), device=q.device)
    index, steps = _places(places)
    if out.numel():
        with device.current(q):
            _tiles.attend[_grid(q, k, flags)](
                q, k, v, k_frozen, v_frozen, *index, out, lse, *sizes, *_steps(q, k, v, k_frozen, v_frozen),
                *steps, **flags, num_warps=WARPS,
            )  # fmt: skip
    return out, lse


def backward(
    grad: Any, q: Any, k: Any, v: Any, k_frozen: Any, v_frozen: Any, out: Any, lse: Any,
    places: Any, rule: Any, wants: tuple[bool, bool],
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Gradients of q, k and v; of the last two only if wanted, as of the first."""
    sizes, flags = _sizes(q, k, k_frozen), _flags(q, places, rule)
    q, k, v, k_frozen, v_frozen = map(_unit, (q, k, v, k_frozen, v_frozen))
    grad = grad.contiguous()
    delta = (grad.to(lse.dtype) * out).sum(3)
    index, steps = _places(places)
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device) if wants[0] else None
    dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) if wants[1] else None for x in (k, v))
    with device.current(q):
        if dq is not None and dq.numel():
            _tiles.queries[_grid(q, k, flags)](
                q, k, v, k_frozen, v_frozen, *index, lse, delta, grad, dq, *sizes,
                *_steps(q, k, v, k_frozen, v_frozen), *steps, **flags, num_warps=WARPS,
            )  # fmt: skip
        if dk is not None and dk.numel():
            n, group, shared, F, _, d = sizes
            del flags["KEEP_FROZEN"]
            _tiles.fresh[(triton.cdiv(F, flags["KEYS"]) * len(k) * shared,)](
                q, k, v, index[0], index[1], index[3], lse, delta, grad, dk, dv, n, group, shared, F, d,
                *_steps(q, k, v), steps[0], steps[1], steps[3], **flags, num_warps=WARPS,
            )  # fmt: skip
    return dq, dk, dv


def _unit(x: Any) -> Any:
    """With features side by side."""
    return x if x.stride(3) == 1 else x.contiguous()


def _sizes(q: Any, k: Any, k_frozen: Any) -> tuple[int, ...]:
    return q.shape[2], q.shape[1] // k.shape[1], k.shape[1], k.shape[2], k_frozen.shape[2], q.shape[3]


def _steps(*tensors: Any) -> list[int]:
    return [step for x in tensors for step in x.stride()[:3]]


def _grid(q: Any, k: Any, flags: Any) -> tuple[int]:
    rows = q.shape[2] * (q.shape[1] // k.shape[1])
    return (triton.cdiv(rows, flags["ROWS"]) * len(k) * k.shape[1],)


def _places(places: Any) -> tuple[list[Any], list[int]]:
    """Indices and flags with their steps from row to row; the indices stand in where there are no flags."""
    at, at_fresh, at_frozen, keep_fresh, keep_frozen = places
    keep = [None if flags is None else flags.view(torch.uint8) for flags in (keep_fresh, keep_frozen)]
    found = [x if x is None or x.stride(1) == 1 else x.contiguous() for x in (at, at_fresh, at_frozen, *keep)]
    found = [at if x is None else x for x in found]
    return found, [x.stride(0) for x in found]


def tile(kind: Any, d: int) -> tuple[int, int, int]:
    """Rows, keys and features of a tile: such that a tile and its sums stay in registers."""
    head = device.side(d, MAX_HEAD)
    side = 16 if kind == torch.float64 or (kind == torch.float32 and head > 64) else 32
    return side, side, head


def _flags(q: Any, places: Any, rule: Any) -> dict[str, Any]:
    """What the kernels are compiled for."""
    causal, window, scale = rule
    rows, keys, head = tile(q.dtype, q.shape[3])
    return {
        "ROWS": rows, "KEYS": keys, "HEAD": head,
        "KIND": device.product_type(q.dtype), "ACC": device.TYPES[device.wide(q.dtype)],
        "SCALE": scale, "CAUSAL": causal, "WINDOW": window,
        "KEEP_FRESH": places[3] is not None, "KEEP_FROZEN": places[4] is not None,
    }  # fmt: skip
