"""Two blocks of scores, frozen and fresh, joined by the logarithm of the sum of their exponentials.

Plain torch, so it runs on any device. Half precision is computed in float32.
"""

import sys
from typing import Any

from porism.checks import require

__all__ = ["attend", "backward", "forward"]

require("torch", "torch")  # so that a missing package names the extra

import torch  # noqa: E402

from porism.kernels.subset_attention._function import apply  # noqa: E402


def attend(
    q: Any, k_fresh: Any, v_fresh: Any, k_frozen: Any, v_frozen: Any,
    places: Any, causal: bool, window: int, scale: float,
) -> Any:  # fmt: skip
    """Differentiable attention of checked arguments."""
    rule = causal, window, scale
    return apply(
        q, k_fresh, v_fresh, k_frozen.detach(), v_frozen.detach(), places, rule, sys.modules[__name__]
    )


def forward(q: Any, k: Any, v: Any, k_frozen: Any, v_frozen: Any, places: Any, rule: Any) -> tuple[Any, Any]:
    """Output, and logsumexp (B, H, k) of the scores of each query; 0 where it sees no key."""
    blocks = _blocks(k, v, k_frozen, v_frozen, places)
    rows = _rows(q, k)
    scores = [_scores(rows, block, places[0], rule) for block in blocks]
    total = torch.full(rows.shape[:3], -torch.inf, dtype=rows.dtype, device=q.device)
    for part in scores:
        total = torch.logaddexp(total, torch.logsumexp(part, 3))
    lse = total.masked_fill_(total == -torch.inf, 0.0)
    out = torch.zeros_like(rows)
    for part, (_, values, _, _) in zip(scores, blocks, strict=True):
        out += part.sub_(lse[..., None]).exp_() @ values
    return out.view(q.shape).to(q.dtype), lse.view(q.shape[:3])


def backward(
    grad: Any, q: Any, k: Any, v: Any, k_frozen: Any, v_frozen: Any, out: Any, lse: Any,
    places: Any, rule: Any, wants: tuple[bool, bool],
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Gradients of q, k and v; of the last two only if wanted, as of the first."""
    blocks = _blocks(k, v, k_frozen, v_frozen, places)
    rows, down = _rows(q, k), _rows(grad, k)
    delta = (down * _rows(out, k)).sum(3, keepdim=True)
    level = lse.reshape(*rows.shape[:3], 1)
    dq, dk, dv = torch.zeros_like(rows) if wants[0] else None, None, None
    for block in blocks:
        keys, values, _, _ = block
        fresh = block is blocks[-1]
        if not (wants[0] or fresh):
            continue
        part = _scores(rows, block, places[0], rule).sub_(level).exp_()
        if fresh and wants[1]:
            dv = (part.mT @ down).to(v.dtype)
        part = part.mul_((down @ values.mT).sub_(delta)).mul_(rule[2])
        if dq is not None:
            dq += part @ keys
        if fresh and wants[1]:
            dk = (part.mT @ rows).to(k.dtype)
    return None if dq is None else dq.view(q.shape).to(q.dtype), dk, dv


def _blocks(k: Any, v: Any, k_frozen: Any, v_frozen: Any, places: Any) -> list[Any]:
    """Keys, values, indices and flags: the frozen ones if there are any, then the fresh ones."""
    _, at_fresh, at_frozen, keep_fresh, keep_frozen = places
    found = [(k_frozen, v_frozen, at_frozen, keep_frozen)] if k_frozen.shape[2] else []
    found.append((k, v, at_fresh, keep_fresh))
    return [(_clean(a, keep), _clean(b, keep), at, keep) for a, b, at, keep in found]


def _clean(x: Any, keep: Any) -> Any:
    """In the precision of the computation; zeros where a key is not valid, since 0 times NaN is NaN."""
    x = _wide(x)
    return x if keep is None else x.masked_fill(~keep[:, None, :, None], 0.0)


def _wide(x: Any) -> Any:
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def _rows(x: Any, k: Any) -> Any:
    """All queries of the heads that share keys, as one matrix: (B, H_kv, group k, d)."""
    B, H, n, d = x.shape
    return _wide(x).reshape(B, k.shape[1], H // k.shape[1] * n, d)


def _scores(rows: Any, block: Any, at: Any, rule: Any) -> Any:
    """Scores (B, H_kv, group k, keys), minus infinity where a query does not see a key."""
    keys, _, index, keep = block
    causal, window, scale = rule
    found = (rows @ keys.mT).mul_(scale)
    n = at.shape[1]
    hidden = torch.zeros((len(at), n, index.shape[1]), dtype=torch.bool, device=at.device)
    if causal:
        hidden |= index[:, None, :] > at[:, :, None]
    if window:
        hidden |= (index[:, None, :] - at[:, :, None]).abs() >= window
    if keep is not None:
        hidden |= ~keep[:, None, :]
    B, shared, many, size = found.shape
    view = found.view(B, shared, many // max(n, 1), n, size)
    return view.masked_fill_(hidden[:, None, None], -torch.inf).view(found.shape)
