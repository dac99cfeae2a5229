"""What the tests of ledgers share."""

import sys

import pytest


@pytest.fixture
def small(tmp_path_factory, monkeypatch):
    """One thread, and a cache of its own for pretrained weights."""
    monkeypatch.setenv("PORISM_CACHE", str(tmp_path_factory.getbasetemp() / "claims"))
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
