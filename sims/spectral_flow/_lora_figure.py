"""LoRA on the tiny transformer: spectra, uniformity of their growth, stable rank, loss."""

from typing import TYPE_CHECKING, Any

import numpy as np

from porism.sims.drawing import LOOKS, Rng, canvas, legend, seed_of
from porism.sims.spectral_flow._drawing import NAMES, panels
from porism.sims.spectral_flow.figure_data import lora_runs
from porism.theory.effective_rank import stable_rank

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from porism.sims.spectral_flow.lora_run import LoraRun

__all__ = ["lora"]

SMOOTH = 15
"""Batches in a running mean of the loss."""


def lora(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """LoRA on a small transformer: singular values grow together under Muon, apart under AdamW and SGD."""
    runs = lora_runs(scale, seed_of(rng))
    with canvas(ax, (12.6, 8.0)) as ax:
        axes = panels(ax, 2, 3)
        _spectra(axes[:3], runs)
        _uniformity(axes[3], runs)
        _ranks(axes[4], runs)
        _losses(axes[5], runs)
    return ax


def _spectra(axes: "list[Axes]", runs: "tuple[LoraRun, ...]") -> None:
    import matplotlib

    means = [np.mean(list(run.history.spectra.values()), axis=0)[1:] for run in runs]
    low, high = min(mean.min() for mean in means), max(mean.max() for mean in means)
    for ax, run, mean in zip(axes, runs, means, strict=False):
        colors = matplotlib.colormaps["cividis"](np.linspace(0, 0.85, run.rank))
        for place, (values, color) in enumerate(zip(mean.T, colors, strict=True)):
            name = f"no. {place + 1}" if place in (0, run.rank // 2 - 1, run.rank - 1) else None
            ax.plot(run.history.steps[1:], values, color=color, label=name)
        ax.set(yscale="log", ylim=(low / 1.5, high * 1.5), xlim=(0, run.history.steps[-1]), xlabel="step")
        ax.set_title(f"{NAMES[run.optimizer]}: {run.rank} singular values")
        legend(ax, 3)
    axes[0].set_ylabel("singular value of BA,\nmean of 12 matrices")


def _uniformity(ax: "Axes", runs: "tuple[LoraRun, ...]") -> None:
    for at, (run, (color, marker, _)) in enumerate(zip(runs, LOOKS, strict=False)):
        found = run.growth()
        spread = np.linspace(-0.22, 0.22, len(found.per_module))
        ax.plot(at + spread, found.per_module, ".", color=color, alpha=0.55, markersize=6)
        bars: dict[str, Any] = {"color": "black", "marker": marker, "capsize": 6, "markersize": 6}
        ax.errorbar(at, found.mean, [[found.mean - found.low], [found.high - found.mean]], **bars, zorder=4)
        ax.annotate(f"{found.mean:.2f}", (at, found.mean), (17, 0), textcoords="offset points", va="center")
    ax.set_xticks(range(len(runs)), [NAMES[run.optimizer].removeprefix("torch ") for run in runs])
    ax.set(
        ylim=(0, 1.03),
        xlim=(-0.5, len(runs) - 0.2),
        xlabel="dots: matrices; bars: 95 % interval of the mean",
        ylabel="growth uniformity U",
        title="1 is equal growth",
    )


def _ranks(ax: "Axes", runs: "tuple[LoraRun, ...]") -> None:
    for run, (color, marker, dash) in zip(runs, LOOKS, strict=False):
        ranks = [stable_rank(rows[1:], spectrum=True) for rows in run.history.spectra.values()]
        mean = np.mean(ranks, axis=0)
        ax.plot(
            run.history.steps[1:],
            mean,
            dash,
            color=color,
            marker=marker,
            markersize=4,
            clip_on=False,
            label=NAMES[run.optimizer],
        )
    ax.set(
        ylim=(1, None), xlim=(0, runs[0].history.steps[-1]), xlabel="step", ylabel="stable rank of BA, mean"
    )
    ax.set_title("how many values count")
    legend(ax, 2)


def _losses(ax: "Axes", runs: "tuple[LoraRun, ...]") -> None:
    width = min(SMOOTH, max(1, len(runs[0].losses) // 4))
    for run, (color, _, dash) in zip(runs, LOOKS, strict=False):
        mean = np.convolve(run.losses, np.full(width, 1 / width), "valid")
        name = f"{NAMES[run.optimizer].removeprefix('torch ')}: {run.loss_after:.3f}"
        ax.plot(np.arange(width, len(run.losses) + 1), mean, dash, color=color, label=name)
    ax.set(
        xlim=(0, len(runs[0].losses)),
        xlabel="step",
        ylabel=f"loss (nats), mean of {width} batches",
        title=f"held-out loss after; {runs[0].loss_before:.3f} before",
    )
    legend(ax, 2)
