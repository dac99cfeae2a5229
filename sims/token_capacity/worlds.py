"""Small worlds with a known truth: random transformers, families of widths, symmetric and scalar nets."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import generator, integer, one_of
from porism.sims.token_capacity._models import ARMS, MODELS, position_gradients, random_model, saved_bytes

__all__ = [
    "ARMS",
    "MODELS",
    "WIDTH_FAMILIES",
    "ScalarGradient",
    "SymmetricNet",
    "causal_averages",
    "cyclic_orbit",
    "delimited_rows",
    "position_gradients",
    "random_model",
    "saved_bytes",
    "scalar_net",
    "symmetric_net",
    "width_family",
]

Floats = NDArray[np.float64]
Seed = np.random.Generator | int | None

WIDTH_FAMILIES = ("features", "independent")
"""ReLU features of data of fixed dimension, whose spectrum converges; independent entries, which fill up."""


def delimited_rows(
    rng: Seed, rows: int = 64, length: int = 10, *, delimiter: int | None = 6
) -> NDArray[np.int64]:
    """Rows of random bits after a fixed first token, with a fixed token in the middle.

    ``ids[n, 0] = 3``, ``ids[n, delimiter] = 6``, all others 4 or 5.

    Parameters
    ----------
    rng : Generator, int or None
        Source of the bits.
    rows, length : int
        Shape, >= 1.
    delimiter : int or None, default 6
        Index of the constant token, in [1, length); None for no such token.

    Returns
    -------
    ndarray of int64, shape (rows, length)
        Ids; the number of distinct prefixes is 1 at index 0 and does not grow at the delimiter.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    With 64 rows prefixes are all distinct within some ten bits.

    References
    ----------
    TC-5.

    Examples
    --------
    >>> ids = delimited_rows(0, 4, 3, delimiter=2)
    >>> ids[:, 0].tolist(), ids[:, 2].tolist()
    ([3, 3, 3, 3], [6, 6, 6, 6])
    """
    rows, length = integer("rows", rows, 1), integer("length", length, 1)
    ids = generator(rng).integers(4, 6, (rows, length))
    ids[:, 0] = 3
    if delimiter is not None:
        ids[:, integer("delimiter", delimiter, 1, length - 1)] = 6
    return ids


def causal_averages(
    rng: Seed, rows: int = 64, length: int = 64, width: int = 32, *, mean: float = 0.45
) -> Floats:
    """Causal attention with equal weights over independent tokens.

    ``h_t = (1 / t) (e_1 + ... + e_t)`` with ``e ~ N(mean 1, I)``.

    Parameters
    ----------
    rng : Generator, int or None
        Source of the tokens.
    rows, length, width : int
        Shape, >= 1.
    mean : float, default 0.45
        Mean of every coordinate; with 0 the effective rank stays flat in t.

    Returns
    -------
    ndarray of float64, shape (rows, length, width)
        Averages.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Fluctuations fall as 1 / t, the mean stays: the effective rank of the uncentred Gram matrix falls to 1.

    References
    ----------
    TC-5, a reconstruction.

    Examples
    --------
    >>> causal_averages(0, 2, 5, 3).shape
    (2, 5, 3)
    """
    shape = integer("rows", rows, 1), integer("length", length, 1), integer("width", width, 1)
    tokens = float(mean) + generator(rng).standard_normal(shape)
    averages: Floats = tokens.cumsum(1) / np.arange(1, length + 1)[:, None]
    return averages


def width_family(
    kind: str, widths: Iterable[int], rng: Seed, *, rows: int = 64, dim: int = 4
) -> list[Floats]:
    """Hidden states of the same examples at several widths.

    "features": ``relu(z W) / sqrt(d)`` with z of dimension `dim`; "independent": ``N(0, 1 / d)`` entries.

    Parameters
    ----------
    kind : {"features", "independent"}
        Whether the spectrum of the Gram matrix converges as the width d grows, or fills up to N.
    widths : iterable of int
        Widths d, >= 1.
    rng : Generator, int or None
        Source of data and weights.
    rows : int, default 64
        Examples N, >= 1.
    dim : int, default 4
        Dimension of the data behind the features, >= 1.

    Returns
    -------
    list of ndarray, shapes (rows, d)
        One for each width; the data are the same for all, the weights are fresh.

    Raises
    ------
    ValueError
        If the kind is unknown or a number is out of range.

    Notes
    -----
    For independent entries tr(A)^2 and the squared Frobenius norm of A have the ratio of means
    ``(N d + 2) / (N + d + 1)``.

    References
    ----------
    TC-2 (e), a reconstruction. The limit for features is the kernel of Cho and Saul (2009), degree 1.

    Examples
    --------
    >>> [X.shape for X in width_family("independent", [2, 8], 0, rows=5)]
    [(5, 2), (5, 8)]
    """
    one_of("kind", kind, WIDTH_FAMILIES)
    rng, rows, dim = generator(rng), integer("rows", rows, 1), integer("dim", dim, 1)
    data = rng.standard_normal((rows, dim))
    found = []
    for width in widths:
        d = integer("widths", width, 1)
        if kind == "features":
            X = np.maximum(data @ rng.standard_normal((dim, d)), 0)
        else:
            X = rng.standard_normal((rows, d))
        found.append(X / np.sqrt(d))
    return found


def cyclic_orbit(sequence: ArrayLike) -> NDArray[Any]:
    """All cyclic shifts of a sequence: a set of inputs closed under a transitive group of positions.

    ``orbit[n, t] = sequence[(t + n) mod T]``.

    Parameters
    ----------
    sequence : array_like, shape (T,)
        Tokens.

    Returns
    -------
    ndarray, shape (T, T)
        One shift a row, the sequence itself first.

    Raises
    ------
    ValueError
        If the sequence is not one-dimensional.

    Notes
    -----
    Every token stands once at every position.

    References
    ----------
    TC-4.

    Examples
    --------
    >>> cyclic_orbit([1, 2, 3]).tolist()
    [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    """
    row = np.asarray(sequence)
    if row.ndim != 1:
        raise ValueError(f"sequence must have shape (T,), got {row.shape}; pass one row")
    return np.stack([np.roll(row, -n) for n in range(len(row))])


@dataclass(frozen=True, eq=False)
class SymmetricNet:
    """One layer of bidirectional attention and a nonlinear readout: the net of TC-4.

    ``e = E[ids] + places``, ``y = W e``, ``h = e + softmax(e Q e') y``, ``f = sum over read t of a .
    tanh(M h_t)``.

    Parameters
    ----------
    table : float64 array of shape (V, d)
        Embeddings E.
    score, weight, mixing : float64 arrays of shape (d, d), (d, d) and (h, d)
        Q, W and M.
    slope : float64 array of shape (h,)
        a.
    places : float64 array of shape (T, d)
        Position embeddings; zeros keep the symmetry.
    read : tuple of int
        Positions that the readout sees; all of them keep the symmetry.

    Examples
    --------
    >>> net = symmetric_net(0, length=3)
    >>> net.watch([[0, 1, 2]])[0].shape
    (1, 3, 6)
    """

    table: Floats
    score: Floats
    weight: Floats
    mixing: Floats
    slope: Floats
    places: Floats
    read: tuple[int, ...]

    def value(self, ids: Any, weight: Any = None) -> Any:
        """Scalar of each example.

        Parameters
        ----------
        ids : array_like of int, shape (N, T)
            Tokens.
        weight : array_like, shape (d, d), optional
            In the place of W; may be complex.

        Returns
        -------
        ndarray, shape (N,)
            f.
        """
        x, attention = self._mix(ids)
        y = x @ (self.weight if weight is None else weight).T
        rows = (x + attention @ y)[:, list(self.read)]
        return (np.tanh(rows @ self.mixing.T) @ self.slope).sum(-1)

    def watch(self, ids: Any) -> tuple[Floats, Floats]:
        """Inputs of W and gradients of f at its outputs.

        Parameters
        ----------
        ids : array_like of int, shape (N, T)
            Tokens.

        Returns
        -------
        tuple of ndarray, shapes (N, T, d)
            x and g.
        """
        x, attention = self._mix(ids)
        hidden = np.tanh((x + attention @ (x @ self.weight.T)) @ self.mixing.T)
        back = ((1 - hidden**2) * self.slope) @ self.mixing
        seen = np.zeros(x.shape[1])
        seen[list(self.read)] = 1
        return x, attention.swapaxes(1, 2) @ (back * seen[:, None])

    def _mix(self, ids: Any) -> tuple[Floats, Floats]:
        x = self.table[np.asarray(ids)] + self.places
        scores = x @ self.score @ x.swapaxes(1, 2)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return x, weights / weights.sum(-1, keepdims=True)


def symmetric_net(
    rng: Seed, *, length: int = 8, vocab: int = 12, width: int = 6, places: float = 0.0, readout: str = "all"
) -> SymmetricNet:
    """Draw a `SymmetricNet`; position embeddings or a readout at one position break its symmetry.

    ``places ~ N(0, places^2)``, all other entries ``N(0, 1 / d)``, embeddings ``N(0, 1)``.

    Parameters
    ----------
    rng : Generator, int or None
        Source of the weights.
    length, vocab, width : int
        T, V and d, >= 1.
    places : float, default 0.0
        Size of the position embeddings.
    readout : {"all", "first"}
        What the readout sees.

    Returns
    -------
    SymmetricNet
        The net.

    Raises
    ------
    ValueError
        If a number is out of range or the readout unknown.

    Notes
    -----
    Without position embeddings and with all positions read, f does not change when positions are permuted.

    References
    ----------
    TC-4.

    Examples
    --------
    >>> net = symmetric_net(0)
    >>> bool(np.ptp(net.value(cyclic_orbit(np.arange(8)))) < 1e-12)
    True
    """
    rng, one = generator(rng), one_of("readout", readout, ("all", "first"))
    T, V, d = integer("length", length, 1), integer("vocab", vocab, 1), integer("width", width, 1)
    score, weight, mixing = (rng.standard_normal((d, d)) / np.sqrt(d) for _ in range(3))
    return SymmetricNet(
        rng.standard_normal((V, d)),
        score,
        weight,
        mixing,
        rng.standard_normal(d),
        float(places) * rng.standard_normal((T, d)),
        tuple(range(T)) if one == "all" else (0,),
    )


@dataclass(frozen=True)
class ScalarGradient:
    """Gradients of the scalar net of O-8, exact.

    Parameters
    ----------
    full : Fraction
        Of all positions.
    cut : Fraction
        Of the selected positions, every other activation being a constant.
    true : Fraction
        Sum over selected positions of the full gradient through their own use of the weight.

    Examples
    --------
    >>> scalar_net([2]).cut
    Fraction(5, 2)
    """

    full: Fraction
    cut: Fraction
    true: Fraction


def scalar_net(
    selected: Iterable[int], *, x: Iterable[Any] = (1, 2, 3), w: Any = Fraction(1, 2)
) -> ScalarGradient:
    """Differentiate a causal net of two layers with one weight and equal attention, in exact fractions.

    ``v_u = w x_u``, ``h_t = x_t + mean(v_0..v_t)``, ``v'_u = w h_u``, ``out = h_T + mean(v'_0..v'_T)``.

    Parameters
    ----------
    selected : iterable of int
        Positions S in [0, T].
    x : iterable of rational, default (1, 2, 3)
        Inputs.
    w : rational, default 1/2
        The weight that all positions of both layers share.

    Returns
    -------
    ScalarGradient
        Full, cut and true gradient with respect to w.

    Raises
    ------
    ValueError
        If a position is out of range.

    Notes
    -----
    Tangents are carried forward; those of positions outside S are set to 0 for the cut gradient.

    References
    ----------
    TC-8 (c), oracle O-8.

    Examples
    --------
    >>> scalar_net([0, 2]).cut, scalar_net([0, 2]).true
    (Fraction(32, 9), Fraction(131, 36))
    """
    values = [Fraction(value) for value in x]
    every = set(range(len(values)))
    chosen = {integer("selected", t, 0, len(values) - 1) for t in selected}
    weight = Fraction(w)
    return ScalarGradient(
        _tangent(values, weight, every, every),
        _tangent(values, weight, chosen, chosen),
        _tangent(values, weight, chosen, every),
    )


def _tangent(x: list[Fraction], w: Fraction, moved: set[int], alive: set[int]) -> Fraction:
    """Derivative when w moves at the positions `moved`, activations outside `alive` being constants."""
    last = len(x) - 1

    def mean(values: list[Fraction], t: int) -> Fraction:
        return sum(values[: t + 1], Fraction(0)) / (t + 1)

    def alone(t: int, value: Fraction) -> Fraction:
        return value if t in alive else Fraction(0)

    v = [w * value for value in x]
    dv = [alone(t, x[t] if t in moved else Fraction(0)) for t in range(last + 1)]
    h = [x[t] + mean(v, t) for t in range(last + 1)]
    dh = [alone(t, mean(dv, t)) for t in range(last + 1)]
    dv2 = [alone(t, (h[t] if t in moved else 0) + w * dh[t]) for t in range(last + 1)]
    return dh[last] + mean(dv2, last)
