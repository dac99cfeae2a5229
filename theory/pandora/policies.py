"""Exact values of routing policies, by the same recursion on the same grid as the optimum."""

from typing import Any

import numpy as np

from porism.checks import one_of
from porism.theory.pandora._grid import Problem, limit, prepare
from porism.theory.pandora._rules import RULES
from porism.theory.pandora._sweep import CHAINS, follow, opening, order_table, sweep
from porism.theory.pandora.optimal import DPResult

__all__ = ["POLICIES", "compare_policies", "evaluate_policy", "first_action", "policy_value"]

INSTEAD = "policy_value has no limit for 'cheap', 'exhaustive', 'weitzman' and 'commit'"

POLICIES: tuple[str, ...] = (
    "cheap",
    "exhaustive",
    "weitzman",
    "top_index",
    "kg",
    "kg_sigma",
    "commit",
    "recommit",
    "two_step",
    "rollout",
)
"""Names of all policies, in the order of the measured table (PB-9)."""


def policy_value(policy: str, m: Any, nu: Any, c: Any, outside: float = -np.inf, grid: int = 4001) -> float:
    """Expected value of routing one query with a given policy, for independent Gaussian specialists.

    With a the policy's action, ``W(U, b) = max(b, max_U m)`` where a stops and
    ``W(U, b) = -c_a + E W(U without a, max(b, M_a))`` where it refines a.

    Parameters
    ----------
    policy : str
        - "cheap": the best mean, no refinement;
        - "exhaustive": refine everybody, take the best;
        - "weitzman": refine by decreasing index sigma while it exceeds the best refined mean, which is then
          taken (nobody is used unrefined);
        - "top_index": refine the specialist of largest sigma while its own band is open;
        - "kg": refine the largest one-step net gain while it is positive;
        - "kg_sigma": among those of open bands refine the largest sigma;
        - "commit": fix the best specialist never to refine, or none, then "weitzman" on the others;
        - "recommit": make the first step of "commit", then choose again;
        - "two_step": refine argmax of -c + E[value of at most one more refinement] while it beats stopping;
        - "rollout": refine argmax of -c + E[value of the best committing policy] while it beats stopping.
    m, nu, c, outside, grid
        As for `optimal_value`.

    Returns
    -------
    float
        Expected value of the chosen specialist or outside option, less the costs of refining.

    Raises
    ------
    ValueError
        If the policy is unknown, an argument is out of range, or K > 14 for a policy that depends on the
        state; "cheap", "exhaustive", "weitzman" and "commit" have no limit.

    Notes
    -----
    On equal grids no value exceeds that of `optimal_value` beyond rounding. O(1/grid^2): jumps at known
    places are held by double nodes, others by mixing the two actions of a cell at its nearer node.
    Time O(2^K K grid) with a constant of one to three times the optimum's; "exhaustive" and "weitzman" take
    O(K grid), "commit" O(K^2 grid). With outside = -inf "weitzman" must refine somebody.

    References
    ----------
    P. Frazier, W. Powell and S. Dayanik (2008), A knowledge-gradient policy for sequential information
    collection, SIAM J. Control Optim. 47, for "kg". H. Beyhaghi and R. Kleinberg (2019), Pandora's problem
    with nonobligatory inspection, for "commit". Reconstruction PB-8 to PB-11 of the specification.

    Examples
    --------
    >>> trap = [0.666, 1.524], [0.565, 0.648], [0.0828, 0.0306]
    >>> print(policy_value("kg", *trap), round(policy_value("rollout", *trap), 5))
    1.524 1.53417
    """
    one_of("policy", policy, POLICIES)
    if policy in RULES:
        limit("policy_value", np.size(m), INSTEAD)
    return _value(prepare(m, nu, c, outside, grid), policy)


