"""Several levels of refinement: how many draws of the expensive signal to buy at once."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from porism.checks import integer
from porism.theory.pandora._gain import one_step
from porism.theory.pandora._inputs import arrays, check_cost, check_finite, check_not_nan, to_numpy

__all__ = ["Draws", "best_draws", "pooled_sd"]


class Draws(NamedTuple):
    """How many draws to buy, and what that gains.

    Parameters
    ----------
    n : int or ndarray
        Number of draws, 0 where none is worth its cost.
    net : float or ndarray
        Gain less cost, >= 0.
    """

    n: Any
    net: Any


def pooled_sd(s: ArrayLike, tau: ArrayLike, n: ArrayLike) -> Any:
    """Standard deviation of the posterior mean before n pooled draws of the expensive signal.

    ``nu(n) = s / sqrt(1 + tau^2 / (n s^2))``, that of one signal with noise ``tau / sqrt(n)``.

    Parameters
    ----------
    s : float or array_like
        Standard deviation of the value, >= 0 and finite.
    tau : float or array_like
        Standard deviation of one draw's noise, >= 0; +inf for no signal.
    n : float or array_like
        Number of draws, >= 0; 0 gives nu = 0.

    Returns
    -------
    float or ndarray
        nu(n), of the broadcast shape, rising in n to s.

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes do not fit.

    Notes
    -----
    Draws are independent given the value. Systematic errors that all draws share do not average out: give
    them as part of s, not of tau.

    References
    ----------
    PB-16 of the module's specification.

    Examples
    --------
    >>> pooled_sd(1.0, 3.0, [0, 1, 9]).round(4)
    array([0.    , 0.3162, 0.7071])
    """
    (s_, tau_, n_), _, restore = arrays(s=s, tau=tau, n=n)
    for name, value in (("s", s_), ("tau", tau_), ("n", n_)):
        if not (value >= 0).all():
            raise ValueError(f"{name} must be >= 0; got {value[~(value >= 0)].flat[0]}")
    check_finite("s", s_)
    with np.errstate(all="ignore"):
        noise = np.where(n_ > 0, tau_ / np.sqrt(n_), np.inf)
        both = np.hypot(s_, noise)
        return restore(np.where(both > 0, s_ * (s_ / both), 0.0))


def best_draws(gap: ArrayLike, s: ArrayLike, tau: ArrayLike, cost: ArrayLike, max_draws: int = 16) -> Draws:
    """Choose the number of draws that gains most, bought together before one decision.

    ``argmax_n nu(n) psi(|gap|/nu(n)) - cost(n)`` over n = 0..max_draws, the smallest n among equals.

    Parameters
    ----------
    gap : float or array_like
        Mean less the best alternative, either sign, in quality units.
    s : float or array_like
        Standard deviation of the value, >= 0 and finite.
    tau : float or array_like
        Standard deviation of one draw's noise, >= 0.
    cost : float or array_like, shape (max_draws,)
        A number: cost of each draw. A vector: cost of 1, 2, ..., max_draws draws together. In the units
        of gap, >= 0.
    max_draws : int, default 16
        Largest number considered, >= 1.

    Returns
    -------
    Draws
        The pair (n, net), of the broadcast shape of gap, s and tau.

    Raises
    ------
    TypeError
        If max_draws is not an int.
    ValueError
        If an argument is out of range, or the shapes do not fit.

    Notes
    -----
    The gain is S-shaped in n for gap != 0, first convex, then concave: the first draw may not be worth its
    cost where ten together are, so that going on while the next draw pays stops too early. O(max_draws) an
    entry.

    References
    ----------
    PB-16 of the module's specification; R. Radner and J. Stiglitz (1984), A nonconcavity in the value of
    information.

    Examples
    --------
    >>> best_draws(1.5, 1.0, 3.0, 0.0004, max_draws=60).n
    25
    >>> best_draws(1.5, 1.0, 3.0, 0.0004, max_draws=3)  # the first three are not worth it
    Draws(n=0, net=0.0)
    """
    limit = integer("max_draws", max_draws, low=1)
    (gap_, s_, tau_), shape, restore = arrays(gap=gap, s=s, tau=tau)
    cost_ = to_numpy("cost", cost)
    if cost_.shape not in ((), (limit,)):
        raise ValueError(
            f"cost of shape {cost_.shape} does not fit max_draws={limit}; give one number, or {limit} of them"
        )
    check_cost(cost_)
    check_not_nan("gap", gap_)
    totals = np.concatenate([[0.0], cost_ if cost_.ndim else cost_ * np.arange(1, limit + 1)])
    counts = np.arange(limit + 1)
    nu = pooled_sd(s_[..., None], tau_[..., None], counts)
    nets = one_step(np, *np.broadcast_arrays(gap_[..., None], nu)) - totals
    n = np.argmax(nets, axis=-1)  # the first of equals
    net = np.take_along_axis(nets, n[..., None], -1)[..., 0]
    return Draws(restore(np.broadcast_to(n, shape)), restore(np.broadcast_to(net, shape)))
