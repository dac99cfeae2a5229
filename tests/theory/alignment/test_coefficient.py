"""rho: worked cases, the naive twin, invariances, degenerate input, and coverage of the interval."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import NumericalWarning
from porism.results import Result
from porism.theory.alignment import (
    AlignmentResult,
    _crossfit,
    alignment_coefficient,
    principal_subspace,
    spike_overlap,
)

FOUR = [[3, 1, 0], [1, -1, 2], [-2, 0, 1], [-2, 2, -1]]
SIX = [[4, 0, 1], [2, 1, 0], [0, 3, 0], [1, 5, 1], [-3, -2, 2], [-5, -4, -2]]
FIRST = [[1.0, 0, 0]]


def sample(n=24, d=40, classes=2, signal=3.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    x = rng.standard_normal((n, d))
    x[:, :classes] += signal * np.eye(classes)[y]
    return x, y


def test_worked_basis_two_classes():
    found = alignment_coefficient(FOUR, [0, 0, 1, 1], 1, basis=FIRST)
    assert found.captured_unclipped == pytest.approx(15 / 13)
    assert (found.captured, found.rho) == (1, 1)
    assert found.enrichment == pytest.approx(3)
    inside = alignment_coefficient(FOUR, [0, 0, 1, 1], 1, basis=FIRST, estimator="plugin")
    assert inside.captured == pytest.approx(8 / 9)
    assert math.isnan(found.signal_z)
    assert not found.signal_detected


def test_worked_basis_three_classes():
    y = [0, 0, 1, 1, 2, 2]
    found = alignment_coefficient(SIX, y, 1, basis=FIRST)
    assert found.captured_unclipped == pytest.approx(71 / 9 / (263 / 18))
    assert found.captured == pytest.approx(142 / 263)
    assert found.rho == pytest.approx(163 / 526)
    plugin = alignment_coefficient(SIX, y, 1, basis=FIRST, estimator="plugin")
    assert plugin.captured == pytest.approx(151 / 299)
    assert (found.n, found.d, found.r, found.estimator) == (6, 3, 1, "crossfit")


@pytest.mark.filterwarnings("ignore:a subspace of dimension")
def test_worked_plugin():
    x = [[3, 1, 0], [3, -1, 0], [-3, 1, 0], [-3, -1, 0], [3, 0, 1], [-3, 0, -1]]
    expected = (([0, 0, 1, 1, 0, 1], 1, 0.99999248), ([0, 1, 0, 1, 0, 1], 1, 0.68372452))
    for y, r, value in (*expected, ([0, 1, 0, 1, 0, 1], 2, 0.96943881)):
        assert alignment_coefficient(x, y, r, estimator="plugin").captured == pytest.approx(value, abs=5e-9)


def test_worked_gradient_weights():
    x = [[1, 0], [3, 2], [-1, 1], [0, -2]]
    found = alignment_coefficient(x, [0, 0, 0, 1], 1, basis=[[1, 0]], estimator="plugin", weights="gradient")
    assert found.captured == pytest.approx(0.1)


def test_enough_dimensions_capture_all_in_sample():
    x = np.random.default_rng(0).standard_normal((9, 40))
    with pytest.warns(NumericalWarning, match="in-sample captured is 1 by construction"):
        found = alignment_coefficient(x, [0, 1, 0, 1, 0, 1, 0, 1, 0], 8, estimator="plugin")
    assert (found.captured, found.rho, found.signal_detected) == (1, 1, False)
    with pytest.warns(NumericalWarning, match="every permutation"):
        found = alignment_coefficient(x, np.arange(9) % 2, 8, estimator="permutation")
    assert math.isnan(found.rho)
    assert found.reason
    assert alignment_coefficient(x, np.arange(9) % 2, 7, estimator="plugin", random_state=0).captured < 1


@pytest.mark.parametrize(("n", "d", "classes", "r"), [(24, 40, 2, 3), (30, 7, 3, 2), (13, 20, 2, 4)])
@pytest.mark.parametrize("kind", ["share", "gradient"])
def test_against_naive_crossfit(plain, n, d, classes, r, kind, monkeypatch):
    x, y = sample(n, d, classes, seed=n)
    x += 10
    if n == 30:
        x, y = x[5:], y[5:] % 3
        y[:4] = 0  # unequal classes
    used = []
    folds = _crossfit.folds
    monkeypatch.setattr(_crossfit, "folds", lambda *a: used.append(folds(*a)) or used[-1])
    found = alignment_coefficient(x, y, r, weights=kind, random_state=1)
    value, clipped = plain.captured(x, y, r, used[0], kind)
    assert found.captured_unclipped == pytest.approx(value, rel=1e-9)
    assert found.captured == pytest.approx(clipped, rel=1e-9)
    assert found.rho == pytest.approx((clipped - r / d) / (1 - r / d), rel=1e-9)
    p, w = plain.shares_of(y, kind)
    total = plain.statistic(x, y, np.eye(d), p, w)
    share = plain.posterior(value * total, total, plain.noise(x, y, r, used[0], kind), r / d)
    mean = alignment_coefficient(x, y, r, weights=kind, estimator="posterior", random_state=1)
    assert (mean.captured_unclipped, mean.signal_z) == (found.captured_unclipped, found.signal_z)
    # grids of 800 and 1000 points: 1e-5 of the share's width, and more at the corner of the plane
    assert mean.captured == pytest.approx(share, abs=2e-4)
    P = plain.projector(x, r)
    ratio = plain.in_sample(x, y, P, p, w) / plain.in_sample(x, y, np.eye(d), p, w)
    plugin = alignment_coefficient(x, y, r, weights=kind, estimator="plugin")
    assert plugin.captured == pytest.approx(ratio, rel=1e-9)
    leave = [
        plain.statistic(x[k], y[k], np.eye(d), *plain.shares_of(y[k], kind))
        for k in (np.arange(len(x)) != i for i in range(len(x)))
    ]
    error = math.sqrt((len(x) - 1) * np.var(leave))
    assert found.signal_z == pytest.approx(plain.statistic(x, y, np.eye(d), p, w) / error, rel=1e-8)


def test_folds():
    counts = np.array([19, 40])
    codes = np.repeat([0, 1], counts)
    found = _crossfit.folds(codes, counts, 3, np.random.default_rng(0))
    assert len(found) == 3 * 6  # per = 3, 19 // 3 folds
    for k in range(3):
        held = np.concatenate(found[6 * k : 6 * k + 6])
        assert len(set(held)) == len(held) == 36
    assert all((np.bincount(codes[part]) == 3).all() for part in found)
    assert len(_crossfit.folds(np.arange(64) % 2, np.array([32, 32]), 1, np.random.default_rng(0))) == 8


def test_predicted_gain(monkeypatch):
    """Well separated classes in a direction of large variance: full accuracy against near chance."""
    x, y = sample(48, 300, 2, signal=8.0)
    found = alignment_coefficient(x, y, 2, random_state=0)
    # a spike of 8^2 * 2 / 4 from about 42 training rows
    assert found.captured == pytest.approx(spike_overlap(32, 300 / 42), abs=0.1)
    assert 0.25 < found.predicted_gain <= 0.6
    noise = alignment_coefficient(np.random.default_rng(5).standard_normal((48, 300)), y, 2, random_state=0)
    assert abs(noise.predicted_gain) < 0.25
    assert not noise.signal_detected
    # the accuracy itself against a loop
    data = _crossfit.sample(x, y)
    held, train = np.arange(10), np.arange(10, 48)
    rows = x - x.mean(0)
    image = rows[:, :2] + 3
    means = np.array([image[train][y[train] == c].mean(0) for c in (0, 1)])
    right = [
        np.argmin(((means - row) ** 2).sum(1)) == label for row, label in zip(image[held], y, strict=False)
    ]
    assert _crossfit.accuracy(image, data.codes, train, held, 2) == pytest.approx(np.mean(right))


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["crossfit", "plugin", "permutation"]),
    st.floats(-4, 4),
    st.floats(-100, 100),
    st.sampled_from([(20, 30), (30, 9)]),
)
def test_shift_scale_rotation(seed, estimator, log_scale, shift, shape):
    n, d = shape
    x, y = sample(n, d, seed=seed)
    q = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
    moved = (x @ q + shift) * 10**log_scale
    first, second = (alignment_coefficient(z, y, 3, estimator=estimator, random_state=0) for z in (x, moved))
    # directions turn by eps over the relative gap of the spectrum, which is 1e-6 or more in such samples
    assert second.rho == pytest.approx(first.rho, abs=1e-7)
    assert second.signal_z == pytest.approx(first.signal_z, rel=1e-7)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from(["crossfit", "plugin"]))
def test_order_of_rows_and_names_of_classes(seed, given_basis, estimator):
    x, y = sample(18, 10, 3, seed=seed)
    basis = principal_subspace(x, 2).basis
    if estimator == "crossfit" or given_basis:
        options = {"basis": basis, "estimator": estimator}
    else:
        options = {"estimator": "plugin"}
    order = np.random.default_rng(seed).permutation(18)
    names = np.array([7, -3, 40])
    first = alignment_coefficient(x, y, 2, **options)
    second = alignment_coefficient(x[order], names[y[order]], 2, **options)
    assert second.captured == pytest.approx(first.captured, rel=1e-8, abs=1e-12)
    assert second.signal_z == pytest.approx(first.signal_z, rel=1e-9)


@pytest.mark.parametrize("estimator", ["crossfit", "posterior", "plugin", "permutation"])
@pytest.mark.parametrize("power", [-500, 500])
def test_no_scale_is_too_small_or_too_large(estimator, power):
    """A power of two changes no digit of the rows, and none of what is made of their fourth powers."""
    x, y = sample()
    options = {"estimator": estimator, "ci": estimator == "crossfit", "random_state": 0}
    found, same = (alignment_coefficient(z, y, 2, **options) for z in (x * 2.0**power, x))
    assert 0 < same.signal_z < math.inf
    assert str(found) == str(same)


def test_random_subspaces_have_rho_zero():
    """Given random bases: the mean of the unclipped rho is 0 within sampling error (DK-17)."""
    x, y = sample(40, 12, signal=6.0)
    rng = np.random.default_rng(0)
    values = []
    for _ in range(400):
        basis = np.linalg.qr(rng.standard_normal((12, 3)))[0].T
        values.append(alignment_coefficient(x, y, 3, basis=basis).captured_unclipped)
    assert abs(np.mean(values) - 3 / 12) < 4 * np.std(values) / 20


def test_same_seed_same_result_and_generator():
    x, y = sample()
    one, two = (alignment_coefficient(x, y, 2, random_state=3) for _ in range(2))
    assert one == two or one.rho == two.rho
    assert one.predicted_gain == two.predicted_gain
    rng = np.random.default_rng(3)
    assert alignment_coefficient(x, y, 2, random_state=rng).rho == one.rho


def test_ignored_rows_and_kinds_of_input(needs):
    x, y = sample()
    padded = np.concatenate([x, np.full((2, x.shape[1]), 1e6)])
    found = alignment_coefficient(padded, [*y, -100, -100], 2, random_state=0)
    same = alignment_coefficient(x, y, 2, random_state=0)
    assert found.n_ignored == 2
    assert found.n == 24
    assert found.rho == pytest.approx(same.rho, abs=1e-9)
    torch = needs("torch")
    basis = principal_subspace(x, 2).basis
    weight = torch.nn.Parameter(torch.tensor(basis))
    judged = alignment_coefficient(x, y, 2, basis=weight)
    assert judged.rho == alignment_coefficient(x, y, 2, basis=basis).rho
    with pytest.raises(TypeError, match="x must hold real numbers, got dtype complex64"):
        alignment_coefficient(torch.tensor(x).to(torch.complex64), y, 2)
    half = torch.tensor(x).to(torch.bfloat16)
    found = alignment_coefficient(half, torch.tensor(y), 2, random_state=0)
    assert found.rho == alignment_coefficient(half.double().numpy(), y, 2, random_state=0).rho


def test_no_variance():
    x, y = np.full((12, 5), 0.1), np.arange(12) % 2
    for estimator in ("crossfit", "plugin", "permutation"):
        with pytest.warns(NumericalWarning, match="rho is undefined"):
            found = alignment_coefficient(x, y, 2, estimator=estimator)
        assert math.isnan(found.rho)
        assert "no variance" in found.reason
        assert not found.signal_detected
        with pytest.raises(ValueError, match="no variance"):
            alignment_coefficient(x, y, 2, estimator=estimator, on_degenerate="raise")


def test_class_means_that_coincide():
    x = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 2], [0, 0, -2.0]])
    y = [0, 0, 1, 1, 1, 1]
    for estimator in ("plugin", "permutation"):
        with pytest.warns(NumericalWarning, match="class means coincide"):
            found = alignment_coefficient(x, y, 1, estimator=estimator)
        assert math.isnan(found.rho)
        assert found.reason == "the class means coincide"
    # debiased: N and D are negative, so that nothing is captured and nothing is lost
    with pytest.warns(NumericalWarning, match="between-class"):
        found = alignment_coefficient([[1.0, 0], [-1, 0]] * 2, [0, 0, 1, 1], 1, basis=[[1.0, 0]])
    assert math.isnan(found.captured)
    assert not found.signal_detected


def test_few_rows_need_random_directions():
    x, y = sample(8, 30)
    with pytest.warns(NumericalWarning, match="random directions") as caught:
        found = alignment_coefficient(x, y, 6, random_state=0)
    assert len(caught) == 1
    assert found.n_random == 3  # four training rows span three directions
    assert 0 <= found.captured <= 1
    with pytest.raises(ValueError, match="random directions"):
        alignment_coefficient(x, y, 6, on_degenerate="raise")


def test_noise_free_classes():
    x = np.array([[1.0, 0, 0], [0, 1, 0]])[np.arange(12) % 2]
    with pytest.warns(NumericalWarning):
        found = alignment_coefficient(x, np.arange(12) % 2, 2, random_state=0)
    assert found.captured == pytest.approx(1)
    assert found.signal_detected


def test_interval(plain):
    x, y = sample(32, 60, signal=5.0)
    found = alignment_coefficient(x, y, 3, ci=True, random_state=0)
    assert 0 <= found.ci_low < found.captured_unclipped
    assert found.ci_high <= 1
    assert math.isnan(alignment_coefficient(x, y, 3, random_state=0).ci_low)
    fixed = alignment_coefficient(x, y, 1, basis=np.eye(60)[:1], ci=True)
    p = [plain.shares_of(np.delete(y, i)) for i in range(32)]
    P = np.diag(np.eye(60)[0])
    leave = [
        plain.statistic(np.delete(x, i, 0), np.delete(y, i), P, *p[i])
        / plain.statistic(np.delete(x, i, 0), np.delete(y, i), np.eye(60), *p[i])
        for i in range(32)
    ]
    half = 1.959963984540054 * math.sqrt(31 * np.var(leave))
    assert fixed.ci_low == pytest.approx(max(fixed.captured_unclipped - half, 0), rel=1e-8)
    assert fixed.ci_high == pytest.approx(min(fixed.captured_unclipped + half, 1), rel=1e-8)


def test_interval_that_cannot_be():
    assert math.isnan(alignment_coefficient(FOUR, [0, 0, 1, 1], 1, basis=FIRST, ci=True).ci_low)
    x, y = sample(10, 20, signal=20.0)
    x, y = x[[0, 2, 4, 1, 3, 5, 7, 9]], np.array([0, 0, 0, 1, 1, 1, 1, 1])  # one fold of two rows a class
    assert math.isnan(alignment_coefficient(x, y, 2, ci=True, random_state=0).ci_high)
    with pytest.raises(ValueError, match="n <= 256"):
        alignment_coefficient(*sample(258, 4), 1, ci=True)
    with pytest.raises(ValueError, match="no interval"):
        alignment_coefficient(*sample(), 1, ci=True, estimator="plugin")
    with pytest.raises(ValueError, match="posterior"):
        alignment_coefficient(FOUR, [0, 0, 1, 1], 1, basis=FIRST, estimator="posterior")


def test_saved(tmp_path):
    found = alignment_coefficient(*sample(), 2, random_state=0)
    found.save(tmp_path / "rho.npz")
    back = Result.load(tmp_path / "rho.npz")
    assert isinstance(back, AlignmentResult)
    assert back.rho == found.rho


X = np.random.default_rng(9).standard_normal((8, 8))
Y = np.arange(8) % 2


@pytest.mark.parametrize(
    ("x", "y", "r", "options", "kind", "text"),
    [
        (X, Y, 9, {}, ValueError, "rank r=9 must be in 1..d=8"),
        (X, Y, 0, {}, ValueError, "rank r=0 must be in 1..d=8"),
        (X, Y, 1.5, {}, TypeError, "rank r=1.5"),
        (X, Y, 8, {}, ValueError, "rho is undefined for r=d (every subspace captures all)"),
        (X[:1], Y[:1], 1, {}, ValueError, "need at least 2 samples, got 1"),
        (X, np.zeros(8, int), 1, {}, ValueError, "alignment needs at least 2 classes, got 1"),
        (X, [0, 0, 0, 0, 0, 0, 0, 2], 1, {}, ValueError,
         'class 2 has 1 sample; the debiased estimator needs 2 (use estimator="plugin"'),
        (X[:4], Y[:4], 1, {}, ValueError, "cross-fitting holds out 4 of 4 samples and needs 2 to train on"),
        (X, Y.astype(float), 1, {}, TypeError, "y must hold integer class labels"),
        (X, Y[:7], 1, {}, ValueError, "7 labels for 8 rows"),
        (X, np.full(8, -100), 1, {}, ValueError, "need at least 2 samples, got 0"),
        (X, Y, 1, {"basis": np.eye(8)[:2]}, ValueError, "basis must have shape (r, d) = (1, 8)"),
        (X, Y, 1, {"basis": 2 * np.eye(8)[:1]}, ValueError, "orthonormal rows"),
        (X, Y, 1, {"estimator": "loo"}, ValueError, "estimator must be one of"),
        (X, Y, 1, {"weights": "none"}, ValueError, "weights must be one of"),
        (X, Y, 1, {"repeats": 0}, ValueError, "repeats must be >= 1"),
        (np.where(np.eye(8, dtype=bool), np.nan, X), Y, 1, {}, ValueError,
         "features of 'x' contain 8 non-finite values (first at row 0); rho is undefined"),
    ],
)  # fmt: skip
def test_bad_input(x, y, r, options, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        alignment_coefficient(x, y, r, **options)


def test_single_row_classes_in_sample():
    found = alignment_coefficient(X, [0, 0, 0, 0, 0, 0, 0, 2], 2, estimator="plugin")
    assert 0 < found.captured < 1
    assert math.isnan(found.signal_z)
    assert math.isnan(found.predicted_gain)


def task(rng, n, d, classes, size, nuisance, shares=None):
    """Class means with total scatter `size` in the leading direction(s) among stronger or weaker nuisance."""
    y = np.arange(n) % classes if shares is None else np.repeat(np.arange(len(shares)), shares)
    means = rng.standard_normal((classes, d))
    p = np.bincount(y) / n
    means -= p @ means
    means *= math.sqrt(size / (p @ (means**2).sum(1)))
    x = rng.standard_normal((n, d))
    x[:, :5] *= nuisance
    return x + means[y], y, means, p


def truth(x, means, p, r):
    P = principal_subspace(x, r).basis
    return float(p @ ((means @ P.T) ** 2).sum(1) / (p @ (means**2).sum(1)))


@pytest.mark.full
@pytest.mark.parametrize(
    ("n", "d", "classes", "size", "nuisance", "shares"),
    [
        (32, 200, 2, 20.0, 1.0, None),
        (32, 200, 2, 8.0, 2.0, None),
        (48, 100, 3, 12.0, 1.5, None),
        (40, 200, 2, 15.0, 1.0, [12, 28]),
        (64, 60, 4, 10.0, 2.0, None),
    ],
)
def test_interval_covers(n, d, classes, size, nuisance, shares):
    rng = np.random.default_rng(30)
    hits, trials = 0, 40
    for _ in range(trials):
        x, y, means, p = task(rng, n, d, classes, size, nuisance, shares)
        found = alignment_coefficient(x, y, 4, ci=True, random_state=rng)
        hits += found.ci_low <= truth(x, means, p, 4) <= found.ci_high
    # at a coverage of 95 % fewer than 35 of 40 come about in 1 of 100 runs
    assert hits >= 35


@pytest.mark.full
def test_crossfit_beats_the_plugin():
    rng = np.random.default_rng(31)
    errors = []
    for _ in range(40):
        x, y, means, p = task(rng, 64, 300, 2, float(rng.uniform(2, 20)), float(rng.uniform(1, 3)))
        real = truth(x, means, p, 8)
        values = [
            alignment_coefficient(x, y, 8, estimator=kind, random_state=rng).captured
            for kind in ("crossfit", "plugin")
        ]
        errors.append(np.array(values) - real)
    rmse = np.sqrt(np.mean(np.square(errors), axis=0))
    assert rmse[0] <= 0.4 * rmse[1]
    assert abs(np.mean(errors, axis=0)[0]) < 0.1
    assert np.mean(errors, axis=0)[1] > 0.2


@pytest.mark.full
def test_signal_test():
    rng = np.random.default_rng(32)
    y = np.arange(32) % 2
    noise, real = [], []
    for _ in range(40):
        x = rng.standard_normal((32, 768))
        noise.append(alignment_coefficient(x, y, 8, estimator="plugin").signal_detected)
        x[:, 0] += 2 * math.sqrt(40) * (y - 0.5)  # tr S = 40
        real.append(alignment_coefficient(x, y, 8, estimator="plugin").signal_detected)
    assert np.mean(noise) <= 0.1
    assert np.mean(real) == 1
