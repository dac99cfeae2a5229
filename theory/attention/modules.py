"""Folding into attention modules of transformers, of the shape that Llama's has."""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array, one_of, require
from porism.errors import AssumptionError
from porism.theory.attention.folding import fold_output_mix, fold_query_mix
from porism.theory.attention.rope import RopeLayout

__all__ = ["fold_into"]

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
FUSED = ("qkv_proj", "query_key_value", "qkv", "c_attn", "Wqkv", "in_proj")


def fold_into(
    attention_module: Any,
    query_mix: Any = None,
    output_mix: Any = None,
    *,
    applied: str = "before",
    rope: RopeLayout | None = None,
    tol: float = 1e-10,
) -> Any:
    """Fold mixes of heads into a copy of an attention module of transformers, which then runs as it is.

    ``W_q' = (M (x) I) W_q``, ``b_q' = (M (x) I) b_q`` and ``W_o' = W_o (mix (x) I)``.

    Parameters
    ----------
    attention_module : torch.nn.Module
        With q_proj, k_proj, v_proj, o_proj that are ``torch.nn.Linear``, and head_dim, as in Llama, Mistral,
        Qwen2 or Qwen3. Unchanged.
    query_mix : array_like or Tensor of shape (n_kv, G, P) or (n_kv, G, d_h, P, d_h), optional
        Mix of the P heads of each group that q_proj gives. Heads of a group are neighbours.
    output_mix : array_like or Tensor of shape (H, n_kv G), optional
        Mix directly before o_proj, the whole ``I + A B'``, for the H heads that o_proj takes.
    applied : {"before", "after"}
        Whether the query mix acts directly on q_proj's output, or after a norm and the rotation.
    rope : RopeLayout, optional
        Needed for "after".
    tol : float, default 1e-10
        As for `fold_query_mix`.

    Returns
    -------
    torch.nn.Module
        A copy with new q_proj and o_proj, G query heads a group, the same config object, and ``fold_error``:
        by projection the relative error of casting the folded weight to the module's dtype.

    Raises
    ------
    AssumptionError
        If queries are normalised and the mix acts after that; if a mix after the rotation does not commute
        with it; or if the module has parts between mix and weights that are not known here.
    MissingExtraError
        If torch is not installed.
    TypeError
        If the module has another shape, or its weights are fused, quantised or on the meta device.
    ValueError
        If neither mix is given, or they do not fit.

    Notes
    -----
    Folds in float64 and casts last. If G differs from P, set ``config.num_attention_heads`` to ``n_kv G``
    and ``config.head_dim`` before the model is saved. The cache is that of the module given.

    References
    ----------
    VH-1, VH-2 and VH-4; our derivation.

    Examples
    --------
    >>> layer.self_attn = fold_into(layer.self_attn, query_mix=M)  # doctest: +SKIP
    """
    torch = require("torch", "torch")
    one_of("applied", applied, ("before", "after"))
    if query_mix is None and output_mix is None:
        raise ValueError(
            "query_mix or output_mix must be given, got None for both; pass the mix of the heads that "
            "q_proj gives as query_mix, that of the heads that o_proj takes as output_mix"
        )
    _known(torch, attention_module)
    module, d = attention_module, int(attention_module.head_dim)
    n, given = module.k_proj.out_features // d, module.q_proj.out_features
    if given % (n * d) or module.o_proj.in_features % d:
        raise ValueError(
            f"q_proj must give a whole number of heads a group, got {given} outputs for {n} groups of heads "
            f"of {d}, and o_proj {module.o_proj.in_features} inputs; a gate inside q_proj has to be split off"
        )
    P = given // (n * d)
    M = None if query_mix is None else finite_array("query_mix", query_mix)
    if M is not None and applied == "after":
        _refuse_norm(module)
        if rope is None:
            raise ValueError(
                "rope must be given for applied='after', got None; pass RopeLayout.standard(kind, "
                "rotary_dim, base) with the kind of this model"
            )
    G = P if M is None else M.shape[1] if M.ndim > 1 else 0
    _parts(module, n, P, G, d, output_mix is not None)
    errors: dict[str, float] = {}
    new = copy.deepcopy(module, {id(getattr(module, "config", None)): getattr(module, "config", None)})
    if M is not None:
        bias = module.q_proj.bias
        folded = fold_query_mix(
            finite_array("q_proj", module.q_proj.weight).reshape(n, P, d, -1),
            M,
            bias=None if bias is None else finite_array("bias", bias).reshape(n, P, d),
            rope=rope,
            applied=applied,
            tol=tol,
        )
        errors["q_proj"] = _put(torch, new.q_proj, folded.weight.reshape(n * G * d, -1), folded.bias)
    H = module.o_proj.in_features // d
    mix = None if output_mix is None else finite_array("output_mix", output_mix)
    if (H, n * G) != ((n * G,) * 2 if mix is None else mix.shape):
        shape = "none" if mix is None else f"{mix.shape}"
        raise ValueError(
            f"output_mix must have shape (heads of o_proj, n_kv G) = {(H, n * G)}, got {shape} for q_proj of "
            f"{given} and o_proj of {H * d} with {n} groups and heads of {d}; it maps the heads that attend "
            "to those that o_proj takes"
        )
    if mix is not None:
        W_o = finite_array("o_proj", module.o_proj.weight).reshape(-1, H, d)
        errors["o_proj"] = _put(torch, new.o_proj, fold_output_mix(W_o, mix).reshape(len(W_o), -1), None)
    new.num_key_value_groups = G
    for name in ("num_heads", "num_attention_heads"):
        if hasattr(new, name):
            setattr(new, name, n * G)
    new.fold_error = errors
    return new