def evaluate_policy(
    policy: str, m: Any, nu: Any, c: Any, outside: float = -np.inf, grid: int = 4001
) -> DPResult:
    """Value, expected spend, expected number of refinements and table of actions of a policy.

    The recursion of `policy_value`, carried for three quantities at once.

    Parameters
    ----------
    policy : str
        One of `POLICIES`.
    m, nu, c, outside, grid
        As for `optimal_value`.

    Returns
    -------
    DPResult
        As for `optimal_value`. The table of "commit" is that of the plan it fixes at the start.

    Raises
    ------
    ValueError
        If the policy is unknown, an argument is out of range, or K > 14.

    Notes
    -----
    About three times the time of `policy_value`.

    References
    ----------
    Reconstruction PB-9 and PB-12 of the specification: spend of "kg" may rise with the price of refining.

    Examples
    --------
    >>> evaluate_policy("exhaustive", [0.0, 0.2], [0.5, 0.5], [0.01, 0.02], grid=201).n_refine
    2.0
    """
    one_of("policy", policy, POLICIES)
    limit("evaluate_policy", np.size(m), INSTEAD)
    problem = prepare(m, nu, c, outside, grid)
    if policy in CHAINS:
        totals, sigma, floor = follow(problem, policy)
        table = order_table(problem, sigma, floor)
    else:
        totals, table = sweep(problem, policy, account=True)
    return DPResult._of(problem, totals, table, policy)


def compare_policies(m: Any, nu: Any, c: Any, outside: float = -np.inf, grid: int = 4001) -> dict[str, float]:
    """Value of the optimum and of every policy for one query, on one grid.

    The difference to ``"optimal"`` is what a policy loses; it is exact in sign because all share the grid.

    Parameters
    ----------
    m, nu, c, outside, grid
        As for `optimal_value`.

    Returns
    -------
    dict of str to float
        ``"optimal"`` first, then `POLICIES` in their order; units of value.

    Raises
    ------
    ValueError
        If an argument is out of range, the shapes differ, or K > 14.

    Notes
    -----
    Lays out the grid once: for K <= 4 about three times faster than calls of `policy_value`.

    References
    ----------
    Reconstruction PB-9 of the specification.

    Examples
    --------
    >>> values = compare_policies([0.323, -0.397], [1.2, 0.427], [0.2848, 0.0198])
    >>> print(round(values["optimal"], 4), round(values["kg"], 4), round(values["commit"], 4))
    0.3328 0.323 0.323
    """
    limit("compare_policies", np.size(m), INSTEAD)
    problem = prepare(m, nu, c, outside, grid)
    return {name: _value(problem, name) for name in ("optimal", *POLICIES)}


def first_action(policy: str, m: Any, nu: Any, c: Any, outside: float = -np.inf, grid: int = 401) -> int:
    """What a policy does now: the specialist to refine, or -1 to stop.

    For a router under way pass the specialists not yet refined as m, nu, c, and as `outside` the best of the
    outside option and the refined means; the index returned counts within what was passed.

    Parameters
    ----------
    policy : str
        ``"optimal"`` or one of `POLICIES`.
    m, nu, c, outside, grid
        As for `optimal_value`.

    Returns
    -------
    int
        Index into m, or -1.

    Raises
    ------
    ValueError
        If the policy is unknown, an argument is out of range, or K > 14.

    Notes
    -----
    Skips the policy's own value, so "rollout" takes 2^K expectations in place of 2^K K. The error of the
    scores compared is O(1/grid^2), and so is the loss from a wrong choice. Measured for "rollout", one
    CPU thread, default grid: 2 ms at K = 4, 7 ms at K = 8, 21 ms at K = 10.

    References
    ----------
    Reconstruction PB-10 of the specification.

    Examples
    --------
    >>> first_action("rollout", [0.666, 1.524], [0.565, 0.648], [0.0828, 0.0306])
    1
    """
    one_of("policy", policy, ("optimal", *POLICIES))
    limit("first_action", np.size(m), INSTEAD)
    problem = prepare(m, nu, c, outside, grid)
    if policy in CHAINS:
        _, sigma, floor = follow(problem, policy)
        top = int(sigma.argmax())
        return top if max(problem.x[0], floor) < sigma[top] else -1
    if policy == "optimal":
        return int(sweep(problem, policy, account=False)[1][-1, 0])
    return opening(problem, policy)


def _value(problem: Problem, policy: str) -> float:
    if policy in RULES:
        return float(sweep(problem, policy, account=False)[0][0]) + problem.shift
    return float(follow(problem, policy)[0][0]) + problem.shift
