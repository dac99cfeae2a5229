"""The ledger of virtual heads: VH-1 to VH-7, each with a control on which the check must fail."""

from porism.sims.attention.claims import costs, folding, norms, ranks, rotation, rounding

__all__ = ["costs", "folding", "norms", "ranks", "rotation", "rounding"]
