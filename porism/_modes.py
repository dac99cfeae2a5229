"""Modes of a model, for what runs it and must leave it as it was."""

import contextlib
from collections.abc import Iterator
from typing import Any

from porism.checks import require

__all__ = ["evaluation"]


@contextlib.contextmanager
def evaluation(model: Any) -> Iterator[None]:
    """Run with a model in evaluation mode and without gradients; each module's own mode comes back.

    Parameters
    ----------
    model : torch.nn.Module
        The model.

    Returns
    -------
    context manager
        Gives nothing.

    Examples
    --------
    >>> with evaluation(model):  # doctest: +SKIP
    ...     model(x)
    """
    torch = require("torch", "torch")
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
