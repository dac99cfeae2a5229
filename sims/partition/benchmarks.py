"""Benchmarks of the partition module against shapiq, shap and a vectorised NumPy version."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.benchmark import compare, missing_peer
from porism.sims.partition.games import block_game
from porism.theory.partition import Semivalue, TopK, UtilityTable, certify_partition, semivalues

__all__ = ["BENCHMARKS"]

N = 16
TOLERANCE = 1e-9  # float64 sums of 2^16 terms of size 10


def shapley_against_shapiq() -> dict[str, Any]:
    """Shapley values of a table of 16 players; shapiq's exact computer with its own evaluation."""
    task = f"Shapley values from a table, n={N}"
    table = _table()
    return missing_peer(task, "shapiq") or compare(
        task, "shapiq", lambda: semivalues(table, Semivalue.shapley()), _shapiq(table), _apart, TOLERANCE
    )


def shapley_against_shap() -> dict[str, Any]:
    """Shapley values of a table of 16 players; shap's exact explainer, already compiled."""
    task = f"Shapley values from a table, n={N}"
    table = _table()
    return missing_peer(task, "shap") or compare(
        task, "shap", lambda: semivalues(table, Semivalue.shapley()), _shap(table), _apart, TOLERANCE
    )


def shapley_against_numpy() -> dict[str, Any]:
    """Shapley values of a table of 20 players; the same fold in vectorised NumPy."""
    table = block_game(20, 10, 2.0, 0)
    return compare(
        "Shapley values from a table, n=20",
        "numpy",
        lambda: semivalues(table, Semivalue.shapley()),
        lambda: _numpy_fold(table.scores),
        _apart,
        TOLERANCE,
    )


def certificates_against_shapiq() -> dict[str, Any]:
    """Certificates with both radii for every k, against shapiq's Shapley values alone."""
    task = f"certificates with radii for all k, n={N} (peer: Shapley values only)"
    table = _table()

    def ours() -> NDArray[np.float64]:
        found = [certify_partition(table, Semivalue.shapley(), TopK(k)) for k in range(1, N)]
        return np.array(found[0].semivalues)

    return missing_peer(task, "shapiq") or compare(task, "shapiq", ours, _shapiq(table), _apart, TOLERANCE, 3)


BENCHMARKS = [
    shapley_against_numpy,
    shapley_against_shap,
    shapley_against_shapiq,
    certificates_against_shapiq,
]


def _table() -> UtilityTable:
    return block_game(N, N // 2, 2.0, 0)


def _apart(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    return float(np.abs(ours - theirs).max())


def _shapiq(table: UtilityTable) -> Callable[[], NDArray[np.float64]]:
    import shapiq

    n, powers = table.n_players, 1 << np.arange(table.n_players)

    def look_up(members: NDArray[np.bool_]) -> NDArray[np.float64]:
        return table.scores[members @ powers]

    def run() -> NDArray[np.float64]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = shapiq.ExactComputer(look_up, n_players=n)("SV", 1)
        return np.array([found[(i,)] for i in range(n)])

    return run


def _shap(table: UtilityTable) -> Callable[[], NDArray[np.float64]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own imports
        import shap

    n, powers = table.n_players, 1 << np.arange(table.n_players)
    background, point = np.zeros((1, n)), np.ones((1, n))
    explainer = shap.explainers.ExactExplainer(
        lambda x: table.scores[x.astype(np.int64) @ powers], background
    )
    explainer.masker = shap.maskers.Independent(background, max_samples=1)

    def run() -> NDArray[np.float64]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(explainer(point, max_evals=1 << (n + 1), silent=True).values[0])

    return run


def _numpy_fold(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    n = scores.size.bit_length() - 1
    p = np.array([float(x) for x in Semivalue.shapley().exact_weights(n)] + [0.0])
    q = np.array([float(x) for x in Semivalue.shapley().exact_pair_weights(n)])
    sizes = np.bitwise_count(np.arange(scores.size))
    folded = q[sizes] * scores
    constant = p[n - 1] * scores[-1] - p[sizes] @ scores
    out = np.empty(n)
    for i in range(n - 1, -1, -1):
        half = folded.size // 2
        out[i] = folded[half:].sum()
        folded = folded[:half] + folded[half:]
    return out + constant
