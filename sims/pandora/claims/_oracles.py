"""Independent oracles for the claims: quadrature from definitions, a plain recursion, full histories."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "QUADRATURE",
    "ROUNDING",
    "density",
    "drawn",
    "excess",
    "grid_error",
    "history_value",
    "integral",
    "market_changes",
    "mean_best",
    "one_step",
    "recursion",
    "set_value",
    "two_closed",
    "uniform",
    "voi_direct",
]

Floats = NDArray[np.float64]
Rule = Callable[[tuple[int, ...], Floats], NDArray[np.int64]]

QUADRATURE = 1e-12
"""Gauss-Legendre with 24 nodes on panels of one standard deviation: below 1e-15 relative, times the sums."""

ROUNDING = "quadrature and rounding, a few hundred sums of numbers of size 1"

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
CELLS = 4000
REACH = 9.0  # psi(9) = 1e-20
ROOT_2PI = math.sqrt(2 * math.pi)


def density(z: Any) -> Any:
    """Standard normal density."""
    return np.exp(-0.5 * np.square(z)) / ROOT_2PI


def integral(
    f: Callable[[Floats], Floats], low: float, high: float, kinks: Any = (), step: float = 1.0
) -> float:
    """Integral of f, smooth between the kinks, over panels no wider than `step`."""
    inner = [k for k in np.ravel(kinks) if low < k < high]
    knots = [low, *sorted(inner), high]
    total = 0.0
    for a, b in pairwise(knots):
        count = max(math.ceil((b - a) / step), 1)
        half = (b - a) / (2 * count)
        x = a + half * (2 * np.arange(count)[:, None] + 1 + NODES)
        total += half * float((WEIGHTS * f(x)).sum())
    return total


def mean_best(f: Callable[[Floats], Floats], m: float, nu: float, kinks: Any = ()) -> float:
    """E f(M) for M ~ N(m, nu^2), f smooth between the kinks."""
    if nu == 0:
        return float(f(np.array([m]))[0])
    places = (np.ravel(kinks) - m) / nu
    return integral(lambda z: f(m + nu * z) * density(z), -REACH, REACH, places)


def excess(z: float) -> float:
    """E(Z - z)^+ over phi(z) for z >= 0 by an integral of positive terms, hence to rounding."""
    scale = 1 / (1 + z)  # t exp(-z t - t^2/2) has died out after some 40 of these, or 10
    end = min(45 * scale, 11.0)
    return integral(lambda t: t * np.exp(-z * t - 0.5 * t * t), 0.0, end, step=min(scale, 0.5))


def voi_direct(m: Sequence[float] | Floats, i: int, nu: float, outside: float = -math.inf) -> float:
    """E max(all means, i refined) less the best mean now, straight from the definition."""
    m = np.asarray(m, float)
    other = max(float(np.delete(m, i).max(initial=-math.inf)), outside)
    return mean_best(lambda x: np.maximum(x, other), float(m[i]), nu, [other]) - max(other, float(m[i]))


def drawn(K: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """One instance of the table of policy gaps: means, standard deviations, costs, in the order of PB-9."""
    m = rng.normal(size=K) * rng.choice([0.2, 0.5, 1])
    nu = rng.uniform(0.2, 1.2, K)
    return m, nu, nu * rng.uniform(0.005, 0.39, K) * rng.choice([0.1, 0.4, 1])


def recursion(
    m: Floats,
    nu: Floats,
    c: Floats,
    outside: float | None = None,
    *,
    unrefined: bool = True,
    rule: Rule | None = None,
    cells: int = CELLS,
) -> tuple[float, float]:
    """Value and expected cost by backward recursion over sets on a uniform grid of best refined means.

    Without `rule` every state takes its best action; `unrefined` says whether a specialist may be used as it
    is. With a rule, its action: -1 stops. Expectations of the piecewise linear values are exact.
    """
    from scipy.special import ndtr

    K = len(m)
    x = uniform(m, nu, outside, cells)
    z = (x - m[:, None]) / nu[:, None]
    over = nu[:, None] * (density(z) - z * ndtr(-z))  # E(M - x)^+; its slope over a cell is the mean tail
    tail = -np.diff(over, axis=1) / np.diff(x)
    rows = np.arange(len(x))
    values: dict[tuple[int, ...], Floats] = {}
    for bits in sorted(product((0, 1), repeat=K), key=sum):
        U = tuple(i for i in range(K) if bits[i])
        stop = np.maximum(x, max((m[i] for i in U), default=-math.inf)) if unrefined else x
        options = [np.array([stop, np.zeros_like(x)])]
        for i in U:
            after = values[tuple(j for j in U if j != i)]
            ahead = np.cumsum((np.diff(after) * tail[i])[:, ::-1], axis=1)[:, ::-1]
            after = after + np.pad(ahead, ((0, 0), (0, 1)))
            options.append(after + np.array([[-c[i]], [c[i]]]))
        every = np.array(options)
        if rule is None:
            best = every[:, 0].argmax(axis=0)
        else:
            best = np.array([*(U.index(i) + 1 if i in U else 0 for i in range(K)), 0])[rule(U, x)]
        values[U] = every[best, :, rows].T
    at = 0 if outside is None else int(np.searchsorted(x, outside))
    value, cost = values[tuple(range(K))][:, at]
    return float(value), float(cost)


def uniform(m: Floats, nu: Floats, outside: float | None = None, cells: int = CELLS) -> Floats:
    """Nodes of `recursion`: equally far apart, and the outside option."""
    low, high = float((m - REACH * nu).min()), float((m + REACH * nu).max())
    ends = (low, high) if outside is None else (min(low, outside), max(high, outside))
    return np.unique(np.append(np.linspace(*ends, cells + 1), ends[0] if outside is None else outside))


def grid_error(m: Floats, nu: Floats, x: Floats) -> float:
    """Bound on the error of an optimum on the nodes x.

    The chord of a convex value of slopes in [0, 1] encloses an area of at most h^2/8 over all cells; times
    the density there, once for each specialist.
    """
    nearest = np.clip(m[:, None], x[:-1], x[1:])
    worst = np.diff(x) ** 2 / 8 * density((nearest - m[:, None]) / nu[:, None]) / nu[:, None]
    return float(worst.max(axis=1).sum()) + 1e-12


def one_step(m: Floats, nu: Floats, c: Floats) -> Rule:
    """The one-step rule for `recursion`, with sds and costs as it believes them."""
    from scipy.special import ndtr

    def rule(U: tuple[int, ...], x: Floats) -> NDArray[np.int64]:
        if not U:
            return np.full(len(x), -1)
        net = []
        for i in U:
            other = np.maximum(x, max((m[j] for j in U if j != i), default=-math.inf))
            z = np.abs(m[i] - other) / nu[i]
            net.append(nu[i] * (density(z) - z * ndtr(-z)) - c[i])
        gains = np.array(net)
        return np.where(gains.max(axis=0) > 0, np.array(U)[gains.argmax(axis=0)], -1)

    return rule


def two_closed(m: Floats, nu: Floats, c: Floats, outside: float = -math.inf) -> float:
    """Optimum for one or two specialists with optional inspection: stop, or refine one by one quadrature."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    def net(d: Any, j: int) -> Any:
        z = np.abs(d) / nu[j]
        return nu[j] * (density(z) - z * ndtr(-z)) - c[j]

    best = max(float(m.max()), outside)
    for i in range(len(m)):
        j = 1 - i if len(m) == 2 else None
        kinks = [outside]
        if j is not None:
            edge = float(brentq(net, 0.0, 40 * nu[j], (j,), xtol=1e-15)) if net(0.0, j) > 0 else 0.0
            kinks += [m[j] - edge, m[j], m[j] + edge]

        def after(x: Floats, j: int | None = j) -> Floats:
            b = np.maximum(x, outside)
            if j is None:
                return b
            kept: Floats = np.maximum(b, m[j]) + np.maximum(net(m[j] - b, j), 0.0)
            return kept

        best = max(best, mean_best(after, float(m[i]), float(nu[i]), kinks) - float(c[i]))
    return best


