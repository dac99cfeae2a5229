"""Claims on folding: VH-1 and VH-1b."""

import dataclasses

import numpy as np

from porism.checks import require
from porism.claims import Evidence, claim
from porism.sims.attention.worlds import random_mix, sample_layer, virtual_attention
from porism.theory.attention import RopeLayout, fold_into, fold_output_mix, fold_query_mix

__all__ = ["inside_llama", "same_outputs"]

SOURCE = "reconstruction and own derivation; no paper was available"


@claim(
    "VH-1",
    kind="theorem",
    source=SOURCE,
    statement="Folding the mix of query heads into projection and bias, and the mix of outputs I + AB' into "
    "the output projection, leaves the output of grouped attention as it is; with rotary positions, "
    "for mixes of heads, mixes that commute with the rotation, and any mix before it.",
    control="the bias of the queries is forgotten",
)
def same_outputs(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst = 8 if scale == "smoke" else 60, 0.0
    for trial in range(trials):
        n, P, G = (int(part) for part in rng.integers(1, 4, 3))
        layout = RopeLayout.standard("half" if trial % 2 else "interleaved", 6, 100.0)
        kind, applied = (("heads", "after"), ("commuting", "after"), ("any", "before"))[trial % 3]
        layer = sample_layer(24, n, P, 8, G, rng=rng)
        mix = random_mix(n, G, P, layout, 8, kind, rng)
        H = n * G
        outputs = np.eye(H) + np.outer(rng.standard_normal(H), rng.standard_normal(H))
        x = rng.standard_normal((9, 24))
        kept = virtual_attention(x, layer, mix, outputs, layout, applied)
        bias = None if broken else layer.bias
        q = fold_query_mix(layer.W_q, mix, bias=bias, rope=layout, applied=applied)
        plain = dataclasses.replace(layer, W_q=q.weight, bias=q.bias, W_o=fold_output_mix(layer.W_o, outputs))
        folded = virtual_attention(x, plain, layout=layout)
        worst = max(worst, float(np.abs(kept - folded).max() / np.abs(kept).max()))
    return Evidence(
        worst <= 1e-12,
        worst,
        0.0,
        1e-12,
        "rounding: some thousand operations, scores up to a hundred",
        trials,
        quantity="largest difference over the largest output",
    )


@claim(
    "VH-1b",
    kind="theorem",
    source=SOURCE,
    statement="Folded into a Llama-type model of transformers, mixes change neither what an attention module "
    "gives for its inputs, nor the tokens decoded with a cache, nor the cache's size.",
    control="the bias of the queries is left as it was",
)
def inside_llama(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    torch = require("torch", "torch")
    require("transformers", "hf")
    from porism.sims.attention._mixed import MixedAttention, decode, tiny_llama

    G = 2 if broken else 3
    kept, folded = (tiny_llama(np.random.default_rng(seed), G) for seed in [int(rng.integers(2**31))] * 2)
    for ours, plain in zip(kept.model.layers, folded.model.layers, strict=True):
        mix = random_mix(2, G, 2, rng=rng)
        H = 2 * G
        outputs = np.eye(H) + np.outer(rng.standard_normal(H), rng.standard_normal(H)) / H
        ours.self_attn = MixedAttention(ours.self_attn, mix, outputs)
        new = fold_into(plain.self_attn, mix, outputs)
        if broken:
            new.q_proj.bias = plain.self_attn.q_proj.bias
        plain.self_attn = new
    ids = torch.from_numpy(rng.integers(0, 31, (2, 11)))
    logits = [model(ids, use_cache=False).logits for model in (kept, folded)]
    worst = size = 0.0
    for ours, plain in zip(kept.model.layers, folded.model.layers, strict=True):
        for given, out in ours.self_attn.seen:
            worst = max(worst, float((plain.self_attn(**given)[0] - out).abs().max()))
            size = max(size, float(out.abs().max()))
    (first, held), (second, bytes_folded) = (decode(model, ids, 6) for model in (kept, folded))
    by_cache = float((first - second).abs().max())
    same = bool((first.argmax(-1) == second.argmax(-1)).all())
    return Evidence(
        worst <= 1e-12 * size and same and held == bytes_folded == 2 * 2 * 8 * 8 * 2 * 2 * 11,
        worst / size,
        0.0,
        1e-12,
        "rounding: some thousand operations",
        2,
        {
            "logits, largest difference": float((logits[0] - logits[1]).abs().max()),
            "logits with a cache, largest difference (norms of transformers run in float32)": by_cache,
            "largest logit": float(logits[0].abs().max()),
            "bytes in the cache, kept and folded": f"{held}, {bytes_folded}",
        },
        quantity="largest difference of an attention module over its largest output",
    )
