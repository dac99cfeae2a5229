"""Inputs of modules, read while a model runs; what modules share is read and kept once."""

import contextlib
import re
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism._models import is_cross, is_linear, known_maps
from porism.sims._batches import Batch
from porism.sims.alignment import _pooling
from porism.sims.hooks import find_maps, has_slot, maps_of_slot
from porism.theory.alignment import is_constant

__all__ = ["AUTO", "Recorder", "Track", "default_modules", "select"]

AUTO = {"value": "attention", "fused": "attention", "key": "all", "other": "target"}


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows of one batch: features, number of the sample, its class, and a random key for the reservoir."""

    x: NDArray[Any]
    sample: NDArray[np.int64]
    y: NDArray[np.int64] | None
    keys: NDArray[np.float64] | None


@dataclass(eq=False)
class Track:
    """What is collected for one module."""

    name: str
    wanted: str
    auto: bool
    reason: str
    chunks: dict[str, list[Chunk]] = field(default_factory=dict)
    eps: float = 0.0
    spare: bool = False  # whether all tokens are kept too, in case the target is constant
    pending: Any = None
    calls: int = 0

    def settle(self) -> str:
        """The rule whose rows are used, after the last batch."""
        fixed = self.auto and self.wanted == "target" and "all" in self.chunks
        if fixed and sum(len(chunk.x) for chunk in self.chunks["target"]) > 1:  # one sample says nothing
            self.reason = "the target's input is the same for every sample"
            return "all"
        return self.wanted


class Recorder:
    """Collects rows batch by batch; hooks live within `watching`."""

    def __init__(self, tracks: list[Track], max_rows: int | None, entropy: int) -> None:
        self.tracks, self.max_rows, self.entropy = {t.name: t for t in tracks}, max_rows, entropy
        self.batch: Batch | None = None
        self._memo: list[tuple[Any, int, Any, str, Chunk]] = []
        self._merged: dict[tuple[int, ...], tuple[list[Chunk], list[Chunk]]] = {}
        self._keys: dict[tuple[int, int], NDArray[np.float64]] = {}

    @contextlib.contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """Hooks on the modules, and on what returns attention maps around them."""
        modules = dict(model.named_modules())
        around: dict[str, list[Track]] = {}
        with contextlib.ExitStack() as stack:
            for track in self.tracks.values():
                hook = modules[track.name].register_forward_pre_hook(self._enter(track), with_kwargs=True)
                stack.callback(hook.remove)
                if track.wanted == "attention":
                    parts = track.name.split(".")
                    for k in range(1, len(parts)):
                        around.setdefault(".".join(parts[:k]), []).append(track)
            for name, inside in around.items():
                if has_slot(modules[name]):
                    stack.enter_context(maps_of_slot(modules[name], self._report(inside)))
                stack.callback(modules[name].register_forward_hook(self._leave(inside)).remove)
            yield

    def start(self, batch: Batch) -> None:
        """A batch is about to run."""
        self.batch = batch
        self._memo, self._merged, self._keys = [], {}, {}

    def finish(self) -> None:
        """A batch has run."""
        for track in self.tracks.values():
            if track.pending is not None:
                self._without_maps(track)
            for rule, chunks in track.chunks.items():
                track.chunks[rule] = self._compact(chunks)
        self.batch, self._memo = None, []

    def merged(self, chunks: list[Chunk]) -> Chunk:
        """All chunks as one; the same chunks give the same arrays."""
        return self._merge(chunks)[0]

    def _merge(self, chunks: list[Chunk]) -> list[Chunk]:
        place = tuple(map(id, chunks))
        if place not in self._merged:  # the old chunks stay alive, so that no other one takes their id
            self._merged[place] = chunks, [_joined(chunks, self.max_rows)]
        return self._merged[place][1]

    def _enter(self, track: Track) -> Any:
        def enter(module: Any, args: Any, kwargs: Any) -> None:
            x = next((v for v in (*args, *kwargs.values()) if hasattr(v, "is_floating_point")), None)
            if x is None or not x.is_floating_point():
                raise NotImplementedError(
                    f"module {track.name!r} ({type(module).__name__}) takes no float features; "
                    "name linear layers"
                )
            self._see(track, x)

        return enter

    def _see(self, track: Track, x: Any) -> None:
        import torch

        batch = self.batch
        assert batch is not None
        if x.ndim == 2 and x.shape[0] != batch.size and batch.mask is not None:
            x = x.reshape(*batch.mask.shape, -1) if x.shape[0] == batch.mask.size else x
        if x.ndim not in (2, 3) or x.shape[0] != batch.size:
            raise ValueError(
                f"module {track.name!r} must see one sample a row, (B, T, d) or (B, d) with B = "
                f"{batch.size}, got {tuple(x.shape)}; leave it out of modules"
            )
        track.calls += 1
        track.eps = float(torch.finfo(x.dtype).eps)
        if track.wanted == "attention" and track.pending is not None:  # called again before any maps came
            self._without_maps(track)
        if track.wanted == "attention":
            track.pending = x
            return
        self._add(track, track.wanted, x)
        if track.spare and self._varies(track):
            track.spare = False
            track.chunks.pop("all", None)
        if track.spare and x.ndim == 3:
            self._add(track, "all", x)

    def _leave(self, inside: list[Track]) -> Any:
        def leave(module: Any, args: Any, output: Any) -> None:
            if any(track.pending is not None for track in inside):
                for maps in find_maps(output):
                    self._report(inside)(maps)

        return leave

    def _report(self, inside: list[Track]) -> Any:
        def report(maps: Any) -> None:
            for track in inside:
                x = track.pending
                if x is not None and x.ndim == 3 and x.shape[:2] == (maps.shape[0], maps.shape[3]):
                    self._pool(track, maps)

        return report

    def _pool(self, track: Track, maps: Any) -> None:
        x, track.pending = track.pending, None
        self._add(track, "attention", x, maps)

    def _without_maps(self, track: Track) -> None:
        x, track.pending = track.pending, None
        if not track.auto or track.chunks.get("attention"):
            raise ValueError(
                f"module {track.name!r} has no attention maps around it: load the model with "
                "attn_implementation='eager', or pass pooling='auto' or 'all'"
            )
        track.wanted = "all"
        track.reason = "no attention weights: load the model with attn_implementation='eager' to pool by them"
        self._add(track, "all", x)

    def _add(self, track: Track, rule: str, x: Any, maps: Any = None) -> None:
        chunk = self._known(x, maps, rule)
        if chunk is None:
            chunk = self._chunk(track.name, rule, x, maps)
            self._memo.append(
                (weakref.ref(x), x._version, None if maps is None else weakref.ref(maps), rule, chunk)
            )
        track.chunks.setdefault(rule, []).append(chunk)

    def _known(self, x: Any, maps: Any, rule: str) -> Chunk | None:
        """Rows that another module's hook made of the very same tensor."""
        for ref, version, weights, kind, chunk in self._memo:
            same_maps = maps is None if weights is None else weights() is maps
            if kind == rule and ref() is x and version == x._version and same_maps:
                return chunk
        return None

    def _chunk(self, name: str, rule: str, x: Any, maps: Any) -> Chunk:
        batch = self.batch
        assert batch is not None
        if rule == "attention":
            rows, sample, place = _pooling.attention_pooled(name, x, maps, batch)
        else:
            take = _pooling.target_tokens if rule == "target" else _pooling.all_tokens
            rows, sample, place = take(name, x, batch)
        keys = None
        if self.max_rows is not None:  # a token, or a whole sample, stays or goes
            keys = self._draws(sample + batch.first, place if rule == "all" else np.zeros_like(place))
        return Chunk(rows, sample + batch.first, None if batch.y is None else batch.y[sample], keys)

    def _draws(self, sample: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.float64]:
        """One uniform number a sample and place, whatever the batches and the module."""
        length = int(place.max(initial=0)) + 1
        drawn = {int(s): np.random.default_rng([self.entropy, int(s)]).random(length) for s in set(sample)}
        return np.array([drawn[int(s)][p] for s, p in zip(sample, place, strict=True)])

    def _compact(self, chunks: list[Chunk]) -> list[Chunk]:
        if self.max_rows is None or sum(len(c.x) for c in chunks) <= self.max_rows:
            return chunks
        return self._merge(chunks)

    def _varies(self, track: Track) -> bool:
        rows = np.concatenate([c.x for c in track.chunks["target"]])
        return len(rows) > 1 and (not np.isfinite(rows).all() or not is_constant(rows, track.eps))


