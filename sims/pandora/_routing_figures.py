"""Routing on matrices: quality by refinements, promises and what comes of them, keeping to a budget."""

from typing import TYPE_CHECKING

import numpy as np

from porism.checks import generator
from porism.sims.pandora._drawing import GUIDE, POLICY_LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.pandora.figure_data import (
    classifier_curves,
    classifier_fit,
    optimism_sweep,
    spend_by_rate,
)
from porism.sims.pandora.simulators import binary_irt
from porism.sims.pandora.sweeps import budget_run
from porism.sims.style import BLUE, GREEN, GREY, ORANGE, RED, SKY
from porism.theory.pandora import CalibrationReport, fit_router

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["budget", "curves", "hard_answers", "optimism"]

RULES = ("kg_joint", "kg_sigma", "kg", "threshold refined", "threshold all", "random joint", "random")


def curves(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Quality by refinements, twelve classifiers: most of the gain for few, if updated jointly."""
    big = is_paper(scale)
    kinds = {"digits": "10 classes", "breast_cancer": "2 classes"}
    chosen = kinds if big else {"breast_cancer": "2 classes"}
    with canvas(ax, (11.0, 5.6)) as ax:
        axes = panels(ax, 1, 2) if big else [ax]
        for place, (dataset, kind) in zip(axes, chosen.items(), strict=True):
            curve = classifier_curves(dataset) if big else classifier_curves(dataset, 1, (0.01, 0.04, 0.11))
            margin = 2 * curve.exhaustive_gain_se
            place.axhspan(
                curve.exhaustive - margin, curve.exhaustive + margin, color="0.5", alpha=0.15, linewidth=0
            )
            place.axhline(curve.exhaustive, **GUIDE)
            place.axhline(curve.cheap, **GUIDE)
            for rule in RULES:
                color, marker, dash, name = POLICY_LOOKS[rule]
                x, y = curve.points(rule).T
                place.plot(
                    x, y, dash, color=color, marker=marker, markersize=5, label=name, clip_on=False,
                    linewidth=2.2 if rule == "kg_joint" else 1.4,
                )  # fmt: skip
            top = max(float(curve.quality.max()), curve.exhaustive + margin)
            room = 0.07 * (top - curve.cheap)
            for level, word in ((curve.cheap, "cheap"), (curve.exhaustive, "all refined\n± 2 se")):
                place.text(1.02 * curve.K, level, word, va="center", color="0.25", fontsize=9.5)
            place.set(
                xlim=(0, curve.K),
                ylim=(min(curve.cheap, float(curve.quality.min())) - room, top + room),
                xlabel=f"refinements a query, of {curve.K}",
                ylabel="share of right answers",
                title=f"{dataset.replace('_', ' ')}, {kind}, {curve.n_queries} queries",
            )
            legend(place, 2, below=0.15)
    return ax


def optimism(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Calibrated estimates that mislead: what the chosen specialist promises, and what it delivers."""
    big, rng = is_paper(scale), generator(rng)
    rhos = (-0.15, 0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.98) if big else (0.0, 0.9)
    seeds = rng.integers(2**31, size=2)
    rules, found, slopes = optimism_sweep(rhos, n=6000 if big else 1000, seed=int(seeds[0]))
    report = hard_answers(12000 if big else 1500, int(seeds[1]))
    looks = {"exhaustive": (RED, "o"), "exhaustive, joint": (GREEN, "s")}
    words = {"exhaustive": "as they are", "exhaustive, joint": "after a joint update"}
    with canvas(ax, (11.0, 5.0)) as ax:
        ax, bars = panels(ax, 1, 2)
        base = found[:, list(rules).index("cheap"), 1]
        for number, rule in enumerate(rules):
            if rule not in looks:
                continue
            color, marker = looks[rule]
            ax.plot(
                rhos, found[:, number, 0] - base, ":", color=color, marker=marker, markersize=6,
                markerfacecolor="white", label=f"promised, estimates {words[rule]}",
            )  # fmt: skip
            ax.errorbar(
                rhos, found[:, number, 2], 2 * found[:, number, 3], color=color, marker=marker, markersize=6,
                capsize=2, label=f"delivered, estimates {words[rule]}",
            )  # fmt: skip
        ax.axhline(0, **GUIDE)
        ax.set(
            xlabel="correlation ρ of what is left open",
            ylabel="value over the cheap rule (delivered: ± 2 se)",
            title=f"Gaussian values; slopes {slopes.min():.2f} to {slopes.max():.2f}",
        )
        legend(ax, 1, below=0.15)
        at = np.arange(len(report.chosen))
        promised = [row.predicted for row in report.chosen]
        delivered = [row.realised for row in report.chosen]
        bars.bar(at - 0.2, promised, 0.38, color=SKY, hatch="//", edgecolor="white", label="promised")
        bars.bar(at + 0.2, delivered, 0.38, color=BLUE, label="delivered")
        spread = max(promised) - min(delivered)
        for place, row in enumerate(report.chosen):
            if row.rule != "cheap":
                word = f"{row.gain:+.4f}\nse {row.gain_se:.4f}".replace("-", "−")
                top = max(row.predicted, row.realised) + 0.04 * spread
                bars.text(place, top, word, ha="center", va="bottom", fontsize=9.5)
        bars.set_xticks(at, [row.rule.replace(", ", ",\n") for row in report.chosen])
        bars.grid(visible=False, axis="x")
        low, high = report.slope.min(), report.slope.max()
        bars.set(
            ylim=(min(delivered) - 0.5 * spread, max(promised) + 0.45 * spread),
            xlabel="rule that chooses",
            ylabel="share of right answers (axis starts above 0)",
            title=f"right or wrong answers; slopes {low:.2f} to {high:.2f}",
        )
        legend(bars, 2)
    return ax


def hard_answers(n: int, seed: int) -> CalibrationReport:
    """Report on answers whose difficulty is shared and seen with unequal precision."""
    world = binary_irt(
        n,
        6,
        ability=np.linspace(-1, 1, 6),
        known=0.2,
        difficulty=3.0,
        tau=np.geomspace(0.3, 10, 6),
        seed=seed,
    )
    return fit_router(world.scores, world.m, world.refined).report


def budget(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Keeping to a budget: why the value of money is searched on a grid, and how the router tracks it."""
    big, rng = is_paper(scale), generator(rng)
    lams = np.geomspace(0.3, 6.0, 120 if big else 12)
    matrix, fitted = classifier_fit("digits" if big else "breast_cancer")
    budgets = np.array([0.08, 0.2, 0.05])
    seed, limit = int(rng.integers(2**31)), None if big else 90
    runs = {
        name: budget_run(
            matrix, fitted, budgets.tolist(), costs=0.04, calibrate=start, limit=limit, seed=seed
        )
        for name, start in (("calibrated at each step", True), ("steered only", False))
    }
    looks = ((GREEN, "-"), (ORANGE, "--"))
    width = 100 if big else 15
    with canvas(ax, (12.0, 4.4)) as ax:
        ax, spend, rate = panels(ax, 1, 3)
        grid = 2001 if big else 301
        for policy, color, dash, name in (("optimal", GREY, "--", "optimal"), ("kg", BLUE, "-", "one-step")):
            ax.plot(lams, 100 * spend_by_rate(lams, policy, grid=grid), dash, color=color, label=name)
        ax.set(
            xscale="log",
            ylim=(0, None),
            xlabel="value of money λ",
            ylabel="spend a query, 10⁻² units of money",
            title="one-step spend may rise with λ",
        )
        ax.set_xticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
        ax.set_xticks([], minor=True)
        legend(ax, 2)
        for (name, run), (color, dash) in zip(runs.items(), looks, strict=True):
            mean = np.convolve(run.spend, np.full(width, 1 / width), "valid")
            at = np.arange(width, len(run.spend) + 1)
            spend.plot(at, mean, dash, color=color, label=f"mean of {width}, {name}")
            rate.plot(np.arange(1, len(run.lam) + 1), run.lam, dash, color=color, label=name)
        given = next(iter(runs.values())).budget
        queries = np.arange(1, len(given) + 1)
        spend.step(queries, given, where="mid", **GUIDE, label="budget")
        run = runs["calibrated at each step"]
        words = []  # of the calibrated run
        for value in budgets:
            part = run.spend[run.budget == value]
            words.append(f"{part.mean():.3f} ± {part.std(ddof=1) / np.sqrt(len(part)):.3f}")
        parts = np.array_split(queries, len(budgets))
        top = 1.25 * max(float(budgets.max()), 0.01)
        for part, word in zip(parts, words, strict=True):
            spend.text(part.mean(), 1.04 * top, word, ha="center", fontsize=9)
        spend.set(
            ylim=(0, 1.15 * top), xlabel="query", ylabel="money a query", title="spend, with its mean ± se"
        )
        legend(spend, 1)
        rate.set(
            ylim=(0, None),
            xlabel="query",
            ylabel="value of money λ",
            title="the value of money that steers it",
        )
        legend(rate, 1)
    return ax
