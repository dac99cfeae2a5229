"""Roots of a field in the plane, from many starts at once, and differences of fourth order."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["differences", "roots"]

Floats = NDArray[np.float64]

STEPS = 60
"""Newton steps: a double root gains one bit a step."""


def differences(f: Callable[..., Floats], x: Floats, y: Floats, steps: Floats) -> tuple[Floats, Floats]:
    """Derivatives of f (2, ...) along x and along y."""
    found = []
    for dx, dy in ((steps[0], 0.0), (0.0, steps[1])):
        near = f(x + dx, y + dy) - f(x - dx, y - dy)
        far = f(x + 2 * dx, y + 2 * dy) - f(x - 2 * dx, y - 2 * dy)
        found.append((8 * near - far) / (12 * (dx + dy)))
    return found[0], found[1]


def roots(
    velocity: Callable[..., Floats],
    jacobian: Callable[..., Floats],
    starts: Floats,
    low: Floats,
    high: Floats,
    scale: float,
) -> list[Floats]:
    """Points of the box where the velocity vanishes; starts (2, N)."""
    size = (high - low)[:, None]
    points, moved = starts.copy(), np.full(starts.shape[1], np.inf)
    with np.errstate(all="ignore"):  # starts that run off are dropped
        for _ in range(STEPS):
            value, J = velocity(*points), jacobian(*points)
            det = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
            step = -np.stack(
                [J[1, 1] * value[0] - J[0, 1] * value[1], J[0, 0] * value[1] - J[1, 0] * value[0]]
            )
            step = step / det
            still = (value == 0).all(axis=0)
            step[:, still] = 0.0
            length = np.abs(step / size).max(axis=0)
            points = points + step * np.minimum(1.0, 0.25 / np.maximum(length, 1e-300))
            moved = length
            keep = (np.abs((points - low[:, None]) / size - 0.5) < 1.5).all(axis=0) & np.isfinite(length)
            points, moved = points[:, keep], moved[keep]
            if not moved.size or moved.max() < 1e-15:
                break
        left = np.abs(velocity(*points) / size).max(axis=0) / scale
    inside = ((points >= low[:, None] - 1e-9 * size) & (points <= high[:, None] + 1e-9 * size)).all(axis=0)
    good = inside & ((left < 1e-14) | (moved < 1e-9)) & (left < 1e-9)
    order = np.argsort(left[good], kind="stable")
    found: list[Floats] = []
    for point in np.clip(points[:, good][:, order].T, low, high):
        if all(np.abs((point - other) / size[:, 0]).max() > 1e-6 for other in found):
            found.append(np.where(np.abs(point) < 1e-15 * size[:, 0], 0.0, point))
    return sorted(found, key=lambda p: (round(float(p[0]), 9), float(p[1])))
