"""What the tests of ledgers and figures share."""

import importlib
import os
import sys

import pytest

from porism.errors import MissingExtraError


def run_or_skip(work, *arguments):
    """Without an optional package the light job skips the test and the full job fails it."""
    try:
        return work(*arguments)
    except MissingExtraError as missing:
        return (pytest.fail if os.environ.get("PORISM_JOB") == "full" else pytest.skip)(str(missing))


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


@pytest.fixture
def draw(request, small):
    """Draw a figure at smoke scale, laid out: of the module whose folder holds the test, or the one given."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    def work(name, rng=0, ax=None, module=request.path.parent.name):
        figures = importlib.import_module(f"porism.sims.{module}.figures").FIGURES
        ax = run_or_skip(figures[name], "smoke", rng, ax)
        ax.figure.canvas.draw()
        return ax

    yield work
    pyplot.close("all")
