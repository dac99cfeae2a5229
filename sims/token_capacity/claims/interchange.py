"""Claims on one position standing in for another: TC-3, TC-3i, TC-3j, TC-4, TC-4b, TC-4c."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from porism.checks import require
from porism.claims import Evidence, claim
from porism.sims.token_capacity.claims._oracles import (
    ROUNDING,
    SOURCE,
    alignment,
    rows,
    slopes,
    weight_gradients,
)
from porism.sims.token_capacity.worlds import SymmetricNet, cyclic_orbit, random_model, symmetric_net
from porism.theory.token_capacity import interchange_bound

__all__ = ["any_subset", "bound", "centred", "hidden_states_alone", "in_law", "symmetry"]

Floats = NDArray[np.float64]


@claim(
    "TC-3",
    kind="theorem",
    source=SOURCE,
    statement="|K_s - c K_t|_F <= max|B_s| |A_s|_F sqrt(1 - rho_A^2) + alpha max|A_t| |B_s|_F sqrt(1 - "
    "rho_B^2), with c = alpha beta the product of the best multiples and rho the uncentred alignments.",
    control="the term of the gradients dropped",
)
def bound(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, worst, off, ratios = 100 if scale == "smoke" else 1000, -np.inf, 0.0, []
    for number in range(draws):
        N, d_in, d_out = (int(k) for k in rng.integers((3, 2, 1), (20, 9, 6)))
        noise = float(rng.choice([0.0, 0.03, 0.3, 3.0]))
        X_t, G_t = rows(rng, N, d_in, number % 4), rows(rng, N, d_out, number // 4 % 4)
        X_s = X_t * (1 + noise * rng.standard_normal(X_t.shape))
        G_s = G_t * (1 + float(rng.choice([0.0, 0.3, 3.0])) * rng.standard_normal(G_t.shape))
        A_s, A_t, B_s, B_t = (Z @ Z.T for Z in (X_s, X_t, G_s, G_t))
        alpha, beta = ((P * Q).sum() / (Q * Q).sum() for P, Q in ((A_s, A_t), (B_s, B_t)))
        # what the best multiple leaves of a matrix: the square root of the statement, without cancellation
        first = np.abs(B_s).max() * np.linalg.norm(A_s - alpha * A_t)
        second = alpha * np.abs(A_t).max() * np.linalg.norm(B_s - beta * B_t)
        error, whole = float(np.linalg.norm(A_s * B_s - alpha * beta * A_t * B_t)), float(first + second)
        size = float(np.abs(A_s).max() * np.linalg.norm(B_s))
        found = interchange_bound(X_s, X_t, G_s, G_t)
        pairs = ((found.error, error), (found.bound, whole), (found.scale * size, float(alpha * beta) * size))
        off = max(off, *(abs(a - b) / size for a, b in pairs))
        rho = alignment(A_s, A_t)
        root = np.abs(B_s).max() * np.linalg.norm(A_s) * math.sqrt(max(1 - rho * rho, 0.0))
        off = max(off, abs(float(root - first)) / size if rho < 0.999 else 0.0)
        worst = max(worst, (error - float(first) if broken else error - whole) / size)
        if whole > 1e-9 * size:
            ratios.append(error / whole)
    return Evidence(
        worst <= 1e-12 and off <= 1e-10,
        worst,
        "<= 0",
        1e-12,
        ROUNDING + " to max|A_s| |B_s|_F",
        draws,
        {
            "largest error over bound": max(ratios),
            "median error over bound": float(np.median(ratios)),
            "relative difference from the library and from the square roots (tolerance 1e-10)": off,
        },
        quantity="largest error minus bound, relative",
    )


@claim(
    "TC-3i",
    kind="refuted",
    source="abstract: alignment of hidden states",
    statement="Positions whose hidden states are perfectly aligned are interchangeable. (False: equal hidden "
    "states with gradients (1, 1) at one position and (1, -1) at the other give kernels of alignment 0.)",
    control="equal gradients too",
)
def hidden_states_alone(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    X = np.ones((2, 1))
    G = np.array([[1.0], [1.0]]), np.array([[1.0], [1.0 if broken else -1.0]])
    A, B = X @ X.T, [g @ g.T for g in G]
    exact = alignment(A * B[0], A * B[1])
    rho = interchange_bound(X, X, *G).input_alignment
    draws, seen = 20 if scale == "smoke" else 200, []
    for _ in range(draws):
        H = rng.standard_normal((16, 6))
        g = rng.standard_normal((16, 3))
        h = g if broken else rng.standard_normal((16, 3))
        A = H @ H.T
        seen.append(alignment(A * (g @ g.T), A * (h @ h.T)))
        rho = min(rho, interchange_bound(H, H, g, h).input_alignment)
    return Evidence(
        exact == 0 and max(seen) < 0.95 and rho >= 1 - 1e-12,
        max(seen),
        "1 by the wording",
        0.05,
        "a counterexample: far from 1 in every draw, and exactly 0 in the small case",
        draws,
        {
            "the case of the statement": exact,
            "mean over draws": float(np.mean(seen)),
            "smallest alignment of hidden states": rho,
        },
        quantity="largest alignment of the kernels",
    )


@claim(
    "TC-3j",
    kind="refuted",
    source="the usual centred similarity",
    statement="Centred alignment of hidden states bounds the error of the inputs. (False: a shift of all "
    "inputs by 5 leaves it at 1, while no multiple of the shifted Gram matrix comes near the first one.)",
    control="no shift",
)
def centred(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws = 20 if scale == "smoke" else 200
    least, similar, aligned = np.inf, 1.0, []
    for _ in range(draws):
        N, d = int(rng.integers(16, 40)), int(rng.integers(4, 12))
        X = rng.standard_normal((N, d))
        Y = X + (0.0 if broken else 5.0)
        A, B = X @ X.T, Y @ Y.T
        middle = np.eye(N) - 1 / N
        similar = min(similar, alignment(middle @ A @ middle, middle @ B @ middle))
        found = interchange_bound(X, Y, np.ones((N, 1)), np.ones((N, 1)))
        aligned.append(found.input_alignment)
        least = min(least, found.error / float(np.linalg.norm(A)))
    return Evidence(
        similar >= 1 - 1e-12 and least > 0.5,
        least,
        "0 by the wording",
        0.5,
        "a counterexample: more than half of the matrix is missed",
        draws,
        {"smallest centred alignment": similar, "mean uncentred alignment": float(np.mean(aligned))},
        quantity="smallest relative error of the best multiple",
    )


def _moments(net: SymmetricNet, ids: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Second moments of weight gradients and of inputs, one a position."""
    X, G = net.watch(ids)
    J = weight_gradients(X, G)
    return np.einsum("nta,ntb->tab", J, J), np.einsum("nti,ntj->tij", X, X)


