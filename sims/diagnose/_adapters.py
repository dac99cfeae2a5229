"""Spectra of the adapters that a live model carries."""

import warnings
from typing import Any

import numpy as np

from porism.theory.lora_spectrum import AdapterSpectrum, LoraSpectrumRecorder
from porism.theory.lora_spectrum._pairs import adapters, is_dora, live_pairs

__all__ = ["spectra"]


def spectra(model: Any) -> dict[str, AdapterSpectrum]:
    """The spectrum of every module of every adapter, by name of the adapter; empty without one."""
    return {name: _spectrum(model, name) for name in adapters(model)}


def _spectrum(model: Any, adapter: str) -> AdapterSpectrum:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of DoRA, which the result says itself
        recorder = LoraSpectrumRecorder(model, adapter=adapter)
    recorder.step(0)
    found = {name: rows[0] for name, rows in recorder.history().spectra.items()}
    table = []
    for _, B, A, scaling in live_pairs(model, adapter):
        experts = 1 if A.ndim == 2 else int(A.shape[0])
        row = (A.shape[-2], scaling, B.shape[-2], A.shape[-1], "linear" if A.ndim == 2 else "expert")
        table += [row] * experts
    ranks, scales, m, n, kinds = zip(*table, strict=True)
    shape = np.array([m, n], dtype=np.int64).T
    dora = is_dora(model, adapter)
    return AdapterSpectrum(
        found, np.array(ranks, dtype=np.int64), np.array(scales), shape, np.array(kinds), (), dora
    )
