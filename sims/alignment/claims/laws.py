"""Claims on what a better start buys: DK-12, DK-13, DK-14."""

import math

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.alignment.claims._oracles import centroid_accuracy, orthonormal
from porism.sims.alignment.fewshot import train_lora
from porism.sims.alignment.spiked import sample_class_task
from porism.theory.alignment import (
    frozen_a_risk,
    head_start,
    linear_drop,
    predicted_accuracy,
    predicted_accuracy_gain,
    residual_variance,
)

__all__ = ["classifier", "delay", "regression"]

Floats = NDArray[np.float64]
Numbers = dict[str, float | int | str]


def _drops(g: Floats, a: Floats, s: float, times: Floats) -> Floats:
    """Drop of <G, W + s B A> under gradient flow from B = 0, by an integrator that knows no formula."""
    from scipy.integrate import solve_ivp

    m, r = len(g), len(a)

    def flow(_: float, state: Floats) -> Floats:
        now_a, now_b = state[: a.size].reshape(a.shape), state[a.size :].reshape(m, r)
        return np.concatenate([(-s * now_b.T @ g).ravel(), (-s * g @ now_a.T).ravel()])

    start = np.concatenate([a.ravel(), np.zeros(m * r)])
    found = solve_ivp(flow, (0, times[-1]), start, t_eval=times, rtol=1e-11, atol=1e-14, method="DOP853").y.T
    ends = (s * np.sum(g * (y[a.size :].reshape(m, r) @ y[: a.size].reshape(a.shape))) for y in found)
    return -np.array(list(ends))


