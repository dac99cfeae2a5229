"""What the tests of polar factors share."""

import pytest


@pytest.fixture
def torch(needs):
    """On one thread: matrices here are small."""
    module = needs("torch")
    before = module.get_num_threads()
    module.set_num_threads(1)
    yield module
    module.set_num_threads(before)
