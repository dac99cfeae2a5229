"""Attention of a few positions to frozen and fresh keys, with gradients for the fresh ones only.

The reference loops over queries in float64 (``reference.py``) and is differentiated by autograd. The CPU path
(``cpu.py``) and the Triton path (``triton.py``) share one autograd function, with a backward pass of their
own: it makes no gradient for frozen keys and values, and keeps nothing of size queries x keys.
"""

import math
from typing import Any

from porism.checks import integer, one_of, require
from porism.kernels import on_gpu
from porism.kernels._arrays import BACKENDS, implementation, same_device

__all__ = ["subset_attention"]


def subset_attention(
    q: Any,
    k_fresh: Any,
    v_fresh: Any,
    k_frozen: Any = None,
    v_frozen: Any = None,
    *,
    index_query: Any,
    index_fresh: Any = None,
    index_frozen: Any = None,
    valid_fresh: Any = None,
    valid_frozen: Any = None,
    causal: bool = True,
    window: int = 0,
    scale: float | None = None,
    backend: str = "auto",
) -> Any:
    """Attend from selected positions to frozen and fresh keys at once.

    ``out_i = sum_j softmax_j(scale q_i . k_j) v_j`` over the keys j of both groups that query i sees: valid
    ones, with ``j <= i`` if causal, and ``|i - j| < window`` if there is a window, by index in the sequence.

    Parameters
    ----------
    q : float tensor, shape (B, H, k, d)
        Queries: row of the batch, query head, selected position, feature; any strides.
    k_fresh, v_fresh : float tensor, shape (B, H_kv, F, d)
        Keys and values that carry gradients. H is a multiple of H_kv: query head h reads head
        ``h // (H / H_kv)``, and nothing is expanded.
    k_frozen, v_frozen : float tensor, shape (B, H_kv, U, d), optional
        Keys and values that are constants, also where they ask for gradients; U may be 0.
    index_query : int tensor, shape (B, k) or (k,)
        Index of each query in its sequence; int32 is enough. In any order.
    index_fresh : int tensor, shape (B, F) or (F,), optional
        Index of each fresh key; that of the queries by default, which needs F = k.
    index_frozen : int tensor, shape (B, U) or (U,)
        Index of each frozen key.
    valid_fresh, valid_frozen : bool tensor, shape (B, F) and (B, U), optional
        False takes a key out, whatever it holds; all are valid by default.
    causal : bool, default True
        Whether keys of larger index than the query are hidden.
    window : int, default 0
        Keys at this distance or farther are hidden, to both sides if not causal; 0 means no window.
    scale : float, optional
        Factor on scores; ``1 / sqrt(d)`` by default.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors of up to 32 bits and 256 features, and for the
        rest the CPU path, which is plain torch and runs on any device.

    Returns
    -------
    tensor, shape (B, H, k, d)
        Differentiable in q, k_fresh and v_fresh, once. A query that sees no key gets 0, and no gradient.

    Raises
    ------
    MissingExtraError
        If torch, or Triton where it is asked for, is not installed.
    TypeError
        If q, keys and values are not floating tensors of one dtype, indices are not integers, validity is
        not bool, or Triton is asked for float64.
    NotImplementedError
        In the backward pass with ``create_graph=True``; the reference can do that.
    ValueError
        If shapes do not fit, tensors are on several devices, or scale is not finite.

    Notes
    -----
    Kept for the backward pass: the five tensors, by reference, out, one logsumexp a query, and indices and
    validity as they were passed. Largest error relative to the largest entry, against float64: 1e-12 in
    float64, 2e-5 in float32, 2e-2 in float16 and bfloat16 (which the CPU path computes in float32).

    Floor for one head and one row of the batch, with T = U + k keys: ``4 k T d`` FLOP forward and
    ``6 k U d + 10 k^2 d`` backward, against ``10 k T d`` with gradients for frozen keys; ``2 U d`` numbers of
    frozen keys and values read once each way for a whole group of query heads, so some ``2 k H / H_kv`` FLOP
    a number. The CPU path holds scores of one call, ``B H k T`` numbers, for a moment; Triton holds tiles.
    Triton's programs are one for each tile of queries: few queries leave much of a large GPU idle. Time on
    a GPU: not measured.

    References
    ----------
    T. Dao et al. (2022), FlashAttention, arXiv:2205.14135 (online softmax, recomputation); M. Milakov,
    N. Gimelshein (2018), arXiv:1805.02867; A. Simoulin et al. (2024), TokenTune, EMNLP (the frozen context).

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> fresh, frozen = torch.ones(1, 1, 1, 2), torch.zeros(1, 1, 3, 2)  # doctest: +SKIP
    >>> at, rest = torch.tensor([3]), torch.arange(3)  # doctest: +SKIP
    >>> subset_attention(  # doctest: +SKIP
    ...     fresh * 0, fresh, fresh, frozen, frozen, index_query=at, index_frozen=rest)
    tensor([[[[0.2500, 0.2500]]]])
    """
    one_of("backend", backend, BACKENDS)
    torch = require("torch", "torch")
    window = integer("window", window, 0)
    if not isinstance(causal, bool):
        raise TypeError(f"causal must be True or False, got {causal!r}; the keys of a query depend on it")
    if (k_frozen is None) != (v_frozen is None):
        raise ValueError("k_frozen and v_frozen belong together, got one of them; pass both or neither")
    _tensors(torch, q, k_fresh=k_fresh, v_fresh=v_fresh, k_frozen=k_frozen, v_frozen=v_frozen)
    k, d = q.shape[2:]
    if k_frozen is None:
        k_frozen = v_frozen = k_fresh[:, :, :0].detach()
    F, U = k_fresh.shape[2], k_frozen.shape[2]
    if index_fresh is None and k != F:
        raise ValueError(f"index_fresh must be given for {F} fresh keys of {k} queries; one index a key")
    at = _index(torch, "index_query", index_query, q, k)
    at_fresh = at if index_fresh is None else _index(torch, "index_fresh", index_fresh, q, F)
    if index_frozen is None and U:
        raise ValueError(f"index_frozen must be given for {U} frozen keys; one index a key")
    at_frozen = at[:, :0] if index_frozen is None else _index(torch, "index_frozen", index_frozen, q, U)
    keep_fresh = _valid(torch, "valid_fresh", valid_fresh, q, F)
    keep_frozen = _valid(torch, "valid_frozen", valid_frozen, q, U)
    if isinstance(scale, str):
        raise TypeError(f"scale must be a number, got {scale!r}; leave it out for 1 / sqrt(d)")
    scale = 1 / math.sqrt(d) if scale is None else float(scale)
    if not math.isfinite(scale):
        raise ValueError(f"scale must be finite, got {scale}; leave it out for 1 / sqrt(d)")
    if backend == "auto":
        backend = "triton" if on_gpu(q) and q.element_size() <= 4 and d <= 256 else "cpu"
    _, path = implementation(__name__, backend, q)
    places = at, at_fresh, at_frozen, keep_fresh, keep_frozen
    return path.attend(q, k_fresh, v_fresh, k_frozen, v_frozen, places, causal, window, scale)


