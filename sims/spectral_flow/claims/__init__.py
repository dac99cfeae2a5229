"""The ledger of the spectral flow: SF-1 to SF-14, each with a control on which the check must fail."""

from porism.sims.spectral_flow.claims import arrival, convergence, discrete, growth, lora, muon, order, ridge

__all__ = ["arrival", "convergence", "discrete", "growth", "lora", "muon", "order", "ridge"]
