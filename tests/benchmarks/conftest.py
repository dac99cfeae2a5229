"""Benchmarks run on request only: PORISM_BENCH=1, or `make bench`."""

import os

collect_ignore_glob = [] if os.environ.get("PORISM_BENCH") else ["test_*.py"]
