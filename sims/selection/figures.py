"""Figures of dual scores: orders, shares against removal, joint choice, cost."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from porism.checks import generator
from porism.sims._peak import peak_bytes
from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.selection._estimates import (
    ORDERS,
    joint_shares,
    pooled,
    quadrature_errors,
    removal_estimates,
)
from porism.sims.selection._models import multiplications, perceptron
from porism.sims.selection._scores import jacobian, val_gradient
from porism.sims.selection.matrices import FAMILIES, draw_matrix
from porism.sims.selection.worlds import tanh_world
from porism.sims.style import BLUE, GREEN, GREY, ORANGE, RED
from porism.theory.selection import dual_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

MIB = 2**20
ROWS = {
    "first": ("first order", RED, "v"),
    "shares": ("shares", ORANGE, "o"),
    "end point": ("end point", BLUE, "D"),
}

WAYS: dict[str, tuple[Callable[[Any], Any], str, str, str]] = {
    "dual scores": (lambda work: work.ours(), BLUE, "o", "-"),
    "dual scores, 32 samples a chunk": (lambda work: work.ours(chunk=32), GREEN, "s", "--"),
    "gradients of each sample, vmap": (lambda work: work.peer(), RED, "v", "-."),
}


def orders(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Error of the predicted improvement against the learning rate: slopes 1, 2, 2, 2, and rounding."""
    rng, big = generator(rng), is_paper(scale)
    worlds = [tanh_world(rng=rng) for _ in range(15 if big else 3)]
    rates = np.geomspace(1e-3, 1, 13 if big else 5)
    errors = np.empty((len(worlds), len(rates), len(ORDERS) + 1))
    for i, world in enumerate(worlds):
        J = jacobian(world)
        for j, lr in enumerate(rates):
            errors[i, j, :-1] = np.abs(quadrature_errors(world, float(lr), J))
            path = dual_scores(*world.arguments, order="path", lr=float(lr), nodes=8)
            size = lr * np.linalg.norm(J.mean(0)) * np.linalg.norm(val_gradient(world))
            errors[i, j, -1] = abs(path.total - (path.actual or 0.0)) / size
    middle = np.median(errors, axis=0)
    names = ["first order", "Hessian", "trapezoid of v", "midpoint of v", "path, 8 nodes: rounding"]
    with canvas(ax, (7.2, 5.0)) as ax:
        for name, values, (color, marker, dash) in zip(names, middle.T, LOOKS, strict=False):
            ax.plot(rates, np.maximum(values, 1e-17), dash, color=color, marker=marker, ms=5, label=name)
        for power, height in ((1, 6.0), (2, 0.08)):
            ends = rates[[0, -1]]
            ax.plot(ends, height * middle[-1, 0] * ends**power, **GUIDE)
            at = 4e-3, 2 * height * middle[-1, 0] * 4e-3**power
            ax.text(*at, f"slope {power}", fontsize=9.5, ha="right")
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="learning rate η of one step",
            ylabel="error / η‖ḡ‖‖v‖",
            title="improvement of the validation loss, predicted",
        )
        legend(ax, 3, 0.16)
    return ax


