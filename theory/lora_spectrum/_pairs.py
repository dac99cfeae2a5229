"""Find the low-rank pairs in a live model by what its modules are called, without importing peft."""

from collections.abc import Iterator
from typing import Any

from porism.theory.lora_spectrum._adapter_files import PREFIX
from porism.theory.lora_spectrum._layout import matrices

__all__: list[str] = []

Pair = tuple[str, Any, Any, Any]


def live_pairs(model: Any, adapter: str) -> Iterator[Pair]:
    """Yield name, B (..., m, r), A (..., r, n) and scaling of each pair, in the order of the modules."""
    return (pair for pair, _ in live_factors(model, adapter))


def live_factors(model: Any, adapter: str) -> Iterator[tuple[Pair, str]]:
    """Yield each pair and its kind: linear, conv, embedding or expert."""
    for name, module in model.named_modules():
        name = name.replace("_orig_mod.", "").removeprefix(PREFIX)
        for kind in ("lora_embedding_", "lora_"):
            A, B = (_factor(getattr(module, f"{kind}{side}", None), adapter) for side in "AB")
            if A is None and B is None:
                continue
            if A is None or B is None:
                have, lack = ("B", "A") if A is None else ("A", "B")
                raise KeyError(f"{name} has {kind}{have} but no {kind}{lack} for the adapter {adapter!r}")
            scaling = getattr(module, "scaling", 1.0)
            scaling = scaling[adapter] if isinstance(scaling, dict) else scaling
            B, A, shape_kind = matrices(name, B.detach(), A.detach(), getattr(module, "num_experts", 1))
            yield (name, B, A, float(scaling)), "embedding" if "embedding" in kind else shape_kind


def adapters(model: Any) -> list[str]:
    """Names of the adapters that a model holds."""
    names: set[str] = set()
    for _, module in model.named_modules():
        for kind in ("lora_A", "lora_embedding_A"):
            holder = getattr(module, kind, None)
            if holder is not None and _is_keyed(holder):
                names |= set(holder.keys())
    return sorted(names)


def is_dora(model: Any, adapter: str) -> bool:
    """Whether a layer rescales the columns after adding this adapter."""
    flags = (getattr(module, "use_dora", None) for _, module in model.named_modules())
    return any(isinstance(flag, dict) and flag.get(adapter) for flag in flags)


def _factor(holder: Any, adapter: str) -> Any:
    if _is_keyed(holder):
        holder = holder[adapter] if adapter in holder else None  # noqa: SIM401  not every holder has get
    weight = getattr(holder, "weight", holder)  # a layer holds its factor as weight, a parameter is it
    return weight if hasattr(weight, "detach") else None


def _is_keyed(holder: Any) -> bool:
    return hasattr(holder, "keys") and hasattr(holder, "__getitem__")
