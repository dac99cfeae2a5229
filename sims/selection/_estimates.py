"""Estimates of improvements and removal effects by order, and of joint choices, beside the exact ones."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from porism.sims.selection._scores import flat, jacobian, val_curvature, val_gradient
from porism.sims.selection.matrices import random_starts
from porism.sims.selection.worlds import ScoreWorld, improvement, removal_effects
from porism.theory.selection import joint_select

__all__ = ["ORDERS", "gradients_along", "joint_shares", "pooled", "quadrature_errors", "removal_estimates"]

Floats = NDArray[np.float64]

ORDERS = ("first", "Hessian", "trapezoid", "midpoint")
"""v at the start; with half of the Hessian's change; mean of v at both ends; v half way."""


def gradients_along(world: ScoreWorld, lr: float, J: Floats, places: Sequence[float]) -> list[Floats]:
    """Gradients (P,) of the validation loss at shares of a step; J holds those of the samples, (n, P)."""
    theta, step = flat(world.params), lr * J.mean(0)
    return [val_gradient(world, theta - place * step) for place in places]


def quadrature_errors(world: ScoreWorld, lr: float, J: Floats) -> list[float]:
    """Errors of the four estimates of `ORDERS`, over ``lr |gbar| |v|``.

    Improvements are differences of two losses: below lr of 1e-3 rounding shows in second order.
    """
    g = J.mean(0)
    v, half, end = gradients_along(world, lr, J, (0.0, 0.5, 1.0))
    gain = improvement(world, lr)
    size = lr * float(np.linalg.norm(g) * np.linalg.norm(v))
    used = (v, v - lr / 2 * val_curvature(world, g), (v + end) / 2, half)
    return [float(lr * (g @ one) - gain) / size for one in used]


def removal_estimates(world: ScoreWorld, lr: float) -> dict[str, Floats]:
    """Removal effects (n,) by rows of first order, by shares and by rows at the end point; and exact."""
    J = jacobian(world)
    start, end = gradients_along(world, lr, J, (0.0, 1.0))
    rows = {"first": start, "shares": (start + end) / 2, "end point": end}
    found = {name: lr / len(J) * (J @ v) for name, v in rows.items()}
    return {**found, "exact": removal_effects(world, lr)}


def pooled(worlds: Iterable[ScoreWorld], lr: float) -> dict[str, float]:
    """Relative errors of removal estimates over several worlds together.

    ``sqrt(sum of squared errors / sum of squared effects)``.
    """
    errors = dict.fromkeys(("first", "shares", "end point"), 0.0)
    size = 0.0
    for world in worlds:
        found = removal_estimates(world, lr)
        size += float(np.sum(found["exact"] ** 2))
        for name in errors:
            errors[name] += float(np.sum((found[name] - found["exact"]) ** 2))
    return {name: (error / size) ** 0.5 for name, error in errors.items()}


def joint_shares(G: Floats, n_rows: int, n_cols: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """Shares of the best joint choice: one shot, alternating from it, and from 20 random starts as well."""
    ways: tuple[tuple[str, list[NDArray[np.int64]]], ...] = (
        ("one_shot", []),
        ("alternating", []),
        ("alternating", random_starts(G.shape[1], n_cols, 20, rng)),
    )
    best = joint_select(G, n_rows, n_cols, "exact").value
    once, step, many = (joint_select(G, n_rows, n_cols, *way).value / best for way in ways)
    return once, step, many
