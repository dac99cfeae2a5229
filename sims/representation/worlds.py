"""Random layers, and copies of a layer that compute the same with other parameters."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, one_of, positive
from porism.theory.representation import (
    Layer,
    add_cancelling,
    add_linear_null,
    add_null,
    duplicate,
    layer_of,
    scale,
)

__all__ = ["PRIMITIVES", "alive_layer", "random_kernels", "random_layer", "reshuffled", "scramble"]

Floats = NDArray[np.float64]

PRIMITIVES = ("duplicate", "null", "cancel", "linear", "scale", "permute")
"""Symmetries that `scramble` knows, in the order in which they act."""


def random_layer(
    units: int,
    inputs: int,
    outputs: int,
    rng: np.random.Generator | int | None,
    activation: str = "relu",
    slope: float = 0.01,
) -> Layer:
    """Layer with independent Gaussian weights, of which no two units share a line.

    ``w ~ N(0, I), b ~ N(0, 1/4), a ~ N(0, I)``

    Parameters
    ----------
    units, inputs, outputs : int
        Sizes h, d and o, >= 1.
    rng : Generator, int or None
        Source of the weights.
    activation : str, default "relu"
        Name of the activation.
    slope : float, default 0.01
        Negative slope of "leaky_relu".

    Returns
    -------
    Layer
        The layer.

    Raises
    ------
    TypeError, ValueError
        If a size is no whole number >= 1.

    Examples
    --------
    >>> random_layer(4, 3, 2, 0).W_out.shape
    (2, 4)
    """
    sizes = {"units": units, "inputs": inputs, "outputs": outputs}
    h, d, o = (integer(name, value, 1) for name, value in sizes.items())
    draw = generator(rng)
    return Layer(
        draw.normal(size=(h, d)),
        draw.normal(size=h) / 2,
        draw.normal(size=(o, h)),
        draw.normal(size=o),
        activation,
        slope,
    )


def alive_layer(units: int, X: ArrayLike, outputs: int, rng: np.random.Generator | int | None) -> Layer:
    """Random ReLU layer of which no unit is constant on samples; `cka_range` needs such a one.

    As `random_layer`, with units drawn again until each varies.

    Parameters
    ----------
    units : int
        Number of units, >= 1.
    X : array_like of shape (n, d)
        Samples, not all the same.
    outputs : int
        Number of outputs, >= 1.
    rng : Generator, int or None
        Source of the weights.

    Returns
    -------
    Layer
        The layer.

    Raises
    ------
    TypeError, ValueError
        If a size is no whole number >= 1, or all samples are the same.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(9, 3))
    >>> bool((np.ptp(alive_layer(50, X, 1, 0).hidden(X), axis=0) > 0).all())
    True
    """
    given, draw = finite_array("X", X, ndim=2), generator(rng)
    if not len(given) or not np.ptp(given, axis=0).any():
        raise ValueError(f"X must hold samples that differ, got shape {given.shape}; pass more samples")
    net = random_layer(units, given.shape[1], outputs, draw)
    while (dead := np.ptp(net.hidden(given), axis=0) == 0).any():
        fresh = random_layer(int(dead.sum()), given.shape[1], 1, draw)
        W, b = net.W_in.copy(), net.b.copy()
        W[dead], b[dead] = fresh.W_in, fresh.b
        net = dataclasses.replace(net, W_in=W, b=b)
    return net


def scramble(
    layer: Layer,
    rng: np.random.Generator | int | None,
    primitives: Sequence[str] = PRIMITIVES,
    strength: float = 1.0,
    extra: int | None = None,
) -> Layer:
    """Draw other parameters of the same function.

    Each unit gets one to three copies with random shares; `extra` units that nothing reads, `extra` / 2 pairs
    that cancel and `extra` / 6 groups of six that cancel as linear pieces are added, scaled up to stand out;
    units are scaled by ``exp(strength N(0, 1))`` and put into another order.

    Parameters
    ----------
    layer : Layer
        Layer of ReLU type; with other activations leave "scale" out.
    rng : Generator, int or None
        Source.
    primitives : sequence of str, default `PRIMITIVES`
        Which symmetries to use; they act in the order of `PRIMITIVES`.
    strength : float, default 1
        Spread of the logarithms of factors, > 0.
    extra : int, optional
        Number of units each addition brings, about; by default as many as the layer has.

    Returns
    -------
    Layer
        The same function.

    Raises
    ------
    AssumptionError
        If the activation lacks a symmetry that was asked for.
    TypeError, ValueError
        If a primitive is unknown or a number out of range.

    Examples
    --------
    >>> net = random_layer(4, 3, 2, 0)
    >>> other = scramble(net, 1)
    >>> X = np.random.default_rng(2).normal(size=(9, 3))
    >>> other.units > 4, bool(np.allclose(net(X), other(X)))
    (True, True)
    """
    net, draw = layer_of(layer), generator(rng)
    for name in primitives:
        one_of("primitives", name, PRIMITIVES)
    positive("strength", strength)
    h, d, o = net.units, net.W_in.shape[1], len(net.c)
    count = h if extra is None else integer("extra", extra, 0)
    size = float(np.sqrt(np.square(net.W_in).mean())) if h else 1.0
    homogeneous = net.negative_slope is not None

    def incoming(m: int) -> tuple[Floats, Floats]:
        return size * np.exp(draw.normal(size=(m, 1))) * draw.normal(size=(m, d)), size * draw.normal(size=m)

    if "duplicate" in primitives:
        counts = draw.integers(1, 4, h)
        starts, total = np.cumsum(counts) - counts, int(counts.sum())
        shares = draw.normal(size=total)
        # a shift makes the shares of a unit sum to 1 without dividing by what may be near 0
        shares += np.repeat((1 - np.add.reduceat(shares, starts)) / counts, counts) if h else 0.0
        net = duplicate(net, counts, shares)
    if "null" in primitives:
        net = add_null(net, *incoming(count))
    if "cancel" in primitives:
        W, b = incoming(count // 2)
        ratio = np.exp(strength * draw.normal(size=len(b))) if homogeneous else np.ones(len(b))
        net = add_cancelling(net, W, b, draw.normal(size=(len(b), o)), ratio)
    if "linear" in primitives:
        for _ in range(-(-count // 6)):
            W, b = incoming(2)
            net = add_linear_null(net, W, draw.normal(size=o), b)
    if "scale" in primitives:
        net = scale(net, np.exp(strength * draw.normal(size=net.units)))
    if "permute" in primitives:
        order = draw.permutation(net.units)
        net = dataclasses.replace(net, W_in=net.W_in[order], b=net.b[order], W_out=net.W_out[:, order])
    return net


def reshuffled(layer: Layer, rng: np.random.Generator | int | None, strength: float = 1.0) -> Layer:
    """Give the outgoing weights to other units, with other sizes: another function of the same hidden units.

    ``W_out[:, p] diag(exp(strength N(0, 1)))``

    Parameters
    ----------
    layer : Layer
        Layer.
    rng : Generator, int or None
        Source.
    strength : float, default 1
        Spread of the logarithms of factors, > 0.

    Returns
    -------
    Layer
        Same incoming weights, so that measures of the hidden matrix see no difference.

    Raises
    ------
    TypeError, ValueError
        If the strength is not above 0.

    Examples
    --------
    >>> net = random_layer(4, 3, 2, 0)
    >>> bool((reshuffled(net, 1).W_in == net.W_in).all())
    True
    """
    draw, spread = generator(rng), positive("strength", strength)
    order = draw.permutation(layer.units)
    factors = np.exp(spread * draw.normal(size=layer.units))
    return dataclasses.replace(layer, W_out=layer.W_out[:, order] * factors)


def random_kernels(
    H: ArrayLike,
    trials: int,
    rng: np.random.Generator | int | None,
    strength: float = 3.0,
    signed: bool = False,
) -> Floats:
    """Weights of kernels ``sum_j s_j h_j h_j'`` that scalings and duplications reach.

    ``s_j = exp(strength N(0, 1))``, with every other draw close to a ray: all but one weight tiny.

    Parameters
    ----------
    H : array_like of shape (n, h)
        Hidden matrix; only its number of units counts.
    trials : int
        Number of kernels, >= 1.
    rng : Generator, int or None
        Source.
    strength : float, default 3
        Spread of the logarithms, > 0.
    signed : bool, default False
        Draw signs as well, which no symmetry gives.

    Returns
    -------
    float64 array of shape (trials, h)
        Weights s, in units of the largest one.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> random_kernels(np.ones((5, 3)), 2, 0).shape
    (2, 3)
    """
    units, draw = finite_array("H", H, ndim=2).shape[1], generator(rng)
    trials, spread = integer("trials", trials, 1), positive("strength", strength)
    logs = spread * draw.normal(size=(trials, units))
    near = logs[::2]
    near[np.arange(len(near)), draw.integers(0, units, len(near))] += 12.0
    weights = np.exp(logs - logs.max(1, keepdims=True))
    return weights * draw.choice([-1.0, 1.0], weights.shape) if signed else weights
