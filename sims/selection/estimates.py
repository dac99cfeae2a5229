"""Estimates of a step's improvement and of removal effects by order, beside the exact ones."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from porism.checks import positive
from porism.sims.selection._scores import flat, jacobian, val_curvature, val_gradient
from porism.sims.selection.worlds import ScoreWorld, improvement, removal_effects

__all__ = ["ORDERS", "gradients_along", "pooled", "quadrature_errors", "removal_estimates"]

Floats = NDArray[np.float64]

ORDERS = ("first", "Hessian", "trapezoid", "midpoint")
"""v at the start; with half of the Hessian's change; mean of v at both ends; v half way."""


def gradients_along(world: ScoreWorld, lr: float, J: Floats, places: Sequence[float]) -> list[Floats]:
    """Gradients of the validation loss along a step.

    Parameters
    ----------
    world : ScoreWorld
        Model and data.
    lr : float
        Learning rate, > 0.
    J : ndarray, shape (n, P)
        Gradients of the samples.
    places : sequence of float
        Shares of the step, 0 at its start and 1 at its end.

    Returns
    -------
    list of ndarray, shape (P,)
        One gradient a place.

    Examples
    --------
    >>> import torch, numpy as np
    >>> from porism.sims.selection import linear_world
    >>> world = linear_world([[1.0]], [0.0], [[1.0]], [0.0], [1.0])
    >>> [float(v[0]) for v in gradients_along(world, 1.0, np.ones((1, 1)), (0.0, 0.5))]
    [1.0, 0.5]
    """
    theta, step = flat(world.params), positive("lr", lr) * J.mean(0)
    return [val_gradient(world, theta - place * step) for place in places]


def quadrature_errors(world: ScoreWorld, lr: float, J: Floats, theta: Floats) -> list[float]:
    """Errors of the four estimates of `ORDERS` over ``lr |gbar| |v|``, which no lr changes but its own.

    Parameters
    ----------
    world : ScoreWorld
        Model and data.
    lr : float
        Learning rate, > 0.
    J : ndarray, shape (n, P)
        Gradients of the samples.
    theta : ndarray, shape (P,)
        Parameters as one vector.

    Returns
    -------
    list of four float
        Estimate less the improvement, in the order of `ORDERS`.

    Notes
    -----
    Improvements are differences of two losses: below lr of 1e-3 rounding shows in second order.

    Examples
    --------
    >>> import torch, numpy as np
    >>> from porism.sims.selection import linear_world
    >>> world = linear_world([[1.0]], [0.0], [[1.0]], [0.0], [1.0])
    >>> quadrature_errors(world, 0.5, np.ones((1, 1)), np.ones(1))
    [0.25, 0.0, 0.0, 0.0]
    """
    g = J.mean(0)
    v, half, end = (val_gradient(world, theta - place * lr * g) for place in (0.0, 0.5, 1.0))
    gain = improvement(world, lr)
    size = lr * float(np.linalg.norm(g) * np.linalg.norm(v))
    used = (v, v - lr / 2 * val_curvature(world, g), (v + end) / 2, half)
    return [float(lr * (g @ one) - gain) / size for one in used]


def removal_estimates(world: ScoreWorld, lr: float) -> dict[str, Floats]:
    """Rows of first order, shares and rows at the end point, as estimates of removal effects.

    Parameters
    ----------
    world : ScoreWorld
        Model and data.
    lr : float
        Learning rate, > 0.

    Returns
    -------
    dict of str to ndarray, shape (n,)
        "first", "shares" by the trapezoid, "end point", and "exact", for which each sample is removed.

    Examples
    --------
    >>> import torch
    >>> from porism.sims.selection import linear_world
    >>> world = linear_world([[1.0]], [0.0], [[1.0]], [0.0], [1.0])
    >>> {name: float(rows[0]) for name, rows in removal_estimates(world, 0.5).items()}
    {'first': 0.5, 'shares': 0.375, 'end point': 0.25, 'exact': 0.375}
    """
    J = jacobian(world)
    start, end = gradients_along(world, lr, J, (0.0, 1.0))
    rows = {"first": start, "shares": (start + end) / 2, "end point": end}
    found = {name: lr / len(J) * (J @ v) for name, v in rows.items()}
    return {**found, "exact": removal_effects(world, lr)}


def pooled(worlds: Iterable[ScoreWorld], lr: float) -> dict[str, float]:
    """Relative errors of removal estimates over several worlds together.

    ``sqrt(sum of squared errors / sum of squared effects)``.

    Parameters
    ----------
    worlds : iterable of ScoreWorld
        Models and data.
    lr : float
        Learning rate, > 0.

    Returns
    -------
    dict of str to float
        "first", "shares" and "end point".

    Examples
    --------
    >>> import torch
    >>> from porism.sims.selection import tanh_world
    >>> sorted(pooled([tanh_world(rng=0)], 0.5))
    ['end point', 'first', 'shares']
    """
    errors = dict.fromkeys(("first", "shares", "end point"), 0.0)
    size = 0.0
    for world in worlds:
        found = removal_estimates(world, lr)
        size += float(np.sum(found["exact"] ** 2))
        for name in errors:
            errors[name] += float(np.sum((found[name] - found["exact"]) ** 2))
    return {name: (error / size) ** 0.5 for name, error in errors.items()}
