"""Adapters on the tiny encoder: what their starts read, how they train, and where the gradient is."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from porism.sims import hooks
from porism.sims.alignment import _moments
from porism.sims.alignment._adapters import double, write
from porism.sims.alignment._encoder_text import TASKS, Windows, windows
from porism.sims.alignment._rotation import canonical, rotate
from porism.sims.alignment.fewshot import lora_start

__all__ = ["Lora", "basis", "features", "gradients", "measured", "starts", "train", "watched", "world"]

HEAD_SD = 0.02
PROBES = 4

Floats = NDArray[np.float64]
Features = dict[str, dict[str, Floats]]


def world(
    model: Any, task: str, seed: int, n: int, n_test: int, length: int
) -> tuple[tuple[Windows, Windows], Floats, Features, int]:
    """Windows, head, features and a seed for the starts; the same for every method."""
    rng = np.random.default_rng([TASKS.index(task), seed])
    data = windows(task, n, n_test, length, rng)
    head = HEAD_SD * rng.standard_normal((2, model.config.d))
    return data, head, features(model, data[0]), int(rng.integers(2**31))


class Lora(nn.Module):
    """``s B A x`` for the slot of a layer."""

    def __init__(self, a: Tensor, b: Tensor, scaling: float) -> None:
        super().__init__()
        self.a, self.b, self.scaling = nn.Parameter(a), nn.Parameter(b), scaling

    def forward(self, x: Tensor) -> Tensor:
        return self.scaling * F.linear(F.linear(x, self.a), self.b)


def encode(model: Any, x: Tensor, position: Tensor) -> Tensor:
    """What the head reads: the normed residual stream at one position of each window."""
    stream = model(x, hidden=True)[1][-1]
    return model.norm(stream[torch.arange(len(x)), position])


@contextlib.contextmanager
def watched(model: Any) -> Iterator[tuple[dict[str, Tensor], dict[str, Tensor]]]:
    """Inputs and outputs of every linear layer, by name, once the model has run."""
    layers, ins, outs = model.named_linears(), {}, {}

    def tap(name: str) -> Any:
        def record(into: Tensor, out: Tensor) -> None:
            ins[name], outs[name] = into, out

        return record

    try:
        for name, layer in layers.items():
            layer.tap = tap(name)
        yield ins, outs
    finally:
        for layer in layers.values():
            layer.tap = None


@contextlib.contextmanager
def requiring_grad(model: Any, flag: bool) -> Iterator[None]:
    """The model with all of its parameters trainable, or none; each one's own flag comes back."""
    flags = [p.requires_grad for p in model.parameters()]
    try:
        model.requires_grad_(flag)
        yield
    finally:
        for parameter, own in zip(model.parameters(), flags, strict=True):
            parameter.requires_grad_(own)


def features(model: Any, data: Windows) -> Features:
    """Rows of every linear layer's input under three rules: target, all, auto."""
    x, position, _ = data.tensors()
    rows, maps = torch.arange(len(x)), list[Tensor]()
    with contextlib.ExitStack() as stack, torch.no_grad():
        for block in model.blocks:
            stack.enter_context(hooks.maps_of_slot(block, maps.append))
        inputs, _ = stack.enter_context(watched(model))
        model(x)
    found: Features = {}
    for name, into in inputs.items():
        _, index, part = name.split(".")
        target, every = into[rows, position], into.flatten(0, 1)
        auto = every if part == "k" or bool((target == target[0]).all()) else target
        if part == "v":
            weights = maps[int(index)][rows, :, position]
            auto = torch.einsum("bht,btd->bhd", weights, into).flatten(0, 1)
        both = (("target", target), ("all", every), ("auto", auto))
        found[name] = {rule: value.double().numpy() for rule, value in both}
    return found


def measured(
    model: Any, data: Windows, found: Features, names: Iterable[str], r: int, rng: np.random.Generator
) -> Features:
    """Features whose rule "auto" is the one of largest first-step energy, under heads other than the task's.

    Candidates are all rules, centred or not; not those that leave directions open. Rows that are not to be
    centred come with their negatives: the covariance of both is the second moment.
    """
    heads = HEAD_SD * rng.standard_normal((PROBES, 2, model.config.d))
    slopes = [gradients(model, head, data) for head in heads]
    chosen = dict(found)
    for name in names:
        best = -1.0
        for rows in found[name].values():
            for candidate in (rows, np.concatenate([rows, -rows])):
                if np.linalg.matrix_rank(candidate - candidate.mean(axis=0)) < r:
                    continue
                a = basis(candidate, r, rng)
                energy = sum(float(np.sum((slope[name][0] @ a.T) ** 2)) for slope in slopes)
                if energy > best:
                    best = energy
                    chosen[name] = found[name] | {"auto": candidate}
    return chosen


