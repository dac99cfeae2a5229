"""The complete canonical form of a ReLU layer, and similarity that depends on the function only."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import one_of, positive
from porism.errors import AssumptionError, NumericalWarning
from porism.results import Result
from porism.theory.representation._activations import activate, samples
from porism.theory.representation._lines import group, lengths
from porism.theory.representation.layer import ACTIVATIONS, Layer, layer_of
from porism.theory.representation.similarity import similarity

__all__ = ["CanonicalLayer", "canonicalise", "privileged_similarity"]

Floats = NDArray[np.float64]

MERGE = 1e-8
"""Directions closer than this, times the root of their length, are one line; weights in float64."""

DROP = 1e-9
"""A line goes whose coefficient is below this share of what its units sum up to; weights in float64."""

ROUNDINGS = 8
"""Rounding errors of a scaled weight, where the precision of weights is coarser than the two above."""


@dataclasses.dataclass(frozen=True, eq=False)
class CanonicalLayer(Result):
    """A layer as a sum over lines.

    ``f(x) = sum_l c_l psi(u_l . (x, 1)) + L (x, 1)``.

    At level "functional" psi is the absolute value, and two layers are equal on R^d if and only if their
    lines, coefficients and affine parts are. At level "parallel" psi is the activation.

    Parameters
    ----------
    directions : float64 array of shape (L, d + 1)
        Unit vectors ``u_l``, bias last; at level "functional" distinct up to sign, and oriented so that the
        first entry above 1e-6 in size is positive.
    coefficients : float64 array of shape (L, o)
        Outgoing vectors ``c_l``, not 0.
    affine : float64 array of shape (o, d + 1)
        Affine part L, constant last.
    merged_gap : (float, float)
        Largest distance of directions that were merged, and smallest of those that were not; infinite where
        that is above ten times the tolerance.
    level : {"functional", "parallel"}
        Which symmetries are gone.
    activation : str
        Activation of the layer.
    slope : float
        Negative slope of "relu" and "leaky_relu".
    tol : float
        Distance up to which directions were merged.

    Examples
    --------
    >>> form = canonicalise(Layer([[2.0], [-1.0]], [0, 0], [[1, 3]], [0]))  # relu(2x) + 3 relu(-x)
    >>> form.coefficients, form.affine  # 2.5 |x| - 0.5 x
    (array([[2.5]]), array([[-0.5,  0. ]]))
    """

    directions: Floats
    coefficients: Floats
    affine: Floats
    merged_gap: tuple[float, float]
    level: str = "functional"
    activation: str = "relu"
    slope: float = 0.0
    tol: float = MERGE

    @property
    def lines(self) -> int:
        """Number L of lines."""
        return len(self.directions)

    def __call__(self, X: ArrayLike) -> Floats:
        """Outputs, shape (n, o), of samples, shape (n, d)."""
        extended, values = self._values(X)
        return values @ self.coefficients + extended @ self.affine.T

    def features(self, X: ArrayLike) -> Floats:
        """Privileged hidden matrix: what the function alone determines.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Samples in rows.

        Returns
        -------
        float64 array of shape (n, L + o)
            ``|c_l| psi(u_l . (x, 1))`` for each line, and the affine part; its kernel is that of PS-6.

        Raises
        ------
        TypeError, ValueError
            If the samples are no finite real matrix of d columns.
        """
        extended, values = self._values(X)
        return np.hstack([values * lengths(self.coefficients), extended @ self.affine.T])

    def distance(self, other: "CanonicalLayer") -> float:
        """Largest difference of directions, coefficients and affine parts, entry by entry.

        A line without a partner counts with the norm of its coefficient.

        Parameters
        ----------
        other : CanonicalLayer
            Form of the same level, with equally many inputs and outputs.

        Returns
        -------
        float
            0 for equal functions, up to rounding.

        Raises
        ------
        TypeError, ValueError
            If the other is no such form.

        Notes
        -----
        Lines are matched up to sign (at level "parallel" with it): first those within the tolerance, then the
        rest where each is the other's nearest. A pair that is farther apart than both are long counts as two
        lines without a partner. Cost O(L log L) where all lines have a partner, else O(L^2 d) for the rest.
        """
        _same_sort(self, other)
        one, two = _match(self, other)
        u, v = self.directions[one], other.directions[two]
        if self.level == "functional":
            v = v * np.where(np.square(u - v).sum(1) <= np.square(u + v).sum(1), 1.0, -1.0)[:, None]
        first, second = (lengths(form.coefficients) for form in (self, other))
        moved = np.hstack([u - v, self.coefficients[one] - other.coefficients[two]])
        parts = (
            np.abs(self.affine - other.affine),
            np.delete(first, one),
            np.delete(second, two),
            np.minimum(np.abs(moved).max(1, initial=0.0), np.maximum(first[one], second[two])),
        )
        return max(float(part.max(initial=0.0)) for part in parts)

    def equals(self, other: "CanonicalLayer", tol: float | None = None) -> bool:
        """Whether two forms, and so two functions, are the same.

        Parameters
        ----------
        other : CanonicalLayer
            Form of the same level, with equally many inputs and outputs.
        tol : float, optional
            Largest distance, > 0; by default 1e-9, times the largest entry of both forms if above 1.

        Returns
        -------
        bool
            ``distance(other) <= tol``.

        Raises
        ------
        TypeError, ValueError
            If the other is no such form, or the tolerance is not above 0.
        """
        found = self.distance(other)
        if tol is None:
            parts = (part for form in (self, other) for part in (form.coefficients, form.affine))
            tol = 1e-9 * max(1.0, *(float(np.abs(part).max(initial=0.0)) for part in parts))
        return found <= positive("tol", tol)

    def to_layer(self) -> Layer:
        """A layer of this function.

        Returns
        -------
        Layer
            One unit a line, and two for each rank of the affine part that is left.

        Notes
        -----
        ``|z| = 2 / (1 - s) phi(z) - (1 + s) / (1 - s) z`` with s the negative slope. Not minimal: a unit and
        its opposite carry a linear piece that this form adds with units of its own.
        """
        out, rest = self.coefficients, self.affine.copy()
        if self.level == "functional":
            out = out * (2 / (1 - self.slope))
            rest -= (1 + self.slope) / (1 - self.slope) * self.coefficients.T @ self.directions
        size = lengths(self.affine.reshape(1, -1))[0] + lengths(out.reshape(1, -1))[0]
        left, values, right = np.linalg.svd(rest[:, :-1], full_matrices=False)
        kept = values > 1e-12 * size
        left, right = left[:, kept] * values[kept] / (1 + self.slope), right[kept]
        W_in = np.vstack([self.directions[:, :-1], right, -right])
        b = np.concatenate([self.directions[:, -1], np.zeros(2 * len(right))])
        return Layer(W_in, b, np.hstack([out.T, left, -left]), rest[:, -1], self.activation, self.slope)

    def _values(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Samples with a column of ones, and psi of each line."""
        given = samples(X, self.directions.shape[1] - 1)
        extended = np.hstack([given, np.ones((len(given), 1))])
        z = extended @ self.directions.T
        return extended, np.abs(z) if self.level == "functional" else activate(self.activation, self.slope, z)


