"""Record every coalition that an OpenDataVal sampler or evaluator trains a model on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from porism.sims.partition.adapters._rows import build_table, mask_of, prefix_units

if TYPE_CHECKING:
    from porism.theory.partition import SmallCoalitions, UtilityTable

__all__ = ["Recording", "record"]

PERMUTATION_SAMPLERS = ("MonteCarloSampler", "TMCSampler", "GrTMCSampler")
DESIGNS = {"DataBanzhaf": "uniform", "BaggingEvaluator": "msr"}


@dataclass
class _Game:
    """Rows of one utility function."""

    n: int
    masks: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


def record(target: Any) -> "Recording":
    """Listen to an OpenDataVal sampler or data evaluator before it trains.

    OpenDataVal keeps sums of marginal contributions by size and never the coalitions. A sampler is heard
    through ``set_evaluator``; evaluators without a sampler (``DataBanzhaf``, ``LeaveOneOut``,
    ``InfluenceSubsample``, ``BaggingEvaluator``) through ``fit`` of the model's clones, whose ``Subset``
    carries the indices, and ``evaluate``. The estimates of OpenDataVal do not change.

    Parameters
    ----------
    target : Sampler or DataEvaluator
        What to listen to; of an evaluator with a sampler (``DataShapley``, ``BetaShapley``, …), its sampler.

    Returns
    -------
    Recording
        Fills while the target trains; it can be used as a context manager, which stops it at the end.

    Raises
    ------
    TypeError
        If ``target`` is neither, or keeps its coalitions itself (``AME``), or has no coalitions.

    Notes
    -----
    - ``min_cardinality`` is 5 by default: smaller coalitions are never evaluated; see
      :meth:`Recording.small`.
    - Samplers stop a permutation after ten increments in a row that are small *relative to the sum of
      the increments so far*, and count zeros for the rest. While that sum is negative, every increment
      passes as small, however large. Tables of such runs are marked truncated.
    - Samplers answer from a class-wide cache keyed by ``cache_name``, by default the ``id`` of the sampler,
      which Python gives again to a later one: pass ``cache_name=None``.
    - ``DataBanzhaf`` skips a draw if ``not subset.any()`` of the *indices*: the empty set, and also {0}.
      ``BaggingEvaluator`` does the same and enters the score 0.
    - ``DataBanzhafMargContrib`` weights size j by C(n, j) in place of C(n-1, j), so its values are those
      of another semivalue, p_j = n / ((n-j) (2^n - 1)).

    References
    ----------
    OpenDataVal 1.3, ``opendataval.dataval.margcontrib``; Jiang et al. (2023), OpenDataVal, NeurIPS datasets.

    Examples
    --------
    >>> class Sampler:
    ...     def set_evaluator(self, function): self.compute_utility = function
    >>> sampler = Sampler(); recording = record(sampler)
    >>> sampler.set_evaluator(len); _ = sampler.compute_utility([0, 2])
    >>> recording.n_rows
    1
    """
    if not hasattr(target, "set_evaluator") and hasattr(getattr(target, "sampler", None), "set_evaluator"):
        target = target.sampler
    if hasattr(target, "set_evaluator"):
        return Recording(target, _listen_to_sampler)
    if any(base.__name__ == "AME" for base in type(target).__mro__):
        raise TypeError(
            "target must not be AME, got one: it keeps its coalitions itself in .subsets and .performance; "
            "drop the rows whose subset is empty or {0} (never evaluated, entered as 0) and use "
            "UtilityTable.from_samples"
        )
    if all(hasattr(target, name) for name in ("train_data_values", "evaluate", "input_model")):
        return Recording(target, _listen_to_evaluator)
    raise TypeError(
        f"target must be an OpenDataVal sampler, or an evaluator that trains a model on subsets, got "
        f"{type(target).__name__}; pass e.g. DataShapley(...).sampler or DataBanzhaf(...)"
    )


class Recording:
    """What :func:`record` heard: coalitions, scores, and how they came about.

    Parameters
    ----------
    target : Sampler or DataEvaluator
        What is listened to.
    listen : callable
        Puts the hooks in place and returns a function that removes them.

    Attributes
    ----------
    min_cardinality : int
        Size of the smallest coalition the sampler evaluates; 0 without a sampler.
    design : str
        Law of the coalitions: "permutation" for OpenDataVal's samplers, "uniform" for ``DataBanzhaf``,
        "msr" for ``BaggingEvaluator``, "unknown" otherwise.

    Notes
    -----
    ``ClassWiseShapley`` hands its sampler one utility a class, each with players of its own: they are kept
    apart as games 0, 1, …. Memory: a Python integer of n bits and a float a row.

    References
    ----------
    OpenDataVal 1.3.

    Examples
    --------
    >>> class Sampler:
    ...     def set_evaluator(self, function): self.compute_utility = function
    >>> with record(sampler := Sampler()) as recording:
    ...     sampler.set_evaluator(len)
    >>> recording.n_rows
    0
    """

    def __init__(self, target: Any, listen: Callable[["Recording"], Callable[[], None]]) -> None:
        self.target = target
        self.min_cardinality = int(getattr(target, "min_cardinality", 0))
        names = [base.__name__ for base in type(target).__mro__]
        known = dict.fromkeys(PERMUTATION_SAMPLERS, "permutation") | DESIGNS
        self.design = next((known[name] for name in names if name in known), "unknown")
        self.games: list[_Game] = []
        self.drawn = 0  # coalitions an evaluator drew, evaluated or not
        self._unhook: Callable[[], None] | None = listen(self)

    @property
    def n_rows(self) -> int:
        """Number of evaluations recorded."""
        return sum(len(game.masks) for game in self.games)

    @property
    def dropped(self) -> int:
        """Draws that were skipped (by ``DataBanzhaf`` and ``BaggingEvaluator``: the empty set and {0})."""
        return self.drawn - self.n_rows if self.drawn else 0

    def stop(self) -> None:
        """Remove the hooks; what was recorded stays."""
        if self._unhook is not None:
            self._unhook()
        self._unhook = None

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def small(
        self, values: str = "range", bounds: tuple[float, float] | None = None
    ) -> "SmallCoalitions | None":
        """The small coalitions that were never evaluated, for ``certify_partition(..., small=...)``.

        Parameters
        ----------
        values : {"range", "monotone", "size-only", "free"}
            What they may score.
        bounds : (float, float), optional
            Their range; default: that of the scores present.

        Returns
        -------
        SmallCoalitions or None
            ``SmallCoalitions(below=min_cardinality)``; None if no coalition but the empty one is small.
        """
        from porism.theory.partition import SmallCoalitions

        if self.min_cardinality < 2:
            return None
        return SmallCoalitions(below=self.min_cardinality, values=values, bounds=bounds)

    def table(
        self,
        n: int | None = None,
        *,
        design: str | None = None,
        game: int | None = None,
        on_duplicate: str = "raise",
        score_range: tuple[float, float] | None = None,
    ) -> "UtilityTable":
        """Everything recorded so far as a utility table.

        Parameters
        ----------
        n : int, optional
            Number of players; default: number of training points.
        design : str, optional
            None: a dense table (n <= 24). Else the sampled rows under this design, usually
            ``recording.design``.
        game : int, optional
            Which utility, if several were recorded (one a class in ``ClassWiseShapley``).
        on_duplicate : {"raise", "mean", "first"}
            Dense tables only: what to do with a coalition that came with different scores, as models that
            draw random numbers give.
        score_range : (float, float), optional
            Interval that holds every possible score.

        Returns
        -------
        UtilityTable
            Marked truncated if a permutation lacks prefixes (``min_cardinality``, early stops) or an
            evaluator skipped a draw. A run of ``DataBanzhaf`` that skipped none is an untruncated uniform
            sample, and a certificate that is only issued in that case keeps its error rate.

        Raises
        ------
        ValueError
            If nothing was recorded, or several utilities were and ``game`` is None.
        """
        games = [g for g in self.games if g.masks] if game is None else [self.games[game]]
        if not games or not games[0].masks:
            raise ValueError(
                "recording must hold evaluations, got none: call record() before train_data_values(), and "
                "give the sampler cache_name=None, else it may answer from its cache without evaluating "
                "anything"
            )
        if len(games) > 1:
            raise ValueError(
                f"game must be 0..{len(self.games) - 1}, got None: {len(games)} utilities were recorded from "
                "this sampler; name one"
            )
        masks, scores = games[0].masks, games[0].scores
        n = games[0].n or max(mask.bit_length() for mask in masks) if n is None else n
        chain = design == "permutation"
        unit, whole = prefix_units(masks, n) if chain else (None, True)
        truncated = not whole or self.dropped > 0
        return build_table(
            masks,
            scores,
            n,
            design=design,
            unit=unit,
            truncated=truncated,
            score_range=score_range,
            on_duplicate=on_duplicate,
        )

    def _wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        game: _Game | None = None

        def recorded(subset: Sequence[int], *args: Any, **kwargs: Any) -> Any:
            nonlocal game
            mask = mask_of(subset)  # now: the samplers append to this very list later
            score = function(subset, *args, **kwargs)
            if game is None:
                game = _Game(int(getattr(self.target, "num_points", 0)))
                self.games.append(game)
            game.masks.append(mask)
            game.scores.append(float(score))
            return score

        recorded.porism_function = function  # type: ignore[attr-defined]
        return recorded


def _listen_to_sampler(recording: Recording) -> Callable[[], None]:
    sampler = recording.target
    original = sampler.set_evaluator
    sampler.set_evaluator = lambda function: original(recording._wrap(function))
    if getattr(sampler, "compute_utility", None) is not None:  # input_data was called before record
        sampler.set_evaluator(sampler.compute_utility)

    def unhook() -> None:
        del sampler.set_evaluator
        current = getattr(sampler, "compute_utility", None)
        if current is not None and hasattr(current, "porism_function"):
            sampler.compute_utility = current.porism_function

    return unhook


def _listen_to_evaluator(recording: Recording) -> Callable[[], None]:
    evaluator = recording.target
    original = evaluator.train_data_values

    def train(*args: Any, **kwargs: Any) -> Any:
        game = _Game(int(evaluator.num_points))
        recording.games.append(game)
        if recording.design != "unknown":
            recording.drawn += int(evaluator.num_models)
        with _hooks(evaluator, game):
            return original(*args, **kwargs)

    evaluator.train_data_values = train

    def unhook() -> None:
        del evaluator.train_data_values

    return unhook


@contextmanager
def _hooks(evaluator: Any, game: _Game) -> Iterator[None]:
    """Note what each clone of the model is fitted on, until the evaluator asks for its score."""
    fitted: list[Sequence[int]] = []
    make_clone, evaluate = evaluator.pred_model.clone, evaluator.evaluate

    def clone() -> Any:
        model = make_clone()
        vars(model).pop("clone", None)
        fit = model.fit

        def recorded_fit(x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
            indices = getattr(x, "indices", None)  # of a Subset; a plain tensor has a method of that name
            fitted[:] = [range(len(x)) if indices is None or callable(indices) else indices]
            return fit(x, y, *args, **kwargs)

        model.fit = recorded_fit
        return model

    def recorded_evaluate(y: Any, y_hat: Any) -> Any:
        score = evaluate(y, y_hat)
        if fitted and y is evaluator.y_valid:
            game.masks.append(mask_of(np.asarray(fitted.pop()).tolist()))
            game.scores.append(float(score))
        return score

    with ExitStack() as stack:
        stack.callback(_restore, evaluator.pred_model, "clone", vars(evaluator.pred_model).get("clone"))
        stack.callback(_restore, evaluator, "evaluate", vars(evaluator).get("evaluate"))
        evaluator.pred_model.clone, evaluator.evaluate = clone, recorded_evaluate
        yield


def _restore(owner: Any, name: str, value: Any) -> None:
    if value is None:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
