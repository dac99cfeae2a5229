"""Notebooks: pairs in step, small, clean, and running."""

import json

import pytest

from porism import sims
from porism.cli.notebooks import LIMIT, execute, find, in_step

SCRIPTS = find()

pytestmark = pytest.mark.full


def test_every_module_has_one():
    assert set(SCRIPTS) == set(sims.modules())


@pytest.mark.parametrize("module", SCRIPTS)
def test_pair(module, needs):
    needs("jupytext")
    script = SCRIPTS[module]
    assert in_step(script), "run `make notebooks`"
    pair = script.with_suffix(".ipynb")
    assert pair.stat().st_size <= LIMIT
    cells = json.loads(pair.read_text())["cells"]
    assert len(cells) <= 20
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert any(output for cell in code for output in cell["outputs"]), "not executed"
    assert not any(output["output_type"] == "error" for cell in code for output in cell["outputs"])


@pytest.mark.slow
@pytest.mark.parametrize("module", SCRIPTS)
def test_runs_at_smoke_scale(module, needs):
    needs("nbclient")
    notebook = execute(SCRIPTS[module], "smoke")
    assert all(
        cell.get("execution_count") for cell in notebook.cells if cell.cell_type == "code" and cell.source
    )
