"""Four public sets of scores of language models, read from a local folder.

The folder is named by the environment variable PORISM_DATA (or by ``folder=``) and holds ``pandora/*.npz``:
scores, costs and features derived from public repositories, which `SOURCES` names. Nothing is downloaded.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from porism import _files
from porism.checks import one_of
from porism.sims.pandora.agreement import Answers
from porism.sims.pandora.matrix import ScoreMatrix
from porism.sims.pandora.tables import read_npz

__all__ = [
    "MMLU_PRO_REFERENCES",
    "SOURCES",
    "Source",
    "has_data",
    "load_dc9",
    "load_mmlu_pro",
    "load_routellm",
    "load_routerarena",
]

Folder = str | os.PathLike[str] | None
CHEAP = 6  # leading components of the text that a cheap estimator sees


class Source(NamedTuple):
    """Where a set comes from.

    Parameters
    ----------
    file : str
        Name of the derived file.
    repository, path, commit : str
        Public origin.
    license : str
        License there.
    """

    file: str
    repository: str
    path: str
    commit: str
    license: str

    def __str__(self) -> str:
        return f"{self.repository}, {self.path}, commit {self.commit}, {self.license}"


SOURCES = {
    "dc9": Source(
        "llmrouter_dc9.npz",
        "https://github.com/ulab-uiuc/LLMRouter",
        "data/dcrouter_preprocessed/{train,test}.json",
        "4e7a7969",
        "MIT",
    ),
    "mmlu_pro": Source(
        "mmlu_pro_matrix.npz",
        "https://github.com/TIGER-AI-Lab/MMLU-Pro",
        "eval_results/model_outputs_*_5shots.zip",
        "f418b116",
        "Apache-2.0",
    ),
    "routellm": Source(
        "routellm_mmlu_gsm8k.npz",
        "https://github.com/lm-sys/RouteLLM",
        "routellm/evals/mmlu/responses/*.csv and routellm/evals/gsm8k/gsm8k_responses.csv",
        "0b64fdaf",
        "Apache-2.0",
    ),
    "routerarena": Source(
        "routerarena_sub10.npz",
        "https://github.com/RouteWorks/RouterArena",
        "cached_results/{claude-3-haiku-20240307,gemini-2.0-flash-001}.jsonl",
        "4714a9ad",
        "Apache-2.0",
    ),
}
"""Origin of each set by name. Derived files hold scores and text features (SVD of TF-IDF), no prompts."""

MMLU_PRO_REFERENCES = ("mathstral-7B", "Phi-3-mini-4k-instruct", "Meta-Llama-3_1-8B-Instruct")
"""Three small models of MMLU-Pro to compare answers with."""


def has_data(name: str, folder: Folder = None) -> bool:
    """Whether a set is there.

    Parameters
    ----------
    name : {"dc9", "mmlu_pro", "routellm", "routerarena"}
        Set.
    folder : path, optional
        Instead of PORISM_DATA.

    Returns
    -------
    bool
        True if its file exists.

    Raises
    ------
    ValueError
        If there is no such set.

    Examples
    --------
    >>> has_data("dc9", "no_such_folder")
    False
    """
    return _place(name, folder)[0] is not None


def load_dc9(folder: Folder = None) -> ScoreMatrix:
    """Nine language models on 6,108 prompts, from LLMRouter (MIT).

    Parameters
    ----------
    folder : path, optional
        Folder with ``pandora/llmrouter_dc9.npz``, or the folder that holds the file; PORISM_DATA by default.

    Returns
    -------
    ScoreMatrix
        Scores in [0, 1], 97 % of them 0 or 1. Features are 64 components of the text and the log of its
        length, cheap features the first 6 and the log; `groups` marks 119 repeated prompts; `split` 1 is the
        test set of 500.

    Raises
    ------
    FileNotFoundError
        If the file is not there; the message says where the set comes from.
    ValueError
        If it is damaged.

    References
    ----------
    https://github.com/ulab-uiuc/LLMRouter, ``data/dcrouter_preprocessed``.

    Examples
    --------
    >>> load_dc9().scores.shape  # doctest: +SKIP
    (6108, 9)
    """
    return _with_length("dc9", folder)


def load_routellm(folder: Folder = None) -> ScoreMatrix:
    """A weak and a strong language model on 14,042 questions of MMLU and 1,319 of GSM8K (Apache-2.0).

    Parameters
    ----------
    folder : path, optional
        Folder with ``pandora/routellm_mmlu_gsm8k.npz``; PORISM_DATA by default.

    Returns
    -------
    ScoreMatrix
        Scores 0 and 1; `subset` is ``mmlu/<subject>`` or ``gsm8k``; features as in `load_dc9`.

    Raises
    ------
    FileNotFoundError, ValueError
        As `load_dc9`.

    References
    ----------
    https://github.com/lm-sys/RouteLLM, ``routellm/evals``; Ong et al. (2024), arXiv:2406.18665.

    Examples
    --------
    >>> load_routellm().models  # doctest: +SKIP
    ('mixtral-8x7b-instruct-v0.1', 'gpt-4-1106-preview')
    """
    return _with_length("routellm", folder)


def load_routerarena(folder: Folder = None) -> ScoreMatrix:
    """Two language models on 809 queries of 78 tasks, with what each answer cost in dollars (Apache-2.0).

    Parameters
    ----------
    folder : path, optional
        Folder with ``pandora/routerarena_sub10.npz``; PORISM_DATA by default.

    Returns
    -------
    ScoreMatrix
        `costs` in dollars a query, `subset` the task; 32 features, the first 6 cheap.

    Raises
    ------
    FileNotFoundError, ValueError
        As `load_dc9`.

    References
    ----------
    https://github.com/RouteWorks/RouterArena; Lu et al. (2025), arXiv:2510.00202.

    Examples
    --------
    >>> load_routerarena().costs.mean(0) * 1000  # doctest: +SKIP
    array([0.17603163, 0.04749184])
    """
    return _with_length("routerarena", folder)


def load_mmlu_pro(folder: Folder = None) -> Answers:
    """Answers of 29 language models to the 12,032 questions of MMLU-Pro (Apache-2.0).

    Parameters
    ----------
    folder : path, optional
        Folder with ``pandora/mmlu_pro_matrix.npz``; PORISM_DATA by default.

    Returns
    -------
    Answers
        ``.matrix()`` scores them; 3 models were not asked everything. Features are 32 components of the text
        and the log of its length.

    Raises
    ------
    FileNotFoundError, ValueError
        As `load_dc9`.

    References
    ----------
    https://github.com/TIGER-AI-Lab/MMLU-Pro, ``eval_results``; Wang et al. (2024), arXiv:2406.01574.

    Examples
    --------
    >>> load_mmlu_pro().predictions.shape  # doctest: +SKIP
    (12032, 29)
    """
    path, source = _file("mmlu_pro", folder)
    held = _held(
        path, "pred", "answer", "missing", "output_chars", "models", "features", "prompt_chars", "category"
    )
    predictions, key = held["pred"].astype(np.int64), held["answer"].astype(np.int64)
    length = np.log(np.maximum(held["prompt_chars"], 1.0))
    shape = predictions.shape
    fits = (
        len(shape) == 2
        and key.shape == length.shape == held["category"].shape == shape[:1]
        and held["missing"].shape == held["output_chars"].shape == shape
        and held["models"].shape == shape[1:]
        and held["features"].ndim == 2
        and len(held["features"]) == shape[0]
    )
    if not fits:
        raise ValueError(f"{path.name} is damaged: the shapes of its arrays do not fit each other")
    return Answers(
        predictions,
        key,
        held["output_chars"].astype(np.float64),
        ~held["missing"].astype(bool),
        tuple(map(str, held["models"])),
        np.column_stack([held["features"].astype(np.float64), length]),
        held["category"].astype(str),
        str(source),
    )


def _with_length(name: str, folder: Folder) -> ScoreMatrix:
    """Read a score matrix and join the log of the prompt's length to its features."""
    import dataclasses

    path, source = _file(name, folder)
    matrix = read_npz(path)
    if matrix.features is None:
        raise ValueError(f"{path.name} has no array features")
    parts = [matrix.features]
    chars = _files.read_npz(path, ("prompt_chars",)).get("prompt_chars")
    if chars is not None:
        if chars.shape != (len(matrix.scores),) or chars.dtype.kind not in "biuf":
            raise ValueError(f"{path.name} is damaged: prompt_chars does not fit score")
        parts.append(np.log(np.maximum(chars.astype(np.float64), 1.0))[:, None])
    narrow = np.hstack([matrix.features[:, :CHEAP], *parts[1:]])
    return dataclasses.replace(matrix, features=np.hstack(parts), cheap_features=narrow, source=str(source))


def _held(path: Path, *names: str) -> dict[str, NDArray[Any]]:
    held = _files.read_npz(path, names)
    for name in names:
        if name not in held:
            raise ValueError(f"{path.name} has no array {name}; it has {', '.join(held) or 'none'}")
        if held[name].dtype.kind not in ("US" if name in ("models", "category") else "biuf"):
            raise ValueError(f"{path.name}: {name} has the wrong type {held[name].dtype}")
    return held


def _place(name: str, folder: Folder) -> tuple[Path | None, Source]:
    source = SOURCES[one_of("name", name, SOURCES)]
    root = folder or os.environ.get("PORISM_DATA")
    places = [] if not root else [Path(root) / "pandora" / source.file, Path(root) / source.file]
    return next((place for place in places if place.is_file()), None), source


def _file(name: str, folder: Folder) -> tuple[Path, Source]:
    path, source = _place(name, folder)
    if path is None:
        raise FileNotFoundError(
            f"{source.file} was not found; set PORISM_DATA to the folder that holds pandora/{source.file}. "
            f"The data come from {source}"
        )
    return path, source
