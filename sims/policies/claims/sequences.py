"""Claims on sequences and on training: PO-8 and PO-9."""

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.policies.training import mirror_descent, policy_gradient
from porism.sims.policies.worlds import tilt_world, token_world
from porism.theory.policies import SoftmaxPolicy, fit_coefficients, tilt, token_mix_gap

__all__ = ["mixed_logits", "soft_value_law", "training"]

SOURCE = "our reconstruction"

ROUNDING = 1e-12


@claim(
    "PO-8",
    kind="refuted",
    source="a common way to mix language models at decoding time",
    statement="Mixing next-token logits with the coefficients of the sequence policies gives the optimum of"
    " the mixed reward. (False: the normaliser of a prefix is a soft value, which is not linear "
    "in the reward.)",
    control="rewards that add over positions, with positions drawn independently: there it is true",
)
def mixed_logits(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, found = (100 if scale == "smoke" else 400), []
    for _ in range(trials):
        conditionals, rewards = token_world(3, 3, 2, rng, additive=broken, independent=broken)
        found.append(token_mix_gap(conditionals, rewards, [1.0, 1.0]).tv)
    median = float(np.median(found))
    return Evidence(
        min(found) > ROUNDING and median > 0.05,
        median,
        "0 if it were true",
        0.05,
        "a twentieth of all probability in the wrong place, far above rounding",
        trials,
        {"smallest": min(found), "largest": max(found)},
        quantity="median total variation between optimum and token mix",
    )


@claim(
    "PO-8b",
    kind="theorem",
    source=SOURCE,
    statement="Mixed logits are exact on the last token, and on whole sequences where rewards add over "
    "positions and the reference draws positions independently. In general pi(t | x) = pi0(t | x)"
    " e^((V(x t) - V(x))/beta) with the soft value V(x) = beta log E[e^(r/beta) | x] is the "
    "optimum.",
    control="additive rewards, but a reference whose positions depend on each other",
)
def soft_value_law(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, last, soft, additive = (60 if scale == "smoke" else 400), 0.0, 0.0, []
    for _ in range(trials):
        beta = float(rng.uniform(0.5, 2))
        weights, betas = rng.normal(size=2), rng.uniform(0.5, 2, 2)
        gap = token_mix_gap(*token_world(3, 3, 2, rng), weights, beta, betas)
        last, soft = max(last, gap.last_token), max(soft, gap.corrected_tv)
        world = token_world(3, 3, 2, rng, additive=True, independent=not broken)
        additive.append(token_mix_gap(*world, weights, beta, betas).tv)
    worst = max(last, soft, *additive)
    return Evidence(
        worst <= ROUNDING,
        worst,
        0.0,
        ROUNDING,
        "rounding of logarithms of order ten",
        trials,
        {
            "last token": last,
            "soft values": soft,
            "independent and additive, median": float(np.median(additive)),
        },
        quantity="largest total variation of what is said to be exact",
    )


@claim(
    "PO-9",
    kind="empirical",
    source=SOURCE,
    statement="A policy trained with exact gradients comes as close to the prediction as its optimiser lets"
    " it: policy gradient is far off after thousands of steps, mirror descent gets there in 500, "
    "and 64 values of the reward predict where.",
    control="a reward outside the span of the experts' rewards",
)
def training(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    V, steps = (1000, 1000) if scale == "smoke" else (10_000, 20_000)
    world = tilt_world(V, 4, rng)
    target = world.target + (1.5 * world.beta * rng.normal(size=V) if broken else 0.0)
    samples = rng.integers(0, V, 64)
    fit = fit_coefficients(world.log_ref, world.log_experts, target[samples], samples, world.beta)
    predicted = SoftmaxPolicy(fit.predict())
    gradient = policy_gradient(world.log_ref, target, world.beta, steps)
    mirror = mirror_descent(world.log_ref, target, world.beta, 500)
    error = SoftmaxPolicy(tilt(world.log_ref, target, world.beta)).kl(predicted)
    return Evidence(
        error < 1e-15 and mirror.kl[-1] < 1e-15 and gradient.kl[-1] > 1e-9,
        error,
        0.0,
        1e-15,
        "KL is quadratic: log-ratios are good to 1e-8 or better",
        1,
        {
            f"policy gradient, {steps} steps": float(gradient.kl[-1]),
            "mirror descent, 500 steps": float(mirror.kl[-1]),
            "mirror descent from the prediction": SoftmaxPolicy(mirror.log_policy).kl(predicted),
            "outcomes": V,
        },
        quantity="KL of the prediction from the optimum",
    )
