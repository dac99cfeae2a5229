"""Figures of the pattern module: each draws on one axes, or around it, and returns it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator
from porism.sims.drawing import LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.pattern._families import family_cases
from porism.sims.pattern._figure_data import agreement, bound_tightness, hit_rates, recovery
from porism.sims.pattern._head_figure import heads
from porism.sims.pattern._model_figures import low_rank, real_data
from porism.sims.pattern._peers import PEERS, has_seriation
from porism.sims.pattern.planted import planted_pattern
from porism.sims.style import COLORS
from porism.theory.pattern import masks, pattern_distance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

COLUMNS = 7
"""Families side by side."""

SPECTRAL = ["SpectralBiclustering", "SpectralCoclustering"]


def families(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """All families, planted, shuffled and recovered: one solver for every mask."""
    from matplotlib.collections import LineCollection

    n, rng = (20 if is_paper(scale) else 12), generator(rng)
    with canvas(ax, (11.0, 7.6)) as ax:
        for at, (name, (mask, order)) in enumerate(family_cases(n).items()):
            A, truth = planted_pattern(mask, signal="sign", noise=0.15, order=order, random_state=rng)
            fit = pattern_distance(A, mask, order=order, random_state=0)
            x, y = 1.12 * (at % COLUMNS), 2.75 * (at // COLUMNS)
            rows, columns = A.shape
            wide, tall = columns / n, rows / n
            for down, shown in ((0.0, A), (1.08, fit.reorder(A))):
                ax.imshow(
                    np.abs(shown),
                    extent=(x, x + wide, y + down + tall, y + down),
                    cmap="Greys",
                    vmin=0,
                    vmax=1.4,
                    interpolation="nearest",
                    gid=f"{name}:{'shuffled' if down == 0 else 'recovered'}",
                )
            edges = _outline(mask.S) / n + (x, y + 1.08)
            ax.add_collection(LineCollection(list(edges), colors=COLORS[3], linewidths=1.1))
            ax.text(x, y - 0.07, name, fontsize=9.5, ha="left", va="bottom")
            found = "planted cells" if truth.found_by(fit) else f"(planted: {truth.mass_outside:.3f})"
            ax.text(x, y + 2.12, f"d² {fit.mass_outside:.3f}\n{found}", fontsize=8.5, ha="left", va="top")
        ax.set(
            xlim=(-0.05, 1.12 * COLUMNS),
            ylim=(5.2, -0.3),
            aspect="equal",
            xticks=[],
            yticks=[],
            xlabel="above: as given; below: reordered, outline of the mask",
            title="Random signs in a mask, noise 0.15: shuffled and recovered",
        )
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
    return ax


def recovered(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Recovery against noise and size: at low noise all is found, where other methods fail by design."""
    big, rng = is_paper(scale), generator(rng)
    noises = [0.1, 0.3, 0.4, 0.5, 0.6, 0.8] if big else [0.1, 0.6]
    sizes = [12, 16, 24, 32] if big else [10, 14]
    rough = [0.3, 0.6, 0.75, 0.9, 1.2] if big else [0.3, 0.9]
    widths = [4, 8, 12, 16] if big else [3, 5]
    rivals = ["RCM of the top entries", "FAQ x10" if big else "FAQ x1", "Fiedler"]
    rivals += ["seriation ARSA"] if has_seriation() else []
    solvers: dict[str, Callable[..., Any]] = {name: PEERS[name][1] for name in rivals}
    trials, repeats = (6, 3) if big else (2, 1)
    band = 24 if big else 12
    four = masks.block_diagonal([20] * 4, [15] * 4) if big else masks.block_diagonal([5] * 4)
    bands = [[(masks.band(band, 2), s) for s in noises], [(masks.band(n, 2), 0.3) for n in sizes]]
    blocks = [[(four, s) for s in rough], [(masks.block_diagonal([b] * 4), 0.75) for b in widths]]
    scores = [recovery(worlds, solvers, trials=trials, rng=rng) for worlds in bands]
    scores += [agreement(worlds, SPECTRAL, trials=repeats, rng=rng) for worlds in blocks]
    tall, wide = (size // 4 for size in four.shape)
    titles = [f"band 2 of {band}", "band 2, σ = 0.3", f"4 blocks of {tall}×{wide}"]
    titles.append("4 square blocks, σ = 0.75")
    along: list[list[Any]] = [list(noises), list(sizes), list(rough), list(widths)]
    labels = ["noise σ", "rows n", "noise σ", "rows in a block"]
    with canvas(ax, (10.0, 7.8)) as ax:
        axes = panels(ax, 2, 2)
        for place in range(4):
            x = along[place]
            names = ["ours", *(rivals if place < 2 else SPECTRAL)]
            _curves(axes[place], x, names, scores[place])
            score = f"share of {trials} recovered" if place < 2 else f"adjusted Rand index, mean of {repeats}"
            axes[place].set(ylim=(0, 1.03), xlabel=labels[place], ylabel=score, title=titles[place])
            if place % 2:
                axes[place].set_xticks(x)
            legend(axes[place], 2)
    return ax


def certificates(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Gap to brute force, and how tight the lower bounds are: P overtakes T as matrices grow."""
    big, rng = is_paper(scale), generator(rng)
    small = [4, 5, 6, 7, 8] if big else [4, 6]
    grown = [8, 16, 32, 64, 128] if big else [8, 16, 32]
    share, excess = [], []
    budgets: dict[str, list[int | str]] = {"common": [0, "auto"], "independent": [0, 1, "auto"]}
    for order, restarts in budgets.items():
        hits, over = hit_rates(small, restarts, order=order, matrices=6 if big else 2, rng=rng)
        share.append(hits)
        excess.append(over)
    names = ["common, no restart", "common, default"]
    names += [f"independent, {word}" for word in ("no restart", "1", "default")]
    free = bound_tightness([*grown, 256] if big else grown, matrices=1, rng=rng)
    common = bound_tightness(grown, order="common", matrices=1, rng=rng)
    with canvas(ax, (12.0, 4.8)) as ax:
        ax, left, right = panels(ax, 1, 3)
        _curves(ax, small, names, np.hstack(share))
        worst = 100 * max(float(part[:, -1].max()) for part in excess)
        ax.set(
            ylim=(0, 1.03),
            xticks=small,
            xlabel="rows and columns n",
            ylabel="share of optima found",
            title=f"default search: worst excess {worst:.2f} %",
        )
        legend(ax, 2)
        for axes, found, order in ((left, free, "independent"), (right, common, "common")):
            x = [*grown, 256][: len(found["R"])]
            _curves(axes, x, list(found), np.stack(list(found.values()), axis=1))
            axes.set_xscale("log", base=2)
            axes.set_xticks(x, [str(n) for n in x])
            axes.set(
                ylim=(0, 1.03),
                xlabel="rows and columns n",
                ylabel="lower bound / d² found",
                title=f"4 blocks, Gaussian, {order}",
            )
            legend(axes, 4)
    return ax


def _curves(ax: "Axes", x: list[Any], names: list[str], values: NDArray[np.float64]) -> None:
    for name, column, (color, marker, dash) in zip(names, values.T, LOOKS, strict=False):
        ax.plot(x, column, dash, color=color, marker=marker, markersize=6, label=name, clip_on=False)


def _outline(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """Segments (k, 2, 2) of points (x, y) around the cells of weight above 0, in units of cells."""
    inside = np.pad(S > 0, 1)
    i, j = np.nonzero(inside[1:-1, 1:] != inside[1:-1, :-1])  # upright, left of column j
    upright = np.stack([np.stack([j, i], 1), np.stack([j, i + 1], 1)], 1)
    i, j = np.nonzero(inside[1:, 1:-1] != inside[:-1, 1:-1])
    level = np.stack([np.stack([j, i], 1), np.stack([j + 1, i], 1)], 1)
    return np.concatenate([upright, level]).astype(np.float64)


FIGURES = {
    "F1": families,
    "F2": recovered,
    "F3": certificates,
    "F4": low_rank,
    "F5": real_data,
    "F6": heads,
}
