"""Bring spectra at several checkpoints, in whatever form, to one array (T, r) for each module."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array

__all__: list[str] = []

SATURATED = 0.01
"""Relative change between two checkpoints below which a value counts as saturated."""


@dataclass(frozen=True)
class Checkpoints:
    """Spectra of K modules at T steps, each row descending; values may be NaN outside the window used."""

    modules: tuple[str, ...]
    steps: NDArray[np.float64]
    values: list[NDArray[np.float64]]

    def window_values(self, first: int, last: int) -> list[NDArray[np.float64]]:
        """Rows of the two ends, checked."""
        rows = [table[[first, last]] for table in self.values]
        for name, pair in zip(self.modules, rows, strict=True):
            for t, row in zip((first, last), pair, strict=True):
                bad = row[~(np.isfinite(row) & (row >= 0))]
                if len(bad):
                    raise ValueError(
                        f"singular values must be finite and >= 0, got {bad[0]} in module {name} at step "
                        f"{self.steps[t]:g}; choose a window without it"
                    )
        return rows


def checkpoints(spectra: Any, steps: ArrayLike | None) -> Checkpoints:
    """Read every form that `growth_uniformity` takes."""
    if hasattr(spectra, "history"):
        spectra = spectra.history()
    own: Any = getattr(spectra, "steps", None)
    steps = None if steps is None else finite_array("steps", steps, 1)
    if hasattr(spectra, "columns"):
        own, tables = _from_frame(spectra)
    elif own is not None and hasattr(spectra, "spectra"):
        tables = dict(spectra.spectra)
    elif isinstance(spectra, Mapping):
        tables = dict(spectra)
    elif (
        isinstance(spectra, Sequence)
        and spectra
        and all(isinstance(one, Mapping) or hasattr(one, "spectra") for one in spectra)
    ):
        tables = _from_checkpoints(
            [one if isinstance(one, Mapping) else one.spectra for one in spectra], steps
        )
    else:
        array = finite_array("spectra", _plain(spectra))
        if array.ndim not in (2, 3):
            raise ValueError(
                f"spectra must be an array (T, r) or (T, K, r), got shape {array.shape}; reshape it"
            )
        array = array[:, None, :] if array.ndim == 2 else array
        tables = {str(k): array[:, k] for k in range(array.shape[1])}
    values = [_table(name, rows) for name, rows in tables.items()]
    lengths = {name: len(rows) for name, rows in zip(tables, values, strict=True)}
    if not tables or len(set(lengths.values())) > 1:
        raise ValueError(
            f"spectra must have the same checkpoints for every module, got {lengths or 'no module'}"
        )
    length = len(values[0])
    if length < 2:
        raise ValueError(f"spectra must have at least two checkpoints, got {length}; record more steps")
    labels = finite_array("steps", np.arange(length) if own is None else own, 1) if steps is None else steps
    if len(labels) != length or not (np.diff(labels) > 0).all():
        raise ValueError(
            f"steps must be {length} increasing numbers, one a checkpoint, got {labels.tolist()[:12]}; "
            "sort them"
        )
    return Checkpoints(tuple(str(name) for name in tables), labels, values)


def first_saturation(data: Checkpoints, first: int, last: int) -> int | None:
    """Find the first checkpoint in (first, last] at which a value has hardly changed since the one before."""
    for t in range(first + 1, last + 1):
        for table in data.values:
            with np.errstate(invalid="ignore"):
                # a value that is and stays zero has not started, which is no saturation
                if (np.abs(table[t] - table[t - 1]) < SATURATED * table[t - 1]).any():
                    return t
    return None


def _plain(rows: Any) -> Any:
    """A tensor without its gradient, device and half precision; anything else as it is."""
    return rows.detach().cpu().double() if hasattr(rows, "detach") else rows


def _array(name: Any, rows: Any) -> NDArray[np.float64]:
    """Real numbers of one module; NaN may stand outside the window used."""
    try:
        array = np.asarray(_plain(rows))
    except ValueError:
        raise ValueError(
            f"the spectra of module {name} must be a rectangular array, got rows of unequal length; keep one "
            "recording for each rank"
        ) from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"the spectra of module {name} must be real numbers, got dtype {array.dtype}")
    return array.astype(np.float64)


def _table(name: Any, rows: Any) -> NDArray[np.float64]:
    array = _array(name, rows)
    if array.ndim != 2 or not array.shape[1]:
        raise ValueError(
            f"the spectra of module {name} must have shape (T, r), got {array.shape}; reshape them"
        )
    return -np.sort(-array, axis=1)


def _from_checkpoints(maps: Sequence[Mapping[str, Any]], steps: Any) -> dict[str, NDArray[np.float64]]:
    rows = [{str(name): _array(name, row) for name, row in one.items()} for one in maps]
    ranks = [{name: row.size for name, row in one.items()} for one in rows]
    for t, found in enumerate(ranks):
        named = f" (step {steps[t]:.12g})" if steps is not None and t < len(steps) else ""
        compare(ranks[0], found, f"checkpoint {t}{named}")
    return {name: np.stack([one[name] for one in rows]) for name in (ranks[0] if ranks else ())}


def _from_frame(frame: Any) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    needed = ["step", "module", "index", "singular_value"]
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise ValueError(
            f"the table must have the columns {needed}, got none named {missing}; use as_frame()"
        )
    steps = np.unique(frame["step"].to_numpy())
    order = list(dict.fromkeys(frame["module"]))
    by_step = []
    for step in steps:
        here = frame[frame["step"] == step].sort_values("index")
        by_step.append({m: here.loc[here["module"] == m, "singular_value"].to_numpy() for m in order})
        by_step[-1] = {m: row for m, row in by_step[-1].items() if len(row)}
    return steps, _from_checkpoints(by_step, steps)


def compare(before: dict[str, int], after: dict[str, int], where: str) -> None:
    """Refuse modules or ranks that are not those of the first checkpoint, and list what differs."""
    if before == after:
        return
    gone, new = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    both = sorted(before.keys() & after.keys())
    changed = [f"{name} ({before[name]} to {after[name]})" for name in both if before[name] != after[name]]
    raise ValueError(
        f"every checkpoint must have the same modules and ranks; {where} differs from the first: "
        f"missing {gone}, new {new}, other rank {changed}; keep one recording for each adapter"
    )
