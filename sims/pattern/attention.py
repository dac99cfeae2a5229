"""Scanning a model's attention heads for patterns, layer by layer while it runs."""

import contextlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, one_of
from porism.errors import NumericalWarning
from porism.sims.hooks import MapWatch, token_mask
from porism.sims.pattern._hooks import run_with_maps
from porism.sims.pattern._scan import Library, Scan, adjusted, crop, default_masks
from porism.sims.pattern.records import HeadRecord, HeadRecords
from porism.theory.pattern.shuffles import null_p_value

__all__ = ["PooledScan", "default_masks", "scan_attention"]


def scan_attention(
    model: Any,
    inputs: Any,
    masks: Library = "default",
    *,
    order: str = "none",
    null: str = "rows",
    n_null: int = 99,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    strip_sinks: int = 0,
    mass: str = "squared",
    causal: bool | str = "auto",
    allow_independent: bool = False,
    random_state: int | np.random.Generator | None = None,
) -> HeadRecords:
    """Measure every attention head of a model against a library of masks, each next to a null.

    Parameters
    ----------
    model : torch.nn.Module
        Any model whose modules named ...Attention return ``(output, maps)`` with maps (B, H, T, T), such as
        those of transformers loaded with ``attn_implementation="eager"``, or a `TinyTransformer`.
    inputs : mapping or Tensor
        What the model takes, as keywords or as its one argument. Where the mapping has an attention_mask
        (B, T), padded rows and columns are cropped on both sides.
    masks : "default", sequence, mapping or callable
        "default": `default_masks`. Else masks (T, T) or texts such as "band:4", in a sequence or by name, or
        a callable ``(T, causal) -> mapping``, which fits samples of any length.
    order : {"none", "common", "independent"}
        Which tokens move. Rows and columns of a map share the order of the tokens, so that "independent" is
        refused unless `allow_independent` is set. On causal heads "common" applies to content masks only, on
        the symmetrised map ``|A| + |A|'``; positional masks stay at "none".
    null : {"rows", "columns", "entries"}
        What is shuffled, among the cells a head may use.
    n_null : int, default 99
        Shuffled maps for each head, >= 1.
    layers, heads : sequence of int, optional
        Which to look at; all by default.
    strip_sinks : int, default 0
        Content masks are tested on the map without its k heaviest columns, rows brought back to their sums;
        positional masks always see the whole map.
    mass : {"squared", "abs"}
        Mass of an entry; rows of "abs" sum to 1.
    causal : bool or "auto"
        "auto" looks whether the map is zero above the diagonal.
    allow_independent : bool, default False
        Whether "independent" is admitted.
    random_state : int, Generator or None
        Seed. Each sample, layer and head has its own stream, so that a part of a scan repeats it exactly.

    Returns
    -------
    HeadRecords
        One record a sample, layer, head and mask.

    Raises
    ------
    TypeError
        If the model is no module of torch.
    ValueError
        If the model returns no maps, a map has NaN, or an option is out of range.
    MissingExtraError
        If torch is not installed.

    Warns
    -----
    NumericalWarning
        If content masks are tested with the sinks in place.

    Notes
    -----
    Maps are read by hooks as layers run and dropped at once: one layer's ``H T^2`` numbers at a time, and
    `n_null` shuffles of one head (at most 4 million cells at a time). Maps are cast to float64 before they
    are squared. The model runs in evaluation mode; modes, hooks, weights and configuration are as they were
    afterwards, also after an exception. Order "common" solves ``n_null + 1`` problems a head and mask.

    References
    ----------
    PD-17 to PD-19 and sections 2.6 and 4 (reconstruction).

    Examples
    --------
    >>> from porism.sims.pattern import scan_attention  # doctest: +SKIP
    >>> found = scan_attention(model, tokenizer(text, return_tensors="pt"), random_state=0)  # doctest: +SKIP
    >>> found.counts()  # doctest: +SKIP
    {'sink4': 38, 'sink1': 17, 'local': 13, 'none': 4}
    """
    one_of("order", order, ("none", "common", "independent"))
    if order == "independent" and not allow_independent:
        raise ValueError(
            "independent reordering of an attention map is not interpretable (rows and columns are the same "
            "tokens, and peaked rows of pure noise fit a mask with room, PD-17): pass allow_independent=True"
        )
    if causal not in (True, False, "auto"):
        raise ValueError(f"causal must be True, False or 'auto', got {causal!r}; leave it at 'auto'")
    options: dict[str, Any] = {"order": order, "null": null, "n_null": n_null, "strip_sinks": strip_sinks}
    scan = Scan(masks, **options, mass=mass, causal=causal, random_state=random_state)
    wanted_layers, wanted_heads = _numbers("layers", layers), _numbers("heads", heads)
    mask = token_mask(inputs)
    records: list[HeadRecord] = []
    tokens: dict[int, int] = {}

    def visit(layer: int, maps: Any) -> None:
        if wanted_layers is not None and layer not in wanted_layers:
            return
        count = int(maps.shape[1])
        if wanted_heads and max(wanted_heads) >= count:
            raise ValueError(
                f"heads must be in 0..{count - 1}, got {max(wanted_heads)}; the model has {count} heads"
            )
        for sample in range(len(maps)):
            for head in range(count) if wanted_heads is None else sorted(wanted_heads):
                a = crop(maps[sample, head], None if mask is None else mask[sample], sample)
                tokens[sample] = len(a)
                records.extend(record for record, _ in scan.head(sample, layer, head, a))

    count = run_with_maps(model, inputs, visit)
    if wanted_layers and max(wanted_layers) >= count:
        raise ValueError(
            f"layers must be in 0..{count - 1}, got {max(wanted_layers)}; the model has {count} layers"
        )
    if not records and tokens:
        raise ValueError("inputs must have a sample of 2 tokens or more, got 1 each; pass a longer text")
    if not records:
        raise ValueError("layers and heads must name at least one each, got none; leave them at None for all")
    if scan.content_unstripped:
        warnings.warn(
            f"content masks {sorted(scan.content_unstripped)} were tested with the sinks in place, where "
            "chance may look more patterned than the head (PD-18); pass strip_sinks=4 or so",
            NumericalWarning,
            stacklevel=2,
        )
    records.sort(key=lambda r: (r.sample, r.layer, r.head))
    lengths = tuple(tokens[sample] for sample in sorted(tokens))
    return HeadRecords(tuple(records), n_null, lengths, scan.all_causal, scan.seed)


