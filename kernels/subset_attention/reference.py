"""The definition: one query at a time over the keys that it sees, in float64; autograd differentiates it."""

from typing import Any

from porism.checks import require

__all__ = ["attend", "sees"]

require("torch", "torch")  # so that a missing package names the extra

import torch  # noqa: E402


def attend(
    q: Any, k_fresh: Any, v_fresh: Any, k_frozen: Any, v_frozen: Any,
    places: Any, causal: bool, window: int, scale: float,
) -> Any:  # fmt: skip
    """Attention of each query to the keys it sees; zeros where there is none."""
    at, at_fresh, at_frozen, keep_fresh, keep_frozen = places
    keys = torch.cat([k_frozen.detach(), k_fresh], 2).double()
    values = torch.cat([v_frozen.detach(), v_fresh], 2).double()
    index = torch.cat([at_frozen, at_fresh], 1).tolist()
    keep = [
        torch.ones(where.shape, dtype=torch.bool) if flags is None else flags.cpu()
        for where, flags in ((at_frozen, keep_frozen), (at_fresh, keep_fresh))
    ]
    valid = torch.cat(keep, 1).tolist()
    B, H, k, d = q.shape
    group = H // keys.shape[1]
    rows = []
    for b in range(B):
        for h in range(H):
            for i in range(k):
                seen = [
                    n for n, j in enumerate(index[b])
                    if valid[b][n] and sees(int(at[b, i]), j, causal, window)
                ]  # fmt: skip
                if not seen:
                    rows.append(q.new_zeros(d, dtype=torch.float64))
                    continue
                scores = scale * (keys[b, h // group, seen] @ q[b, h, i].double())
                rows.append(torch.softmax(scores, 0) @ values[b, h // group, seen])
    out = torch.stack(rows) if rows else q.new_zeros((0, d), dtype=torch.float64)
    out = out + (q[:0].sum() + keys[:0].sum() + values[:0].sum())  # gradients of zero where nothing is seen
    return out.reshape(B, H, k, d).to(q.dtype)


def sees(i: int, j: int, causal: bool, window: int) -> bool:
    """Whether a query at index i sees a key at index j."""
    return not (causal and j > i) and not (window and abs(i - j) >= window)
