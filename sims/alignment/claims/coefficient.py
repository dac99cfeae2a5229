"""Claims on rho and its estimates: DK-17, DK-18, DK-18b."""

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.errors import NumericalWarning
from porism.sims.alignment.claims._oracles import orthonormal, pair_scatter, signs
from porism.sims.alignment.spiked import ClassTask, sample_class_task
from porism.theory.alignment import alignment_coefficient, principal_subspace, spike_overlap

__all__ = ["estimates", "invariances", "unbiased"]

Floats = NDArray[np.float64]


def _plugin(x: Floats, y: NDArray[np.int64], r: int) -> float:
    with warnings.catch_warnings():  # it says when the value is 1 whatever the labels
        warnings.simplefilter("ignore", NumericalWarning)
        return alignment_coefficient(x, y, r, estimator="plugin", random_state=0).captured


def _crossfit(task: ClassTask, r: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """True share of the estimated subspace, its cross-fit estimate (NaN if undefined), and the plug-in."""
    basis = principal_subspace(task.x, r).basis
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        found = alignment_coefficient(task.x, task.y, r, repeats=1, random_state=rng)
    return task.captured(basis), found.captured, _plugin(task.x, task.y, r)


@claim(
    "DK-17",
    kind="theorem",
    source="our definition of the paper's coefficient",
    statement="rho does not change under shift, one scale for all, and rotation of the features; a "
    "uniformly random subspace has mean 0, all of the signal 1. In sample the captured share is 1 whatever "
    "the labels as soon as r >= n - 1.",
    control="a scale of its own for every coordinate",
)
def invariances(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, draws = (4, 400) if scale == "smoke" else (30, 4000)
    worst, ones, below, d, r = 0.0, 0.0, 1.0, 24, 3
    for _ in range(runs):
        task = sample_class_task(d, 12, 3, 5.0, [4.0], offset=3.0, random_state=rng)
        q, shift, factor = orthonormal(rng, d, d), 10 * rng.standard_normal(d), 10.0 ** rng.uniform(-3, 3)
        stretch = rng.uniform(0.3, 3, d) if broken else np.ones(d)
        moved = factor * (task.x * stretch) @ q.T + shift
        seed = int(rng.integers(2**31))
        for estimator in ("crossfit", "plugin"):
            one, two = (
                alignment_coefficient(x, task.y, r, estimator=estimator, random_state=seed).rho
                for x in (task.x, moved)
            )
            worst = max(worst, abs(one - two))
        basis = principal_subspace(task.x, r).basis
        means = factor * (task.means * stretch) @ q.T + shift
        turned = ClassTask(
            moved, task.y, means, task.shares, task.directions @ q.T, task.nuisance, factor, task.delta
        )
        worst = max(worst, abs(task.rho(basis) - turned.rho(principal_subspace(moved, r).basis)))
        span = np.linalg.qr((task.means[1:] - task.means[0]).T)[0].T
        ones = max(ones, abs(task.rho(span) - 1))
        labels = rng.permutation(np.repeat([0, 1], [4, 5]))
        noise = rng.standard_normal((9, 40))
        ones = max(ones, abs(_plugin(noise, labels, 8) - 1))
        below = min(below, 1 - _plugin(noise, labels, 7))
    haar = np.array([task.rho(orthonormal(rng, r, d)) for _ in range(draws)])
    score = abs(float(haar.mean())) / (float(haar.std(ddof=1)) / math.sqrt(draws))
    return Evidence(
        max(worst, ones) <= 1e-9 and below > 1e-9 and score <= 5,
        worst,
        0.0,
        1e-9,
        "rounding: offsets cost three digits and the gap of the subspace three more",
        3 * runs + draws,
        {
            "distance from 1 where it is 1 (tolerance 1e-9)": ones,
            "distance from 1 at r = n - 2, smallest": below,
            "mean over random subspaces, standard errors (tolerance 5)": score,
        },
        quantity="largest change of rho",
    )


@claim(
    "DK-18",
    kind="theorem",
    source="Hoeffding 1948; reconstruction",
    statement="At fixed P the statistic T(P), from products of different rows only, has mean tr(PS) exactly, "
    "whatever the noise and the class sizes: here over all sign patterns of the noise.",
    control="each row also paired with itself, as in the in-sample value",
)
def unbiased(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    sizes = [(2, 2), (2, 3)] if scale == "smoke" else [(2, 2), (2, 3), (3, 3), (2, 2, 2)]
    worst, off, total = 0.0, 0.0, 0
    for counts in sizes:
        y = np.repeat(np.arange(len(counts)), counts)
        n, d = len(y), 2
        means, shares = rng.standard_normal((len(counts), d)), np.array(counts) / n
        spread = rng.uniform(0.5, 2, (n, d))  # every row may have noise of its own
        basis = orthonormal(rng, 1, d)
        for p in (basis.T @ basis, np.eye(d)):
            between = (means - shares @ means) @ p
            truth = float(shares @ np.sum(between * (means - shares @ means), axis=1))
            values = [pair_scatter(means[y] + spread * e, y, p, same=broken) for e in signs(n, d)]
            worst = max(worst, abs(float(np.mean(values)) - truth))
            total += len(values)
        x = means[y] + spread * rng.standard_normal((n, d))
        ratio = pair_scatter(x, y, basis.T @ basis) / pair_scatter(x, y, np.eye(d))
        with warnings.catch_warnings():  # both parts may come out negative
            warnings.simplefilter("ignore", NumericalWarning)
            found = alignment_coefficient(x, y, 1, basis=basis).captured_unclipped
        off = max(off, abs(found / ratio - 1))
    return Evidence(
        worst <= 1e-12 and off <= 1e-9,
        worst,
        0.0,
        1e-12,
        "rounding of a mean of at most 4096 numbers of size 10",
        total,
        {"relative difference of the library's ratio and that of pair sums (tolerance 1e-9)": off},
        quantity="largest distance of the mean from tr(PS)",
    )


@claim(
    "DK-18b",
    kind="statistical",
    source="our simulation",
    statement="Two classes of 16 in d = 256 or more: the cross-fit share is right on average up to what "
    "learning the subspace from 7/8 of the rows costs; with 4 rows a class, half of which make the subspace, "
    "it is too low. The in-sample share "
    "is far too high in both.",
    control="the in-sample share in the place of the cross-fit one",
)
def estimates(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, d, r = (48, 256, 8) if scale == "smoke" else (100, 768, 8)
    table = {}
    for half, delta in ((16, 12.0), (4, 40.0)):
        rows = [
            _crossfit(sample_class_task(d, half, 2, delta, random_state=rng), r if half > 4 else 2, rng)
            for _ in range(draws)
        ]
        table[half] = np.array(rows)
    bias, error, low = {}, {}, {}
    for half, found in table.items():
        gap = found[:, 2 if broken else 1] - found[:, 0]
        gap = gap[np.isfinite(gap)]
        bias[half], error[half] = float(gap.mean()), float(gap.std(ddof=1)) / math.sqrt(len(gap))
        low[half] = float((found[:, 2] - found[:, 0]).mean())
    n = 32
    cost = float(spike_overlap(12.0, d / (n - 1)) - spike_overlap(12.0, d / (7 * n / 8 - 1)))
    above, under = bias[16] - 5 * error[16], -bias[16] - 5 * error[16] - cost
    return Evidence(
        max(above, under) <= 0 and bias[4] + 3 * error[4] < 0 and min(low.values()) > 0.2,
        bias[16],
        f"in {-cost:.3f}..0",
        5 * error[16],
        "5 standard errors; the lower end by the spiked law at 7/8 of the rows",
        2 * draws,
        {
            "16 + 16: true / cross-fit / in sample": " / ".join(
                f"{v:.3f}" for v in np.nanmean(table[16], axis=0)
            ),
            "4 + 4: true / cross-fit / in sample": " / ".join(
                f"{v:.3f}" for v in np.nanmean(table[4], axis=0)
            ),
            "4 + 4: bias and its standard error": f"{bias[4]:.3f}, {error[4]:.3f}",
            "undefined with 4 + 4": f"{int(np.isnan(table[4][:, 1]).sum())} of {draws}",
        },
        quantity="bias of the captured share, 16 + 16",
    )
