"""Benchmarks of the token_capacity module: memory and time of a step, kernels of positions, diagnostics.

One process and one thread, the same data on all sides, seven interleaved rounds, medians; ``ratio`` is the
peer's bytes or seconds over ours, given only where the answers agree. `saved` are the bytes that the graph
keeps between the passes (no weights), `peak` the most bytes of tensors alive at once in a whole step, with
gradients and without weights. Both are of a CPU; neither is the peak of a CUDA device.

Gradient checkpointing is the better choice where the gradient has to be the full one, where k is a large
part of T, and in deep models with plain multi-head attention. It saves T d numbers a layer, ours
k c + (T - k) 2 d_kv with c the activations of a token: more from the start if 2 d_kv > d (rows "saved bytes"
of gpt2 and bert), less for few key heads and small k (llama, k=16; at k=64 they are even). Its peak holds one
recomputed block besides, which outweighs that in shallow models and with few key heads, but not in deep ones
with keys and values for every head (rows "depth"). A step of ours takes less time in every row.
"""

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims._peak import peak_bytes
from porism.sims.benchmark import median_seconds, missing_peer, one_thread, row
from porism.sims.token_capacity import _peers

__all__ = ["BENCHMARKS", "LENGTH", "ROUNDS"]

ROUNDS = 7
"""Rounds counted, after one that is not."""

LENGTH = 1024
"""Tokens of the one sequence of a batch."""

NAMES = {"llama": "Llama, 8 heads on 2", "gpt2": "GPT-2, 8 heads", "bert": "BERT, 8 heads"}
CLOSE = 1e-4  # float32: some hundred roundings of 6e-8 through four blocks
MIB = 2**20


def _clocks() -> NDArray[np.float64]:
    return np.array([time.perf_counter(), time.process_time()])


def _times(*works: Callable[[], Any]) -> Any:
    """Median wall and CPU seconds of each, interleaved."""
    return median_seconds(*works, rounds=ROUNDS, clock=_clocks).T.tolist()


def _beside(ours: Callable[[], Any], theirs: Callable[[], Any]) -> dict[str, float]:
    wall, cpu = _times(ours, theirs)
    return {"ours_s": wall[0], "peer_s": wall[1], "ratio": wall[1] / wall[0], "cpu_ratio": cpu[1] / cpu[0]}


def _step(arms: _peers.Arms, loss: Callable[[], Any]) -> Any:
    return arms.gradients(loss())


def _arms(kind: str, k: int, length: int, adapter: str = "", **sizes: Any) -> _peers.Arms:
    net = _peers.model(kind, length=length, **sizes)
    return _peers.Arms(_peers.adapted(net, adapter == "dora") if adapter else net, k, length)


def _agreement(arms: _peers.Arms) -> float:
    """Loss of all ways, gradients of the last block beside the full ones, and all of them beside a peer's."""
    loss, full = arms.ours(), arms.full()
    gap = abs(float(loss.detach() - full.detach())) / abs(float(full.detach()))
    ours, wanted = arms.gradients(loss), arms.gradients(full)
    shared = {name: wanted[name] for name in arms.last_block()}
    with _peers.replayed_by(_peers.ATTENTIONS["TokenTune-style"]):
        theirs = arms.gradients(arms.ours())
    with _peers.checkpointed(arms.base):
        again = arms.gradients(arms.full())
    return max(gap, _peers.apart(ours, shared), _peers.apart(ours, theirs), _peers.apart(again, wanted))


def _saved(kind: str, k: int, adapter: str = "", length: int = LENGTH, **sizes: Any) -> Any:
    words = f"{NAMES[kind]}{f', {adapter}' if adapter else ''}, T={length}, k={k}"

    def benchmark() -> dict[str, Any]:
        task = f"saved bytes, {words}"
        if missing := missing_peer(task, "torch", "transformers", *(["peft"] if adapter else [])):
            return missing
        from porism.sims.token_capacity.memory import measure_saved_bytes

        with one_thread():
            arms = _arms(kind, k, length, adapter, **sizes)
            apart = _agreement(arms)
            saved, peak = {}, {}
            for name, loss in {"ours": arms.ours, "full": arms.full}.items():
                saved[name] = measure_saved_bytes(loss, arms.net)
                peak[name] = peak_bytes(functools.partial(_step, arms, loss), *arms.known)
            for name, attention in _peers.ATTENTIONS.items():
                with _peers.replayed_by(attention):
                    saved[name] = measure_saved_bytes(arms.ours, arms.net)
            with _peers.checkpointed(arms.base):
                saved["checkpointing"] = measure_saved_bytes(arms.full, arms.net)
                peak["checkpointing"] = peak_bytes(lambda: arms.gradients(arms.full()), *arms.known)
        found = row(task, "transformers", agreement=apart)
        if not apart <= CLOSE:
            return {**found, "missing": f"no bytes: answers differ by {apart:.3g}"}
        texts = [", ".join(f"{name} {b / MIB:.2f}" for name, b in part.items()) for part in (saved, peak)]
        better = "; checkpointing saves less" * (saved["checkpointing"] < saved["ours"])
        found["task"] = f"{task}: {texts[0]} MiB; peak {texts[1]} MiB{better}"
        return {**found, "ratio": saved["full"] / saved["ours"], "saved": saved, "peak": peak}

    benchmark.__name__ = f"saved bytes, {kind}{f' {adapter}' if adapter else ''}, k={k}"
    benchmark.__doc__ = f"Bytes that a step keeps, and its peak, beside four others: {words}."
    return benchmark


