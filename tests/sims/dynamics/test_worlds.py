"""Worlds run by plain steps: against the model, and their own order of convergence."""

import numpy as np
import pytest

from porism.sims.dynamics import asymmetric_ends, count_low, draw_models, runge_kutta, vector_field
from porism.sims.dynamics.figure_data import areas, counted, rest_curve
from porism.theory.dynamics import DelegationModel

CASE = DelegationModel(1, 0.6, 1, 0.7)
LOGISTIC = DelegationModel(1, 0.6, 1, 0.55, "logistic", 12)


def test_order_of_convergence():
    """Fourth: half the step, a sixteenth of the error."""
    exact = CASE.trajectory(0.45, 0.5, 4.0)
    errors = []
    for steps in (10, 20, 40, 80):
        last = runge_kutta(vector_field(1, 0.6, 1, 0.7), [[0.45], [0.5]], 4.0, steps)
        errors.append(abs(last[0, 0] - exact.skill[0]) + abs(last[1, 0] - exact.delegation[0]))
    slopes = np.diff(np.log2(errors))
    assert (np.abs(slopes + 4) < 0.5).all()


def test_people_are_the_model():
    rng = np.random.default_rng(0)
    state = rng.uniform(size=(2, 7))
    for model in (CASE, LOGISTIC):
        field = vector_field(model.learn, model.forget, model.speed, model.quality, model.gain)
        np.testing.assert_allclose(field(state), model.plane().velocity(*state), atol=1e-15)
    turned = vector_field(1, 0.6, 1, 0.7, sign=-1.0)(state)
    plain = vector_field(1, 0.6, 1, 0.7)(state)
    np.testing.assert_array_equal(turned[0], plain[0])
    np.testing.assert_allclose(turned[1], -plain[1])
    slow = vector_field(1, 0.6, 1, 0.7, down=0.25)(state)
    np.testing.assert_allclose(slow[1], np.where(plain[1] > 0, plain[1], plain[1] / 4))
    many = vector_field([1, 2], [0.6, 0.3], [1, 3], [0.7, 0.4])(state[:, :2])
    np.testing.assert_allclose(many[:, 1], vector_field(2, 0.3, 3, 0.4)(state[:, 1:2])[:, 0])


def test_kept_states():
    kept = runge_kutta(vector_field(1, 0.6, 1, 0.7), [[0.45], [0.5]], 2.0, 20, keep=5)
    assert kept.shape == (5, 2, 1)
    np.testing.assert_array_equal(kept[0, :, 0], [0.45, 0.5])
    orbit = CASE.trajectory(0.45, 0.5, np.linspace(0, 2, 5))
    np.testing.assert_allclose(kept[:, 0, 0], orbit.skill, atol=1e-6)
    with pytest.raises(ValueError, match="steps must be >= 1"):
        runge_kutta(vector_field(1, 0.6, 1, 0.7), [[0.45], [0.5]], 2.0, 0)


def test_drawn_models():
    for law in ("replicator", "logistic"):
        models = draw_models(20, 3, law)
        assert models == draw_models(20, 3, law)
        for model in models:
            low, high = model.bistable_window()
            assert low + 0.24 * (high - low) < model.quality < high - 0.24 * (high - low)
            assert all(0.5 <= rate <= 2 for rate in (model.learn, model.forget, model.speed))
    with pytest.raises(ValueError, match="n must be >= 1"):
        draw_models(0)


def test_counts_follow_the_border():
    starts = np.random.default_rng(1).uniform(size=(2, 500))
    for model in (CASE, LOGISTIC):
        low = starts[1] > model.separatrix()(starts[0])
        assert count_low(model, starts, 120.0, 1200) == (low.sum(), 500)
    share, error = counted([CASE, LOGISTIC], 800, 0)
    assert np.abs((share - [CASE.low_skill_area(), LOGISTIC.low_skill_area()]) / error).max() < 4


def test_asymmetric_ends():
    starts = np.random.default_rng(2).uniform(size=(2, 50))
    same = asymmetric_ends(CASE, 1, 1, starts, 100.0, 1000)
    np.testing.assert_array_equal(same[0] < 0.5, starts[1] > CASE.separatrix()(starts[0]))
    for speeds in ((3, 1), (1, 3)):  # left of the saddle the upward speed counts, right of it the other
        model = [DelegationModel(1, 0.6, k, 0.7).separatrix() for k in speeds]
        border = np.where(starts[0] < 0.7, model[0](starts[0]), model[1](starts[0]))
        lost = asymmetric_ends(CASE, *speeds, starts, 100.0, 1000)[0] < 0.5
        np.testing.assert_array_equal(lost, starts[1] > border)
    with pytest.raises(ValueError, match="model must be one of law='replicator'"):
        asymmetric_ends(LOGISTIC, 1, 1, starts)
    with pytest.raises(ValueError, match="up must be finite and > 0"):
        asymmetric_ends(CASE, 0, 1, starts)


def test_figure_data():
    np.testing.assert_allclose(areas(CASE, "quality", [0.3, 0.7]), [0.17303027, 0.62734676], atol=1e-8)
    s = [e.point[0] for e in LOGISTIC.equilibria()]
    np.testing.assert_allclose(rest_curve(LOGISTIC, s), 0.55, atol=1e-12)
    with pytest.raises(ValueError, match="model must be one of law='logistic'"):
        rest_curve(CASE, 0.5)
    with pytest.raises(ValueError, match=r"s must be in \(0, 1\), got 0 to 0.5"):
        rest_curve(LOGISTIC, [0.0, 0.5])
