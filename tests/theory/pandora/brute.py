"""Slow references for the exact values: dense matrices on a grid, and policies straight from their text."""

import itertools
import math

import numpy as np
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm


@st.composite
def problems(draw, largest):
    K = draw(st.integers(1, largest))
    numbers = lambda low, high: np.array(draw(st.lists(st.floats(low, high), min_size=K, max_size=K)))
    nu = numbers(0.05, 2)
    outside = draw(st.one_of(st.just(-math.inf), st.floats(-2, 2)))
    return numbers(-2, 2), nu, nu * numbers(0, 0.5), outside


def gain(gap, nu):
    """E(M - b)^+ less (m - b)^+ for |m - b| = gap."""
    return nu * norm.pdf(gap / nu) - gap * norm.sf(gap / nu)


def half_width(nu, c):
    """Gap at which refining once breaks even, by bisection on the excess itself."""
    excess = lambda w: nu * norm.pdf(w / nu) - w * norm.sf(w / nu) - c
    return brentq(excess, -c - 10 * nu, 9 * nu, xtol=1e-14)


def two_boxes(m, nu, c, outside):
    """PB-7: the optimum for two specialists by one adaptive quadrature."""

    def last(j, x):  # value with only j left and x in hand
        return max(x, m[j]) + max(gain(abs(m[j] - x), nu[j]) - c[j], 0)

    values = [max(*m, outside)]
    for i, j in ((0, 1), (1, 0)):
        w = half_width(nu[j], c[j])
        kinks = [m[j] - w, m[j], m[j] + w, outside]
        ends = [m[i] - 10 * nu[i], *(z for z in kinks if abs(z - m[i]) < 10 * nu[i]), m[i] + 10 * nu[i]]
        law = norm(m[i], nu[i]).pdf
        parts = itertools.pairwise(sorted(ends))
        integrand = lambda y, j=j, law=law: last(j, max(y, outside)) * law(y)
        values.append(-c[i] + sum(quad(integrand, a, b, epsabs=1e-13, epsrel=1e-13)[0] for a, b in parts))
    return values


def dense(x, m, nu, c):
    """W of PB-6 for every set (bit mask) at every node, with a full matrix of hat-function weights."""
    K, N, h = len(m), len(x), np.diff(x)
    matrices = []
    for mean, sd in zip(m, nu, strict=True):
        z = (x - mean) / sd
        mass = np.diff(norm.cdf(z))
        moment = (mean - x[:-1]) * mass - sd * np.diff(norm.pdf(z))  # of y - left end
        P = np.zeros((N, N))
        for row in range(N):
            P[row, row] = norm.cdf(z[row])
            P[row, row:-1] += mass[row:] - moment[row:] / h[row:]
            P[row, row + 1 :] += moment[row:] / h[row:]
            P[row, -1] += norm.sf(z[-1])
        beyond = sd * norm.pdf(z[-1]) - (x[-1] - mean) * norm.sf(z[-1])
        matrices.append((P, beyond))
    W = {0: x}
    for mask in range(1, 1 << K):
        members = [i for i in range(K) if mask >> i & 1]
        choices = [x, *(np.full(N, m[i]) for i in members)]
        choices += [matrices[i][0] @ W[mask ^ 1 << i] + matrices[i][1] - c[i] for i in members]
        W[mask] = np.max(choices, axis=0)
    return W


