"""Graphs and correlations of real data against masks, with certificates and nulls."""

from collections.abc import Callable, Sequence

import numpy as np

from porism.checks import generator, one_of
from porism.sims.pattern.worlds import load_matrix
from porism.theory.pattern import Mask, masks
from porism.theory.pattern.nulls import NullResult, pattern_null

__all__ = ["REAL", "real_rows"]

REAL: dict[str, tuple[str, Callable[[], Mask]]] = {
    "karate: 2 blocks": ("karate", lambda: masks.block_diagonal([17, 17])),
    "karate: band 4": ("karate", lambda: masks.band(34, 4)),
    "karate: arrow 4": ("karate", lambda: masks.arrowhead(34, 4)),
    "les misérables: 7 blocks": ("les_miserables", lambda: masks.block_diagonal([11] * 7)),
    "les misérables: band 9": ("les_miserables", lambda: masks.band(77, 9)),
    "florentine: band 1": ("florentine", lambda: masks.band(15, 1)),
    "Davis: (9,9)×(7,7)": ("davis", lambda: masks.block_diagonal([9, 9], [7, 7])),
    "Davis: (9,9)×(6,8)": ("davis", lambda: masks.block_diagonal([9, 9], [6, 8])),
    "Davis: staircase": ("davis", lambda: masks.staircase(18, 14, _linear(18, 14))),
    "wine: 2 blocks": ("wine", lambda: masks.block_diagonal([7, 6])),
    "wine: arrow 4": ("wine", lambda: masks.arrowhead(13, 4)),
    "breast cancer: 3 blocks": ("breast_cancer", lambda: masks.block_diagonal([10, 10, 10])),
    "breast cancer: arrow 2": ("breast_cancer", lambda: masks.arrowhead(30, 2)),
    "diabetes: 3 blocks": ("diabetes", lambda: masks.block_diagonal([4, 3, 3])),
}
"""Matrices of real data, each with a mask; features and members move together, women and events apart."""


def real_rows(
    names: Sequence[str] = tuple(REAL),
    *,
    n_null: int = 19,
    rng: np.random.Generator | int | None = None,
) -> dict[str, NullResult]:
    """Distances, certificates and nulls of real matrices, by their keys in `REAL`.

    Symmetric matrices keep their symmetry when shuffled; in the table of women and events each woman keeps
    her number of events. Matrices of more than 50 rows, where a solve takes seconds, are shuffled 3 times.
    """
    rng = generator(rng)
    rows = {}
    for name in names:
        source, build = REAL[one_of("names", name, tuple(REAL))]
        A, mask = load_matrix(source)[0], build()
        square = source != "davis"
        rows[name] = pattern_null(
            A,
            mask,
            order="common" if square else "independent",
            null="symmetric_entries" if square else "rows",
            n_null=n_null if len(A) <= 50 else 3,
            random_state=int(rng.integers(2**31)),
        )
    return rows


def _linear(m: int, n: int) -> list[int]:
    return [-(-n * (m - i) // m) for i in range(m)]
