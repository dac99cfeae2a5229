import numpy as np
import pytest

from porism.theory.pattern import MASK_FORMS, Mask, masks, parse_mask
from porism.theory.pattern.compare import PatternComparison, compare_patterns
from porism.theory.pattern.nulls import holm

A = np.kron(np.eye(3), np.ones((4, 4))) + 0.1 * np.random.default_rng(0).normal(size=(12, 12))
LIBRARY = [masks.sink(12, 12, 4), masks.block_diagonal([4, 4, 4]), masks.band(12, 3)]


@pytest.fixture(scope="module")
def table():
    return compare_patterns(A, LIBRARY, order="none", n_null=49, random_state=0)


def test_sorted_by_effect(table):
    assert table.mask.tolist() == ["block_diagonal(sizes=4+4+4)", "band(w=3)", "sink(k=4)"]
    assert (np.diff(table.effect) <= 0).all()
    for k, result in enumerate(table.results):
        assert table.mass_outside[k] == result.observed == result.fit.mass_outside
        assert table.p_value[k] == result.p_value
        assert table.gap[k] == result.fit.gap
        assert table.certified[k] == result.fit.certified
    assert table.p_holm.tolist() == holm(table.p_value).tolist()
    assert table.p_holm[0] == pytest.approx(3 / 50)


def test_raw_distance_would_mislead():
    """A roomy mask leaves little of pure noise outside: only the null tells that this means nothing."""
    noise = np.random.default_rng(1).normal(size=(12, 12))
    library = {"roomy": masks.band(12, 8), "tight": masks.band(12, 1)}
    table = compare_patterns(noise, library, order="none", random_state=0)
    raw = dict(zip(table.mask, table.mass_outside, strict=True))
    assert raw["roomy"] < 0.2 < 0.6 < raw["tight"]
    assert table.p_holm.min() > 0.05


def test_seeds_belong_to_masks():
    one = compare_patterns(A, LIBRARY[:1], order="none", n_null=9, random_state=3)
    three = compare_patterns(A, LIBRARY, order="none", n_null=9, random_state=3)
    place = three.mask.tolist().index("sink(k=4)")
    assert three.results[place].d2_null.tolist() == one.results[0].d2_null.tolist()


def test_summary_and_stars(table):
    lines = table.summary().splitlines()
    assert len(lines) == 5
    assert lines[1].startswith("block_diagonal")
    assert "rows" in lines[-1]
    few = compare_patterns(A, LIBRARY, order="none", n_null=9, random_state=0).summary()
    assert "*" not in few
    assert "too few for stars" in few
    many = compare_patterns(A, LIBRARY, order="none", n_null=199, random_state=0).summary()
    assert "*" in many.splitlines()[1]


def test_saves_loads_and_frames(table, tmp_path, needs):
    table.save(tmp_path / "table.npz")
    back = PatternComparison.load(tmp_path / "table.npz")
    assert back.summary() == table.summary()
    needs("pandas")
    frame = table.to_frame()
    assert list(frame["mask"]) == table.mask.tolist()
    assert {"effect", "p_value", "p_holm", "gap", "certified"} <= set(frame.columns)


def test_bad_input():
    with pytest.raises(ValueError, match=r"masks must name at least one mask"):
        compare_patterns(A, [])
    with pytest.raises(ValueError, match=r"^mask shape"):
        compare_patterns(A, [masks.band(3, 0)])
    for one in (masks.band(12, 0), "band:1", None):
        with pytest.raises(TypeError, match=r"^masks must be a list or a mapping of masks, got"):
            compare_patterns(A, one)


def test_names_may_be_anything():
    table = compare_patterns(A, {1: masks.band(12, 0), (2, 3): masks.band(12, 1)}, order="none", n_null=1)
    assert set(table.mask.tolist()) == {"1", "(2, 3)"}
    assert "(2, 3)" in table.summary()


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("band:2", masks.band(6, 2)),
        ("Circulant-Band: 1", masks.circulant_band(6, 1)),
        ("block_diagonal:2", masks.block_diagonal([3, 3])),
        ("block_diagonal:4", masks.block_diagonal([2, 2, 1, 1])),
        ("block_diagonal:1,5", masks.block_diagonal([1, 5])),
        ("block_diagonal:1,5/4,2", masks.block_diagonal([1, 5], [4, 2])),
        ("arrowhead:1", masks.arrowhead(6, 1)),
        ("hub:2", masks.hub(6, 2)),
        ("sink:2", masks.sink(6, 6, 2)),
        ("lower_triangular", masks.lower_triangular(6)),
        ("staircase", masks.staircase(6, 6, range(1, 7))),
        ("staircase:0,1,2,3,4,5", masks.staircase(6, 6, range(6))),
        ("anti_diagonal", masks.anti_diagonal(6)),
        ("bipartite:2", masks.bipartite(2, 4)),
        ("checkerboard", masks.checkerboard(6, 6)),
        ("toeplitz:0,-1", masks.toeplitz(6, [0, -1])),
        ("toeplitz:0,1,causal", masks.toeplitz(6, [0, 1], causal=True)),
        ("vertical_slash:0/0,1,causal", masks.vertical_slash(6, [0], [0, 1])),
        ("vertical_slash:0/1", masks.vertical_slash(6, [0], [1], causal=False)),
    ],
)
def test_parse(text, mask):
    assert np.array_equal(parse_mask(text, 6, 6).S, mask.S)


def test_every_form_is_tried():
    assert set(MASK_FORMS) == set(masks.__all__) - {"Mask", "from_array"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bnd:2", "mask must be one of band, circulant_band, .*, got 'bnd:2'"),
        ("band", "mask band is written band:W"),
        ("band:1,2", "mask band is written band:W"),
        ("band:1/2", "mask band is written band:W"),
        ("band:x", "with whole numbers, got 'band:x'"),
        ("lower_triangular:1", "is written lower_triangular"),
        ("vertical_slash:1", "is written vertical_slash"),
        ("block_diagonal:9", "BLOCKS must be in 1..6, got 9"),
        ("band:6", "bandwidth w must be in 0..n-1"),
        ("bipartite:6", "A must be in 1..5, got 6"),
        ("block_diagonal:2,4/3,3/1", "is written block_diagonal:BLOCKS"),
    ],
)
def test_parse_errors(text, message):
    with pytest.raises(ValueError, match=message):
        parse_mask(text, 6, 6)


def test_square_masks_of_other_shapes():
    assert parse_mask("block_diagonal:2", 4, 6).S.shape == (4, 6)
    with pytest.raises(ValueError, match="band needs a square matrix, got 4 x 6"):
        parse_mask("band:1", 4, 6)


def test_labels():
    assert Mask(np.eye(2)).label == "custom"
    assert masks.toeplitz(4, [0, 1], causal=True).label == "toeplitz(offsets=0+1, causal=True)"
