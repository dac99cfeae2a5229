"""What the model of skill and delegation hands back: one person's path, and the border of the basins."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array
from porism.results import Result
from porism.theory.dynamics import _laws

__all__ = ["Orbit", "Separatrix"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Orbit(Result):
    """What becomes of one person.

    Parameters
    ----------
    t : float64 array, shape (n,)
        Times.
    skill : float64 array, shape (n,)
        Skill s, in [0, 1].
    delegation : float64 array, shape (n,)
        Share of work delegated d, in [0, 1].
    performance : float64 array, shape (n,)
        ``(1 - d) s + d q``.
    alone : float64 array, shape (n,)
        Performance of the same person without AI, ``1 - (1 - s0) exp(-a t)``.

    Examples
    --------
    >>> from porism.theory.dynamics import DelegationModel
    >>> DelegationModel(1, 0.6, 1, 0.7).trajectory(0.45, 0.5, [0.0]).performance
    array([0.575])
    """

    t: Floats
    skill: Floats
    delegation: Floats
    performance: Floats
    alone: Floats


class Separatrix:
    """The border of the two basins as a function ``d_sep(s)``; made by `DelegationModel.separatrix`.

    Parameters
    ----------
    curve : object
        The run that traced it.

    Notes
    -----
    Increasing, from 0 or above to 1 or below. Where it leaves the square through its lower or upper edge,
    d_sep is 0 or 1 from there on.

    Examples
    --------
    >>> from porism.theory.dynamics import DelegationModel
    >>> border = DelegationModel(1, 0.6, 1, 0.7).separatrix()
    >>> round(float(border(0.2)), 8)
    0.3047596
    """

    def __init__(self, curve: Any) -> None:
        self._curve: _laws.Curve = curve

    def __call__(self, s: ArrayLike) -> Floats:
        """Evaluate the border.

        Parameters
        ----------
        s : array_like
            Skill, in [0, 1].

        Returns
        -------
        float64 array, shape of s
            Delegation above which a start falls to low skill.
        """
        return self._curve(_unit("s", s))

    @property
    def points(self) -> Floats:
        """Points (s, d) along the curve, shape (N, 2), by increasing s."""
        return self._curve.points.copy()


def _unit(name: str, value: ArrayLike) -> Floats:
    array = finite_array(name, value)
    if array.size and (array.min() < 0 or array.max() > 1):
        raise ValueError(f"{name} must be in [0, 1], got {array.min():.6g} to {array.max():.6g}; rescale it")
    return array
