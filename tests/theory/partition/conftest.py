import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def brute():
    """Brute force straight from the definitions: the module beside this file."""
    spec = importlib.util.spec_from_file_location("brute", Path(__file__).with_name("brute.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
