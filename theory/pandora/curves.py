"""Cost-quality curves and the published scores of routers: AIQ, APGR, arena score."""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array, one_of
from porism.results import Result
from porism.theory.pandora._inputs import to_numpy

__all__ = ["CostQualityCurve", "aiq", "apgr", "arena_score", "cost_quality_curve", "nondecreasing_hull"]

Floats = NDArray[np.float64]

ARENA_COST = (0.0044, 200.0)
"""Dollars a thousand queries between which the arena score ranks costs."""


def _points(points: Any) -> Floats:
    array = finite_array("points", points, ndim=2)
    if array.shape[1] != 2 or not len(array):
        raise ValueError(
            f"points must have shape (n, 2), one row (cost, quality) a router, got {array.shape}; "
            "stack them as np.column_stack([cost, quality])"
        )
    if array[:, 0].min() < 0:
        raise ValueError(f"costs (first column of points) must be >= 0; got min {array[:, 0].min():g}")
    return array


def nondecreasing_hull(points: Any) -> Floats:
    """Corners of the least concave, nondecreasing curve above all points.

    Mixing two routers at random reaches every point between them, so the best quality at a cost is the upper
    hull; a dearer router that is worse is never used, so the hull stops at the best quality.

    Parameters
    ----------
    points : float array, shape (n, 2)
        One row (cost, quality) a router; cost >= 0 in any unit.

    Returns
    -------
    float array, shape (h, 2)
        Corners by increasing cost: slopes are positive and strictly decreasing. It starts at the least cost.

    Raises
    ------
    ValueError
        If there is no point, the shape is not (n, 2), a number is not finite or a cost is negative.

    Notes
    -----
    O(n log n): one sort and Andrew's monotone chain.

    References
    ----------
    Hu et al. (2024), RouterBench, arXiv:2403.12031, section 3.

    Examples
    --------
    >>> nondecreasing_hull([[0.5, 0.2], [1, 0.6], [1.5, 0.55], [2.5, 0.62], [3, 0.7]]).tolist()
    [[0.5, 0.2], [1.0, 0.6], [3.0, 0.7]]
    """
    array = _points(points)
    array = array[np.lexsort((-array[:, 1], array[:, 0]))]
    hull: list[tuple[float, float]] = []
    for x, y in array.tolist():
        if hull and y <= hull[-1][1]:
            continue  # as dear or dearer, and no better
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) > (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    return np.array(hull)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class CostQualityCurve(Result):
    """The points of a family of routers and the best mixture of them at each cost.

    Parameters
    ----------
    points : float array, shape (n, 2)
        Rows (cost, quality) by increasing cost.
    hull : float array, shape (h, 2)
        Corners of the nondecreasing hull.
    """

    points: Floats
    hull: Floats

    def quality_at(self, cost: Any) -> Any:
        """Best expected quality that a mixture reaches at a mean cost.

        Parameters
        ----------
        cost : float or array
            Mean cost a query, in the unit of the points.

        Returns
        -------
        float or array of the shape of cost
            NaN below the least cost; constant beyond the last corner.
        """
        value = np.interp(cost, self.hull[:, 0], self.hull[:, 1], left=math.nan)
        return float(value) if np.ndim(value) == 0 else value

    def cost_at(self, quality: Any) -> Any:
        """Least mean cost at which a mixture reaches a quality.

        Parameters
        ----------
        quality : float or array
            Expected quality.

        Returns
        -------
        float or array of the shape of quality
            Infinity where no mixture reaches it.
        """
        value = np.interp(quality, self.hull[:, 1], self.hull[:, 0], right=math.inf)
        return float(value) if np.ndim(value) == 0 else value

    def plot(self, ax: Any = None, label: str | None = None, unit: str = "") -> Any:
        """Draw the points and the hull.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure if None.
        label : str, optional
            Name in the legend.
        unit : str
            Unit of cost for the axis, such as "$ per query".

        Returns
        -------
        Axes
            The axes drawn on.
        """
        from matplotlib import pyplot

        ax = pyplot.subplots()[1] if ax is None else ax
        (line,) = ax.plot(self.hull[:, 0], self.hull[:, 1], label=label)
        ax.plot(self.points[:, 0], self.points[:, 1], ".", color=line.get_color(), alpha=0.5)
        ax.set_xlabel(f"mean cost ({unit})" if unit else "mean cost")
        ax.set_ylabel("mean quality")
        return ax

    def __repr__(self) -> str:
        (low, worst), (high, best) = self.hull[0], self.hull[-1]
        return (
            f"CostQualityCurve({len(self.points)} points, {len(self.hull)} corners, "
            f"cost {low:.4g} to {high:.4g}, quality {worst:.4g} to {best:.4g})"
        )


def cost_quality_curve(points: Any) -> CostQualityCurve:
    """Order the points of a family of routers and take their nondecreasing hull.

    Parameters
    ----------
    points : float array, shape (n, 2)
        One row (cost, quality) a router or a setting of its threshold; cost >= 0 in any unit.

    Returns
    -------
    CostQualityCurve
        Points by cost, hull, quality at a cost, cost of a quality, plot.

    Raises
    ------
    ValueError
        If there is no point, the shape is not (n, 2), a number is not finite or a cost is negative.

    Notes
    -----
    O(n log n).

    Examples
    --------
    >>> curve = cost_quality_curve([[3, 0.7], [0.5, 0.2], [1, 0.6], [2.5, 0.62]])
    >>> round(curve.quality_at(2.0), 12), curve.cost_at(0.4)
    (0.65, 0.75)
    """
    array = _points(points)
    return CostQualityCurve(array[np.lexsort((-array[:, 1], array[:, 0]))], nondecreasing_hull(array))


def aiq(points: Any, mode: str = "range", cmax: float | None = None) -> float:
    """Average quality under the nondecreasing hull.

    ``range``: ``1/(cmax - cmin)`` times the area from the least cost cmin to cmax, which is the published
    definition. ``routerbench``: the same area divided by cmax, which is what RouterBench's code returns: it
    counts the costs below cmin as quality zero.

    Parameters
    ----------
    points : float array, shape (n, 2)
        One row (cost, quality) a router; cost >= 0.
    mode : {"range", "routerbench"}
        What the area is divided by.
    cmax : float, optional
        Right end, at least the least cost; the curve goes on flat beyond its last corner. The greatest cost
        if None.

    Returns
    -------
    float
        In the unit of quality. With "range" and cmax = cmin, the quality there.

    Raises
    ------
    ValueError
        If cmax lies left of the least cost, or is zero with "routerbench".

    References
    ----------
    Hu et al. (2024), RouterBench, arXiv:2403.12031, equation of AIQ.

    Examples
    --------
    >>> points = [[0.5, 0.2], [1, 0.6], [1.5, 0.55], [2.5, 0.62], [3, 0.7]]
    >>> round(aiq(points, "routerbench", cmax=4), 12), round(aiq(points, "range", cmax=4), 12)
    (0.55, 0.628571428571)
    """
    one_of("mode", mode, ("range", "routerbench"))
    array = _points(points)
    hull = nondecreasing_hull(array)
    low = float(hull[0, 0])
    high = float(array[:, 0].max()) if cmax is None else float(cmax)
    if not low <= high < math.inf:
        raise ValueError(f"cmax must be finite and at least the least cost {low:g}, got {high:g}")
    if mode == "routerbench" and high == 0:
        raise ValueError("cmax must be > 0 with mode='routerbench', got 0; use mode='range'")
    corners = np.append(hull[hull[:, 0] < high, 0], high)
    qualities = np.interp(corners, hull[:, 0], hull[:, 1])
    area = float(np.trapezoid(qualities, corners))
    if mode == "routerbench":
        return area / high
    return area / (high - low) if high > low else float(qualities[-1])


def apgr(score: Any, weak: Any, strong: Any) -> float:
    """Average share of the gap between a weak and a strong model that a router recovers.

    With queries sorted by the router, ``PGR(j) = (quality with the first j answered by the strong model -
    weak) / (strong - weak)``; APGR is the trapezoid mean over j/n in [0, 1]. Random routing gives 1/2.

    Parameters
    ----------
    score : float array, shape (n,)
        The router's score, such as the chance that the strong model wins: queries of greater scores go to the
        strong model first. Ties share their places in the mean, so that the order of rows does not matter.
    weak, strong : float array, shape (n,)
        Quality of each model on each query.

    Returns
    -------
    float
        1/2 for a router that knows nothing; may exceed 1.

    Raises
    ------
    ValueError
        If shapes differ, there is no query, or the two models are equally good on the mean.

    Notes
    -----
    O(n log n); all n + 1 shares of strong calls.

    References
    ----------
    Ong et al. (2024), RouteLLM, arXiv:2406.18665, section 3.

    Examples
    --------
    >>> apgr([0.1, 0.9], weak=[1.0, 0.0], strong=[1.0, 1.0])
    0.75
    """
    scores, low, high = (
        finite_array(name, value, ndim=1)
        for name, value in (("score", score), ("weak", weak), ("strong", strong))
    )
    if not scores.shape == low.shape == high.shape:
        raise ValueError(
            f"score, weak and strong must have one shape, got {scores.shape}, {low.shape} and {high.shape}"
        )
    gap = float(high.mean() - low.mean()) if len(scores) else 0.0
    if gap == 0:
        raise ValueError("weak and strong must differ in mean quality: there is no gap to recover")
    values, ranks = np.unique(-scores, return_inverse=True)
    counts = np.bincount(ranks, minlength=len(values))
    gains = np.bincount(ranks, weights=high - low, minlength=len(values)) / counts
    total = np.concatenate([[0.0], np.cumsum(gains[ranks[np.argsort(ranks, kind="stable")]])])
    return float(np.trapezoid(total / (len(scores) * gap), dx=1 / len(scores)))


def arena_score(accuracy: Any, cost: Any, beta: float = 0.1) -> Any:
    """Score of a public router arena: a harmonic mean of accuracy and cheapness on a log scale.

    ``S = (1 + beta) acc C / (beta acc + C)``, ``C = log2(200/cost) / log2(200/0.0044)``.

    Parameters
    ----------
    accuracy : float or array
        Mean accuracy in [0, 1].
    cost : float or array
        Dollars per thousand queries, clamped to [0.0044, 200].
    beta : float
        Weight of cost, > 0.

    Returns
    -------
    float or array
        In [0, 1]; 0 where accuracy or cheapness is 0.

    Raises
    ------
    ValueError
        If accuracy leaves [0, 1], cost is negative or NaN, or beta is not positive.

    References
    ----------
    Lu et al. (2025), RouterArena, arXiv:2510.00202.

    Examples
    --------
    >>> round(arena_score(0.69012, 0.04749), 6)
    0.697293
    """
    acc, dollars = to_numpy("accuracy", accuracy), to_numpy("cost", cost)
    if not ((acc >= 0) & (acc <= 1)).all():
        raise ValueError(f"accuracy must be in [0, 1], got {accuracy!r}; give shares, not percent")
    if not (dollars >= 0).all():
        raise ValueError(f"cost must be >= 0 dollars per thousand queries, got {cost!r}")
    if not 0 < beta < math.inf:
        raise ValueError(f"beta must be > 0 and finite, got {beta!r}")
    low, high = ARENA_COST
    cheap = np.log2(high / np.clip(dollars, low, high)) / math.log2(high / low)
    below = beta * acc + cheap
    score = np.divide((1 + beta) * acc * cheap, below, out=np.zeros(np.shape(below)), where=below > 0)
    return float(score) if score.ndim == 0 else score
