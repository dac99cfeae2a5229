"""Checks and log-space helpers that the modules on policies share."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, positive

__all__: list[str] = []

Floats = NDArray[np.float64]

NORMALISED = 1e-6
"""Largest |log of the sum| that a row of log-probabilities may have."""


def log_sum(x: Floats) -> Floats:
    """Logarithm of the sum of exponentials over the last axis, -inf entries allowed."""
    top = x.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(x - top).sum(axis=-1)) + top[..., 0])


def normalise(x: Floats) -> Floats:
    """Subtract the logarithm of the sum from every row."""
    return np.asarray(x - log_sum(x)[..., None])


def log_values(name: str, value: ArrayLike, ndim: int | None = None) -> Floats:
    """Finite numbers, or -inf for outcomes outside the support."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        hidden = np.isneginf(array)
        return np.where(hidden, -np.inf, finite_array(name, np.where(hidden, 0.0, array), ndim))
    return finite_array(name, array, ndim)


def log_policy(name: str, value: ArrayLike, ndim: int | None = 1) -> Floats:
    """Rows of log-probabilities that sum to one."""
    array = log_values(name, value, ndim)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name} must have at least one outcome, got shape {array.shape}")
    off = np.abs(log_sum(array)).ravel()
    if not (off <= NORMALISED).all():
        row = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
        raise ValueError(
            f"{name} must hold log-probabilities with logsumexp 0, got {off[row]:.3g} in row {row}; "
            "subtract the logsumexp of each row"
        )
    return array


def log_policies(name: str, value: ArrayLike, log_ref: Floats) -> Floats:
    """Rows of log-probabilities that are positive exactly where the reference is."""
    rows = log_policy(name, value, 2)
    if rows.shape[1] != len(log_ref):
        raise ValueError(f"{name} must have {len(log_ref)} outcomes as log_ref, got shape {rows.shape}")
    off = np.isneginf(rows) != np.isneginf(log_ref)
    if off.any():
        row, outcome = (int(i) for i in np.argwhere(off)[0])
        signs = ("positive", "zero") if np.isneginf(log_ref[outcome]) else ("zero", "positive")
        raise ValueError(
            f"{name} must have the support of log_ref, but row {row} is {signs[0]} at outcome {outcome}, "
            f"where the reference is {signs[1]}; train policies from this reference"
        )
    return rows


def scaled(reward: Floats, beta: float | Floats) -> Floats:
    """Rewards in units of a temperature, nats."""
    with np.errstate(over="ignore"):
        found = np.asarray(reward / beta)
    if not np.isfinite(found).all():
        raise ValueError("reward / beta must be finite, got an overflow; raise beta, or rescale both")
    return found


def betas(name: str, value: ArrayLike) -> Floats:
    """One or several positive temperatures."""
    array = np.asarray(value)
    if array.ndim == 0:
        return np.asarray(positive(name, array.item()), dtype=np.float64)
    found = finite_array(name, array)
    if not (found > 0).all():
        raise ValueError(f"{name} must be > 0, got {found.min()}; pass positive temperatures")
    return found


def indices(name: str, value: Any, size: int) -> NDArray[np.int64]:
    """Whole numbers that point into an axis."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"{name} must be a 1-D array of ints, got dtype {array.dtype}, shape {array.shape}")
    if array.size and not (array.min() >= 0 and array.max() < size):
        bad = int(array[(array < 0) | (array >= size)][0])
        raise ValueError(f"{name} must be in 0..{size - 1}, got {bad}; number the outcomes from 0")
    return array.astype(np.int64)


def combined(log_ref: Floats, log_experts: Floats, a: Floats, base: bool = True) -> Floats:
    """Log-linear combination of experts, with the reference's own power or without."""
    on = np.isfinite(log_ref)
    whole = bool(on.all())
    mixed = np.asarray(a @ (log_experts if whole else log_experts[:, on]))
    if base:
        mixed += (1 - a.sum()) * (log_ref if whole else log_ref[on])
    top = float(mixed.max())
    if not math.isfinite(top):
        raise ValueError(
            f"coefficients must be small enough for finite logarithms, got one of {np.abs(a).max():.3g}; "
            "rescale the reward"
        )
    mixed -= top  # in place: a prediction takes little more than these passes
    mixed -= np.log(np.exp(mixed).sum())
    if whole:
        return mixed
    found = np.full(len(log_ref), -np.inf)
    found[on] = mixed
    return found
