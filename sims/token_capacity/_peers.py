"""Small models and other ways to do the same work, for the benchmarks."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from porism.sims.token_capacity._cut import cut_everywhere

__all__ = [
    "ATTENTIONS",
    "Arms",
    "adapted",
    "apart",
    "checkpointed",
    "cut_gradients",
    "gradients",
    "jacobians",
    "model",
    "products",
    "replayed_by",
    "weighted",
]

SHAPES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel",
             {"bos_token_id": 1, "eos_token_id": 2,
              "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}),
    "bert": ("BertConfig", "BertForMaskedLM",
             {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}),
}  # fmt: skip
INNER = {"llama": 2.6875, "gpt2": 4, "bert": 4}
"""Width of the MLP over that of the model."""


def model(kind: str, *, width: int = 256, layers: int = 4, heads: int = 8, length: int = 1024,
          group: int = 4, vocab: int = 512, seed: int = 0, **more: Any) -> Any:  # fmt: skip
    """A random Llama (whose heads share keys in groups), GPT-2 or BERT, without dropout."""
    import torch
    import transformers

    config, name, options = SHAPES[kind]
    sizes: dict[str, Any] = {"vocab_size": vocab, "hidden_size": width, "num_hidden_layers": layers,
             "num_attention_heads": heads, "max_position_embeddings": length,
             "use_cache": False}  # fmt: skip
    inner = "n_inner" if kind == "gpt2" else "intermediate_size"
    sizes[inner] = int(INNER[kind] * width)
    if kind == "llama":
        sizes["num_key_value_heads"] = heads // group
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built: Any = getattr(transformers, name)(
            getattr(transformers, config)(**sizes, **options, attn_implementation="sdpa", **more)
        )
    return built.eval()


def adapted(base: Any, dora: bool) -> Any:
    """LoRA or DoRA of rank 8 on all linear maps."""
    import warnings

    import peft
    import torch

    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by a name that is going
        torch.manual_seed(1)
        config = peft.LoraConfig(r=8, target_modules="all-linear", use_dora=dora)
        return peft.get_peft_model(base, config).eval()


@contextlib.contextmanager
def checkpointed(base: Any) -> Iterator[None]:
    """Full passes recompute each block in the backward pass, as transformers does it.

    The model is in training mode meanwhile, as transformers asks: it must have no dropout.
    """
    verb = "activation" if hasattr(base, "activation_checkpointing_enable") else "gradient"
    before = [(module, module.training) for module in base.modules()]
    base.train()
    getattr(base, f"{verb}_checkpointing_enable")({"use_reentrant": False})
    try:
        yield
    finally:
        getattr(base, f"{verb}_checkpointing_disable")()
        for module, training in before:
            module.training = training


class Arms:
    """One batch, and the loss of its last k tokens by three ways; the head reads k rows in each."""

    def __init__(self, net: Any, k: int, length: int) -> None:
        import torch

        from porism.sims.token_capacity.subset import SubsetBackprop

        self.net, self.k = net, k
        self.base = net.get_base_model() if hasattr(net, "peft_config") else net
        self.step = SubsetBackprop(net, verify="never")
        draws = torch.Generator().manual_seed(2)
        self.ids = torch.randint(3, self.base.config.vocab_size, (1, length + 1), generator=draws)
        self.known = [*net.parameters(), *net.buffers()]

    def _loss(self, hidden: Any) -> Any:
        import torch

        logits = self.base.get_output_embeddings()(hidden)
        return torch.nn.functional.cross_entropy(logits[0], self.ids[0, -self.k :])

    def full(self) -> Any:
        """All positions."""
        return self._loss(self.base.base_model(input_ids=self.ids[:, :-1]).last_hidden_state[:, -self.k :])

    def ours(self) -> Any:
        """Two passes."""
        return self._loss(self.step.forward(self.k, input_ids=self.ids[:, :-1]).hidden)

    def gradients(self, loss: Any) -> dict[str, Any]:
        """Gradient of every parameter that has one; none stays behind."""
        loss.backward()
        found = {name: value.grad for name, value in self.net.named_parameters() if value.grad is not None}
        for value in self.net.parameters():
            value.grad = None
        return found

    def last_block(self) -> set[str]:
        """Weights whose gradient all ways share: the last block's attention output and MLP."""
        words = ("o_proj", "mlp", "attn.c_proj", "output.dense", "intermediate.dense")
        last = f".{self.base.config.num_hidden_layers - 1}."
        named = {name for name, value in self.net.named_parameters() if value.requires_grad}
        return {name for name in named if last in name and any(word in name for word in words)}


