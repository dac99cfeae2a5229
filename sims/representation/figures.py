"""Figures of the representation module: each draws on one axes, or around it, and returns it."""

from typing import TYPE_CHECKING

import numpy as np

from porism.checks import generator
from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.representation._figure_data import (
    MEASURES,
    digits_pairs,
    lowest_draws,
    measures_by_primitive,
    scrambled_pairs,
    two_units,
)
from porism.sims.representation.worlds import random_layer
from porism.sims.style import BLUE, GREEN, GREY, ORANGE
from porism.theory.representation import cka_after_addition, similarity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

LEVELS = {"hidden matrix": GREY, "parallel units merged": ORANGE, "complete form": BLUE}
"""What CKA is taken of, and its colour."""


def scrambles(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """CKA of two copies of one function: only the complete form sees that they are equal."""
    rng, count = generator(rng), 30 if is_paper(scale) else 8
    found = [scrambled_pairs(count, linear, rng) for linear in (False, True)]
    bins = np.linspace(0, 1, 21)
    with canvas(ax, (9.6, 4.4)) as ax:
        both = panels(ax, 1, 2)
        titles = ("scaled, duplicated, nulls added", "and groups of six that cancel")
        for axes, values, title in zip(both, found, titles, strict=True):
            axes.hist(
                list(values),
                bins=bins.tolist(),
                color=list(LEVELS.values()),
                label=list(LEVELS),
                rwidth=0.95,
            )
            axes.set(
                xlim=(0, 1.01),
                ylim=(0, 1.04 * count),
                xlabel="CKA of the two copies",
                ylabel="pairs",
                title=title,
            )
            axes.grid(visible=False, axis="x")
        for axes in both:
            legend(axes, 2)
    return ax


def addition(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """CKA of a layer with itself after units are added that do nothing: it falls to a limit by a law."""
    rng, points = generator(rng), 120 if is_paper(scale) else 30
    X = rng.normal(size=(200, 5))
    H = random_layer(12, 5, 3, rng).hidden(X)
    t = np.geomspace(0.03, 100, points)
    seen = np.geomspace(0.03, 100, 9)
    added = {
        "1 unit": random_layer(1, 5, 1, rng).hidden(X),
        "4 units": random_layer(4, 5, 1, rng).hidden(X),
        "40 units": random_layer(40, 5, 1, rng).hidden(X),
        "1 unit of noise": rng.normal(size=(200, 1)),
    }
    with canvas(ax, (6.8, 4.6)) as ax:
        for (name, Z), (color, marker, dash) in zip(added.items(), LOOKS, strict=False):
            ax.plot(t, [cka_after_addition(H, Z, x) for x in t], dash, color=color, label=name)
            ax.plot(
                seen, [similarity(H, np.hstack([H, x * Z])) for x in seen], marker, color=color, markersize=5
            )
            limit = cka_after_addition(H, Z, np.inf)
            ax.plot([100, 400], [limit, limit], **GUIDE)
        ax.set(
            xscale="log",
            xlim=(0.025, 400),
            ylim=(0, 1.02),
            xlabel="factor t of the units added",
            ylabel="CKA with the layer before",
            title="lines: the law; marks: CKA itself; dashed: its limit",
        )
        legend(ax, 4)
    return ax


def bounds(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """How far scaling can push CKA down: to the smallest squared correlation of two units, no further."""
    big, rng = is_paper(scale), generator(rng)
    bound, found = two_units(150 if big else 20, 20 if big else 5, rng)
    both, one = lowest_draws(60 if big else 10, 4000 if big else 200, rng)
    with canvas(ax, (9.6, 4.6)) as ax:
        ax, many = panels(ax, 1, 2)
        x = np.repeat(bound, found.shape[1])
        ax.plot(
            x,
            found.ravel(),
            "o",
            color=BLUE,
            markersize=2.5,
            alpha=0.5,
            linewidth=0,
            label="two scalings of one layer",
        )
        ax.plot([0, 1], [0, 1], **GUIDE)
        ax.text(0.62, 0.5, "infimum", rotation=0, color=GUIDE["color"])
        ax.set(
            xlim=(0, 1),
            ylim=(0, 1.02),
            xlabel="squared correlation of the two units",
            ylabel="CKA",
            title="two units",
        )
        legend(ax, 1)
        for values, color, marker, name in (
            (both, BLUE, "o", "both sides scaled"),
            (one, ORANGE, "s", "one side fixed"),
        ):
            many.plot(*values, marker, color=color, markersize=4, linewidth=0, label=name)
        low = 1e-7
        many.plot([low, 1], [low, 1], **GUIDE)
        many.set(
            xscale="log",
            yscale="log",
            xlim=(low, 1),
            ylim=(low, 1),
            xlabel="infimum by PS-2",
            ylabel="lowest CKA of all draws",
            title="seven units",
        )
        legend(many, 2)
    return ax


def measures(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Which measure is fooled by which symmetry: each cell compares a function with itself."""
    names, values = measures_by_primitive(20 if is_paper(scale) else 2, rng)
    with canvas(ax, (8.6, 4.6)) as ax:
        image = ax.imshow(values, vmin=0, vmax=1, aspect="auto")
        colors = np.asarray(image.to_rgba(values))
        for (row, column), value in np.ndenumerate(values):
            pale = np.dot(colors[row, column, :3], (0.3, 0.59, 0.11)) > 0.5
            words = "1" if abs(value - 1) < 1e-9 else f"{value:.2f}"
            ax.text(
                column, row, words, ha="center", va="center", fontsize=10, color="black" if pale else "white"
            )
        ax.set_xticks(range(len(names)), names)
        ax.set_yticks(range(len(MEASURES)), list(MEASURES))
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
        ax.set(title="similarity of a layer and its copy, mean", xlabel="what was done to the copy")
        ax.figure.colorbar(image, ax=ax, pad=0.02, label="similarity")
    return ax


def digits(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Nets trained on digits: privileged CKA is blind to symmetries, and sees another function."""
    big = is_paper(scale)
    found = digits_pairs(4 if big else 2, 10 if big else 3, rng, 80 if big else 15)
    looks = (("CKA of hidden matrices", GREY, "o", -0.12), ("privileged CKA", GREEN, "D", 0.12))
    with canvas(ax, (7.4, 4.6)) as ax:
        for place, values in enumerate(found.values()):
            spread = np.linspace(-0.07, 0.07, values.shape[1])
            for row, (name, color, marker, shift) in zip(values, looks, strict=True):
                ax.plot(
                    place + shift + spread, row, marker, color=color, markersize=6, alpha=0.8, linewidth=0,
                    label="_" if place else name,
                )  # fmt: skip
        ax.set_xticks(
            range(len(found)), [f"{name}\n({values.shape[1]} pairs)" for name, values in found.items()]
        )
        ax.set(
            xlim=(-0.5, len(found) - 0.5),
            ylim=(0, 1.03),
            xlabel="pair of nets, 64 units",
            ylabel="similarity on held-out digits",
            title="what changes with the parameters, what with the function",
        )
        ax.grid(visible=False, axis="x")
        legend(ax, 2, below=0.3)
    return ax


FIGURES = {"F1": scrambles, "F2": addition, "F3": bounds, "F4": measures, "F5": digits}
