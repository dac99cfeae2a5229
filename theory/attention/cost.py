"""What virtual heads cost: parameters, operations and cache by counting. A model, not a measurement."""

import dataclasses

from porism.checks import integer
from porism.results import Result

__all__ = ["AttentionConfig", "Cost", "cost_model"]


@dataclasses.dataclass(frozen=True)
class AttentionConfig(Result):
    """Sizes of one attention layer with virtual heads.

    Parameters
    ----------
    width : int
        Width D of the residual stream, >= 1.
    kv_heads : int
        Key heads n_kv, each with a group of query heads, >= 1.
    physical : int
        Query heads P of a group that are projected, >= 1.
    virtual : int
        Query heads G of a group that attend, >= 1.
    head_dim : int
        Width d_h of a head, >= 1.
    folded : bool, default False
        Whether the mix is folded into the projection. Plain grouped attention is ``physical = virtual``,
        folded.
    bytes_per_number : int, default 2
        Of the cache, >= 1.

    Examples
    --------
    >>> AttentionConfig(1024, 4, 4, 8, 64).virtual
    8
    """

    width: int
    kv_heads: int
    physical: int
    virtual: int
    head_dim: int
    folded: bool = False
    bytes_per_number: int = 2


@dataclasses.dataclass(frozen=True)
class Cost(Result):
    """Counts of one layer; queries and cache only, as folding touches nothing else.

    Parameters
    ----------
    params : int
        Weights of the query projection, and of the mix where it is kept.
    flops_per_token : int
        Operations that make a token's queries; a multiplication and an addition are two.
    cache_bytes_per_token : int
        Keys and values of a token, bytes.

    Examples
    --------
    >>> Cost(10, 20, 30).cache_bytes_per_token
    30
    """

    params: int
    flops_per_token: int
    cache_bytes_per_token: int


def cost_model(config: AttentionConfig) -> Cost:
    """Count parameters, operations and cache of a layer with head-scalar virtual heads.

    ``2 n_kv d_h P (D + G)`` operations a token unfolded, ``2 n_kv d_h G D`` folded, so that folding saves
    work if and only if ``P (D + G) > G D``; the cache is ``2 n_kv d_h bytes`` either way.

    Parameters
    ----------
    config : AttentionConfig
        Sizes.

    Returns
    -------
    Cost
        Parameters, operations a token, bytes of cache a token.

    Raises
    ------
    TypeError, ValueError
        If a size is no integer >= 1.

    Notes
    -----
    Biases, keys, values, attention itself and the output projection are the same for both forms and left
    out. Operations are not seconds: a small product by the mix runs at the speed of memory.

    References
    ----------
    VH-5, by counting.

    Examples
    --------
    >>> kept = AttentionConfig(1024, 4, 4, 8, 64)
    >>> cost_model(kept)
    Cost(params=1048704, flops_per_token=2113536, cache_bytes_per_token=1024)
    >>> cost_model(dataclasses.replace(kept, folded=True)).flops_per_token
    4194304
    """
    if not isinstance(config, AttentionConfig):
        raise TypeError(f"config must be an AttentionConfig, got {type(config).__name__}; make one of sizes")
    D, n, P, G, d, size = (
        integer(name, getattr(config, name), 1)
        for name in ("width", "kv_heads", "physical", "virtual", "head_dim", "bytes_per_number")
    )
    params = n * G * d * D if config.folded else n * P * d * D + n * G * P
    flops = 2 * n * d * G * D if config.folded else 2 * n * d * P * (D + G)
    return Cost(params, flops, 2 * n * d * size)
