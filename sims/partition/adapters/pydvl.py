"""Record every coalition that a pyDVL valuation evaluates."""

import os
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from porism.checks import one_of
from porism.errors import AssumptionError, MissingExtraError, NumericalWarning
from porism.sims.partition.adapters._records import Folder, read_records
from porism.sims.partition.adapters._rows import build_table, mask_of, prefix_units

if TYPE_CHECKING:
    from porism.theory.partition import UtilityTable

__all__ = ["RecordingUtility", "read_recording"]


class RecordingUtility:
    """A pyDVL utility that evaluates as the wrapped one does and writes down what it evaluated.

    Each call records the pair (S, v(S)): the sorted ``sample.subset`` and the score. pyDVL itself keeps
    values, variances and counts only, and its cache is keyed by a hash of the index array. Instances are
    subclasses of pyDVL's ``UtilityBase``; pyDVL is imported when the first one is made.

    Parameters
    ----------
    utility : pydvl.valuation.utility.base.UtilityBase
        Utility to delegate to. A ``DataUtilityLearning`` is refused: wrap the utility inside it, since
        beyond its budget it returns predictions and no utilities.
    directory : path, optional
        Folder of the records: one append-only file a process and thread, so that joblib's workers (which
        get copies) need no lock. Records already there are kept, so a killed run loses nothing; use a new
        folder for a new game. Default: a temporary folder, removed with the last copy in this process.

    Raises
    ------
    MissingExtraError
        If pyDVL is not installed.
    TypeError
        If ``utility`` is no utility, or a ``DataUtilityLearning``.
    AssumptionError
        On data with another number of points than the records in ``directory``, and on the samples of a
        class-wise valuation, whose utility is no function of the subset alone.

    Notes
    -----
    ``ModelUtility`` returns ``scorer.default`` not only for the empty set but also, with
    ``catch_errors=True`` (its default), when the fit fails or the score is NaN. Such scores cannot be told
    from real ones that equal the default, so non-empty coalitions that score exactly the default are
    counted in ``fallbacks`` and :meth:`table` warns. One record costs an ``open`` and a ``write``.
    In a parallel run workers may evaluate coalitions whose updates are then thrown away by the stopping
    rule; they are recorded too.

    References
    ----------
    pyDVL 0.10, ``pydvl.valuation.utility``.

    Examples
    --------
    >>> from pydvl.valuation import ShapleyValuation  # doctest: +SKIP
    >>> recorder = RecordingUtility(ModelUtility(model, scorer))  # doctest: +SKIP
    >>> ShapleyValuation(recorder, sampler, is_done).fit(train)  # doctest: +SKIP
    >>> recorder.table()  # doctest: +SKIP
    UtilityTable(n_players=8, coalitions=256 of 256)
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> "RecordingUtility":
        """Make an instance of the subclass of pyDVL's base, which is built on the first call."""
        made: RecordingUtility = object.__new__(_bound_class() if cls is RecordingUtility else cls)
        return made

    def __init__(self, utility: Any, directory: str | os.PathLike[str] | None = None) -> None:
        if not (callable(utility) and hasattr(utility, "with_dataset")):
            raise TypeError(
                f"utility must be a pyDVL utility, got {type(utility).__name__}; pass a ModelUtility or a "
                "subclass of UtilityBase"
            )
        if any(base.__name__ == "DataUtilityLearning" for base in type(utility).__mro__):
            raise TypeError(
                "utility must not be a DataUtilityLearning, got one: its predictions would be recorded as "
                "utilities; wrap the utility inside it, DataUtilityLearning(RecordingUtility(u), …)"
            )
        self.utility = utility
        self._folder = Folder(directory)
        self._check_players()

    @property
    def directory(self) -> Path:
        """Folder of the records."""
        return self._folder.path

    @property
    def training_data(self) -> Any:
        """Training data of the wrapped utility, or None."""
        return self.utility.training_data

    @property
    def _training_data(self) -> Any:  # DataUtilityLearning sets this attribute of the utility inside it
        return self.utility.training_data

    @_training_data.setter
    def _training_data(self, data: Any) -> None:
        self.with_dataset(data, copy=False)

    @property
    def fallbacks(self) -> int:
        """Number of records of non-empty coalitions with exactly the scorer's default as score."""
        return sum(flag for lines in read_records(self.directory) for _, _, flag in lines)

    def with_dataset(self, data: Any, copy: bool = True) -> "RecordingUtility":
        """The recorder on other training data; copies write to the same folder.

        Parameters
        ----------
        data : pydvl.valuation.dataset.Dataset
            Training data, whose logical indices 0..n-1 are the players.
        copy : bool
            Leave this recorder as it is and return a copy.

        Returns
        -------
        RecordingUtility
            The copy, or this recorder.

        Raises
        ------
        AssumptionError
            If the folder holds records of another number of players, or indices are not 0..n-1.
        """
        twin = self.__copy__() if copy else self
        twin.utility = self.utility.with_dataset(data, copy)
        twin._check_players()
        return twin

    def __call__(self, sample: Any) -> float:
        """Evaluate the wrapped utility on a sample and record the coalition and its score."""
        if hasattr(sample, "ooc_subset"):
            raise AssumptionError(
                "sample must name one coalition, got a class-wise sample: its score also depends on the "
                "points out of class, so there is no utility table; record a valuation that is not class-wise"
            )
        score = self.utility(sample)
        mask = 0 if sample is None else mask_of(sample.subset)
        default = getattr(getattr(self.utility, "scorer", None), "default", None)
        value = float(score)
        both_nan = value != value and default != default
        fallback = mask != 0 and default is not None and (value == default or both_nan)
        self._folder.append(f"{mask:x} {value!r} {fallback:d}\n")
        return score

    def table(self, n: int | None = None, **options: Any) -> "UtilityTable":
        """Everything recorded so far as a utility table; see :func:`read_recording` for the options.

        Parameters
        ----------
        n : int, optional
            Number of players; default: number of points in the training data.
        **options
            ``design``, ``on_duplicate``, ``fallbacks``, ``truncated`` and ``score_range``.

        Returns
        -------
        UtilityTable
            Dense for ``design=None``, else the sampled rows.
        """
        return read_recording(self.directory, n, **options)

    def __getattr__(self, name: str) -> Any:  # scorer, model, show_warnings, … of the wrapped utility
        if name.startswith("__") or name in ("utility", "_folder"):
            raise AttributeError(name)
        return getattr(self.utility, name)

    def __copy__(self) -> "RecordingUtility":
        twin = object.__new__(type(self))
        twin.utility, twin._folder = self.utility, self._folder
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordingUtility, (self.utility, str(self.directory))

    def __str__(self) -> str:
        return f"RecordingUtility({self.utility})"

    def _check_players(self) -> None:
        data = self.utility.training_data
        if data is None:
            return
        if not np.array_equal(data.indices, np.arange(len(data))):
            raise AssumptionError(
                f"data must have the indices 0..{len(data) - 1}, got {np.asarray(data.indices)}; number the "
                "groups of a GroupedDataset from 0 on"
            )
        self._folder.players(len(data))


