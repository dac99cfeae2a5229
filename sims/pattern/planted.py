"""Planted patterns: matrices whose order is known, shuffled and noisy, and maps of pure noise."""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, one_of
from porism.theory.pattern import Mask, PatternFit, masks
from porism.theory.pattern.fit import Placement

__all__ = ["PlantedTruth", "planted_pattern", "random_softmax"]

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class PlantedTruth(Placement):
    """What a planted matrix was made of.

    Parameters
    ----------
    row_order, col_order : int64 arrays, shapes (m,) and (n,)
        Orders that undo the shuffle: ``A[row_order][:, col_order]`` shows the pattern.
    signal, low_rank : float64 arrays, shape (m, n)
        Pattern and low-rank part, in the shuffled order of A.
    mass_outside : float
        Mass outside (d², squared) at the planted order, noise included; the best order may do better.
    mask : Mask
        The pattern.

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> A, truth = planted_pattern(masks.band(5, 1), random_state=0)
    >>> truth.mass_outside, bool(np.array_equal(A, truth.signal))
    (0.0, True)
    """

    row_order: NDArray[np.int64]
    col_order: NDArray[np.int64]
    signal: Array
    low_rank: Array
    mass_outside: float
    mask: Mask

    def found_by(self, fit: PatternFit) -> bool:
        """Whether a fit recovered the planted order, up to symmetries of the mask.

        Parameters
        ----------
        fit : PatternFit
            A fit of the planted matrix to the same mask.

        Returns
        -------
        bool
            True if both put the same cells inside the mask.
        """
        return self.equivalent(fit)


def planted_pattern(
    mask: Mask | ArrayLike,
    *,
    signal: str = "gauss",
    jitter: float = 0.0,
    noise: float = 0.0,
    low_rank: int = 0,
    order: str = "independent",
    random_state: int | np.random.Generator | None = None,
) -> tuple[Array, PlantedTruth]:
    """Plant a pattern, add what hides it, and shuffle.

    ``A = P' (S * X + low rank + noise) Q`` with X of the kind asked for.

    Parameters
    ----------
    mask : Mask or array_like, shape (m, n)
        The pattern S, weights in [0, 1].
    signal : {"gauss", "ones", "sign"}
        X: standard normal, all ones, or random signs.
    jitter : float, default 0
        Standard deviation of a factor ``1 + jitter z`` on each entry of X, >= 0.
    noise : float, default 0
        Standard deviation of Gaussian noise on every cell, >= 0.
    low_rank : int, default 0
        Rank of an added product of Gaussian factors, 0..min(m, n).
    order : {"independent", "common", "none"}
        How it is shuffled.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    (float64 array (m, n), PlantedTruth)
        The matrix and what it was made of.

    Raises
    ------
    ValueError
        If an option is out of range or ``order="common"`` meets a mask that is not square.

    Examples
    --------
    >>> from porism.theory.pattern import masks, pattern_distance
    >>> A, truth = planted_pattern(masks.band(6, 1), signal="ones", order="common", random_state=1)
    >>> truth.found_by(pattern_distance(A, truth.mask, order="common"))
    True
    """
    mask = mask if isinstance(mask, Mask) else masks.from_array(mask)
    m, n = mask.shape
    one_of("signal", signal, ("gauss", "ones", "sign"))
    one_of("order", order, ("independent", "common", "none"))
    if order == "common" and m != n:
        raise ValueError(f"order='common' needs a square mask, got {(m, n)}; use order='independent'")
    jitter, noise = _spread("jitter", jitter), _spread("noise", noise)
    integer("low_rank", low_rank, 0, min(m, n))
    rng = generator(random_state, "random_state")
    X = np.ones((m, n)) if signal == "ones" else rng.standard_normal((m, n))
    if signal == "sign":
        X = np.where(X < 0, -1.0, 1.0)
    if jitter:
        X = X * (1 + jitter * rng.standard_normal((m, n)))
    pattern = mask.S * X
    extra = rng.standard_normal((m, low_rank)) @ rng.standard_normal((low_rank, n))
    rough = noise * rng.standard_normal((m, n)) if noise else np.zeros((m, n))
    rows, columns = np.arange(m), np.arange(n)
    if order != "none":
        rows = rng.permutation(m)
        columns = rows if order == "common" else rng.permutation(n)
    place = np.ix_(np.argsort(rows), np.argsort(columns))
    A = pattern + extra + rough
    B = A**2
    outside = float((mask.penalty * B).sum() / B.sum()) if B.any() else 0.0
    return A[place], PlantedTruth(
        rows.astype(np.int64), columns.astype(np.int64), pattern[place], extra[place], outside, mask
    )


def random_softmax(
    T: int, scale: float = 1.0, causal: bool = False, random_state: int | np.random.Generator | None = None
) -> Array:
    """Attention map of nothing: row-softmax of independent Gaussian logits.

    ``A[i] = softmax(scale z_i)``, over j <= i where causal.

    Parameters
    ----------
    T : int
        Tokens, >= 1.
    scale : float, default 1
        Standard deviation of the logits, >= 0; large ones give one peak a row.
    causal : bool, default False
        Whether rows see only the columns up to their own.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    float64 array, shape (T, T)
        Rows sum to 1.

    Examples
    --------
    >>> random_softmax(2, 0.0, causal=True).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    integer("T", T, 1)
    logits = _spread("scale", scale) * generator(random_state, "random_state").standard_normal((T, T))
    if causal:
        logits = np.where(np.tri(T, dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    out: Array = weights / weights.sum(axis=1, keepdims=True)
    return out


def _spread(name: str, value: float) -> float:
    number = float(finite_array(name, value, ndim=0))
    if number < 0:
        raise ValueError(f"{name} must be >= 0, got {number}; pass a standard deviation")
    return number
