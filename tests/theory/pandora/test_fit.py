"""Fitting a router: moments against the generating model, folds, files, and the report's warnings."""

import os
from pathlib import Path

import numpy as np
import pytest

from porism.errors import NumericalWarning
from porism.theory.pandora import CalibrationReport, FittedRouter, fit_router, voi, voi_bounds


def world(n=20_000, K=4, rho=0.0, s=0.6, tau=0.5, seed=0):
    """Values correlated by rho between specialists, and marginally calibrated estimates of both kinds."""
    rng = np.random.default_rng(seed)
    m = rng.normal(size=(n, K))
    e = s * (np.sqrt(rho) * rng.normal(size=(n, 1)) + np.sqrt(1 - rho) * rng.normal(size=(n, K)))
    q = m + s**2 / (s**2 + tau**2) * (e + tau * rng.normal(size=(n, K)))
    return m, q, m + e


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_moments_are_those_of_the_model(rho):
    s, tau, n = 0.6, 0.5, 20_000
    m, q, y = world(n, rho=rho)
    fitted = fit_router(y, cheap=m, refined=q)
    gain = s**2 / (s**2 + tau**2)
    Sigma = s**2 * (rho + (1 - rho) * np.eye(4))
    error = 5 * s**2 * np.sqrt(2 / n)  # five standard errors of a second moment of variables with sd <= s
    assert fitted.nu**2 == pytest.approx(np.full(4, s**2 * gain), abs=error)
    assert fitted.s**2 == pytest.approx(np.full(4, s**2), abs=error)
    assert np.abs(fitted.A - gain**2 * (Sigma + tau**2 * np.eye(4))).max() < error
    assert np.abs(fitted.B - gain * Sigma).max() < error
    # d tau / d nu = -s^4 / (nu^3 tau), and nu is off by at most error / (2 nu)
    slack = s**4 / (s**3 * gain**1.5 * tau) * error / (2 * s * np.sqrt(gain)) * 3
    assert fitted.tau == pytest.approx(np.full(4, tau), abs=slack)
    assert fitted.report.slope == pytest.approx(np.ones(4), abs=0.02)
    assert ("joint_needed" in fitted.report.flags) == (rho > 0)


def test_nothing_is_learned_from_noise():
    rng = np.random.default_rng(1)
    m, _, y = world()
    noise = fit_router(y, cheap=m, refined=m + 0.3 * rng.normal(size=m.shape))
    assert noise.nu.max() < 0.07  # nu^2 within 5 s * 0.3 / sqrt(n) of 0
    assert noise.report.refine_harmful
    assert "optimistic" in noise.report.flags
    flat = fit_router(y, cheap=m, refined=m, costs=0.01)
    assert flat.nu.tolist() == [0.0] * 4
    assert np.isinf(flat.tau).all()
    assert {"nu_zero", "refinement_never_pays"} <= {*flat.report.flags}


def test_perfect_refinement():
    m, _, y = world()
    fitted = fit_router(y, cheap=m, refined=y)
    assert fitted.nu == pytest.approx(fitted.s, rel=1e-8)
    assert (fitted.nu < fitted.s).all()
    assert fitted.tau.tolist() == [0.0] * 4
    assert "nu_clipped" in fitted.report.flags


def test_marginal_calibration_can_mislead_and_the_joint_update_mends_it():
    """All specialists share one error in their signals: each is calibrated, their maximum is not."""
    rng = np.random.default_rng(1)
    n, K, s = 20_000, 6, 0.3
    m = 0.02 * rng.normal(size=(n, K))
    e, shared = s * rng.normal(size=(n, K)), rng.normal(size=(n, 1)) * np.array([2.0, 0.05] * 3)
    gain = s**2 / (s**2 + np.array([2.0, 0.05] * 3) ** 2)
    fitted = fit_router(m + e, cheap=m, refined=m + gain * (e + shared))
    cheap, marginal, joint = fitted.report.chosen
    assert joint.realised > marginal.realised + 3 * (marginal.gain_se + joint.gain_se)
    assert "joint_needed" in fitted.report.flags
    assert np.isclose(cheap.gain, 0)