def _spread(moments: Floats) -> float:
    """Largest difference between two positions over the size of the first."""
    gaps = [np.linalg.norm(M - moments[0]) for M in moments[1:]]
    return float(max(gaps) / np.linalg.norm(moments[0]))


@claim(
    "TC-4",
    kind="theorem",
    source=SOURCE,
    statement="In a permutation-equivariant net without positions, with a readout of all positions and "
    "inputs closed under all cyclic shifts, the second moments of the weight gradients g_t x_t' are the "
    "same at every position.",
    control="position embeddings",
)
def symmetry(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, worst, states, first = 10 if scale == "smoke" else 100, 0.0, 0.0, []
    for _ in range(draws):
        seed = int(rng.integers(2**31))
        orbit = cyclic_orbit(rng.integers(12, size=8))
        moments, inputs = _moments(symmetric_net(seed, places=1.0 if broken else 0.0), orbit)
        worst, states = max(worst, _spread(moments)), max(states, _spread(inputs))
        first.append(_spread(_moments(symmetric_net(seed, readout="first"), orbit)[0]))
    return Evidence(
        max(worst, states) <= 1e-12,
        worst,
        0.0,
        1e-12,
        ROUNDING + ": the same numbers in another order",
        draws,
        {"the same for inputs": states, "with a readout of position 0 alone, smallest": min(first)},
        quantity="largest relative difference between positions",
    )


@claim(
    "TC-4c",
    kind="statistical",
    source=SOURCE,
    statement="Where tokens are exchangeable in law, such as independent ones, the second moments agree in "
    "expectation.",
    control="position embeddings",
)
def in_law(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    nets, count, directions = (3, 500, 6) if scale == "smoke" else (6, 5000, 12)
    scores, spread = [], []
    for _ in range(nets):
        net = symmetric_net(rng, places=1.0 if broken else 0.0)
        X, G = net.watch(rng.integers(12, size=(count, 8)))
        u = rng.standard_normal((directions, *net.weight.shape))
        squares = np.einsum("aoi,nto,nti->nta", u, G, X) ** 2
        gaps = squares[:, 1:] - squares[:, :1]
        scores.append(gaps.mean(0) / gaps.std(0, ddof=1) * math.sqrt(count))
        means = squares.mean(0)
        spread.append(float((np.ptp(means, axis=0) / means.mean(0)).max()))
    worst = float(np.abs(scores).max())
    limit = -float(ndtri(1e-4 / (2 * np.size(scores))))
    return Evidence(
        worst <= limit,
        worst,
        "0 on average",
        limit,
        "normal quantile, error 1e-4 over all positions and directions",
        nets * count,
        {"largest relative spread of sample moments over positions": max(spread)},
        quantity="largest deviation in standard errors",
    )


@claim(
    "TC-4b",
    kind="refuted",
    source="abstract",
    statement="In a bidirectional model any subset of positions suffices. (False: the selected gradient is a "
    "truncation. For 5 of 17 positions, the readout among them, of a BERT-shaped model with weights of size "
    "0.4 it points away from the full one. A readout outside the subset is worse: TC-8d.)",
    control="weights of size 0.02, where attention hardly mixes positions",
)
def any_subset(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    torch = require("torch", "torch")
    from porism.sims.token_capacity import SubsetBackprop, select_random

    draws, found = 4 if scale == "smoke" else 24, []
    for _ in range(draws):
        std, jitter = (0.02, 0.0) if broken else (0.4, 0.1)
        model = random_model("bert", rng, std=std, jitter=jitter)
        ids = torch.from_numpy(rng.integers(3, 31, (4, 17)))
        c = torch.from_numpy(rng.standard_normal((4, 16)))
        named = list(model.base_model.named_parameters())
        positions = select_random(torch.ones_like(ids), 5, generator=int(rng.integers(2**31)))
        out = SubsetBackprop(model).forward(positions, input_ids=ids)
        selected = (out.hidden[out.positions == 0] * c).sum()
        full = (model.base_model(input_ids=ids).last_hidden_state[:, 0] * c).sum()
        part, whole = (
            np.concatenate([g.ravel() for g in slopes(value, named).values()]) for value in (selected, full)
        )
        found.append(alignment(part, whole))
    mean = float(np.mean(found))
    return Evidence(
        mean < 0.95,
        mean,
        "1 by the wording",
        0.05,
        "a counterexample: far from 1",
        draws,
        {"smallest cosine": min(found), "largest cosine": max(found)},
        quantity="mean cosine of selected and full gradient",
    )
