import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def plain():
    """Runs, borders and Jacobians straight from the equations: the module beside this file."""
    spec = importlib.util.spec_from_file_location("plain", Path(__file__).with_name("plain.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