def canonicalise(
    layer: Any, level: str = "functional", activation: str | None = None, tol: float | None = None
) -> CanonicalLayer:
    """Remove the symmetries of a layer (PS-5).

    "functional" pairs each unit with its opposite: ``a phi(z) + b phi(-z) = (a + b) (1 - s) / 2 |z| + (a - b)
    (1 + s) / 2 z``. What is left, ``sum_l c_l |u_l . (x, 1)| + L (x, 1)``, is the same for two layers if and
    only if they are the same function. "parallel" merges units of one direction only.

    Parameters
    ----------
    layer : Layer, or what `layer_of` takes
        Layer to bring into its form.
    level : {"functional", "parallel"}, default "functional"
        Which symmetries are removed.
    activation : str, optional
        One of `ACTIVATIONS`; by default the layer's own.
    tol : float, optional
        Distance of unit directions that are taken as one, > 0; by default ``1e-8 sqrt(d + 1)``, or
        8 roundings of the weights where these are coarser.

    Returns
    -------
    CanonicalLayer
        Lines in an order that depends on their directions only.

    Raises
    ------
    AssumptionError
        If the activation is not positively homogeneous, or a leaky ReLU of slope 1 at level "functional".
    TypeError, ValueError
        If an argument is no such thing.

    Warns
    -----
    NumericalWarning
        If the smallest distance kept is within ten times the largest merged: which lines are one is then a
        matter of the tolerance.

    Notes
    -----
    Distances are of differences, never cosines, which cannot tell directions 1e-8 apart. Candidates come from
    sorting one projection, O(h log h + h d), where all pairs take memory h^2. A unit without incoming weights
    is a constant. A line goes whose coefficient is 1e-9 of what its own units sum up to. Complete for samples
    of all of R^d, and for ReLU types only: GELU, SiLU and tanh have other symmetries (PS-7).

    References
    ----------
    Our derivation: functions ``|u_l . (x, 1)|`` have kinks on distinct hyperplanes, so they are independent
    modulo affine maps.

    Examples
    --------
    >>> net = Layer([[2.0], [-1], [1], [-1]], [2, -1, 0, 0], [[1, 3, 1, -1]], [0])
    >>> form = canonicalise(net)  # 2.5 |x + 1| + .5 x - .5
    >>> form.lines, form.affine.round(12)
    (1, array([[ 0.5, -0.5]]))
    >>> canonicalise(net, "parallel").lines
    4
    """
    net = layer_of(layer)
    one_of("level", level, ("functional", "parallel"))
    name = net.activation if activation is None else one_of("activation", activation, ACTIVATIONS)
    slope = {"relu": 0.0, "leaky_relu": net.slope}.get(name)
    if slope is None:
        raise AssumptionError(
            f"activation must be 'relu' or 'leaky_relu', got {name!r}: its units do not rescale, and its "
            "complete form is not known; compare such layers with similarity, and see cka_range"
        )
    functional = level == "functional"
    if functional and slope == 1:
        raise AssumptionError(
            "level 'functional' needs a slope other than 1, got 1.0: the layer is affine and has no lines; "
            "compare W_out W_in and W_out b + c"
        )
    W = np.column_stack([net.W_in, net.b])
    eps = max(net.precision or 0.0, float(np.finfo(float).eps))
    tol = max(MERGE, ROUNDINGS * eps) * W.shape[1] ** 0.5 if tol is None else positive("tol", tol)
    affine = np.zeros((len(net.c), W.shape[1]))
    affine[:, -1] = net.c
    if functional:
        mass = np.abs(affine) + np.abs(net.W_out) @ np.abs(W)
        affine += (1 + slope) / 2 * net.W_out @ W
        affine[np.abs(affine) <= ROUNDINGS * eps * mass] = 0.0  # nothing but what cancelling leaves
    alive = W.any(1) & net.W_out.any(0)
    W, out = W[alive], net.W_out.T[alive]
    top = np.abs(W).max(1, initial=0.0)[:, None]
    size = np.linalg.norm(W / top, axis=1, keepdims=True)
    U, out = W / top / size, out * (top * size)
    if functional:
        out = out * ((1 - slope) / 2)
    constant = np.linalg.norm(U[:, :-1], axis=1) <= tol  # no kink within reach: affine
    side = np.sign(U[constant, -1:])
    affine += (out[constant] * (side if functional else np.where(side > 0, 1.0, slope))).T @ U[constant]
    U, out = U[~constant], out[~constant]
    lead, label, widest, closest = group(U, tol, signed=not functional)
    if closest < 10 * widest:
        warnings.warn(
            f"directions {widest:.3g} apart were merged and directions {closest:.3g} apart were not: the "
            "number of lines depends on the tolerance; pass tol, or weights of higher precision",
            NumericalWarning,
            stacklevel=2,
        )
    order = np.argsort(label, kind="stable")
    starts = np.searchsorted(label[order], np.arange(len(lead)))
    total = np.add.reduceat(out[order], starts) if len(lead) else out
    mass = np.add.reduceat(lengths(out[order]), starts) if len(lead) else np.zeros(0)
    kept = lengths(total) > max(DROP, ROUNDINGS * eps) * mass
    lines = U[lead[kept]]
    if functional and len(lines):
        first = (np.abs(lines) > 1e-6).argmax(1)
        lines = lines * np.sign(lines[np.arange(len(lines)), first])[:, None]
    return CanonicalLayer(lines, total[kept], affine, (widest, closest), level, name, slope, tol)


