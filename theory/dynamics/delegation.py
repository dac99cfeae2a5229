"""Skill under delegation to an AI: equilibria, separatrix, basins, and when the AI stops paying.

``ds/dt = a (1 - d)(1 - s) - b d s``: skill s grows by own work and decays where work is delegated. The share
d follows law A, ``dd/dt = k d (1 - d)(q - s)``, or law B, ``dd/dt = k (sigmoid(gamma (q - s)) - d)``.
A reconstruction: the equations of the paper were not available.
"""

import dataclasses
import functools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, one_of, positive, probability
from porism.errors import AssumptionError
from porism.results import Result
from porism.theory.dynamics import _crossing, _laws
from porism.theory.dynamics.orbits import Orbit, Separatrix
from porism.theory.dynamics.phase_plane import Equilibrium, PhasePlane, classify

__all__ = ["LAWS", "DelegationModel"]

Floats = NDArray[np.float64]

LAWS = ("replicator", "logistic")
"""Law A, where all or nothing delegated stays so; law B, where trust relaxes to a logistic curve."""

CLOSE = 1e-6
"""Distance from the separatrix, in skill and in delegation, within which a start is left undecided."""


@dataclasses.dataclass(frozen=True)
class DelegationModel(Result):
    """Skill and delegation as a flow in the unit square.

    Parameters
    ----------
    learn : float
        Rate a at which own work builds skill, > 0, per unit of time.
    forget : float
        Rate b at which delegated work lets skill decay, > 0.
    speed : float
        Rate k at which delegation adapts, > 0.
    quality : float
        Quality q of the AI, on the scale of skill; finite.
    law : {"replicator", "logistic"}, default "replicator"
        Law A or law B of delegation.
    gain : float, optional
        Steepness gamma of trust under law B, > 0.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If a rate is not positive, the quality not finite, the law unknown, or the gain is missing under law B
        or given under law A.

    Notes
    -----
    In (s, -d) the flow is cooperative: a start with more skill and less delegation stays ahead. So the border
    of the basins is an increasing curve, and every orbit converges.

    References
    ----------
    arXiv 2603.02950; our reconstruction.

    Examples
    --------
    >>> model = DelegationModel(learn=1, forget=0.6, speed=1, quality=0.7)
    >>> round(model.low_skill_area(), 8), model.verdict(0.45, 0.5)
    (0.62734676, 'low')
    """

    learn: float
    forget: float
    speed: float
    quality: float
    law: str = "replicator"
    gain: float | None = None

    def __post_init__(self) -> None:
        """Check the parameters and keep them as floats."""
        values = {name: positive(name, getattr(self, name)) for name in ("learn", "forget", "speed")}
        values["quality"] = float(finite_array("quality", self.quality, 0))
        if one_of("law", self.law, LAWS) == "logistic":
            if self.gain is None:
                raise ValueError("gain must be a number > 0 with law='logistic', got None; pass gain=12, say")
            values["gain"] = positive("gain", self.gain)
        elif self.gain is not None:
            raise ValueError(
                f"gain must be left out with law='replicator', got {self.gain!r}; see law='logistic'"
            )
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @functools.cached_property
    def _equations(self) -> _laws.Equations:
        return _laws.Equations(self.learn, self.forget, self.speed, self.quality, self.gain)

    def plane(self) -> PhasePlane:
        """Give the flow to the general phase plane, with its Jacobian.

        Returns
        -------
        PhasePlane
            In coordinates (s, d), on the unit square.
        """
        return PhasePlane(self._equations.velocity, ((0.0, 1.0), (0.0, 1.0)), self._equations.jacobian)

    def equilibria(self) -> list[Equilibrium]:
        """Give the points of rest in closed form (SD-2, SD-8).

        Law A: (1, 0) and (0, 1), and for 0 < q < 1 the saddle (q, a(1-q) / (a(1-q) + b q)). Law B: the
        solutions of ``q = s + log(a (1-s) / (b s)) / gamma``, with ``d = a(1-s) / (a(1-s) + b s)``; one, two
        or three.

        Returns
        -------
        list of Equilibrium
            By increasing skill, with the eigenvalues of the closed-form Jacobian.

        Notes
        -----
        The one scalar equation of law B is solved to rounding on each branch between the folds.

        References
        ----------
        Our derivation.

        Examples
        --------
        >>> [e.kind for e in DelegationModel(1, 0.6, 1, 0.7).equilibria()]
        ['stable node', 'saddle', 'stable node']
        >>> [e.kind for e in DelegationModel(1, 0.6, 1, 0.7, law="logistic", gain=3.9).equilibria()]
        ['stable node']
        """
        found = []
        for s, d in self._equations.rest():
            values = self._equations.eigenvalues(s, d)
            # closed forms: under law A a sign is exact, however slow trust is; under law B up to rounding
            found.append(
                Equilibrium(np.array([s, d]), values, classify(values, 0.0 if self.gain is None else 1e-14))
            )
        return found

    def bistable_window(self) -> tuple[float, float] | None:
        """Give the qualities of AI for which both high and low skill attract.

        Law A: (0, 1). Law B: ``(q(s-), q(s+))`` with ``s+- = (1 +- sqrt(1 - 4/gamma)) / 2``, the folds of
        ``q(s) = s + log(a (1-s) / (b s)) / gamma``.

        Returns
        -------
        (float, float) or None
            Open interval; None under law B with gamma <= 4, where one point attracts everything.

        References
        ----------
        Our derivation.

        Examples
        --------
        >>> window = DelegationModel(1, 1, 1, 0.5, law="logistic", gain=8).bistable_window()
        >>> [round(end, 9) for end in window]
        [0.366790006, 0.633209994]
        """
        return self._equations.window()

    def separatrix(self) -> Separatrix:
        """Trace the border of the basins of high and low skill (SD-4).

        Returns
        -------
        Separatrix
            Callable: a start (s, d) falls to low skill iff ``d > d_sep(s)``.

        Raises
        ------
        AssumptionError
            If there is no interior saddle, hence one basin: quality outside of `bistable_window`.
        ValueError
            If learn or forget is below 1e-10 of the largest rate; under law B below 1e-8 or gain times 1e-10.

        Notes
        -----
        Backward from the saddle. Law A is integrated in (s, logit d), where it is never stiff. The curve is
        kept as the integrator's own polynomials, and evaluated by Newton's method on them.

        References
        ----------
        Hirsch and Smith (2005), Monotone dynamical systems, for the order; our derivation.

        Examples
        --------
        >>> border = DelegationModel(1, 0.6, 1, 0.7).separatrix()
        >>> border([0.4, 0.7]).round(6).tolist()
        [0.347228, 0.416667]
        """
        if self._curve is None:
            window = self.bistable_window()
            where = (
                "one point attracts all"
                if window is None
                else f"it lies in ({window[0]:.6g}, {window[1]:.6g})"
            )
            raise AssumptionError(
                f"no interior saddle at quality {self.quality!r}: there is no border to trace; {where}, "
                "see bistable_window()"
            )
        return Separatrix(self._curve)

    @functools.cached_property
    def _curve(self) -> _laws.Curve | None:
        window = self.bistable_window()
        if window is None or not window[0] < self.quality < window[1]:
            return None
        rest = self._equations.rest()  # the one in the middle is the saddle
        return _laws.trace(self._equations, np.array(rest[1])) if len(rest) == 3 else None

    @functools.cached_property
    def _alone(self) -> str:
        """Where all starts end if there is one basin."""
        rest = self._equations.rest()
        if self.gain is None:
            return "low" if self.quality >= 1 else "high"
        skill = rest[0][0] if len(rest) == 1 else rest[0][0] + rest[-1][0] - 0.5
        return "undecided" if abs(skill - 0.5) <= CLOSE else "high" if skill > 0.5 else "low"

    def low_skill_area(self) -> float:
        """Share of the unit square from which skill is lost (SD-5 to SD-7).

        ``integral over s of 1 - d_sep(s)``.

        Returns
        -------
        float
            In [0, 1]; 0 or 1 where there is one basin (low if it rests at a skill below one half).

        Raises
        ------
        ValueError
            As `separatrix`, if rates are too far apart.

        Notes
        -----
        A third state of the run that traces the separatrix: eight digits in a few ten milliseconds. It grows
        with quality and forget, falls with learn, and is not monotone in speed.

        References
        ----------
        Our derivation.

        Examples
        --------
        >>> round(DelegationModel(1, 0.6, 10, 0.7).low_skill_area(), 4)
        0.7226
        """
        return float(self._alone == "low") if self._curve is None else self._curve.area

    def verdict(self, s0: float, d0: float) -> str:
        """Say to which end a start leads.

        Parameters
        ----------
        s0, d0 : float
            Skill and delegation at the start, in [0, 1].

        Returns
        -------
        {"high", "low", "undecided"}
            Undecided within 1e-6 of the separatrix, in skill or delegation. Where there is one basin, its
            end; under law A the edges d = 0 and d = 1 lead to high and low skill whatever the quality.

        Raises
        ------
        ValueError
            If the start is outside of the unit square, or rates are too far apart, as for `separatrix`.

        Examples
        --------
        >>> model = DelegationModel(1, 0.6, 1, 0.7)
        >>> model.verdict(0.3, 0.2), model.verdict(0.7, 0.41666667)
        ('high', 'undecided')
        """
        s, d = probability("s0", s0), probability("d0", d0)
        if self.gain is None and d in (0.0, 1.0):
            return "low" if d else "high"
        if self._curve is None:
            return self._alone
        below, above = self._curve(np.clip([s - CLOSE, s + CLOSE], 0.0, 1.0))
        return "low" if d > above + CLOSE else "high" if d < below - CLOSE else "undecided"

    def fixed_delegation(self, s0: float, d: float, t: ArrayLike) -> Floats:
        """Skill when delegation does not change (SD-1).

        ``s(t) = s* + (s0 - s*) exp(-(a (1-d) + b d) t)``, ``s* = a (1-d) / (a (1-d) + b d)``.

        Parameters
        ----------
        s0, d : float
            Skill at the start and delegation, in [0, 1].
        t : array_like
            Times, >= 0.

        Returns
        -------
        float64 array, shape of t
            Skill.

        Raises
        ------
        ValueError
            If a value is out of range.

        Examples
        --------
        >>> float(DelegationModel(1, 0.6, 1, 0.7).fixed_delegation(0.2, 0.3, 1.5).round(10))
        0.6363876156
        """
        return self._equations.fixed(probability("s0", s0), probability("d", d), _times(t))

    def trajectory(self, s0: float, d0: float, t: ArrayLike) -> Orbit:
        """Follow one person.

        Parameters
        ----------
        s0, d0 : float
            Skill and delegation at the start, in [0, 1].
        t : array_like, shape (n,) or ()
            Times, >= 0.

        Returns
        -------
        Orbit
            Skill, delegation, performance, and performance without AI.

        Raises
        ------
        ValueError
            If the start is outside of the unit square, a time negative or not finite, t has two axes, or
            quality or gain is so large that no step is small enough.

        Notes
        -----
        DOP853 with 1e-11 a step, in (s, logit d) under law A; Radau where the last time is 2e4 and more times
        that of the fastest rate.

        Examples
        --------
        >>> orbit = DelegationModel(1, 0.6, 1, 0.7).trajectory(0.45, 0.5, [1.0, 5.0])
        >>> orbit.skill.round(8).tolist()
        [0.52993472, 0.45848693]
        """
        s, d, times = probability("s0", s0), probability("d0", d0), np.atleast_1d(_times(t))
        if times.ndim > 1:
            raise ValueError(f"t must have at most one axis, got shape {times.shape}; pass t.ravel()")
        skill, given, kept = self._equations.orbit(s, d, float(times.max(initial=0.0)))(times)
        skill = np.clip(skill, 0.0, 1.0)  # rounding may leave the ends
        performance = kept * skill + given * self.quality
        return Orbit(times, skill, given, performance, self._equations.alone(s, times))

    def performance(self, s0: float, d0: float, t: ArrayLike) -> Floats:
        """Performance ``(1 - d) s + d q`` of a person and the AI together.

        Parameters
        ----------
        s0, d0 : float
            Skill and delegation at the start, in [0, 1].
        t : array_like
            Times, >= 0.

        Returns
        -------
        float64 array, shape of t
            On the scale of skill.

        Raises
        ------
        ValueError
            If the start is outside of the unit square or a time negative or not finite.

        Examples
        --------
        >>> DelegationModel(1, 0.6, 1, 0.7).performance(0.45, 0.5, [0.0, 1.0]).round(6).tolist()
        [0.575, 0.623508]
        """
        return self.trajectory(s0, d0, np.ravel(t)).performance.reshape(np.shape(t))

    def crossing_time(self, s0: float, d0: float) -> float | None:
        """Time from which on the AI is a loss for good (SD-9).

        The last sign change of performance less that without AI, ``(1-d)(s - s_no) + d (q - s_no)``; it comes
        no later than ``log((1 - s0) / (1 - q)) / a``, when the person alone would be as good as the AI.

        Parameters
        ----------
        s0, d0 : float
            Skill and delegation at the start, in [0, 1].

        Returns
        -------
        float or None
            Time; None where the AI never pays: s0 >= q, or d0 = 0 under law A.

        Raises
        ------
        AssumptionError
            If quality is 1 or more, for then there is no such bound.
        ValueError
            If the start is outside of the unit square.

        Notes
        -----
        Searched up to the bound only, since both performances may tend to 1 and their difference to rounding.
        There may be earlier sign changes.

        References
        ----------
        Our derivation.

        Examples
        --------
        >>> round(DelegationModel(1, 0.6, 1, 0.7).crossing_time(0.45, 0.5), 8)
        0.31108038
        """
        changes = self.sign_changes(s0, d0)
        return float(changes[-1]) if changes.size else None

    def sign_changes(self, s0: float, d0: float) -> Floats:
        """Times at which the AI turns from a gain to a loss, or back (SD-9).

        Parameters
        ----------
        s0, d0 : float
            Skill and delegation at the start, in [0, 1].

        Returns
        -------
        float64 array, shape (n,)
            Increasing, n odd; empty where the AI never pays. The last one is `crossing_time`.

        Raises
        ------
        AssumptionError
            If quality is 1 or more.
        ValueError
            If the start is outside of the unit square.

        Notes
        -----
        Seen at 16 points on each step of the integrator, 400 at least, then solved to rounding; two changes
        closer than that would be missed.

        Examples
        --------
        >>> DelegationModel(0.25, 6, 5, 0.9).sign_changes(0.45, 0.01).round(6).tolist()
        [0.184613, 2.200212, 6.818992]
        """
        s, d = probability("s0", s0), probability("d0", d0)
        if not self.quality < 1:
            raise AssumptionError(
                f"quality must be < 1, got {self.quality!r}: an AI that good need never be a loss; "
                "compare trajectory(...).performance with .alone"
            )
        if s >= self.quality or (d == 0 and self.gain is None):
            return np.zeros(0)
        return np.array(_crossing.sign_changes(self._equations, s, d))


def _times(t: ArrayLike) -> Floats:
    array = finite_array("t", t)
    if array.size and array.min() < 0:
        raise ValueError(f"t must be >= 0, got {array.min():.6g}; orbits start at time 0")
    return array
