"""Brute force straight from the definitions, in rationals; nothing here calls the code under test
except to name semivalues."""

import itertools
import math
from fractions import Fraction as F

import numpy as np
from scipy.optimize import linprog

from porism.theory.partition import Semivalue


def beta_weight(a, b):
    def integral(x, y):
        return F(math.factorial(x - 1) * math.factorial(y - 1), math.factorial(x + y - 1))

    return lambda n, s: integral(s + b, n - 1 - s + a) / integral(a, b)


def banzhaf_weight(w):
    return lambda n, s: w**s * (1 - w) ** (n - 1 - s)


FAMILIES = {
    "shapley": (
        Semivalue.shapley(),
        lambda n, s: F(math.factorial(s) * math.factorial(n - 1 - s), math.factorial(n)),
    ),
    "banzhaf": (Semivalue.banzhaf(), lambda n, s: F(1, 2 ** (n - 1))),
    "quarter": (Semivalue.weighted_banzhaf(F(1, 4)), banzhaf_weight(F(1, 4))),
    "tenth": (Semivalue.weighted_banzhaf(0.1), banzhaf_weight(F(0.1))),
    "beta41": (Semivalue.beta(4, 1), beta_weight(4, 1)),
    "beta32": (Semivalue.beta(1, 32), beta_weight(1, 32)),
    "loo": (Semivalue.leave_one_out(), lambda n, s: F(int(s == n - 1))),
}


def weights(name, n):
    """p_0 .. p_{n-1}."""
    return [FAMILIES[name][1](n, s) for s in range(n)]


def semivalue(name):
    return FAMILIES[name][0]


def games(rng, count, sizes=(2, 3, 4, 5)):
    """Random scores with many ties, with few, and floats without any."""
    for number in range(count):
        n = int(rng.choice(sizes))
        kind = number % 3
        if kind == 2:
            v = rng.normal(size=2**n)
        else:
            v = rng.integers(-2, 3 if kind else 12, size=2**n).astype(float)
        if v.min() < v.max():
            yield v


def values(v, p):
    """Semivalues by the definition with marginals."""
    v = [F(x) for x in v]
    n = len(p)
    return [
        sum((p[m.bit_count()] * (v[m | 1 << i] - v[m]) for m in range(len(v)) if not m >> i & 1), F(0))
        for i in range(n)
    ]


def level_values(v, p):
    """[(level, semivalues of the simple game 1[v >= level])] for all levels but the lowest."""
    return [(s, values([F(int(x >= s)) for x in v], p)) for s in sorted(set(map(float, v)))[1:]]


def pairs(blocks):
    return [(i, j) for a, b in itertools.pairwise(blocks) for i in a for j in b]


def top(psi, k):
    order = sorted(range(len(psi)), key=lambda i: (-psi[i], i))
    return tuple(sorted(order[:k])), tuple(sorted(order[k:]))


def is_tied(psi, blocks):
    return any(psi[i] == psi[j] for i, j in pairs(blocks))


def differences(v, p, rows):
    """{row: [(level, D_l)]}."""
    games = level_values(v, p)
    return {(i, j): [(s, x[i] - x[j]) for s, x in games] for i, j in rows}


def margin(v, p, rows):
    """(least D_l, its level, its pair), ties to the lowest level and the smallest pair."""
    return min((d, s, row) for row, curve in differences(v, p, rows).items() for s, d in curve)


def gaps(v):
    s = sorted(set(map(float, v)))
    return [F(b) - F(a) for a, b in itertools.pairwise(s)]


def slope_radius(v, p, rows):
    """min P/M over rows."""
    g, best = gaps(v), math.inf
    for curve in differences(v, p, rows).values():
        plus = sum((w * max(d, 0) for w, (_, d) in zip(g, curve, strict=True)), F(0))
        minus = sum((w * max(-d, 0) for w, (_, d) in zip(g, curve, strict=True)), F(0))
        if minus:
            best = min(best, plus / minus)
    return best


def shaped(v, p, rows, shape):
    """Robust over increasing concave or convex transforms: prefix or suffix sums."""
    g = gaps(v)
    for curve in differences(v, p, rows).values():
        terms = [w * d for w, (_, d) in zip(g, curve, strict=True)]
        if any(x < 0 for x in itertools.accumulate(terms if shape == "concave" else terms[::-1])):
            return False
    return True


