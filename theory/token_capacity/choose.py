"""How many positions to train on, from forward passes alone."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism._models import is_causal, keywords, refuse
from porism.results import Result
from porism.theory.token_capacity.coverage import coverage, min_positions
from porism.theory.token_capacity.moments import HiddenStateMoments, PositionMoments

__all__ = ["PositionChoice", "choose_from_moments", "choose_positions"]


@dataclass(frozen=True, eq=False)
class PositionChoice(Result):
    """How many positions to select, and which.

    Parameters
    ----------
    k : int
        Number of positions; a bin counts with all of its positions.
    order : int64 array of shape (P,)
        Bins of aligned positions, the first one first; bins are positions while rows have at most 64 tokens.
    curve : float64 array of shape (P,)
        Coverage of the deciding layer by the first 1, 2, ... entries of `order`.
    layer : str
        Layer that needs the most positions, the first of them.
    warnings : tuple of str
        What to know before relying on k.
    bins : int64 array of shape (P, 2)
        First aligned position of each bin and the one after its last.
    align : str
        "end" for causal models: position 0 is the last real token; else "start".

    Examples
    --------
    >>> one = np.array([[0, 1], [1, 2]])
    >>> PositionChoice(1, np.array([0, 1]), np.array([0.9, 1.0]), "q", (), one, "end").positions
    array([0])
    """

    k: int
    order: NDArray[np.int64]
    curve: NDArray[np.float64]
    layer: str
    warnings: tuple[str, ...]
    bins: NDArray[np.int64]
    align: str

    @property
    def positions(self) -> NDArray[np.int64]:
        """The k aligned positions, in the order in which they were taken."""
        taken = [np.arange(start, stop) for start, stop in self.bins[self.order].tolist()]
        found: NDArray[np.int64] = np.concatenate(taken)[: self.k].astype(np.int64)
        return found


def choose_positions(
    model: Any,
    batches: Iterable[Any],
    *,
    eps: float = 0.1,
    causal: bool | None = None,
    ridge: float = 1e-2,
    layers: Any = "all",
) -> PositionChoice:
    """Choose how many positions carry a gradient, from forward passes over some batches.

    k is the largest ``k* = min{k : cov(S_k) >= (1 - eps) cov(all)}`` over the watched layers, for nested sets
    S_k: in causal models suffixes, else position 0 and then the middle of the widest gap each time.

    Parameters
    ----------
    model : torch.nn.Module
        A transformers model, a PeftModel or a tiny transformer; its hooks and modes come back as they were.
    batches : iterable of mapping or tensor
        Keywords of the model, or its first argument. "attention_mask" or "key_mask" marks real tokens.
    eps : float, default 0.1
        Share of coverage that may be lost, in [0, 1).
    causal : bool, optional
        Whether attention hides later tokens; read from the attention modules by default.
    ridge : float, default 1e-2
        Ridge of the coverage, relative to the mean eigenvalue, >= 0.
    layers : "all" or list of str, default "all"
        Linear maps to watch, as in :class:`HiddenStateMoments`.

    Returns
    -------
    PositionChoice
        Number, order, curve, the layer that decides, and warnings.

    Raises
    ------
    MissingExtraError
        If torch is not installed.
    NotImplementedError
        If the model is an encoder-decoder, has cross-attention or a prompt adapter, or is compiled.
    TypeError
        If a batch is neither a mapping nor a tensor, or a number has the wrong type.
    ValueError
        If there is no batch, eps or the ridge is out of range, causal cannot be told, or a batch is refused
        by :meth:`HiddenStateMoments.update`.

    Notes
    -----
    A necessary condition on the side of the inputs: gradients are not seen, so k promises no accuracy. In
    causal models a suffix gives its own positions the exact gradient, while key and value projections lose
    the part of the prefix; elsewhere the gradient is truncated. Memory and cost as for
    :class:`HiddenStateMoments`, and O(P m^3) a layer for the curve.

    References
    ----------
    TC-6 (d), a reconstruction.

    Examples
    --------
    >>> choice = choose_positions(model, batches)  # doctest: +SKIP
    >>> choice.k, choice.layer  # doctest: +SKIP
    """
    min_positions([1.0], eps)
    coverage(np.ones((1, 1, 1)), [0], ridge=ridge)
    refuse(model)
    if causal is None:
        causal = is_causal(model)
    elif not isinstance(causal, (bool, np.bool_)):
        raise TypeError(f"causal must be True, False or None, got {causal!r}; pass a bool")
    with HiddenStateMoments(model, layers, align="end" if causal else "start") as watch:
        for batch in batches:
            watch.update(**keywords(model, batch))
    if not watch.batches:
        raise ValueError("batches must hold at least one batch, got none; a used-up iterator is empty")
    return choose_from_moments(watch, eps=eps, ridge=ridge)[0]


def choose_from_moments(
    watch: HiddenStateMoments,
    *,
    eps: float = 0.1,
    ridge: float = 1e-2,
    tick: Callable[[], object] | None = None,
) -> tuple[PositionChoice, NDArray[np.int64], NDArray[np.float64]]:
    """Choose how many positions carry a gradient, from moments collected before; the moments are used up.

    Parameters
    ----------
    watch : HiddenStateMoments
        With moments; aligned at the "end" for causal models, whose sets are suffixes, else at the "start".
    eps, ridge : float
        As in :func:`choose_positions`.
    tick : callable, optional
        Called after each layer.

    Returns
    -------
    (PositionChoice, int64 array (L,), float64 array (L, P))
        The choice, the positions that each layer needs by itself, and its coverage.

    Raises
    ------
    ValueError
        If there are no moments, or eps or the ridge is out of range.

    Notes
    -----
    One layer's moments at a time beside those that wait: O(P m^2) bytes more, and O(P m^3) a layer.

    Examples
    --------
    >>> choice, k, curves = choose_from_moments(watch)  # doctest: +SKIP
    """
    curves = []
    for part in watch.drain():
        bins, causal = part.bins, part.align == "end"
        order = np.arange(len(bins)) if causal else _spread(len(bins))
        curves.append(coverage(part.second[0], order, ridge=ridge))
        if tick is not None:
            tick()
    needed = np.array([min_positions(curve, eps) for curve in curves])
    decides = int(np.argmax(needed))
    k = np.diff(bins, axis=1)[order, 0].cumsum()[needed - 1]
    notes = _warnings(part, int(k[decides]), watch.layers[decides], needed[decides] == len(bins), ridge)
    choice = PositionChoice(
        int(k[decides]), order, curves[decides], watch.layers[decides], notes, bins, part.align
    )
    return choice, k, np.stack(curves)


def _spread(total: int) -> NDArray[np.int64]:
    """Position 0, then each time the middle of the widest gap, ties to the smaller index."""
    order, gaps = [0], [(1, total - 1)] if total > 1 else []
    while gaps:
        first, last = max(gaps, key=lambda gap: (gap[1] - gap[0], -gap[0]))
        gaps.remove((first, last))
        middle = (first + last) // 2
        order.append(middle)
        gaps += [gap for gap in ((first, middle - 1), (middle + 1, last)) if gap[0] <= gap[1]]
    return np.array(order, dtype=np.int64)


def _warnings(moments: PositionMoments, k: int, layer: str, needs_all: bool, ridge: float) -> tuple[str, ...]:
    total, width = len(moments.bins), moments.second.shape[-1]
    notes = ["coverage looks at inputs alone: k is necessary, it promises no accuracy"]
    if moments.align == "end":
        notes.append("key and value projections lose the gradient of the prefix")
    else:
        notes.append(
            "outside causal suffixes the selected gradient is a truncation; keep every readout position"
        )
    if needs_all:
        notes.append(f"layer {layer} needs all {k} positions: a subset saves nothing at this eps")
    if int(moments.count.sum()) < width:
        notes.append(f"only {int(moments.count.sum())} tokens for {width} dimensions: pass more batches")
    if moments.count.min() < moments.count.max() // 2:
        notes.append(f"rows differ in length: one position has {int(moments.count.min())} tokens")
    if total < moments.bins[-1, 1]:
        notes.append(f"{int(moments.bins[-1, 1])} positions share {total} bins: k counts whole bins")
    if not ridge and int(moments.count[0]) >= width:
        notes.append("without a ridge coverage is 1 as soon as a position has as many tokens as dimensions")
    return tuple(notes)
