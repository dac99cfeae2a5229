"""Attention of the selected queries over frozen and fresh keys."""

from typing import Any

from porism.checks import require


def visible(query: Any, key: Any, key_valid: Any, causal: bool, window: int) -> Any:
    """Who sees whom, (B, 1, queries, keys), from sequence indices (B, queries) and (B, keys)."""
    torch = require("torch", "torch")
    distance = query[:, :, None].long() - key[:, None, :].long()
    seen = torch.ones_like(distance, dtype=torch.bool)
    if key_valid is not None:
        seen = seen & key_valid[:, None, :]
    if causal:
        seen = seen & (distance >= 0)
    if window:
        seen = seen & (distance.abs() < window)
    return seen[:, None]


def plain(
    q: Any,
    k_fresh: Any,
    v_fresh: Any,
    k_frozen: Any,
    v_frozen: Any,
    *,
    index_query: Any,
    index_frozen: Any,
    valid_fresh: Any,
    valid_frozen: Any,
    causal: bool,
    window: int,
    scale: float,
    dropout: float = 0.0,
) -> Any:
    """Softmax over both key groups at once, by ordinary operations: keeps the weights (B, H, k, U + k)."""
    torch = require("torch", "torch")
    seen = torch.cat(
        [
            visible(index_query, index_frozen, valid_frozen, causal, window),
            visible(index_query, index_query, valid_fresh, causal, window),
        ],
        dim=-1,
    )
    rows, heads, count, width = q.shape
    groups = k_fresh.shape[1]
    # a group's query heads share its keys, which are never copied for them
    packed = q.reshape(rows, groups, heads // groups * count, width)
    scores = torch.cat([packed @ k_frozen.transpose(2, 3), packed @ k_fresh.transpose(2, 3)], dim=-1)
    scores = scores.view(rows, heads, count, -1)
    wide = scores.dtype if scores.dtype.itemsize >= 4 else torch.float32
    scores = (scores.to(wide) * scale).masked_fill(~seen, float("-inf"))
    dead = ~seen.any(-1, keepdim=True)  # a query without a visible key: no weights, output zero
    weights = scores.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0)
    weights = torch.nn.functional.dropout(weights, dropout).to(q.dtype).view(rows, groups, -1, seen.shape[-1])
    frozen = index_frozen.shape[1]
    out = weights[..., :frozen] @ v_frozen + weights[..., frozen:] @ v_fresh
    return out.view(rows, heads, count, -1)
