"""One pass of a model over data, from which every aspect of a diagnosis is taken."""

import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from porism import _models
from porism.checks import integer, one_of, require
from porism.sims import hooks
from porism.sims._batches import POSITIONS
from porism.sims.alignment.report import judge_features
from porism.sims.diagnose import _data, _load
from porism.sims.diagnose._batches import Labels, Seen, see
from porism.sims.diagnose._capacity import Capacity
from porism.sims.diagnose._causal import read_or_try
from porism.sims.diagnose._heads import Heads
from porism.sims.diagnose._pass import OnePass
from porism.sims.diagnose._ranks import Ranks
from porism.sims.diagnose._rho import Rho, can_judge
from porism.sims.diagnose.result import Diagnosis
from porism.theory.lora_spectrum.adapters import adapter_spectra
from porism.theory.token_capacity import coverage, min_positions

__all__ = ["ASPECTS", "diagnose"]

ASPECTS = ("capacity", "heads", "ranks", "alignment", "lora")
"""What a diagnosis can look at."""


def diagnose(
    model: Any,
    batches: Any,
    *,
    labels: Any = None,
    tokenizer: Any = None,
    base: str | os.PathLike[str] | None = None,
    aspects: str | Iterable[str] = "all",
    layers: Any = "all",
    modules: Any = None,
    rank: int = 8,
    min_gain: float = 0.02,
    position: str | Callable[[Any], Any] = "auto",
    eps: float = 0.1,
    ridge: float = 1e-2,
    causal: bool | None = None,
    masks: Any = "default",
    null: str = "rows",
    n_null: int = 99,
    strip_sinks: int = 0,
    scan_samples: int | None = 64,
    max_rows: int = 4096,
    max_bytes: int = 2_000_000_000,
    batch_size: int = 16,
    max_tokens: int = 128,
    random_state: int | None = 0,
    progress: bool = False,
) -> Diagnosis:
    """Diagnose a model from one streaming pass over data.

    Positions that carry a gradient (:func:`choose_positions`, by layer), patterns of all attention heads with
    effect and p-value (:func:`scan_attention`, pooled over sequences), effective ranks of hidden states, rho
    of modules with a recommendation where there are labels (:func:`alignment_report`), and spectra of
    adapters.

    Parameters
    ----------
    model : torch.nn.Module or path
        A transformers model, a PeftModel or a tiny transformer; or the folder of a checkpoint or of a saved
        adapter. Names are never looked up on a hub.
    batches : iterable of batches, list or array of str, or path
        Mappings of what the model takes, tensors for its first argument, or pairs (inputs, labels); padding
        on either side is told by attention_mask or key_mask. Sentences or a file need a tokenizer for words:
        text with one sentence a line, csv with the columns text and label, npz with input_ids (N, T).
    labels : array_like, path or str, optional
        One class a sample in the order of the data, ints (-100 leaves a sample out) or names; or a file with
        one a line, or the column of a csv. By default what the batches hold as "labels", (B,), or the csv's
        column label.
    tokenizer : callable, optional
        Turns sentences into ids, as those of transformers do; that of the folder by default.
    base : path, optional
        Folder of the base model, where `model` is the folder of an adapter that does not say it.
    aspects : "all" or iterable of {"capacity", "heads", "ranks", "alignment", "lora"}
        What to look at.
    layers : "all" or list of str, default "all"
        Linear maps for the capacity, as in :func:`choose_positions`.
    modules : str or iterable of str, optional
        Linear maps for the alignment, as in :func:`collect_features`; by default queries, values, fused
        projections and the first map of each MLP.
    rank : int, default 8
        Rank of the adapters whose start is judged, >= 1.
    min_gain : float, default 0.02
        Smallest predicted gain in accuracy that counts.
    position : "auto", "cls", "last", "mask" or callable
        Token that the task reads, as in :func:`collect_features`; "auto" is "last" in causal models, else
        "cls".
    eps, ridge
        As in :func:`choose_positions`.
    causal : bool, optional
        Whether attention hides later tokens; by default read from the attention modules or, where they do
        not tell, tried out on a row of the first batch: do earlier states move with later tokens?
    masks, null, n_null, strip_sinks
        As in :func:`scan_attention`, with every order "none".
    scan_samples : int or None, default 64
        Sequences whose heads are measured, >= 1, the first of each batch, spread over the batches where their
        number is known; None for all.
    max_rows : int, default 4096
        Rows of features kept for each module, >= 1, a uniform sample.
    max_bytes : int, default 2_000_000_000
        Memory for the moments of the capacity, and again for those of the ranks; above it inputs are
        projected to fewer dimensions, and a note says so.
    batch_size, max_tokens : int, default 16 and 128
        For sentences and files: sequences in a batch, and tokens after which one is cut.
    random_state : int or None, default 0
        Seed of shuffles, folds and samples of rows.
    progress : bool, default False
        Whether to show bars.

    Returns
    -------
    Diagnosis
        All aspects; one that could not be had is None, and a note says why.

    Raises
    ------
    MissingExtraError
        If torch is not installed, or for a folder transformers.
    NotImplementedError
        If the model is an encoder-decoder, has cross-attention or a prompt adapter, or is compiled.
    TypeError
        If an argument has the wrong type.
    ValueError
        If a folder or file cannot be read, an option is out of range, there is no batch, a value is not
        finite, or labels do not fit.

    Notes
    -----
    Every batch runs once (a row of the first twice more, to try out `causal`), in evaluation mode without
    gradients. Hooks of all aspects see the same pass, and each activation is dropped when its layer has run
    but for the rows that wait for the end of the batch. Where weights of attention are asked for,
    transformers models run with eager attention. Modes, hooks, slots and configurations are as before
    afterwards, also after an exception.

    Peak memory beside the model, in bytes, does not grow with the number of batches. With L watched maps of
    width d, P <= 64 bins of positions, D blocks, H heads, V modules of rho, batches of B rows and T tokens:

    - capacity ``8 L P d^2``, twice that while rows get longer (at most `max_bytes` together), and the rows of
      one batch or ``8 L P d^2``, whichever is less;
    - ranks ``8 (D + 1) d^2``;
    - heads ``4 B H T^2`` for the maps of one layer, 64 MB for shuffled maps, ``8 D H M n_null`` for M masks;
    - alignment ``4 d (max_rows + B T)`` for each distinct input, at most V;
    - after the pass, about ``6 * 8 P d^2`` for the curve of one layer.

    Heads: for each mask the mean over sequences of the mass outside is compared with the same mean of
    shuffled maps, ``effect = 1 - mean / mean of nulls``; for one sequence this is the separate scan.

    References
    ----------
    TC-6, PD-17 to PD-19, DK-15 to DK-20 (reconstructions).

    Examples
    --------
    >>> from porism import diagnose
    >>> found = diagnose(model, batches, labels=labels)  # doctest: +SKIP
    >>> print(found.summary())  # doctest: +SKIP
    >>> found.to_html("page.html")  # doctest: +SKIP
    """
    torch = require("torch", "torch")
    wanted = _wanted(aspects)
    _check(eps, ridge, min_gain, position, causal)
    numbers = {"rank": rank, "n_null": n_null, "max_rows": max_rows, "max_bytes": max_bytes}
    for name, value in (numbers | {"batch_size": batch_size, "max_tokens": max_tokens}).items():
        integer(name, value, 2 if name == "max_tokens" else 1)
    integer("strip_sinks", strip_sinks, 0)
    most = None if scan_samples is None else integer("scan_samples", scan_samples, 1)
    seed = None if random_state is None else integer("random_state", random_state, 0)

    source, labels = _data.opened(batches, labels)
    words = _data.is_words(source)
    model, tokenizer = _load.resolve(model, tokenizer, base, words)
    if words or isinstance(source, _data.Data):
        source = _data.batches_of(source, model, tokenizer, batch_size, max_tokens)
    elif hooks.is_mapping(source) or isinstance(source, torch.Tensor):
        source = [source]
    elif not isinstance(source, Iterable):
        raise TypeError(f"batches must be an iterable, got {type(source).__name__}; pass a list of batches")
    _models.refuse(model)
    try:
        count = len(source)
    except TypeError:  # a generator, or a loader of an iterable data set
        count = None
    tried: list[str] = []
    if causal is None and ("capacity" in wanted or position == "auto"):
        source = iter(source)
        head = list(itertools.islice(source, 1))
        causal, tried = read_or_try(model, head[0] if head else None)
        source = itertools.chain(head, source)
    place = ("last" if causal else "cls") if position == "auto" else position
    mapped = "alignment" not in wanted or wanted != set(ASPECTS) or can_judge(model, modules)
    judged = "alignment" in wanted and mapped
    given = Labels(labels) if judged and labels is not None else None

    def read(raw: Any, first: int) -> Seen:
        key = "labels" if judged and given is None else None
        return see(model, raw, first, given, key, place, _mask_token(model, tokenizer))

    def rho() -> Rho:
        return Rho(model, modules, rank, max_rows, seed)

    named = not isinstance(layers, str) or layers != "all"
    known = named or wanted != set(ASPECTS) or bool(_models.known_maps(model))
    options: dict[str, Any] = {"null": null, "n_null": n_null, "strip_sinks": strip_sinks}
    one = OnePass(
        Capacity(model, layers, bool(causal), max_bytes) if "capacity" in wanted and known else None,
        Heads(masks, most, count, random_state=seed, **options) if "heads" in wanted else None,
        Ranks(model, max_bytes) if "ranks" in wanted else None,
        rho if judged else None,
    )
    one.run(model, source, count, read, progress)
    if given is not None:
        given.done(one.samples)
    found = one.judge(eps, ridge, min_gain, place, progress)
    report, more = found["alignment"] or (None, [])
    spectra = adapter_spectra(model) if "lora" in wanted else {}
    notes = [] if known else ["no capacity: no query and no MLP of the model is known; pass layers"]
    notes += [*tried, *_head_notes(one, found["heads"], causal), *_rank_notes(one, found["ranks"]), *more]
    if not mapped:
        notes.append("no alignment: no query, value or MLP of the model is known; pass modules")
    elif judged and one.rho is None:
        notes.append("no alignment: there are no labels of one class a sample")
    notes += [
        f"the spectrum of {name} is of BA before DoRA rescales" for name, s in spectra.items() if s.dora
    ]
    return Diagnosis(
        type(model).__name__,
        one.samples,
        one.tokens,
        one.batches,
        one.heads.n_sequences if one.heads is not None else None,
        None if causal is None else bool(causal),
        found["capacity"],
        found["heads"],
        found["ranks"],
        report,
        spectra,
        () if given is None else given.classes,
        tuple(notes),
        one.seconds,
    )


