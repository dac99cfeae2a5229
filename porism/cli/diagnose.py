"""`porism diagnose`: one pass of a model over data, and all that can be told from it."""

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from porism._show import plain
from porism.cli.common import AsJson, Seed, as_options, check_outputs, echo_json

__all__ = ["diagnose"]

WORDS = {"aspects": "--aspect", "modules": "--module", "scan_samples": "--scan", "random_state": "--seed"}
"""Options by the names that the library has for them."""


def diagnose(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a checkpoint or of an adapter.")],
    data: Annotated[
        Path, typer.Option(metavar="FILE", help=".txt (a sentence a line), .csv (text, label) or .npz (ids).")
    ],
    labels: Annotated[
        str | None, typer.Option(metavar="FILE|COLUMN", help="One class a line, or a column of the csv.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="OUT", help="Save the result as .npz.")] = None,
    json: AsJson = False,
    html: Annotated[Path | None, typer.Option(metavar="PAGE", help="Write a page.")] = None,
    base: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Base model of an adapter.")] = None,
    aspect: Annotated[
        list[str] | None,
        typer.Option(help="capacity, heads, ranks, alignment or lora; may be repeated. All by default."),
    ] = None,
    module: Annotated[
        list[str] | None, typer.Option(help="Linear map for the alignment; may be repeated.")
    ] = None,
    rank: Annotated[int, typer.Option(min=1, help="Rank of adapters whose start is judged.")] = 8,
    position: Annotated[str, typer.Option(help="auto, cls, last or mask.")] = "auto",
    causal: Annotated[
        bool | None,
        typer.Option(
            "--causal/--bidirectional", help="Whether attention hides later tokens; read off by default."
        ),
    ] = None,
    eps: Annotated[float, typer.Option(help="Share of coverage that may be lost.")] = 0.1,
    n_null: Annotated[int, typer.Option("--n-null", min=1, help="Shuffled maps a head.")] = 99,
    scan: Annotated[int, typer.Option(min=0, help="Sequences whose heads are measured; 0: all.")] = 64,
    batch_size: Annotated[int, typer.Option(min=1, help="Sequences in a batch.")] = 16,
    max_tokens: Annotated[int, typer.Option(min=2, help="Cut sentences after so many tokens.")] = 128,
    seed: Seed = 0,
) -> None:
    """Diagnose a model from one pass over data.

    Positions that carry a gradient, patterns of attention heads, ranks of hidden states, alignment where
    there are labels, and spectra of adapters. Nothing is looked up on a hub.

    Example: porism diagnose folder --data sentences.csv --html page.html
    """
    check_outputs(out, html, inputs=(data, None if labels is None else Path(labels)))
    if not (model / "config.json").is_file() and not (model / "adapter_config.json").is_file():
        raise ValueError(
            f"MODEL must be a folder with a config.json, got {str(model)!r}; names are not looked up on a "
            "hub: download the checkpoint and pass its folder"
        )
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # this process loads from folders only
    from porism.sims.diagnose import diagnose as run
    from porism.sims.diagnose.result import ALPHA

    try:
        found = run(
            model,
            data,
            labels=labels,
            base=base,
            aspects=aspect or "all",
            modules=module,
            rank=rank,
            position=position,
            causal=causal,
            eps=eps,
            n_null=n_null,
            scan_samples=scan or None,
            batch_size=batch_size,
            max_tokens=max_tokens,
            random_state=seed,
            progress=True,
        )
    except (ValueError, TypeError, NotImplementedError) as error:  # the last is of a kind of model: bad input
        raise ValueError(as_options(str(error), diagnose, WORDS)) from error
    if ALPHA * (n_null + 1) < 1 and {"heads", "all"} & set(aspect or ["all"]):
        typer.echo(
            f"porism diagnose: warning: --n-null {n_null} allows no p-value below 1/{n_null + 1}, so no head "
            f"passes at {ALPHA:g}; raise it",
            err=True,
        )
    if out is not None:
        found.save(out)
    if html is not None:
        found.to_html(html)
    if json:
        echo_json(_plain(found))
    else:
        typer.echo(found.summary())


def _plain(value: Any) -> Any:
    """Everything in a result as JSON has it: arrays as lists, NaN and infinity as strings."""
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return plain(value.tolist() if hasattr(value, "tolist") else value)
