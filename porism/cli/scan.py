"""`porism scan`: patterns of a matrix in a file, or of the attention heads of a model in a folder."""

import dataclasses
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from porism import _files
from porism._show import plain
from porism.checks import probability
from porism.cli.common import AsJson, Seed, as_options, check_outputs, check_picture, draw, echo_json

if TYPE_CHECKING:
    from porism.sims.pattern import HeadRecords
    from porism.theory.pattern import PatternComparison

__all__ = ["scan"]

WORDS = {"masks": "--mask", "n_restarts": "--restarts", "n_jobs": "--workers", "random_state": "--seed"}
"""Options by the names that the library has for them."""


def scan(
    matrix: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Matrix: .npy, .npz, .csv or .mtx.")
    ] = None,
    mask: Annotated[
        list[str] | None, typer.Option(help="Mask such as band:4 or block_diagonal:3; may be repeated.")
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            help="independent, common or none. For a file independent, for a model none by default."
        ),
    ] = None,
    mass: Annotated[str, typer.Option(help="squared or abs.")] = "squared",
    null: Annotated[
        str, typer.Option(help="rows, columns, entries, symmetric_entries or rows_without_sinks(K).")
    ] = "rows",
    n_null: Annotated[int, typer.Option("--n-null", min=1, help="Shuffled matrices.")] = 99,
    restarts: Annotated[int | None, typer.Option(help="Random restarts of the solver, for a matrix.")] = None,
    time_budget: Annotated[float | None, typer.Option(help="Seconds for each solve of a matrix.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes, for a matrix.")] = 1,
    model: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Saved transformer to scan.")] = None,
    text: Annotated[Path | None, typer.Option(metavar="FILE", help="Text that the model reads.")] = None,
    max_tokens: Annotated[int, typer.Option(min=2, help="Cut the text after so many tokens.")] = 128,
    strip_sinks: Annotated[
        int, typer.Option(min=0, help="Columns emptied before content masks of a model are tested.")
    ] = 0,
    alpha: Annotated[float, typer.Option(help="Largest p-value of the mask that a head follows.")] = 0.01,
    seed: Seed = 0,
    json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(metavar="OUT", help="Draw into a picture.")] = None,
) -> None:
    """Measure a matrix or attention heads against masks.

    Each distance stands next to its null.

    Example: porism scan matrix.npy --mask band:4 --order common --null rows --json
    """
    if (matrix is None) == (model is None):
        raise ValueError(
            "give either FILE or --model FOLDER, got " + ("neither" if matrix is None else "both")
        )
    check_picture(plot)
    check_outputs(plot, inputs=(matrix, text))
    probability("--alpha", alpha)
    if matrix is not None:
        for_model = (text is not None, strip_sinks > 0, max_tokens != 128, alpha != 0.01)
        _refuse("--model FOLDER", ("--text", "--strip-sinks", "--max-tokens", "--alpha"), for_model)
    else:
        for_matrix = (restarts is not None, time_budget is not None, workers > 1)
        _refuse("a matrix in FILE", ("--restarts", "--time-budget", "--workers"), for_matrix)
        if order == "independent":
            raise ValueError(
                "independent reordering of an attention map is not interpretable (rows and columns are the "
                "same tokens, PD-17); use --order none or common"
            )
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        result: Any
        if matrix is not None:
            if not mask:
                from porism.theory.pattern import MASK_FORMS

                known = ", ".join(MASK_FORMS)
                raise ValueError(f"give at least one --mask, such as --mask band:4; the masks are {known}")
            options = {"mass": mass, "null": null, "n_null": n_null, "random_state": seed, "n_jobs": workers}
            options |= {"order": order or "independent", "time_budget": time_budget}
            options |= {} if restarts is None else {"n_restarts": restarts}
            result = _in_words(_matrix, matrix, mask, options)
        else:
            if text is None:
                raise ValueError("--model needs --text FILE: the heads are read while the model reads a text")
            options = {"mass": mass, "null": null, "n_null": n_null, "random_state": seed}
            options |= {"order": order or "none", "strip_sinks": strip_sinks}
            result = _in_words(_model, Path(str(model)), text, mask, max_tokens, options)
            if alpha * (n_null + 1) < 1:
                typer.echo(
                    f"porism scan: warning: --n-null {n_null} allows no p-value below 1/{n_null + 1}, so no "
                    f"head passes --alpha {alpha:g}; raise one of them",
                    err=True,
                )
    for message in dict.fromkeys(str(doubt.message) for doubt in doubts if _ours(doubt)):
        typer.echo(f"porism scan: warning: {as_options(message, scan, WORDS)}", err=True)
    if plot is not None:
        shown = {} if matrix is not None else {"alpha": alpha}
        draw(plot, lambda figure: result.plot(figure.subplots(), **shown))
    if json:
        echo_json(_table(result) if matrix is not None else _heads(result, alpha))
    else:
        typer.echo(result.summary() if matrix is not None else result.summary(alpha=alpha))