def history_value(m: Floats, c: Floats, atoms: Floats, weights: Floats) -> float:
    """Optimum where what was seen is remembered in full.

    ``atoms[i]`` are the values the refined mean of i may take, ``weights`` their joint law, one axis a
    specialist; a specialist not refined is worth its mean given all that was seen.
    """
    K = len(m)

    def value(law: Floats, seen: dict[int, float]) -> float:
        total = law.sum()
        usable = list(seen.values())
        for i in range(K):
            if i not in seen:
                own = law.sum(axis=tuple(k for k in range(K) if k != i))
                usable.append(float(own @ atoms[i]) / total)
        best = max(usable)
        for i in range(K):
            if i in seen:
                continue
            gain = -c[i]
            for a, point in enumerate(atoms[i]):
                part = np.zeros_like(law)
                at = (slice(None),) * i + (a,)
                part[at] = law[at]
                if part.sum() > 0:
                    gain += part.sum() / total * value(part, {**seen, i: float(point)})
            best = max(best, gain)
        return best

    return value(weights, {})


def set_value(m: Floats, c: Floats, atoms: Floats, marginals: Floats) -> float:
    """Optimum of the recursion in (set not refined, best refined mean), for the marginal laws alone."""

    def value(U: tuple[int, ...], b: float) -> float:
        best = max([b, *(m[i] for i in U)])
        for i in U:
            rest = tuple(j for j in U if j != i)
            chances = zip(marginals[i], atoms[i], strict=True)
            best = max(best, -c[i] + sum(w * value(rest, max(b, float(x))) for w, x in chances if w > 0))
        return float(best)

    return value(tuple(range(len(m))), -math.inf)


