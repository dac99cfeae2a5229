"""What all tests share."""

import importlib
import os
import sys
from pathlib import Path

import pytest

FULL = os.environ.get("PORISM_JOB") == "full"


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        torch = find_module("torch")
        if not torch.cuda.is_available():
            pytest.skip("no GPU")


def find_module(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        (pytest.fail if FULL else pytest.skip)(f"{name} is not installed")


@pytest.fixture(scope="session")
def needs():
    """Import an optional package: without it the light job skips the test and the full job fails it."""
    return find_module


CLAIMS = '''
"""Claims of a made-up module."""

from porism.claims import Evidence, claim

__all__ = []


def check(scale, rng, broken):
    size = 100 if scale == "smoke" else 1000
    mean = float(rng.normal(1.0 if broken else 0.0, 1.0, size).mean())
    error = 5 / size**0.5
    return Evidence(abs(mean) < error, mean, 0.0, error, "5 standard errors", size, {"size": size})


@claim("FK-1", kind="statistical", source="reconstruction", statement="The mean of <noise> & more is 0.",
       control="noise with mean 1")
def mean_is_zero(scale, rng, broken=False):
    return check(scale, rng, broken)


@claim("FK-10", kind="refuted", source="abstract", statement="Every sum is even.", control="an even sum")
def odd_sum(scale, rng, broken=False):
    return Evidence((1 + 1 if broken else 1 + 2) % 2 == 1, "1 + 2 = 3", "even", 0.0, "exact integers")


@claim("FK-2", kind="theorem", source="paper, Theorem 1", statement="One is one.", control="two for one")
def one_is_one(scale, rng, broken=False):
    return Evidence(not broken, float("inf") if broken else 1.0, 1.0, 0.0, "exact")
'''

FIGURES = '''
"""Figures of a made-up module."""

__all__ = ["FIGURES"]


def noise(scale, rng, ax=None):
    """Noise against time: the mean stays at zero.

    More words, which are not the caption.
    """
    from matplotlib import pyplot

    ax = ax or pyplot.subplots()[1]
    for shift in (0, 3, 6):
        ax.plot(rng.normal(size=60) + shift, label=f"shift {shift}")
    ax.legend()
    ax.set(title="noise", xlabel="time (s)", ylabel="value")
    return ax


FIGURES = {"F1": noise}
'''

BENCHMARKS = '''
"""Benchmarks of a made-up module."""

__all__ = ["BENCHMARKS"]

BENCHMARKS = [
    lambda: dict(task="sum", peer="builtin", peer_version="3", ours_s=.5, peer_s=1.0, ratio=2.0, agreement=0),
    lambda: {"task": "sum", "peer": "absent", "missing": "absent is not installed"},
]
'''

NOTEBOOK = """# %% [markdown]
# # A made-up notebook

# %%
import os, sys, tempfile

from porism.claims import run
from porism.sims import modules

print(os.environ["PORISM_SCALE"], tempfile.gettempdir() + "/some/file.txt", object(), file=sys.stdout)
print("a bar that takes 1.23 s", file=sys.stderr)

# %%
run([])
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A complete module `fake` beside the real ones; returns the folder of its notebook."""
    from porism import claims, sims

    package, notebooks = tmp_path / "sims" / "fake", tmp_path / "notebooks"
    package.mkdir(parents=True)
    notebooks.mkdir()
    texts = {"__init__": "", "claims": CLAIMS, "figures": FIGURES, "benchmarks": BENCHMARKS}
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    (notebooks / "99_fake.py").write_text(NOTEBOOK)
    monkeypatch.setattr(sims, "__path__", [*sims.__path__, str(package.parent)])
    monkeypatch.setattr(claims, "_REGISTRY", dict(claims._REGISTRY))
    yield notebooks
    for name in [name for name in sys.modules if name.startswith("porism.sims.fake")]:
        del sys.modules[name]
    vars(sims).pop("fake", None)


@pytest.fixture(scope="session")
def root():
    """The checkout."""
    return Path(__file__).parents[1]
