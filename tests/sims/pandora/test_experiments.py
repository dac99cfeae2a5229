import dataclasses
import functools
import math
import subprocess
import sys

import numpy as np
import pytest

from porism.results import Result
from porism.sims import pandora
from porism.sims.pandora import (
    CLASSIFIERS,
    Answers,
    ScoreMatrix,
    agreement_estimates,
    average_curves,
    binary_irt,
    budget_run,
    classifier_matrix,
    cross_fit,
    curve_over_seeds,
    dependence_sweep,
    fit_router,
    gaussian,
    refinement_curve,
)
from porism.theory import pandora as theory


def of_world(world):
    """A matrix and a fit whose estimates are the exact posterior means of a world."""
    n, K = world.scores.shape
    matrix = ScoreMatrix(world.scores, tuple(f"m{k}" for k in range(K)), np.ones((n, K), bool))
    return matrix, fit_router(world.scores, cheap=world.m, refined=world.refined)


@pytest.fixture(scope="module")
def gauss():
    return of_world(gaussian(3000, 4, 0.5, s=0.7, tau=0.3, spread=0.4, seed=0))


@functools.cache
def made_digits():
    matrix = classifier_matrix()
    return matrix, cross_fit(matrix)


@pytest.fixture
def digits(needs):
    needs("sklearn")
    return made_digits()


def test_reexports():
    for name in ("fit_router", "route_batch", "Router", "baselines", "cost_quality_curve", "aiq", "apgr",
                 "arena_score", "nondecreasing_hull", "margin_threshold", "cheap", "exhaustive"):  # fmt: skip
        assert getattr(pandora, name) is getattr(theory, name)
    assert pandora.baselines.random is pandora.random


