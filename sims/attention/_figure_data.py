"""Numbers behind the figures."""

import numpy as np
from numpy.typing import NDArray

from porism.sims.attention._commutator import norms, on_queries
from porism.sims.attention._rounding import query_errors
from porism.sims.attention.worlds import minilm_queries, planted_heads, random_mix
from porism.sims.style import GREEN, RED
from porism.theory.attention import (
    AttentionConfig,
    RopeLayout,
    cost_model,
    project_to_commutant,
    rope_commutant_residual,
    virtual_rank,
)

__all__ = [
    "KINDS",
    "LOOKS",
    "UNIT",
    "WIDTH",
    "by_position",
    "cost_ratio",
    "edge",
    "errors",
    "guards",
    "head_spectra",
    "one_ratio",
]

Floats = NDArray[np.float64]
KINDS = ("half", "interleaved")
WIDTH = 1024
UNIT = 2.0**-8
"""Unit roundoff of bfloat16."""
HEAD = 8
LOOKS = {"Gaussian": (RED, "--"), "planted, 9 of 12": (GREEN, "-.")}


def guards(kind: str, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Guards and errors of mixes that are off the commutant by 1e-8 to 1 of their size."""
    layout, places = RopeLayout.standard(kind, HEAD, 100.0), np.arange(1024)
    found = []
    for size in np.geomspace(1e-8, 1, count):
        mix = random_mix(1, 2, 2, head_dim=HEAD, kind="any", rng=rng)[0]
        mix = (1 - size) * project_to_commutant(mix, layout) + size * mix
        error = np.sqrt(np.square(norms(mix, layout, places)).mean())
        found.append((rope_commutant_residual(mix, layout), error))
    distance, error = np.array(found).T
    return distance, error


def by_position(rng: np.random.Generator) -> tuple[NDArray, dict[str, Floats]]:
    """Errors on random queries by position, of one mix as it is and projected for either layout."""
    layouts = [RopeLayout.standard(kind, HEAD, 100.0) for kind in KINDS]
    mix, places = random_mix(1, 4, 4, head_dim=HEAD, kind="any", rng=rng)[0], np.arange(1, 101)
    q = rng.standard_normal((4, HEAD))
    mixes = {
        "any mix": mix,
        "projected for the other layout": project_to_commutant(mix, layouts[1]),
        "projected": project_to_commutant(mix, layouts[0]),
    }
    found = {name: on_queries(one, layouts[0], q, places) for name, one in mixes.items()}
    return places, {name: np.abs(apart).max(axis=(1, 2)) for name, apart in found.items()}


def one_ratio(P: int, G: int) -> float:
    """Operations folded over kept."""
    folded, kept = (
        cost_model(AttentionConfig(WIDTH, 1, P, G, 64, folded)).flops_per_token for folded in (True, False)
    )
    return folded / kept


def cost_ratio(heads: NDArray) -> Floats:
    """Operations folded over kept, by P (rows) and G (columns)."""
    return np.array([[one_ratio(int(P), int(G)) for G in heads] for P in heads])


def edge(G: NDArray | int, D: NDArray | int) -> NDArray:
    """Physical heads at which both cost the same."""
    return np.asarray(G * D / (D + G))


def head_spectra(rng: np.random.Generator) -> dict[str, tuple[Floats, Floats]]:
    """Singular values, and errors by the number of heads kept, of layers and of what they are compared to."""
    W = minilm_queries()
    others = {
        "Gaussian": rng.standard_normal(W[:1].shape),
        "planted, 9 of 12": planted_heads(1, 12, 9, W.shape[2], W.shape[3], rng),
    }
    found = {}
    for name, group in ({f"layer {i}": W[i : i + 1] for i in range(6)} | others).items():
        spectrum = virtual_rank(group)
        lost = np.array([spectrum.error_at(P)[0] for P in range(13)])
        found[name] = (spectrum.singular_values[0], lost)
    return found


def errors(stored: bool, count: int, rng: np.random.Generator) -> Floats:
    """Errors (count, 2) of the folded and of the kept mix."""
    return np.array([query_errors(rng, stored) for _ in range(count)])
