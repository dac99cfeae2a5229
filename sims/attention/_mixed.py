"""A model of transformers in which mixes of heads are kept: what a folded one must equal."""

import inspect
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import nn

from porism.theory.attention import attend

__all__ = ["MixedAttention", "decode", "tiny_llama"]


class MixedAttention(nn.Module):
    """Attention of Llama's shape in float64 with the mixes as operations of their own; keeps what it saw."""

    def __init__(self, module: Any, query_mix: NDArray, output_mix: NDArray) -> None:
        super().__init__()
        self.module, self.query_mix, self.output_mix = module, query_mix, output_mix
        self.seen: list[tuple[dict[str, Any], Any]] = []

    def forward(self, hidden_states: Any, **given: Any) -> tuple[Any, None]:
        module, (n, G, P) = self.module, self.query_mix.shape
        cache = given.get("cache", given.get("past_key_values"))
        (batch, T), d = hidden_states.shape[:2], int(module.head_dim)
        cos, sin = (part[:, None].numpy() for part in given["position_embeddings"])

        def heads(linear: Any) -> NDArray:
            return linear(hidden_states).reshape(batch, T, -1, d).transpose(1, 2).numpy()

        def turned(z: NDArray) -> NDArray:
            half = np.concatenate([-z[..., d // 2 :], z[..., : d // 2]], axis=-1)
            return z * cos + half * sin

        q = heads(module.q_proj).reshape(batch, n, P, T, d)
        q = np.einsum("ngp,bnptd->bngtd", self.query_mix, q).reshape(batch, n * G, T, d)
        k, v = turned(heads(module.k_proj)), heads(module.v_proj)
        if cache is not None:
            k, v = cache.update(torch.from_numpy(k), torch.from_numpy(v), module.layer_idx)
        S = k.shape[2]
        o = attend(turned(q), k, v, np.tri(T, S, S - T, dtype=bool)).output
        o = np.einsum("gh,bhtd->btgd", self.output_mix, o).reshape(batch, T, n * G * d)
        out = module.o_proj(torch.from_numpy(o))
        if cache is None:
            self.seen.append(({"hidden_states": hidden_states, **given}, out))
        return out, None


def tiny_llama(rng: np.random.Generator, G: int, layers: int = 2) -> Any:
    """Llama-type model in float64 with biases: 2 groups of 2 heads of 8, and o_proj for G heads a group."""
    hf: Any = transformers
    config = hf.LlamaConfig(
        vocab_size=31, hidden_size=32, intermediate_size=48, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, attention_bias=True, bos_token_id=None, eos_token_id=None,
        attn_implementation="sdpa",
    )  # fmt: skip
    model: Any = hf.LlamaForCausalLM(config).double().eval()
    for layer in model.model.layers:
        layer.self_attn.o_proj = nn.Linear(2 * G * 8, 32, dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 1.0 if parameter.ndim == 1 else parameter.shape[1] ** -0.5
            parameter.copy_(torch.from_numpy(scale * rng.standard_normal(tuple(parameter.shape))))
    return model.requires_grad_(False)


def decode(model: Any, ids: Any, start: int) -> tuple[Any, int]:
    """Logits of all tokens (B, T, vocab), those after `start` one by one with a cache; and its bytes."""
    cache: Any = transformers.DynamicCache()
    names = inspect.signature(model.forward).parameters
    name = "cache" if "cache" in names else "past_key_values"
    parts = [ids[:, :start], *ids[:, start:].split(1, dim=1)]
    logits = [model(part, use_cache=True, **{name: cache}).logits for part in parts]
    held = sum(int(layer.keys.nbytes + layer.values.nbytes) for layer in cache.layers)
    return torch.cat(logits, dim=1), held