def _numbers(name: str, given: Sequence[int] | None) -> set[int] | None:
    if given is None:
        return None
    if not np.iterable(given):
        raise TypeError(f"{name} must be a sequence of ints, got {given!r}; pass [{given!r}]")
    return {integer(name, number, 0) for number in given}


class PooledScan:
    """Measures heads over many sequences: the mean mass outside a mask, next to the same mean of shuffles.

    Parameters
    ----------
    masks, null, n_null, strip_sinks, random_state
        As in :func:`scan_attention`, with order "none".

    Attributes
    ----------
    n_sequences : int
        Sequences measured.
    watch : MapWatch
        What was seen of the model.
    content_unstripped : set of str
        Content masks that were tested with the sinks in place.

    Notes
    -----
    Memory: sums of `n_null` numbers for each head and mask, whatever the number of sequences.

    Examples
    --------
    >>> scan = PooledScan(random_state=0)
    >>> with scan.watching(model):  # doctest: +SKIP
    ...     for batch in batches:
    ...         scan.start(batch["attention_mask"].numpy().astype(bool))
    ...         model(**batch)
    >>> scan.result()  # None where the model has shown no maps
    """

    def __init__(
        self,
        masks: Library = "default",
        *,
        null: str = "rows",
        n_null: int = 99,
        strip_sinks: int = 0,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        options: dict[str, Any] = {"null": null, "n_null": n_null, "strip_sinks": strip_sinks}
        self._scan = Scan(masks, **options, random_state=random_state)
        self.watch = MapWatch(self._layer)
        self.n_sequences = 0
        self.content_unstripped = self._scan.content_unstripped
        self._mask = np.zeros((0, 0), dtype=bool)
        self._first, self._rows, self._counted = 0, range(0), False
        self._lengths: tuple[int, ...] = ()
        self._sums: dict[tuple[int, int, str], list[Any]] = {}

    def watching(self, model: Any) -> contextlib.AbstractContextManager[None]:
        """Put hooks on a model for the length of a block.

        Parameters
        ----------
        model : torch.nn.Module
            The model.

        Returns
        -------
        context manager
            Gives nothing.
        """
        return self.watch.watching(model)

    def start(self, mask: NDArray[np.bool_], count: int | None = None) -> None:
        """Say what the next pass reads.

        Parameters
        ----------
        mask : bool array, shape (B, T)
            Tokens that are no padding.
        count : int, optional
            How many sequences are measured, the first of the batch; all by default.
        """
        self._first += len(self._mask)
        self._mask, self._rows = mask, range(len(mask) if count is None else count)
        self._counted = False
        self._scan.forget()

    def result(self) -> HeadRecords | None:
        """One record a head and mask.

        Returns
        -------
        HeadRecords or None
            Pooled records, of sample 0; its `n_tokens` are the shortest and the longest sequence.
        """
        by_head: dict[tuple[int, int], list[HeadRecord]] = {}
        for (layer, head, name), (like, count, observed, nulls) in self._sums.items():
            mean, draws = observed / count, nulls / count
            p_value, effect = null_p_value(mean, draws)
            values = (mean, float(draws.mean()), effect, p_value)
            record = HeadRecord(layer, head, name, *values, 0.0, "none", like.null, like.stripped)
            by_head.setdefault((layer, head), []).append(record)
        if not by_head:
            return None
        records = tuple(record for _, group in sorted(by_head.items()) for record in adjusted(group))
        scan = self._scan
        return HeadRecords(records, scan.n_null, self._lengths, scan.all_causal, scan.seed)

    def _layer(self, layer: int, maps: Any) -> None:
        if len(maps) != len(self._mask):
            self.watch.saw_none = True
            return
        if self._rows and not self._counted:
            lengths = [*self._mask.sum(axis=1)[: len(self._rows)].tolist(), *self._lengths]
            self._lengths = (min(lengths), max(lengths))
            self.n_sequences += len(self._rows)
            self._counted = True
        for row in self._rows:
            for head in range(int(maps.shape[1])):
                a = crop(maps[row, head], self._mask[row], row)
                for record, nulls in self._scan.head(self._first + row, layer, head, a):
                    place = (layer, head, record.mask)
                    sums = self._sums.setdefault(place, [record, 0, 0.0, np.zeros(self._scan.n_null)])
                    sums[1] += 1
                    sums[2] += record.mass_outside
                    sums[3] += nulls
