"""Runs behind the figures: ranks over width, bounds, the causal chain, energies, coverage. Kept in memory."""

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.sims.drawing import is_paper
from porism.sims.token_capacity._models import value_energies
from porism.sims.token_capacity.worlds import (
    WIDTH_FAMILIES,
    causal_averages,
    delimited_rows,
    random_model,
    width_family,
)
from porism.theory.token_capacity import (
    HiddenStateMoments,
    capacity_bound,
    coverage,
    effective_rank,
    interchange_bound,
    min_positions,
    position_ntk,
    prefix_count,
)

Floats = NDArray[np.float64]

ROWS = 64
"""Examples behind the ranks."""

EPS = 0.1
"""Share of coverage that k* may lose."""


def ratio(matrix: Floats) -> float:
    """Participation ratio."""
    return float(effective_rank(matrix, kind="participation"))


@functools.cache
def width_ranks(scale: str, seed: int) -> tuple[NDArray[np.int64], dict[str, Floats]]:
    """Widths, and by family (draws, 2, widths): entropy effective rank and participation ratio."""
    widths, draws = ((16, 64, 256, 1024, 4096), 8) if is_paper(scale) else ((16, 64, 256), 2)
    rng = np.random.default_rng(seed)
    found = {}
    for family in WIDTH_FAMILIES:
        rows = []
        for _ in range(draws):
            grams = [X @ X.T for X in width_family(family, widths, rng, rows=ROWS)]
            rows.append([[float(effective_rank(A)) for A in grams], [ratio(A) for A in grams]])
        found[family] = np.array(rows)
    return np.array(widths), found


def rank_bars() -> list[tuple[str, float, float]]:
    """Two sets of rows on which bounds are tried: name, product of the factors' ranks, rank of the kernel."""
    m = 32
    unit = np.eye(m + 1)
    X, G = np.r_[np.repeat(unit[:1], m, 0), unit[1:]], np.r_[unit[1:], np.repeat(unit[:1], m, 0)]
    A, B = X @ X.T, G @ G.T
    small = np.diag([1.0] + [1e-3] * 5), np.array([[1e-3], [1.0], [1.0], [1.0], [1.0], [1.0]])
    C, D = (part @ part.T for part in small)
    first, second = capacity_bound(X, G), capacity_bound(*small)
    plain = float(effective_rank(C)) * float(effective_rank(D))
    return [
        ("participation\nratio", ratio(A) * ratio(B), ratio(A * B)),
        ("entropy rank,\nweighted", first.bound, first.effective_rank),
        ("entropy rank,\nunweighted", plain, float(effective_rank(C * D))),
        ("entropy rank,\nweighted", second.bound, second.effective_rank),
    ]


