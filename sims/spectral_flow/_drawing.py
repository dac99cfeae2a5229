"""What the figures of the spectral flow share: axes, panels, looks of lines, seeds of shared runs."""

import functools

from porism.sims import drawing
from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, seed_of

__all__ = ["GUIDE", "LOOKS", "NAMES", "Rng", "canvas", "is_paper", "legend", "panels", "seed_of"]

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