def _wanted(aspects: Any) -> set[str]:
    if not isinstance(aspects, Iterable):
        raise TypeError(f"aspects must be names, got {type(aspects).__name__}; pass 'all' or a list")
    names = [aspects] if isinstance(aspects, str) else list(aspects)
    found = {one_of("aspects", name, ("all", *ASPECTS)) for name in names}
    if not found:
        raise ValueError(f"aspects must name at least one of {', '.join(ASPECTS)}, got none; pass 'all'")
    return set(ASPECTS) if "all" in found else found


def _check(eps: Any, ridge: Any, min_gain: Any, position: Any, causal: Any) -> None:
    """Refuse before the pass what would be refused after it."""
    min_positions([1.0], eps)
    coverage(np.ones((1, 1, 1)), [0], ridge=ridge)
    judge_features({}, 1, np.random.default_rng(0), min_gain=min_gain)
    if not callable(position):
        one_of("position", position, ("auto", *POSITIONS))
    if causal is not None and not isinstance(causal, (bool, np.bool_)):
        raise TypeError(f"causal must be True, False or None, got {causal!r}; pass a bool")


def _mask_token(model: Any, tokenizer: Any) -> Any:
    own = getattr(getattr(model, "config", None), "mask_token_id", None)
    return getattr(tokenizer, "mask_token_id", None) if own is None else own


