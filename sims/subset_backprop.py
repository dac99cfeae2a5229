"""Fine-tuning through a subset of positions: the names of `porism.sims.token_capacity` under one roof."""

from porism.sims.token_capacity.memory import measure_saved_bytes
from porism.sims.token_capacity.selectors import select_last, select_random, select_stride
from porism.sims.token_capacity.subset import SubsetBackprop, SubsetOutput

__all__ = [
    "SubsetBackprop",
    "SubsetOutput",
    "measure_saved_bytes",
    "select_last",
    "select_random",
    "select_stride",
]
