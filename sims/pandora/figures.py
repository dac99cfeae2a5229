"""Figures of the pandora module: each draws on one axes, or around it, and returns it."""

from typing import TYPE_CHECKING

import numpy as np

from porism.checks import generator
from porism.sims.pandora._drawing import GUIDE, LOOKS, POLICY_LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.pandora._market_figure import market_figure
from porism.sims.pandora._routing_figures import budget, curves, optimism
from porism.sims.pandora.figure_data import dependence_gain, policy_gaps
from porism.sims.pandora.sweeps import dependence_sweep
from porism.sims.style import BLUE, GREEN, GREY, ORANGE, RED
from porism.theory.pandora import POLICIES, inspection_halfwidth, psi, psi_inv, voi

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

GATE = 1 / np.sqrt(2 * np.pi)
"""Cost over nu from which on refining never pays: psi(0)."""

FAMILIES = {
    "K = 2": (2, 300, "mixed"),
    "K = 3": (3, 300, "mixed"),
    "K = 4": (4, 150, "mixed"),
    "K = 6": (6, 25, "mixed"),
    "K = 3\nequal": (3, 60, "equal"),
    "K = 4\nequal, dear": (4, 100, "equal, dear"),
}
"""Columns of the gap table: specialists, instances, family."""


def indices(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """ψ, the reservation index and the band of gaps in which one refinement pays, by its cost."""
    points = 400 if is_paper(scale) else 60
    z = np.linspace(-2, 6, points)
    gap = np.linspace(-3, 3, points + 1)
    kappa = np.geomspace(1e-4, 3, points)
    with canvas(ax, (12.0, 4.4)) as ax:
        ax, gain, band = panels(ax, 1, 3)
        ax.plot(z, psi(z), color=BLUE, label="ψ(z)")
        right = z[z >= 0]
        bound = np.exp(-(right**2) / 2) * GATE / (1 + right**2)
        ax.plot(right, bound, "--", color=ORANGE, label="φ(z)/(1 + z²), above it for z ≥ 0")
        ax.plot(z[z < 0], -z[z < 0], ":", color=GREY, label="−z, below it for z < 0")
        ax.set(
            yscale="log", ylim=(1e-10, 5), xlabel="z", ylabel="ψ(z) = E(Z − z)⁺", title="one convex function"
        )
        legend(ax, 1)
        for share, (color, _, dash) in zip((0.01, 0.1, 0.25, 0.5), LOOKS, strict=False):
            gain.plot(gap, voi(gap, 1.0) - share, dash, color=color, label=f"c/ν = {share:g}")
            half = float(inspection_halfwidth(1.0, share))
            if half > 0:
                gain.plot([-half, half], [0, 0], "|", color=color, markersize=12, markeredgewidth=2)
        gain.axhline(0, **GUIDE)
        gain.set(
            xlabel="gap to the best other, (m − b)/ν",
            ylabel="net gain of refining, Δ/ν",
            title="positive within the band only",
        )
        legend(gain, 2)
        index = np.asarray(psi_inv(kappa))
        inside = kappa < GATE
        band.fill_between(kappa[inside], -index[inside], index[inside], color=BLUE, alpha=0.15, linewidth=0)
        band.plot(kappa, index, color=BLUE, label="index (σ − m)/ν, upper end")
        band.plot(kappa[inside], -index[inside], "--", color=RED, label="lower end")
        band.plot(kappa[~inside], -kappa[~inside], ":", color=GREY, label="−c/ν")
        band.axvline(GATE, **GUIDE)
        band.text(0.005, 0, "refine one", ha="center", va="center")
        band.text(0.33, 3.1, "b high: leave it", ha="right")
        band.text(0.33, -3.6, "b low: take it", ha="right")
        band.text(GATE * 1.1, 1.2, "c/ν ≥ ψ(0):\nnever", fontsize=9.5)
        band.set(
            xscale="log",
            ylim=(-4, 4),
            xlabel="cost c/ν",
            ylabel="(b − m)/ν",
            title="where to refine, take, leave",
        )
        legend(band, 2)
    return ax


def gaps(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """What each policy loses against the exact optimum: share of the attainable gain, and the worst case."""
    big = is_paper(scale)
    columns = FAMILIES if big else dict(list(FAMILIES.items())[:2])
    cells = np.stack(
        [
            policy_gaps(K, count if big else 20, family=family, grid=1201 if big else 201)
            for K, count, family in columns.values()
        ],
        axis=1,
    )
    share = 100 * cells[..., 0]
    with canvas(ax, (9.6, 5.6)) as ax:
        shown = np.log10(np.clip(share, 1e-3, 100))
        image = ax.imshow(shown, cmap="cividis_r", vmin=-3, vmax=2, aspect="auto")
        for (row, column), loss in np.ndenumerate(share):
            worst = cells[row, column, 1]
            digits = 0 if loss >= 99.5 else 1 if loss >= 10 else 2 if loss >= 0.1 else 3
            words = "0" if worst < 1e-9 else f"{loss:.{digits}f} %\n{worst:.2g}"
            words = words.replace("0.000 %", "< 0.001 %")
            pale = float(np.dot(image.to_rgba(shown[row, column])[:3], (0.3, 0.59, 0.11))) > 0.5
            ax.text(
                column, row, words, ha="center", va="center", fontsize=9, linespacing=1.1,
                color="black" if pale else "white",
            )  # fmt: skip
        ax.set_xticks(range(len(columns)), list(columns))
        ax.set_yticks(range(len(POLICIES)), [name.replace("_", " ") for name in POLICIES])
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
        ax.set_title("loss against the optimum: share of the gain, and the largest gap in value")
        bar = ax.figure.colorbar(image, ax=ax, pad=0.02, label="share of the attainable gain lost")
        bar.set_ticks([-3, -2, -1, 0, 1, 2], labels=["≤ .001 %", ".01 %", ".1 %", "1 %", "10 %", "≥ 100 %"])
    return ax


def dependence(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Shared difficulty: the independent formula overstates what refining is worth, and routing pays."""
    big, rng = is_paper(scale), generator(rng)
    rhos = np.linspace(-0.45, 0.99, 60 if big else 12)
    true, independent = dependence_gain(rhos)
    grid = (-0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.98) if big else (0.0, 0.9)
    sweep = dependence_sweep(grid, n=5000 if big else 400, seed=int(rng.integers(2**31)))
    with canvas(ax, (12.0, 4.4)) as ax:
        ax, loss, count = panels(ax, 1, 3)
        ax.plot(rhos, true, color=GREEN, label="true")
        ax.axhline(independent, color=BLUE, linestyle="--", label="formula for independent specialists")
        ax.set(
            ylim=(0, None),
            xlabel="correlation ρ of what is left open",
            ylabel="value of refining, quality units",
            title="one signal, three specialists",
        )
        legend(ax, 1)
        for number, policy in enumerate(sweep.policies):
            color, marker, dash, name = POLICY_LOOKS[policy]
            if policy == "cheap":
                name = "no refinement"
            if policy != "kg_joint":
                loss.errorbar(
                    sweep.rho, sweep.loss[:, number], 2 * sweep.loss_se[:, number], color=color,
                    marker=marker, linestyle=dash, markersize=6, capsize=2, label=name,
                )  # fmt: skip
            count.plot(
                sweep.rho, sweep.refinements[:, number], dash, color=color, marker=marker, markersize=6,
                label=name, clip_on=False,
            )  # fmt: skip
        loss.axhline(0, **GUIDE)
        loss.set(
            xlabel="correlation ρ",
            ylabel="net value lost to joint, ± 2 se",
            title=f"5 specialists, c = {sweep.cost:g}",
        )
        legend(loss, 1)
        count.set(
            ylim=(0, 5), xlabel="correlation ρ", ylabel="refinements a query", title="how much is refined"
        )
        legend(count, 1)
    return ax


FIGURES = {
    "F1": indices,
    "F2": gaps,
    "F3": dependence,
    "F4": curves,
    "F5": optimism,
    "F6": market_figure,
    "F7": budget,
}
