import pytest

from porism.sims.style import COLORS, style


def test_style_is_a_context():
    import matplotlib
    from matplotlib import colors, pyplot

    before = dict(matplotlib.rcParams)
    with style():
        figure, ax = pyplot.subplots()
        assert [line.get_color() for line in ax.plot([[0, 0], [1, 1]])] == list(COLORS[:2])
        pyplot.close(figure)
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(RuntimeError, match="in the middle"), style():
        raise RuntimeError("in the middle")
    assert dict(matplotlib.rcParams) == before
    assert len({colors.to_rgb(color) for color in COLORS}) == len(COLORS)