def privileged_similarity(layer_a: Any, layer_b: Any, X: ArrayLike) -> float:
    """Centred CKA of two layers that no symmetry of their parameters can move (PS-6).

    CKA of the kernels ``sum_l |c_l|^2 |z_l| |z_l|' + X L' L X'`` of the complete forms, with X extended by 1.

    Parameters
    ----------
    layer_a, layer_b : Layer, or what `layer_of` takes
        Layers on the same inputs, of ReLU type; numbers of units and outputs may differ.
    X : array_like of shape (n, d)
        Samples in rows, n >= 3.

    Returns
    -------
    float
        In [0, 1]; 1 for equal functions. NaN with a NumericalWarning where a function is constant.

    Raises
    ------
    AssumptionError
        If an activation is not of ReLU type.
    TypeError, ValueError
        If a model is no such layer, or the samples do not fit.

    Notes
    -----
    It depends on the two functions and on X. It takes the noise of symmetries away and does not make
    different functions more alike (PS-8).

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> a = Layer([[1.0, 0], [0, 1]], [0, 0], [[1, 1]], [0])
    >>> b = Layer([[9.0, 0], [0, 1], [-9, 9]], [0, 0, 1], [[1 / 9, 1, 0]], [0])
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> similarity(a.hidden(X), b.hidden(X)) < 0.7, round(privileged_similarity(a, b, X), 12)
    (True, 1.0)
    """
    first, second = layer_of(layer_a), layer_of(layer_b)
    if first.W_in.shape[1] != second.W_in.shape[1]:
        raise ValueError(
            "layer_a and layer_b must take the same inputs, got W_in of shapes "
            f"{first.W_in.shape} and {second.W_in.shape}; pass layers on the same samples"
        )
    return similarity(canonicalise(first).features(X), canonicalise(second).features(X))


