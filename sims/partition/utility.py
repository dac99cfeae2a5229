"""From a model and data to a utility table: one fit a coalition, in parallel, resumable."""

import functools
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from porism._pool import blas_pools, one_blas_thread
from porism.checks import integer
from porism.errors import NumericalWarning
from porism.sims.partition._checkpoint import FAILED, FITTED, Checkpoint, CheckpointMismatchError, digest
from porism.sims.partition._evaluation import EvaluationError, Job, Scorer
from porism.theory.partition import TooManyPlayersError, UtilityTable, coalition_name, masks_of

__all__ = ["CheckpointMismatchError", "EvaluationError", "utility_table"]


def utility_table(
    model: Any,
    X: Any,
    y: Any,
    X_val: Any,
    y_val: Any,
    players: int | Sequence[ArrayLike] | None = None,
    *,
    scoring: str | Scorer | None = None,
    empty_score: float | None = None,
    error_score: float | str = "raise",
    n_jobs: int = 1,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
    coalitions: Any = None,
    max_players: int = 20,
) -> UtilityTable:
    """Fit a model on every coalition of players and score it on validation data.

    ``v(S) = score(model fitted on the rows of the players in S; X_val, y_val)``

    Parameters
    ----------
    model : object
        Has ``fit(X, y)``, and ``score(X, y)`` unless `scoring` is a callable. It is never changed: each
        coalition gets a copy (`sklearn.base.clone` for estimators, else `copy.deepcopy`). Hand it over
        unfitted.
    X : array, DataFrame, sparse matrix or list, m rows
        Training data.
    y : array or Series, shape (m,)
        Training targets.
    X_val, y_val
        Validation data, of the same kinds.
    players : int or sequence of integer arrays, optional
        None: every row is a player. An int n: n groups, row r belongs to player ``r % n``, so that sorted
        data does not make players of one class. A sequence: the rows of each player; disjoint; rows of nobody
        are not used.
    scoring : str or callable, optional
        None: ``model.score``. A string: a scorer of scikit-learn. A callable: ``scoring(model, X_val, y_val)
        -> float``.
    empty_score : float, optional
        Score of the empty coalition. None: for classifiers the mean, over the classes of y, of the score of
        predicting that class; for regressors the score of predicting the mean of y. Other models must have it
        passed. It moves no comparison between players (PR-1), but counts for sign and threshold decisions.
    error_score : float or "raise", default "raise"
        Score of a coalition whose fit or score raises or is not finite; with a number a warning tells how
        many.
    n_jobs : int, default 1
        Number of processes (joblib, loky by default); -1: all cores. Scores do not depend on it.
    checkpoint : path, optional
        Folder that keeps every evaluation as soon as it is done. A later call with the same problem evaluates
        only what is missing, also after ``kill -9``, with any `n_jobs` and other `coalitions`.
    progress : bool, default False
        Whether to show a plain progress bar on stderr.
    coalitions : sequence of iterables of int, bool array (c, n), or integer masks (c,), optional
        Evaluate only these; the table is incomplete then, and n may be up to 64.
    max_players : int, default 20
        Largest n for which all 2^n coalitions are evaluated.

    Returns
    -------
    UtilityTable
        Complete, or with the coalitions asked for.

    Raises
    ------
    TooManyPlayersError
        If n > max_players without `coalitions`.
    EvaluationError
        If a coalition fails and ``error_score="raise"``. Nothing that was recorded is lost.
    CheckpointMismatchError
        If the checkpoint belongs to other data, players, model, parameters or scoring.
    MissingExtraError
        If `scoring` is a string and scikit-learn is not installed (extra ``data``).
    TypeError, ValueError
        If an argument is no such thing, or the model cannot be pickled and ``n_jobs`` is not 1.

    Notes
    -----
    Rows of a coalition come in the order of X. Where a classifier of scikit-learn's kind cannot be fitted or
    scored on a coalition with one class, it predicts that class with probability 1, and with ``scoring=None``
    is scored by accuracy. Linear algebra runs on one thread a process, so that the bits do not depend on
    `n_jobs`.

    Nothing is seeded here. A model with ``random_state=None`` that draws random numbers takes them from the
    state of whatever process fits it: its table is one draw, differs from run to run and with `n_jobs`, and
    the checkpoint keeps the draw it saw. Give it an int.

    The fingerprint of a checkpoint sees data, players, class name, parameters and the code of a scoring
    function, not the code of the model's class. Two runs on one folder at the same time do work twice but
    harm nothing.

    Time: 2^n - 1 fits, O(1) memory a process beyond data and table.

    Examples
    --------
    >>> class Mean:
    ...     def fit(self, X, y): self.mean = np.mean(y)
    ...     def score(self, X, y): return 1 - np.mean(np.abs(y - self.mean))
    >>> utility_table(Mean(), [[0], [0]], [0, 1], [[0]], [1], empty_score=0).scores.tolist()
    [0.0, 0.0, 1.0, 0.5]
    """
    job = Job.make(model, X, y, X_val, y_val, players, scoring, error_score)
    n, workers = len(job.groups), _workers(n_jobs)
    wanted = _wanted(coalitions, n, max_players)
    log, found = None, {}
    if checkpoint is not None:
        log = Checkpoint.open(checkpoint, _fingerprint(job, scoring), n)
        found = {m: r for m, r in log.read().items() if job.error_score is not None or r[1] != FAILED}
    done = {mask: found[mask] for mask in wanted if mask in found}
    if 0 in wanted:
        done[0] = (job.empty(empty_score), FITTED)
    todo = [mask for mask in wanted if mask not in done]
    results = _serial(job, todo, log) if workers == 1 or not todo else _parallel(job, todo, log, n_jobs)
    from tqdm import tqdm

    with tqdm(
        total=len(wanted), initial=len(done), unit="coalition", file=sys.stderr, disable=not progress
    ) as bar:
        for mask, score, flag in results:
            done[mask] = (score, flag)
            bar.update()
    failed = [mask for mask in wanted if done[mask][1] == FAILED]
    if failed:
        warnings.warn(
            f"{len(failed)} of {len(wanted)} coalitions failed and count as error_score={error_score}; "
            f"the first is {coalition_name(failed[0])}",
            NumericalWarning,
            stacklevel=2,
        )
    scores = np.array(
        [job.error_score if done[mask][1] == FAILED else done[mask][0] for mask in wanted], dtype=float
    )
    if coalitions is None:
        return UtilityTable.from_array(scores, max_players=max_players)
    return UtilityTable.from_pairs(np.array(wanted, dtype=np.uint64), scores, n=n, max_players=max_players)


