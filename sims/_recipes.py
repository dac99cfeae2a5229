"""Recipes of trained checkpoints, and the cache outside the repository that keeps them."""

import hashlib
import json
import os
import sys
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from porism.checks import one_of
from porism.sims import corpora
from porism.sims.tiny_transformer import TinyConfig

__all__ = ["CORPORA", "RECIPES", "Recipe", "cache_dir", "checkpoint_path", "remember", "start"]

CORPORA = ("topics_char", "topics_bpe", "markov", "digits_patches")
"""Corpora that a recipe can name."""

VERSION = 1
"""Raise it when a change of the trainer changes what a recipe makes."""


@dataclass(frozen=True)
class Recipe:
    """How a checkpoint is made, all but its seed.

    Parameters
    ----------
    config : TinyConfig
        Shape of the model.
    corpus : {"topics_char", "topics_bpe", "markov", "digits_patches"}
        Function of `porism.sims.corpora`.
    steps : int
        Number of steps.
    lr : float
        Largest step size.
    batch : int, default 16
        Examples a step.
    schedule_steps : int, default 0
        Length of the cosine; 0: `steps`.
    optimizer : {"adamw", "muon"}, default "adamw"
        Optimiser.
    options : dict, default empty
        Arguments of the function of the corpus.

    Raises
    ------
    ValueError
        If the corpus or the optimiser is unknown.

    Examples
    --------
    >>> Recipe(TinyConfig(vocab=12), "markov", steps=20, lr=4e-3, options={"seed": 1}).steps
    20
    """

    config: TinyConfig
    corpus: str
    steps: int
    lr: float
    batch: int = 16
    schedule_steps: int = 0
    optimizer: str = "adamw"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("corpus", self.corpus, CORPORA)
        one_of("optimizer", self.optimizer, ("adamw", "muon"))


RECIPES = {
    "xs": Recipe(TinyConfig(vocab=96), "topics_char", 500, 4e-3),
    "s": Recipe(TinyConfig(vocab=96, d=96, layers=3, kv_heads=2), "topics_char", 500, 3e-3),
    "m": Recipe(TinyConfig(vocab=96, d=128, layers=4), "topics_char", 600, 2e-3),
}
"""English text at three sizes: 0.10, 0.31 and 0.80 million parameters."""


def cache_dir() -> Path:
    """Name the folder of trained checkpoints; it need not exist.

    Returns
    -------
    Path
        The value of the environment variable ``PORISM_CACHE`` where it is set, else the folder "porism" in
        the user's cache: ``XDG_CACHE_HOME`` or ``~/.cache``, on macOS ``~/Library/Caches``, on Windows
        ``LOCALAPPDATA``.

    Examples
    --------
    >>> import os
    >>> cache_dir() == cache_dir().absolute() or "PORISM_CACHE" in os.environ
    True
    """
    if chosen := os.environ.get("PORISM_CACHE"):
        return Path(chosen).expanduser()
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        base = base if base.is_absolute() else home / ".cache"  # its standard says to ignore relative ones
    return base / "porism"


def start(recipe: Recipe, seed: int) -> tuple[Any, Any, Any, str]:
    """Make what a recipe starts from: model, batches, held-out data, loss."""
    from porism.sims.tiny_transformer import TinyTransformer

    corpus, digits = getattr(corpora, recipe.corpus)(**recipe.options), recipe.corpus == "digits_patches"
    if digits:
        batches, held_out = corpus.batches(recipe.batch), corpus.windows()
    else:
        length = recipe.config.max_len
        batches, held_out = corpus.batches(recipe.batch, length), corpus.windows(length)
    return TinyTransformer(recipe.config, seed), batches, held_out, "classify" if digits else "next_token"


def checkpoint_path(recipe: Recipe, seed: int, corpus_hash: str, torch_version: str) -> Path:
    """Name the file of a checkpoint after all that it depends on."""
    parts = [VERSION, asdict(recipe), seed, corpus_hash, torch_version.partition("+")[0]]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    return cache_dir() / "checkpoints" / f"{recipe.corpus}-{recipe.config.d}-{seed}-{key}.safetensors"


def remember(path: Path, model: Any, result: Any) -> None:
    """Put a checkpoint and its run into the cache; the model last, as it is looked for first."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        result.save(path.with_suffix(".npz"))
        model.save(path)
    except OSError as error:
        warnings.warn(
            f"the trained model could not be kept in {path.parent} ({error}) and will be trained again next "
            "time; set the environment variable PORISM_CACHE to a folder that can be written",
            UserWarning,
            stacklevel=3,
        )
