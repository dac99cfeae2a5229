"""Claims on estimates and on one refinement: PB-1 to PB-4."""

import math

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.pandora.claims._oracles import (
    QUADRATURE,
    ROOT_2PI,
    ROUNDING,
    density,
    drawn,
    excess,
    integral,
    mean_best,
    voi_direct,
)
from porism.sims.pandora.simulators import binary_irt, gaussian
from porism.theory.pandora import (
    inspection_halfwidth,
    log_psi,
    optimal_value,
    preposterior_sd,
    psi,
    reservation_index,
    voi_net,
)

__all__ = ["band", "calibrated_form", "conjugacy", "gain_function", "index"]

Floats = NDArray[np.float64]


@claim(
    "PB-1",
    kind="theorem",
    source="conjugate Gaussian model (classical); our reconstruction of the setting",
    statement="With value N(mu, s0^2) and independent noise of sd w and tau on the cheap and the expensive "
    "signal, s^2 = s0^2 w^2/(s0^2+w^2) is the variance after the cheap one, the refined mean is m + "
    "s^2/(s^2+tau^2) (y-m) with variance s^2 tau^2/(s^2+tau^2) left, and before y is seen it is N(m, nu^2), "
    "nu = s^2/sqrt(s^2+tau^2), where nu^2 = Var(q-m) = Cov(q-m, V-m).",
    control="noise of the two signals correlated, 0.5",
)
def conjugacy(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worst, trials = 0.0, 40 if scale == "smoke" else 4000
    for _ in range(trials):
        s0, w, tau = np.exp(rng.uniform(-2, 2, 3))
        C = np.full((3, 3), s0**2) + np.diag([0, w**2, tau**2])  # V, cheap, expensive
        C[1, 2] = C[2, 1] = C[1, 2] + (0.5 * w * tau if broken else 0.0)
        cheap = C[0, 1] / C[1, 1]
        both = np.linalg.solve(C[1:, 1:], C[1:, 0])
        left, end = C[0, 0] - cheap * C[1, 0], C[0, 0] - both @ C[1:, 0]
        s = math.sqrt(s0**2 * w**2 / (s0**2 + w**2))
        share = s**2 / (s**2 + tau**2)
        nu2 = float(preposterior_sd(s, tau)) ** 2
        move = both - [cheap, 0.0]  # q - m as a combination of the two signals
        pairs = [
            (cheap, s0**2 / (s0**2 + w**2)),
            (left, s**2),
            (both[1], share),
            (both[0], (1 - share) * cheap),
            (end, s**2 * tau**2 / (s**2 + tau**2)),
            (left - end, nu2),
            (move @ C[1:, 1:] @ move, nu2),
            (move @ C[1:, 0] - cheap * (move @ C[1:, 1]), nu2),
        ]
        # differences of variances are known to rounding of the variances they come from
        worst = max(worst, *(abs(a - b) / max(s0**2, 1.0) for a, b in pairs))
    return Evidence(
        worst <= 1e-11,
        worst,
        0.0,
        1e-11,
        "a 2 x 2 system of condition below 2e4, times rounding",
        trials,
        quantity="largest error against conditioning by linear algebra",
    )


@claim(
    "PB-1b",
    kind="statistical",
    source="our reconstruction",
    statement="Without any noise level: where the refined estimate q is calibrated, E(q-m)(V-m) = E(q-m)^2 = "
    "nu^2, for Gaussian values and for right and wrong answers.",
    control="q moved half as far again from m, which keeps its order and its correlation with V",
)
def calibrated_form(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    from scipy.stats import norm

    n, K = (20_000 if scale == "smoke" else 200_000), 3
    s, tau = rng.uniform(0.3, 1.0, K), rng.uniform(0.1, 1.0, K)
    scores: list[float] = []
    for world in (gaussian(n, K, s=s, tau=tau, seed=rng), binary_irt(n, K, tau=tau + 0.3, seed=rng)):
        r = (1.5 if broken else 1.0) * (world.refined - world.m)
        gap = world.scores - world.m
        for x in (r * gap - r**2, r * gap - world.nu**2, r**2 - world.nu**2):
            scores.extend(abs(x.mean(0)) / x.std(0, ddof=1) * math.sqrt(n))
    limit = float(norm.isf(1e-6 / 2 / len(scores)))
    return Evidence(
        max(scores) <= limit,
        float(max(scores)),
        0.0,
        limit,
        "normal quantile at error rate 1e-6 over all means",
        len(scores),
        {"queries": n},
        quantity="largest standardised mean",
    )


def _laplace(z: Floats) -> Floats:
    """Mean excess of a Laplace variable of variance 1."""
    a = math.sqrt(2.0)
    value: Floats = np.exp(-a * np.abs(z)) / (2 * a) + np.maximum(-z, 0.0)
    return value


@claim(
    "PB-2",
    kind="theorem",
    source="integration of the Gaussian tail (classical); log-concavity from Prekopa's theorem",
    statement="psi(z) = E(Z-z)^+ is convex, decreasing and log-concave, psi(-z) = z + psi(z), psi' = "
    "-Phibar, psi(z) <= phi(z)/(1+z^2) for z >= 0, and nu psi(d/nu) rises with nu at rate phi(d/nu) and "
    "falls with d at rate Phibar(d/nu).",
    control="Z with a Laplace law of variance 1",
)
def gain_function(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    from scipy.special import log_ndtr, ndtr

    f = _laplace if broken else psi
    trials = 40 if scale == "smoke" else 1000
    z = np.sort(rng.uniform(0, 36, trials))
    value = np.asarray(f(z))
    truth = np.array([excess(float(x)) for x in z]) * density(z)
    worst = float(np.abs(np.log(value / truth)).max())
    worst = max(worst, float(np.abs(np.asarray(f(-z)) - z - value).max()) / 36)
    for _ in range(trials):
        d, low = rng.uniform(0, 3), rng.uniform(0.2, 1)
        high, far = low + rng.uniform(0, 1), d + rng.uniform(0, 1)
        ends = np.array([high * f(np.array([d / high]))[0], low * f(np.array([d / low]))[0]])
        rise = integral(lambda v, d=d: density(d / v), low, high, step=0.1)  # type: ignore[misc]
        ahead = low * f(np.array([far / low]))[0]
        fall = integral(lambda y, v=low: ndtr(-y / v), d, far, step=low)  # type: ignore[misc]
        worst = max(worst, abs(ends[0] - ends[1] - rise), abs(ends[1] - ahead - fall))
    log_phi = -0.5 * z**2 - math.log(ROOT_2PI)
    log_value = np.log(value) if broken else np.asarray(log_psi(z))
    above = int((log_value > log_phi - np.log1p(z**2) + 1e-12).sum())
    bent = int((log_phi + log_value > 2 * log_ndtr(-z) + 1e-12).sum())  # (log psi)'' <= 0
    return Evidence(
        worst <= QUADRATURE and above == bent == 0,
        worst,
        0.0,
        QUADRATURE,
        ROUNDING,
        3 * trials,
        {"points above the bound": above, "points where log psi is not concave": bent},
        quantity="largest error, relative for psi",
    )


@claim(
    "PB-3",
    kind="theorem",
    source="Weitzman (1979), equation (7); convergence: our reconstruction",
    statement="sigma = m + nu psi^{-1}(c/nu) solves E(M-sigma)^+ = c for M ~ N(m, nu^2); sigma > m iff c < "
    "nu/sqrt(2 pi); sigma approaches m - c for dear refinements. Newton on log psi from sqrt(-2 log(kappa "
    "sqrt(2 pi))) comes down to the root, Newton on psi from -kappa goes up to it.",
    control="the sd s of the value in place of nu, as if the signal were exact",
)
def index(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    from scipy.special import log_ndtr, ndtr

    trials = 60 if scale == "smoke" else 2000
    m, s, tau = rng.normal(size=trials), rng.uniform(0.2, 1.5, trials), rng.uniform(0.2, 1.5, trials)
    nu = np.asarray(preposterior_sd(s, tau))
    kappa = 10 ** rng.uniform(-9, 1.5, trials)
    c = kappa * nu
    sigma = np.asarray(reservation_index(m, s if broken else nu, c))
    z = (sigma - m) / nu
    back = np.array([excess(abs(x)) * density(x) + max(-x, 0.0) for x in z.tolist()])
    worst = float(np.abs(back / kappa - 1).max())
    wrong = int(((sigma > m) != (kappa < 1 / ROOT_2PI)).sum())
    worst = max(worst, float(np.abs(np.asarray(reservation_index(m, nu, 60 * nu)) - (m - 60 * nu)).max()))
    root = np.asarray(inspection_halfwidth(nu, c)) / nu
    small = kappa <= 1 / ROOT_2PI
    level = np.log(kappa[small])
    down, up = np.sqrt(np.maximum(-2 * (level + math.log(ROOT_2PI)), 0.0)), -kappa[~small]
    backwards, slack = 0, 1e-12
    for _ in range(7):
        lower = down + (np.asarray(log_psi(down)) - level) * np.exp(log_psi(down) - log_ndtr(-down))
        upper = up + (np.asarray(psi(up)) - kappa[~small]) / ndtr(-up)
        backwards += int((lower > down + slack).sum() + (lower < root[small] - slack).sum())
        backwards += int((upper < up - slack).sum() + (upper > root[~small] + slack).sum())
        down, up = lower, upper
    off = max(
        float(np.abs(down - root[small]).max(initial=0)), float(np.abs(up - root[~small]).max(initial=0))
    )
    return Evidence(
        worst <= 1e-11 and wrong == backwards == 0 and off <= slack,
        worst,
        0.0,
        1e-11,
        "index known to 1e-14 of nu, times the slope of log psi, below 8, and the digits lost in sigma - m",
        trials,
        {"sides wrong": wrong, "Newton steps backwards": backwards, "left after 7 steps": off},
        quantity="largest relative error of E(M - sigma)^+ = c",
    )


@claim(
    "PB-4",
    kind="theorem",
    source="knowledge gradient of Frazier, Powell and Dayanik (2008); lower end of the band: Doval (2018); "
    "our reconstruction",
    statement="Refining i once and then stopping gains nu psi(|m_i - b|/nu) - c, b the best of the other "
    "alternatives, positive iff |m_i - b| < nu psi^{-1}(c/nu). With one specialist and an outside option "
    "this rule is optimal.",
    control="the best alternative taken over all specialists, i among them",
)
def band(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, wrong, alone = (20 if scale == "smoke" else 500), 0.0, 0, 0.0
    for number in range(trials):
        K = 2 + number % 3
        m, nu, c = drawn(K, rng)
        o = -math.inf if number % 2 else float(rng.normal())
        direct = np.array([voi_direct(m, i, nu[i], o) for i in range(K)])
        net = np.asarray(voi_net(m, nu, c, o))
        other = np.array([max(np.delete(m, i).max(), o) for i in range(K)])
        if broken:
            other = np.full(K, max(m.max(), o))
            net = nu * np.asarray(psi(np.abs(m - other) / nu)) - c
        inside = np.abs(m - other) < np.asarray(inspection_halfwidth(nu, c))
        worst = max(worst, float(np.abs(net - (direct - c)).max()))
        wrong += int(((inside != (direct > c)) & (np.abs(direct - c) > QUADRATURE)).sum())
        one = float(rng.normal())
        formula = max(m[0], one) + max(voi_direct(m[:1], 0, nu[0], one) - c[0], 0.0)
        by_hand = mean_best(lambda x, o=one: np.maximum(x, o), m[0], nu[0], [one])  # type: ignore[misc]
        formula = max(formula, by_hand - c[0])
        alone = max(alone, abs(optimal_value(m[:1], nu[:1], c[:1], one).value - formula))
    return Evidence(
        max(worst, alone) <= QUADRATURE and wrong == 0,
        worst,
        0.0,
        QUADRATURE,
        ROUNDING,
        trials,
        {"decisions wrong": wrong, "one specialist against the exact recursion": alone},
        quantity="largest error of the net gain against its definition",
    )
