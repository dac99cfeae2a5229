"""The phase plane of two autonomous equations: equilibria, separatrices, basins, nullclines, Dulac."""

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, not_negative
from porism.errors import AssumptionError
from porism.results import Result
from porism.theory.dynamics import _boundary, _flow, _newton

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Equilibrium", "PhasePlane", "classify"]

Floats = NDArray[np.float64]

FLAT = 4 * float(np.finfo(float).eps)
"""Slope of a component of f, in units of its largest value and of the box, up to which it has none: a point
is known to a unit in the last place of the coordinates, and f bends by about its size over the box."""

PARALLEL = 1e-11
"""Sine of the angle between the slopes of the two components up to which they are parallel: ten times the
1e-12 by which differences err where f bends over the whole box; their rounding is 18 / 12 eps / 1e-3."""

PIECES = 6
"""Points that a separatrix has on each step of the integrator."""


@dataclasses.dataclass(frozen=True, eq=False)
class Equilibrium(Result):
    """A point where the velocity vanishes.

    Parameters
    ----------
    point : float64 array, shape (2,)
        Where.
    eigenvalues : array, shape (2,)
        Of the Jacobian there, per unit of time; the smaller real part first. Complex for a focus or centre.
    kind : str
        What `classify` says of the eigenvalues; "degenerate" also where the Jacobian is singular to rounding.

    Examples
    --------
    >>> Equilibrium(np.zeros(2), np.array([-2.0, 1.0]), classify([-2.0, 1.0])).kind
    'saddle'
    """

    point: Floats
    eigenvalues: NDArray[Any]
    kind: str


def classify(eigenvalues: ArrayLike, zero: float = 1e-9) -> str:
    """Name an equilibrium by its eigenvalues.

    Parameters
    ----------
    eigenvalues : array_like, shape (2,)
        Real, or a conjugate pair.
    zero : float, default 1e-9
        Share of the larger eigenvalue up to which a part counts as zero, >= 0.

    Returns
    -------
    str
        ``"saddle"``, ``"stable node"``, ``"unstable node"``, ``"stable focus"``, ``"unstable focus"``,
        ``"centre"`` (of the linear part; the flow may spiral) or ``"degenerate"`` (an eigenvalue is 0).

    Raises
    ------
    ValueError
        If there are not two finite eigenvalues, or zero is negative.

    Examples
    --------
    >>> classify([-1.0, -3.0]), classify([0.1 + 2j, 0.1 - 2j])
    ('stable node', 'unstable focus')
    """
    values = np.asarray(eigenvalues)
    if values.shape != (2,) or values.dtype.kind not in "biufc" or not np.isfinite(values).all():
        raise ValueError(
            f"eigenvalues must be two finite numbers, got {eigenvalues!r}; pass those of one point"
        )
    zero = not_negative("zero", zero) * float(np.abs(values).max())
    low, high = sorted(float(value) for value in values.real)
    if np.abs(values.imag).max() > zero:
        return "centre" if abs(high) <= zero else f"{'stable' if high < 0 else 'unstable'} focus"
    if min(abs(low), abs(high)) <= zero:
        return "degenerate"
    return "saddle" if low < 0 < high else f"{'stable' if high < 0 else 'unstable'} node"


