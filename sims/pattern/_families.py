"""One mask of every family, with the order in which it is usually sought."""

import numpy as np

from porism.theory.pattern import Mask, masks

__all__ = ["family_cases"]


def family_cases(n: int = 20) -> dict[str, tuple[Mask, str]]:
    """Mask and order by name: "common" where rows and columns are the same things; n is 12, 16, 20, ..."""
    quarter, wide = n // 4, 3 * n // 4
    heights = np.linspace(1, wide, n).round().astype(int).tolist()
    near = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    both = {
        "band": masks.band(n, 2),
        "circulant": masks.circulant_band(n, 2),
        "arrowhead": masks.arrowhead(n, 3),
        "hub": masks.hub(n, 3),
        "bipartite": masks.bipartite(n // 2 - 2, n // 2 + 2),
        "lower triangular": masks.lower_triangular(n),
        "Toeplitz": masks.toeplitz(n, [0, 3], causal=True),
        "vertical slash": masks.vertical_slash(n, [0], [0, 1]),
    }
    free = {
        "blocks": masks.block_diagonal([quarter] * 4, [quarter + 1, quarter - 1, quarter, quarter]),
        "staircase": masks.staircase(n, wide, heights),
        "checkerboard": masks.checkerboard(n, wide),
        "sink": masks.sink(n, n, 2),
        "anti-diagonal": masks.anti_diagonal(n),
    }
    weighted = masks.from_array(np.select([near == 0, near == 1], [1.0, 0.5]))
    return (
        {name: (mask, "common") for name, mask in both.items()}
        | {name: (mask, "independent") for name, mask in free.items()}
        | {"weighted": (weighted, "common")}
    )
