"""Masks by short text, such as ``band:4``, and the short names under which tables list them."""

from collections.abc import Callable

import numpy as np

from porism.checks import integer
from porism.theory.pattern import masks
from porism.theory.pattern.mask import Mask

__all__ = ["MASK_FORMS", "parse_mask"]

MASK_FORMS = {
    "band": "band:W",
    "circulant_band": "circulant_band:W",
    "block_diagonal": "block_diagonal:BLOCKS, block_diagonal:SIZE,SIZE,… or …ROWS/COLUMNS",
    "arrowhead": "arrowhead:K",
    "hub": "hub:K",
    "sink": "sink:K",
    "lower_triangular": "lower_triangular",
    "staircase": "staircase or staircase:HEIGHT,HEIGHT,…",
    "anti_diagonal": "anti_diagonal",
    "bipartite": "bipartite:A",
    "checkerboard": "checkerboard",
    "toeplitz": "toeplitz:OFFSET,OFFSET,…[,causal]",
    "vertical_slash": "vertical_slash:COLUMN,…/OFFSET,…[,causal]",
}
"""How each family is written; what the size of the matrix decides is left out."""


def parse_mask(text: str, m: int, n: int) -> Mask:
    """The mask that a text names, such as "band:4" or "block_diagonal:3".

    Parameters
    ----------
    text : str
        ``name`` or ``name:arg,arg``, written as `MASK_FORMS` says.
    m, n : int
        Rows and columns of the matrix.

    Returns
    -------
    Mask
        The mask; (m, n), unless the sizes of blocks were given.

    Raises
    ------
    ValueError
        If there is no such family, its numbers do not fit, or it needs m = n.

    Examples
    --------
    >>> parse_mask("block_diagonal:2", 3, 4)
    Mask(block_diagonal, shape=(3, 4), row_sizes=(2, 1), col_sizes=(2, 2))
    """
    name, _, rest = text.strip().partition(":")
    name = name.replace("-", "_").casefold()
    if name not in MASK_FORMS:
        known = ", ".join(MASK_FORMS)
        raise ValueError(f"mask must be one of {known}, got {text!r}; write it as name:arg,arg")
    form = MASK_FORMS[name]
    words = [word.strip() for word in rest.split(",") if word.strip()]
    causal = name in ("toeplitz", "vertical_slash") and words[-1:] == ["causal"]
    if causal:
        words.pop()
    try:
        parts = [[int(word) for word in half.split(",") if word] for half in ",".join(words).split("/")]
    except ValueError:
        raise ValueError(f"mask {name} is written {form} with whole numbers, got {text!r}") from None
    numbers = parts[0]
    square = name not in ("block_diagonal", "sink", "staircase", "checkerboard")
    if square and m != n:
        raise ValueError(f"mask {name} needs a square matrix, got {m} x {n}; choose another mask")
    families: dict[str, tuple[int, int | None, int, Callable[[], Mask]]] = {
        # least and greatest count of numbers, parts, what builds it
        "band": (1, 1, 1, lambda: masks.band(n, numbers[0])),
        "circulant_band": (1, 1, 1, lambda: masks.circulant_band(n, numbers[0])),
        "block_diagonal": (1, None, min(len(parts), 2), lambda: _blocks(parts, m, n)),
        "arrowhead": (1, 1, 1, lambda: masks.arrowhead(n, numbers[0])),
        "hub": (1, 1, 1, lambda: masks.hub(n, numbers[0])),
        "sink": (1, 1, 1, lambda: masks.sink(m, n, numbers[0])),
        "lower_triangular": (0, 0, 1, lambda: masks.lower_triangular(n)),
        "staircase": (0, None, 1, lambda: masks.staircase(m, n, numbers or _stairs(m, n))),
        "anti_diagonal": (0, 0, 1, lambda: masks.anti_diagonal(n)),
        "bipartite": (1, 1, 1, lambda: masks.bipartite(integer("A", numbers[0], 1, n - 1), n - numbers[0])),
        "checkerboard": (0, 0, 1, lambda: masks.checkerboard(m, n)),
        "toeplitz": (1, None, 1, lambda: masks.toeplitz(n, numbers, causal)),
        "vertical_slash": (0, None, 2, lambda: masks.vertical_slash(n, numbers, parts[1], causal)),
    }
    low, high, halves, build = families[name]
    if len(numbers) < low or (high is not None and len(numbers) > high) or len(parts) != halves:
        raise ValueError(f"mask {name} is written {form}, got {text!r}")
    return build()


def _blocks(parts: list[list[int]], m: int, n: int) -> Mask:
    if len(parts) == 1 and len(parts[0]) == 1:  # a count of blocks, as equal as they can be
        count = parts[0][0]
        if not 1 <= count <= min(m, n):
            raise ValueError(
                f"block_diagonal:BLOCKS must be in 1..{min(m, n)}, got {count}; choose fewer blocks"
            )
        sizes = [[len(part) for part in np.array_split(np.arange(size), count)] for size in (m, n)]
        return masks.block_diagonal(*sizes)
    return masks.block_diagonal(parts[0], parts[1] if len(parts) > 1 else None)


def _stairs(m: int, n: int) -> list[int]:
    return [-(-n * (i + 1) // m) for i in range(m)]
