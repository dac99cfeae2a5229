"""Answers to questions with options, and refined estimates from agreement with small reference models."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, require
from porism.results import Result
from porism.sims.pandora.matrix import ScoreMatrix
from porism.theory.pandora import Chosen, FittedRouter, fit_router

__all__ = ["AgreementEstimates", "Answers", "agreement_estimates"]

Floats = NDArray[np.float64]
NO_ANSWER = 255


@dataclasses.dataclass(frozen=True, eq=False)
class Answers(Result):
    """What K models answered to n questions.

    Parameters
    ----------
    predictions : int64 array, shape (n, K)
        Option chosen; 255 where no answer was found in the text.
    key : int64 array, shape (n,)
        Right option.
    lengths : float64 array, shape (n, K)
        Characters of the answer.
    known : bool array, shape (n, K)
        False where the question was not put to the model.
    models : tuple of str
        Names.
    features : float64 array, shape (n, p)
        Features of the question.
    subset : str array, shape (n,), optional
        Category.
    source : str
        Where it comes from.

    Examples
    --------
    >>> ones = np.ones((2, 1))
    >>> answers = Answers(np.array([[3], [255]]), np.array([3, 1]), ones, ones > 0, ("a",), ones)
    >>> answers.matrix().scores.tolist()
    [[1.0], [0.0]]
    """

    predictions: NDArray[np.int64]
    key: NDArray[np.int64]
    lengths: Floats
    known: NDArray[np.bool_]
    models: tuple[str, ...]
    features: Floats
    subset: NDArray[np.str_] | None = None
    source: str = ""

    def matrix(self) -> ScoreMatrix:
        """Score answers by the key.

        Returns
        -------
        ScoreMatrix
            1 where the right option was chosen, 0 elsewhere.
        """
        right = (self.predictions == self.key[:, None]) & self.known
        return ScoreMatrix(
            right.astype(np.float64),
            self.models,
            self.known,
            features=self.features,
            subset=self.subset,
            source=self.source,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class AgreementEstimates(Result):
    """Cheap estimates and refined ones from agreement, all out of fold, and how they route.

    Parameters
    ----------
    models, references : tuple of str
        Specialists, and the models whose answers they are compared with.
    scores, m : float64 array, shape (n, K)
        Realised scores; cheap estimates.
    marginal : float64 array, shape (n, K)
        Refined estimate of each specialist from its own agreement and length.
    joint : float64 array, shape (n, K), optional
        Estimate from the agreement and length of all specialists.
    fitted : FittedRouter
        Fit to cheap and marginal estimates, with its report.
    chosen : tuple of Chosen
        Predicted and realised value of the specialist chosen: cheap, exhaustive on marginal estimates, after
        the joint linear update, and on joint estimates ("exhaustive, boosted") where there are any.
    """

    models: tuple[str, ...]
    references: tuple[str, ...]
    scores: Floats
    m: Floats
    marginal: Floats
    joint: Floats | None
    fitted: FittedRouter
    chosen: tuple[Chosen, ...]


def agreement_estimates(
    answers: Answers,
    references: Sequence[str],
    specialists: int | Sequence[str] = 8,
    *,
    folds: int = 5,
    seed: int = 0,
    joint: bool = True,
    iterations: int = 60,
    limit: int | None = None,
    progress: bool = False,
) -> AgreementEstimates:
    """Estimate whether specialists are right from whether small models answer the same, and route by it.

    Cheap m: ridge on the features of the question. Marginal q_k: boosted trees on m_k, agreement of k with
    each reference, and the length of its answer. Joint: boosted trees on these of all specialists.

    Parameters
    ----------
    answers : Answers
        Answers of specialists and references.
    references : sequence of str
        Models to compare with.
    specialists : int or sequence of str, default 8
        Names, or how many of the best models that were asked everything and are no references.
    folds : int, default 5
        Folds of cross-fitting.
    seed : int, default 0
        Seed of folds and trees.
    joint : bool, default True
        Whether to make joint estimates too; they take about four times as long as the rest.
    iterations : int, default 60
        Trees of each boosted estimate, >= 1.
    limit : int, optional
        Use so many questions, drawn by the seed.
    progress : bool, default False
        Show a progress bar on stderr.

    Returns
    -------
    AgreementEstimates
        Estimates and the values they predict and realise.

    Raises
    ------
    ValueError
        If a model is not there, or a specialist is a reference too.
    MissingExtraError
        If scikit-learn is not installed.

    Notes
    -----
    Every q_k is calibrated, yet where signals depend on each other the largest is optimistic, and routing by
    it may be worse than by m. (1 + joint) K folds fits: about a minute for 12,032 questions, K = 8.

    References
    ----------
    PB-17 of the module's specification.

    Examples
    --------
    >>> from porism.sims.pandora import load_mmlu_pro
    >>> answers = load_mmlu_pro()  # doctest: +SKIP
    >>> found = agreement_estimates(answers, ("gemma-7b", "mathstral-7B"))  # doctest: +SKIP
    """
    require("sklearn", "data")
    whole = answers.matrix()
    R = [whole._place(name) for name in references]
    if isinstance(specialists, (int, np.integer)):
        count = integer("specialists", specialists, low=1)
        order = np.argsort(-whole.means(), kind="stable")
        S = [int(k) for k in order if whole.known[:, k].all() and k not in R][:count]
        if len(S) < count:
            raise ValueError(
                f"specialists={count} is more than the {len(S)} models that were asked everything"
            )
    else:
        S = [whole._place(name) for name in specialists]
    both = sorted({whole.models[k] for k in S} & {whole.models[k] for k in R})
    if both:
        raise ValueError(f"{both[0]!r} is a specialist and a reference; leave it out of one of the two")
    rows = np.flatnonzero(whole.known[:, [*S, *R]].all(1))
    if limit is not None and integer("limit", limit, low=1) < len(rows):
        rows = np.sort(np.random.default_rng(seed).choice(rows, limit, replace=False))
    y, X = whole.scores[rows][:, S], answers.features[rows]
    said, reference = answers.predictions[rows][:, S], answers.predictions[rows][:, R]
    agree = (said[:, :, None] == reference[:, None, :]) & (said != NO_ANSWER)[:, :, None]
    length = np.log1p(np.maximum(answers.lengths[rows][:, S], 0.0))
    n, K = y.shape
    ridge = fit_router(y, cheap="ridge", refined="ridge", features=X, folds=folds, seed=seed)
    m, fold = ridge.m_hat, ridge.folds
    own = [np.column_stack([m[:, k], agree[:, k], length[:, k]]) for k in range(K)]
    everything = [np.column_stack([m, agree.reshape(n, -1), length])] * K
    tasks = [(Z, k) for part in ([own, everything] if joint else [own]) for k, Z in enumerate(part)]
    steps: Iterable[tuple[Floats, int]] = tasks
    if progress:
        from tqdm import tqdm

        steps = tqdm(tasks, desc="agreement", leave=False)
    columns = [_boosted(Z, y[:, k], fold, seed, iterations) for Z, k in steps]
    marginal = np.column_stack(columns[:K])
    fitted = fit_router(
        y, cheap=m, refined=marginal, folds=folds, seed=seed, names=[whole.models[k] for k in S]
    )
    rules = fitted.report.chosen
    joined = np.column_stack(columns[K:]) if joint else None
    if joined is not None:
        base = y[np.arange(n), m.argmax(1)]
        rules = (*rules, Chosen.judge("exhaustive, boosted", joined, y, base))
    return AgreementEstimates(
        fitted.names, tuple(whole.models[k] for k in R), y, m, marginal, joined, fitted, rules
    )


def _boosted(X: Floats, y: Floats, fold: NDArray[np.int64], seed: int, iterations: int) -> Floats:
    """Out-of-fold predictions of boosted trees."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    integer("iterations", iterations, low=1)
    out = np.empty(len(y))
    for f in np.unique(fold):
        held = fold == f
        model: Any = HistGradientBoostingRegressor(
            max_iter=iterations,
            max_leaf_nodes=15,
            min_samples_leaf=40,
            random_state=seed,
            early_stopping=False,
        )
        out[held] = model.fit(X[~held], y[~held]).predict(X[held])
    return out
