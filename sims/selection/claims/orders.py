"""Claims on finite steps: DS-3 on orders, DS-4 on shares, DS-5 on shares and removal."""

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.selection._estimates import ORDERS, gradients_along, pooled, quadrature_errors
from porism.sims.selection._scores import flat, jacobian, unflat, val_curvature
from porism.sims.selection.claims.scores import SOURCE
from porism.sims.selection.worlds import improvement, linear_world, removal_effects, tanh_world
from porism.theory.selection import dual_scores

__all__ = ["path_scores", "removal", "slopes", "two_second_orders"]

Floats = NDArray[np.float64]


@claim(
    "DS-3",
    kind="statistical",
    source=SOURCE,
    statement="As lr falls, the relative error of the first-order improvement falls like lr, those of the "
    "Hessian, of the trapezoid and of the midpoint of v along the step like lr^2, and the trapezoid's is "
    "twice the midpoint's: second order needs no Hessian.",
    control="v at theta in place of the trapezoid",
)
def slopes(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    nets, rates = 6 if scale == "smoke" else 40, 2.0 ** -np.arange(5, 10)
    found: dict[str, list[float]] = {name: [] for name in ORDERS}
    ratios = []
    for _ in range(nets):
        world = tanh_world(rng=rng)
        J = jacobian(world)
        errors = np.array([quadrature_errors(world, float(lr), J) for lr in rates])
        if broken:
            errors[:, 2] = errors[:, 0]
        ratios.append(errors[-1, 2] / errors[-1, 3])
        for name, column in zip(ORDERS, np.abs(errors).T, strict=True):
            found[name].append(float(np.polyfit(np.log(rates), np.log(column), 1)[0]))
    middle = {name: float(np.median(values)) for name, values in found.items()}
    ratio = float(np.median(ratios))
    off = max(abs(value - (1 if name == "first" else 2)) for name, value in middle.items())
    return Evidence(
        off <= 0.1 and abs(ratio + 2) <= 0.1,
        off,
        0.0,
        0.1,
        "the next order changes a slope by about 1.4 lr times a ratio of derivatives below 2, at lr <= 1/32; "
        "a median over nets, as a leading term may vanish in one",
        nets,
        {**{f"slope, {name}": value for name, value in middle.items()}, "trapezoid over midpoint": ratio},
        quantity="largest distance of a median slope from 1, 2, 2, 2",
    )


@claim(
    "DS-4",
    kind="theorem",
    source=SOURCE,
    statement="With v-bar = integral over t in [0, 1] of grad L(theta - t lr m * gbar), the rows lr w_i g_i "
    ". (m * v-bar)/n and the columns lr m_j gbar_j v-bar_j both sum to the improvement that the step "
    "brings, exactly; one node is enough where L is quadratic.",
    control="v at theta only",
)
def path_scores(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    nets, lr, order = 6 if scale == "smoke" else 40, 1.0, "first" if broken else "path"
    gaps, five, sides, quadratic = 0.0, 0.0, 0.0, 0.0
    for _ in range(nets):
        world = tanh_world(rng=rng)
        w = rng.uniform(0, 1.5, world.n)
        m = (rng.random(len(flat(world.params))) < 0.7).astype(float)
        start = float(world.val_loss(world.params))
        for nodes in (5, 24):
            found = dual_scores(
                *world.arguments, weights=w, mask=unflat(m, world.params), order=order, lr=lr, nodes=nodes
            )
            gap = abs((found.predicted or 0.0) - (found.actual or 0.0)) / start
            gaps, five = (max(gaps, gap), five) if nodes == 24 else (gaps, max(five, gap))
            sides = max(sides, found.imbalance)
        X, y, theta = rng.normal(size=(6, 3)), rng.normal(size=6), rng.normal(size=3)
        plain = linear_world(X, y, X[:4] + 1, y[:4], theta)
        one = dual_scores(*plain.arguments, order=order, lr=0.3, nodes=1)
        gap = abs((one.predicted or 0.0) - (one.actual or 0.0))
        quadratic = max(quadratic, gap / float(plain.val_loss(plain.params)))
    return Evidence(
        max(gaps, quadratic, sides) <= 1e-12,
        gaps,
        0.0,
        1e-12,
        "rounding of the two losses; 24 Gauss-Legendre nodes are exact for an entire path of degree 47",
        nets,
        {
            "5 nodes, over L (reported)": five,
            "quadratic L with 1 node (tolerance 1e-12)": quadratic,
            "rows against columns (tolerance 1e-12)": sides,
        },
        quantity="largest gap to the actual improvement over L, lr = 1, 24 nodes",
    )


@claim(
    "DS-5",
    kind="theorem",
    source=SOURCE,
    statement="Second order has two different rows. For quadratic L the rows of v - (lr/2) H gbar are "
    "shares: they sum to the improvement. Those of v - lr H gbar, the gradient at the end point, are its "
    "derivatives in the weights: removing sample i costs its row plus lr^2 g_i . H g_i/(2 n^2), and they "
    "sum to the improvement less lr^2 gbar . H gbar/2.",
    control="each used for the other task",
)
def two_second_orders(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, worst = 5 if scale == "smoke" else 50, dict.fromkeys(("shares", "removal", "total"), 0.0)
    for _ in range(draws):
        n, d, lr = int(rng.integers(3, 9)), 3, float(rng.uniform(0.1, 0.6))
        X, y, A, b, theta = (rng.normal(size=s) for s in ((n, d), n, (5, d), 5, d))
        world = linear_world(X, y, A, b, theta)
        names = ("endpoint", "path") if broken else ("path", "endpoint")
        shares, ends = (
            np.asarray(dual_scores(*world.arguments, order=order, lr=lr, nodes=1).rows) for order in names
        )
        J = jacobian(world)
        curved = np.array([g @ val_curvature(world, g) for g in J])
        mean = J.mean(0)
        gain, size = improvement(world, lr), float(world.val_loss(world.params))
        size += abs(gain)
        bend = lr**2 / 2 * float(mean @ val_curvature(world, mean))
        removed = removal_effects(world, lr)
        worst["shares"] = max(worst["shares"], float(abs(shares.sum() - gain) / size))
        gap = np.abs(ends + lr**2 / (2 * n**2) * curved - removed).max() / size
        worst["removal"] = max(worst["removal"], float(gap))
        worst["total"] = max(worst["total"], float(abs(ends.sum() - (gain - bend)) / size))
    return Evidence(
        max(worst.values()) <= 1e-12,
        max(worst.values()),
        0.0,
        1e-12,
        "rounding of some hundred products, over L and the improvement",
        draws,
        {
            "sum of shares off the improvement": worst["shares"],
            "end-point rows and curvature off the removal": worst["removal"],
            "sum of end-point rows off the improvement less the curvature": worst["total"],
        },
        quantity="largest gap over L",
    )


@claim(
    "DS-5b",
    kind="empirical",
    source="our own trial",
    statement="In small tanh nets removal effects are told by the gradient at the end point with less than "
    "two thirds of the error of shares, and with less than a third of that of first-order rows, at lr = "
    "0.5 and 2 (errors pooled over nets).",
    control="half of the way in place of the end point",
)
def removal(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    nets = 4 if scale == "smoke" else 25
    worlds = [tanh_world(n=48, rng=rng) for _ in range(nets)]
    numbers: dict[str, float] = {}
    ratio, against = 0.0, 0.0
    for lr in (0.5, 2.0):
        errors = pooled(worlds, lr)
        end = errors["shares" if broken else "end point"]
        ratio, against = max(ratio, end / errors["first"]), max(against, end / errors["shares"])
        numbers |= {f"{name}, lr = {lr:g}": value for name, value in errors.items()}
    numbers["end point over shares, larger of the two"] = against
    drift = [
        abs(float(J.mean(0) @ gradients_along(world, 0.5, J, (1.0,))[0]) * 0.5 / improvement(world, 0.5) - 1)
        for world in worlds
        for J in (jacobian(world),)
    ]
    numbers["sum of end-point rows off the improvement, median, lr = 0.5"] = float(np.median(drift))
    return Evidence(
        ratio < 1 / 3 and against < 2 / 3,
        ratio,
        "below 1/3",
        0.0,
        "a trend over nets, no tolerance",
        nets,
        numbers,
        quantity="pooled error of end-point rows over that of first-order rows",
    )
