"""Cross-fit rho where samples have several rows: the subspace from all rows, the signal from their means."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.errors import NumericalWarning
from porism.sims.alignment.features import Features
from porism.theory.alignment import AlignmentResult, _estimators, _pca, alignment_coefficient

__all__ = ["coefficient"]


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


def coefficient(features: Features, r: int, options: dict[str, Any], seed: int) -> AlignmentResult:
    """Rho of the principal subspace of the rows of `features`, samples kept whole in the folds.

    What numbers are weak the result says itself, in `reason` and `n_random`.
    """
    single = features.per_sample()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        found = alignment_coefficient(
            single.x, single.y, r, random_state=seed, input_eps=features.input_eps, **options
        )
    if single is features or found.reason == "the features have no variance":
        return found
    assert single.y is not None
    assert single.sample is not None
    _, codes, counts = np.unique(single.y, return_inverse=True, return_counts=True)
    job = _Job(
        single.x.astype(np.float64),
        codes.ravel().astype(np.int64),
        counts,
        r,
        options.get("weights", "share"),
        options.get("repeats", 2),
        None,
        np.random.default_rng(seed),
    )
    job.tokens = features.x.astype(np.float64)
    job.owner = np.asarray(np.searchsorted(single.sample, np.asarray(features.sample)))
    value, captured = job.crossfit()
    share = r / found.d
    lost = bool(np.isnan(captured))
    return dataclasses.replace(
        found,
        rho=(captured - share) / (1 - share),
        captured=captured,
        captured_unclipped=value,
        enrichment=captured / share,
        predicted_gain=job.predicted_gain(),
        n_random=job.n_random,
        reason="no between-class scatter was found in held-out rows" if lost else "",
        signal_detected=bool(found.signal_z >= 2) and not lost,
    )
