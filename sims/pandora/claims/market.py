"""Claims on a specialist that bids: PB-19 to PB-22, the last sentence of the abstract among them."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.pandora.claims._oracles import QUADRATURE, ROUNDING, market_changes, mean_best
from porism.sims.pandora.simulators import market
from porism.theory.pandora import (
    bidder_decision,
    bidder_statics,
    inspection_halfwidth,
    psi,
    small_signal_change,
    wedge_threshold,
)

__all__ = ["aligned", "everyone", "own_gain", "shrunk_price", "small_law", "wedge"]

Floats = NDArray[np.float64]

HARM: dict[str, Any] = {"m": 0.0, "nu": 0.5, "c": 0.02, "mu": 1.2, "s_other": 0.3, "omega": 0.5}
"""A competitor that is better by 1.2 and known with noise 0.5."""


def _drawn(rng: np.random.Generator) -> dict[str, Any]:
    m, mu = rng.normal(size=2)
    nu, s_other = rng.uniform(0.05, 1, 2)
    omega, share = rng.uniform(0, 1.5), rng.uniform(0.01, 0.35)
    return {"m": m, "nu": nu, "c": share * nu, "mu": mu, "s_other": s_other, "omega": omega}


@claim(
    "PB-19",
    kind="theorem",
    source="our reconstruction",
    statement="A specialist that is offered a query at a price p gains nu psi(|m-p|/nu) - c by refining "
    "first, refines iff that is positive, and no rule of acceptance beats taking the query iff its mean is "
    "at least p.",
    control="a price that moves with half of what the specialist finds out",
)
def own_gain(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, wrong, better = (60 if scale == "smoke" else 2000), 0.0, 0, -math.inf
    for _ in range(trials):
        m, nu, p = rng.normal(), rng.uniform(0.1, 1), rng.normal()
        c = nu * rng.uniform(0.0, 0.45)
        part = 0.5 if broken else 0.0

        def taken(x: Floats, t: float, m: float = m, p: float = p, part: float = part) -> Floats:
            price = p + part * (x - m)
            return np.where(x >= t, x - price, 0.0)

        turn = (p - part * m) / (1 - part)  # where the value equals the price
        refined = mean_best(lambda x, t=turn: taken(x, t), m, nu, [turn])  # type: ignore[misc]
        gain = refined - c - max(m - p, 0.0)
        bid = bidder_decision(m, nu, c, p)
        worst = max(worst, abs(float(bid.gain) - max(gain, 0.0)))
        wrong += bool(bid.refine != (gain > 0) and abs(gain) > QUADRATURE)
        for t in turn + rng.normal(size=3):
            other = mean_best(lambda x, t=float(t): taken(x, t), m, nu, [t])  # type: ignore[misc]
            better = max(better, other - refined)
    return Evidence(
        worst <= QUADRATURE and wrong == 0 and better <= QUADRATURE,
        worst,
        0.0,
        QUADRATURE,
        ROUNDING,
        trials,
        {"decisions wrong": wrong, "largest gain of another rule of acceptance": better},
        quantity="largest error of the gain against its definition",
    )


@claim(
    "PB-20",
    kind="theorem",
    source="our reconstruction",
    statement="If the price is the competitor's mean given all that is known of it, the change of welfare "
    "net of costs equals the change of the specialist's utility, and is not negative.",
    control="a price with noise of its own",
)
def aligned(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worst, least, off, active = 0.0, math.inf, 0.0, 0
    trials = 60 if scale == "smoke" else 1000
    for _ in range(trials):
        case = _drawn(rng)
        case["omega"] = max(case["omega"], 0.2) if broken else 0.0
        found = bidder_statics(**case)
        direct = market_changes(**case)
        off = max(off, *(abs(found[key] - direct[key]) for key in direct))
        worst = max(worst, abs(direct["dU"] - direct["dW"]))
        least = min(least, direct["dW"])
        active += direct["refine_rate"] > 1e-3
    return Evidence(
        worst <= QUADRATURE and off <= 1e-11 and least >= -QUADRATURE,
        worst,
        0.0,
        QUADRATURE,
        ROUNDING,
        trials,
        {"smallest change of welfare": least, "error of bidder_statics": off, "cases that refine": active},
        quantity="largest |dU - dW|",
    )


@claim(
    "PB-21",
    kind="theorem",
    source="our reconstruction",
    statement="Where the price is the competitor's value plus noise, refining at price p changes the gross "
    "value by nu psi(|m-p|/nu) + sign(p-m) (p-e(p)) Phibar(|m-p|/nu), e(p) the competitor's mean given p.",
    control="the second term, the wedge, left out",
)
def wedge(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    from scipy.special import ndtr

    trials, worst, off = (80 if scale == "smoke" else 2000), 0.0, 0.0
    for _ in range(trials):
        case = _drawn(rng)
        m, nu, mu = case["m"], case["nu"], case["mu"]
        rho = case["s_other"] ** 2 / (case["s_other"] ** 2 + case["omega"] ** 2)
        p = m + nu * rng.normal()
        e = mu + rho * (p - mu)

        def allocated(x: Floats, p: float = p, e: float = e) -> Floats:
            return np.where(x >= p, x, e)

        after = mean_best(allocated, m, nu, [p])
        change = after - (m if m >= p else e)
        z = abs(m - p) / nu
        formula = nu * float(psi(z))
        formula += 0.0 if broken else math.copysign(1.0, p - m) * (p - e) * float(ndtr(-z))
        worst = max(worst, abs(change - formula))
        found, direct = bidder_statics(**case), market_changes(**case)
        off = max(off, *(abs(found[key] - direct[key]) for key in direct))
    return Evidence(
        worst <= QUADRATURE and off <= 1e-11,
        worst,
        0.0,
        QUADRATURE,
        ROUNDING,
        trials,
        {"error of bidder_statics, averaged over prices": off},
        quantity="largest error of the change at a price",
    )


@claim(
    "PB-22",
    kind="refuted",
    source="last sentence of the abstract; our reconstruction",
    statement="A specialist that refines in its own interest raises the value of the allocation. (True in a "
    "regime: where competitors are known exactly, or not far from it in the mean. False in general: a noisy "
    "price that is too low on the mean of those it wins hands it queries that others do better.)",
    control="competing estimates without noise",
)
def everyone(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    n = 200_000 if scale == "smoke" else 1_000_000
    case = HARM | {"omega": 0.0} if broken else HARM
    direct, found = market_changes(**case), bidder_statics(**case)
    off = max(abs(found[key] - direct[key]) for key in direct)
    seed = int(rng.integers(2**31))
    world = market(n, 1, case["omega"], mu=case["mu"], s=case["nu"], c=case["c"], seed=seed)
    seen = world.change("raw")
    crowd = market(n, 5, 0.0 if broken else 0.6, m=1.5, mu=0.0, s=0.5, c=0.02, seed=seed).change("raw")
    grid = np.linspace(0, 1.5, 31)
    harmed = bidder_statics(0.0, 0.5, 0.02, 2 * grid[:, None], 0.3, grid[None])["dA"] < -1e-15
    score = abs(seen.dA - direct["dA"]) / seen.dA_se
    harm = direct["dA"] < -1e-4 and direct["dU"] > 1e-4
    return Evidence(
        harm and off <= 1e-11 and score < 4.9 and crowd.dA < -4.9 * crowd.dA_se < crowd.dU,
        direct["dA"],
        "< 0",
        1e-11,
        "quadrature of an independent definition; simulation within the normal quantile at error rate 1e-6",
        n,
        {
            "change of its utility": direct["dU"],
            "change of the allocation net of costs": direct["dW"],
            "simulated change of the allocation": seen.dA,
            "its standard error": seen.dA_se,
            "five competitors: utility": crowd.dU,
            "five competitors: allocation": crowd.dA,
            "share of the map of distance to 3, noise to 1.5, where the allocation loses": float(
                harmed.mean()
            ),
        },
        quantity="change of the allocation's gross value, while the specialist gains",
    )


@claim(
    "PB-22b",
    kind="theorem",
    source="our reconstruction",
    statement="The regime, for small and cheap refinements: the allocation's gross value changes by (nu^2/2) "
    "f(m) (1 + (1-rho)(1 - (m-mu)^2/S^2)), f the density N(mu, S^2) of the price, S^2 = s_j^2 + omega^2, "
    "hence falls iff |m-mu| > S sqrt(1 + S^2/omega^2), for some omega iff |m-mu| > (1 + sqrt 2) s_j.",
    control="the wedge left out of the law",
)
def small_law(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, wrong, tolerance = (60 if scale == "smoke" else 800), 0.0, 0, 10 * 0.02**4
    for _ in range(trials):
        s_other, omega = rng.uniform(0.1, 1, 2)
        S = math.hypot(s_other, omega)
        edge = float(wedge_threshold(s_other, omega))
        distance = edge * rng.uniform(0.2, 1.6)
        side = float(rng.choice([-1.0, 1.0]))
        parts = []
        for size in (0.02, 0.01):
            nu = size * S / (1 + distance / S)
            change = bidder_statics(side * distance, nu, 1e-12 * nu, 0.0, s_other, omega)["dA"]
            unit = nu**2 / 2 * math.exp(-((distance / S) ** 2) / 2) / (S * math.sqrt(2 * math.pi))
            law = unit if broken else float(small_signal_change(side * distance, nu, 0.0, s_other, omega))
            parts.append((change - law) / unit)
            last = change
        worst = max(worst, abs(4 * parts[1] - parts[0]) / 3)  # the next order, nu^2, taken out
        if abs(distance / edge - 1) > 0.02:
            wrong += bool((last < 0) != (distance > edge))
    s_other = float(rng.uniform(0.1, 1))
    least = float(np.min(wedge_threshold(s_other, s_other * np.linspace(0.3, 3, 5401)))) / s_other
    return Evidence(
        worst <= tolerance and wrong == 0 and abs(least - 1 - math.sqrt(2)) < 1e-6,
        worst,
        0.0,
        tolerance,
        "the order after next, (nu (1 + |m-mu|/S)/S)^4, times a constant: 1/12 for the gain, below 10 with "
        "the wedge, whose weight (1-rho) ((m-mu)/S)^2 is at most 5",
        trials,
        {
            "signs wrong": wrong,
            "least threshold over s_j": least,
            "crossing at s_j=.3, omega=.5, by the law": float(wedge_threshold(0.3, 0.5)),
            "and at nu=.5, c=.02": _crossing(0.5, 0.02),
        },
        quantity="largest distance from the law, in units of the value without wedge, after extrapolation",
    )


def _crossing(nu: float, c: float) -> float:
    """Distance of the means at which the allocation's change turns negative, at s_j = .3 and omega = .5."""
    from scipy.optimize import brentq

    return float(brentq(lambda d: bidder_statics(0.0, nu, c, d, 0.3, 0.5)["dA"], 0.5, 1.6))