class Naive:
    """A policy by its definition: nested sums over standard normal points, decisions taken afresh."""

    def __init__(self, m, nu, c, points=1201):
        self.m, self.nu, self.c = (np.asarray(v, float) for v in (m, nu, c))
        self.sigma = self.m + [half_width(*pair) for pair in zip(self.nu, self.c, strict=True)]
        edges = np.linspace(-8, 8, points + 1)
        self.z = (edges[1:] + edges[:-1]) / 2
        self.weight = np.diff(norm.cdf(edges))
        self.fine = np.linspace(min(self.m - 9 * self.nu), max(self.m + 9 * self.nu), 200_001)
        self.tables = {}

    def refined(self, function, i, b):
        """E function(max(b, M_i)) - c_i for an array b."""
        after = np.maximum(b[:, None], self.m[i] + self.nu[i] * self.z)
        return function(after.ravel()).reshape(after.shape) @ self.weight - self.c[i]

    def weitzman(self, boxes, x):
        """E max(x, max kappa) over boxes: x + integral of 1 - prod F, midpoint rule."""
        if boxes not in self.tables:
            middle = (self.fine[1:] + self.fine[:-1]) / 2
            below = np.ones_like(middle)
            for j in boxes:
                F = norm.cdf((middle - self.m[j]) / self.nu[j])
                below *= np.where(middle < self.sigma[j], F, 1)
            steps = (1 - below) * np.diff(self.fine)
            self.tables[boxes] = np.concatenate([np.cumsum(steps[::-1])[::-1], [0]])
        x = np.maximum(x, self.fine[0])  # all mass lies above
        return x + np.interp(x, self.fine, self.tables[boxes])

    def without(self, U, i):
        return tuple(j for j in U if j != i)

    def plans(self, U, b):
        """(first step or -1, value) of every committing plan."""
        for r in (None, *U):
            rest = self.without(U, r)
            hand = b if r is None else np.maximum(b, self.m[r])
            value = self.weitzman(rest, hand)
            top = max(rest, key=lambda j: self.sigma[j]) if rest else -1
            yield np.where(hand < self.sigma[top], top, -1) if rest else np.full(b.shape, -1), value

    def commit(self, U, b):
        stop = np.maximum(b, max((self.m[j] for j in U), default=-np.inf))
        return np.max([stop, *(value for _, value in self.plans(U, b))], axis=0)

    def net(self, U, i, b):
        rival = np.maximum(b, max((self.m[j] for j in self.without(U, i)), default=-np.inf))
        return gain(np.abs(self.m[i] - rival), self.nu[i]) - self.c[i]

    def one_more(self, U, b):
        stop = np.maximum(b, max((self.m[j] for j in U), default=-np.inf))
        return stop + np.max([0 * b, *(self.net(U, i, b) for i in U)], axis=0)

    def action(self, policy, U, b):
        """Specialist to refine, or -1, for an array b."""
        stop = np.maximum(b, max(self.m[j] for j in U))
        boxes = np.array(U)
        by_sigma = boxes[np.argsort(-self.sigma[boxes])]
        if policy in ("kg", "kg_sigma", "top_index"):
            nets = np.array([self.net(U, i, b) for i in by_sigma])
            if policy == "top_index":
                return np.where(nets[0] > 0, by_sigma[0], -1)
            best = nets.argmax(0) if policy == "kg" else (nets > 0).argmax(0)
            return np.where((nets > 0).any(0), by_sigma[best], -1)
        if policy == "weitzman":
            return np.where(b < self.sigma[by_sigma[0]], by_sigma[0], -1)
        if policy == "exhaustive":
            return np.full(b.shape, U[0])
        if policy == "recommit":
            steps, values = (np.array(part) for part in zip(*self.plans(U, b), strict=True))
            best = values.argmax(0)
            return np.where(values.max(0) > stop + 1e-9, steps[best, np.arange(len(b))], -1)
        look = {"two_step": self.one_more, "rollout": self.commit}[policy]
        scores = np.array([self.refined(lambda y, i=i: look(self.without(U, i), y), i, b) for i in U])
        return np.where(scores.max(0) > stop + 1e-9, boxes[scores.argmax(0)], -1)

    def value(self, policy, U, b):
        """Expected value of following the policy from (U, b), for an array b."""
        if not U:
            return b
        act = self.action(policy, U, b)
        out = b.copy() if policy == "weitzman" else np.maximum(b, max(self.m[j] for j in U))
        for i in U:
            rows = act == i
            if rows.any():
                out[rows] = self.refined(lambda y, i=i: self.value(policy, self.without(U, i), y), i, b[rows])
        return out