@functools.cache
def _steps(kind: str, k: int, length: int) -> tuple[float, list[float], list[float]]:
    """Agreement, wall and CPU seconds of a step: ours, full, checkpointed."""
    with one_thread():
        arms = _arms(kind, k, length)
        apart = _agreement(arms)

        def checkpointed() -> None:
            with _peers.checkpointed(arms.base):
                arms.gradients(arms.full())

        return apart, *_times(
            lambda: arms.gradients(arms.ours()), lambda: arms.gradients(arms.full()), checkpointed
        )


def _time(kind: str, peer: str, k: int = 64, length: int = LENGTH) -> Any:
    def benchmark() -> dict[str, Any]:
        task = f"step against {peer}, {NAMES[kind]}, T={length}, k={k}"
        if missing := missing_peer(task, "torch", "transformers"):
            return missing
        apart, wall, cpu = _steps(kind, k, length)
        found = row(task, "transformers", agreement=apart)
        if not apart <= CLOSE:
            return {**found, "missing": f"no time: answers differ by {apart:.3g}"}
        i = 1 if peer == "full" else 2
        numbers = {"ours_s": wall[0], "peer_s": wall[i], "ratio": wall[i] / wall[0]}
        return {**found, **numbers, "cpu_ratio": cpu[i] / cpu[0]}

    benchmark.__name__ = f"step against {peer}, {kind}"
    benchmark.__doc__ = f"Seconds of forward and backward pass of {kind}, beside {peer}."
    return benchmark


def exact() -> dict[str, Any]:
    """Gradients in float64 against the full pass with constants where not selected, which defines them."""
    task = "gradient against its definition, float64"
    if missing := missing_peer(task, "torch", "transformers"):
        return missing
    import torch

    from porism.sims.token_capacity.selectors import select_last, select_random
    from porism.sims.token_capacity.subset import SubsetBackprop

    found = {}
    for kind in NAMES:
        net = _peers.model(kind, width=32, layers=3, heads=4, length=40, vocab=60, initializer_range=0.4)
        net = net.double()
        ids = torch.randint(3, 60, (2, 40), generator=torch.Generator().manual_seed(0))
        mask = torch.ones_like(ids)
        for name, at in {"last": select_last(mask, 8), "random": select_random(mask, 8, generator=0)}.items():
            ours = SubsetBackprop(net).forward(at, input_ids=ids)
            chosen = torch.zeros_like(ids, dtype=torch.bool).scatter(1, at, True)
            wanted = _peers.cut_gradients(net, ids, chosen)
            got = _peers.gradients(net, _peers.weighted(ours.hidden))
            found[f"{kind} {name}"] = _peers.apart(got, wanted)
    worst = max(found.values())
    words = ", ".join(f"{name} {value:.1e}" for name, value in found.items())
    return row(f"{task}: {words}", "transformers", agreement=worst, gaps=found)


def _depth(group: int, layers: int = 16, k: int = 64, length: int = LENGTH) -> Any:
    words = f"Llama, 8 heads on {8 // group}, {layers} layers, LoRA, T={length}, k={k}"

    def benchmark() -> dict[str, Any]:
        task = f"depth: peak of a step, {words}"
        if missing := missing_peer(task, "torch", "transformers", "peft"):
            return missing
        with one_thread():
            arms = _arms("llama", k, length, "lora", layers=layers, group=group)
            with _peers.checkpointed(arms.base):
                loss = float(arms.full().detach())
                theirs = peak_bytes(lambda: arms.gradients(arms.full()), *arms.known)
            apart = abs(float(arms.ours().detach()) - loss) / abs(loss)
            ours = peak_bytes(lambda: arms.gradients(arms.ours()), *arms.known)
        found = row(task, "transformers", agreement=apart)
        if not apart <= CLOSE:
            return {**found, "missing": f"no bytes: losses differ by {apart:.3g}"}
        shown = f"{ours / MIB:.1f} against {theirs / MIB:.1f} MiB of checkpointing"
        return {**found, "task": f"{task}: {shown}", "ratio": theirs / ours, "ours": ours, "theirs": theirs}

    benchmark.__name__ = f"depth, 8 heads on {8 // group}"
    benchmark.__doc__ = f"Peak of a step of a deep model whose base is frozen, beside checkpointing: {words}."
    return benchmark


