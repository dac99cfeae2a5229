"""A LoRA start along the principal directions of the features that carry each module's gradient."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, one_of
from porism.errors import NumericalWarning
from porism.results import Result
from porism.sims.alignment._adapters import Adapter, disabled, find_adapters, write
from porism.sims.alignment._choice import Choice, choose, subspace
from porism.sims.alignment.features import Features, collect_features
from porism.sims.hooks import is_mapping
from porism.theory.alignment.subspace import Subspace

__all__ = ["InitReport", "init_pivot_lora"]

NORMS = {"orthonormal": 1.0, "kaiming": 3.0**-0.5}  # length of the rows of A
CHANGED_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")  # starts that subtract themselves from W


@dataclasses.dataclass(frozen=True, eq=False)
class InitReport(Result):
    """What `init_pivot_lora` wrote into each module.

    Parameters
    ----------
    module : str array of shape (k,)
        Full names of the adapted modules.
    rule : str array of shape (k,)
        Which features were used: "target", "attention" or "all".
    reason : str array of shape (k,)
        Why, in words.
    r, d : int64 arrays of shape (k,)
        Rank of the adapter and number of input features.
    rows : int64 array of shape (k,)
        Feature rows that the directions come from.
    explained : float64 array of shape (k,)
        Share of the variance of the rows within the new row space of A, in [0, 1] (of their squared lengths,
        where they are not centred); NaN without variance.
    n_random : int64 array of shape (k,)
        Rows of A that the features do not determine; these are random.
    adapter_name, match_norm, center : str, str and bool or None
        As asked for.
    n_seen, n_dropped : int
        Samples used, and left out.
    centred : bool array of shape (k,), or None
        Whether the mean was taken off; None in older files, where `center` says it.

    Examples
    --------
    >>> one = np.array([1])
    >>> InitReport(*(np.array(["a"]),) * 3, 2 * one, 8 * one, 9 * one, np.array([0.5]), one).summary()
    "adapter 'default': 1 modules from 0 samples, target rows 0, pooled 0, all tokens 0; 1 of 2 rows random"
    """

    module: NDArray[np.str_]
    rule: NDArray[np.str_]
    reason: NDArray[np.str_]
    r: NDArray[np.int64]
    d: NDArray[np.int64]
    rows: NDArray[np.int64]
    explained: NDArray[np.float64]
    n_random: NDArray[np.int64]
    adapter_name: str = "default"
    match_norm: str = "orthonormal"
    n_seen: int = 0
    n_dropped: int = 0
    center: bool | None = True
    centred: NDArray[np.bool_] | None = None

    def summary(self) -> str:
        """Say in one line what was done.

        Returns
        -------
        str
            Modules, samples, modules a rule, and random rows.
        """
        count = {rule: int((self.rule == rule).sum()) for rule in ("target", "attention", "all")}
        return (
            f"adapter {self.adapter_name!r}: {len(self.module)} modules from {self.n_seen} samples, "
            f"target rows {count['target']}, pooled {count['attention']}, all tokens {count['all']}; "
            f"{int(self.n_random.sum())} of {int(self.r.sum())} rows random"
        )


def init_pivot_lora(
    peft_model: Any,
    batches: Iterable[Any],
    *,
    adapter_name: str = "default",
    position: str | Callable[[Any], Any] = "cls",
    pooling: str = "auto",
    match_norm: str = "orthonormal",
    center: bool | None = None,
    measure: bool = True,
    labels_key: str | None = "labels",
    max_rows: int | None = None,
    mask_token_id: int | None = None,
    overwrite: bool = False,
    on_degenerate: str = "warn",
    random_state: np.random.Generator | int | None = None,
) -> InitReport:
    """Start LoRA at the principal directions of each module's features: one line after `get_peft_model`.

    ``A = c P`` with P the (r, d) orthonormal rows of :func:`principal_subspace` of the rows that
    :func:`collect_features` gives without adapters, and ``B = 0``. Base weights are read by the forward pass
    and never written, so to disable, switch, merge or save the adapter works as in plain LoRA.

    Parameters
    ----------
    peft_model : torch.nn.Module
        Model with LoRA of linear layers (quantised ones and Conv1D included), as ``get_peft_model`` gives
        with ``init_lora_weights=True``.
    batches : iterable
        As in :func:`collect_features`; with `measure` they are kept and run four times. Labels give the
        classes and tell which samples to leave out; real-valued ones do neither.
    adapter_name : str, default "default"
        Adapter to start; others are left alone, and are switched off while features are read.
    position : {"cls", "last", "mask"} or callable
        Target of each sample, as in :func:`collect_features`.
    pooling : {"auto", "target", "attention", "all"}
        Which rows to use, as in :func:`collect_features`; "auto" is refined by `measure`.
    match_norm : {"orthonormal", "kaiming"}
        Length of each row of A: 1, or ``1/sqrt(3)``, so that the mean of ``||A||_F^2`` is that of peft's own
        start. A random orthonormal A has three times the energy of peft's start before any direction counts.
    center : bool, optional
        Whether the mean of the rows is taken off before. False lets the mean direction in, which often has
        most of the first gradient but is the same for all samples: it acts as a bias. None: what is measured,
        and True where nothing is.
    measure : bool, default True
        With ``pooling="auto"`` and classes in the batches: whether each module takes the rows (by its kind,
        of the target, of all tokens; centred or not) with the largest first-step energy ``|G A'|_F^2``, which
        a backward pass gives. False: the rule by kind, from a forward pass only.
    labels_key : str or None, default "labels"
        Entry of a batch that the model does not get; None: the batch goes to the model whole.
    max_rows : int, optional
        Bound on rows a module.
    mask_token_id : int, optional
        Token of position "mask".
    overwrite : bool, default False
        Whether an adapter with ``B != 0`` may be discarded.
    on_degenerate : {"warn", "raise"}
        What happens where features have fewer directions than the rank: random orthonormal rows complete A
        and one warning names the modules, or an error before anything is changed.
    random_state : Generator, int or None
        Draws those rows, and the subset of `max_rows`.

    Returns
    -------
    InitReport
        Rule, rows, share of variance and random rows of each module.

    Raises
    ------
    TypeError
        If the model has no adapters.
    ValueError
        If an argument or the features are out of range, a rank exceeds its layer's inputs, or features are
        degenerate with ``on_degenerate="raise"``.
    NotImplementedError
        If the adapter holds an embedding, a convolution, a multi-head attention, AdaLoRA, another variant of
        LoRA than DoRA and aLoRA, or sharded parameters.
    RuntimeError
        If the adapter is trained, merged or tied, or its start has changed the base weights.
    MissingExtraError
        If torch or peft is not installed.

    Warns
    -----
    NumericalWarning
        Once, if rows are random.

    Notes
    -----
    All refusals come before the first write. A and B stay the same Parameter objects and keep their types, so
    that an optimiser built before remains valid; its moments are not touched. Memory: the features of all
    modules at once, ``rows d`` numbers each, shared where modules have the same input.

    G is measured on the batches themselves, since the first step is taken on them: for a classifier it is
    the gradient of its own loss, else that under random heads on the output at the target. It is
    differentiated to the outputs of the modules only, so weights may be quantised. Rows that leave directions
    open do not stand for election. Where there is nothing to measure, `reason` says so.

    References
    ----------
    DK-7, DK-9, DK-15 and DK-16 (reconstruction).

    Examples
    --------
    >>> model = get_peft_model(base, LoraConfig(r=8, target_modules=["query", "value"]))  # doctest: +SKIP
    >>> init_pivot_lora(model, few_batches).summary()  # doctest: +SKIP
    "adapter 'default': 24 modules from 32 samples, target rows 11, pooled 12, all tokens 1; 0 of 192 ..."
    """
    one_of("match_norm", match_norm, NORMS)
    one_of("on_degenerate", on_degenerate, ("warn", "raise"))
    if center is not None and not isinstance(center, bool):
        raise TypeError(f"center must be a bool, got {type(center).__name__}; pass True or False, or None")
    if not isinstance(measure, bool):
        raise TypeError(f"measure must be a bool, got {type(measure).__name__}; pass True or False")
    rng = generator(random_state, "random_state")
    adapters = find_adapters(peft_model, adapter_name, "initialising")
    _refuse(peft_model, adapters, adapter_name, overwrite)
    measure = measure and pooling == "auto" and labels_key is not None
    given = batches if labels_key is None else _without_real_labels(batches, labels_key)
    given = list(given) if measure else given
    where: dict[str, Any] = {"position": position, "labels_key": labels_key, "mask_token_id": mask_token_id}
    names = [adapter.name for adapter in adapters]

    def collect(rule: str) -> dict[str, Features]:
        return collect_features(
            peft_model, given, names, pooling=rule, max_rows=max_rows, random_state=rng, **where
        )

    with disabled(peft_model):
        features = collect(pooling)
        chosen: dict[str, Choice] = {}
        if measure:
            features, chosen = choose(
                peft_model, given, adapters, features, collect, center, where, rng.spawn(1)[0]
            )
    centred = {name: chosen[name].center if name in chosen else center is not False for name in names}
    found = _subspaces(adapters, features, centred, on_degenerate, rng)
    for adapter in adapters:
        write(adapter.a, NORMS[match_norm] * found[adapter.name].basis)
        write(adapter.b, np.zeros(tuple(adapter.b.shape)))
        if adapter.bias is not None:
            write(adapter.bias, np.zeros(tuple(adapter.bias.shape)))
    return _report(adapters, features, found, adapter_name, match_norm, center, centred)


def _without_real_labels(batches: Any, labels_key: str) -> Iterator[Any]:
    """Targets of a regression are no classes, and not needed here."""
    for batch in [batches] if is_mapping(batches) else batches:
        if is_mapping(batch) and _is_real(batch.get(labels_key)):
            yield {key: batch[key] for key in batch.keys() if key != labels_key}  # noqa: SIM118
        elif isinstance(batch, (tuple, list)) and len(batch) == 2 and _is_real(batch[1]):
            yield batch[0]
        else:
            yield batch


def _is_real(labels: Any) -> bool:
    if hasattr(labels, "is_floating_point"):
        return bool(labels.is_floating_point())
    return np.asarray(labels).dtype.kind == "f"


def _refuse(model: Any, adapters: list[Adapter], adapter_name: str, overwrite: bool) -> None:
    config = getattr(model, "peft_config", {}).get(adapter_name)
    start = getattr(config, "init_lora_weights", True)
    if isinstance(start, str) and start.lower().startswith(CHANGED_BASE):
        raise RuntimeError(
            f"init_lora_weights={start!r} has changed the base weights, which only its own adapter undoes; "
            "build the adapter with init_lora_weights=True"
        )
    for adapter in adapters:
        if adapter.layer.merged:
            raise RuntimeError(
                f"adapter is merged; unmerge before initialising (module {adapter.name!r} holds "
                f"{', '.join(map(repr, adapter.layer.merged_adapters))})"
            )
        if adapter.r > adapter.d:
            raise ValueError(
                f"rank r={adapter.r} must be in 1..d={adapter.d}, the inputs of {adapter.name!r}; lower it "
                "in rank_pattern"
            )
        trained = bool((adapter.b != 0).any()) or (
            adapter.bias is not None and bool((adapter.bias != 0).any())
        )
        if trained and not overwrite:
            raise RuntimeError(
                f"init would discard a trained adapter: lora_B of {adapter.name!r} is not 0; pass "
                "overwrite=True to discard it, or build the adapter with init_lora_weights=True"
            )
        if trained and adapter.dora:
            raise NotImplementedError(
                f"module {adapter.name!r} has trained DoRA magnitudes; delete the adapter and add it anew"
            )


def _subspaces(
    adapters: list[Adapter],
    features: dict[str, Features],
    centred: dict[str, bool],
    on_degenerate: str,
    rng: np.random.Generator,
) -> dict[str, Subspace]:
    known: dict[tuple[int, int, bool], Subspace] = {}
    found: dict[str, Subspace] = {}
    for adapter, child in zip(adapters, rng.spawn(len(adapters)), strict=True):
        rows = features[adapter.name]
        key = (id(rows.x), adapter.r, centred[adapter.name])  # query, key and value share their rows
        if key not in known:
            known[key] = subspace(adapter, rows, centred[adapter.name], child)
        found[adapter.name] = known[key]
    short = [(a.name, found[a.name].n_random) for a in adapters if found[a.name].n_random]
    if short:
        names = ", ".join(f"{name!r} ({count})" for name, count in short[:4])
        text = (
            f"features of {len(short)} of {len(adapters)} modules have fewer directions than the rank: "
            f"{names}{', …' if len(short) > 4 else ''}"
        )
        if on_degenerate == "raise":
            raise ValueError(f"{text}; add samples, lower r, or use another position or pooling='auto'")
        warnings.warn(f"{text}; random orthonormal rows complete A", NumericalWarning, stacklevel=3)
    return found


def _report(
    adapters: list[Adapter],
    features: dict[str, Features],
    found: dict[str, Subspace],
    adapter_name: str,
    match_norm: str,
    center: bool | None,
    centred: dict[str, bool],
) -> InitReport:
    names = [adapter.name for adapter in adapters]
    first = features[names[0]]
    return InitReport(
        module=np.array(names),
        rule=np.array([features[name].rule for name in names]),
        reason=np.array([features[name].reason for name in names]),
        r=np.array([adapter.r for adapter in adapters], dtype=np.int64),
        d=np.array([adapter.d for adapter in adapters], dtype=np.int64),
        rows=np.array([len(features[name].x) for name in names], dtype=np.int64),
        explained=np.array([_explained(features[name], found[name], centred[name]) for name in names]),
        n_random=np.array([found[name].n_random for name in names], dtype=np.int64),
        adapter_name=adapter_name,
        match_norm=match_norm,
        center=center,
        n_seen=first.n_seen,
        n_dropped=first.n_dropped,
        centred=np.array([centred[name] for name in names]),
    )


def _explained(rows: Features, subspace: Subspace, center: bool) -> float:
    if subspace.rank == 0:
        return float("nan")
    x = rows.x.astype(np.float64)
    if center:
        x = x - x[0]
        x = x - x.mean(axis=0)
    total = float((x**2).sum()) / (len(x) - 1)
    return min(1.0, float(subspace.eigenvalues.sum()) / total)
