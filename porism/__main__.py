"""`python -m porism` is `porism`."""

import sys

from porism.cli import main

if __name__ == "__main__":
    sys.exit(main())
