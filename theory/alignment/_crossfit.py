"""Folds, the subspace that each fold's training rows give, and held-out accuracy on it."""

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from porism.theory.alignment import _pca
from porism.theory.alignment._ustatistic import Codes, Floats

_FOLDS = 8
_SUBSPACES = 4  # random ones a fold that the accuracy is compared with


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """Rows in an orthonormal basis of at most n coordinates, since everything but random directions is there.

    ``rows`` (n, d) are centred, ``z`` (n, m) holds their coordinates and ``frame`` (d, m) the basis, None for
    the standard one.
    """

    rows: Floats
    z: Floats
    frame: Floats | None
    codes: Codes
    counts: NDArray[np.int64]

    @property
    def d(self) -> int:
        return int(self.rows.shape[1])

    def lift(self, directions: Floats) -> tuple[Floats, Floats]:
        """Coordinates of directions (k, d) in the frame, and of what is left in a frame of its own."""
        if self.frame is None:
            return directions, np.zeros((len(directions), 0))
        inside = directions @ self.frame
        outside = directions - inside @ self.frame.T
        return inside, np.asarray(np.linalg.qr(outside.T, mode="r")).T


def sample(x: Floats, codes: Codes) -> Sample:
    rows = _pca.centred(x)
    counts = np.bincount(codes)
    if len(rows) > rows.shape[1]:
        return Sample(rows, rows, None, codes, counts)
    frame, triangle = np.linalg.qr(rows.T)
    return Sample(rows, triangle.T, frame, codes, counts)


def fold_size(counts: NDArray[np.int64]) -> int:
    """Samples that each class gives to a fold."""
    return max(2, math.ceil(int(counts.min()) / 8))


def folds(codes: Codes, counts: NDArray[np.int64], repeats: int, rng: np.random.Generator) -> list[Codes]:
    """Held-out rows of every fold of every random partition."""
    per = fold_size(counts)
    number = min(_FOLDS, int(counts.min()) // per)
    members = [np.flatnonzero(codes == c) for c in range(len(counts))]
    found = []
    for _ in range(repeats):
        shuffled = [rng.permutation(rows) for rows in members]
        found += [np.concatenate([rows[k * per : (k + 1) * per] for rows in shuffled]) for k in range(number)]
    return found


def completed(data: Sample, vectors: Floats, r: int, seed: int) -> Floats:
    """Images (n, r) of the rows on vectors (k, m), completed to r dimensions by directions of the seed."""
    image = data.z @ vectors.T
    missing = r - len(vectors)
    if missing <= 0:
        return image
    inside, outside = data.lift(np.random.default_rng(seed).standard_normal((missing, data.d)))
    flat = np.concatenate([vectors, np.zeros((len(vectors), outside.shape[1]))], axis=1)
    more = np.concatenate([inside, outside], axis=1)
    for _ in range(2):
        more = more - (more @ flat.T) @ flat
        more = np.linalg.qr(more.T)[0].T
    return np.concatenate([image, data.z @ more[:, : data.z.shape[1]].T], axis=1)


def accuracy(image: Floats, codes: Codes, train: Codes, held: Codes, classes: int) -> float:
    """Share of held-out rows that are nearest to the training mean of their class."""
    member = (codes[train] == np.arange(classes)[:, None]).astype(np.float64)
    means = (member / member.sum(axis=1, keepdims=True)) @ image[train]
    distance = (means**2).sum(axis=1) - 2 * image[held] @ means.T
    return float(np.mean(distance.argmin(axis=1) == codes[held]))


def gain_over_random(
    data: Sample, image: Floats, train: Codes, held: Codes, rng: np.random.Generator
) -> float:
    """Held-out accuracy on a subspace less the mean over random orthonormal subspaces of its dimension."""
    classes, r = len(data.counts), image.shape[1]
    if (np.bincount(data.codes[train], minlength=classes) == 0).any():
        return math.nan
    control = 0.0
    for _ in range(_SUBSPACES):
        basis = np.linalg.qr(rng.standard_normal((data.d, r)))[0]
        control += accuracy(data.rows @ basis, data.codes, train, held, classes) / _SUBSPACES
    return accuracy(image, data.codes, train, held, classes) - control
