"""Figures of the alignment module: each draws on one axes, or around it, and returns it."""

from typing import TYPE_CHECKING

import numpy as np

from porism.sims.alignment._adapter_figures import encoders, modules, pivots
from porism.sims.alignment._drawing import bars, panels
from porism.sims.alignment._gain_figures import regime, tracking
from porism.sims.alignment.figure_data import ELLS, bulk_directions, estimates, overlap_curves, overlap_grid
from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, seed_of
from porism.sims.style import BLUE, GREEN, GREY, RED, SKY
from porism.theory.alignment import (
    bbp_threshold,
    certificate_threshold,
    spike_overlap,
    subcritical_enrichment,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

WEAK = (1.0, 2.0)
"""Strengths below the threshold, at d/n = 10."""


def thresholds(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Where a direction is found, and where the bounds on its angle begin to say anything."""
    gamma, ell, overlap = overlap_grid(scale, seed_of(rng))
    with canvas(ax, (11.4, 4.9)) as ax:
        ax, right = panels(ax, 1, 2)
        fine = np.geomspace(gamma[0], gamma[-1], 60 if is_paper(scale) else 8)
        grid = np.geomspace(ell[0], ell[-1], 200)
        for place, x, y, z, title in (
            (ax, gamma, ell, overlap, "sampled"),
            (right, fine, grid, spike_overlap(grid[:, None], fine), "the limit, by formula"),
        ):
            image = place.pcolormesh(x, y, z, vmin=0, vmax=1, shading="nearest", rasterized=True)
            place.plot(fine, bbp_threshold(fine), color=SKY, linewidth=2.6, label="ℓ = √γ: found above")
            for bound, color, dash, name in (
                ("davis_kahan", RED, "--", "Davis and Kahan: a bound above"),
                ("yu_wang_samworth", "black", ":", "Yu, Wang and Samworth: a bound above"),
            ):
                place.plot(fine, [certificate_threshold(float(g), bound) for g in fine], dash, color=color,
                           linewidth=2.2, label=name)  # fmt: skip
            place.set(
                xscale="log",
                yscale="log",
                xlim=(gamma[0], gamma[-1]),
                ylim=(ell[0], ell[-1]),
                xlabel="γ = d / n",
                ylabel="strength ℓ of the spike",
                title=title,
            )
            place.grid(visible=False)
            legend(place, 1, 0.18)
        ax.figure.colorbar(image, ax=right, label="squared overlap ‖P̂v‖²")
    return ax


def overlaps(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Overlap with a spike against d/n, and what remains below the threshold, by eigenvalue."""
    seed = seed_of(rng)
    curves = overlap_curves(scale, seed)
    x = np.geomspace(0.12, 60, 300)
    with canvas(ax, (11.4, 4.8)) as ax:
        ax, right = panels(ax, 1, 2)
        for ell, (color, marker, dash) in zip(ELLS, LOOKS, strict=False):
            gamma, mean, error = curves[ell]
            ax.plot(x, spike_overlap(ell, x), dash, color=color)
            bars(ax, gamma, mean, error, color, marker, label=f"ℓ = {ell:g}")
            ax.plot([ell**2] * 2, [-0.03, 0.03], color=color, linewidth=2)
        for place in (ax, right):
            place.plot([], [], color=GREY, label="lines: limit")
        ax.set(
            xscale="log",
            ylim=(-0.03, 1),
            xlabel="γ = d / n; ticks mark the thresholds ℓ²",
            ylabel="squared overlap ‖P̂v‖²",
            title="leading sample direction",
        )
        legend(ax, 4, 0.18)
        wide = np.linspace((1 - 10**0.5) ** 2, (1 + 10**0.5) ** 2, 300)
        for ell, (color, marker, dash) in zip(WEAK, LOOKS, strict=False):
            value, seen, error = bulk_directions(ell, scale, seed)
            law = subcritical_enrichment(ell, 10.0, wide)
            right.plot(wide, law, dash, color=color)
            bars(right, value, seen, error, color, marker, label=f"ℓ = {ell:g}, by tenths")
        right.axhline(1, **GUIDE)
        right.set(
            yscale="log",
            xlabel="sample eigenvalue / σ²; d = 1000, n = 100",
            ylabel="enrichment d ⟨û, v⟩² (random: 1)",
            title=f"below the threshold, {10**0.5:.2f}: not random",
        )
        right.set_yticks((1, 2, 5, 10), ("1", "2", "5", "10"))
        right.set_yticks((), minor=True)
        legend(right, 3, 0.18)
    return ax


def estimators(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Captured share against the number of rows: in sample it is near 1, cross-fitted near the truth."""
    found = estimates(scale, seed_of(rng))
    n, looks = found["n"], (("plugin", RED, "v", "in sample"), ("crossfit", GREEN, "s", "cross-fitted"))
    draws = found["true"].shape[1]
    with canvas(ax, (11.4, 4.6)) as ax:
        ax, right = panels(ax, 1, 2)
        for name, color, marker, word in (("true", BLUE, "o", "true share"), *looks):
            values = found[name]
            ax.plot(n, np.nanmean(values, axis=1), marker=marker, color=color, label=f"{word}, mean")
            low, high = np.nanquantile(values, [0.1, 0.9], axis=1)
            ax.fill_between(n, low, high, color=color, alpha=0.15, linewidth=0)
        ax.axvline(9, **GUIDE)
        ax.annotate("n = r + 1", (9, 0.47), (4, 0), textcoords="offset points", fontsize=9.5)
        ax.set(ylim=(-0.02, 1.03), ylabel="captured share", title=f"means; bands: 80 % of {draws} draws")
        for name, color, marker, word in looks:
            gap = found[name] - found["true"]
            size = np.sqrt(np.nanmean(gap**2, axis=1))
            right.plot(n, size, marker=marker, color=color, label=f"{word}, rms error")
            bias = np.nanmean(gap, axis=1)
            right.plot(n, bias, ":", marker=marker, fillstyle="none", color=color, label=f"{word}, bias")
        right.axhline(0, **GUIDE)
        right.set(ylabel="error of the captured share", title="error of both estimates")
        for place in (ax, right):
            place.set(xscale="log", xlabel="number of rows n, two classes; r = 8")
            place.set_xticks(n, [f"{value:g}" for value in n])
            place.set_xticks((), minor=True)
            legend(place, 3 if place is ax else 2, 0.18)
    return ax


FIGURES = {
    "F1": thresholds,
    "F2": overlaps,
    "F3": estimators,
    "F4": tracking,
    "F5": regime,
    "F6": modules,
    "F7": pivots,
    "F8": encoders,
}
