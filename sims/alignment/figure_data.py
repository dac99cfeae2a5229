"""Runs that figures and claims share: overlaps, estimates of rho, gains, energies, pivots, encoders.

All are kept in memory, so do not change what they return.
"""

import functools
import warnings

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer
from porism.errors import NumericalWarning
from porism.sims.alignment import regime
from porism.sims.alignment._arms import standard_error
from porism.sims.alignment.comparison import PivotComparison, compare_pivots
from porism.sims.alignment.encoder import ENCODER_TASKS, EncoderRun, compare_encoder_starts
from porism.sims.alignment.energy import ModuleEnergy, measure_energy
from porism.sims.alignment.regime import RegimeSweep, sweep_regime
from porism.sims.alignment.spiked import sample_class_task, sample_spiked
from porism.sims.alignment.tracking import PANELS, Tracking, track_gains
from porism.sims.alignment.trajectories import PivotPaths, pivot_paths
from porism.sims.drawing import is_paper
from porism.theory.alignment import alignment_coefficient, principal_subspace

__all__ = [
    "ELLS",
    "SHOWN_METHODS",
    "bulk_directions",
    "encoder_runs",
    "energies",
    "estimates",
    "overlap_curves",
    "overlap_grid",
    "paths",
    "pivot_gains",
    "regimes",
    "trackings",
]

Floats = NDArray[np.float64]

ELLS = (1.0, 3.0, 6.0)
"""Strengths in `overlap_curves`."""

SHOWN_METHODS = ("kaiming", "orthonormal", "pissa", "all", "target", "auto", "auto_pivot")
"""Starts that `encoder_runs` compares."""


def _leading_overlap(ell: float, d: int, n: int, draws: int, rng: np.random.Generator) -> Floats:
    found = []
    for _ in range(draws):
        sample = sample_spiked(n, d, [ell], random_state=rng)
        found.append(float(sample.captured(principal_subspace(sample.x, 1, center=False).basis)[0]))
    return np.array(found)


def _shape(gamma: float, entries: int) -> tuple[int, int]:
    """Numbers d and n with about so many entries and d / n near gamma."""
    n = max(4, round((entries / gamma) ** 0.5))
    return max(2, round(gamma * n)), n


