"""Claims on rho and the gain of a principal start: DK-19, DK-19b, DK-20, DK-20b."""

import functools
import math

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.alignment.regime import RegimeSweep, sweep_regime
from porism.sims.alignment.tracking import PREDICTORS, Tracking, track_gains

__all__ = ["comparable", "difficulty", "few_samples", "window"]

SOURCE = "abstract; our reconstruction of the coefficient, in our simulation of a linear layer"


def _numbers(found: Tracking, label: str) -> dict[str, float | int | str]:
    table = found.correlations()
    return {
        f"{label}, {name}: correlation at steps {', '.join(str(k) for k in found.steps)}": ", ".join(
            f"{v:.2f}" for v in row
        )
        for name, row in zip(PREDICTORS, table, strict=True)
    }


@functools.lru_cache(maxsize=1)
def _controlled(tasks: int, draws: int, seed: int) -> Tracking:
    """The control looks at the same runs."""
    return track_gains(tasks=tasks, draws=draws, optimizer="sgd", rng=seed)


def _cells(found: RegimeSweep) -> dict[str, float | int | str]:
    return {
        f"d {found.d[i]}, n {found.n[i]}, ell {found.ell[i]:.3g}: captured, gain at step 1, "
        f"at step {found.steps[-1]}": (
            f"{found.captured[i]:.2f}, {found.gain[i, 0]:+.3f} ({found.gain_se[i, 0]:.3f}), "
            f"{found.gain[i, -1]:+.3f} ({found.gain_se[i, -1]:.3f})"
        )
        for i in range(len(found.d))
    }


@claim(
    "DK-19",
    kind="empirical",
    source=SOURCE,
    statement="Among tasks of one d, n, r and difficulty, which differ in the nuisance of their features, "
    "the true rho of the start goes with the realised gain in accuracy over a norm-matched random start, "
    "after 1, T / 4 and T steps of SGD.",
    control="each task given the rho of another one, median over all shifts",
)
def comparable(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    tasks, draws = (16, 4) if scale == "smoke" else (40, 4)
    seed = int(rng.integers(2**31))
    found = _controlled(tasks, draws, seed)
    shifts = range(1, tasks) if broken else range(1)
    seen = [
        float(np.median([np.corrcoef(np.roll(found.true_rho, k), gain)[0, 1] for k in shifts]))
        for gain in found.gains.T
    ]
    numbers = _numbers(found, "SGD")
    if scale == "paper" and not broken:
        numbers |= _numbers(track_gains(tasks=tasks, draws=draws, rng=seed), "Adam")
        numbers |= _numbers(track_gains("pooled", tasks=tasks, draws=draws // 2, rng=seed), "pooled, Adam")
    least = min(seen)
    width = least - math.tanh(math.atanh(least) - 1.645 / math.sqrt(tasks - 3))
    return Evidence(
        least > width,
        least,
        "> 0",
        width,
        "one-sided 95 % bound of the correlation, Fisher's transform",
        tasks,
        numbers,
        quantity="smallest correlation of true rho and gain over steps",
    )


@claim(
    "DK-19b",
    kind="refuted",
    source="abstract, read without a condition",
    statement="rho closely tracks the gain. (False where the difficulty differs: as the separation of the "
    "classes grows, rho grows with it, but the final gain of Adam rises, falls and vanishes, because the "
    "random start also solves an easy task.)",
    control="separations below the ceiling",
)
def difficulty(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws = 10 if scale == "smoke" else 40
    cells = [(768, 32, ell, 3e-4) for ell in ((0.5, 2.0, 6.0) if broken else (0.5, 6.0, 40.0))]
    found = sweep_regime(cells, draws=draws, rng=rng)
    rises = np.diff(found.captured) / np.hypot(found.captured_se[1:], found.captured_se[:-1])
    gain, error = found.gain[:, -1], found.gain_se[:, -1]
    falls = float((gain[-2] - gain[-1]) / math.hypot(error[-2], error[-1]))
    return Evidence(
        float(rises.min()) >= 2 and falls >= 3,
        falls,
        "<= 0 if it tracked",
        3.0,
        "3 standard errors of a difference",
        draws * len(cells),
        _cells(found) | {"smallest rise of captured, standard errors (at least 2)": float(rises.min())},
        quantity="fall of the final gain where rho rises, standard errors",
    )


@claim(
    "DK-20",
    kind="empirical",
    source=SOURCE,
    statement="At fixed d and strength ell, more samples raise the captured share and lower the gain of a "
    "principal start at the end of training by Adam, since a random start then learns the task as well.",
    control="ell lowered with the number of samples, ell^2 n / d held fixed",
)
def few_samples(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    d, draws = (256, 12) if scale == "smoke" else (768, 12)
    ns = (32, 96, 288) if scale == "smoke" else (32, 128, 512)
    cells = [(d, n, 6.0 * (math.sqrt(32 / n) if broken else 1.0), 3e-4) for n in ns]
    found = sweep_regime(cells, draws=draws, rng=rng)
    rises = np.diff(found.captured) / np.hypot(found.captured_se[1:], found.captured_se[:-1])
    last, error = found.gain[:, -1], found.gain_se[:, -1]
    falls = -np.diff(last) / np.hypot(error[1:], error[:-1])
    least = float(min(rises.min(), falls.min()))
    return Evidence(
        least >= 2,
        least,
        ">= 2",
        2.0,
        "2 standard errors of a difference, four differences",
        draws * len(ns),
        _cells(found),
        quantity="smallest rise of captured or fall of gain, standard errors",
    )


@claim(
    "DK-20b",
    kind="refuted",
    source="abstract, as commonly read",
    statement="The gain of a principal start is largest for large d / n. (False at fixed strength ell: it "
    "is a window. Far beyond d / n = ell^2 the principal directions miss the signal, and the gain falls "
    "again, both after one step and at the end.)",
    control="ell in proportion to d, the signal of a coordinate held fixed: ell^2 n / d then grows",
)
def window(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    n, draws = 32, 12 if scale == "smoke" else 40
    ds = (32, 256, 2048)
    cells = [(d, n, 3.0 * (d / 256 if broken else 1.0), 3e-4) for d in ds]
    found = sweep_regime(cells, draws=draws, rng=rng)
    scores = [
        (found.gain[1, j] - found.gain[2, j]) / math.hypot(found.gain_se[1, j], found.gain_se[2, j])
        for j in (0, -1)
    ]
    least = float(min(scores))
    return Evidence(
        least >= 3,
        least,
        "<= 0 by the wording",
        3.0,
        "3 standard errors of a difference, two differences",
        draws * len(ds),
        _cells(found),
        quantity="gain at d / n = 8 less that at 64, standard errors",
    )
