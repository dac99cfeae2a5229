"""Changes of a layer's parameters that leave its function as it is, and the form that undoes them.

A function refuses a layer on which its change would not be a symmetry.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer
from porism.errors import AssumptionError
from porism.theory.representation.canonical import CanonicalLayer, canonicalise, privileged_similarity
from porism.theory.representation.layer import Layer, layer_of

__all__ = [
    "CanonicalLayer",
    "Layer",
    "add_cancelling",
    "add_linear_null",
    "add_null",
    "canonicalise",
    "duplicate",
    "layer_of",
    "privileged_similarity",
    "scale",
]

Floats = NDArray[np.float64]


def scale(layer: Any, factors: ArrayLike) -> Layer:
    """Scale the incoming side of each unit up and the outgoing side down (PS-1).

    ``(a / r) phi(r z) = a phi(z)`` for r > 0 and a ReLU or leaky ReLU.

    Parameters
    ----------
    layer : Layer, or what `layer_of` takes
        Layer of ReLU type.
    factors : array_like of shape (h,)
        Factor r of each unit, > 0.

    Returns
    -------
    Layer
        The same function; hidden columns are multiplied by the factors.

    Raises
    ------
    AssumptionError
        If the activation is not positively homogeneous.
    TypeError, ValueError
        If the factors are not h positive numbers.

    Notes
    -----
    Cost O(h (d + o)).

    References
    ----------
    Neyshabur, Salakhutdinov and Srebro (2015), "Path-SGD", arXiv:1506.02617.

    Examples
    --------
    >>> net = Layer([[1.0], [2.0]], [0, 1], [[1, 1]], [0])
    >>> scale(net, [2, 4]).W_out
    array([[0.5 , 0.25]])
    """
    layer = layer_of(layer)
    _homogeneous(layer, "scale")
    r = finite_array("factors", factors, ndim=1)
    if r.shape != (layer.units,) or not (r > 0).all():
        raise ValueError(
            f"factors must be {layer.units} numbers > 0, one a unit, got shape {r.shape}"
            f"{f' and a smallest of {r.min():g}' if r.size else ''}; a negative factor changes the function"
        )
    return dataclasses.replace(layer, W_in=layer.W_in * r[:, None], b=layer.b * r, W_out=layer.W_out / r)


def duplicate(layer: Any, counts: ArrayLike, splits: ArrayLike | None = None) -> Layer:
    """Replace each unit by copies that share its outgoing weights (PS-1).

    ``sum_i s_i a phi(z) = a phi(z)`` where the shares sum to 1, for every activation.

    Parameters
    ----------
    layer : Layer, or what `layer_of` takes
        Layer of any activation.
    counts : array_like of int, shape (h,)
        Number of copies of each unit, >= 1.
    splits : array_like of shape (sum(counts),), optional
        Share of each copy, unit by unit; those of a unit sum to 1, and may be negative. By default equal.

    Returns
    -------
    Layer
        The same function with sum(counts) units, copies side by side. Its kernel is that of `scale` by the
        root of the counts (PS-3).

    Raises
    ------
    TypeError, ValueError
        If the counts are not h positive whole numbers, or the shares of a unit do not sum to 1.

    Notes
    -----
    Sums are judged to 1e-12 of the sum of sizes. Cost O(sum(counts) (d + o)).

    References
    ----------
    Fukumizu and Amari (2000), "Local minima and plateaus in hierarchical structures of multilayer
    perceptrons", doi:10.1016/S0893-6080(00)00009-5.

    Examples
    --------
    >>> net = Layer([[1.0], [2.0]], [0, 1], [[1, 1]], [0])
    >>> duplicate(net, [2, 1], [3, -2, 1]).W_out
    array([[ 3., -2.,  1.]])
    """
    layer = layer_of(layer)
    given = np.asarray(counts)
    if given.shape != (layer.units,):
        raise ValueError(
            f"counts must be {layer.units} whole numbers >= 1, one a unit, got shape {given.shape}"
        )
    m = np.array([integer(f"counts[{k}]", value, 1) for k, value in enumerate(given)], dtype=np.int64)
    starts = np.cumsum(m) - m
    shares = np.repeat(1 / m, m) if splits is None else finite_array("splits", splits, ndim=1)
    if shares.shape != (m.sum(),):
        raise ValueError(
            f"splits must have one share a copy, {m.sum()} in all, got shape {shares.shape}; list them "
            "unit by unit"
        )
    off = np.abs(np.add.reduceat(shares, starts) - 1)
    wrong = off > 1e-12 * np.maximum(np.add.reduceat(np.abs(shares), starts), 1)
    if wrong.any():
        k = int(wrong.argmax())
        total = shares[starts[k] : starts[k] + m[k]].sum()
        raise ValueError(f"splits must sum to 1 for each unit, got {total:g} for unit {k}; divide them by it")
    unit = np.repeat(np.arange(layer.units), m)
    return dataclasses.replace(
        layer, W_in=layer.W_in[unit], b=layer.b[unit], W_out=layer.W_out[:, unit] * shares
    )


def add_null(layer: Any, W: ArrayLike, b: ArrayLike) -> Layer:
    """Add units that nothing reads: outgoing weights are 0 (PS-1).

    ``0 phi(w . x + b) = 0``, for every activation.

    Parameters
    ----------
    layer : Layer, or what `layer_of` takes
        Layer of any activation.
    W : array_like of shape (m, d)
        Incoming weights of the units added.
    b : array_like of shape (m,)
        Their biases.

    Returns
    -------
    Layer
        The same function with m units more, at the end.

    Raises
    ------
    TypeError, ValueError
        If the arrays do not fit.

    Notes
    -----
    `cka_after_addition` says what it does to CKA. Cost O(m (d + o)).

    References
    ----------
    Our formulation.

    Examples
    --------
    >>> net = Layer([[1.0]], [0], [[1]], [0])
    >>> add_null(net, [[7.0]], [1]).W_out
    array([[1., 0.]])
    """
    layer = layer_of(layer)
    weights, biases = _incoming(layer, W, b)
    return _append(layer, weights, biases, np.zeros((len(layer.c), len(biases))))


def add_cancelling(layer: Any, W: ArrayLike, b: ArrayLike, out: ArrayLike, ratio: ArrayLike = 1.0) -> Layer:
    """Add pairs of parallel units that cancel each other (PS-1).

    ``a phi(z) - (a / r) phi(r z) = 0`` for r > 0; for r = 1 with every activation.

    Parameters
    ----------
    layer : Layer, or what `layer_of` takes
        Layer of ReLU type, or any where all ratios are 1.
    W : array_like of shape (m, d)
        Incoming weights of the first unit of each pair.
    b : array_like of shape (m,)
        Their biases.
    out : array_like of shape (m, o)
        Their outgoing weights a.
    ratio : array_like of shape (m,) or float, default 1
        Factor r of the second unit, > 0.

    Returns
    -------
    Layer
        The same function with 2 m units more, at the end: the first of each pair, then the second.

    Raises
    ------
    AssumptionError
        If a ratio is not 1 and the activation not positively homogeneous.
    TypeError, ValueError
        If the arrays do not fit, or a ratio is not above 0.

    Notes
    -----
    Outgoing weights of a unit need not vanish for it to do nothing. Cost O(m (d + o)).

    References
    ----------
    Our formulation.

    Examples
    --------
    >>> net = Layer([[1.0]], [0], [[1]], [0])
    >>> add_cancelling(net, [[7.0]], [1], [[3]], 2.0).W_out
    array([[ 1. ,  3. , -1.5]])
    """
    layer = layer_of(layer)
    weights, biases = _incoming(layer, W, b)
    a, r = finite_array("out", out, ndim=2), finite_array("ratio", ratio)
    if a.shape != (len(biases), len(layer.c)) or r.shape not in ((), (len(biases),)) or not (r > 0).all():
        least = f" and a smallest ratio of {r.min():g}" if r.size else ""
        raise ValueError(
            f"out must have shape {(len(biases), len(layer.c))} and ratio {(len(biases),)} or be one number, "
            f"all > 0, got shapes {a.shape} and {r.shape}{least}; pass one outgoing vector and ratio a pair"
        )
    if (r != 1).any():
        _homogeneous(layer, "a ratio other than 1")
    r = np.broadcast_to(r, biases.shape)
    return _append(
        layer,
        np.vstack([weights, weights * r[:, None]]),
        np.concatenate([biases, biases * r]),
        np.hstack([a.T, -a.T / r]),
    )


def add_linear_null(layer: Any, w: ArrayLike, out: ArrayLike, b: ArrayLike | None = None) -> Layer:
    """Add a group of units that cancel as linear pieces, no two of them parallel (PS-5, PS-7).

    ``sum_i [phi(z_i) - phi(-z_i)] - phi(z) + phi(-z) = 0`` with ``z = sum_i z_i``, for each activation with
    ``phi(z) - phi(-z)`` proportional to z.

    Parameters
    ----------
    layer : Layer, or what `layer_of` takes
        Layer of ReLU, leaky ReLU, GELU (both forms) or SiLU.
    w : array_like of shape (m, d)
        Incoming weights of the z_i; with m = 2 it is a group of six.
    out : array_like of shape (o,)
        Outgoing weights of the z_i; those of their opposites are the negative ones.
    b : array_like of shape (m,), optional
        Biases of the z_i, by default 0.

    Returns
    -------
    Layer
        The same function with 2 (m + 1) units more, at the end: all z_i, their sum, and their opposites.

    Raises
    ------
    AssumptionError
        If ``phi(z) - phi(-z)`` is not linear, as for tanh.
    TypeError, ValueError
        If the arrays do not fit.

    Notes
    -----
    Merging parallel units cannot see such a group; `canonicalise` at level "functional" does. Cost
    O(m (d + o)).

    References
    ----------
    Our counterexample to a list of three primitives.

    Examples
    --------
    >>> net = Layer([[1.0]], [0], [[1]], [0])
    >>> six = add_linear_null(net, [[2.0], [3.0]], [1])
    >>> six.units, float(abs(six([[0.7]]) - net([[0.7]])).max()) < 1e-14
    (7, True)
    """
    layer = layer_of(layer)
    if layer.activation == "tanh":
        raise AssumptionError(
            "add_linear_null needs an activation with phi(z) - phi(-z) proportional to z, got 'tanh'; the "
            "group would change the function"
        )
    weights = finite_array("w", w, ndim=2)
    weights, biases = _incoming(layer, weights, np.zeros(len(weights)) if b is None else b, name="w")
    a = finite_array("out", out, ndim=1)
    if a.shape != layer.c.shape:
        raise ValueError(f"out must have one weight an output, {len(layer.c)}, got shape {a.shape}")
    weights = np.vstack([weights, weights.sum(0)])
    biases = np.append(biases, biases.sum())
    side = np.ones(len(biases))
    side[-1] = -1.0
    outgoing = np.outer(a, side)
    return _append(
        layer,
        np.vstack([weights, -weights]),
        np.concatenate([biases, -biases]),
        np.hstack([outgoing, -outgoing]),
    )


def _homogeneous(layer: Layer, what: str) -> None:
    if layer.negative_slope is None:
        raise AssumptionError(
            f"{what} needs activation 'relu' or 'leaky_relu', got {layer.activation!r}, for which phi(r z) "
            "is not r phi(z); duplicate and add_null work for every activation"
        )


def _incoming(layer: Layer, W: ArrayLike, b: ArrayLike, name: str = "W") -> tuple[Floats, Floats]:
    weights, biases = finite_array(name, W, ndim=2), finite_array("b", b, ndim=1)
    d = layer.W_in.shape[1]
    if weights.shape != (len(biases), d):
        raise ValueError(
            f"{name} must have shape (m, {d}) and b shape (m,), got {weights.shape} and {biases.shape}; pass "
            "one row and one bias a unit"
        )
    return weights, biases


def _append(layer: Layer, W: Floats, b: Floats, out: Floats) -> Layer:
    return dataclasses.replace(
        layer,
        W_in=np.vstack([layer.W_in, W]),
        b=np.concatenate([layer.b, b]),
        W_out=np.hstack([layer.W_out, out]),
    )
