"""Masks by short text, such as ``band:4``, and the short names under which tables list them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from porism.theory.pattern import masks
from porism.theory.pattern.mask import Mask

__all__ = ["FORMS", "label", "parse_mask"]

FORMS = {
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
    """The mask that a text ``name:arg,arg`` names for a matrix of m rows and n columns."""
    name, _, rest = text.strip().partition(":")
    name = name.replace("-", "_").casefold()
    if name not in FORMS:
        raise ValueError(f"mask must be one of {', '.join(FORMS)}, got {text!r}; write it as name:arg,arg")
    words = [word.strip() for word in rest.split(",") if word.strip()]
    causal = name in ("toeplitz", "vertical_slash") and words[-1:] == ["causal"]
    if causal:
        words.pop()
    try:
        parts = [[int(word) for word in half.split(",") if word] for half in ",".join(words).split("/")]
    except ValueError:
        raise ValueError(f"mask {name} is written {FORMS[name]} with whole numbers, got {text!r}") from None
    numbers = parts[0]
    square = name not in ("block_diagonal", "sink", "staircase", "checkerboard")
    if square and m != n:
        raise ValueError(f"mask {name} needs a square matrix, got {m} x {n}; choose another mask")
    known: dict[str, tuple[int, int | None, int, Callable[[], Mask]]] = {
        # least and greatest count of numbers, parts, what builds it
        "band": (1, 1, 1, lambda: masks.band(n, numbers[0])),
        "circulant_band": (1, 1, 1, lambda: masks.circulant_band(n, numbers[0])),
        "block_diagonal": (1, None, len(parts), lambda: _blocks(parts, m, n)),
        "arrowhead": (1, 1, 1, lambda: masks.arrowhead(n, numbers[0])),
        "hub": (1, 1, 1, lambda: masks.hub(n, numbers[0])),
        "sink": (1, 1, 1, lambda: masks.sink(m, n, numbers[0])),
        "lower_triangular": (0, 0, 1, lambda: masks.lower_triangular(n)),
        "staircase": (0, None, 1, lambda: masks.staircase(m, n, numbers or _stairs(m, n))),
        "anti_diagonal": (0, 0, 1, lambda: masks.anti_diagonal(n)),
        "bipartite": (1, 2, 1, lambda: masks.bipartite(numbers[0], (numbers[1:] or [n - numbers[0]])[0])),
        "checkerboard": (0, 0, 1, lambda: masks.checkerboard(m, n)),
        "toeplitz": (1, None, 1, lambda: masks.toeplitz(n, numbers, causal)),
        "vertical_slash": (0, None, 2, lambda: masks.vertical_slash(n, numbers, parts[1], causal)),
    }
    low, high, halves, build = known[name]
    count = len(numbers)
    if count < low or (high is not None and count > high) or len(parts) != halves or halves > 2:
        raise ValueError(f"mask {name} is written {FORMS[name]}, got {text!r}")
    return build()


def label(mask: Any) -> str:
    """Short name of a mask, without what its shape says already."""
    if not isinstance(mask, Mask):
        return "custom"
    params = {key: value for key, value in mask.params.items() if key not in ("m", "n")}
    if mask.name == "block_diagonal" and params.get("row_sizes") == params.get("col_sizes"):
        params = {"sizes": params["row_sizes"]}
    if mask.name in ("toeplitz", "vertical_slash") and not params.get("causal"):
        params.pop("causal", None)
    shown = ", ".join(f"{key}={_brief(value)}" for key, value in params.items())
    return f"{mask.name}({shown})" if shown else mask.name


def _brief(value: Any) -> str:
    if isinstance(value, tuple):
        text = "+".join(map(str, value))
        return text if len(text) <= 24 else f"{len(value)} values"
    return str(value)


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
