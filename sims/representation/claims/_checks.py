"""What several claims share."""

import numpy as np
from numpy.typing import NDArray

from porism.theory.representation import Layer

__all__ = ["SOURCE", "change"]

Floats = NDArray[np.float64]
SOURCE = "abstract on three primitives; our reconstruction and derivation"


def change(net: Layer, other: Layer, X: Floats) -> float:
    """Largest difference of outputs, over the largest sum of sizes of the terms that make one up."""
    size = max(
        float((np.abs(one.hidden(X)) @ np.abs(one.W_out).T + np.abs(one.c)).max()) for one in (net, other)
    )
    return float(np.abs(net(X) - other(X)).max()) / size
