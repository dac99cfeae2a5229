"""Independent recomputation of certificates: marginals and sorted masses instead of folds and sweeps."""

import math
from bisect import bisect_left
from dataclasses import fields
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.partition._boxes import Boxes, make_boxes, sizes_of
from porism.theory.partition._coalitions import round_scores
from porism.theory.partition._exact import Grid
from porism.theory.partition._judge import Judgement, float_radius
from porism.theory.partition._partitions import Partition, partition
from porism.theory.partition.certificate import Certificate
from porism.theory.partition.classes import MonotoneClass
from porism.theory.partition.errors import CertificateMismatch
from porism.theory.partition.semivalue import Semivalue
from porism.theory.partition.table import UtilityTable

__all__ = ["marginal_semivalues", "verify_certificate"]

Floats = NDArray[np.float64]


def verify_certificate(cert: Certificate, table: UtilityTable) -> None:
    """Raise :class:`CertificateMismatch` unless the certificate follows from the table."""
    _same("table_sha256", cert.table_sha256, table.sha256)
    target = cert.assumptions["target"]
    if target == "exact":
        _verify_exact(cert, table)
    elif cert.assumptions["estimator"] != "matrix":
        _verify_rows(cert, table)
    else:
        raise CertificateMismatch(
            "estimator matrix is not part of the certificate; certify again and compare"
        )


def marginal_semivalues(scores: Floats, sv: Semivalue, n: int) -> list[Fraction]:
    """``sum_{S without i} p_|S| (v(S + i) - v(S))`` in exact integers, straight from the definition."""
    p = sv.exact_weights(n)
    scale = math.lcm(*(x.denominator for x in p))
    grid = Grid(scores)
    whole = grid.integers(scores).astype(object)
    sizes = sizes_of(n)
    weights = np.array([int(x * scale) for x in p] + [0], object)[sizes]
    unit = grid.fraction([1]) / scale
    out = []
    for i in range(n):
        split = whole.reshape(-1, 2, 1 << i)
        marginal = (split[:, 1] - split[:, 0]).ravel()
        out.append(int((weights.reshape(-1, 2, 1 << i)[:, 0].ravel() * marginal).sum()) * unit)
    return out


def _verify_exact(cert: Certificate, table: UtilityTable) -> None:
    sv, transforms, n = cert.semivalue, cert.transforms, table.n_players
    _same("decimals", cert.assumptions["decimals"], transforms.decimals)
    rounded = table.rounded(transforms.decimals)
    boxes = make_boxes(rounded, cert.small, cert.assumptions["missing"], sv)
    values = marginal_semivalues(boxes.base, sv, n)
    _same("semivalues", cert.semivalues, tuple(float(x) for x in values))
    part = partition(cert.decision, values, cert.assumptions["ties"])
    _same("blocks", cert.blocks, part.blocks)
    _same("members", cert.members, part.blocks[0])
    _same("base_gap", cert.base_gap, float(min(part.gaps)))
    found = _recount(part, boxes, sv, transforms, cert.assumptions["strict"])
    _same(
        "level_margin",
        (cert.level_margin, cert.level, cert.pair),
        (found.margin, found.level, part.pair(found.row)),
    )
    if cert.slope_radius is not None:
        slope_pair = None if found.radius_row is None else part.pair(found.radius_row)
        _same("slope_radius", (cert.slope_radius, cert.slope_pair), (float_radius(found.radius), slope_pair))
    if cert.score_margin is not None and not boxes.unbounded:
        _same("score_margin", cert.score_margin, min(_quantile_gap(i, j, boxes, sv, n) for i, j in part.rows))
    verdict, best = "robust" if found.robust else "not_robust", None
    if boxes.unknown is not None:
        best = _recount(part, boxes.favourable(), sv, transforms, "increasing")
        _same("statistics", cert.statistics, {"lower": str(found.margin), "upper": str(best.margin)})
        if not found.robust and best.robust:
            verdict = "undecided"
    _same("verdict", cert.verdict, verdict)
    _same("strict", cert.strict, found.strict)
    tied = [row for row, gap in zip(part.rows, part.gaps, strict=True) if gap == 0]
    _same("permanent_ties", cert.permanent_ties, tuple(tied) if part.kind == "pairs" and found.robust else ())
    if verdict == "not_robust":
        _verify_witness(cert, rounded, boxes, part)