def _joined(chunks: list[Chunk], max_rows: int | None) -> Chunk:
    x = np.concatenate([c.x for c in chunks])
    sample = np.concatenate([c.sample for c in chunks])
    labels, drawn = [c.y for c in chunks if c.y is not None], [c.keys for c in chunks if c.keys is not None]
    y = np.concatenate(labels) if labels else None
    keys = np.concatenate(drawn) if drawn else None
    if max_rows is None or keys is None or len(x) <= max_rows:
        return Chunk(x, sample, y, keys)
    order = np.argsort(keys, kind="stable")
    size = max_rows
    if keys[order[size - 1]] == keys[order[size]]:  # rows that share a key, heads of a sample, stay together
        size = int(np.searchsorted(keys[order], keys[order[size]])) or size
    kept = np.sort(order[:size])
    return Chunk(x[kept], sample[kept], None if y is None else y[kept], keys[kept])


def default_modules(model: Any) -> list[str]:
    """Queries or fused projections, values, and the first map of each MLP, in the order of the model."""
    chosen = set(known_maps(model))
    for name, module in model.named_modules():
        inner = ".experts." in name or ".base_layer" in name or is_cross(name)
        if not inner and _pooling.role(name) == "value" and is_linear(module):
            chosen.add(name)
    if not chosen:
        raise ValueError("modules must be named: no query, value or MLP of the model is known; pass modules")
    return [name for name, _ in model.named_modules() if name in chosen]


