"""Trainers of a policy on ``J(pi) = E r - beta KL(pi || pi0)`` with exact gradients."""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, positive
from porism.results import Result
from porism.theory.policies import SoftmaxPolicy, tilt

__all__ = ["TrainingRun", "mirror_descent", "policy_gradient"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingRun(Result):
    """A policy in training, and its distance from the optimum.

    Parameters
    ----------
    log_policy : float64 array, shape (V,)
        Log-probabilities at the end.
    steps : int64 array, shape (n,)
        Steps at which the distance was taken, the last one included.
    kl : float64 array, shape (n,)
        Divergence of the policy from the optimum at those steps, nats.

    Examples
    --------
    >>> run = mirror_descent(np.log([0.5, 0.5]), [1.0, 0.0], 1.0, steps=300)
    >>> bool(run.kl[-1] < 1e-12)
    True
    """

    log_policy: Floats
    steps: NDArray[np.int64]
    kl: Floats


def mirror_descent(
    log_ref: ArrayLike, reward: ArrayLike, beta: float, steps: int = 500, rate: float = 0.07, marks: int = 0
) -> TrainingRun:
    """Multiplicative updates with the exact gradient of J.

    ``log pi += (rate / beta) (r - beta (log pi - log pi0))``, normalised; log-ratio errors shrink by
    ``1 - rate`` a step.

    Parameters
    ----------
    log_ref : array_like, shape (V,)
        Log-probabilities of the reference, the start; finite.
    reward : array_like, shape (V,)
        Reward of every outcome.
    beta : float
        Temperature, > 0.
    steps : int, default 500
        Steps, >= 1.
    rate : float, default 0.07
        Size of a step, in (0, 1]; 1 is the tilt itself, which needs the reward of every outcome.
    marks : int, default 0
        How many distances to take on the way, at steps spaced evenly in the logarithm; each costs a step.

    Returns
    -------
    TrainingRun
        The policy and its distances.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Cost O(V) a step.

    References
    ----------
    Mirror descent with the entropy as mirror map.

    Examples
    --------
    >>> float(mirror_descent(np.log([0.5, 0.5]), [1.0, 0.0], 1.0, steps=1, rate=1.0).kl[-1]) < 1e-30
    True
    """
    size = positive("rate", rate)
    if size > 1:
        raise ValueError(f"rate must be in (0, 1], got {size}; 1 reaches the optimum at once")
    ref, r, optimum, at = _task(log_ref, reward, beta, steps, marks)
    scaled = r / beta
    pi, taken = ref.copy(), []
    for step in range(1, steps + 1):
        pi = pi + size * (scaled - (pi - ref))
        top = pi.max()
        pi -= top + np.log(np.exp(pi - top).sum())
        if step in at:
            taken.append(SoftmaxPolicy(pi).kl(optimum))
    return TrainingRun(pi, np.array(sorted(at)), np.array(taken))


def policy_gradient(
    log_ref: ArrayLike,
    reward: ArrayLike,
    beta: float,
    steps: int = 20_000,
    lr: float | None = None,
    marks: int = 0,
) -> TrainingRun:
    """Gradient ascent on J in the logits.

    ``theta_j += lr pi_j (A_j - E A)`` with ``A = r - beta (log pi - log pi0)``.

    Parameters
    ----------
    log_ref : array_like, shape (V,)
        Log-probabilities of the reference, the start; finite.
    reward : array_like, shape (V,)
        Reward of every outcome.
    beta : float
        Temperature, > 0.
    steps : int, default 20000
        Steps, >= 1.
    lr : float, optional
        Step, > 0; ``1 / (beta max pi)`` at the optimum by default, half the largest stable one there.
    marks : int, default 0
        As for `mirror_descent`.

    Returns
    -------
    TrainingRun
        The policy and its distances.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    An outcome of probability p converges at the rate ``lr beta p``: rare ones come last. Cost O(V) a step.

    References
    ----------
    REINFORCE with its expectation taken exactly.

    Examples
    --------
    >>> bool(policy_gradient(np.log([0.5, 0.5]), [1.0, 0.0], 1.0, steps=200).kl[-1] < 1e-12)
    True
    """
    ref, r, optimum, at = _task(log_ref, reward, beta, steps, marks)
    most = float(np.exp(max(optimum.log_prob.max(), ref.max())))
    rate = positive("lr", 1 / (beta * most) if lr is None else lr)
    theta, taken = ref.copy(), []
    for step in range(1, steps + 1):
        top = theta.max()
        p = np.exp(theta - top)
        total = p.sum()
        p /= total
        A = r - beta * (theta - top - np.log(total) - ref)
        theta += rate * p * (A - p @ A)
        if step in at:
            taken.append(SoftmaxPolicy(theta).kl(optimum))
    return TrainingRun(SoftmaxPolicy(theta).log_prob, np.array(sorted(at)), np.array(taken))


def _task(
    log_ref: ArrayLike, reward: ArrayLike, beta: float, steps: int, marks: int
) -> tuple[Floats, Floats, SoftmaxPolicy, set[int]]:
    """Reference, reward, optimum, and the steps at which to take a distance."""
    ref, r = finite_array("log_ref", log_ref, 1), finite_array("reward", reward, 1)
    optimum = SoftmaxPolicy(tilt(ref, r, positive("beta", beta)))
    last, count = integer("steps", steps, 1), integer("marks", marks, 0)
    return ref, r, optimum, {last} | {round(float(step)) for step in np.geomspace(1, last, count)}
