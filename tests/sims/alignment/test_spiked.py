"""Spiked rows and class tasks: moments, exact scatter, exact accuracy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.results import Result
from porism.sims.alignment.spiked import ClassTask, sample_class_task, sample_spiked
from porism.theory.alignment import principal_subspace, spike_overlap


def test_covariance_of_spiked_rows():
    n, d = 40_000, 6
    sample = sample_spiked(n, d, [5.0, 2.0], sigma=0.5, random_state=0)
    v = sample.directions
    assert np.allclose(v @ v.T, np.eye(2), atol=1e-12)
    truth = 0.25 * (np.eye(d) + v.T @ np.diag([5.0, 2.0]) @ v)
    # an entry of the sample covariance has standard error <= largest eigenvalue sqrt(2 / n) = 0.0106
    assert np.abs(sample.x.T @ sample.x / n - truth).max() < 5 * 1.5 * np.sqrt(2 / n)
    assert np.allclose(sample.captured(v[:1]), [1, 0], atol=1e-12)
    assert np.allclose(sample.captured(np.eye(d)), 1)


def test_overlap_of_the_leading_direction_meets_the_law():
    # d = n = 300, ell = 3: 30 draws; the spread of one overlap is about 0.03, and finite d adds order 1/d
    found = [
        float(s.captured(principal_subspace(s.x, 1, center=False).basis)[0])
        for s in (sample_spiked(300, 300, [3.0], random_state=i) for i in range(30))
    ]
    error = np.std(found, ddof=1) / np.sqrt(30)
    assert abs(np.mean(found) - spike_overlap(3.0, 1.0)) < 3 * error + 2 / 300
    assert error < 0.02


def test_directions_can_be_given_and_are_uniform_otherwise():
    v = np.eye(5)[2:3]
    assert np.array_equal(sample_spiked(3, 5, 4.0, directions=v, random_state=0).directions, v)
    first = np.array([sample_spiked(1, 3, 1.0, random_state=i).directions[0] for i in range(400)])
    assert np.abs(first.mean(axis=0)).max() < 5 / np.sqrt(3 * 400)  # variance of a coordinate is 1/3
    with pytest.raises(ValueError, match="orthonormal"):
        sample_spiked(3, 5, 4.0, directions=2 * v)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(10, 40),
    st.lists(st.integers(1, 7), min_size=2, max_size=4),
    st.floats(0.01, 100),
    st.floats(0.1, 10),
    st.lists(st.floats(0, 50), max_size=4),
    st.floats(0, 100),
    st.integers(0, 2**32),
)
def test_the_scatter_is_exact(d, counts, delta, sigma, nuisance, offset, seed):
    task = sample_class_task(
        d, counts, len(counts), delta, nuisance, sigma=sigma, offset=offset, random_state=seed
    )
    centred = task.means - task.shares @ task.means
    scatter = sum(p * np.outer(m, m) for p, m in zip(task.shares, centred, strict=True))
    # a mean of length offset sigma loses that many digits in the subtraction
    close = 1e-10 * (1 + offset / np.sqrt(delta)) * delta * sigma**2
    assert abs(np.trace(scatter) - delta * sigma**2) < close
    assert np.allclose(task.scatter_root.T @ task.scatter_root, scatter, atol=close)
    assert task.y.tolist() == [c for c, k in enumerate(counts) for _ in range(k)]
    if nuisance:
        assert np.abs(task.directions @ centred.T).max() < 1e-9 * np.abs(centred).max() * (1 + offset)
        assert np.allclose(task.directions @ task.directions.T, np.eye(len(nuisance)), atol=1e-10)
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, 3)))[0].T
    assert abs(task.captured(basis) - np.trace(basis @ scatter @ basis.T) / np.trace(scatter)) < 1e-9
    assert abs(task.rho(basis) - (task.captured(basis) - 3 / d) / (1 - 3 / d)) < 1e-12


def test_rows_have_the_means_and_the_covariance():
    task = sample_class_task(5, 40_000, 2, 4.0, [9.0], sigma=2.0, random_state=0)
    inside = task.x - task.means[task.y]
    truth = 4 * (np.eye(5) + 9 * task.directions.T @ task.directions)
    assert np.abs(inside.T @ inside / len(inside) - truth).max() < 5 * 40 * np.sqrt(2 / 80_000)
    means = np.array([task.x[task.y == c].mean(axis=0) for c in (0, 1)])
    assert np.abs(means - task.means).max() < 5 * np.sqrt(40 / 40_000)
    assert abs(task.separation - 16) < 1e-9  # balanced pair: 4 delta


@pytest.mark.parametrize("C", [2, 3])
def test_accuracy_against_rows(C):
    task = sample_class_task(12, [10, 6, 4][:C], C, 3.0, [8.0], random_state=1)
    rng = np.random.default_rng(2)
    w, b = rng.standard_normal((C, 12)), rng.standard_normal(C)
    many = task.draw(4000 * np.array([10, 6, 4][:C]), 3)
    right = np.mean((many.x @ w.T + b).argmax(axis=1) == many.y)
    error = 0.5 / np.sqrt(len(many.y)) + (0.5 / np.sqrt(60_000) if C > 2 else 0)
    assert abs(task.accuracy(w, b, samples=60_000) - right) < 5 * error
    assert task.accuracy(w, b, samples=60_000) == task.accuracy(w, b, samples=60_000)


def test_accuracy_of_the_best_pair_and_of_ties():
    task = sample_class_task(8, 5, 2, 1.0, random_state=0)
    gap = task.means[1] - task.means[0]
    w = np.array([-gap, gap]) / 2
    b = -w @ task.means.mean(axis=0)
    # Bayes: Phi(|gap| / 2) with |gap| = 2 sqrt(delta)
    assert abs(task.accuracy(w, b) - 0.8413447460685429) < 1e-12
    assert abs(task.accuracy(-w, -b) - (1 - 0.8413447460685429)) < 1e-12
    assert task.accuracy(0 * w) == 0.5
    assert task.accuracy(0 * w, [0.0, 1.0]) == 0.5
    three = sample_class_task(8, 5, 3, 1.0, random_state=0)
    assert abs(three.accuracy(np.zeros((3, 8))) - 1 / 3) < 1e-12


def test_draw_keeps_the_population(tmp_path):
    task = sample_class_task(9, [4, 2], 2, 2.0, [3.0], random_state=0)
    other = task.draw([8, 4], 5)
    assert len(other.y) == 12
    assert other.means is task.means
    assert np.array_equal(other.x, task.draw([8, 4], 5).x)
    with pytest.raises(ValueError, match="n_per_class must keep"):
        task.draw([4, 4])
    task.save(tmp_path / "t.npz")
    back = Result.load(tmp_path / "t.npz")
    assert isinstance(back, ClassTask)
    assert np.array_equal(back.x, task.x)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: sample_spiked(0, 3, [1.0]), "n must be"),
        (lambda: sample_spiked(3, 3, [-1.0]), "ells must be"),
        (lambda: sample_spiked(3, 1, [1.0, 2.0]), "ells must be"),
        (lambda: sample_spiked(3, 4, [[1.0, 2.0]]), "ells must be at most"),
        (lambda: sample_spiked(3, 4, [[1.0], [2.0, 3.0]]), "ells must be a rectangular array"),
        (lambda: sample_class_task(8, 4, 1, 1.0), "C must be"),
        (lambda: sample_class_task(8, 4, 2, 0.0), "delta must be"),
        (lambda: sample_class_task(3, 4, 3, 1.0, [1.0, 1.0]), "d must be"),
        (lambda: sample_class_task(8, [4, 4, 4], 2, 1.0), "n_per_class must"),
        (lambda: sample_class_task(8, 4, 2, 1.0).accuracy(np.zeros((2, 7))), "weight must"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(ValueError, match=text):
        call()
