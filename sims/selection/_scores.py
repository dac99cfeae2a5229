"""Definitions by hand: the score matrix in full, gradients of the validation loss, its curvature."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.sims.selection.worlds import ScoreWorld
from porism.theory.selection import per_sample_gradients

Floats = NDArray[np.float64]


def flat(values: Any) -> Floats:
    """One vector of all tensors."""
    parts = values.values() if isinstance(values, dict) else values
    found: Floats = np.concatenate([part.detach().double().flatten().numpy() for part in parts])
    return found


def unflat(vector: Floats, params: Any) -> dict[str, Any]:
    torch = require("torch", "torch")
    blocks = torch.as_tensor(vector).split([value.numel() for value in params.values()])
    return {
        name: block.view(value.shape) for (name, value), block in zip(params.items(), blocks, strict=True)
    }


def jacobian(world: ScoreWorld) -> Floats:
    """Gradient of each sample, shape (n, P), one backward pass each."""
    each = per_sample_gradients(world.loss_vector, world.params, world.batch)
    return np.concatenate([value.flatten(1).numpy() for value in each.values()], axis=1)


def val_gradient(world: ScoreWorld, theta: Floats | None = None) -> Floats:
    """Gradient of the validation loss, at the world's parameters or others."""
    torch = require("torch", "torch")
    params = world.params if theta is None else unflat(theta, world.params)
    leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
    return flat(torch.autograd.grad(world.val_loss(leaves), list(leaves.values())))


def val_curvature(world: ScoreWorld, direction: Floats) -> Floats:
    """Hessian of the validation loss times a vector."""
    torch = require("torch", "torch")
    leaves = {name: value.clone().requires_grad_() for name, value in world.params.items()}
    parts = torch.autograd.grad(world.val_loss(leaves), list(leaves.values()), create_graph=True)
    way = unflat(direction, world.params)
    product = sum((part * way[name]).sum() for part, name in zip(parts, leaves, strict=True))
    return flat(torch.autograd.grad(product, list(leaves.values())))


def score_matrix(world: ScoreWorld) -> Floats:
    """``G_ij = d_j l_i v_j``, in full."""
    return jacobian(world) * val_gradient(world)
