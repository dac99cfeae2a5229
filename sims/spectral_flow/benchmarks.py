"""Benchmarks of the spectral_flow module: polar factors, optimiser steps and spectra beside those of others.

One thread, interleaved rounds, medians of CPU seconds; ``ratio`` is the peer's over ours. The peers
orthogonalise only roughly, so each row gives the operator-norm error of both sides against the float64
factor; ``agreement`` is ours.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from porism.kernels import polar
from porism.sims.benchmark import beside, missing_peer, one_thread, row

__all__ = ["BENCHMARKS", "LISTS"]

ROUNDS = 5
"""Rounds counted, after one that is not."""

CHECKED = 16
"""Matrices whose error is measured."""

LISTS = {
    "256 x (16x4096)": (256, 16, 4096),
    "256 x (4096x16)": (256, 4096, 16),
    "1024 x (8x768)": (1024, 8, 768),
    "64 x (64x4096)": (64, 64, 4096),
    "16 x (128x4096)": (16, 128, 4096),
}
"""Float32 Gaussian matrices of the rows on lists: how many, rows, columns."""

QUINTIC = (3.4445, -4.7750, 2.0315)


def _drawn(count: int, m: int, n: int, seed: int = 0) -> Any:
    import torch

    return torch.randn(count, m, n, generator=torch.Generator().manual_seed(seed))


def _error(found: Any, matrices: Any) -> float:
    """Largest operator-norm distance to the factor that a float64 SVD gives."""
    import torch

    worst = 0.0
    for X, G in zip(found[:CHECKED], matrices[:CHECKED], strict=True):
        exact = torch.from_numpy(polar.polar_factor(G.double().numpy()))
        worst = max(worst, float(torch.linalg.matrix_norm(X.double() - exact, 2)))
    return worst


def _beside(ours: Callable[[], Any], theirs: Callable[[], Any]) -> dict[str, float]:
    """CPU seconds: in one thread what others do on the machine does not count."""
    return beside(ours, theirs, ROUNDS, time.process_time)


def _row(task: str, errors: Sequence[float], times: dict[str, float]) -> dict[str, Any]:
    mine, other = errors
    words = f"{task}: error {mine:.1e} against {other:.2f}"
    return row(words, "torch", agreement=mine, peer_error=other, **times)


def _factors(
    task: str, ours: Callable[[], Any], theirs: Callable[[], Any], matrices: Any
) -> dict[str, Any]:
    """Errors and times of two orthogonalisers."""
    return _row(task, [_error(work(), matrices) for work in (ours, theirs)], _beside(ours, theirs))


def _no_torch(task: str) -> dict[str, Any] | None:
    if missing := missing_peer(task, "torch"):
        return missing
    from torch import optim

    if not hasattr(optim, "Muon"):
        return {"task": task, "peer": "torch", "missing": "torch.optim.Muon needs torch >= 2.9"}
    return None


def _public_batched(G: Any, steps: int = 5) -> Any:
    """Orthogonalise a batch as K. Jordan's public Muon routine does: bfloat16 and steps of the quintic."""
    a, b, c = QUINTIC
    X = G.bfloat16()
    wide = G.size(-2) <= G.size(-1)
    X = X if wide else X.mT
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        A = X @ X.mT
        X = a * X + (b * A + c * A @ A) @ X
    return X if wide else X.mT


def _lists(name: str, fresh: bool = False) -> Callable[[], dict[str, Any]]:
    count, m, n = LISTS[name]
    task = f"polar factors of a list{', fresh memory' if fresh else ''}, {name}"

    def benchmark() -> dict[str, Any]:
        if missing := _no_torch(task):
            return missing
        from torch.optim import _muon

        matrices = list(_drawn(count, m, n).unbind())
        matrices = [G.clone() for G in matrices]  # memory of their own, as gradients have
        kept = None if fresh else polar.polar_factors(matrices)
        with one_thread():
            return _factors(
                task,
                lambda: polar.polar_factors(matrices, out=kept),
                lambda: [_muon._zeropower_via_newtonschulz(G, QUINTIC, 5, 1e-7) for G in matrices],
                matrices,
            )

    benchmark.__name__ = f"list {name}{', fresh memory' if fresh else ''}"
    benchmark.__doc__ = f"Polar factors of {name} beside the loop of torch.optim.Muon."
    return benchmark


