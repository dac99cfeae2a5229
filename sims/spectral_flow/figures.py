"""Figures of the spectral flow: each draws on one axes, or around it, and returns it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from porism.checks import generator
from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, seed_of
from porism.sims.spectral_flow._convergence_figure import convergence
from porism.sims.spectral_flow._drawing import NAMES, panels
from porism.sims.spectral_flow._lora_figure import lora
from porism.sims.spectral_flow.figure_data import arrival_races, growth_pair, order_violations
from porism.sims.spectral_flow.flow import simulate_flow
from porism.sims.spectral_flow.starts import aligned_init, random_target
from porism.sims.style import COLORS
from porism.theory.spectral_flow import (
    critical_smoothing,
    gradient_flow_arrival_time,
    gradient_flow_singular_value,
    smoothing_delay,
    spectral_flow_arrival_bounds,
    spectral_flow_arrival_time,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

PASSED: dict[str, Any] = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center", "fontsize": 9}

START = 1e-6
"""Product singular value of every mode at time 0."""


def growth(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Growth of modes: under spectral descent all share one line of slope 1 and leave it smallest first."""
    descent, flow, starts = growth_pair(scale, rng)
    laws = (
        np.sqrt(np.minimum(descent.t[:, None] ** 2, flow.sigma)),
        np.sqrt(gradient_flow_singular_value(flow.t[:, None], flow.sigma, starts)),
    )
    with canvas(ax, (10.4, 4.8)) as ax:
        axes = panels(ax, 1, 2)
        for place, run, law in zip(axes, (descent, flow), laws, strict=True):
            for mode, (color, marker, _) in zip(range(len(flow.sigma)), LOOKS, strict=False):
                name = f"σ = {flow.sigma[mode]:.4g}"
                place.plot(
                    run.t, np.sqrt(run.singular_values[:, mode]), color=color, linewidth=2.4, label=name
                )
                place.plot(
                    run.t, law[:, mode], **GUIDE | {"color": "black"}, zorder=3, label=_once(mode, "formula")
                )
                where = run.arrival_times[mode], np.sqrt(run.levels[mode])
                place.plot(*where, marker, color=color, markersize=7, markeredgecolor="white", zorder=4)
            place.set(ylabel="√ of singular value of BA", ylim=(0, None))
            legend(place, 3, 0.17)
        axes[0].set(xlabel="time = steps × 0.01", title="spectral descent: smallest first", xlim=(0, 3.4))
        axes[1].set(xlabel="time", title="gradient flow: largest first", xlim=(0, flow.t[-1]))
    return ax


