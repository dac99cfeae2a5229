"""Features of a model's linear layers at the positions where their gradients live, from one forward pass."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer, one_of, require
from porism.results import Result
from porism.sims import hooks
from porism.sims._batches import POSITIONS, read_batch
from porism.sims.alignment import _pooling
from porism.sims.alignment._hooks import AUTO, Recorder, Track, default_modules, select
from porism.theory.alignment import is_constant, sample_means

__all__ = ["FeatureCollector", "Features", "collect_features"]

POOLING = ("auto", "target", "attention", "all")


@dataclasses.dataclass(frozen=True, eq=False)
class Features(Result):
    """Inputs of one module: rows of features, which sample each belongs to, and its class.

    Parameters
    ----------
    x : float32 or float64 array, shape (rows, d)
        Features in the units of the model; float16 and bfloat16 come as float32. One row a sample for rule
        "target", one a sample and head (samples outermost) for "attention", one a token for "all".
    y : int64 array, shape (rows,), or None
        Class of each row; None where batches have no label a sample.
    n_seen : int
        Samples that the rows were taken from, before any reservoir.
    n_dropped : int, default 0
        Samples left out: label -100, or position -1.
    sample : int64 array, shape (rows,), or None
        Number of the sample of each row, counted over all batches from 0; None: one row a sample.
    rule : {"target", "attention", "all"}
        Rule that was used.
    reason : str
        Why this rule, in words.
    input_eps : float
        Machine epsilon of the type that the model computed in.
    module : str
        Full name of the module.

    Examples
    --------
    >>> found = Features(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]), 2, sample=np.array([0, 0, 1]))
    >>> found.per_sample().x.ravel(), found.constant
    (array([1., 5.]), False)
    """

    x: NDArray[Any]
    y: NDArray[np.int64] | None
    n_seen: int
    n_dropped: int = 0
    sample: NDArray[np.int64] | None = None
    rule: str = "target"
    reason: str = ""
    input_eps: float = 2.0**-52
    module: str = ""

    @property
    def constant(self) -> bool:
        """Whether all rows are equal, up to jitter in the last digit of the model's type."""
        return bool(np.isfinite(self.x).all()) and is_constant(self.x, self.input_eps)

    def per_sample(self) -> Self:
        """One row a sample: the mean of its rows.

        Returns
        -------
        Features
            The same where there is one row a sample already.
        """
        if self.sample is None:
            return self
        x, first, _ = sample_means(self.x, self.sample)
        if len(x) == len(self.x):
            return self
        y = None if self.y is None else self.y[first]
        return dataclasses.replace(self, x=x, y=y, sample=self.sample[first])


