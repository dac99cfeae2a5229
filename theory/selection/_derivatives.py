"""Derivative of a vector of losses along one direction: forward mode, double backward, differences."""

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from porism.checks import require
from porism.theory.selection._inputs import LossVector, Params, losses, norm

Derivative = Callable[[LossVector, Params, Any, slice, Params], Any]


@contextlib.contextmanager
def plain_attention() -> Iterator[None]:
    """Attention by matrix products: the fused kernels have neither forward mode nor double backward."""
    torch = require("torch", "torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
        yield


def forward_mode(loss_vector: LossVector, params: Params, part: Any, at: slice, direction: Params) -> Any:
    torch = require("torch", "torch")
    forward_ad: Any = importlib.import_module("torch.autograd.forward_ad")

    with plain_attention(), torch.no_grad(), forward_ad.dual_level():
        with warnings.catch_warnings():  # the first call loads formulas that torch itself has deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            dual = {name: forward_ad.make_dual(value, direction[name]) for name, value in params.items()}
        value, tangent = forward_ad.unpack_dual(losses(loss_vector, dual, part, at))
    return torch.zeros_like(value) if tangent is None else tangent.detach()


def double_backward(loss_vector: LossVector, params: Params, part: Any, at: slice, direction: Params) -> Any:
    """The gradient of ``sum u_i l_i`` is linear in u; its product with the direction has rows as slope."""
    torch = require("torch", "torch")
    with plain_attention():
        leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
        value = losses(loss_vector, leaves, part, at)
        u = torch.ones_like(value).requires_grad_()
        used = [name for name in leaves if bool((direction[name] != 0).any())]
        if not used:
            return torch.zeros_like(value).detach()
        parts = torch.autograd.grad(
            value, [leaves[name] for name in used], u, create_graph=True, allow_unused=True
        )
        product: Any = sum(
            (part * direction[name]).sum() for name, part in zip(used, parts, strict=True) if part is not None
        )
        if isinstance(product, int):  # the losses use none of them
            return torch.zeros_like(value).detach()
        return torch.autograd.grad(product, u)[0].detach()


def central(loss_vector: LossVector, params: Params, part: Any, at: slice, direction: Params) -> Any:
    """``(l(theta + e d) - l(theta - e d)) / 2e``; e balances curvature against rounding."""
    torch = require("torch", "torch")
    with torch.no_grad():
        step = _step(params, direction)
        if step is None:
            return torch.zeros_like(losses(loss_vector, params, part, at))
        ends = []
        for sign in (1, -1):
            moved = {name: value.add(direction[name], alpha=sign * step) for name, value in params.items()}
            ends.append(losses(loss_vector, moved, part, at))
        return (ends[0] - ends[1]) / (2 * step)


def _step(params: Params, direction: Params) -> float | None:
    """Step at which tensors change by 1e-3 of their size in float32, root mean square over their slopes.

    One common size of all parameters would be led by large tensors whose slope is small: in a transformer
    that steps over the embedding's curvature. A tensor that is zero, or next to it, counts as a tenth of the
    common size.
    """
    torch = require("torch", "torch")
    slopes = {name: norm({name: value}) for name, value in direction.items()}
    length = sum(value**2 for value in slopes.values()) ** 0.5
    if length == 0.0:
        return None
    usual = norm(params) / sum(value.numel() for value in params.values()) ** 0.5 or 1.0
    change = 0.0
    for name, value in params.items():
        size, common = norm({name: value}), usual * value.numel() ** 0.5
        size = size if size > 1e-3 * common else 0.1 * common
        change += (slopes[name] ** 2 / (size * length)) ** 2 if slopes[name] else 0.0
    eps = max(torch.finfo(value.dtype).eps for value in params.values())
    return float(0.2 * eps ** (1 / 3) / change**0.5)


CHAIN: dict[str, Derivative] = {
    "jvp": forward_mode,
    "double_backward": double_backward,
    "central": central,
}
"""In the order of trial: an operation without one kind of derivative falls through to the next."""


class Slope:
    """Derivative by the first method of the chain that the model's operations support."""

    def __init__(self, method: str) -> None:
        names = list(CHAIN)
        self.left = names[names.index("jvp" if method == "auto" else method) :]
        self.fallbacks: list[str] = []

    @property
    def method(self) -> str:
        return self.left[0]

    def __call__(self, loss_vector: LossVector, params: Params, part: Any, at: slice, way: Params) -> Any:
        torch = require("torch", "torch")
        while True:
            try:
                return CHAIN[self.method](loss_vector, params, part, at, way)
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, NotImplementedError) as error:  # what torch raises without a formula
                if len(self.left) == 1:
                    raise
                words = " ".join(str(error).split())
                self.fallbacks.append(f"{self.method}: {words[:160]}")
                self.left = self.left[1:]
