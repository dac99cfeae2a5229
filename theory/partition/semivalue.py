"""Semivalues: their weights in exact rationals, as integers and in log space, and their values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, one_of
from porism.theory.partition._exact import Number, rational
from porism.theory.partition.table import UtilityTable

__all__ = ["Semivalue", "semivalues"]

INT_BITS = 62
FAMILIES = ("shapley", "banzhaf", "wbanzhaf", "beta", "loo", "weights")


@dataclass(frozen=True)
class Semivalue:
    """A semivalue, given by the weight p_s of a marginal contribution to a coalition of size s.

    ``psi_i(v) = sum_{S without i} p_|S| (v(S + i) - v(S))`` with ``p_s >= 0`` and
    ``sum_s C(n-1, s) p_s = 1``. Only the pair weights ``q_s = p_{s-1} + p_s`` matter for a
    comparison of two players. Use the constructors; floats are taken as the exact rational they are,
    strings such as "1/3" and Fractions as written.

    Parameters
    ----------
    family : {"shapley", "banzhaf", "wbanzhaf", "beta", "loo", "weights"}
        Which family of weights.
    parameters : tuple of Fraction
        Its parameters: w, (alpha, beta), or all p_s.

    References
    ----------
    Dubey, Neyman & Weber (1981), Value theory without efficiency. Kwon & Zou (2022), Beta Shapley
    (whose convention is used: Beta(16, 1) favours small coalitions). Wang & Jia (2023), Data Banzhaf.

    Examples
    --------
    >>> Semivalue.shapley().integer_pair_weights(4)
    (array([0, 2, 1, 2, 0]), 6)
    >>> str(Semivalue.beta(4, 1))
    'beta:4,1'
    """

    family: str
    parameters: tuple[Fraction, ...] = ()

    @classmethod
    def shapley(cls) -> "Semivalue":
        """Shapley value: ``p_s = 1 / (n C(n-1, s))``.

        Returns
        -------
        Semivalue
            For any number of players.
        """
        return cls("shapley")

    @classmethod
    def banzhaf(cls) -> "Semivalue":
        """Banzhaf value: ``p_s = 2^-(n-1)``.

        Returns
        -------
        Semivalue
            For any number of players.
        """
        return cls("banzhaf")

    @classmethod
    def weighted_banzhaf(cls, w: Number) -> "Semivalue":
        """Weighted Banzhaf value: ``p_s = w^s (1-w)^(n-1-s)``.

        Parameters
        ----------
        w : float, Fraction or str, in (0, 1)
            Probability that another player is in; 1/2 is the Banzhaf value.

        Returns
        -------
        Semivalue
            For any number of players.

        Raises
        ------
        ValueError
            If w is not in (0, 1).
        """
        value = rational("w", w)
        if not 0 < value < 1:
            raise ValueError(f"w must be in (0, 1), got {w}; w=1/2 is the Banzhaf value")
        return cls("wbanzhaf", (value,))

    @classmethod
    def beta(cls, alpha: Number, beta: Number) -> "Semivalue":
        """Beta Shapley: ``p_s = B(s + beta, n-1-s + alpha) / B(alpha, beta)``.

        Parameters
        ----------
        alpha, beta : float, Fraction or str, > 0
            Shapes; a large alpha favours small coalitions, (1, 1) is the Shapley value.

        Returns
        -------
        Semivalue
            For any number of players.

        Raises
        ------
        ValueError
            If alpha or beta is not positive.
        """
        pair = (rational("alpha", alpha), rational("beta", beta))
        for name, value in zip(("alpha", "beta"), pair, strict=True):
            if value <= 0:
                raise ValueError(f"{name} must be positive, got {value}; Beta(1, 1) is the Shapley value")
        return cls("beta", pair)

    @classmethod
    def leave_one_out(cls) -> "Semivalue":
        """Leave-one-out: ``p_{n-1} = 1``.

        Returns
        -------
        Semivalue
            For any number of players.
        """
        return cls("loo")

    @classmethod
    def from_weights(cls, p: Sequence[Number]) -> "Semivalue":
        """Any semivalue of n players from its weights.

        Parameters
        ----------
        p : sequence of float, Fraction or str, shape (n,)
            Weights p_0 .. p_{n-1}, nonnegative, with ``sum_s C(n-1, s) p_s = 1`` up to 1e-9.

        Returns
        -------
        Semivalue
            For exactly n players.

        Raises
        ------
        ValueError
            If a weight is negative or the sum is not 1.
        """
        values = tuple(rational(f"p[{s}]", x) for s, x in enumerate(p))
        if not values:
            raise ValueError("p must hold n weights, got none")
        mass = sum((math.comb(len(values) - 1, s) * x for s, x in enumerate(values)), Fraction(0))
        if min(values) < 0 or abs(mass - 1) > Fraction(1, 10**9):
            raise ValueError(
                f"p must be nonnegative and sum_s C(n-1,s) p_s must be 1, got the sum {float(mass):.12g} "
                f"and the minimum {float(min(values)):.3g}; divide p by the sum"
            )
        return cls("weights", values)

    @classmethod
    def parse(cls, text: str) -> "Semivalue":
        """Semivalue from its short name, the inverse of ``str``.

        Parameters
        ----------
        text : str
            shapley, banzhaf, beta:4,1, wbanzhaf:1/4, loo or weights:p0,p1,...; numbers as written.

        Returns
        -------
        Semivalue
            The value named.

        Raises
        ------
        ValueError
            If the text names none.
        """
        family, _, tail = text.strip().lower().partition(":")
        numbers = [item for item in tail.split(",") if item.strip()]
        makers = {
            "shapley": (cls.shapley, 0),
            "banzhaf": (cls.banzhaf, 0),
            "loo": (cls.leave_one_out, 0),
            "wbanzhaf": (cls.weighted_banzhaf, 1),
            "beta": (cls.beta, 2),
        }
        if family == "weights":
            return cls.from_weights(numbers)
        if family not in makers or len(numbers) != makers[family][1]:
            raise ValueError(
                f"semivalue must be shapley, banzhaf, beta:ALPHA,BETA, wbanzhaf:W, loo or weights:P0,P1,…, "
                f"got {text!r}"
            )
        return makers[family][0](*numbers)  # type: ignore[operator]

    def __str__(self) -> str:
        tail = ",".join(map(str, self.parameters))
        return f"{self.family}:{tail}" if tail else self.family

    def __post_init__(self) -> None:
        one_of("family", self.family, FAMILIES)

    def _players(self, n: int) -> int:
        n = integer("n", n, 1)
        if self.family == "weights" and len(self.parameters) != n:
            raise ValueError(
                f"p must hold one weight for each size 0..n-1, got {len(self.parameters)} weights for n={n}; "
                "sum_s C(n-1,s) p_s must be 1"
            )
        return n

    def exact_weights(self, n: int) -> tuple[Fraction, ...]:
        """Weights p_0 .. p_{n-1} as exact rationals.

        Parameters
        ----------
        n : int
            Number of players n >= 1.

        Returns
        -------
        tuple of Fraction, length n
            The weights.
        """
        return _exact_weights(self, self._players(n))

    def exact_pair_weights(self, n: int) -> tuple[Fraction, ...]:
        """Pair weights ``q_s = p_{s-1} + p_s`` as exact rationals.

        Parameters
        ----------
        n : int
            Number of players n >= 1.

        Returns
        -------
        tuple of Fraction, length n+1
            q_0 .. q_n; entries 0 and n, which compare nobody, are 0.
        """
        p = self.exact_weights(n)
        return (Fraction(0), *(p[s - 1] + p[s] for s in range(1, n)), Fraction(0))

    def integer_pair_weights(self, n: int) -> tuple[NDArray[np.int64], int] | None:
        """Pair weights on their least common denominator.

        Parameters
        ----------
        n : int
            Number of players n >= 2.

        Returns
        -------
        (int64 array, shape (n+1,), int) or None
            Integers and denominator; None where the sum over all coalitions would need more than 62 bits
            (Shapley fits up to n = 43). Entries 0 and n are 0.

        Examples
        --------
        >>> Semivalue.banzhaf().integer_pair_weights(3)
        (array([0, 1, 1, 0]), 2)
        """
        n = self._players(n)
        if n > INT_BITS and self.family not in ("loo", "weights"):
            return None
        q = self.exact_pair_weights(n)
        scale = math.lcm(*(x.denominator for x in q))
        whole = [int(x * scale) for x in q]
        if sum(math.comb(n - 1, s - 1) * whole[s] for s in range(1, n)) >= 1 << INT_BITS:
            return None
        return np.array(whole, dtype=np.int64), scale

    def mass(self, n: int) -> NDArray[np.float64]:
        """Masses ``P_s = C(n-1, s) p_s``: the law of the size of the coalition that a player joins.

        Parameters
        ----------
        n : int
            Number of players n >= 1; 10^4 and more are fine.

        Returns
        -------
        float64 array, shape (n,)
            Probability of the size s = 0..n-1.
        """
        return np.exp(_log_mass(self, n))

    def log_weights(self, n: int) -> NDArray[np.float64]:
        """Logarithms of the weights, where the weights themselves underflow.

        Parameters
        ----------
        n : int
            Number of players n >= 1.

        Returns
        -------
        float64 array, shape (n,)
            Natural logarithm of p_s for s = 0..n-1; -6935 in the middle for Shapley at n = 10^4.
        """
        return _log_mass(self, n) - _log_binomials(n - 1)

    def pair_mass(self, n: int) -> NDArray[np.float64]:
        """Masses ``pi_s = C(n-2, s-1) q_s``: the law of the size of the coalition that compares two players.

        Parameters
        ----------
        n : int
            Number of players n >= 2.

        Returns
        -------
        float64 array, shape (n-1,)
            Probability of the size s = 1..n-1; 1/(n-1) each for Shapley.

        Raises
        ------
        ValueError
            If n < 2.
        """
        if n < 2:
            raise ValueError(f"n must be at least 2 for a pair of players, got {n}")
        mass, s = self.mass(n), np.arange(1, n)
        return (mass[:-1] * (n - s) + mass[1:] * s) / (n - 1)


@overload
def semivalues(
    table: UtilityTable, sv: Semivalue, *, exact: Literal[False] = False
) -> NDArray[np.float64]: ...
@overload
def semivalues(table: UtilityTable, sv: Semivalue, *, exact: Literal[True]) -> list[Fraction]: ...
def semivalues(
    table: UtilityTable, sv: Semivalue, *, exact: bool = False
) -> NDArray[np.float64] | list[Fraction]:
    """Semivalues of all players from a complete table, in O(2^n).

    ``psi_i = A_i + c`` with ``A_i = sum_{S with i, S != N} q_|S| v(S)`` and
    ``c = p_{n-1} v(N) - sum_{S != N} p_|S| v(S)``, so that one folding pass replaces n passes.

    Parameters
    ----------
    table : UtilityTable
        Complete dense table.
    sv : Semivalue
        Weights.
    exact : bool
        Rationals without any rounding; O(n 2^n) integer additions.

    Returns
    -------
    float64 array, shape (n,), or list of Fraction
        Value of each player, in units of the score.

    Raises
    ------
    MissingCoalitionsError
        If a coalition has no score.
    TooManyPlayersError
        If the table is not dense.

    Notes
    -----
    Reads 8 * 2^n bytes once and keeps O(2^(n/2)) working memory. Absolute error at most 1e-12 max|v|.

    References
    ----------
    Pair identity PR-1 (reconstruction); Dubey, Neyman & Weber (1981).

    Examples
    --------
    >>> semivalues(UtilityTable.from_array([0, 1, 3, 4]), Semivalue.shapley()).tolist()
    [1.0, 3.0]
    >>> semivalues(UtilityTable.from_array([0, 1, 3, 5]), Semivalue.shapley(), exact=True)
    [Fraction(3, 2), Fraction(7, 2)]
    """
    from porism.theory.partition._values import exact_semivalues, require_complete

    require_complete(table)
    if not isinstance(sv, Semivalue):
        raise TypeError(f"sv must be a Semivalue, got {type(sv).__name__}; use such as Semivalue.shapley()")
    if exact:
        return exact_semivalues(table.scores, sv, table.n_players)
    from porism.kernels.coalition import fold

    n = table.n_players
    p = np.array([float(x) for x in sv.exact_weights(n)] + [0.0])
    q = np.array([float(x) for x in sv.exact_pair_weights(n)])
    total, weighted = fold(table.scores, q, p)
    return total + (p[n - 1] * table.scores[-1] - weighted)


@lru_cache(maxsize=64)
def _exact_weights(sv: Semivalue, n: int) -> tuple[Fraction, ...]:
    if sv.family == "shapley":
        return tuple(Fraction(1, n * math.comb(n - 1, s)) for s in range(n))
    if sv.family == "banzhaf":
        return (Fraction(1, 1 << (n - 1)),) * n
    if sv.family == "wbanzhaf":
        (w,) = sv.parameters
        return tuple(w**s * (1 - w) ** (n - 1 - s) for s in range(n))
    if sv.family == "beta":
        alpha, beta = sv.parameters
        total = _rising(alpha + beta, n - 1)
        return tuple(_rising(beta, s) * _rising(alpha, n - 1 - s) / total for s in range(n))
    if sv.family == "loo":
        return (Fraction(0),) * (n - 1) + (Fraction(1),)
    return sv.parameters


def _rising(x: Fraction, k: int) -> Fraction:
    return math.prod((x + j for j in range(k)), start=Fraction(1))


def _log_binomials(m: int) -> NDArray[np.float64]:
    """Log C(m, s) for s = 0..m from exact integers: gammaln would lose five digits at m = 10^4."""
    half, value = [], 1
    for s in range(m // 2 + 1):
        half.append(math.log(value))
        value = value * (m - s) // (s + 1)
    return np.array(half + half[: (m + 1) // 2][::-1])


def _log_mass(sv: Semivalue, n: int) -> NDArray[np.float64]:
    """Log P_s, from closed forms, or by the ratio P_{s+1}/P_s with the sum normalised to one."""
    n = sv._players(n)
    s = np.arange(n, dtype=np.float64)
    if sv.family == "shapley":
        return np.full(n, -math.log(n))
    if sv.family in ("banzhaf", "wbanzhaf"):
        w = sv.parameters[0] if sv.parameters else Fraction(1, 2)
        return _log_binomials(n - 1) + s * math.log(w) + s[::-1] * math.log(1 - w)
    if sv.family == "beta":
        alpha, beta = map(float, sv.parameters)
        k = s[:-1]
        ratio = np.log((n - 1 - k) / (k + 1)) + np.log((k + beta) / (n - 2 - k + alpha))
        log_mass = np.concatenate(([0.0], np.cumsum(ratio)))
        log_mass -= log_mass.max()
        return log_mass - math.log(math.fsum(np.exp(log_mass)))
    with np.errstate(divide="ignore"):
        return np.log([float(math.comb(n - 1, j) * x) for j, x in enumerate(sv.exact_weights(n))])