def _same_sort(one: CanonicalLayer, two: Any) -> None:
    if not isinstance(two, CanonicalLayer):
        raise TypeError(
            f"other must be a CanonicalLayer, got {type(two).__name__}; canonicalise the layer first"
        )
    parallel = one.level == "parallel" and (one.activation, one.slope) != (two.activation, two.slope)
    if one.level != two.level or one.affine.shape != two.affine.shape or parallel:
        sorts = [f"{f.level} of {f.activation} with affine part {f.affine.shape}" for f in (one, two)]
        raise ValueError(
            f"forms must have the same level, inputs and outputs, got {sorts[0]} and {sorts[1]}; "
            "canonicalise both in the same way"
        )


def _match(one: CanonicalLayer, two: CanonicalLayer) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of lines: those alone together within the tolerance, then mutual nearest ones of the rest."""
    signed, count = one.level == "parallel", one.lines
    lead, label, _, _ = group(np.vstack([one.directions, two.directions]), max(one.tol, two.tol), signed)
    seen = [np.bincount(part, minlength=len(lead)) for part in (label[:count], label[count:])]
    single = (seen[0] == 1) & (seen[1] == 1)
    first, second = (np.flatnonzero(single[part]) for part in (label[:count], label[count:]))
    first, second = first[np.argsort(label[first])], second[np.argsort(label[count + second])]
    rest = [np.setdiff1d(np.arange(form.lines), used) for form, used in ((one, first), (two, second))]
    if not (rest[0].size and rest[1].size):
        return first, second
    u, v = one.directions[rest[0]], two.directions[rest[1]]
    ahead, back = _nearest(u, v, signed), _nearest(v, u, signed)
    mutual = np.flatnonzero(back[ahead] == np.arange(len(u)))
    return np.concatenate([first, rest[0][mutual]]), np.concatenate([second, rest[1][ahead[mutual]]])


def _nearest(U: Floats, V: Floats, signed: bool) -> NDArray[np.int64]:
    """Row of V nearest to each row of U, in pieces of some megabytes."""
    step, found = max(1, 1_000_000 // len(V)), []
    for start in range(0, len(U), step):
        alike = U[start : start + step] @ V.T
        found.append((alike if signed else np.abs(alike)).argmax(1))
    return np.concatenate(found)
