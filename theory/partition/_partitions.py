"""Decisions applied to values: blocks, and rows that must stay nonnegative; decisions as plain data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

from porism.theory.partition.decisions import (
    Decision,
    OrderedPartition,
    RelativeThreshold,
    Sign,
    Threshold,
    TopK,
)
from porism.theory.partition.errors import BoundaryTieError

__all__ = ["Partition", "describe", "partition", "revive"]


@dataclass(frozen=True)
class Partition:
    """A decision applied to values: blocks, and rows (a, b) that say "a stays above b".

    Player n stands for the boundary of a threshold decision. ``gaps[r]`` is the exact difference at the
    table itself.
    """

    kind: str  # "pairs", "sign" or "mean"
    n: int
    blocks: tuple[tuple[int, ...], ...]
    rows: list[tuple[int, int]]
    gaps: list[Fraction]
    tau: Fraction = field(default=Fraction(0))

    def pair(self, row: int) -> tuple[int, ...]:
        """Players of a row, without the boundary."""
        return tuple(player for player in self.rows[row] if player < self.n)

    def must_be_strict(self, row: int) -> bool:
        """False where equality already keeps the decision: a player on the lower side of a threshold."""
        return self.rows[row][0] < self.n


def check_k(decision: TopK, n: int) -> int:
    """The k of a top-k decision among n players."""
    if not 1 <= decision.k <= n - 1:
        raise ValueError(f"k must be in 1..n-1, got k={decision.k}, n={n}")
    return decision.k


def partition(decision: Decision, values: list[Fraction], ties: str) -> Partition:
    """Apply a decision to exact values; a tie across a boundary raises unless ``ties="weak"``."""
    n = len(values)
    if isinstance(decision, Sign | Threshold | RelativeThreshold):
        tau = decision.tau if isinstance(decision, Threshold) else Fraction(0)
        relative = isinstance(decision, RelativeThreshold)
        shift = sum(values, Fraction(0)) / n if relative else tau
        above = tuple(i for i in range(n) if values[i] > shift)
        below = tuple(i for i in range(n) if values[i] <= shift)
        rows = [(i, n) for i in above] + [(n, i) for i in below]
        gaps = [values[i] - shift for i in above] + [shift - values[i] for i in below]
        return Partition("mean" if relative else "sign", n, (above, below), rows, gaps, tau)
    if isinstance(decision, TopK):
        k = check_k(decision, n)
        ranking = sorted(range(n), key=lambda i: (-values[i], i))
        blocks: tuple[tuple[int, ...], ...] = (tuple(sorted(ranking[:k])), tuple(sorted(ranking[k:])))
    elif isinstance(decision, OrderedPartition):
        blocks = decision.blocks
        flat = {player for block in blocks for player in block}
        if flat != set(range(n)):
            raise ValueError(
                f"blocks must cover the players 0..{n - 1} exactly: missing {sorted(set(range(n)) - flat)}, "
                f"unknown {sorted(flat - set(range(n)))}"
            )
    else:
        raise TypeError(
            "decision must be TopK, OrderedPartition, Sign, Threshold or RelativeThreshold, "
            f"got {type(decision).__name__}"
        )
    rows = [(i, j) for upper, lower in pairwise(blocks) for i in upper for j in lower]
    gaps = [values[i] - values[j] for i, j in rows]
    tied = [row for row, gap in zip(rows, gaps, strict=True) if gap == 0]
    if tied and ties == "raise":
        value = values[tied[0][0]]
        players = sorted({p for row in tied for p in row if values[p] == value})
        raise BoundaryTieError(
            f"players {players} on both sides of the boundary have the same value {float(value):.12g}; "
            "change the decision, or certify weak validity with ties='weak'"
        )
    return Partition("pairs", n, blocks, rows, gaps)


def describe(decision: Decision) -> dict[str, Any]:
    """A decision as plain data."""
    name = type(decision).__name__
    if isinstance(decision, TopK):
        return {"name": name, "k": decision.k}
    if isinstance(decision, OrderedPartition):
        return {"name": name, "blocks": [list(block) for block in decision.blocks]}
    if isinstance(decision, Threshold):
        return {"name": name, "tau": str(decision.tau)}
    return {"name": name}


def revive(data: dict[str, Any]) -> Decision:
    """The decision of :func:`describe`."""
    makers: dict[str, Callable[[], Decision]] = {
        "TopK": lambda: TopK(data["k"]),
        "OrderedPartition": lambda: OrderedPartition(data["blocks"]),
        "Threshold": lambda: Threshold(data["tau"]),
        "Sign": Sign,
        "RelativeThreshold": RelativeThreshold,
    }
    return makers[data["name"]]()