class PhasePlane:
    """The flow ``dx/dt = f_1(x, y)``, ``dy/dt = f_2(x, y)`` in a box.

    Parameters
    ----------
    f : callable
        ``f(x, y) -> (dx/dt, dy/dt)``, for floats and elementwise for arrays.
    box : ((x0, x1), (y0, y1)), default the unit square
        The region looked at, finite.
    jac : callable, optional
        ``jac(x, y) -> ((df1/dx, df1/dy), (df2/dx, df2/dy))``, elementwise; central differences of fourth
        order without it.

    Raises
    ------
    TypeError
        If f or jac is not callable.
    ValueError
        If the box is not two intervals, or f is not elementwise with two finite components.

    Notes
    -----
    f is also evaluated outside of the box, up to 0.2 % of its sides. Nothing is random.

    Examples
    --------
    >>> plane = PhasePlane(lambda x, y: (x * (1 - x), -y), box=((-0.5, 1.5), (-1, 1)))
    >>> [(e.point.tolist(), e.kind) for e in plane.equilibria()]
    [([0.0, 0.0], 'saddle'), ([1.0, 0.0], 'stable node')]
    """

    def __init__(
        self,
        f: Callable[..., Any],
        box: ArrayLike = ((0.0, 1.0), (0.0, 1.0)),
        jac: Callable[..., Any] | None = None,
    ) -> None:
        _function("f", f)
        if jac is not None:
            _function("jac", jac)
        sides = finite_array("box", box, 2)
        if sides.shape != (2, 2) or not (sides[:, 0] < sides[:, 1]).all():
            raise ValueError(
                f"box must be ((x0, x1), (y0, y1)) with x0 < x1, y0 < y1, got {sides.tolist()}; sort its ends"
            )
        self.f, self.jac, self.box = f, jac, ((sides[0, 0], sides[0, 1]), (sides[1, 0], sides[1, 1]))
        self._low, self._high = sides[:, 0].copy(), sides[:, 1].copy()
        self._size = self._high - self._low
        grid = np.stack(np.meshgrid(*(np.linspace(a, b, 9)[1:-1] for a, b in sides)))
        try:
            speed = self.velocity(*grid)
        except Exception as error:
            raise ValueError(
                "f must take arrays x and y elementwise and return (dx/dt, dy/dt), got "
                f"{type(error).__name__}: {error}; write it with numpy functions"
            ) from error
        if not np.isfinite(speed).all():
            raise ValueError("f must be finite inside the box, got NaN or infinity; choose another box")
        self._peak = np.abs(speed).max(axis=(1, 2))
        self._scale = max(float((self._peak / self._size).max()), 1e-300)
        # coordinates are rounded by eps of their size, which is this many sides of the box
        self._far = max(1.0, float((np.abs(sides).max(axis=1) / self._size).max()))

    def velocity(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """Evaluate f.

        Parameters
        ----------
        x, y : array_like
            Coordinates, of shapes that broadcast.

        Returns
        -------
        float64 array, shape (2, ...)
            ``(dx/dt, dy/dt)``.
        """
        x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        first, second = self.f(x, y)
        return np.stack([np.broadcast_to(np.asarray(part, float), x.shape) for part in (first, second)])

    def jacobian(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """Evaluate the Jacobian of f.

        Parameters
        ----------
        x, y : array_like
            Coordinates, of shapes that broadcast.

        Returns
        -------
        float64 array, shape (2, 2, ...)
            Component by coordinate.

        Notes
        -----
        Central differences of fourth order with steps of 1e-3 of the box err by about 1e-12 where f bends
        over the whole box; where it bends within a tenth of it, by 1e-8.
        """
        x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        if self.jac is not None:
            rows = self.jac(x, y)
            return np.stack(
                [np.stack([np.broadcast_to(np.asarray(e, float), x.shape) for e in r]) for r in rows]
            )
        return np.stack(_newton.differences(self.velocity, x, y, 1e-3 * self._size), axis=1)

    def equilibria(self, n_starts: int = 400) -> list[Equilibrium]:
        """Find the points of rest by Newton's method from a grid of starts.

        Parameters
        ----------
        n_starts : int, default 400
            Number of starts, >= 1, rounded up to a square; edges and corners of the box are among them.

        Returns
        -------
        list of Equilibrium
            Those in the box, by increasing x, then y.

        Raises
        ------
        ValueError
            If `n_starts` is below 1.

        Notes
        -----
        Points closer than 1e-6 of the box count as one; one that no start leads to is missed, and a curve of
        equilibria gives many points. A point is also "degenerate" where the slopes of the two components, in
        units of the box, are parallel to 1e-11, or one of them vanishes to rounding: the Jacobian is singular
        then, though rounding may make a pair of eigenvalues out of a double zero. O(n_starts) evaluations a
        step, at most 60 steps.

        References
        ----------
        Strogatz (2015), Nonlinear dynamics and chaos, section 6.3.

        Examples
        --------
        >>> pendulum = PhasePlane(lambda x, v: (v, -np.sin(x)), box=((-1, 4), (-2, 2)))
        >>> [e.kind for e in pendulum.equilibria(100)]
        ['centre', 'saddle']
        """
        count = math.ceil(math.sqrt(integer("n_starts", n_starts, 1)))
        sides = [np.linspace(*side, count) if count > 1 else np.array([sum(side) / 2]) for side in self.box]
        starts = np.stack(np.meshgrid(*sides)).reshape(2, -1)
        points = _newton.roots(self.velocity, self.jacobian, starts, self._low, self._high, self._scale)
        return [self._at(point) for point in points]

    def _at(self, point: Floats) -> Equilibrium:
        J = self.jacobian(*point)
        values = np.linalg.eigvals(J)
        values = np.sort_complex(values) if np.iscomplex(values).any() else np.sort(values.real)
        return Equilibrium(point, values, self._kind(J, values))

    def _kind(self, J: Floats, values: NDArray[Any]) -> str:
        """What `classify` says, unless the Jacobian is singular to rounding: a double zero splits."""
        slopes = J * self._size
        steepness = np.hypot(*slopes.T)
        if (steepness <= FLAT * self._far * self._peak).any():
            return "degenerate"
        (a, b), (c, d) = slopes / steepness[:, None]  # first: products of slopes may overflow
        return "degenerate" if abs(a * d - b * c) <= PARALLEL * self._far else classify(values)

    def separatrix(self, saddle: Equilibrium | ArrayLike) -> Floats:
        """Trace the stable manifold of a saddle, which separates what passes it on either side.

        Parameters
        ----------
        saddle : Equilibrium, or array_like of shape (2,)
            The saddle, in the box.

        Returns
        -------
        float64 array, shape (N, 2)
            Points in order along the curve, with x larger at the end than at the start; the first and the
            last one lie on the edge of the box, or where the curve comes from at rest.

        Raises
        ------
        AssumptionError
            If the point is not a saddle.
        ValueError
            If it is not a point of the box.

        Notes
        -----
        Backward integration (DOP853, 1e-11 a step) from 1e-7 beside the saddle along the stable eigenvector,
        which attracts backward. Points come from the dense output; a straight line between two errs more.

        References
        ----------
        Parker and Chua (1989), Practical numerical algorithms for chaotic systems, chapter 6.

        Examples
        --------
        >>> plane = PhasePlane(lambda x, y: (x * (1 - x), -y), box=((-0.5, 1.5), (-1, 1)))
        >>> curve = plane.separatrix([0, 0])
        >>> bool(abs(curve[:, 0]).max() < 1e-9), curve[[0, -1], 1].round(9).tolist()
        (True, [-1.0, 1.0])
        """
        return self._trace(saddle)[0]

    def _trace(self, saddle: Equilibrium | ArrayLike) -> tuple[Floats, float]:
        """Points along the separatrix, and the integral of y dx."""
        given = saddle.point if isinstance(saddle, Equilibrium) else saddle
        point, room = finite_array("saddle", given, 1), 1e-9 * self._size
        if point.shape != (2,) or not np.all((self._low - room <= point) & (point <= self._high + room)):
            raise ValueError(
                f"saddle must be a point (x, y) of the box, got {point.tolist()}; see equilibria()"
            )
        J = self.jacobian(*point)
        values, vectors = np.linalg.eig(J)
        speed = float(np.abs(self.velocity(*point) / self._size).max())
        if self._kind(J, values) != "saddle" or speed > 1e-6 * self._scale:
            raise AssumptionError(
                f"saddle must be an equilibrium with eigenvalues of both signs, got {values} at speed "
                f"{speed:.3g}; choose one of kind 'saddle' from equilibria()"
            )
        unit = _flow.unit(self._scale)
        rate, fast, scale = values.real.min() / unit, values.real.max() / unit, self._scale / unit
        vector = np.real(vectors[:, int(np.argmin(values.real))])
        vector = vector / float(np.abs(vector / self._size).max())  # of the size of the box
        span, f = 300.0 / abs(rate) + 300.0 / scale, self.f

        def velocity(t: float, state: Floats) -> tuple[float, float, float]:
            vx, vy = (float(part) / unit for part in f(state[0], state[1]))
            return vx, vy, float(state[1]) * vx

        slack = _flow.boxed(self._low, self._high, 1e-12)
        slow = min(1e-11 * scale * float(self._size.min()), 1e-3 * _flow.OFFSET * abs(rate))
        halves, area = [], 0.0
        for sign in (-1.0, 1.0):
            start = point + sign * _flow.OFFSET * vector
            half = np.stack([point, start])
            part = float((start[0] - point[0]) * (start[1] + point[1]) / 2)
            if slack(start) >= 0:
                run = _flow.branch(velocity, np.append(start, 0.0), slack, span, slow, fast)
                part += float(run.y[2, -1])
                half = np.vstack([point, run.sol(_flow.along(run.t, PIECES))[:2].T])
            halves.append(half)
            area += sign * part
        curve = np.vstack([halves[0][:0:-1], halves[1]])
        turn = curve[-1, 0] < curve[0, 0]
        return (curve[::-1].copy() if turn else curve), (-area if turn else area)

    def basin_area(self, saddle: Equilibrium | ArrayLike, *, below: bool = True) -> float:
        """Area of the part of the box on one side of a saddle's separatrix.

        ``area below = integral of y dx`` along the separatrix and back along the edge of the box (Green).

        Parameters
        ----------
        saddle : Equilibrium, or array_like of shape (2,)
            The saddle.
        below : bool, default True
            The side on the right of the curve run with increasing x, which is the one of smaller y where the
            curve is a graph over x; else the other one.

        Returns
        -------
        float
            In units of x times y. It is the area of a basin of attraction where this separatrix is the only
            border in the box.

        Raises
        ------
        AssumptionError
            If the point is no saddle, or the separatrix has an end inside the box.
        ValueError
            If it is not a point of the box.

        Notes
        -----
        The integral is a third state of the run that traces the curve: eight digits in some ten milliseconds.

        Examples
        --------
        >>> plane = PhasePlane(lambda x, y: (x * (1 - x), -y), box=((-0.5, 1.5), (-1, 1)))
        >>> round(plane.basin_area([0, 0], below=False), 9)
        1.0
        """
        curve, inside = self._trace(saddle)
        for end in (curve[0], curve[-1]):
            if _boundary.gap(end, self._low, self._high) > 1e-7:
                raise AssumptionError(
                    f"the separatrix must reach the edge of the box at both ends, got one at {end.tolist()}; "
                    "choose a box whose edge it meets"
                )
        area = inside + _boundary.back(curve[-1], curve[0], self._low, self._high)
        return area if below else float(np.prod(self._size)) - area

    def nullclines(self, n: int = 200) -> tuple[list[Floats], list[Floats]]:
        """Trace the curves on which one component of the velocity vanishes.

        Parameters
        ----------
        n : int, default 200
            Cells of the grid a side, >= 2.

        Returns
        -------
        (list of arrays, list of arrays)
            Curves of ``dx/dt = 0``, and of ``dy/dt = 0``; each array has shape (N, 2).

        Raises
        ------
        ValueError
            If n is below 2.

        Notes
        -----
        Contours on the grid, each point then moved onto the curve by three Newton steps.

        Examples
        --------
        >>> plane = PhasePlane(lambda x, y: (y - x**2, x - y))
        >>> curve = plane.nullclines(50)[0][0]
        >>> bool(abs(curve[:, 1] - curve[:, 0] ** 2).max() < 1e-9)
        True
        """
        return _boundary.nullclines(self, integer("n", n, 2), self._low, self._high)

    def dulac(self, weight: Callable[..., Any], n: int = 200) -> float:
        """Largest divergence of ``weight * f`` on a grid.

        ``max over cells of d(w f_1)/dx + d(w f_2)/dy``. Where it is below 0 everywhere in a region without
        holes there are no closed orbits in it, nor closed chains of orbits between saddles.

        Parameters
        ----------
        weight : callable
            ``weight(x, y)``, elementwise and smooth inside the box; it may grow at the edges.
        n : int, default 200
            Cells a side, >= 1; the divergence is taken at their centres.

        Returns
        -------
        float
            The largest value: a check on a grid, not a proof.

        Raises
        ------
        TypeError
            If the weight is not callable.
        ValueError
            If n is below 1 or the divergence is not finite.

        References
        ----------
        Strogatz (2015), Nonlinear dynamics and chaos, section 7.2.

        Examples
        --------
        >>> plane = PhasePlane(lambda x, y: (x * (2 - x - y), y * (4 * x - x**2 - 3)), box=((0, 4), (0, 4)))
        >>> plane.dulac(lambda x, y: 1 / (x * y)) < 0
        True
        """
        _function("weight", weight)
        count = integer("n", n, 1)
        sides = [low + (high - low) * (np.arange(count) + 0.5) / count for low, high in self.box]
        x, y = np.meshgrid(*sides)
        # within the cell, so that a weight that is infinite on an edge is not met
        steps = self._size * min(1e-3, 0.2 / count)

        def weighted(a: Any, b: Any) -> Floats:
            return np.asarray(weight(a, b), float) * self.velocity(a, b)

        with np.errstate(all="ignore"):  # what is not finite is told below
            across, up = _newton.differences(weighted, x, y, steps)
            divergence = across[0] + up[1]
        if not np.isfinite(divergence).all():
            raise ValueError(
                "weight must be finite inside the box, got a divergence that is not; see its poles"
            )
        return float(divergence.max())

    def plot(self, ax: "Axes | None" = None, n: int = 200) -> "Axes":
        """Draw the portrait: stream lines, nullclines, equilibria and the separatrices of saddles.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure if None.
        n : int, default 200
            Cells of the grid for nullclines.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        return _boundary.portrait(self, ax, n)


def _function(name: str, value: Any) -> None:
    if not callable(value):
        raise TypeError(f"{name} must be a function of x and y, got {value!r}; pass a callable")
