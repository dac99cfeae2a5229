"""Benchmarks on public score matrices, which are read from the folder PORISM_DATA names."""

import dataclasses
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.pandora.agreement import agreement_estimates
from porism.sims.pandora.experiments import cross_fit
from porism.sims.pandora.real import (
    MMLU_PRO_REFERENCES,
    SOURCES,
    has_data,
    load_dc9,
    load_mmlu_pro,
    load_routellm,
)
from porism.theory.pandora import apgr, baselines, route_batch
from porism.theory.pandora.report import standard_error

__all__ = ["PUBLIC", "NineModels", "nine_models"]

Floats = NDArray[np.float64]

SEEDS = 5
SETTINGS = {
    "kg_joint": (0.002, 0.0027, 0.0035, 0.004, 0.005, 0.007, 0.01, 0.02),
    "kg_sigma": (0.004, 0.007, 0.01, 0.014, 0.017, 0.02, 0.024, 0.03),
    "kg": (0.004, 0.007, 0.01, 0.014, 0.017, 0.02, 0.024, 0.03),
    "refined": (0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3),
    "all": (0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3),
}
"""Costs of a refinement, or margins of the threshold that chooses among the refined or among all."""


@dataclasses.dataclass(frozen=True)
class NineModels:
    """Realised value of every query by rule and setting, one entry a forest."""

    cheap: Floats  # (n,)
    exhaustive: list[Floats]  # (n,) each
    rules: list[dict[str, tuple[Floats, Floats]]]  # refinements (h,) increasing, values (h, n)
    joint: list[Floats]  # (n,) each: all refined, and updated jointly

    def at(self, rule: str, refinements: float) -> Floats:
        """Value of each query at a number of refinements, mean over forests, between settings a mixture."""
        return np.mean([_between(*found[rule], refinements) for found in self.rules], axis=0)

    def share(self, values: Floats) -> tuple[float, float]:
        """Share of the gain of the exhaustive rule, and its standard error, paired by query."""
        gain = np.mean(self.exhaustive, axis=0) - self.cheap
        part = float((values - self.cheap).mean() / gain.mean())
        return part, standard_error(values - self.cheap - part * gain) / float(gain.mean())

    def refinements_for(self, rule: str, share: float) -> float:
        """Refinements at which the mean over forests first keeps a share of the exhaustive gain."""
        low, high = (float(np.mean([found[rule][0][end] for found in self.rules])) for end in (0, -1))
        grid = np.linspace(low, high, 400)
        goal = self.cheap.mean() + share * (np.mean(self.exhaustive) - self.cheap.mean())
        means = np.mean(
            [np.interp(grid, found[rule][0], found[rule][1].mean(1)) for found in self.rules], axis=0
        )
        return float(grid[np.argmax(means >= goal)]) if (means >= goal).any() else float("inf")


@functools.cache
def nine_models(seeds: int = SEEDS) -> NineModels:
    """Route the nine language models of LLMRouter with several forests on the same five folds."""
    matrix = load_dc9()
    y = matrix.scores
    rows = np.arange(len(y))
    cheap, exhaustive, joint, rules = np.empty(0), [], [], []
    for seed in range(seeds):
        fitted = cross_fit(matrix, forest_seed=seed)
        m, q, law = fitted.m_hat, fitted.q_hat, fitted.innovation
        cheap = y[rows, m.argmax(1)]
        exhaustive.append(y[rows, q.argmax(1)])
        joint.append(y[rows, baselines.random(m, q, y.shape[1], innovation=law, rng=0).choice])
        found = {}
        for rule, settings in SETTINGS.items():
            routes = [
                baselines.margin_threshold(m, q, setting, choose=rule)
                if rule in ("refined", "all")
                else route_batch(
                    m,
                    fitted.nu,
                    setting,
                    policy=rule,
                    refined=q,
                    innovation=law if rule == "kg_joint" else None,
                )
                for setting in settings
            ]
            count = np.array([route.n_refine.mean() for route in routes])
            values = np.array([y[rows, route.choice] for route in routes])
            order = np.argsort(count)
            last = joint[-1] if rule == "kg_joint" else exhaustive[-1]
            found[rule] = (
                np.concatenate([[0.0], count[order], [y.shape[1]]]),
                np.vstack([cheap, values[order], last]),
            )
        rules.append(found)
    return NineModels(cheap, exhaustive, rules, joint)


def _between(count: Floats, values: Floats, at: float) -> Floats:
    high = int(np.clip(np.searchsorted(count, at), 1, len(count) - 1))
    share = (at - count[high - 1]) / (count[high] - count[high - 1])
    return (1 - share) * values[high - 1] + share * values[high]


def _missing(task: str, name: str) -> dict[str, Any] | None:
    if has_data(name):
        return None
    source = SOURCES[name]
    note = f"no {source.file}: set PORISM_DATA; from {source.repository}"
    return {"task": task, "peer": source.repository.rsplit("/", 1)[-1], "missing": note}


def _row(task: str, name: str, peer: str, ours: float, theirs: float, **more: Any) -> dict[str, Any]:
    held = {"peer": peer, "peer_version": SOURCES[name].commit, "ours": ours, "theirs": theirs}
    return {"task": task, **held, **more}