@claim(
    "DK-12",
    kind="theorem",
    source="our derivation",
    statement="Under gradient flow with a constant gradient of one singular value g and right vector v, a "
    "linear loss falls by s g a sinh(2 s g t) / 2 with a = |A v|^2 at the start: the better of two starts "
    "reaches any large drop log(a1 / a2) / (2 s g) earlier, a fixed time however long training lasts.",
    control="a gradient with a second singular value, 0.7 of the first",
)
def delay(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, worst, late = 4 if scale == "smoke" else 30, 0.0, 0.0
    for _ in range(runs):
        g, s, d = float(rng.uniform(0.5, 2)), float(rng.uniform(0.5, 2)), 20
        u, v = orthonormal(rng, 2, 6), orthonormal(rng, 2, d)
        gradient = g * (np.outer(u[0], v[0]) + (0.7 if broken else 0.0) * np.outer(u[1], v[1]))
        starts = [rng.standard_normal((3, d)) / math.sqrt(d) * size for size in (1.0, 0.3)]
        shares = [float(np.sum((a @ v[0]) ** 2)) for a in starts]
        ahead = head_start(shares[0], shares[1], s, g)
        times = np.linspace(0.2, 5, 9) / (s * g)
        for a, share in zip(starts, shares, strict=True):
            law = linear_drop(times, share, s, g)
            worst = max(worst, float(np.abs(_drops(gradient, a, s, times) / law - 1).max()))
        end = 6 / (s * g) + abs(ahead)
        one = _drops(gradient, starts[0], s, np.array([end - max(ahead, 0.0)]))[0]
        two = _drops(gradient, starts[1], s, np.array([end + min(ahead, 0.0)]))[0]
        late = max(late, abs(float(one / two) - 1))
    return Evidence(
        worst <= 1e-8 and late <= 1e-8,
        worst,
        0.0,
        1e-8,
        "integrator: 1e-11 a step, some hundred steps, grown by at most 10",
        2 * runs,
        {"relative difference of two drops a head start apart (tolerance 1e-8: e^-24 and the same)": late},
        quantity="largest relative error of a drop",
    )


@claim(
    "DK-13",
    kind="statistical",
    source="our derivation",
    statement="Two balanced Gaussian classes at squared distance delta about 0 with isotropic noise, and a "
    "fixed subspace that captures c of it: LoRA after one SGD step classifies by the projected difference of "
    "the class means, with accuracy Phi(c delta / (2 sqrt(c delta + 4 r / n))) to first order in 1 / n (a "
    "little more; with the estimated midpoint as threshold a little less). The gain over a random subspace "
    "vanishes both for tiny and for huge delta.",
    control="noise not isotropic: a nuisance of strength 20 inside the subspace",
)
def classifier(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws = 60 if scale == "smoke" else 600
    worst, slow, numbers = 0.0, 0.0, Numbers()
    cells = ((64, 32, 8, 0.6, 9.0), (96, 32, 8, 1 / 12, 9.0), (32, 16, 4, 0.5, 4.0), (48, 64, 2, 0.9, 1.0))
    for d, n, r, c, delta in cells:
        nuisance = [20.0] if broken else []
        task = sample_class_task(d, n // 2, 2, delta / 4, nuisance, random_state=rng)
        own = (task.means[1] - task.means[0])[None] / np.linalg.norm(task.means[1] - task.means[0])
        fill = rng.standard_normal((r - len(nuisance), d))
        frame = np.linalg.qr(np.vstack([own, task.directions, fill]).T)[0].T
        basis = np.vstack([math.sqrt(c) * frame[0] + math.sqrt(1 - c) * frame[-1], frame[1:-1]])
        assert abs(task.captured(basis) - c) < 1e-12
        x = np.stack([task.draw(n // 2, rng).x for _ in range(draws)])
        many = (draws, 1, 1)
        path = train_lora(
            x,
            np.tile(task.y, (draws, 1)),
            np.tile(basis, many),
            np.tile([[1.0], [-1.0]], many),
            optimizer="sgd",
            lr=1e-3,
            steps=1,
        )
        values = np.array([task.accuracy(w) for w in path.weights()[-1]])
        exact, middle = (centroid_accuracy(c * delta, r, n, midpoint) for midpoint in (False, True))
        error = float(values.std(ddof=1)) / math.sqrt(draws)
        worst = max(worst, abs(float(values.mean()) - exact) / error)
        far = [
            abs(float(predicted_accuracy(c, delta, r, k)) - centroid_accuracy(c * delta, r, k))
            for k in (64 * n, 256 * n)
        ]
        slow = max(slow, far[1] / far[0])
        law = float(predicted_accuracy(c, delta, r, n))
        numbers[f"n {n}, r {r}, c {c:.2f}, delta {delta:g}: seen / exact / law / exact with midpoint"] = (
            f"{values.mean():.4f} / {exact:.4f} / {law:.4f} / {middle:.4f}"
        )
    gains = predicted_accuracy_gain(0.6, np.array([1e-3, 9.0, 1e6]), 768, 8, 32)
    return Evidence(
        worst <= 5 and slow <= 0.3 and gains[1] > 0.3 and max(gains[::2]) < 1e-3,
        worst,
        "<= 5",
        5.0,
        "5 standard errors about the exact mean by quadrature, four comparisons: false alarm below 1e-5",
        4 * draws,
        numbers
        | {
            "error of the law at four times as many samples (1/4 for O(1/n), tolerance 0.3)": slow,
            "gain at delta 0.001, 9, 1e6": ", ".join(f"{v:.4f}" for v in gains),
        },
        quantity="largest deviation, standard errors",
    )


@claim(
    "DK-14",
    kind="statistical",
    source="Breiman and Freedman 1983",
    statement="Regression on the frozen features z = A x, Gaussian, n > r + 1, has expected risk "
    "tau^2 (n - 1) / (n - r - 1), where tau^2 is what the best linear function of z leaves in y.",
    control="rows scaled by 1/4 or 1.4 at random: not Gaussian",
)
def regression(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws = 4000 if scale == "smoke" else 40000
    worst, numbers = 0.0, Numbers()
    for d, n, r in ((12, 20, 6), (12, 30, 3)):
        root = rng.standard_normal((d, d)) / math.sqrt(d) + np.eye(d)
        cov, beta, a = root @ root.T, rng.standard_normal(d) / 2, orthonormal(rng, r, d)
        x = rng.standard_normal((draws, n, d)) @ root.T
        if broken:
            x *= np.where(rng.random((draws, n, 1)) < 0.5, 0.25, math.sqrt(2 - 0.0625))
        y = x @ beta + 0.8 * rng.standard_normal((draws, n))
        z = x @ a.T
        found = np.linalg.solve(z.mT @ z, (z.mT @ y[..., None]))[..., 0]
        # exact risk of each fit on a new row: tau^2 and the distance from the best coefficients
        inner = a @ cov @ a.T
        best = np.linalg.solve(inner, a @ cov @ beta)
        tau = float(0.64 + beta @ cov @ beta - best @ inner @ best)
        values = tau + np.einsum("ni,ij,nj->n", found - best, inner, found - best)
        law = frozen_a_risk(residual_variance(beta, cov, a, 0.64), n, r)
        error = float(values.std(ddof=1)) / math.sqrt(draws)
        worst = max(worst, abs(float(values.mean()) - law) / error)
        numbers[f"n {n}, r {r}: seen / law"] = f"{values.mean():.4f} / {law:.4f}"
    return Evidence(
        worst <= 5,
        worst,
        "<= 5",
        5.0,
        "5 standard errors, two comparisons: false alarm below 2e-6",
        2 * draws,
        numbers,
        quantity="largest deviation, standard errors",
    )
