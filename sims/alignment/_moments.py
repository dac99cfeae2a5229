"""Running averages of an optimiser at a rotation of rank coordinates."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.sims.alignment._adapters import Adapter, double, write

__all__ = ["MOMENTS", "admit", "check_moments", "move", "silence", "unwrap"]

MOMENTS = ("transport", "reset", "keep")
LINEAR, SQUARE = ("exp_avg", "momentum_buffer"), ("exp_avg_sq", "max_exp_avg_sq")
STATE = {"adam": {"step", "exp_avg", *SQUARE}, "sgd": {"momentum_buffer"}}


def check_moments(moments: Any) -> str:
    """The rule's name; what would blow the next step up is no rule."""
    if isinstance(moments, str) and moments in MOMENTS:
        return moments
    raise ValueError(
        f"moments must be one of {', '.join(map(repr, MOMENTS))}, got {moments!r}; to zero second moments "
        "alone is no rule: the next step would grow by sqrt((1 - beta2^t) / (1 - beta2)), 32 in the limit"
    )


def unwrap(optimizer: Any) -> Any:
    """The optimiser of torch inside of wrappers, such as accelerate's."""
    torch = require("torch", "torch")
    known = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
    seen: set[int] = set()
    while not isinstance(optimizer, known) and id(optimizer) not in seen:
        seen.add(id(optimizer))
        optimizer = getattr(optimizer, "optimizer", optimizer)
    return optimizer


def admit(optimizer: Any, adapters: list[Adapter], moments: str) -> str:
    """Kind of the optimiser, after all refusals; "none" where its state stays as it is."""
    if optimizer is None or moments == "keep":
        return "none"
    torch = require("torch", "torch")
    if isinstance(optimizer, torch.optim.SGD):
        kind = "sgd"
    elif isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW)):
        kind = "adam"
    else:
        raise TypeError(
            f"optimizer must be torch's Adam, AdamW or SGD, got {type(optimizer).__name__}, whose state is "
            "not known; pass moments='keep' to leave its state unmoved"
        )
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for adapter in adapters:
        for factor in (adapter.a, adapter.b):
            if id(factor) not in held:
                if factor.requires_grad:
                    raise ValueError(
                        f"optimizer must hold the factors of {adapter.name!r}, which are trainable; pass "
                        "the one that was built after get_peft_model"
                    )
                continue
            state = optimizer.state.get(factor, {})
            more = set(state) - STATE[kind]
            if more:
                raise TypeError(
                    f"optimizer must be plain Adam, AdamW or SGD, got {type(optimizer).__name__} with "
                    f"the state {', '.join(sorted(map(str, more)))}; pass moments='keep' to leave it unmoved"
                )
            for key in (*LINEAR, *SQUARE):
                if state.get(key) is not None and state[key].shape != factor.shape:
                    raise NotImplementedError(
                        f"module {adapter.name!r} has {key} of shape {tuple(state[key].shape)}, not "
                        f"{tuple(factor.shape)}; sharded states are not known"
                    )
    return kind


def move(optimizer: Any, a: Any, b: Any, q: NDArray[np.float64], moments: str) -> None:
    """Carry the averages of two factors over to rank coordinates turned by q, or start them anew."""
    for factor, down in ((a, True), (b, False)):
        state = optimizer.state.get(factor)
        if not state:
            continue
        if moments == "reset":
            if "step" not in state:  # SGD treats a missing buffer as the first step, a zero one not
                del optimizer.state[factor]
                continue
            for key in ("exp_avg", *SQUARE):
                if key in state:
                    state[key].zero_()
            state["step"] = state["step"].zero_() if hasattr(state["step"], "zero_") else 0
            continue
        for keys, turn in ((LINEAR, q), (SQUARE, q**2)):
            for key in keys:
                if state.get(key) is not None:
                    old = double(state[key])
                    write(state[key], turn @ old if down else old @ turn.T)


def silence(optimizer: Any, adapter: Adapter, slots: NDArray[np.intp]) -> None:
    """No momentum in rank coordinates that start anew."""
    for factor, down in ((adapter.a, True), (adapter.b, False)):
        state = optimizer.state.get(factor, {})
        for key in (*LINEAR, *SQUARE):
            if state.get(key) is not None:
                values = double(state[key])
                values[(slots, slice(None)) if down else (slice(None), slots)] = 0.0
                write(state[key], values)
