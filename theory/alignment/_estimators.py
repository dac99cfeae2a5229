"""The estimates of one sample: cross-fit, in-sample, signal test, interval and predicted gain."""

import math

import numpy as np
from numpy.typing import NDArray

from porism.theory.alignment import _crossfit, _jackknife, _pca, _posterior, _ustatistic

_PERMUTATIONS = 200
_NORMAL = 1.959963984540054  # 97.5 % quantile


class Job:
    """One sample, its folds and its subspaces, each computed at most once."""

    def __init__(
        self,
        x: NDArray[np.float64],
        codes: NDArray[np.int64],
        counts: NDArray[np.int64],
        r: int,
        kind: str,
        repeats: int,
        basis: NDArray[np.float64] | None,
        rng: np.random.Generator,
    ) -> None:
        # by a power of two, which changes no digit: fourth powers neither overflow nor vanish
        x = np.ldexp(x, -np.frexp(np.abs(x).max())[1])
        self.data = _crossfit.sample(x, codes)
        self.offset = float(np.mean(np.sum(x**2, axis=1)))
        self.codes, self.counts, self.r, self.kind = codes, counts, r, kind
        self.basis = basis
        self.shares, self.weights = _ustatistic.class_weights(counts, kind)
        split, complete, self.controls, self.shuffles = rng.spawn(4)
        enough = counts.min() >= 2 and len(x) - len(counts) * _crossfit.fold_size(counts) >= 2
        self.folds = _crossfit.folds(codes, counts, repeats, split) if enough and basis is None else []
        self.seeds = [int(seed) for seed in complete.integers(2**63, size=len(self.folds) + 1)]
        self.n_random = 0
        self.reason = ""
        self.complete = False  # whether the subspace of all rows holds them all
        self._images: list[NDArray[np.float64]] | None = None

    def images(self) -> list[NDArray[np.float64]]:
        """All rows in the subspace of each fold's training rows."""
        if self._images is None:
            everyone = np.arange(len(self.codes))
            self._images = [
                self._project(np.setdiff1d(everyone, held), seed)
                for held, seed in zip(self.folds, self.seeds, strict=False)
            ]
        return self._images

    def crossfit(self) -> tuple[float, float]:
        """Unclipped and clipped share."""
        inside, whole, total = self._scatters()
        kept, lost = max(inside, 0.0), max(whole - inside, 0.0)
        value = inside / total if total else math.nan
        return value, kept / (kept + lost) if kept + lost > 0 else math.nan

    def posterior(self) -> tuple[float, float]:
        """Unclipped share, and its posterior mean."""
        inside, _, total = self._scatters()
        share = _posterior.share(inside, total, self._covariance(), self.r / self.data.d)
        return inside / total if total else math.nan, share

    def _scatters(self) -> tuple[float, float, float]:
        """Debiased scatter within the subspace and in all of the same rows, and in all of the sample."""
        total = float(self._scatter(self.data.z))
        if self.basis is not None:
            return float(self._scatter(self.data.rows @ self.basis.T)), total, total
        pairs = zip(self.images(), self.folds, strict=True)
        inside = float(np.mean([self._scatter(image[held], held) for image, held in pairs]))
        return inside, float(np.mean([self._scatter(self.data.z[held], held) for held in self.folds])), total

    def _covariance(self) -> NDArray[np.float64]:
        """Of the scatters within the subspaces and in all, from what rows of a class differ by."""
        classes = len(self.counts)
        size = np.bincount(self.codes[self.folds[0]])
        members = np.zeros((classes, len(self.folds), len(self.codes)), dtype=bool)
        within = np.zeros((2, 2))
        for k, (image, held) in enumerate(zip(self.images(), self.folds, strict=True)):
            codes = self.codes[held]
            members[codes, k, held] = True
            within += _posterior.traces(image[held], self.data.z[held], codes, classes) / len(self.folds)
        return 2 * within * _posterior.weight_products(self.shares, self.weights, size, self.counts, members)

    def in_sample(self, corrected: bool) -> tuple[float, float]:
        """Unclipped and clipped share of the in-sample scatter, corrected by permutations if asked."""
        z = self.data.z
        if self.basis is None:
            rank = _pca.top(z, 1)[2]
            image = self._project(np.arange(len(z)), self.seeds[-1])
            self.complete = rank <= self.r
        else:
            image = self.data.rows @ self.basis.T
        whole = float(self._scatter(z, debiased=False))
        if whole <= (8 * np.finfo(np.float64).eps) ** 2 * self.offset:
            self.reason = "the class means coincide"
            return math.nan, math.nan
        plain = 1.0 if self.complete else min(float(self._scatter(image, debiased=False)) / whole, 1.0)
        if not corrected:
            return plain, plain
        mean = 0.0
        for _ in range(_PERMUTATIONS):
            codes = self.shuffles.permutation(self.codes)
            parts = [
                float(_ustatistic.scatter(y, codes, self.shares, self.weights, debiased=False))
                for y in (image, z)
            ]
            mean += parts[0] / parts[1] / _PERMUTATIONS
        if self.complete or 1 - mean <= 1e-12:
            self.reason = "every permutation of the labels is captured in full"
            return math.nan, math.nan
        share = self.r / self.data.d
        value = share + (plain - mean) / (1 - mean) * (1 - share)
        return value, min(max(value, 0.0), 1.0)

    def signal(self, in_sample: bool) -> float:
        """Debiased total scatter over its jackknife error."""
        if self.counts.min() < 3:
            return math.nan
        total = float(self._scatter(self.data.z))
        shares = _ustatistic.after_deletion(self.counts, self.kind)
        error = _ustatistic.jackknife_error(_ustatistic.delete_one(self.data.z, self.codes, *shares))
        if error == 0:
            return math.copysign(math.inf, total) if total else math.nan
        return total / error

    def interval(self, value: float) -> tuple[float, float]:
        """Normal interval from the delete-one jackknife, clipped to [0, 1]."""
        if self.counts.min() < 3:  # a class of two leaves the whole without a value
            return math.nan, math.nan
        if self.basis is not None:
            shares = _ustatistic.after_deletion(self.counts, self.kind)
            parts = [
                _ustatistic.delete_one(y, self.codes, *shares)
                for y in (self.data.rows @ self.basis.T, self.data.z)
            ]
            with np.errstate(divide="ignore", invalid="ignore"):
                values = parts[0] / parts[1]
        else:
            number = int(self.counts.min()) // _crossfit.fold_size(self.counts)
            if number < 2:
                return math.nan, math.nan
            values = _jackknife.captured_without(self.data, self.folds, self.seeds[:-1], self.r, self.kind)
        if not np.isfinite(values).all():
            return math.nan, math.nan
        error = _NORMAL * _ustatistic.jackknife_error(values)
        return min(max(value - error, 0.0), 1.0), min(max(value + error, 0.0), 1.0)

    def predicted_gain(self) -> float:
        """Mean over folds of the held-out accuracy less that of random subspaces."""
        if not self.folds:
            return math.nan
        everyone = np.arange(len(self.codes))
        gains = [
            _crossfit.gain_over_random(self.data, image, np.setdiff1d(everyone, held), held, self.controls)
            for image, held in zip(self.images(), self.folds, strict=True)
        ]
        return float(np.mean(gains))

    def _project(self, train: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        vectors, _, _ = _pca.top(_pca.centred(self.data.z[train]), self.r)
        self.n_random = max(self.n_random, self.r - len(vectors))
        return _crossfit.completed(self.data, vectors, self.r, seed)

    def _scatter(
        self, y: NDArray[np.float64], rows: NDArray[np.int64] | None = None, debiased: bool = True
    ) -> NDArray[np.float64]:
        codes = self.codes if rows is None else self.codes[rows]
        return _ustatistic.scatter(y, codes, self.shares, self.weights, debiased)
