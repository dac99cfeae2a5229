"""Rows of features out of one activation: the target's token, all tokens, or tokens pooled by attention."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims._batches import Batch

__all__ = ["all_tokens", "attention_pooled", "role", "target_tokens"]

Rows = tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]  # features, sample, place within the sample

VALUES = {"v", "value", "values", "v_proj", "value_proj", "v_lin", "to_v", "wv"}
KEYS = {"k", "key", "keys", "k_proj", "key_proj", "k_lin", "to_k", "wk"}
FUSED = {"c_attn", "qkv", "qkv_proj", "query_key_value", "wqkv", "in_proj", "qkv_lin"}


def role(name: str) -> str:
    """What a projection does, by the last part of its name: value, key, fused or other."""
    last = [part for part in name.split(".") if part != "base_layer"][-1].casefold()
    for kind, names in (("value", VALUES), ("key", KEYS), ("fused", FUSED)):
        if last in names:
            return kind
    return "other"


def target_tokens(name: str, x: Any, batch: Batch) -> Rows:
    """The target's row of each kept sample; a two-dimensional input has one row a sample already."""
    kept = np.flatnonzero(batch.kept)
    if x.ndim == 2:
        return _plain(x[_on(kept, x)]), kept, np.zeros(len(kept), dtype=np.int64)
    at = batch.target(name, x.shape[1])
    return _plain(x[_on(kept, x), _on(at, x)]), kept, at


def all_tokens(name: str, x: Any, batch: Batch) -> Rows:
    """Every token of kept samples that is no padding."""
    if x.ndim == 2:
        return target_tokens(name, x, batch)
    sample, place = np.nonzero(batch.tokens(name, x.shape[1]))
    return _plain(x[_on(sample, x), _on(place, x)]), sample, place


def attention_pooled(name: str, x: Any, maps: Any, batch: Batch) -> Rows:
    """``sum_t a[i, h, t] x[i, t]`` of each kept sample i and head h, with a the target's row of head h."""
    import torch

    kept = np.flatnonzero(batch.kept)
    weights = maps[_on(kept, maps), :, _on(batch.target(name, maps.shape[2]), maps)]  # (n, H, S)
    tokens = x[_on(kept, x)]
    seen = torch.from_numpy(batch.tokens(name, x.shape[1])[kept]).to(x.device)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    # padding may hold NaN, and 0 times NaN is NaN
    pooled = weights.to(wide) @ tokens.to(wide).masked_fill(~seen[:, :, None], 0.0)
    heads = pooled.shape[1]
    sample, head = np.repeat(kept, heads), np.tile(np.arange(heads), len(kept))
    return _plain(pooled.flatten(0, 1)), sample, head


def _on(index: NDArray[np.int64], like: Any) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(index)).to(like.device)


def _plain(rows: Any) -> NDArray[Any]:
    """Rows on the host, in float64 or float32."""
    import torch

    rows = rows.detach()
    found: NDArray[Any] = (rows if rows.dtype == torch.float64 else rows.float()).cpu().numpy()
    return found
