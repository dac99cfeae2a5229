"""Folding mixes of heads into the projections of attention, with a guard for rotary positions."""

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, one_of, positive
from porism.errors import AssumptionError
from porism.results import Result
from porism.theory.attention.rope import RopeLayout, project_to_commutant

__all__ = ["FoldedProjection", "fold", "fold_output_mix", "fold_query_mix"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class FoldedProjection(Result):
    """Query projection of G heads a group that gives mixed queries at once.

    Parameters
    ----------
    weight : float64 array of shape (n_kv, G, d_h, D)
        Groups, heads of a group, width of a head, width of the input.
    bias : float64 array of shape (n_kv, G, d_h) or None
        Mixed like the weight.
    commutation_residual : float
        Distance of the mix from those that commute with the rotation; 0 for mixes of heads alone, and where
        no rotation was given.

    Examples
    --------
    >>> fold_query_mix(np.ones((1, 1, 2, 3)), [[[1.0], [2.0]]]).weight.shape
    (1, 2, 2, 3)
    """

    weight: Floats
    bias: Floats | None
    commutation_residual: float


def fold(linear: ArrayLike, mix: ArrayLike, side: str) -> Floats:
    """Fold a mix of blocks into a linear map, on its outputs or on its inputs.

    ``(mix (x) I) W`` or ``W (mix (x) I)``; the identity has the size that makes the mix fit.

    Parameters
    ----------
    linear : array_like of shape (..., out, in)
        Weight W.
    mix : array_like of shape (..., g, p)
        Mix; p divides out on the output side, g divides in on the input side. With p = out it mixes all.
    side : {"output", "input"}
        Where the mix acts.

    Returns
    -------
    float64 array of shape (..., out g / p, in) or (..., out, in p / g)
        The folded weight.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit.

    Notes
    -----
    Associativity, nothing else. In float64: cast last. Cost g p (out / p) in, or the like.

    References
    ----------
    VH-1.

    Examples
    --------
    >>> fold([[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [1.0, 1.0]], "output").tolist()
    [[3.0, 4.0], [4.0, 6.0]]
    """
    W, M = finite_array("linear", linear), finite_array("mix", mix)
    one_of("side", side, ("output", "input"))
    axis = -2 if side == "output" else -1
    if min(W.ndim, M.ndim) < 2 or 0 in W.shape + M.shape or W.shape[axis] % M.shape[-1 if axis == -2 else -2]:
        raise ValueError(
            f"mix must be (..., g, p) with {'p' if side == 'output' else 'g'} a divisor of the {side} width, "
            f"got {M.shape} for a weight of {W.shape}; both may have leading axes"
        )
    if M.ndim > 2 and W.shape[:-2] != M.shape[:-2]:
        raise ValueError(f"mix and linear must have the same leading axes, got {M.shape} and {W.shape}")
    if side == "output":
        blocks = W.reshape(*W.shape[:-2], M.shape[-1], -1)
        return np.asarray((M @ blocks).reshape(*W.shape[:-2], -1, W.shape[-1]))
    parts = W.reshape(*W.shape[:-1], M.shape[-2], -1).swapaxes(-1, -2)
    mixed = parts @ (M if M.ndim == 2 else M[..., None, :, :])
    return np.asarray(mixed.swapaxes(-1, -2).reshape(*W.shape[:-1], -1))


def fold_query_mix(
    W_q: ArrayLike,
    mix: ArrayLike,
    *,
    bias: ArrayLike | None = None,
    rope: RopeLayout | None = None,
    applied: str = "before",
    tol: float = 1e-10,
) -> FoldedProjection:
    """Fold a mix of the query heads of each group into their projection.

    ``W' = (M (x) I) W`` and ``b' = (M (x) I) b``, or with the whole matrix where dimensions are mixed too.

    Parameters
    ----------
    W_q : array_like of shape (n_kv, P, d_h, D)
        Weight: groups, physical heads of a group, width of a head, width of the input.
    mix : array_like of shape (n_kv, G, P) or (n_kv, G, d_h, P, d_h)
        Mix of heads, or of heads and dimensions, for each group.
    bias : array_like of shape (n_kv, P, d_h), optional
        Bias of the projection. Leaving out one that is there changes every logit.
    rope : RopeLayout, optional
        Rotation of the queries; None if there is none.
    applied : {"before", "after"}
        Whether the mix acts on queries before or after the rotation. Before, every mix folds.
    tol : float, default 1e-10
        Largest share of its norm that a group's mix after the rotation may lie off the commutant.

    Returns
    -------
    FoldedProjection
        Weight and bias in float64, and the distance of the mix from the commutant.

    Raises
    ------
    AssumptionError
        If the mix acts after the rotation and does not commute with it.
    TypeError, ValueError
        If shapes do not fit.

    Warns
    -----
    NumericalWarning
        If frequencies coincide, so that the guard refuses more than it has to.

    Notes
    -----
    Cast the result last: folding weights that were rounded before loses what folding gains. Folding costs
    up to G / P times the work of the projection, see `cost_model`. A norm of the queries between
    projection and mix does not fold at all.

    References
    ----------
    VH-1 and VH-2; our derivation.

    Examples
    --------
    >>> W = [[[[1.0, 2.0]], [[3.0, 0.0]]]]  # one group, two heads of width 1
    >>> fold_query_mix(W, [[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]).weight[0, :, 0].tolist()
    [[1.0, 2.0], [3.0, 0.0], [4.0, 2.0]]
    """
    weight, M = finite_array("W_q", W_q, ndim=4), finite_array("mix", mix)
    n, P, d, D = weight.shape
    b = None if bias is None else finite_array("bias", bias)
    one_of("applied", applied, ("before", "after"))
    tol = positive("tol", tol)
    beside = {3: (n, P), 5: (n, d, P, d)}  # all axes of a mix but that of its G heads
    if 0 in weight.shape + M.shape or M.shape[:1] + M.shape[2:] != beside.get(M.ndim):
        raise ValueError(
            f"mix must be (n_kv, G, P) or (n_kv, G, d_h, P, d_h), got {M.shape} for W_q of {weight.shape}, "
            "which is (n_kv, P, d_h, D); mix heads of one group only"
        )
    if b is not None and b.shape != (n, P, d):
        raise ValueError(
            f"bias must be (n_kv, P, d_h) = {(n, P, d)}, got {b.shape} for W_q of {weight.shape}; reshape it"
        )
    residual = 0.0
    if rope is not None and M.ndim == 5:
        top = np.abs(M).max(axis=(1, 2, 3, 4), keepdims=True)
        unit = M / np.where(top > 0, top, 1.0)  # group by group, as their sizes may differ
        off = np.linalg.norm((unit - project_to_commutant(unit, rope)).reshape(n, -1), axis=1)
        share = off / np.maximum(np.linalg.norm(unit.reshape(n, -1), axis=1), 1.0)
        apart, worst = top.ravel() * off, int(share.argmax())
        residual = math.hypot(*apart)
        if applied == "after" and share[worst] > tol:
            raise AssumptionError(
                "mix must commute with the rotation to act after it: complex-linear on every pair of "
                f"dimensions, nothing across frequencies; got one at distance {apart[worst]:.3g} from that "
                f"set, {share[worst]:.3g} of its norm; apply it before the rotation, or pass "
                "project_to_commutant(mix, rope)"
            )
    matrix = M if M.ndim == 3 else M.reshape(n, M.shape[1] * d, P * d)
    folded = fold(weight.reshape(n, P * d, D), matrix, "output").reshape(n, -1, d, D)
    shift = None if b is None else fold(b.reshape(n, P * d, 1), matrix, "output").reshape(n, -1, d)
    return FoldedProjection(folded, shift, residual)


def fold_output_mix(W_o: ArrayLike, mix: ArrayLike) -> Floats:
    """Fold a mix of the heads' outputs into the output projection.

    ``W'[:, h] = sum_g W[:, g] mix[g, h]``, where ``o'_g = sum_h mix[g, h] o_h``.

    Parameters
    ----------
    W_o : array_like of shape (D, H, d_h)
        Weight: width of the output, heads, width of a head.
    mix : array_like of shape (H, H), or (H, K) for K heads that attend
        The whole mix, ``I + A B'``.

    Returns
    -------
    float64 array of shape (D, H, d_h), or (D, K, d_h)
        The folded weight; the bias of the projection stays.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit.

    Notes
    -----
    The mix has to act directly before the projection: a gate or norm of each head may come before the mix,
    and not between mix and projection.

    References
    ----------
    VH-1; our derivation.

    Examples
    --------
    >>> fold_output_mix([[[1.0], [2.0]]], [[1.0, 1.0], [0.0, 1.0]]).tolist()
    [[[1.0], [3.0]]]
    """
    weight, M = finite_array("W_o", W_o, ndim=3), finite_array("mix", mix, ndim=2)
    D, H, d = weight.shape
    if len(M) != H:
        raise ValueError(
            f"mix must have one row a head of W_o, got {M.shape} for W_o of {weight.shape}, which is "
            "(D, H, d_h); pass the whole I + AB'"
        )
    return fold(weight.reshape(D, H * d), M, "input").reshape(D, -1, d)
