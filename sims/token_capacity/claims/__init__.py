"""The ledger of token capacity: TC-1 to TC-10, each with a control on which the check must fail."""

from porism.sims.token_capacity.claims import (
    bottleneck,
    causal,
    coverage,
    fine_tuning,
    interchange,
    kernels,
    memory,
    prefixes,
    suffix,
    width,
)

__all__ = [
    "bottleneck",
    "causal",
    "coverage",
    "fine_tuning",
    "interchange",
    "kernels",
    "memory",
    "prefixes",
    "suffix",
    "width",
]