@functools.cache
def overlap_grid(scale: str = "paper", seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Squared overlap of the leading sample direction with one spike, over d/n and strength.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        A grid of 4 x 4 with 2000 entries a sample, or of 17 x 18 with 50000 and four draws.
    seed : int, default 0
        Of the samples, >= 0.

    Returns
    -------
    gamma : float64 array, shape (k,)
        Ratio d/n, without unit.
    ell : float64 array, shape (l,)
        Strength over the noise variance.
    overlap : float64 array, shape (l, k)
        Mean over draws, in [0, 1].

    Examples
    --------
    >>> gamma, ell, overlap = overlap_grid("smoke")
    >>> overlap.shape, bool(overlap[-1, 0] > 0.9)
    ((4, 4), True)
    """
    rows, columns, entries, draws = (18, 17, 50_000, 4) if is_paper(scale) else (4, 4, 2000, 1)
    rng = np.random.default_rng(integer("seed", seed, 0))
    gamma, ell = np.geomspace(0.1, 100, columns), np.geomspace(0.1, 1000, rows)
    overlap = np.empty((rows, columns))
    for j, ratio in enumerate(gamma):
        d, n = _shape(float(ratio), entries)
        for i, strength in enumerate(ell):
            overlap[i, j] = _leading_overlap(float(strength), d, n, draws, rng).mean()
    return gamma, ell, overlap


@functools.cache
def overlap_curves(scale: str = "paper", seed: int = 0) -> dict[float, tuple[Floats, Floats, Floats]]:
    """Squared overlap of the leading sample direction with one spike, against d/n.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        Three or eleven ratios; 2000 or 160000 entries a sample; four or sixteen draws.
    seed : int, default 0
        Of the samples, >= 0.

    Returns
    -------
    dict of float to three float64 arrays, shape (k,)
        For each of `ELLS`: d/n as it was, mean overlap, and its standard error.

    Examples
    --------
    >>> curves = overlap_curves("smoke")
    >>> [len(curves[ell][0]) for ell in ELLS]
    [3, 3, 3]
    """
    count, entries, draws = (11, 160_000, 16) if is_paper(scale) else (3, 2000, 4)
    rng = np.random.default_rng(integer("seed", seed, 0))
    found = {}
    for ell in ELLS:
        rows = []
        for ratio in np.geomspace(0.15, 45, count):
            d, n = _shape(float(ratio), entries)
            values = _leading_overlap(ell, d, n, draws, rng)
            rows.append((d / n, values.mean(), standard_error(values)))
        gamma, mean, error = np.array(rows).T
        found[ell] = gamma, mean, error
    return found


@functools.cache
def bulk_directions(
    ell: float, scale: str = "paper", seed: int = 0, d: int = 1000, n: int = 100
) -> tuple[Floats, Floats, Floats]:
    """Enrichment of the sample's directions for a spike below the threshold, by their eigenvalue.

    Parameters
    ----------
    ell : float
        Strength over the noise variance, >= 0.
    scale : {"smoke", "paper"}
        Four or sixty draws.
    seed : int, default 0
        Of the samples, >= 0.
    d, n : int, default 1000 and 100
        Coordinates and rows, both >= 10.

    Returns
    -------
    eigenvalue, enrichment, error : float64 arrays, shape (10,)
        Mean eigenvalue over the noise variance, mean ``d <u, v>^2`` and its standard error over draws, for
        each tenth of the min(d, n) directions, largest first.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> value, enrichment, _ = bulk_directions(1.0, "smoke", d=60, n=30)
    >>> bool(value[0] > value[-1]), bool(enrichment[0] > 1)
    (True, True)
    """
    draws = 60 if is_paper(scale) else 4
    d, n = integer("d", d, 10), integer("n", n, 10)
    rng = np.random.default_rng(integer("seed", seed, 0))
    values, shares = [], []
    for _ in range(draws):
        sample = sample_spiked(n, d, [ell], random_state=rng)
        _, s, vt = np.linalg.svd(sample.x, full_matrices=False)
        tenths = np.array_split(np.arange(len(s)), 10)
        share = d * (vt @ sample.directions[0]) ** 2
        values.append([np.mean(s[part] ** 2 / n) for part in tenths])
        shares.append([share[part].mean() for part in tenths])
    found = np.array(shares)
    return np.mean(values, axis=0), found.mean(axis=0), standard_error(found)


@functools.cache
def estimates(scale: str = "paper", seed: int = 0) -> dict[str, Floats]:
    """Captured share in sample, cross-fitted and true, against the number of rows.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        d = 64 and three draws, or d = 512 and 40; two classes, delta = 6, r = 8, four nuisance directions.
    seed : int, default 0
        Of the samples, >= 0.

    Returns
    -------
    dict of str to float64 array
        "n", shape (k,); "true", "plugin" and "crossfit", shape (k, draws), NaN where undefined. The true
        share is that of the subspace of all n rows.

    Examples
    --------
    >>> found = estimates("smoke")
    >>> bool(found["plugin"][0].min() > 0.999)
    True
    """
    d, draws, numbers = (512, 40, (8, 12, 16, 24, 32, 64, 128)) if is_paper(scale) else (64, 3, (8, 32))
    r, nuisance = 8, (30.0, 15.0, 8.0, 4.0)
    rng = np.random.default_rng(integer("seed", seed, 0))
    found = {name: np.empty((len(numbers), draws)) for name in ("true", "plugin", "crossfit")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # r is n - 1 on purpose, and folds are small
        for i, n in enumerate(numbers):
            for j in range(draws):
                task = sample_class_task(d, n // 2, 2, 6.0, nuisance, random_state=rng)
                basis = principal_subspace(task.x, r, random_state=rng).basis
                found["true"][i, j] = task.captured(basis)
                for name in ("plugin", "crossfit"):
                    found[name][i, j] = alignment_coefficient(
                        task.x, task.y, r, estimator=name, random_state=rng
                    ).captured
    return {"n": np.array(numbers, dtype=np.float64), **found}


@functools.cache
def trackings(scale: str = "paper", seed: int = 0, optimizer: str = "adam") -> dict[str, Tracking]:
    """What predicts the gain of a principal start, for tasks of one difficulty and of many.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        Three tasks of one draw, or 48 of three.
    seed : int, default 0
        Of the tasks, >= 0.
    optimizer : {"adam", "sgd", "momentum"}
        What trains.

    Returns
    -------
    dict of str to Tracking
        By panel: "controlled" and "pooled".

    Examples
    --------
    >>> sorted(trackings("smoke"))
    ['controlled', 'pooled']
    """
    tasks, draws = (48, 3) if is_paper(scale) else (3, 1)
    root = np.random.default_rng(integer("seed", seed, 0))
    streams = root.spawn(len(PANELS))
    return {
        panel: track_gains(panel, tasks=tasks, draws=draws, optimizer=optimizer, rng=stream)
        for panel, stream in zip(PANELS, streams, strict=True)
    }


@functools.cache
def regimes(scale: str = "paper", seed: int = 0) -> dict[str, RegimeSweep]:
    """Gain of a principal start against d/n for two strengths, against difficulty, and against training.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        Two draws and few cells, or ten draws.
    seed : int, default 0
        Of the populations, >= 0.

    Returns
    -------
    dict of str to RegimeSweep
        "shape 6" and "shape 3", by strength: d = 768 at n from 16 to 1024, and d = 64, n = 512 as the last
        cell; "difficulty" and "length": the cells of `porism.sims.alignment.regime`.

    Examples
    --------
    >>> list(regimes("smoke"))
    ['shape 6', 'shape 3', 'difficulty', 'length']
    """
    big = is_paper(scale)
    numbers = (16, 32, 64, 128, 256, 512, 1024) if big else (16, 32)
    cells: dict[str, tuple[tuple[int, int, float, float], ...]] = {
        f"shape {ell:g}": (*((768, n, ell, 3e-4) for n in numbers), (64, 512, ell, 3e-4))
        for ell in (6.0, 3.0)
    }
    cells["difficulty"] = regime.DIFFICULTY if big else regime.DIFFICULTY[1:3]
    cells["length"] = regime.LENGTH if big else regime.LENGTH[:2]
    root = np.random.default_rng(integer("seed", seed, 0))
    return {
        name: sweep_regime(own, draws=10 if big else 2, rng=stream)
        for (name, own), stream in zip(cells.items(), root.spawn(len(cells)), strict=True)
    }


@functools.cache
def energies(scale: str = "paper") -> dict[str, ModuleEnergy]:
    """Which tokens carry the first gradient of each module of the small encoder, and what captures it.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        An encoder of width 32 that has hardly been trained and one seed, or width 128 and ten seeds.

    Returns
    -------
    dict of str to ModuleEnergy
        By task: "topic" and "token".

    Raises
    ------
    MissingExtraError
        If torch or safetensors is not installed.

    Examples
    --------
    >>> energies("smoke")["topic"].share.shape  # doctest: +SKIP
    (12, 1)
    """
    big = is_paper(scale)
    small = {} if big else {"n": 8, "width": 32, "length": 16, "pretrain_steps": 20}
    return {task: measure_energy(task, range(10 if big else 1), **small) for task in ENCODER_TASKS}


@functools.cache
def paths(optimizer: str, scale: str = "paper", seed: int = 0) -> PivotPaths:
    """One task trained without a pivot, and with one in the middle under each rule for the moments.

    Parameters
    ----------
    optimizer : {"sgd", "momentum", "adam"}
        What trains.
    scale : {"smoke", "paper"}
        20 steps or 100.
    seed : int, default 0
        Of task, start and rotation, >= 0; the same for all optimisers.

    Returns
    -------
    PivotPaths
        Losses, and deviations of BA.

    Examples
    --------
    >>> bool(paths("sgd", "smoke").deviation[0].max() < 1e-12)
    True
    """
    steps = 100 if is_paper(scale) else 20
    return pivot_paths(optimizer, steps=steps, at=steps // 2, rng=integer("seed", seed, 0))


@functools.cache
def pivot_gains(scale: str = "paper", seed: int = 0) -> PivotComparison:
    """Accuracy with pivots less that without, paired over tasks.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        Four tasks of small size, or 264.
    seed : int, default 0
        Of the tasks, >= 0.

    Returns
    -------
    PivotComparison
        Accuracy of every arm on every task.

    Examples
    --------
    >>> pivot_gains("smoke").accuracy.shape
    (4, 5)
    """
    integer("seed", seed, 0)
    if is_paper(scale):
        return compare_pivots(tasks=264, rng=seed)
    return compare_pivots(tasks=4, d=64, n=16, r=4, steps=20, rng=seed)


@functools.cache
def encoder_runs(scale: str = "paper") -> EncoderRun:
    """Few-shot LoRA of the small encoder on two tasks on real text, from every start.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        An encoder of width 32 that has hardly been trained, two seeds and six steps; or the world of DK-25b:
        width 64, windows of 24 tokens, ten seeds, 30 steps.

    Returns
    -------
    EncoderRun
        Test accuracies, paired by seed.

    Raises
    ------
    MissingExtraError
        If torch or safetensors is not installed.

    Notes
    -----
    Paper scale takes about half a minute on one core.

    Examples
    --------
    >>> encoder_runs("smoke").accuracy.shape  # doctest: +SKIP
    (2, 7, 2)
    """
    if is_paper(scale):
        return compare_encoder_starts(
            methods=SHOWN_METHODS, seeds=range(10), lr=2e-3, width=64, length=24, n_test=64
        )
    return compare_encoder_starts(
        methods=SHOWN_METHODS, seeds=range(2), n=8, n_test=16, steps=6, width=32, length=16, pretrain_steps=20
    )
