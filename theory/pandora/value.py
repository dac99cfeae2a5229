"""Value of information: what one refinement gains where specialists are independent and Gaussian."""

import math
import warnings
from typing import Any

import numpy as np

from porism.theory.pandora._gain import best_other, gain_log, one_step
from porism.theory.pandora._inputs import (
    check_cost,
    check_finite,
    check_not_nan,
    check_nu,
    check_shapes,
    unify,
)

__all__ = ["log_voi", "voi", "voi_net"]


def voi(gap: Any, nu: Any) -> Any:
    """Expected gain of one refinement before its cost.

    ``nu psi(|gap|/nu) = E max(b, M) - max(b, m)`` for M ~ N(m, nu^2) and gap = m - b, b the best other
    alternative.

    Parameters
    ----------
    gap : float, array_like or torch.Tensor
        Mean less the best alternative, either sign; +-inf where there is no alternative.
    nu : float, array_like or torch.Tensor
        Standard deviation of the refined mean, >= 0 and finite.

    Returns
    -------
    float, ndarray or torch.Tensor
        Gain >= 0 of the broadcast shape, in quality units.

    Raises
    ------
    ValueError
        If gap is NaN, nu out of range, or the shapes do not fit.

    Notes
    -----
    Symmetric and falling in |gap|, rising in nu (PB-2). Underflows to 0 past ``|gap| = 38 nu``: decide by
    `inspection_halfwidth`, compare by `log_voi`.

    References
    ----------
    PB-4 of the module's specification; Frazier, Powell and Dayanik (2008), the knowledge gradient.

    Examples
    --------
    >>> print(f"{voi(0.3, 0.5):.12f} {voi(-0.3, 0.5):.12f}")
    0.084336366121 0.084336366121
    """
    xp, (gap, nu), restore = _gap_and_nu(gap, nu)
    return restore(one_step(xp, gap, nu))


def log_voi(gap: Any, nu: Any) -> Any:
    """Logarithm of `voi`, where the gain itself underflows.

    ``log nu + log psi(|gap|/nu)``.

    Parameters
    ----------
    gap : float, array_like or torch.Tensor
        Mean less the best alternative, either sign.
    nu : float, array_like or torch.Tensor
        Standard deviation of the refined mean, >= 0 and finite.

    Returns
    -------
    float, ndarray or torch.Tensor
        Logarithm of the broadcast shape; -inf for nu = 0 or an infinite gap.

    Raises
    ------
    ValueError
        If gap is NaN, nu out of range, or the shapes do not fit.

    References
    ----------
    PB-2 and PB-4 of the module's specification.

    Examples
    --------
    >>> print(f"{log_voi(5, 0.1):.9f} {voi(5, 0.1)}")
    -1261.046767961 0.0
    """
    xp, (gap, nu), restore = _gap_and_nu(gap, nu)
    with np.errstate(all="ignore"):
        safe = xp.where(nu > 0, nu, xp.ones_like(nu))
        value = gain_log(xp, xp.abs(gap) / safe) + xp.log(safe)
        return restore(xp.where(nu > 0, value, xp.full_like(value, -math.inf)))


def voi_net(m: Any, nu: Any, c: Any, outside: Any = -math.inf) -> Any:
    """Gain of refining each specialist once and then stopping, less its cost.

    ``Delta_i = nu_i psi(|m_i - b_{-i}|/nu_i) - c_i`` with b_{-i} the best mean among the others and the
    outside option.

    Parameters
    ----------
    m : array_like or torch.Tensor, shape (..., K)
        Means of the net values, finite.
    nu : array_like or torch.Tensor, shape (K,) or (..., K)
        Standard deviations of the refined means, >= 0 and finite.
    c : array_like or torch.Tensor, shape (K,) or (..., K)
        Costs of refining in the units of m, >= 0.
    outside : float, array_like or torch.Tensor, shape (...), default -inf
        Value of choosing no specialist; -inf where one must be chosen.

    Returns
    -------
    ndarray or torch.Tensor, shape (..., K)
        Delta. Positive exactly inside the inspection band, up to rounding: decide by the band.

    Raises
    ------
    ValueError
        If there is no specialist, an argument is out of range, or the shapes do not fit.

    Warns
    -----
    UserWarning
        If there is one specialist and no outside option.

    Notes
    -----
    O(K) a query. Independent specialists; see `voi_correlated` for others. For one specialist and an outside
    option, refining iff Delta > 0 is optimal, worth ``max(m, o) + max(Delta, 0)``; for more it may stop too
    early and lose all of the attainable gain (PB-8).

    References
    ----------
    PB-4 and PB-8 of the module's specification; Frazier, Powell and Dayanik (2008).

    Examples
    --------
    >>> voi_net([0.3, 0.1, -0.2], 0.5, 0.05).round(4)
    array([ 0.0652,  0.0652, -0.0083])
    """
    xp, (m, nu, c, outside), restore = unify(m=m, nu=nu, c=c, outside=outside)
    if m.ndim == 0 or m.shape[-1] == 0:
        raise ValueError("need at least 1 specialist on the last axis of m; pass a list of means")
    check_finite("m", m)
    check_nu(nu)
    check_cost(c)
    check_not_nan("outside", outside)
    shape = check_shapes(m=m, nu=nu, c=c)
    check_shapes(m=m[..., 0], outside=outside)
    if shape[-1] != m.shape[-1]:
        raise ValueError(
            f"nu of shape {tuple(nu.shape)} and c of shape {tuple(c.shape)} must fit the {m.shape[-1]} "
            "specialists of m; give one entry a specialist"
        )
    if m.shape[-1] == 1 and bool((outside == -math.inf).all()):
        warnings.warn("one specialist: refinement cannot change the choice", UserWarning, stacklevel=2)
    return restore(one_step(xp, m - best_other(xp, m, outside), nu) - c)


def _gap_and_nu(gap: Any, nu: Any) -> tuple[Any, list[Any], Any]:
    xp, (gap, nu), restore = unify(gap=gap, nu=nu)
    check_shapes(gap=gap, nu=nu)
    check_not_nan("gap", gap)
    check_nu(nu)
    return xp, [gap, nu], restore
