"""LoRA layers of a peft model: found, checked before anything changes, and switched off for a pass."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require

__all__ = ["Adapter", "disabled", "double", "find_adapters", "write"]

VARIANTS = ("DoraLinearVariant", "ALoraLinearVariant")  # use A and B only through BA, or BA on some tokens
REFUSED = ("Embedding", "_ConvNd", "MultiheadAttention", "ParamWrapper")


@dataclasses.dataclass(frozen=True, eq=False)
class Adapter:
    """One pair of factors of a linear layer: a is (r, d), b is (m, r)."""

    name: str
    layer: Any
    a: Any
    b: Any
    bias: Any
    dora: bool

    @property
    def r(self) -> int:
        return int(self.a.shape[0])

    @property
    def d(self) -> int:
        return int(self.a.shape[1])


def find_adapters(model: Any, adapter_name: str, doing: str) -> list[Adapter]:
    """All layers of an adapter, or an error; nothing is changed."""
    torch = require("torch", "torch")
    require("peft", "hf")
    from peft.tuners.lora import LoraLayer
    from peft.tuners.tuners_utils import BaseTunerLayer

    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"model must be a peft model, got {type(model).__name__}; pass what get_peft_model gave"
        )
    tuned = [(name, m) for name, m in model.named_modules() if isinstance(m, BaseTunerLayer)]
    if not tuned:
        raise TypeError(
            f"model must have LoRA adapters, got a {type(model).__name__} without any; "
            "call get_peft_model first"
        )
    if not isinstance(adapter_name, str):
        raise TypeError(f"adapter_name must be a str, got {type(adapter_name).__name__}")
    own = [(name, m) for name, m in tuned if isinstance(m, LoraLayer) and adapter_name in _names(m)]
    if not own:
        _refuse_other_kinds(tuned, adapter_name, LoraLayer)
    found = [_adapter(name, layer, adapter_name) for name, layer in own]
    _refuse_shared(model, found, doing)
    return found


@contextlib.contextmanager
def disabled(model: Any) -> Iterator[None]:
    """The model without its adapters and its modules to save; all switches come back as they were."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils import other

    wrappers = (
        BaseTunerLayer,
        getattr(other, "AuxiliaryTrainingWrapper", other.ModulesToSaveWrapper),
    )
    wanted = [(p, p.requires_grad) for p in model.parameters()]
    switched = [m for m in model.modules() if isinstance(m, wrappers) and not m.disable_adapters]
    try:
        for module in switched:
            module.enable_adapters(False)
        yield
    finally:
        for module in switched:
            module.enable_adapters(True)
        for parameter, flag in wanted:
            if parameter.requires_grad != flag:
                parameter.requires_grad_(flag)


def double(tensor: Any) -> NDArray[np.float64]:
    """Copy of a tensor on the host in float64."""
    found: NDArray[np.float64] = tensor.detach().cpu().double().numpy().copy()
    return found


def write(tensor: Any, values: NDArray[np.float64]) -> None:
    """Copy values into a tensor, in its own type and place."""
    import torch

    with torch.no_grad():
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(values)))


def _names(layer: Any) -> set[str]:
    return {*layer.lora_A, *layer.lora_embedding_A}


def _refuse_other_kinds(tuned: list[tuple[str, Any]], adapter_name: str, lora: type) -> None:
    known = sorted({key for _, m in tuned if isinstance(m, lora) for key in _names(m)})
    if known:
        raise ValueError(
            f"adapter_name must be one of {', '.join(map(repr, known))}, got {adapter_name!r}; "
            "pass the name given to get_peft_model or add_adapter"
        )
    name, module = tuned[0]
    raise NotImplementedError(
        f"module {name!r} is a {type(module).__name__}; only LoRA of linear layers is known"
    )


def _adapter(name: str, layer: Any, adapter_name: str) -> Adapter:
    import torch
    from peft.tuners.adalora import AdaLoraLayer
    from peft.tuners.lora import layer as kinds

    refused = tuple(getattr(kinds, kind) for kind in REFUSED if hasattr(kinds, kind))
    if isinstance(layer, (AdaLoraLayer, *refused)) or adapter_name not in layer.lora_A:
        raise NotImplementedError(
            f"module {name!r} is adapted by {type(layer).__module__.split('.')[-1]}.{type(layer).__name__}; "
            "only LoRA of linear layers is known: leave it out of target_modules"
        )
    down, up = layer.lora_A[adapter_name], layer.lora_B[adapter_name]
    variant = type(getattr(layer, "lora_variant", {}).get(adapter_name)).__name__
    if variant not in ("NoneType", *VARIANTS):
        raise NotImplementedError(f"module {name!r} uses {variant}, which is more than W + s B A")
    if not isinstance(down, torch.nn.Linear) or not isinstance(up, torch.nn.Linear):
        raise NotImplementedError(
            f"module {name!r} has factors {type(down).__name__} and {type(up).__name__}; only linear ones "
            "are known"
        )
    a, b = down.weight, up.weight
    for factor in (a, b):
        if hasattr(factor, "ds_id") or hasattr(factor, "full_tensor") or hasattr(factor, "_is_flat_param"):
            raise NotImplementedError(
                f"module {name!r} has sharded factors; initialise and pivot before FSDP or ZeRO wraps it"
            )
        if factor.device.type == "meta":
            raise NotImplementedError(f"module {name!r} is on the meta device; load its weights first")
    r = int(layer.r[adapter_name])
    if tuple(a.shape) != (r, layer.in_features) or tuple(b.shape) != (layer.out_features, r):
        raise NotImplementedError(
            f"module {name!r} has factors of shape {tuple(a.shape)} and {tuple(b.shape)}, not "
            f"{(r, layer.in_features)} and {(layer.out_features, r)}; flattened or grouped ones are not known"
        )
    dora = variant == "DoraLinearVariant" or adapter_name in getattr(layer, "lora_magnitude_vector", {})
    return Adapter(name, layer, a, b, up.bias, dora)


def _refuse_shared(model: Any, found: list[Adapter], doing: str) -> None:
    """Two adapters on one storage cannot be written one by one."""
    owners: dict[tuple[str, int], str] = {}
    ours = {id(p) for adapter in found for p in (adapter.a, adapter.b)}
    shared: set[tuple[str, int]] = set()
    factors = [
        (f"{owner}.{key}", p)
        for owner, module in model.named_modules()
        for key, p in module.named_parameters(recurse=False)
        if "lora_" in f"{owner}.{key}" and p.device.type != "meta" and not hasattr(p, "full_tensor")
    ]
    for _ in range(2):  # the second round sees ties to adapters that come later
        for name, p in factors:
            place = (str(p.device), p.data_ptr())
            if p.numel() and owners.setdefault(place, name) != name:
                shared.add(place)
            if id(p) in ours and place in shared:
                raise RuntimeError(f"adapter is shared by {owners[place]!r} and others; untie before {doing}")
