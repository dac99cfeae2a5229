"""Watching a model run: evaluation mode, maps of the tiny transformer, calls; all as before afterwards."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from porism._modes import evaluation
from porism.checks import require

__all__ = ["call", "evaluation", "has_slot", "is_map", "is_mapping", "maps_of_slot", "token_mask"]


def is_mapping(inputs: Any) -> bool:
    """Whether inputs are keywords: a dict, or a tokenizer's output.

    Parameters
    ----------
    inputs : object
        Anything.

    Returns
    -------
    bool
        True for what has keys.

    Examples
    --------
    >>> is_mapping({"x": 1}), is_mapping([1])
    (True, False)
    """
    return isinstance(inputs, Mapping) or hasattr(inputs, "keys")


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


def is_map(value: Any) -> bool:
    """Whether something may be attention maps: a float tensor of shape (B, H, T, S).

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    bool
        True for float tensors of four axes.

    Examples
    --------
    >>> is_map(None)
    False
    """
    return getattr(value, "ndim", 0) == 4 and bool(value.is_floating_point())


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
    parameters = inspect.signature(model.forward).parameters
    keywords: dict[str, Any] = {}
    # a configuration that asks for all maps or a cache would hold every layer at once
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values()) and hasattr(model, "config")
    if "output_attentions" in parameters or (
        open_ended and getattr(model.config, "output_attentions", False)
    ):
        keywords["output_attentions"] = False
    if "use_cache" in parameters:
        keywords["use_cache"] = False
    if is_mapping(inputs):
        return model(**{**keywords, **{name: inputs[name] for name in inputs}})
    return model(inputs, **keywords)
