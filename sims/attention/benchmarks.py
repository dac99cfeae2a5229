"""Benchmarks of virtual heads: the guard beside rotations, and folded weights in torch's own attention.

No package checks a mix against rotary positions or reports a virtual rank, so that peers are NumPy and torch
with the mix kept. Agreement of the guard is the number of mixes that are judged otherwise.
"""

from typing import Any

import numpy as np

from porism.checks import require
from porism.sims.attention._commutator import on_queries
from porism.sims.attention.worlds import random_mix, sample_layer
from porism.sims.benchmark import compare
from porism.theory.attention import (
    RopeLayout,
    fold_output_mix,
    fold_query_mix,
    project_to_commutant,
    rope_commutant_residual,
)

__all__ = ["BENCHMARKS", "MIXES"]

MIXES = 1000
"""Mixes of each layout that the guard judges; every other one commutes."""


def _guard(kind: str) -> Any:
    def benchmark() -> dict[str, Any]:
        rng = np.random.default_rng(0)
        layout = RopeLayout.standard(kind, 8)
        mixes = random_mix(MIXES, 4, 3, head_dim=8, kind="any", rng=rng)
        mixes[::2] = project_to_commutant(mixes[::2], layout)
        near = project_to_commutant(mixes[1::4], layout)  # every fourth is off by a millionth only
        mixes[1::4] = near + 1e-6 * (mixes[1::4] - near)
        q, places, size = rng.standard_normal((3, 8)), np.arange(64), np.linalg.norm

        def ours() -> list[bool]:
            return [bool(rope_commutant_residual(mix, layout) <= 1e-10 * size(mix)) for mix in mixes]

        def theirs() -> list[bool]:
            apart = (on_queries(mix, layout, q, places) for mix in mixes)
            return [bool(np.abs(a).max() <= 1e-10 * size(m)) for a, m in zip(apart, mixes, strict=True)]

        truth = [number % 2 == 0 for number in range(MIXES)]
        row = compare(
            f"guard, {MIXES} mixes of 3 to 4 heads of 8, pairs {kind}; peer: rotating at 64 positions",
            "numpy",
            ours,
            theirs,
            lambda a, b: float(sum(x != y for x, y in zip(a, b, strict=True))),
            0.0,
            rounds=3,
        )
        return {**row, "wrong": sum(bool(x != y) for x, y in zip(ours(), truth, strict=True))}

    benchmark.__name__ = f"guard, {kind}"
    benchmark.__doc__ = f"The guard on {MIXES} mixes beside brute force, for pairs of kind {kind}."
    return benchmark


def fused_attention() -> dict[str, Any]:
    """Folded weights in torch's grouped attention beside the mixes kept as einsums, in float64."""
    torch = require("torch", "torch")
    rng = np.random.default_rng(0)
    D, n, P, G, d, T = 256, 2, 4, 8, 32, 256
    layer, mix = sample_layer(D, n, P, d, G, rng=rng), random_mix(n, G, P, rng=rng)
    H = n * G
    outputs = np.eye(H) + np.outer(rng.standard_normal(H), rng.standard_normal(H)) / H
    q = fold_query_mix(layer.W_q, mix, bias=layer.bias)
    assert layer.bias is not None
    assert q.bias is not None
    parts = (layer.W_q, layer.bias, layer.W_k, layer.W_v, layer.W_o, mix, outputs)
    W_q, b, W_k, W_v, W_o, M, N = (torch.from_numpy(part) for part in parts)
    new_q, new_b = torch.from_numpy(q.weight.reshape(H * d, D)), torch.from_numpy(q.bias.reshape(-1))
    new_o = torch.from_numpy(fold_output_mix(layer.W_o, outputs).reshape(D, H * d))
    x = torch.from_numpy(rng.standard_normal((T, D)))
    seen = torch.ones(T, T, dtype=torch.bool).tril()

    def shared() -> tuple[Any, Any]:
        return tuple((x @ W.reshape(n * d, D).T).view(T, n, d).transpose(0, 1) for W in (W_k, W_v))

    def folded() -> Any:
        k, v = shared()
        heads = (x @ new_q.T + new_b).view(T, H, d).transpose(0, 1)
        attention = torch.nn.functional.scaled_dot_product_attention
        o = attention(heads[None], k[None], v[None], is_causal=True, enable_gqa=True)[0]
        return o.transpose(0, 1).reshape(T, H * d) @ new_o.T

    def kept() -> Any:
        k, v = shared()
        heads = torch.einsum("ngp,nptd->ngtd", M, torch.einsum("npdx,tx->nptd", W_q, x) + b[:, :, None])
        scores = torch.einsum("ngtd,nsd->ngts", heads, k) / d**0.5
        o = torch.einsum("ngts,nsd->ngtd", scores.masked_fill(~seen, -torch.inf).softmax(-1), v)
        return torch.einsum("xhd,hg,gtd->tx", W_o, N, o.reshape(H, T, d))

    return compare(
        f"attention, D = {D}, {n} groups, P = {P} to G = {G}, {T} tokens; ours folded, peer: mixes kept",
        "torch",
        folded,
        kept,
        lambda a, c: float((a - c).abs().max() / c.abs().max()),
        1e-12,
    )


def _projection(P: int, G: int) -> Any:
    def benchmark() -> dict[str, Any]:
        torch = require("torch", "torch")
        rng = np.random.default_rng(0)
        D, n, d, T = 1024, 4, 64, 512
        layer, mix = sample_layer(D, n, P, d, bias=False, rng=rng), random_mix(n, G, P, rng=rng)
        W, M, x = (torch.from_numpy(a).float() for a in (layer.W_q, mix, rng.standard_normal((T, D))))
        new = torch.from_numpy(fold_query_mix(layer.W_q, mix).weight).float().reshape(n * G * d, D)
        W = W.reshape(n * P * d, D)
        return compare(
            f"queries, D = {D}, {n} groups, P = {P} to G = {G}, {T} tokens; ours folded, peer: mix kept",
            "torch",
            lambda: x @ new.T,
            lambda: torch.matmul(M, (x @ W.T).view(T, n, P, d)).view(T, n * G * d),
            lambda a, c: float((a - c).norm() / c.norm()),
            1e-5,
            rounds=9,
        )

    benchmark.__name__ = f"queries, {P} to {G}"
    benchmark.__doc__ = f"The folded query projection beside the mix kept, P = {P}, G = {G}, in float32."
    return benchmark


BENCHMARKS = [_guard("half"), _guard("interleaved"), fused_attention, _projection(4, 8), _projection(8, 8)]
