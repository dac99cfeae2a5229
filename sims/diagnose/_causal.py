"""Whether attention hides later tokens, tried out where the modules of a model do not tell."""

import contextlib
from typing import Any

import numpy as np

from porism._models import is_causal
from porism.sims.diagnose._batches import Seen, see
from porism.sims.diagnose._ranks import block_names
from porism.sims.hooks import evaluation

__all__ = ["read_or_try"]


def read_or_try(model: Any, raw: Any) -> tuple[bool, list[str]]:
    """What the modules say, else what the longest row of a batch shows; and what to know of it."""
    try:
        return is_causal(model), []
    except ValueError:
        found = None if raw is None else _tried(model, see(model, raw, 0, None, None, "cls", None))
        if found is None:
            raise
    told = "does not move" if found else "moves"
    return found, [f"causal={found} was tried out, not read: changing later tokens {told} earlier states"]


def _tried(model: Any, seen: Seen) -> bool | None:
    """Whether earlier states stay when the later half of a row changes; None where that cannot be seen."""
    import torch

    row = int(seen.mask.sum(1).argmax())
    real = np.flatnonzero(seen.mask[row])
    name = next((n for n in ("input_ids", "inputs_embeds") if seen.keywords.get(n) is not None), None)
    if len(real) < 2 or name is None:
        return None
    inputs = {
        key: value[row : row + 1] if getattr(value, "ndim", 0) and len(value) == len(seen.mask) else value
        for key, value in seen.keywords.items()
    }
    before, after = (torch.from_numpy(part) for part in np.split(real, [len(real) // 2]))
    ids = inputs[name]
    moved = ids.clone()
    if name == "input_ids":
        moved[0, after] = (ids[0, after] + 1) % (int(ids.max()) + 1)
    else:
        moved[0, after] = -ids[0, after]
    states: list[Any] = []

    def keep(module: Any, args: Any, output: Any) -> None:
        x = output[0] if isinstance(output, tuple) else output
        if getattr(x, "ndim", 0) == 3 and x.shape[1] > real[-1]:  # blocks may pad to their windows
            states.append(x[0, before])

    modules = dict(model.named_modules())
    runs = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(evaluation(model))
        for block in block_names(model):
            stack.callback(modules[block].register_forward_hook(keep).remove)
        for value in (ids, moved):
            model(**(inputs | {name: value}))
            runs.append(states[:])
            states.clear()
    pairs = [(a.double(), b.double(), torch.finfo(a.dtype).eps) for a, b in zip(*runs, strict=True)]
    if not pairs:
        return None
    mixed = any(name.endswith(".experts") for name in modules)  # who share products with other tokens
    slack = 16 if mixed else 0
    return all(float((a - b).abs().max()) <= slack * eps * float(a.abs().max()) for a, b, eps in pairs)
