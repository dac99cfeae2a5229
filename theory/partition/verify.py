"""Independent recomputation of certificates: marginals and sorted masses instead of folds and sweeps."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.partition.boxes import Boxes, make_boxes, sizes_of
from porism.theory.partition.certificate import Certificate
from porism.theory.partition.classes import MonotoneClass, exact_ratio
from porism.theory.partition.decisions import Partition, partition
from porism.theory.partition.errors import CertificateMismatch
from porism.theory.partition.exact import Grid
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
    rounded = table.rounded(transforms.decimals)
    boxes = make_boxes(rounded, cert.small, cert.assumptions["missing"], sv)
    values = marginal_semivalues(boxes.base, sv, n)
    _same("semivalues", cert.semivalues, tuple(float(x) for x in values))
    part = partition(cert.decision, values, cert.assumptions["ties"])
    _same("blocks", cert.blocks, part.blocks)
    _same("members", cert.members, part.blocks[0])
    _same("base_gap", cert.base_gap, float(min(part.gaps)))
    margin, held, radius, strict = _recount(part, boxes, sv, transforms, cert.assumptions["strict"])
    _same("level_margin", cert.level_margin, margin)
    if cert.slope_radius is not None and part.kind == "pairs":
        _same("slope_radius", cert.slope_radius, float(radius))
    if cert.verdict == "robust":
        _same("verdict", "robust", "robust" if held else "not robust by recount")
        _same("strict", cert.strict, strict)
        return
    _same("verdict", "not robust", "robust by recount" if held else "not robust")
    if boxes.unknown is not None:
        broken = not _recount(part, boxes.favourable(), sv, transforms, "increasing")[1]
        _same("verdict", cert.verdict, "not_robust" if broken else "undecided")
    if cert.verdict == "not_robust":
        _verify_witness(cert, rounded, boxes)


def _verify_witness(cert: Certificate, table: UtilityTable, boxes: Boxes) -> None:
    witness = cert.witness
    if witness is None:
        raise CertificateMismatch("witness is missing from a not_robust certificate")
    filled = np.array(table.scores)
    if witness.completion is not None:
        for mask, score in witness.completion:
            filled[mask] = score
        if ((filled < boxes.low) | (filled > boxes.high))[~np.isnan(boxes.low)].any():
            raise CertificateMismatch("witness.completion leaves the bounds of the free coalitions")
    levels = np.unique(filled)
    slopes = np.diff(witness.transform(levels)) / np.diff(levels)
    ratio = exact_ratio(cert.transforms)
    shape = cert.transforms.shape
    if slopes.min() < 0 or (ratio is not None and slopes.max() > float(ratio) * slopes.min() * (1 + 1e-6)):
        raise CertificateMismatch("witness.transform is not in the class of the certificate")
    if (shape == "concave" and (np.diff(slopes) > 1e-6 * slopes.max()).any()) or (
        shape == "convex" and (np.diff(slopes) < -1e-6 * slopes.max()).any()
    ):
        raise CertificateMismatch(f"witness.transform is not {shape}")
    values = marginal_semivalues(witness.transform(filled), cert.semivalue, table.n_players)
    part = partition(cert.decision, values, "weak")
    if len(witness.pair) == 2:
        gap = values[witness.pair[0]] - values[witness.pair[1]]
    else:
        (player,) = witness.pair
        shift = sum(values, Fraction(0)) / len(values) if part.kind == "mean" else part.tau
        gap = (values[player] - shift) * (1 if player in cert.members else -1)
    if gap >= 0:
        raise CertificateMismatch(
            f"witness does not reverse the pair {witness.pair}: the difference is {float(gap):.3g}"
        )


def _recount(
    part: Partition, boxes: Boxes, sv: Semivalue, transforms: MonotoneClass, strict: str
) -> tuple[Fraction, bool, Fraction | float, bool]:
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
    ratio = exact_ratio(transforms)
    margin, radius, positive = Fraction(1 << 62), math.inf, True
    everyone = [(j, sign) for j in range(n) for sign in (1,)]
    for a, b in part.rows:
        if part.kind == "mean":
            player, sign = (a, 1) if a < n else (b, -1)
            d = sum(
                (
                    _pair_levels(player, j, boxes, whole_q, sizes, masks, sigma)
                    for j, _ in everyone
                    if j != player
                ),
                np.zeros(gaps.size, object),
            )
            level = [Fraction(int(x) * sign, scale * n) for x in d]
        elif part.kind == "pairs":
            level = [Fraction(int(x), scale) for x in _pair_levels(a, b, boxes, whole_q, sizes, masks, sigma)]
        else:
            player, up = (a, True) if a < n else (b, False)
            d = _single_levels(player, up, boxes, whole_p, sizes, masks, sigma)
            level = [Fraction(int(x), scale) - (offset if up else -offset) for x in d]
        margin = min(margin, min(level))
        terms = [x * int(g) * unit for x, g in zip(level, gaps, strict=True)]
        total = sum(terms, Fraction(0))
        if transforms.shape == "increasing":
            worst, floor = sum((t for t in terms if t < 0), Fraction(0)), min(level)
        else:
            sums, running = [], Fraction(0)
            for t in terms if transforms.shape == "concave" else reversed(terms):
                running += t
                sums.append(running)
            worst = floor = min(sums)
        worst = min(worst, Fraction(0))
        radius = min(radius, 1 + total / -worst if worst < 0 else math.inf)  # type: ignore[assignment]
        if part.must_be_strict((part.rows).index((a, b))):
            value = (
                floor
                if strict == "weakly-increasing" and ratio is None
                else (total if ratio is None or worst == 0 else total + (ratio - 1) * worst)
            )
            positive &= value > 0
    if boxes.unbounded and margin < 0:
        radius = 0.0
    held = radius == math.inf if ratio is None else ratio <= radius
    return margin, bool(held), radius, bool(held and positive)


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
    from porism.theory.partition.estimators import integer_estimator
    from porism.theory.partition.sampled import sampled_rows

    rows = sampled_rows(table)
    scores = (
        rows.scores if cert.transforms.decimals is None else np.round(rows.scores, cert.transforms.decimals)
    )
    if cert.assumptions["estimator"] == "msr":
        dense = rows.dense()
        values = [scores[c].mean() - scores[~c].mean() for c in dense.T]
    else:
        whole = integer_estimator(rows, cert.semivalue, cert.assumptions["estimator"])
        values = [
            float(sum(int(w) * Fraction(float(v)) for w, v in zip(row, scores, strict=True)) / whole.scale)
            for row in whole.weights
        ]
    if not np.allclose(values, cert.semivalues, rtol=1e-9, atol=1e-9 * np.ptp(scores)):
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
    for name in ("verdict", "blocks", "level_margin", "statistics"):
        _same(name, getattr(cert, name), getattr(again, name))


def _same(name: str, claimed: Any, found: Any) -> None:
    if claimed != found:
        raise CertificateMismatch(f"{name}: the certificate says {claimed}, the table gives {found}")
