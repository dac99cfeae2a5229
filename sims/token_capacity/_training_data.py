"""Runs behind the figures on training: what the graph keeps, and how far the selected gradient turns away."""

import contextlib
import functools
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.sims.drawing import is_paper
from porism.sims.token_capacity.worlds import random_model

Floats = NDArray[np.float64]

MEMORY_ARMS = ("full", "TokenTune-style", "concat+SDPA", "ours", "checkpointing")
"""All positions; the two passes with three attentions; all positions with gradient checkpointing."""

HEADS = {"llama": "grouped heads, 4 : 1", "gpt2": "plain heads"}
"""Models of `memory_curves`."""

GROUPS = ("last layer: q, o, MLP", "earlier layers: q, o, MLP", "last layer: k, v", "earlier layers: k, v")
"""Groups of parameters of `suffix_cosines`."""


@functools.cache
def memory_curves(kind: str, scale: str) -> tuple[NDArray[np.int64], dict[str, Floats]]:
    """Numbers of positions k, and by arm the bytes that one row keeps for a loss on the last k."""
    torch = require("torch", "torch")
    from porism.sims.token_capacity import SubsetBackprop, _peers, measure_saved_bytes

    length, width, layers = (1024, 256, 4) if is_paper(scale) else (128, 64, 1)
    numbers = np.array([1, 16, 64, 256, 512] if is_paper(scale) else [1, 16, 64])
    model = _peers.model(kind, width=width, layers=layers, length=length)
    ids, head = torch.arange(length)[None] % 500, model.get_output_embeddings()
    step = SubsetBackprop(model, verify="never")

    def loss(arm: str, k: int) -> Any:
        if arm in ("full", "checkpointing"):
            hidden = model.base_model(input_ids=ids).last_hidden_state[:, -k:]
        else:
            hidden = step.forward(k, input_ids=ids).hidden
        return head(hidden).logsumexp(-1).sum()

    within: dict[str, Any] = {
        name: partial(_peers.replayed_by, attention) for name, attention in _peers.ATTENTIONS.items()
    }
    within["checkpointing"] = partial(_peers.checkpointed, model)
    found = {}
    for arm in MEMORY_ARMS:
        with within.get(arm, contextlib.nullcontext)():
            kept = [measure_saved_bytes(partial(loss, arm, int(k)), model) for k in numbers]
        found[arm] = np.array(kept, dtype=np.float64)
    return numbers, found


def crossing(numbers: NDArray[np.int64], ours: Floats, other: Floats) -> float | None:
    """Where the first curve passes the second one from below: both are straight lines in k between points."""
    gap = ours - other
    if gap[0] >= 0 or gap[-1] < 0:
        return None
    i = int(np.argmax(gap >= 0))
    share = -gap[i - 1] / (gap[i] - gap[i - 1])
    return float(numbers[i - 1] + share * (numbers[i] - numbers[i - 1]))


@functools.cache
def suffix_cosines(scale: str, seed: int) -> tuple[NDArray[np.int64], Floats]:
    """Numbers of positions k, and (draws, groups, k): cosine of the suffix gradient with the full one."""
    length, draws = (16, 5) if is_paper(scale) else (8, 1)
    numbers = np.array([1, 2, 4, 8, 12, 16] if is_paper(scale) else [1, 4, 8])
    rng, found = np.random.default_rng(seed), []
    for _ in range(draws):
        model, ids, labels = _model("llama", 0.4, length, rng)
        last = f".{model.config.num_hidden_layers - 1}."

        def group(name: str, last: str = last) -> int | None:
            if not name.endswith("proj.weight"):
                return None
            return (last not in name) + 2 * ("k_proj" in name or "v_proj" in name)

        groups = {name: place for name, _ in model.named_parameters() if (place := group(name)) is not None}
        full = _gradients(model, ids, labels, length, -1)
        curves = [_cosines(_gradients(model, ids, labels, int(k), -1), full, groups) for k in numbers]
        found.append(np.array(curves).T)
    return numbers, np.array(found)


@functools.cache
def subset_cosines(scale: str, seed: int) -> tuple[NDArray[np.int64], dict[float, Floats]]:
    """The same of a bidirectional encoder by size of weights, (draws, k): random sets with the readout."""
    torch = require("torch", "torch")
    from porism.sims.token_capacity import select_random

    length, draws = (17, 8) if is_paper(scale) else (9, 2)
    numbers = np.array([1, 3, 5, 9, 13, 17] if is_paper(scale) else [1, 5, 9])
    rng, found = np.random.default_rng(seed), {}
    for std in (0.02, 0.1, 0.4):
        rows = []
        for _ in range(draws):
            model, ids, labels = _model("bert", std, length, rng)
            groups = {
                name: 0 for name, value in model.named_parameters() if "encoder" in name and value.ndim == 2
            }
            full = _gradients(model, ids, labels, length, 0)
            row = []
            for k in numbers:
                chosen = select_random(torch.ones(ids.shape), int(k), generator=int(rng.integers(2**31)))
                row.append(_cosines(_gradients(model, ids, labels, chosen, 0), full, groups)[0])
            rows.append(row)
        found[std] = np.array(rows)
    return numbers, found


def _model(family: str, std: float, length: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    torch = require("torch", "torch")
    model = random_model(family, rng, std=std, width=32, max_len=length)
    ids, labels = (torch.from_numpy(rng.integers(3, 31, shape)) for shape in ((8, length), (8,)))
    return model, ids, labels


def _gradients(model: Any, ids: Any, labels: Any, positions: Any, readout: int) -> dict[str, Any]:
    """Gradients of the cross-entropy at the readout; all positions are the full gradient."""
    torch = require("torch", "torch")
    from porism.sims.token_capacity import SubsetBackprop

    hidden = SubsetBackprop(model, verify="never").forward(positions, input_ids=ids).hidden[:, readout]
    loss = torch.nn.functional.cross_entropy(model.get_output_embeddings()(hidden), labels)
    names, values = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, values, allow_unused=True)
    return {name: g for name, g in zip(names, found, strict=True) if g is not None}


def _cosines(one: dict[str, Any], other: dict[str, Any], groups: dict[str, int]) -> list[float]:
    """Cosine of two gradients, group by group."""
    torch = require("torch", "torch")
    found = []
    for group in range(max(groups.values()) + 1):
        names = [name for name, own in groups.items() if own == group]
        a, b = (torch.cat([grads[name].flatten() for name in names]) for grads in (one, other))
        found.append(float(a @ b / (a.norm() * b.norm())))
    return found
