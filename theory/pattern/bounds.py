"""Lower bounds on the pattern distance: they certify an order that reaches one of them."""

from collections.abc import Iterable
from typing import Any

from porism.theory.pattern._bounds import KINDS, known_kinds, lower_bounds
from porism.theory.pattern._problem import prepare

__all__ = ["pattern_lower_bound"]


def pattern_lower_bound(
    A: Any,
    mask: Any,
    *,
    order: str = "independent",
    mass: str = "squared",
    kinds: Iterable[str] = KINDS,
) -> dict[str, float]:
    """Bound the mass outside the mask from below, for all orders at once.

    With B the masses, summing to 1, and W the penalties, every order has ``sum(W * B[p][:, q])`` at least

    - R: the product of W sorted downwards and B sorted upwards (all cells rearranged);
    - T: the best assignment of rows, each rearranged within itself, or of columns if that is more;
    - P: means and sorted row and column sums, minus Σ σ_i σ_i of the doubly centred W and B;
    - G: as T, with diagonal cells kept on the diagonal (common orders only).

    Parameters
    ----------
    A : array_like, SciPy sparse or networkx graph, shape (m, n)
        The matrix; real, finite, not all zero.
    mask : Mask or array_like (m, n)
        Where the mass should be, weights in [0, 1].
    order : {"independent", "common", "none"}
        Which orders are admitted; "common" needs m = n. The bounds R, T and P hold for all three.
    mass : {"squared", "abs"}
        Mass of an entry: its square or its absolute value.
    kinds : iterable of {"R", "T", "P", "G"}
        Which bounds to compute; G is left out unless the order is common.

    Returns
    -------
    dict of str to float
        Each bound as a share of the total mass, in [0, 1], clamped at 0; the largest is the one to use.

    Raises
    ------
    TypeError
        If A is complex or not numeric.
    ValueError
        If A is not 2-D, has NaN, infinity or no mass, does not match the mask, or an option is unknown.
    MemoryError
        If A is sparse and too large to be written out.

    Notes
    -----
    R <= T <= G up to rounding; P is not comparable: T and G are the better ones for small matrices, P for
    large dense ones. R costs a sort of m n cells, T and G O(m² n + m n²) and assignments, P two sets of
    singular values.

    References
    ----------
    Gilmore (1962), "Optimal and suboptimal algorithms for the quadratic assignment problem",
    doi:10.1137/0110022. Lawler (1963), "The quadratic assignment problem", doi:10.1287/mnsc.9.4.586.
    Hadley, Rendl and Wolkowicz (1992), "A new lower bound via projection for the quadratic assignment
    problem", doi:10.1287/moor.17.3.727.

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> pattern_lower_bound([[2, 1, 0], [0, 1, 1], [1, 0, 0]], masks.band(3, 0), kinds=["R"])
    {'R': 0.25}
    """
    chosen = known_kinds("kinds", kinds)
    return lower_bounds(prepare(A, mask, order, mass), chosen)
