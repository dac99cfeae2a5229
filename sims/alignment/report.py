"""Whether an adapter of a module is worth starting with the principal subspace of the module's features."""

import dataclasses
import math
import numbers
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from porism.checks import integer, one_of, require
from porism.errors import NumericalWarning
from porism.results import Result
from porism.sims.alignment.features import Features, collect_features
from porism.theory.alignment import AlignmentResult, grouped_coefficient

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AlignmentReport", "AlignmentRow", "alignment_report", "judge_features"]

RECOMMENDATIONS = ("use_pca", "no_effect_expected", "signal_not_detected")


@dataclasses.dataclass(frozen=True, eq=False)
class AlignmentRow(Result):
    """What was found for one module.

    Parameters
    ----------
    module : str
        Full name.
    rule : {"target", "attention", "all"}
        Rule that its features were read by.
    rule_reason : str
        Why this rule.
    result : AlignmentResult
        Alignment of the principal subspace with the classes.
    recommendation : {"use_pca", "no_effect_expected", "signal_not_detected"}
        What to do.
    reason : str
        The number that decided.

    Examples
    --------
    >>> sorted(field.name for field in dataclasses.fields(AlignmentRow))
    ['module', 'reason', 'recommendation', 'result', 'rule', 'rule_reason']
    """

    module: str
    rule: str
    rule_reason: str
    result: AlignmentResult
    recommendation: str
    reason: str