def removal(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """What one sample's removal costs: shares are pulled half way, the end point tells it."""
    rng, big = generator(rng), is_paper(scale)
    worlds = [tanh_world(n=48 if big else 12, rng=rng) for _ in range(12 if big else 2)]
    found = removal_estimates(worlds[0], 2.0)
    rates = np.geomspace(0.05, 2, 7 if big else 3)
    errors = [pooled(worlds, float(lr)) for lr in rates]
    with canvas(ax, (11.6, 4.8)) as ax:
        ax, curve = panels(ax, 1, 2)
        ends = np.array([found["exact"].min(), found["exact"].max()])
        ax.plot(ends, ends, **GUIDE, label="equal")
        for key, (name, color, marker) in ROWS.items():
            ax.plot(found["exact"], found[key], marker, color=color, ms=5, alpha=0.8, label=name)
            curve.plot(rates, [e[key] for e in errors], marker=marker, ms=5, color=color, label=name)
        ax.set(
            xlabel="cost of removing the sample, by removing it",
            ylabel="row of the sample",
            title=f"one net, {worlds[0].n} samples, η = 2",
        )
        legend(ax, 4, 0.17)
        curve.set(
            xscale="log",
            yscale="log",
            xlabel="learning rate η",
            ylabel="relative error of removal",
            title=f"{len(worlds)} nets together",
        )
        legend(curve, 3, 0.17)
    return ax


def joint(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Share of the best joint choice by family of matrices: one shot has no floor, starts close the gap."""
    rng = generator(rng)
    draws = 60 if is_paper(scale) else 8
    titles = {"gaussian": "Gaussian", "signed": "signed\nproducts", "positive": "positive\nproducts"}
    looks = (("one shot", RED, "v"), ("alternating", ORANGE, "o"), ("20 random starts", BLUE, "D"))
    with canvas(ax, (8.0, 4.8)) as ax:
        for place, family in enumerate(FAMILIES):
            shares = []
            for _ in range(draws):
                G = draw_matrix(family, 8, 9, rng)
                shares.append(joint_shares(G, 3, 4, rng))
            for k, (name, color, marker) in enumerate(looks):
                column = np.array(shares)[:, k]
                x = place + 0.26 * (k - 1) + np.linspace(-0.08, 0.08, draws)
                label = name if not place else None
                ax.plot(x, column, marker, color=color, ms=3, alpha=0.45, label=label)
                ax.plot([x[0] - 0.03, x[-1] + 0.03], [column.mean()] * 2, color=color, linewidth=3)
        ax.plot([], [], color=GREY, linewidth=3, label="mean")
        ax.axhline(1, **GUIDE)
        ax.axhline(0, color="0.25", linewidth=0.8)
        ax.set(
            xticks=range(len(FAMILIES)),
            xticklabels=[titles.get(family, "real\ngradients") for family in FAMILIES],
            xlabel="family of score matrices, 8 samples × 9 parameters",
            ylabel="value / best value",
            title="3 samples and 4 parameters, chosen together",
        )
        legend(ax, 4, 0.24)
    return ax


@functools.cache
def _measured(sizes: tuple[int, ...], counts: tuple[int, ...]) -> list[tuple[list[float], list[float]]]:
    """Peaks in MiB and millions of multiplications; kept, as Python's own objects move a peak a little."""
    models = [perceptron(n, sizes) for n in counts]
    found = []
    for run, *_ in WAYS.values():
        works = [functools.partial(run, model) for model in models]
        peaks = [peak_bytes(work, *model.known) / MIB for work, model in zip(works, models, strict=True)]
        found.append((peaks, [multiplications(work) / 1e6 for work in works]))
    return found


def cost(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Memory and multiplications against samples: no array of samples times parameters."""
    big = is_paper(scale)
    sizes = (256, 512, 512, 10) if big else (16, 24, 10)
    counts = (16, 32, 64, 128, 256) if big else (4, 16)
    with canvas(ax, (11.6, 4.8)) as ax:
        ax, operations = panels(ax, 1, 2)
        for (name, (_, color, marker, dash)), row in zip(WAYS.items(), _measured(sizes, counts), strict=True):
            for one, values in zip((ax, operations), row, strict=True):
                one.plot(counts, values, dash, color=color, marker=marker, ms=5, label=name)
        size = perceptron(1, sizes).size
        matrix = np.array(counts) * size * 4 / MIB
        ax.plot(counts, matrix, **GUIDE, label="n P numbers of 4 bytes")
        title = f"perceptron of {size:,} parameters, {sizes[0]} inputs"
        ax.set(yscale="log", ylabel="most MiB alive at once, parameters left out", title=title)
        operations.set(ylabel="millions of multiplications", title="matrix products: one derivative more")
        for one in (ax, operations):
            one.set(xscale="log", xlabel="training samples n", xticks=counts)
            one.set_xticks(counts, [str(n) for n in counts])
            one.minorticks_off()
            one.set_ylim(*((None, None) if one is ax else (0, None)))
            legend(one, 2, 0.17)
    return ax


FIGURES = {"F1": orders, "F2": removal, "F3": joint, "F4": cost}
