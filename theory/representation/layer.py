"""One hidden layer between two affine maps, and how to get it out of a model."""

import dataclasses
import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, one_of
from porism.results import Result
from porism.theory.representation._activations import activate, samples

__all__ = ["ACTIVATIONS", "Layer", "layer_of"]

Floats = NDArray[np.float64]

ACTIVATIONS = ("relu", "leaky_relu", "gelu", "gelu_tanh", "silu", "tanh")
"""Names of activations; "gelu" is the exact one, "gelu_tanh" its usual approximation."""

_TORCH = {
    "ReLU": "relu", "LeakyReLU": "leaky_relu", "GELU": "gelu", "SiLU": "silu", "Tanh": "tanh",
}  # fmt: skip
_SKIPPED = ("Dropout", "Identity", "Flatten")
_REFUSED = {
    "norm": "normalisation ties every unit to all others, so scaling and adding units is no symmetry there",
    "attention": "attention multiplies inputs with each other, so its weights have other symmetries",
    "transformer": "attention and normalisation have other symmetries than units between two linear maps",
    "conv": "weights shared between places have fewer symmetries than units of their own",
    "softmax": "softmax ties every unit to all others",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Layer(Result):
    """A hidden layer with the affine maps around it: ``f(x) = W_out phi(W_in x + b) + c``.

    Parameters
    ----------
    W_in : array_like of shape (h, d)
        Incoming weights, one row a unit.
    b : array_like of shape (h,)
        Biases of the units.
    W_out : array_like of shape (o, h)
        Outgoing weights, one column a unit.
    c : array_like of shape (o,)
        Bias of the output.
    activation : str, default "relu"
        One of `ACTIVATIONS`.
    slope : float, default 0.01
        Slope of "leaky_relu" for negative inputs; other activations ignore it.
    precision : float, optional
        Relative rounding error of the weights; by default that of the coarsest dtype given, so that weights
        in float32 are compared as such. They are kept in float64.

    Raises
    ------
    TypeError, ValueError
        If an array is not finite and real, shapes disagree, or the activation is unknown.

    Examples
    --------
    >>> net = Layer([[1.0], [-1.0]], [0, 0], [[1, 1]], [0])
    >>> net([[-2.0], [3.0]]).ravel()  # |x|
    array([2., 3.])
    """

    W_in: Floats
    b: Floats
    W_out: Floats
    c: Floats
    activation: str = "relu"
    slope: float = 0.01
    precision: float | None = None

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("W_in", "b", "W_out", "c")}
        arrays = {
            name: finite_array(name, value, ndim=2 if name.startswith("W") else 1)
            for name, value in given.items()
        }
        W_in, b, W_out, c = arrays.values()
        if not (len(W_in) == len(b) == W_out.shape[1] and len(W_out) == len(c)) or 0 in W_in.shape[1:]:
            raise ValueError(
                "W_in (h, d), b (h,), W_out (o, h) and c (o,) must fit together, got shapes "
                f"{', '.join(str(array.shape) for array in arrays.values())}; units are rows of W_in and "
                "columns of W_out"
            )
        one_of("activation", self.activation, ACTIVATIONS)
        slope = float(finite_array("slope", self.slope, ndim=0))
        if self.precision is None:
            kinds = (np.asarray(value).dtype for value in given.values())
            precision = max((float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f"), default=0.0)
            precision = max(precision, float(np.finfo(float).eps))
        else:
            precision = float(finite_array("precision", self.precision, ndim=0))
        object.__setattr__(self, "precision", precision)
        for name, array in arrays.items():
            array = array.copy()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "slope", slope)

    @property
    def units(self) -> int:
        """Number h of units."""
        return len(self.b)

    @property
    def negative_slope(self) -> float | None:
        """Slope on the negative side where the activation is a ReLU or leaky ReLU, else None."""
        return {"relu": 0.0, "leaky_relu": self.slope}.get(self.activation)

    def hidden(self, X: ArrayLike) -> Floats:
        """Hidden matrix of samples.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Samples in rows.

        Returns
        -------
        float64 array of shape (n, h)
            ``phi(X W_in' + b)``.

        Raises
        ------
        TypeError, ValueError
            If the samples are no finite real matrix of d columns.
        """
        return activate(self.activation, self.slope, samples(X, self.W_in.shape[1]) @ self.W_in.T + self.b)

    def __call__(self, X: ArrayLike) -> Floats:
        """Outputs, shape (n, o), of samples, shape (n, d)."""
        return self.hidden(X) @ self.W_out.T + self.c


def layer_of(model: Any, hidden: int = 0) -> Layer:
    """Get a hidden layer out of a model, with the linear maps before and after it.

    ``f(x) = W_out phi(W_in x + b) + c``

    Parameters
    ----------
    model : Layer, torch.nn.Sequential or fitted scikit-learn MLP
        Linear maps with an activation between them; dropout is left out.
    hidden : int, default 0
        Which hidden layer, from the input on; it is a function of that layer's own input.

    Returns
    -------
    Layer
        Copies of the weights.

    Raises
    ------
    TypeError
        If the model holds attention, normalisation or anything else that is no chain of linear maps and
        activations, or an activation that is not in `ACTIVATIONS`.
    ValueError
        If there is no such hidden layer.

    Notes
    -----
    Nothing is imported: a model of torch brings torch along. Between two hidden layers the scalings of the
    following one change ``W_out``, so compare deeper layers only where the layer after them is the same.

    Examples
    --------
    >>> layer_of(Layer([[1.0]], [0], [[2.0]], [0])).units
    1
    """
    integer("hidden", hidden, 0)
    if isinstance(model, Layer):
        _within(hidden, 1)
        return model
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return _from_torch(torch, model, hidden)
    if hasattr(model, "coefs_") and hasattr(model, "intercepts_"):
        name = str(model.activation)
        if name not in ("relu", "tanh"):
            raise TypeError(f"model must have a known activation, got {name!r}; known are 'relu' and 'tanh'")
        _within(hidden, len(model.coefs_) - 1)
        (first, second), (b, c) = (x[hidden : hidden + 2] for x in (model.coefs_, model.intercepts_))
        return Layer(first.T, b, second.T, c, name)
    raise TypeError(
        f"model must be a Layer, a torch.nn.Sequential or a fitted scikit-learn MLP, got "
        f"{type(model).__name__}; build Layer(W_in, b, W_out, c, activation) from its weights"
    )


def _within(hidden: int, count: int) -> None:
    if hidden >= count:
        raise ValueError(
            f"hidden must be below the number of hidden layers, {count}, got {hidden}; count from 0"
        )


def _from_torch(torch: Any, model: Any, hidden: int) -> Layer:
    for module in model.modules():
        kind = type(module).__name__
        for word, reason in _REFUSED.items():
            if word in kind.lower():
                raise TypeError(
                    f"model must be a chain of linear maps and activations, got a {kind}: {reason}"
                )
    chain = list(_flat(torch, model))
    linear = [k for k, module in enumerate(chain) if isinstance(module, torch.nn.Linear)]
    _within(hidden, max(len(linear) - 1, 0))
    start, end = linear[hidden], linear[hidden + 1]
    between = [module for module in chain[start + 1 : end] if not type(module).__name__.startswith(_SKIPPED)]
    kinds = [type(module).__name__ for module in between]
    if len(kinds) != 1 or kinds[0] not in _TORCH:
        raise TypeError(
            f"model must have one known activation between two linear maps, got {kinds or 'none'}; known are "
            f"{', '.join(_TORCH)}"
        )
    (module,) = between
    name = _TORCH[kinds[0]]
    if name == "gelu" and getattr(module, "approximate", "none") == "tanh":
        name = "gelu_tanh"
    (W_in, b), (W_out, c) = (_weights(torch, chain[k]) for k in (start, end))
    return Layer(W_in, b, W_out, c, name, float(getattr(module, "negative_slope", 0.01)))


def _flat(torch: Any, model: Any) -> Any:
    if isinstance(model, torch.nn.Sequential):
        for child in model:
            yield from _flat(torch, child)
    elif next(model.children(), None) is None:
        yield model
    else:
        raise TypeError(
            f"model must be a torch.nn.Sequential, whose order is known, got {type(model).__name__}; pass "
            "torch.nn.Sequential(first, activation, second) of its parts"
        )


def _weights(torch: Any, module: Any) -> tuple[Any, Any]:
    """Weight and bias as arrays."""
    if module.weight.is_meta:
        raise TypeError("weights must hold numbers, got tensors on the meta device; load the model first")
    weight = module.weight.detach().cpu()
    if weight.dtype == torch.bfloat16:
        raise TypeError("weights must have a dtype that NumPy knows, got bfloat16; call model.float() first")
    bias = weight.new_zeros(len(weight)) if module.bias is None else module.bias.detach().cpu()
    return weight.numpy(), bias.numpy()
