"""The ledger of the pattern module: PD-1 to PD-19, each with a control on which the check must fail."""

from porism.sims.pattern.claims import distance, low_rank, nulls, recovery, solver

__all__ = ["distance", "low_rank", "nulls", "recovery", "solver"]
