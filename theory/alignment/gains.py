"""What a better start direction buys: a head start in time, accuracy after one step, risk with A frozen."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, positive
from porism.theory.alignment._inputs import broadcast, symmetric

__all__ = [
    "frozen_a_risk",
    "head_start",
    "linear_drop",
    "predicted_accuracy",
    "predicted_accuracy_gain",
    "residual_variance",
]


def linear_drop(time: ArrayLike, captured: float, scaling: float, grad_singular_value: float) -> Any:
    """Decrease of a linear loss under gradient flow, one gradient direction (DK-12).

    ``s g a sinh(2 s g t) / 2`` with a the captured share, g the singular value, s the scaling.

    Parameters
    ----------
    time : float or array_like
        Time in units of one over the learning rate, >= 0.
    captured : float
        ``|A v|^2`` at the start, for the right singular vector v of the gradient; > 0.
    scaling : float
        The factor s of the adapter, > 0.
    grad_singular_value : float
        The one singular value of the gradient, > 0.

    Returns
    -------
    float or float64 array
        Decrease since time 0; inf where it overflows.

    Raises
    ------
    TypeError, ValueError
        If a time is negative, or another argument is not > 0.

    Notes
    -----
    Solves ``A' = -s B' G``, ``B' = -s G A'`` from B = 0 with constant G: a hyperbolic rotation.

    Examples
    --------
    >>> float(round(linear_drop(1.0, 0.5, 1.0, 1.0), 6))
    0.906715
    """
    t = finite_array("time", time)
    if (t < 0).any():
        raise ValueError(f"time must be >= 0, got {t.min():g}; it counts from the start")
    rate = positive("scaling", scaling) * positive("grad_singular_value", grad_singular_value)
    share = positive("captured", captured)
    with np.errstate(over="ignore"):
        return np.asarray(rate * share * np.sinh(2 * rate * t) / 2)[()]


def head_start(captured_1: float, captured_2: float, scaling: float, grad_singular_value: float) -> float:
    """Time that the better of two starts is ahead by at a large common decrease of the loss (DK-12).

    ``log(a1 / a2) / (2 s g)``.

    Parameters
    ----------
    captured_1, captured_2 : float
        Captured shares of the two starts, > 0.
    scaling : float
        The factor s of the adapter, > 0.
    grad_singular_value : float
        The one singular value g of the gradient, > 0.

    Returns
    -------
    float
        Time in units of one over the learning rate; negative where the first start is the worse.

    Raises
    ------
    TypeError, ValueError
        If an argument is not > 0.

    Notes
    -----
    A direction buys a fixed time, logarithmic in the enrichment: long training makes it inconsequential.

    Examples
    --------
    >>> round(head_start(0.4, 0.01, 1, 2), 8)
    0.92221986
    """
    first, second = positive("captured_1", captured_1), positive("captured_2", captured_2)
    rate = positive("scaling", scaling) * positive("grad_singular_value", grad_singular_value)
    return (math.log(first) - math.log(second)) / (2 * rate)


def predicted_accuracy(captured: ArrayLike, delta: ArrayLike, r: ArrayLike, n: ArrayLike) -> Any:
    """Accuracy after one SGD step: the centroid classifier on projected features (DK-13).

    ``Phi(c delta / (2 sqrt(c delta + 4 r / n)))``.

    Parameters
    ----------
    captured : float or array_like
        Share c of the class difference in the subspace, in [0, 1].
    delta : float or array_like
        Squared distance of the two class means over the noise variance, >= 0.
    r : int or array_like
        Dimension of the subspace, >= 1.
    n : int or array_like
        Training samples, both classes together, >= 2.

    Returns
    -------
    float or float64 array
        Accuracy in [1/2, 1].

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    Two balanced Gaussian classes with isotropic noise and a subspace that does not depend on the samples;
    first order in 1/n, about 0.003 too high at n = 16.

    References
    ----------
    Raudys and Young (2004), "Results in statistical discriminant analysis",
    doi:10.1016/S0047-259X(02)00021-0, for the Euclidean-distance classifier.

    Examples
    --------
    >>> float(round(predicted_accuracy(0.5, 4, 4, 16), 8))
    0.71814857
    """
    from scipy.special import ndtr

    share, strength, dim, rows = broadcast(
        ("captured", "delta", "r", "n"),
        _in_range("captured", captured, 0, 1),
        _in_range("delta", delta, 0),
        _in_range("r", r, 1),
        _in_range("n", n, 2),
    )
    kept = share * strength
    return np.asarray(ndtr(kept / (2 * np.sqrt(kept + 4 * dim / rows))))[()]


def predicted_accuracy_gain(
    captured: ArrayLike, delta: ArrayLike, d: ArrayLike, r: ArrayLike, n: ArrayLike
) -> Any:
    """Accuracy after one SGD step less that of a random subspace of the same dimension (DK-13).

    `predicted_accuracy` at c minus the same at ``r / d``.

    Parameters
    ----------
    captured : float or array_like
        Share of the class difference in the subspace, in [0, 1].
    delta : float or array_like
        Squared distance of the two class means over the noise variance, >= 0.
    d : int or array_like
        Features, at least r.
    r : int or array_like
        Dimension of the subspace, >= 1.
    n : int or array_like
        Training samples, >= 2.

    Returns
    -------
    float or float64 array
        The gain; 0 both for tiny and for huge delta.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> float(round(predicted_accuracy_gain(0.6, 9, 768, 8, 32), 4))
    0.3392
    """
    dim, ambient = broadcast(("r", "d"), _in_range("r", r, 1), _in_range("d", d, 1))
    share = dim / ambient
    if (share > 1).any():
        raise ValueError("r must be at most d, got a larger one; r is the dimension of a subspace of R^d")
    return predicted_accuracy(captured, delta, r, n) - predicted_accuracy(share, delta, r, n)


def residual_variance(beta: ArrayLike, cov: ArrayLike, a: ArrayLike, noise: float) -> float:
    """Variance that a regression on ``z = A x`` leaves in ``y = beta' x + noise`` (DK-14).

    ``noise + beta' S beta - beta' S A' (A S A')^-1 A S beta``.

    Parameters
    ----------
    beta : array_like of shape (d,)
        Coefficients.
    cov : array_like of shape (d, d)
        Covariance S of x, symmetric and positive definite on the rows of a.
    a : array_like of shape (r, d)
        The factor A, of full row rank.
    noise : float
        Variance of the noise, > 0.

    Returns
    -------
    float
        The variance.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit, S is not symmetric, or ``A S A'`` not positive definite.

    References
    ----------
    Breiman and Freedman (1983), doi:10.1080/01621459.1983.10477941.

    Examples
    --------
    >>> residual_variance([3.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]], 0.5)
    1.5
    """
    b, s = finite_array("beta", beta, ndim=1), symmetric("cov", cov)
    rows = finite_array("a", a, ndim=2)
    if s.shape != (len(b), len(b)) or rows.shape[1] != len(b):
        raise ValueError(
            f"beta (d,), cov (d, d) and a (r, d) must fit, got {b.shape}, {s.shape}, {rows.shape}"
        )
    try:
        factor = np.linalg.cholesky(rows @ s @ rows.T)
    except np.linalg.LinAlgError:
        raise ValueError("a cov a' must be positive definite; pass a of full row rank") from None
    explained = np.linalg.solve(factor, rows @ s @ b)
    return positive("noise", noise) + float(b @ s @ b - explained @ explained)


def frozen_a_risk(variance: float, n: int, r: int) -> float:
    """Expected squared error of the regression on r frozen features ``A x`` (DK-14).

    ``variance (n - 1) / (n - r - 1)``.

    Parameters
    ----------
    variance : float
        What the features leave unexplained, see `residual_variance`; > 0.
    n : int
        Training samples, above r + 1.
    r : int
        Number of features, >= 1.

    Returns
    -------
    float
        The risk on a new sample, noise included.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    Gaussian x and noise, no intercept: the mean of an inverse Wishart matrix.

    References
    ----------
    Breiman and Freedman (1983), doi:10.1080/01621459.1983.10477941.

    Examples
    --------
    >>> round(frozen_a_risk(1.5, 20, 6), 8)
    2.19230769
    """
    r = integer("r", r, low=1)
    n = integer("n", n, low=r + 2)
    return positive("variance", variance) * (n - 1) / (n - r - 1)


def _in_range(name: str, value: ArrayLike, low: float, high: float = math.inf) -> NDArray[np.float64]:
    values = finite_array(name, value)
    if (values < low).any() or (values > high).any():
        rule = f">= {low:g}" if math.isinf(high) else f"in [{low:g}, {high:g}]"
        raise ValueError(f"{name} must be {rule}, got {values.min():g}..{values.max():g}")
    return values
