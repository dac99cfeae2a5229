"""Modules, pivots and starts: where gradients live, what a rotation does, and what a start is worth."""

from typing import TYPE_CHECKING

import numpy as np

from porism.sims.alignment._arms import paired, standard_error
from porism.sims.alignment._drawing import MOMENT_NAMES, START_LOOKS, bars, panels
from porism.sims.alignment.figure_data import encoder_runs, energies, paths, pivot_gains
from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, legend, seed_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from porism.sims.alignment.comparison import PivotComparison
    from porism.sims.alignment.encoder import EncoderRun
    from porism.sims.alignment.trajectories import PivotPaths

__all__ = ["encoders", "modules", "pivots"]

FLOOR = 1e-17
"""Deviations below are drawn here."""

TASK_NAMES = {"topic": "topic, read at the first token", "token": "masked word, read at the mask"}

OFFSETS = {"target": -0.22, "all": 0.0, "auto": 0.22}
"""Places of the rules for features about the row of their module."""


def modules(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Which tokens carry the gradient of each module, and which features capture it."""
    del rng  # seeds of the worlds are fixed, so that the encoder is trained once
    found = energies(scale)
    with canvas(ax, (12.0, 5.8)) as ax:
        axes = panels(ax, 1, 2)
        for place, (task, energy) in zip(axes, found.items(), strict=True):
            rows = np.arange(len(energy.modules))
            share = energy.share.mean(axis=1)
            place.barh(rows, share, 0.86, color="0.88", label="target token's share of the gradient")
            for rule, offset in OFFSETS.items():
                color, marker, name = START_LOOKS[rule]
                mean = energy.captured[:, energy.rules.index(rule)].mean(axis=1)
                label = f"captured by {name}"
                place.plot(mean, rows + offset, marker, color=color, markersize=6, label=label)
            label = "captured at random, r/d"
            place.plot(energy.random, rows, "|", color="black", markersize=13, label=label)
            place.set_yticks(rows, [name.removeprefix("blocks.") for name in energy.modules])
            place.invert_yaxis()
            place.grid(visible=False, axis="y")
            place.set(xlim=(0, 1.01), xlabel="share", ylabel="block and module", title=TASK_NAMES[task])
            legend(place, 2, 0.13)
    return ax


def pivots(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """What a pivot changes: nothing under SGD, little under Adam if the averages are treated well."""
    seed = seed_of(rng)
    with canvas(ax, (13.0, 4.9)) as ax:
        left, middle, right = panels(ax, 1, 3)
        runs = {name: paths(name, scale, seed) for name in ("sgd", "momentum", "adam")}
        _deviations(left, runs)
        _losses(middle, runs["adam"])
        _differences(right, pivot_gains(scale, seed))
    return ax


def _deviations(ax: "Axes", runs: "dict[str, PivotPaths]") -> None:
    shown = (
        ("adam", "transport", "Adam, moved along"),
        ("momentum", "keep", "momentum, not moved"),
        ("momentum", "transport", "momentum, moved along"),
        ("sgd", "transport", "SGD"),
    )
    for (optimizer, rule, name), (color, _, dash) in zip(shown, LOOKS, strict=False):
        run = runs[optimizer]
        values = np.maximum(run.deviation[run.rules.index(rule)], FLOOR)
        ax.plot(values, dash, color=color, label=name)
    ax.axvline(runs["sgd"].at, **GUIDE)
    ax.set(yscale="log", ylim=(FLOOR, 1), xlabel="step; the pivot is at the dashed line")
    ax.set(ylabel="relative change of BA", title="a random rotation in mid-run")
    legend(ax, 2, 0.18)


def _losses(ax: "Axes", run: "PivotPaths") -> None:
    ax.plot(run.losses[0], color="black", label="no pivot")
    for rule, losses, (color, _, dash) in zip(run.rules, run.losses[1:], LOOKS[1:], strict=False):
        ax.plot(losses, dash, color=color, label=MOMENT_NAMES[rule])
    ax.axvline(run.at, **GUIDE)
    ax.set(yscale="log", xlabel="step", ylabel="training loss", title="Adam: four rules for the averages")
    legend(ax, 2, 0.18)


def _differences(ax: "Axes", found: "PivotComparison") -> None:
    names = {
        "canonical_transport": "canonical,\nmoved along",
        "canonical_reset": "canonical,\nreset",
        "random_transport": "random,\nmoved along",
        "orthonormal": "random start,\nno pivot",
    }
    ax.axhline(0, **GUIDE)
    for at, (arm, (color, marker, _)) in enumerate(zip(names, LOOKS, strict=False)):
        mean, error = found.difference(arm)
        bars(ax, at, 100 * mean, 100 * error, color, marker)
        ax.annotate(f"{100 * mean:+.2f}", (at, 100 * mean), (8, 4), textcoords="offset points", fontsize=9.5)
    ax.set_xticks(range(len(names)), [*names.values()], fontsize=8.5)
    ax.set(
        xlim=(-0.5, len(names) - 0.2),
        xlabel=f"{len(found.accuracy)} paired tasks, {found.optimizer.capitalize()}; bars: 2 SE",
        ylabel="accuracy against PCA, points",
        title="the pivot's benefit is small",
    )


def encoders(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Few-shot LoRA of a small encoder from seven starts: means with errors, paired wins and losses."""
    del rng  # seeds of the worlds are fixed, so that the encoder is trained once
    run = encoder_runs(scale)
    with canvas(ax, (12.4, 8.4)) as ax:
        axes = panels(ax, 2, 2)
        for row, task in enumerate(run.tasks):
            _accuracies(axes[2 * row], run, task)
            _paired(axes[2 * row + 1], run, task)
    return ax


def _accuracies(ax: "Axes", run: "EncoderRun", task: str) -> None:
    for at, (method, row) in enumerate(zip(run.methods, run.accuracy[run.tasks.index(task)], strict=True)):
        color, marker, _ = START_LOOKS[method]
        ax.plot(row, at + np.linspace(-0.25, 0.25, len(row)), ".", color=color, alpha=0.5, markersize=5)
        ax.errorbar(row.mean(), at, xerr=2 * standard_error(row), color=color, marker=marker, capsize=4)
    ax.axvline(0.5, **GUIDE)
    ax.set_yticks(range(len(run.methods)), [START_LOOKS[method][2] for method in run.methods])
    ax.set(ylim=(len(run.methods) - 0.5, -0.5), xlabel="test accuracy; dots are seeds, bars 2 SE")
    ax.set_title(TASK_NAMES[task])


def _paired(ax: "Axes", run: "EncoderRun", task: str) -> None:
    found = paired(run.accuracy[run.tasks.index(task)], 0)
    ax.axvline(0, **GUIDE)
    for at, (method, *row) in enumerate(zip(run.methods, *found.values(), strict=True)):
        if at == 0:
            continue
        mean, error, won, lost = row
        color, marker, _ = START_LOOKS[method]
        ax.errorbar(mean, at, xerr=2 * error, color=color, marker=marker, capsize=4)
        word = f"won {won}, lost {lost}"
        ax.text(1.0, at, word, transform=ax.get_yaxis_transform(), va="center", ha="right", fontsize=9)
    low, high = ax.get_xlim()
    ax.set_yticks(range(1, len(run.methods)), [START_LOOKS[method][2] for method in run.methods[1:]])
    ax.set(xlim=(low, high + 0.45 * (high - low)), ylim=(len(run.methods) - 0.5, 0.5))
    ax.set(xlabel="accuracy less that of the Kaiming start, paired by seed")
    ax.set_title(f"{len(run.seeds)} seeds")
