"""A small transformer on patches of digits, many runs at once, with a frozen pass and a replay."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

LAYERS, WIDTH, HEADS = 2, 32, 2
PATCHES, PIXELS, CLASSES = 16, 4, 10
READOUT, LENGTH = PATCHES, PATCHES + 1

Weights = dict[str, Tensor]
Frozen = list[tuple[Tensor, Tensor]]


def start(seeds: list[int]) -> Weights:
    """Weights of the backbone and of the pretraining head, one run a seed, along the first axis."""
    runs = [_draw(torch.Generator().manual_seed(seed)) for seed in seeds]
    return {name: torch.stack([run[name] for run in runs]) for name in runs[0]}


def _draw(generator: torch.Generator) -> Weights:
    found: Weights = {}

    def linear(name: str, d_in: int, d_out: int, shrink: float = 1.0) -> None:
        weight = torch.randn(d_in, d_out, generator=generator)
        found[f"{name}.weight"] = weight * (shrink / d_in**0.5)
        found[f"{name}.bias"] = torch.zeros(d_out)

    def norm(name: str) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = torch.ones(WIDTH), torch.zeros(WIDTH)

    linear("input", PIXELS, WIDTH)
    for name, shape in (("positions", (LENGTH, WIDTH)), ("readout", (WIDTH,)), ("mask", (WIDTH,))):
        found[name] = 0.3 * torch.randn(*shape, generator=generator)
    for layer in range(LAYERS):
        norm(f"{layer}.norm_1")
        for part in "qkv":
            linear(f"{layer}.{part}", WIDTH, WIDTH)
        linear(f"{layer}.o", WIDTH, WIDTH, (2 * LAYERS) ** -0.5)
        norm(f"{layer}.norm_2")
        linear(f"{layer}.up", WIDTH, 4 * WIDTH)
        linear(f"{layer}.down", 4 * WIDTH, WIDTH, (2 * LAYERS) ** -0.5)
    norm("norm")
    linear("regress", WIDTH, PIXELS)
    return found


def head(seeds: list[int]) -> Weights:
    """A new classifier for each run."""
    draws = [torch.randn(WIDTH, CLASSES, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return {
        "classify.weight": torch.stack(draws) * 0.1 / WIDTH**0.5,
        "classify.bias": torch.zeros(len(seeds), CLASSES),
    }


def linear(w: Weights, name: str, x: Tensor) -> Tensor:
    """A linear map of every run, (R, N, T, d_in) to (R, N, T, d_out)."""
    weight = w[f"{name}.weight"]
    flat = torch.baddbmm(w[f"{name}.bias"][:, None], x.reshape(len(x), -1, x.shape[-1]), weight)
    return flat.view(*x.shape[:-1], weight.shape[-1])


def _norm(w: Weights, name: str, x: Tensor) -> Tensor:
    unit = F.layer_norm(x, (WIDTH,))
    return torch.addcmul(w[f"{name}.bias"][:, None, None], unit, w[f"{name}.weight"][:, None, None])


def pick(x: Tensor, positions: Tensor | None) -> Tensor:
    """Rows (R, N, k, ...) of selected positions (R, N, k); all where there is no selection."""
    if positions is None:
        return x
    return x.gather(2, positions[..., None].expand(*positions.shape, x.shape[-1]))


def embed(w: Weights, patches: Tensor, hidden: Tensor | None = None) -> Tensor:
    """Tokens (R, N, 17, d) of patches (R, N, 16, 4) and the readout; hidden patches become the mask token."""
    x = linear(w, "input", patches)
    if hidden is not None:
        x = torch.where(hidden[..., None], w["mask"][:, None, None], x)
    readout = w["readout"][:, None, None].expand(len(x), x.shape[1], 1, WIDTH)
    return torch.cat([x, readout], dim=2) + w["positions"][:, None]


def backbone(
    w: Weights,
    h: Tensor,
    causal: bool,
    positions: Tensor | None = None,
    frozen: Frozen | None = None,
    record: Frozen | None = None,
    watch: dict[str, Tensor] | None = None,
) -> Tensor:
    """Hidden states after the last norm, of tokens h (R, N, k, d) that stand at `positions`.

    With `frozen` keys and values of all positions, those of the tokens themselves replace their entries.
    `watch` gets what query and first MLP maps read.
    """
    runs, rows, count, _ = h.shape
    seen = None
    if causal:
        at = torch.arange(LENGTH)
        here = at if positions is None else positions.reshape(runs * rows, 1, count)
        seen = here[..., None] >= at
    for layer in range(LAYERS):
        x = _norm(w, f"{layer}.norm_1", h)
        q, k, v = (linear(w, f"{layer}.{part}", x) for part in "qkv")
        if watch is not None:
            watch[f"{layer}.q"] = x
        if record is not None:
            record.append((k, v))
        if frozen is not None and positions is not None:
            index = positions[..., None].expand(runs, rows, count, WIDTH)
            k, v = (old.scatter(2, index, new) for old, new in zip(frozen[layer], (k, v), strict=True))
        q, k, v = (z.reshape(runs * rows, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for z in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        h = h + linear(w, f"{layer}.o", mixed.transpose(1, 2).reshape(h.shape))
        x = _norm(w, f"{layer}.norm_2", h)
        if watch is not None:
            watch[f"{layer}.up"] = x
        h = h + linear(w, f"{layer}.down", F.gelu(linear(w, f"{layer}.up", x), approximate="tanh"))
    return _norm(w, "norm", h)


def replay(w: Weights, patches: Tensor, causal: bool, positions: Tensor | None) -> Tensor:
    """Hidden states of selected positions, whose gradient stops at all others: record, then replay."""
    if positions is None:
        return backbone(w, embed(w, patches), causal)
    frozen: Frozen = []
    with torch.no_grad():
        backbone(w, embed(w, patches), causal, record=frozen)
    return backbone(w, pick(embed(w, patches), positions), causal, positions, frozen)


def adam(parameters: list[Tensor], lr: float) -> Any:
    """Adam acts entry by entry, so that runs along the first axis stay independent."""
    return torch.optim.Adam(parameters, lr=lr, betas=(0.9, 0.95))
