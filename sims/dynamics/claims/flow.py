"""Claims on the flow itself: SD-1 to SD-4."""

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.dynamics.claims._oracles import SOURCE, parameters
from porism.sims.dynamics.worlds import draw_models, runge_kutta, vector_field
from porism.theory.dynamics import DelegationModel, PhasePlane

__all__ = ["fixed_delegation", "no_cycles", "order", "rest"]


@claim(
    "SD-1",
    kind="theorem",
    source=SOURCE,
    statement="If delegation d stays fixed, skill tends to s* = a(1-d) / (a(1-d) + b d) exponentially, at "
    "the rate a(1-d) + b d, from either side.",
    control="delegated work does not let skill decay, b = 0: then s* = 1 for every d < 1",
)
def fixed_delegation(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    from scipy.integrate import solve_ivp

    n = 200 if scale == "smoke" else 5000
    a, b = 2.0 ** rng.uniform(-2, 2, (2, n))
    d, s0 = rng.uniform(size=(2, n))
    decay = 0.0 if broken else b
    t = np.linspace(0.0, 3.0, 13)
    run = solve_ivp(
        lambda t, s: a * (1 - d) * (1 - s) - decay * d * s,
        (0.0, 3.0),
        s0,
        method="DOP853",
        t_eval=t,
        rtol=1e-12,
        atol=1e-13,
    )
    worst = 0.0
    for i in range(n):
        law = DelegationModel(a[i], b[i], 1.0, 0.5).fixed_delegation(s0[i], d[i], t)
        worst = max(worst, float(np.abs(run.y[i] - law).max()))
    return Evidence(
        worst <= 1e-10,
        worst,
        0.0,
        1e-10,
        "integrator: 1e-12 a step on a contracting flow, some ten steps",
        n,
        quantity="largest error of skill over 13 times",
    )


@claim(
    "SD-2",
    kind="theorem",
    source=SOURCE,
    statement="Under law A with 0 < q < 1 full skill (1, 0) and full delegation (0, 1) attract, with "
    "eigenvalues -a, -k(1-q) and -b, -kq, and between them lies one saddle (q, d) with d = a(1-q) / (a(1-q) "
    "+ bq), trace -ab / (a(1-q) + bq) and determinant -abkq(1-q) / (a(1-q) + bq). For q > 1 there is no "
    "saddle inside, and full skill no longer attracts.",
    control="delegation rises where skill exceeds the AI's quality",
)
def rest(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    models = draw_models(8 if scale == "smoke" else 40, rng)
    worst, right = 0.0, 0
    for model in models:
        a, b, k, q = model.learn, model.forget, model.speed, model.quality
        bottom = a * (1 - q) + b * q
        field = vector_field(a, b, k, q, sign=-1.0 if broken else 1.0)
        plane = PhasePlane(lambda s, d, field=field: field(np.stack([s, d])))  # differences, no formula
        found = plane.equilibria(64)
        points = np.array([e.point for e in found])
        expected = np.array([[0.0, 1.0], [q, a * (1 - q) / bottom], [1.0, 0.0]])
        right += len(found) == 3 and [e.kind for e in found] == ["stable node", "saddle", "stable node"]
        if len(found) == 3:
            trace, det = -a * b / bottom, -a * b * k * q * (1 - q) / bottom
            values = np.array([e.eigenvalues for e in found])
            nodes = np.sort([[-b, -k * q], [-a, -k * (1 - q)]])
            off = (points - expected, values[[0, 2]] - nodes, values[1].sum() - trace, values[1].prod() - det)
            worst = max(worst, *(float(np.abs(part).max()) for part in off))
            closed = np.array([e.eigenvalues for e in model.equilibria()])
            worst = max(worst, float(np.abs(closed - values).max()))
        field = vector_field(a, b, k, q + 0.8, sign=-1.0 if broken else 1.0)  # q + .8 > 1
        beyond = PhasePlane(lambda s, d, field=field: field(np.stack([s, d]))).equilibria(64)
        kinds = {tuple(e.point.round(6).tolist()): e.kind for e in beyond}
        right += set(kinds) == {(0.0, 1.0), (1.0, 0.0)} and kinds[1.0, 0.0] == "saddle"
    return Evidence(
        right == 2 * len(models) and worst <= 1e-9,
        worst,
        0.0,
        1e-9,
        "differences of fourth order, 1e-12 each, eigenvalues of simple type",
        2 * len(models),
        {"worlds with the points and kinds stated": right},
        quantity="largest error of a point, an eigenvalue, a trace or a determinant",
    )


@claim(
    "SD-3",
    kind="theorem",
    source="Bendixson and Dulac; " + SOURCE,
    statement="There are no cycles: divided by d(1-d) the velocity of law A has divergence -(a(1-d) + bd) / "
    "(d(1-d)) < 0, that of law B has -(a(1-d) + bd) - k < 0 as it is, and every orbit from inside comes to "
    "rest.",
    control="law A without the weight 1 / (d(1-d))",
)
def no_cycles(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    count, each, cells = (5, 30, 40) if scale == "smoke" else (20, 100, 100)
    top, off, moving = -np.inf, 0.0, 0.0
    centres = (np.arange(cells) + 0.5) / cells
    for law in ("replicator", "logistic"):
        models = draw_models(count, rng, law)
        if law == "replicator":  # trust so fast that the plain divergence k q - a is positive near (0, 0)
            models[0] = DelegationModel(1.0, 1.0, 6.0, 0.5)
        for model in models:
            plain = broken or law == "logistic"

            def weight(s: np.ndarray, d: np.ndarray, plain: bool = plain) -> np.ndarray:
                return np.ones_like(d) if plain else 1 / (d * (1 - d))

            found = model.plane().dulac(weight, cells)
            rate = model.learn * (1 - centres) + model.forget * centres
            law_ = -rate / (centres * (1 - centres)) if law == "replicator" else -rate - model.speed
            top, off = max(top, found), max(off, float(abs(found / law_.max() - 1)))
        starts = rng.uniform(0.01, 0.99, (2, count * each))
        field = vector_field(**parameters(models, each))
        end = runge_kutta(field, starts, 300.0, 2500)
        moving = max(moving, float(np.abs(field(end)).max()))
    return Evidence(
        top < 0 and off <= 1e-6 and moving <= 1e-6,
        top,
        "< 0",
        0.0,
        "a sign; the value agrees with the formula to 1e-6, by differences",
        2 * count,
        {"relative error of the formula": off, "largest speed at time 300 (tolerance 1e-6)": moving},
        quantity="largest divergence on a grid",
    )


@claim(
    "SD-4",
    kind="theorem",
    source="Kamke's condition, Hirsch and Smith (2005); " + SOURCE,
    statement="The flow keeps order: who starts with less skill and more delegation stays behind. So the "
    "border of the basins is an increasing curve d_sep(s), and skill is lost exactly from d > d_sep(s).",
    control="delegation rises where skill exceeds the AI's quality",
)
def order(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    pairs, steps, each = (30, 1000, 20) if scale == "smoke" else (300, 2000, 100)
    violated: dict[str, int] = {}
    wrong, judged, rises = 0, 0, True
    for law in ("replicator", "logistic"):
        models = draw_models(pairs, rng, law)
        ahead = np.stack([rng.uniform(0.05, 0.95, pairs), rng.uniform(0.05, 0.95, pairs)])
        step = rng.uniform(0.02, 0.5, (2, pairs)) * np.stack([ahead[0], 1 - ahead[1]])
        behind = ahead + np.stack([-step[0], step[1]])
        field = vector_field(**parameters(models, 2), sign=-1.0 if broken else 1.0)
        both = np.stack([ahead, behind], axis=2).reshape(2, -1)
        path = runge_kutta(field, both, 40.0, steps, keep=5).reshape(-1, 2, pairs, 2)
        gap = path[..., 0] - path[..., 1]  # ahead less behind: skill >= 0, delegation <= 0
        violated[law] = int(((gap[:, 0] < -1e-9) | (gap[:, 1] > 1e-9)).any(axis=0).sum())
        some = models[:3] if scale == "smoke" else models[:10]
        starts = rng.uniform(0.0, 1.0, (2, len(some) * each))
        last = runge_kutta(vector_field(**parameters(some, each)), starts, 200.0, 2000)
        for number, model in enumerate(some):
            border, mine = model.separatrix(), slice(number * each, (number + 1) * each)
            rises &= bool((np.diff(border.points, axis=0) >= 0).all())
            low = border(starts[0, mine]) < starts[1, mine]
            ends = np.array([e.point[0] for e in model.equilibria()])
            wrong += int((low != (last[0, mine] < ends[1])).sum())
            judged += each
    return Evidence(
        not any(violated.values()) and wrong == 0 and rises,
        float(sum(violated.values())),
        0.0,
        0.0,
        "count; a violation exceeds 1e-9, the error of a step",
        2 * pairs,
        {f"of them under the {law} law": count for law, count in violated.items()}
        | {
            "starts on the wrong side of d_sep": wrong,
            "starts judged": judged,
            "d_sep increases": str(rises),
        },
        quantity="ordered pairs that lose their order",
    )
