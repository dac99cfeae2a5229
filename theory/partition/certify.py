"""The front door: certify that a decision holds for every utility of a class."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array, one_of, probability
from porism.theory.partition._certifier import Certifier
from porism.theory.partition.certificate import Certificate
from porism.theory.partition.classes import MonotoneClass, SmallCoalitions
from porism.theory.partition.decisions import Decision, Threshold
from porism.theory.partition.semivalue import Semivalue
from porism.theory.partition.table import UtilityTable

__all__ = ["certify_partition"]

INCREASING = MonotoneClass()


def certify_partition(
    table: UtilityTable,
    sv: Semivalue,
    decision: Decision,
    *,
    transforms: MonotoneClass = INCREASING,
    small: SmallCoalitions | None = None,
    missing: str = "raise",
    ties: str = "raise",
    strict: str = "increasing",
    target: str = "exact",
    delta: float = 0.05,
    epsilon: float = 0.0,
    estimator: str | NDArray[np.float64] = "auto",
    radii: Sequence[str] = ("slope", "score"),
    device: str = "cpu",
) -> Certificate:
    """Certify a decision drawn from semivalues against every utility of an admissible class.

    A decision is robust to all strictly increasing transforms of the score if and only if it holds in
    every level game 1[v >= s_l]: ``D_l(i, j) >= 0`` for each level and each pair across the boundary,
    where ``D_l(i, j) = Pr[v(S+i) >= s_l] - Pr[v(S+j) >= s_l]`` over S of mass q_{|S|+1}. All verdicts
    come from integers and rationals.

    Parameters
    ----------
    table : UtilityTable
        Scores of coalitions.
    sv : Semivalue
        Semivalue the decision is taken with.
    decision : TopK, OrderedPartition, Sign, Threshold or RelativeThreshold
        The decision.
    transforms : MonotoneClass
        Admissible transforms of the score.
    small : SmallCoalitions, optional
        What small coalitions may do besides.
    missing : {"raise", "range", "monotone"}
        What a coalition without a score may have scored: refuse, anything in the range of the scores
        present, or anything between its known subsets and supersets.
    ties : {"raise", "weak"}
        A tie across the boundary raises, or is certified weakly; TopK then fills up by smallest index.
    strict : {"increasing", "weakly-increasing"}
        Class for which ``strict`` is reported (the second is almost never true, PR-4b).
    target : {"exact", "estimate", "population"}
        Certify the table, the partition estimated from sampled rows, or the population behind them.
    delta : float in (0, 1)
        Error probability of a population verdict.
    epsilon : float >= 0
        Population only: tolerated level difference.
    estimator : {"auto", "msr", "permutation", "stratified"} or float64 array, shape (n, m)
        Estimate only: the linear estimator, by name or as a matrix over the sampled rows.
    radii : sequence of {"slope", "score"}
        Radii to report. The score radius costs O(2^n) a pair; the slope radius comes with the verdict.
    device : {"cpu", "cuda"}
        "cuda" sweeps a plain partition in two (TopK, or two blocks) on the GPU; if it is robust, that is
        all the sweeping there is. Everything else runs on the CPU; results are the same bit for bit.

    Returns
    -------
    Certificate
        Verdict, margins, radii, witness and assumptions.

    Raises
    ------
    MissingCoalitionsError, BoundaryTieError, DegenerateUtilityError, NotMonotoneError, TooManyPlayersError
        If the table does not admit the question; the message says the way out.
    ValueError, TypeError
        If an argument is out of its range.

    Warns
    -----
    NumericalWarning
        If two levels differ by less than 1e-12 of the range: rounding noise splits levels and can only
        cause a false "not_robust" (PR-21); pass ``MonotoneClass(decimals=...)``.

    Notes
    -----
    Time O(n 2^n + L k(n-k)) for L levels, memory about 24 * 2^n bytes. Assumes exact scores; for noisy
    scores see ``score_margin``.

    References
    ----------
    PR-1 to PR-21, reconstruction from the abstract of the partition-robustness paper; Lucchetti, Moretti
    & Patrone (ranking sets of interacting objects via semivalues) for the alignment criterion.

    Examples
    --------
    >>> from porism.theory.partition import TopK
    >>> t = UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 12])
    >>> c = certify_partition(t, Semivalue.shapley(), TopK(1))
    >>> c.verdict, c.level_margin, c.level, c.pair, round(c.slope_radius, 4)
    ('not_robust', Fraction(-1, 2), 10.0, (0, 1), 1.6667)
    """
    for name, value, kind in (
        ("table", table, UtilityTable),
        ("sv", sv, Semivalue),
        ("transforms", transforms, MonotoneClass),
        ("small", small, SmallCoalitions | None),
    ):
        if not isinstance(value, kind):
            wanted = getattr(kind, "__name__", "SmallCoalitions or None")
            raise TypeError(f"{name} must be a {wanted}, got {type(value).__name__}")
    one_of("missing", missing, ("raise", "range", "monotone"))
    one_of("ties", ties, ("raise", "weak"))
    one_of("strict", strict, ("increasing", "weakly-increasing"))
    one_of("target", target, ("exact", "estimate", "population"))
    one_of("device", device, ("cpu", "cuda"))
    radii = (radii,) if isinstance(radii, str) else tuple(radii)
    for radius in radii:
        one_of("radii", radius, ("slope", "score"))
    probability("delta", delta, open=True)
    epsilon = float(finite_array("epsilon", epsilon, ndim=0))
    if epsilon < 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon}")
    if epsilon and target != "population":
        raise ValueError(f"epsilon={epsilon} needs target='population', got target={target!r}; leave it out")
    if isinstance(decision, Threshold) and decision.tau and not transforms.range_normalised:
        raise ValueError(
            f"tau={float(decision.tau):g} is not scale-free: phi may multiply all scores; use tau=0, "
            "RelativeThreshold, or MonotoneClass(range_normalised=True)"
        )
    if target != "exact":
        from porism.theory.partition._sampled import certify_sampled

        return certify_sampled(
            table, sv, decision, transforms, small, ties, target, delta, epsilon, estimator
        )
    return Certifier(table, sv, decision, transforms, small, missing, ties, strict).run(radii, device)
