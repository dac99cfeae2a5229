"""Claims on the area of the basin of low skill: SD-5 to SD-7, SD-10, SD-11."""

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.dynamics.claims._oracles import AREAS, LOGISTIC_AREAS, RUN, SOURCE, TRACED, perturbed
from porism.sims.dynamics.worlds import asymmetric_ends, count_low, draw_models
from porism.theory.dynamics import DelegationModel

__all__ = ["asymmetry", "comparison", "harm", "speed", "symmetry"]

SPEEDS = {0.001: 0.5834, 0.1: 0.5890, 1.0: 0.6273, 10.0: 0.7226, 100.0: 0.7155, 1000.0: 0.7048}
"""Areas at quality .7, a = 1, b = .6, by speed: four digits."""


@claim(
    "SD-5",
    kind="theorem",
    source=SOURCE,
    statement="Under both laws the basin of low skill grows with the quality of the AI and with the rate of "
    "forgetting, and shrinks with the rate of learning.",
    control="trust that falls with quality: delegation follows 1 - q - s",
)
def comparison(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    def area(model: DelegationModel) -> float:
        if broken:
            model = perturbed(model, quality=1 - 2 * model.quality)
        return model.low_skill_area()

    off = max(abs(area(DelegationModel(1, 0.6, 1, q)) - known) for q, known in AREAS.items())
    coarse = max(
        abs(area(DelegationModel(1, 0.6, 1, q, "logistic", 12)) - known)
        for q, known in LOGISTIC_AREAS.items()
    )
    gains, count = [], 3 if scale == "smoke" else 8
    for law in ("replicator", "logistic"):
        for model in draw_models(count, rng, law):
            here = area(model)
            gains.append(area(perturbed(model, quality=0.02)) - here)
            gains.append(area(perturbed(model, forget=1.1)) - here)
            gains.append(here - area(perturbed(model, learn=1.1)))
    return Evidence(
        min(gains) > TRACED and off <= 1e-8 and coarse <= 6e-4,
        min(gains),
        "> 0",
        TRACED,
        RUN,
        len(gains),
        {
            "error of six areas known to 8 digits": off,
            "error of five of law B known to 3": coarse,
            "area at q = .6, .7, .8": " ".join(
                f"{area(DelegationModel(1, 0.6, 1, q)):.2f}" for q in (0.6, 0.7, 0.8)
            ),
        },
        quantity="smallest change of the area in the direction stated",
    )


@claim(
    "SD-6",
    kind="refuted",
    source=SOURCE,
    statement="The faster trust adapts, the larger the basin of low skill. (False at q = .7, a = 1, b = .6: "
    "it grows from .583 at k = .001 to .723 at k = 10 and then falls to .705 at k = 1000. The limits are bq "
    "/ (a(1-q) + bq) and q.)",
    control="quality .6, where the same sweep rises all the way",
)
def speed(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    q, n, steps = 0.6 if broken else 0.7, *((400, 1500) if scale == "smoke" else (10_000, 1500))
    area = np.array([DelegationModel(1, 0.6, k, q).low_skill_area() for k in SPEEDS])
    slow, fast = (DelegationModel(1, 0.6, k, q).low_skill_area() for k in (1e-7, 1e7))
    limits = max(abs(slow - 0.6 * q / (1 - q + 0.6 * q)), abs(fast - q))
    low, total = count_low(DelegationModel(1, 0.6, 10.0, q), rng.uniform(size=(2, n)), 30.0, steps)
    share, error = low / total, np.sqrt(area[3] * (1 - area[3]) / total)
    known = float(np.abs(area - list(SPEEDS.values())).max())
    falls = -np.diff(area)
    return Evidence(
        bool(
            falls.max() > 1e-3
            and area[0] < area[3]
            and limits <= 1e-4
            and abs(share - area[3]) <= 4.5 * error
        )
        and known <= 6e-5,
        float(falls.max()),
        "> 0.001",
        TRACED,
        RUN,
        len(SPEEDS),
        {
            **{f"area at k = {k:g}": value for k, value in zip(SPEEDS, area.tolist(), strict=True)},
            "distance from the limits at k = 1e-7 and 1e7": float(limits),
            "share of random starts lost at k = 10": f"{share:.4f} +- {error:.4f}",
        },
        quantity="largest fall of the area as k grows",
    )


@claim(
    "SD-7",
    kind="theorem",
    source=SOURCE,
    statement="Law A seen from the other corner, (s, d) to (1-s, 1-d), exchanges learning with forgetting "
    "and q with 1-q: area(a, b, k, q) = 1 - area(b, a, k, 1-q). Only ratios of rates matter, and for a = b "
    "and q = 1/2 the area is exactly 1/2.",
    control="a and b exchanged, q left as it is",
)
def symmetry(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worst, models = 0.0, draw_models(6 if scale == "smoke" else 15, rng)
    for model in models:
        a, b, k, q = model.learn, model.forget, model.speed, model.quality
        here = model.low_skill_area()
        other = DelegationModel(b, a, k, q if broken else 1 - q).low_skill_area()
        factor = 10.0 ** rng.uniform(-3, 3)
        scaled = perturbed(model, learn=factor, forget=factor, speed=factor).low_skill_area()
        half = DelegationModel(a, a, k, 0.5).low_skill_area()
        worst = max(worst, abs(here + other - 1), abs(scaled - here), abs(half - 0.5))
    return Evidence(
        worst <= TRACED, worst, 0.0, TRACED, RUN, 3 * len(models), quantity="largest error of an identity"
    )


@claim(
    "SD-10",
    kind="empirical",
    source="our observation: a porism of SD-5",
    statement="A better AI traps more people but costs each of them less, 1 - q: the loss area * (1 - q) is "
    "largest for an AI of intermediate quality, .6032 at a = 1, b = .6, k = 1, where it is .19923.",
    control="the area alone, which only grows",
)
def harm(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    from scipy.optimize import minimize_scalar

    def loss(q: float, rates: tuple[float, float, float]) -> float:
        return DelegationModel(*rates, q).low_skill_area() * (1.0 if broken else 1 - q)

    def peak(rates: tuple[float, float, float]) -> tuple[float, float]:
        found = minimize_scalar(
            lambda q: -loss(q, rates), bounds=(0.02, 0.98), method="bounded", options={"xatol": 1e-5}
        )
        return float(found.x), -float(found.fun)

    where, value = peak((1.0, 0.6, 1.0))
    others = [] if scale == "smoke" else [peak((m.learn, m.forget, m.speed))[0] for m in draw_models(5, rng)]
    inside = all(0.1 < q < 0.9 for q in [where, *others])
    return Evidence(
        inside and abs(where - 0.6032) <= 2e-4 and abs(value - 0.19923) <= 1e-5,
        where,
        0.6032,
        2e-4,
        "the digits known; a flat maximum, found to 1e-5 in q",
        1 + len(others),
        {"loss at the peak": value}
        | ({"peaks in other worlds": f"{min(others):.2f} to {max(others):.2f}"} if others else {}),
        quantity="quality at which the loss peaks",
    )


@claim(
    "SD-11",
    kind="empirical",
    source="our observation",
    statement="Trust that rises faster than it falls, or the other way round, leaves points of rest and "
    "their attraction as they are, but moves the border: at q = .6 rising three times as fast costs more "
    "people their skill, falling three times as fast fewer.",
    control="quality 1.1, where everyone ends in one place",
)
def asymmetry(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    q, n, steps = 1.1 if broken else 0.6, *((300, 1000) if scale == "smoke" else (3000, 1200))
    model, starts = DelegationModel(1, 0.6, 1, q), rng.uniform(size=(2, n))
    nodes, worst, share = np.array([[0.0, 1.0], [1.0, 0.0]]), 0.0, {}
    for name, speeds in {"1:3": (1.0, 3.0), "1:1": (1.0, 1.0), "3:1": (3.0, 1.0)}.items():
        ends = asymmetric_ends(model, *speeds, starts, 120.0, steps)
        distance = np.abs(ends.T[:, None] - nodes).max(axis=2)
        worst = max(worst, float(distance.min(axis=1).max()))
        share[name] = float((distance.argmin(axis=1) == 0).mean())
    exact = dict.fromkeys(share, float("nan"))
    if not broken:  # the border left of the saddle depends on the upward speed only, right of it on the other
        for name in share:
            up, down = (DelegationModel(1, 0.6, float(k), q).separatrix() for k in name.split(":"))
            exact[name] = _joined(up, down, q)
    error = max((abs(share[name] - exact[name]) for name in share), default=0.0)
    allowed = 4.5 * np.sqrt(0.25 / n)
    both = 0 < share["1:1"] < 1
    return Evidence(
        bool(both and worst <= 1e-3 and share["1:3"] < share["1:1"] < share["3:1"] and error <= allowed),
        share["3:1"] - share["1:3"],
        "> 0",
        0.0,
        "the same starts in all three runs; order of counts",
        3 * n,
        {f"share lost, {name}": value for name, value in share.items()}
        | {f"area, {name}": value for name, value in exact.items()}
        | {"largest distance from a node at the end": worst},
        quantity="share lost at 3:1 less that at 1:3",
    )


def _joined(up: object, down: object, q: float) -> float:
    """Area above one border left of q and above the other one right of it, by Gauss's rule."""
    x, weight = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for border, low, high in ((up, 0.0, q), (down, q, 1.0)):
        s = low + (high - low) * (x + 1) / 2
        total += (high - low) / 2 * float(weight @ (1 - border(s)))  # type: ignore[operator]
    return total