def _known(torch: Any, module: Any) -> None:
    """Refuse what is not of Llama's shape, with plain weights in memory."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"attention_module must be a torch module, got {type(module).__name__}; pass layer.self_attn"
        )
    fused = [name for name in FUSED if hasattr(module, name)]
    if fused:
        raise TypeError(
            f"attention_module must have separate projections, got {fused[0]}, which fuses them; split its "
            "weight into queries, keys and values, and use fold_query_mix on the queries"
        )
    absent = [name for name in (*PROJECTIONS, "head_dim") if not hasattr(module, name)]
    if absent:
        raise TypeError(
            f"attention_module must have q_proj, k_proj, v_proj, o_proj and head_dim, got a "
            f"{type(module).__name__} without {', '.join(absent)}; use fold_query_mix on its weights"
        )
    for name in PROJECTIONS:
        linear = getattr(module, name)
        if not isinstance(linear, torch.nn.Linear) or hasattr(linear, "parametrizations"):
            raise TypeError(
                f"{name} must be a plain torch.nn.Linear, got {type(linear).__name__}; merge adapters first"
            )
        weight = linear.weight
        if weight.is_meta:
            raise TypeError(
                f"{name} must hold numbers, got a weight on the meta device; load the model first"
            )
        if type(weight.data) is not torch.Tensor or weight.dtype not in (
            torch.float64, torch.float32, torch.bfloat16, torch.float16,
        ):  # fmt: skip
            raise TypeError(
                f"{name} must hold plain floating-point numbers, got {type(weight.data).__name__} of "
                f"{weight.dtype}; fold before quantising"
            )


def _refuse_norm(module: Any) -> None:
    norms = [name for name, _ in module.named_children() if "norm" in name and name[:2] not in ("k_", "v_")]
    if norms:
        raise AssumptionError(
            f"a mix after the query norm cannot be folded, got applied='after' for a module with {norms[0]}: "
            "normalised queries have a fixed length, their mixes have not; use applied='before'"
        )


def _parts(module: Any, n: int, P: int, G: int, d: int, mixes_output: bool) -> None:
    """Refuse parts of the module whose place beside the mixes is not known."""
    usual = (*PROJECTIONS, "q_norm", "k_norm", "rotary_emb")
    others = [name for name, _ in module.named_children() if name not in usual]
    if others and mixes_output:
        raise AssumptionError(
            f"the output mix must act directly before o_proj, got a module with {', '.join(others)}, which "
            "may come between; if it comes before the mix, use fold_output_mix on the weight of o_proj"
        )
    loose = [name for name, _ in module.named_parameters(recurse=False)]
    if G != P and loose:
        raise AssumptionError(
            f"every parameter of a head must be known, got {', '.join(loose)} for {n * P} heads where "
            f"{n * G} attend; extend it to the virtual heads and use fold_query_mix on the weights"
        )
    norm = getattr(getattr(module, "q_norm", None), "weight", None)
    if G != P and norm is not None and norm.numel() != d:
        raise AssumptionError(
            f"q_norm must normalise each head, got one of {norm.numel()} for heads of {d}; G = P folds anyway"
        )


def _put(torch: Any, linear: Any, weight: NDArray[np.float64], bias: NDArray[np.float64] | None) -> float:
    """Give a linear map a new weight; the relative error of the cast."""
    exact = torch.from_numpy(np.ascontiguousarray(weight))
    old = linear.weight
    linear.weight = torch.nn.Parameter(exact.to(old.device, old.dtype), requires_grad=old.requires_grad)
    if bias is not None:
        b = torch.from_numpy(bias.reshape(-1).copy()).to(linear.bias.device, linear.bias.dtype)
        linear.bias = torch.nn.Parameter(b, requires_grad=linear.bias.requires_grad)
    linear.out_features, linear.in_features = exact.shape
    size = float(exact.norm())
    return float((linear.weight.detach().double().cpu() - exact).norm()) / size if size else 0.0
