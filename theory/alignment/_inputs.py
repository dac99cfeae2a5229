"""Features and labels as users hold them: numpy or torch, half precision included."""

import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import detached, finite_array
from porism.theory.alignment import _crossfit
from porism.theory.linalg import orthonormal

_DOUBLE = float(np.finfo(np.float64).eps)
_BFLOAT16 = 2.0**-7
FOLDED = ("crossfit", "posterior")  # estimators whose subspace comes from training folds
_LARGEST = 256  # rows for which the interval is computed


def features(value: Any, name: str = "x") -> tuple[NDArray[np.float64], float]:
    """Rows in float64, and the machine epsilon of the type they came in."""
    if hasattr(value, "detach") and value.is_floating_point():  # a torch tensor, so torch is loaded
        eps = float(sys.modules["torch"].finfo(value.dtype).eps)
        value = value.detach().cpu().double().numpy()
    else:
        try:
            value = np.asarray(detached(value))
        except ValueError:
            raise ValueError(f"{name} must be rectangular, got rows of unequal length; pad them") from None
        if value.dtype.name == "bfloat16":  # a type that packages add to numpy
            value, eps = value.astype(np.float64), _BFLOAT16
        else:
            eps = float(np.finfo(value.dtype).eps) if value.dtype.kind == "f" else _DOUBLE
    if value.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {value.dtype}; convert it to float first")
    if value.ndim != 2:
        raise ValueError(f"{name} must have the axes (sample, feature), got shape {value.shape}; reshape it")
    if value.shape[1] < 1:
        raise ValueError(f"{name} must have at least one feature, got shape {value.shape}; pass rows of R^d")
    rows = value.astype(np.float64, copy=False)
    finite = np.isfinite(rows)
    if not finite.all():
        raise ValueError(
            f"features of {name!r} contain {int((~finite).sum())} non-finite values "
            f"(first at row {int(np.argmin(finite.all(axis=1)))}); rho is undefined"
        )
    if len(rows) < 2:
        raise ValueError(f"need at least 2 samples, got {len(rows)}")
    return rows, max(eps, _DOUBLE)


def rank(r: Any, d: int) -> int:
    """The rank of the subspace, 1..d."""
    if isinstance(r, (bool, np.bool_)) or not isinstance(r, (int, np.integer)):
        raise TypeError(f"rank r={r!r} must be an int in 1..d={d}")
    if not 1 <= r <= d:
        raise ValueError(f"rank r={r} must be in 1..d={d}")
    return int(r)


def labels(value: Any, n: int) -> NDArray[np.int64]:
    """One integer class a row."""
    y = np.asarray(detached(value))
    if y.dtype.kind not in "biu":
        raise TypeError(
            f"y must hold integer class labels, got dtype {y.dtype}; rho has no meaning for real targets: "
            "bin them, or convert whole numbers with astype(int)"
        )
    if y.ndim != 1 or len(y) != n:
        raise ValueError(
            f"y must have one label a row, got {len(y) if y.ndim == 1 else f'shape {y.shape}'} "
            f"labels for {n} rows of x"
        )
    return y.astype(np.int64)


def basis(value: Any, r: int, d: int) -> NDArray[np.float64]:
    """Orthonormal rows (r, d), of single precision or better."""
    rows = finite_array("basis", value, ndim=2)
    if rows.shape != (r, d):
        raise ValueError(f"basis must have shape (r, d) = {(r, d)}, got {rows.shape}; pass orthonormal rows")
    error = float(np.abs(rows @ rows.T - np.eye(r)).max())
    if error > 1e-4:
        raise ValueError(
            f"basis must have orthonormal rows, got basis basis' off the identity by {error:.3g}; "
            "orthonormalise it with numpy.linalg.qr(basis.T)[0].T"
        )
    return orthonormal("basis.T", rows.T).T


def symmetric(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """A square matrix that equals its transpose but for rounding."""
    matrix = finite_array(name, value, ndim=2)
    if matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise ValueError(f"{name} must be square, got shape {matrix.shape}; pass a covariance matrix")
    gap = float(np.abs(matrix - matrix.T).max())
    if gap > 1e-8 * float(np.abs(matrix).max()):
        raise ValueError(
            f"{name} must be symmetric, got a difference of {gap:.3g}; pass ({name} + {name}.T) / 2"
        )
    return np.asarray((matrix + matrix.T) / 2)


def broadcast(names: tuple[str, ...], *values: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Arrays of one shape, or an error that names them."""
    try:
        return np.broadcast_arrays(*values)
    except ValueError:
        shapes = ", ".join(str(value.shape) for value in values)
        raise ValueError(
            f"{', '.join(names)} must broadcast, got shapes {shapes}; align their axes"
        ) from None


def admit(
    classes: NDArray[np.int64], counts: NDArray[np.int64], estimator: str, folded: bool, ci: bool, n: int
) -> None:
    """Refuse samples that the estimator has no value for."""
    if n < 2:
        raise ValueError(f"need at least 2 samples, got {n}")
    if len(classes) < 2:
        raise ValueError(f"alignment needs at least 2 classes, got {len(classes)}")
    small = int(counts.argmin())
    if estimator == "posterior" and not folded:
        raise ValueError('estimator="posterior" estimates its subspace from folds; leave basis out')
    if estimator in FOLDED and counts[small] < 2:
        raise ValueError(
            f"class {classes[small]} has 1 sample; the debiased estimator needs 2 "
            '(use estimator="plugin" for the in-sample value)'
        )
    if estimator in FOLDED and folded:
        held = len(counts) * _crossfit.fold_size(counts)
        if n - held < 2:
            raise ValueError(
                f"cross-fitting holds out {held} of {n} samples and needs 2 to train on; add samples, pass a "
                'basis, or use estimator="plugin" for the in-sample value'
            )
    if ci and estimator != "crossfit":
        raise ValueError(
            f'ci=True needs estimator="crossfit", got {estimator!r}; the others have no interval'
        )
    if ci and n > _LARGEST:
        raise ValueError(
            f"ci=True recomputes every fold without each sample, for n <= {_LARGEST} samples only, got {n}; "
            "pass ci=False or a subset of the rows"
        )
