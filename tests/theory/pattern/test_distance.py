"""The universal solver from outside: invariances, bounds, options, sparse input, limits, messages."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from porism.theory import pattern
from porism.theory.pattern import UninformativeMaskWarning, masks, pattern_distance
from porism.theory.pattern import distance as module

quiet = pytest.mark.filterwarnings("ignore::porism.theory.pattern.UninformativeMaskWarning")
MODES = ["independent", "common", "none"]


def planted(mask, noise, seed):
    """Signs on the mask, noise everywhere, shuffled; and the share of mass outside in the planted order."""
    rng = np.random.default_rng(seed)
    A = mask.S * rng.choice([-1.0, 1.0], size=mask.S.shape) + noise * rng.normal(size=mask.S.shape)
    outside = (mask.penalty * A**2).sum() / (A**2).sum()
    order = rng.permutation(len(A))
    return A[np.ix_(order, order)], outside


@quiet
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 10**6), st.sampled_from(MODES), st.booleans())
def test_certificate_range_and_averages(m, n, seed, mode, exact):
    rng = np.random.default_rng(seed)
    n = m if mode == "common" else n
    A = rng.integers(-3, 4, size=(m, n)).astype(float)
    A[0, 0] = A[0, 0] or 1.0
    S = rng.integers(0, 2, size=(m, n)).astype(float)
    best = pattern_distance(A, S, order=mode)
    fit = pattern_distance(A, S, order=mode, exact="auto" if exact else False, random_state=0)
    assert best.exact
    assert 0 <= best.lower_bound <= best.mass_outside <= fit.mass_outside + 1e-12 <= 1 + 2e-12
    if mode == "independent":
        assert fit.mass_outside <= (1 - S).mean() + 1e-12
        assert best.mass_outside <= pattern_distance(A, S, order="none").mass_outside + 1e-12
    if mode == "common":
        B, off = A**2, ~np.eye(n, dtype=bool)
        mean = (1 - np.diag(S)).mean() * np.trace(B) + ((1 - S)[off].mean() * B[off].sum() if n > 1 else 0)
        assert fit.mass_outside <= mean / B.sum() + 1e-12
        assert pattern_distance(A, S).mass_outside <= best.mass_outside + 1e-12


@pytest.mark.parametrize("mode", ["independent", "common"])
def test_invariances(mode):
    rng = np.random.default_rng(0)
    A, mask = rng.normal(size=(6, 6)), masks.band(6, 1)
    value = pattern_distance(A, mask, order=mode).mass_outside
    p = rng.permutation(6)
    signs = rng.choice([-1, 1], size=A.shape)
    for B in (-3e-120 * A, 1e200 * A, A * signs, A[p][:, p], A.astype(np.longdouble)):
        assert pattern_distance(B, mask, order=mode).mass_outside == pytest.approx(value, abs=1e-12)


def test_independent_answers_no_graph_question():
    A = [[0, 1], [1, 0]]
    values = [pattern_distance(A, masks.band(2, 0), order=mode).mass_outside for mode in ("independent",)]
    with pytest.warns(UninformativeMaskWarning):
        values.append(pattern_distance(A, masks.band(2, 0), order="common").mass_outside)
    assert values == [0.0, 1.0]


@pytest.mark.parametrize("mode", ["independent", "common"])
@pytest.mark.parametrize("family", ["band", "block", "arrow", "circulant"])
def test_margin_is_recovered_and_certified(mode, family):
    mask = {
        "band": masks.band(20, 2),
        "block": masks.block_diagonal([5, 7, 8]),
        "arrow": masks.arrowhead(20, 2),
        "circulant": masks.circulant_band(20, 2),
    }[family]
    rng = np.random.default_rng(0)
    A = np.where(mask.S > 0, rng.uniform(1, 1.2, size=mask.S.shape), rng.uniform(0, 0.3, size=mask.S.shape))
    p = rng.permutation(20)
    q = p if mode == "common" else rng.permutation(20)
    fit = pattern_distance(A[np.ix_(p, q)], mask, order=mode, random_state=0)
    assert fit.certified
    assert np.array_equal(fit.source_mask() > 0, A[np.ix_(p, q)] >= 1)


@pytest.mark.parametrize(
    ("family", "noise", "limit"),
    [("band", 0.5, 1.02), ("circulant", 0.5, 1.005), ("arrow", 0.5, 1.0 + 1e-9), ("blocks", 0.5, 1.0 + 1e-9)],
)
def test_quality_at_48(family, noise, limit):
    mask = {
        "band": masks.band(48, 3),
        "circulant": masks.circulant_band(48, 3),
        "arrow": masks.arrowhead(48, 3),
        "blocks": masks.block_diagonal([12] * 4),
    }[family]
    A, truth = planted(mask, noise, 1)
    assert pattern_distance(A, mask, order="common", random_state=0).mass_outside <= limit * truth


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.3, 0.5])
def test_open_target_at_128(noise):
    mask = masks.band(128, 4)
    A, truth = planted(mask, noise, 0)
    assert pattern_distance(A, mask, order="common", random_state=0).mass_outside <= 1.05 * truth


@pytest.mark.parametrize("mode", ["independent", "common"])
def test_seed_repeats(mode):
    A, _ = planted(masks.band(24, 2), 0.6, 0)
    fits = [pattern_distance(A, masks.band(24, 2), order=mode, random_state=s) for s in (3, 3)]
    assert np.array_equal(fits[0].row_order, fits[1].row_order)
    assert fits[0].starts == fits[1].starts
    assert (fits[0].seed, fits[0].mass_outside) == (3, fits[1].mass_outside)
    drawn = pattern_distance(A, masks.band(24, 2), order=mode, random_state=np.random.default_rng(3))
    assert (drawn.seed, drawn.mass_outside) == (None, fits[0].mass_outside)


THREADS = """
import numpy as np
from porism.theory.pattern import masks, pattern_distance
A = np.random.default_rng(0).normal(size=(140, 140)) + 2 * masks.band(140, 3).S
for mode in ("independent", "common"):
    fit = pattern_distance(A, masks.block_diagonal([70, 70]), order=mode, n_restarts=2, random_state=0)
    print(repr(fit.mass_outside))
