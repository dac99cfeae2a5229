"""Arrays of an npz file that hold a score matrix."""

import os
from typing import Any

from numpy.typing import NDArray

from porism._files import read_npz

READ = (
    "score", "scores", "models", "features", "cheap_features", "mask", "missing", "cost_usd", "costs",
    "groups", "prompt_sha1", "subset", "category", "split", "pred", "answer", "output_chars", "prompt_chars",
)  # fmt: skip


def arrays(path: str | os.PathLike[str], name: str) -> dict[str, NDArray[Any]]:
    """The arrays that this package knows by name."""
    held = read_npz(path, READ)
    return {key: held[key] for key in READ if key in held}
