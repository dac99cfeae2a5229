"""Claims on symmetries and on the measures they move: PS-1 to PS-4."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.representation._kernels import drawn_similarities
from porism.sims.representation.claims._checks import SOURCE, change
from porism.sims.representation.worlds import alive_layer, random_layer, scramble
from porism.theory.representation import (
    Layer,
    cka_after_addition,
    cka_range,
    duplicate,
    similarity,
)
from porism.theory.representation import (
    scale as rescale,
)

__all__ = ["additions", "blind", "keeps_the_function", "lowest"]

Floats = NDArray[np.float64]
SLOPES = (("relu", 0.0), ("leaky_relu", 0.1), ("leaky_relu", -0.5))


@claim(
    "PS-1",
    kind="theorem",
    source=SOURCE,
    statement="For ReLU and leaky ReLU of any slope, scaling a unit by r > 0 and its outgoing weights by "
    "1/r, duplicating it with outgoing weights that sum to its own, and adding units without outgoing "
    "weights or parallel ones that cancel leaves the function as it is.",
    control="scaling with tanh, and a negative factor with ReLU; the smaller of the two errors",
)
def keeps_the_function(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, found = (5 if scale == "smoke" else 100), []
    for _ in range(trials):
        X = rng.normal(size=(100, 5))
        for name, slope in SLOPES:
            net = random_layer(12, 5, 3, rng, name, slope)
            factors = np.exp(rng.normal(size=12))
            if broken:
                bent = dataclasses.replace(net, activation="tanh")
                turned = net.W_in * -factors[:, None], net.b * -factors, net.W_out / -factors
                found += [
                    change(bent, dataclasses.replace(rescale(net, factors), activation="tanh"), X),
                    change(net, Layer(*turned, net.c, name, slope), X),
                ]
                continue
            found += [
                change(net, scramble(net, rng, [one]), X) for one in ("scale", "duplicate", "null", "cancel")
            ]
            found.append(change(net, scramble(net, rng), X))
    worst = min(found) if broken else max(found)
    return Evidence(
        worst <= 1e-12,
        worst,
        0.0,
        1e-12,
        "rounding: some hundred terms, eps of their size each",
        len(found),
        quantity="largest change of an output, relative to its terms",
    )


@claim(
    "PS-2",
    kind="theorem",
    source="our derivation: quasi-concavity on the cone of kernels",
    statement="Over all scalings and duplications of both sides the infimum of centred CKA is the smallest "
    "squared correlation of two units; with one side fixed at L it is the smallest CKA(L, k_j) of one unit. "
    "Both are approached, and not attained.",
    control="kernels with negative weights, which no symmetry gives",
)
def lowest(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worlds, draws = (2, 1000) if scale == "smoke" else (10, 20_000)
    below, left, apart, low, nearest = 0.0, 0.0, 0.0, 1.0, 1.0
    for _ in range(worlds):
        X = rng.normal(size=(60, 4))
        net, fixed = alive_layer(7, X, 2, rng), alive_layer(5, X, 2, rng).hidden(X)
        H = net.hidden(X)
        both, one = cka_range(H), cka_range(H, fixed)
        s, t, found, single = drawn_similarities(H, fixed, draws, rng, signed=broken)
        below = max(below, both.lower - float(found.min()), one.lower - float(single.min()))
        low = min(low, float(found.min()))
        nearest = min(nearest, float(found.min()) - both.lower, float(single.min()) - one.lower)
        # through layers: the draw is a scaling, and the pair of the bound grows without bound
        norms = np.linalg.norm(H - H.mean(0), axis=0)
        ends = [np.where(np.arange(7) == k, 1.0, 1e-5) for k in both.pair]
        drawn = [np.abs(s[0]) ** 0.5, np.abs(t[0]) ** 0.5]
        seen = [
            similarity(rescale(net, first / norms).hidden(X), rescale(net, second / norms).hidden(X))
            for first, second in (drawn, ends)
        ]
        if not broken:
            apart = max(apart, abs(seen[0] - found[0]))
        left = max(left, abs(seen[1] - both.lower))
        alone = np.where(np.arange(7) == one.pair[0], 1.0, 1e-5)
        left = max(left, abs(similarity(fixed, rescale(net, alone / norms).hidden(X)) - one.lower))
    worst = max(below, apart)
    return Evidence(
        worst <= 1e-12 and left <= 1e-8 and nearest > 0,
        worst,
        0.0,
        1e-12,
        "rounding of a quotient of inner products",
        worlds * draws,
        {
            "gap to the infimum where the others are 1e-5 of the unit": left,
            "smallest gap of a draw": nearest,
            "smallest cosine": low,
        },
        quantity="largest amount below the infimum",
    )


def _kernel(X: Floats, center: bool = True) -> Floats:
    """Kernel, n x n, by the definition."""
    X = X - X.mean(0) if center else X
    return X @ X.T


def _law(H: Floats, Z: Floats, t: float, center: bool) -> float:
    """The law of PS-3 from whole kernels."""
    K, N = _kernel(H, center), _kernel(Z, center)
    top = np.vdot(K, K) + t**2 * np.vdot(K, N)
    return float(top / (np.linalg.norm(K) * np.linalg.norm(K + t**2 * N)))


@claim(
    "PS-3",
    kind="theorem",
    source="our derivation",
    statement="Duplicating unit k into m_k copies and scaling it by the root of m_k give the same kernel, "
    "so the same CKA and CCA with anything. Adding units with kernel N, scaled by t, gives CKA (|K|^2 + t^2 "
    "<K, N>) / (|K| |K + t^2 N|), which falls to CKA(K, N).",
    control="the law with kernels that are not centred",
)
def additions(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, rises = (5 if scale == "smoke" else 100), 0.0, 0
    for _ in range(trials):
        X = rng.normal(size=(40, 4))
        net = random_layer(8, 4, 2, rng)
        H, Z, other = (
            net.hidden(X),
            random_layer(5, 4, 2, rng).hidden(X),
            random_layer(6, 4, 2, rng).hidden(X),
        )
        m = rng.integers(1, 5, 8)
        copies, scaled = duplicate(net, m).hidden(X), rescale(net, np.sqrt(m)).hidden(X)
        K = _kernel(scaled)
        worst = max(worst, float(np.abs(_kernel(copies) - K).max() / np.abs(K).max()))
        for kind in ("cka", "cca"):
            worst = max(worst, abs(similarity(copies, other, kind) - similarity(scaled, other, kind)))
        curve = []
        for t in (0.0, 1e-2, 0.3, 1.0, 3.0, 1e2, 1e4):
            law = _law(H, Z, t, False) if broken else cka_after_addition(H, Z, t)
            curve.append(law)
            worst = max(worst, abs(law - similarity(H, np.hstack([H, t * Z]))))
            worst = max(worst, abs(law - _law(H, Z, t, True)))
        limit = cka_after_addition(H, Z, np.inf)
        worst = max(worst, abs(limit - similarity(H, Z)))
        rises += int((np.diff(curve) > 1e-12).sum()) + int(curve[-1] < limit - 1e-12)
    return Evidence(
        worst <= 1e-10 and rises == 0,
        worst,
        0.0,
        1e-10,
        "rounding of kernels, times the condition of columns in CCA, below 1e5",
        trials,
        {"steps up along the law": rises},
        quantity="largest difference of a similarity, or of kernels relative to them",
    )


@claim(
    "PS-4",
    kind="theorem",
    source="our derivation",
    statement="CCA (mean square, over the smaller rank) depends on column spans only: it is 1 after "
    "scalings, duplications and additions on one side, where CKA and Procrustes are not. Additions on both "
    "sides move it too, so which measure is fooled depends on the primitive.",
    control="one column replaced by noise",
)
def blind(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst = (5 if scale == "smoke" else 100), 0.0
    seen: dict[str, list[float]] = {"CKA": [], "Procrustes": [], "CCA, additions on both sides": []}
    for _ in range(trials):
        X = rng.normal(size=(200, 5))
        net = random_layer(12, 5, 3, rng)
        H = net.hidden(X)
        scaled = scramble(net, rng, ["scale", "duplicate"]).hidden(X)
        added = scramble(net, rng, ["scale", "null"]).hidden(X)
        if broken:
            scaled = H * np.exp(rng.normal(size=12))
            scaled[:, 0] = rng.normal(size=200)
        for other in (scaled, added):
            worst = max(worst, abs(similarity(H, other, "cca") - 1))
        seen["CKA"].append(similarity(H, scaled))
        seen["Procrustes"].append(similarity(H, scaled, "procrustes"))
        both = scramble(net, rng, ["scale", "null"]).hidden(X)
        seen["CCA, additions on both sides"].append(similarity(added, both, "cca"))
    means = {f"mean {name}": float(np.mean(values)) for name, values in seen.items()}
    return Evidence(
        worst <= 1e-10 and all(value < 0.99 for value in means.values()),
        worst,
        0.0,
        1e-10,
        "rounding times the condition of unit columns, below 1e5",
        2 * trials,
        means,
        quantity="largest distance of CCA from 1",
    )
