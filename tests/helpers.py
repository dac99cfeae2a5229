"""Reading figures and pages."""


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