def _tensors(torch: Any, q: Any, **others: Any) -> None:
    """Check types, devices and shapes of queries, keys and values."""
    for name, value in {"q": q, **others}.items():
        if value is None and name.endswith("frozen"):
            continue
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(value).__name__}; use torch.as_tensor")
        if not value.is_floating_point():
            raise TypeError(f"{name} must be a floating tensor, got {value.dtype}; convert it with .float()")
        if value.ndim != 4 or value.shape[3] < 1:
            raise ValueError(f"{name} must have 4 axes (batch, head, position, feature), got shape "
                             f"{tuple(value.shape)}; reshape it")  # fmt: skip
        if value.dtype != q.dtype:
            raise TypeError(f"{name} must have the dtype of q, {q.dtype}, got {value.dtype}; convert one")
        same_device(name, value, "q", q)
        if name.startswith("v_"):
            fits = value.shape == others[f"k_{name[2:]}"].shape
            wanted = f"the shape of k_{name[2:]}, {tuple(others[f'k_{name[2:]}'].shape)}"
        else:
            fits = (value.shape[0], value.shape[3]) == (q.shape[0], q.shape[3])
            wanted = f"batch {q.shape[0]} and feature size {q.shape[3]} as q has"
        if not fits:
            raise ValueError(f"{name} must have {wanted}, got {tuple(value.shape)}; check the axes")
    heads, shared = q.shape[1], others["k_fresh"].shape[1]
    if shared < 1 or heads % shared:
        raise ValueError(f"q must have a multiple of the {shared} heads of k_fresh, got {heads}; "
                         "pass keys as they are, not expanded")  # fmt: skip
    if others["k_frozen"] is not None and others["k_frozen"].shape[1] != shared:
        raise ValueError(f"k_frozen must have the {shared} heads of k_fresh, got "
                         f"{others['k_frozen'].shape[1]}; pass keys as they are, not expanded")  # fmt: skip


def _index(torch: Any, name: str, value: Any, q: Any, n: int) -> Any:
    """Indices (B, n), a view where all rows share them."""
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.int32, torch.int64, torch.int16):
        kind = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        raise TypeError(f"{name} must be an integer tensor, got {kind}; int32 is enough")
    return _row("an index", name, value, q, n)


def _valid(torch: Any, name: str, value: Any, q: Any, n: int) -> Any:
    if value is None:
        return None
    if not isinstance(value, torch.Tensor) or value.dtype != torch.bool:
        kind = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        raise TypeError(f"{name} must be a bool tensor, got {kind}; True keeps a key")
    return _row("a flag", name, value, q, n)


def _row(what: str, name: str, value: Any, q: Any, n: int) -> Any:
    B = q.shape[0]
    if tuple(value.shape) not in ((n,), (B, n)):
        raise ValueError(f"{name} must have shape ({B}, {n}) or ({n},), got {tuple(value.shape)}; "
                         f"{what} for each position")  # fmt: skip
    same_device(name, value, "q", q)
    return value.expand(B, n)
