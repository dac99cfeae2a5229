"""Independent oracles for the claims: angles, slopes by complex steps, pair sums, quadratures, descents."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EXACT",
    "ROUNDING",
    "TokenNet",
    "centroid_accuracy",
    "complex_slope",
    "descend",
    "head_loss",
    "interval",
    "middle_case",
    "noise_transform",
    "orthonormal",
    "pair_scatter",
    "signs",
    "sin_size",
    "sines",
    "spiked_pair",
    "whole_noise",
]

Floats = NDArray[np.float64]
Loss = Callable[[NDArray[Any]], Any]

EXACT = 1e-10
"""Rounding of decompositions of order at most a few hundred, times the inverse of a gap of 0.01."""

ROUNDING = "rounding: 1e-13 a decomposition, times at most 1000 where a gap is small"


def orthonormal(rng: np.random.Generator, r: int, d: int) -> Floats:
    """Uniformly random orthonormal rows."""
    q, triangle = np.linalg.qr(rng.standard_normal((d, r)))
    return np.asarray((q * np.where(np.diag(triangle) < 0, -1.0, 1.0)).T)


def sines(v: Floats, w: Floats) -> Floats:
    """Sines of the angles between spans of orthonormal columns, from the part of w outside v."""
    return np.asarray(np.linalg.svd(w - v @ (v.T @ w), compute_uv=False))


def sin_size(v: Floats, w: Floats) -> float:
    """Frobenius norm of the sines."""
    return float(np.linalg.norm(sines(v, w)))


def spiked_pair(rng: np.random.Generator, d: int, n: int, ells: Floats) -> tuple[Floats, Floats]:
    """True covariance and that of n Gaussian rows without centring."""
    v = orthonormal(rng, len(ells), d)
    x = rng.standard_normal((n, d))
    x = x + (x @ v.T * (np.sqrt(1 + ells) - 1)) @ v
    return np.eye(d) + (v.T * ells) @ v, x.T @ x / n


def middle_case(rng: np.random.Generator, d: int, close: float) -> tuple[Floats, Floats, slice]:
    """Spectrum with a block in the middle, upper gap `close` and lower gap 3, and a noisy copy.

    The noise exchanges the block's direction with the one above it, and is as small as their gap.
    """
    values = np.concatenate([[4 + close, 4.0], np.linspace(1, 0.5, d - 2)])
    q = orthonormal(rng, d, d).T
    swap = np.zeros((d, d))
    swap[0, 1] = swap[1, 0] = 2 * close
    noise = rng.standard_normal((d, d)) * close / (10 * d)
    cov = (q * values) @ q.T
    return cov, cov + q @ (swap + noise + noise.T) @ q.T, slice(1, 2)


def noise_transform(x: float, gamma: float) -> float:
    """Transform m of the noise outside its bulk, by integrating the Marchenko-Pastur density."""
    from scipy.integrate import quad

    low, high = (1 - math.sqrt(gamma)) ** 2, (1 + math.sqrt(gamma)) ** 2

    def density(angle: float) -> float:  # of the eigenvalues of rows' Gram matrix: mass min(1, gamma)
        lam = (high + low) / 2 + (high - low) / 2 * math.cos(angle)
        return ((high - low) / 2 * math.sin(angle)) ** 2 / (2 * math.pi * lam) / (lam - x)

    value = quad(density, 0, math.pi, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
    return float(value) - max(0.0, 1 - gamma) / x


def whole_noise(ell: float, gamma: float) -> float:
    """Largest eigenvalue of sample less true covariance over the noise: the root of its own equation."""
    from scipy.optimize import brentq

    bulk = gamma + 2 * math.sqrt(gamma)

    def gap(x: float) -> float:
        return x + (1 + ell) * (1 + (1 + x) * noise_transform(1 + x, gamma))

    start = bulk * (1 + 1e-9)
    return bulk if gap(start) >= 0 else float(brentq(gap, start, 40 * (1 + ell) * (1 + gamma), xtol=1e-11))


class TokenNet:
    """A layer ``h = W x + s B A x`` under tanh and a fixed head, mean cross-entropy over positions.

    Written for complex arguments, so that slopes come from complex steps and not from a formula.
    """

    def __init__(self, rng: np.random.Generator, d: int, m: int, tokens: int, C: int, scaling: float) -> None:
        self.x = rng.standard_normal((tokens, d))
        self.y = rng.integers(C, size=tokens)
        self.w, self.v = rng.standard_normal((m, d)) / math.sqrt(d), rng.standard_normal((C, m))
        self.scaling = scaling

    def loss(self, delta: NDArray[Any]) -> Any:
        """Loss at weight W + delta."""
        logits = np.tanh(self.x @ (self.w + delta).T) @ self.v.T
        logits = logits - logits.real.max(axis=1, keepdims=True)
        return np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(self.y)), self.y])

    def adapted(self, b: NDArray[Any], a: NDArray[Any]) -> Any:
        """Loss with an adapter."""
        return self.loss(self.scaling * b @ a)

    def by_position(self) -> Floats:
        """Slope by the layer's output at each position, (tokens, m)."""
        h = np.tanh(self.x @ self.w.T)
        logits = h @ self.v.T
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p = p / p.sum(axis=1, keepdims=True)
        p[np.arange(len(self.y)), self.y] -= 1
        return np.asarray((p @ self.v) * (1 - h**2) / len(self.y))