def test_bins_follow_a_changing_nu():
    rng = np.random.default_rng(0)
    n = 30_000
    m = rng.uniform(size=(n, 2))
    nu = 0.1 + 0.4 * (m > 0.5)
    q = m + nu * rng.normal(size=m.shape)
    fitted = fit_router(q + 0.05 * rng.normal(size=m.shape), cheap=m, refined=q, nu_bins=2)
    assert fitted.nu_at([[0.1, 0.9]]) == pytest.approx(np.array([[0.1, 0.5]]), rel=0.05)
    assert fitted.nu_at([0.9, 0.1]).shape == (2,)
    pooled = fit_router(q, cheap=m, refined=q)
    assert (pooled.nu_at(m) == pooled.nu).all()


def test_groups_stay_together():
    m, q, y = world(300)
    labels = np.repeat(np.arange(100), 3)
    fitted = fit_router(y, cheap=m, refined=q, groups=labels.astype(str))
    assert all(len({*fitted.folds[labels == label]}) == 1 for label in range(100))
    assert {*fitted.folds} == {0, 1, 2, 3, 4}


def features(n=600, K=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = np.tanh(X[:, :K] + 0.5 * X[:, 3:4] * X[:, 4:5]) + 0.2 * rng.normal(size=(n, K))
    return X, y


def test_estimates_are_out_of_fold(needs):
    """A pure-noise target cannot be predicted out of fold, however the trees overfit."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 5)), rng.normal(size=(600, 3))
    needs("sklearn")
    fitted = fit_router(y, features=X)
    for estimate in (fitted.m_hat, fitted.q_hat):
        assert abs(np.corrcoef(estimate.ravel(), y.ravel())[0, 1]) < 0.12  # five standard errors
    assert np.corrcoef(fitted.refined(X).ravel(), y.ravel())[0, 1] > 0.5  # the final fit has seen them


def test_estimators_may_have_a_seed_of_their_own(needs):
    """The forest moves, and folds and what has no seed stay; left out it is the seed of all."""
    needs("sklearn")
    X, y = features(200)
    fits = [fit_router(y, features=X, folds=2, seed=1, estimator_seed=inner) for inner in (None, 1, 2)]
    assert np.array_equal(fits[0].q_hat, fits[1].q_hat)
    assert not np.array_equal(fits[1].q_hat, fits[2].q_hat)
    assert np.array_equal(fits[1].folds, fits[2].folds)
    assert np.array_equal(fits[1].m_hat, fits[2].m_hat)
    with pytest.raises(ValueError, match="estimator_seed must be >= 0"):
        fit_router(y, features=X, estimator_seed=-1)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ridge", "knn", "trees"])
def test_named_estimators_are_those_of_scikit_learn(kind, needs, tmp_path):
    needs("sklearn")
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.linear_model import Ridge
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = features()
    theirs = {
        "ridge": make_pipeline(StandardScaler(), Ridge(1.0)),
        "knn": make_pipeline(StandardScaler(), KNeighborsRegressor(40)),
        "trees": ExtraTreesRegressor(60, min_samples_leaf=4, max_features=0.4, random_state=0),
    }[kind]
    fitted, twin = (fit_router(y, cheap="ridge", refined=choice, features=X) for choice in (kind, theirs))
    assert fitted.q_hat == pytest.approx(twin.q_hat, abs=1e-9)
    new = np.random.default_rng(1).normal(size=(50, 5))
    assert fitted.refined(new) == pytest.approx(twin.refined(new), abs=1e-9)
    fitted.save(tmp_path / "router.npz")
    again = FittedRouter.load(tmp_path / "router.npz")
    assert np.array_equal(again.refined(new), fitted.refined(new))
    assert again.cheap(new[0]) == pytest.approx(fitted.cheap(new)[0], rel=1e-12)
    assert again.report.flags == fitted.report.flags
    assert len({again, fitted}) == 2  # results that hold arrays are told apart, not compared
    with pytest.raises(TypeError, match=r"cannot be saved without pickle.*'trees'"):
        twin.save(tmp_path / "twin.npz")
    assert not (tmp_path / "twin.npz").exists()


def test_in_sample_estimates_are_noticed(needs):
    ExtraTreesRegressor = needs("sklearn.ensemble").ExtraTreesRegressor
    X, y = features()
    cheating = ExtraTreesRegressor(20, random_state=0).fit(X, y).predict(X)
    honest = fit_router(y, cheap="ridge", refined="trees", features=X)
    with pytest.warns(NumericalWarning, match="refined estimates seem to be in-sample"):
        fitted = fit_router(y, cheap="ridge", refined=cheating, features=X)
    assert "in_sample" in fitted.report.flags
    assert "in_sample" not in fit_router(y, cheap="ridge", refined=honest.q_hat, features=X).report.flags


def test_few_rows_share_one_nu():
    m, q, y = world(60)
    with pytest.warns(NumericalWarning, match="one nu is estimated for all"):
        fitted = fit_router(y, cheap=m, refined=q, nu_bins=4)
    assert len({*fitted.nu.round(12)}) == 1
    assert fitted.nu_table is None
    assert "few_rows" in fitted.report.flags


def test_unknown_scores_are_left_out():
    m, q, y = world(5000)
    mask = np.ones(y.shape, bool)
    mask[::3, 1] = False
    poisoned = np.where(mask, y, np.nan)
    fitted = fit_router(poisoned, cheap=m, refined=q, mask=mask)
    rows = mask[:, 1]
    r, e = (q - m)[rows, 1], (y - m)[rows, 1]
    assert fitted.nu[1] == pytest.approx(np.sqrt(np.cov(r, e, ddof=0)[0, 1]), rel=1e-12)
    assert fitted.A[0, 1] == pytest.approx(((q - m)[rows, 0] * r).mean(), rel=1e-6)
    assert fitted.report.n_queries == rows.sum()
    assert np.linalg.eigvalsh(fitted.A).min() > 0


def test_permuting_specialists_permutes_the_fit():
    m, q, y = world(2000, rho=0.4)
    order = [2, 0, 3, 1]
    fitted, other = fit_router(y, m, q), fit_router(y[:, order], m[:, order], q[:, order])
    assert other.nu == pytest.approx(fitted.nu[order], rel=1e-12)
    assert pytest.approx(fitted.A[np.ix_(order, order)], rel=1e-6) == other.A
    assert pytest.approx(fitted.B[np.ix_(order, order)], rel=1e-12) == other.B


def test_binary_values_stay_in_the_unit_interval(needs):
    needs("sklearn")
    X, y = features()
    fitted = fit_router((y > 0).astype(float), features=X, returns="binary")
    assert fitted.m_hat.min() >= 0
    assert fitted.m_hat.max() <= 1
    assert fitted.cheap(100 * X).max() <= 1


def test_gains_that_scores_of_0_or_1_do_not_allow_are_counted(tmp_path):
    rng = np.random.default_rng(4)
    p = rng.random((400, 3)) ** 0.2  # mostly near 1, where the Gaussian law reaches beyond
    m = np.clip(p + 0.1 * rng.normal(size=p.shape), -0.1, 1.1)
    y = (rng.random(p.shape) < p).astype(float)
    fitted = fit_router(y, cheap=m, refined=p, nu_bins=2)
    count = 0
    for row, spread in zip(m, fitted.nu_at(m), strict=True):
        for k in range(3):
            if 0 <= row[k] <= 1:
                b = max(np.delete(row, k))
                cap = voi_bounds(row[k] - b, spread[k], p=row[k], b=b).binary_cap
                count += voi(row[k] - b, spread[k]) > cap
    assert 0 < count < m.size
    assert fitted.report.above_cap == count
    assert f"{count} gains exceed what scores of 0 or 1 allow" in fitted.report.summary()
    fitted.save(tmp_path / "r.npz")
    assert FittedRouter.load(tmp_path / "r.npz").report.above_cap == count
    assert fit_router(y, cheap=m, refined=p, returns="binary").report.above_cap is None
    assert fit_router(2 * y, cheap=m, refined=p).report.above_cap is None
    with pytest.warns(NumericalWarning, match="one specialist"):
        assert fit_router(y[:, :1], cheap=m[:, :1], refined=p[:, :1]).report.above_cap == 0


def test_report_shows_itself(tmp_path, needs):
    m, q, y = world(2000, rho=0.6)
    report = fit_router(y, m, q, names=["a", "b", "c", "d"]).report
    assert "exhaustive, joint" in report.summary()
    assert "joint_needed" in repr(report)
    report.save(tmp_path / "report.npz")
    assert CalibrationReport.load(tmp_path / "report.npz").chosen == report.chosen
    needs("matplotlib").use("agg")
    assert len(report.plot().patches) == 6
    needs("pandas")
    assert report.to_frame()["specialist"].tolist() == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.full((5, 2), np.nan)}, "scores contain NaN at 10 entries; pass mask= or drop"),
        ({"scores": np.zeros((50, 0))}, "need at least 1 specialist"),
        ({"scores": np.zeros(5)}, r"shape \(n, K\)"),
        ({"scores": np.array([["a"]], object)}, "dtype object"),
        ({"cheap": None}, r"refined estimates need the cheap ones \(cheap= or features=\)"),
        ({"refined": None}, r"refined estimates are missing"),
        ({"cheap": "ridge"}, r"'ridge' is an estimator and needs features="),
        ({"cheap": np.zeros((3, 2))}, r"shape of scores \(200, 4\), got \(3, 2\)"),
        ({"features": np.zeros((3, 2))}, r"row for each of the 200 queries of scores, got shape \(3, 2\)"),
        ({"returns": "binary"}, r"returns='binary' needs scores in \[0, 1\]"),
        ({"returns": "poisson"}, "returns"),
        ({"folds": 1}, "folds"),
        (
            {"scores": np.zeros((1, 4)), "cheap": np.zeros((1, 4)), "refined": np.zeros((1, 4))},
            "at least 2 rows",
        ),
        ({"groups": np.zeros(200)}, "at least as many labels"),
        ({"groups": np.zeros(3)}, "one label for each"),
        ({"mask": np.ones((2, 2), bool)}, "mask must be a bool array"),
        ({"mask": np.zeros((200, 4), bool)}, "without a score"),
        ({"names": ["a"]}, "names must name the 4"),
        ({"names": list("abca")}, "names must differ from each other and from 'outside', got 'a'"),
        ({"costs": [0.1, 0.1]}, r"costs must be a number or have shape \(4,\), got shape \(2,\)"),
        ({"seed": -1}, "seed must be >= 0"),
    ],
)
def test_bad_input(change, message):
    m, q, y = world(200)
    with pytest.raises(ValueError, match=message):
        fit_router(**({"scores": y, "cheap": m, "refined": q} | change))


def test_a_forest_finds_its_features_among_many(needs):
    """More than a 16-bit number counts."""
    needs("sklearn")
    from porism.theory.pandora._estimators import ForestValues

    X = np.zeros((60, 33_000))
    X[:, -3:] = np.random.default_rng(0).normal(size=(60, 3))
    y = X[:, -3:-1]
    model = ForestValues.fit(X, y)
    assert np.corrcoef(model.predict(X)[:, 0], y[:, 0])[0, 1] > 0.9


@pytest.mark.parametrize("kind", ["ridge", "knn"])
def test_a_constant_feature_says_nothing(kind):
    """Also where its mean is rounded, so that its computed deviation is 1e-17 and not 0."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.normal(size=(300, 2))
    y += X[:, :2]
    dull = np.column_stack([X, np.full(300, 0.1)])
    assert 0 < dull[:, 3].std() < 1e-15
    plain, more = (fit_router(y, cheap=kind, refined=kind, features=F) for F in (X, dull))
    np.testing.assert_allclose(more.m_hat, plain.m_hat, rtol=1e-9)
    dull[:, 3] = 0.3  # never seen: no ground for another estimate, and none for a huge one
    np.testing.assert_allclose(more.cheap(dull), plain.cheap(X), rtol=1e-9)


def test_constant_innovations_are_not_correlated():
    m, _, y = world(300)
    report = fit_router(y, m, m + 0.1).report  # differences of 1e-16 are rounding
    assert np.array_equal(report.innovation_correlation, np.eye(4))
    assert "joint_needed" not in report.flags


def test_a_common_offset_does_not_move_nu():
    """Covariances do not cancel: 1e7 squared times the rounding of floats is a tenth of nu squared."""
    m, q, y = world(300)
    plain, moved = fit_router(y, m, q), fit_router(y + 1e7, m, q + 1e7)
    np.testing.assert_allclose(moved.nu, plain.nu, rtol=1e-7)  # sums themselves are rounded to 1e-9
    np.testing.assert_allclose(moved.s, plain.s, rtol=1e-7)


def test_wrong_shapes_and_labels():
    m, q, y = world(200)
    fitted = fit_router(y, m, q)
    with pytest.raises(ValueError, match=r"4 columns, one estimate a specialist, got shape \(3,\)"):
        fitted.cheap([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="refined estimates must be finite"):
        fitted.refined([1.0, 2.0, np.inf, 3.0])
    with pytest.raises(ValueError, match=r"4 columns, one a specialist, got shape \(200, 3\)"):
        fitted.nu_at(m[:, :3])
    with pytest.raises(TypeError, match="groups must be labels of one kind"):
        fit_router(y, m, q, groups=[None, "a"] * 100)


def test_a_data_frame_names_the_specialists(needs):
    pandas = needs("pandas")
    m, q, y = world(200)
    frame = pandas.DataFrame(y, columns=list("abcd"))
    assert fit_router(frame, m, q).names == ("a", "b", "c", "d")
    assert fit_router(frame, m, q, names="wxyz").names == ("w", "x", "y", "z")
    assert fit_router(pandas.DataFrame(y), m, q).names[3] == "specialist 3"
    with pytest.raises(ValueError, match="names must differ from each other and from 'outside', got 'a'"):
        fit_router(frame.rename(columns={"b": "a"}), m, q)


def test_trees_of_one_specialist_warn_of_that_alone(needs):
    needs("sklearn")
    X, y = features()
    with pytest.warns(NumericalWarning, match="one specialist") as doubts:
        fitted = fit_router(y[:, :1], features=X)
    assert len(doubts) == 1
    assert fitted.q_hat.shape == (len(y), 1)


def test_damaged_forest_is_refused(needs):
    needs("sklearn")
    X, y = features()
    model = fit_router(y, features=X).refined_model
    import dataclasses

    loop = model.left.copy()
    loop[0] = 0
    with pytest.raises(ValueError, match="damaged"):
        dataclasses.replace(model, left=loop)


@pytest.mark.full
def test_real_matrix_as_published():
    """Nine language models on 6,108 prompts: qualities as the folds give them."""
    folder = Path(os.environ.get("PORISM_DATA", "nowhere")) / "pandora"
    if not folder.exists():
        pytest.skip("PORISM_DATA has no folder pandora")
    with np.load(folder / "llmrouter_dc9.npz") as data:
        y, F = data["score"].astype(float), data["features"].astype(float)
        length, split = np.log(data["prompt_chars"].astype(float))[:, None], data["split"]
    means = [0.2352, 0.4500, 0.5078, 0.5626, 0.5026, 0.2671, 0.1538, 0.2774, 0.4228]
    assert y[split == 1].mean(0) == pytest.approx(means, abs=5e-5)
    fitted = fit_router(y, features=np.hstack([F, length]), cheap_features=np.hstack([F[:, :6], length]))
    cheap, exhaustive, joint = fitted.report.chosen
    assert cheap.realised == pytest.approx(
        0.6207, abs=5e-5 + 1e-4
    )  # a tie broken otherwise moves it by 1/6108
    assert 0.646 < exhaustive.realised < 0.656  # over seeds of the forest .6486 to .6545, standard error .004
    assert exhaustive.gain_se == pytest.approx(0.0040, abs=2e-4)
    assert joint.gain > 3 * joint.gain_se
    assert y.mean(0).max() == pytest.approx(0.6165, abs=5e-5)
    assert "refine_harmful" not in fitted.report.flags
