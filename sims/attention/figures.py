"""Figures of virtual heads: the guard, the cost of folding, real heads, and rounding."""

from typing import TYPE_CHECKING

import numpy as np

from porism.checks import generator
from porism.sims.attention import _figure_data as data
from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.style import BLUE, GREEN, GREY, ORANGE, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]


def guard(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Distance from the mixes that commute against the error that a mix after the rotation makes."""
    rng, count = generator(rng), 60 if is_paper(scale) else 12
    found = {kind: data.guards(kind, count, rng) for kind in data.KINDS}
    places, errors = data.by_position(rng)
    with canvas(ax, (10.6, 4.4)) as ax:
        ax, right = panels(ax, 1, 2, 0.08)
        for start, (kind, (distance, error)) in enumerate(found.items()):
            color, marker, _ = LOOKS[start]  # every other dot, as both kinds give the same line
            ax.plot(distance[start::2], error[start::2], marker, color=color, label=f"pairs: {kind}")
        ends = np.array([1e-8, 1e2])
        ax.plot(ends, 2**0.5 * ends, color="black", linewidth=1, zorder=3, label="√2 × distance")
        ax.set(
            xscale="log",
            yscale="log",
            xlim=ends,
            ylim=(1e-8, 2e2),
            xlabel="the guard: distance from the commutant",
            ylabel="rms of |R N − N R| over positions",
            title="the guard is the error",
        )
        looks = {
            "any mix": (RED, "-"),
            "projected for the other layout": (ORANGE, "--"),
            "projected": (GREEN, "-"),
        }
        for name, (color, dash) in looks.items():
            right.plot(places, errors[name], dash, color=color, label=name)
        right.set(
            yscale="log",
            ylim=(1e-17, 1e2),
            xlabel="position t",
            ylabel="largest entry of R N q − N R q",
            title="what the layout decides",
        )
        for place in (ax, right):
            legend(place, 3, 0.2)
    return ax


def cost(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Work of the folded query projection over that of the kept mix, by numbers of heads."""
    from matplotlib.colors import LogNorm

    heads = np.arange(1, 17 if is_paper(scale) else 9)
    ratio = data.cost_ratio(heads)
    with canvas(ax, (10.6, 4.4)) as ax:
        ax, right = panels(ax, 1, 2, 0.3)
        image = ax.pcolormesh(heads, heads, ratio, norm=LogNorm(1 / heads[-1], heads[-1]), cmap="RdBu_r")
        bar = ax.figure.colorbar(image, ax=ax, label="operations, folded over kept")
        ticks = [t for t in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16) if heads[-1] >= max(t, 1 / t)]
        bar.set_ticks(ticks, labels=[f"1/{1 / t:.0f}" if t < 1 else f"{t:.0f}" for t in ticks])
        bar.ax.minorticks_off()
        ax.plot(heads, data.edge(heads, data.WIDTH), color="black", label="equal: P = G D / (D + G)")
        ax.plot(8, 4, "*", color="black", markersize=12, label=f"P = 4, G = 8: {data.one_ratio(4, 8):.2f}")
        ax.grid(visible=False)
        ax.set(
            xlabel="virtual heads G of a group",
            ylabel="physical heads P",
            title=f"folding pays above the line, D = {data.WIDTH}",
        )
        widths = np.geomspace(16, 8192, 100)
        for G, (color, _, dash) in zip((2, 8, 32), LOOKS, strict=False):
            right.plot(widths, data.edge(G, widths) / G, dash, color=color, label=f"G = {G}")
        right.axhline(1, **GUIDE)
        right.set(
            xscale="log",
            ylim=(0, 1.08),
            xlabel="width D",
            ylabel="P / G from which folding pays",
            title="nearly as many as virtual ones",
        )
        legend(ax, 2, 0.2)
        legend(right, 3, 0.2)
    return ax


def real_heads(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Singular values of MiniLM's query heads as rows, a layer a line, beside Gaussian and planted ones."""
    is_paper(scale)
    found = data.head_spectra(generator(rng))
    number = np.arange(1, 13)
    with canvas(ax, (10.6, 4.4)) as ax:
        ax, right = panels(ax, 1, 2, 0.06)
        for name, (values, errors) in found.items():
            color, dash = data.LOOKS.get(name, (BLUE, "-"))
            shade = 1.0 if name in data.LOOKS else 0.35 + 0.13 * int(name[-1])
            label = name if name in data.LOOKS else "MiniLM, layers 0 to 5" if name[-1] == "5" else None
            ax.plot(number, values / values[0], dash, color=color, alpha=shade, marker=".", label=label)
            right.plot(np.r_[0, number], errors, dash, color=color, alpha=shade, marker=".", label=label)
        ax.set(
            ylim=(0, 1.05),
            xlim=(0.5, 12.5),
            xlabel="number k",
            ylabel="σ_k / σ_1",
            title="no head is a mix of the others",
        )
        right.set(
            ylim=(0, 1.05),
            xlabel="heads kept P",
            ylabel="relative error of the best mix",
            title="what fewer heads would lose",
        )
        for place in (ax, right):
            place.set_xticks(range(0, 13, 3))
            legend(place, 3, 0.2)
    return ax


def rounding(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Errors of queries in bfloat16, a layer a dot: folded first against the mix kept."""
    rng, count = generator(rng), 40 if is_paper(scale) else 12
    once = 1000 * data.UNIT / (8 * np.log(2)) ** 0.5
    with canvas(ax, (6.4, 4.8)) as ax:
        for stored, color, marker, word, (before, after) in (
            (False, BLUE, "o", "weights of full precision", (5, 3)),
            (True, ORANGE, "s", "weights stored in bfloat16", (2, 2)),
        ):
            folded, kept = 1000 * data.errors(stored, count, rng).T
            ax.plot(kept, folded, marker, color=color, markersize=5, alpha=0.6, label=word)
            place = once * before**0.5, once * after**0.5
            ax.plot(*place, "*", color="black", markersize=13, zorder=3,
                    label="by counting roundings" if stored else None)  # fmt: skip
            ax.annotate(f"{after} against {before}", place, (-4, -26), textcoords="offset points")
        ends = np.array([2.0, 4.4])
        ax.plot(ends, ends, color=GREY, linewidth=1, label="equal")
        ax.set(
            xlim=ends,
            ylim=(2.0, 3.6),
            xlabel="relative error with the mix kept, 10⁻³",
            ylabel="folded first, 10⁻³",
            title="bfloat16: fewer roundings win",
        )
        legend(ax, 2, 0.16)
    return ax


FIGURES = {"F1": guard, "F2": cost, "F3": real_heads, "F4": rounding}
