import os
from pathlib import Path

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "peer_env: makes a peer's own environment; only with -m peer_env")


def pytest_collection_modifyitems(config, items):
    if "peer_env" in config.getoption("markexpr", ""):
        return
    left_out = [item for item in items if item.get_closest_marker("peer_env")]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def recorded():
    """Recordings made by the scripts in tests/peers; test_peers names fresh ones."""
    return Path(os.environ.get("PORISM_RECORDED", Path(__file__).parent / "recorded"))
