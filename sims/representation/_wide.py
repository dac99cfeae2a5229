"""A wide layer for benchmarks, and what its canonical form takes."""

import tracemalloc

import numpy as np

from porism.sims.benchmark import median_seconds
from porism.sims.representation.worlds import random_layer
from porism.theory.representation import Layer, canonicalise, duplicate, scale

__all__ = ["canonical_memory", "wide_layer"]


def wide_layer(units: int, inputs: int) -> Layer:
    """Layer with ten outputs, of which every other unit is a scaled copy: units / 2 lines."""
    rng = np.random.default_rng(0)
    net = duplicate(random_layer(units // 2, inputs, 10, rng), np.full(units // 2, 2))
    net = scale(net, np.exp(rng.normal(size=units)))
    order = rng.permutation(units)
    return Layer(net.W_in[order], net.b[order], net.W_out[:, order], net.c)


def canonical_memory(units: int, inputs: int) -> tuple[float, float, int]:
    """Seconds, MB at the peak beyond the layer itself, and lines of the canonical form of a wide layer."""
    net = wide_layer(units, inputs)
    (seconds,) = median_seconds(lambda: canonicalise(net), rounds=3).tolist()
    tracemalloc.start()
    try:
        lines = canonicalise(net).lines
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return seconds, peak / 1e6, lines
