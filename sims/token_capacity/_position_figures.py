"""Figures on positions: the causal chain and where it ends, energy of gradients, coverage."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, legend, panels, seed_of
from porism.sims.style import BLUE, GREY, ORANGE, RED
from porism.sims.token_capacity import _figure_data as data
from porism.theory.token_capacity import min_positions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ORDER_LOOKS = {
    "suffix": (BLUE, "o", "-", "last positions first"),
    "earliest": (RED, "^", "--", "first positions first"),
    "random": (ORANGE, "D", "-.", "random"),
}
"""Colour, marker, dash and name of each order."""


def band(
    ax: "Axes",
    x: Any,
    values: NDArray[np.float64],
    look: tuple[str, str | None, str],
    word: str,
    middle: Callable[..., Any] = np.mean,
    **shown: Any,
) -> None:
    """A line for the middle of draws (draws, values), and their range; look is colour, marker and dash."""
    color, marker, dash = look
    ax.plot(x, middle(values, axis=0), dash, marker=marker, color=color, label=word, **shown)
    ax.fill_between(x, values.min(0), values.max(0), color=color, alpha=0.15, linewidth=0)


def ticks(ax: "Axes", values: Any) -> None:
    """These values and no others along x."""
    ax.set_xticks(values, [f"{value}" for value in values])
    ax.set_xticks((), minor=True)


def causal_chain(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Ranks under the number of visible prefixes, and three ways in which later positions do not dominate."""
    seed = seed_of(rng)
    found, ranks = data.chain(seed), data.averages(scale, seed)
    length = len(found["prefixes"])
    t = np.arange(length)
    with canvas(ax, (10.6, 8.2)) as ax:
        ax, dip, fall, narrow = panels(ax, 2, 2, 0.06)
        ax.plot(t, found["prefixes"], color=GREY, linewidth=6, alpha=0.35, label="distinct prefixes")
        for layer in (1, len(found["ranks"]) - 1):
            color, marker, dash = LOOKS[0 if layer == 1 else 2]
            ax.plot(t, found["ranks"][layer], dash, marker=marker, color=color, label=f"after layer {layer}")
        ax.set(xlabel="position t", ylabel="rank of $A_t$", title="holds: prefixes are the ceiling")
        dip.plot(t, found["ranks"][0], "-", marker="s", color=RED, label="rank of the embeddings")
        dip.axvline(6, **GUIDE)
        dip.annotate("delimiter", (6, 1.02), (6, 0), textcoords="offset points", va="center", fontsize=9.5)
        dip.set(
            ylim=(0.9, 2.1), xlabel="position t", ylabel="rank of $A_t$", title="(i) layer 0, random bits"
        )
        dip.set_yticks((1, 2))
        for name, look, word in (
            ("uncentred", LOOKS[3], "mean 0.45"),
            ("centred", LOOKS[2], "mean 0.45, centred Gram matrix"),
            ("mean zero", LOOKS[0], "mean 0"),
        ):
            band(fall, np.arange(1, ranks[name].shape[1] + 1), ranks[name], look, word, markevery=7)
        last = ranks["uncentred"].mean(0)[[0, -1]]
        fall.set(
            ylim=(0, 31),
            xlabel="position t (tokens averaged)",
            ylabel="entropy effective rank of $A_t$",
            title=f"(ii) equal causal averages: {last[0]:.1f} to {last[1]:.1f}",
        )
        for (name, share), (color, marker, dash) in zip(
            found["outside"].items(), (LOOKS[2], LOOKS[3], LOOKS[0]), strict=True
        ):
            narrow.plot(t[3:], share, dash, marker=marker, color=color, label=name,
                        markersize=10 if marker == "o" else 6, fillstyle="none")  # fmt: skip
        narrow.set(
            ylim=(-0.05, 1.05),
            xlabel="position t",
            ylabel="share of range $A_3$ outside range $A_t$",
            title="(iii) a narrow model forgets directions",
        )
        for place, columns in ((ax, 2), (dip, 1), (fall, 2), (narrow, 1)):
            legend(place, columns, 0.16)
    return ax


def gradient_energy(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Energy of each position's kernel: with a loss at all positions it falls, with one it has no order."""
    found = data.energies(scale, seed_of(rng))
    with canvas(ax, (10.6, 4.3)) as ax:
        ax, right = panels(ax, 1, 2, 0.06)
        for place, loss, title in (
            (ax, "all", "loss at all positions"),
            (right, "last", "loss at the last position"),
        ):
            for std, color in ((0.02, BLUE), (0.2, RED)):
                for layer, dash, marker in ((1, "-", "o"), (3, "--", "s")):
                    energy = found[loss, std, layer]
                    place.plot(np.arange(len(energy)), energy / energy.mean(), dash, color=color,
                               marker=marker, markevery=max(1, len(energy) // 8), markersize=5,
                               label=f"layer {layer}, weights of size {std:g}")  # fmt: skip
            place.set(yscale="log", xlabel="position t", ylabel="tr $K_t$ / mean over t", title=title)
            legend(place, 2, 0.18)
        falls = [found["all", std, 1][0] / found["all", std, 1][-1] for std in (0.02, 0.2)]
        ax.annotate(f"layer 1, first over last:\n{falls[0]:,.0f} and {falls[1]:,.0f}", (0.97, 0.95),
                    xycoords="axes fraction", ha="right", va="top", fontsize=9.5)  # fmt: skip
    return ax


def coverages(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Coverage of the inputs by k positions, and k* where a tenth may be lost: from forward passes alone."""
    seed = seed_of(rng)
    found = (
        ("causal, real text, random weights", data.text_coverage(scale, seed)),
        ("causal, digits, pretrained", data.digit_coverage("causal", scale, seed)),
    )
    with canvas(ax, (10.6, 4.6)) as ax:
        for place, (title, curves) in zip(panels(ax, 1, 2, 0.06), found, strict=True):
            for name, (color, marker, dash, word) in ORDER_LOOKS.items():
                values = curves[name]
                k = np.arange(1, values.shape[1] + 1)
                mean = values.mean(0)
                stars = [min_positions(curve, data.EPS) for curve in values]
                low, high = min(stars), max(stars)
                span = f"{low}" if low == high else f"{low} to {high}"
                band(place, k, values, (color, None, dash), f"{word}: k* = {span}")
                star = round(float(np.mean(stars)))
                place.plot(star, mean[star - 1], marker=marker, color=color, markersize=8, zorder=5)
            place.axhline((1 - data.EPS) * curves["suffix"].mean(0)[-1], **GUIDE)
            place.set(
                xscale="log",
                ylim=(0, 1.03),
                xlabel="number of positions k, the readout first",
                ylabel="coverage of the layer that needs most",
                title=title,
            )
            ticks(place, [2**i for i in range(int(np.log2(len(k))) + 1)])
            legend(place, 2, 0.18)
    return ax
