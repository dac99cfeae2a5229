"""What the first steps of a LoRA adapter do, and what a better start direction buys.

``h = W x + s B A x`` with A (r, d), B (m, r) and scaling s; G is the gradient of the mean loss by W.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, one_of, positive
from porism.results import Result
from porism.theory.alignment import _inputs

__all__ = [
    "FirstStep",
    "first_step",
    "haar_moments",
    "head_gradient",
    "random_energy",
    "token_energy",
]


@dataclasses.dataclass(frozen=True, eq=False)
class FirstStep(Result):
    """First step of an adapter from B = 0, at learning rate 1.

    Parameters
    ----------
    grad_b : float64 array of shape (m, r)
        Gradient by B, ``s G A'``; the gradient by A is 0.
    sgd_drop : float
        Decrease of the loss under SGD over the learning rate, ``s^2 |G A'|_F^2``.
    adam_drop : float
        The same under Adam, ``s`` times the sum of the sizes of the entries of ``G A'``.
    energy : float
        ``|G A'|_F^2 / |G|_F^2``; the captured share where A has orthonormal rows. NaN for G = 0.
    update : float64 array of shape (m, d)
        Change of ``W + s B A`` under SGD over the learning rate, ``-s^2 G A' A``.

    Examples
    --------
    >>> first_step([[1.0, 0.0]], [[1.0, 0.0]], 2.0).sgd_drop
    4.0
    """

    grad_b: NDArray[np.float64]
    sgd_drop: float
    adam_drop: float
    energy: float
    update: NDArray[np.float64]


def first_step(gradient: ArrayLike, a: ArrayLike, scaling: float = 1.0) -> FirstStep:
    """First step of SGD and of Adam from B = 0: A enters only through ``G A'`` (DK-7, DK-8).

    SGD loses ``lr s^2 |G A'|_F^2``, Adam ``lr s sum |G A'|_ij``, both to first order in lr.

    Parameters
    ----------
    gradient : array_like of shape (m, d)
        Gradient G of the mean loss by the weight of the layer.
    a : array_like of shape (r, d)
        The factor A.
    scaling : float, default 1
        ``alpha / r``, or ``alpha / sqrt(r)`` for rsLoRA; > 0.

    Returns
    -------
    FirstStep
        Gradient by B, decreases, energy and update.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit, or a value is not finite.

    Notes
    -----
    Adam's first step is the sign of the gradient where its epsilon is small beside it; its decrease is not
    invariant to a rotation of the rank index, that of SGD is.

    References
    ----------
    Hu et al. (2022), "LoRA", arXiv:2106.09685, section 4.1, for the parametrisation.

    Examples
    --------
    >>> step = first_step([[1, 2, 0], [0, -1, 1]], [[0.6, 0.8, 0]], 2)
    >>> round(step.sgd_drop, 2), round(step.adam_drop, 2), round(step.energy, 8)
    (21.92, 6.0, 0.78285714)
    """
    g, rows = finite_array("gradient", gradient, ndim=2), finite_array("a", a, ndim=2)
    if g.shape[1] != rows.shape[1]:
        raise ValueError(f"gradient and a must have equally many columns, got {g.shape} and {rows.shape}")
    s = positive("scaling", scaling)
    image = g @ rows.T
    total = float(np.sum(g**2))
    squares = float(np.sum(image**2))
    energy = squares / total if total else math.nan
    drop = s * float(np.abs(image).sum())
    return FirstStep(s * image, s * s * squares, drop, energy, -s * s * image @ rows)


def token_energy(gradients: ArrayLike, inputs: ArrayLike, a: ArrayLike) -> float:
    """Energy ``|G A'|_F^2`` from gradients and inputs by position, without G (DK-7).

    ``sum_{t,u} (g_t . g_u) (A x_t . A x_u)``.

    Parameters
    ----------
    gradients : array_like of shape (T, m)
        Gradient of the loss by the layer's output at each position.
    inputs : array_like of shape (T, d)
        The layer's input at each position.
    a : array_like of shape (r, d)
        The factor A.

    Returns
    -------
    float
        The energy, >= 0 but for rounding.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit, or a value is not finite.

    Notes
    -----
    Cost O(T^2 (m + r)), memory O(T^2); worthwhile where T is below m and d.

    Examples
    --------
    >>> token_energy([[1.0], [2.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]])
    9.0
    """
    g, x = finite_array("gradients", gradients, ndim=2), finite_array("inputs", inputs, ndim=2)
    rows = finite_array("a", a, ndim=2)
    if len(g) != len(x) or x.shape[1] != rows.shape[1]:
        raise ValueError(
            f"gradients (T, m), inputs (T, d) and a (r, d) must fit, got {g.shape}, {x.shape}, {rows.shape}"
        )
    image = x @ rows.T
    return float(np.sum((g @ g.T) * (image @ image.T)))


def head_gradient(x: Any, y: Any, head: str = "share") -> NDArray[np.float64]:
    """Gradient of the mean cross-entropy by a linear head with zero weights, from class means (DK-11).

    Bias log shares: row c is ``-p_c (m_c - m)``. No bias, so uniform predictions: ``-(p_c m_c - m / C)``.

    Parameters
    ----------
    x : array_like of shape (n, d)
        Feature rows.
    y : array_like of shape (n,)
        Integer labels; classes in ascending order index the rows of the result.
    head : {"share", "uniform"}, default "share"
        What the head predicts at the start.

    Returns
    -------
    float64 array of shape (C, d)
        The gradient.

    Raises
    ------
    TypeError, ValueError
        If features are not finite, or labels do not fit.

    Notes
    -----
    With uniform predictions and unequal classes the mean of the features leaks into the gradient, a direction
    that centred principal components do not see.

    Examples
    --------
    >>> head_gradient([[1, 0], [3, 2], [-1, 1], [0, -2]], [0, 0, 0, 1])
    array([[-0.1875, -0.5625],
           [ 0.1875,  0.5625]])
    """
    rows, _ = _inputs.features(x)
    classes, codes, counts = np.unique(_inputs.labels(y, len(rows)), return_inverse=True, return_counts=True)
    one_of("head", head, ("share", "uniform"))
    shares = counts[:, None] / len(rows)
    member = codes == np.arange(len(classes))[:, None]
    shift = rows[0]
    means = (member / counts[:, None]) @ (rows - shift)
    centre = (shares * means).sum(axis=0)
    if head == "share":
        return np.asarray(-shares * (means - centre))
    return np.asarray(-(shares * (means + shift) - (centre + shift) / len(classes)))


def haar_moments(d: int, r: int) -> tuple[float, float]:
    """Mean and variance of the share of a fixed direction that a random subspace captures (DK-10).

    Beta(r/2, (d - r)/2): mean ``r / d``, variance ``2 r (d - r) / (d^2 (d + 2))``.

    Parameters
    ----------
    d : int
        Dimension of the space, >= 1.
    r : int
        Dimension of the uniformly random subspace, 1..d.

    Returns
    -------
    (float, float)
        Mean and variance.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    References
    ----------
    Muirhead (1982), "Aspects of Multivariate Statistical Theory", theorem 1.5.7.

    Examples
    --------
    >>> haar_moments(4, 2)
    (0.5, 0.08333333333333333)
    """
    d = integer("d", d, low=1)
    r = integer("r", r, 1, d)
    return r / d, 2 * r * (d - r) / (d * d * (d + 2))


def random_energy(d: int, r: int, init: str = "orthonormal") -> float:
    """Mean of ``|G A'|_F^2 / |G|_F^2`` for a random A (DK-9).

    Orthonormal rows ``r / d``; Kaiming-uniform with a = sqrt(5), the usual default, ``r / (3 d)``.

    Parameters
    ----------
    d : int
        Features, >= 1.
    r : int
        Rank, >= 1; at most d for orthonormal rows.
    init : {"orthonormal", "kaiming"}, default "orthonormal"
        How A is drawn.

    Returns
    -------
    float
        The mean energy.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    A start with orthonormal rows has three times the energy of the default before any direction matters, so a
    comparison needs a random orthonormal control.

    References
    ----------
    He et al. (2015), arXiv:1502.01852, section 2.2: entries uniform on ``(-1, 1) / sqrt(d)``.

    Examples
    --------
    >>> round(random_energy(768, 8), 5), round(random_energy(768, 8, "kaiming"), 5)
    (0.01042, 0.00347)
    """
    orthonormal = one_of("init", init, ("orthonormal", "kaiming")) == "orthonormal"
    d = integer("d", d, low=1)
    r = integer("r", r, 1, d if orthonormal else None)
    return r / d if orthonormal else r / (3 * d)
