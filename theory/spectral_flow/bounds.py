"""Two-sided brackets for arrival times, and the leading-order delay that smoothing causes."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import require
from porism.results import Result
from porism.theory.spectral_flow import _times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Bounds", "smoothing_delay", "spectral_flow_arrival_bounds"]


@dataclasses.dataclass(frozen=True, eq=False)
class Bounds(Result):
    """Bracket for the arrival time of balanced modes; all arrays have the shape the arguments broadcast to.

    Parameters
    ----------
    lower, upper : float64 arrays
        The bracket; inf for modes that do not arrive.
    ideal : float64 array
        Time without smoothing.
    gradient_flow : float64 array
        Time of the gradient flow.
    sigma, s0, fraction, smoothing, ridge : float64 arrays
        What the bracket is for.

    Examples
    --------
    >>> bounds = spectral_flow_arrival_bounds(1.0, 1e-6, 0.99, 0.01)
    >>> bool(bounds.contains(1.01741))
    True
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    ideal: NDArray[np.float64]
    gradient_flow: NDArray[np.float64]
    sigma: NDArray[np.float64]
    s0: NDArray[np.float64]
    fraction: NDArray[np.float64]
    smoothing: NDArray[np.float64]
    ridge: NDArray[np.float64]

    def contains(self, times: ArrayLike) -> NDArray[np.bool_]:
        """Say which times lie in the bracket, ends included.

        Parameters
        ----------
        times : array_like
            Times that broadcast against the bracket.

        Returns
        -------
        bool array
            ``lower <= times <= upper``.
        """
        t = np.asarray(times, dtype=np.float64)
        return np.asarray((self.lower <= t) & (t <= self.upper))

    def to_frame(self) -> Any:
        """Show the bracket as a pandas table.

        Returns
        -------
        DataFrame
            One row a mode, one column a field.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        fields = [field.name for field in dataclasses.fields(self)]
        return pandas.DataFrame({name: np.ravel(getattr(self, name)) for name in fields})

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the bracket and the ideal time against the target, on logarithmic axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        from matplotlib import pyplot

        ax = ax if ax is not None else pyplot.subplots()[1]
        shown = np.isfinite(np.ravel(self.upper))
        x, low, high, short = (
            np.ravel(values)[shown] for values in (self.sigma, self.lower, self.upper, self.ideal)
        )
        ax.vlines(x, low, high, color="#0072B2", lw=3, label="bracket")
        ax.plot(x, short, "o", color="#D55E00", ms=4, label="without smoothing")
        ax.set(xscale="log", yscale="log", xlabel="target singular value", ylabel="arrival time")
        ax.legend()
        return ax


def spectral_flow_arrival_bounds(
    sigma: ArrayLike,
    s0: ArrayLike,
    fraction: ArrayLike = 0.99,
    smoothing: ArrayLike = 0.0,
    ridge: ArrayLike = 0.0,
) -> Bounds:
    """Bracket the arrival time under the smoothed spectral flow by two closed forms (SF-3).

    ``sqrt(T0^2 + (beta T_GF)^2) <= T <= T0 + beta T_GF`` with the ideal time T0, the time T_GF of the
    gradient flow, and beta the smoothing.

    Parameters
    ----------
    sigma : array_like
        Target singular value, >= 0.
    s0 : array_like
        Product singular value at time 0, in (0, fraction * (sigma - ridge)); all arguments broadcast.
    fraction : array_like, default 0.99
        Share of ``sigma - ridge`` to be reached, in (0, 1).
    smoothing : array_like, default 0
        Smoothing beta, >= 0.
    ridge : array_like, default 0
        Weight of ``(|A|^2 + |B|^2) / 2`` in the loss, >= 0.

    Returns
    -------
    Bounds
        Bracket, ideal time and gradient-flow time; inf where ``sigma <= ridge``.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If an argument is out of range or shapes do not broadcast.

    Notes
    -----
    For balanced aligned modes. The upper end less the ideal time also bounds how far sqrt(s) lags behind unit
    growth on the way (SF-4). Cost: elementwise.

    References
    ----------
    Our derivation: ``sqrt(1 + y^2) <= 1 + y``, and Minkowski's inequality; see
    :func:`porism.theory.spectral_flow.symbolic.smoothed_arrival`.

    Examples
    --------
    >>> bounds = spectral_flow_arrival_bounds(4.0, 1e-6, 0.99, 0.01)
    >>> round(float(bounds.lower), 5), round(float(bounds.upper), 5)
    (1.98913, 2.01372)
    """
    m = _times.modes(sigma, s0, fraction, smoothing, ridge)
    lower, upper = _times.bracket(m)
    given = (np.array(x) for x in (m.sigma, m.s0, m.fraction, m.smoothing, m.ridge))
    return Bounds(lower, upper, _times.ideal(m), _times.gradient_flow(m), *given)


def smoothing_delay(
    sigma: ArrayLike,
    s0: ArrayLike,
    fraction: ArrayLike = 0.99,
    smoothing: ArrayLike = 0.0,
    ridge: ArrayLike = 0.0,
) -> NDArray[np.float64]:
    """Leading-order time that smoothing adds to the ideal arrival time (SF-4).

    ``[c asinh(c/p) + p - hypot(p, c)] + [e asinh(e/d) + d - hypot(d, e)]`` with ``c = beta / g``,
    ``e = beta / (2 g)``, ``p = sqrt(s0)``, ``d = sqrt(g) - sqrt(f g)`` and ``g = sigma - ridge``: the delay
    of the start-up and that of the last approach.

    Parameters
    ----------
    sigma : array_like
        Target singular value, >= 0.
    s0 : array_like
        Product singular value at time 0, in (0, fraction * (sigma - ridge)); all arguments broadcast.
    fraction : array_like, default 0.99
        Share of ``sigma - ridge`` to be reached, in (0, 1).
    smoothing : array_like, default 0
        Smoothing beta, >= 0.
    ridge : array_like, default 0
        Weight of ``(|A|^2 + |B|^2) / 2`` in the loss, >= 0.

    Returns
    -------
    float64 or ndarray
        Delay, in units of time; inf where ``sigma <= ridge``.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If an argument is out of range or shapes do not broadcast.

    Notes
    -----
    An approximation, no bound, for smoothing far below ``g^(3/2)``, s0 far below g and a fraction close to 1.

    References
    ----------
    Our derivation, see :func:`porism.theory.spectral_flow.symbolic.delay`.

    Examples
    --------
    >>> exact = 1.01741007271 - 0.99**0.5 + 1e-3
    >>> abs(float(smoothing_delay(1.0, 1e-6, smoothing=0.01)) / exact - 1) < 0.02
    True
    """
    m = _times.modes(sigma, s0, fraction, smoothing, ridge)
    gap = np.where(m.arrives, m.gap, 1.0)
    left = np.sqrt(gap) * (1 - m.fraction) / (1 + np.sqrt(m.fraction))
    rate = m.smoothing / gap
    delay = _lag(rate, np.sqrt(m.s0)) + _lag(rate / 2, left)
    return np.where(m.arrives, delay, np.inf)[()]


def _lag(c: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Integral of ``sqrt(1 + (c/a)^2) - 1`` over a from p to infinity."""
    return c * np.arcsinh(c / p) - c * c / (p + np.hypot(p, c))
