"""Cross-fit rho where samples have several rows: the subspace from all rows, the signal from their means."""

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.errors import NumericalWarning
from porism.theory.alignment import _estimators, _inputs, _pca
from porism.theory.alignment.coefficient import (
    _DETECTED,
    _FLAT,
    AlignmentResult,
    alignment_coefficient,
)

__all__ = ["grouped_coefficient", "sample_means"]


class _Job(_estimators.Job):
    """A sample a mean, whose subspace comes from the rows of the training samples."""

    tokens: NDArray[np.float64]
    owner: NDArray[np.int64]

    def _project(self, train: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        rows = self.tokens[np.isin(self.owner, train)]
        vectors, _, _ = _pca.top(_pca.centred(rows), self.r)
        if len(vectors) < self.r:
            self.n_random = max(self.n_random, self.r - len(vectors))
            vectors = _pca.complete(vectors, self.r, rows.shape[1], np.random.default_rng(seed))
        return np.asarray(self.data.rows @ vectors.T)


def sample_means(x: Any, groups: Any) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Mean of the rows of each sample.

    Parameters
    ----------
    x : array of shape (rows, d)
        Features.
    groups : array of int, shape (rows,)
        Number of the sample of each row.

    Returns
    -------
    tuple of ndarray (samples, d), ndarray (samples,), ndarray (rows,)
        Means in the order of the numbers, the first row of each sample, and the sample of each row.

    Raises
    ------
    ValueError
        If `groups` has another length than x.

    Notes
    -----
    An offset of all rows costs no digits, and the mean of equal rows is that row.

    Examples
    --------
    >>> sample_means([[0.0], [2.0], [5.0]], [7, 7, 8])[0].ravel()
    array([1., 5.])
    """
    rows, numbers = np.asarray(x), np.asarray(groups)
    if numbers.shape != rows.shape[:1]:
        raise ValueError(
            f"groups must have shape {rows.shape[:1]}, got {numbers.shape}; give the sample of each row"
        )
    found, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    place = place.ravel()
    means = np.zeros((len(found), rows.shape[1]))
    start = rows[0].astype(np.float64)
    np.add.at(means, place, rows - start)
    return means / np.bincount(place)[:, None] + start, first, place


def grouped_coefficient(
    x: Any,
    y: Any,
    groups: Any,
    r: int,
    *,
    weights: str = "share",
    repeats: int = 2,
    ci: bool = False,
    input_eps: float | None = None,
    random_state: int = 0,
) -> AlignmentResult:
    """Rho of the principal subspace of all rows, for classes of samples that have several rows.

    The subspace of a fold comes from all rows of its training samples, as an adapter would see them; the
    signal is that of the samples' means. Rows of a sample are never split between training and held out.

    Parameters
    ----------
    x : array of shape (rows, d)
        Features.
    y : array of shape (rows,)
        Class of the sample that each row belongs to.
    groups : array of int, shape (rows,), or None
        Number of that sample; None: every row is one.
    r : int
        Dimension of the subspace, 1 to d - 1.
    weights, repeats, ci, input_eps
        As in :func:`alignment_coefficient`; the interval is that of the means alone.
    random_state : int, default 0
        Seed of the folds.

    Returns
    -------
    AlignmentResult
        ``n`` counts samples. What is weak about the numbers stands in `reason` and `n_random`; no warning.

    Raises
    ------
    TypeError, ValueError
        As :func:`alignment_coefficient`.

    References
    ----------
    Section 2.4, cross-fit estimate (reconstruction).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(32) % 2, 3)
    >>> x = rng.standard_normal((96, 20)) + 4 * y[:, None] * np.eye(20)[0]
    >>> grouped_coefficient(x, y, np.repeat(np.arange(32), 3), 2).n
    32
    """
    rows, eps = _inputs.features(x)
    eps = eps if input_eps is None else input_eps
    options: dict[str, Any] = {"weights": weights, "repeats": repeats, "ci": ci, "input_eps": eps}
    means, first, owner = sample_means(rows, np.arange(len(rows)) if groups is None else groups)
    single = len(means) == len(rows)
    means, classes = (rows, np.asarray(y)) if single else (means, np.asarray(y)[first])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        found = alignment_coefficient(means, classes, r, random_state=random_state, **options)
    if single or found.reason == _FLAT:
        return found
    _, codes, counts = np.unique(classes, return_inverse=True, return_counts=True)
    rng = np.random.default_rng(random_state)
    job = _Job(means, codes.ravel().astype(np.int64), counts, r, weights, repeats, None, rng)
    job.tokens, job.owner = rows, owner
    value, captured = job.crossfit()
    share, lost = r / found.d, math.isnan(captured)
    return dataclasses.replace(
        found,
        rho=(captured - share) / (1 - share),
        captured=captured,
        captured_unclipped=value,
        enrichment=captured / share,
        predicted_gain=job.predicted_gain(),
        n_random=job.n_random,
        reason="no between-class scatter was found in held-out rows" if lost else "",
        signal_detected=bool(found.signal_z >= _DETECTED) and not lost,
    )