def read_recording(
    directory: str | os.PathLike[str],
    n: int | None = None,
    *,
    design: str | None = None,
    on_duplicate: str = "raise",
    fallbacks: str = "keep",
    truncated: bool | None = None,
    score_range: tuple[float, float] | None = None,
) -> "UtilityTable":
    r"""Merge the files that recorders wrote into one table; needs no pyDVL.

    A record is one line, ``<coalition as hexadecimal bit mask> <score> <1 if fallback>``. A last line
    that a killed process left unfinished is ignored.

    Parameters
    ----------
    directory : path
        Folder given to :class:`RecordingUtility`.
    n : int, optional
        Number of players; default: what the recorder noted in the folder.
    design : {"permutation", "uniform", "msr", "shapley-size", "unknown"}, optional
        How the coalitions were drawn, which pyDVL's utilities cannot know: ``PermutationSampler`` is
        "permutation" (antithetic and stratified ones are "unknown"), ``MSRSampler`` is "uniform". None
        gives a dense table (n <= 24), complete after a ``DeterministicUniformSampler``.
    on_duplicate : {"raise", "mean", "first"}
        Dense tables only: what to do with a coalition that came with different scores.
    fallbacks : {"keep", "drop"}
        Keep non-empty coalitions that scored exactly the scorer's default, with a warning, or leave them out.
    truncated : bool, optional
        Default: whether fallbacks were dropped or, for permutations, one of them lacks prefixes (truncation
        policies do that, and so does a stopping rule that interrupts a worker).
    score_range : (float, float), optional
        Interval that holds every possible score.

    Returns
    -------
    UtilityTable
        Dense, or the rows in the order of each process.

    Raises
    ------
    ValueError
        If there are no records, a line other than the last is damaged, or an option is wrong.

    Warns
    -----
    NumericalWarning
        With the number of possible fallbacks that were kept.

    Notes
    -----
    Time and memory are linear in the records.

    References
    ----------
    pyDVL 0.10, ``pydvl.valuation.samplers``.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "1.rec").write_text("0 0.0 0\n1 1.5 0\n2 2.0 0\n3 4")
    >>> read_recording(folder, n=2).scores.tolist()
    [0.0, 1.5, 2.0, nan]
    """
    one_of("fallbacks", fallbacks, ("keep", "drop"))
    folder = Path(directory)
    masks: list[int] = []
    scores: list[float] = []
    units: list[int] = []
    count, dropped, whole = 0, 0, True
    files = list(read_records(folder))
    if n is None:
        noted = folder / "players"
        known = max((mask.bit_length() for lines in files for mask, _, _ in lines), default=0)
        n = int(noted.read_text()) if noted.exists() else max(known, 1)
    for lines in files:
        kept = [line for line in lines if fallbacks == "keep" or not line[2]]
        unit, all_prefixes = prefix_units([mask for mask, _, _ in kept], n)
        whole = whole and all_prefixes
        dropped += len(lines) - len(kept)
        units.extend((unit + (units[-1] + 1 if units else 0)).tolist())
        masks.extend(mask for mask, _, _ in kept)
        scores.extend(score for _, score, _ in kept)
        count += sum(flag for _, _, flag in kept)
    if not masks:
        raise ValueError("directory must hold records, got none; fit a valuation on the recorder first")
    if count:
        warnings.warn(
            f"{count} of {len(masks)} records score exactly the scorer's default: a failed fit or a NaN "
            "score looks the same (catch_errors=True); set fallbacks='drop' to treat them as not evaluated, "
            "or catch_errors=False",
            NumericalWarning,
            stacklevel=2,
        )
    chain = design == "permutation"
    if truncated is None:
        truncated = dropped > 0 or (chain and not whole)
    return build_table(
        masks,
        scores,
        n,
        design=design,
        unit=np.array(units, dtype=np.int32) if chain else None,
        truncated=truncated,
        score_range=score_range,
        on_duplicate=on_duplicate,
    )


@cache
def _bound_class() -> type[RecordingUtility]:
    try:
        from pydvl.valuation.utility.base import UtilityBase
    except ImportError as error:
        raise MissingExtraError(
            "RecordingUtility needs pyDVL, which needs numpy<2 and so an environment of its own: there, "
            "pip install 'pydvl>=0.10' and pip install --no-deps porism"
        ) from error

    class _Bound(RecordingUtility, UtilityBase):  # type: ignore[misc]
        pass

    _Bound.__name__ = _Bound.__qualname__ = "RecordingUtility"
    return _Bound