"""


def test_threads_of_the_linear_algebra_do_not_matter(tmp_path):
    seen = []
    for threads in ("1", "2"):
        env = {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "PATH": ""}
        ended = subprocess.run(
            [sys.executable, "-c", THREADS], capture_output=True, text=True, cwd=tmp_path, env=env
        )
        assert ended.returncode == 0, ended.stderr
        seen.append([float(x) for x in ended.stdout.split()])
    assert np.abs(np.subtract(*seen)).max() <= 1e-12


@pytest.mark.parametrize("mode", ["independent", "common"])
def test_warm_start_is_never_worse(mode):
    A, _ = planted(masks.band(20, 2), 0.8, 0)
    first = pattern_distance(A, masks.band(20, 2), order=mode, random_state=0)
    for warm in (first, (first.row_order, first.col_order)):
        again = pattern_distance(
            A, masks.band(20, 2), order=mode, n_restarts=0, warm_start=warm, random_state=9
        )
        assert again.mass_outside <= first.mass_outside + 1e-12
        assert again.starts[0][0] == "warm"
    with pytest.raises(ValueError, match=r"warm_start must be a permutation of 0..19, got \[0 0"):
        pattern_distance(A, masks.band(20, 2), order=mode, warm_start=(np.zeros(20, int), np.arange(20)))
    with pytest.raises(ValueError, match="one order in mode 'common'"):
        pattern_distance(
            A, masks.band(20, 2), order="common", warm_start=(np.arange(20), np.arange(20)[::-1])
        )


@pytest.mark.parametrize("n", [2, 9])
def test_forms_of_a_warm_start(n):
    A, best = np.random.default_rng(0).normal(size=(n, n)), list(range(n))[::-1]
    forms = [best, tuple(best), np.array(best), [best, best], (best, best), np.array([best, best])]
    for warm in [*forms, (np.array(best, np.uint8), best)]:
        fit = pattern_distance(A, masks.band(n, 0), exact=False, n_restarts=0, warm_start=warm, bounds=())
        assert fit.starts[0][0] == "warm"
    for bad in ([best] * 3, "ab", 5, [0.5] * n, ([1, [2]], best), pattern_distance(np.eye(4), np.eye(4))):
        with pytest.raises(ValueError, match=r"^warm_start must be a permutation of 0.."):
            pattern_distance(A, masks.band(n, 1), warm_start=bad)


def test_exact_takes_booleans_only():
    A = np.random.default_rng(0).normal(size=(7, 7))
    assert not pattern_distance(A, masks.band(7, 1), order="common", exact=np.False_, n_restarts=0).exact
    with pytest.raises(ValueError, match="exact=True needs"):
        pattern_distance(A, masks.band(7, 1), exact=np.True_)
    for other in (1, 0, None, [True], np.ones(2, bool)):
        with pytest.raises(ValueError, match=r"^exact must be True, False or 'auto'"):
            pattern_distance(A, masks.band(7, 1), exact=other)


def test_bounds_may_come_in_any_collection():
    for kinds in (iter(["R", "T"]), {"T", "R"}, ["R", "T"]):
        assert set(pattern_distance(GOOD, masks.band(3, 1), bounds=kinds).bounds) == {"R", "T"}
    assert list(pattern_distance(GOOD, masks.band(3, 1), bounds="P").bounds) == ["P"]


@pytest.mark.parametrize("bad", ["a", 1.5, True, np.random.RandomState(0)])
def test_a_bad_seed_is_named(bad):
    mask = masks.band(3, 1)
    for call in (
        lambda **seed: pattern_distance(GOOD, mask, **seed),
        lambda **seed: pattern.pattern_null(GOOD, mask, **seed),
        lambda **seed: pattern.compare_patterns(GOOD, [mask], **seed),
        lambda **seed: pattern.pattern_plus_low_rank(GOOD, mask, 0, **seed),
        lambda **seed: pattern.minimize_bandwidth(GOOD, **seed),
    ):
        with pytest.raises(TypeError, match=r"^random_state must be an int"):
            call(random_state=bad)
        with pytest.raises(ValueError, match=r"^random_state must be >= 0"):
            call(random_state=-1)


@pytest.mark.parametrize("mode", ["independent", "common"])
def test_time_budget(mode):
    A = np.random.default_rng(0).normal(size=(150, 150))
    fit = pattern_distance(A, masks.band(150, 9), order=mode, time_budget=1e-6, random_state=0)
    full = pattern_distance(A, masks.band(150, 9), order="none")
    assert fit.status == "time_budget"
    assert fit.lower_bound <= fit.mass_outside <= full.mass_outside
    assert sorted(fit.row_order) == list(range(150))
    assert pattern_distance(A[:20, :20], masks.band(20, 2), order=mode, time_budget=60).status == "ok"
    band = masks.band(20, 2)  # found at once: the search ended by itself, however late
    assert pattern_distance(band.S, band, order=mode, time_budget=1e-9).status == "ok"


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.coo_array, sparse.csc_matrix])
@pytest.mark.parametrize("mode", MODES)
def test_sparse_input(kind, mode):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 30)) * (rng.random((30, 30)) < 0.1)
    given = kind(A)
    dense = pattern_distance(A, masks.band(30, 2), order=mode, random_state=0)
    fit = pattern_distance(given, masks.band(30, 2), order=mode, random_state=0)
    assert fit.mass_outside == pytest.approx(dense.mass_outside, abs=1e-12)
    assert (abs(given - kind(A))).sum() == 0
    assert np.array_equal(fit.reorder(given).toarray(), fit.reorder(A))


@quiet
@pytest.mark.parametrize("mode", ["independent", "common"])
@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("kind", ["constant", "zero rows", "one entry"])
@pytest.mark.parametrize("exact", ["auto", False])
def test_degenerate(mode, n, kind, exact):
    A = np.ones((n, n))
    if kind == "zero rows":
        A[1:] = 0
    if kind == "one entry":
        A[:] = 0
        A[-1, -1] = -2
    for mask in (masks.band(n, 0), masks.lower_triangular(n), masks.from_array(np.eye(n)[::-1])):
        fit = pattern_distance(A, mask, order=mode, exact=exact, random_state=0)
        assert sorted(fit.row_order) == sorted(fit.col_order) == list(range(n))
        if kind == "constant":
            assert fit.mass_outside == pytest.approx(1 - mask.S.mean(), abs=1e-12)
        if kind == "one entry":
            assert fit.mass_outside == (0 if mode == "independent" or np.diag(mask.S).any() else 1)


def test_a_long_side_is_not_enumerated_unasked(monkeypatch):
    rng = np.random.default_rng(0)
    A, S = rng.normal(size=(3, 40)), (rng.random((3, 40)) < 0.4).astype(float)
    monkeypatch.setattr(module, "STEPS", 3 * 2 * 40.0**3 - 1)
    found = pattern_distance(A, S, n_restarts=0, random_state=0)
    demanded = pattern_distance(A, S, exact=True)
    assert (found.exact, demanded.exact) == (False, True)
    assert demanded.mass_outside <= found.mass_outside + 1e-12
    monkeypatch.setattr(module, "STEPS", 3 * 2 * 40.0**3)
    assert pattern_distance(A, S).exact


@pytest.mark.parametrize(("m", "n"), [(1, 9), (9, 1), (1, 1), (7, 8)])
def test_thin(m, n):
    A = np.arange(1.0, m * n + 1).reshape(m, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeMaskWarning)
        fit = pattern_distance(A, masks.sink(m, n, 1), exact="auto")
        loose = pattern_distance(A, masks.sink(m, n, 1), exact=False, random_state=0)
    assert fit.exact
    assert fit.mass_outside == pytest.approx(1 - np.max((A**2).sum(0)) / (A**2).sum(), abs=1e-12)
    assert loose.mass_outside == pytest.approx(fit.mass_outside, abs=1e-12)


@pytest.mark.parametrize("mode", ["independent", "common"])
def test_classes_with_a_closed_solution(mode):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 30))
    mask = masks.sink(30, 30, 4)
    fit = pattern_distance(A, mask, order=mode, exact=True)
    mass = np.sort((A**2).sum(axis=0))[::-1]
    assert fit.exact
    assert fit.mass_outside == pytest.approx(1 - mass[:4].sum() / mass.sum(), abs=1e-12)
    assert pattern_distance(A, mask, order=mode, exact=False).mass_outside == pytest.approx(
        fit.mass_outside, abs=1e-9
    )
    assert pattern_distance(A, masks.anti_diagonal(30)).exact
    with pytest.raises(ValueError, match="exact=True needs n <= 7"):
        pattern_distance(A, masks.band(30, 2), order=mode, exact=True)


def test_trivial_masks_warn_and_say_why():
    A = np.random.default_rng(0).normal(size=(9, 9))
    for S, value in ((np.ones((9, 9)), 0.0), (np.zeros((9, 9)), 1.0)):
        with pytest.warns(UninformativeMaskWarning, match="the mask keeps"):
            fit = pattern_distance(A, S)
        assert (fit.mass_outside, fit.exact) == (pytest.approx(value, abs=1e-12), True)
        assert fit.reason.startswith("the mask keeps")
        assert fit.reason in fit.summary()
    assert pattern_distance(A, masks.band(9, 1), n_restarts=1, random_state=0).reason == ""


@pytest.mark.filterwarnings("ignore::porism.theory.pattern.UninformativeMaskWarning")
@pytest.mark.parametrize("order", ["independent", "common", "none"])
def test_shares_stay_shares_where_sums_round_up(order):
    nothing = np.zeros((7, 7))
    for seed in range(20):
        A = np.random.default_rng(seed).normal(size=(7, 7))
        assert pattern_distance(A, nothing, order=order).distance == 1.0
        assert max(pattern.pattern_lower_bound(A, nothing, order=order).values()) <= 1.0
        assert pattern.pattern_null(A, nothing, order=order, n_null=3, random_state=0).d2_null.max() <= 1.0
        fit = pattern_distance(A - np.diag(np.diag(A)), np.eye(7), order="none")
        assert max(fit.mass_outside, *fit.history, *dict(fit.starts).values()) <= 1.0


@pytest.mark.parametrize("keep", [True, False])
def test_symmetric_matrix_against_a_triangle_is_no_finding(keep):
    A = np.random.default_rng(0).normal(size=(12, 12))
    A = A + A.T
    S = masks.lower_triangular(12).S if keep else np.tril(np.ones((12, 12)), -1)
    with pytest.warns(UninformativeMaskWarning):
        fit = pattern_distance(A, S, order="common")
    B = A**2
    outside = (B.sum() - np.trace(B)) / 2 + (0 if keep else np.trace(B))
    assert fit.mass_outside == pytest.approx(outside / B.sum(), abs=1e-12)
    assert fit.reason


def test_large_sizes_warn(monkeypatch):
    monkeypatch.setattr(module, "LARGE", {"common": 8, "independent": 8})
    A = np.random.default_rng(0).normal(size=(9, 9))
    for mode in ("common", "independent"):
        with pytest.warns(UserWarning, match="9 positions in mode .* may take about .* pass time_budget"):
            pattern_distance(A, masks.band(9, 1), order=mode, n_restarts=0)
        pattern_distance(A, masks.band(9, 1), order=mode, n_restarts=0, time_budget=100.0)


GOOD = np.ones((3, 3)) + np.eye(3)


@pytest.mark.parametrize(
    ("A", "mask", "options", "message"),
    [
        (np.ones(3), masks.band(3, 1), {}, r"A must be 2-D, got shape \(3,\)"),
        (np.ones((3, 4)), masks.band(3, 1), {}, r"mask shape \(3, 3\) does not match A shape \(3, 4\)"),
        ([[1, 2], [np.nan, 0]], masks.band(2, 0), {}, r"A contains NaN or infinity at \[1, 0\]"),
        ([[1, 2], [0, -np.inf]], masks.band(2, 0), {}, r"A contains NaN or infinity at \[1, 1\]"),
        (np.zeros((2, 2)), masks.band(2, 0), {}, "A has zero mass: the distance is undefined"),
        (
            np.ones((2, 3)),
            np.ones((2, 3)),
            {"order": "common"},
            r"order='common' needs a square matrix, got \(2, 3\)",
        ),
        (GOOD, 2 * np.ones((3, 3)), {}, r"mask values must lie in \[0, 1\]"),
        (GOOD, masks.block_diagonal([2, 2]), {}, "row sizes sum to 4, but A has 3 rows"),
        (GOOD, masks.block_diagonal([1, 2], [2, 2]), {}, "column sizes sum to 4, but A has 3 columns"),
        (GOOD, masks.band(3, 1), {"order": "both"}, "order must be one of"),
        (GOOD, masks.band(3, 1), {"mass": "cubed"}, "mass must be one of"),
        (GOOD, masks.band(3, 1), {"bounds": ("R", "Q")}, "bounds must be one of"),
        (GOOD, masks.band(3, 1), {"exact": "yes"}, "exact must be True, False or 'auto'"),
        (GOOD, masks.band(3, 1), {"time_budget": 0}, "time_budget must be finite and > 0"),
        (GOOD, masks.band(3, 1), {"n_restarts": -1}, "n_restarts must be >= 0"),
    ],
)
def test_messages(A, mask, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        pattern_distance(A, mask, **options)


def test_counts_are_ints():
    with pytest.raises(TypeError, match="n_restarts must be an int"):
        pattern_distance(GOOD, masks.band(3, 1), n_restarts=2.0)


def test_abs_mass():
    A = np.array([[0.2, 0.8], [0.5, 0.5]])
    assert pattern_distance(A, masks.band(2, 0), order="none", mass="abs").mass_outside == pytest.approx(0.65)
    assert pattern_distance(A, masks.band(2, 0), order="none").mass_outside == pytest.approx(0.89 / 1.18)
