"""Gradient flow of a matrix factorization, plain or spectral, by an integrator of differential equations."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, not_negative, one_of, positive, probability
from porism.errors import NumericalWarning
from porism.sims.spectral_flow._model import (
    check_problem,
    gradients,
    losses,
    product_svd,
    smoothed_polar,
    span,
)
from porism.sims.spectral_flow._record import Target
from porism.sims.spectral_flow.trajectory import FlowTrajectory

__all__ = ["KINDS", "METHODS", "simulate_flow"]

Array = NDArray[np.float64]

KINDS = ("spectral", "gradient")
"""Names of flows."""

METHODS = ("LSODA", "RK45", "RK23", "DOP853", "Radau", "BDF")
"""Names of integrators of scipy."""

RECORDS = 201
"""Records of a flow where no times are given."""


def simulate_flow(
    Y: ArrayLike,
    B0: ArrayLike,
    A0: ArrayLike,
    *,
    kind: str = "spectral",
    smoothing: float | None = None,
    ridge: float = 0.0,
    t_end: float,
    t_eval: ArrayLike | None = None,
    fraction: float = 0.99,
    method: str = "LSODA",
    rtol: float = 1e-8,
    atol: float = 1e-10,
    reduce: bool = True,
    keep_factors: bool = False,
    progress: bool = False,
) -> FlowTrajectory:
    """Follow two factors down ``L = 1/2 ||Y - BA||^2 + ridge/2 (||A||^2 + ||B||^2)`` in continuous time.

    ``dB/dt = -T(G_B)``, ``dA/dt = -T(G_A)`` with the gradients ``G_B = -(Y - BA) A' + ridge B`` and
    ``G_A = -B' (Y - BA) + ridge A``; T is the identity for the gradient flow and
    ``T(G) = G (G'G + smoothing^2 I)^(-1/2)`` for the spectral one.

    Parameters
    ----------
    Y : array_like, shape (m, n)
        Target.
    B0, A0 : array_like, shapes (m, r) and (r, n)
        Factors at the start.
    kind : {"spectral", "gradient"}
        Which flow.
    smoothing : float, optional
        Size of gradients below which the spectral flow slows down, > 0; required there, ignored by
        ``kind="gradient"``.
    ridge : float, default 0
        Weight of the squared norms, >= 0.
    t_end : float
        Length of the run, > 0; the spectral flow moves factors at speed at most 1.
    t_eval : array_like, shape (T,), optional
        Times of the records, ascending, in [0, t_end]; by default 201 equal steps from 0.
    fraction : float, default 0.99
        Mode i arrives at ``fraction (sigma_i - ridge)``; in (0, 1].
    method : {"LSODA", "RK45", "RK23", "DOP853", "Radau", "BDF"}
        Integrator of `scipy.integrate.solve_ivp`.
    rtol, atol : float
        Its tolerances, > 0; `atol` is in units of the factors, so lower it where these stay far below 1.
    reduce : bool, default True
        Whether to integrate in the spans of the columns of Y and B0 and of the rows of Y and A0.
    keep_factors : bool, default False
        Whether to keep the factors at each record, ``8 T (m + n) r`` bytes.
    progress : bool, default False
        Whether to show a bar.

    Returns
    -------
    FlowTrajectory
        With root-found arrival times; `status` is -1, and the records end early, if the integrator gave up.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the shapes do not fit, a value is out of range, or the spectral flow has no smoothing.

    Warns
    -----
    NumericalWarning
        If the integrator gave up.

    Notes
    -----
    The reduction is exact, as T(QX) = Q T(X) for orthonormal columns Q: ``rank Y + r`` rows and columns
    remain at most. Neither it nor T mixes rows or columns that are exactly zero with others, so a start on
    a saddle that the coordinates show stays there. The Lipschitz constant of T is ``1 / smoothing``, so the
    stiffest rate is about ``2 sigma_1 / smoothing``: implicit methods are faster for small smoothing.

    References
    ----------
    arXiv 2602.06385 (statements reconstructed).

    Examples
    --------
    >>> from porism.sims.spectral_flow import aligned_init
    >>> Y = np.diag([4.0, 1.0])
    >>> start = aligned_init(Y, 0.01, 0.01, seed=0)
    >>> simulate_flow(Y, *start, smoothing=1e-3, t_end=3.0).arrival_times.round(2)
    array([1.98, 0.99])
    >>> simulate_flow(Y, *start, kind="gradient", t_end=9.0).arrival_times.round(2)
    array([1.9, 6.9])
    """
    target, B, A = check_problem(Y, B0, A0)
    one_of("kind", kind, KINDS)
    one_of("method", method, METHODS)
    beta = _smoothing(kind, smoothing)
    ridge, t_end = not_negative("ridge", ridge), positive("t_end", t_end)
    rtol, atol = positive("rtol", rtol), positive("atol", atol)
    fraction = probability("fraction", positive("fraction", fraction))
    times = _times(t_eval, t_end)
    facts = Target.of(target, B.shape[1], ridge, fraction)
    left = span(target, B) if reduce else None
    right = span(target.T, A.T) if reduce else None
    Yr, Br, Ar = target, B, A
    if left is not None:
        Yr, Br = left.T @ Yr, left.T @ Br
    if right is not None:
        Yr, Ar = Yr @ right, Ar @ right
    split, spectrum = Br.size, _spectrum(Br.shape, Ar.shape, len(facts.sigma))

    def velocity(t: float, y: Array) -> Array:
        GB, GA = gradients(Yr, y[:split].reshape(Br.shape), y[split:].reshape(Ar.shape), ridge)
        if kind == "spectral":
            GB, GA = smoothed_polar(GB, beta), smoothed_polar(GA, beta)
        return -np.concatenate([GB.ravel(), GA.ravel()])

    start = np.concatenate([Br.ravel(), Ar.ravel()])
    arrivals = np.where(spectrum(start) >= facts.levels, 0.0, np.nan)
    watched = np.flatnonzero(np.isfinite(facts.levels) & np.isnan(arrivals))
    events = [_event(spectrum, int(mode), float(facts.levels[mode])) for mode in watched]
    solution = _solve(velocity, start, t_end, times, events, method, rtol, atol, progress)
    for mode, roots in zip(watched, solution.t_events or [], strict=True):
        if len(roots):
            arrivals[mode] = roots[0]
    y = solution.y.T if len(solution.t) else np.empty((0, start.size))
    Bs, As = y[:, :split].reshape(-1, *Br.shape), y[:, split:].reshape(-1, *Ar.shape)
    end = solution.end
    final = [end[:split].reshape(Br.shape), end[split:].reshape(Ar.shape)]

    def full(first: Array, second: Array) -> tuple[Array, Array]:
        return (first if left is None else left @ first, second if right is None else second @ right.T)

    B_end, A_end = full(*final)
    kept = full(Bs, As) if keep_factors else (None, None)
    return FlowTrajectory(
        t=solution.t,
        loss=losses(Yr, Bs, As, ridge),
        arrival_times=arrivals,
        B=B_end,
        A=A_end,
        nfev=int(solution.nfev),
        status=min(int(solution.status), 0),
        message=str(solution.message),
        kind=kind,
        smoothing=beta,
        ridge=ridge,
        fraction=fraction,
        options={"method": method, "rtol": rtol, "atol": atol, "reduce": bool(reduce), "t_end": t_end},
        B_path=kept[0],
        A_path=kept[1],
        **facts.observe(Bs, As, left),
        **facts.fields(),
    )


def _solve(
    velocity: Callable[[float, Array], Array],
    start: Array,
    t_end: float,
    times: Array,
    events: list[Callable[[float, Array], float]],
    method: str,
    rtol: float,
    atol: float,
    progress: bool,
) -> Any:
    """Run the integrator; the state at its end is `end`, also where that is no time of a record."""
    from scipy.integrate import solve_ivp
    from tqdm import tqdm

    wanted = times if times[-1] == t_end else np.append(times, t_end)
    with (
        tqdm(total=t_end, desc="flow", unit="time", disable=not progress, bar_format=BAR) as bar,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")

        def shown(t: float, y: Array) -> Array:
            bar.update(max(0.0, min(t, t_end) - bar.n))
            return velocity(t, y)

        run = shown if progress else velocity
        solution = solve_ivp(
            run, (0.0, t_end), start, method, wanted, events=events or None, rtol=rtol, atol=atol
        )
    if solution.status < 0:
        detail = str(caught[-1].message) if caught else str(solution.message)
        warnings.warn(
            f"the flow stopped before t_end={t_end:g}: {detail}; raise smoothing, rtol or atol, or try "
            "another method",
            NumericalWarning,
            stacklevel=3,
        )
    solution.end = solution.y[:, -1] if len(solution.t) else start
    if len(wanted) > len(times):
        inside = solution.t <= times[-1]
        solution.t, solution.y = solution.t[inside], solution.y[:, inside]
    return solution


BAR = "{desc}: {percentage:3.0f}%|{bar}| {n:.3g}/{total:.3g} [{elapsed}<{remaining}]"


def _spectrum(B_shape: tuple[int, ...], A_shape: tuple[int, ...], k: int) -> Callable[[Array], Array]:
    """Singular values of BA as a function of the state; the last answer is kept, as all modes ask for it."""
    split, last = B_shape[0] * B_shape[1], {"y": np.empty(0), "s": np.empty(0)}

    def values(y: Array) -> Array:
        if not np.array_equal(last["y"], y):
            last["y"] = y.copy()
            last["s"] = product_svd(y[:split].reshape(B_shape), y[split:].reshape(A_shape), k)[1]
        return last["s"]

    return values


def _event(spectrum: Callable[[Array], Array], mode: int, level: float) -> Callable[[float, Array], float]:
    def above(t: float, y: Array) -> float:
        return float(spectrum(y)[mode] - level)

    above.direction = 1.0  # type: ignore[attr-defined]
    return above


def _smoothing(kind: str, smoothing: float | None) -> float:
    if kind == "gradient":
        return 0.0
    beta = 0.0 if smoothing is None else not_negative("smoothing", smoothing)
    if not beta:
        raise ValueError(
            "the flow is discontinuous at smoothing=0; use ideal_arrival_time or simulate_descent, "
            f"got smoothing={smoothing}"
        )
    return beta


def _times(t_eval: ArrayLike | None, t_end: float) -> Array:
    if t_eval is None:
        return np.linspace(0.0, t_end, RECORDS)
    times = finite_array("t_eval", t_eval, 1)
    integer("the number of times in t_eval", len(times), 1)
    if times[0] < 0 or times[-1] > t_end or (np.diff(times) <= 0).any():
        raise ValueError(
            f"t_eval must ascend within [0, t_end={t_end:g}], got {times[0]:g} ... {times[-1]:g}; sort it, "
            "drop repeats, or raise t_end"
        )
    return times