@dataclasses.dataclass(frozen=True, eq=False)
class AlignmentReport(Result):
    """All modules of a report, in the order asked for; a sequence of `AlignmentRow`.

    Parameters
    ----------
    rows : tuple of AlignmentRow
        One a module.
    r : int
        Dimension of the subspaces.
    min_gain : float
        Smallest predicted gain in accuracy that counts.
    n_seen, n_dropped : int
        Samples used and left out.
    position : str
        Where the target was, "callable" for a function.

    Examples
    --------
    >>> AlignmentReport((), 4, 0.02, 0, 0, "cls").counts()
    {}
    """

    rows: tuple[AlignmentRow, ...]
    r: int
    min_gain: float
    n_seen: int
    n_dropped: int
    position: str

    def __iter__(self) -> Iterator[AlignmentRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int | str) -> AlignmentRow:
        if not isinstance(index, str):
            return self.rows[index]
        for row in self.rows:
            if row.module == index:
                return row
        raise KeyError(f"no module {index!r} in the report; it has {[row.module for row in self.rows]}")

    def counts(self) -> dict[str, int]:
        """How many modules got each recommendation.

        Returns
        -------
        dict of str to int
            By recommendation, most frequent first.
        """
        return dict(Counter(row.recommendation for row in self.rows).most_common())

    def to_frame(self) -> Any:
        """Rows as a pandas table.

        Returns
        -------
        DataFrame
            One row a module; columns module, rule, those of `AlignmentResult`, recommendation and reason.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        names = [f.name for f in dataclasses.fields(AlignmentResult) if f.name != "reason"]
        records = [
            {"module": row.module, "rule": row.rule}
            | {name: getattr(row.result, name) for name in names}
            | {"recommendation": row.recommendation, "reason": row.reason}
            for row in self.rows
        ]
        frame = pandas.DataFrame(records, columns=["module", "rule", *names, "recommendation", "reason"])
        frame.attrs.update(
            r=self.r, min_gain=self.min_gain, n_seen=self.n_seen, n_dropped=self.n_dropped,
            position=self.position,
        )  # fmt: skip
        return frame

    def summary(self) -> str:
        """The report as text.

        Returns
        -------
        str
            A line on the whole, then one a module.
        """
        dropped = f", {self.n_dropped} left out" if self.n_dropped else ""
        total = ", ".join(f"{count} {name}" for name, count in self.counts().items()) or "none"
        lines = [
            f"{len(self.rows)} modules, r={self.r}, {self.n_seen} samples{dropped}, "
            f"target {self.position}: {total}"
        ]
        width = max((len(row.module) for row in self.rows), default=0)
        for row in self.rows:
            lines.append(
                f"{row.module:<{width}}  {row.rule:<9}  rho {row.result.rho:+.3f}  "
                f"gain {row.result.predicted_gain:+.3f}  {row.recommendation}: {row.reason}"
            )
        lines.append("rho sees class means only: near 0 is no proof that the features do not help")
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Predicted gain against rho, one point a module, coloured by recommendation.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        from porism.sims.drawing import GUIDE, canvas
        from porism.sims.style import COLORS

        with canvas(ax) as axes:
            for colour, name in zip(COLORS, RECOMMENDATIONS, strict=False):
                chosen = [row.result for row in self.rows if row.recommendation == name]
                # undefined values stand at 0, hollow, so that no module is missing from the picture
                for whole in (True, False):
                    points = [
                        (np.nan_to_num(p.rho), np.nan_to_num(p.predicted_gain))
                        for p in chosen
                        if math.isfinite(p.rho + p.predicted_gain) == whole
                    ]
                    if points:
                        label = name.replace("_", " ") + ("" if whole else " (undefined)")
                        axes.plot(
                            *zip(*points, strict=True), "o", color=colour, label=label,
                            fillstyle="full" if whole else "none",
                        )  # fmt: skip
            axes.axhline(self.min_gain, **GUIDE)
            axes.set(
                xlabel="rho of the principal subspace",
                ylabel="predicted gain in accuracy",
                title=f"{len(self.rows)} modules, r = {self.r}",
            )
            if self.rows:
                axes.legend()
            return axes


def alignment_report(
    model: Any,
    batches: Iterable[Any],
    modules: str | Iterable[str],
    r: int,
    *,
    min_gain: float = 0.02,
    position: str | Callable[[Any], Any] = "cls",
    labels_key: str = "labels",
    pooling: str = "auto",
    max_rows: int | None = None,
    mask_token_id: int | None = None,
    weights: str = "share",
    repeats: int = 2,
    ci: bool = False,
    on_degenerate: str = "warn",
    random_state: int | np.random.Generator | None = None,
) -> AlignmentReport:
    """Judge for each module whether starting an adapter with principal directions is worth it.

    "signal_not_detected" where the class means do not stand out (z below 2), else "no_effect_expected" where
    the predicted gain is below `min_gain`, else "use_pca".

    Parameters
    ----------
    model, batches, modules, position, labels_key, pooling, max_rows, mask_token_id
        As in :func:`collect_features`; one label a sample is needed.
    r : int
        Rank of the adapters, 1..d-1 for features of d entries.
    min_gain : float, default 0.02
        Smallest gain in held-out accuracy over random subspaces that counts; our choice of number.
    weights : {"share", "gradient"}
        Weights of the classes, as in :func:`alignment_coefficient`.
    repeats : int, default 2
        Random partitions into folds.
    ci : bool, default False
        Intervals of `captured` for modules with one row a sample and at most 256 samples; NaN for others.
    on_degenerate : {"warn", "raise"}
        Whether features without variance, or of too low a rank, give one warning for all modules, or raise.
    random_state : int, Generator or None
        Seed of folds, control subspaces and reservoir; each module has its own stream.

    Returns
    -------
    AlignmentReport
        One row a module.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        As :func:`collect_features` and :func:`alignment_coefficient`; also if batches have no labels.

    Warns
    -----
    NumericalWarning
        Once, if features of modules have no variance or leave directions of the subspace open.

    Notes
    -----
    Rho is cross-fitted. Where samples have several rows (tokens or heads), subspaces come from the rows of
    the training samples, as an adapter would get them, and the signal from one mean a sample; samples are
    never split between folds. Rho sees class means only: a task carried by covariances has rho near 0 and may
    gain all the same. From few samples the error is large (rmse about 0.17 at 16 to 64), and gains of tasks
    of different difficulty do not compare (DK-19). Features are those of a forward pass, by kind of module;
    `init_pivot_lora` may measure others to be better. Cost: ``8 repeats`` eigenproblems a module.

    References
    ----------
    DK-17 to DK-20 (reconstruction).

    Examples
    --------
    >>> report = alignment_report(model, loader, ["query", "value"], 8)  # doctest: +SKIP
    >>> print(report.summary())  # doctest: +SKIP
    """
    integer("r", r)
    one_of("on_degenerate", on_degenerate, ("warn", "raise"))
    rng = np.random.default_rng(
        integer("random_state", random_state, 0)
        if isinstance(random_state, (int, np.integer))
        else random_state
    )
    judge_features({}, r, rng, min_gain=min_gain)  # refuses now what it would refuse after the pass
    found = collect_features(
        model,
        batches,
        modules,
        position=position,
        labels_key=labels_key,
        pooling=pooling,
        max_rows=max_rows,
        mask_token_id=mask_token_id,
        random_state=int(rng.integers(1 << 62)),
    )
    first = next(iter(found.values()))
    if first.y is None:
        raise ValueError(
            f"batches must have one class a sample in {labels_key!r}, got none; generation tasks have no "
            "classes: use collect_features without labels"
        )
    rows, weak = [], []
    options: dict[str, Any] = {"min_gain": min_gain, "weights": weights, "repeats": repeats, "ci": ci}
    for row, doubt in judge_features(found, r, rng, **options):
        rows.append(row)
        weak += [doubt] if doubt else []
        if weak and on_degenerate == "raise":
            raise ValueError(f"{weak[0]}; lower r, add samples or read another position")
    if weak:
        more = f" ({len(weak)} such modules)" if len(weak) > 1 else ""
        warnings.warn(f"{weak[0]}{more}", NumericalWarning, stacklevel=2)
    where = position if isinstance(position, str) else "callable"
    return AlignmentReport(tuple(rows), int(r), float(min_gain), first.n_seen, first.n_dropped, where)


def judge_features(
    found: Mapping[str, Features],
    r: int,
    rng: np.random.Generator,
    *,
    min_gain: float = 0.02,
    weights: str = "share",
    repeats: int = 2,
    ci: bool = False,
) -> Iterator[tuple[AlignmentRow, str]]:
    """Judge features collected before, one module at a time.

    Parameters
    ----------
    found : mapping of str to Features
        By module, with classes.
    rng : Generator
        Gives one seed a module.
    r, min_gain, weights, repeats, ci
        As in :func:`alignment_report`.

    Returns
    -------
    iterator of (AlignmentRow, str)
        The row of each module, and what is weak about its features, "" for nothing.

    Raises
    ------
    TypeError, ValueError
        As :func:`alignment_coefficient`, with the module in a note; before that if min_gain is no number.

    Examples
    --------
    >>> for row, doubt in judge_features(found, 8, np.random.default_rng(0)):  # doctest: +SKIP
    ...     print(row.module, row.recommendation, doubt)
    """
    if isinstance(min_gain, bool) or not isinstance(min_gain, numbers.Real) or not math.isfinite(min_gain):
        raise ValueError(
            f"min_gain must be a finite number, got {min_gain!r}; 0.02 is two points of accuracy"
        )
    options = {"weights": weights, "repeats": repeats, "ci": ci}
    return (_judged(features, r, rng, min_gain, options) for features in found.values())


def _judged(
    features: Features, r: int, rng: np.random.Generator, min_gain: float, options: dict[str, Any]
) -> tuple[AlignmentRow, str]:
    name, seed = features.module, int(rng.integers(1 << 62))
    ci = options["ci"] and features.per_sample() is features and features.n_seen <= 256
    try:
        result = grouped_coefficient(
            *(features.x, features.y, features.sample, r),
            **(options | {"ci": ci, "input_eps": features.input_eps, "random_state": seed}),
        )
    except (ValueError, TypeError) as error:
        error.add_note(f"module {name!r}")
        raise
    doubt = ""
    if features.constant or result.n_random:
        what = "no variance" if features.constant else f"{result.n_random} directions too few"
        doubt = f"features of {name!r} have {what} for r={r}"
    recommendation, reason = _recommend(result, min_gain)
    return AlignmentRow(name, features.rule, features.reason, result, recommendation, reason), doubt


def _recommend(result: AlignmentResult, min_gain: float) -> tuple[str, str]:
    gain, z = result.predicted_gain, result.signal_z
    if result.reason or not result.signal_detected:
        why = result.reason or (
            "signal z is undefined: a class has too few samples" if math.isnan(z) else f"signal z {z:.2f} < 2"
        )
        return "signal_not_detected", why
    if not gain >= min_gain:
        if math.isnan(gain):
            return "no_effect_expected", "predicted gain is undefined: too few samples for folds"
        return "no_effect_expected", f"predicted gain {gain:+.3f} < {min_gain:g}"
    return "use_pca", f"predicted gain {gain:+.3f} >= {min_gain:g}"
