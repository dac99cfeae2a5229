"""What each rule gives a right and a wrong sample of a group, and sums over binomial counts."""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, not_negative, one_of, positive, probability
from porism.errors import AssumptionError, NumericalWarning

__all__: list[str] = []

Floats = NDArray[np.float64]

RULES = ("zscore", "centred", "asymmetric", "hard", "easy", "easy_sqrt", "a_grae")

LARGE = 500
"""Group size beyond which binomial coefficients go through log-gamma."""


def options(
    group_size: int, rule: str, ddof: int = 0, eps: float = 0.0, suppress: float = 0.0, alpha: float = 1.0
) -> tuple[int, float, float, float]:
    """Checked options of a rule."""
    one_of("rule", rule, RULES)
    integer("ddof", ddof, 0)
    if ddof >= group_size:
        raise ValueError(f"ddof must be < the group size {group_size}, got {ddof}; sample larger groups")
    small = not_negative("eps", eps)
    share, target = probability("suppress", suppress), positive("alpha", alpha)
    if share and rule != "asymmetric":
        raise ValueError(
            f"suppress must be 0 with rule {rule!r}, got {share}; it acts with 'asymmetric' only"
        )
    if target != 1 and rule != "a_grae":
        raise ValueError(f"alpha must be 1 with rule {rule!r}, got {target}; it acts with 'a_grae' only")
    return ddof, small, share, target


def advantages(
    rewards: Floats, rule: str, ddof: int, eps: float, suppress: float, alpha: float, batch: Floats | float
) -> Floats:
    """Advantages of rows of rewards with the batch mean given; options are checked."""
    # squares of rewards near one: a power of two rounds nothing
    exponent = np.frexp(np.abs(rewards).max(axis=-1, keepdims=True))[1]
    unit, size = np.ldexp(rewards, -exponent), rewards.shape[-1]
    mean = unit.mean(axis=-1, keepdims=True)
    spread = np.ptp(unit, axis=-1, keepdims=True)
    equal = spread == 0
    # rewards close to each other: their differences are exact, those to a rounded mean are not
    near = 2 * spread <= np.abs(unit).max(axis=-1, keepdims=True)
    shifted = unit - np.where(near, unit[..., :1], 0.0)
    deviation = shifted - shifted.mean(axis=-1, keepdims=True)
    std = np.sqrt((deviation**2).sum(axis=-1, keepdims=True) / (size - ddof))
    mean, deviation, std = (np.ldexp(part, exponent) for part in (mean, deviation, std))
    return weigh(deviation, mean, std, equal, rule, eps, suppress, alpha, batch)


def weigh(
    deviation: Floats,
    mean: Floats,
    std: Floats,
    equal: NDArray[np.bool_],
    rule: str,
    eps: float,
    suppress: float,
    alpha: float,
    batch: Floats | float,
) -> Floats:
    """Advantages from deviations, means and standard deviations of groups; zero where all are equal."""
    if rule == "centred":
        return np.where(equal, 0.0, deviation)
    z = np.where(equal, 0.0, deviation / np.where(equal, 1.0, std + eps))
    if rule == "zscore":
        return z
    if rule == "asymmetric":
        return np.where(z > 0, (1 - suppress) * z, z)
    mean = np.where(equal, 0.5, mean)  # their advantages are zero
    hard = z / (2 * (np.sqrt(mean) + eps))
    if rule == "hard":
        return np.asarray(hard)
    if rule == "easy_sqrt":
        return np.asarray(z / (2 * (np.sqrt(1 - mean) + eps)))
    easy = z / (2 * (1 - np.sqrt(mean) + eps))
    if rule == "easy":
        return np.asarray(easy)
    mixed = batch * hard + (1 - batch) * easy
    return np.where(z > 0, np.minimum(1.0, batch / alpha) * mixed, mixed)


def outcomes(
    group_size: int,
    rule: str,
    ddof: int,
    eps: float,
    suppress: float,
    alpha: float,
    rest: float,
    prompts: int,
) -> tuple[Floats, Floats]:
    """Weights c+ and c- of right and wrong samples by the number of right ones, each of shape (G + 1,).

    `rest` is the number of right samples in the other groups of the batch of `prompts` groups.
    """
    k = np.arange(group_size + 1)[:, None]
    mean = k / group_size
    std = np.sqrt(mean * (1 - mean) * group_size / (group_size - ddof))
    equal = (k == 0) | (k == group_size)
    batch = (k + rest) / (group_size * prompts)
    deviation = np.concatenate([1 - mean, -mean], axis=1)
    found = weigh(deviation, mean, std, equal, rule, eps, suppress, alpha, batch)
    return found[:, 0], found[:, 1]