def _verify_witness(cert: Certificate, table: UtilityTable, boxes: Boxes, part: Partition) -> None:
    witness = cert.witness
    if witness is None:
        raise CertificateMismatch("witness is missing from a not_robust certificate")
    if witness.pair not in [part.pair(row) for row in range(len(part.rows))]:
        raise CertificateMismatch(f"witness.pair {witness.pair} does not cross the boundary of the decision")
    filled = np.array(table.scores)
    for mask, score in witness.completion or ():
        filled[mask] = score
    if not ((filled >= boxes.low) & (filled <= boxes.high)).all():
        raise CertificateMismatch("witness.completion leaves the bounds of the free coalitions")
    levels = np.unique(filled)
    phi = witness.transform(levels)
    rise, run, rounding = np.diff(phi), np.diff(levels), 2.0**-50 * np.abs(phi).max()
    with np.errstate(over="ignore"):
        least, most = (rise - rounding) / run, (rise + rounding) / run  # of the slopes before phi was rounded
    ratio, shape = cert.transforms.exact_ratio, cert.transforms.shape
    if rise.min() < 0 or (ratio is not None and least.max() > float(ratio) * most.min()):
        raise CertificateMismatch("witness.transform is not in the class of the certificate")
    if (shape == "concave" and (least[1:] > most[:-1]).any()) or (
        shape == "convex" and (most[1:] < least[:-1]).any()
    ):
        raise CertificateMismatch(f"witness.transform is not {shape}")
    values = marginal_semivalues(witness.transform(filled), cert.semivalue, table.n_players)
    if len(witness.pair) == 2:
        gap = values[witness.pair[0]] - values[witness.pair[1]]
    else:
        (player,) = witness.pair
        shift = sum(values, Fraction(0)) / len(values) if part.kind == "mean" else part.tau
        gap = (values[player] - shift) * (1 if player in cert.members else -1)
    slack = 0.0 if ratio is None else 2 * rounding  # a class may be too wide by less than a witness rounds
    if gap >= slack:
        raise CertificateMismatch(
            f"witness does not reverse the pair {witness.pair}: the difference is {float(gap):.3g}"
        )


def _recount(
    part: Partition, boxes: Boxes, sv: Semivalue, transforms: MonotoneClass, strict: str
) -> Judgement:
    """Margin, verdict, slope radius and strictness by two sorted mass functions a row."""
    n = part.n
    p = [*sv.exact_weights(n), Fraction(0)]
    q = [Fraction(0) if s < boxes.skip_below else x for s, x in enumerate(sv.exact_pair_weights(n))]
    scale = math.lcm(*(x.denominator for x in (*p, *q)))
    whole_p = np.array([int(x * scale) for x in p], object)
    whole_q = np.array([int(x * scale) for x in q], object)
    sizes, masks = sizes_of(n), np.arange(1 << n)
    sigma = np.unique(np.concatenate([boxes.low, boxes.high]))
    grid = Grid(sigma)
    gaps = np.diff(grid.integers(sigma).astype(object))
    unit = grid.fraction([1])
    offset = part.tau / (Fraction(float(sigma[-1])) - Fraction(float(sigma[0])))
    ratio = transforms.exact_ratio
    margins, radii, positive = [], [], True
    for r, (a, b) in enumerate(part.rows):
        player, sign = (a, 1) if a < n else (b, -1)
        if part.kind == "mean":
            others = (j for j in range(n) if j != player)
            d = sum((_pair_levels(player, j, boxes, whole_q, sizes, masks, sigma) for j in others), 0 * gaps)
            level = [Fraction(int(x) * sign, scale * n) for x in d]
        elif part.kind == "pairs":
            level = [Fraction(int(x), scale) for x in _pair_levels(a, b, boxes, whole_q, sizes, masks, sigma)]
        else:
            d = _single_levels(player, a < n, boxes, whole_p, sizes, masks, sigma)
            level = [Fraction(int(x), scale) - sign * offset for x in d]
        margins += [(x, float(s), part.pair(r), r) for x, s in zip(level, sigma[1:], strict=True)]
        terms = [x * int(g) * unit for x, g in zip(level, gaps, strict=True)]
        total = sum(terms, Fraction(0))
        if transforms.shape == "increasing":
            worst, floor = sum((t for t in terms if t < 0), Fraction(0)), min(level)
        else:
            worst = floor = min(accumulate(terms if transforms.shape == "concave" else reversed(terms)))
        worst = min(worst, Fraction(0))
        if worst < 0:
            radii.append((1 + total / -worst, part.pair(r), r))
        if part.must_be_strict(r):
            weakly = strict == "weakly-increasing" and ratio is None
            value = floor if weakly else total if ratio is None or not worst else total + (ratio - 1) * worst
            positive &= value > 0
    margin, at, _, row = min(margins)
    radius, _, radius_row = min(radii, default=(math.inf, None, None))
    if boxes.unbounded and margin < 0:
        radius, radius_row = Fraction(0), row
    robust = radius == math.inf if ratio is None else ratio <= radius
    return Judgement(robust, robust and bool(positive), margin, at, row, radius, radius_row)


