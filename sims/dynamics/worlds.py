"""Many people with an AI at once, by plain steps of Runge and Kutta: to hold the exact results against."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, one_of, positive
from porism.theory.dynamics import LAWS, DelegationModel

__all__ = ["asymmetric_ends", "count_low", "draw_models", "runge_kutta", "vector_field"]

Floats = NDArray[np.float64]
Field = Callable[[Floats], Floats]


def vector_field(
    learn: ArrayLike,
    forget: ArrayLike,
    speed: ArrayLike,
    quality: ArrayLike,
    gain: ArrayLike | None = None,
    down: ArrayLike | None = None,
    sign: float = 1.0,
) -> Field:
    """Vector field of skill and delegation for many people, each with rates of their own.

    ``ds/dt = a (1-d)(1-s) - b d s``; ``dd/dt = k d (1-d)(q-s)``, or ``k (sigmoid(gamma (q-s)) - d)`` with a
    gain.

    Parameters
    ----------
    learn, forget, speed, quality : array_like, shape (n,) or ()
        Rates a, b, k, and quality q.
    gain : array_like, optional
        Steepness gamma of law B.
    down : array_like, optional
        Speed at which trust falls, where it differs from the speed at which it rises.
    sign : float, default 1.0
        -1 makes delegation rise with skill: a control.

    Returns
    -------
    callable
        From states (2, n), skill and delegation, to their rates of change.

    Examples
    --------
    >>> vector_field(1.0, 0.6, 1.0, 0.7)(np.array([[0.5], [0.5]])).round(3).tolist()
    [[0.1], [0.05]]
    """
    a, b, k, q = (np.asarray(value, float) for value in (learn, forget, speed, quality))
    gamma, slow = (None if value is None else np.asarray(value, float) for value in (gain, down))

    def velocity(state: Floats) -> Floats:
        s, d = state
        ahead = sign * (q - s)
        rate = k if slow is None else np.where(ahead > 0, k, slow)
        trust = d * (1 - d) * ahead if gamma is None else 1 / (1 + np.exp(-gamma * ahead)) - d
        return np.stack([a * (1 - d) * (1 - s) - b * d * s, rate * trust])

    return velocity


def runge_kutta(velocity: Field, start: ArrayLike, end: float, steps: int, keep: int = 0) -> Floats:
    """Integrate with the classical method of fourth order.

    Parameters
    ----------
    velocity : callable
        From states (2, n) to rates (2, n).
    start : array_like, shape (2, n)
        States at time 0.
    end : float
        Last time, > 0.
    steps : int
        Equal steps, >= 1.
    keep : int, default 0
        0 returns the last state only, else every `keep`-th one.

    Returns
    -------
    float64 array, shape (2, n), or (m, 2, n) with `keep`
        States, the first one included.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> float(runge_kutta(lambda y: -y, [[1.0], [2.0]], 1.0, 100)[0, 0].round(8))
    0.36787944
    """
    y = finite_array("start", start, 2).copy()
    h = positive("end", end) / integer("steps", steps, 1)
    kept = [y]
    for step in range(1, steps + 1):
        first = velocity(y)
        second = velocity(y + h / 2 * first)
        third = velocity(y + h / 2 * second)
        y = y + h / 6 * (first + 2 * second + 2 * third + velocity(y + h * third))
        if keep and step % keep == 0:
            kept.append(y)
    return np.stack(kept) if keep else y


def draw_models(
    n: int, rng: np.random.Generator | int | None = None, law: str = "replicator"
) -> list[DelegationModel]:
    """Draw models with two basins: rates within [0.5, 2], quality within [0.25, 0.75], gain within [6, 20].

    Parameters
    ----------
    n : int
        How many, >= 1.
    rng : Generator, int or None
        Source of random numbers.
    law : {"replicator", "logistic"}
        Law of delegation; under the second, quality is drawn from the middle half of the window.

    Returns
    -------
    list of DelegationModel
        Length n.

    Raises
    ------
    ValueError
        If n is below 1 or the law unknown.

    Examples
    --------
    >>> len(draw_models(3, 0))
    3
    """
    rng, found = generator(rng), []
    one_of("law", law, LAWS)
    for _ in range(integer("n", n, 1)):
        a, b, k = 2.0 ** rng.uniform(-1, 1, 3)
        q, gamma, place = rng.uniform(0.25, 0.75), rng.uniform(6.0, 20.0), rng.uniform(0.25, 0.75)
        if law == "logistic":
            window = DelegationModel(a, b, k, 0.5, law, gamma).bistable_window()
            assert window is not None
            found.append(DelegationModel(a, b, k, window[0] + place * (window[1] - window[0]), law, gamma))
        else:
            found.append(DelegationModel(a, b, k, q))
    return found


def count_low(
    model: DelegationModel, starts: ArrayLike, end: float = 60.0, steps: int = 3000
) -> tuple[int, int]:
    """Count starts that end with low skill, by running each: the script that one writes first.

    Parameters
    ----------
    model : DelegationModel
        The model.
    starts : array_like, shape (2, n)
        Skill and delegation.
    end : float, default 60
        Time.
    steps : int, default 3000
        Steps of Runge and Kutta.

    Returns
    -------
    (int, int)
        How many have a skill below one half at the end, and how many starts there are.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> count_low(DelegationModel(1, 0.6, 1, 0.7), [[0.45, 0.3], [0.5, 0.2]], steps=600)
    (1, 2)
    """
    field = vector_field(model.learn, model.forget, model.speed, model.quality, model.gain)
    last = runge_kutta(field, starts, end, steps)
    return int((last[0] < 0.5).sum()), int(last.shape[1])


def asymmetric_ends(
    model: DelegationModel,
    up: float,
    down: float,
    starts: ArrayLike,
    end: float = 200.0,
    steps: int = 4000,
) -> Floats:
    """Where people end whose trust rises at one speed and falls at another (SD-11), under law A.

    ``dd/dt = k d (1-d)(q-s)`` with ``k = up`` where q > s and ``k = down`` where q < s.

    Parameters
    ----------
    model : DelegationModel
        Rates a, b and quality; its speed is not used.
    up, down : float
        Speeds, > 0.
    starts : array_like, shape (2, n)
        Skill and delegation.
    end : float, default 200
        Time.
    steps : int, default 4000
        Steps of Runge and Kutta.

    Returns
    -------
    float64 array, shape (2, n)
        Skill and delegation at the end.

    Raises
    ------
    ValueError
        If a number is out of range, or the model is one of law B.

    Examples
    --------
    >>> asymmetric_ends(DelegationModel(1, 0.6, 1, 0.6), 3, 1, [[0.5], [0.5]]).round(3).tolist()
    [[0.0], [1.0]]
    """
    if model.gain is not None:
        raise ValueError("model must be one of law='replicator', got law='logistic'; leave out its gain")
    up, down = positive("up", up), positive("down", down)
    field = vector_field(model.learn, model.forget, up, model.quality, down=down)
    return runge_kutta(field, starts, end, steps)