def arrivals(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Time of arrival: like √σ under the spectral flow, like 1/σ under gradient flow; bars are brackets."""
    beta, rng = 0.01, generator(rng)
    sigma = np.geomspace(16.0, 0.25, 10 if is_paper(scale) else 3)
    m, n = (24, 30) if is_paper(scale) else (5, 6)
    Y = random_target(m, n, sigma, rng)
    start = aligned_init(Y, START**0.5, START**0.5, rng)
    spectral = simulate_flow(Y, *start, smoothing=beta, t_end=3.0 + sigma[0] ** 0.5, t_eval=[0.0])
    plain = simulate_flow(Y, *start, kind="gradient", t_end=60.0, t_eval=[0.0])
    bounds = spectral_flow_arrival_bounds(sigma, START, 0.99, beta)
    x = np.geomspace(0.22, 18.0, 200)
    with canvas(ax, (6.8, 5.0)) as ax:
        times = spectral.arrival_times
        size = np.stack([times - bounds.lower, bounds.upper - times])
        bars: dict[str, Any] = {"color": COLORS[0], "marker": "o", "linestyle": "none", "capsize": 4}
        ax.errorbar(sigma, times, np.maximum(size, 0), **bars, label="spectral flow, with bracket", zorder=4)
        law = spectral_flow_arrival_time(x, START, 0.99, beta)
        ax.plot(x, law, color=COLORS[0], label="formula, spectral flow")
        ideal = np.sqrt(0.99 * x) - START**0.5
        ax.plot(x, ideal, **GUIDE, label="no smoothing: slope ½")
        ax.plot(sigma, plain.arrival_times, "s", color=COLORS[3], label="gradient flow", zorder=4)
        ax.plot(
            x,
            gradient_flow_arrival_time(x, START),
            "-.",
            color=COLORS[3],
            label="formula, gradient flow: slope −1",
        )
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="target singular value σ",
            ylabel="time of arrival at 0.99 σ",
            title=f"smoothing β = {beta}, start s₀ = 10⁻⁶",
        )
        _plain_ticks(ax, "x", (0.25, 0.5, 1, 2, 4, 8, 16))
        _plain_ticks(ax, "y", (0.5, 1, 2, 5, 10, 20))
        legend(ax, 2, 0.18)
    return ax


def smoothing(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Effect of smoothing: the delay stays in its bracket, and beyond critical values the order turns."""
    del rng  # closed forms
    targets = (4.0, 1.0, 0.25)
    beta = np.geomspace(1e-4, 0.3, 200 if is_paper(scale) else 20)
    with canvas(ax, (10.8, 5.0)) as ax:
        left, right = panels(ax, 1, 2)
        for sigma, (color, _, dash) in zip(targets, LOOKS, strict=False):
            bounds = spectral_flow_arrival_bounds(sigma, START, 0.99, beta)
            times = spectral_flow_arrival_time(sigma, START, 0.99, beta)
            ideal = float(bounds.ideal[0])
            left.fill_between(
                beta, bounds.lower - ideal, bounds.upper - ideal, color=color, alpha=0.16, linewidth=0
            )
            left.plot(beta, times - ideal, dash, color=color, label=f"σ = {sigma:g}")
            law = smoothing_delay(sigma, START, 0.99, beta)
            left.plot(beta[:: len(beta) // 20], law[:: len(beta) // 20], "x", color=color, markersize=5)
            right.plot(beta, times, dash, color=color, label=f"σ = {sigma:g}")
        left.plot([], [], "x", color=COLORS[-1], label="leading order")
        left.fill_between([], [], color=COLORS[-1], alpha=0.3, label="bracket")
        for mark, (i, j) in zip("osD", ((0, 1), (0, 2), (1, 2)), strict=True):
            turn = critical_smoothing(targets[i], targets[j], START)
            time = float(spectral_flow_arrival_time(targets[i], START, 0.99, turn))
            name = f"{targets[i]:g} and {targets[j]:g}: β = {turn:.4f}"
            right.plot(turn, time, mark, color="black", markersize=7, zorder=4, label=name)
            right.plot([turn, turn], [0, time], **GUIDE, zorder=1)
        left.set(
            yscale="log",
            ylim=(1e-5, 20),
            ylabel="delay by smoothing (time)",
            title="delay, bracket, leading order",
        )
        right.set(ylim=(0, 4), ylabel="time of arrival at 0.99 σ", title="where two modes change places")
        for place in (left, right):
            place.set(xscale="log", xlabel="smoothing β", xlim=(beta[0], beta[-1]))
            legend(place, 2 if place is right else 3, 0.17)
    return ax


def races(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Steps of arrival by optimiser: cheap orthogonalisation lets the largest mode pass the second."""
    found = arrival_races(scale, seed_of(rng))
    width = 0.16
    with canvas(ax, (9.6, 4.8)) as ax:
        words = []
        for at, (optimizer, steps) in enumerate(found.items()):
            centre, broken = steps.mean(axis=0), order_violations(steps)
            for mode, (color, *_) in zip(range(steps.shape[1]), LOOKS, strict=False):
                x = at + (mode - 2) * width
                name = _once(at, f"σ = {5 - mode}")
                ax.bar(
                    x,
                    centre[mode],
                    0.9 * width,
                    color=color,
                    label=name,
                    hatch=_hatch(mode),
                    edgecolor="white",
                )
                ax.plot(np.full(len(steps), x), steps[:, mode], ".", color="black", markersize=4)
                if mode and broken[:, mode - 1].all():
                    ax.annotate(f"passed\nby {6 - mode}", (x, steps[:, mode].max()), **PASSED)
            words.append(f"{NAMES[optimizer]}\norder broken in {broken.any(axis=1).sum()} of {len(steps)}")
        ax.set_xticks(range(len(found)), words)
        ax.set(
            ylim=(0, 285),
            xlabel="rule of the step, size 0.01; 60 × 70, rank 5; dots are single starts",
            ylabel="step of arrival at 0.99 σ",
            title="targets 5, 4, 3, 2, 1: which arrives when",
        )
        ax.grid(visible=False, axis="x")
        legend(ax, 5, 0.27)
    return ax


def _hatch(mode: int) -> str:
    return ("", "//", "", "\\\\", "")[mode]


def _once(at: int, word: str) -> str | None:
    return word if at == 0 else None


def _plain_ticks(ax: "Axes", which: str, values: tuple[float, ...]) -> None:
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_ticks(values, [f"{value:g}" for value in values])
    axis.set_ticks([], minor=True)


FIGURES = {
    "F1": growth,
    "F2": arrivals,
    "F3": smoothing,
    "F4": convergence,
    "F5": races,
    "F6": lora,
}
