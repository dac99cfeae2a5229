"""What a mix after the rotation does otherwise than one before it, by brute force."""

import numpy as np
from numpy.typing import NDArray

from porism.theory.attention import RopeLayout, rotate

__all__ = ["norms", "on_queries"]

Floats = NDArray[np.float64]


def on_queries(mix: Floats, layout: RopeLayout, q: Floats, places: NDArray) -> Floats:
    """``R_t mix q - mix R_t q``, (positions, G, d_h), for a mix (G, d_h, P, d_h) and queries (P, d_h)."""
    last = rotate(np.einsum("gepd,pd->ge", mix, q), places[:, None], layout)
    return last - np.einsum("gepd,tpd->tge", mix, rotate(q, places[:, None], layout))


def norms(mix: Floats, layout: RopeLayout, places: NDArray) -> Floats:
    """``|R_t mix - mix R_t|_F`` by position, for a mix (G, d_h, P, d_h)."""
    R = rotate(np.eye(mix.shape[1]), places[:, None], layout).swapaxes(1, 2)
    apart = np.einsum("tab,gbpd->tgapd", R, mix) - np.einsum("gapb,tbd->tgapd", mix, R)
    return np.sqrt(np.square(apart).sum(axis=(1, 2, 3, 4)))
