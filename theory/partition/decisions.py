"""Decisions drawn from values: who is above a boundary, and the rows that must stay nonnegative."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from porism.checks import integer, one_of
from porism.theory.partition._exact import Number, rational

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
        listed = list(blocks) if isinstance(blocks, Iterable) else [blocks]
        if not all(isinstance(block, Iterable) for block in listed):
            raise TypeError(f"blocks must be a sequence of sequences of players, got {blocks!r}")
        parsed = tuple(tuple(sorted(integer("blocks", player) for player in block)) for block in listed)
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
    tau : float, Fraction or str
        Threshold in units of the score, taken as the exact number it is; a string such as "1/3" as written.

    Examples
    --------
    >>> Threshold(0.5)
    Threshold(tau=Fraction(1, 2))
    """

    tau: Fraction

    def __init__(self, tau: Number) -> None:
        object.__setattr__(self, "tau", rational("tau", tau))


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
