"""Claims on descent and convergence without a ridge: SF-8, SF-8b, SF-8c, SF-8d."""

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.spectral_flow.claims._oracles import FIVE, INTEGRATED
from porism.sims.spectral_flow.flow import simulate_flow
from porism.sims.spectral_flow.starts import aligned_init, random_target
from porism.theory.spectral_flow import local_decay_rate, soft_threshold_target

__all__ = ["best_approximation", "decay", "descent", "saddle"]

Floats = NDArray[np.float64]

SOURCE = "arXiv 2602.06385, abstract and notes; our reconstruction"


@claim(
    "SF-8",
    kind="theorem",
    source="our derivation",
    statement="For any smoothing beta > 0 and any ridge the loss falls along the spectral flow at the rate "
    "sum s^2 / sqrt(s^2 + beta^2) over the singular values of both gradients, so it never rises.",
    control="the smoothed sign taken entry by entry",
)
def descent(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    points, runs = (60, 3) if scale == "smoke" else (600, 20)
    worst, rise = 0.0, 0.0
    for _ in range(points):
        m, n, r = (int(k) for k in rng.integers(2, 9, 3))
        Y, B, A = rng.standard_normal((m, n)), rng.standard_normal((m, r)), rng.standard_normal((r, n))
        beta, ridge = 10.0 ** rng.uniform(-3, 0.5), float(rng.choice([0.0, 0.7]))
        R = Y - B @ A
        gradients = (ridge * B - R @ A.T, ridge * A - B.T @ R)
        rate, moves = 0.0, []
        for G in gradients:
            P, s, Qt = np.linalg.svd(G, full_matrices=False)
            rate += float((s * s / np.hypot(s, beta)).sum())
            moves.append(-G / np.hypot(G, beta) if broken else -(P * (s / np.hypot(s, beta))) @ Qt)
        # along a line the loss is a polynomial of degree 4, of which five points give the exact slope
        line = [_loss(Y, B + h * moves[0], A + h * moves[1], ridge) for h in (-2, -1, 1, 2)]
        slope = (line[0] - 8 * line[1] + 8 * line[2] - line[3]) / 12
        worst = max(worst, abs(slope + rate) / max(map(abs, line)))
    for number in range(runs):
        Y = random_target(8, 9, FIVE, rng)
        B, A = rng.standard_normal((8, 3)), rng.standard_normal((3, 9))
        flow = simulate_flow(
            Y, B, A, smoothing=(0.3, 0.1, 0.03)[number % 3], ridge=0.2 * (number % 2), t_end=6
        )
        rise = max(rise, float(np.diff(flow.loss).max()) / float(flow.loss[0]))
    return Evidence(
        worst <= 1e-12 and rise <= INTEGRATED,
        worst,
        0.0,
        1e-12,
        "rounding of four losses, relative to the largest of them",
        points,
        {"largest rise along a flow, relative to the first loss (tolerance 1e-6)": rise},
        quantity="largest error of the rate, relative",
    )


@claim(
    "SF-8b",
    kind="empirical",
    source=SOURCE + "; boundedness of the factors is assumed there, and seen here",
    statement="Without a ridge and with smoothing, random starts small and large end at the best "
    "approximation of rank r, and no factor grows beyond 1.3 times the larger of its start and "
    "sqrt(sigma_1).",
    control="starts from which the first mode is absent",
)
def best_approximation(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    sizes, small = (0.01, 0.5, 3.0), 0.1 if scale == "smoke" or broken else 0.01
    cases, each = [*((size, small) for size in sizes), (0.5, 0.3)], 12 if scale == "paper" else 1
    end = 25.0 if scale == "smoke" else 40.0
    if broken:  # near a saddle the default method takes tiny steps
        each, method = 1, "RK45"
    else:
        method = "LSODA"
    worst, off, growth, there = 0.0, 0.0, 0.0, 0
    for size, beta in cases:
        for _ in range(each):
            Y = np.zeros((8, 9)) if broken else random_target(8, 9, FIVE, rng)
            B, A = size * rng.standard_normal((8, 3)), size * rng.standard_normal((3, 9))
            if broken:  # the Gram form of the flow keeps exact zeros
                np.fill_diagonal(Y, FIVE.tolist() + 3 * [0.0])
                B[0], A[:, 0] = 0.0, 0.0
            t = np.linspace(0, end, 41)
            flow = simulate_flow(Y, B, A, smoothing=beta, t_end=end, t_eval=t, method=method)
            excess = abs(float(flow.excess_loss[-1])) / flow.best_loss
            worst, there = max(worst, excess), there + (excess <= 1e-10)
            off = max(off, float(np.abs(flow.B @ flow.A - soft_threshold_target(Y, 0.0, 3)).max()))
            growth = max(growth, float(flow.factor_norms.max() / max(flow.factor_norms[0].max(), 5**0.5)))
    return Evidence(
        worst <= 1e-10 and growth <= 1.3,
        worst,
        0.0,
        1e-10,
        "rounding of a loss of 27.5, and the integrator's tolerance squared",
        len(cases) * each,
        {
            "starts that ended there": f"{there} of {len(cases) * each}",
            "largest distance of an entry": off,
            "largest growth of a factor's norm": growth,
        },
        quantity="largest excess loss at the end, relative to the least loss",
    )


@claim(
    "SF-8c",
    kind="theorem",
    source="our derivation",
    statement="There are exceptional starts: a mode of the target that is absent from the columns of B and "
    "the rows of A stays absent, and the flow ends at the best approximation without it.",
    control="a trace of 1e-12 of the mode",
)
def saddle(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, trace, off = 4 if scale == "smoke" else 30, 0.0, 0.0
    for _ in range(runs):
        sigma = np.sort(rng.uniform([3.5, 2.5, 1.5, 0.5], [4.5, 3.4, 2.4, 1.4]))[::-1]
        mode, scale_ = int(rng.integers(3)), 10.0 ** rng.uniform(-2, 0)
        # coordinates in which the mode is one row and one column: elsewhere rounding lets it in
        Y = np.zeros((8, 9))
        np.fill_diagonal(Y[:4, :4], sigma)
        B, A = scale_ * rng.standard_normal((8, 3)), scale_ * rng.standard_normal((3, 9))
        B[mode], A[:, mode] = 0.0, 0.0
        B[mode, 0] = 1e-12 if broken else 0.0
        flow = simulate_flow(Y, B, A, smoothing=0.1, t_end=20.0, t_eval=[0.0, 20.0])
        trace = max(trace, float(np.abs(flow.B[mode]).max()), float(np.abs(flow.A[:, mode]).max()))
        off = max(off, abs(float(flow.loss[-1]) - 0.5 * float(sigma[mode]) ** 2))
    return Evidence(
        trace == 0 and off <= INTEGRATED,
        trace,
        0.0,
        0.0,
        "exact: zero rows and columns are set aside; loss within 1e-6 of half the square of the mode",
        runs,
        {"largest distance of the loss from that of the rest": off},
        quantity="largest entry of the absent mode",
    )


@claim(
    "SF-8d",
    kind="empirical",
    source=SOURCE,
    statement="Near a minimum the excess loss decays as exp(-2 mu t / beta) with mu the smallest non-zero "
    "eigenvalue of the Hessian, if the start excites it; balanced and with r < rank Y that is "
    "sigma_r - sigma_(r+1), and equal values within the top r do no harm.",
    control="aligned starts, which do not excite that direction",
)
def decay(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    cases = [
        ([8.0, 5.0, 3.0, 1.0], 3, 1.0),
        ([3.0, 3.0, 1.2], 2, 1.0),
        ([5.0, 2.0], 1, 1.0),
        ([5.0, 2.0], 1, 1.1),
    ]
    runs, worst, gaps, beta = 2 if scale == "smoke" else 12, 0.0, 0.0, 0.1
    for sigma, r, tilt in cases * runs:
        Y, root = random_target(6, 7, sigma, rng), np.sqrt(sigma[:r])
        if broken:
            B, A = aligned_init(Y, 0.99 * root / tilt, 0.99 * root * tilt, rng)
        else:
            B, A = aligned_init(Y, root / tilt, root * tilt, rng)
            # a step towards the first mode left out, the slowest direction, and less in all others
            U, _, Vt = np.linalg.svd(Y)
            turn = 0.02 * A @ Vt[r - 1] / (tilt * root[-1])
            B = B + np.outer(U[:, r], turn) + 0.003 * rng.standard_normal(B.shape)
            A = A + np.outer(turn, Vt[r]) + 0.003 * rng.standard_normal(A.shape)
        t = np.linspace(0, 1.5, 1501)
        flow = simulate_flow(Y, B, A, smoothing=beta, t_end=1.5, t_eval=t, rtol=1e-12, atol=1e-14)
        tail = (flow.excess_loss < 1e-9) & (flow.excess_loss > 1e-12)
        fitted = -float(np.polyfit(t[tail], np.log(flow.excess_loss[tail]), 1)[0])
        law = local_decay_rate(Y, flow.B, flow.A, beta)
        worst = max(worst, abs(fitted / law - 1))
        if tilt == 1:
            gaps = max(gaps, abs(law * beta / 2 / (sigma[r - 1] - sigma[r]) - 1))
    return Evidence(
        worst <= 0.02,
        worst,
        0.0,
        0.02,
        "the next eigenvalue, larger by 1.4 or more, is down by 100 or more where the tail starts",
        len(cases) * runs,
        {"largest relative distance of mu from sigma_r - sigma_(r+1)": gaps},
        quantity="largest relative error of the fitted rate",
    )


def _loss(Y: Floats, B: Floats, A: Floats, ridge: float) -> float:
    fit = 0.5 * float(((Y - B @ A) ** 2).sum())
    return fit + 0.5 * ridge * float((A * A).sum() + (B * B).sum())
