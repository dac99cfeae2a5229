"""Policies on a matrix of scores, for `porism route eval`, and the pictures of `porism route`."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.pandora import Innovation, Routes, baselines, route_batch
from porism.theory.pandora.report import standard_error

if TYPE_CHECKING:
    from porism.sims.pandora import ScoreMatrix
    from porism.theory.pandora import FittedRouter

Floats = NDArray[np.float64]


def own(fitted: "FittedRouter", matrix: "ScoreMatrix") -> bool:
    """Whether the router was fitted to these scores.

    Recognised by shape and by the report: the residuals of its lines of least squares are orthogonal to the
    estimates, and what was chosen realises what it says.
    """
    y, known, report = matrix.scores, matrix.known, fitted.report
    whole = known.all(1)
    if y.shape != fitted.m_hat.shape or int(whole.sum()) != report.n_queries:
        return False
    told = {row.rule: row.realised for row in report.chosen}
    for rule, x, slope, intercept in (
        ("exhaustive", fitted.q_hat, report.slope, report.intercept),
        ("cheap", fitted.m_hat, report.slope_cheap, report.intercept_cheap),
    ):
        rest = np.where(known & np.isfinite(slope), y - intercept - slope * x, 0.0)  # NaN for a constant
        rest, unit = rest / (np.abs(y).max() or 1.0), x / (np.abs(x).max() or 1.0)
        if max(np.abs(rest.mean(0)).max(), np.abs((rest * unit).mean(0)).max()) > 1e-9:
            return False
        if rule in told:
            realised = y[whole, x[whole].argmax(1)].mean()
            if not math.isclose(realised, told[rule], rel_tol=1e-9, abs_tol=1e-9):
                return False
    return True


def rival(net: Floats, outside: float = -math.inf) -> Floats:
    """The best net mean among all others and the outside option, shape (n, K)."""
    ordered = np.sort(np.pad(net, ((0, 0), (1, 0)), constant_values=-math.inf), axis=1)
    return np.maximum(np.where(net == ordered[:, -1:], ordered[:, -2:-1], ordered[:, -1:]), outside)


def judge(
    fitted: "FittedRouter",
    y: Floats,
    m: Floats,
    q: Floats,
    policies: Sequence[str],
    costs: Sequence[Floats],
    prices: Floats,
    lam: float,
    margins: Sequence[float],
    picks: Sequence[int],
    seed: int,
) -> dict[str, Any]:
    """One row a policy and setting, and what exhaustive gains over cheap."""
    law = Innovation(fitted.A, fitted.B)
    nu = fitted.nu_at(m) if fitted.nu_table is not None else fitted.nu
    rows = np.arange(len(y))

    def value(routes: Routes) -> Floats:
        return y[rows, routes.choice]

    def tasks(policy: str) -> Iterator[tuple[dict[str, Any], Routes]]:
        if policy == "cheap":
            yield {}, baselines.cheap(m, 0.0, prices, lam)
        elif policy == "oracle":
            yield {}, baselines.oracle(y, prices, lam)
        elif policy == "single_best":
            yield {}, baselines.single_best(y, prices, lam)
        else:
            for cost in costs:
                setting = {"cost": float(cost[0]) if np.ptp(cost) == 0 else cost.tolist()}
                if policy == "exhaustive":
                    yield setting, baselines.exhaustive(m, q, cost, prices, lam)
                elif policy.startswith("threshold"):
                    choose = "all" if policy == "threshold_all" else "refined"
                    for eps in margins:
                        routes = baselines.margin_threshold(m, q, eps, choose, cost, prices, lam)
                        yield setting | {"eps": float(eps)}, routes
                elif policy.startswith("random"):
                    joint = law if policy == "random_joint" else None
                    for k in picks:
                        rng = np.random.default_rng(seed)
                        routes = baselines.random(m, q, k, cost, prices, lam, innovation=joint, rng=rng)
                        yield setting | {"picks": int(k)}, routes
                else:
                    joint = law if policy == "kg_joint" else None
                    routes = route_batch(m, nu, cost, prices, lam, policy, refined=q, innovation=joint)
                    yield setting, routes

    cheap = value(baselines.cheap(m, 0.0, prices, lam))
    best = value(baselines.exhaustive(m, q, 0.0, prices, lam))
    total = float((best - cheap).mean())
    found = []
    for policy in policies:
        for setting, routes in tasks(policy):
            got = value(routes)
            gain = float((got - cheap).mean())
            spend = float(routes.spend.mean())
            found.append(
                {"policy": policy}
                | setting
                | {
                    "setting": " ".join(
                        f"{key}={','.join(f'{x:g}' for x in np.atleast_1d(item))}"
                        for key, item in setting.items()
                    ),
                    "refinements": float(routes.n_refine.mean()),
                    "quality": float(got.mean()),
                    "spend": spend,
                    "net": float(got.mean()) - lam * spend,
                    "gain": gain,
                    "gain_se": standard_error(got - cheap),
                    "share": gain / total if total > 0 else None,
                }
            )
    return {
        "cheap": float(cheap.mean()),
        "exhaustive": float(best.mean()),
        "exhaustive_gain": total,
        "exhaustive_gain_se": standard_error(best - cheap),
        "rows": found,
    }


def draw_curve(ax: Any, found: dict[str, Any]) -> None:
    """Quality against refinements, a line a policy."""
    for policy in dict.fromkeys(row["policy"] for row in found["rows"]):
        at = sorted((row["refinements"], row["quality"]) for row in found["rows"] if row["policy"] == policy)
        if policy in ("oracle", "single_best"):
            ax.axhline(at[0][1], ls=":", color="0.5")
            ax.annotate(policy, (1, at[0][1]), xycoords=("axes fraction", "data"), ha="right", va="bottom")
        else:
            ax.plot(*zip(*at, strict=True), "o-", label=policy)
    ax.set_xlabel("refinements a query")
    ax.set_ylabel("mean quality")
    if ax.lines and ax.get_legend_handles_labels()[0]:
        ax.legend()


def draw_bidder(figure: Any, found: list[dict[str, Any]], name: str) -> None:
    """Changes against the swept parameter, a panel a price."""
    words = list(dict.fromkeys(row["price"] for row in found))
    axes = figure.subplots(1, len(words), sharey=True, squeeze=False)[0]
    for ax, word in zip(axes, words, strict=True):
        rows = [row for row in found if row["price"] == word]
        for key in ("dU", "dA", "dW"):
            style = "--" if key == "dW" else "-"  # dW may lie on dU
            ax.plot([row[name] for row in rows], [row[key] for row in rows], style, marker=".", label=key)
        ax.axhline(0.0, color="0.5", lw=0.8)
        ax.set_title(f"{word} price")
        ax.set_xlabel(name)
    axes[0].set_ylabel("change a query")
    axes[0].legend()
