"""Claims on the rank-space pivot (A, B) -> (QA, BQ'): DK-21 to DK-25."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.alignment._rotation import canonical, move_second, random_rotation, rotate
from porism.sims.alignment.claims._oracles import descend, orthonormal
from porism.sims.alignment.comparison import compare_pivots
from porism.sims.alignment.fewshot import lora_start, random_head, train_lora
from porism.sims.alignment.spiked import sample_class_task
from porism.sims.alignment.trajectories import measure_conservation, pivot_paths

__all__ = ["conserved", "helps", "idle", "invisible", "moments", "small", "zeroed"]

Floats = NDArray[np.float64]
Numbers = dict[str, float | int | str]

SOURCE = "abstract; our reconstruction: a rotation of the rank index"

STEPS = 1e-11
"""Rounding of some hundred steps of operations on numbers of size 1 to 10, 1e-14 each at most."""


@claim(
    "DK-21",
    kind="theorem",
    source=SOURCE,
    statement="For orthogonal Q the pivot leaves BA as it is, and also every later BA under gradient "
    "descent, with momentum if the momenta are turned too, with clipping of the whole gradient's norm, "
    "decoupled decay and input dropout: any effect of it comes from a coordinate-wise optimiser or from "
    "rounding.",
    control="momenta not turned",
)
def invisible(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, steps = (2, 60) if scale == "smoke" else (8, 300)
    worst: dict[str, float] = {"plain": 0.0, "momentum": 0.0, "clipped": 0.0, "decay and dropout": 0.0}
    for _ in range(runs):
        x, a = rng.standard_normal((20, 10)), orthonormal(rng, 4, 10)
        y = x @ rng.standard_normal((10, 6)) / 3
        rules: dict[str, dict[str, Any]] = {
            "plain": {},
            "momentum": {"momentum": 0.9, "move": not broken},
            "clipped": {"clip": 0.3, "momentum": 0.5, "move": not broken},
            "decay and dropout": {"decay": 0.5, "drop": (rng.random((steps, 20, 10)) < 0.8) / 0.8},
        }
        q = random_rotation(rng, (), 4)
        for name, options in rules.items():
            with_q, without = (
                descend(y, x, a, 0.02, steps, q=turn, at=steps // 3, **options) for turn in (q, None)
            )
            size = float(np.linalg.norm(without[-1]))
            worst[name] = max(worst[name], float(np.linalg.norm(with_q - without, axis=(1, 2)).max()) / size)
    layer, numbers = 0.0, Numbers()
    rule = 2 if broken else 0  # keep or transport
    for optimizer in ("sgd", "momentum"):
        for rotation in ("random", "canonical"):
            path = pivot_paths(optimizer, rotation=rotation, d=32, n=24, steps=steps, at=steps // 3, rng=rng)
            layer = max(layer, float(path.deviation[rule].max()))
    numbers |= {f"least squares, {name}": value for name, value in worst.items()}
    return Evidence(
        max(*worst.values(), layer) <= STEPS,
        max(*worst.values(), layer),
        0.0,
        STEPS,
        "rounding: at most 1e-14 a step, some hundred steps",
        4 * runs + 4,
        numbers | {"classifier, plain and momentum": layer},
        quantity="largest relative change of BA",
    )


@claim(
    "DK-21b",
    kind="refuted",
    source="abstract, read for any optimiser",
    statement="The pivot helps. (False under SGD: it changes no accuracy at all, whichever the rotation, "
    "while the start itself changes it much.)",
    control="Adam, which works coordinate by coordinate",
)
def helps(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    tasks, d = (16, 128) if scale == "smoke" else (64, 768)
    found = compare_pivots(
        tasks=tasks,
        d=d,
        optimizer="adam" if broken else "sgd",
        lr=3e-4 if broken else 2e-3,
        steps=40,
        rng=rng,
    )
    base = found.accuracy[:, found.arms.index("pca")]
    pivots = [i for i, arm in enumerate(found.arms) if arm not in ("orthonormal", "pca")]
    most = float(np.abs(found.accuracy[:, pivots] - base[:, None]).max())
    gain, error = found.difference("pca", "orthonormal")
    return Evidence(
        most <= 1e-9 and gain > 3 * error,
        most,
        "> 0 by the wording",
        1e-9,
        "rounding of 40 steps; an accuracy has slope at most 1 in the logits' relative error",
        tasks,
        {"gain of the start itself, and its standard error": f"{gain:.4f}, {error:.4f}"},
        quantity="largest change of an accuracy",
    )


@claim(
    "DK-22",
    kind="theorem",
    source="conservation law of linear networks; our derivation for the pivot",
    statement="Gradient flow keeps A A' - B'B, so that from B = 0 and orthonormal rows A A' = I + B'B: one "
    "rotation makes the columns of B and the rows of A orthogonal. Gradient descent keeps it up to lr times "
    "the sum of lr |gradient|^2, at most 2 lr times the decrease of the loss.",
    control="Adam",
)
def conserved(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    lrs = (0.02, 0.002) if scale == "smoke" else (0.02, 0.002, 0.0002)
    worst, off, numbers, before = 0.0, 0.0, Numbers(), 1.0
    r, C = 6, 4
    for run in range(2 if scale == "smoke" else 4):
        found = measure_conservation(optimizer="adam" if broken else "sgd", lrs=lrs, r=r, C=C, rng=rng)
        allowed = 2 * found.lr * math.log(C) / math.sqrt(r)
        worst = max(worst, float((found.error / allowed).max()), float((found.after / allowed).max()))
        off, before = max(off, float(found.off_b.max())), min(before, float(found.before.min()))
        numbers |= {
            f"run {run}, lr {lr:g}: error, off-diagonal of A A' before / after": f"{e:.1e}, {b:.3f} / {c:.1e}"
            for lr, e, b, c in zip(lrs, found.error, found.before, found.after, strict=True)
        }
    return Evidence(
        worst <= 1 and off <= 1e-12 and before > 0.01,
        worst,
        "<= 1",
        1.0,
        "2 lr log C: descent loses at least half of lr |gradient|^2 a step while lr is below 1 / curvature",
        len(numbers),
        numbers | {"off-diagonal of B'B after (tolerance 1e-12)": off},
        quantity="largest error, and off-diagonal of A A', over its bound",
    )


def _steady(t: int, zeroed: bool) -> float:
    """Length of Adam's step t + 1 under a gradient of 1, the second moment zeroed after step t or not."""
    one, two = 0.0, 0.0
    for k in range(t + 1):
        two = 0.0 if zeroed and k == t else two
        one, two = 0.9 * one + 0.1, 0.999 * two + 1e-3
    return one / (1 - 0.9 ** (t + 1)) / math.sqrt(two / (1 - 0.999 ** (t + 1)))


