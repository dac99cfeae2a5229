"""The command line: a thin layer over library functions.

Exit codes: 0 done, 1 a claim or a step failed, 2 bad input, 70 a defect of ours, 130 interrupted, 141 nobody
read the output; `certify` adds 3 for undecided, `route fit` 3 for refined estimates that do harm.

No file that is read is run. One that would take more than 4 GiB of memory is refused, or more than 256 MiB
where it is text or packed more than 50 times smaller; PORISM_FILE_LIMIT, in bytes, takes the place of both.
"""

import functools
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from porism.errors import MissingExtraError

__all__ = ["app", "main"]

VERBS = ("claims", "reproduce", "certify", "scan", "diagnose", "route", "bench", "notebooks")
"""Modules of this package whose `__all__` names their verbs, or a group of them, in the order of the help."""

LONGEST = 1000
"""Characters of a message; what a file holds may be quoted in one."""

app = typer.Typer(
    rich_markup_mode=None, pretty_exceptions_enable=False, context_settings={"max_content_width": 110}
)


def _version(asked: bool) -> None:
    if asked:
        import porism

        typer.echo(f"porism {porism.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _porism(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Theorems of recent machine-learning papers as things one can run.

    Example: porism check partition
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _module in VERBS:
    _found = importlib.import_module(f"porism.cli.{_module}")
    for _verb in _found.__all__:
        if isinstance(_entry := getattr(_found, _verb), typer.Typer):
            app.add_typer(_entry, name=_verb)
        else:
            app.command(_verb)(_entry)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words after ``porism``; those of the process where none are given.

    Returns
    -------
    int
        The exit code. Bad input gives one line on stderr and 2, never a traceback.

    Examples
    --------
    >>> main(["claims", "--json"])  # doctest: +ELLIPSIS
    [...
    0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, who wants the exit code alone
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    stdout = sys.stdout
    try:
        code = _command().main(words, prog_name="porism", standalone_mode=False)
        sys.stdout.flush()
        return code or 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _broken_pipe()
    except SystemExit as left:  # after completing a word; or with stdout wrapped, as nobody reads it
        return _broken_pipe() if sys.stdout is not stdout else int(left.code or 0)
    except Exception as error:
        if os.environ.get("PORISM_DEBUG"):
            raise
        name, message, code = type(error).__name__, str(error), 2
        if hasattr(error, "format_message"):  # a usage error, of whichever click typer carries
            message = error.format_message()
        elif isinstance(error, MemoryError):
            message = f"not enough memory: {error}" if message else "not enough memory"
        elif not isinstance(error, (ValueError, TypeError, OSError, MissingExtraError)):
            message, code = f"{name}: {message} (set PORISM_DEBUG=1 for the traceback)", 70
        _complain(f"{_program(words)}: {_line(message) or name}")
        return code


@functools.cache
def _command() -> Any:
    return typer.main.get_command(app)


def _program(words: Sequence[str]) -> str:
    """The words that name the verb, such as `porism route fit`."""
    known: Any = _command()
    named = ["porism"]
    for word in words:
        known = getattr(known, "commands", {}).get(word)
        if known is None:
            break
        named.append(word)
    return " ".join(named)


def _line(message: str) -> str:
    """A message as one line: nothing that moves a terminal's cursor, and no more than a screen of it."""
    text = "".join(c if c.isprintable() else "?" for c in " ".join(message.split()))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _complain(text: str) -> None:
    print(text, file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # a full disk: the interpreter would complain of it once more at its end
        _broken_pipe()


def _broken_pipe() -> int:
    # else the interpreter complains when it flushes at its end
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
