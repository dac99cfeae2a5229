"""Nothing that this project reads can run code: no pickle, no eval, no loader that falls back on either."""

import ast

import pytest

MODULES = {"pickle", "cPickle", "_pickle", "shelve", "marshal", "dill", "cloudpickle", "jsonpickle", "imp"}
CALLS = {"eval", "exec", "compile", "__import__"}
LOADERS = {
    *("joblib.load", "pd.read_pickle", "pandas.read_pickle", "np.load", "numpy.load", "np.fromfile"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "np.genfromtxt", "np.loadtxt", "sparse.load_npz"),
    *("scipy.sparse.load_npz", "mmread", "io.mmread"),
}
"""Loaders that unpickle, trust sizes, or crash; porism._files has what takes their place."""

TRANSPORT = {"porism/_pool.py": "distributed.protocol.pickle"}
"""What one process of a run sends to another is no file; a scheduler's clients trust each other by design."""


def dotted(node):
    """The name of a function as written, such as np.load."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "", *parts[::-1]])


def dangers(text, name=""):
    """Lines that could run what a file holds, each with what it is."""
    for node in ast.walk(ast.parse(text)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            yield from ((line, a.name) for a in node.names if a.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            yield line, node.module
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            word = node.value  # of a module that is imported by name
            if word.rpartition(".")[2] in MODULES and " " not in word and word != TRANSPORT.get(name):
                yield line, word
        elif isinstance(node, ast.Call):
            called = dotted(node.func)
            options = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            if (
                called in CALLS | LOADERS
                or called.endswith((".read_pickle", ".unsafe_load"))
                or (called == "torch.load" and options.get("weights_only") is not True)
                or options.get("allow_pickle", False) is not False
                or (called.endswith("read_array") and "allow_pickle" not in options)
                or options.get("trust_remote_code", False) is not False
            ):
                yield line, called


def test_no_file_is_trusted(root):
    found = []
    for folder in ("porism", "kernels", "theory", "sims", "notebooks", "docs"):
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            found += [f"{name}:{line}: {what}" for line, what in dangers(path.read_text(), name)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import os, pickle as p",
        "from pickle import loads",
        "from marshal import loads",
        "import shelve",
        "importlib.import_module('pickle')",
        "require('distributed.protocol.pickle', 'cluster')",
        "np.load(path)",
        "np.load(path, allow_pickle=False)",
        "f(path, allow_pickle=True)",
        "f(path, allow_pickle=flag)",
        "npy.read_array(stream)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "yaml.load(text)",
        "eval('1')",
        "exec(text)",
        "joblib.load(path)",
        "pd.read_pickle(path)",
        "frame.read_pickle(path)",
        "sparse.load_npz(path)",
        "mmread(path)",
        "AutoModel.from_pretrained(path, trust_remote_code=True)",
        "__import__(name)",
    ],
)
def test_each_danger_is_seen(text):
    assert list(dangers(text))


@pytest.mark.parametrize(
    "text",
    [
        "model.eval()",
        "read_npz(path)",
        "torch.load(path, weights_only=True)",
        "np.savez(path, allow_pickle=False, **arrays)",
        "npy.read_array(stream, allow_pickle=False)",
        "json.loads(text)",
        "'a pickle is refused'",
        "re.compile('a')",
    ],
)
def test_what_is_safe_is_not(text):
    assert not list(dangers(text))


def test_the_transport_is_known_where_it_is():
    for name, module in TRANSPORT.items():
        assert not list(dangers(f"require({module!r}, 'cluster')", name))
