"""What a principal start gains: what foretells it, and where it is anything."""

from typing import TYPE_CHECKING, Any

import numpy as np

from porism.sims.alignment._drawing import PREDICTOR_NAMES, bars, panels
from porism.sims.alignment.figure_data import regimes, trackings
from porism.sims.alignment.tracking import PREDICTORS
from porism.sims.drawing import GUIDE, Rng, canvas, legend, seed_of
from porism.sims.style import BLUE, GREEN, ORANGE, RED, SKY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from porism.sims.alignment.regime import RegimeSweep
    from porism.sims.alignment.tracking import Tracking

__all__ = ["regime", "tracking"]

CLASSES = ((1.0, 4.0, "δ < 4"), (4.0, 12.0, "δ 4 to 12"), (12.0, np.inf, "δ > 12"))
"""Classes of difficulty, hardest first."""

TITLES = {"controlled": "one difficulty", "pooled": "all difficulties"}


def tracking(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """ρ and the predicted gain against the realised gain: tasks of one difficulty, then of all."""
    found = trackings(scale, seed_of(rng))
    with canvas(ax, (13.0, 8.2)) as ax:
        axes = panels(ax, 2, 3)
        for row, run in enumerate(found.values()):
            for predictor, place in zip(("true_rho", "predicted_gain"), axes[3 * row :], strict=False):
                _cloud(place, run, predictor)
            _table(axes[3 * row + 2], run)
    return ax


def _cloud(ax: "Axes", run: "Tracking", predictor: str) -> None:
    x, place = getattr(run, predictor), PREDICTORS.index(predictor)
    first, _, last = run.correlations()[place]
    ax.axhline(0, **GUIDE)
    ax.plot(x, run.gains[:, 0], "o", color=ORANGE, fillstyle="none", markersize=5, label="one step")
    last_step = f"{run.steps[-1]} steps"
    if run.panel == "pooled":
        for (low, high, word), color, marker in zip(CLASSES, (BLUE, GREEN, RED), "osD", strict=True):
            inside = (run.delta >= low) & (run.delta < high)
            name = f"{last_step}, {word}"
            ax.plot(x[inside], run.gains[inside, -1], marker, color=color, markersize=5.5, label=name)
    else:
        ax.plot(x, run.gains[:, -1], "o", color=BLUE, markersize=5.5, label=last_step)
    ax.set(xlabel=PREDICTOR_NAMES[predictor], ylabel="gain in accuracy")
    ax.set_title(f"{TITLES[run.panel]}: r = {first:.2f} and {last:.2f}")
    legend(ax, 2, 0.19)


def _table(ax: "Axes", run: "Tracking") -> None:
    """Correlations of all predictors at all steps."""
    values = run.correlations()
    ax.imshow(values, vmin=-1, vmax=1, cmap="PuOr", aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        color = "white" if abs(value) > 0.75 else "black"
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", color=color)
    ax.set_xticks(range(len(run.steps)), [f"{step}" for step in run.steps])
    ax.set_yticks(range(len(PREDICTORS)), [PREDICTOR_NAMES[name] for name in PREDICTORS])
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="gain after so many steps")
    ax.set_title(f"correlations, {len(run.delta)} tasks")


def regime(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Where a principal start pays: against d/n, difficulty, and the length of training."""
    found = regimes(scale, seed_of(rng))
    with canvas(ax, (11.4, 9.2)) as ax:
        share, window, hard, long = panels(ax, 2, 2)
        for sweep, color, marker in (found["shape 6"], BLUE, "o"), (found["shape 3"], RED, "D"):
            name = f"ℓ = {sweep.ell[0]:g}"
            captured, end = (sweep.captured, sweep.captured_se), (sweep.gain[:, -1], sweep.gain_se[:, -1])
            start = sweep.gain[:, 0], sweep.gain_se[:, 0]
            _shape(share, sweep, captured, color, marker, linestyle="-", label=name)
            look: dict[str, Any] = {"linestyle": ":", "fillstyle": "none"}
            _shape(window, sweep, start, color, marker, label=f"{name}, {_step(sweep, 0)}", **look)
            _shape(window, sweep, end, color, marker, linestyle="-", label=f"{name}, {_step(sweep, -1)}")
            for place, values in ((share, captured), (window, end)):
                _shape(place, sweep, values, color, "*", wide=False, markersize=10, fillstyle="none")
        for place in (share, window):
            place.set(xscale="log", xlabel="d / n, at d = 768")
        share.plot([], [], "*", color="0.3", fillstyle="none", markersize=10, label="stars: d = 64, n = 512")
        share.set(ylim=(0, 1.03), ylabel="true captured share", title="what PCA finds: more rows, more of it")
        window.set(title="what that gains")
        _lines(hard, found["difficulty"], "ell", GREEN)
        hard.set(
            xlabel="strength ℓ of the class direction, 768 × 32", title="neither hopeless nor easy tasks"
        )
        _lines(long, found["length"], "tau", SKY)
        long.set(xlabel="τ = lr T √d, 768 × 32", title="long training makes up for any start")
        for place in (window, hard, long):
            place.axhline(0, **GUIDE)
            place.set(ylabel="gain in accuracy")
        for place, columns in ((share, 3), (window, 2), (hard, 3), (long, 3)):
            legend(place, columns, 0.16)
    return ax


def _shape(
    ax: "Axes", sweep: "RegimeSweep", values: Any, color: str, marker: str, wide: bool = True, **look: Any
) -> None:
    """Values and errors against d / n, of cells of 768 coordinates or of the others."""
    where, (mean, error) = (sweep.d == 768) == wide, values
    bars(ax, sweep.gamma[where], mean[where], error[where], color, marker, **look)


def _lines(ax: "Axes", sweep: "RegimeSweep", against: str, color: str) -> None:
    x = getattr(sweep, against)
    for j, dash, fill, marker in ((0, ":", "none", "o"), (1, "--", "none", "s"), (2, "-", "full", "D")):
        look: dict[str, Any] = {"linestyle": dash, "fillstyle": fill, "label": _step(sweep, j)}
        bars(ax, x, sweep.gain[:, j], sweep.gain_se[:, j], color, marker, **look)
    ax.set(xscale="log")
    ax.set_xticks(x, [f"{value:.2g}" for value in x])
    ax.set_xticks((), minor=True)


def _step(sweep: "RegimeSweep", j: int) -> str:
    step = sweep.steps[j]
    return f"{step} steps" if step > 1 else "one step"
