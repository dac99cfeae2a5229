"""What the figures of the pattern module share: axes, panels, legends, outlines of masks."""

import numpy as np
from numpy.typing import NDArray

from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, panels

__all__ = ["GUIDE", "LOOKS", "Rng", "canvas", "is_paper", "legend", "outline", "panels"]


def outline(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """Segments (k, 2, 2) of points (x, y) around the cells of weight above 0, in units of cells."""
    inside = np.pad(S > 0, 1)
    i, j = np.nonzero(inside[1:-1, 1:] != inside[1:-1, :-1])  # upright, left of column j
    upright = np.stack([np.stack([j, i], 1), np.stack([j, i + 1], 1)], 1)
    i, j = np.nonzero(inside[1:, 1:-1] != inside[:-1, 1:-1])
    level = np.stack([np.stack([j, i], 1), np.stack([j + 1, i], 1)], 1)
    return np.concatenate([upright, level]).astype(np.float64)
