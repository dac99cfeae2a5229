"""What the figures of the spectral flow share: panels, and names of optimisers."""

import functools

from porism.sims import drawing

__all__ = ["NAMES", "panels"]

panels = functools.partial(drawing.panels, gap=0.07)

NAMES = {
    "spectral": "exact polar factor",
    "polar_express": "Polar Express, 5 steps",
    "newton_schulz": "quintic, 5 steps",
    "muon": "torch Muon",
    "adamw": "torch AdamW",
    "sgd": "torch SGD",
    "spectral_muon": "SpectralMuon",
}
"""Optimisers in words."""
