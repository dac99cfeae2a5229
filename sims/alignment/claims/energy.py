"""Claims on the first step and what reaches it: DK-7 to DK-11."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.alignment.claims._oracles import TokenNet, complex_slope, head_loss, orthonormal
from porism.sims.alignment.fewshot import lora_start, random_head, train_lora
from porism.sims.alignment.spiked import sample_class_task
from porism.theory.alignment import (
    first_step,
    haar_moments,
    head_gradient,
    principal_subspace,
    random_energy,
    token_energy,
)

__all__ = ["adam", "captured_law", "class_means", "norms", "sgd"]

Floats = NDArray[np.float64]
Numbers = dict[str, float | int | str]

SLOPES = 1e-12
"""Rounding of sums of some hundred terms of size 1; complex steps add nothing."""

RATES = (1e-2, 1e-3, 1e-4)


@claim(
    "DK-7",
    kind="theorem",
    source="chain rule; reconstruction",
    statement="From B = 0 the gradient by B is s G A' and that by A is 0, so that A enters only through "
    "projected inputs, |G A'|_F^2 = sum_tu (g_t . g_u)(A x_t . A x_u); one SGD step changes W by "
    "-lr s^2 G A'A and lowers the loss by lr s^2 |G A'|_F^2 + O(lr^2).",
    control="B not 0 at the start",
)
def sgd(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, worst, kernel = 4 if scale == "smoke" else 20, 0.0, 0.0
    shares = np.zeros(len(RATES))
    for _ in range(runs):
        net = TokenNet(rng, 12, 6, 15, 4, 2.0)
        a = orthonormal(rng, 3, 12) * rng.uniform(0.5, 2, (3, 1))
        b = 0.1 * rng.standard_normal((6, 3)) * broken
        g = complex_slope(net.loss, np.zeros((6, 12)))
        step = first_step(g, a, 2.0)
        by_b = complex_slope(partial(net.adapted, a=a), b)
        by_a = complex_slope(partial(net.adapted, b), a)
        worst = max(worst, float(np.abs(by_b - step.grad_b).max()), float(np.abs(by_a).max()))
        energy = float(np.sum((g @ a.T) ** 2))
        kernel = max(kernel, abs(token_energy(net.by_position(), net.x, a) / energy - 1))
        kernel = max(kernel, abs(step.sgd_drop / (4 * energy) - 1))
        moved = 2.0 * ((b - 1e-3 * by_b) @ (a - 1e-3 * by_a) - b @ a)
        worst = max(worst, float(np.abs(moved - 1e-3 * step.update).max()))
        start = net.adapted(b, a)
        drops = [(start - net.adapted(b - lr * by_b, a - lr * by_a)) / (lr * step.sgd_drop) for lr in RATES]
        shares = np.maximum(shares, np.abs(1 - np.array(drops)))
    slow = float((shares[1:] / shares[:-1]).max())
    return Evidence(
        worst <= SLOPES and kernel <= SLOPES and slow <= 0.2,
        worst,
        0.0,
        SLOPES,
        "rounding; gradients by complex steps",
        runs,
        {
            "largest relative difference of two forms of the energy (tolerance 1e-12)": kernel,
            "missing share of the drop at lr 1e-2, 1e-3, 1e-4": ", ".join(f"{v:.1e}" for v in shares),
            "largest ratio at a ten times smaller lr (0.1 for O(lr), tolerance 0.2)": slow,
        },
        quantity="largest difference of an entry of a gradient or update",
    )


@claim(
    "DK-8",
    kind="theorem",
    source="Kingma and Ba 2015; our derivation",
    statement="The first Adam step from B = 0 is B = -lr sign(s G A') up to its epsilon, and lowers the "
    "loss by lr s sum |G A'|_ij + O(lr^2): unlike under SGD, the drop depends on how the rank index is "
    "turned.",
    control="a step of equal length along the gradient, not coordinate by coordinate",
)
def adam(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, worst, off = 4 if scale == "smoke" else 20, 0.0, 0.0
    shares, spread, still = np.zeros(len(RATES)), np.inf, 0.0
    for _ in range(runs):
        task = sample_class_task(40, 12, 3, 6.0, random_state=rng)
        head, a = random_head(3, 8, rng), lora_start("orthonormal", task.x, 4, random_state=rng)
        slope = complex_slope(head_loss(task.x, task.y, np.log(np.full(3, 1 / 3))), np.zeros((3, 40)))
        g = head.T @ slope
        step = first_step(g, a, 2.0)
        drops = []
        for lr in RATES:
            path = train_lora(task.x, task.y, a, head, optimizer="adam", lr=lr, steps=1)
            b = path.b[-1]
            if broken:
                b = -lr * math.sqrt(b.size) * step.grad_b / np.linalg.norm(step.grad_b)
            clear = np.abs(step.grad_b) > 1e-4  # epsilon is 1e-8
            worst = max(worst, float(np.abs(b / lr + np.sign(step.grad_b))[clear].max()))
            after = head_loss(task.x, task.y, np.log(np.full(3, 1 / 3)))(2.0 * head @ b @ a)
            drops.append((math.log(3) - float(after)) / (lr * step.adam_drop))
        shares = np.maximum(shares, np.abs(1 - np.array(drops)))
        turned = [first_step(g, orthonormal(rng, 4, 4) @ a, 2.0) for _ in range(20)]
        sizes = np.array([t.adam_drop for t in turned])
        spread = min(spread, float(sizes.max() / sizes.min()) - 1)
        still = max(still, max(abs(t.sgd_drop / step.sgd_drop - 1) for t in turned))
        off = max(off, abs(2.0 * float(np.abs(g @ a.T).sum()) / step.adam_drop - 1))
    slow = float((shares[1:] / shares[:-1]).max())
    return Evidence(
        worst <= 2e-4 and slow <= 0.2 and max(still, off) <= SLOPES and spread > 0.02,
        worst,
        0.0,
        2e-4,
        "epsilon 1e-8 beside gradients above 1e-4, doubled",
        runs,
        {
            "missing share of the drop at lr 1e-2, 1e-3, 1e-4": ", ".join(f"{v:.1e}" for v in shares),
            "largest ratio at a ten times smaller lr (0.1 for O(lr), tolerance 0.2)": slow,
            "range of the Adam drop over 20 rotations, relative, smallest": spread,
            "change of the SGD drop over them (tolerance 1e-12)": still,
        },
        quantity="largest difference of an entry of B / lr and the sign",
    )


@claim(
    "DK-9",
    kind="statistical",
    source="second moments; reconstruction",
    statement="The mean of |G A'|_F^2 / |G|_F^2 is r / d for random orthonormal rows and r / (3 d) for the "
    "usual Kaiming-uniform start, so that orthonormal rows have three times the first-step energy before any "
    "direction matters.",
    control="the Kaiming start scaled to the norm of orthonormal rows",
)
def norms(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, d, r = (600, 192, 8) if scale == "smoke" else (4000, 768, 8)
    g = rng.standard_normal((5, 3)) @ rng.standard_normal((3, d))
    g /= np.linalg.norm(g)
    row = np.zeros((1, d))
    found: dict[str, Floats] = {}
    for kind in ("orthonormal", "kaiming"):
        starts = (lora_start(kind, row, r, match_norm=broken, random_state=rng) for _ in range(draws))
        found[kind] = np.array([np.sum((g @ a.T) ** 2) for a in starts])
    scores = {}
    for kind, values in found.items():
        error = values.std(ddof=1) / math.sqrt(draws)
        scores[kind] = abs(float(values.mean() - random_energy(d, r, kind)) / float(error))
    ratio = float(found["orthonormal"].mean() / found["kaiming"].mean())
    return Evidence(
        max(scores.values()) <= 5,
        max(scores.values()),
        "<= 5",
        5.0,
        "5 standard errors, two comparisons: false alarm below 2e-6",
        draws,
        {
            "orthonormal: mean / law": f"{found['orthonormal'].mean():.5f} / {r / d:.5f}",
            "Kaiming: mean / law": f"{found['kaiming'].mean():.5f} / {r / 3 / d:.5f}",
            "ratio": ratio,
        },
        quantity="largest deviation, standard errors",
    )


@claim(
    "DK-10",
    kind="statistical",
    source="Muirhead 1982, theorem 1.5.7",
    statement="What a uniformly random r-subspace captures of a fixed direction is Beta(r / 2, (d - r) / 2), "
    "with mean r / d and variance 2 r (d - r) / (d^2 (d + 2)).",
    control="r independent unit rows, not orthogonal to each other",
)
def captured_law(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    from scipy.stats import beta, kstest

    draws = 2000 if scale == "smoke" else 20000
    least, numbers = 1.0, Numbers()
    for d, r in ((12, 6), (30, 4)):
        v = rng.standard_normal(d)
        v /= np.linalg.norm(v)
        rows = rng.standard_normal((draws, d, r))
        q = rows / np.linalg.norm(rows, axis=1, keepdims=True) if broken else np.linalg.qr(rows)[0]
        values = np.sum(np.einsum("d,ndr->nr", v, q) ** 2, axis=1)
        mean, variance = haar_moments(d, r)
        law = beta(r / 2, (d - r) / 2)
        assert abs(law.mean() - mean) < 1e-12
        assert abs(law.var() - variance) < 1e-12
        least = min(least, float(kstest(values, law.cdf).pvalue))
        numbers[f"d {d}, r {r}: mean seen / law, sd seen / law"] = (
            f"{values.mean():.4f} / {mean:.4f}, {values.std():.4f} / {variance**0.5:.4f}"
        )
    return Evidence(
        least >= 1e-5,
        least,
        ">= 1e-5",
        1e-5,
        "two Kolmogorov-Smirnov tests, false alarm 2e-5",
        2 * draws,
        numbers,
        quantity="smallest p value",
    )


@claim(
    "DK-11",
    kind="theorem",
    source="softmax gradient; reconstruction",
    statement="At a zero head whose bias gives the class shares p_c, row c of the gradient is -p_c (m_c - "
    "m), so that the energy in a subspace is sum p_c^2 |P (m_c - m)|^2. With uniform predictions and "
    "unequal classes it is -(p_c m_c - m / C): the mean of the features leaks in, which centred principal "
    "directions do not see.",
    control="the bias left at 0 though the classes are unequal",
)
def class_means(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, worst, off, leak = 5 if scale == "smoke" else 40, 0.0, 0.0, 1.0
    for _ in range(runs):
        task = sample_class_task(15, [4, 9, 20], 3, 6.0, offset=8.0, random_state=rng)
        shares, zero = task.shares, np.zeros((3, 15))
        own = complex_slope(head_loss(task.x, task.y, np.zeros(3) if broken else np.log(shares)), zero)
        worst = max(worst, float(np.abs(own - head_gradient(task.x, task.y)).max()))
        even = complex_slope(head_loss(task.x, task.y, np.zeros(3)), zero)
        worst = max(worst, float(np.abs(even - head_gradient(task.x, task.y, "uniform")).max()))
        basis = principal_subspace(task.x, 3).basis
        means = np.array([task.x[task.y == c].mean(axis=0) for c in range(3)]) - task.x.mean(axis=0)
        energy = float(np.sum(shares[:, None] ** 2 * (means @ basis.T) ** 2))
        off = max(off, abs(first_step(own, basis).sgd_drop / energy - 1))
        # the mean direction, less what the class differences span
        mean = task.x.mean(axis=0)
        taken = np.linalg.qr((means[1:] - means[0]).T)[0]
        mean = mean - taken @ (taken.T @ mean)
        leak = min(leak, float(np.linalg.norm(even @ mean) / (np.linalg.norm(even) * np.linalg.norm(mean))))
        shared = head_gradient(task.x, task.y) @ mean
        off = max(off, float(np.linalg.norm(shared) / np.linalg.norm(mean)))
    return Evidence(
        worst <= SLOPES and off <= 1e-11 and leak > 0.1,
        worst,
        0.0,
        SLOPES,
        "rounding; gradients by complex steps",
        runs,
        {
            "largest relative difference of the energy (tolerance 1e-11)": off,
            "share of the uniform head's gradient along the mean, smallest": leak,
        },
        quantity="largest difference of an entry",
    )
