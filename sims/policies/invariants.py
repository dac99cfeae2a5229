"""What each rule keeps under each aggregation of token losses: one table, by enumeration."""

import dataclasses
import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer
from porism.results import Result
from porism.sims.policies._measures import cosine, options_of
from porism.sims.policies.worlds import PrefixTree
from porism.theory.policies import AGGREGATIONS, RULES, aggregate_weights, expected_mass, outcome_weights

__all__ = ["Invariants", "invariant_table"]

Floats = NDArray[np.float64]

ZERO = 1e-12
"""What counts as zero: gradients are of order one."""


@dataclasses.dataclass(frozen=True, eq=False)
class Invariants(Result):
    """Rules times aggregations, row by row; made by `invariant_table`.

    Parameters
    ----------
    rule, aggregation : str arrays, shape (N,)
        What the row is for.
    direction : float64 array, shape (N,)
        Smallest cosine between the expected update and the gradient of the success rate; 1 where the
        direction law holds.
    first_token : float64 array, shape (N,)
        Largest gradient on the logit of a first token that no sample has; 0 where it stays.
    later_token : float64 array, shape (N,)
        The same at prefixes that some samples pass and some do not.
    focus : float64 array, shape (N,)
        Success rate at which a prompt has most mass in expectation.

    Examples
    --------
    >>> table = invariant_table(rng=0, trials=1)
    >>> rows = (table.rule == "zscore") & (table.aggregation == "sum")
    >>> bool(table.direction[rows] > 1 - 1e-12), bool(table.first_token[rows] < 1e-12)
    (True, True)
    """

    rule: NDArray[np.str_]
    aggregation: NDArray[np.str_]
    direction: Floats
    first_token: Floats
    later_token: Floats
    focus: Floats

    def summary(self) -> str:
        """Say in one line a rule what it keeps.

        Returns
        -------
        str
            Aggregations under which the direction law holds, and under which unsampled first tokens stay.
        """
        lines = []
        for rule in dict.fromkeys(self.rule.tolist()):
            on = self.rule == rule
            law = self.aggregation[on & (self.direction > 1 - ZERO)].tolist()
            stays = self.aggregation[on & (self.first_token < ZERO)].tolist()
            lines.append(
                f"{rule}: direction of the success rate under {', '.join(law) or 'none'}; unsampled first "
                f"tokens stay under {', '.join(stays) or 'none'}; most mass at p = {self.focus[on][0]:.2f}"
            )
        return "\n".join(lines)


def invariant_table(
    rng: np.random.Generator | int | None = 0, trials: int = 2, group_size: int = 3
) -> Invariants:
    """Measure on all groups of a small tree what rules keep under each aggregation (AG-4, AG-5, AG-7).

    Parameters
    ----------
    rng : Generator, int or None
        Source of policies and of which sequences are right.
    trials : int, default 2
        Policies, >= 1.
    group_size : int, default 3
        Samples a group, 2 to 4: all 15^G groups are enumerated.

    Returns
    -------
    Invariants
        A row for each rule and aggregation; "asymmetric" with ``suppress=0.5``.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Every rule is its tables c+, c-: a batch has one prompt. Cost O(15^G) a row.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> invariant_table(rng=0, trials=1).summary().splitlines()[1][:51]
    'centred: direction of the success rate under sum; u'
    """
    rng, G = generator(rng), integer("group_size", group_size, 2, 4)
    tree = PrefixTree(3, 2)
    N = len(tree.sequences)
    groups = np.array(list(itertools.product(range(N), repeat=G)))
    # for the two kinds of tokens, from the groups that leave some unsampled
    taken = (tree.passes[groups] > 0).any(axis=1)
    visits = tree.passes[groups].sum(axis=(1, 3))
    partly = ((visits > 0) & (visits < G))[..., None] & ~taken
    worlds = [_world(tree, rng) for _ in range(integer("trials", trials, 1))]
    grid = np.linspace(0, 1, 401)
    rows: list[tuple[Any, ...]] = []
    for rule in RULES:
        options = options_of(rule, 0.5)
        plus, minus = outcome_weights(G, rule, **options)
        focus = float(grid[np.argmax(expected_mass(grid, G, rule, **options))])
        for how in AGGREGATIONS:
            least, first, later = 1.0, 0.0, 0.0
            for pi, scores, right in worlds:
                hit = right[groups]
                k = hit.sum(axis=1, keepdims=True)
                A = np.where(hit, plus[k], minus[k])
                w = _weights(A, tree.lengths[groups], how)
                g = np.einsum("ng,ngxu->nxu", w, scores[groups])
                chance = pi[groups].prod(axis=1)
                mean, goal = np.tensordot(chance, g, 1), np.tensordot(pi * right, scores, 1)
                least = min(least, cosine(mean, goal))
                first = max(first, float(np.abs(g[:, 0][~taken[:, 0]]).max()))
                later = max(later, float(np.abs(g[partly]).max()))
            rows.append((rule, how, least, first, later, focus))
    columns = zip(*rows, strict=True)
    return Invariants(*(np.array(column) for column in columns))


def _world(tree: PrefixTree, rng: np.random.Generator) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    logits = rng.normal(size=(len(tree.prefixes), tree.stop + 1))
    right = rng.random(len(tree.sequences)) < 0.4
    right[:2] = True, False
    return tree.probabilities(logits), tree.scores(logits), right


def _weights(A: Floats, lengths: NDArray[np.int64], how: str) -> Floats:
    """Weights of tokens, for many groups; one group at a time it is `aggregate_weights`."""
    if how == "sum":
        return np.asarray(A / A.shape[1])
    divisor = A.shape[1] * lengths if how == "seq_mean" else lengths.sum(axis=1, keepdims=True)
    found = np.asarray(A / divisor)
    if not np.allclose(found[-1], aggregate_weights(A[-1], lengths[-1], how)):  # pragma: no cover
        raise ArithmeticError("weights differ from those of aggregate_weights")
    return found
