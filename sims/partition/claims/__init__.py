"""The ledger of the partition module: PR-1 to PR-21, each with a control on which the check must fail."""

from porism.sims.partition.claims import decisions, free, levels, sampling, values

__all__ = ["decisions", "free", "levels", "sampling", "values"]
