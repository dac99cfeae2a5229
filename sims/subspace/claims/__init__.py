"""The ledger of latent reuse: LR-1 to LR-8, each with a control on which the check must fail."""

from porism.sims.subspace.claims import laws, mixture, reuse

__all__ = ["laws", "mixture", "reuse"]
