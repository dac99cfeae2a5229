"""The ledger of dual scores: DS-1 to DS-7, each with a control on which the check must fail."""

from porism.sims.selection.claims import joint, orders, scores

__all__ = ["joint", "orders", "scores"]
