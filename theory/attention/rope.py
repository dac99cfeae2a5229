"""Rotary positions: which mixes of heads and dimensions commute with them, and how far another one is off."""

import dataclasses
import math
import warnings
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, one_of, positive
from porism.errors import NumericalWarning
from porism.results import Result

__all__ = ["RopeLayout", "commutant_dimension", "project_to_commutant", "rope_commutant_residual", "rotate"]

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

# frequencies closer than this share of the larger one are taken as equal
_SAME = 1e-9


@dataclasses.dataclass(frozen=True, eq=False)
class RopeLayout(Result):
    """Which dimensions of a head are turned together, and how fast.

    Parameters
    ----------
    kind : {"half", "interleaved"}
        Pairs are (i, i + r/2), as in Llama, or (2i, 2i + 1), as in GPT-J. Pass it, as weights do not tell.
    rotary_dim : int
        Number r of dimensions turned, the first of a head; even, >= 0.
    frequencies : array_like of shape (r/2,)
        Radians a position of each pair.

    Raises
    ------
    TypeError, ValueError
        If the kind is unknown, r is odd, or the number of frequencies is not r/2.

    References
    ----------
    Su et al. (2021), "RoFormer", arXiv:2104.09864.

    Examples
    --------
    >>> RopeLayout("half", 4, [1.0, 0.1]).pairs
    (array([0, 1]), array([2, 3]))
    """

    kind: str
    rotary_dim: int
    frequencies: Floats

    def __post_init__(self) -> None:
        one_of("kind", self.kind, ("half", "interleaved"))
        r = integer("rotary_dim", self.rotary_dim, 0)
        if r % 2:
            raise ValueError(f"rotary_dim must be even, got {r}; dimensions turn in pairs")
        speeds = finite_array("frequencies", self.frequencies, ndim=1)
        if len(speeds) != r // 2:
            raise ValueError(
                f"frequencies must hold rotary_dim / 2 = {r // 2} numbers, got {len(speeds)}; one a pair"
            )
        object.__setattr__(self, "rotary_dim", r)
        object.__setattr__(self, "frequencies", speeds)

    @classmethod
    def standard(cls, kind: str, rotary_dim: int, base: float = 10_000.0) -> Self:
        """Layout with the usual frequencies ``base^(-2i/r)``.

        Parameters
        ----------
        kind : {"half", "interleaved"}
            Which dimensions are pairs.
        rotary_dim : int
            Number r of dimensions turned.
        base : float, default 10000
            Base, > 0, called theta in many configurations.

        Returns
        -------
        RopeLayout
            The layout.
        """
        r = integer("rotary_dim", rotary_dim, 0)
        return cls(kind, r, positive("base", base) ** (-2 * np.arange(r // 2) / max(r, 1)))

    @property
    def pairs(self) -> tuple[Places, Places]:
        """First and second dimension of each pair."""
        i = np.arange(self.rotary_dim // 2)
        return (i, i + len(i)) if self.kind == "half" else (2 * i, 2 * i + 1)

    @property
    def distinct(self) -> bool:
        """Whether frequencies are different up to sign and full turns, and none is 0 or half a turn."""
        turn = np.mod(self.frequencies, 2 * math.pi)
        w = np.sort(np.minimum(turn, 2 * math.pi - turn))
        ends = (w <= 0) | (math.pi - w <= _SAME * math.pi)
        return not ends.any() and bool((np.diff(w) > _SAME * w[1:]).all())


def rotate(x: ArrayLike, positions: ArrayLike, layout: RopeLayout) -> Floats:
    """Turn queries or keys by their positions.

    ``(a, b) -> (a cos wt - b sin wt, a sin wt + b cos wt)`` for each pair, w its frequency, t the position.

    Parameters
    ----------
    x : array_like of shape (..., d_h)
        Vectors of heads.
    positions : array_like
        Broadcasts with the axes of x but the last, such as (T,) for (..., H, T, d_h).
    layout : RopeLayout
        Pairs and frequencies.

    Returns
    -------
    float64 array of shape (..., d_h)
        The turned vectors.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit.

    Notes
    -----
    Cost O(size of x).

    References
    ----------
    Su et al. (2021), "RoFormer", arXiv:2104.09864, section 3.4.2.

    Examples
    --------
    >>> rotate([1.0, 0.0], math.pi / 2, RopeLayout("half", 2, [1.0])).round(9).tolist()
    [0.0, 1.0]
    """
    vectors, place = finite_array("x", x), finite_array("positions", positions)
    _fits(layout, vectors.shape[-1] if vectors.ndim else 0)
    try:
        shape = np.broadcast_shapes(vectors.shape[:-1], place.shape)
    except ValueError:
        raise ValueError(
            f"positions must broadcast with {vectors.shape[:-1]}, got shape {place.shape}; one a vector"
        ) from None
    angle = np.broadcast_to(place, shape)[..., None] * layout.frequencies
    first, second = layout.pairs
    a, b, cos, sin = vectors[..., first], vectors[..., second], np.cos(angle), np.sin(angle)
    turned = np.broadcast_to(vectors, (*shape, vectors.shape[-1])).copy()
    turned[..., first], turned[..., second] = a * cos - b * sin, a * sin + b * cos
    return turned


def project_to_commutant(mix: ArrayLike, layout: RopeLayout) -> Floats:
    """Nearest mix that commutes with the rotation at every position.

    Between each two heads the same complex number ``x + iy``, as ``[[x, -y], [y, x]]``, on both dimensions of
    a pair; nothing across frequencies, nor between turned dimensions and others; others are free.

    Parameters
    ----------
    mix : array_like of shape (d_h, d_h), (G, d_h, P, d_h) or (n_kv, G, d_h, P, d_h)
        Mix of heads and dimensions, from the last two axes to the two before them.
    layout : RopeLayout
        Pairs and frequencies.

    Returns
    -------
    float64 array, shape of `mix`
        Its orthogonal projection, in the Frobenius norm, onto the commutant.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit.

    Warns
    -----
    NumericalWarning
        If frequencies coincide up to sign modulo 2 pi, or one is 0 or pi: more mixes commute than these.

    Notes
    -----
    It is the mean of ``R_t' mix R_t`` over all positions t: phases of different frequencies average out.
    Mixes of heads alone, with one number for each two heads, are the special case ``y = 0`` and equal x.

    References
    ----------
    VH-2; our derivation.

    Examples
    --------
    >>> project_to_commutant([[1.0, 2.0], [0.0, 3.0]], RopeLayout("half", 2, [1.0])).tolist()
    [[2.0, 1.0], [-1.0, 2.0]]
    """
    blocks = _blocks("mix", mix, layout)
    if not layout.distinct:
        warnings.warn(
            "frequencies coincide up to sign modulo 2 pi, or one is 0 or pi: more mixes commute than the "
            "guard admits; it is conservative",
            NumericalWarning,
            stacklevel=2,
        )
    return _unblock(_project(blocks, layout), mix)


def rope_commutant_residual(mix: ArrayLike, layout: RopeLayout) -> float:
    """Frobenius distance of a mix from those that commute with the rotation.

    ``sqrt(2)`` times it is the root mean square, over all positions t, of ``|R_t mix - mix R_t|``.

    Parameters
    ----------
    mix : array_like of shape (d_h, d_h), (G, d_h, P, d_h) or (n_kv, G, d_h, P, d_h)
        Mix of heads and dimensions.
    layout : RopeLayout
        Pairs and frequencies.

    Returns
    -------
    float
        The distance, in units of the mix; 0 where it may be folded after the rotation.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit.

    Warns
    -----
    NumericalWarning
        As for `project_to_commutant`; the distance is then an upper bound.

    Notes
    -----
    ``|R_t N - N R_t|^2 = 2 |N|^2 - 2 <N, R_t' N R_t>``, and the mean of the last is ``|projection|^2``.

    References
    ----------
    VH-2; our derivation.

    Examples
    --------
    >>> round(rope_commutant_residual([[1.0, 2.0], [0.0, 3.0]], RopeLayout("half", 2, [1.0])), 6)
    2.0
    """
    N = finite_array("mix", mix)
    top = float(np.abs(N).max(initial=0.0)) or 1.0  # squares of the entries could leave the range of floats
    return top * float(np.linalg.norm(N / top - project_to_commutant(N / top, layout)))


def commutant_dimension(head_dim: int, rotary_dim: int) -> int:
    """Number of free parameters of a commuting mix, for each two heads.

    ``r + (d_h - r)^2``: a complex number a pair, and any matrix on the dimensions that do not turn.

    Parameters
    ----------
    head_dim : int
        Width d_h of a head, >= 1.
    rotary_dim : int
        Dimensions r that turn, even, 0..d_h.

    Returns
    -------
    int
        The dimension.

    Raises
    ------
    TypeError, ValueError
        If a size is out of range.

    Notes
    -----
    For frequencies that are different up to sign modulo 2 pi, none of them 0 or pi.

    References
    ----------
    VH-2; our derivation.

    Examples
    --------
    >>> commutant_dimension(8, 8), commutant_dimension(8, 4)
    (8, 20)
    """
    d = integer("head_dim", head_dim, 1)
    r = integer("rotary_dim", rotary_dim, 0, d)
    if r % 2:
        raise ValueError(f"rotary_dim must be even, got {r}; dimensions turn in pairs")
    return r + (d - r) ** 2


def _fits(layout: RopeLayout, head_dim: int) -> None:
    if not isinstance(layout, RopeLayout):
        raise TypeError(
            f"layout must be a RopeLayout, got {type(layout).__name__}; the kind of pairs is not guessed"
        )
    if layout.rotary_dim > head_dim:
        raise ValueError(
            f"rotary_dim must be at most the width of a head, got {layout.rotary_dim} for heads of "
            f"{head_dim}; pass the layout of this model"
        )


def _blocks(name: str, mix: ArrayLike, layout: RopeLayout) -> Floats:
    """Mix as (..., G, P, d_h, d_h)."""
    full = finite_array(name, mix)
    if full.ndim not in (2, 4, 5) or full.shape[-1] != full.shape[0 if full.ndim == 2 else -3]:
        raise ValueError(
            f"{name} must have shape (d_h, d_h), (G, d_h, P, d_h) or (n_kv, G, d_h, P, d_h), got "
            f"{full.shape}; a mix of heads alone commutes anyway"
        )
    _fits(layout, full.shape[-1])
    return full if full.ndim == 2 else full.swapaxes(-2, -3)


def _unblock(blocks: Floats, like: ArrayLike) -> Floats:
    return blocks if np.ndim(like) == 2 else np.ascontiguousarray(blocks.swapaxes(-2, -3))


def _project(N: Floats, layout: RopeLayout) -> Floats:
    first, second = layout.pairs
    kept = np.zeros_like(N)
    x = (N[..., first, first] + N[..., second, second]) / 2
    y = (N[..., second, first] - N[..., first, second]) / 2
    kept[..., first, first] = kept[..., second, second] = x
    kept[..., second, first], kept[..., first, second] = y, -y
    r = layout.rotary_dim
    kept[..., r:, r:] = N[..., r:, r:]
    return kept
