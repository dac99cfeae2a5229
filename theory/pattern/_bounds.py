"""Lower bounds on the least mass outside, for a checked problem."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from porism.checks import one_of
from porism.theory.pattern._parts import centred
from porism.theory.pattern._problem import Problem

__all__ = ["KINDS", "known_kinds", "lower_bounds"]

KINDS = ("R", "T", "P", "G")

Array = NDArray[np.float64]


def known_kinds(name: str, kinds: Iterable[str]) -> tuple[str, ...]:
    """The kinds asked for, checked; one may stand alone."""
    return tuple(one_of(name, kind, KINDS) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def lower_bounds(problem: Problem, kinds: Iterable[str] = KINDS) -> dict[str, float]:
    """The chosen bounds, each clamped to [0, 1]; G is left out unless the order is common."""
    chosen = [kind for kind in kinds if kind != "G" or problem.order == "common"]
    return {kind: min(max(0.0, _BOUNDS[kind](problem.W, problem.B)), 1.0) for kind in chosen}


def _rearrangement(W: Array, B: Array) -> float:
    return float(np.sort(W, axis=None)[::-1] @ np.sort(B, axis=None))


def _transport(W: Array, B: Array) -> float:
    return max(_assigned(_row_costs(W, B)), _assigned(_row_costs(W.T, B.T)))


def _singular_values(W: Array, B: Array) -> float:
    (rw, cw, inner_w), (rb, cb, inner_b) = centred(W), centred(B)
    m, n = W.shape
    means = float(W.mean() * B.sum())
    sums = float(np.sort(rw)[::-1] @ np.sort(rb)) / n + float(np.sort(cw)[::-1] @ np.sort(cb)) / m
    spectra = [np.linalg.svd(inner, compute_uv=False) for inner in (inner_w, inner_b)]
    return means + sums - float(spectra[0] @ spectra[1])


def _diagonal_apart(W: Array, B: Array) -> float:
    diagonal = np.outer(np.diag(B), np.diag(W))
    rows = diagonal + _row_costs(_off_diagonal(W), _off_diagonal(B))
    columns = diagonal + _row_costs(_off_diagonal(W.T), _off_diagonal(B.T))
    return max(_assigned(rows), _assigned(columns), _assigned((rows + columns) / 2))


_BOUNDS = {"R": _rearrangement, "T": _transport, "P": _singular_values, "G": _diagonal_apart}


def _row_costs(W: Array, B: Array) -> Array:
    """C[r, i]: least cost of source row r at position i if its cells may be rearranged at will."""
    return np.sort(B, axis=1) @ np.sort(W, axis=1)[:, ::-1].T


def _assigned(cost: Array) -> float:
    from scipy.optimize import linear_sum_assignment

    return float(cost[linear_sum_assignment(cost)].sum())


def _off_diagonal(M: Array) -> Array:
    n = len(M)
    return M[~np.eye(n, dtype=bool)].reshape(n, n - 1)
