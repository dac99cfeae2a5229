"""Scanning a model's attention heads for patterns, layer by layer while it runs."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, one_of
from porism.errors import NumericalWarning
from porism.sims.pattern._hooks import run_with_maps, token_mask
from porism.sims.pattern.records import HeadRecord, HeadRecords
from porism.theory.pattern import Mask, masks, pattern_distance
from porism.theory.pattern._shuffles import Shuffle, fixed_nulls, judge, shuffle_of
from porism.theory.pattern._spec import label, parse_mask
from porism.theory.pattern.nulls import holm

__all__ = ["default_masks", "scan_attention"]

CONTENT = ("block_diagonal", "hub", "arrowhead", "bipartite", "checkerboard")
"""Families that say which tokens belong together; all others speak of positions."""

Array = NDArray[np.float64]
Library = str | Sequence[Any] | Mapping[str, Any] | Callable[[int, bool], Mapping[str, Mask]]


def default_masks(n_tokens: int, causal: bool, stripped: bool = False) -> dict[str, Mask]:
    """The library of a scan: sinks, local windows, and blocks once sinks are stripped.

    Parameters
    ----------
    n_tokens : int
        Tokens T, >= 1.
    causal : bool
        Whether tokens see only those before them: windows then look back 0..4 tokens, else 4 either way.
    stripped : bool, default False
        Whether the sinks are emptied first; without that, content patterns are not testable (PD-18) and are
        left out.

    Returns
    -------
    dict of str to Mask
        By name, each (T, T), without those that keep or drop everything at this size.

    Examples
    --------
    >>> list(default_masks(84, False)), list(default_masks(84, True, stripped=True))
    (['sink1', 'sink4', 'local'], ['sink1', 'sink4', 'local', 'block'])
    """
    n = integer("n_tokens", n_tokens, 1)
    library = {f"sink{k}": masks.sink(n, n, k) for k in (1, 4) if k < n}
    if n > 5:
        library["local"] = masks.toeplitz(n, range(5), causal=True) if causal else masks.band(n, 4)
    if stripped and n >= 8:
        library["block"] = parse_mask("block_diagonal:4", n, n)
    return library


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
    one_of("null", null, ("rows", "columns", "entries"))
    if integer("n_null", n_null) < 1:
        raise ValueError(f"n_null must be at least 1, got {n_null}; 99 allows p-values down to 0.01")
    if causal not in (True, False, "auto"):
        raise ValueError(f"causal must be True, False or 'auto', got {causal!r}; leave it at 'auto'")
    scan = _Scan(
        masks,
        order,
        null,
        n_null,
        None if layers is None else {integer("layers", layer, 0) for layer in layers},
        None if heads is None else {integer("heads", head, 0) for head in heads},
        integer("strip_sinks", strip_sinks, 0),
        one_of("mass", mass, ("squared", "abs")),
        causal,
        _entropy(random_state),
        token_mask(inputs),
        [],
        {},
        {},
    )
    count = run_with_maps(model, inputs, scan.layer)
    if scan.layers and max(scan.layers) >= count:
        raise ValueError(
            f"layers must be in 0..{count - 1}, got {max(scan.layers)}; the model has {count} layers"
        )
    if not scan.records:
        raise ValueError("layers and heads must name at least one each, got none; leave them at None for all")
    if scan.content_unstripped:
        warnings.warn(
            f"content masks {sorted(scan.content_unstripped)} were tested with the sinks in place, where "
            "chance may look more patterned than the head (PD-18); pass strip_sinks=4 or so",
            NumericalWarning,
            stacklevel=2,
        )
    records = sorted(scan.records, key=lambda r: (r.sample, r.layer, r.head))
    seed = (
        None if random_state is None or isinstance(random_state, np.random.Generator) else int(random_state)
    )
    tokens = tuple(scan.tokens[sample] for sample in sorted(scan.tokens))
    return HeadRecords(tuple(records), n_null, tokens, all(scan.causal_seen.values()), seed)


@dataclass
class _Scan:
    library: Library
    order: str
    null: str
    n_null: int
    layers: set[int] | None
    heads: set[int] | None
    strip: int
    mass: str
    causal: bool | str
    entropy: int
    keep: NDArray[np.bool_] | None
    records: list[HeadRecord]
    tokens: dict[int, int]
    causal_seen: dict[tuple[int, int], bool]

    def __post_init__(self) -> None:
        self.content_unstripped: set[str] = set()
        self._masks: dict[tuple[int, bool], dict[str, Mask]] = {}

    def layer(self, layer: int, maps: Any) -> None:
        if self.layers is not None and layer not in self.layers:
            return
        batch, count = int(maps.shape[0]), int(maps.shape[1])
        if self.heads is not None and max(self.heads, default=0) >= count:
            raise ValueError(
                f"heads must be in 0..{count - 1}, got {max(self.heads)}; the model has {count} heads"
            )
        for sample in range(batch):
            for head in range(count):
                if self.heads is None or head in self.heads:
                    self.head(sample, layer, head, self._crop(maps[sample, head], sample))

    def _crop(self, one: Any, sample: int) -> Array:
        a: Array = one.double().cpu().numpy()  # cast before squaring
        if self.keep is not None:
            if self.keep.shape[1] != a.shape[0]:
                raise ValueError(
                    f"attention_mask must have {a.shape[0]} columns, got {self.keep.shape[1]}; pass it whole"
                )
            kept = self.keep[sample]
            if not kept.any():
                raise ValueError(
                    f"attention_mask must keep a token of every sample, got none in row {sample}"
                )
            a = a[np.ix_(kept, kept)]
        return a

    def head(self, sample: int, layer: int, head: int, a: Array) -> None:
        if not np.isfinite(a).all():
            raise ValueError(
                f"the map of layer {layer}, head {head} has NaN or infinity; check the model's inputs"
            )
        T = len(a)
        self.tokens[sample] = T
        causal = not np.triu(a, 1).any() if self.causal == "auto" else bool(self.causal)
        self.causal_seen[sample, layer] = self.causal_seen.get((sample, layer), True) and causal
        library = self._for(T, causal)
        weight = np.abs(a) / max(float(np.abs(a).max()), np.finfo(float).tiny)
        B = weight**2 if self.mass == "squared" else weight
        B /= B.sum()
        cells = np.tri(T, dtype=bool) if causal else None
        stream = np.random.SeedSequence(self.entropy, spawn_key=(sample, layer, head))
        groups: dict[tuple[str, str], list[tuple[int, str, Mask]]] = {}
        for number, (name, mask) in enumerate(library.items()):
            content = mask.name in CONTENT
            if content and not self.strip:
                self.content_unstripped.add(name)
            null = f"rows_without_sinks({self.strip})" if content and self.strip else self.null
            order = "none" if causal and not content and self.order == "common" else self.order
            groups.setdefault((null, order), []).append((number, name, mask))
        rows: list[tuple[int, HeadRecord]] = []
        for (null, order), members in groups.items():
            shuffle = shuffle_of(null, B, cells, self.mass)
            penalties = [self._penalty(mask, causal, order) for _, _, mask in members]
            seed = stream.spawn(1)[0]
            observed, nulls = (
                self._fixed(shuffle, np.stack(penalties), seed)
                if order == "none"
                else self._moved(shuffle, penalties, order, causal, seed)
            )
            for k, (number, name, _) in enumerate(members):
                p_value, effect = judge(float(observed[k]), nulls[:, k])
                stripped = self.strip if null.startswith("rows_without") else 0
                values = (float(observed[k]), float(nulls[:, k].mean()), effect, p_value)
                record = HeadRecord(layer, head, name, *values, 0.0, order, null, stripped, sample)
                rows.append((number, record))
        rows.sort(key=lambda row: row[0])
        adjusted = holm([record.p_value for _, record in rows])
        for (_, record), p_holm in zip(rows, adjusted, strict=True):
            self.records.append(replace(record, p_holm=float(p_holm)))

    def _penalty(self, mask: Mask, causal: bool, order: str) -> Array:
        if not causal or order != "none":
            return mask.penalty
        return np.where(np.tri(len(mask.S), dtype=bool), mask.penalty, 1.0)  # mask times the causal triangle

    def _fixed(self, shuffle: Shuffle, W: Array, seed: np.random.SeedSequence) -> tuple[Array, Array]:
        observed = np.einsum("kij,ij->k", W, shuffle.masses)
        return observed, fixed_nulls(shuffle, W, self.n_null, np.random.default_rng(seed))

    def _moved(
        self, shuffle: Shuffle, W: list[Array], order: str, causal: bool, seed: np.random.SeedSequence
    ) -> tuple[Array, Array]:
        children = seed.spawn(self.n_null + 1)
        values = np.empty((self.n_null + 1, len(W)))
        for row, child in enumerate(children):
            where, *starts = child.spawn(1 + len(W))
            B = shuffle.draw(np.random.default_rng(where), 1)[0] if row else shuffle.masses
            a = np.sqrt(B) if self.mass == "squared" else B
            a = a + a.T if causal and order == "common" else a
            for k, (penalty, start) in enumerate(zip(W, starts, strict=True)):
                fit = pattern_distance(
                    a,
                    1 - np.sqrt(penalty),
                    order=order,
                    mass=self.mass,
                    random_state=int(start.generate_state(1, np.uint64)[0] >> 1),
                )
                values[row, k] = fit.mass_outside
        return values[0], values[1:]

    def _for(self, T: int, causal: bool) -> dict[str, Mask]:
        if (T, causal) not in self._masks:
            self._masks[T, causal] = _library(self.library, T, causal, self.strip)
        return self._masks[T, causal]


def _library(given: Library, T: int, causal: bool, strip: int) -> dict[str, Mask]:
    if isinstance(given, str):
        if given != "default":
            given = [given]
        else:
            found: Any = default_masks(T, causal, strip > 0)
            return dict(found)
    if callable(given):
        given = given(T, causal)
    if isinstance(given, Mapping):
        named = list(given.items())
    else:
        named = [(item if isinstance(item, str) else label(item), item) for item in given]
    library: dict[str, Mask] = {}
    for name, item in named:
        mask = (
            parse_mask(item, T, T)
            if isinstance(item, str)
            else item
            if isinstance(item, Mask)
            else Mask(item)
        )
        if mask.S.shape != (T, T):
            raise ValueError(
                f"mask {name} of shape {mask.S.shape} does not match a map of {T} tokens; pass texts such as "
                "'band:4' or a callable, which fit any length"
            )
        library[str(name)] = mask
    if not library:
        raise ValueError("masks must name at least one mask, got none; leave it at 'default'")
    return library


def _entropy(random_state: int | np.random.Generator | None) -> int:
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    return integer("random_state", random_state, 0)