def _quantile_gap(i: int, j: int, boxes: Boxes, sv: Semivalue, n: int) -> float:
    """Least quantile difference of two players, from cumulated masses at all their jumps."""
    sides = []
    for scores, inside, outside in ((boxes.low, i, j), (boxes.high, j, i)):
        q = [Fraction(0) if s < boxes.skip_below else x for s, x in enumerate(sv.exact_pair_weights(n))]
        masks = [m for m in range(1 << n) if m >> inside & 1 and not m >> outside & 1 and q[m.bit_count()]]
        masks.sort(key=lambda m: scores[m])
        sides.append((list(accumulate(q[m.bit_count()] for m in masks)), scores[masks]))
    (mass_i, score_i), (mass_j, score_j) = sides
    jumps = {*mass_i, *mass_j}
    gaps = (float(score_i[bisect_left(mass_i, x)] - score_j[bisect_left(mass_j, x)]) for x in jumps)
    return min(gaps, default=math.inf) + 0.0


def _tail_masses(scores: Floats, weights: NDArray[Any], sigma: Floats) -> NDArray[Any]:
    """Mass of the coalitions that score at least sigma_l, for l = 1 .. L."""
    order = np.argsort(scores)
    cumulated = np.concatenate([np.zeros(1, object), np.cumsum(weights[order][::-1])])
    return cumulated[scores.size - np.searchsorted(scores[order], sigma[1:], side="left")]


def _pair_levels(
    i: int, j: int, boxes: Boxes, q: NDArray[Any], sizes: NDArray[Any], masks: NDArray[Any], sigma: Floats
) -> NDArray[Any]:
    with_i = (masks >> i & 1 == 1) & (masks >> j & 1 == 0)
    with_j = (masks >> j & 1 == 1) & (masks >> i & 1 == 0)
    return _tail_masses(boxes.low[with_i], q[sizes[with_i]], sigma) - _tail_masses(
        boxes.high[with_j], q[sizes[with_j]], sigma
    )


def _single_levels(
    i: int, up: bool, boxes: Boxes, p: NDArray[Any], sizes: NDArray[Any], masks: NDArray[Any], sigma: Floats
) -> NDArray[Any]:
    inside = masks >> i & 1 == 1
    good, bad = (inside, ~inside) if up else (~inside, inside)
    weight = np.where(inside, p[sizes.astype(np.int64) - inside], p[sizes])
    return _tail_masses(boxes.low[good], weight[good], sigma) - _tail_masses(
        boxes.high[bad], weight[bad], sigma
    )


def _verify_rows(cert: Certificate, table: UtilityTable) -> None:
    """Sampled certificates: estimates from a dense membership matrix, the rest by a second run."""
    from porism.theory.partition._estimators import integer_estimator, size_factor
    from porism.theory.partition._sampled import sampled_rows

    rows = sampled_rows(table)
    decimals = cert.transforms.decimals
    scores = rows.scores if decimals is None else round_scores(rows.scores, decimals)
    if cert.assumptions["estimator"] == "msr":
        dense = rows.dense()
        factor = float(size_factor(rows))
        values = [factor * (scores[c].mean() - scores[~c].mean()) for c in dense.T]
    else:
        whole = integer_estimator(rows, cert.semivalue, cert.assumptions["estimator"])
        values = [
            float(sum(int(w) * Fraction(float(v)) for w, v in zip(row, scores, strict=True)) / whole.scale)
            for row in whole.weights
        ]
    rounding = 1e-9 * float(np.ptp(scores))
    if len(values) != len(cert.semivalues) or not np.allclose(
        values, cert.semivalues, rtol=1e-9, atol=rounding
    ):
        raise CertificateMismatch("semivalues differ from the estimates of the rows")
    from porism.theory.partition.certify import certify_partition

    statistics = cert.statistics
    again = certify_partition(
        table,
        cert.semivalue,
        cert.decision,
        transforms=cert.transforms,
        ties=cert.assumptions["ties"],
        target=cert.assumptions["target"],
        delta=statistics.get("delta", 0.05),
        epsilon=statistics.get("epsilon", 0.0),
        estimator=cert.assumptions["estimator"],
    )
    for field in fields(cert):
        if field.name not in ("semivalues", "base_gap"):  # these are rounded
            _same(field.name, getattr(cert, field.name), getattr(again, field.name))
    if not math.isclose(cert.base_gap, again.base_gap, rel_tol=1e-9, abs_tol=rounding):
        raise CertificateMismatch(f"base_gap: the certificate says {cert.base_gap}, not {again.base_gap}")


def _same(name: str, claimed: Any, found: Any) -> None:
    if claimed != found:
        raise CertificateMismatch(f"{name}: the certificate says {claimed}, the table gives {found}")
