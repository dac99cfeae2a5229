"""Arguments of the core: NumPy or torch, one shape, float64 inside, and the messages of bad input."""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import detached

Floats = NDArray[np.float64]
ROOT_2PI = math.sqrt(2 * math.pi)
LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


def is_tensor(value: Any) -> bool:
    """Whether the value is a torch tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_numpy(name: str, value: Any) -> Floats:
    """A float64 array; object arrays, strings, complex numbers and ragged rows are refused."""
    try:
        array = np.asarray(detached(value))
    except ValueError:
        raise ValueError(
            f"{name} must be a rectangular array, got rows of unequal length; pad or split them"
        ) from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}; convert it to float first")
    return array.astype(np.float64, copy=False)


def unify(**named: Any) -> tuple[Any, list[Any], Callable[[Any], Any]]:
    """Module to compute with, the arguments in float64, and what turns a result into the caller's kind.

    With a tensor among the arguments everything is a tensor on its device, and results take the promoted
    dtype of the floating tensors. Otherwise everything is NumPy; results of scalars are Python numbers.
    """
    tensors = [value for value in named.values() if is_tensor(value)]
    if not tensors:
        arrays = [to_numpy(name, value) for name, value in named.items()]
        scalar = all(np.ndim(value) == 0 and not isinstance(value, np.ndarray) for value in named.values())
        return np, arrays, _number if scalar else np.asarray
    torch = sys.modules["torch"]
    floats = [t.dtype for t in tensors if t.dtype.is_floating_point]
    dtype = torch.float64
    if floats:
        dtype = floats[0]
        for other in floats[1:]:
            dtype = torch.promote_types(dtype, other)
    device = tensors[0].device
    values = []
    for name, value in named.items():
        if is_tensor(value):
            if value.dtype.is_complex:
                raise ValueError(
                    f"{name} must hold real numbers, got dtype {value.dtype}; take its real part"
                )
            values.append(value.to(device=device, dtype=torch.float64))
        else:
            values.append(torch.as_tensor(to_numpy(name, value), dtype=torch.float64, device=device))
    return torch, values, lambda x: x.to(dtype) if x.dtype.is_floating_point else x


def arrays(**named: Any) -> tuple[list[Floats], tuple[int, ...], Callable[[Any], Any]]:
    """Arguments in float64, their common shape, and what turns a result into the caller's kind."""
    for name, value in named.items():
        if is_tensor(value):
            raise ValueError(f"{name} must be an array, got a torch tensor; pass tensor.numpy()")
    _, values, restore = unify(**named)
    return values, check_shapes(**dict(zip(named, values, strict=True))), restore


def _number(x: Any) -> Any:
    return x.item() if np.ndim(x) == 0 else x


def check_shapes(**named: Any) -> tuple[int, ...]:
    """The common shape; a mismatch names the shapes."""
    try:
        return np.broadcast_shapes(*(tuple(value.shape) for value in named.values()))
    except ValueError:
        shapes = " and ".join(f"{name} of shape {tuple(value.shape)}" for name, value in named.items())
        raise ValueError(f"{shapes} do not fit each other; make them equal or of length 1") from None


def check_cost(cost: Any, name: str = "cost") -> None:
    """Costs are >= 0; +inf stands for a specialist that cannot be refined."""
    if not bool((cost >= 0).all()):  # NaN fails too
        raise ValueError(f"{name} must be >= 0; got min {_least(cost)}")


def check_nu(nu: Any, name: str = "nu") -> None:
    """Standard deviations are finite and >= 0."""
    if not bool(((nu >= 0) & (nu < math.inf)).all()):
        worst = _least(nu) if bool((nu < 0).any() | (nu != nu).any()) else math.inf
        raise ValueError(f"{name} must be >= 0 and finite; got {worst}, give 0 where refining tells nothing")


def check_finite(name: str, value: Any) -> None:
    """Every entry is finite."""
    if not bool((abs(value) < math.inf).all()):
        bad = value[~(abs(value) < math.inf)]
        raise ValueError(f"{name} must be finite; got {float(bad.reshape(-1)[0])}, drop or replace it")


def check_not_nan(name: str, value: Any) -> None:
    """No entry is NaN."""
    if bool((value != value).any()):
        raise ValueError(f"{name} must not be NaN; use -inf for an alternative that does not exist")


def money(costs: Any, prices: Any, lam: Any, K: int, name: str = "costs") -> tuple[Floats, Floats, float]:
    """Costs >= 0 (infinite where refining is impossible) and finite prices, one a specialist, and lam."""
    each = []
    for word, value in ((name, costs), ("prices", prices)):
        array = to_numpy(word, value)
        if array.shape not in ((), (K,)):
            raise ValueError(f"{word} must be a number or have shape ({K},), got shape {array.shape}")
        each.append(np.broadcast_to(array, (K,)).copy())
    check_cost(each[0])
    check_finite("prices", each[1])
    return each[0], each[1], rate(lam)


def in_value(costs: Floats, lam: float) -> Floats:
    """Costs in units of value; where refining is impossible it stays so at every rate."""
    return np.multiply(lam, costs, out=np.full(costs.shape, math.inf), where=np.isfinite(costs))


def rate(lam: Any) -> float:
    """The exchange rate of money."""
    value = to_numpy("lam", lam)
    if value.ndim or not 0 <= value < math.inf:
        raise ValueError(f"lam must be >= 0 and finite, got {lam}; it is the value of a unit of money")
    return float(value)


def outside_option(outside: Any) -> float:
    """The value of choosing nobody."""
    value = to_numpy("outside", outside)
    if value.ndim or not value < math.inf:
        raise ValueError(f"outside must be a number or -inf, got {outside}; -inf says that there is none")
    return float(value)


def specialist_names(names: Any, K: int) -> tuple[str, ...]:
    """Names by which specialists are counted and answered."""
    found = tuple(map(str, names))
    if len(found) != K:
        raise ValueError(f"names must name the {K} specialists, got {len(found)} names")
    twice = next((name for i, name in enumerate(found) if name in (*found[:i], "outside")), None)
    if twice is not None:
        raise ValueError(f"names must differ from each other and from 'outside', got {twice!r}; rename it")
    return found


def _least(x: Any) -> float:
    return math.nan if bool((x != x).any()) else float(x.min())
