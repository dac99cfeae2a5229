"""Score matrices by family, the matrix of a balanced biclique, and random starts for the alternation."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, one_of, positive
from porism.sims.selection._scores import score_matrix
from porism.sims.selection.worlds import tanh_world

__all__ = ["FAMILIES", "biclique_matrix", "draw_matrix", "random_starts"]

Floats = NDArray[np.float64]
Rng = np.random.Generator | int | None

FAMILIES = ("gaussian", "signed", "positive", "gradients")
"""Independent entries; products of a normal pair of vectors; of a non-negative pair; of a net."""


def draw_matrix(family: str, n: int, P: int, rng: Rng = None) -> Floats:
    """Draw a score matrix.

    Parameters
    ----------
    family : {"gaussian", "signed", "positive", "gradients"}
        Standard normal entries; ``a_i b_j`` of standard normal numbers or of their sizes; or n samples and P
        parameters, at random, of a tanh net.
    n, P : int
        Rows and columns, >= 1.
    rng : Generator, int or None
        Source.

    Returns
    -------
    ndarray, shape (n, P)
        Scores.

    Raises
    ------
    ValueError
        If the family is unknown, a number is out of range, or "gradients" is asked for more than 49 columns.

    Examples
    --------
    >>> draw_matrix("positive", 2, 3, rng=0).min() > 0
    np.True_
    """
    one_of("family", family, FAMILIES)
    n, P = integer("n", n, 1), integer("P", P, 1, 49 if family == "gradients" else None)
    rng = generator(rng)
    if family == "gaussian":
        return rng.standard_normal((n, P))
    if family == "gradients":
        G = score_matrix(tanh_world(n=n, rng=rng))
        return G[:, np.sort(rng.permutation(G.shape[1])[:P])]
    a, b = rng.standard_normal(n), rng.standard_normal(P)
    return np.outer(a, b) if family == "signed" else np.abs(np.outer(a, b))


def biclique_matrix(adjacency: ArrayLike, penalty: float = 1e6) -> Floats:
    """Scores whose best k x k choice is worth k^2 if and only if a bipartite graph has a biclique K_kk.

    Parameters
    ----------
    adjacency : array_like of 0 and 1, shape (n, P)
        Edges.
    penalty : float
        What a missing edge costs, > 0.

    Returns
    -------
    ndarray, shape (n, P)
        1 on edges, minus the penalty elsewhere.

    Raises
    ------
    ValueError
        If an entry is neither 0 nor 1, or the penalty is not positive.

    Examples
    --------
    >>> biclique_matrix([[1, 0]], 5.0).tolist()
    [[1.0, -5.0]]
    """
    edges = finite_array("adjacency", adjacency, 2)
    if not np.isin(edges, (0.0, 1.0)).all():
        raise ValueError("adjacency must hold 0 and 1 only, got other values; mark an edge by 1")
    return np.where(edges == 1.0, 1.0, -positive("penalty", penalty))


def random_starts(P: int, n_cols: int, count: int = 20, rng: Rng = None) -> list[NDArray[np.int64]]:
    """Draw column sets to alternate from.

    Parameters
    ----------
    P : int
        Number of columns, >= 1.
    n_cols : int
        Size of each set, in 1..P.
    count : int, default 20
        Number of sets, >= 0.
    rng : Generator, int or None
        Source.

    Returns
    -------
    list of ndarray of int
        For ``joint_select(..., starts=...)``.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> [len(start) for start in random_starts(9, 4, 3, rng=0)]
    [4, 4, 4]
    """
    P, rng = integer("P", P, 1), generator(rng)
    n_cols, count = integer("n_cols", n_cols, 1, P), integer("count", count, 0)
    return [np.sort(rng.permutation(P)[:n_cols]) for _ in range(count)]
