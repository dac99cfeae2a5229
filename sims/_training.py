"""The parts of the training loop that need torch: losses, optimisers, batches as tensors."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from porism.checks import one_of

__all__ = ["loss_function", "make_optimizers", "place", "trainable"]


def _next_token(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    out = model(x)
    return F.cross_entropy(out.flatten(0, -2), y.flatten())


def _classify(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


def _regress(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    out = model(x)
    if out.shape != y.shape:  # torch would broadcast
        raise ValueError(f"y must have the shape of the output, {tuple(out.shape)}, got {tuple(y.shape)}")
    return F.mse_loss(out, y)


LOSSES = {"next_token": _next_token, "classify": _classify, "regress": _regress}


def loss_function(loss: str | Callable[..., Any]) -> Callable[..., Tensor]:
    """Look a loss up, or take it as it is."""
    return loss if callable(loss) else LOSSES[one_of("loss", loss, LOSSES)]


def trainable(model: nn.Module, parameters: Iterable[nn.Parameter] | None) -> list[nn.Parameter]:
    """List what is to be trained, each once."""
    given = model.parameters() if parameters is None else parameters
    found = list(dict.fromkeys(p for p in given if parameters is not None or p.requires_grad))
    if not found:
        raise ValueError("parameters must not be empty, got none that requires a gradient; unfreeze some")
    if frozen := sum(not p.requires_grad for p in found):
        raise ValueError(f"parameters must require gradients, got {frozen} that do not; unfreeze them")
    return found


def make_optimizers(
    model: nn.Module,
    parameters: list[nn.Parameter],
    optimizer: str | Callable[..., Any],
    lr: float,
    weight_decay: float,
    betas: tuple[float, float],
) -> list[Any]:
    """Make the optimisers of a run; tensors with two axes decay, others do not."""

    def groups(some: list[nn.Parameter]) -> list[dict[str, Any]]:
        parts = (weight_decay, [p for p in some if p.ndim == 2]), (0.0, [p for p in some if p.ndim != 2])
        return [{"params": part, "lr": lr, "weight_decay": decay} for decay, part in parts if part]

    if callable(optimizer):
        made = optimizer(groups(parameters))
        return list(made) if isinstance(made, list | tuple) else [made]
    if one_of("optimizer", optimizer, ("adamw", "muon")) == "adamw":
        return [torch.optim.AdamW(groups(parameters), betas=betas)]
    inner = {id(p) for name, p in model.named_parameters() if name.startswith("blocks.") and p.ndim == 2}
    matrices = [p for p in parameters if id(p) in inner]
    if not matrices:
        raise ValueError(
            "optimizer 'muon' needs parameters with two axes in model.blocks, got none; use 'adamw', or pass "
            "a callable that makes the optimiser"
        )
    muon = torch.optim.Muon(groups(matrices), adjust_lr_fn="match_rms_adamw")
    rest = groups([p for p in parameters if id(p) not in inner])
    return [muon, torch.optim.AdamW(rest, betas=betas)] if rest else [muon]


def place(batch: Any, like: Tensor) -> list[Tensor]:
    """Turn a batch into tensors: where the parameters are, floats as they are, integers as int64."""
    found = []
    for part in batch:
        tensor = torch.as_tensor(part, device=like.device)
        if tensor.is_floating_point():
            tensor = tensor.to(like.dtype)
        elif tensor.dtype != torch.bool:
            tensor = tensor.long()
        found.append(tensor)
    return found
