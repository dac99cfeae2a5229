"""Which positions carry the gradient: the last ones, random ones, evenly spaced ones."""

from collections.abc import Sequence
from typing import Any

from porism.checks import integer, require
from porism.sims.token_capacity._positions import check_count, real_tokens

__all__ = ["select_last", "select_random", "select_stride"]


def select_last(attention_mask: Any, k: int) -> Any:
    r"""Select the last k real tokens of every row.

    .. math:: S_b = \{ j : j \text{ is real and at most } k - 1 \text{ real tokens come after it} \}

    Parameters
    ----------
    attention_mask : Tensor, shape (B, T)
        1 (or True) for real tokens, 0 for padding. Ids are never looked at: padding may share an id.
    k : int
        Positions a row, 1 to T.

    Returns
    -------
    LongTensor, shape (B, k)
        Sequence indices in increasing order; a row of fewer than k real tokens ends in -1 (unused slots).

    Raises
    ------
    TypeError
        If `k` is not an integer or the mask is no tensor.
    ValueError
        If `k` is out of range, the mask is not a matrix of 0 and 1, or a row is all padding.

    Notes
    -----
    In a causal model without trailing padding this is the one choice whose gradient is not biased (TC-8).

    References
    ----------
    TC-8.

    Examples
    --------
    >>> import torch
    >>> select_last(torch.tensor([[0, 1, 1], [0, 0, 1]]), 2).tolist()
    [[1, 2], [2, -1]]
    """
    torch = require("torch", "torch")
    mask, count = _rows(attention_mask, k)
    slots = torch.arange(k, device=mask.device)
    return _nth(mask, (count - k).clamp(min=0)[:, None] + slots, slots < count[:, None])


def select_random(attention_mask: Any, k: int, *, always: Sequence[int] = (0,), generator: Any) -> Any:
    r"""Select k real tokens of every row: some always, the others uniformly without replacement.

    .. math:: S_b = A_b \cup R_b, \qquad R_b \sim \text{uniform over subsets of size } k - |A_b|

    Parameters
    ----------
    attention_mask : Tensor, shape (B, T)
        1 (or True) for real tokens, 0 for padding.
    k : int
        Positions a row, 1 to T.
    always : sequence of int, default (0,)
        Counted in real tokens of the row: 0 the first one, -1 the last one. A causal readout needs -1 in it.
    generator : torch.Generator or int
        Source of randomness, on the device of the mask, or a seed. Global random state is not used.

    Returns
    -------
    LongTensor, shape (B, k)
        Sequence indices in increasing order; a row of fewer than k real tokens ends in -1.

    Raises
    ------
    TypeError
        If `k` or an entry of `always` is not an integer, or `generator` is neither a generator nor a seed.
    ValueError
        If `k` is out of range, smaller than the tokens that are always in, or a row has no such token.

    Notes
    -----
    The result for a row depends on the rows before it in the batch, since one generator serves all.
    A subset that is not a suffix gives a biased gradient in a causal model (TC-8c); report the spread
    over seeds.

    References
    ----------
    TokenTune (EMNLP 2024) draws its positions so, with the first and the last token always in.

    Examples
    --------
    >>> import torch
    >>> chosen = select_random(torch.ones(2, 9), 3, always=(0, -1), generator=0)
    >>> chosen[:, 0].tolist(), chosen[:, -1].tolist()
    ([0, 0], [8, 8])
    """
    torch = require("torch", "torch")
    mask, count = _rows(attention_mask, k)
    if not isinstance(generator, torch.Generator):
        seed = integer("generator", generator, low=0)
        generator = torch.Generator(device=mask.device).manual_seed(seed)
    score = torch.rand(mask.shape, generator=generator, device=mask.device, dtype=torch.float64)
    score = torch.where(mask, score, 2.0)
    rank = mask.long().cumsum(1) - 1  # number of the real token
    if not hasattr(always, "__len__"):
        raise TypeError(f"always must be a sequence of ints, got {always!r}; pass ({always!r},)")
    for entry in always:
        wanted = integer("an entry of always", entry)
        short = (count <= wanted) if wanted >= 0 else (count < -wanted)
        if short.any():
            row = int(short.nonzero()[0, 0])
            raise ValueError(
                f"always={wanted} must name a real token of every row, got row {row} with {int(count[row])} "
                "real tokens; count from the end (-1) or drop the row"
            )
        place = torch.full_like(count, wanted) if wanted >= 0 else count + wanted
        score = torch.where(mask & (rank == place[:, None]), -1.0, score)
    fixed = (score < 0).sum(1)
    if (fixed > k).any():
        raise ValueError(f"k must be >= the {int(fixed.max())} positions of always, got {k}; raise k")
    slots = torch.arange(k, device=mask.device)
    used = slots < count[:, None]
    drawn = score.argsort(dim=1, stable=True)[:, :k]
    ordered = torch.where(used, drawn, mask.shape[1]).sort(dim=1).values  # unused slots go last
    return torch.where(used, ordered, -1)


def select_stride(attention_mask: Any, k: int) -> Any:
    r"""Select k real tokens of every row at even distances, the first and the last one among them.

    .. math:: j_i = \lfloor i (n - 1) / (k - 1) \rfloor, \quad i = 0, \dots, k - 1

    counted in the n real tokens of the row; k = 1 takes the last one.

    Parameters
    ----------
    attention_mask : Tensor, shape (B, T)
        1 (or True) for real tokens, 0 for padding.
    k : int
        Positions a row, 1 to T.

    Returns
    -------
    LongTensor, shape (B, k)
        Sequence indices in increasing order; a row of fewer than k real tokens ends in -1.

    Raises
    ------
    TypeError
        If `k` is not an integer or the mask is no tensor.
    ValueError
        If `k` is out of range, the mask is not a matrix of 0 and 1, or a row is all padding.

    Notes
    -----
    No randomness. Not a suffix for 1 < k < n, so the gradient of a causal model is biased (TC-8c).

    References
    ----------
    TC-8.

    Examples
    --------
    >>> import torch
    >>> select_stride(torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]), 3).tolist()
    [[0, 2, 4], [2, 3, 4]]
    """
    torch = require("torch", "torch")
    mask, count = _rows(attention_mask, k)
    slots = torch.arange(k, device=mask.device)
    taken = count.clamp(max=k)
    step = slots * (count - 1)[:, None] // (taken - 1).clamp(min=1)[:, None]
    step = torch.where((taken == 1)[:, None], (count - 1)[:, None], step)
    return _nth(mask, step, slots < count[:, None])


def _rows(attention_mask: Any, k: int) -> tuple[Any, Any]:
    """The mask as booleans and the real tokens of each row, after all checks."""
    torch = require("torch", "torch")
    if not isinstance(attention_mask, torch.Tensor):
        raise TypeError(
            f"attention_mask must be a tensor (B, T), got {type(attention_mask).__name__}; "
            "pass torch.ones(B, T) where nothing is padded"
        )
    mask = real_tokens(attention_mask)
    check_count(k, mask.shape[1])
    return mask, mask.sum(1)


def _nth(mask: Any, wanted: Any, used: Any) -> Any:
    """Sequence indices of the real tokens with these numbers; -1 where a slot is not used."""
    torch = require("torch", "torch")
    order = (~mask).long().argsort(dim=1, stable=True)  # real tokens first, in their order
    return torch.where(used, order.gather(1, wanted.clamp(0, mask.shape[1] - 1)), -1)
