"""Small models with training samples and a validation loss, in float64, and what a step on them does."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, positive, require
from porism.sims.selection._next_token import next_token
from porism.theory.selection import per_sample_gradients

__all__ = [
    "ScoreWorld",
    "attention_world",
    "centred_world",
    "improvement",
    "linear_world",
    "removal_effects",
    "tanh_world",
]

Floats = NDArray[np.float64]
Rng = np.random.Generator | int | None


@dataclasses.dataclass(frozen=True)
class ScoreWorld:
    """What `dual_scores` takes, in one place.

    Parameters
    ----------
    loss_vector : callable ``(params, batch) -> tensor, shape (n,)``
        One loss a sample.
    val_loss : callable ``params -> tensor``
        Validation loss.
    params : dict of str to tensor
        Parameters.
    batch : tuple of tensor
        Inputs and targets of n samples.
    """

    loss_vector: Callable[[Any, Any], Any]
    val_loss: Callable[[Any], Any]
    params: dict[str, Any]
    batch: tuple[Any, ...]

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.batch[0])

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The four arguments that `dual_scores` takes first."""
        return self.loss_vector, self.val_loss, self.params, self.batch


def linear_world(
    X: ArrayLike, y: ArrayLike, X_val: ArrayLike, y_val: ArrayLike, theta: ArrayLike
) -> ScoreWorld:
    """Least squares: every law of second order is exact.

    ``l_i = (x_i . theta - y_i)^2 / 2``, the validation loss the mean.

    Parameters
    ----------
    X, X_val : array_like, shape (n, d) and (n_val, d)
        Inputs.
    y, y_val : array_like, shape (n,) and (n_val,)
        Targets.
    theta : array_like, shape (d,)
        Parameters.

    Returns
    -------
    ScoreWorld
        Parameters under the name "theta".

    Raises
    ------
    ValueError
        If a value is not finite.

    Examples
    --------
    >>> import torch
    >>> linear_world([[1.0, 2.0]], [1.0], [[1.0, 1.0]], [2.0], [1.0, 1.0]).n
    1
    """
    torch = require("torch", "torch")
    names = ("X", "y", "X_val", "y_val", "theta")
    arrays = (finite_array(name, a) for name, a in zip(names, (X, y, X_val, y_val, theta), strict=True))
    x, t, a, b, start = (torch.tensor(array) for array in arrays)

    def loss(p: Any, batch: Any) -> Any:
        return 0.5 * (batch[0] @ p["theta"] - batch[1]) ** 2

    return ScoreWorld(loss, lambda p: loss(p, (a, b)).mean(), {"theta": start}, (x, t))


def tanh_world(
    n: int = 24, n_val: int = 16, inputs: int = 4, width: int = 8, gain: float = 1.0, rng: Rng = None
) -> ScoreWorld:
    """Net of one hidden layer under squared loss, on targets that are linear up to noise.

    ``f(x) = w . tanh(W x / sqrt(inputs) + b) / sqrt(width) + c``, weights N(0, gain^2), biases N(0, 0.01);
    ``y = a . x + 0.5 z`` with one a of length 1 for training and validation.

    Parameters
    ----------
    n, n_val : int
        Training and validation samples, >= 1.
    inputs, width : int
        Sizes, >= 1; P = width (inputs + 2) + 1.
    gain : float
        Size of the weights, > 0; curvature, and with it the error of every order, grows with it.
    rng : Generator, int or None
        Source.

    Returns
    -------
    ScoreWorld
        Parameters "W", "b", "w" and "c".

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.

    Examples
    --------
    >>> import torch
    >>> tanh_world(rng=0).params["W"].shape
    torch.Size([8, 4])
    """
    torch = require("torch", "torch")
    named = {"n": n, "n_val": n_val, "inputs": inputs, "width": width}
    n, n_val, inputs, width = (integer(name, value, 1) for name, value in named.items())
    gain, rng = positive("gain", gain), generator(rng)

    def draw(*shape: int) -> Any:
        return torch.as_tensor(rng.standard_normal(shape))

    params = {
        "W": gain * draw(width, inputs),
        "b": 0.1 * draw(width),
        "w": gain * draw(width),
        "c": 0.1 * draw(1),
    }
    slope = draw(inputs)
    slope = slope / slope.norm()
    x, held_x = draw(n, inputs), draw(n_val, inputs)
    batch, held = ((x, x @ slope + 0.5 * draw(len(x))) for x in (x, held_x))

    def loss(p: Any, batch: Any) -> Any:
        out = torch.tanh(batch[0] @ p["W"].T / inputs**0.5 + p["b"]) @ p["w"] / width**0.5 + p["c"]
        return 0.5 * (out - batch[1]) ** 2

    return ScoreWorld(loss, lambda p: loss(p, held).mean(), params, batch)


