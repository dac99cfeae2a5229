"""Figures on training: accuracy by number of positions, what the graph keeps, direction of the gradient."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, panels, seed_of
from porism.sims.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED
from porism.sims.token_capacity import _figure_data as data
from porism.sims.token_capacity import _training_data as training
from porism.sims.token_capacity._position_figures import band, ticks
from porism.sims.token_capacity.digits import ARMS, KINDS, DigitArms, compare_arms
from porism.theory.token_capacity import min_positions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMOKE_ARMS = ((0, "suffix"), (4, "suffix"), (4, "random"), (17, "suffix"), (4, "unread"))
"""Arms of the small scale."""

PRETRAINING = {"smoke": (10, 20), "paper": (200, 2000)}
"""Steps of pretraining of the two arms."""

ARM_LOOKS = {
    "full": (GREY, "X", ":", "full fine-tuning"),
    "TokenTune-style": (PURPLE, "v", "-.", "two passes, TokenTune's attention"),
    "concat+SDPA": (ORANGE, "^", "--", "two passes, joined keys"),
    "ours": (BLUE, "o", "-", "two passes, SubsetBackprop"),
    "checkpointing": (GREEN, "s", "--", "checkpointing, all positions"),
}


def accuracy(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Accuracy through k positions, after short and long pretraining: few do not match full fine-tuning."""
    seed, arms = seed_of(rng), ARMS if is_paper(scale) else SMOKE_ARMS
    with canvas(ax, (10.6, 9.2)) as ax:
        places = panels(ax, 2, 2, 0.06)
        cells = [(kind, steps) for kind in KINDS for steps in PRETRAINING[scale]]
        for place, (kind, before) in zip(places, cells, strict=True):
            found = compare_arms(kind, scale, pretrain_steps=before, arms=arms, seed=seed)
            curves = data.digit_coverage(kind, scale, seed, before)["suffix"]
            _arms(place, found, round(np.mean([min_positions(curve, data.EPS) for curve in curves])))
    return ax


def _arms(ax: "Axes", found: DigitArms, star: int) -> None:
    full = found.arm(17)
    low, high = full.mean() + np.array([-1, 1]) * _error(full)
    ax.axhspan(low, high, color=GREY, alpha=0.3, linewidth=0)
    ax.axhline(full.mean(), color=GREY, linewidth=1.4, label="full fine-tuning")
    ax.errorbar([17], [full.mean()], [_error(full)], color=GREY, marker="X", capsize=3, markersize=7)
    looks = (("suffix", BLUE, "o", 0.98), ("random", ORANGE, "D", 1.03), ("earliest", RED, "^", 0.93))
    for order, color, marker, aside in looks:
        numbers = [
            k for k, own in zip(found.k.tolist(), found.order, strict=True) if own == order and 0 < k < 17
        ]
        values = [found.arm(k, order) for k in numbers]
        x = np.array(numbers) * aside
        for place, seeds in zip(x, values, strict=True):
            ax.plot([place] * len(seeds), seeds, ".", color=color, alpha=0.35, markersize=5)
        ax.errorbar(x, [part.mean() for part in values], [_error(part) for part in values], color=color,
                    marker=marker, linestyle="-" if order == "suffix" else "none", capsize=3, markersize=6,
                    label=f"{'last' if order == 'suffix' else order} k")  # fmt: skip
    ax.axhline(found.arm(0).mean(), color=GREEN, linestyle="--", label="classifier alone")
    ax.axhline(found.arm(4, "unread").mean(), color="black", linestyle=":", label="readout left out")
    ax.axvline(star, **GUIDE)
    offset, side = ((-4, 0), "right") if star > 6 else ((4, 0), "left")
    ax.annotate(f"k* = {star} of coverage", (star, 0.02), offset, xycoords=("data", "axes fraction"),
                fontsize=9, textcoords="offset points", ha=side)  # fmt: skip
    ax.set(
        xscale="log",
        xlim=(0.85, 20),
        ylim=(0, 1),
        xlabel=f"positions k of 17\n{_best(found)}",
        ylabel="test accuracy",
        title=f"{found.kind}, {found.pretrain_steps} steps of pretraining",
    )
    ticks(ax, (1, 2, 4, 8, 17))
    legend(ax, 3, 0.21)


