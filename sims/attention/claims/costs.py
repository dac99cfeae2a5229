"""Claims on cost: VH-5 and VH-5b."""

import dataclasses

import numpy as np

from porism.checks import require
from porism.claims import Evidence, claim
from porism.sims.attention.worlds import random_mix, sample_layer
from porism.theory.attention import AttentionConfig, cost_model, fold_query_mix

__all__ = ["counted", "not_free"]


@claim(
    "VH-5",
    kind="theorem",
    source="counting",
    statement="A token's queries cost 2 n_kv d_h P (D + G) operations with the mix kept and 2 n_kv d_h D G "
    "folded, so that folding is cheaper if and only if P (D + G) > G D; the cache holds 2 n_kv d_h "
    "numbers a token in both. As counted by torch while it runs.",
    control="P and G exchanged",
)
def counted(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    torch = require("torch", "torch")
    from torch.utils.flop_counter import FlopCounterMode

    trials, wrong, cheaper, T = 6 if scale == "smoke" else 60, 0, 0, 3
    for _ in range(trials):
        n, P, G, d, D = (int(part) for part in rng.integers((1, 1, 1, 1, 2), (4, 9, 9, 5, 33)))
        layer, mix = sample_layer(D, n, P, d, bias=False, rng=rng), random_mix(n, G, P, rng=rng)
        x = torch.from_numpy(rng.standard_normal((T, D)))
        W, M = torch.from_numpy(layer.W_q.reshape(n * P * d, D)), torch.from_numpy(mix)
        folded = torch.from_numpy(fold_query_mix(layer.W_q, mix).weight.reshape(n * G * d, D))
        with FlopCounterMode(display=False) as kept:
            torch.matmul(M, (x @ W.T).T.reshape(n, P, d * T))
        with FlopCounterMode(display=False) as plain:
            x @ folded.T
        keys = sum(x.numpy() @ part.reshape(n * d, D).T for part in (layer.W_k, layer.W_v))
        config = AttentionConfig(D, n, G if broken else P, P if broken else G, d, bytes_per_number=8)
        ours, theirs = cost_model(config), cost_model(dataclasses.replace(config, folded=True))
        seen = (kept.get_total_flops(), plain.get_total_flops(), W.numel() + M.numel(), folded.numel())
        said = (T * ours.flops_per_token, T * theirs.flops_per_token, ours.params, theirs.params)
        cached = 2 * keys.nbytes // T
        wrong += seen != said or {ours.cache_bytes_per_token, theirs.cache_bytes_per_token} != {cached}
        wrong += (seen[1] < seen[0]) != (config.physical * (D + config.virtual) > config.virtual * D)
        cheaper += seen[1] < seen[0]
    return Evidence(
        wrong == 0,
        wrong,
        0,
        0.0,
        "whole numbers",
        trials,
        {"layers where folding is cheaper": cheaper},
        quantity="layers with another count",
    )


@claim(
    "VH-5b",
    kind="refuted",
    source="a natural reading of 'virtual heads are free after folding'",
    statement="Folding is free. (False where heads are added: P = 4 to G = 8 at D = 1024 nearly doubles the "
    "operations and parameters of the query projection.)",
    control="as many physical heads as virtual ones",
)
def not_free(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    kept = AttentionConfig(1024, 4, 8 if broken else 4, 8, 64)
    before, after = cost_model(kept), cost_model(dataclasses.replace(kept, folded=True))
    ratio = after.flops_per_token / before.flops_per_token
    return Evidence(
        ratio > 1,
        ratio,
        "at most 1 by the wording",
        0.0,
        "whole numbers",
        1,
        {
            "operations a token, kept and folded": f"{before.flops_per_token}, {after.flops_per_token}",
            "parameters, kept and folded": f"{before.params}, {after.params}",
            "bytes of cache a token, both": after.cache_bytes_per_token,
        },
        quantity="operations folded over kept",
    )