def centred_world(world: ScoreWorld) -> ScoreWorld:
    """The same model behind inputs that are centred by the mean of their batch: losses depend on each other.

    Parameters
    ----------
    world : ScoreWorld
        Any world whose batch starts with inputs.

    Returns
    -------
    ScoreWorld
        `dual_scores` refuses it, as a score of one sample means nothing.

    Examples
    --------
    >>> import torch
    >>> centred_world(tanh_world(rng=0)).n
    24
    """

    def loss(p: Any, batch: Any) -> Any:
        return world.loss_vector(p, (batch[0] - batch[0].mean(0), *batch[1:]))

    return dataclasses.replace(world, loss_vector=loss)


def attention_world(n: int = 6, n_val: int = 4, length: int = 5, rng: Rng = None) -> ScoreWorld:
    """Tiny causal transformer with random token ids, under the mean cross-entropy of next tokens.

    Parameters
    ----------
    n, n_val : int
        Training and validation sequences, >= 1.
    length : int
        Tokens that are predicted in each, >= 1.
    rng : Generator, int or None
        Source.

    Returns
    -------
    ScoreWorld
        Parameters by their names in the model.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.

    Examples
    --------
    >>> import torch
    >>> len(attention_world(rng=0).params)
    10
    """
    torch = require("torch", "torch")
    from porism.sims.tiny_transformer import TinyConfig, TinyTransformer

    named = {"n": n, "n_val": n_val, "length": length}
    n, n_val, length = (integer(name, value, 1) for name, value in named.items())
    rng = generator(rng)
    config = TinyConfig(vocab=11, d=8, layers=1, heads=2, max_len=length)
    model = TinyTransformer(config, seed=int(rng.integers(2**31))).double()
    ids = torch.as_tensor(rng.integers(0, 11, (n + n_val, length + 1)))
    return ScoreWorld(*next_token(model, ids, n))


def improvement(world: ScoreWorld, lr: float, weights: ArrayLike | None = None) -> float:
    """How much one step on the weighted mean loss lowers the validation loss, by taking it.

    Parameters
    ----------
    world : ScoreWorld
        Model and data.
    lr : float
        Learning rate, > 0.
    weights : array_like, shape (n,), optional
        Weight of each sample, divided by n whatever their sum; 1 by default.

    Returns
    -------
    float
        ``L(theta) - L(theta - lr sum_i w_i grad l_i / n)``.

    Raises
    ------
    ValueError
        If lr is not positive or the weights are not finite.

    Examples
    --------
    >>> import torch
    >>> improvement(linear_world([[1.0]], [0.0], [[1.0]], [0.0], [1.0]), 1.0)
    0.5
    """
    torch = require("torch", "torch")
    lr = positive("lr", lr)
    w = torch.tensor(np.ones(world.n) if weights is None else finite_array("weights", weights, 1))
    leaves = {name: value.clone().requires_grad_() for name, value in world.params.items()}
    mean = w @ world.loss_vector(leaves, world.batch) / world.n
    parts = torch.autograd.grad(mean, list(leaves.values()))
    with torch.no_grad():
        moved = {
            name: value - lr * part for (name, value), part in zip(world.params.items(), parts, strict=True)
        }
        return float(world.val_loss(world.params)) - float(world.val_loss(moved))


def removal_effects(world: ScoreWorld, lr: float) -> Floats:
    """What each sample's absence from the step would cost, by taking the step without it.

    Parameters
    ----------
    world : ScoreWorld
        Model and data.
    lr : float
        Learning rate, > 0.

    Returns
    -------
    ndarray, shape (n,)
        Improvement with all samples less that without sample i, whose weight is 0.

    Raises
    ------
    ValueError
        If lr is not positive.

    Examples
    --------
    >>> import torch
    >>> world = linear_world([[1.0], [1.0]], [0.0, 1.0], [[1.0]], [0.0], [1.0])
    >>> removal_effects(world, 1.0).tolist()
    [0.375, 0.0]
    """
    torch = require("torch", "torch")
    lr = positive("lr", lr)
    each = per_sample_gradients(world.loss_vector, world.params, world.batch)
    full = {name: value - lr * each[name].mean(0) for name, value in world.params.items()}
    with torch.no_grad():
        end = float(world.val_loss(full))
        without = [
            float(world.val_loss({name: full[name].add(each[name][i], alpha=lr / world.n) for name in full}))
            for i in range(world.n)
        ]
    return np.array(without) - end
