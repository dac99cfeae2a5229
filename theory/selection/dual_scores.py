"""Scores of samples and of parameters from one matrix that is never formed."""

import dataclasses
import os
import warnings
from typing import Any

import numpy as np

from porism.checks import detached, integer, one_of, positive, require
from porism.errors import NumericalWarning
from porism.results import Result
from porism.theory.selection._derivatives import Slope
from porism.theory.selection._inputs import (
    Params,
    gradient,
    losses,
    norm,
    parameter_mask,
    parameters,
    pieces,
    samples,
    scalar,
    separable,
    steady_gradient,
    weight_vector,
)
from porism.theory.selection.per_sample import per_sample_gradients

__all__ = ["DualScores", "dual_scores"]

ORDERS = ("first", "path", "endpoint")
METHODS = ("auto", "jvp", "double_backward", "central", "per_sample")
GAP = 1e-6
"""Relative gap between path total and actual improvement above which the quadrature is in doubt."""


@dataclasses.dataclass(frozen=True, eq=False)
class DualScores(Result):
    """What each sample and each parameter adds; made by `dual_scores`.

    Parameters
    ----------
    rows : tensor, shape (n,)
        Score of each sample, its weight included.
    columns : dict of str to tensor, shape of the parameter
        Score of each parameter, its mask included.
    total : float
        Sum of all columns; of all rows too, up to rounding (see `imbalance`).
    predicted : float or None
        Improvement of the validation loss that the scores add up to: ``lr total / n`` for order "first", the
        total itself for "path"; None without `lr`, and for "endpoint", which is no account of it.
    actual : float or None
        Improvement of the validation loss by the step itself; None without `lr`.
    order : {"first", "path", "endpoint"}
        Which gradient of the validation loss was used.
    method : {"jvp", "double_backward", "central", "per_sample"}
        How rows were computed in the end.
    fallbacks : tuple of str
        Methods that an operation of the model did not support, each with torch's words.
    cosines : tensor, shape (n,), or None
        Cosine between each sample's gradient and the masked validation gradient, on parameters whose mask is
        not 0; 0 where either vanishes.

    Notes
    -----
    Tensors are saved as arrays, and come back as arrays.
    """

    rows: Any
    columns: dict[str, Any]
    total: float
    predicted: float | None = None
    actual: float | None = None
    order: str = "first"
    method: str = "jvp"
    fallbacks: tuple[str, ...] = ()
    cosines: Any = None

    @property
    def imbalance(self) -> float:
        """Difference of both totals over the summed sizes of the rows: the error of their derivative."""
        rows = np.asarray(detached(self.rows), dtype=np.float64)
        size = float(np.abs(rows).sum())
        return abs(float(rows.sum()) - self.total) / size if size else 0.0

    def by_tensor(self) -> dict[str, float]:
        """Sum the scores of parameters over each tensor.

        Returns
        -------
        dict of str to float
            Adds up to `total`.
        """
        return {name: float(detached(value).sum(dtype=np.float64)) for name, value in self.columns.items()}

    def summary(self, top: int = 5) -> str:
        """Write the extremes as a few lines of text.

        Parameters
        ----------
        top : int, default 5
            Samples and tensors to name at either end, >= 1.

        Returns
        -------
        str
            Totals, best and worst samples, tensors by their scores.
        """
        top = integer("top", top, 1)
        rows = np.asarray(detached(self.rows), dtype=np.float64)
        order = np.argsort(-rows, kind="stable")
        parts = sorted(self.by_tensor().items(), key=lambda item: -item[1])
        text = [f"{self.order} order by {self.method}: total {self.total:.4g}"]
        if self.predicted is not None and self.actual is not None:
            text[0] += f", improvement {self.predicted:.4g} predicted, {self.actual:.4g} actual"
        text += [f"{(rows < 0).sum()} of {len(rows)} samples work against the validation loss"]
        text += ["best samples:  " + ", ".join(f"{i} ({rows[i]:.3g})" for i in order[:top])]
        text += ["worst samples: " + ", ".join(f"{i} ({rows[i]:.3g})" for i in order[::-1][:top])]
        text += ["parameters:    " + ", ".join(f"{name} ({value:.3g})" for name, value in parts[:top])]
        return "\n".join([*text, *(f"not supported: {note}" for note in self.fallbacks)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scores to one file, tensors as arrays.

        Parameters
        ----------
        path : path
            File to create or replace, by custom named ``.npz``.
        """
        Result.save(self._plain(), path)

    def to_frame(self) -> Any:
        """Show the samples as a pandas table.

        Returns
        -------
        DataFrame
            One row a sample; everything else is in ``frame.attrs``.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        return Result.to_frame(self._plain())

    def _plain(self) -> "DualScores":
        columns = {name: detached(value) for name, value in self.columns.items()}
        cosines = None if self.cosines is None else detached(self.cosines)
        return dataclasses.replace(self, rows=detached(self.rows), columns=columns, cosines=cosines)


def dual_scores(
    loss_vector: Any,
    val_loss: Any,
    params: Any,
    batch: Any,
    *,
    weights: Any = None,
    mask: Any = None,
    order: str = "first",
    nodes: int = 5,
    lr: float | None = None,
    method: str = "auto",
    chunk: int | None = None,
    norms: str | None = None,
    check: int = 2,
) -> DualScores:
    """Score samples and parameters by what one step on them does to a validation loss.

    With per-sample gradients g_i, ``G_ij = g_ij v_j`` and the step ``theta' = theta - lr m * gbar``, ``gbar =
    sum_i w_i g_i / n``: rows ``w_i g_i . (m * v)`` and columns ``m_j v_j sum_i w_i g_ij``. Both sum to
    ``w' G m``, and ``lr w' G m / n`` is the improvement of the validation loss L to first order.

    Parameters
    ----------
    loss_vector : callable ``(params, batch) -> tensor, shape (n,)``
        One loss a sample, computed from the parameters given, each on its own.
    val_loss : callable ``params -> tensor``
        The validation loss L, one number.
    params : dict of str to tensor, P numbers in all
        Parameters, in floats.
    batch : tensor, or tuple, list or dict of them
        n training samples along the first axis.
    weights : array_like, shape (n,), optional
        Weight w of each sample; 1 by default.
    mask : dict of str to tensor or number, optional
        Factor m of each parameter's step, with the names of `params`; 1 by default.
    order : {"first", "path", "endpoint"}
        ``"first"``: v is the gradient of L at theta. ``"path"``: v is its mean along the step.
        ``"endpoint"``: v is the gradient at theta'. These two hold the factor lr / n already: path scores are
        **shares of the actual improvement**, end-point rows what **removing** each sample would cost.
    nodes : int, default 5
        Gauss-Legendre nodes of the path, 1 to 64; each is one gradient of L. 1 is the midpoint, exact for
        quadratic L.
    lr : float, optional
        Learning rate of the step, > 0; needed for "path" and "endpoint".
    method : {"auto", "jvp", "double_backward", "central", "per_sample"}
        How rows are computed: forward mode, dummy weights, central differences (two passes without a graph,
        relative error about 1e-3 in float32), or from gradients of each sample, n P numbers. ``"auto"`` is
        ``"jvp"``; where the model has an operation without such a derivative, the next in this order is taken
        and `fallbacks` says why.
    chunk : int, optional
        Samples at a time, >= 1; all by default.
    norms : {None, "exact"}
        ``"exact"`` adds cosines, which need the norm of each g_i: gradients of each sample, chunk by chunk.
    check : int, default 2
        Samples on which it is checked that losses are deterministic and do not depend on each other; 0 skips
        that.

    Returns
    -------
    DualScores
        Rows, columns, total, predicted and actual improvement.

    Raises
    ------
    MissingExtraError
        If torch is not installed.
    AssumptionError
        If losses depend on the rest of the batch, or are random.
    TypeError
        If an argument has the wrong type.
    ValueError
        If `loss_vector` returns anything but n finite losses, a shape does not fit, or lr is missing.

    Warns
    -----
    NumericalWarning
        If the path's total is off the actual improvement by more than 1e-6 of it: take more nodes, or a
        smaller lr. Rows and columns agree with each other regardless.

    Notes
    -----
    All rows are **one** derivative of the loss vector along ``m * v``, all columns v times **one** backward
    pass of ``sum_i w_i l_i``: no n P numbers. Memory: the graph of one chunk and 2 P numbers (3 P with a mask
    or central differences). Shares and removals differ at second order, ``v - lr/2 H gbar`` against ``v - lr
    H gbar``: use shares for accounting, the end point for removal. A score of 0 in a row or column may also
    say that its weight or mask is 0.

    References
    ----------
    DualSFT, arXiv:2605.06166, abstract; the formulas are a reconstruction (DS-1 to DS-5).

    Examples
    --------
    >>> import torch
    >>> x, y = torch.tensor([[1.0, 2.0], [0.0, 1.0], [2.0, -1.0]]), torch.tensor([1.0, 0.0, 3.0])
    >>> a, b = torch.tensor([[1.0, 1.0], [1.0, -1.0]]), torch.tensor([2.0, 1.0])
    >>> loss = lambda p, xy: 0.5 * (xy[0] @ p["theta"] - xy[1]) ** 2
    >>> found = dual_scores(loss, lambda p: loss(p, (a, b)).mean(), {"theta": torch.ones(2)}, (x, y))
    >>> found.rows.tolist(), found.columns["theta"].tolist(), found.total
    ([1.0, 0.5, 3.0], [1.0, 3.5], 4.5)
    """
    torch = require("torch", "torch")
    one_of("order", order, ORDERS)
    one_of("method", method, METHODS)
    if norms is not None:
        one_of("norms", norms, ("exact",))
    nodes, check = integer("nodes", nodes, 1, 64), integer("check", check, 0)
    chunk = None if chunk is None else integer("chunk", chunk, 1)
    if lr is not None:
        lr = positive("lr", lr)
    elif order != "first":
        raise ValueError(f"lr must be given for order={order!r}, got None; pass that of the step")
    theta, n = parameters(params), samples(batch)
    w = weight_vector(weights, n, next(iter(theta.values())))
    m = parameter_mask(mask, theta)

    start, v = steady_gradient(val_loss, theta)
    separable(loss_vector, theta, batch, n, check, norm(v))
    slope = Slope("auto" if method == "per_sample" else method)
    needs_each = method == "per_sample" or norms == "exact"

    total_gradient = {name: torch.zeros_like(value) for name, value in theta.items()}
    for at, part in pieces(batch, n, chunk):
        own = gradient("loss_vector", _weighted, theta, loss_vector, part, at, w)[1]
        for name, value in own.items():
            total_gradient[name] += value
        del own
    if lr is not None:
        step = {name: _times(value, m, name).mul(lr / n) for name, value in total_gradient.items()}
        if order == "path":
            v = _along(val_loss, theta, step, nodes)
        elif order == "endpoint":
            v = gradient("val_loss", lambda p: scalar(val_loss, p), _moved(theta, step, 1.0))[1]
        with torch.no_grad():
            end = float(scalar(val_loss, _moved(theta, step, 1.0)))
        del step
    way = {name: _times(value, m, name) for name, value in v.items()}
    del v

    parts, cosines = [], []
    for at, part in pieces(batch, n, chunk):
        if needs_each:
            each = per_sample_gradients(loss_vector, theta, part)
            product = sum(_lines(value) @ way[name].flatten() for name, value in each.items())
            cosines.append(_cosines(product, each, way, m))
            del each
        parts.append(product if method == "per_sample" else slope(loss_vector, theta, part, at, way))
    scale = 1.0 if order == "first" or lr is None else lr / n
    rows = torch.cat(parts) * w.to(parts[0].dtype) * scale
    columns = {name: total_gradient.pop(name).mul_(way.pop(name)).mul_(scale) for name in theta}
    total = float(sum(value.sum(dtype=torch.float64) for value in columns.values()))
    predicted = None if lr is None or order == "endpoint" else total * (lr / n if order == "first" else 1)
    actual = None if lr is None else start - end
    if order == "path" and predicted is not None and actual is not None:
        noise = 64 * float(torch.finfo(rows.dtype).eps) * max(abs(start), abs(end))
        if abs(predicted - actual) > max(GAP * abs(actual), noise):
            warnings.warn(
                f"path total {predicted:.6g} differs from the actual improvement {actual:.6g} by more than "
                f"{GAP:g} of it; raise nodes from {nodes}, or lower lr",
                NumericalWarning,
                stacklevel=2,
            )
    return DualScores(
        rows,
        columns,
        total,
        predicted,
        actual,
        order,
        "per_sample" if method == "per_sample" else slope.method,
        tuple(slope.fallbacks),
        torch.cat(cosines) if norms else None,
    )


def _weighted(params: Params, loss_vector: Any, part: Any, at: slice, w: Any) -> Any:
    found = losses(loss_vector, params, part, at)
    return w[at].to(found.dtype) @ found


def _times(value: Any, m: Params | None, name: str) -> Any:
    return value if m is None else value * m[name]


def _moved(theta: Params, step: Params, share: float) -> Params:
    return {name: value.sub(step[name], alpha=share) for name, value in theta.items()}


def _along(val_loss: Any, theta: Params, step: Params, nodes: int) -> Params:
    """Mean gradient of the validation loss between both ends of the step."""
    mean: Params = {}
    for place, weight in zip(*np.polynomial.legendre.leggauss(nodes), strict=True):
        here = _moved(theta, step, (1 + float(place)) / 2)
        for name, value in gradient("val_loss", lambda p: scalar(val_loss, p), here)[1].items():
            value = value.mul(float(weight) / 2)
            mean[name] = mean[name].add_(value) if name in mean else value
    return mean


def _lines(each: Any) -> Any:
    """One line a sample, of length 1 where the parameter is a single number without axes."""
    return each[:, None].flatten(1)


def _cosines(product: Any, each: Params, way: Params, m: Params | None) -> Any:
    """On the parameters in the mask; 0 where one of the vectors is 0."""
    squares = sum(
        _lines(value if m is None else value * (m[name] != 0)).square().sum(1) for name, value in each.items()
    )
    lengths = squares.sqrt() * norm(way)
    return (product / lengths.where(lengths > 0, lengths.new_ones(()))).where(lengths > 0, 0.0)
