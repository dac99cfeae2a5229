"""What the tests of theory share: the slow truth beside each test file, and sympy for derivations."""

import importlib.util

import pytest


def beside(name):
    """A fixture: the module of this name in the folder of the test."""

    @pytest.fixture(scope="module", name=name)
    def module(request):
        spec = importlib.util.spec_from_file_location(name, request.path.with_name(f"{name}.py"))
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    return module


brute, oracle, plain = beside("brute"), beside("oracle"), beside("plain")


@pytest.fixture
def sy(needs):
    return needs("sympy")
