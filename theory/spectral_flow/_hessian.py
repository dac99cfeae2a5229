"""Spectrum of the Hessian of ``|Y - B A|^2 / 2 + ridge (|A|^2 + |B|^2) / 2`` at a minimum, in blocks."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

STEEP = 1e-4
"""Relative gradient beyond which a point is not called critical."""


@dataclasses.dataclass(frozen=True)
class Spectrum:
    """What the decay rate needs to know.

    `gradient` is relative; eigenvalues up to `zero` count as zero; `smallest` is the least of all and
    `nonzero` the least above `zero` (0 if there is none); `flat` says whether a direction outside the
    tangents of ``(B K, K^-1 A)`` has eigenvalue zero, `gap_is_zero` whether by repeated singular values.
    """

    gradient: float
    zero: float
    smallest: float
    nonzero: float
    flat: bool
    gap_is_zero: bool


def spectrum(Y: Array, B: Array, A: Array, ridge: float) -> Spectrum:
    """Eigenvalues block by block."""
    R = Y - B @ A
    Ub, b, _ = np.linalg.svd(B, full_matrices=False)
    _, a, Va = np.linalg.svd(A, full_matrices=False)
    size = max(float(np.linalg.norm(Y)), float(a[0]) ** 2, float(b[0]) ** 2, ridge)
    if size == 0:
        return Spectrum(0.0, 0.0, 0.0, 0.0, True, False)
    slopes = (ridge * B - R @ A.T, ridge * A - B.T @ R)
    gradient = max(float(np.linalg.norm(slope)) for slope in slopes) / size**1.5
    # at a degenerate minimum an error e of the factors leaves a gradient e^3 and eigenvalues e^2
    zero = size * max(1e-9, 3 * gradient ** (2 / 3))
    rank_b, rank_a = int((b * b > zero).sum()), int((a * a > zero).sum())
    columns, rows = Ub[:, :rank_b], Va[:rank_a]
    # the residual maps the row space of A to the column space of B, and what is orthogonal likewise
    outer = R - columns @ (columns.T @ R)
    outer -= (outer @ rows.T) @ rows
    tau = np.linalg.svd(outer, compute_uv=False)[: min(Y.shape[0] - rank_b, Y.shape[1] - rank_a)]
    inner = _inner(a[:rank_a] ** 2, b[:rank_b] ** 2, ridge)
    row_gram, column_gram = A @ A.T, B.T @ B
    blocks = [inner]
    if Y.shape[0] - rank_b > len(tau):  # directions of B alone
        blocks.append(np.linalg.eigvalsh(row_gram) + ridge)
    if Y.shape[1] - rank_a > len(tau):
        blocks.append(np.linalg.eigvalsh(column_gram) + ridge)
    flat = gap_is_zero = False
    for t in tau:
        values = _pair(row_gram, column_gram, ridge, float(t))
        blocks.append(values)
        if (values > zero).all():  # and larger in every further block
            break
        if t - ridge > zero:
            gap_is_zero |= bool((np.abs(values) <= zero).any())
        else:
            flat |= ridge > 0 or _shared_kernel(row_gram, column_gram, zero)
        if t <= zero:
            break
    every = np.concatenate(blocks)
    above = every[every > zero]
    nonzero = float(above.min()) if above.size else 0.0
    return Spectrum(gradient, zero, float(every.min()), nonzero, flat, gap_is_zero)


def _inner(a: Array, b: Array, ridge: float) -> Array:
    """Eigenvalues inside the row space of A and the column space of B, from squared singular values.

    With no ridge those of ``W -> W A'A + B B'W``; the others are the tangents of ``(B K, K^-1 A)``, at zero.
    A ridge balances the factors, and in singular coordinates, x_ij of B and z_ij of A, the form is the sum of
    ``(x_ij sqrt(s_j) + sqrt(s_i) z_ij)^2 + ridge (x_ij - z_ji)^2``: eigenvalues ``s_i + s_j``, ``2 ridge``,
    zero for the tangents that are rotations, and ``s_i + s_j + 2 ridge``, which is never the least.
    """
    inner = np.add.outer(a, b).ravel()
    return np.append(inner, 2 * ridge) if ridge > 0 and inner.size else inner


def _pair(row_gram: Array, column_gram: Array, ridge: float, tau: float) -> Array:
    """Eigenvalues of the block that a singular triple of the residual ties together."""
    r = len(row_gram)
    tie = -tau * np.eye(r)
    block = np.block([[row_gram, tie], [tie, column_gram]]) + ridge * np.eye(2 * r)
    return np.linalg.eigvalsh(block)


def _shared_kernel(row_gram: Array, column_gram: Array, zero: float) -> bool:
    """Whether a spare mode is absent from both factors, so that its loss is of fourth order."""
    kernels = []
    for gram in (row_gram, column_gram):
        values, vectors = np.linalg.eigh(gram)
        kernels.append(vectors[:, values <= zero])
    overlap = kernels[0].T @ kernels[1]
    return bool((np.abs(overlap) > 1e-6).any())
