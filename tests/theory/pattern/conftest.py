import importlib.util
from pathlib import Path

import pytest


def load(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def brute():
    """Full enumeration straight from the definitions: the module beside this file."""
    return load("brute")


@pytest.fixture(scope="session")
def oracle():
    """Cases of known optimum: the module beside this file."""
    return load("oracle")
