"""Random transformers of three shapes, what their linear maps see, and what their graphs keep."""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer, one_of, positive, require

__all__ = ["ARMS", "MODELS", "position_gradients", "random_model", "saved_bytes"]

Floats = NDArray[np.float64]
Seed = np.random.Generator | int | None

MODELS = ("llama", "gpt2", "bert")
"""Shapes of `random_model`: two causal ones and a bidirectional one."""

ARMS = ("full", "subset", "checkpoint")
"""Ways to fine-tune in `saved_bytes`: all positions, the last k, all with gradient checkpointing."""

_CLASSES = {
    "llama": ("LlamaConfig", "LlamaForCausalLM"),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel"),
    "bert": ("BertConfig", "BertForMaskedLM"),
}


def random_model(
    family: str,
    rng: Seed,
    *,
    std: float = 0.4,
    jitter: float = 0.1,
    layers: int = 3,
    width: int = 16,
    heads: int = 4,
    key_heads: int | None = None,
    vocab: int = 31,
    max_len: int = 64,
    dtype: str = "float64",
) -> Any:
    r"""Build a transformers model with a head for each token, from a configuration and random weights.

    .. math:: W \sim N(0, \text{std}^2), \qquad b, \text{norms} \mathrel{+}= N(0, \text{jitter}^2)

    Parameters
    ----------
    family : {"llama", "gpt2", "bert"}
        Shape: causal with rotary positions and grouped keys, causal with learned positions, bidirectional.
    rng : Generator, int or None
        Source of the weights.
    std : float, default 0.4
        Size of the weights, > 0. At 0.4 attention mixes positions; at 0.02, the usual start, it hardly does.
    jitter : float, default 0.1
        Added to biases and norms, >= 0: zeros and ones hide errors.
    layers, width, heads : int
        Depth, width and query heads, >= 1; `heads` divides `width`.
    key_heads : int, optional
        Key and value heads of "llama", a divisor of `heads`; half of `heads` by default.
    vocab, max_len : int
        Ids and longest row.
    dtype : str, default "float64"
        Name of a torch type.

    Returns
    -------
    transformers.PreTrainedModel
        In evaluation mode, no dropout, torch's own attention; `base_model` is the backbone.

    Raises
    ------
    MissingExtraError
        If torch or transformers is not installed.
    ValueError
        If the family is unknown or a number is out of range.

    Notes
    -----
    The MLP is 3/2 times as wide as the model, in GPT-2 four times. Torch's global stream is left as it was.

    References
    ----------
    The three shapes: Touvron et al. (2023), Radford et al. (2019), Devlin et al. (2019).

    Examples
    --------
    >>> random_model("llama", 0).config.num_key_value_heads  # doctest: +SKIP
    2
    """
    one_of("family", family, MODELS)
    torch, hf = require("torch", "torch"), require("transformers", "hf")
    layers, width, heads = (
        integer(name, value, 1) for name, value in (("layers", layers), ("width", width), ("heads", heads))
    )
    if width % heads:
        raise ValueError(f"heads must divide width={width}, got {heads}; choose a divisor")
    key_heads = max(heads // 2, 1) if key_heads is None else integer("key_heads", key_heads, 1)
    if heads % key_heads:
        raise ValueError(f"key_heads must divide heads={heads}, got {key_heads}; choose a divisor")
    vocab, max_len = integer("vocab", vocab, 3), integer("max_len", max_len, 1)
    options: dict[str, Any] = {"initializer_range": positive("std", std), "attn_implementation": "sdpa"}
    options |= {"vocab_size": vocab, "bos_token_id": 1, "eos_token_id": 2}
    if family == "gpt2":
        options |= {"n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": max_len}
        options |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    else:
        options |= {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
        options |= {"intermediate_size": 3 * width // 2, "max_position_embeddings": max_len}
        if family == "llama":
            options["num_key_value_heads"] = key_heads
        else:
            options |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config, model = (getattr(hf, name) for name in _CLASSES[family])
    seed = int(generator(rng).integers(2**31))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        built = model(config(**options))
        for name, value in built.named_parameters():
            if jitter and (name.endswith("bias") or "norm" in name.lower() or ".ln_" in name):
                value.data += jitter * torch.randn_like(value)
    return built.to(getattr(torch, dtype)).eval()


def position_gradients(
    model: Any, run: Callable[[], Any], names: Iterable[str] | None = None
) -> dict[str, tuple[Floats, Floats]]:
    """Inputs of linear maps and gradients at their outputs, position by position.

    ``x_nt`` and ``g_nt = d f / d y_nt`` with ``y = W x``, so that ``d f_n / d W = sum over t of g_nt x_nt'``.

    Parameters
    ----------
    model : torch.nn.Module
        Holds the maps: torch's `Linear` or the transposed one of GPT-2.
    run : callable ``() -> scalar``
        Runs the model once and returns the sum over examples of their scalars.
    names : iterable of str, optional
        Maps to watch, as in `named_modules`; all by default.

    Returns
    -------
    dict of str to (inputs, gradients)
        Arrays (N, T, d_in) and (N, T, d_out) of float64; maps that the scalar does not use are left out.

    Raises
    ------
    MissingExtraError
        If torch is not installed.
    ValueError
        If a name is no linear map of the model.

    Notes
    -----
    Keeps all inputs and gradients at once: for small models.

    References
    ----------
    TC-1, chain rule.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Linear(3, 2)
    >>> found = position_gradients(layer, lambda: layer(torch.ones(4, 5, 3)).sum(), [""])
    >>> [part.shape for part in found[""]]
    [(4, 5, 3), (4, 5, 2)]
    """
    torch = require("torch", "torch")
    maps = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"
    }
    wanted = list(maps) if names is None else [one_of("names", name, tuple(maps)) for name in names]
    seen: dict[str, tuple[Any, Any]] = {}

    def keep(name: str) -> Any:
        def hook(module: Any, inputs: Any, out: Any) -> None:
            seen[name] = inputs[0].detach(), out

        return hook

    hooks = [maps[name].register_forward_hook(keep(name)) for name in wanted]
    try:
        value = run()
    finally:
        for hook in hooks:
            hook.remove()
    slopes = torch.autograd.grad(value, [out for _, out in seen.values()], allow_unused=True)
    return {
        name: (x.double().numpy(), g.double().numpy())
        for (name, (x, _)), g in zip(seen.items(), slopes, strict=True)
        if g is not None
    }


def value_energies(model: Any, ids: Any, labels: Any, keep: slice) -> dict[int, Floats]:
    """Trace of K_t (T,) of the value maps of layers 1 and 3 of a Llama; the loss reads the positions kept."""
    torch = require("torch", "torch")
    names = {f"model.layers.{layer}.self_attn.v_proj": layer for layer in (1, 3)}

    def run() -> Any:
        logits, wanted = model(input_ids=ids).logits[:, keep], labels[:, keep]
        # the mean over positions of each row, summed over rows
        return torch.nn.functional.cross_entropy(logits.mT, wanted, reduction="none").mean(1).sum()

    found = position_gradients(model, run, names)
    return {names[name]: ((x**2).sum(-1) * (g**2).sum(-1)).sum(0) for name, (x, g) in found.items()}


def saved_bytes(
    family: str,
    arm: str,
    length: int,
    k: int,
    *,
    layers: int = 4,
    width: int = 256,
    heads: int = 8,
    key_heads: int | None = None,
    rng: Seed = 0,
) -> int:
    r"""Bytes that one row in float32 keeps for the backward pass, for a head on the last k positions.

    .. math:: \text{subset} \approx k\,c + (T - k)\, 2 d_{kv} b, \qquad \text{full} = T c, \qquad
              \text{checkpoint} \approx T d\, b \quad\text{a layer}

    Parameters
    ----------
    family : {"llama", "gpt2", "bert"}
        Shape, see `random_model`.
    arm : {"full", "subset", "checkpoint"}
        All positions; the last k through :class:`SubsetBackprop`; all with gradient checkpointing.
    length, k : int
        Tokens T of the row, and positions k that the loss reads, 1 <= k <= T.
    layers, width, heads, key_heads : int
        As in `random_model`.
    rng : Generator, int or None, default 0
        Source of weights and ids; the bytes do not depend on it.

    Returns
    -------
    int
        Bytes of the graph; see `measure_saved_bytes` for what they leave out.

    Raises
    ------
    MissingExtraError
        If torch or transformers is not installed.
    ValueError
        If a name is unknown or a number is out of range.

    Notes
    -----
    Not a peak: checkpointing computes one layer again during its backward pass, which comes on top.

    References
    ----------
    TC-9.

    Examples
    --------
    >>> saved_bytes("llama", "full", 64, 8) > saved_bytes("llama", "subset", 64, 8)  # doctest: +SKIP
    True
    """
    one_of("arm", arm, ARMS)
    length = integer("length", length, 1)
    k = integer("k", k, 1, length)
    torch = require("torch", "torch")
    from porism.sims.token_capacity._peers import checkpointed
    from porism.sims.token_capacity.memory import measure_saved_bytes
    from porism.sims.token_capacity.subset import SubsetBackprop

    stream = generator(rng)
    shape: dict[str, Any] = {"layers": layers, "width": width, "heads": heads, "key_heads": key_heads}
    model = random_model(family, stream, std=0.02, max_len=length, dtype="float32", **shape)
    ids = torch.from_numpy(stream.integers(3, 31, (1, length)))
    head, model.config.use_cache = model.get_output_embeddings(), False
    wrapper = SubsetBackprop(model, verify="never")

    def run() -> Any:
        if arm == "subset":
            hidden = wrapper.forward(k, input_ids=ids).hidden
        else:
            hidden = model.base_model(input_ids=ids).last_hidden_state[:, -k:]
        return head(hidden).logsumexp(-1).sum()

    with checkpointed(model) if arm == "checkpoint" else contextlib.nullcontext():
        return measure_saved_bytes(run, model)
