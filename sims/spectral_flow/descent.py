"""Steps of an optimiser on a matrix factorization: spectral descent, its cheap versions, and peers."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import integer, not_negative, one_of, positive, probability
from porism.errors import NumericalWarning
from porism.sims.spectral_flow._model import check_problem, gradients, losses, product_svd
from porism.sims.spectral_flow._optimizers import OPTIMIZERS, make_step
from porism.sims.spectral_flow._record import Target
from porism.sims.spectral_flow.trajectory import FlowTrajectory

__all__ = ["OPTIMIZERS", "simulate_descent"]

Array = NDArray[np.float64]


def simulate_descent(
    Y: ArrayLike,
    B0: ArrayLike,
    A0: ArrayLike,
    *,
    optimizer: str = "spectral",
    lr: float | Callable[[int], float],
    steps: int,
    record_every: int = 1,
    ridge: float = 0.0,
    fraction: float = 0.99,
    keep_factors: bool = False,
    progress: bool = False,
    **kw: Any,
) -> FlowTrajectory:
    """Take steps down ``L = 1/2 ||Y - BA||^2 + ridge/2 (||A||^2 + ||B||^2)``, both factors at once.

    ``X <- X - lr_k D(G_X)`` with the gradients of `simulate_flow`; D is the polar factor ("spectral"), five
    steps of an odd polynomial ("newton_schulz": the usual quintic, "polar_express"), the identity ("gd"), or
    what torch does ("adam", "muon").

    Parameters
    ----------
    Y : array_like, shape (m, n)
        Target.
    B0, A0 : array_like, shapes (m, r) and (r, n)
        Factors at the start.
    optimizer : {"spectral", "newton_schulz", "polar_express", "gd", "adam", "muon"}
        Rule of the step.
    lr : float or callable ``int -> float``
        Step size, > 0, or the step size of step k = 0, 1, ..., >= 0.
    steps : int
        Number of steps, >= 1.
    record_every : int, default 1
        Steps between records, >= 1; the start and the last step are always recorded.
    ridge : float, default 0
        Weight of the squared norms, >= 0.
    fraction : float, default 0.99
        Mode i arrives at ``fraction (sigma_i - ridge)``; in (0, 1].
    keep_factors : bool, default False
        Whether to keep the factors at each record, ``8 T (m + n) r`` bytes.
    progress : bool, default False
        Whether to show a bar.
    **kw
        For :func:`porism.kernels.polar.polar_factor` ("spectral", such as `smoothing`), for
        :func:`porism.kernels.polar.newton_schulz` (both polynomials), or for the optimiser of torch; "gd"
        takes none. The weight decay of "muon" is 0 here, not 0.1.

    Returns
    -------
    FlowTrajectory
        Time is the sum of the step sizes. Arrivals are looked for after every step, also where it is not
        recorded. `status` is -1, and the records end early, where a gradient is not finite.

    Raises
    ------
    ImportError
        If torch is missing or too old for the optimiser.
    TypeError
        If an argument has the wrong type or the optimiser does not know it.
    ValueError
        If the shapes do not fit or a value is out of range.

    Warns
    -----
    NumericalWarning
        If the descent diverged.

    Notes
    -----
    From ``B0 = 0`` the gradient of A is exactly zero: the first step moves B alone. After arrival a constant
    step of the polar factor cycles with period 2, at a distance of up to ``lr (|a| + |b|) + lr^2`` from
    sigma; a decaying one converges. In float64 throughout, but torch's Muon rounds its update to bfloat16.

    References
    ----------
    arXiv 2602.06385 (statements reconstructed); arXiv 2505.16932 for the coefficients of Polar Express.

    Examples
    --------
    >>> from porism.sims.spectral_flow import lora_init
    >>> Y, start = np.diag([4.0, 1.0]), lora_init(2, 2, 2, 1e-3, seed=0)
    >>> run = simulate_descent(Y, *start, optimizer="gd", lr=0.05, steps=400)
    >>> run.arrival_order, bool(run.loss[-1] < 1e-12)
    (((0,), (1,)), True)
    """
    target, B, A = check_problem(Y, B0, A0)
    one_of("optimizer", optimizer, OPTIMIZERS)
    steps, every = integer("steps", steps, 1), integer("record_every", record_every, 1)
    ridge = not_negative("ridge", ridge)
    fraction = probability("fraction", positive("fraction", fraction))
    rate = lr if callable(lr) else positive("lr", lr)
    B, A = B.copy(), A.copy()
    move = make_step(optimizer, B, A, dict(kw))
    facts = Target.of(target, B.shape[1], ridge, fraction)
    log = _Log(facts, target, ridge, keep_factors)
    if not log.record(0.0, B, A):
        raise ValueError("the loss must be finite at the start, got an overflow; scale Y, B0 and A0 down")
    arrivals = _Arrivals(facts.levels, log.last_spectrum)
    time, done, status, message = 0.0, 0, 0, f"took all {steps} steps"
    from tqdm import tqdm

    with np.errstate(over="ignore", invalid="ignore"):
        for k in tqdm(range(steps), desc=optimizer, unit="step", disable=not progress):
            GB, GA = gradients(target, B, A, ridge)
            if not (np.isfinite(GB).all() and np.isfinite(GA).all()):
                status, message = -1, f"a gradient was not finite at step {k}"
                break
            size = rate if isinstance(rate, float) else not_negative(f"lr({k})", rate(k))
            move(GB, GA, size)
            before, time, done = time, time + size, k + 1
            recorded = done % every == 0 or done == steps
            if not (np.isfinite(B).all() and np.isfinite(A).all()):
                status, message = -1, f"the factors were not finite after step {k}"
                break
            if recorded and not log.record(time, B, A):
                status, message = -1, f"the loss was not finite after step {k}"
                break
            if arrivals.open:
                arrivals.look(
                    done,
                    before,
                    time,
                    log.last_spectrum if recorded else product_svd(B, A, len(facts.sigma))[1],
                )
    if status:
        warnings.warn(
            f"{optimizer} diverged: {message}; lower lr={lr if callable(lr) else rate}",
            NumericalWarning,
            stacklevel=2,
        )
    options: dict[str, Any] = {
        key: value if isinstance(value, bool | int | float | str) else str(value) for key, value in kw.items()
    }
    options |= {"lr": "callable" if callable(lr) else rate, "steps": steps, "record_every": every}
    return FlowTrajectory(
        arrival_times=arrivals.times,
        arrival_steps=arrivals.steps,
        B=B,
        A=A,
        nfev=done,
        status=status,
        message=message,
        kind=optimizer,
        smoothing=float(kw.get("smoothing", 0.0)) if optimizer == "spectral" else 0.0,
        ridge=ridge,
        fraction=fraction,
        options=options,
        **log.fields(),
        **facts.fields(),
    )


class _Log:
    """Records of a run."""

    def __init__(self, facts: Target, Y: Array, ridge: float, keep: bool) -> None:
        self.facts, self.Y, self.ridge, self.keep = facts, Y, ridge, keep
        self.rows: list[dict[str, Any]] = []

    def record(self, t: float, B: Array, A: Array) -> bool:
        """Add a record, unless the loss is beyond the range of numbers; say whether it was added."""
        loss = losses(self.Y, B, A, self.ridge)
        if not np.isfinite(loss):
            return False
        row = self.facts.observe(B, A) | {"t": t, "loss": loss}
        if self.keep:
            row |= {"B_path": B.copy(), "A_path": A.copy()}
        self.rows.append(row)
        return True

    @property
    def last_spectrum(self) -> Array:
        return self.rows[-1]["singular_values"]

    def fields(self) -> dict[str, Any]:
        return {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}


class _Arrivals:
    """First passage of each mode through its level, looked for after every step."""

    def __init__(self, levels: Array, spectrum: Array) -> None:
        self.levels, self.last = levels, spectrum
        self.times = np.where(spectrum >= levels, 0.0, np.nan)
        self.steps = np.where(spectrum >= levels, 0, -1)
        self.open = bool((np.isfinite(levels) & (self.steps < 0)).any())

    def look(self, step: int, before: float, now: float, spectrum: Array) -> None:
        new = (self.steps < 0) & (spectrum >= self.levels)
        if new.any():
            share = (self.levels[new] - self.last[new]) / (spectrum[new] - self.last[new])
            self.times[new], self.steps[new] = before + share * (now - before), step
            self.open = bool((np.isfinite(self.levels) & (self.steps < 0)).any())
        self.last = spectrum
