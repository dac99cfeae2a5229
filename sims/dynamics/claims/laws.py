"""Claims on law B, where two attracting points are a matter of parameters: SD-8, SD-8b."""

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.dynamics.claims._oracles import SOURCE, perturbed
from porism.sims.dynamics.worlds import draw_models, vector_field
from porism.theory.dynamics import DelegationModel, Equilibrium, PhasePlane

__all__ = ["conditional", "folds"]


def _rest(model: DelegationModel, starts: int = 100) -> list[Equilibrium]:
    """Points of rest by Newton's method on differences: no closed form."""
    field = vector_field(model.learn, model.forget, model.speed, model.quality, model.gain)
    return PhasePlane(lambda s, d: field(np.stack([s, d]))).equilibria(starts)


@claim(
    "SD-8",
    kind="refuted",
    source=SOURCE,
    statement="Whatever the parameters, there are two attracting points, one of high and one of low skill. "
    "(False under law B: with gamma = 3.9 there is one point for every q, and with gamma = 12, a = 1, b = "
    ".6 there are two only for q between .3254 and .7598.)",
    control="gamma = 12 and qualities inside the window",
)
def conditional(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    n = 9 if scale == "smoke" else 25
    weak = [DelegationModel(1, 0.6, 1, q, "logistic", 3.9) for q in np.linspace(0.05, 0.95, n)]
    outside = [DelegationModel(1, 0.6, 1, q, "logistic", 12) for q in (0.1, 0.2, 0.32, 0.765, 0.85, 0.95)]
    if broken:
        weak, outside = (
            [],
            [DelegationModel(1, 0.6, 1, q, "logistic", 12) for q in np.linspace(0.35, 0.74, n)],
        )
    worlds = [*weak, *outside]
    counts = [sum(e.kind == "stable node" for e in _rest(model)) for model in worlds]
    one = sum(count == 1 for count in counts)
    return Evidence(
        one == len(worlds),
        float(one),
        float(len(worlds)),
        0.0,
        "count of points found by Newton's method from 100 starts",
        len(worlds),
        {"worlds with two attracting points": sum(count == 2 for count in counts)},
        quantity="worlds with a single attracting point",
    )


@claim(
    "SD-8b",
    kind="theorem",
    source=SOURCE,
    statement="Points of rest of law B lie on q(s) = s + log(a(1-s) / (bs)) / gamma, whose folds are at "
    "s(1-s) = 1/gamma: two points attract iff gamma > 4 and q lies between the folds' values, whatever the "
    "speed k.",
    control="gamma = 3.9 in worlds that are otherwise the same",
)
def folds(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worst, right, cases = 0.0, 0, 0
    for model in draw_models(4 if scale == "smoke" else 10, rng, "logistic"):
        window = model.bistable_window()
        assert window is not None
        if broken:
            model = perturbed(model, gain=3.9 / (model.gain or 1.0))
        width = window[1] - window[0]
        for place, count in ((0.5, 3), (0.02, 3), (0.98, 3), (-0.02, 1), (1.02, 1)):
            moved = perturbed(model, quality=window[0] + place * width - model.quality)
            found, closed = _rest(moved, 225), moved.equilibria()
            cases += 1
            right += len(found) == len(closed) == count
            if len(found) == len(closed):
                apart = [np.abs(e.point - c.point).max() for e, c in zip(found, closed, strict=True)]
                worst = max(worst, float(max(apart)))
                kinds = [[e.kind for e in perturbed(moved, speed=k).equilibria()] for k in (0.01, 1.0, 100.0)]
                right -= not kinds[0] == kinds[1] == kinds[2] == [e.kind for e in found]
    known = DelegationModel(1, 0.6, 1, 0.5, "logistic", 12).bistable_window() or (0.0, 0.0)
    off = max(abs(known[0] - 0.3253564840), abs(known[1] - 0.7597811200))
    return Evidence(
        right == cases and worst <= 1e-9 and off <= 1e-10,
        worst,
        0.0,
        1e-9,
        "rounding over the smallest eigenvalue, 1e-3 near a fold",
        cases,
        {"cases with as many points as stated": right, "error of a window known to 10 digits": off},
        quantity="largest distance of Newton's points from the closed form",
    )
