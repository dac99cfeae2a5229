"""Gradients of each sample by themselves: the reference that dual scores are held against."""

from typing import Any

from porism.checks import one_of, require
from porism.theory.selection._inputs import gradient, losses, one_loss, parameters, samples, take

__all__ = ["per_sample_gradients"]


def per_sample_gradients(
    loss_vector: Any, params: Any, batch: Any, *, method: str = "loop"
) -> dict[str, Any]:
    """Gradient of every sample's loss, held at once.

    ``J_ij = d l_i / d theta_j``, with tensors of parameters kept apart.

    Parameters
    ----------
    loss_vector : callable ``(params, batch) -> tensor, shape (n,)``
        One loss a sample, computed from the parameters given.
    params : dict of str to tensor
        Parameters, in floats.
    batch : tensor, or tuple, list or dict of them
        Samples along the first axis.
    method : {"loop", "vmap"}
        One backward pass a sample, for any model; or all at once by `torch.func`, which needs operations that
        it can batch.

    Returns
    -------
    dict of str to tensor, shape (n, ...) with the axes of the parameter
        Without a graph.

    Raises
    ------
    MissingExtraError
        If torch is not installed.
    TypeError
        If params or batch hold something other than tensors.
    ValueError
        If the losses have another shape, are not finite, or do not depend on the parameters.

    Notes
    -----
    n P numbers: what `dual_scores` does without. ``loop`` costs n passes over one sample, ``vmap`` one pass
    whose products cannot be shared between samples.

    Examples
    --------
    >>> import torch
    >>> batch = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    >>> loss = lambda p, x: 0.5 * (x @ p["theta"]) ** 2
    >>> per_sample_gradients(loss, {"theta": torch.ones(2)}, batch)["theta"].tolist()
    [[3.0, 6.0], [0.0, 1.0]]
    """
    torch = require("torch", "torch")
    one_of("method", method, ("loop", "vmap"))
    theta, n = parameters(params), samples(batch)
    if method == "vmap":
        from torch.utils import _pytree

        leaves, form = _pytree.tree_flatten(batch)

        def loss(p: Any, *one: Any) -> Any:
            return loss_vector(p, _pytree.tree_unflatten([leaf[None] for leaf in one], form))[0]

        with torch.no_grad():
            losses(loss_vector, theta, batch, slice(0, n))
        held = [torch.as_tensor(leaf) for leaf in leaves]
        over = torch.func.vmap(torch.func.grad(loss), (None, *(0 for _ in held)))
        return {name: part.detach() for name, part in over(theta, *held).items()}
    found: dict[str, Any] = {}
    for i in range(n):
        at = slice(i, i + 1)
        part = take(batch, at)
        own = gradient("loss_vector", one_loss, theta, loss_vector, part, at, 0)[1]
        for name, value in own.items():
            if not i:
                found[name] = value.new_empty((n, *value.shape))
            found[name][i] = value
    return found
