"""Claims on rows and columns of one matrix, to first order: DS-1, DS-2."""

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.claims import Evidence, claim
from porism.sims.selection._scores import flat, jacobian, unflat, val_gradient
from porism.sims.selection.worlds import ScoreWorld, attention_world, centred_world, tanh_world
from porism.theory.selection import dual_scores

__all__ = ["SOURCE", "one_matrix", "two_passes"]

Floats = NDArray[np.float64]
SOURCE = "arXiv:2605.06166, abstract; our reconstruction and derivation"
ROUNDING = "rounding: some hundred products a score, over the sizes of the vectors"


def _drawn(world: ScoreWorld, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Weights and a mask with zeros and negative numbers among them."""
    P = len(flat(world.params))
    return rng.normal(size=world.n) * (rng.random(world.n) < 0.8), rng.normal(size=P) * (rng.random(P) < 0.7)


def _slope(world: ScoreWorld, step: Floats) -> float:
    """How fast the validation loss falls along a step at its start, in forward mode."""
    torch = require("torch", "torch")
    return -float(torch.func.jvp(world.val_loss, (world.params,), (unflat(-step, world.params),))[1])


@claim(
    "DS-1",
    kind="theorem",
    source=SOURCE,
    statement="Let G_ij = d_j l_i v_j with v the gradient of the validation loss. Rows sum to g_i . v, the "
    "use of a sample, columns to v_j sum_i g_ij, the weight of a parameter; both have one total, and lr "
    "w'Gm/n is the improvement by a step with sample weights w and parameter mask m to first order.",
    control="losses that depend on each other: inputs centred by the mean of their batch",
)
def one_matrix(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, rows, totals, slopes = 3 if scale == "smoke" else 30, 0.0, 0.0, 0.0
    for _ in range(draws):
        world = tanh_world(n=int(rng.integers(3, 12)), rng=rng)
        if broken:
            world = centred_world(world)
        w, m = _drawn(world, rng)
        J, v = jacobian(world), val_gradient(world)  # each sample on its own
        size = np.linalg.norm(J, axis=1) * np.linalg.norm(m * v) * np.abs(w).max()
        found = dual_scores(*world.arguments, weights=w, mask=unflat(m, world.params), lr=1.0, check=0)
        own = np.asarray(found.rows)
        rows = max(rows, float(np.abs(own - w * (J @ (m * v))).max() / size.max()))
        totals = max(totals, float(abs(own.sum() - flat(found.columns).sum()) / size.sum()))
        first = _slope(world, m * (w @ J) / world.n)
        slopes = max(slopes, float(abs((found.predicted or 0.0) - first) / size.sum() * world.n))
    return Evidence(
        max(rows, totals, slopes) <= 1e-12,
        rows,
        0.0,
        1e-12,
        ROUNDING,
        draws,
        {"totals of rows and columns apart": totals, "first order off the derivative of the step": slopes},
        quantity="largest difference of rows in the batch and of single samples",
    )


@claim(
    "DS-2",
    kind="theorem",
    source=SOURCE,
    statement="All row sums are one forward-mode derivative of the vector of losses along m * v, or one "
    "double backward pass through dummy weights; all column sums are v times one backward pass of sum w_i "
    "l_i. No array of n P numbers is needed.",
    control="v not masked where the step is",
)
def two_passes(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, worst = 1 if scale == "smoke" else 5, dict.fromkeys(("jvp", "double_backward", "columns"), 0.0)
    fell = 0
    for number in range(2 * draws):
        world = attention_world(rng=rng) if number % 2 else tanh_world(rng=rng)
        w, m = _drawn(world, rng)
        J, v = jacobian(world), val_gradient(world)
        mask = None if broken else unflat(m, world.params)
        G = np.diag(w) @ J * v * m
        for method in ("jvp", "double_backward"):
            found = dual_scores(*world.arguments, weights=w, mask=mask, method=method)
            size = np.linalg.norm(w[:, None] * J, axis=1).max() * np.linalg.norm(v * m)
            off = np.abs(np.asarray(found.rows) - G.sum(1)).max() / size
            worst[method] = max(worst[method], float(off))
            fell += len(found.fallbacks)
            off = np.abs(flat(found.columns) - G.sum(0)).max() / np.abs(G).sum(0).max()
            worst["columns"] = max(worst["columns"], float(off))
    return Evidence(
        max(worst.values()) <= 1e-12 and not fell,
        max(worst.values()),
        0.0,
        1e-12,
        ROUNDING,
        2 * draws,
        {f"{name}, off the full matrix": value for name, value in worst.items()},
        quantity="largest difference to sums of the full matrix, tanh nets and transformers",
    )
