"""The ledger of alignment: DK-1 to DK-25, each with a control on which the check must fail."""

from porism.sims.alignment.claims import (
    coefficient,
    energy,
    laws,
    pivot,
    positions,
    spiked,
    subspace,
    tracking,
)

__all__ = ["coefficient", "energy", "laws", "pivot", "positions", "spiked", "subspace", "tracking"]
