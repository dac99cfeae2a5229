"""The parts of the LoRA world that need torch: adapters and optimisers."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from porism.sims.spectral_flow._optimizers import torch_muon

__all__ = ["LoraAdapter", "adapt", "make_optimizer"]


class LoraAdapter(nn.Module):
    """``x -> scaling * B A x``, from ``B = 0`` and ``A = scale * N(0, 1)``."""

    def __init__(
        self, weight: Tensor, rank: int, scale: float, scaling: float, draws: torch.Generator
    ) -> None:
        super().__init__()
        out, into = weight.shape
        first = scale * torch.randn(rank, into, generator=draws, dtype=torch.float32)
        self.lora_A = nn.Parameter(first.to(weight))
        self.lora_B = nn.Parameter(weight.new_zeros(out, rank))
        self.scaling = scaling

    def forward(self, x: Tensor) -> Tensor:
        return self.scaling * F.linear(F.linear(x, self.lora_A), self.lora_B)


def adapt(model: Any, rank: int, scale: float, scaling: float, seed: int) -> list[nn.Parameter]:
    """Freeze a tiny transformer, put an adapter on every linear map of its blocks, list what is trained."""
    model.requires_grad_(False)
    draws = torch.Generator().manual_seed(seed)
    found: list[nn.Parameter] = []
    for layer in model.named_linears().values():
        layer.adapter = LoraAdapter(layer.weight, rank, scale, scaling, draws)
        found += [layer.adapter.lora_A, layer.adapter.lora_B]
    return found


def make_optimizer(name: str, parameters: list[nn.Parameter], lr: float, options: dict[str, Any]) -> Any:
    """Make an optimiser without weight decay; both kinds of Muon scale their step with the shape alike."""
    if name == "spectral_muon":
        from porism.kernels.polar import SpectralMuon

        return SpectralMuon(parameters, lr=lr, **{"shape_scale": "original", **options})
    if name == "muon":
        kind = torch_muon("spectral_muon")
    else:
        kind = torch.optim.AdamW if name == "adamw" else torch.optim.SGD
    return kind(parameters, lr=lr, **{"weight_decay": 0.0, **options})
