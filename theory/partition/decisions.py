"""Decisions drawn from values: who is above a boundary, and the rows that must stay nonnegative."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

from porism.checks import integer, one_of
from porism.theory.partition.errors import BoundaryTieError
from porism.theory.partition.exact import rational

__all__ = ["Decision", "OrderedPartition", "RelativeThreshold", "Sign", "Threshold", "TopK"]


@dataclass(frozen=True)
class TopK:
    """Select the k players of largest value.

    Parameters
    ----------
    k : int
        Number of players selected, 1 <= k <= n-1.

    Examples
    --------
    >>> TopK(2)
    TopK(k=2)
    """

    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", integer("k", self.k))


@dataclass(frozen=True)
class OrderedPartition:
    """Blocks of players from best to worst; each block must stay above the next.

    Parameters
    ----------
    blocks : sequence of sequences of int
        Nonempty, disjoint, covering all players.

    Examples
    --------
    >>> OrderedPartition([[2, 0], [1]]).blocks
    ((0, 2), (1,))
    """

    blocks: tuple[tuple[int, ...], ...]

    def __init__(self, blocks: Sequence[Iterable[int]]) -> None:
        if not isinstance(blocks, Iterable) or not all(isinstance(block, Iterable) for block in blocks):
            raise TypeError(f"blocks must be a sequence of sequences of players, got {blocks!r}")
        parsed = tuple(tuple(sorted(integer("blocks", player) for player in block)) for block in blocks)
        object.__setattr__(self, "blocks", parsed)
        if len(parsed) < 2 or not all(parsed):
            raise ValueError(f"blocks must be at least two nonempty blocks, got {parsed}")
        flat = [player for block in parsed for player in block]
        twice = sorted({player for player in flat if flat.count(player) > 1})
        if twice:
            raise ValueError(f"blocks must not overlap, players {twice} occur more than once")


@dataclass(frozen=True)
class Sign:
    """Select the players of positive value; a value of exactly 0 is on the lower side.

    Examples
    --------
    >>> Sign()
    Sign()
    """


@dataclass(frozen=True)
class Threshold:
    """Select the players whose value is above tau; not scale-free unless tau is 0.

    Parameters
    ----------
    tau : float or Fraction
        Threshold in units of the score, taken as the exact number it is.

    Examples
    --------
    >>> Threshold(0.5)
    Threshold(tau=Fraction(1, 2))
    """

    tau: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", rational("tau", self.tau))


@dataclass(frozen=True)
class RelativeThreshold:
    """Select the players whose value is above the mean value of all players.

    Parameters
    ----------
    reference : {"mean"}
        What a value is compared with.

    Examples
    --------
    >>> RelativeThreshold("mean")
    RelativeThreshold(reference='mean')
    """

    reference: str = "mean"

    def __post_init__(self) -> None:
        one_of("reference", self.reference, ("mean",))


Decision = TopK | OrderedPartition | Sign | Threshold | RelativeThreshold


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
        blocks = (tuple(sorted(ranking[:k])), tuple(sorted(ranking[k:])))
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
    makers = {
        "TopK": lambda: TopK(data["k"]),
        "OrderedPartition": lambda: OrderedPartition(data["blocks"]),
        "Threshold": lambda: Threshold(Fraction(data["tau"])),
        "Sign": Sign,
        "RelativeThreshold": RelativeThreshold,
    }
    return makers[data["name"]]()  # type: ignore[no-any-return]
