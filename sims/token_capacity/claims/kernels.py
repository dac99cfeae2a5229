"""Claims on the kernel of a shared map, by position and tied: TC-1, TC-1b."""

from functools import partial

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.token_capacity.claims._oracles import (
    ROUNDING,
    SOURCE,
    complex_slope,
    least_direction,
    matrix_rank,
    outside,
    weight_gradients,
)
from porism.sims.token_capacity.worlds import cyclic_orbit, symmetric_net
from porism.theory.token_capacity import effective_rank, position_ntk

__all__ = ["decomposition", "not_monotone"]


@claim(
    "TC-1",
    kind="theorem",
    source=SOURCE,
    statement="The gradient of a map that all positions share is the sum over t of g_t x_t'. Its kernel "
    "block at t is K_t = (X_t X_t') o (G_t G_t'), the kernel that training uses is that of the summed "
    "gradients, and K_S <= |S| (sum over S of K_t), so that the range of the tied kernel lies in that of "
    "the untied one.",
    control="the factor |S| left out",
)
def decomposition(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws = 40 if scale == "smoke" else 400
    off, least, residual = 0.0, np.inf, 0.0
    for _ in range(draws):
        N, T = int(rng.integers(9, 15)), int(rng.integers(2, 5))
        d_in, d_out = (int(k) for k in rng.integers(1, 3, 2))
        X, G = rng.standard_normal((N, T, d_in)), rng.standard_normal((N, T, d_out))
        J = weight_gradients(X, G)
        blocks, tied = np.einsum("nta,mta->tnm", J, J), J.sum(1) @ J.sum(1).T
        for own, found in ((blocks, position_ntk(X, G)), (tied, position_ntk(X, G, tied=True))):
            off = max(off, float(np.abs(own - found).max() / np.abs(own).max()))
        untied = blocks.sum(0)
        least = min(least, least_direction((1 if broken else T) * untied - tied))
        residual = max(residual, outside(J.sum(1), np.concatenate(list(J.swapaxes(0, 1)), axis=1)))
    for _ in range(draws // 20):
        net = symmetric_net(rng, places=1.0)
        ids = cyclic_orbit(rng.permutation(8))
        X, G = net.watch(ids)
        true = complex_slope(partial(net.value, ids), net.weight).T
        own = weight_gradients(X, G).sum(1)
        off = max(off, float(np.abs(own - true).max() / np.abs(true).max()))
    return Evidence(
        least >= -1e-12 and off <= 1e-12 and residual <= 1e-10,
        least,
        ">= 0",
        1e-12,
        ROUNDING + ", some 100 products an entry",
        draws,
        {
            "relative difference from outer products and from complex steps (tolerance 1e-12)": off,
            "range of the tied kernel outside the untied one (tolerance 1e-10)": residual,
        },
        quantity="least eigenvalue of |S| sum K_t - K_S over the largest",
    )


@claim(
    "TC-1b",
    kind="refuted",
    source="a natural reading of the abstract",
    statement="More positions never lower the rank of the kernel. (False for the tied kernel that training "
    "uses: with J_2 = -J_1 its rank falls from N to 0 when the second position is added.)",
    control="J_2 = J_1",
)
def not_monotone(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, fell, largest, before = 10 if scale == "smoke" else 100, 0, 0.0, 0
    for _ in range(draws):
        N = int(rng.integers(3, 9))
        # integers: a fused multiply-add would leave the rounding of one product
        x, g = (rng.choice([-1, 1], (N, d)) * rng.integers(1, 10, (N, d)).astype(float) for d in (4, 3))
        X, G = np.stack([x, x], axis=1), np.stack([g, g if broken else -g], axis=1)
        ranks = [
            int(effective_rank(position_ntk(X, G, positions=chosen, tied=True), kind="rank"))
            for chosen in ([0], [0, 1])
        ]
        J = weight_gradients(X, G)
        own = [matrix_rank(J[:, 0]), matrix_rank(J.sum(1)) if np.abs(J.sum(1)).max() > 0 else 0]
        fell += ranks == own == [N, 0]
        before, largest = max(before, ranks[0]), max(largest, ranks[1])
    return Evidence(
        fell == draws,
        largest,
        "no less than with one position, by the wording",
        0.0,
        "g x' - g x' is exactly zero",
        draws,
        {"rank with one position, largest": before, "cases that fall from N to 0": f"{fell} of {draws}"},
        quantity="largest rank with both positions",
    )