def apart(found: dict[str, Any], wanted: dict[str, Any]) -> float:
    """Largest difference of gradients, relative to the largest entry of all of them."""
    size = max(float(value.abs().max()) for value in wanted.values())
    return max(float((found[name] - value).abs().max()) for name, value in wanted.items()) / size


def _both(q: Any, k: Any, v: Any, k_frozen: Any, v_frozen: Any, at: Any, at_frozen: Any, causal: bool) -> Any:
    """Keys and values of both groups, joined and repeated for every query head, and who sees whom."""
    import torch

    index = torch.cat([at_frozen, at], 1)
    sees = (index[:, None, None, :] <= at[:, None, :, None]) | (not causal)
    group = q.shape[1] // k.shape[1]
    keys, values = (torch.cat(pair, 2).repeat_interleave(group, 1) for pair in ((k_frozen, k), (v_frozen, v)))
    return keys, values, sees


def _fused(q: Any, k: Any, v: Any, k_frozen: Any, v_frozen: Any, *, index_query: Any, index_frozen: Any,
           causal: bool, scale: float, **_: Any) -> Any:  # fmt: skip
    """Joined keys in torch's own attention."""
    import torch

    keys, values, sees = _both(q, k, v, k_frozen, v_frozen, index_query, index_frozen, causal)
    return torch.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=sees, scale=scale)


def _eager(q: Any, k: Any, v: Any, k_frozen: Any, v_frozen: Any, *, index_query: Any, index_frozen: Any,
           causal: bool, scale: float, **_: Any) -> Any:  # fmt: skip
    """As TokenTune's code does it: joined and repeated keys, and a softmax in float32 that is kept."""
    import torch

    keys, values, sees = _both(q, k, v, k_frozen, v_frozen, index_query, index_frozen, causal)
    scores = ((q @ keys.mT) * scale).masked_fill(~sees, float("-inf"))
    return scores.softmax(-1, dtype=torch.float32).to(q.dtype) @ values


ATTENTIONS: dict[str, Any] = {"TokenTune-style": _eager, "concat+SDPA": _fused}


@contextlib.contextmanager
def replayed_by(attention: Any) -> Iterator[None]:
    """The same two passes with another attention in the second one."""
    import importlib

    kernel = importlib.import_module("porism.kernels.subset_attention")
    with mock.patch.object(kernel, "subset_attention", attention):
        yield


def cut_gradients(net: Any, ids: Any, chosen: Any) -> dict[str, Any]:
    """Gradients of `weighted` hidden states (selected ones) by the definition of the selected gradient."""
    with cut_everywhere(net, chosen, chosen.new_ones(chosen.shape)):
        hidden = net.base_model(input_ids=ids).last_hidden_state
    return gradients(net, weighted(hidden[chosen]))


def weighted(hidden: Any) -> Any:
    """A scalar of hidden states, row after row; not their squares, which a final norm makes constant."""
    import torch

    draws = torch.Generator().manual_seed(5)
    shape = (hidden.shape[:-1].numel(), hidden.shape[-1])
    return (hidden.reshape(shape) * torch.randn(shape, generator=draws, dtype=hidden.dtype)).sum()


def gradients(net: Any, loss: Any) -> dict[str, Any]:
    """Gradient of every parameter that has one."""
    import torch

    named = dict(net.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {name: value for name, value in zip(named, found, strict=True) if value is not None}


def products(x: Any, g: Any) -> Any:
    """Kernels of all positions by two products of all examples."""
    import torch

    return torch.einsum("ntd,mtd->tnm", x, x) * torch.einsum("ntd,mtd->tnm", g, g)


def jacobians(x: Any, g: Any, *, at_once: bool) -> Any:
    """Kernels of all positions by contraction of torch.func's Jacobians, of all or of one position a time."""
    import torch

    weight = torch.zeros(g.shape[2], x.shape[2], dtype=x.dtype)

    def output(weight: Any, x: Any, g: Any) -> Any:
        return (x @ weight.T) @ g

    one = torch.func.jacrev(output)
    if at_once:
        found = torch.func.vmap(torch.func.vmap(one, (None, 0, 0)), (None, 0, 0))(weight, x, g)
        return torch.einsum("ntoi,mtoi->tnm", found, found)
    each, out = torch.func.vmap(one, (None, 0, 0)), x.new_empty(x.shape[1], len(x), len(x))
    for t in range(x.shape[1]):
        flat = each(weight, x[:, t], g[:, t]).flatten(1)
        torch.mm(flat, flat.T, out=out[t])
    return out
