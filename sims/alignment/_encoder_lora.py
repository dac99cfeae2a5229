"""Adapters on the tiny encoder: what their starts read, how they train, and where the gradient is."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from porism.sims.alignment._encoder_text import TASKS, Windows, windows
from porism.sims.alignment._rotation import canonical, move_second, rotate

__all__ = ["Lora", "basis", "features", "gradients", "measured", "starts", "train", "world"]

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


def features(model: Any, data: Windows) -> Features:
    """Rows of every linear layer's input under three rules: target, all, auto."""
    x, position = torch.from_numpy(data.x), torch.from_numpy(data.position)
    rows, inputs, weights = torch.arange(len(x)), {}, {}
    layers = model.named_linears()

    def watch(name: str) -> Any:
        def tap(into: Tensor, _: Tensor) -> None:
            inputs[name] = into.detach()

        return tap

    def attention(i: int) -> Any:
        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
            shares = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
            weights[i] = shares[rows, :, position].detach()
            return shares @ v

        return attend

    try:
        for name, layer in layers.items():
            layer.tap = watch(name)
        for i, block in enumerate(model.blocks):
            block.attend = attention(i)
        with torch.no_grad():
            model(x)
    finally:
        for layer in layers.values():
            layer.tap = None
        for block in model.blocks:
            block.attend = None
    found: Features = {}
    for name, into in inputs.items():
        _, index, part = name.split(".")
        target, every = into[rows, position], into.flatten(0, 1)
        auto = every if part == "k" or bool((target == target[0]).all()) else target
        if part == "v":
            auto = torch.einsum("bht,btd->bhd", weights[int(index)], into).flatten(0, 1)
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
    from porism.theory.alignment import principal_subspace

    if (rows == rows[0]).all():
        return _orthonormal(rng, r, rows.shape[1])
    return principal_subspace(rows, r, random_state=rng).basis


def starts(
    kind: str, layers: dict[str, Any], found: Features, r: int, scaling: float, rng: np.random.Generator
) -> dict[str, tuple[Floats, Floats]]:
    """A and B of every adapted layer; "pissa" also takes ``s B A`` off the layer's own weight."""
    made = {}
    for name, layer in layers.items():
        out, d = layer.weight.shape
        b = np.zeros((out, r))
        if kind == "kaiming":
            a = rng.uniform(-1, 1, (r, d)) / math.sqrt(d)
        elif kind == "orthonormal":
            a = _orthonormal(rng, r, d)
        elif kind == "pissa":
            u, s, vt = np.linalg.svd(layer.weight.detach().double().numpy(), full_matrices=False)
            root = np.sqrt(s[:r] / scaling)
            a, b = root[:, None] * vt[:r], u[:, :r] * root
        else:
            a = basis(found[name][kind], r, rng)
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
    flags = [p.requires_grad for p in model.parameters()]
    model.requires_grad_(False)
    try:
        for name, (a, b) in made.items():
            layers[name].weight.sub_(torch.from_numpy(scaling * b @ a).float())
            layers[name].adapter = Lora(torch.from_numpy(a).float(), torch.from_numpy(b).float(), scaling)
        readout = nn.Parameter(torch.from_numpy(head).float())
        offset = nn.Parameter(torch.zeros(len(head)))
        adapters = [layer.adapter for layer in layers.values()]
        trained = [p for adapter in adapters for p in adapter.parameters()] + [readout, offset]
        optimizer = torch.optim.AdamW(trained, lr=lr)
        x, position, y = (torch.from_numpy(part) for part in (data.x, data.position, data.y))
        for k in range(steps):
            loss = F.cross_entropy(F.linear(encode(model, x, position), readout, offset), y)
            for parameter, gradient in zip(trained, torch.autograd.grad(loss, trained), strict=True):
                parameter.grad = gradient
            optimizer.step()
            if k + 1 == pivot_at:
                for adapter in adapters:
                    _pivot(adapter, optimizer)
        with torch.no_grad():
            final = F.cross_entropy(F.linear(encode(model, x, position), readout, offset), y)
            x, position, y = (torch.from_numpy(part) for part in (test.x, test.position, test.y))
            guess = F.linear(encode(model, x, position), readout, offset).argmax(dim=1)
        return float((guess == y).double().mean()), float(final)
    finally:
        with torch.no_grad():
            for name, layer in layers.items():
                layer.adapter = None
                layer.weight.copy_(kept[name])
        for parameter, flag in zip(model.parameters(), flags, strict=True):
            parameter.requires_grad_(flag)


def gradients(model: Any, head: Floats, data: Windows) -> dict[str, tuple[Floats, float]]:
    """Of each linear layer: gradient of its weight, and the read token's share of its outputs' gradients."""
    layers, outputs = model.named_linears(), {}
    flags = [p.requires_grad for p in model.parameters()]
    x, position, y = (torch.from_numpy(part) for part in (data.x, data.position, data.y))

    def watch(name: str) -> Any:
        def tap(_: Tensor, out: Tensor) -> None:
            outputs[name] = out

        return tap

    try:
        model.requires_grad_(True)
        for name, layer in layers.items():
            layer.tap = watch(name)
        loss = F.cross_entropy(F.linear(encode(model, x, position), torch.from_numpy(head).float()), y)
        names = list(layers)
        whole = torch.autograd.grad(loss, [layers[n].weight for n in names] + [outputs[n] for n in names])
    finally:
        for layer in layers.values():
            layer.tap = None
        for parameter, flag in zip(model.parameters(), flags, strict=True):
            parameter.requires_grad_(flag)
    found = {}
    for name, weight, out in zip(names, whole[: len(names)], whole[len(names) :], strict=True):
        energy = out.double().square().sum(dim=-1)
        share = energy[torch.arange(len(x)), position].sum() / energy.sum()
        found[name] = (weight.double().numpy(), float(share))
    return found


def _pivot(adapter: Lora, optimizer: torch.optim.Optimizer) -> None:
    """Rotate the rank index to the canonical frame, with the first and second moments."""
    one, two = optimizer.state[adapter.a], optimizer.state[adapter.b]
    a, b = (p.detach().double().numpy() for p in (adapter.a, adapter.b))
    q = canonical(b)
    moved = [
        (adapter.a, adapter.b, rotate(a, b, q)),
        (one["exp_avg"], two["exp_avg"], rotate(_numpy(one["exp_avg"]), _numpy(two["exp_avg"]), q)),
        (
            one["exp_avg_sq"],
            two["exp_avg_sq"],
            move_second(_numpy(one["exp_avg_sq"]), _numpy(two["exp_avg_sq"]), q),
        ),
    ]
    with torch.no_grad():
        for into_a, into_b, (new_a, new_b) in moved:
            into_a.copy_(torch.from_numpy(np.ascontiguousarray(new_a)))
            into_b.copy_(torch.from_numpy(np.ascontiguousarray(new_b)))


def _numpy(value: Tensor) -> Floats:
    return value.double().numpy()


def _orthonormal(rng: np.random.Generator, r: int, d: int) -> Floats:
    return np.linalg.qr(rng.standard_normal((d, r)))[0].T.copy()
