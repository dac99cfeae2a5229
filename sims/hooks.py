"""Watching a model run: evaluation mode, maps of the tiny transformer, calls; all as before afterwards."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from porism._models import is_mapping, quiet
from porism._modes import evaluation
from porism.checks import require

__all__ = [
    "MapWatch",
    "call",
    "evaluation",
    "find_maps",
    "has_slot",
    "is_mapping",
    "maps_of_slot",
    "token_mask",
]


def token_mask(inputs: Any) -> Any:
    """Boolean array (B, T) of the tokens that are no padding, or None where the inputs do not say.

    Parameters
    ----------
    inputs : mapping or Tensor
        What a model takes; "attention_mask" and "key_mask" are looked for.

    Returns
    -------
    bool array, shape (B, T), or None
        True for tokens.

    Raises
    ------
    ValueError
        If the mask has another number of axes.

    Examples
    --------
    >>> token_mask({"attention_mask": [[1, 1, 0]]})
    array([[ True,  True, False]])
    """
    found = None
    if is_mapping(inputs):
        for name in ("attention_mask", "key_mask"):
            if name in inputs and inputs[name] is not None:
                found = inputs[name]
    if found is None:
        return None
    mask = found.detach().cpu().numpy() if hasattr(found, "detach") else np.asarray(found)
    if mask.ndim != 2:
        raise ValueError(f"attention_mask must have shape (B, T), got {mask.shape}; pass the tokenizer's own")
    return mask.astype(bool)


def find_maps(output: Any) -> list[Any]:
    """Attention maps in what a module returned: float tensors (B, H, T, S) whose rows are shares.

    Biases have the same shape, and stand beside the maps in some models; a row of theirs has a negative entry
    or a sum other than 1. In a pair (output, maps) rows may have any positive sum.

    Parameters
    ----------
    output : object
        What a module returned.

    Returns
    -------
    list of Tensor
        The maps, those with NaN too; empty where there are none.

    Examples
    --------
    >>> find_maps((1.0, None))
    []
    """
    if not isinstance(output, tuple):
        return []
    found = []
    for value in output[1:]:
        if getattr(value, "ndim", 0) == 4 and value.is_floating_point() and value.numel():
            last = value[0, :, -1].double()
            shares = not bool(((last.sum(-1) - 1).abs() >= 0.02).any()) or len(output) == 2
            if shares and not bool((last < 0).any()):
                found.append(value)
    return found


class MapWatch:
    """Hands the attention maps of each layer to a function while a model runs, one layer at a time.

    Parameters
    ----------
    visit : callable ``(layer, maps) -> None``
        Receives the number of the layer in this pass, and its maps (B, H, T, T).

    Attributes
    ----------
    layers : int
        Layers with maps in the last pass.
    saw_none : bool
        Whether an attention module gave None in place of maps.

    Notes
    -----
    Maps are read from the innermost module named ...Attention that returns them; wrappers that pass them on
    are skipped, and so is cross-attention, whose rows and columns have no common order.

    Examples
    --------
    >>> watch = MapWatch(lambda layer, maps: print(layer, maps.shape))
    >>> with watch.watching(model):  # doctest: +SKIP
    ...     model(x)
    """

    def __init__(self, visit: Callable[[int, Any], None]) -> None:
        self.visit, self.layers, self.saw_none = visit, 0, False
        self._stack: list[bool] = []

    @contextlib.contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """Put hooks on a model for the length of a block.

        Parameters
        ----------
        model : torch.nn.Module
            The model.

        Returns
        -------
        context manager
            Gives nothing; the hooks are gone afterwards, also after an exception.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(model.register_forward_pre_hook(self._begin).remove)
            for module in model.modules():
                if has_slot(module):
                    stack.enter_context(maps_of_slot(module, self._report))
                if "attention" in type(module).__name__.casefold():
                    stack.callback(module.register_forward_pre_hook(self._enter).remove)
                    stack.callback(module.register_forward_hook(self._leave).remove)
            yield

    def _begin(self, module: Any, args: Any) -> None:
        self.layers = 0
        self._stack.clear()

    def _enter(self, module: Any, args: Any) -> None:
        self._stack.append(False)

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        seen = self._stack.pop()
        if not seen and isinstance(output, tuple) and len(output) > 1:
            maps = find_maps(output)
            self.saw_none |= not maps and any(value is None for value in output[1:])
            seen = bool(maps)
            if maps and maps[0].shape[2] == maps[0].shape[3]:
                self._report(maps[0])
        if seen and self._stack:
            self._stack[-1] = True

    def _report(self, maps: Any) -> None:
        self.layers += 1
        self.visit(self.layers - 1, maps.detach())


def has_slot(module: Any) -> bool:
    """Whether a module is a block of the tiny transformer, whose attention can be replaced.

    Parameters
    ----------
    module : object
        Anything.

    Returns
    -------
    bool
        True for blocks with an `attend`.

    Examples
    --------
    >>> has_slot(object())
    False
    """
    return hasattr(module, "attend") and all(hasattr(module, name) for name in "qkvo")


@contextlib.contextmanager
def maps_of_slot(module: Any, report: Callable[[Any], None]) -> Iterator[None]:
    """Take the place of a tiny transformer's attention, which computes no maps of its own.

    Parameters
    ----------
    module : Block
        Block of a tiny transformer.
    report : callable ``(maps) -> None``
        Receives the maps (B, H, T, T) of each pass.

    Returns
    -------
    context manager
        Gives nothing; what was in the slot comes back.

    Examples
    --------
    >>> with maps_of_slot(model.blocks[0], seen.append):  # doctest: +SKIP
    ...     model(x)
    """
    torch = require("torch", "torch")
    before = module.attend

    def attend(q: Any, k: Any, v: Any, mask: Any, causal: bool) -> Any:
        share = q.shape[1] // k.shape[1]
        keys = k.repeat_interleave(share, dim=1)
        scores = q @ keys.transpose(2, 3) / q.shape[3] ** 0.5
        if causal:
            visible = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).tril()
            scores = scores.masked_fill(~visible, float("-inf"))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        maps = scores.softmax(-1)
        if maps.shape[2] == maps.shape[3]:
            report(maps)
        return maps @ v.repeat_interleave(share, dim=1) if before is None else before(q, k, v, mask, causal)

    module.attend = attend
    try:
        yield
    finally:
        module.attend = before


def call(model: Any, inputs: Any) -> Any:
    """Run a model on keywords or on its one argument, without a cache and without collecting all maps.

    Parameters
    ----------
    model : torch.nn.Module
        The model.
    inputs : mapping or Tensor
        What it takes.

    Returns
    -------
    object
        What the model returns.

    Examples
    --------
    >>> call(model, tokenizer("one two", return_tensors="pt"))  # doctest: +SKIP
    """
    if is_mapping(inputs):
        return model(**(quiet(model) | {name: inputs[name] for name in inputs}))
    return model(inputs, **quiet(model))
