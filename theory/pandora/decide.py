"""Certificates: decisions to refine or not that hold for every parameter inside given intervals."""

from typing import Any

import numpy as np

from porism.theory.pandora._gain import halfwidth
from porism.theory.pandora._inputs import check_cost, check_nu, check_shapes, to_numpy

__all__ = ["certify_decision"]


def certify_decision(gap_interval: Any, nu_interval: Any, cost_interval: Any) -> Any:
    """Decide for all parameters inside a box at once whether one refinement is worth its cost.

    With ``[d_lo, d_hi]`` the interval of |gap| and w(nu, c) the band's half-width: "refine" iff
    ``d_hi < w(nu_lo, c_hi)``, that is ``nu_lo psi(d_hi/nu_lo) > c_hi``; "stop" iff
    ``d_lo >= w(nu_hi, c_lo)``, that is ``nu_hi psi(d_lo/nu_hi) <= c_lo``; else "undecided".

    Parameters
    ----------
    gap_interval : pair of float or array_like
        Lower and upper end of ``m_i - b_{-i}``, signed; folded to the absolute value, so that ends of
        opposite sign give d_lo = 0. The gap is infinite where there is no alternative.
    nu_interval : pair of float or array_like
        Ends of the refined mean's standard deviation, >= 0 and finite.
    cost_interval : pair of float or array_like
        Ends of the cost in the units of the gap, >= 0.

    Returns
    -------
    str or ndarray of str
        "refine", "stop" or "undecided"; a plain str if all ends are scalars, else the broadcast shape.

    Raises
    ------
    ValueError
        If an interval is no pair, has its ends exchanged, is out of range, or the shapes do not fit.

    Notes
    -----
    Exact for the box, not only sufficient: the gain rises with nu and falls with |gap|, and the net gain
    falls with the cost (PB-2), so that its extremes lie in corners. Valid for one refinement before
    stopping; a wrong decision of that kind loses |Delta| at the true parameters. Ends of a box that touch
    the band's edge within rounding (1e-14 nu) may fall either way.

    References
    ----------
    PB-13 of the module's specification.

    Examples
    --------
    >>> certify_decision((0.2, 0.3), (0.45, 0.55), (0.01, 0.02))
    'refine'
    >>> certify_decision((-0.1, [0.1, 9.0]), (0.4, 0.6), (0.02, 0.3))
    array(['undecided', 'undecided'], dtype='<U9')
    """
    ends = [
        *_pair("gap_interval", gap_interval),
        *_pair("nu_interval", nu_interval),
        *_pair("cost_interval", cost_interval),
    ]
    held = {name: to_numpy(name, value) for name, value in ends}
    check_shapes(**held)
    low, high, nu_low, nu_high, c_low, c_high = held.values()
    for gap, nu, cost in ((low, nu_low, c_low), (high, nu_high, c_high)):
        if np.isnan(gap).any():
            raise ValueError("gap_interval must not be NaN; give (-inf, inf) where nothing is known")
        check_nu(nu)
        check_cost(cost)
    for name, below, above in (("gap", low, high), ("nu", nu_low, nu_high), ("cost", c_low, c_high)):
        if (below > above).any():
            raise ValueError(f"the lower end of {name}_interval must not exceed the upper; exchange them")
    near = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(abs(low), abs(high)))
    far = np.maximum(abs(low), abs(high))
    refine = far < halfwidth(np, *np.broadcast_arrays(nu_low, c_high))
    stop = near >= halfwidth(np, *np.broadcast_arrays(nu_high, c_low))
    word = np.where(refine & ~stop, "refine", np.where(stop & ~refine, "stop", "undecided"))
    return str(word) if all(np.ndim(value) == 0 for _, value in ends) else word


def _pair(name: str, interval: Any) -> list[tuple[str, Any]]:
    try:
        low, high = interval
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a pair (low, high); give a number x as (x, x)") from None
    return [(f"low end of {name}", low), (f"high end of {name}", high)]