def quantile_margin(v, p, rows):
    """min over rows and probabilities of Q_ij - Q_ji, by the two step functions."""
    n, best = len(p), math.inf
    for i, j in rows:
        ladders = []
        for a, b in ((i, j), (j, i)):
            steps, mass = [], F(0)
            for x, m in sorted((F(v[m]), m) for m in range(len(v)) if m >> a & 1 and not m >> b & 1):
                q = p[m.bit_count() - 1] + (p[m.bit_count()] if m.bit_count() < n else 0)
                mass += q
                if q:
                    steps.append((mass, x))
            ladders.append(steps)
        for at in {mass for steps in ladders for mass, _ in steps}:  # quantiles are constant between these
            one, two = (next(x for mass, x in steps if mass >= at) for steps in ladders)
            best = min(best, one - two)
    return best


def row_coefficients(p, row):
    """Coefficient of u(S) in psi_i - psi_j, or in psi_i for a row (i, None)."""
    n = len(p)
    out = []
    for m in range(1 << n):
        s, total = m.bit_count(), F(0)
        for player, sign in zip(row, (1, -1), strict=True):
            if player is not None:
                total += sign * (p[s - 1] if m >> player & 1 else -p[s])  # s < n where the player is out
        out.append(total)
    return out


def worst(v, p, row, shape="increasing", ratio=None, free=(), bounds=None, monotone=False):
    """Linear programme: least psi_i - psi_j over transforms with phi(lowest) = 0 and phi(highest) = 1.

    ``free`` masks have variable utilities between phi(lo) and phi(hi); ``monotone`` adds that they
    increase in inclusion up to the fixed ones.
    """
    fixed = [m for m in range(len(v)) if m not in set(free)]
    sigma = sorted({float(v[m]) for m in fixed} | set(map(float, bounds or ())))
    at = {s: k for k, s in enumerate(sigma)}
    steps, where = len(sigma), {m: len(sigma) + k for k, m in enumerate(free)}
    slope = steps + len(where)
    size = slope + 1
    cost = np.zeros(size)
    place = [where.get(m) if m in where else at[float(v[m])] for m in range(len(v))]
    for m, c in enumerate(row_coefficients(p, row)):
        cost[place[m]] += float(c)
    left = []

    def at_least(*terms):  # sum of coefficient * variable >= 0
        line = np.zeros(size)
        for index, c in terms:
            line[index] -= c
        left.append(line)

    width = [b - a for a, b in itertools.pairwise(sigma)]
    for k, w in enumerate(width):
        at_least((k + 1, 1), (k, -1))
        if ratio is not None:
            at_least((k + 1, 1 / w), (k, -1 / w), (slope, -1))
            at_least((slope, ratio), (k + 1, -1 / w), (k, 1 / w))
        if shape != "increasing" and k:
            sign = 1 if shape == "convex" else -1
            at_least(
                (k + 1, sign / w), (k, -sign / w), (k, -sign / width[k - 1]), (k - 1, sign / width[k - 1])
            )
    for m in free:
        at_least((where[m], 1), (at[float(bounds[0])], -1))
        at_least((at[float(bounds[1])], 1), (where[m], -1))
        if monotone:
            for other in range(len(v)):
                if other != m and other & m == m:
                    at_least((place[other], 1), (where[m], -1))
    ends = np.zeros((2, size))
    ends[0, 0] = ends[1, steps - 1] = 1
    found = linprog(cost, np.array(left), np.zeros(len(left)), ends, [0, 1], bounds=(None, None))
    assert found.status == 0, found.message
    return found.fun


def small_masks(n, below):
    return [m for m in range(1 << n) if m.bit_count() < below]


def is_monotone(v, known):
    return all(v[a] <= v[b] for a in known for b in known if a & b == a)


def increasing(rng, v):
    """A random strictly increasing transform of the scores, in rationals."""
    s = sorted(set(map(float, v)))
    steps = [F(int(x)) for x in rng.integers(1, 1000, len(s)) ** rng.choice((1, 3))]
    phi = dict(zip(s, itertools.accumulate(steps), strict=True))
    return [phi[float(x)] for x in v]
