"""How well a planted order is found again, against noise and against size."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer
from porism.results import Result
from porism.sims.pattern.planted import planted_pattern
from porism.theory.pattern import Mask, pattern_distance

__all__ = ["Sweep", "adjusted_rand", "noise_sweep", "size_sweep"]

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Sweep(Result):
    """One row a trial; `to_frame` gives the table.

    Parameters
    ----------
    mask : str array
        Family.
    size : int64 array
        Rows of the matrix.
    noise : float64 array
        Noise planted.
    trial : int64 array
        Number of the repetition.
    recovered : bool array
        Whether the planted order came back, up to symmetries of the mask.
    ari : float64 array
        Mean adjusted Rand index of row and column labels, block masks only, else NaN.
    mass_outside, truth_mass, gap : float64 arrays
        Value found, value of the planted order, certified gap.
    seconds : float64 array
        Time of the solve.

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> noise_sweep(masks.block_diagonal([3, 3]), [0.0], trials=2, random_state=0).recovered.tolist()
    [True, True]
    """

    mask: NDArray[np.str_]
    size: NDArray[np.int64]
    noise: Array
    trial: NDArray[np.int64]
    recovered: NDArray[np.bool_]
    ari: Array
    mass_outside: Array
    truth_mass: Array
    gap: Array
    seconds: Array


def noise_sweep(
    mask: Mask | ArrayLike,
    noises: Sequence[float],
    *,
    trials: int = 4,
    signal: str = "sign",
    order: str = "independent",
    random_state: int | np.random.Generator | None = None,
    **options: Any,
) -> Sweep:
    """Plant a pattern under growing noise and look for it.

    Parameters
    ----------
    mask : Mask or array_like, shape (m, n)
        The pattern.
    noises : sequence of float
        Standard deviations, each >= 0.
    trials : int, default 4
        Repetitions of each, >= 1.
    signal, order
        As in `planted_pattern`.
    random_state : int, Generator or None
        Seed; every trial has a child seed.
    **options
        For :func:`pattern_distance`, such as ``time_budget``.

    Returns
    -------
    Sweep
        ``len(noises) * trials`` rows.

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> noise_sweep(masks.band(8, 1), [0.0], trials=1, order="common", random_state=0).recovered.tolist()
    [True]
    """
    return _sweep([(mask, noise) for noise in noises], trials, signal, order, random_state, options)


def size_sweep(
    family: Callable[[int], Mask],
    sizes: Sequence[int],
    *,
    noise: float = 0.3,
    trials: int = 4,
    signal: str = "sign",
    order: str = "independent",
    random_state: int | np.random.Generator | None = None,
    **options: Any,
) -> Sweep:
    """Plant patterns of growing size and look for them.

    Parameters
    ----------
    family : callable
        Mask of each size.
    sizes : sequence of int
        Sizes, in whatever sense the family gives them.
    noise : float, default 0.3
        Standard deviation, >= 0.
    trials : int, default 4
        Repetitions of each, >= 1.
    signal, order
        As in `planted_pattern`.
    random_state : int, Generator or None
        Seed; every trial has a child seed.
    **options
        For :func:`pattern_distance`.

    Returns
    -------
    Sweep
        ``len(sizes) * trials`` rows.

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> size_sweep(lambda b: masks.block_diagonal([b, b]), [3, 4], trials=1, noise=0.0).size.tolist()
    [6, 8]
    """
    return _sweep([(family(size), noise) for size in sizes], trials, signal, order, random_state, options)


def adjusted_rand(a: ArrayLike, b: ArrayLike) -> float:
    """Agreement of two labellings, corrected for chance: 1 if equal up to names, 0 on average by chance.

    Parameters
    ----------
    a, b : int arrays, shape (n,)
        Labels of the same n items.

    Returns
    -------
    float
        The adjusted Rand index, at most 1.

    Raises
    ------
    ValueError
        If the lengths differ.

    References
    ----------
    L. Hubert and P. Arabie (1985), Comparing partitions, doi:10.1007/BF01908075.

    Examples
    --------
    >>> adjusted_rand([0, 0, 1, 1], [5, 5, 2, 2]), round(adjusted_rand([0, 0, 1, 1], [0, 1, 0, 1]), 9)
    (1.0, -0.5)
    """
    x = np.unique(finite_array("a", a, ndim=1), return_inverse=True)[1]
    y = np.unique(finite_array("b", b, ndim=1), return_inverse=True)[1]
    if x.shape != y.shape:
        raise ValueError(f"b must be as long as a, got {y.size} and {x.size}; label the same items")
    table = np.zeros((int(x.max(initial=0)) + 1, int(y.max(initial=0)) + 1))
    np.add.at(table, (x, y), 1)

    def pairs(counts: Array) -> float:
        return float((counts * (counts - 1) / 2).sum())

    both, left, right = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    total = x.size * (x.size - 1) / 2
    expected = left * right / total if total else 0.0
    top = (left + right) / 2
    return 1.0 if top == expected else (both - expected) / (top - expected)


def _sweep(
    worlds: list[tuple[Mask | ArrayLike, float]],
    trials: int,
    signal: str,
    order: str,
    random_state: int | np.random.Generator | None,
    options: dict[str, Any],
) -> Sweep:
    integer("trials", trials, 1)
    rng = generator(random_state, "random_state")
    root = np.random.SeedSequence(int(rng.integers(2**63)))
    rows = []
    for (given, noise), child in zip(worlds, root.spawn(len(worlds)), strict=True):
        for trial, seed in enumerate(child.generate_state(trials, np.uint64) >> np.uint64(1)):
            A, truth = planted_pattern(given, signal=signal, noise=noise, order=order, random_state=int(seed))
            mask = truth.mask
            begun = time.perf_counter()
            fit = pattern_distance(A, mask, order=order, random_state=int(seed), **options)
            seconds = time.perf_counter() - begun
            ari = np.nan
            if mask.name == "block_diagonal":
                ari = sum(map(adjusted_rand, fit.labels(), truth.labels())) / 2
            values = (fit.mass_outside, truth.mass_outside, fit.gap, seconds)
            rows.append((mask.name, len(mask.S), noise, trial, truth.found_by(fit), ari, *values))
    columns: list[Any] = list(zip(*rows, strict=True)) or [[] for _ in range(10)]
    kinds = (str, np.int64, float, np.int64, bool, *[float] * 5)
    return Sweep(*(np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)))