PEERS: dict[str, Callable[[Any, Any], Any]] = {
    "Jacobians": functools.partial(_peers.jacobians, at_once=True),
    "Jacobians by position": functools.partial(_peers.jacobians, at_once=False),
    "products": _peers.products,
}


def _kernel(name: str, N: int = 64, T: int = 64, d: int = 128) -> Any:
    def benchmark() -> dict[str, Any]:
        task = f"position_ntk against {name}, N={N}, T={T}, d={d}, float64"
        if missing := missing_peer(task, "torch"):
            return missing
        import torch

        from porism.theory.token_capacity import position_ntk

        draws = torch.Generator().manual_seed(0)
        x, g = torch.randn(2, N, T, d, generator=draws, dtype=torch.float64).unbind()
        peer = PEERS[name]
        with one_thread():
            wanted = peer(x, g)
            apart = float((position_ntk(x, g) - wanted).abs().max() / wanted.abs().max())
            found = row(task, "torch", agreement=apart)
            if not apart <= 1e-10:
                return {**found, "missing": f"no time: answers differ by {apart:.3g}"}
            peaks = [peak_bytes(functools.partial(work, x, g), x, g) for work in (position_ntk, peer)]
            times = _beside(lambda: position_ntk(x, g), lambda: peer(x, g))
        found["task"] = f"{task}: {peaks[0] / MIB:.2f} against {peaks[1] / MIB:.2f} MiB"
        return {**found, **times, "ours": peaks[0], "theirs": peaks[1]}

    benchmark.__name__ = f"kernel against {name}, N={N}"
    benchmark.__doc__ = f"Kernel of each position of a linear map, beside {name} by torch."
    return benchmark


def diagnostics(sizes: tuple[int, int] = (64, 1024), length: int = 32) -> dict[str, Any]:
    """Moments by position for few and many sequences in batches of 16, beside keeping all hidden states."""
    task = f"peak of moments by position, GPT-2 of 2 layers, T={length}"
    if missing := missing_peer(task, "torch", "transformers"):
        return missing
    import torch

    from porism.theory.token_capacity import HiddenStateMoments

    net = _peers.model("gpt2", width=64, layers=2, heads=4, length=length)
    ids: Any = torch.randint(3, 512, (max(sizes), length), generator=torch.Generator().manual_seed(0))
    layers = [f"transformer.h.{i}.attn.c_attn" for i in range(2)]

    def ours(N: int) -> Any:
        with HiddenStateMoments(net, layers, align="start") as watch:
            for batch in ids[:N].split(16):
                watch.update(input_ids=batch)
        return watch.result().second

    def kept(N: int) -> Any:
        states: dict[str, list[Any]] = {name: [] for name in layers}
        modules = dict(net.named_modules())
        hooks = [
            modules[name].register_forward_pre_hook(lambda _, args, name=name: states[name].append(args[0]))
            for name in layers
        ]
        try:
            with torch.no_grad():
                for batch in ids[:N].split(16):
                    net(input_ids=batch, use_cache=False)
        finally:
            for hook in hooks:
                hook.remove()
        return torch.stack([
            torch.einsum("ntd,nte->tde", one, one)
            for one in (torch.cat(states[name]).double() for name in layers)
        ])  # fmt: skip

    with one_thread():
        known = [*net.parameters(), *net.buffers()]
        wanted = kept(sizes[0]).numpy()
        apart = float(abs(ours(sizes[0]) - wanted).max() / abs(wanted).max())
        peaks = {
            name: [peak_bytes(functools.partial(work, N), *known) for N in sizes]
            for name, work in {"ours": ours, "theirs": kept}.items()
        }
    found = row(task, "torch", agreement=apart)
    if not apart <= 1e-10:
        return {**found, "missing": f"no bytes: answers differ by {apart:.3g}"}
    words = "; ".join(
        f"N={N}: {mine / MIB:.2f} against {other / MIB:.2f} MiB with all states kept"
        for N, mine, other in zip(sizes, *peaks.values(), strict=True)
    )
    return {**found, "task": f"{task}, {words}", "ratio": peaks["theirs"][1] / peaks["ours"][1], **peaks}


BENCHMARKS = [
    *(_saved("llama", k) for k in (16, 64, 256)),
    _saved("gpt2", 64),
    _saved("bert", 64),
    _saved("llama", 64, "lora"),
    _saved("llama", 64, "dora"),
    *(_depth(group) for group in (4, 1)),
    exact,
    *(_time(kind, peer) for kind in NAMES for peer in ("full", "checkpointing")),
    *(_kernel(name) for name in PEERS),
    _kernel("products", 512, 8),
    diagnostics,
]
