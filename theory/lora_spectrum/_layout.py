"""How a layer stores its two factors, and which matrices those are. Arrays and tensors alike."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__: list[str] = []

DORA = "spectrum is of BA before magnitude rescaling"
"""What a user of DoRA is told."""


def matrices(name: str, B: Any, A: Any, experts: int = 1) -> tuple[Any, Any, str]:
    """Bring the factors of any kind of layer to B (..., m, r), A (..., r, n), and name the kind.

    A convolution has A (r, in, *kernel) and B (out, r / groups, 1, ...): the patches are the columns of A,
    and each group of outputs sees its own share of the r rows. Stacked experts have A (experts * r, in),
    expert by expert, and B (out, r * experts), rank by rank.
    """
    if A.ndim < 2 or B.ndim < 2:
        raise ValueError(
            f"lora_A and lora_B of {name} must be matrices, got shapes {tuple(A.shape)} and "
            f"{tuple(B.shape)}; gather sharded parameters first"
        )
    if experts > 1:
        A = A.reshape(experts, -1, A.shape[-1])
        B = B.reshape(B.shape[0], -1, experts)
        return (B.transpose(2, 0, 1) if isinstance(B, np.ndarray) else B.permute(2, 0, 1)), A, "expert"
    if A.ndim == 2 and B.ndim == 2:
        return B, A, "linear"
    r, out = A.shape[0], B.shape[0]
    A, B = A.reshape(r, -1), B.reshape(out, -1)
    share = B.shape[1]
    groups = r // share if share else 0
    if groups > 1 and groups * share == r and out % groups == 0:
        blocks, B = B, np.zeros((out, r)) if isinstance(B, np.ndarray) else B.new_zeros(out, r)
        for g in range(groups):
            rows = slice(g * out // groups, (g + 1) * out // groups)
            B[rows, g * share : (g + 1) * share] = blocks[rows]
    return B, A, "conv"


def statistics(rows: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Stable rank, effective rank and participation ratio of spectra (..., r), NaN for those with NaN."""
    from porism.theory import effective_rank as ranks

    whole = np.asarray(np.isfinite(rows).all(-1))
    filled = np.where(whole[..., None], rows, 0.0)
    names = ("stable_rank", "effective_rank", "participation_ratio")
    return {name: np.where(whole, getattr(ranks, name)(filled, spectrum=True), np.nan) for name in names}
