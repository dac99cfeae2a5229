"""A bandit under group advantages: sampled runs, and the flow of their expected update."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, positive, probability
from porism.results import Result
from porism.theory.policies import SoftmaxPolicy, direction_scale, effective_number, outcome_weights

__all__ = ["BanditRun", "mean_field", "run_bandit"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class BanditRun(Result):
    """Progress and diversity of policies in training; row 0 is the start.

    Parameters
    ----------
    p_correct : float64 array, shape (T, R)
        Probability of a right arm after each step, for each run.
    effective_arms : float64 array, shape (T, R)
        Effective number of right arms.

    Examples
    --------
    >>> run = BanditRun(np.array([[0.2], [0.6]]), np.array([[3.0], [2.0]]))
    >>> run.at_level([0.4]).round(12).tolist()
    [[2.5]]
    """

    p_correct: Floats
    effective_arms: Floats

    def at_level(self, levels: ArrayLike) -> Floats:
        """Effective number of right arms where the probability first reaches a level.

        Parameters
        ----------
        levels : array_like, shape (L,)
            Probabilities, in [0, 1].

        Returns
        -------
        float64 array, shape (L, R)
            Interpolated within the step that crosses the level; NaN for runs that never reach it.
        """
        wanted = finite_array("levels", levels, 1)
        found = np.full((len(wanted), self.p_correct.shape[1]), np.nan)
        runs = np.arange(self.p_correct.shape[1])
        for row, level in enumerate(wanted):
            above = self.p_correct >= level
            at = above.argmax(axis=0)
            before = np.maximum(at - 1, 0)
            p, q = self.p_correct[before, runs], self.p_correct[at, runs]
            share = np.where(at > 0, (level - p) / np.where(q > p, q - p, 1.0), 0.0)
            low, high = self.effective_arms[before, runs], self.effective_arms[at, runs]
            found[row] = np.where(above.any(axis=0), low + share * (high - low), np.nan)
        return found


def run_bandit(
    n_arms: int,
    correct: Any,
    rule: str = "zscore",
    lr: float = 0.1,
    steps: int = 200,
    group_size: int = 8,
    n_runs: int = 64,
    rng: np.random.Generator | int | None = None,
    theta0: ArrayLike | None = None,
    until: float | None = None,
    **options: Any,
) -> BanditRun:
    """Train softmax policies over arms with sampled groups.

    ``theta += lr g`` with ``g = (1/G) sum_i A_i grad log pi(o_i)``.

    Parameters
    ----------
    n_arms : int
        Arms V, >= 2.
    correct : int or bool array_like
        Right arms: their indices, or a mask of shape (V,).
    rule : str, default "zscore"
        Rule of `group_advantages`; each run is a batch of one prompt.
    lr : float, default 0.1
        Step, > 0.
    steps : int, default 200
        Steps, >= 1.
    group_size : int, default 8
        Samples G a step, >= 2.
    n_runs : int, default 64
        Runs R from one start, >= 1.
    rng : Generator, int or None
        Source of samples, and of the start where none is given.
    theta0 : array_like, shape (V,), optional
        Logits of the start; standard normal by default.
    until : float, optional
        Stop once every run has had this probability of a right arm.
    **options
        As for `outcome_weights`: ``suppress``, ``ddof``, ...

    Returns
    -------
    BanditRun
        Arrays with ``steps + 1`` rows, or fewer with `until`.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Cost O(steps n_runs V G).

    References
    ----------
    A-GRAE (abstract); our own toy.

    Examples
    --------
    >>> run = run_bandit(6, [0, 1], steps=50, n_runs=3, rng=0)
    >>> run.p_correct.shape, bool((run.p_correct[-1] > run.p_correct[0]).all())
    ((51, 3), True)
    """
    rng = generator(rng)
    right = _mask(correct, integer("n_arms", n_arms, 2))
    runs, G = integer("n_runs", n_runs, 1), integer("group_size", group_size, 2)
    theta = np.tile(_start(theta0, n_arms, rng), (runs, 1))
    plus, minus = outcome_weights(G, rule, **options)
    rate = positive("lr", lr)
    p, number = np.empty((integer("steps", steps, 1) + 1, runs)), np.empty((steps + 1, runs))
    offsets = n_arms * np.arange(runs)[:, None]
    level = np.inf if until is None else probability("until", until)
    reached = np.zeros(runs, dtype=bool)
    for step in range(steps + 1):
        pi = np.exp(theta - theta.max(axis=1, keepdims=True))
        pi /= pi.sum(axis=1, keepdims=True)
        p[step], number[step] = pi[:, right].sum(axis=1), effective_number(pi, right)
        reached |= p[step] >= level
        if step == steps or reached.all():
            break
        below = np.cumsum(pi, axis=1)[:, None, :-1] < rng.random((runs, G, 1))
        actions = below.sum(axis=2)
        hit = right[actions]
        k = hit.sum(axis=1, keepdims=True)
        A = np.where(hit, plus[k], minus[k]) / G
        g = np.bincount((actions + offsets).ravel(), A.ravel(), runs * n_arms).reshape(runs, n_arms)
        theta += rate * (g - pi * A.sum(axis=1, keepdims=True))
    return BanditRun(p[: step + 1], number[: step + 1])


def mean_field(
    theta0: ArrayLike,
    correct: Any,
    rule: Any = "zscore",
    lr: float = 0.1,
    steps: int = 200,
    group_size: int = 8,
    **options: Any,
) -> BanditRun:
    """Follow the expected update in place of samples.

    ``theta += lr s(p) grad p``: its path in the space of policies is the same for every rule with s > 0, but
    for the size of its steps.

    Parameters
    ----------
    theta0 : array_like, shape (V,)
        Logits of the start.
    correct : int or bool array_like
        Right arms: indices, or a mask of shape (V,).
    rule : str or pair of array_likes, default "zscore"
        As for `direction_scale`.
    lr : float, default 0.1
        Step, > 0.
    steps : int, default 200
        Steps, >= 1.
    group_size : int, default 8
        Samples G, >= 1.
    **options
        As for `direction_scale`.

    Returns
    -------
    BanditRun
        One run, ``steps + 1`` rows.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Our derivation, from the direction law (AG-5).

    Examples
    --------
    >>> mean_field([0.0, 0.0, 0.0], [0, 1], steps=5).effective_arms.round(12)[-1].tolist()
    [2.0]
    """
    theta = finite_array("theta0", theta0, 1).copy()
    right, rate = _mask(correct, len(theta)), positive("lr", lr)
    p, number = np.empty((integer("steps", steps, 1) + 1, 1)), np.empty((steps + 1, 1))
    for step in range(steps + 1):
        policy = SoftmaxPolicy(theta)
        pi = policy.probabilities
        p[step], number[step] = pi[right].sum(), effective_number(pi, right)
        if step < steps:
            scale = direction_scale(min(float(p[step, 0]), 1.0), group_size, rule, **options)
            theta += rate * float(scale) * pi * (right - p[step, 0])
    return BanditRun(p, number)


def _mask(correct: Any, n_arms: int) -> NDArray[np.bool_]:
    given = np.asarray(correct)
    if given.dtype.kind == "b":
        mask = given
    elif given.dtype.kind in "iu" and given.ndim == 1 and given.size and given.min() >= 0:
        mask = np.zeros(max(n_arms, int(given.max()) + 1), dtype=bool)
        mask[given] = True
    else:
        raise ValueError(f"correct must be indices >= 0 or a mask, got {given.dtype} of shape {given.shape}")
    if mask.shape != (n_arms,) or mask.all() or not mask.any():
        raise ValueError(
            f"correct must mark some but not all of {n_arms} arms, got {int(mask.sum())} of {mask.size}"
        )
    return mask


def _start(theta0: ArrayLike | None, n_arms: int, rng: np.random.Generator) -> Floats:
    if theta0 is None:
        return rng.normal(size=n_arms)
    theta = finite_array("theta0", theta0, 1)
    if len(theta) != n_arms:
        raise ValueError(f"theta0 must have one logit an arm, {n_arms}, got {len(theta)}")
    return theta
