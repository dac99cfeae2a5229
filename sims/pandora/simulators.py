"""Simulators of routing: Gaussian values, right and wrong answers, several levels, a market."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer
from porism.sims.pandora.worlds import LevelsWorld, MarketWorld, World
from porism.theory.pandora import pooled_sd, preposterior_sd

__all__ = ["binary_irt", "gaussian", "levels", "market"]

Floats = NDArray[np.float64]
Seed = int | np.random.Generator | None


def gaussian(
    n: int,
    K: int,
    rho: float = 0.0,
    *,
    s: ArrayLike = 0.5,
    tau: ArrayLike = 0.375,
    mu: ArrayLike = 0.0,
    spread: ArrayLike = 0.5,
    seed: Seed = None,
) -> World:
    """Gaussian values whose uncertainty is shared between specialists.

    ``m ~ N(mu, spread^2)``, ``V = m + s x`` with ``x ~ N(0, (1 - rho) I + rho 11')``, signals
    ``Y = V + tau N(0, I)``, ``refined = m + s^2/(s^2 + tau^2) (Y - m)``.

    Parameters
    ----------
    n, K : int
        Queries and specialists, >= 1.
    rho : float, default 0
        Correlation of what the cheap estimates leave open, in [-1/(K - 1), 1].
    s : float or array (K,), default 0.5
        Standard deviation of V given m, > 0.
    tau : float or array (K,), default 0.375
        Noise of the expensive signal, >= 0.
    mu, spread : float or array (K,)
        Mean and standard deviation of m.
    seed : int, Generator or None
        Randomness.

    Returns
    -------
    World
        Draws, and the true m, s, tau, nu, A and B.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    With rho = 0 the pair (m, V) is that of a prior ``N(mu, spread^2 + s^2)`` and a cheap noisy signal (PB-1).
    O(n K^2).

    References
    ----------
    PB-1 and PB-15 of the module's specification.

    Examples
    --------
    >>> world = gaussian(5000, 3, rho=0.5, seed=0)
    >>> np.round(np.corrcoef((world.scores - world.m).T)[0, 1], 1)
    np.float64(0.5)
    """
    n, K, rng = integer("n", n, low=1), integer("K", K, low=1), generator(seed, "seed")
    s, tau, mu, spread = _law(K, s, tau, mu, spread)
    low = -1 / (K - 1) if K > 1 else 0.0
    if not low - 1e-12 <= rho <= 1:
        raise ValueError(f"rho must be in [{low:.4g}, 1] for K={K}, got {rho!r}: no covariance has it")
    correlation = (1 - rho) * np.eye(K) + rho
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    m = mu + spread * rng.normal(size=(n, K))
    error = s * (rng.normal(size=(n, K)) @ root.T)
    signal = error + tau * rng.normal(size=(n, K))
    share = s**2 / (s**2 + tau**2)
    covariance = np.outer(s, s) * correlation
    A, B = np.outer(share, share) * (covariance + np.diag(tau**2)), covariance * share
    r = share * signal
    joint = m + r @ np.linalg.pinv(A, hermitian=True) @ B.T
    nu = np.asarray(preposterior_sd(s, tau))
    return World("gaussian", m + error, m, m + r, joint, s, tau, nu, A, B, {"rho": float(rho)})


def binary_irt(
    n: int,
    K: int,
    *,
    ability: ArrayLike | None = None,
    known: float = 0.5,
    difficulty: float = 1.0,
    tau: ArrayLike = 1.0,
    seed: Seed = None,
) -> World:
    """Right or wrong answers: ability minus a difficulty that all specialists share.

    ``V_k = 1{a_k - f - h_k > 0}``, ``h_k = d + e_k``: the cheap signal shows f, the expensive signal on k is
    ``y_k = h_k + tau_k N(0, 1)``. With ``H^2 = var(d) + 1`` and ``g_k = H^2/(H^2 + tau_k^2)``:
    ``m = Phi((a - f)/H)``, ``refined = Phi((a - f - g y)/(H sqrt(1 - g)))``.

    Parameters
    ----------
    n, K : int
        Queries and specialists, >= 1.
    ability : array (K,), optional
        On the scale of e_k, whose standard deviation is 1; evenly from -0.5 to 0.5 by default.
    known : float, default 0.5
        Share of the variance of difficulty that the cheap signal shows, in [0, 1].
    difficulty : float, default 1
        Standard deviation of difficulty, >= 0; 0 makes specialists independent.
    tau : float or array (K,), default 1
        Noise of the expensive signal on the scale of ability, > 0.
    seed : int, Generator or None
        Randomness.

    Returns
    -------
    World
        Scores 0 and 1; s, tau and nu of shape (n, K) in units of the score.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Each refined estimate is calibrated, yet with unequal tau a hard query lowers the estimates of those with
    precise signals most, and the largest refined estimate may be a poor choice: compare `refined_joint`. From
    ``E[refined^2] = Phi2(t, t; g)``, ``nu^2 = Phi(t) - 2 T(t, sqrt((1 - g)/(1 + g))) - Phi(t)^2`` with
    ``t = (a - f)/H`` and Owen's T. O(n K^2).

    References
    ----------
    PB-14 and PB-17 of the module's specification; D. B. Owen (1956), Tables for computing bivariate normal
    probabilities, doi:10.1214/aoms/1177728074.

    Examples
    --------
    >>> world = binary_irt(20000, 3, seed=0)
    >>> bool(abs(np.mean((world.refined - world.m) ** 2 - world.nu**2)) < 0.002)
    True
    """
    from scipy.special import ndtr, owens_t

    n, K, rng = integer("n", n, low=1), integer("K", K, low=1), generator(seed, "seed")
    a = np.linspace(-0.5, 0.5, K) if ability is None else _each("ability", ability, K)
    tau = _each("tau", tau, K)
    _positive(tau=tau)
    if not 0 <= known <= 1:
        raise ValueError(f"known must be in [0, 1], got {known!r}; it is a share of variance")
    if not 0 <= difficulty < math.inf:
        raise ValueError(f"difficulty must be finite and >= 0, got {difficulty!r}")
    shared = difficulty**2 * (1 - known)
    f = difficulty * math.sqrt(known) * rng.normal(size=(n, 1))
    h = math.sqrt(shared) * rng.normal(size=(n, 1)) + rng.normal(size=(n, K))
    y = h + tau * rng.normal(size=(n, K))
    total = shared + 1.0
    g = total / (total + tau**2)
    t = (a - f) / math.sqrt(total)
    m = ndtr(t)
    refined = ndtr((a - f - g * y) / np.sqrt(total * (1 - g)))
    covariance = shared + np.eye(K)
    gain = np.linalg.solve(covariance + np.diag(tau**2), covariance).T
    left = np.diag(covariance - gain @ covariance)
    joint = ndtr((a - f - y @ gain.T) / np.sqrt(left))
    s2 = m * (1 - m)
    nu2 = np.clip(m - 2 * owens_t(t, np.sqrt((1 - g) / (1 + g))) - m**2, 0.0, s2)
    # far from the border of right and wrong nothing can be learned: both vanish
    noise = np.divide(s2 * (s2 - nu2), nu2, out=np.full_like(s2, np.inf), where=nu2 > 0)
    scores = (h < a - f).astype(np.float64)
    r = refined - m
    A, B = r.T @ r / n, (scores - m).T @ r / n
    parameters = {"known": float(known), "difficulty": float(difficulty)}
    return World(
        "binary", scores, m, refined, joint, np.sqrt(s2), np.sqrt(noise), np.sqrt(nu2), A, B, parameters
    )


def levels(
    n: int,
    K: int,
    *,
    draws: int = 8,
    s: ArrayLike = 1.0,
    tau: ArrayLike = 3.0,
    mu: ArrayLike = 0.0,
    spread: ArrayLike = 1.0,
    seed: Seed = None,
) -> LevelsWorld:
    """Independent Gaussian values whose expensive signal can be drawn again and again.

    ``Y_l = V + tau N(0, 1)``; after l draws the mean is ``m + s^2/(s^2 + tau^2/l) (mean of Y - m)``.

    Parameters
    ----------
    n, K : int
        Queries and specialists, >= 1.
    draws : int, default 8
        Most draws of a signal, >= 1.
    s : float or array (K,), default 1
        Standard deviation of V given m, > 0.
    tau : float or array (K,), default 3
        Noise of one draw, >= 0.
    mu, spread : float or array (K,)
        Mean and standard deviation of m.
    seed : int, Generator or None
        Randomness.

    Returns
    -------
    LevelsWorld
        Draws, means after each number of them, and the true m, s, tau, nu.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    8 n K L bytes for the draws.

    References
    ----------
    PB-16 of the module's specification.

    Examples
    --------
    >>> levels(4, 2, draws=9, seed=0).nu[0, [0, 1, 9]].round(4)
    array([0.    , 0.3162, 0.7071])
    """
    n, K, rng = integer("n", n, low=1), integer("K", K, low=1), generator(seed, "seed")
    draws = integer("draws", draws, low=1)
    s, tau, mu, spread = _law(K, s, tau, mu, spread)
    m = mu + spread * rng.normal(size=(n, K))
    scores = m + s * rng.normal(size=(n, K))
    signals = scores[..., None] + tau[:, None] * rng.normal(size=(n, K, draws))
    count = np.arange(1, draws + 1)
    mean = (signals - m[..., None]).cumsum(-1) / count
    share = (s**2)[:, None] / ((s**2)[:, None] + (tau**2)[:, None] / count)
    refined = np.concatenate([m[..., None], m[..., None] + share * mean], axis=-1)
    nu = np.asarray(pooled_sd(s[:, None], tau[:, None], np.arange(draws + 1.0)))
    return LevelsWorld(scores, m, signals, refined, nu, s, tau)


def market(
    n: int,
    K: int = 1,
    omega: float = 0.5,
    *,
    m: float = 0.0,
    s: float = 0.5,
    tau: float = 0.0,
    c: float = 0.02,
    mu: float = 1.2,
    s_other: float = 0.3,
    seed: Seed = None,
) -> MarketWorld:
    """A specialist bids for queries against K competitors that are known only noisily.

    ``V ~ N(m, s^2)``; competitors ``V_j ~ N(mu, s_other^2)`` are seen as ``V_j + omega N(0, 1)``, and the
    largest estimate is the raw price.

    Parameters
    ----------
    n : int
        Queries, >= 1.
    K : int, default 1
        Competitors, >= 1.
    omega : float, default 0.5
        Noise of their estimates, >= 0.
    m, s, tau : float
        Mean and standard deviation of the specialist's value, noise of its expensive signal.
    c : float, default 0.02
        Cost of refining, >= 0.
    mu, s_other : float
        Mean and standard deviation of competing values.
    seed : int, Generator or None
        Randomness. Worlds of one seed that differ in omega, m, mu, s or c share their draws.

    Returns
    -------
    MarketWorld
        Draws, prices and the true (m, s, tau).

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    PB-19 to PB-22 of the module's specification.

    Examples
    --------
    >>> change = market(20000, 1, omega=0.5, seed=0).change("shrunk")
    >>> bool(abs(change.dU - change.dW) < 1e-15)  # aligned
    True
    """
    n, K, rng = integer("n", n, low=1), integer("K", K, low=1), generator(seed, "seed")
    numbers = {"m": m, "s": s, "tau": tau, "c": c, "mu": mu, "s_other": s_other, "omega": omega}
    held = {name: float(finite_array(name, value, ndim=0)) for name, value in numbers.items()}
    _positive(s=s)
    _not_negative(tau=tau, c=c, s_other=s_other, omega=omega)
    value = m + s * rng.normal(size=n)
    signal = value + tau * rng.normal(size=n)
    competitors = mu + s_other * rng.normal(size=(n, K))
    estimates = competitors + omega * rng.normal(size=(n, K))
    refined = m + s**2 / (s**2 + tau**2) * (signal - m)
    raw = estimates.max(1)
    total = s_other**2 + omega**2
    shrunk = mu + (s_other**2 / total if omega > 0 else 1.0) * (raw - mu)
    nu = float(preposterior_sd(s, tau))
    return MarketWorld(value, refined, competitors, estimates, raw, shrunk, nu=nu, **held)


def _law(K: int, s: Any, tau: Any, mu: Any, spread: Any) -> tuple[Floats, Floats, Floats, Floats]:
    """Parameters of Gaussian values, one a specialist."""
    s, tau, mu, spread = (_each(k, v, K) for k, v in (("s", s), ("tau", tau), ("mu", mu), ("spread", spread)))
    _positive(s=s)
    _not_negative(tau=tau, spread=spread)
    return s, tau, mu, spread


def _each(name: str, value: Any, K: int) -> Floats:
    """One number a specialist."""
    array = finite_array(name, value)
    if array.shape not in ((), (K,)):
        raise ValueError(f"{name} must be a number or have shape ({K},), one a specialist, got {array.shape}")
    return np.broadcast_to(array, (K,)).copy()


def _positive(**arrays: Any) -> None:
    for name, value in arrays.items():
        if not (np.asarray(value) > 0).all():
            raise ValueError(f"{name} must be > 0; got {np.min(value):g}")


def _not_negative(**arrays: Any) -> None:
    for name, value in arrays.items():
        if not (np.asarray(value) >= 0).all():
            raise ValueError(f"{name} must be >= 0; got {np.min(value):g}")
