"""The recursion over sets of unrefined specialists, and the chains of policies with a fixed order."""

import numpy as np
from numpy.typing import NDArray

from porism.theory.pandora._grid import Problem
from porism.theory.pandora._rules import RULES, Floats, layers, slices

CHAINS = ("cheap", "exhaustive", "weitzman", "commit")


def sweep(problem: Problem, policy: str, account: bool) -> tuple[Floats, NDArray[np.int8]]:
    """Value, and with `account` spend and number of refinements, at the start; and the table of actions.

    Layer by layer from the empty set up; a layer needs only the one below it. Where the action changes
    inside a cell, the node nearer to the change mixes both actions so that the cell's integral is right to
    second order: this makes spend, and values of policies that jump there, O(h^2). Mixtures are policies, so
    no value exceeds the optimum on the same grid.
    """
    x, parts = problem.x, 3 if account else 1
    rule = RULES[policy](problem)
    table = np.full((1 << problem.K, len(x)), -1, np.int8)
    below = np.zeros((parts, 1, len(x)))
    below[0] = x
    for layer in layers(problem):
        k = layer.members.shape[1]
        rule.begin(layer)
        now = np.empty((parts, len(layer.masks), len(x)))
        for rows in slices(len(layer.masks), len(x) * k * parts):
            part = layer[rows]
            outcome = np.zeros((k + 1, parts, len(part.masks), len(x)))
            for j, (boxes, before) in enumerate(zip(part.members.T, part.before.T, strict=True)):
                outcome[j] = problem.expect(boxes, below[:, before])
                cost = problem.c[boxes, None]
                outcome[j, 0] -= cost
                if account:
                    outcome[j, 1] += cost
                    outcome[j, 2] += 1
            outcome[k, 0] = rule.stop(part)
            action, scores = rule.act(part, outcome[:k, 0])
            result = np.take_along_axis(outcome, action[None, None], axis=0)[0]
            exact = result[0].copy() if rule.greedy else None
            if scores is not None and k < problem.K:  # the start is one state, nothing is averaged there
                _mix(result, outcome, action, scores, x)
            if exact is not None:
                result[0] = exact
            now[:, rows] = result
            labels = np.concatenate([part.members, np.full((len(part.masks), 1), -1)], axis=1)
            table[part.masks] = np.take_along_axis(labels, action, axis=1)
        rule.advance(layer)
        below = now
    return below[:, 0, 0], table


def opening(problem: Problem, policy: str) -> int:
    """Action at the start of a policy whose scores need no value of its own."""
    rule = RULES[policy](problem)
    *below, start = layers(problem)
    for layer in below:
        rule.begin(layer)
        rule.advance(layer)
    rule.begin(start)
    action = rule.act(start, np.zeros((problem.K, 1, len(problem.x))))[0][0, 0]
    return int(action) if action < problem.K else -1


def _mix(result: Floats, outcome: Floats, action: NDArray[np.intp], scores: Floats, x: Floats) -> None:
    """Correct the node nearer to a change of action for the jump there: a mixture of the two actions.

    A jump J at share s of a cell of width h moves the cell's integral by J h (1/2 - s) away from that of the
    line between its ends. A mere kink, J = 0, is left alone, as the optimum leaves its own.
    """
    row, left = np.nonzero(action[:, :-1] != action[:, 1:])
    if not len(row):
        return
    right = left + 1
    a, b = action[row, left], action[row, right]
    with np.errstate(invalid="ignore"):
        before = np.maximum(scores[a, row, left] - scores[b, row, left], 0.0)
        after = np.maximum(scores[b, row, right] - scores[a, row, right], 0.0)
        share = before / (before + after)  # where in the cell the two scores cross
    share[~np.isfinite(share)] = 0.5
    jump_left = outcome[b, :, row, left] - outcome[a, :, row, left]
    jump_right = outcome[b, :, row, right] - outcome[a, :, row, right]
    jump = (1 - share)[:, None] * jump_left + share[:, None] * jump_right
    near = np.where(share < 0.5, left, right)
    h = np.diff(x, prepend=x[0], append=x[-1])  # h[k] is the cell left of node k
    weight = (0.5 - share) * h[right] / ((h[near] + h[near + 1]) / 2)
    one, two = outcome[a, :, row, near], outcome[b, :, row, near]
    mixed = np.where(near == left, a, b)
    corrected = outcome[mixed, :, row, near] + weight[:, None] * jump
    result[:, row, near] = np.clip(corrected, np.minimum(one, two), np.maximum(one, two)).T


def chain(problem: Problem, boxes: NDArray[np.int64], sigma: Floats) -> Floats:
    """Refine by decreasing sigma while it exceeds the best refined mean: value, spend, count at each node."""
    x = problem.x
    ended = np.zeros((3, len(x)))
    ended[0] = x
    now = ended
    for i in boxes[np.argsort(-sigma[boxes], kind="stable")][::-1]:
        go = problem.expect(np.array([i]), now[:, None])[:, 0]
        go[0] -= problem.c[i]
        go[1] += problem.c[i]
        go[2] += 1
        now = np.where(x < sigma[i], go, ended)
    return now


def follow(problem: Problem, policy: str) -> tuple[Floats, Floats, float]:
    """A policy of fixed order: (value, spend, count) at the start, order indices, and a floor.

    In every set it refines the member of largest order index while that exceeds max(x, floor).
    """
    everyone = np.arange(problem.K)
    if policy == "cheap":
        value = max(problem.outside, float(problem.m.max()))
        return np.array([value, 0.0, 0.0]), np.full(problem.K, -np.inf), -np.inf
    if policy == "weitzman" and np.isinf(problem.c).all() and problem.outside == -np.inf:
        return np.array([-np.inf, 0.0, 0.0]), problem.sigma, -np.inf
    if policy == "exhaustive":
        sigma = np.full(problem.K, np.inf)
        if np.isinf(problem.c).any():
            return np.array([-np.inf, np.inf, problem.K]), sigma, -np.inf
        return chain(problem, everyone, sigma)[:, 0], sigma, -np.inf
    sigma, floor = problem.sigma, -np.inf
    best = chain(problem, everyone, sigma)[:, 0]
    if policy == "weitzman":
        return best, sigma, floor
    kept = -1
    for r in everyone:
        plan = chain(problem, np.delete(everyone, r), sigma)[:, problem.at[r]]
        if plan[0] > best[0]:
            best, kept = plan, int(r)
    if kept >= 0:
        sigma[kept], floor = -np.inf, float(problem.m[kept])
    return best, sigma, floor


def order_table(problem: Problem, sigma: Floats, floor: float) -> NDArray[np.int8]:
    """Actions of a policy of fixed order in every set and at every node."""
    table = np.full((1 << problem.K, len(problem.x)), -1, np.int8)
    for layer in layers(problem):
        top = np.take_along_axis(layer.members, sigma[layer.members].argmax(axis=1)[:, None], axis=1)
        table[layer.masks] = np.where(np.maximum(problem.x, floor) < sigma[top], top, -1)
    return table