def test_import_is_light():
    code = (
        "import sys, porism.sims.pandora as p; p.gaussian(3, 2, seed=0); p.read_csv; p.refinement_curve; "
        "print([m for m in ('sklearn', 'pandas', 'numba', 'torch', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


# curves


def test_curve_against_direct_routing(gauss):
    matrix, fitted = gauss
    y, m, q = matrix.scores, fitted.m_hat, fitted.q_hat
    rows = np.arange(len(y))
    curve = refinement_curve(matrix, fitted, costs=(0.02, 0.1), margins=(0.3,), picks=(2,))
    assert curve.policy.tolist() == ["kg"] * 2 + ["kg_sigma"] * 2 + ["kg_joint"] * 2 + [
        "threshold refined", "threshold all", "random", "random joint"]  # fmt: skip
    cheap, best = y[rows, m.argmax(1)], y[rows, q.argmax(1)]
    assert curve.cheap == pytest.approx(cheap.mean())
    assert curve.exhaustive == pytest.approx(best.mean())
    assert curve.oracle == pytest.approx(y.max(1).mean())
    assert curve.single_best == y.mean(0).max()
    # one step by hand: refine what lies within the margin, by the rule's own words
    opened = m >= m.max(1, keepdims=True) - 0.3
    opened[opened.sum(1) == 1] = False
    got = y[rows, np.where(opened, q, m).argmax(1)]
    i = curve.policy.tolist().index("threshold all")
    assert curve.refinements[i] == pytest.approx(opened.sum(1).mean())
    assert curve.quality[i] == pytest.approx(got.mean())
    assert curve.gain[i] == pytest.approx((got - cheap).mean())
    assert curve.gain_se[i] == pytest.approx((got - cheap).std(ddof=1) / math.sqrt(len(y)))
    assert curve.gap_se[i] == pytest.approx((got - best).std(ddof=1) / math.sqrt(len(y)))
    assert curve.share == pytest.approx((curve.quality - curve.cheap) / (curve.exhaustive - curve.cheap))
    assert curve.gap == pytest.approx(curve.quality - curve.exhaustive)
    routes = theory.route_batch(m, fitted.nu, 0.1, policy="kg_joint", refined=q, innovation=fitted.innovation)
    assert curve.quality[5] == pytest.approx(y[rows, routes.choice].mean())
    assert (np.diff(curve.refinements[:6].reshape(3, 2)) < 0).all()  # dearer, fewer


def test_reading_a_curve(gauss):
    curve = refinement_curve(*gauss, costs=(0.02, 0.1), margins=(0.3,), picks=(2,))
    points = curve.points("kg")
    assert points[0].tolist() == [0.0, curve.cheap]
    assert points[-1].tolist() == [4.0, curve.exhaustive]
    assert curve.points("kg_joint")[-1, 1] == curve.exhaustive_joint
    middle = points[:2].mean(0)
    assert curve.quality_at("kg", middle[0]) == pytest.approx(middle[1])
    share = (middle[1] - curve.cheap) / (curve.exhaustive - curve.cheap)
    assert curve.refinements_for("kg", share) == pytest.approx(middle[0])
    assert curve.refinements_for("kg", 0.0) == 0.0
    assert curve.refinements_for("threshold all", 2.0) == math.inf
    assert math.isnan(curve.quality_at("kg", 4.1))
    with pytest.raises(ValueError, match=r"policy must be one of .*got 'best'"):
        curve.points("best")
    assert "4 specialists" in repr(curve)


def test_curves_average_and_save(gauss, tmp_path):
    first = refinement_curve(*gauss, picks=(1, 2), policies=("random",), seed=0)
    other = refinement_curve(*gauss, picks=(1, 2), policies=("random",), seed=1)
    mean = average_curves([first, other])
    assert mean.n_seeds == 2
    assert mean.quality == pytest.approx((first.quality + other.quality) / 2)
    assert mean.quality_sd == pytest.approx(np.abs(first.quality - other.quality) / math.sqrt(2))
    assert mean.setting.tolist() == [1.0, 2.0]
    assert mean.cheap == first.cheap
    mean.save(tmp_path / "c.npz")
    assert np.array_equal(Result.load(tmp_path / "c.npz").policy, mean.policy)
    with pytest.raises(ValueError, match="same policies and settings"):
        average_curves([first, refinement_curve(*gauss, picks=(1,), policies=("random",))])
    with pytest.raises(ValueError, match="at least one curve"):
        average_curves([])


def test_curve_of_incomplete_scores(gauss):
    matrix, fitted = gauss
    known = matrix.known.copy()
    known[:500, 1] = False
    part = dataclasses.replace(matrix, known=known)
    curve = refinement_curve(part, fitted, policies=())
    rows = np.arange(2500)
    assert curve.n_queries == 2500
    assert curve.cheap == pytest.approx(matrix.scores[500:][rows, fitted.m_hat[500:].argmax(1)].mean())
    with pytest.raises(ValueError, match="no query has all scores known"):
        refinement_curve(dataclasses.replace(matrix, known=matrix.known & False), fitted)


def test_wrong_calls(gauss):
    matrix, fitted = gauss
    with pytest.raises(ValueError, match=r"fitted has estimates of shape \(3000, 4\), matrix scores of"):
        refinement_curve(matrix.rows(slice(10)), fitted)
    with pytest.raises(ValueError, match=r"policies must be among kg, .*got 'rollout'"):
        refinement_curve(matrix, fitted, policies=("rollout",))
    with pytest.raises(ValueError, match="matrix must have features"):
        cross_fit(matrix)
    ungrouped = dataclasses.replace(matrix, features=np.ones((3000, 1)))
    with pytest.raises(ValueError, match="grouped=True needs a matrix with groups"):
        cross_fit(ungrouped, grouped=True)
    with pytest.raises(ValueError, match="budgets must hold at least one"):
        budget_run(matrix, fitted, [])


def test_cross_fit_leaves_each_fold_out():
    """Estimates of a row do not change with its own score."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.column_stack([X[:, 0], X[:, 1]]) + 0.1 * rng.normal(size=(200, 2))
    matrix = ScoreMatrix(y, ("a", "b"), np.ones((200, 2), bool), features=X, cheap_features=X[:, :1])
    fit = cross_fit(matrix, expensive="ridge")
    changed = y.copy()
    changed[7] += 50
    again = cross_fit(ScoreMatrix(changed, ("a", "b"), matrix.known, features=X, cheap_features=X[:, :1]),
                      expensive="ridge")  # fmt: skip
    assert np.array_equal(again.q_hat[7], fit.q_hat[7])
    assert np.array_equal(again.m_hat[7], fit.m_hat[7])
    other = np.flatnonzero(fit.folds != fit.folds[7])
    assert (again.q_hat[other] != fit.q_hat[other]).any()
    same = fit_router(y, cheap="ridge", refined="ridge", features=X, cheap_features=X[:, :1])
    assert np.array_equal(same.q_hat, fit.q_hat)
    assert np.array_equal(same.nu, fit.nu)
    groups = np.repeat(np.arange(40), 5).astype(str)
    grouped = cross_fit(ScoreMatrix(y, ("a", "b"), matrix.known, features=X, groups=groups),
                        expensive="ridge", grouped=True)  # fmt: skip
    assert (np.ptp(grouped.folds.reshape(40, 5), axis=1) == 0).all()


# classifiers


def test_classifier_matrix_is_what_it_says(digits):
    matrix = digits[0]
    assert matrix.models == CLASSIFIERS
    assert matrix.scores.shape == (1198, 12)
    assert matrix.cheap_features.shape == (1198, 3)
    assert np.array_equal(classifier_matrix().scores, matrix.scores)
    assert not np.array_equal(classifier_matrix(seed=1).scores, matrix.scores)
    home = np.isin(matrix.subset, [str(d) for d in (0, 1, 2, 3)])  # of the first one
    assert matrix.scores[home, 0].mean() > 0.9
    assert matrix.scores[~home, 0].mean() < matrix.scores[home, 0].mean() - 0.2
    assert matrix.scores.max(1).mean() > 0.98


def test_refinement_pays_on_real_classifiers(digits):
    """A real gain, many standard errors wide, that adaptive refinement keeps with a third of the effort."""
    matrix, fitted = digits
    report = fitted.report
    assert report.chosen[1].gain > 5 * report.chosen[1].gain_se
    curve = refinement_curve(matrix, fitted, policies=("kg_joint", "random"), picks=(4,))
    assert curve.refinements_for("kg_joint", 0.9) < 4
    assert curve.share[-1] < 0.9
    assert curve.single_best < curve.cheap < curve.exhaustive < curve.oracle


def test_other_data_set_and_bad_arguments(needs):
    needs("sklearn")
    matrix = classifier_matrix("breast_cancer", seed=3)
    assert matrix.scores.shape == (379, 12)
    for change, message in (
        ({"dataset": "mnist"}, "dataset must be one of 'digits', 'breast_cancer'"),
        ({"train": 1.0}, "train must be a share"),
        ({"home": 0.0}, "home must be a share"),
        ({"strangers": 1}, "strangers must be >= 2"),
        ({"cheap": 0}, "cheap must be >= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier_matrix(**change)


def test_seeds_move_the_forest_and_not_the_folds(digits):
    matrix = digits[0].rows(slice(300))
    mean, curves = curve_over_seeds(
        matrix, (0, 1), expensive="knn", folds=2, policies=("kg_joint",), costs=(0.01,)
    )
    assert curves[0].quality.tolist() == curves[1].quality.tolist()  # no seed in knn
    assert mean.n_seeds == 2
    one, two = (cross_fit(matrix, folds=2, forest_seed=s) for s in (1, 2))
    assert np.array_equal(one.folds, two.folds)
    assert np.array_equal(one.m_hat, two.m_hat)
    assert not np.array_equal(one.q_hat, two.q_hat)


# agreement


def made_answers(n=1500, seed=0):
    """Four specialists and two references whose answers share a difficulty; one question set is cut."""
    rng = np.random.default_rng(seed)
    world = binary_irt(n, 6, ability=[1.0, 0.8, 0.6, 0.4, 0.0, 0.0], known=0.3, difficulty=1.5, seed=rng)
    key = rng.integers(0, 10, n)
    wrong = (key[:, None] + rng.integers(1, 10, (n, 6))) % 10
    predictions = np.where(world.scores == 1, key[:, None], wrong)
    predictions[rng.random((n, 6)) < 0.02] = 255
    known = np.ones((n, 6), bool)
    known[:50, 1] = False
    features = np.column_stack([world.m[:, 0], rng.normal(size=n)])
    lengths = 100 + 50 * rng.random((n, 6))
    return Answers(predictions, key, lengths, known, ("a", "b", "c", "d", "r", "s"), features)


def test_answers_are_scored_by_the_key():
    answers = made_answers()
    matrix = answers.matrix()
    assert matrix.known.sum() == answers.known.sum()
    right = answers.predictions == answers.key[:, None]
    assert np.array_equal(matrix.scores[answers.known], right[answers.known])


def test_agreement_makes_calibrated_estimates_that_promise_too_much(needs):
    needs("sklearn")
    answers = made_answers()
    found = agreement_estimates(answers, ("r", "s"), 3, folds=3, iterations=20)
    assert found.models == ("a", "c", "d")  # b was not asked everything
    assert found.references == ("r", "s")
    assert found.fitted.report.slope == pytest.approx(1, abs=0.2)
    assert (found.fitted.report.nu_cov > 0.1).all()
    rules = {row.rule: row for row in found.chosen}
    assert list(rules) == ["cheap", "exhaustive", "exhaustive, joint", "exhaustive, boosted"]
    marginal, boosted = rules["exhaustive"], rules["exhaustive, boosted"]
    assert marginal.predicted - marginal.realised > 3 * marginal.gap_se
    rows = np.arange(len(found.scores))
    assert boosted.realised == found.scores[rows, found.joint.argmax(1)].mean()
    assert boosted.predicted == pytest.approx(found.joint.max(1).mean())
    named = agreement_estimates(answers, ("r",), ("b", "a"), folds=2, iterations=2, joint=False, limit=400)
    assert named.scores.shape == (400, 2)
    assert named.joint is None
    assert len(named.chosen) == 3


def test_agreement_does_not_see_the_held_out_key(needs):
    """Estimates of a question stay as they are when its right answer is another."""
    needs("sklearn")
    answers = made_answers(300)
    key = answers.key.copy()
    key[9] = (key[9] + 3) % 10
    before, after = (
        agreement_estimates(
            dataclasses.replace(answers, key=k), ("r",), ("a", "c"), folds=2, iterations=3, joint=False
        )
        for k in (answers.key, key)
    )
    assert np.array_equal(before.m[9], after.m[9])
    # cheap estimates of training rows have seen the held-out score, which moves marginal ones a little
    assert before.marginal[9] == pytest.approx(after.marginal[9], abs=0.1)


def test_agreement_refuses(needs):
    needs("sklearn")
    answers = made_answers(100)
    with pytest.raises(ValueError, match="'a' is a specialist and a reference"):
        agreement_estimates(answers, ("a",), ("a", "b"))
    with pytest.raises(ValueError, match="models has no 'z'"):
        agreement_estimates(answers, ("z",))
    with pytest.raises(ValueError, match="specialists=9 is more than the 4 models"):
        agreement_estimates(answers, ("r",), 9)


# sweeps


def test_what_independence_costs():
    sweep = dependence_sweep((0.0, 0.5, 0.95), n=3000, cost=0.05, seed=1)
    kg, joint = sweep.policies.index("kg"), sweep.policies.index("kg_joint")
    assert sweep.loss[0, kg] == pytest.approx(0, abs=1e-12)  # the same rule at rho = 0
    assert (sweep.loss[:, joint] == 0).all()
    assert sweep.loss[2, kg] > 5 * sweep.loss_se[2, kg] > 0
    assert sweep.loss[1, kg] < sweep.loss[2, kg]
    assert sweep.refinements[2, joint] < sweep.refinements[2, kg]
    # with almost everything shared there is nothing to find out: the joint rule knows it
    cheap = sweep.policies.index("cheap")
    assert sweep.net[2, joint] == pytest.approx(sweep.net[2, cheap], abs=0.01)
    with pytest.raises(ValueError, match="cost must be finite and > 0"):
        dependence_sweep(cost=0.0)


def test_budget_is_kept(gauss):
    matrix, fitted = gauss
    run = budget_run(matrix, fitted, [0.03, 0.01], costs=0.02, limit=1200, policy="kg_joint")
    assert run.spend.shape == (1200,)
    assert run.budget[:600].tolist() == [0.03] * 600
    for half, budget in ((slice(600), 0.03), (slice(600, None), 0.01)):
        # off by the drift of lam over eta n, of the order of one natural scale over 0.02 * 600
        assert run.spend[half].mean() == pytest.approx(budget, rel=0.15)
    assert run.lam[900:].mean() > run.lam[300:600].mean()  # money is dearer where there is less
    assert run.quality.mean() > 0


def test_progress_goes_to_stderr(gauss, capsys):
    matrix, fitted = gauss
    refinement_curve(matrix, fitted, policies=("random",), picks=(1,), progress=True)
    budget_run(matrix, fitted, [0.03], limit=3, progress=True)
    dependence_sweep((0.0,), n=10, progress=True)
    out = capsys.readouterr()
    assert out.out == ""
    assert "routing" in out.err
