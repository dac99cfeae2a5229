"""Claims on rotary positions: VH-2 to VH-2d."""

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.attention._commutator import norms, on_queries
from porism.sims.attention.worlds import random_mix
from porism.theory.attention import (
    RopeLayout,
    commutant_dimension,
    project_to_commutant,
    rope_commutant_residual,
    rotate,
)

__all__ = ["dimension", "guard_is_the_mean_error", "guard_separates", "more_than_heads"]

SOURCE = "own derivation"
KINDS = ("half", "interleaved")


def _pair(rng: np.random.Generator, trial: int) -> tuple[RopeLayout, RopeLayout, NDArray]:
    """A layout, the one of the other kind, and any mix of one group, of norm 28 on average."""
    r, base = (8, 6, 4)[trial % 3], float(rng.choice([100.0, 10_000.0]))
    kind = KINDS[trial % 2]
    layouts = [RopeLayout.standard(one, r, base) for one in (kind, KINDS[1 - trial % 2])]
    return *layouts, random_mix(1, 4, 3, head_dim=8, kind="any", rng=rng)[0]


@claim(
    "VH-2",
    kind="theorem",
    source=SOURCE,
    statement="A mix of heads and dimensions commutes with the rotation at all positions if, between every "
    "two heads, it is a complex number on each frequency, nothing across frequencies, and anything "
    "on the dimensions that do not turn; mixes that the guard finds off that set do not commute.",
    control="projected for pairs of the other layout",
)
def guard_separates(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, least = 40 if scale == "smoke" else 1000, 0.0, np.inf
    places = np.array([0, 1, 2, 5, 17, 100, 511])
    for trial in range(trials):
        layout, other, mix = _pair(rng, trial)
        x = rng.standard_normal((3, 8))
        fine = project_to_commutant(mix, other if broken else layout)
        apart = float(np.abs(on_queries(fine, layout, x, places)).max())
        worst = max(worst, apart, rope_commutant_residual(fine, layout))
        least = min(least, float(np.abs(on_queries(mix, layout, x, places)).max()))
    return Evidence(
        bool(worst <= 1e-12 and least > 1),
        worst,
        0.0,
        1e-12,
        "rounding: sums of 24 products up to ten",
        trials,
        {"any mix: smallest commutator": float(least)},
        quantity="largest entry of the commutator on random queries, or distance by the guard",
    )


@claim(
    "VH-2b",
    kind="theorem",
    source=SOURCE,
    statement="No other mix commutes: between two heads the commuting ones have dimension r + (d_h - r)^2, "
    "the dimension of a numerical null space, for frequencies in (0, pi) that are different.",
    control="frequencies w and 2 pi - w, or pi, at whole positions",
)
def dimension(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    wrong, cases, found = 0, 0, []
    for kind in KINDS:
        for r in (8, 4, 2):
            for _ in range(1 if scale == "smoke" else 10):
                w = np.sort(rng.uniform(0.1, 3.0, r // 2)) + 0.01 * np.arange(r // 2)
                if broken:
                    w[-1] = 2 * np.pi - w[0] if r > 2 else np.pi
                layout = RopeLayout(kind, r, w)
                # R_t is a power of R_1, so that the mixes which commute with R_1 are all
                R = rotate(np.eye(8), np.ones(8), layout).T
                system = np.kron(R, np.eye(8)) - np.kron(np.eye(8), R.T)
                free = int((np.linalg.svd(system, compute_uv=False) < 1e-9).sum())
                wrong += free != commutant_dimension(8, r)
                found.append(free)
                cases += 1
    return Evidence(
        wrong == 0,
        f"{sorted(set(found))}",
        f"{sorted(commutant_dimension(8, r) for r in (8, 4, 2))}",
        0.0,
        "counts; singular values below 1e-9 are 0, the others are at least 0.009",
        cases,
        {"counts that differ": wrong},
        quantity="dimensions of the null spaces, heads of 8 with r = 8, 4, 2",
    )


@claim(
    "VH-2c",
    kind="theorem",
    source=SOURCE,
    statement="The guard is the error: the root mean square of |R_t N - N R_t| over all positions is sqrt(2) "
    "times the distance of N from the mixes that commute.",
    control="the guard for pairs of the other layout",
)
def guard_is_the_mean_error(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst = 10 if scale == "smoke" else 200, 0.0
    for trial in range(trials):
        kind = KINDS[trial % 2]
        # whole multiples of one frequency: the mean over one period is the mean over all positions
        w = 2 * np.pi * rng.permutation(np.arange(1, 16))[:3] / 32
        layout, other = RopeLayout(kind, 6, w), RopeLayout(KINDS[1 - trial % 2], 6, w)
        mix = random_mix(1, 2, 3, head_dim=8, kind="any", rng=rng)[0]
        mix = project_to_commutant(mix, layout) + float(rng.choice([1e-3, 1.0])) * mix
        error = np.sqrt(np.square(norms(mix, layout, np.arange(32))).mean())
        guard = rope_commutant_residual(mix, other if broken else layout)
        worst = max(worst, abs(error / (2**0.5 * guard) - 1))
    return Evidence(
        bool(worst <= 1e-10),
        float(worst),
        0.0,
        1e-10,
        "rounding, times a thousand where the mix is a thousandth off",
        trials,
        quantity="largest relative difference",
    )


@claim(
    "VH-2d",
    kind="refuted",
    source="a natural reading of 'head-scalar mixing commutes with RoPE'",
    statement="Only mixes of whole heads commute with the rotation. (False: every pair of dimensions may be "
    "mixed by a complex number of its own.)",
    control="a mix with another real matrix on each pair",
)
def more_than_heads(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, least = 20 if scale == "smoke" else 200, 0.0, np.inf
    for trial in range(trials):
        layout = RopeLayout.standard(KINDS[trial % 2], 8, 100.0)
        mix = random_mix(1, 3, 2, layout, 8, "any" if broken else "commuting", rng)[0]
        worst = max(
            worst, float(np.abs(on_queries(mix, layout, rng.standard_normal((2, 8)), np.arange(9))).max())
        )
        heads = np.einsum("gdpd->gp", mix) / 8
        off = mix - np.einsum("gp,ed->gepd", heads, np.eye(8))
        least = min(least, float(np.linalg.norm(off) / np.linalg.norm(mix)))
    return Evidence(
        bool(worst <= 1e-12 and least > 0.1),
        float(worst),
        "more than 0 by the wording",
        1e-12,
        "rounding: sums of 16 products up to ten",
        trials,
        {"distance from mixes of heads, smallest, relative": float(least)},
        quantity="largest entry of the commutator",
    )
