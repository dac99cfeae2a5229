"""The ledger of the representation module: PS-1 to PS-8, each with a control on which the check must fail."""

from porism.sims.representation.claims import forms, measures, nets

__all__ = ["forms", "measures", "nets"]