def basis(rows: Floats, r: int, rng: np.random.Generator) -> Floats:
    """Principal rows; uniformly random orthonormal ones where all rows are equal."""
    kind = "orthonormal" if (rows == rows[0]).all() else "pca"
    return lora_start(kind, rows, r, random_state=rng)


def starts(
    kind: str, layers: dict[str, Any], found: Features, r: int, scaling: float, rng: np.random.Generator
) -> dict[str, tuple[Floats, Floats]]:
    """A and B of every adapted layer; "pissa" also takes ``s B A`` off the layer's own weight."""
    made = {}
    for name, layer in layers.items():
        weight = double(layer.weight)
        b = np.zeros((len(weight), r))
        if kind == "pissa":
            u, s, vt = np.linalg.svd(weight, full_matrices=False)
            root = np.sqrt(s[:r] / scaling)
            a, b = root[:, None] * vt[:r], u[:, :r] * root
        elif kind in found[name]:
            a = basis(found[name][kind], r, rng)
        else:
            a = lora_start(kind, weight, r, match_norm=False, random_state=rng)
        made[name] = (a, b)
    return made


def train(
    model: Any,
    made: dict[str, tuple[Floats, Floats]],
    head: Floats,
    data: Windows,
    test: Windows,
    *,
    steps: int,
    lr: float,
    scaling: float,
    pivot_at: int | None,
) -> tuple[float, float]:
    """Train adapters and head on all windows at once by AdamW; give test accuracy and training loss."""
    layers = {name: model.named_linears()[name] for name in made}
    kept = {name: layer.weight.detach().clone() for name, layer in layers.items()}
    readout, offset = nn.Parameter(torch.from_numpy(head).float()), nn.Parameter(torch.zeros(len(head)))

    def logits(x: Tensor, position: Tensor) -> Tensor:
        return F.linear(encode(model, x, position), readout, offset)

    with requiring_grad(model, False):
        try:
            for name, (a, b) in made.items():
                layers[name].weight.sub_(torch.from_numpy(scaling * b @ a).float())
                layers[name].adapter = Lora(torch.from_numpy(a).float(), torch.from_numpy(b).float(), scaling)
            adapters = [layer.adapter for layer in layers.values()]
            trained = [p for adapter in adapters for p in adapter.parameters()] + [readout, offset]
            optimizer = torch.optim.AdamW(trained, lr=lr)
            x, position, y = data.tensors()
            for k in range(steps):
                torch.autograd.backward(F.cross_entropy(logits(x, position), y), inputs=trained)
                optimizer.step()
                optimizer.zero_grad()
                if k + 1 == pivot_at:
                    for adapter in adapters:
                        _pivot(adapter, optimizer)
            with torch.no_grad():
                final = F.cross_entropy(logits(x, position), y)
                x, position, y = test.tensors()
                right = logits(x, position).argmax(dim=1) == y
            return float(right.double().mean()), float(final)
        finally:
            for name, layer in layers.items():
                layer.adapter = None
                layer.weight.copy_(kept[name])


def gradients(model: Any, head: Floats, data: Windows) -> dict[str, tuple[Floats, float]]:
    """Of each linear layer: gradient of its weight, and the read token's share of its outputs' gradients."""
    layers = model.named_linears()
    x, position, y = data.tensors()
    with requiring_grad(model, True), watched(model) as (_, outputs):
        loss = F.cross_entropy(F.linear(encode(model, x, position), torch.from_numpy(head).float()), y)
        names = list(layers)
        whole = torch.autograd.grad(loss, [layers[n].weight for n in names] + [outputs[n] for n in names])
    found = {}
    for name, weight, out in zip(names, whole[: len(names)], whole[len(names) :], strict=True):
        energy = out.double().square().sum(dim=-1)
        share = energy[torch.arange(len(x)), position].sum() / energy.sum()
        found[name] = (double(weight), float(share))
    return found


def _pivot(adapter: Lora, optimizer: torch.optim.Optimizer) -> None:
    """Rotate the rank index to the canonical frame, with the first and second moments."""
    a, b = double(adapter.a), double(adapter.b)
    q = canonical(b)
    for factor, turned in zip((adapter.a, adapter.b), rotate(a, b, q), strict=True):
        write(factor, turned)
    _moments.move(optimizer, adapter.a, adapter.b, q, "transport")
