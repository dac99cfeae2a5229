"""The ledger of the pandora module: PB-1 to PB-22, each with a control on which the check must fail."""

from porism.sims.pandora.claims import beliefs, bounds, dependence, exact, market, policies

__all__ = ["beliefs", "bounds", "dependence", "exact", "market", "policies"]
