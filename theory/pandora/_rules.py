"""What each policy does in a state: scores of refining and the action, for many states at once."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from porism.theory.pandora._grid import Problem

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
NOISE = 1e-13  # in units of the largest nu: a gain below it is rounding of the sums over the grid


@dataclasses.dataclass(frozen=True)
class Layer:
    """Sets of k unrefined specialists.

    Parameters
    ----------
    masks : int array, shape (R,)
        The sets as bit masks.
    members : int array, shape (R, k)
        Their specialists, increasing.
    before : int array, shape (R, k)
        Row, in the layer of k - 1, of the set without each member.
    rivals : int array, shape (R, k)
        Node of the best unrefined mean among the other members; 0 if there is none.
    best : int array, shape (R,)
        Node of the best unrefined mean.
    """

    masks: Indices
    members: Indices
    before: Indices
    rivals: Indices
    best: Indices

    def __getitem__(self, rows: slice) -> "Layer":
        return Layer(*(getattr(self, field.name)[rows] for field in dataclasses.fields(self)))


@functools.cache
def _sets(K: int) -> list[tuple[Indices, Indices, Indices]]:
    """Masks, members and rows without each member, by size of the set."""
    masks = np.arange(1 << K)
    bits = masks[:, None] >> np.arange(K) & 1
    sizes = bits.sum(axis=1)
    row = np.empty(1 << K, np.int64)
    found = []
    for k in range(K + 1):
        chosen = masks[sizes == k]
        row[chosen] = np.arange(len(chosen))
        members = np.nonzero(bits[chosen])[1].reshape(len(chosen), k)
        parts = chosen, members, row[chosen[:, None] ^ (1 << members)]
        for part in parts:
            part.flags.writeable = False  # shared by all problems
        found.append(parts)
    return found


def layers(problem: Problem) -> list[Layer]:
    """All nonempty sets by size."""
    found = []
    for masks, members, before in _sets(problem.K)[1:]:
        places = problem.at[members]
        first = places.argmax(axis=1)[:, None]
        best = np.take_along_axis(places, first, axis=1)
        others = places.copy()
        np.put_along_axis(others, first, 0, axis=1)
        rivals = np.broadcast_to(best, places.shape).copy()
        np.put_along_axis(rivals, first, others.max(axis=1)[:, None], axis=1)
        found.append(Layer(masks, members, before, rivals, best[:, 0]))
    return found


class Rule:
    """A policy: from values of refining to scores and actions. Subclasses keep what they look ahead with."""

    greedy = False  # whether the score of refining is the policy's own value: then it is the optimum

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.noise = NOISE * float(problem.nu.max())
        self.net = problem.gain - problem.c[:, None]
        self.open = np.abs(problem.m[:, None] - problem.x) < problem.width[:, None]
        if problem.outside == -np.inf:  # no alternative at all: nothing to compare with
            self.net[:, 0], self.open[:, 0] = -problem.c, False

    def act(self, layer: Layer, values: Floats) -> tuple[NDArray[np.intp], Floats | None]:
        """Position of the member to refine, k to stop, (R, N); and scores (k + 1, R, N) or None."""
        raise NotImplementedError

    def begin(self, layer: Layer) -> None:
        """Prepare what acting in these sets needs."""

    def advance(self, layer: Layer) -> None:
        """Keep what acting in the next larger sets needs."""

    def stop(self, layer: Layer) -> Floats:
        """Best usable mean."""
        x = self.problem.x
        return np.maximum(x, x[layer.best, None])

    def one_step(self, layer: Layer) -> tuple[Floats, NDArray[np.bool_]]:
        """Net gain of refining each member once, and whether the gap lies in its band: (k, R, N)."""
        nodes = np.arange(len(self.problem.x))
        at = np.maximum(nodes, layer.rivals.T[:, :, None])
        box = layer.members.T[:, :, None]
        return self.net[box, at], self.open[box, at]

    def _best(self, layer: Layer, scores: Floats) -> tuple[NDArray[np.intp], Floats]:
        """The best score if it beats stopping, or if one refinement alone pays (exact far in the tail)."""
        k = len(scores)
        stop = self.stop(layer)
        go = (scores.max(axis=0) > stop + self.noise) | self.one_step(layer)[1].any(axis=0)
        return np.where(go, scores.argmax(axis=0), k), np.concatenate([scores, stop[None]])


class Optimal(Rule):
    """Refine where the value of refining is greatest."""

    greedy = True

    def act(self, layer: Layer, values: Floats) -> tuple[NDArray[np.intp], Floats | None]:
        return self._best(layer, values)


class OneStep(Rule):
    """The knowledge gradient: refine the largest one-step net gain while it is positive."""

    def act(self, layer: Layer, values: Floats) -> tuple[NDArray[np.intp], Floats | None]:
        net, opened = self.one_step(layer)
        action = np.where(opened, net, -np.inf).argmax(axis=0)
        stop = np.zeros((1, *action.shape))
        return np.where(opened.any(axis=0), action, len(net)), np.concatenate([net, stop])


class OneStepBySigma(Rule):
    """Among the specialists with open bands refine the one of the largest index."""

    def act(self, layer: Layer, values: Floats) -> tuple[NDArray[np.intp], Floats | None]:
        opened = self.one_step(layer)[1]
        sigma = self.problem.sigma[layer.members.T][:, :, None]
        action = np.where(opened, sigma, -np.inf).argmax(axis=0)
        return np.where(opened.any(axis=0), action, len(opened)), None


class TopIndex(Rule):
    """Refine the specialist of the largest index if its own band is open, else stop."""

    def act(self, layer: Layer, values: Floats) -> tuple[NDArray[np.intp], Floats | None]:
        opened = self.one_step(layer)[1]
        top = self.problem.sigma[layer.members].argmax(axis=1)
        return np.where(opened[top, np.arange(len(top))], top[:, None], len(opened)), None


class Lookahead(Rule):
    """Refine argmax of -c + E L(rest, max(b, M)) while it beats stopping; L is a lower bound of the value."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.look = problem.x[None].copy()

    def act(self, layer: Layer, values: Floats) -> tuple[NDArray[np.intp], Floats | None]:
        problem = self.problem
        scores = np.empty_like(values)
        for j, (boxes, rows) in enumerate(zip(layer.members.T, layer.before.T, strict=True)):
            scores[j] = problem.expect(boxes, self.look[rows]) - problem.c[boxes, None]
        return self._best(layer, scores)


