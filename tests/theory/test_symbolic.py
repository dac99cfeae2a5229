"""The examples of all derivations: documentation shows them unrun, for readers who have no sympy."""

import doctest
import importlib
import pkgutil

import pytest

from porism import theory

MODULES = [
    found.name
    for found in pkgutil.walk_packages(theory.__path__, "porism.theory.")
    if found.name.endswith(".symbolic")
]


@pytest.mark.full
@pytest.mark.parametrize("name", MODULES)
def test_examples(needs, name, capsys):
    needs("sympy")
    symbolic, runner = importlib.import_module(name), doctest.DocTestRunner()
    tests = doctest.DocTestFinder(exclude_empty=True).find(symbolic)
    assert sum(bool(test.examples) for test in tests) == len(symbolic.__all__)
    for test in tests:
        for example in test.examples:
            example.options.pop(doctest.SKIP, None)
        runner.run(test)
    assert runner.summarize().failed == 0, capsys.readouterr().out
