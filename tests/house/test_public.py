"""Every public name is documented, typed and listed; every claim has a control; examples run."""

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest

from porism import sims

SKIPPED = ("porism.__main__", "porism.cli")  # verbs are documented by their help
FLOORS = ("porism", "porism.kernels", "porism.theory", "porism.sims")  # folders that no other one contains
MODULES = [
    info.name
    for floor in FLOORS
    for info in pkgutil.walk_packages(importlib.import_module(floor).__path__, f"{floor}.")
    if not info.name.startswith(SKIPPED)
    and "._" not in info.name
    and not re.search(r"kernels\.\w+\.(reference|cpu|triton)$", info.name)  # documented by their package
]


def test_every_floor_is_walked():
    assert {
        "porism.checks",
        "porism.kernels.coalition",
        "porism.theory.partition",
        "porism.sims.partition",
    } <= {*MODULES}


def registered(module):
    """Functions that a registry lists in place of `__all__`: claims, figures, benchmarks."""
    from porism.claims import _REGISTRY

    found = [claim.check for claim in _REGISTRY.values()]
    found += [*getattr(module, "FIGURES", {}).values(), *getattr(module, "BENCHMARKS", [])]
    return {id(function) for function in found}


def own(module):
    """Public functions and classes that a module defines."""
    for name, value in vars(module).items():
        value = getattr(value, "py_func", value)  # numba's dispatchers
        if name.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)):
            continue
        if value.__module__ == module.__name__ and id(value) not in registered(module):
            yield name, value


def problems(name, thing):
    """What the docstring and the signature of a public name lack."""
    text = inspect.getdoc(thing) or ""
    if not text:
        return [f"{name} has no docstring"]
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return []
    found = []
    signature = inspect.signature(thing)
    takes = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    if (
        takes
        and "Parameters\n-" not in text
        and not (inspect.isclass(thing) and "__init__" not in vars(thing))
    ):
        found.append(f"{name} has no section Parameters")
    if inspect.isfunction(thing):
        found += [f"{name} does not type {p.name}" for p in takes if p.annotation is p.empty]
        if signature.return_annotation is signature.empty:
            found.append(f"{name} does not type what it returns")
        elif signature.return_annotation is not None and "Returns\n-" not in text and "Yields\n-" not in text:
            found.append(f"{name} has no section Returns")
        if "." not in name and ">>>" not in text:
            found.append(f"{name} has no example")
    else:
        methods = {k: getattr(v, "__func__", v) for k, v in vars(thing).items() if not k.startswith("_")}
        for key, method in methods.items():
            if inspect.isfunction(method):
                found += problems(f"{name}.{key}", method)
    return found


@pytest.mark.parametrize("name", MODULES)
def test_public_names(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    assert hasattr(module, "__all__"), f"{name} has no __all__"
    missing = [entry for entry in module.__all__ if not hasattr(module, entry)]
    assert not missing, f"{name}.__all__ lists what is not there"
    defined = dict(own(module))
    assert set(defined) <= set(module.__all__), "public, yet not in __all__"
    assert [problem for key, thing in defined.items() for problem in problems(key, thing)] == []


@pytest.mark.parametrize("name", [*MODULES, "porism.cli"])
def test_examples_run(name, monkeypatch, tmp_path, capsys, needs):
    monkeypatch.chdir(tmp_path)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    text = []
    for test in finder.find(importlib.import_module(name)):
        for extra in re.findall(r"^\s*>>> import (\w+)$", test.docstring, re.MULTILINE):
            needs(extra)
        runner.run(test, out=text.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(text)


def test_the_check_of_docstrings_can_fail():
    def bare(x):
        """Say something."""

    assert len(problems("bare", bare)) == 4


def test_every_claim_has_a_control():
    claims = sims.ledger()
    assert all(claim.control.strip() and claim.statement.strip() and claim.source.strip() for claim in claims)
    assert len({claim.id for claim in claims}) == len(claims)
    assert {claim.module for claim in claims} == set(sims.modules())