@functools.cache
def rank_excess(scale: str, seed: int) -> dict[str, Floats]:
    """Logarithm of the kernel's rank over the product of its factors' ranks, on random rows."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {"weighted": [], "unweighted": [], "participation": []}
    for _ in range(2000 if is_paper(scale) else 100):
        N, d, o = rng.integers(3, 13), rng.integers(1, 6), rng.integers(1, 6)
        # lengths of rows differ by orders of magnitude, as norms at positions do
        X, G = (rng.standard_normal((N, n)) * np.exp(2 * rng.standard_normal((N, 1))) for n in (d, o))
        bound = capacity_bound(X, G)
        A, B = X @ X.T, G @ G.T
        found["weighted"].append(math.log(bound.effective_rank / bound.bound))
        plain = float(effective_rank(A)) * float(effective_rank(B))
        found["unweighted"].append(math.log(bound.effective_rank / plain))
        found["participation"].append(math.log(ratio(A * B) / (ratio(A) * ratio(B))))
    return {name: np.array(values) for name, values in found.items()}


@functools.cache
def interchange_errors(scale: str, seed: int) -> tuple[Floats, Floats, Floats]:
    """Noise, and (noise, draws) of error and bound, both over the norm of the kernel."""
    noise = np.geomspace(1e-4, 3, 14 if is_paper(scale) else 4)
    draws, rng = 20 if is_paper(scale) else 2, np.random.default_rng(seed)
    found = np.empty((2, len(noise), draws))
    for j in range(draws):
        X, G = _pair(rng)
        for i, size in enumerate(noise):
            moved = (part + size * rng.standard_normal(part.shape) for part in (X, G))
            Y, H = moved
            bound = interchange_bound(X, Y, G, H)
            found[:, i, j] = np.array([bound.error, bound.bound]) / np.linalg.norm(_kernel(X, G))
    return noise, found[0], found[1]


@functools.cache
def forward_only(scale: str, seed: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Shares of a fresh gradient, and alignments; shifts of the inputs, and alignments.

    Alignments (draws, 2, values): of inputs and of kernels; of centred and of uncentred inputs.
    """
    count, draws = (9, 20) if is_paper(scale) else (3, 2)
    share, shift = np.linspace(0, 1, count), np.linspace(0, 5, count)
    rng, gradients, inputs = np.random.default_rng(seed), [], []
    for _ in range(draws):
        X, G = _pair(rng)
        Z = rng.standard_normal(G.shape)
        # the same inputs at both positions, gradients that are turned away
        turned = [np.sqrt(1 - s**2) * G + s * Z for s in share]
        kernels = [alignment(_kernel(X, G), _kernel(X, H)) for H in turned]
        gradients.append([[alignment(X @ X.T, X @ X.T)] * count, kernels])
        grams = [((X + s) @ (X + s).T, _centred(X + s)) for s in shift]
        plain, flat = X @ X.T, _centred(X)
        inputs.append([[alignment(flat, c) for _, c in grams], [alignment(plain, a) for a, _ in grams]])
    return share, np.array(gradients), shift, np.array(inputs)


def alignment(A: Floats, B: Floats) -> float:
    """Uncentred alignment of two Gram matrices."""
    return float((A * B).sum() / (np.linalg.norm(A) * np.linalg.norm(B)))


def _pair(rng: np.random.Generator) -> tuple[Floats, Floats]:
    return rng.standard_normal((32, 16)), rng.standard_normal((32, 4))


def _kernel(X: Floats, G: Floats) -> Floats:
    kernel: Floats = position_ntk(X[:, None], G[:, None])[0]
    return kernel


def _centred(X: Floats) -> Floats:
    X = X - X.mean(0)
    return X @ X.T


@functools.cache
def chain(seed: int) -> dict[str, Any]:
    """Distinct prefixes, ranks of the states by layer, and how far earlier ranges stick out of later ones.

    "prefixes" (T,); "ranks" (layers + 1, T); "outside" maps a name to (T - 3,): the share of range(A_3) that
    lies outside range(A_t) for t = 3 ... T - 1.
    """
    torch = require("torch", "torch")
    rng = np.random.default_rng(seed)
    ids = delimited_rows(rng, ROWS, 10)
    states = {}
    for width in (64, 8):
        model = random_model("gpt2", rng, width=width)
        with torch.no_grad():
            out = model.base_model(input_ids=torch.from_numpy(ids), output_hidden_states=True)
        states[width] = [h.numpy() for h in out.hidden_states]
    outside = {}
    for name, width, kernel in (
        ("width 64, linear kernel", 64, False),
        ("width 8, linear kernel", 8, False),
        ("width 8, Gaussian kernel", 8, True),
    ):
        ranges = [_range(states[width][-1][:, t], kernel) for t in range(3, ids.shape[1])]
        outside[name] = np.array([_outside(ranges[0], later) for later in ranges])
    ranks = [[_range(h[:, t], False).shape[1] for t in range(ids.shape[1])] for h in states[64]]
    return {"prefixes": prefix_count(ids, align="absolute"), "ranks": np.array(ranks), "outside": outside}


def _range(X: Floats, kernel: bool) -> Floats:
    """Orthonormal basis of the range of a Gram matrix; equal rows are equal to rounding only."""
    if not kernel:
        U, s, _ = np.linalg.svd(X, full_matrices=False)
        return np.asarray(U[:, s > 1e-9 * s[0]])
    squared = ((X[:, None] - X[None]) ** 2).sum(-1)
    values, U = np.linalg.eigh(np.exp(-squared / np.median(squared[squared > 1e-9]) * 8))
    return np.asarray(U[:, values > 1e-10 * values[-1]])


