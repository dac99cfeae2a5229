"""The score matrix of a model as an oracle of sums: one derivative, or one backward pass, an answer."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import integer, one_of, require
from porism.theory.selection._derivatives import Slope
from porism.theory.selection._inputs import (
    gradient,
    indices,
    losses,
    norm,
    parameters,
    pieces,
    samples,
    separable,
    steady_gradient,
    take,
)

__all__ = ["ScoreOracle", "column_mask", "score_oracle"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class ScoreOracle:
    """A matrix that answers sums over chosen rows or columns only; `score_oracle` makes one of a model.

    Parameters
    ----------
    shape : (int, int)
        Numbers n of rows and P of columns.
    rows : callable ``(column indices) -> array, shape (n,)``
        Sum of each row over these columns.
    columns : callable ``(row indices) -> array, shape (P,)``
        Sum of each column over these rows.
    """

    shape: tuple[int, int]
    rows: Callable[[Indices], ArrayLike]
    columns: Callable[[Indices], ArrayLike]


def column_mask(params: Any, cols: Any) -> dict[str, Any]:
    """Turn column numbers into a mask of parameters for `dual_scores`, 1 where chosen and 0 elsewhere.

    Parameters
    ----------
    params : dict of str to tensor
        Parameters; columns count their entries in this order, each tensor row by row.
    cols : sequence of int
        Columns in 0..P-1.

    Returns
    -------
    dict of str to tensor
        As `params` in names, shapes, types and devices.

    Raises
    ------
    MissingExtraError
        If torch is not installed.
    ValueError
        If a column is out of range.

    Examples
    --------
    >>> import torch
    >>> mask = column_mask({"w": torch.ones(2, 2), "b": torch.ones(1)}, [1, 4])
    >>> mask["w"].tolist(), mask["b"].tolist()
    ([[0.0, 1.0], [0.0, 0.0]], [1.0])
    """
    torch = require("torch", "torch")
    theta = parameters(params)
    total = sum(value.numel() for value in theta.values())
    at = indices("cols", cols, total)
    flat = torch.zeros(total)
    flat[torch.as_tensor(at)] = 1.0
    blocks = flat.split([value.numel() for value in theta.values()])
    return {
        name: block.view(value.shape).to(value)
        for (name, value), block in zip(theta.items(), blocks, strict=True)
    }


def score_oracle(
    loss_vector: Any,
    val_loss: Any,
    params: Any,
    batch: Any,
    *,
    method: str = "auto",
    chunk: int | None = None,
    check: int = 2,
) -> ScoreOracle:
    """Make an oracle of a model's score matrix for `joint_select`, without forming it.

    ``G_ij = d_j l_i(theta) v_j``: sums over columns are one derivative along ``m * v``, sums over rows v
    times one backward pass through the chosen samples alone.

    Parameters
    ----------
    loss_vector, val_loss, params, batch, chunk, check
        As for `dual_scores`.
    method : {"auto", "jvp", "double_backward", "central"}
        How sums over columns are computed.

    Returns
    -------
    ScoreOracle
        n rows, one a sample, and P columns, one a parameter, in the order of `column_mask`.

    Raises
    ------
    AssumptionError, MissingExtraError, TypeError, ValueError
        As for `dual_scores`.

    Examples
    --------
    >>> import torch
    >>> from porism.theory.selection import joint_select
    >>> loss = lambda p, x: 0.5 * (x @ p["theta"]) ** 2
    >>> x = torch.tensor([[1.0, 2.0], [0.0, 1.0], [2.0, -1.0]])
    >>> G = score_oracle(loss, lambda p: p["theta"].sum(), {"theta": torch.ones(2)}, x)
    >>> joint_select(G, 1, 1, "alternating").cols
    array([1])
    """
    one_of("method", method, ("auto", "jvp", "double_backward", "central"))
    chunk = None if chunk is None else integer("chunk", chunk, 1)
    theta, n = parameters(params), samples(batch)
    _, v = steady_gradient(val_loss, theta)
    separable(loss_vector, theta, batch, n, integer("check", check, 0), norm(v))
    slope = Slope(method)

    def rows(cols: Indices) -> Floats:
        mask = column_mask(theta, cols)
        way = {name: value * mask[name] for name, value in v.items()}
        parts = [slope(loss_vector, theta, part, at, way) for at, part in pieces(batch, n, chunk)]
        return np.concatenate([part.double().cpu().numpy() for part in parts])

    def columns(at: Indices) -> Floats:
        index = require("torch", "torch").as_tensor(at)
        chosen, found = take(batch, index), np.zeros(size)
        for place, part in pieces(chosen, len(at), chunk):
            own = gradient("loss_vector", _summed, theta, loss_vector, part, place)[1]
            blocks = [(value * v[name]).double().flatten().cpu().numpy() for name, value in own.items()]
            found += np.concatenate(blocks)
        return found

    size = sum(value.numel() for value in theta.values())
    return ScoreOracle((n, size), rows, columns)


def _summed(params: Any, loss_vector: Any, part: Any, at: slice) -> Any:
    return losses(loss_vector, params, part, at).sum()
