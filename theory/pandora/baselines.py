"""Rules that routers are compared with: cheap, exhaustive, random, oracle, single best, margin threshold."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array, generator, integer, one_of
from porism.theory.pandora._inputs import check_finite, money, to_numpy
from porism.theory.pandora.innovation import Innovation
from porism.theory.pandora.routes import Routes

__all__ = ["cheap", "exhaustive", "margin_threshold", "oracle", "random", "single_best"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def cheap(m: Any, costs: Any = 0.0, prices: Any = 0.0, lam: float = 1.0) -> Routes:
    """Choose by the cheap estimates; refine nothing.

    Parameters
    ----------
    m : float array, shape (n, K)
        Cheap posterior means.
    costs, prices : float or float array, shape (K,)
        Cost of a refinement, >= 0, and price of use.
    lam : float
        Value of one unit of money, >= 0.

    Returns
    -------
    Routes
        ``argmax_k m_k - lam p_k``.

    Examples
    --------
    >>> cheap([[0.2, 0.6], [0.5, 0.1]]).choice.tolist()
    [1, 0]
    """
    m = _estimates("m", m)
    return _routes("cheap", m, m, np.zeros(m.shape, bool), costs, prices, lam)


def exhaustive(m: Any, refined: Any, costs: Any = 0.0, prices: Any = 0.0, lam: float = 1.0) -> Routes:
    """Refine every specialist, then choose by the refined estimates.

    Parameters
    ----------
    m, refined : float array, shape (n, K)
        Cheap and refined posterior means.
    costs, prices : float or float array, shape (K,)
        Cost of a refinement, >= 0, and price of use.
    lam : float
        Value of one unit of money, >= 0.

    Returns
    -------
    Routes
        ``argmax_k q_k - lam p_k``, K refinements each.

    Examples
    --------
    >>> exhaustive([[0.2, 0.6]], [[0.7, 0.5]]).choice.tolist()
    [0]
    """
    m, q = _pair(m, refined)
    return _routes("exhaustive", q, q, np.ones(m.shape, bool), costs, prices, lam)


def random(
    m: Any,
    refined: Any,
    k: int,
    costs: Any = 0.0,
    prices: Any = 0.0,
    lam: float = 1.0,
    *,
    innovation: Any = None,
    rng: np.random.Generator | int | None = None,
) -> Routes:
    """Refine k specialists drawn at random, then choose.

    Parameters
    ----------
    m, refined : float array, shape (n, K)
        Cheap and refined posterior means.
    k : int
        Specialists refined a query, 0 to K.
    costs, prices : float or float array, shape (K,)
        Cost of a refinement, >= 0, and price of use.
    lam : float
        Value of one unit of money, >= 0.
    innovation : Innovation or tuple of two float arrays (K, K), optional
        Update the others jointly by ``B_S A_SS^{-1} r_S``; else only the refined change.
    rng : Generator, int or None
        Randomness.

    Returns
    -------
    Routes
        Choices by the updated means.

    Raises
    ------
    ValueError
        If k is not in 0..K or shapes differ.

    Examples
    --------
    >>> random([[0.2, 0.6]], [[0.7, 0.5]], 2, rng=0).choice.tolist()
    [0]
    """
    m, q = _pair(m, refined)
    n, K = m.shape
    integer("k", k, low=0, high=K)
    opened = generator(rng).random((n, K)).argsort(1) < k
    means = np.where(opened, q, m)
    if innovation is not None:
        law = innovation if isinstance(innovation, Innovation) else Innovation(*innovation)
        means = law.means(m, np.where(opened, q, np.nan))
    return _routes("random", means, means, opened, costs, prices, lam)


def oracle(scores: Any, prices: Any = 0.0, lam: float = 1.0) -> Routes:
    """Choose by the realised values, which no router knows.

    Parameters
    ----------
    scores : float array, shape (n, K)
        Realised values.
    prices : float or float array, shape (K,)
        Price of use.
    lam : float
        Value of one unit of money, >= 0.

    Returns
    -------
    Routes
        The upper bound on every router.

    Examples
    --------
    >>> oracle([[0.0, 1.0], [1.0, 0.0]]).choice.tolist()
    [1, 0]
    """
    y = _estimates("scores", scores)
    return _routes("oracle", y, y, np.zeros(y.shape, bool), 0.0, prices, lam)


def single_best(scores: Any, prices: Any = 0.0, lam: float = 1.0) -> Routes:
    """Send every query to the specialist with the greatest mean net value.

    Parameters
    ----------
    scores : float array, shape (n, K)
        Realised values.
    prices : float or float array, shape (K,)
        Price of use.
    lam : float
        Value of one unit of money, >= 0.

    Returns
    -------
    Routes
        One choice for all.

    Examples
    --------
    >>> single_best([[0.0, 1.0], [1.0, 0.9]]).choice.tolist()
    [1, 1]
    """
    y = _estimates("scores", scores)
    mean = np.broadcast_to(y.mean(0), y.shape)
    return _routes("single_best", mean, mean, np.zeros(y.shape, bool), 0.0, prices, lam)


def margin_threshold(
    m: Any,
    refined: Any,
    eps: float,
    choose: str = "refined",
    costs: Any = 0.0,
    prices: Any = 0.0,
    lam: float = 1.0,
) -> Routes:
    """Refine all specialists within a margin of the top, if they are at least two, then choose.

    Parameters
    ----------
    m, refined : float array, shape (n, K)
        Cheap and refined posterior means.
    eps : float
        Margin in value units, >= 0.
    choose : {"refined", "all"}
        Choose among the refined ones only, or let the cheap means of the others compete too. "refined" is the
        stronger rule wherever cheap means at the top are optimistic.
    costs, prices : float or float array, shape (K,)
        Cost of a refinement, >= 0, and price of use.
    lam : float
        Value of one unit of money, >= 0.

    Returns
    -------
    Routes
        Choices; none is refined where the top stands alone.

    Raises
    ------
    ValueError
        If eps is negative or NaN, or shapes differ.

    Examples
    --------
    >>> routes = margin_threshold([[0.2, 0.6, 0.55]], [[0.9, 0.4, 0.5]], eps=0.1)
    >>> routes.choice.tolist(), routes.n_refine.tolist()
    ([2], [2])
    """
    one_of("choose", choose, ("refined", "all"))
    margin = to_numpy("eps", eps)
    if margin.ndim or not margin >= 0:
        raise ValueError(f"eps must be >= 0, got {eps!r}; it is one margin for all queries")
    m, q = _pair(m, refined)
    _, price, rate = money(costs, prices, lam, m.shape[1])
    net = m - rate * price
    opened = net >= net.max(1, keepdims=True) - margin
    opened &= opened.sum(1, keepdims=True) > 1
    means = np.where(opened, q, m)
    competing = means if choose == "all" else np.where(opened | ~opened.any(1, keepdims=True), means, -np.inf)
    return _routes("margin_threshold", competing, means, opened, costs, prices, lam)


def _estimates(name: str, value: Any) -> Floats:
    out = finite_array(name, value, ndim=2)
    if not out.shape[1]:
        raise ValueError(f"need at least 1 specialist: {name} has no column")
    return out


def _pair(m: Any, refined: Any) -> tuple[Floats, Floats]:
    m, q = _estimates("m", m), _estimates("refined", refined)
    if m.shape != q.shape:
        raise ValueError(f"m and refined must have one shape, got {m.shape} and {q.shape}")
    return m, q


def _routes(
    name: str, by: Floats, means: Floats, opened: Bools, costs: Any, prices: Any, lam: float
) -> Routes:
    """Choose by net value; money spent is that on opening and on the chosen."""
    costs, prices, lam = money(costs, prices, lam, by.shape[1])
    check_finite("costs", costs)
    choice = (by - lam * prices).argmax(1)
    return Routes(
        choice=choice,
        n_refine=opened.sum(1),
        spend=opened @ costs + prices[choice],
        value_est=means[np.arange(len(means)), choice],
        n_failed=np.zeros(len(means), np.int64),
        per_specialist=tuple(opened.sum(0).tolist()),
        policy=name,
        lam=lam,
    )