@claim(
    "DK-23",
    kind="theorem",
    source="our derivation",
    statement="Adam's first moments turn exactly as the factors do. The diagonal transport of second "
    "moments, by the squares of Q, keeps signs and the sum over the rank index, and is exact for signed "
    "permutations and for gradients with uncorrelated rank coordinates. With a steady gradient, zeroing "
    "second moments alone makes the next step, number t, sqrt((1 - b2^t) / (1 - b2)) times as long.",
    control="second moments left where they are",
)
def moments(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, worst, grown = 10 if scale == "smoke" else 100, 0.0, 0.0

    def move(va: Floats, vb: Floats, q: Floats) -> tuple[Floats, Floats]:
        return (va, vb) if broken else move_second(va, vb, q)

    def averages(ga: Floats, gb: Floats, power: int) -> list[Floats]:
        found = [np.zeros(ga.shape[1:]), np.zeros(gb.shape[1:])]
        for one, two in zip(ga, gb, strict=True):
            found = [0.9 * v + 0.1 * g**power for v, g in zip(found, (one, two), strict=True)]
        return found

    for _ in range(runs):
        r, T = 4, 12
        ga, gb = rng.standard_normal((T, r, 9)), rng.standard_normal((T, 7, r))
        turned = random_rotation(rng, (), r)
        pa, pb = averages(ga, gb, 1)
        qa, qb = averages(turned @ ga, gb @ turned.T, 1)
        here = rotate(pa, pb, turned)
        worst = max(worst, float(np.abs(here[0] - qa).max()), float(np.abs(here[1] - qb).max()))
        signed = np.eye(r)[np.r_[1:r, 0]] * rng.choice([-1.0, 1.0], r)
        va, vb = averages(ga, gb, 2)
        for q, exact in ((signed, averages(signed @ ga, gb @ signed.T, 2)), (turned, None)):
            one, two = move(va, vb, q)
            if exact is not None:
                worst = max(worst, float(np.abs(one - exact[0]).max()), float(np.abs(two - exact[1]).max()))
            worst = max(worst, float(np.abs(one.sum(axis=0) - va.sum(axis=0)).max()), -float(one.min()))
        # uncorrelated rank coordinates: the mean over all sign patterns of them
        size = rng.uniform(0.1, 3, (r, 9))
        pattern = np.array(np.meshgrid(*[[-1.0, 1.0]] * r)).reshape(r, -1).T
        mean = np.mean([(turned @ (s[:, None] * size)) ** 2 for s in pattern], axis=0)
        worst = max(worst, float(np.abs(mean - move(size**2, np.zeros((1, r)), turned)[0]).max()))
        t = int(rng.integers(20, 400))
        lengths = [_steady(t, zeroed=flag) for flag in (False, True)]
        grown = max(grown, abs(lengths[1] / lengths[0] / math.sqrt((1 - 0.999 ** (t + 1)) / 1e-3) - 1))
    return Evidence(
        worst <= 1e-12 and grown <= 1e-11,
        worst,
        0.0,
        1e-12,
        "rounding of a dozen steps",
        runs,
        {"relative error of the growth after zeroing (tolerance 1e-11, 400 steps)": grown},
        quantity="largest difference of a moment",
    )


@claim(
    "DK-23b",
    kind="empirical",
    source="our simulation",
    statement="Under Adam, in the middle of a run, zeroing second moments while first moments stay makes the "
    "next step of BA many times longer and the loss jump; moving them along, or starting both and the step "
    "count afresh, does not.",
    control="second moments moved along in the place of zeroed",
)
def zeroed(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, least, most, fresh = 4 if scale == "smoke" else 20, np.inf, 0.0, 0.0
    jumps: dict[str, list[float]] = {rule: [] for rule in ("transport", "reset", "keep", "zero_second")}
    expected = math.sqrt((1 - 0.999**51) / 0.001)
    for _ in range(runs):
        found = pivot_paths("adam", steps=60, at=50, rng=rng)
        for rule, losses in zip(found.rules, found.losses[1:], strict=True):
            jumps[rule].append(float(losses[51] / found.losses[0, 51]))
        growth = dict(zip(found.rules, found.growth, strict=True))
        least = min(least, growth["transport" if broken else "zero_second"])
        most, fresh = max(most, growth["transport"]), max(fresh, growth["reset"])
    return Evidence(
        least >= expected and most < 2 and least > fresh,
        least,
        f">= {expected:.2f}",
        0.0,
        "the law for a steady gradient at step 51; where the gradient has shrunk it is more",
        runs,
        {"longest step over that without a pivot: moved along, afresh": f"{most:.2f}, {fresh:.2f}"}
        | {
            f"loss after the step over that without, {rule}": float(np.median(v)) for rule, v in jumps.items()
        },
        quantity="next step of BA over that without a pivot, smallest",
    )


@claim(
    "DK-24",
    kind="theorem",
    source="our derivation",
    statement="Under SGD a frozen linear head of C classes keeps the rank of B at C - 1 or less; in the "
    "canonical frame the other r - C + 1 rows of A can be exchanged for any others without a change of BA.",
    control="Adam, whose step is not linear in the gradient",
)
def idle(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, worst, changed = 3 if scale == "smoke" else 20, 0.0, 0.0
    values: Floats = np.zeros(6)
    for _ in range(runs):
        C, r = int(rng.integers(2, 5)), 6
        task = sample_class_task(40, 8, C, 6.0, random_state=rng)
        head, start = random_head(C, 16, rng), lora_start("orthonormal", task.x, r, random_state=rng)
        optimizer, lr = ("adam", 3e-3) if broken else ("sgd", 0.02)
        path = train_lora(task.x, task.y, start, head, optimizer=optimizer, lr=lr, steps=80, record=(80,))
        a, b = rotate(path.a[0], path.b[0], canonical(path.b[0]))
        values = np.asarray(np.linalg.svd(b, compute_uv=False), np.float64)
        worst = max(worst, float(values[C - 1] / values[0]))
        other = np.vstack([a[: C - 1], rng.standard_normal((r - C + 1, 40))])
        changed = max(changed, float(np.linalg.norm(b @ other - b @ a) / np.linalg.norm(b @ a)))
    return Evidence(
        max(worst, changed) <= 1e-11,
        worst,
        0.0,
        1e-11,
        "rounding: at most 1e-14 a step, 80 steps, and rows of length 6",
        runs,
        {
            "relative change of BA with other rows (tolerance 1e-11)": changed,
            "singular values of the last B": ", ".join(f"{v:.2g}" for v in values),
        },
        quantity="singular value C of B over its first",
    )


@claim(
    "DK-25",
    kind="empirical",
    source="our simulation; the abstract promises a benefit",
    statement="Under Adam (d = 768, n = 32, r = 8) the pivot changes the final accuracy, mostly for the "
    "better, by less than a third of what the principal start itself brings, whatever the rotation and the "
    "rule for the moments, and the canonical rotation is no better than a random one.",
    control="a random start in the place of the pivot",
)
def small(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    tasks = 32 if scale == "smoke" else 132
    found = compare_pivots(tasks=tasks, rng=rng)
    gain, spread = found.difference("pca", "orthonormal")
    names = [arm for arm in found.arms if arm not in ("orthonormal", "pca")]
    changes = {name: found.difference("orthonormal" if broken else name) for name in names}
    most = max(abs(mean) + 2 * error for mean, error in changes.values())
    better, doubt = found.difference("canonical_transport", "random_transport")
    numbers: Numbers = {
        "gain of the principal start": f"{gain:+.4f} ({spread:.4f})",
        "canonical less random rotation": f"{better:+.4f} ({doubt:.4f})",
    }
    numbers |= {
        f"{name.replace('_', ', ')}: change (standard error)": f"{mean:+.4f} ({error:.4f})"
        for name, (mean, error) in changes.items()
    }
    return Evidence(
        most < gain / 3 and better - 3 * doubt <= 0,
        most,
        f"< {gain / 3:.4f}",
        gain / 3 - most,
        "two standard errors over paired tasks, which the measured number contains",
        tasks,
        numbers,
        quantity="largest change by a pivot plus two standard errors",
    )
