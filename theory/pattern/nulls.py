"""Nulls: whether a distance is smaller than the same solver finds on shuffled matrices."""

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer
from porism.errors import UndecidedError
from porism.results import Result
from porism.theory.pattern._problem import prepare
from porism.theory.pattern._seeds import child_seed, recorded, root
from porism.theory.pattern.distance import pattern_distance
from porism.theory.pattern.errors import UninformativeMaskWarning
from porism.theory.pattern.fit import PatternFit
from porism.theory.pattern.mask import Mask
from porism.theory.pattern.shuffles import (
    TOLERANCE,
    Shuffle,
    admissible_cells,
    fixed_order_null,
    null_p_value,
    null_shuffle,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MIN_FOR_STARS", "NullResult", "holm", "null_moments", "pattern_null"]

MIN_FOR_STARS = 19
"""Nulls needed before a p-value of 0.05 is possible at all."""


@dataclasses.dataclass(frozen=True, eq=False)
class NullResult(Result):
    """An observed mass outside next to those of shuffled matrices.

    Parameters
    ----------
    d2_null : float64 array, shape (n_null,)
        Mass outside of each shuffled matrix, by the same solver.
    p_value : float
        ``(1 + #{d2_null <= observed + 1e-12}) / (1 + n_null)``.
    effect : float
        ``1 - observed / mean(d2_null)``, 0 where that mean is 0; 1 at best, negative if chance does better.
    observed : float
        Mass outside of the matrix (without its sinks, where the null strips them).
    null : str
        How masses were shuffled.
    fit : PatternFit
        What was found on the matrix itself.
    moments : tuple of float or None
        Exact mean and variance of the null, for order "none".
    seed : int or None
        Seed, None where a generator was passed or nothing.

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> result = pattern_null(np.eye(8), masks.band(8, 0), order="none", random_state=0)
    >>> result.p_value, result.n_null, round(result.moments[0], 6)
    (0.01, 99, 0.875)
    """

    d2_null: NDArray[np.float64]
    p_value: float
    effect: float
    observed: float
    null: str
    fit: PatternFit
    moments: tuple[float, float] | None = None
    seed: int | None = None

    @property
    def n_null(self) -> int:
        """Number of shuffled matrices."""
        return len(self.d2_null)

    def stars(self) -> str:
        """Mark the p-value: ``*`` up to 0.05, ``**`` up to 0.01, ``***`` up to 0.001.

        Returns
        -------
        str
            Zero to three stars.

        Raises
        ------
        UndecidedError
            With fewer than 19 nulls, where no p-value can reach 0.05.
        """
        if self.n_null < MIN_FOR_STARS:
            raise UndecidedError(
                f"stars need at least {MIN_FOR_STARS} nulls, got {self.n_null}: the smallest p-value "
                f"possible is {1 / (1 + self.n_null):.3g}; raise n_null"
            )
        return _stars(self.p_value)

    def summary(self) -> str:
        """Say what was observed, against which null, and how surprising it is.

        Returns
        -------
        str
            Text of a few lines; without stars where there are too few nulls for them.
        """
        mean = float(self.d2_null.mean())
        stars = f" {self.stars()}".rstrip() if self.n_null >= MIN_FOR_STARS else " (too few nulls for stars)"
        lines = [
            f"mass outside {self.observed:.6g}, null {self.null!r} {mean:.6g} (mean of {self.n_null})",
            f"effect {self.effect:.4g}, p = {self.p_value:.4g}{stars}",
        ]
        if self.fit.reason:
            lines.append(f"the value is no finding: {self.fit.reason}")
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the distribution of the null and the observed value.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        from matplotlib import pyplot

        ax = ax if ax is not None else pyplot.subplots()[1]
        ax.hist(self.d2_null, bins=min(30, 5 + self.n_null // 5), color="#6B6B6B", label=f"null: {self.null}")
        ax.axvline(self.observed, color="#D55E00", label="observed")
        ax.set(
            xlabel="mass outside",
            ylabel="shuffled matrices",
            title=f"{self.fit.mask.name}: effect {self.effect:.2f}, p = {self.p_value:.3g}",
        )
        ax.legend()
        return ax


def pattern_null(
    A: ArrayLike,
    mask: Mask | ArrayLike,
    *,
    null: str = "rows",
    n_null: int = 99,
    order: str = "independent",
    mass: str = "squared",
    admissible: str | ArrayLike | None = None,
    n_restarts: int | str = "auto",
    exact: bool | str = "auto",
    time_budget: float | None = None,
    random_state: int | np.random.Generator | None = None,
    n_jobs: int = 1,
) -> NullResult:
    """Compare a matrix with shuffled copies of itself, solved in the same way.

    ``p = (1 + #{d2_null <= d2 + 1e-12}) / (1 + N)`` and ``effect = 1 - d2 / mean(d2_null)``.

    Parameters
    ----------
    A : array_like, SciPy sparse or networkx graph, shape (m, n)
        Matrix, finite, not zero.
    mask : Mask or array_like, shape (m, n)
        Weights S in [0, 1].
    null : {"rows", "columns", "entries", "symmetric_entries", "rows_without_sinks(k)"}
        What is shuffled: entries inside each row, inside each column, all of them, pairs of mirrored entries
        with the diagonal apart (graphs, correlations; |A| must be symmetric), or the rows of A after its k
        heaviest columns were emptied and each row brought back to its sum, which then also holds for the
        observed matrix.
    n_null : int, default 99
        Shuffled matrices, >= 1; the smallest p-value is ``1 / (n_null + 1)``.
    order, mass, n_restarts, exact, time_budget
        As in :func:`pattern_distance`, the same for observed and shuffled matrices. With a time budget the
        result depends on the machine.
    admissible : "causal" or bool array (m, n), optional
        Cells that may hold mass; "causal" keeps j <= i. All cells by default.
    random_state : int, Generator or None
        Seed. Every matrix has child seeds of its own, one for the shuffle and one for the solver.
    n_jobs : int, default 1
        Processes (joblib); -1: all cores. The result does not depend on it.

    Returns
    -------
    NullResult
        Observed value, those of the null, p-value and effect.

    Raises
    ------
    ValueError
        If an option is unknown or out of range, A has mass in a cell that is not admissible, or is not
        symmetric where the null needs it.

    Notes
    -----
    A p-value is about this null only: shuffled rows spread what a sink column holds together, so that a head
    with sinks may look *less* patterned than chance (PD-18). N + 1 solves; order "none" needs none.

    References
    ----------
    PD-17, PD-18 and section 2.5 (reconstruction). B. Phipson and G. K. Smyth (2010), Permutation p-values
    should never be zero, doi:10.2202/1544-6115.1585.

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> A = np.kron(np.eye(2), np.ones((3, 3)))
    >>> pattern_null(A, masks.block_diagonal([3, 3]), order="common", n_null=19, random_state=0).p_value
    0.05
    """
    if integer("n_null", n_null) < 1:
        raise ValueError(f"n_null must be at least 1, got {n_null}; 99 allows p-values down to 0.01")
    jobs = integer("n_jobs", n_jobs)
    if jobs == 0:
        raise ValueError("n_jobs must not be 0, got 0; 1 runs here, -1 on all cores")
    problem = prepare(A, mask, order, mass)
    cells = admissible_cells(admissible, problem.shape)
    shuffle = null_shuffle(null, problem.B, cells, mass)
    options: dict[str, Any] = {
        "order": order,
        "mass": mass,
        "n_restarts": n_restarts,
        "exact": exact,
        "time_budget": time_budget,
    }
    seed, children = recorded(random_state), root(random_state).spawn(n_null + 1)
    stripped = null.startswith("rows_without")
    start = child_seed(children[0].spawn(2)[1])
    fit = pattern_distance(
        _entries(shuffle.masses, mass) if stripped else A, problem.mask, random_state=start, **options
    )
    moments = None
    if order == "none":
        moments = shuffle.moments(problem.W)
        values = fixed_order_null(shuffle, problem.W[None], n_null, np.random.default_rng(children[1]))[:, 0]
    elif jobs == 1:
        values = np.array([_solve(shuffle, problem.mask, child, options) for child in children[1:]])
    else:
        from joblib import Parallel, delayed

        tasks = (delayed(_solve)(shuffle, problem.mask, child, options) for child in children[1:])
        values = np.array(Parallel(n_jobs=jobs)(tasks))
    p_value, effect = null_p_value(fit.mass_outside, values)
    return NullResult(values, p_value, effect, fit.mass_outside, null, fit, moments, seed)


def null_moments(
    A: ArrayLike,
    mask: Mask | ArrayLike,
    *,
    null: str = "rows",
    mass: str = "squared",
    admissible: str | ArrayLike | None = None,
) -> tuple[float, float]:
    """Mean and variance of the mass outside over all shuffles, at fixed order, in closed form.

    For rows: mean ``sum_i mass_i mean(W_i) / sum B`` with W_i the penalties of the admissible cells of row
    i, that is ``1 - s_i / c_i`` for s_i mask cells out of c_i; variance
    ``sum_i s_i (c_i - s_i) (c_i sum b^2 - (sum b)^2) / (c_i^2 (c_i - 1))`` over ``(sum B)^2``.

    Parameters
    ----------
    A, mask, null, mass, admissible
        As in :func:`pattern_null`; nothing is reordered.

    Returns
    -------
    (float, float)
        Mean and variance.

    Raises
    ------
    ValueError
        As :func:`pattern_null` does.

    Notes
    -----
    O(m n). Weighted masks too: penalties take the place of 1 - s_i / c_i.

    References
    ----------
    PD-19 (reconstruction). W. Hoeffding (1951), A combinatorial central limit theorem,
    doi:10.1214/aoms/1177729545, for the variance of a permuted sum.

    Examples
    --------
    >>> mean, variance = null_moments([[3, 1], [0, 2]], [[1, 0], [0, 1]])
    >>> round(mean, 12), round(variance * 14**2, 12)
    (0.5, 20.0)
    """
    problem = prepare(A, mask, "none", mass)
    cells = admissible_cells(admissible, problem.shape)
    return null_shuffle(null, problem.B, cells, mass).moments(problem.W)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values of several tests so that rejecting those up to α errs anywhere with chance at most α.

    ``adjusted_(k) = max_{j <= k} min(1, (K - j + 1) p_(j))`` over the sorted values.

    Parameters
    ----------
    p_values : array_like, shape (K,)
        One p-value a test, in [0, 1]; any dependence between them.

    Returns
    -------
    float64 array, shape (K,)
        Adjusted values in the order given.

    Raises
    ------
    ValueError
        If a value is outside [0, 1].

    References
    ----------
    S. Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6, 65-70.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = finite_array("p_values", p_values, ndim=1)
    if ((p < 0) | (p > 1)).any():
        raise ValueError(f"p_values must lie in [0, 1], got {p[(p < 0) | (p > 1)][0]}; pass probabilities")
    order = np.argsort(p, kind="stable")
    scaled = np.minimum(p[order] * np.arange(p.size, 0, -1), 1.0)
    out = np.empty_like(p)
    out[order] = np.maximum.accumulate(scaled)
    return out


def _stars(p_value: float) -> str:
    return "*" * sum(p_value <= level + TOLERANCE for level in (0.05, 0.01, 0.001))


def _solve(shuffle: Shuffle, mask: Mask, child: np.random.SeedSequence, options: dict[str, Any]) -> float:
    where, start = child.spawn(2)
    A = _entries(shuffle.draw(np.random.default_rng(where), 1)[0], options["mass"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeMaskWarning)  # said once, about the matrix itself
        return pattern_distance(A, mask, random_state=child_seed(start), **options).mass_outside


def _entries(masses: NDArray[np.float64], mass: str) -> NDArray[np.float64]:
    return np.sqrt(masses) if mass == "squared" else masses
