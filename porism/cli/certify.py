"""`porism certify`: certify a decision on a table of utilities, with an exit code a script can use."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from porism.cli.common import as_options, check_outputs, check_picture, draw

if TYPE_CHECKING:
    from porism.theory.partition import Decision, SmallCoalitions

__all__ = ["certify"]

EXIT_CODES = {"robust": 0, "not_robust": 1, "undecided": 3}

WORDS = {
    "k": "--top-k",
    "tau": "--threshold",
    "small": "--small-below",
    "below": "--small-below",
    "values": "--small-values",
    "bounds": "--small-bounds",
    "TopK": "--top-k",
    "Sign": "--sign",
    "Threshold": "--threshold",
    "RelativeThreshold": "--above-mean",
    "OrderedPartition": "--blocks",
}
"""Options by the names that the library has for them."""


def certify(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Table: .npz, .csv, .parquet or .json.")],
    semivalue: Annotated[
        str, typer.Option(help="shapley, banzhaf, beta:4,1, wbanzhaf:1/4, loo or weights:P0,P1,…")
    ] = "shapley",
    top_k: Annotated[int | None, typer.Option(help="Select the K best players.")] = None,
    sign: Annotated[bool, typer.Option("--sign", help="Select the players of positive value.")] = False,
    threshold: Annotated[str | None, typer.Option(help="Select the players above this value.")] = None,
    above_mean: Annotated[
        bool, typer.Option("--above-mean", help="Select the players above the mean value.")
    ] = False,
    blocks: Annotated[str | None, typer.Option(help="Ordered blocks, best first, such as 0,1/2,3.")] = None,
    shape: Annotated[str, typer.Option(help="increasing, concave or convex.")] = "increasing",
    max_slope_ratio: Annotated[
        float, typer.Option(help="Largest ratio of two slopes of a transform.")
    ] = float("inf"),
    range_normalised: Annotated[
        bool, typer.Option("--range-normalised", help="Transforms keep the range of the scores.")
    ] = False,
    decimals: Annotated[int | None, typer.Option(help="Round the scores first.")] = None,
    small_below: Annotated[int | None, typer.Option(help="Coalitions of fewer players are free.")] = None,
    small_values: Annotated[str, typer.Option(help="range, monotone, size-only or free.")] = "range",
    small_bounds: Annotated[str | None, typer.Option(help="Range of small coalitions: LO,HI.")] = None,
    missing: Annotated[str, typer.Option(help="raise, range or monotone.")] = "raise",
    ties: Annotated[str, typer.Option(help="raise or weak.")] = "raise",
    target: Annotated[str, typer.Option(help="exact, estimate or population.")] = "exact",
    delta: Annotated[float, typer.Option(help="Error probability of a population verdict.")] = 0.05,
    epsilon: Annotated[float, typer.Option(help="Tolerated level difference of a population verdict.")] = 0.0,
    players: Annotated[
        int | None, typer.Option(help="Number of players, where no row names the last.")
    ] = None,
    max_players: Annotated[int, typer.Option(min=1, max=30, help="Largest table accepted.")] = 24,
    masks: Annotated[bool, typer.Option("--masks", help="Coalitions are written as bit masks.")] = False,
    on_duplicate: Annotated[str, typer.Option(help="raise, mean or first.")] = "raise",
    json: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the certificate; - prints it.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Draw values and blocks into a picture.")
    ] = None,
) -> None:
    """Certify a decision on a table of utilities.

    Exit 0: robust to every admissible change of the utility; 1: not robust, the second line names a witness;
    3: undecided; 2: bad input.

    Example: porism certify table.csv --semivalue banzhaf --top-k 5 --json certificate.json
    """
    from porism.theory.partition import MonotoneClass, Semivalue, UtilityTable, certify_partition

    check_picture(plot)
    check_outputs(plot, None if str(json) == "-" else json, inputs=(table,))
    try:
        decision = _decision(top_k, sign, threshold, above_mean, blocks)
        small = _small(small_below, small_values, small_bounds)
        transforms = MonotoneClass(shape, max_slope_ratio, range_normalised, decimals)
        value = Semivalue.parse(semivalue)
        data = UtilityTable.load(
            table, n=players, masks=masks, on_duplicate=on_duplicate, max_players=max_players
        )
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always")
            certificate = certify_partition(
                data,
                value,
                decision,
                transforms=transforms,
                small=small,
                missing=missing,
                ties=ties,
                target=target,
                delta=delta,
                epsilon=epsilon,
            )
    except ValueError as error:
        error.args = (as_options(str(error), certify, WORDS),)
        raise
    for doubt in doubts:
        typer.echo(f"porism certify: warning: {as_options(str(doubt.message), certify, WORDS)}", err=True)
    if plot is not None:
        draw(plot, lambda figure: certificate.plot(figure.subplots()))
    if json is not None and str(json) != "-":
        certificate.to_json(json)
    if str(json) == "-":
        typer.echo(certificate.to_json())
    else:
        typer.echo(certificate.summary())
        if certificate.witness is not None:
            witness = certificate.witness
            pair = ",".join(map(str, witness.pair))
            slope = witness.epsilon
            short = str(slope) if slope.denominator < 10**6 else f"{float(slope):.6g}"
            typer.echo(f"witness: level={witness.level:.12g} pair=({pair}) epsilon={short}")
    if EXIT_CODES[certificate.verdict]:
        raise typer.Exit(EXIT_CODES[certificate.verdict])


def _decision(
    top_k: int | None, sign: bool, threshold: str | None, above_mean: bool, blocks: str | None
) -> "Decision":
    from porism.theory.partition import OrderedPartition, RelativeThreshold, Sign, Threshold, TopK

    asked = [top_k is not None, sign, threshold is not None, above_mean, blocks is not None]
    if sum(asked) != 1:
        raise ValueError(
            f"give exactly one of --top-k, --sign, --threshold, --above-mean, --blocks, got {sum(asked)}"
        )
    if top_k is not None:
        return TopK(top_k)
    if threshold is not None:
        try:
            return Threshold(threshold)
        except ValueError:
            raise ValueError(
                f"--threshold must be a number or a fraction such as 1/3, got {threshold!r}"
            ) from None
    if blocks is not None:
        try:
            return OrderedPartition([[int(p) for p in block.split(",")] for block in blocks.split("/")])
        except ValueError as error:
            if "invalid literal" not in str(error):
                raise
            raise ValueError(f"--blocks must look like 0,1/2,3, got {blocks!r}") from None
    return Sign() if sign else RelativeThreshold()


def _small(below: int | None, values: str, bounds: str | None) -> "SmallCoalitions | None":
    from porism.theory.partition import SmallCoalitions

    if below is None:
        if bounds is not None or values != "range":
            raise ValueError("--small-values and --small-bounds need --small-below M")
        return None
    if bounds is None:
        return SmallCoalitions(below, values)
    try:
        low, high = (float(x) for x in bounds.split(","))
    except ValueError:
        raise ValueError(f"--small-bounds must look like 0,1, got {bounds!r}") from None
    return SmallCoalitions(below, values, (low, high))
