"""Figures of the token capacity module: each draws on one axes, or around it, and returns it."""

from typing import TYPE_CHECKING

import numpy as np

from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, legend, panels, seed_of
from porism.sims.style import BLUE, GREEN, GREY, ORANGE, RED
from porism.sims.token_capacity import _figure_data as data
from porism.sims.token_capacity._position_figures import (
    band,
    causal_chain,
    coverages,
    gradient_energy,
    ticks,
)
from porism.sims.token_capacity._training_figures import accuracy, cosines, memory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

FAMILY_LOOKS = {
    "features": (BLUE, "o", "random features of 4-dimensional data"),
    "independent": (ORANGE, "s", "independent entries"),
}


def width(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Rank of the inputs' Gram matrix against the width: it depends on the data whether it stops growing."""
    widths, found = data.width_ranks(scale, seed_of(rng))
    N = data.ROWS
    with canvas(ax, (10.6, 4.3)) as ax:
        ax, right = panels(ax, 1, 2, 0.06)
        for place, row, title in (
            (ax, 0, "entropy effective rank, mean"),
            (right, 1, "participation ratio, mean"),
        ):
            for family, (color, marker, word) in FAMILY_LOOKS.items():
                mean = found[family][:, row].mean(0)
                line = "none" if family == "independent" and row else "-"
                place.plot(widths, mean, marker=marker, color=color, linestyle=line, label=word)
                aside = (0, 8 if mean[-1] < N / 2 else -16)
                place.annotate(f"{mean[-1]:.1f}", (widths[-1], mean[-1]), aside, fontsize=9.5,
                               textcoords="offset points", ha="right")  # fmt: skip
            place.axhline(N, **GUIDE)
            place.annotate(f"N = {N}", (widths[0], N), (0, 4), textcoords="offset points", fontsize=9.5)
            place.set(xscale="log", ylim=(0, 72), xlabel="width d", ylabel="rank", title=title)
            ticks(place, widths)
        fine = np.geomspace(widths[0], widths[-1], 100)
        right.plot(fine, N * fine / (N + fine + 1), "--", color=ORANGE, label="N d / (N + d + 1)")
        for place in (ax, right):
            legend(place, 2, 0.18)
    return ax


def bounds(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Rank of a position's kernel against the product of its factors' ranks: only one form is a bound."""
    rows, excess = data.rank_bars(), data.rank_excess(scale, seed_of(rng))
    looks = {
        "weighted": (GREEN, "-", "entropy rank, weighted"),
        "unweighted": (RED, "--", "entropy rank, unweighted"),
        "participation": (ORANGE, "-.", "participation ratio"),
    }
    with canvas(ax, (10.6, 4.6)) as ax:
        ax, right = panels(ax, 1, 2, 0.06)
        for i, (_, bound, rank) in enumerate(rows):
            ax.bar(i - 0.2, bound, 0.4, color=GREY, label="product of the factors' ranks" if not i else None)
            ax.bar(i + 0.2, rank, 0.4, color=BLUE, hatch="//", edgecolor="white",
                   label="rank of the kernel" if not i else None)  # fmt: skip
            word, color = ("no bound", RED) if rank > bound * (1 + 1e-9) else ("holds", "black")
            ax.annotate(word, (i, max(bound, rank)), (0, 4), textcoords="offset points", ha="center",
                        color=color)  # fmt: skip
        ax.axvline(1.5, **GUIDE)
        ax.set(
            yscale="log",
            ylim=(0.8, 400),
            xlabel="left: 64 unit rows; right: 6 rows of very different length",
            ylabel="rank",
            title="two counterexamples",
        )
        ax.set_xticks(range(len(rows)), [name for name, _, _ in rows], fontsize=9)
        ax.set_yticks((1, 10, 100), ("1", "10", "100"))
        ax.grid(visible=False, axis="x")
        edges = np.linspace(-2, 1.25, 53)
        for name, (color, dash, word) in looks.items():
            values = np.where(abs(excess[name]) < 1e-9, -1e-9, excess[name])  # equal but for rounding
            counts = np.histogram(values.clip(edges[0], edges[-1]), edges)[0]
            right.stairs(counts / len(excess[name]), edges, color=color, linestyle=dash, linewidth=1.8,
                         label=f"{word}: at most {_signed(values.max())}")  # fmt: skip
        right.axvline(0, **GUIDE)
        right.annotate("above the product", (0, 1), (40, -4), xycoords=("data", "axes fraction"), va="top",
                       textcoords="offset points", fontsize=9.5)  # fmt: skip
        right.set(
            xlim=(edges[0], edges[-1]),
            yscale="log",
            xlabel="ln (rank of the kernel / product of the factors' ranks)",
            ylabel="share of draws",
            title=f"{len(excess['weighted'])} random kernels",
        )
        for place in (ax, right):
            legend(place, 2 if place is ax else 1, 0.26 if place is ax else 0.18)
    return ax


def _signed(value: float) -> str:
    """A number with its sign, if it has one at two digits."""
    return "0.00" if abs(value) < 0.005 else f"{value:+.2f}"


def interchange(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """How well one position stands in for another, the bound on it, and what forward passes cannot see."""
    seed = seed_of(rng)
    noise, error, bound = data.interchange_errors(scale, seed)
    share, gradients, shift, inputs = data.forward_only(scale, seed)
    with canvas(ax, (11.6, 4.3)) as ax:
        ax, middle, right = panels(ax, 1, 3, 0.06)
        for values, look, word in ((bound, LOOKS[3], "bound"), (error, LOOKS[0], "error")):
            band(ax, noise, values.T, look, word, np.median, markersize=5)
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="noise on inputs and gradients",
            ylabel="relative to the norm of the kernel",
            title="error under its bound",
        )
        for place, x, values, words, label, title in (
            (middle, share, gradients, ("inputs", "kernels"), "share of a fresh gradient",
             "same inputs, other gradients"),
            (right, shift, inputs, ("inputs, centred", "inputs, uncentred"), "shift of all inputs",
             "same directions, other mean"),
        ):  # fmt: skip
            for row, word in enumerate(words):
                band(place, x, values[:, row], LOOKS[2 - row], word, np.median, markersize=5)
            place.set(ylim=(0, 1.05), xlabel=label, ylabel="alignment", title=title)
        for place in (ax, middle, right):
            legend(place, 2, 0.18)
    return ax


FIGURES = {
    "F1": width,
    "F2": bounds,
    "F3": interchange,
    "F4": causal_chain,
    "F5": gradient_energy,
    "F6": coverages,
    "F7": accuracy,
    "F8": memory,
    "F9": cosines,
}