def binomial(n: int, p: Floats) -> Floats:
    """Probabilities of 0..n successes, shape (..., n + 1)."""
    k = np.arange(n + 1)
    p = p[..., None]
    if n <= LARGE:
        from scipy.special import comb

        return np.asarray(comb(n, k) * p**k * (1 - p) ** (n - k))
    from scipy.special import gammaln, xlog1py, xlogy

    log = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, p) + xlog1py(n - k, -p)
    return np.asarray(np.exp(log))


def tables(group_size: Any, rule: Any, options_: dict[str, Any]) -> tuple[int, Floats, Floats]:
    """Group size and expected weights c+, c- of a rule's name or of a pair of tables."""
    size = integer("group_size", group_size, 1)
    found = dict(options_)
    levels = finite_array("levels", found.pop("levels", (0.0, 1.0)), 1)
    if not np.isin(levels, (0.0, 1.0)).all():
        raise AssumptionError(
            f"levels must be 0 and 1, got {levels.tolist()}: with graded rewards no scalar s(p) exists, "
            "as the expected direction depends on the rule; threshold the rewards"
        )
    others = finite_array("others", found.pop("others", ()), 1)
    if ((others < 0) | (others > 1)).any():
        raise ValueError(f"others must be probabilities, got {others.tolist()}; one success rate a prompt")
    unknown = set(found) - {"ddof", "eps", "suppress", "alpha"}
    if unknown:
        raise TypeError(
            f"unknown option {sorted(unknown)[0]!r}; a rule takes ddof, eps, suppress, alpha, others"
        )
    if not isinstance(rule, str):
        return size, *_pair(rule, size, found)
    chosen = options(size, rule, **found)
    if size == 1:
        warnings.warn(
            "groups of one sample have no advantages, and give no direction: all is zero; sample more",
            NumericalWarning,
            stacklevel=3,
        )
    law = np.ones(1)
    if rule == "a_grae":
        for p in others:
            law = np.convolve(law, binomial(size, np.asarray(p)))
    plus, minus = np.zeros(size + 1), np.zeros(size + 1)
    for rest in np.flatnonzero(law):
        right, wrong = outcomes(size, rule, *chosen, float(rest), 1 + len(others))
        plus += law[rest] * right
        minus += law[rest] * wrong
    return size, plus, minus


def _pair(rule: Any, size: int, found: dict[str, Any]) -> tuple[Floats, Floats]:
    if found:
        raise ValueError(f"{sorted(found)[0]} acts on a named rule only; put it into the tables")
    try:
        plus, minus = (finite_array("rule", table, 1) for table in rule)
    except (TypeError, ValueError) as error:
        raise type(error)(f"rule must be a name or a pair (c_plus, c_minus): {error}") from None
    if not len(plus) == len(minus) == size + 1:
        raise ValueError(f"rule must have tables of length {size + 1}, got {len(plus)} and {len(minus)}")
    return plus, minus


def probabilities(name: str, value: ArrayLike) -> Floats:
    """Numbers in [0, 1] of any shape."""
    p = finite_array(name, value)
    if ((p < 0) | (p > 1)).any():
        bad = p[(p < 0) | (p > 1)].ravel()[0]
        raise ValueError(f"{name} must be in [0, 1], got {bad}; pass probabilities")
    return p


def steps(plus: Floats, minus: Floats) -> Floats:
    """``c+(K + 1) - c-(K)`` for K = 0..G - 1: what one more right sample changes."""
    return np.asarray(plus[1:] - minus[:-1])


def limit(p: Floats, rule: str, suppress: float) -> Floats:
    """s(p) of an infinite group."""
    q = 1 - p
    with np.errstate(divide="ignore"):
        base = 1 / np.sqrt(p * q)
        if rule == "centred":
            return np.ones_like(p)
        if rule == "asymmetric":
            if suppress == 1:
                return np.sqrt(p / q)  # at p = 0 the product below would be zero times infinity
            return np.asarray((1 - suppress * q) * base)
        divisor = {"zscore": np.ones_like(p), "hard": 2 * np.sqrt(p), "easy": 2 * (1 - np.sqrt(p))}
        return np.asarray(base / divisor.get(rule, 2 * np.sqrt(q)))


def limit_utility(p: Floats, rule: str, suppress: float) -> Floats:
    """Integral of `limit` from 1/2."""
    q, angle = 1 - p, np.arcsin(np.sqrt(p)) - math.pi / 4
    middle = math.atanh(math.sqrt(0.5))
    with np.errstate(divide="ignore"):
        if rule == "centred":
            return np.asarray(p - 0.5)
        if rule == "hard":
            return np.asarray(middle - np.arctanh(np.sqrt(q)))
        if rule == "easy":
            return np.asarray((1 + np.sqrt(p)) / np.sqrt(q) - 1 - math.sqrt(2))
        if rule == "easy_sqrt":
            return np.asarray(np.arctanh(np.sqrt(p)) - middle)
        return np.asarray(2 * angle - suppress * (np.sqrt(p * q) - 0.5 + angle))  # zscore: suppress is 0
