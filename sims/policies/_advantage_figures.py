"""Figures on group advantages: scales and utilities, diversity, drift, gradients token by token."""

from typing import TYPE_CHECKING

import numpy as np

from porism.checks import generator
from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.policies import _figure_data as data
from porism.sims.style import BLUE, RED
from porism.theory.policies import direction_scale, implied_utility

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__: list[str] = []

SHOWN = {
    "z-score": ("zscore", {}),
    "no std": ("centred", {}),
    "positives × .4": ("asymmetric", {"suppress": 0.6}),
    "hard": ("hard", {}),
    "easy, released": ("easy", {}),
    "easy, √(1 − p)": ("easy_sqrt", {}),
}
"""Rules by the name in the legend."""

FLOOR = 1e-18
"""Gradients that are zero are shown here."""


def rules(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Scale s(p) of the expected update and the utility F it climbs, for six rules and groups of eight."""
    p = np.linspace(0, 1, 401 if is_paper(scale) else 41)
    with canvas(ax, (10.6, 5.2)) as ax:
        ax, right = panels(ax, 1, 2)
        for (name, (rule, options)), (color, _, dash) in zip(SHOWN.items(), LOOKS, strict=False):
            ax.plot(p, direction_scale(p, 8, rule, **options), dash, color=color, label=name)
            right.plot(p, implied_utility(p, 8, rule, **options), dash, color=color, label=name)
        ax.set(
            yscale="log",
            xlabel="success rate p of the prompt",
            ylabel="scale s(p) of the expected update",
            title="same direction, other length",
        )
        right.axhline(0, **GUIDE)
        right.set(
            xlabel="success rate p of the prompt",
            ylabel="implied utility F(p), F(½) = 0",
            title="what is climbed, G = 8",
        )
        for place in (ax, right):
            legend(place, 3, below=0.16)
    return ax


def collapse(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Diversity of right arms: one curve by progress for every λ, different curves by step."""
    runs, steps, lr = (64, 1200, 0.05) if is_paper(scale) else (12, 200, 0.1)
    found, flow = data.bandits(generator(rng), runs, steps, (0.0, 0.6, 0.9), lr)
    with canvas(ax, (10.6, 5.0)) as ax:
        ax, right = panels(ax, 1, 2)
        ax.plot(
            flow.p_correct[:, 0], flow.effective_arms[:, 0], color="black", linewidth=1, label="expected flow"
        )
        for place, ((share, run), (color, marker, dash)) in enumerate(
            zip(found.items(), LOOKS, strict=False)
        ):
            name = f"λ = {share:g}"
            p, number = run.p_correct.mean(axis=1), run.effective_arms.mean(axis=1)
            # at one progress, not one step: each run is read where it first comes to a level
            levels = np.linspace(p[0], min(0.98, float(run.p_correct.max(axis=0).min())), 40)
            levels = levels[place::3]  # of each kind its own, so that none hides another
            ax.plot(levels, run.at_level(levels).mean(axis=1), marker, color=color, markersize=6, label=name)
            right.plot(number, dash, color=color, label=name)
        ax.set(
            xlim=(None, 1),
            xlabel="P(right arm)",
            ylabel="effective number of right arms, of 6",
            title="by progress: one curve",
        )
        right.set(
            xlabel="step",
            ylabel="effective number of right arms, of 6",
            title=f"by step: an effect, mean of {runs} runs",
        )
        legend(ax, 2, below=0.16)
        legend(right, 3, below=0.16)
    return ax


def drift(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Unsampled actions gain where wrong samples were likelier than right ones, and lose elsewhere."""
    found = data.drifts(generator(rng), 2000 if is_paper(scale) else 200)
    with canvas(ax, (7.0, 5.0)) as ax:
        span = np.array([found["ahead"].min(), found["ahead"].max()])
        for low, (color, marker, dash) in zip((1, 2, 3, 4), LOOKS, strict=False):
            share = low / 8
            on = np.isin(found["share"], (share, 1 - share))
            name = f"{low} or {8 - low} right" if low < 4 else "4 right"
            ax.plot(
                found["ahead"][on], found["drift"][on], marker, color=color, markersize=4, alpha=0.5,
                markeredgewidth=0, label=name,
            )  # fmt: skip
            slope = np.sqrt(share * (1 - share))
            ax.plot(span, slope * span, dash, color=color, linewidth=1)
        ax.axhline(0, **GUIDE)
        ax.axvline(0, **GUIDE)
        up = float((found["drift"] > 0).mean())
        ax.set(
            xlabel="mean probability of wrong samples, less that of right ones",
            ylabel="change of log π of unsampled, a unit step",
            title=f"groups of 8: unsampled actions gain in {100 * up:.0f} %",
        )
        legend(ax, 4, below=0.16, markerscale=2)
    return ax


def token_gradients(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Gradients on logits of unsampled tokens: at the first position, and after samples have parted."""
    rng = generator(rng)
    found = data.token_gradients(rng, 200 if is_paper(scale) else 25)
    words = {
        "seq_mean": "mean within\neach sequence",
        "token_mean": "mean over\nall tokens",
        "sum": "plain sum",
    }
    with canvas(ax, (7.6, 5.0)) as ax:
        for place, values in enumerate(found.values()):
            for side, (gradients, color, marker, name) in enumerate(
                ((values[0], BLUE, "o", "first position"), (values[1], RED, "^", "after samples have parted"))
            ):
                x = place - 0.2 + 0.4 * side + rng.uniform(-0.13, 0.13, len(gradients))
                ax.plot(
                    x, np.maximum(gradients, FLOOR), marker, color=color, markersize=4, alpha=0.5,
                    markeredgewidth=0, label=None if place else name,
                )  # fmt: skip
        ax.axhline(1e-15, **GUIDE)
        ax.text(2.52, 1e-15, "rounding\nbelow", va="center", fontsize=9)
        ax.set_xticks(range(3), [words[how] for how in found])
        ax.set(
            xlim=(-0.5, 2.5),
            yscale="log",
            ylim=(FLOOR / 3, 3),
            xlabel="aggregation of token losses",
            ylabel="largest gradient on an unsampled logit",
            title=f"{len(next(iter(found.values()))[0])} groups of six with advantages that sum to zero",
        )
        legend(ax, 2, below=0.24, markerscale=2)
    return ax
