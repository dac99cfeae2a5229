"""The ledger of skill and delegation: SD-1 to SD-11, each with a control on which the check must fail."""

from porism.sims.dynamics.claims import basins, flow, laws, performance

__all__ = ["basins", "flow", "laws", "performance"]