def _head_notes(one: OnePass, records: Any, causal: bool | None) -> list[str]:
    heads = one.heads
    if heads is None:
        return []
    if records is None:
        none = "attention gives no maps of shape (B, H, T, T) here, also with eager attention"
        other = "no module named ...Attention returns weights of shape (B, H, T, T)"
        short = "sequences are too short for the masks"
        why = short if heads.n_sequences else none if heads.watch.saw_none else other
        return [f"no patterns of heads: {why}"]
    notes = []
    if causal is not None and bool(causal) != records.causal:
        seen = "no head sees later tokens" if records.causal else "heads see later tokens"
        notes.append(f"{seen}, but causal={bool(causal)} was read or passed: pass causal={records.causal}")
    if heads.n_sequences < one.samples:
        notes.append(f"heads were measured on {heads.n_sequences} of {one.samples} sequences")
    if heads.content_unstripped:
        names = ", ".join(sorted(heads.content_unstripped))
        notes.append(f"content masks ({names}) were tested with the sinks in place: pass strip_sinks=4 or so")
    if records.n_null < 99:
        notes.append(f"{records.n_null} shuffles allow no p-value below {1 / (records.n_null + 1):.2g}")
    return notes


def _rank_notes(one: OnePass, hidden: Any) -> list[str]:
    if one.ranks is None:
        return []
    if hidden is None:
        return ["no ranks of hidden states: no list of blocks was found whose states are (B, T, d)"]
    notes, width = [], int(hidden.dim.max())
    if hidden.n_tokens < width:
        notes.append(f"only {hidden.n_tokens} tokens for {width} dimensions: ranks are low for it")
    if hidden.sketched:
        notes.append("hidden states were projected to keep memory: their ranks are biased low")
    return notes
