"""Arithmetic of a pivot: rotations of rank coordinates, what they change, and which coordinates are idle."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array
from porism.errors import NumericalWarning
from porism.sims.alignment._adapters import Adapter, double
from porism.sims.alignment._rotation import random_rotation
from porism.theory.alignment.subspace import principal_subspace

__all__ = ["change", "idle", "off", "orthogonal", "reseed", "rotation"]

Floats = NDArray[np.float64]

IDLE = 64.0  # units in the last place of the largest singular value below which one counts as zero


def orthogonal(rotation: Any, adapters: list[Adapter]) -> Floats:
    """A caller's rotation, checked against all ranks."""
    q = finite_array("rotation", double(rotation) if hasattr(rotation, "detach") else rotation)
    for adapter in adapters:
        if q.shape != (adapter.r, adapter.r):
            raise ValueError(
                f"rotation must have shape (r, r) = {(adapter.r, adapter.r)} for {adapter.name!r}, got "
                f"{q.shape}; use 'svd' or 'random' where ranks differ"
            )
    error = float(np.abs(q @ q.T - np.eye(len(q))).max())
    if error > 1e-4:
        raise ValueError(
            f"rotation must be orthogonal, got QQ' off the identity by {error:.3g}; use numpy.linalg.qr(Q)[0]"
        )
    left, _, right = np.linalg.svd(q)
    return np.asarray(left @ right)  # the nearest orthogonal matrix: a Q in float32 is off by 1e-7


def rotation(kind: str, b: Floats, rng: np.random.Generator) -> Floats:
    """Haar, or the canonical Q whose rows are the right singular vectors of B."""
    r = b.shape[1]
    if kind == "random":
        return random_rotation(rng, (), r)
    if not b.any():
        return np.eye(r)
    # singular vectors of B are the eigenvectors of B'B without squaring small values away
    core = np.linalg.qr(b, mode="r") if len(b) > r else b
    q = np.linalg.svd(core)[2]
    peak = q[np.arange(r), np.abs(q).argmax(axis=1)]
    return np.asarray(q * np.where(peak < 0, -1.0, 1.0)[:, None])


def idle(b: Floats, adapter: Adapter) -> NDArray[np.intp]:
    """Columns of B that are rounding; none where B has learnt nothing yet."""
    import torch

    lengths = np.linalg.norm(b, axis=0)
    eps = float(torch.finfo(adapter.b.dtype).eps)
    return np.flatnonzero((lengths <= min(IDLE * eps, 1e-4) * lengths.max()) & (lengths.max() > 0))


def reseed(
    a: Floats, b: Floats, idle: NDArray[np.intp], source: Any, adapter: Adapter, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Give idle rows of A new directions, and columns of B exact zeros; which ones."""
    live = np.setdiff1d(np.arange(len(a)), idle)
    idle = idle[: max(0, a.shape[1] - len(live))]
    if not idle.size:
        return idle
    held = np.linalg.qr(a[live].T)[0]  # (d, live)
    if isinstance(source, Mapping):
        x = source[adapter.name].x.astype(np.float64)
        x = x - x[0]
        x = x - (x @ held) @ held.T
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            fresh = principal_subspace(x, len(idle), random_state=rng).basis
    else:
        fresh = rng.standard_normal((len(idle), a.shape[1]))
    for _ in range(2):
        fresh = fresh - (fresh @ held) @ held.T
        fresh = np.linalg.qr(fresh.T)[0].T
    a[idle] = np.linalg.norm(a[idle], axis=1)[:, None] * fresh
    b[:, idle] = 0.0
    return idle


def change(a: Floats, b: Floats, new_a: Floats, new_b: Floats) -> float:
    """Relative change of the product, without forming it."""
    scale = _norm(b, a)
    if scale == 0:
        return 0.0
    return _norm(np.hstack([new_b, -b]), np.vstack([new_a, a])) / scale


def _norm(left: Floats, right: Floats) -> float:
    first, second = np.asarray(np.linalg.qr(left, mode="r")), np.asarray(np.linalg.qr(right.T, mode="r"))
    return float(np.linalg.norm(first @ second.T))


def off(a: Floats) -> float:
    """Share of the norm of AA' off its diagonal."""
    square = a @ a.T
    size = float(np.linalg.norm(square))
    return float(np.linalg.norm(square - np.diag(np.diag(square)))) / size if size else 0.0
