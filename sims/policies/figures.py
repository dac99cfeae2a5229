"""Figures of the policies module: F1 to F4 on tilts, F5 to F8 on group advantages."""

from typing import TYPE_CHECKING

import numpy as np

from porism.checks import generator
from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.policies import _figure_data as data
from porism.sims.policies._advantage_figures import collapse, drift, rules, token_gradients
from porism.sims.style import BLUE, GREEN, GREY, ORANGE, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

FLOOR = 1e-32
"""Smallest KL shown: the square of rounding."""


def prediction(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Predicted and trained policies by distance of the reward from the span, under the certificate."""
    big, rng = is_paper(scale), generator(rng)
    V, count, steps = (400, 40, 4000) if big else (60, 10, 200)
    found, runs = data.span_sweep(rng, V, count, steps, 12 if big else 4)
    with canvas(ax, (7.6, 5.2)) as ax:
        width = found["oscillation"]
        line = np.geomspace(width.min(), width.max(), 100)
        ax.plot(line, line**2 / 8, color=GREY, linestyle="--", label="certificate Δ²/8")
        ax.plot(width, found["kl"], "o", color=BLUE, markersize=5, label="predicted, least squares")
        ax.plot(
            width, found["moment"], "x", color=GREEN, markersize=6, markeredgewidth=1.6,
            label="predicted, moment match",
        )  # fmt: skip
        ax.plot(
            runs["oscillation"], runs["policy gradient"], "^", color=RED, markersize=7,
            label=f"policy gradient, {steps} steps",
        )  # fmt: skip
        ax.plot(
            runs["oscillation"], np.maximum(runs["mirror descent"], FLOOR), "s", color=ORANGE, markersize=6,
            label="mirror descent, 200 steps",
        )  # fmt: skip
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="oscillation Δ of the residual, nats",
            ylabel="KL from the optimum, nats",
            title=f"{V} outcomes, three experts",
        )
        legend(ax, 2, below=0.16)
    return ax


def rank(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Singular values of log-ratios to the reference: as many as rewards, if the reference is common."""
    is_paper(scale)
    common, own = data.spectra(generator(rng))
    place = np.arange(1, len(common) + 1)
    with canvas(ax, (6.8, 4.8)) as ax:
        ax.semilogy(place, own, "s--", color=RED, label="references of their own, off by 0.3")
        ax.semilogy(place, np.maximum(common, 1e-18), "o-", color=BLUE, label="one reference")
        ax.axvline(3.5, **GUIDE)
        ax.text(3.65, 3e-5, "rewards span\nthree dimensions", va="center", fontsize=9.5)
        ax.set(
            xticks=place,
            xlabel="index",
            ylabel="singular value, share of the first",
            title="12 policies, rewards of rank 3",
        )
        legend(ax, 2, below=0.16)
    return ax


def cliff(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Error by number of sampled rewards: at rank K + 1 it falls to rounding, earlier if experts repeat."""
    rng, worlds = generator(rng), 60 if is_paper(scale) else 6
    with canvas(ax, (10.6, 4.8)) as ax:
        for place, redundant in zip(panels(ax, 1, 2), (0, 1), strict=True):
            found = data.sample_cliff(rng, worlds, redundant)
            place.semilogy(found["n"], found["coefficients"], "o-", color=BLUE, label="coefficients, largest")
            place.semilogy(
                found["n"], np.maximum(found["prediction"], 1e-17), "s--", color=ORANGE,
                label="prediction, total variation",
            )  # fmt: skip
            enough = 5 - redundant
            place.axvline(enough, **GUIDE)
            place.text(enough + 0.2, 1e-6, f"n = {enough}", fontsize=9.5)
            words = "one of them redundant" if redundant else "none redundant"
            place.set(
                ylim=(1e-17, 1e2),
                xticks=range(1, 11),
                xlabel="sampled rewards n",
                ylabel=f"error, median of {worlds} worlds",
                title=f"four experts, {words}",
            )
            legend(place, 1, below=0.16)
    return ax


def token_mix(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Mixed next-token logits against the optimum over sequences: right in one kind of world only."""
    worlds = 400 if is_paper(scale) else 40
    found = data.token_gaps(generator(rng), worlds)
    bins = np.linspace(-17.5, 0, 71)
    with canvas(ax, (7.6, 4.8)) as ax:
        for (name, gaps), (color, _, _), hatch in zip(
            found.items(), (LOOKS[3], LOOKS[1], LOOKS[0]), ("", "//", "\\\\"), strict=True
        ):
            logs = np.log10(np.maximum(gaps, 1e-17))
            ax.hist(
                logs, bins=bins.tolist(), color=color, alpha=0.6, hatch=hatch, edgecolor="white",
                linewidth=0.4, label=f"{name}, median {np.median(gaps):.1e}",
            )  # fmt: skip
        ticks = [-16, -12, -8, -4, 0]
        ax.set_xticks(ticks, [f"$10^{{{tick}}}$" for tick in ticks])
        ax.set(
            xlim=(-17.5, 0),
            xlabel="total variation from the optimum",
            ylabel=f"worlds, of {worlds} a kind",
            title="three tokens, three steps",
        )
        legend(ax, 1, below=0.16)
    return ax


FIGURES = {
    "F1": prediction,
    "F2": rank,
    "F3": cliff,
    "F4": token_mix,
    "F5": rules,
    "F6": collapse,
    "F7": drift,
    "F8": token_gradients,
}
