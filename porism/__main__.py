"""`python -m porism` is `porism`."""

import sys

__all__ = ["run"]


def run() -> int:
    """Run the command line; Ctrl-C while it loads is no traceback either.

    Returns
    -------
    int
        The exit code.
    """
    try:
        from porism.cli import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(run())
