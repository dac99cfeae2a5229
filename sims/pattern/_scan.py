"""Measuring one attention map after the other against a library of masks, each next to a null."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer, one_of
from porism.sims.pattern.records import HeadRecord
from porism.theory.pattern import Mask, holm, masks, parse_mask, pattern_distance
from porism.theory.pattern.shuffles import Shuffle, fixed_order_null, null_p_value, null_shuffle

__all__ = ["Library", "Scan", "adjusted", "crop", "default_masks"]

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


class Scan:
    """Measures maps one after the other; a stream of its own for each sample, layer and head."""

    def __init__(
        self,
        library: Library,
        *,
        order: str = "none",
        null: str = "rows",
        n_null: int = 99,
        strip_sinks: int = 0,
        mass: str = "squared",
        causal: bool | str = "auto",
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.order, self.null = order, one_of("null", null, ("rows", "columns", "entries"))
        if integer("n_null", n_null) < 1:
            raise ValueError(f"n_null must be at least 1, got {n_null}; 99 allows p-values down to 0.01")
        self.library, self.n_null, self.strip = library, n_null, integer("strip_sinks", strip_sinks, 0)
        self.mass, self.causal = one_of("mass", mass, ("squared", "abs")), causal
        self.entropy, self.seed = _entropy(random_state)
        self.all_causal = True
        self.content_unstripped: set[str] = set()
        self._masks: dict[tuple[int, bool], dict[str, Mask]] = {}

    def head(self, sample: int, layer: int, head: int, a: Array) -> list[tuple[HeadRecord, Array]]:
        """A record for each mask of one map (T, T), with the values of its null (n_null,)."""
        if not np.isfinite(a).all():
            raise ValueError(
                f"the map of layer {layer}, head {head} has NaN or infinity; check the model's inputs"
            )
        if not a.any():
            raise ValueError(f"the map of layer {layer}, head {head} is zero everywhere; leave that head out")
        T = len(a)
        causal = not np.triu(a, 1).any() if self.causal == "auto" else bool(self.causal)
        self.all_causal &= causal
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
        rows: list[tuple[int, HeadRecord, Array]] = []
        for (null, order), members in groups.items():
            shuffle = null_shuffle(null, B, cells, self.mass)
            penalties = [self._penalty(mask, causal, order) for _, _, mask in members]
            seed = stream.spawn(1)[0]
            observed, nulls = (
                self._fixed(shuffle, np.stack(penalties), seed)
                if order == "none"
                else self._moved(shuffle, penalties, order, causal, seed)
            )
            for k, (number, name, _) in enumerate(members):
                p_value, effect = null_p_value(float(observed[k]), nulls[:, k])
                stripped = self.strip if null.startswith("rows_without") else 0
                values = (float(observed[k]), float(nulls[:, k].mean()), effect, p_value)
                record = HeadRecord(layer, head, name, *values, 0.0, order, null, stripped, sample)
                rows.append((number, record, nulls[:, k]))
        rows.sort(key=lambda row: row[0])
        records = adjusted([record for _, record, _ in rows])
        return [(record, row[2]) for record, row in zip(records, rows, strict=True)]

    def forget(self) -> None:
        """Drop the masks kept for each length, which would grow with the data."""
        self._masks.clear()

    def _penalty(self, mask: Mask, causal: bool, order: str) -> Array:
        if not causal or order != "none":
            return mask.penalty
        return np.where(np.tri(len(mask.S), dtype=bool), mask.penalty, 1.0)  # mask times the causal triangle

    def _fixed(self, shuffle: Shuffle, W: Array, seed: np.random.SeedSequence) -> tuple[Array, Array]:
        observed = np.minimum(np.einsum("kij,ij->k", W, shuffle.masses), 1.0)
        return observed, fixed_order_null(shuffle, W, self.n_null, np.random.default_rng(seed))

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
    named = given.items() if isinstance(given, Mapping) else ((None, item) for item in given)
    library: dict[str, Mask] = {}
    for name, item in named:
        if isinstance(item, str):
            mask, own = parse_mask(item, T, T), item
        else:
            mask = item if isinstance(item, Mask) else Mask(item)
            own = mask.label
        name = own if name is None else str(name)
        if mask.S.shape != (T, T):
            raise ValueError(
                f"mask {name} of shape {mask.S.shape} does not match a map of {T} tokens; pass texts such as "
                "'band:4' or a callable, which fit any length"
            )
        library[name] = mask
    if not library:
        raise ValueError("masks must name at least one mask, got none; leave it at 'default'")
    return library


def adjusted(records: list[HeadRecord]) -> list[HeadRecord]:
    """Records of one head with p-values adjusted for its masks, by Holm."""
    p_holm = holm([record.p_value for record in records])
    return [replace(record, p_holm=float(p)) for record, p in zip(records, p_holm, strict=True)]


def crop(one: Any, kept: NDArray[np.bool_] | None, row: int) -> Array:
    """A map in float64, which is cast before it is squared, without padded rows and columns."""
    a: Array = one.double().cpu().numpy()
    if kept is None:
        return a
    if len(kept) != len(a):
        raise ValueError(f"attention_mask must have {len(a)} columns, got {len(kept)}; pass it whole")
    if not kept.any():
        raise ValueError(f"attention_mask must keep a token of every sample, got none in row {row}")
    return a[np.ix_(kept, kept)]


def _entropy(random_state: int | np.random.Generator | None) -> tuple[int, int | None]:
    """What the streams start from, and the seed to report."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return int(generator(random_state, "random_state").integers(2**63)), None
    return (seed := integer("random_state", random_state, 0)), seed