@claim(
    "PB-22c",
    kind="theorem",
    source="our reconstruction",
    statement="The remedy: posting the competitor's conditional mean e(p) in place of its noisy estimate p "
    "makes the change of welfare net of costs equal to the change of the specialist's utility, not "
    "negative, for every noise.",
    control="the noisy estimate posted as it is",
)
def shrunk_price(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, least, off = (80 if scale == "smoke" else 600), 0.0, math.inf, 0.0
    price, counts = "raw" if broken else "shrunk", np.zeros(3, int)
    for _ in range(trials):
        case = _drawn(rng)
        direct, found = market_changes(**case, price=price), bidder_statics(**case, price=price)
        off = max(off, *(abs(found[key] - direct[key]) for key in direct))
        worst = max(worst, abs(direct["dU"] - direct["dW"]))
        least = min(least, direct["dW"])
        raw = bidder_statics(**case)
        counts += [raw[key] < -1e-12 for key in ("dU", "dA", "dW")]
    world = market(100_000, 5, 0.6, m=1.0, mu=0.0, s=0.5, c=0.02, seed=int(rng.integers(2**31)))
    several = world.change("shrunk")
    return Evidence(
        worst <= QUADRATURE and off <= 1e-11 and least >= -QUADRATURE,
        worst,
        0.0,
        QUADRATURE,
        ROUNDING,
        trials,
        {
            "smallest change of welfare": least,
            "error of bidder_statics": off,
            "raw price: utility falls": int(counts[0]),
            "raw price: allocation falls": int(counts[1]),
            "raw price: welfare net of costs falls": int(counts[2]),
            "five competitors, simulated: dU - dW": several.dU - several.dW,
            "half-width of the band at nu=.5, c=.02": float(inspection_halfwidth(0.5, 0.02)),
        },
        quantity="largest |dU - dW|",
    )
