"""Where the flow ends: from many starts, from a saddle, and with a ridge."""

from typing import TYPE_CHECKING

import numpy as np

from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, legend, seed_of
from porism.sims.spectral_flow._drawing import panels
from porism.sims.spectral_flow.figure_data import SPECTRUM, TIMES, random_flows, ridge_flows, saddle_flows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["convergence"]

FLOOR = 1e-16
"""Excess losses below are drawn here."""

TICKS = {FLOOR: "≤10⁻¹⁶", 1e-12: "10⁻¹²", 1e-8: "10⁻⁸", 1e-4: "10⁻⁴", 1.0: "1", 1e4: "10⁴"}
SHOWN = (2.0, 4.0, 8.0, 40.0)
AMOUNTS = (0.0, 1e-12, 1e-8, 1e-4)


def convergence(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Where the flow ends: at the best matrix, on a saddle from exact starts only, shrunk by a ridge."""
    seed = seed_of(rng)
    with canvas(ax, (12.6, 4.8)) as ax:
        left, middle, right = panels(ax, 1, 3)
        _starts(left, scale, seed)
        _saddle(middle, seed)
        _ridges(right, scale, seed)
    return ax


def _starts(ax: "Axes", scale: str, seed: int) -> None:
    flows = random_flows(scale, seed)
    most = max(1e4, *(float(flow.excess_loss[flow.t >= SHOWN[0]].max()) for flow in flows))
    share = np.arange(1, len(flows) + 1) / len(flows)
    for time, (color, _, dash) in zip(SHOWN, LOOKS, strict=False):
        excess = [flow.excess_loss[np.flatnonzero(flow.t == time)[0]] for flow in flows]
        values = np.sort(np.maximum(excess, FLOOR))
        ax.step(
            np.r_[FLOOR, values, most],
            np.r_[0, share, 1],
            dash,
            where="post",
            color=color,
            label=f"time {time:g}",
            clip_on=False,
        )
    worst = max(abs(float(flow.excess_loss[-1])) for flow in flows)
    ax.set(
        xscale="log",
        xlim=(FLOOR, most),
        ylim=(0, 1.02),
        xlabel="excess loss",
        ylabel="share of starts at or below",
        title=f"{len(flows)} random starts: at most {_power(worst)} at time {TIMES[-1]:g}",
    )
    ax.set_xticks(list(TICKS), [*TICKS.values()])
    legend(ax, 2)


def _saddle(ax: "Axes", seed: int) -> None:
    flows = saddle_flows(AMOUNTS, seed)
    for amount, flow, (color, _, dash) in zip(AMOUNTS, flows, LOOKS, strict=False):
        name = f"moved by {_power(amount)}" if amount else "on the saddle"
        ax.plot(flow.t, np.maximum(flow.excess_loss, FLOOR), dash, color=color, label=name, clip_on=False)
    ax.set(yscale="log", ylim=(FLOOR, 100), xlim=(0, 8), xlabel="time", ylabel="excess loss")
    ax.set_yticks(list(TICKS)[:-1], [*TICKS.values()][:-1])
    ax.set_title("a start without the first mode")
    legend(ax, 2)


def _ridges(ax: "Axes", scale: str, seed: int) -> None:
    flows = ridge_flows(scale, seed)
    ridges = np.array([flow.ridge for flow in flows])
    x = np.linspace(0, SPECTRUM[0] + 0.4, 200)
    for mode, (sigma, (color, marker, _)) in enumerate(zip(SPECTRUM, LOOKS, strict=False)):
        found = np.array([flow.singular_values[-1, mode] for flow in flows])
        ax.plot(x, np.maximum(sigma - x, 0), **GUIDE, label="max(σ − λ, 0)" if mode == 0 else None)
        ax.plot(
            ridges, found, marker, color=color, markersize=5, label=f"σ = {sigma:g}", clip_on=False, zorder=3
        )
    ax.set(
        xlim=(0, x[-1]),
        ylim=(0, SPECTRUM[0] + 0.1),
        xlabel="ridge λ",
        ylabel="singular value of BA at the end",
        title="with a ridge, one random start each",
    )
    legend(ax, 3)


def _power(value: float) -> str:
    """Power of ten at or above a value below 1."""
    digits = str(-int(np.ceil(np.log10(max(value, FLOOR)) - 1e-9)))
    return "10⁻" + digits.translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