def _serial(job: Job, todo: list[int], log: Checkpoint | None) -> Iterator[tuple[int, float, int]]:
    with one_blas_thread():
        for mask in todo:
            yield _record(job, mask, log)


def _parallel(
    job: Job, todo: list[int], log: Checkpoint | None, n_jobs: int
) -> Iterator[tuple[int, float, int]]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.backend.reduction import dumps

    try:
        dumps((job.model, job.scorer))
    except Exception as error:
        raise TypeError(
            f"model and scoring must be picklable for n_jobs={n_jobs}, got {type(job.model).__name__} "
            f"({type(error).__name__}: {error}); use n_jobs=1"
        ) from error
    tasks = (delayed(_task)(job, mask, log, os.getpid()) for mask in todo)
    yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered")(tasks)


def _task(job: Job, mask: int, log: Checkpoint | None, main: int) -> tuple[int, float, int]:
    _leave_if_orphaned(main)
    with one_blas_thread(_worker_pools()):
        result = _record(job, mask, log)
    _leave_if_orphaned(main)
    return result


def _leave_if_orphaned(main: int) -> None:
    """End a worker whose main process was killed: it would race with the restart, then idle for minutes."""
    if _parent_at_start() == main and os.getppid() != main:
        os._exit(1)


def _record(job: Job, mask: int, log: Checkpoint | None) -> tuple[int, float, int]:
    score, flag = job.evaluate(mask)
    if log is not None:
        log.append(mask, score, flag)
    return mask, score, flag


@functools.cache
def _parent_at_start() -> int:
    return os.getppid()


_worker_pools = functools.cache(blas_pools)  # finding the libraries takes longer than a small fit


def _fingerprint(job: Job, scoring: Any) -> dict[str, str]:
    return {
        "data": digest([job.X, job.y]),
        "players": digest(job.groups),
        "validation": digest([job.X_val, job.y_val]),
        "model": digest(job.model),
        "scoring": digest(scoring),
    }


def _workers(n_jobs: int) -> int:
    if integer("n_jobs", n_jobs) == 0:
        raise ValueError("n_jobs must not be 0, got 0; use 1 for this process or -1 for all cores")
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


def _wanted(coalitions: Any, n: int, max_players: int) -> list[int]:
    if coalitions is None:
        if n > integer("max_players", max_players, 1):
            raise TooManyPlayersError(
                f"players must be at most max_players={max_players} for a full table, got {n}; group rows "
                "(players=12 or a list of index arrays), pass some coalitions, or raise max_players"
            )
        return list(range(1 << n))
    integer("number of players", n, 1, 64)
    coalitions = coalitions if isinstance(coalitions, np.ndarray) else list(coalitions)
    parsed = UtilityTable.from_pairs(coalitions, np.zeros(len(coalitions)), n=n, max_players=1).sampled
    assert parsed is not None
    return [int(mask) for mask in np.unique(masks_of(parsed.members))]
