"""Relative errors of queries: the mix folded exactly and rounded, or kept and rounded step by step."""

import numpy as np
from numpy.typing import NDArray

from porism.sims.attention.worlds import random_mix, round_bfloat16, sample_layer

__all__ = ["query_errors", "summed_in_float32"]

Floats = NDArray[np.float64]
TOKENS, WIDTH, P, G, HEAD = 32, 256, 4, 8, 16


def query_errors(rng: np.random.Generator, stored: bool = False) -> tuple[float, float]:
    """Errors of the folded and of the kept mix in bfloat16, ``|q - q_exact|_F / |q_exact|_F``.

    Sums are exact, as accumulators have a higher precision. With `stored` inputs, weights and mix are rounded
    before anything is done, and what they give exactly is the truth.
    """
    x, W, M = _draw(rng)
    low = round_bfloat16
    if stored:
        x, W, M = low(x), low(W), low(M)
    folded = low(_heads(low(np.tensordot(M, W, 1)), low(x)))
    kept = low(np.tensordot(low(M), low(_heads(low(W), low(x))), 1))
    return _apart(x, W, M, folded, kept)


def summed_in_float32(rng: np.random.Generator) -> tuple[float, float]:
    """The same in float32, where sums are rounded as they go, which hides the rounding of results."""
    x, W, M = _draw(rng)
    single = np.float32
    folded = _heads(np.tensordot(M, W, 1).astype(single), x.astype(single))
    kept = np.tensordot(M.astype(single), _heads(W.astype(single), x.astype(single)), 1)
    return _apart(x, W, M, folded, kept)


def _draw(rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Tokens (T, D), physical heads (P, d_h, D), and a mix near two copies of each head (G, P)."""
    x = rng.standard_normal((TOKENS, WIDTH))
    W = sample_layer(WIDTH, 1, P, HEAD, bias=False, rng=rng).W_q[0]
    return x, W, np.eye(G, P) + np.eye(G, P, -P) + 0.5 * random_mix(1, G, P, rng=rng)[0]


def _heads(W: NDArray, x: NDArray) -> NDArray:
    return np.tensordot(W, x, (2, 1))


def _apart(x: Floats, W: Floats, M: Floats, folded: NDArray, kept: NDArray) -> tuple[float, float]:
    truth = np.tensordot(M, _heads(W, x), 1)
    size = float(np.linalg.norm(truth))
    return float(np.linalg.norm(folded - truth)) / size, float(np.linalg.norm(kept - truth)) / size