class FeatureCollector(Recorder):
    """Reads the inputs of modules batch by batch, for whoever runs the model; see :func:`collect_features`.

    Parameters
    ----------
    model : torch.nn.Module
        The model.
    modules : str, iterable of str or None
        As in :func:`collect_features`; None: queries or fused projections, values, and the first map of each
        MLP, as far as their names are known.
    pooling, max_rows, random_state
        As in :func:`collect_features`.

    Attributes
    ----------
    tracks : dict
        What is collected, by full name of the module.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        If modules are not found, or not of a kind whose inputs are features.

    Examples
    --------
    >>> collector = FeatureCollector(model, ["query"])  # doctest: +SKIP
    >>> with collector.watching(model):  # doctest: +SKIP
    ...     collector.start(batch)
    ...     model(**batch.inputs)
    ...     collector.finish()
    >>> collector.features()  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        modules: str | Iterable[str] | None,
        *,
        pooling: str = "auto",
        max_rows: int | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        names = default_modules(model) if modules is None else select(model, modules)
        super().__init__([_track(name, pooling) for name in names], max_rows, _entropy(random_state))
        self.n_seen = self.n_dropped = 0

    def start(self, batch: Any) -> None:
        """Say which batch runs next.

        Parameters
        ----------
        batch : object
            A batch taken apart, as :func:`collect_features` does it.
        """
        super().start(batch)
        kept = int(batch.kept.sum())
        self.n_seen += kept
        self.n_dropped += batch.size - kept

    def features(self) -> dict[str, Features]:
        """What has been collected.

        Returns
        -------
        dict of str to Features
            By full name; modules with the same input share their arrays.

        Raises
        ------
        ValueError
            If a module never ran, or its features are not finite.
        """
        return {name: self._features(track) for name, track in self.tracks.items()}

    def _features(self, track: Track) -> Features:
        if not track.calls:
            raise ValueError(
                f"module {track.name!r} never ran on these batches; leave it out of modules, or name the "
                "layer that the model calls"
            )
        rule = track.settle()
        rows = self.merged(track.chunks[rule])
        finite = np.isfinite(rows.x)
        if not finite.all():
            raise ValueError(
                f"features of {track.name!r} contain {int((~finite).sum())} non-finite values "
                f"(first at row {int(np.argmin(finite.all(axis=1)))}); rho is undefined, and so is a "
                "principal subspace: look for overflow in the model or in its inputs"
            )
        counts = self.n_seen, self.n_dropped
        return Features(rows.x, rows.y, *counts, rows.sample, rule, track.reason, track.eps, track.name)


def collect_features(
    model: Any,
    batches: Iterable[Any],
    modules: str | Iterable[str],
    *,
    position: str | Callable[[Any], Any] = "cls",
    labels_key: str | None = "labels",
    pooling: str = "auto",
    max_rows: int | None = None,
    mask_token_id: int | None = None,
    random_state: int | np.random.Generator | None = None,
) -> dict[str, Features]:
    """Read the inputs of linear layers at the target token, at all tokens, or pooled by attention.

    Which rule is right follows from the gradient ``G = sum_i sum_t g_it x_it'`` of a head on the target
    token: in the last block it lives on the target for query, attention-output and feed-forward layers; for
    the values of head h, ``G_h = sum_i g_ih (sum_t a_iht x_it)'``, on what the target's attention pools; for
    keys, on all tokens.

    Parameters
    ----------
    model : torch.nn.Module
        A model of torch or transformers, a peft model (whose adapters are as they are), or a
        `TinyTransformer`.
    batches : iterable
        Mappings of what the model takes as keywords, such as a data loader gives; or tensors; or pairs
        (inputs, labels). Each is used once and stays on its device.
    modules : str or iterable of str
        Linear maps: a text is a regular expression for full names, such as ``".*query"``; a list holds names
        and ends of names, such as ``["query"]``. Other modules that match beside linear maps are left out.
    position : {"cls", "last", "mask"} or callable
        Target of each sample: its first token, its last one (padding on either side is told by
        attention_mask or key_mask), its one mask token, or ``position(inputs) -> (B,)`` ints, -1 to leave a
        sample out.
    labels_key : str or None, default "labels"
        Entry with one integer class a sample, shape (B,); it is not handed to the model. Samples of label
        -100 are left out. Labels of shape (B, T) are no classes and give ``y=None``. None: the batch goes to
        the model whole.
    pooling : {"auto", "target", "attention", "all"}
        Rule for all modules; "auto" goes by the end of the name: "attention" for values and for query, key
        and value in one matrix (without attention weights: "all"), "all" for keys, else "target", and "all"
        too where the target's input is the same for every sample, as [CLS] in a first block.
    max_rows : int, optional
        Keep a uniform random subset of so many rows a module, >= 1; whole samples where heads are rows.
    mask_token_id : int, optional
        Token of position "mask"; by default what the model's configuration says.
    random_state : int, Generator or None
        Seed of that subset. It depends on the numbers of samples, not on the batches they came in.

    Returns
    -------
    dict of str to Features
        By full name, in the order of `modules`. Modules with the same input share their arrays.

    Raises
    ------
    TypeError
        If labels are not integers, or model, batches or names are of the wrong kind.
    ValueError
        If no module or token is found, lengths differ, features are not finite, there are no samples, or
        "attention" is asked for without maps.
    NotImplementedError
        If names lead to modules none of which is linear, such as embeddings or convolutions.
    MissingExtraError
        If torch is not installed.

    Notes
    -----
    One pass in evaluation mode without gradients; hooks are removed and modes restored, also after an
    exception. Attention weights need ``attn_implementation="eager"`` in transformers. A module called
    several times gives rows of each call. Memory: ``rows d`` numbers for each distinct input and rule, one
    pending input for each value layer during a pass; until a target's input varies its tokens are kept too.

    References
    ----------
    DK-7, DK-15 and DK-16 (reconstruction).

    Examples
    --------
    >>> found = collect_features(model, loader, ["query", "value"])  # doctest: +SKIP
    >>> {name: (f.rule, f.x.shape) for name, f in found.items()}  # doctest: +SKIP
    {'encoder.layer.0.attention.self.query': ('all', (1931, 384)),
     'encoder.layer.0.attention.self.value': ('attention', (768, 384))}
    """
    torch = require("torch", "torch")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}; pass the model object")
    if not callable(position):
        one_of("position", position, POSITIONS)
    one_of("pooling", pooling, POOLING)
    if max_rows is not None:
        integer("max_rows", max_rows, 1)
    if mask_token_id is None:
        mask_token_id = getattr(getattr(model, "config", None), "mask_token_id", None)
    options: dict[str, Any] = {"pooling": pooling, "max_rows": max_rows, "random_state": random_state}
    collector = FeatureCollector(model, modules, **options)
    first = 0
    labelled: bool | None = None
    with hooks.evaluation(model), collector.watching(model):
        for number, raw in enumerate([batches] if hooks.is_mapping(batches) else batches):
            batch = read_batch(raw, position, labels_key, mask_token_id, first)
            if labelled is not None and labelled != (batch.y is not None):
                raise ValueError(
                    f"batches must all have labels {labels_key!r} of one class a sample, or none; "
                    f"batch {number} differs from those before"
                )
            labelled = batch.y is not None
            collector.start(batch)
            hooks.call(model, batch.inputs)
            collector.finish()
            first += batch.size
    if labelled is None:
        raise ValueError("batches must hold at least one batch, got none; a used-up iterator gives none")
    if not collector.n_seen:
        raise ValueError(f"batches must hold samples, got {first} that are all left out (label -100 or -1)")
    return collector.features()


def _track(name: str, pooling: str) -> Track:
    if pooling != "auto":
        return Track(name, pooling, False, "as asked for")
    kind = _pooling.role(name)
    reason = f"a {kind} projection" if kind != "other" else "neither a key nor a value projection"
    return Track(name, AUTO[kind], True, reason, spare=AUTO[kind] == "target")


def _entropy(random_state: int | np.random.Generator | None) -> int:
    if random_state is None or isinstance(random_state, np.random.Generator):
        return int(generator(random_state, "random_state").integers(1 << 62))
    return integer("random_state", random_state, 0)
