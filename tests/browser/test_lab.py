"""Every notebook, opened in JupyterLab in a browser and run from its first cell to its last."""

import json
import time

import pytest
from helpers import console_errors

from porism.cli.notebooks import find

SCRIPTS = find()
READY = """
const widget = window.jupyterapp && window.jupyterapp.shell.currentWidget;
return !!(widget && widget.context && widget.context.isReady && widget.sessionContext.session
          && widget.sessionContext.session.kernel)
"""
CLEAR = "return window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')"
RUN = "window.jupyterapp.commands.execute('notebook:run-all-cells')"
STATE = """
const found = {cells: 0, executed: 0, images: 0, errors: []};
for (const cell of window.jupyterapp.shell.currentWidget.content.model.cells) {
  if (cell.type !== 'code' || !cell.sharedModel.source.trim()) continue;
  found.cells += 1;
  if (cell.executionCount) found.executed += 1;
  for (let i = 0; i < cell.outputs.length; i++) {
    const output = cell.outputs.get(i);
    if (output.type === 'error') found.errors.push(output.toJSON().ename + ': ' + output.toJSON().evalue);
    if (output.data && output.data['image/png']) found.images += 1;
  }
}
return found
"""
DRAWN = (
    "return [...document.querySelectorAll('.jp-RenderedImage img')].filter(i => i.naturalWidth > 100).length"
)


def wait(driver, script, until, seconds):
    """Ask the page until the answer will do."""
    end = time.monotonic() + seconds
    while not until(found := driver.execute_script(script)):
        assert time.monotonic() < end, found
        time.sleep(0.5)
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_runs_in_jupyterlab(name, lab, browser, screenshots):
    script = SCRIPTS[name]
    committed = json.loads(script.with_suffix(".ipynb").read_text())
    pictures = sum(
        "image/png" in output.get("data", {})
        for cell in committed["cells"]
        for output in cell.get("outputs", ())
    )
    assert pictures
    driver = browser(lab(script.name))
    wait(driver, READY, bool, 90)
    driver.execute_script(CLEAR)
    wait(driver, STATE, lambda state: not state["images"], 30)
    driver.execute_script(RUN)
    state = wait(driver, STATE, lambda s: s["errors"] or s["executed"] == s["cells"], 300)
    driver.save_screenshot(str(screenshots / f"lab_{name}.png"))
    assert state["errors"] == []
    assert state["images"] == pictures
    assert wait(driver, DRAWN, bool, 30)
    assert console_errors(driver) == []
