"""The ledger of the policies module: PO-1 to PO-9 on tilts, AG-1 to AG-9 on group advantages."""

from porism.sims.policies.claims import bounds, directions, groups, sequences, tilts, tokens

__all__ = ["bounds", "directions", "groups", "sequences", "tilts", "tokens"]
