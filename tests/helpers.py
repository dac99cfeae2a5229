"""Reading figures and pages; waiting for processes."""

import os
import time
from pathlib import Path


def curves(ax):
    """Labelled lines by label."""
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def panel(ax, title):
    """The one panel beside ax whose title holds these words."""
    (found,) = (other for other in ax.figure.axes if title in other.get_title(loc="left"))
    return found


def console_errors(driver):
    """What a page complained of."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def number(expression, **values):
    """Value of a sympy expression at numbers for the symbols of these names."""
    return float(expression.subs({symbol: values[symbol.name] for symbol in expression.free_symbols}))


def wait(condition, seconds=60.0):
    """Return once a condition holds; fail where it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)


def alive(pid):
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
