"""Every figure of every module: complete, legible, the same again, and nothing else touched."""

import importlib
import importlib.util
import inspect

import numpy as np
import pytest

from porism import sims

MODULES = [name for name in sims.modules() if importlib.util.find_spec(f"porism.sims.{name}.figures")]
FIGURES = {
    (module, name): draw
    for module in MODULES
    for name, draw in importlib.import_module(f"porism.sims.{module}.figures").FIGURES.items()
}
# some seconds each: not in the light job
SLOW = {("pattern", name) for name in ("F2", "F3", "F4", "F5", "F6")} | {
    ("pandora", "F3"),
    ("spectral_flow", "F4"),
}
NAMES = [
    pytest.param(*key, marks=pytest.mark.slow if key in SLOW else (), id="-".join(key)) for key in FIGURES
]


@pytest.mark.parametrize("module", MODULES)
def test_the_set_is_complete(module):
    names = [name for key, name in FIGURES if key == module]
    assert names == [f"F{number}" for number in range(1, len(names) + 1)]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_figure(draw, module, name):
    import matplotlib
    from matplotlib import pyplot

    before = dict(matplotlib.rcParams)
    ax = draw(name, np.random.default_rng(0), module=module)
    assert dict(matplotlib.rcParams) == before
    assert inspect.getdoc(FIGURES[module, name]).splitlines()[0].endswith(".")
    figure = ax.figure.bbox
    for axes in ax.figure.axes:
        if axes.get_label() == "<colorbar>":
            assert axes.get_ylabel()
            continue
        assert axes.get_xlabel() or axes.get_ylabel() or axes.images
        assert axes.get_title(loc="left")
        if legend := axes.get_legend():
            box = legend.get_window_extent()
            assert box.y1 <= axes.xaxis.label.get_window_extent().y0 + 1 < axes.bbox.y0
            assert box.x0 >= figure.x0
            assert box.x1 <= figure.x1
        for text in (axes._left_title, axes.xaxis.label, *axes.texts):
            assert text.get_window_extent().x1 <= figure.x1 + 1, text
    given = pyplot.subplots(2, 1)[1][0]
    assert draw(name, np.random.default_rng(0), given, module) is given
    for one, two in zip(ax.lines, given.lines, strict=True):
        np.testing.assert_array_equal(one.get_xydata(), two.get_xydata())
    assert len(ax.images) == len(given.images)
    with pytest.raises(ValueError, match="scale must be one of"):
        FIGURES[module, name]("poster", 0)
