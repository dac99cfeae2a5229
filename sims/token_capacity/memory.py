"""Bytes that a graph keeps for its backward pass."""

import weakref
from collections.abc import Callable
from typing import Any

from porism.checks import require

__all__ = ["measure_saved_bytes"]


class _Saved:
    """What the graph holds in place of a tensor; dies with its node."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def measure_saved_bytes(fn: Callable[[], Any], model: Any) -> int:
    r"""Count the bytes that autograd keeps alive between a forward pass and its backward pass.

    .. math:: \sum_{s \in \mathcal S \setminus \mathcal P} \mathrm{nbytes}(s)

    with 𝒮 the storages of the tensors saved by the graph of the returned value, each once, and 𝒫 the
    storages of the model's parameters and buffers.

    Parameters
    ----------
    fn : callable ``() -> result``
        Runs the forward pass and returns what holds its graph, such as the loss. A graph that is gone
        when `fn` returns (a backward pass inside, or nothing returned) counts nothing.
    model : torch.nn.Module
        Its parameters and buffers are left out: they are there with and without a graph.

    Returns
    -------
    int
        Bytes. Whole storages count: a view of ten rows keeps all of its tensor.

    Raises
    ------
    TypeError
        If `fn` is not callable or `model` is no module.

    Notes
    -----
    A number of the graph, the same on every device. It is not a peak: temporaries of the passes, weights,
    gradients and optimiser states come on top. Tensors that a custom function hides from
    `save_for_backward` are not seen.

    References
    ----------
    TC-9; `torch.autograd.graph.saved_tensors_hooks`.

    Examples
    --------
    >>> import torch
    >>> layer, x = torch.nn.Linear(4, 2), torch.zeros(8, 4)
    >>> measure_saved_bytes(lambda: layer(x).sum(), layer) == 8 * 4 * 4
    True
    """
    torch = require("torch", "torch")
    if not callable(fn):
        raise TypeError(f"fn must be callable, got {type(fn).__name__}; pass lambda: loss(...)")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}; pass the model itself")
    alive: weakref.WeakSet[_Saved] = weakref.WeakSet()

    def pack(tensor: Any) -> _Saved:
        saved = _Saved(tensor)
        alive.add(saved)
        return saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.tensor):
        result = fn()
    own = [*model.parameters(), *model.buffers()]
    known = {tensor.untyped_storage().data_ptr() for tensor in own}
    storages = {}
    for saved in alive:
        storage = saved.tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in known:
            storages[storage.data_ptr()] = storage.nbytes()
    del result  # it held the graph until here
    return sum(storages.values())
