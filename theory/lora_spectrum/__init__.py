"""Spectra of low-rank adapters: of one product, of a saved adapter, along training, and how evenly they grow.

The product BA is never formed: :func:`product_singular_values` works on the two factors alone.
"""

from porism.theory.lora_spectrum.adapters import AdapterSpectrum, read_adapter_spectrum
from porism.theory.lora_spectrum.growth import GrowthUniformity, growth_uniformity
from porism.theory.lora_spectrum.history import SpectrumHistory
from porism.theory.lora_spectrum.recorder import LoraSpectrumRecorder
from porism.theory.lora_spectrum.spectrum import product_singular_values

__all__ = [
    "AdapterSpectrum",
    "GrowthUniformity",
    "LoraSpectrumRecorder",
    "SpectrumHistory",
    "growth_uniformity",
    "product_singular_values",
    "read_adapter_spectrum",
]