def _outside(inner: Floats, outer: Floats) -> float:
    return float(np.linalg.norm(inner - outer @ (outer.T @ inner))) / inner.shape[1] ** 0.5


@functools.cache
def averages(scale: str, seed: int) -> dict[str, Floats]:
    """Effective rank (draws, T) of equal causal averages: uncentred, centred, and of tokens of mean zero."""
    draws, rng = 8 if is_paper(scale) else 2, np.random.default_rng(seed)
    found: dict[str, list[Floats]] = {"uncentred": [], "centred": [], "mean zero": []}
    for _ in range(draws):
        X = causal_averages(rng)
        for name, Y in (
            ("uncentred", X),
            ("centred", X - X.mean(0)),
            ("mean zero", causal_averages(rng, mean=0.0)),
        ):
            Y = Y.swapaxes(0, 1)
            found[name].append(np.asarray(effective_rank(Y.swapaxes(1, 2) @ Y)))
    return {name: np.array(values) for name, values in found.items()}


@functools.cache
def energies(scale: str, seed: int) -> dict[tuple[str, float, int], Floats]:
    """Traces of K_t of value maps (T,), by loss ("all" or "last"), size of the weights, and layer."""
    torch = require("torch", "torch")
    length, rows = (64, 64) if is_paper(scale) else (16, 8)
    rng = np.random.default_rng(seed)
    ids, labels = (torch.from_numpy(rng.integers(3, 31, (rows, length))) for _ in range(2))
    found = {}
    for std in (0.02, 0.2):
        model = random_model("llama", rng, std=std, jitter=0.0, layers=4, width=32)
        for loss, keep in (("all", slice(None)), ("last", slice(-1, None))):
            for layer, energy in value_energies(model, ids, labels, keep).items():
                found[loss, std, layer] = energy
    return found


@functools.cache
def text_coverage(scale: str, seed: int) -> dict[str, Floats]:
    """Coverage (draws, T) of the layer that needs most positions, by order; causal model, real text."""
    torch = require("torch", "torch")
    from porism.sims.pattern import real_text

    rows, length, width = (64, 64, 64) if is_paper(scale) else (8, 16, 16)
    rng = np.random.default_rng(seed)
    text = np.frombuffer(real_text("operator-summary").encode("ascii", "replace"), np.uint8)
    starts = rng.integers(0, len(text) - length, rows)
    ids = torch.from_numpy(text[starts[:, None] + np.arange(length)].astype(np.int64))
    model = random_model("llama", rng, width=width, vocab=256, max_len=length)
    with HiddenStateMoments(model, align="end") as watch:
        watch.update(input_ids=ids)
    return _worst(list(watch.result().second), length, 0, rng)


@functools.cache
def digit_coverage(kind: str, scale: str, seed: int, pretrain_steps: int | None = None) -> dict[str, Floats]:
    """The same, seed by seed (seeds, 17), for the backbones that `compare_arms` fine-tunes; readout first."""
    from porism.sims.token_capacity.digits import layer_moments

    found: dict[str, list[Floats]] = {}
    for second in layer_moments(kind, scale, pretrain_steps=pretrain_steps, seed=seed):
        for name, curve in _worst(second[:, ::-1], 17, 0, np.random.default_rng(seed), draws=1).items():
            found.setdefault(name, []).append(curve[0])
    return {name: np.array(curves) for name, curves in found.items()}


def _worst(
    layers: Any, length: int, readout: int, rng: np.random.Generator, draws: int = 5
) -> dict[str, Floats]:
    """Curves (draws, P) by order, of the layer with the largest k*; moments are aligned at the end."""
    others = np.delete(np.arange(length), readout)
    orders = {
        "suffix": [others],
        "earliest": [others[::-1]],
        "random": [rng.permutation(others) for _ in range(draws)],
    }
    found = {}
    for name, paths in orders.items():
        curves = []
        for path in paths:
            own = [coverage(np.ascontiguousarray(second), [readout, *path]) for second in layers]
            curves.append(own[int(np.argmax([min_positions(curve, EPS) for curve in own]))])
        found[name] = np.array(curves)
    return found