class TwoStep(Lookahead):
    """L = stop, or refine the one best specialist and stop."""

    def advance(self, layer: Layer) -> None:
        look = self.stop(layer)
        for rows in slices(len(layer.masks), look.shape[1] * layer.members.shape[1]):
            net, opened = self.one_step(layer[rows])
            look[rows] += np.where(opened, net, 0.0).max(axis=0)
        self.look = look


class Committing:
    """Values of Weitzman's rule, E max(x, max kappa_j) over each set, one layer after the other."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.last = self.now = problem.x[None].copy()

    def advance(self, layer: Layer) -> None:
        """The next layer: refine the largest index while it exceeds what is in hand."""
        problem, x = self.problem, self.problem.x
        rows = np.arange(len(layer.masks))
        top = problem.sigma[layer.members].argmax(axis=1)
        boxes, before = layer.members[rows, top], layer.before[rows, top]
        value = np.empty((len(rows), len(x)))
        for part in slices(len(rows), len(x)):
            box = boxes[part]
            refined = problem.expect(box, self.now[before[part]]) - problem.c[box, None]
            value[part] = np.where(x < problem.sigma[box, None], refined, x)
        self.last, self.now = self.now, value

    def keeping(self, layer: Layer, j: int) -> Floats:
        """Value of never refining the j-th member and running Weitzman's rule on the others."""
        at = self.problem.at[layer.members[:, j], None]
        rows = layer.before[:, j, None]
        return self.last[rows, np.maximum(np.arange(len(self.problem.x)), at)]


class Rollout(Lookahead):
    """L = the best committing policy."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.plans = Committing(problem)

    def advance(self, layer: Layer) -> None:
        self.plans.advance(layer)
        look = np.maximum(self.stop(layer), self.plans.now)
        for rows in slices(len(look), look.shape[1]):
            for j in range(layer.members.shape[1]):
                np.maximum(look[rows], self.plans.keeping(layer[rows], j), out=look[rows])
        self.look = look


class Recommit(Rule):
    """Take the first step of the best committing policy, then choose again."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.plans = Committing(problem)
        self.offset: dict[int, int] = {}

    def begin(self, layer: Layer) -> None:
        self.plans.advance(layer)
        self.offset = {int(mask): row for row, mask in enumerate(layer.masks)}

    def act(self, layer: Layer, values: Floats) -> tuple[NDArray[np.intp], Floats | None]:
        k = layer.members.shape[1]
        first = self.offset[int(layer.masks[0])]
        stop = self.stop(layer)
        rows = np.arange(len(stop))
        order = np.argsort(-self.problem.sigma[layer.members], axis=1, kind="stable")
        top, second = order[:, 0], order[:, min(1, k - 1)]
        plans = np.stack([self.plans.keeping(layer, j) for j in range(k)])
        scores = np.full((k + 1, *stop.shape), -np.inf)
        scores[second, rows] = plans[top, rows]  # without the top index a plan starts with the second
        plans[top, rows] = self.plans.now[first : first + len(rows)]
        scores[top, rows] = plans.max(axis=0)
        scores[k] = stop
        best = scores[:k].max(axis=0)
        return np.where(best > stop + self.noise, scores[:k].argmax(axis=0), k), scores


def slices(rows: int, width: int, budget: int = 1 << 17) -> list[slice]:
    """Runs of rows that hold about `budget` numbers of this width: they stay in the cache."""
    step = max(1, budget // max(1, width))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


RULES: dict[str, Callable[[Problem], Rule]] = {
    "optimal": Optimal,
    "kg": OneStep,
    "kg_sigma": OneStepBySigma,
    "top_index": TopIndex,
    "two_step": TwoStep,
    "recommit": Recommit,
    "rollout": Rollout,
}