def market_changes(
    m: float, nu: float, c: float, mu: float, s_other: float, omega: float, price: str = "raw"
) -> dict[str, float]:
    """dU, dA, dW and the share refined, by integrating what is allocated over estimates and refined means.

    No formula of the gain enters: for every estimate of the competitor the specialist compares taking the
    query with leaving it, with and without the better estimate.
    """
    from scipy.special import ndtr

    spread = math.hypot(s_other, omega)
    rho = (s_other / spread) ** 2
    slope = rho if price == "shrunk" else 1.0

    def parts(estimate: Floats) -> tuple[Floats, Floats]:
        """Change of utility before the cost, and of the gross value, if refined at these estimates."""
        paid, worth = mu + slope * (estimate - mu), mu + rho * (estimate - mu)
        z = (paid - m) / nu
        taken, held = ndtr(-z), m * ndtr(-z) + nu * density(z)  # P(M >= p), E M 1{M >= p}
        now = m >= paid
        utility = held - paid * taken - np.where(now, m - paid, 0.0)
        gross = held + worth * (1 - taken) - np.where(now, m, worth)
        return utility, gross

    def surplus(y: float) -> float:
        return float(parts(np.array([mu + (m + y - mu) / slope]))[0][0]) - c

    from scipy.optimize import brentq

    if surplus(0.0) <= 0:
        return {"dU": 0.0, "dA": 0.0, "dW": 0.0, "refine_rate": 0.0}
    edge = float(brentq(surplus, 0.0, 40 * nu, xtol=1e-15, rtol=1e-15))
    ends = sorted(mu + (m + side * edge - mu) / slope for side in (-1, 1))
    low, high = max(ends[0], mu - 10 * spread), min(ends[1], mu + 10 * spread)
    if high <= low:
        return {"dU": 0.0, "dA": 0.0, "dW": 0.0, "refine_rate": 0.0}
    middle = [mu + (m - mu) / slope]
    step = min(nu / slope, spread)

    def mean(f: Callable[[Floats], Floats]) -> float:
        return integral(lambda p: f(p) * density((p - mu) / spread) / spread, low, high, middle, step)

    share = mean(np.ones_like)
    dU, dA = mean(lambda p: parts(p)[0]) - c * share, mean(lambda p: parts(p)[1])
    return {"dU": dU, "dA": dA, "dW": dA - c * share, "refine_rate": share}