def _in_words(function: Callable[..., Any], *given: Any) -> Any:
    try:
        return function(*given)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ValueError(as_options(str(error), scan, WORDS)) from error


def _matrix(path: Path, names: list[str], options: dict[str, Any]) -> "PatternComparison":
    from porism.cli._matrix import read_matrix
    from porism.theory.pattern import compare_patterns, parse_mask

    A = read_matrix(path)
    library = {name: parse_mask(name, *A.shape) for name in names}
    return compare_patterns(A, library, **options)


def _model(
    folder: Path, text: Path, names: list[str] | None, max_tokens: int, options: dict[str, Any]
) -> "HeadRecords":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # this process loads from folders only
    from porism.sims.pattern import load_transformer, scan_attention

    words = _files.read_text(text)
    if not words.strip():
        raise ValueError(f"--text must not be empty, got {text.name}")
    transformer, tokenizer = load_transformer(folder)
    room = getattr(transformer.config, "max_position_embeddings", max_tokens), tokenizer.model_max_length
    inputs = tokenizer(words, return_tensors="pt", truncation=True, max_length=min(max_tokens, *room))
    if inputs["input_ids"].shape[1] < 2:
        raise ValueError(f"--text must give at least 2 tokens, got {inputs['input_ids'].shape[1]}")
    return scan_attention(transformer, inputs, names or "default", **options)


def _table(result: "PatternComparison") -> list[dict[str, Any]]:
    rows = []
    for k, item in enumerate(result.results):
        fit = item.fit
        rows.append(
            {
                "mask": str(result.mask[k]),
                "order": fit.order,
                "mass": fit.mass,
                "mass_outside": fit.mass_outside,
                "distance": fit.distance,
                "lower_bound": fit.lower_bound,
                "bounds": fit.bounds,
                "gap": fit.gap,
                "certified": fit.certified,
                "exact": fit.exact,
                "null": item.null,
                "n_null": item.n_null,
                "null_mean": float(result.null_mean[k]),
                "effect": item.effect,
                "p_value": item.p_value,
                "p_holm": float(result.p_holm[k]),
                "reason": fit.reason,
                "status": fit.status,
                "row_order": fit.row_order.tolist(),
                "col_order": fit.col_order.tolist(),
            }
        )
    return rows


def _heads(result: "HeadRecords", alpha: float) -> dict[str, Any]:
    best = {place: item and item.mask for place, item in result.best(alpha=alpha).items()}
    return {
        "n_tokens": list(result.n_tokens),
        "causal": result.causal,
        "n_null": result.n_null,
        "alpha": alpha,
        "counts": result.counts(alpha=alpha),
        "records": [
            plain(dataclasses.asdict(item)) | {"best": best[item.sample, item.layer, item.head] == item.mask}
            for item in result
        ],
    }


def _refuse(use: str, options: tuple[str, ...], given: tuple[bool, ...]) -> None:
    wrong = [option for option, there in zip(options, given, strict=True) if there]
    if wrong:
        goes, them = ("goes", "it") if len(wrong) == 1 else ("go", "them")
        raise ValueError(f"{' and '.join(wrong)} {goes} only with {use}; leave {them} out")


def _ours(doubt: warnings.WarningMessage) -> bool:
    from porism.errors import NumericalWarning

    return issubclass(doubt.category, NumericalWarning) or doubt.category is UserWarning
