"""Notebooks: pairs in step, small, clean, and running."""

import json
import os

import pytest

from porism import sims
from porism.cli.notebooks import LIMIT, execute, find, in_step, module_of

SCRIPTS = find()

pytestmark = pytest.mark.full


def test_every_module_has_one():
    assert {module_of(name) for name in SCRIPTS} == set(sims.modules())


@pytest.mark.parametrize("name", SCRIPTS)
def test_pair(name, needs):
    needs("jupytext")
    script = SCRIPTS[name]
    assert in_step(script), "run `make notebooks`"
    pair = script.with_suffix(".ipynb")
    assert pair.stat().st_size <= LIMIT
    cells = json.loads(pair.read_text())["cells"]
    assert len(cells) <= 20
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert any(output for cell in code for output in cell["outputs"]), "not executed"
    assert not any(output["output_type"] == "error" for cell in code for output in cell["outputs"])


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("PORISM_BROWSER") == "1", reason="tests/browser runs them in JupyterLab")
@pytest.mark.parametrize("name", SCRIPTS)
def test_runs_at_smoke_scale(name, needs):
    needs("nbclient")
    notebook = execute(SCRIPTS[name], "smoke")
    assert all(
        cell.get("execution_count") for cell in notebook.cells if cell.cell_type == "code" and cell.source
    )
