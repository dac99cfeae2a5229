"""What scikit-learn does for its estimators, without it: parameters, input checks, messages."""

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.pattern._orders import adjacency

__all__ = ["difference", "matrix_of", "not_fitted", "parameters"]


def parameters(cls: type) -> dict[str, Any]:
    signature = inspect.signature(cls)
    return {name: p.default for name, p in signature.parameters.items()}


def matrix_of(X: Any) -> tuple[Any, NDArray[Any] | None]:
    """X as an array or sparse matrix with two axes, and the names of its columns if all are strings."""
    X = adjacency(X)
    names = None
    columns = getattr(X, "columns", None)
    if columns is not None:
        listed = list(columns)
        text = [isinstance(name, str) for name in listed]
        if all(text):
            names = np.array(listed, dtype=object)
        elif any(text):
            raise TypeError("Feature names are only supported if all input features have string names")
    if not hasattr(X, "tocsr"):
        X = np.asarray(X)
        if X.dtype == object:
            try:
                X = X.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise type(error)(
                    f"X must hold real numbers: {error}; argument must be a string or a number"
                ) from None
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: pass abs(X)")
    if len(X.shape) != 2:
        raise ValueError(
            f"X must be 2-D, got shape {X.shape}. Reshape your data: a pattern needs rows and columns"
        )
    if 0 in X.shape:
        axis = "sample(s)" if X.shape[0] == 0 else "feature(s)"
        raise ValueError(f"Found array with 0 {axis} (shape={X.shape}) while a minimum of 1 is required.")
    return X, names


def not_fitted(name: str) -> ValueError:
    text = f"This {name} instance is not fitted yet; call fit first"
    try:
        from sklearn.exceptions import NotFittedError
    except ModuleNotFoundError:
        return ValueError(text)
    return NotFittedError(text)


def difference(known: NDArray[Any], names: NDArray[Any]) -> str:
    extra = [name for name in names if name not in known]
    missing = [name for name in known if name not in names]
    lines = []
    if extra:
        lines += ["Feature names unseen at fit time:", *(f"- {name}" for name in sorted(extra)[:5])]
    if missing:
        lines += [
            "Feature names seen at fit time, yet now missing:",
            *(f"- {n}" for n in sorted(missing)[:5]),
        ]
    if not lines:
        lines = ["Feature names must be in the same order as they were in fit."]
    return "\n".join(lines) + "\n"