def joint_keeps_the_gain() -> dict[str, Any]:
    """Nine models: share of the exhaustive gain that the correlated rule keeps with 3.2 refinements."""
    task = "nine models: joint rule against refining all nine"
    if missing := _missing(task, "dc9"):
        return missing
    found = nine_models()
    share, se = found.share(found.at("kg_joint", 3.2))
    need = found.refinements_for("kg_joint", 0.9)
    each = [_between(*rules["kg_joint"], 3.2).mean() for rules in found.rules]
    task += f": {100 * share:.1f} % ± {100 * se:.1f} of the gain at 3.2; 90 % needs {need:.2f} refinements"
    spread = float(np.std(each, ddof=1))
    return _row(
        task, "dc9", "exhaustive", need, 9.0, ratio=9.0 / need, share=share, se=se, over_forests=spread
    )


def threshold_needs_more() -> dict[str, Any]:
    """Nine models: refinements for 93 % of the exhaustive gain beside the threshold among all."""
    task = "nine models: refinements for 93 % of the exhaustive gain, threshold among all"
    if missing := _missing(task, "dc9"):
        return missing
    found = nine_models()
    ours, theirs = (found.refinements_for(rule, 0.93) for rule in ("kg_joint", "all"))
    return _row(
        f"{task}: {ours:.2f} against {theirs:.2f}", "dc9", "threshold", ours, theirs, ratio=theirs / ours
    )


def _quality(rule: str, peer: str, points: tuple[float, ...]) -> Any:
    def benchmark() -> dict[str, Any]:
        task = f"nine models: {rule} against the threshold among {peer}"
        if missing := _missing(task, "dc9"):
            return missing
        found = nine_models()
        rows = []
        for at in points:
            ours, theirs = found.at(rule, at), found.at(peer, at)
            rows.append(
                (at, ours.mean(), theirs.mean(), (ours - theirs).mean(), standard_error(ours - theirs))
            )
        worst = min(rows, key=lambda row: row[3])
        task += ": " + ", ".join(f"{gap:+.4f} ± {se:.4f} at {at:g}" for at, _, _, gap, se in rows)
        return _row(
            task, "dc9", "threshold", float(worst[1]), float(worst[2]),
            difference=float(worst[3]), se=float(worst[4]),
        )  # fmt: skip

    benchmark.__name__ = f"nine models, {rule} against threshold among {peer}"
    benchmark.__doc__ = f"Quality of {rule} and of the threshold among {peer} at equal refinements."
    return benchmark


def on_top_of_neighbours() -> dict[str, Any]:
    """Nine models: nearest neighbours alone, and refinements on top of them."""
    task = "nine models: refinements on top of nearest neighbours"
    if missing := _missing(task, "dc9"):
        return missing
    matrix = load_dc9()
    fitted = cross_fit(matrix, cheap="knn")
    rows = np.arange(len(matrix.scores))
    routes = route_batch(
        fitted.m_hat, fitted.nu, 0.007, policy="kg_joint", refined=fitted.q_hat, innovation=fitted.innovation
    )
    ours = matrix.scores[rows, routes.choice]
    theirs = matrix.scores[rows, fitted.m_hat.argmax(1)]
    gap, se = float((ours - theirs).mean()), standard_error(ours - theirs)
    task += f": {gap:+.4f} ± {se:.4f} for {routes.n_refine.mean():.2f} refinements"
    return _row(
        task, "dc9", "nearest neighbours", float(ours.mean()), float(theirs.mean()), difference=gap, se=se
    )


def _recovered(subset: str) -> Any:
    def benchmark() -> dict[str, Any]:
        task = f"gap recovered between a weak and a strong model, {subset}"
        if missing := _missing(task, "routellm"):
            return missing
        matrix = load_routellm()
        assert matrix.subset is not None
        part = matrix.rows(np.char.startswith(matrix.subset, subset))
        weak, strong = part.scores.T
        random, oracle = apgr(np.zeros(len(weak)), weak, strong), apgr(strong - weak, weak, strong)
        fitted = cross_fit(part)
        cheap, refined = (apgr(x[:, 1] - x[:, 0], weak, strong) for x in (fitted.m_hat, fitted.q_hat))
        task += f": random {random:.5f}, cheap {cheap:.3f}, refined {refined:.3f}, oracle {oracle:.5f}"
        return _row(task, "routellm", "random", refined, random, ratio=refined / random, oracle=oracle)

    benchmark.__name__ = f"gap recovered, {subset}"
    benchmark.__doc__ = f"Average share of the gap on {subset}, of random, cross-fitted and perfect routers."
    return benchmark


def calibrated_estimates_mislead() -> dict[str, Any]:
    """MMLU-Pro: routing by calibrated estimates from agreement beside routing by cheap ones."""
    task = "MMLU-Pro, 8 models, estimates from agreement"
    if missing := _missing(task, "mmlu_pro"):
        return missing
    found = agreement_estimates(load_mmlu_pro(), MMLU_PRO_REFERENCES)
    rules = {row.rule: row for row in found.chosen}
    told = [f"{row.rule} {row.predicted:.3f} promised, {row.realised:.4f}" for row in rules.values()]
    row = rules["exhaustive"]
    slope = found.fitted.report.slope
    task += f" (slopes {slope.min():.3f} to {slope.max():.3f}): " + "; ".join(told)
    return _row(
        task, "mmlu_pro", "cheap", row.realised, rules["cheap"].realised, difference=row.gain, se=row.gain_se,
        boosted=rules["exhaustive, boosted"].gain, boosted_se=rules["exhaustive, boosted"].gain_se,
    )  # fmt: skip


PUBLIC = [
    joint_keeps_the_gain,
    threshold_needs_more,
    _quality("kg_sigma", "all", (3.3, 3.5, 3.7)),
    _quality("kg_joint", "refined", (3.5,)),
    on_top_of_neighbours,
    _recovered("mmlu"),
    _recovered("gsm8k"),
    calibrated_estimates_mislead,
]
