"""The grid on which values of the best refined mean live, and exact Gaussian expectations on it."""

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer
from porism.theory.pandora._inputs import Floats, check_cost, check_finite, check_nu, outside_option, to_numpy
from porism.theory.pandora.index import inspection_halfwidth
from porism.theory.pandora.psi import psi

REACH = 8.5  # psi(8.5) = 9e-19: what lies further out is below rounding
CORE = 4.0  # half of the nodes go to m ± 4 nu, where values bend
TINY = 1e-11  # in units of the largest nu: a step is stored as two nodes this far apart
LARGEST = 14  # specialists: 2^14 sets
NARROW = 2e-3  # cells narrower than this many nu: two-point Gauss, error < 2e-15 of a probability


@dataclasses.dataclass(frozen=True)
class Problem:
    """Independent specialists on a grid of best refined means; means are relative to `shift`.

    Parameters
    ----------
    m, nu, c, width : float array, shape (K,)
        Means, preposterior standard deviations, costs, half-widths of the inspection bands.
    outside : float
        Outside option, or -inf.
    shift : float
        What was subtracted from all means and from the outside option.
    x : float array, shape (N,)
        Increasing nodes. The first one stands for the outside option, also where that is -inf.
    tail : float array, shape (K, N - 1)
        Mean of P(M > y) over each cell.
    gain : float array, shape (K, N)
        Gain of refining once against a best alternative at each node, before its cost.
    at : int array, shape (K,)
        Node of each mean; 0 for means below the first node.
    """

    m: Floats
    nu: Floats
    c: Floats
    width: Floats
    outside: float
    shift: float
    x: Floats
    tail: Floats
    gain: Floats
    at: NDArray[np.int64]

    @property
    def K(self) -> int:
        """Number of specialists."""
        return len(self.m)

    @property
    def sigma(self) -> Floats:
        """Weitzman's indices."""
        return self.m + self.width

    def expect(self, boxes: NDArray[np.int64], f: Floats) -> Floats:
        """E f(max(x, M)) at every node x, row by row; f has shape (..., rows, N), boxes shape (rows,).

        For continuous f this is f(x) + ∫_x^∞ f'(y) P(M > y) dy, exact where f is linear between nodes. Past
        the last node, 8.5 nu above every mean, there is nothing left to add.
        """
        steps = np.diff(f)
        steps *= self.tail[boxes]
        out = f.copy()
        out[..., :-1] += np.cumsum(steps[..., ::-1], axis=-1)[..., ::-1]
        return out


def limit(name: str, K: int, instead: str) -> None:
    """Refuse more sets than the recursion is meant for."""
    if K > LARGEST:
        raise ValueError(f"{name} is exponential in K; K={K} > {LARGEST}, {instead}")


def inputs(m: object, nu: object, c: object, outside: object) -> tuple[Floats, Floats, Floats, float]:
    """The three vectors of one query, of equal length, and the outside option."""
    m, nu, c = to_numpy("m", m), to_numpy("nu", nu), to_numpy("c", c)
    if m.ndim != 1 or any(v.ndim and v.shape != m.shape for v in (nu, c)):
        raise ValueError(
            f"m, nu and c must be vectors of one length, got shapes {m.shape}, {nu.shape} and {c.shape}; "
            "pass one query at a time"
        )
    if not len(m):
        raise ValueError("need at least 1 specialist; got empty m")
    check_finite("m", m)
    check_nu(nu)
    check_cost(c)
    return m, np.broadcast_to(nu, m.shape), np.broadcast_to(c, m.shape), outside_option(outside)


def prepare(m: object, nu: object, c: object, outside: float, grid: int) -> Problem:
    """Check one query and lay out its grid."""
    integer("grid", grid, low=32, high=1_000_000)
    means, sd, cost, outside = inputs(m, nu, c, outside)
    shift = float(means.max())  # nodes near the best mean keep all their digits
    means, start = means - shift, outside - shift
    width = np.asarray(inspection_halfwidth(sd, cost))
    unit = sd.max() or 1.0
    x = _nodes(means, sd, width, start, grid, unit)
    gain = np.zeros((len(means), len(x)))
    spread = np.flatnonzero(sd)
    gap = np.abs(x - means[:, None])
    gain[spread] = sd[spread, None] * psi(gap[spread] / sd[spread, None])
    tail = _tails(x, means, sd, gain)
    return Problem(means, sd, cost, width, start, shift, x, tail, gain, np.searchsorted(x, means))


def _nodes(m: Floats, nu: Floats, width: Floats, start: float, grid: int, unit: float) -> Floats:
    """About `grid` nodes where refined means fall, more in the core of each, and all known kinks."""
    finite = np.isfinite(width)
    upper = (m + width)[finite]
    lower = (m - width)[finite & (width > 0)]
    kinks = np.concatenate([upper, lower])
    known = [kinks, kinks - TINY * unit, kinks + TINY * unit]
    floor = min(float((m - REACH * nu).min()), float(upper.min()) if len(upper) else math.inf) - unit
    first = floor if start == -math.inf else start
    last = max(float((m + REACH * nu).max()), first + unit)
    spread = nu > 0
    if spread.any():
        ends = [m[spread] + side * reach * nu[spread] for reach in (REACH, CORE) for side in (-1, 1)]
        knots = np.unique(np.concatenate(ends))
        share = sum(
            np.clip((knots[:, None] - low) / (high - low), 0, 1).mean(axis=1)
            for low, high in ((ends[0], ends[1]), (ends[2], ends[3]))
        )
        mass = np.interp(first, knots, share), np.interp(last, knots, share)
        known.append(np.interp(np.linspace(*mass, grid), share, knots))
    x = np.concatenate(known)
    x = x[(x > first + TINY * unit / 2) & (x < last)]  # no second start by rounding
    return np.unique(np.concatenate([x, m[m > first], [first, last]]))  # all means above it are nodes


def _tails(x: Floats, m: Floats, nu: Floats, gain: Floats) -> Floats:
    """Mean of P(M > y) over each cell: the slope of E(M - x)^+ = gain + (m - x)^+."""
    from scipy.special import ndtr

    left, right, h = x[:-1], x[1:], np.diff(x)
    tail = np.abs(np.diff(gain)) / h
    for i, (mean, sd) in enumerate(zip(m, nu, strict=True)):
        ahead = np.searchsorted(right, mean, side="right")  # means are nodes: no cell holds one inside
        tail[i, :ahead] = 1 - tail[i, :ahead]
        narrow = np.flatnonzero(h < NARROW * sd)
        centre, half = left[narrow] + h[narrow] / 2, h[narrow] / math.sqrt(12)
        if sd > 0:
            tail[i, narrow] = (ndtr((mean - centre - half) / sd) + ndtr((mean - centre + half) / sd)) / 2
    return tail
