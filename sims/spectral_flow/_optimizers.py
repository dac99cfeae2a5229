"""One step of each optimiser on a pair of factors, in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require

__all__ = ["OPTIMIZERS", "make_step", "torch_muon"]

Array = NDArray[np.float64]
Step = Callable[[Array, Array, float], None]

OPTIMIZERS = ("spectral", "newton_schulz", "polar_express", "gd", "adam", "muon")
"""Names of optimisers."""

POLYNOMIALS = {"newton_schulz": "quintic", "polar_express": "polar_express"}


def make_step(optimizer: str, B: Array, A: Array, options: dict[str, Any]) -> Step:
    """Make a function ``(G_B, G_A, lr)`` that moves B and A in place."""
    if optimizer in ("adam", "muon"):
        return _wrapped(optimizer, B, A, options)
    turn = _direction(optimizer, options)

    def step(GB: Array, GA: Array, lr: float) -> None:
        forward, back = turn(GB), turn(GA)
        B.__isub__(lr * forward)
        A.__isub__(lr * back)

    return step


def torch_muon(instead: str) -> Any:
    """The Muon of torch; where torch is too old for it, say so and name the optimiser to use instead."""
    torch = require("torch", "torch")
    if not hasattr(torch.optim, "Muon"):
        raise ImportError(
            f"optimizer 'muon' needs torch >= 2.9, which has torch.optim.Muon, got {torch.__version__}; "
            f"update torch, or use {instead!r}"
        )
    return torch.optim.Muon


def _direction(optimizer: str, options: dict[str, Any]) -> Callable[[Array], Array]:
    if optimizer == "gd":
        if options:
            raise TypeError(f"optimizer 'gd' takes no further arguments, got {', '.join(sorted(options))}")
        return lambda G: G
    torch = require("torch", "torch")
    from porism.kernels.polar import newton_schulz, polar_factor

    if optimizer == "spectral":
        return lambda G: np.asarray(polar_factor(torch.from_numpy(G), **options), np.float64)
    settings = {"coefficients": POLYNOMIALS[optimizer], **options}
    return lambda G: np.asarray(newton_schulz(torch.from_numpy(G), **settings).double(), np.float64)


def _wrapped(optimizer: str, B: Array, A: Array, options: dict[str, Any]) -> Step:
    """An optimiser of torch on parameters that share the memory of B and A."""
    torch = require("torch", "torch")
    if optimizer == "adam":
        kind: Any = torch.optim.Adam
    else:
        kind = torch_muon("newton_schulz")
        options = {"weight_decay": 0.0, **options}
    parameters = [torch.nn.Parameter(torch.from_numpy(X)) for X in (B, A)]
    made = kind(parameters, lr=1.0, **options)

    def step(GB: Array, GA: Array, lr: float) -> None:
        for parameter, G in zip(parameters, (GB, GA), strict=True):
            parameter.grad = torch.from_numpy(np.ascontiguousarray(G))
        for group in made.param_groups:
            group["lr"] = lr
        made.step()

    return step
