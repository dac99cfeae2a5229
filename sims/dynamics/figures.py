"""Figures of skill and delegation: each draws on one axes, or around it, and returns it."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from porism.checks import generator
from porism.sims.drawing import GUIDE, Rng, canvas, is_paper, legend, panels
from porism.sims.dynamics.figure_data import areas, counted, rest_curve
from porism.sims.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED
from porism.theory.dynamics import DelegationModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

BASE = DelegationModel(learn=1, forget=0.6, speed=1, quality=0.7)
"""Rates of all figures that do not say otherwise."""

THRICE = DelegationModel(learn=0.25, forget=6, speed=5, quality=0.9)
"""A world in which the AI's advantage changes sign three times."""

RISES = {"stable node": ("o", "black"), "saddle": ("D", "white")}
"""Marker and filling of points of rest."""


def portraits(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Where skill and delegation lead, by quality of the AI: above the border skill is lost."""
    del rng  # nothing is drawn
    big = is_paper(scale)
    with canvas(ax, (12.0, 5.0)) as ax:
        axes = panels(ax, 1, 3)
        for place, q in zip(axes, (0.5, 0.7, 0.85), strict=True):
            model = dataclasses.replace(BASE, quality=q)
            _portrait(place, model, 200 if big else 30)
            place.set(xlabel="skill s", ylabel="delegation d" if q == 0.5 else "")
            # clear of the mark in the corner
            place.set_title(f"q = {q:g}: {100 * model.low_skill_area():.1f} % of starts lose", pad=10)
        legend(axes[1], 4, 0.17)
    return ax


def _portrait(ax: "Axes", model: DelegationModel, n: int) -> None:
    s = np.linspace(0, 1, 2 * n + 1)
    border, plane = model.separatrix()(s), model.plane()
    ax.fill_between(s, border, 1, color=RED, alpha=0.13, linewidth=0, label="ends with low skill")
    ax.fill_between(s, 0, border, color=BLUE, alpha=0.10, linewidth=0, label="ends with high skill")
    side = np.linspace(0.0, 1.0, 25)
    across, up = plane.velocity(*np.meshgrid(side, side))
    ax.streamplot(side, side, across, up, color="0.6", linewidth=0.6, arrowsize=0.7, density=0.9)
    looks = ((BLUE, "--", "ds/dt = 0"), (ORANGE, "-.", "dd/dt = 0"))
    for curves, (color, dash, name) in zip(plane.nullclines(n), looks, strict=True):
        for number, curve in enumerate(curves):
            ax.plot(*curve.T, dash, color=color, linewidth=1.5, label=None if number else name, clip_on=False)
    ax.plot(s, border, color=RED, linewidth=2.4, label="border d_sep(s)")
    for kind, name in (("stable node", "attracts"), ("saddle", "saddle")):
        points = np.array([e.point for e in model.equilibria() if e.kind == kind])
        marker, fill = RISES[kind]
        ax.plot(
            *points.T, marker, color="black", markerfacecolor=fill, markersize=7, linestyle="", label=name,
            zorder=5, clip_on=False,
        )  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.grid(visible=False)


def quality(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """A better AI traps more people and costs each less: the loss is largest in between."""
    big, rng = is_paper(scale), generator(rng)
    q = np.linspace(0.0, 1.0, 61 if big else 9)
    logistic = dataclasses.replace(BASE, law="logistic", gain=12.0)
    window = logistic.bistable_window()
    assert window is not None
    jumps = np.sort([*q, *(end + side for end in window for side in (-1e-6, 1e-6))])  # the basin jumps there
    lines = {
        "law A": (q, areas(BASE, "quality", q), BLUE, "-", -15),
        "law B, γ = 12": (jumps, areas(logistic, "quality", jumps), ORANGE, "--", 6),
    }
    spots = np.array([0.2, 0.4, 0.6, 0.8]) if big else np.array([0.6])
    share, error = counted([dataclasses.replace(BASE, quality=x) for x in spots], 2000 if big else 100, rng)
    with canvas(ax, (10.4, 4.6)) as ax:
        left, right = panels(ax, 1, 2)
        for name, (x, area, color, dash, shift) in lines.items():
            loss = area * (1 - x)
            top = int(loss.argmax())
            left.plot(x, area, dash, color=color, label=name)
            right.plot(x, loss, dash, color=color, label=name)
            right.plot(x[top], loss[top], "o", color=color, markersize=7)
            right.annotate(
                f"q = {x[top]:.2f}", (x[top], loss[top]), (0, shift), textcoords="offset points", ha="center",
                fontsize=9.5,
            )  # fmt: skip
        left.errorbar(
            spots, share, 2 * error, color=GREY, marker="s", linestyle="", capsize=3, markersize=5,
            label="law A, starts run, ± 2 se", zorder=4,
        )  # fmt: skip
        left.set(ylim=(0, 1.02), ylabel="share of starts that lose skill", title="the basin grows with q")
        right.set(ylim=(0, 0.33), ylabel="share times the loss 1 − q", title="its cost does not")
        for place in (left, right):
            place.set(xlim=(0, 1), xlabel="quality q of the AI")
            legend(place, 3 if place is left else 2, 0.17)
    return ax


def speed(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Faster trust traps more people only up to a point, at q = 0.7; at q = 0.6 it always does."""
    big, rng = is_paper(scale), generator(rng)
    k = np.geomspace(1e-3, 1e4, 61 if big else 8)
    spots = np.array([0.1, 1.0, 10.0]) if big else np.array([1.0])
    with canvas(ax, (7.2, 5.0)) as ax:
        for q, color, marker, dash in ((0.7, RED, "o", "-"), (0.6, BLUE, "s", "--")):
            model = dataclasses.replace(BASE, quality=q)
            area = areas(model, "speed", k)
            ax.plot(k, area, dash, color=color, label=f"q = {q:g}")
            worlds = [dataclasses.replace(model, speed=x) for x in spots]
            share, error = counted(worlds, 4000 if big else 100, rng)
            ax.errorbar(
                spots, share, 2 * error, color=color, marker=marker, linestyle="", capsize=3, markersize=5,
                label=f"q = {q:g}, starts run, ± 2 se",
            )  # fmt: skip
            slow = model.forget * q / (model.learn * (1 - q) + model.forget * q)
            for level, at in ((slow, 0), (q, -1)):
                ax.plot(k[at], level, marker, color=color, markerfacecolor="white", markersize=8, zorder=4)
            top = int(area.argmax())
            if 0 < top < len(k) - 1:
                ax.annotate(
                    f"{area[top]:.3f} at k = {k[top]:.0f}", (k[top], area[top]), (34, 5), ha="center",
                    textcoords="offset points", fontsize=9.5,
                )  # fmt: skip
        ax.plot([], [], "o", color="black", markerfacecolor="white", label="limits: bq/(a(1−q) + bq), and q")
        ax.set(
            xscale="log",
            ylim=(0.44, 0.78),
            xlabel="speed k at which trust adapts",
            ylabel="share of starts that lose skill",
            title="the basin is not monotone in speed",
        )
        legend(ax, 2, 0.16)
    return ax


def folds(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Law B: skill at rest by quality, and where two attracting points exist."""
    del rng  # nothing is drawn
    n = 800 if is_paper(scale) else 60
    s = 1 / (1 + np.exp(-np.linspace(-16, 16, n)))
    gains = np.geomspace(4.0, 40.0, n // 4)[1:]
    with canvas(ax, (10.4, 4.8)) as ax:
        left, right = panels(ax, 1, 2)
        for gamma, color in ((12.0, RED), (6.0, ORANGE), (3.9, BLUE)):
            model = DelegationModel(1, 0.6, 1, 0.5, "logistic", gamma)
            window = model.bistable_window()
            middle = gamma * s * (1 - s) > 1
            q = rest_curve(model, s)
            left.plot(np.where(middle, np.nan, q), s, color=color, label=f"γ = {gamma:g}")
            left.plot(np.where(middle, q, np.nan), s, ":", color=color)
            if window:
                root = np.sqrt(1 - 4 / gamma)
                left.plot(window, [(1 - root) / 2, (1 + root) / 2], "o", color=color, markersize=6)
                right.plot(window, [gamma, gamma], "o-", color=color, linewidth=1, markersize=6)
        left.plot([], [], ":", color="black", label="does not attract")
        left.plot([], [], "o", color="black", label="folds: s(1 − s) = 1/γ")
        left.set(
            xlim=(0, 1), ylim=(0, 1), ylabel="skill s at rest", title="law B: q(s), solid where it attracts"
        )
        ends = np.array(
            [DelegationModel(1, 0.6, 1, 0.5, "logistic", g).bistable_window() for g in gains], float
        )
        right.fill_betweenx(gains, *ends.T, color=PURPLE, alpha=0.25, linewidth=0, label="two points attract")
        right.plot(ends[:, 0], gains, color=PURPLE)
        right.plot(ends[:, 1], gains, color=PURPLE)
        right.axhline(4, **GUIDE)
        right.text(0.02, 4.15, "γ = 4", fontsize=9.5)
        right.set(
            xlim=(0, 1), ylim=(3, 40), yscale="log", ylabel="gain γ of trust", title="two only in this window"
        )
        right.set_yticks([4, 6, 12, 20, 40], ["4", "6", "12", "20", "40"])
        right.set_yticks([], minor=True)
        for place in (left, right):
            place.set_xlabel("quality q of the AI")
            legend(place, 3, 0.17)
    return ax


def performance(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """With the AI and without: a gain at first, then a loss for good, and not always one crossing."""
    del rng  # nothing is drawn
    n = 600 if is_paper(scale) else 60
    t = np.linspace(0, 12, n)
    with canvas(ax, (11.4, 4.8)) as ax:
        left, right = panels(ax, 1, 2)
        for (s0, d0), color, dash in (((0.45, 0.5), RED, "-"), ((0.3, 0.2), BLUE, "--")):
            orbit, end = BASE.trajectory(s0, d0, t), BASE.crossing_time(s0, d0)
            left.plot(t, orbit.performance, dash, color=color, label=f"with AI, from s = {s0:g}, d = {d0:g}")
            left.plot(t, orbit.alone, ":", color=color, label=f"alone, from s = {s0:g}")
            left.plot(*_spot(BASE, s0, d0, end), "o", color=color, markersize=7, zorder=4)
        left.axhline(BASE.quality, **GUIDE)
        left.text(12, BASE.quality + 0.012, "q", ha="right", fontsize=10)
        left.set(
            xlim=(0, 12),
            ylim=(0.25, 1.02),
            xlabel="time",
            ylabel="performance",
            title="q = 0.7: a loss from the dots on",
        )
        changes = THRICE.sign_changes(0.45, 0.01)
        t = np.linspace(0, 9, 2 * n)
        orbit = THRICE.trajectory(0.45, 0.01, t)
        gain = orbit.performance - orbit.alone
        right.plot(t, gain, color=GREEN, label="with AI less alone")
        shown: dict[str, Any] = {"alpha": 0.2, "linewidth": 0}
        right.fill_between(t, gain, 0, where=gain > 0, color=BLUE, **shown)
        right.fill_between(t, gain, 0, where=gain < 0, color=RED, **shown)
        right.plot(changes, 0 * changes, "o", color="black", label="sign changes", zorder=4)
        for time, shift in zip(changes, ((4, 8), (-2, 8), (0, 8)), strict=True):
            right.annotate(f"{time:.2f}", (time, 0), shift, textcoords="offset points", fontsize=9.5)
        right.axhline(0, **GUIDE)
        right.set(
            xlim=(0, 9),
            xlabel="time",
            ylabel="difference of performance",
            title="b = 6, k = 5, q = 0.9: three",
        )
        legend(left, 2, 0.17)
        legend(right, 2, 0.17)
    return ax


def _spot(model: DelegationModel, s0: float, d0: float, time: float | None) -> tuple[Any, Any]:
    assert time is not None
    return [time], model.trajectory(s0, d0, [time]).performance


FIGURES = {
    "F1": portraits,
    "F2": quality,
    "F3": speed,
    "F4": folds,
    "F5": performance,
}
