"""The numbers of a calibration report."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from porism.theory.pandora.bounds import voi_bounds
from porism.theory.pandora.report import CalibrationReport, Chosen
from porism.theory.pandora.value import voi

Floats = NDArray[np.float64]


def build(
    names: Sequence[str],
    scores: Floats,
    mask: NDArray[np.bool_],
    m: Floats,
    q: Floats,
    joint: Floats,
    nu_cov: Floats,
    flags: Sequence[str],
) -> CalibrationReport:
    """Assemble the report from cross-fitted estimates; joint holds estimates after the joint update."""
    lines = np.array([[_line(x[ok, k], scores[ok, k]) for k, ok in enumerate(mask.T)] for x in (q, m)])
    r = q - m
    spread = np.array([r[ok, k].std() for k, ok in enumerate(mask.T)])
    whole = mask.all(1)
    y = scores[whole]
    rules: tuple[Chosen, ...] = ()
    found = list(flags)
    correlation = _correlation(r[whole])
    if whole.any():
        base = y[np.arange(len(y)), m[whole].argmax(1)]
        pairs = (("cheap", m), ("exhaustive", q), ("exhaustive, joint", joint))
        rules = tuple(Chosen.judge(rule, estimates[whole], y, base) for rule, estimates in pairs)
        K = len(names)
        if K > 1 and np.abs(correlation[~np.eye(K, dtype=bool)]).mean() > 0.1:
            found.append("joint_needed")
        if rules[1].gain + 2 * rules[1].gain_se < 0:
            found.append("refine_harmful")
        if any(row.predicted - row.realised > 3 * row.gap_se for row in rules[:2]):
            found.append("optimistic")
    (slope, intercept), (slope_cheap, intercept_cheap) = lines.transpose(0, 2, 1)
    return CalibrationReport(
        tuple(names),
        int(whole.sum()),
        slope,
        intercept,
        slope_cheap,
        intercept_cheap,
        nu_cov,
        spread,
        correlation,
        rules,
        tuple(found),
    )


def above_cap(m: Floats, nu: Floats) -> int:
    """How many entries of (query, specialist) have a Gaussian gain above the cap of a value in {0, 1}."""
    if m.shape[1] < 2:
        return 0
    ordered = np.sort(m, axis=1)
    best = np.where(m == ordered[:, -1:], ordered[:, -2:-1], ordered[:, -1:])  # of the others
    inside = (m >= 0) & (m <= 1)
    p, b, spread = m[inside], best[inside], nu[inside]
    cap = voi_bounds(p - b, spread, p=p, b=b).binary_cap
    return int((voi(p - b, spread) > (1 + 1e-12) * cap).sum())  # both are sums of a few terms


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept of least squares; slope NaN for a constant."""
    if len(x) < 2 or np.ptp(x) == 0:
        return math.nan, math.nan
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
    return slope, float(y.mean() - slope * x.mean())


def _correlation(r: Floats) -> Floats:
    """Correlation of columns, 0 beside one that is constant but for rounding."""
    centred = r - r.mean(0) if len(r) else r
    norm, size = (np.sqrt((x**2).sum(0)) for x in (centred, r))
    unit = np.divide(centred, norm, out=np.zeros_like(r), where=norm > 1e-12 * size)
    out: Floats = unit.T @ unit
    np.fill_diagonal(out, 1.0)
    return out
