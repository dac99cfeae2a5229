"""Which rows each adapter starts from: those of the largest measured first-step energy."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from porism.errors import NumericalWarning
from porism.sims.alignment import _probe
from porism.sims.alignment._adapters import Adapter
from porism.sims.alignment.features import Features
from porism.theory.alignment.subspace import Subspace, principal_subspace

__all__ = ["Choice", "choose", "subspace"]


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """Rows, and whether they are centred."""

    rows: Features
    center: bool


def choose(
    model: Any,
    batches: Iterable[Any],  # that can be gone through again
    adapters: list[Adapter],
    features: dict[str, Features],
    collect: Callable[[str], dict[str, Features]],
    center: bool | None,
    where: dict[str, Any],
    rng: np.random.Generator,
) -> tuple[dict[str, Features], dict[str, Choice]]:
    """Features of each module after the choice, and the choices; where none can be made, the reason."""
    if any(rows.y is None for rows in features.values()):
        return _unmeasured(features, "no classes"), {}
    others = [collect(rule) for rule in ("target", "all")]
    known: dict[tuple[int, int, bool], Subspace] = {}
    options: dict[str, list[Choice]] = {}
    bases: dict[str, list[Any]] = {}
    for adapter in adapters:
        own, name = features[adapter.name], adapter.name
        rows = [own, *(other[name] for other in others if other[name].rule != own.rule)]
        options[name], bases[name] = [], []
        for found in rows:
            for flag in (True, False) if center is None else (center,):
                key = (id(found.x), adapter.r, flag)
                if key not in known:
                    known[key] = subspace(adapter, found, flag, 0)  # short ones are no candidates
                if known[key].n_random == 0:
                    options[name].append(Choice(found, flag))
                    bases[name].append(known[key].basis)
    open_to_choice = {name: found for name, found in bases.items() if len(found) > 1}
    try:
        energies = _probe.energies(model, batches, open_to_choice, rng=rng, **where) if open_to_choice else {}
    except _probe.Unmeasured as reason:
        return _unmeasured(features, str(reason)), {}
    result, chosen = dict(features), {}
    for name, values in energies.items():
        best = int(np.argmax(values))
        chosen[name] = options[name][best]
        gain = values[best] / values[0] if values[0] > 0 else float("inf")
        kind = "centred" if chosen[name].center else "not centred"
        says = f"largest first-step energy, {gain:.2f} times that of the first candidate; {kind}"
        result[name] = dataclasses.replace(chosen[name].rows, reason=says)
    return result, chosen


def subspace(adapter: Adapter, rows: Features, center: bool, rng: np.random.Generator | int) -> Subspace:
    """Principal subspace of the rows, of the adapter's rank; where it is short the caller is to warn."""
    if rows.x.shape[1] != adapter.d:
        raise ValueError(
            f"module {adapter.name!r} must see {adapter.d} features, got rows of {rows.x.shape[1]}; "
            "leave it out"
        )
    if len(rows.x) < 2:
        raise ValueError(
            f"need at least 2 samples, got {len(rows.x)} for module {adapter.name!r}; add batches"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        return principal_subspace(
            rows.x, adapter.r, center=center, random_state=rng, input_eps=rows.input_eps
        )


def _unmeasured(features: dict[str, Features], why: str) -> dict[str, Features]:
    return {
        name: dataclasses.replace(rows, reason=f"{rows.reason} (not measured: {why})")
        for name, rows in features.items()
    }
