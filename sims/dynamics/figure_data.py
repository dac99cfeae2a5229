"""Numbers that figures and tests share: areas by quality and by speed, and counts of random starts."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, one_of
from porism.sims.dynamics.worlds import count_low
from porism.theory.dynamics import DelegationModel

__all__ = ["areas", "counted", "rest_curve"]

Floats = NDArray[np.float64]


def areas(model: DelegationModel, name: str, values: ArrayLike) -> Floats:
    """Area of low skill as one parameter of a model changes.

    Parameters
    ----------
    model : DelegationModel
        The others.
    name : {"learn", "forget", "speed", "quality", "gain"}
        Which one.
    values : array_like, shape (n,)
        Its values.

    Returns
    -------
    float64 array, shape (n,)
        Areas.

    Raises
    ------
    ValueError
        If there is no such parameter, or a value is out of range.

    Examples
    --------
    >>> areas(DelegationModel(1, 0.6, 1, 0.5), "quality", [0.5, 0.7]).round(4).tolist()
    [0.3765, 0.6273]
    """
    one_of("name", name, ("learn", "forget", "speed", "quality", "gain"))
    given: Any = [{name: float(x)} for x in finite_array("values", values, 1)]
    changed = [dataclasses.replace(model, **change) for change in given]
    return np.array([each.low_skill_area() for each in changed])


def counted(
    models: Sequence[DelegationModel], n: int, rng: np.random.Generator | int | None = None
) -> tuple[Floats, Floats]:
    """Share of random starts that end with low skill, by running each.

    Parameters
    ----------
    models : sequence of DelegationModel
        Worlds.
    n : int
        Starts in each, >= 1.
    rng : Generator, int or None
        Source of the starts.

    Returns
    -------
    (float64 array, float64 array)
        Shares and their standard errors, one a model.

    Raises
    ------
    ValueError
        If n is below 1.

    Examples
    --------
    >>> share, error = counted([DelegationModel(1, 0.6, 1, 0.7)], 200, 0)
    >>> bool(abs(share[0] - 0.627) < 4 * error[0])
    True
    """
    rng = generator(rng)
    share = []
    for model in models:
        rates = model.learn, model.forget, model.speed
        end = 80.0 / min(rates)
        starts = rng.uniform(size=(2, integer("n", n, 1)))
        low, total = count_low(model, starts, end, int(end * max(rates) / 0.4) + 1)
        share.append(low / total)
    shares = np.array(share)
    return shares, np.sqrt(np.maximum(shares * (1 - shares), 1e-12) / n)


def rest_curve(model: DelegationModel, s: ArrayLike) -> Floats:
    """Quality at which law B rests at skill s.

    ``q(s) = s + log(a (1-s) / (b s)) / gamma``.

    Parameters
    ----------
    model : DelegationModel
        Under the logistic law; its quality is not used.
    s : array_like
        Skill, in (0, 1).

    Returns
    -------
    float64 array, shape of s
        Qualities.

    Raises
    ------
    ValueError
        If the model has no gain, or a skill is not in (0, 1).

    Examples
    --------
    >>> float(rest_curve(DelegationModel(1, 1, 1, 0.5, law="logistic", gain=8), 0.5))
    0.5
    """
    skill = finite_array("s", s)
    if model.gain is None:
        raise ValueError("model must be one of law='logistic', got law='replicator'; give it a gain")
    if not ((skill > 0) & (skill < 1)).all():
        raise ValueError(f"s must be in (0, 1), got {skill.min():.6g} to {skill.max():.6g}; drop the ends")
    return np.asarray(
        skill + (np.log(model.learn / model.forget) + np.log1p(-skill) - np.log(skill)) / model.gain
    )
