"""Several masks on one matrix: which pattern explains it, beyond what chance would give each mask."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.results import Result
from porism.theory.pattern._seeds import root
from porism.theory.pattern.mask import Mask
from porism.theory.pattern.nulls import MIN_FOR_STARS, NullResult, _stars, holm, pattern_null

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PatternComparison", "compare_patterns"]


@dataclasses.dataclass(frozen=True, eq=False)
class PatternComparison(Result):
    """One row a mask, largest effect first; every array has shape (K,).

    Parameters
    ----------
    mask : str array
        Names of the masks.
    mass_outside, lower_bound, gap : float64 arrays
        Value found, bound, and their difference.
    certified, exact : bool arrays
        Whether the bound is reached; whether the value is the minimum by enumeration or a closed solution.
    null_mean, effect : float64 arrays
        Mean over the null; ``1 - mass_outside / null_mean``.
    p_value, p_holm : float64 arrays
        P-value of the mask alone, and adjusted for the whole library.
    reason : str array
        Why a value is no finding, empty where it is one.
    results : tuple of NullResult
        In the same order.
    order, null : str
        What moved, and what was shuffled.

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> library = [masks.sink(6, 6, 1), masks.band(6, 0)]
    >>> table = compare_patterns(np.eye(6), library, order="none", random_state=0)
    >>> table.mask.tolist(), float(table.p_holm[0])
    (['band(w=0)', 'sink(k=1)'], 0.02)
    """

    mask: NDArray[np.str_]
    mass_outside: NDArray[np.float64]
    lower_bound: NDArray[np.float64]
    gap: NDArray[np.float64]
    certified: NDArray[np.bool_]
    exact: NDArray[np.bool_]
    null_mean: NDArray[np.float64]
    effect: NDArray[np.float64]
    p_value: NDArray[np.float64]
    p_holm: NDArray[np.float64]
    reason: NDArray[np.str_]
    results: tuple[NullResult, ...]
    order: str
    null: str

    def summary(self) -> str:
        """Table as text.

        Returns
        -------
        str
            One line a mask; a last line names order and null. Stars judge `p_holm`, and only where there
            are nulls enough.
        """
        n_null = self.results[0].n_null
        rows = [["mask", "outside", "bound", "null", "effect", "p", "p Holm", ""]]
        for k, name in enumerate(self.mask.tolist()):
            marks = "exact" if self.exact[k] else "certified" if self.certified[k] else ""
            if self.reason[k]:
                marks = "says nothing"
            elif n_null >= MIN_FOR_STARS:
                marks = f"{_stars(self.p_holm[k])} {marks}".strip()
            numbers = (
                self.mass_outside[k],
                self.lower_bound[k],
                self.null_mean[k],
                self.effect[k],
                self.p_value[k],
                self.p_holm[k],
            )
            rows.append([name, *(f"{number:.4g}" for number in numbers), marks])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        few = f", too few for stars (below {MIN_FOR_STARS})" if n_null < MIN_FOR_STARS else ""
        return "\n".join([*lines, f"order {self.order}, null {self.null!r} of {n_null}{few}"])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the observed value of each mask on the spread of its null.

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
        for place, result in enumerate(self.results):
            low, high = float(result.d2_null.min()), float(result.d2_null.max())
            ax.plot([low, high], [place, place], color="#6B6B6B", lw=6, solid_capstyle="butt", alpha=0.5)
            ax.plot(result.d2_null.mean(), place, "|", color="#6B6B6B", ms=14)
            ax.plot(result.observed, place, "o", color="#D55E00")
        names = [f"{name} (p {p:.2g})" for name, p in zip(self.mask, self.p_holm, strict=True)]
        ax.set_yticks(range(len(names)), names)
        ax.set(xlim=(-0.02, 1.02), xlabel="mass outside (dot) and its null (bar)", ylabel="")
        ax.invert_yaxis()
        return ax


def compare_patterns(
    A: ArrayLike,
    masks: Sequence[Mask | ArrayLike] | Mapping[str, Mask | ArrayLike],
    *,
    order: str = "independent",
    null: str = "rows",
    n_null: int = 99,
    mass: str = "squared",
    admissible: str | ArrayLike | None = None,
    n_restarts: int | str = "auto",
    exact: bool | str = "auto",
    time_budget: float | None = None,
    random_state: int | np.random.Generator | None = None,
    n_jobs: int = 1,
) -> PatternComparison:
    """Measure a matrix against several masks, each next to the same kind of null.

    Parameters
    ----------
    A : array_like, SciPy sparse or networkx graph, shape (m, n)
        Matrix, finite, not zero.
    masks : sequence of Mask or array_like, or mapping of names to them
        The library, at least one, all of shape (m, n).
    order, null, n_null, mass, admissible, n_restarts, exact, time_budget, n_jobs
        As in :func:`pattern_null`.
    random_state : int, Generator or None
        Seed; every mask has child seeds of its own.

    Returns
    -------
    PatternComparison
        Table sorted by effect, ties by the order given.

    Raises
    ------
    TypeError, ValueError
        If there is no mask, or as :func:`pattern_null` does.

    Notes
    -----
    Raw masses outside are not comparable between masks: a mask with more room leaves less. The effect and
    the p-value compare each with its own null. `p_holm` holds for the library as a whole.

    References
    ----------
    PD-17 and section 2.5 (reconstruction).

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> A = np.kron(np.eye(2), np.ones((4, 4)))
    >>> library = {"halves": masks.block_diagonal([4, 4]), "first column": masks.sink(8, 8, 1)}
    >>> compare_patterns(A, library, order="none", random_state=0).mask.tolist()
    ['halves', 'first column']
    """
    if isinstance(masks, Mask | str) or not np.iterable(masks):
        raise TypeError(f"masks must be a list or a mapping of masks, got {masks!r}; put it into a list")
    if isinstance(masks, Mapping):
        library: list[tuple[str, Any]] = [(str(name), mask) for name, mask in masks.items()]
    else:
        library = [(getattr(mask, "label", "custom"), mask) for mask in masks]
    if not library:
        raise ValueError("masks must name at least one mask, got none; pass a list or a mapping of masks")
    seeds = root(random_state).generate_state(len(library), np.uint64) >> np.uint64(1)
    results = [
        pattern_null(
            A,
            mask,
            null=null,
            n_null=n_null,
            order=order,
            mass=mass,
            admissible=admissible,
            n_restarts=n_restarts,
            exact=exact,
            time_budget=time_budget,
            random_state=int(seed),
            n_jobs=n_jobs,
        )
        for (_, mask), seed in zip(library, seeds, strict=True)
    ]
    p_holm = holm([result.p_value for result in results])
    ranks = sorted(range(len(results)), key=lambda k: -results[k].effect)
    chosen = [results[k] for k in ranks]
    fits = [result.fit for result in chosen]
    return PatternComparison(
        mask=np.array([library[k][0] for k in ranks]),
        mass_outside=np.array([fit.mass_outside for fit in fits]),
        lower_bound=np.array([fit.lower_bound for fit in fits]),
        gap=np.array([fit.gap for fit in fits]),
        certified=np.array([fit.certified for fit in fits]),
        exact=np.array([fit.exact for fit in fits]),
        null_mean=np.array([result.d2_null.mean() for result in chosen]),
        effect=np.array([result.effect for result in chosen]),
        p_value=np.array([result.p_value for result in chosen]),
        p_holm=p_holm[ranks],
        reason=np.array([fit.reason for fit in fits]),
        results=tuple(chosen),
        order=order,
        null=null,
    )
