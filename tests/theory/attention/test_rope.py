"""The guard against hand-worked cases, rotations at many positions, and numerical null spaces."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import NumericalWarning
from porism.results import Result
from porism.theory.attention.rope import (
    RopeLayout,
    commutant_dimension,
    project_to_commutant,
    rope_commutant_residual,
    rotate,
)

SETTINGS = settings(deadline=None, max_examples=60)
KINDS = st.sampled_from(("half", "interleaved"))
N = np.array([[1, 2, 0, 1], [0, 1, 1, 0], [3, 0, 2, -1], [1, 0, 0, 1.0]])
ORACLES = {  # residual squared, projection, rotated query, largest commutator
    "half": (
        13,
        [[1.5, 0, -1.5, 0], [0, 1, 0, 0], [1.5, 0, 1.5, 0], [0, 0, 0, 1]],
        [-1.2722325127, -1.1030965925, -1.8388649851, 0.1821480379],
        3.45401776,
    ),
    "interleaved": (
        15,
        [[1, 1, 0, 0], [-1, 1, 0, 0], [0, 0, 1.5, -0.5], [0, 0, 0.5, 1.5]],
        [-0.8488724885, 1.1311125047, 1.7629128749, 1.0687086579],
        5.85590724,
    ),
}


def rotation(layout, d, t):
    """Matrix of the rotation, from its definition."""
    R = np.eye(d)
    for i, w in enumerate(layout.frequencies):
        r = layout.rotary_dim
        a, b = (i, i + r // 2) if layout.kind == "half" else (2 * i, 2 * i + 1)
        R[a, a] = R[b, b] = np.cos(w * t)
        R[a, b], R[b, a] = -np.sin(w * t), np.sin(w * t)
    return R


@pytest.mark.parametrize("kind", ORACLES)
def test_oracles(kind):
    squared, projection, rotated, largest = ORACLES[kind]
    layout = RopeLayout.standard(kind, 4, 100)
    assert layout.frequencies == pytest.approx([1, 0.1], rel=1e-15)
    for size in (1e-200, 1.0, 1e200):  # squares of the entries leave the range of floats
        assert rope_commutant_residual(size * N, layout) == pytest.approx(size * squared**0.5, rel=1e-14)
    fine = project_to_commutant(N, layout)
    np.testing.assert_allclose(fine, projection, atol=1e-15)
    q = np.array([1, -1, 2, 0.5])
    assert rotate(q, 3, layout) == pytest.approx(rotated, abs=6e-11)
    off = rotate(N @ q, 3, layout) - N @ rotate(q, 3, layout)
    assert np.abs(off).max() == pytest.approx(largest, abs=6e-9)
    assert np.abs(rotate(fine @ q, 3, layout) - fine @ rotate(q, 3, layout)).max() < 1e-15


@SETTINGS
@given(KINDS, st.sampled_from((0, 2, 4, 6)), st.integers(0, 99), st.integers(-50, 500))
def test_rotation_is_its_matrix(kind, r, seed, t):
    layout = RopeLayout.standard(kind, r, 50.0)
    x = np.random.default_rng(seed).standard_normal((3, 6))
    np.testing.assert_allclose(rotate(x, t, layout), x @ rotation(layout, 6, t).T, atol=1e-14)
    places = np.array([t, 0, 1])
    rows = [rotation(layout, 6, place) @ row for place, row in zip(places, x, strict=True)]
    np.testing.assert_allclose(rotate(x, places, layout), rows, atol=1e-14)


@SETTINGS
@given(KINDS, st.sampled_from((0, 2, 4, 6)), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
def test_vh2_projection(kind, r, G, P, seed):
    """It commutes at every position, is nearest, and is the mean of the turned mixes."""
    rng = np.random.default_rng(seed)
    # multiples of one frequency: 24 positions are a whole period
    layout = RopeLayout(kind, r, 2 * np.pi * rng.permutation(np.arange(1, 12))[: r // 2] / 24)
    mix = rng.standard_normal((2, G, 6, P, 6))
    fine = project_to_commutant(mix, layout)
    turned = np.zeros_like(mix)
    for t in range(24):
        R = rotation(layout, 6, t)
        # sums of 36 products of a few, each right to an eps
        left = np.einsum("ab,ngbpd->ngapd", R, fine)
        np.testing.assert_allclose(left, np.einsum("ngapb,bd->ngapd", fine, R), atol=1e-13)
        turned += np.einsum("ba,ngbpd,dc->ngapc", R, mix, R) / 24
    np.testing.assert_allclose(fine, turned, atol=1e-13)
    np.testing.assert_allclose(project_to_commutant(fine, layout), fine, atol=1e-15)
    assert abs(np.vdot(mix - fine, fine)) < 1e-12
    assert rope_commutant_residual(mix, layout) == pytest.approx(np.linalg.norm(mix - fine))


@SETTINGS
@given(KINDS, st.integers(1, 2), st.integers(1, 3), st.integers(0, 99))
def test_vh2_guard_is_the_mean_error(kind, G, P, seed):
    rng = np.random.default_rng(seed)
    layout = RopeLayout(kind, 4, 2 * np.pi * rng.permutation(np.arange(1, 12))[:2] / 24)
    mix = rng.standard_normal((G, 6, P, 6))
    total = 0.0
    for t in range(24):
        R = rotation(layout, 6, t)
        apart = np.einsum("ab,gbpd->gapd", R, mix) - np.einsum("gapb,bd->gapd", mix, R)
        total += np.square(apart).sum() / 24
    assert total**0.5 == pytest.approx(2**0.5 * rope_commutant_residual(mix, layout), rel=1e-12)


def free(layout, d):
    """Dimension of the mixes that commute at positions 1 to 4, from a null space."""
    eye = np.eye(d)
    rows = [np.kron(R, eye) - np.kron(eye, R.T) for R in (rotation(layout, d, t) for t in range(1, 5))]
    return int((np.linalg.svd(np.concatenate(rows), compute_uv=False) < 1e-9).sum())


@pytest.mark.parametrize("kind", ["half", "interleaved"])
@pytest.mark.parametrize(("r", "expected"), [(8, 8), (4, 20), (2, 38), (0, 64)])
def test_vh2_dimension(kind, r, expected):
    assert commutant_dimension(8, r) == expected
    assert free(RopeLayout.standard(kind, r, 100.0), 8) == expected


@pytest.mark.parametrize(
    ("frequencies", "dimension"),
    [
        ([0.5, 0.5], 8),
        ([0.5, -0.5], 8),
        ([0.5, 2 * np.pi - 0.5], 8),
        ([0.5, 0.5 + 2 * np.pi], 8),
        ([0.5, np.pi], 6),
        ([0.5, 0.0], 6),
    ],
)
def test_coinciding_frequencies_are_called_out(frequencies, dimension):
    """The commutant is larger than 4, so that the guard refuses some mixes that would do."""
    layout = RopeLayout("half", 4, frequencies)
    assert not layout.distinct
    assert free(layout, 4) == dimension
    for function in (project_to_commutant, rope_commutant_residual):
        with pytest.warns(NumericalWarning, match="conservative"):
            function(N, layout)


def test_usual_frequencies_are_distinct():
    for r, base in ((128, 1e4), (128, 1e6), (256, 1e7), (64, 150_000.0)):
        layout = RopeLayout.standard("half", r, base)
        assert layout.distinct
        # long-context variants divide the slow ones
        slow = np.where(layout.frequencies < 1e-3, layout.frequencies / 32, layout.frequencies)
        assert RopeLayout("half", r, slow).distinct
    assert RopeLayout("half", 2, [1.0]).distinct
    assert RopeLayout("half", 0, []).distinct


def test_heads_alone_and_other_layout():
    rng = np.random.default_rng(0)
    layouts = [RopeLayout.standard(kind, 8) for kind in ORACLES]
    heads = np.einsum("gp,de->gdpe", rng.standard_normal((4, 3)), np.eye(8))
    assert [rope_commutant_residual(heads, layout) for layout in layouts] == [0, 0]
    mix = rng.standard_normal((4, 8, 3, 8))
    for ours, other in (layouts, layouts[::-1]):
        assert rope_commutant_residual(project_to_commutant(mix, other), ours) > 1


def test_result_round_trip(tmp_path):
    layout = RopeLayout.standard("interleaved", 6, 500.0)
    layout.save(tmp_path / "layout.npz")
    back = Result.load(tmp_path / "layout.npz")
    assert isinstance(back, RopeLayout)
    assert back.kind == "interleaved"
    np.testing.assert_array_equal(back.frequencies, layout.frequencies)


def test_shapes_do_not_change_the_answer():
    layout = RopeLayout.standard("half", 4, 100)
    four, five = N.reshape(1, 4, 1, 4), N.reshape(1, 1, 4, 1, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for other in (four, five):
            found = project_to_commutant(other, layout)
            assert found.shape == other.shape
            np.testing.assert_array_equal(found.reshape(4, 4), project_to_commutant(N, layout))


LAYOUT = RopeLayout("half", 4, [1.0, 0.1])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: RopeLayout("halves", 4, [1, 2]), ValueError, "kind must be one of"),
        (lambda: RopeLayout("half", 3, [1.0]), ValueError, "rotary_dim must be even, got 3"),
        (lambda: RopeLayout("half", -2, []), ValueError, "rotary_dim must be >= 0"),
        (lambda: RopeLayout("half", 4, [1.0]), ValueError, "frequencies must hold rotary_dim / 2 = 2"),
        (lambda: RopeLayout("half", 4, [1.0, np.nan]), ValueError, "frequencies must be finite"),
        (lambda: RopeLayout.standard("half", 4, 0), ValueError, "base must be finite and > 0"),
        (lambda: RopeLayout.standard("half", 4.0), TypeError, "rotary_dim must be an int"),
        (lambda: rotate(np.zeros((2, 3)), 0, LAYOUT), ValueError, "at most the width of a head, got 4 for"),
        (lambda: rotate(1.0, 0, LAYOUT), ValueError, "at most the width of a head"),
        (lambda: rotate(np.zeros((2, 4)), [0, 1, 2], LAYOUT), ValueError, "positions must broadcast"),
        (lambda: rotate(np.zeros((2, 4)), 0, "half"), TypeError, "layout must be a RopeLayout, got str"),
        (lambda: project_to_commutant(np.eye(3), LAYOUT), ValueError, "at most the width of a head"),
        (lambda: project_to_commutant(np.zeros((4, 3)), LAYOUT), ValueError, r"must have shape \(d_h, d_h\)"),
        (lambda: project_to_commutant(np.zeros((2, 4, 2, 3)), LAYOUT), ValueError, "must have shape"),
        (lambda: rope_commutant_residual(np.zeros((2, 3, 4)), LAYOUT), ValueError, "of heads alone commutes"),
        (lambda: commutant_dimension(8, 3), ValueError, "rotary_dim must be even"),
        (lambda: commutant_dimension(8, 10), ValueError, r"rotary_dim must be in 0..8"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()