def stacked() -> dict[str, Any]:
    """Polar factors of a stacked batch beside the batched public Muon routine."""
    task = "polar factors of a stack, 256 x (16x4096), peer: public batched routine"
    if missing := _no_torch(task):
        return missing
    G = _drawn(256, 16, 4096)
    with one_thread():
        return _factors(task, lambda: polar.polar_factor(G), lambda: _public_batched(G), G)


def full_step() -> dict[str, Any]:
    """A whole optimiser step on 64 wide and 64 tall factors beside torch.optim.Muon."""
    task = "optimiser step, 64 x (16x4096) + 64 x (4096x16)"
    if missing := _no_torch(task):
        return missing
    import torch

    start = [*_drawn(64, 16, 4096), *_drawn(64, 4096, 16, 1)]
    grads = [*_drawn(64, 16, 4096, 2), *_drawn(64, 4096, 16, 3)]

    def made(kind: Any, **options: Any) -> Any:
        params = [torch.nn.Parameter(p.clone()) for p in start]
        for p, g in zip(params, grads, strict=True):
            p.grad = g.clone()
        return params, kind(params, lr=1.0, weight_decay=0.0, **options)

    with one_thread():
        moved = {}
        for side, kind, options in (
            ("ours", polar.SpectralMuon, {}),
            ("peer", torch.optim.Muon, {"adjust_lr_fn": "match_rms_adamw"}),
        ):
            params, optimizer = made(kind, **options)
            optimizer.step()
            rho = 1.0 if side == "ours" else 0.2 * 4096**0.5
            moved[side] = [(p0 - p.detach()) / rho for p0, p in zip(start, params, strict=True)]
        errors = [_error(moved[side], grads) for side in ("ours", "peer")]
        mine, other = made(polar.SpectralMuon)[1], made(torch.optim.Muon)[1]
        return _row(task, errors, _beside(mine.step, other.step))


def spectrum() -> dict[str, Any]:
    """Singular values of BA from its factors beside those of the dense product, d=1024, r=16."""
    task = "singular values of BA, d=1024, r=16; peer: svdvals(B @ A)"
    if missing := _no_torch(task):
        return missing
    import torch

    from porism.theory.lora_spectrum import product_singular_values

    B, A = _drawn(1, 1024, 16)[0], _drawn(1, 16, 1024, 1)[0]
    with one_thread():
        mine = torch.as_tensor(product_singular_values(B, A))
        other = torch.linalg.svdvals(B @ A)[:16]
        calls = 50  # one of ours is shorter than the refilling of the caches after the peer
        times = _beside(
            lambda: [product_singular_values(B, A) for _ in range(calls)],
            lambda: torch.linalg.svdvals(B @ A),
        )
    times["ours_s"] /= calls
    times["ratio"] *= calls
    return row(task, "torch", agreement=float((mine - other).abs().max() / other[0]), **times)


def arrival_order() -> dict[str, Any]:
    """Seeds of 8 in which modes do not arrive smallest first, exact factors beside torch.optim.Muon."""
    task = "runs of 8 that break the order of arrival, 60x70, r=5"
    if missing := _no_torch(task):
        return missing
    from porism.sims.spectral_flow import lora_init, random_target, simulate_descent

    broken = {}
    for optimizer in ("spectral", "muon"):
        count = 0
        for seed in range(8):
            Y = random_target(60, 70, [5.0, 4.0, 3.0, 2.0, 1.0], seed=seed)
            B, A = lora_init(60, 70, 5, 1e-3, seed=seed)
            run = simulate_descent(Y, B, A, optimizer=optimizer, lr=0.01, steps=260)
            times = np.asarray(run.arrival_times)
            count += not (np.diff(times) < 0).all()  # sorted from the largest target: later ones come first
        broken[optimizer] = count
    ours, theirs = broken.values()
    return row(f"{task}: {ours} against {theirs}", "torch", ours=ours, theirs=theirs)


BENCHMARKS = [
    *(_lists(name) for name in LISTS),
    _lists("256 x (16x4096)", fresh=True),
    stacked,
    full_step,
    spectrum,
    arrival_order,
]
