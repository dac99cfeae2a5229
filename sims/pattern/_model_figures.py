"""Pattern plus low rank, and the table of real matrices."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator
from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.pattern._real_rows import REAL, real_rows
from porism.sims.pattern.planted import planted_pattern
from porism.sims.pattern.worlds import load_matrix
from porism.sims.style import COLORS
from porism.theory.pattern import Mask, masks
from porism.theory.pattern.low_rank import PatternLowRankFit, pattern_plus_low_rank
from porism.theory.pattern.nulls import MIN_FOR_STARS, NullResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["low_rank", "low_rank_worlds", "real_data", "svd_errors"]

Floats = NDArray[np.float64]

FLOOR = 1e-4
"""Errors below are drawn here."""

CELLS = (28, 72, 116, 164)
"""Columns of the table beside the axes, in points."""


def low_rank_worlds(blocks: int, rng: Rng) -> dict[str, tuple[Floats, Mask, str]]:
    """Where a pattern is all there is, where it is half of it, and where low rank is the better model."""
    rng = generator(rng)
    mask = masks.block_diagonal([blocks] * 4)
    alone = planted_pattern(mask, random_state=rng)[0]
    mixed = planted_pattern(mask, low_rank=2, noise=0.1, random_state=rng)[0]
    features = load_matrix("breast_cancer")[0]
    return {
        "4 blocks": (alone, mask, "independent"),
        "4 blocks + rank 2 + noise": (mixed, mask, "independent"),
        "breast cancer, 3 blocks": (features, masks.block_diagonal([10] * 3), "common"),
    }


def svd_errors(A: Floats) -> tuple[Floats, Floats]:
    """Parameters and error of the best matrix of each rank 0, 1, ..., min(m, n)."""
    m, n = A.shape
    squares = np.linalg.svd(A, compute_uv=False) ** 2
    errors = 1 - np.concatenate([[0.0], np.cumsum(squares)]) / squares.sum()
    ranks = np.arange(min(m, n) + 1)
    return (ranks * (m + n - ranks)).astype(float), np.maximum(errors, 0.0)


def low_rank(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Error of a pattern plus low rank: always less at equal rank, not always at equal parameters."""
    big, rng = is_paper(scale), generator(rng)
    worlds = low_rank_worlds(16 if big else 5, rng)
    with canvas(ax, (11.0, 7.0)) as ax:
        axes = panels(ax, 2, 3)
        for column, (name, (A, mask, order)) in enumerate(worlds.items()):
            fit = pattern_plus_low_rank(A, mask, 3 if big else 1, order=order, random_state=0)
            _world(axes[column], axes[3 + column], name, A, fit)
            for place in (column, 3 + column) if column else ():
                axes[place].tick_params(labelleft=False)
        axes[0].set_ylabel("error (share of squares left)")
        axes[3].set_ylabel("error (share of squares left)")
        legend(axes[4], 2)
    return ax


def _world(top: "Axes", bottom: "Axes", name: str, A: Floats, fit: PatternLowRankFit) -> None:
    parameters, errors = svd_errors(A)
    m, n = A.shape
    ranks = np.arange(fit.rank + 1)
    ours = int(fit.mask.S.sum()) + ranks * (m + n - ranks)
    shown = slice(0, min(2 * fit.rank + 5, len(errors)))
    for axes, ours_x, svd_x in ((top, ranks, np.arange(len(errors))), (bottom, ours, parameters)):
        part = shown if axes is top else slice(None)
        for (color, marker, dash), x, y, label in (
            (LOOKS[0], svd_x[part], errors[part], "low rank alone (SVD)"),
            (LOOKS[3], ours_x, fit.path, "pattern plus low rank"),
        ):
            axes.plot(
                x,
                np.maximum(y, FLOOR),
                dash,
                color=color,
                marker=marker,
                markersize=4 if label.startswith("low") else 7,
                label=label,
                clip_on=False,
            )
        axes.set(yscale="log", ylim=(FLOOR, 1.3))
        axes.set_yticks([1, 0.1, 0.01, 0.001, FLOOR], ["1", "0.1", "0.01", "0.001", "≤ 0.0001"])
        axes.set_yticks([], minor=True)
    top.set(xlabel="rank of the low-rank part", xticks=range(0, shown.stop, 2))
    top.set_title(f"{name}, {m}×{n}", fontsize=10.5)
    wins = sum(a < b for a, b in zip(fit.path, fit.matched_path, strict=True))
    bottom.set_xlabel("parameters")
    bottom.set_title(f"less at equal parameters: {wins} of {len(ranks)}", fontsize=10.5)


def real_data(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Real graphs and correlations: distance, certificate and null, without which a distance says little."""
    names = list(REAL) if is_paper(scale) else [n for n in REAL if n.split(":")[0] in ("florentine", "wine")]
    rows = real_rows(names, n_null=19 if is_paper(scale) else 4, rng=rng)
    with canvas(ax, (9.4, 5.6)) as ax:
        for at, row in enumerate(rows.values()):
            _row(ax, at, row)
        for x, word in zip(CELLS, ("d²", "bound", "null", "p"), strict=True):
            _cell(ax, (1, -0.5), x, 10, word, fontweight="bold")
        ax.set_yticks(range(len(rows)), list(rows))
        ax.axvline(0, **GUIDE | {"linestyle": "-"})
        ax.set(
            xlim=(-0.01, 0.8),
            ylim=(len(rows) - 0.5, -0.5),
            xlabel="d² (share of squares outside the mask)",
            title="Real matrices, symmetric shuffles (Davis: in rows)",
        )
        legend(ax, 4, 0.14 if len(rows) > 8 else 0.24)
    return ax


def _row(ax: "Axes", at: int, row: NullResult) -> None:
    def label(word: str) -> str | None:
        return word if at == 0 else None

    null, bound, found = row.d2_null, row.fit.lower_bound, row.observed
    low, high, mean = float(null.min()), float(null.max()), float(null.mean())
    wide: dict[str, Any] = {"color": "0.72", "linewidth": 7, "solid_capstyle": "butt", "zorder": 1}
    ax.plot([low, high], [at, at], label=label("shuffled: range"), **wide)
    ax.plot(mean, at, "|", color="black", markersize=11, label=label("shuffled: mean"))
    ax.plot([bound, found], [at, at], color=COLORS[0], linewidth=1.4, zorder=2)
    ax.plot(bound, at, ">", color=COLORS[0], markersize=6, label=label("lower bound"))
    ax.plot(found, at, "o", color=COLORS[3], markersize=7, label=label("found"), zorder=4)
    p = f"{row.p_value:.2f}".lstrip("0") if row.n_null >= MIN_FOR_STARS else f"{row.n_null} nulls"
    numbers = (f"{value:.3f}".lstrip("0") for value in (found, bound, mean))
    for x, word in zip(CELLS, (*numbers, p), strict=True):
        _cell(ax, (1, at), x, 0, word)


def _cell(ax: "Axes", place: tuple[float, float], x: float, y: float, word: str, **look: Any) -> None:
    ax.annotate(
        word,
        place,
        (x, y),
        xycoords=ax.get_yaxis_transform(),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=9,
        **look,
    )
