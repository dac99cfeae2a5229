"""Claims on what the AI brings, against the same person without it: SD-9, SD-9b."""

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.dynamics.claims._oracles import SOURCE, parameters
from porism.sims.dynamics.worlds import draw_models, runge_kutta, vector_field
from porism.theory.dynamics import DelegationModel

__all__ = ["first_gain_then_loss", "one_crossing"]

Floats = NDArray[np.float64]


def _advantage(state: Floats, s0: Floats, a: Floats, q: Floats, t: Floats) -> Floats:
    """Performance less that without AI."""
    alone = 1 - (1 - s0) * np.exp(-a * t)
    return np.asarray((1 - state[:, 1]) * (state[:, 0] - alone) + state[:, 1] * (q - alone))


@claim(
    "SD-9",
    kind="refuted",
    source=SOURCE,
    statement="The AI's advantage changes sign once: a gain first, a loss from then on. (False: with a = "
    ".25, b = 6, k = 5, q = .9 from (.45, .01) it is a gain until .1846, a loss until 2.2002, a gain again "
    "until 6.8190, and a loss for good.)",
    control="a = 1, b = .6, k = 1, q = .7 from (.45, .5)",
)
def one_crossing(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    model = DelegationModel(1, 0.6, 1, 0.7) if broken else DelegationModel(0.25, 6, 5, 0.9)
    start = np.array([0.45, 0.5 if broken else 0.01])
    found = model.sign_changes(*start)
    steps = 2500 if scale == "smoke" else 20_000
    t = np.linspace(0.0, 1.2 * found[-1], steps + 1)
    field = vector_field(model.learn, model.forget, model.speed, model.quality)
    path = runge_kutta(field, start[:, None], float(t[-1]), steps, keep=1)[..., 0]
    gain = _advantage(path, start[0], np.array(model.learn), np.array(model.quality), t) > 0
    turns = t[1:][gain[1:] != gain[:-1]]
    turns = turns[turns > t[1]]
    apart = float(np.abs(turns - found).max()) if len(turns) == len(found) else np.inf
    known = np.array([0.1846128039, 2.2002117585, 6.8189923554])
    count = 20 if scale == "smoke" else 100
    several = 0
    for other in draw_models(count, rng):
        fast = DelegationModel(other.learn / 4, 5 * other.forget, 5 * other.speed, 0.9)
        several += len(fast.sign_changes(rng.uniform(0.3, 0.6), 0.01)) > 1
    return Evidence(
        len(found) > 1 and apart <= t[1] and (broken or float(np.abs(found - known).max()) <= 1e-8),
        float(len(found)),
        "> 1",
        0.0,
        "count; times agree with plain steps of Runge and Kutta to one step",
        1 + count,
        {
            **{f"sign change {number}": float(time) for number, time in enumerate(found, 1)},
            "largest difference from plain steps": apart,
            f"of {count} random worlds like it, with several": several,
        },
        quantity="sign changes",
    )


@claim(
    "SD-9b",
    kind="theorem",
    source=SOURCE,
    statement="For q < 1, a start with s0 < q and d0 > 0 in the basin of low skill gains at first, "
    "performance exceeding s0, and loses for good from some t* on, at most log((1-s0) / (1-q)) / a, ending "
    "at q < 1. From s0 > q the AI never pays.",
    control="starts with s0 > q in place of s0 < q",
)
def first_gain_then_loss(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worlds, steps = (8, 800) if scale == "smoke" else (40, 2000)
    low, high = _starts(worlds, 6, rng)
    n = 6 * worlds
    if broken:
        low, high = high, low
    excess, late, gains, ends, known = -np.inf, 0.0, 0, 0.0, 0.0
    models, s0, d0 = low
    bound = np.array([np.log((1 - s) / (1 - m.quality)) / m.learn for m, s in zip(models, s0, strict=True)])
    times = np.array([m.crossing_time(s, d) or np.nan for m, s, d in zip(models, s0, d0, strict=True)])
    if not np.isnan(times).any():
        excess = float((times - bound).max())
        t, gain = _run(models, s0, d0, 1.5 * bound, steps)
        gains = int((gain[1] > 0).sum())  # right after the start
        last = steps - (gain[::-1] > 1e-12).argmax(axis=0)  # last time of a gain
        late = float(np.abs((t[last, np.arange(n)] - times) / t[1]).max())
        last_state = runge_kutta(vector_field(**parameters(models)), np.array([s0, d0]), 200.0, 2000)
        ends = float(np.abs(1 - last_state[1]).max() + last_state[0].max())
        for args, start, time in (
            ((1, 0.6, 1, 0.7), (0.45, 0.5), 0.31108038),
            ((0.5, 0.3, 2, 0.6), (0.2, 0.7), 1.12114417),
        ):
            known = max(known, abs((DelegationModel(*args).crossing_time(*start) or 0.0) - time))
    models, s0, d0 = high
    _, gain = _run(models, s0, d0, np.array([20.0 / m.learn for m in models]), steps)
    never = float(gain.max())
    return Evidence(
        gains == n and excess <= 0 and late <= 1.5 and ends <= 1e-6 and never <= 1e-9 and known <= 1e-8,
        excess,
        "<= 0",
        0.0,
        "sign; times agree with plain steps of Runge and Kutta to one step and a half",
        2 * n,
        {
            "worlds with a gain at first": gains,
            "largest distance of t* from the last gain seen, steps": late,
            "largest distance from (0, 1) at time 200": ends,
            "largest gain from s0 > q": never,
            "error of two times known to 8 digits": known,
        },
        quantity="largest excess of t* over the bound",
    )


def _starts(worlds: int, each: int, rng: np.random.Generator) -> tuple[tuple, tuple]:
    """Worlds with starts below q and above the border, and the same worlds with starts above q."""
    low, high = [], []
    for model in draw_models(worlds, rng):
        border, q = model.separatrix(), model.quality
        for s, share, place in rng.uniform(0.02, 0.98, (each, 3)):
            least = float(border(s * q))
            low.append((model, s * q, least + share * (1 - least)))
            high.append((model, q + (1 - q) * place, share))
    return tuple(zip(*low, strict=True)), tuple(zip(*high, strict=True))


def _run(
    models: tuple[DelegationModel, ...], s0: tuple, d0: tuple, end: Floats, steps: int
) -> tuple[Floats, Floats]:
    """Times (steps + 1, n) and the advantage then, each world to its own end."""
    values = parameters(models)
    field = vector_field(**values)
    path = runge_kutta(lambda y: end * field(y), np.array([s0, d0]), 1.0, steps, keep=1)
    t = np.linspace(0.0, 1.0, steps + 1)[:, None] * end
    return t, _advantage(path, np.array(s0), values["learn"], values["quality"], t)
