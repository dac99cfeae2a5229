"""Claims on what all symmetries of a ReLU layer are: PS-5 to PS-7."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.errors import AssumptionError
from porism.sims.representation.claims._checks import SOURCE, change
from porism.sims.representation.worlds import random_layer, scramble
from porism.theory.representation import (
    CanonicalLayer,
    Layer,
    add_cancelling,
    add_linear_null,
    canonicalise,
    privileged_similarity,
    similarity,
)
from porism.theory.representation import (
    scale as rescale,
)

__all__ = ["by_function", "complete", "linear_null", "three_primitives"]

Floats = NDArray[np.float64]


@claim(
    "PS-5",
    kind="refuted",
    source=SOURCE,
    statement="Scaling, duplication and addition of units that are null one by one or with a parallel unit "
    "are all symmetries of a ReLU layer. Refuted: with z3 = z1 + z2 the six units relu(z1) - relu(-z1) + "
    "relu(z2) - relu(-z2) - relu(z3) + relu(-z3) add up to 0, none is without outgoing weights, no two are "
    "parallel, and merging parallel units keeps all six.",
    control="three parallel pairs that cancel in place of the six: merging removes them",
)
def three_primitives(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, kept, closest, alike, left = (5 if scale == "smoke" else 100), 0.0, 6, 2.0, [], 0
    for _ in range(trials):
        X = rng.normal(size=(200, 5))
        net = random_layer(12, 5, 3, rng)
        W, b, out = rng.normal(size=(2, 5)), rng.normal(size=2), rng.normal(size=3)
        if broken:
            W, b, many = rng.normal(size=(3, 5)), rng.normal(size=3), rng.normal(size=(3, 3))
            other = add_cancelling(net, W, b, many, np.exp(rng.normal(size=3)))
        else:
            other = add_linear_null(net, W, out, b)
        worst = max(worst, change(net, other, X))
        rows = np.column_stack([other.W_in, other.b])[12:]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        far = np.linalg.norm(rows[:, None] - rows, axis=2)[np.triu_indices(6, 1)]
        closest = min(closest, float(far.min()))
        kept = min(kept, canonicalise(other, "parallel").lines - 12)
        left = max(left, abs(canonicalise(other).lines - 12))
        features = [canonicalise(one, "parallel").features(X) for one in (net, other)]
        alike.append(similarity(features[0], features[1]))
    return Evidence(
        worst <= 1e-12 and kept == 6 and closest > 1e-6 and left == 0,
        f"{kept} of 6 null units kept",
        "6 of 6",
        0.0,
        "exact count; outputs agree to rounding, 1e-12 of their terms",
        trials,
        {
            "largest change of an output": worst,
            "smallest distance of two directions": closest,
            "lowest CKA of equal functions, parallel units merged": min(alike),
            "null lines left by the complete form": left,
        },
        quantity="units that merging parallel ones leaves",
    )


@claim(
    "PS-5b",
    kind="theorem",
    source="our derivation: kinks on distinct hyperplanes",
    statement="Each ReLU-type layer is sum_l c_l |u_l . (x, 1)| + L (x, 1) with unit u_l, distinct up to "
    "sign and not constant, and c_l not 0; two layers are equal on R^d if and only if these are equal.",
    control="only units of the same direction merged: equal functions get different forms",
)
def complete(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, level = (4 if scale == "smoke" else 60), "parallel" if broken else "functional"
    apart, off, blind_to, lines, alike = 0.0, 0.0, 0, [], []
    for number in range(trials):
        name, slope = (("relu", 0.0), ("leaky_relu", 0.2), ("leaky_relu", -0.7))[number % 3]
        X = rng.normal(size=(200, 5))
        net = random_layer(12, 5, 3, rng, name, slope)
        other = scramble(net, rng)
        form, found = canonicalise(net, level), canonicalise(other, level)
        apart = max(apart, form.distance(found))
        lines.append(found.lines)
        alike.append(similarity(form.features(X), found.features(X)))
        for same in (form, found, found.to_layer()):
            off = max(off, float(np.abs(same(X) - net(X)).max() / np.abs(net(X)).max()))
        # the converse: forms that differ in any part are other functions, on samples around the origin
        for part in ("directions", "coefficients", "affine"):
            step = 1e-3 * (1 + np.abs(rng.normal(size=(1, 1))))
            moved = dataclasses.replace(form, **{part: getattr(form, part) + step})
            blind_to += int(np.abs(moved(X) - form(X)).max() < 1e-6)
    worst = max(apart, off)
    return Evidence(
        worst <= 1e-9 and blind_to == 0 and set(lines) == {12},
        worst,
        0.0,
        1e-9,
        "directions that differ by less than 1e-8 are merged; else rounding",
        trials,
        {
            "most lines of 12": max(lines),
            "lowest CKA of equal functions": min(alike),
            "changes unseen": blind_to,
        },
        quantity="largest distance of forms, or relative error of outputs",
    )


def _nudged(net: Layer, rng: np.random.Generator) -> Layer:
    W = net.W_in.copy()
    W[rng.integers(len(W)), rng.integers(W.shape[1])] += 1e-3
    return dataclasses.replace(net, W_in=W)


@claim(
    "PS-6",
    kind="theorem",
    source="our derivation",
    statement="The kernel sum_l |c_l|^2 |z_l| |z_l|' + X L' L X' of the complete form depends on the "
    "function only: scrambled copies have CKA 1 with each other and the same canonical parameters, wherever "
    "CKA of their hidden matrices is.",
    control="one weight of the original moved by 1e-3 before it is scrambled",
)
def by_function(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worlds, copies = (2 if scale == "smoke" else 20), 6
    far, loss, raw, lines = 0.0, 0.0, [], set()
    for _ in range(worlds):
        X = rng.normal(size=(200, 5))
        net = random_layer(12, 5, 3, rng)
        nets = [scramble(net, rng) for _ in range(copies)]
        if broken:
            nets[-1] = scramble(_nudged(net, rng), rng)
        forms: list[CanonicalLayer] = [canonicalise(one) for one in nets]
        lines |= {form.lines for form in forms}
        for i in range(copies):
            for j in range(i):
                far = max(far, forms[i].distance(forms[j]))
                loss = max(loss, 1 - privileged_similarity(nets[i], nets[j], X))
                raw.append(similarity(nets[i].hidden(X), nets[j].hidden(X)))
    worst = max(far, loss)
    return Evidence(
        worst <= 1e-9 and lines == {12},
        worst,
        0.0,
        1e-9,
        "rounding, times outgoing weights that cancel up to a hundredfold",
        len(raw),
        {
            "largest 1 - privileged CKA": loss,
            "largest distance of canonical parameters": far,
            "lowest CKA of hidden matrices": min(raw),
            "mean CKA of hidden matrices": float(np.mean(raw)),
        },
        quantity="largest distance of canonical parameters, or of privileged CKA from 1",
    )


@claim(
    "PS-7",
    kind="theorem",
    source="our derivation",
    statement="GELU (both forms) and SiLU have phi(z) - phi(-z) = z, so groups that cancel as linear pieces "
    "are symmetries there too, while scaling is not; completeness is not claimed for them, and "
    "`canonicalise` refuses.",
    control="phi = tanh",
)
def linear_null(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, kept, odd, scaled, refused = (5 if scale == "smoke" else 100), 0.0, 0.0, 1.0, 0
    names = ("gelu", "gelu_tanh", "silu")
    for _ in range(trials):
        X = rng.normal(size=(100, 5))
        net = random_layer(12, 5, 3, rng)
        null = scramble(net, rng, ["linear", "permute"])
        stretched = rescale(net, np.exp(rng.normal(size=12)))
        for name in names:
            phi = "tanh" if broken else name
            one, two, three = (dataclasses.replace(n, activation=phi) for n in (net, null, stretched))
            kept, scaled = max(kept, change(one, two, X)), min(scaled, change(one, three, X))
            z = Layer(np.ones((1, 1)), np.zeros(1), np.ones((1, 1)), np.zeros(1), phi)
            at = rng.uniform(-8, 8, (50, 1))
            odd = max(odd, float(np.abs(z.hidden(at) - z.hidden(-at) - at).max()) / 8)
            try:
                canonicalise(one)
            except AssumptionError:
                refused += 1
    worst = max(kept, odd)
    return Evidence(
        worst <= 1e-14 and refused == 3 * trials and scaled > 1e-3,
        worst,
        0.0,
        1e-14,
        "rounding: some tens of terms, eps of their size each at most",
        3 * trials,
        {
            "change of an output by the group": kept,
            "error of the identity": odd,
            "least change by scaling": scaled,
        },
        quantity="largest change of an output or of the identity, relative to its terms",
    )
