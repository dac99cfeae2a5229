"""Small nets trained on scikit-learn's handwritten digits."""

import dataclasses
import functools
import warnings

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, require
from porism.results import Result
from porism.theory.representation import Layer, layer_of

__all__ = ["DigitsNet", "digits_images", "trained_digits"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class DigitsNet(Result):
    """A net with one hidden layer of ReLU units, trained to tell digits.

    Parameters
    ----------
    layer : Layer
        Its parameters; outputs are logits.
    accuracy : float
        Share of held-out images that it gets right.
    seed : int
        Seed of initial weights and batches.

    Examples
    --------
    >>> DigitsNet(Layer([[1.0]], [0], [[1]], [0]), 0.98, 0).accuracy
    0.98
    """

    layer: Layer
    accuracy: float
    seed: int


@functools.cache
def digits_images() -> tuple[Floats, NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Images to train on and images held out, pixels in [0, 1]; always the same split, drawn once.

    ``(1298, 499)`` of the 1,797 images.

    Returns
    -------
    (float64 array (1298, 64), int64 array (1298,), float64 array (499, 64), int64 array (499,))
        Training images and labels, held-out images and labels; read-only.

    Raises
    ------
    MissingExtraError
        If scikit-learn is not installed.

    References
    ----------
    Alpaydin and Kaynak (1998), Optical recognition of handwritten digits, UCI Machine Learning Repository,
    doi:10.24432/C50P49.

    Examples
    --------
    >>> digits_images()[2].shape  # doctest: +SKIP
    (499, 64)
    """
    data = require("sklearn.datasets", "data").load_digits()
    X, y = np.asarray(data.data, np.float64) / 16, np.asarray(data.target, np.int64)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    parts = X[:1298], y[:1298], X[1298:], y[1298:]
    for part in parts:
        part.flags.writeable = False
    return parts


@functools.lru_cache(maxsize=16)
def trained_digits(seed: int, units: int = 64, epochs: int = 80) -> DigitsNet:
    """Train a net on the digits; kept in memory.

    Adam on the cross-entropy, batches of 200, step size 4e-3.

    Parameters
    ----------
    seed : int
        Seed of initial weights and batches, >= 0.
    units : int, default 64
        Hidden units, >= 1.
    epochs : int, default 80
        Passes through the training images, >= 1.

    Returns
    -------
    DigitsNet
        The net.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.
    MissingExtraError
        If scikit-learn is not installed.

    Notes
    -----
    Two thirds of a second on one core.

    Examples
    --------
    >>> trained_digits(0).accuracy > 0.95  # doctest: +SKIP
    True
    """
    seed, units, epochs = integer("seed", seed, 0), integer("units", units, 1), integer("epochs", epochs, 1)
    MLP = require("sklearn.neural_network", "data").MLPClassifier
    X, y, held, labels = digits_images()
    with warnings.catch_warnings():  # it stops where it is told to
        warnings.filterwarnings("ignore", message="Stochastic Optimizer", module="sklearn")
        net = MLP(
            (units,),
            learning_rate_init=4e-3,
            max_iter=epochs,
            n_iter_no_change=epochs,
            tol=0.0,
            random_state=seed,
        ).fit(X, y)
    return DigitsNet(layer_of(net), float(net.score(held, labels)), seed)
