"""What the benchmarks of the pandora module compare with: NumPy versions, and public algorithms restated."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["blocked", "hull_by_pairs", "hull_by_pairs_lean", "in_band", "routed", "whole"]

Floats = NDArray[np.float64]
Step = Callable[[Any, Any, Any, Any], tuple[Any, Any]]

BLOCK = 1024
"""Queries whose temporaries stay in the cache."""


def _gaps(m: Any) -> Any:
    """Distance of each mean to the best other one; the leader's is that to the second best."""
    rows, lead = np.arange(len(m)), m.argmax(axis=1)
    d = m[rows, lead][:, None] - m
    d[rows, lead] = np.inf
    d[rows, lead] = d.min(axis=1)
    return d


def _psi(z: Any) -> Any:
    from scipy.special import erfc

    return np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) - 0.5 * z * erfc(z / math.sqrt(2))


def whole(m: Any, nu: Any, c: Any, w: Any) -> tuple[Any, Any]:
    """Net gain and argument of the best refinement by whole arrays, as one would write it in NumPy."""
    d = _gaps(m)
    net = np.where(d < w, nu * _psi(d / nu) - c, -np.inf)
    best = net.max(axis=1)
    return best.clip(0), np.where(best > -np.inf, net.argmax(axis=1), -1)


def in_band(m: Any, nu: Any, c: Any, w: Any) -> tuple[Any, Any]:
    """The same with psi only where a gap lies within its band: the best NumPy version we know."""
    d = _gaps(m)
    i, j = np.nonzero(d < w)
    net = np.full(m.shape, -np.inf, d.dtype)
    net[i, j] = nu[j] * _psi(d[i, j] / nu[j]) - c[j]
    arg = net.argmax(axis=1)
    best = net[np.arange(len(m)), arg]
    return best.clip(0), np.where(best > -np.inf, arg, -1)


def blocked(step: Step, m: Any, nu: Any, c: Any, w: Any) -> tuple[Any, Any]:
    """One of the two above, on blocks that fit the cache."""
    parts = [step(m[at : at + BLOCK], nu, c, w) for at in range(0, len(m), BLOCK)]
    best, arg = (np.concatenate(part) for part in zip(*parts, strict=True))
    return best, arg


def routed(m: Any, refined: Any, nu: Any, c: Any, w: Any, step: Step = whole) -> tuple[Any, Any]:
    """Refine by the largest one-step gain until none is left: choice and number of refinements."""
    m = m.copy()
    width = np.broadcast_to(w, m.shape).copy()
    count = np.zeros(len(m), np.int64)
    active = np.arange(len(m))
    while len(active):
        arg = step(m[active], nu, c, width[active])[1]
        active, arg = active[arg >= 0], arg[arg >= 0]
        m[active, arg], width[active, arg] = refined[active, arg], -np.inf
        count[active] += 1
    return m.argmax(axis=1), count


def hull_by_pairs(points: Floats) -> Floats:
    """RouterBench's hull in our words, with its data structures: arrays of pairs and a list searched in line.

    For every pair of points by cost and every point strictly between, keep the larger of the point and the
    height of the straight line there; at the end drop points lower than their predecessor.
    """
    ordered = points[points[:, 0].argsort()]
    kept: list[list[Any]] = []
    for i in range(len(ordered)):
        for j in range(i, len(ordered)):
            (x0, y0), (x1, y1) = ordered[i], ordered[j]
            for x, y in ordered:
                if not x0 < x < x1:
                    continue
                height = max(y, np.interp(x, [x0, x1], [y0, y1]))
                place = next((at for at, pair in enumerate(kept) if pair[0] == x), -1)
                if place < 0:
                    kept.append([x, height])
                elif kept[place][1] < height:
                    kept[place] = [x, height]
    if not kept or ordered[-1, 1] >= kept[-1][1]:
        kept.append(list(ordered[-1]))
    kept.append(list(ordered[0]))
    return _rising(np.array(kept))


def hull_by_pairs_lean(points: Floats) -> Floats:
    """The same algorithm as tight as Python allows: plain floats, and only points between are visited."""
    ordered = points[points[:, 0].argsort()]
    x, y = ordered[:, 0].tolist(), ordered[:, 1].tolist()
    top = list(y)
    for i in range(len(x)):
        for j in range(i + 2, len(x)):
            slope = (y[j] - y[i]) / (x[j] - x[i])
            for k in range(i + 1, j):
                height = y[i] + slope * (x[k] - x[i])
                if height > top[k]:
                    top[k] = height
    return _rising(np.column_stack([x, top]))


def _rising(points: Floats) -> Floats:
    points = points[points[:, 0].argsort()]
    return points[np.append(True, np.diff(points[:, 1]) >= 0)]