def complex_slope(loss: Loss, at: Floats) -> Floats:
    """Gradient by complex steps, exact to rounding."""
    found = np.empty(at.size)
    for i in range(at.size):
        moved = at.astype(complex).ravel()
        moved[i] += 1e-30j
        found[i] = loss(moved.reshape(at.shape)).imag / 1e-30
    return found.reshape(at.shape)


def head_loss(x: Floats, y: NDArray[np.int64], bias: Floats) -> Loss:
    """Mean cross-entropy as a function of a linear head's weight."""

    def loss(weight: NDArray[Any]) -> Any:
        logits = x @ weight.T + bias
        logits = logits - logits.real.max(axis=1, keepdims=True)
        return np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y])

    return loss


def centroid_accuracy(kept: float, r: int, n: int, midpoint: bool = False) -> float:
    """Exact accuracy of ``sign(w.x)`` with w the projected difference of two class means of n / 2 rows each.

    w = (sqrt(kept) + e_1, e_2, ..., e_r) with e of variance 4 / n; mean of Phi(sqrt(kept) w_1 / (2 |w|)) over
    e_1 by Gauss-Hermite and over |e_2..r|^2, a chi-squared variable, by Gauss-Laguerre. With `midpoint` the
    threshold is the estimated middle, which is wrong by a normal of variance 1 / n along w.
    """
    from scipy.special import ndtr, roots_genlaguerre, roots_hermitenorm

    z, wz = roots_hermitenorm(80)
    first = math.sqrt(kept) + 2 / math.sqrt(n) * z
    q, wq = roots_genlaguerre(60, (r - 1) / 2 - 1)
    length = np.sqrt(first[:, None] ** 2 + 4 / n * 2 * q)
    margin = math.sqrt(kept) / 2 * first[:, None] / length / math.sqrt(1 + midpoint / n)
    return float(wz @ ndtr(margin) @ wq / (wz.sum() * wq.sum()))


def pair_scatter(x: Floats, y: NDArray[np.int64], projector: Floats, same: bool = False) -> float:
    """T(P) by its definition: means over pairs of different rows, or over all pairs where `same`."""
    gram = x @ projector @ x.T
    classes = np.unique(y)
    share = np.array([(y == c).mean() for c in classes])
    table = np.empty((len(classes), len(classes)))
    for i, c in enumerate(classes):
        for j, e in enumerate(classes):
            block = gram[np.ix_(y == c, y == e)]
            if i == j and not same:
                k = len(block)
                table[i, j] = (block.sum() - np.trace(block)) / (k * (k - 1))
            else:
                table[i, j] = block.mean()
    return float(share @ np.diag(table) - share @ table @ share)


def signs(n: int, d: int) -> Floats:
    """All sign matrices (2^(n d), n, d)."""
    return np.array(list(product((-1.0, 1.0), repeat=n * d))).reshape(-1, n, d)


def descend(
    y: Floats,
    x: Floats,
    a: Floats,
    lr: float,
    steps: int,
    *,
    q: Floats | None = None,
    at: int = 0,
    momentum: float = 0.0,
    clip: float = math.inf,
    decay: float = 0.0,
    drop: Floats | None = None,
    move: bool = True,
) -> Floats:
    """BA at every step of descent on ``|Y - X A'B'|^2 / 2n``, with (A, B) turned by q after step `at`.

    `clip` bounds the norm of all gradients together, `decay` is decoupled, `drop` (steps, n, d) masks the
    adapter's input, and `move` says whether momenta are turned too.
    """
    b = np.zeros((y.shape[1], len(a)))
    ma, mb = np.zeros_like(a), np.zeros_like(b)
    found = [b @ a]
    for k in range(steps):
        rows = x if drop is None else x * drop[k]
        error = (rows @ a.T @ b.T - y) / len(x)
        ga, gb = b.T @ (error.T @ rows), error.T @ (rows @ a.T)
        short = min(1.0, clip / math.hypot(float(np.linalg.norm(ga)), float(np.linalg.norm(gb))))
        ma, mb = momentum * ma + short * ga, momentum * mb + short * gb
        a, b = (1 - lr * decay) * a - lr * ma, (1 - lr * decay) * b - lr * mb
        if q is not None and k + 1 == at:
            a, b = q @ a, b @ q.T
            if move:
                ma, mb = q @ ma, mb @ q.T
        found.append(b @ a)
    return np.array(found)


def interval(values: Floats, level: float) -> tuple[float, float, float]:
    """Mean, its standard error, and half the width of the t interval of a sample."""
    from scipy.stats import t

    mean, error = float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))
    return mean, error, float(t.ppf((1 + level) / 2, len(values) - 1)) * error