def _best(found: DigitArms) -> str:
    """Gaps to full fine-tuning of the best subset with at most four and with eight positions."""
    words = []
    for name, numbers in (("k ≤ 4", (1, 2, 4)), ("k = 8", (8,))):
        arms = [arm for arm in zip(found.k.tolist(), found.order, strict=True) if arm[0] in numbers]
        if arms:
            gap, error = found.gap(*max(arms, key=lambda arm: found.arm(*arm).mean()))
            words.append(f"{gap:+.3f} ± {error:.3f} (best {name})")
    return "gap to full: " + ", ".join(words)


def _error(values: NDArray[np.float64]) -> float:
    """Standard error of the mean over seeds."""
    return float(values.std(ddof=1)) / len(values) ** 0.5


def memory(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Bytes that the graph keeps, against k: where gradient checkpointing keeps less."""
    seed_of(rng)  # bytes do not depend on it
    with canvas(ax, (10.8, 4.8)) as ax:
        for place, (kind, title) in zip(panels(ax, 1, 2, 0.06), training.HEADS.items(), strict=True):
            k, found = training.memory_curves(kind, scale)
            for arm, (color, marker, dash, word) in ARM_LOOKS.items():
                place.plot(k, found[arm] / 2**20, dash, marker=marker, color=color, label=word)
            meets = training.crossing(k, found["ours"], found["checkpointing"])
            if meets is None:
                place.annotate("checkpointing keeps less at every k", (0.03, 0.03), fontsize=9.5,
                               xycoords="axes fraction")  # fmt: skip
            else:
                level = np.interp(meets, k, found["checkpointing"]) / 2**20
                place.axvline(meets, **GUIDE)
                place.plot(meets, level, "*", color="black", markersize=13, zorder=6)
                place.annotate(f"k = {meets:.0f}: checkpointing\nkeeps less from here on", (meets, level),
                               (8, -8), textcoords="offset points", va="top", fontsize=9.5)  # fmt: skip
            place.set(
                xscale="log",
                yscale="log",
                ylim=(min(min(part) for part in found.values()) / 2**21, None),
                xlabel=f"positions k of {1024 if is_paper(scale) else 128} with a gradient",
                ylabel="kept for the backward pass, MiB",
                title=title,
            )
            ticks(place, k)
            legend(place, 2, 0.18)
    return ax


def cosines(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Cosine of the selected gradient with the full one: what a suffix keeps, and what other subsets cut."""
    seed = seed_of(rng)
    k, suffix = training.suffix_cosines(scale, seed)
    numbers, subsets = training.subset_cosines(scale, seed)
    with canvas(ax, (10.6, 4.6)) as ax:
        ax, right = panels(ax, 1, 2, 0.06)
        for i, (word, look) in enumerate(
            zip(training.GROUPS, (LOOKS[2], LOOKS[0], LOOKS[1], LOOKS[3]), strict=True)
        ):
            band(ax, k, suffix[:, i], look, word)
        for (std, values), look in zip(subsets.items(), LOOKS, strict=False):
            band(right, numbers, values, look, f"weights of size {std:g}")
        ax.set(
            xlabel=f"the last k of {k[-1]} positions",
            ylabel="cosine with the full gradient",
            title="causal: groups of parameters",
        )
        right.set(
            xlabel=f"the readout and k - 1 random ones of {numbers[-1]}",
            ylabel="cosine with the full gradient",
            title="bidirectional: all maps of the blocks",
        )
        for place in (ax, right):
            place.set(ylim=(-0.2, 1.05))
            legend(place, 2, 0.18)
    return ax
