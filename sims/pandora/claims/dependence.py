"""Claims on specialists that share what makes a query hard: PB-15, PB-17, PB-18."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.pandora.claims._oracles import QUADRATURE, ROUNDING, mean_best
from porism.sims.pandora.classifiers import classifier_matrix
from porism.sims.pandora.experiments import curve_over_seeds, refinement_curve
from porism.sims.pandora.matrix import ScoreMatrix
from porism.sims.pandora.refinement import RefinementCurve
from porism.sims.pandora.simulators import gaussian
from porism.sims.pandora.sweeps import dependence_sweep
from porism.theory.pandora import fit_router, signal_slopes, voi, voi_correlated

__all__ = ["few_suffice", "ignored", "marginal_only", "shared"]

Floats = NDArray[np.float64]


@claim(
    "PB-15",
    kind="theorem",
    source="Frazier, Powell and Dayanik (2009), correlated knowledge gradient",
    statement="For V ~ N(m, Sigma) a signal on i with noise tau_i moves all means along Sigma "
    "e_i/sqrt(Sigma_ii+tau_i^2) and gains E max_j(m_j + slope_j Z) - max m, the sum of slope jumps times "
    "psi over the upper envelope; that is the independent gain for diagonal Sigma and 0 for equal slopes.",
    control="covariances between specialists dropped",
)
def shared(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, moved, plain = (40 if scale == "smoke" else 1500), 0.0, 0.0, 0.0
    for number in range(trials):
        K = 2 + number % 5
        root = rng.normal(size=(K, K)) / math.sqrt(K)
        sigma = root @ root.T + 0.05 * np.eye(K)
        m, tau = rng.normal(size=K), rng.uniform(0.1, 1.0, K)
        slopes = signal_slopes(np.diag(np.diag(sigma)) if broken else sigma, tau)
        gains = np.asarray(voi_correlated(m, slopes))
        i = int(rng.integers(K))
        # the joint law of all values and the signal, from draws of a factor
        lines = np.vstack([np.linalg.cholesky(sigma), np.zeros(K)])
        lines[-1] = lines[i]
        joint = lines @ lines.T
        joint[-1, -1] += tau[i] ** 2
        along = joint[:K, -1] / math.sqrt(joint[-1, -1])
        moved = max(moved, float(np.abs(along - slopes[i]).max()))
        worst = max(worst, abs(_gain(m, along) - gains[i]))
        nu = np.diag(sigma) / np.sqrt(np.diag(sigma) + tau**2)
        gap = m - np.array([np.delete(m, k).max() for k in range(K)])
        alone = voi_correlated(m, signal_slopes(np.diag(np.diag(sigma)), tau))
        plain = max(plain, float(np.abs(alone - voi(gap, nu)).max()))
        plain = max(plain, abs(float(voi_correlated(m, np.full(K, rng.normal())))))
        both = abs(along[0] - along[1])
        if K == 2:
            plain = max(plain, abs(_gain(m, along) - float(voi(m[0] - m[1], both))))
    numbers: dict[str, float | int | str] = {
        "largest error of slopes": moved,
        "largest error of special cases": plain,
    }
    for rho in (0.0, 0.5, 0.95):
        common = 0.49 * (rho + (1 - rho) * np.eye(3))
        numbers[f"gain at correlation {rho}"] = float(
            voi_correlated([0.3, 0.1, -0.2], signal_slopes(common, np.full(3, 0.3)))[0]
        )
    return Evidence(
        max(worst, plain) <= QUADRATURE,
        worst,
        0.0,
        QUADRATURE,
        ROUNDING,
        trials,
        numbers,
        quantity="largest error against quadrature of the maximum",
    )


def _gain(m: Floats, slope: Floats) -> float:
    """E max(m + slope Z) - max m, split wherever two lines cross."""
    rise, drop = np.subtract.outer(slope, slope), np.subtract.outer(m, m)
    crossings = np.divide(-drop, rise, out=np.zeros_like(rise), where=rise != 0)
    return mean_best(lambda z: (m + z[..., None] * slope).max(-1), 0.0, 1.0, crossings) - float(m.max())


@claim(
    "PB-15b",
    kind="statistical",
    source="our reconstruction",
    statement="Ignoring dependence costs value: with one common factor of correlation 0.75 the independent "
    "one-step rule nets less than the correlated one on the same queries.",
    control="correlation 0",
)
def ignored(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    n = 2000 if scale == "smoke" else 20_000
    rho = 0.0 if broken else 0.75
    sweep = dependence_sweep((rho,), n=n, policies=("kg", "kg_joint"), seed=int(rng.integers(2**31)))
    score = float(sweep.loss[0, 0] / max(sweep.loss_se[0, 0], 1e-300))
    return Evidence(
        score > 4.9,
        score,
        "> 4.9",
        4.9,
        "normal quantile at error rate 1e-6, two sides",
        n,
        {
            "net value lost": float(sweep.loss[0, 0]),
            "refinements, independent rule": float(sweep.refinements[0, 0]),
            "refinements, correlated rule": float(sweep.refinements[0, 1]),
        },
        quantity="net value lost over its standard error, paired",
    )


@claim(
    "PB-17",
    kind="empirical",
    source="our reconstruction",
    statement="Marginal calibration is not enough: on a matrix made here, of specialists that share a "
    "difficulty which each signal shows with another precision, every refined estimate is calibrated (slope "
    "1), yet the best refined estimate is a worse choice than the best cheap one, and promises more than it "
    "gives; the joint linear update is no worse than cheap.",
    control="independent specialists with the same signals",
)
def marginal_only(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    n, K = (4000 if scale == "smoke" else 40_000), 8
    tau = np.geomspace(0.2, 1.5, K)
    world = gaussian(n, K, 0.0 if broken else 0.9, s=0.5, tau=tau, spread=0.3, seed=rng)
    fitted = fit_router(world.scores, cheap=world.m, refined=world.refined)
    report = fitted.report
    q = world.refined
    rest = (world.scores - q).std(0) / (q.std(0) * math.sqrt(n))  # standard errors of the slopes
    slopes = float((np.abs(report.slope - 1) / rest).max())
    cheap, refined, joint = report.chosen
    score = refined.gain / refined.gain_se
    return Evidence(
        slopes <= 5.2 and score < -2 and report.refine_harmful and joint.gain > -2 * joint.gain_se,
        score,
        "< -2",
        2.0,
        "the flag's own rule; slopes within the normal quantile at error rate 1e-6 over all",
        n,
        {
            "cheap": cheap.realised,
            "exhaustive, realised": refined.realised,
            "exhaustive, predicted": refined.predicted,
            "joint update, over cheap": joint.gain,
            "slope farthest from 1, in standard errors": slopes,
            "flags": ", ".join(report.flags) or "none",
        },
        quantity="value of exhaustive over cheap routing, in paired standard errors",
    )


@claim(
    "PB-18",
    kind="empirical",
    source="abstract; our reconstruction",
    statement="A value-of-information rule that knows the dependence keeps at least 90 percent of what "
    "exhaustive refinement gains with a third of the refinements: nine Gaussian specialists of correlation "
    "0.6; at paper scale also twelve scikit-learn classifiers on digits, with cross-fitted estimates.",
    control="the specialists to refine drawn at random, with the same joint update",
)
def few_suffice(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    n, K = (8000 if scale == "smoke" else 40_000), 9
    world = gaussian(n, K, 0.6, s=0.5, tau=0.3, spread=0.3, seed=rng)
    names = tuple(f"specialist {k}" for k in range(K))
    matrix = ScoreMatrix(world.scores, names, np.ones(world.scores.shape, bool))
    fitted = fit_router(world.scores, cheap=world.m, refined=world.refined)
    curve = refinement_curve(matrix, fitted, costs=(0.003, 0.005, 0.01, 0.02), picks=(3,), policies=RULES)
    curves = {"Gaussian": curve}
    if scale == "paper":
        made = classifier_matrix("digits")
        costs = (0.02, 0.04, 0.06, 0.1)
        curves["classifiers"], _ = curve_over_seeds(made, range(3), costs=costs, picks=(4,), policies=RULES)
    rule = "random joint" if broken else "kg_joint"
    shares, margins = [], []
    numbers: dict[str, float | int | str] = {}
    for name, curve in curves.items():
        share, error = _kept(curve, rule)
        shares.append(share)
        margins.append(2 * error)
        numbers[f"{name}: share kept at a third"] = share
        numbers[f"{name}: share kept by the independent rule"] = _kept(curve, "kg")[0]
        numbers[f"{name}: cheap"], numbers[f"{name}: exhaustive"] = curve.cheap, curve.exhaustive
    return Evidence(
        all(share >= 0.9 - margin for share, margin in zip(shares, margins, strict=True)),
        min(shares),
        ">= 0.9",
        max(margins),
        "two paired standard errors of the distance from exhaustive, over the gain of exhaustive",
        n,
        numbers,
        quantity="smallest share of the exhaustive gain kept with K/3 refinements",
    )


RULES: Sequence[str] = ("kg", "kg_joint", "random joint")


def _kept(curve: RefinementCurve, policy: str, refinements: float | None = None) -> tuple[float, float]:
    """Share of the exhaustive gain at K/3 refinements, or as many as given, and its standard error."""
    at = curve.K / 3 if refinements is None else refinements
    total = curve.exhaustive - curve.cheap
    rows = np.flatnonzero(curve.policy == policy)
    return (
        (curve.quality_at(policy, at) - curve.cheap) / total,
        float(curve.gap_se[rows].max()) / total,
    )
