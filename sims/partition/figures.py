"""Figures of the partition module: each draws on one axes and returns it."""

import math
from typing import TYPE_CHECKING

import numpy as np

from porism.checks import generator
from porism.sims.partition._drawing import (
    GUIDE,
    KINDS,
    LOOKS,
    Rng,
    canvas,
    infinity,
    is_paper,
    legend,
    ratio_axis,
    squash,
)
from porism.sims.partition._level_figures import curves, verdicts, witness
from porism.sims.partition.figure_data import cutoff_radii, real_radii, robust_fractions, robust_k_fractions
from porism.sims.partition.games import block_game, modular_game
from porism.sims.partition.tables import DATASETS
from porism.sims.style import COLORS
from porism.theory.partition import Semivalue, UtilityTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

WORDS = {"breast_cancer": "breast\ncancer", "digits01": "digits\n0 and 1", "wine": "wine"}


def noise(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Robust fraction against noise: the Banzhaf selection survives noise that breaks the others."""
    seeds, rng = (100 if is_paper(scale) else 20), generator(rng)
    widths = np.array([0, 0.5, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4] if is_paper(scale) else [0, 1, 2, 3])
    fractions = robust_fractions(widths, KINDS, seeds=seeds, rng=rng)
    with canvas(ax) as ax:
        ax.axvline(1.0, **GUIDE)
        ax.annotate(
            "dominant up to here",
            (1.0, 0.5),
            (-4, 0),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="center",
            fontsize=9,
            color="0.25",
        )
        for name, column in zip(KINDS, fractions.T, strict=True):
            color, marker, dash = LOOKS[name]
            ax.plot(
                widths,
                column,
                dash,
                color=color,
                marker=marker,
                markersize=6,
                label=name,
                clip_on=False,
                zorder=3,
            )
        ax.set(
            xlabel="noise width (values of one good player)",
            ylabel=f"robust fraction of {seeds} games",
            ylim=(0, 1.03),
            title="Top 5 of 10: who survives noise",
        )
        legend(ax, 4)
    return ax


def radii(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Slope radius on real data with three flipped labels: most selections break, but not at once."""
    seeds, rng = (20 if is_paper(scale) else 4), generator(rng)
    kinds = {name: KINDS[name] for name in ("Shapley", "Banzhaf")}
    groups = [(dataset, metric) for dataset in DATASETS for metric in ("soft", "accuracy")]
    found = [real_radii(dataset, metric, kinds, seeds=seeds, rng=rng) for dataset, metric in groups]
    top = infinity([result.radius for result in found])
    with canvas(ax, (6.8, 4.9)) as ax:
        for at, result in enumerate(found):
            for side, name in enumerate(kinds):
                color, marker, _ = LOOKS[name]
                radius = result.radius[:, side]
                radius = np.sort(radius[~np.isnan(radius)])
                place = at + (-0.2, 0.2)[side]
                spread = np.linspace(-0.13, 0.13, len(radius)) if len(radius) > 1 else np.zeros(len(radius))
                ax.plot(
                    place + spread,
                    np.minimum(radius, top),
                    marker,
                    color=color,
                    markersize=4.5,
                    alpha=0.75,
                    markeredgewidth=0,
                    label=name if at == 0 else None,
                    gid=f"{groups[at]}",
                )
                middle = min(float(result.median[side]), top)
                ax.plot(
                    [place - 0.18, place + 0.18],
                    [middle] * 2,
                    color="black",
                    linewidth=2,
                    label="median" if at == side == 0 else None,
                )
        ties = [int(result.ties.sum()) for result in found]
        tied = f"; {sum(ties)} tied draws left out" if sum(ties) else "; no ties"
        words = {"soft": "soft", "accuracy": "acc."}
        ax.set_xticks(
            range(len(groups)), [f"{WORDS[dataset]}\n{words[metric]}" for dataset, metric in groups]
        )
        ax.set(
            xlabel="data set and score of 3-NN",
            ylabel="slope radius κ* (ratio of slopes)",
            title=f"Keep 9 of 12 points, {seeds} draws{tied}",
        )
        ratio_axis(ax, "y", top)
        ax.grid(visible=False, axis="x")
        for at in range(1, len(groups)):
            ax.axvline(at - 0.5, color="0.85", linewidth=0.8 if at % 2 else 1.6, zorder=0)
        legend(ax, 3, below=0.27)
    return ax


def recall(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Recall of flipped labels against the slope radius: fragile selections also find fewer of them."""
    seeds, rng = (40 if is_paper(scale) else 4), generator(rng)
    kinds = {"Banzhaf": KINDS["Banzhaf"], "Shapley": KINDS["Shapley"]}
    found = {dataset: real_radii(dataset, "soft", kinds, seeds=seeds, rng=rng) for dataset in DATASETS}
    top = infinity([result.radius for result in found.values()])
    with canvas(ax, (6.8, 4.4)) as ax:
        pooled = []
        for (dataset, result), color, marker in zip(found.items(), COLORS, "osD", strict=False):
            kept = ~np.isnan(result.radius)
            radius, hits = result.radius[kept], result.recall[kept]
            pooled.append((radius, hits))
            robust = np.isinf(radius)
            radius = np.where(robust, top * rng.uniform(0.85, 1.15, hits.size), radius)
            height = hits + rng.uniform(-0.045, 0.045, hits.size)
            ax.plot(
                radius[~robust],
                height[~robust],
                marker,
                color=color,
                markersize=5,
                alpha=0.5,
                markeredgewidth=0,
                label=WORDS[dataset].replace("\n", " "),
            )
            ax.plot(
                radius[robust], height[robust], marker, color=color, markersize=7, markeredgecolor="black"
            )
        radius, hits = np.concatenate(pooled, axis=1)
        fifths = np.array_split(np.argsort(radius, kind="stable"), 5)
        ax.plot(
            [min(np.median(radius[part]), top) for part in fifths],
            [hits[part].mean() for part in fifths],
            "-v",
            color="black",
            markersize=6,
            label="mean of each fifth",
            zorder=4,
        )
        ax.plot([], [], "o", color="white", markeredgecolor="black", label="robust")
        ax.set_yticks(np.arange(4) / 3, ["0", "1/3", "2/3", "1"])
        ax.set(
            ylim=(-0.1, 1.1),
            xlabel="slope radius κ* (ratio of slopes)",
            ylabel="recall of the 3 flipped labels",
            title=f"Found labels and robustness, {seeds} draws a data set",
        )
        ratio_axis(ax, "x", top)
        legend(ax, 3)
    return ax


def cutoffs(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Slope radius when coalitions below a size may score anything: what small coalitions decide."""
    n, seeds, rng = (*((10, 20) if is_paper(scale) else (8, 4)), generator(rng))
    tables = [block_game(n, n // 2, 1.5, rng) for _ in range(seeds)]
    sizes = np.arange(1, n)
    with canvas(ax, (6.4, 4.4)) as ax:
        for name, sv in KINDS.items():
            color, marker, dash = LOOKS[name]
            middle = np.median(cutoff_radii(tables, sv, n // 2, sizes.tolist()), axis=0)
            ax.plot(
                sizes,
                squash(middle),
                dash,
                color=color,
                marker=marker,
                markersize=6,
                label=name,
                clip_on=False,
                zorder=3,
            )
        ax.axhline(squash(1.0), **GUIDE)
        ax.annotate(
            "fails with φ fixed",
            (sizes[-1], squash(1.0)),
            (0, -3),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=9,
            color="0.25",
        )
        ticks = np.array([0, 0.1, 1, 10, 100, math.inf])
        ax.set_yticks(squash(ticks), ["0", "0.1", "1", "10", "100", "∞"])
        ax.set(
            xticks=sizes,
            ylim=(0, 1.06),
            xlabel="cut-off m (coalitions of fewer than m players are free)",
            ylabel="median slope radius κ*",
            title=f"Top {n // 2} of {n}, {seeds} games",
        )
        legend(ax, 4)
    return ax


def robust_k(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Robust fraction for every k and semivalue: only the real steps between players are certified."""
    seeds, rng = (60 if is_paper(scale) else 5), generator(rng)
    weights = np.array([2, 2, 2, 1, 1, 1, 1, 0, 0, 0], dtype=float)
    base = modular_game(weights).scores
    tables = [UtilityTable.from_array(base + 1.5 * rng.random(base.size)) for _ in range(seeds)]
    beta = Semivalue.beta
    kinds = {
        "Beta(16,1)": beta(16, 1),
        "Beta(4,1)": KINDS["Beta(4,1)"],
        "w-Banzhaf ¼": Semivalue.weighted_banzhaf("1/4"),
        "Shapley": KINDS["Shapley"],
        "Banzhaf": KINDS["Banzhaf"],
        "w-Banzhaf ¾": Semivalue.weighted_banzhaf("3/4"),
        "Beta(1,4)": KINDS["Beta(1,4)"],
        "Beta(1,16)": beta(1, 16),
        "leave-one-out": Semivalue.leave_one_out(),
    }
    shares = robust_k_fractions(tables, kinds)
    with canvas(ax, (6.8, 4.4)) as ax:
        ax.imshow(shares, vmin=0, vmax=1, aspect="auto", cmap="cividis")
        for (row, column), share in np.ndenumerate(shares):
            ax.text(
                column,
                row,
                f"{share:.2f}".lstrip("0").replace(".00", "") or "0",
                ha="center",
                va="center",
                fontsize=9,
                color="black" if share > 0.55 else "white",
            )
        ax.set_xticks(range(9), [str(k) for k in range(1, 10)])
        ax.set_yticks(range(len(kinds)), list(kinds))
        ax.grid(visible=False)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set(xlabel="players selected k (steps after 3 and 7)", title=f"Robust fraction of {seeds} games")
    return ax


FIGURES = {
    "F1": noise,
    "F2": radii,
    "F3": witness,
    "F4": curves,
    "F5": verdicts,
    "F6": recall,
    "F7": cutoffs,
    "F8": robust_k,
}
