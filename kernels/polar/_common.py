"""What the implementations share: input rules, default tolerances, coefficient sets."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer

__all__: list[str] = []

Triple = tuple[float, float, float]

QUINTIC: list[Triple] = [(3.4445, -4.7750, 2.0315)]
POLAR_EXPRESS: list[Triple] = [
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
]
TAYLOR: Triple = (1.875, -1.25, 0.375)
NAMED = {
    "quintic": (QUINTIC, 1.0, 5),
    "polar_express": (POLAR_EXPRESS, 1.02, 5),
    "taylor": ([TAYLOR], 1.0, 5),
}

METHODS = ("auto", "gram", "svd", "polynomial")
EPS64 = float(np.finfo(np.float64).eps)


def _real(name: str, value: Any, way_out: str) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}; {way_out}")
    return float(value)


def rtol_value(value: Any) -> float | None:
    """Accept None or a number in [0, 1)."""
    if value is None:
        return None
    number = _real("rtol", value, "leave it out for the default")
    if not 0 <= number < 1:
        raise ValueError(f"rtol must be in [0, 1), got {number!r}; it is relative to the largest value")
    return number


def check_shape(shape: Sequence[int], name: str) -> None:
    """Refuse what is no matrix."""
    if len(shape) < 2:
        raise ValueError(
            f"{name} needs a matrix (..., m, n); got shape {tuple(shape)}; reshape or add an axis first"
        )


def as_array(G: Any, name: str) -> NDArray[Any]:
    """Accept a numpy array or nested lists of floats."""
    array = np.asarray(G)
    if array.dtype.kind != "f":
        raise TypeError(f"{name} needs a real floating dtype; got {array.dtype}; convert it to float first")
    check_shape(array.shape, name)
    return array


def check_tensor(G: Any, name: str) -> None:
    """Refuse a tensor that no method can take."""
    import torch

    if G.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"{name} needs a real floating dtype; got {G.dtype}; convert it to float first")
    if G.layout != torch.strided:
        raise TypeError(f"{name} needs a dense tensor; got layout {G.layout}; call to_dense() first")
    check_shape(G.shape, name)
    if G.requires_grad and torch.is_grad_enabled():
        raise RuntimeError(f"{name} has no gradient; detach G or call it under torch.no_grad()")


def refuse_nonfinite(flat: Iterable[int], batch: Sequence[int]) -> None:
    """Raise for members, by flat index, that hold NaN or infinity."""
    found = list(flat)
    if not found:
        return
    if not batch:
        raise ValueError("non-finite entries in G; drop or replace them, or pass check_finite=False")
    places = [tuple(int(i) for i in np.unravel_index(k, tuple(batch))) for k in found[:8]]
    shown = ", ".join(str(p[0] if len(p) == 1 else p) for p in places) + (", ..." if len(found) > 8 else "")
    raise ValueError(
        f"non-finite entries in G (batch indices [{shown}]); drop or replace them, or pass check_finite=False"
    )


def default_rtol(bits: int, eps: float) -> float:
    """Rank tolerance of a dtype, relative to the largest singular value."""
    return eps if bits <= 16 else 8 * eps


def schedule(coefficients: Any, steps: Any, polish: Any) -> tuple[list[Triple], float]:
    """Triples in the order of use, and what the start is divided by besides its norm."""
    if isinstance(coefficients, str):
        if coefficients not in NAMED:
            raise ValueError(
                f"coefficients must be one of {', '.join(map(repr, NAMED))} or a list of triples, "
                f"got {coefficients!r}"
            )
        triples, safety, count = NAMED[coefficients]
    else:
        try:
            values = np.asarray(coefficients, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.empty(0)
        if values.ndim == 1 and values.size == 3:
            values = values[None]
        if values.ndim != 2 or values.shape[1] != 3 or not len(values) or not np.isfinite(values).all():
            raise ValueError(
                f"coefficients must be a name or a list of finite triples (a, b, c), got {coefficients!r}"
            )
        triples, safety = [(float(a), float(b), float(c)) for a, b, c in values], 1.0
        count = len(triples)
    count = count if steps is None else integer("steps", steps, 0)
    used = [triples[min(k, len(triples) - 1)] for k in range(count)]
    return used + [TAYLOR] * integer("polish", polish, 0), safety