def select(model: Any, modules: str | Iterable[str]) -> list[str]:
    """Full names of the linear maps meant: a regular expression, or names and ends of names."""
    every = {name: module for name, module in model.named_modules() if name}
    linear = [name for name, module in every.items() if _takes_features(module)]
    if isinstance(modules, str):
        try:
            found = [name for name in every if re.fullmatch(modules, name)]
        except re.error as error:
            raise ValueError(
                f"modules must be a regular expression or a list of names, got {modules!r} ({error})"
            ) from None
        if not found:
            ends = any(name.endswith(f".{modules}") for name in linear)
            hint = f"pass [{modules!r}] or '.*{modules}'" if ends else f"it has {_some(linear)}"
            raise ValueError(
                f"modules must match a linear map of the model, got {modules!r}; a text is a pattern for "
                f"whole names: {hint}"
            )
        return _linear_only(found, linear, every)
    chosen: dict[str, None] = {}
    for part in modules:
        if not isinstance(part, str):
            raise TypeError(f"modules must hold names, got {type(part).__name__}; pass names, not modules")
        own = [part] if part in every else [name for name in every if name.endswith(f".{part}")]
        if not own:
            raise ValueError(
                f"modules must name linear maps of the model or ends of their names, got {part!r}; it has "
                f"{_some(linear)}"
            )
        chosen |= dict.fromkeys(_linear_only(own, linear, every))
    if not chosen:
        raise ValueError("modules must name at least one module, got none")
    return list(chosen)


def _takes_features(module: Any) -> bool:
    """Whether a module is a linear map; those with packed weights are told by their width alone."""
    base = getattr(module, "base_layer", module)
    return is_linear(base) or hasattr(base, "in_features")


def _linear_only(found: list[str], linear: list[str], every: dict[str, Any]) -> list[str]:
    known = set(linear)
    kept = [name for name in found if name in known]
    if not kept:
        base = getattr(every[found[0]], "base_layer", every[found[0]])
        raise NotImplementedError(
            f"module {found[0]!r} is a {type(base).__name__}; features are read from linear layers only: "
            f"{_some(linear)}"
        )
    return kept


def _some(linear: list[str]) -> str:
    """The first linear maps by name, without those inside an adapter."""
    outer: list[str] = []
    for name in linear:  # what a module holds follows it at once
        if not outer or not name.startswith(f"{outer[-1]}."):
            outer.append(name)
    return ", ".join(outer[:3]) + (", ..." if len(outer) > 3 else "") if outer else "none"
