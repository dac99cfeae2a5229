"""`porism claims` and `porism check`: read the ledger, run it."""

import typer

from porism.cli.common import (
    AsJson,
    Modules,
    Names,
    Scale,
    Scheduler,
    Seed,
    Workers,
    echo_json,
    select,
    table,
)

__all__ = ["check", "claims"]


def claims(modules: Modules = None, json: AsJson = False) -> None:
    """List what is claimed, of which kind, and where it comes from.

    Example: porism claims partition --json
    """
    found = select(modules)
    if json:
        echo_json([claim.to_dict() for claim in found])
    elif found:
        typer.echo(table([("id", "kind", "statement"), *((c.id, c.kind, c.statement) for c in found)]))


def check(
    names: Names = None,
    scale: Scale = "smoke",
    seed: Seed = 0,
    workers: Workers = 1,
    scheduler: Scheduler = None,
    json: AsJson = False,
) -> None:
    """Run claims and their controls; exit 1 if one is not as stated.

    A control is the same check with one hypothesis broken, on which it must fail.

    Example: porism check PR-3 PR-9 --scale paper
    """
    from porism.claims import run

    ledger = run(select(names), scale, seed, progress=True, workers=workers, scheduler=scheduler)
    if json:
        echo_json(ledger.to_dict())
    elif ledger:
        heads = ("id", "kind", "verdict", "measured", "expected", "tolerance", "control measured", "seconds")
        rows = (
            (
                *(outcome.claim.id, outcome.claim.kind, outcome.verdict),
                *(outcome.evidence.measured, outcome.evidence.expected, outcome.evidence.tolerance),
                *(outcome.control_evidence.measured, f"{outcome.seconds:.2f}"),
            )
            for outcome in ledger
        )
        typer.echo(table([heads, *rows]))
        typer.echo(f"{sum(outcome.ok for outcome in ledger)} of {len(ledger)} claims came out as stated")
    if not ledger.ok:
        raise typer.Exit(1)
