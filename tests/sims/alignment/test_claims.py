"""The ledger of alignment: every claim and its control, on two streams, and its oracles."""

import math

import numpy as np
import pytest

from porism import sims
from porism.sims.alignment.claims import _oracles as oracles
from porism.sims.alignment.claims.laws import _drops
from porism.sims.alignment.claims.pivot import _steady
from porism.theory.alignment import linear_drop

LEDGER = {claim.id: claim for claim in sims.ledger("alignment")}
KINDS = (
    dict.fromkeys(["DK-4", "DK-5", "DK-9", "DK-10", "DK-13", "DK-14", "DK-18b"], "statistical")
    | dict.fromkeys(["DK-19", "DK-20", "DK-23b", "DK-25", "DK-25b"], "empirical")
    | dict.fromkeys(["DK-6", "DK-15b", "DK-19b", "DK-20b", "DK-21b"], "refuted")
)


def test_the_ledger_is_complete():
    assert {id.rstrip("b") for id in LEDGER} == {f"DK-{k}" for k in range(1, 26)}
    assert {id: claim.kind for id, claim in LEDGER.items()} == dict.fromkeys(LEDGER, "theorem") | KINDS
    assert all(claim.module == "alignment" for claim in LEDGER.values())


def test_pair_sums():
    """Hand-made values: pairs of different rows, two and three classes."""
    e1 = np.diag([1.0, 0.0, 0.0])
    x, y = np.array([[3.0, 1, 0], [1, -1, 2], [-2, 0, 1], [-2, 2, -1]]), np.array([0, 0, 1, 1])
    assert oracles.pair_scatter(x, y, e1) == pytest.approx(15 / 4, abs=1e-14)
    assert oracles.pair_scatter(x, y, np.eye(3)) == pytest.approx(13 / 4, abs=1e-14)
    plugin = [oracles.pair_scatter(x, y, p, same=True) for p in (e1, np.eye(3))]
    assert plugin[0] / plugin[1] == pytest.approx(8 / 9, abs=1e-14)
    x = np.array([[4.0, 0, 1], [2, 1, 0], [0, 3, 0], [1, 5, 1], [-3, -2, 2], [-5, -4, -2]])
    y = np.array([0, 0, 1, 1, 2, 2])
    assert oracles.pair_scatter(x, y, e1) == pytest.approx(71 / 9, abs=1e-14)
    assert oracles.pair_scatter(x, y, np.eye(3)) == pytest.approx(263 / 18, abs=1e-13)


@pytest.mark.parametrize(("x", "gamma"), [(9.0, 2.0), (3.0, 0.3), (500.0, 100.0)])
def test_the_noise_transform(x, gamma):
    """The integral solves the quadratic, and decays as -1/x."""
    m = oracles.noise_transform(x, gamma)
    assert x * m * m + (x + 1 - gamma) * m + 1 == pytest.approx(0, abs=1e-10)
    assert oracles.noise_transform(1e6, gamma) == pytest.approx(-1e-6, rel=1e-3)


def test_the_root_of_the_error():
    """ell b^2 = gamma (1 + b), x = (1 + ell) b: at ell 8, gamma 4 it is b = 1; below, pure noise."""
    assert oracles.whole_noise(8.0, 4.0) == pytest.approx(9.0, abs=1e-9)
    assert oracles.whole_noise(1.0, 4.0) == 8.0


def test_centroids_by_drawing():
    rng = np.random.default_rng(0)
    for kept, r, n in ((2.0, 4, 16), (0.5, 2, 30)):
        w = 2 / math.sqrt(n) * rng.standard_normal((200_000, r))
        w[:, 0] += math.sqrt(kept)
        margin = math.sqrt(kept) / 2 * w[:, 0] / np.linalg.norm(w, axis=1)
        shift = rng.standard_normal(len(w)) / math.sqrt(n)
        for middle, t in ((False, 0 * shift), (True, shift)):
            values = np.vectorize(math.erf)((margin + t)[:20_000] / math.sqrt(2)) / 2 + 0.5
            # 5 standard errors of 20 000 draws
            error = 5 * values.std() / math.sqrt(20_000)
            assert oracles.centroid_accuracy(kept, r, n, middle) == pytest.approx(values.mean(), abs=error)


def test_complex_slopes():
    rng = np.random.default_rng(1)
    at = rng.standard_normal((2, 3))
    assert oracles.complex_slope(lambda z: np.sum(z**3), at) == pytest.approx(3 * at**2, abs=1e-14)
    net = oracles.TokenNet(rng, 5, 4, 6, 3, 2.0)
    whole = oracles.complex_slope(net.loss, np.zeros((4, 5)))
    assert net.by_position().T @ net.x == pytest.approx(whole, abs=1e-14)
    step = 1e-6 * rng.standard_normal((4, 5))
    central = (net.loss(step) - net.loss(-step)) / 2
    assert float(np.sum(whole * step)) == pytest.approx(float(central), rel=1e-6)


def test_a_descent_by_hand():
    """One step from B = 0: B = lr Y'X A' / n, A decays; then a quarter turn changes nothing."""
    x, y, a = np.diag([1.0, 2.0]), np.array([[1.0], [3.0]]), np.eye(2)
    path = oracles.descend(y, x, a, 0.1, 1, decay=0.5)
    assert path[1] == pytest.approx(np.array([[0.05, 0.3]]) * 0.95, abs=1e-15)
    short = oracles.descend(y, x, a, 0.1, 1, clip=1.0)
    assert short[1] == pytest.approx(np.array([[0.05, 0.3]]) / math.hypot(0.5, 3.0), abs=1e-15)
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    plain, turned, left = (
        oracles.descend(y, x, a, 0.1, 6, momentum=0.9, q=q, at=3, move=move)
        for q, move in ((None, True), (turn, True), (turn, False))
    )
    assert np.abs(plain - turned).max() < 1e-15
    assert np.abs(plain - left).max() > 0.1


def test_angles_and_frames():
    rng = np.random.default_rng(2)
    rows = oracles.orthonormal(rng, 3, 7)
    assert rows @ rows.T == pytest.approx(np.eye(3), abs=1e-14)
    v, w = np.eye(3)[:, :1], np.array([[0.6], [0.8], [0.0]])
    assert oracles.sin_size(v, w) == pytest.approx(0.8, abs=1e-15)
    true, seen, block = oracles.middle_case(rng, 8, 0.03)
    values = np.linalg.eigvalsh(true)[::-1]
    assert values[[0, 1, 2]] == pytest.approx([4.03, 4.0, 1.0], abs=1e-12)
    assert block == slice(1, 2)
    assert 0.05 < np.linalg.norm(seen - true, 2) < 0.1
    assert oracles.signs(2, 2).shape == (16, 2, 2)
    assert np.abs(oracles.signs(2, 2).mean(axis=0)).max() == 0


def test_the_linear_flow():
    """Against the closed form: from a = 1, s = g = 1 the drop is sinh(2 t) / 2."""
    times = np.array([0.5, 1.0])
    found = _drops(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]]), 1.0, times)
    assert found == pytest.approx(np.sinh(2 * times) / 2, rel=1e-9)
    assert found == pytest.approx(linear_drop(times, 1.0, 1.0, 1.0), rel=1e-9)


def test_the_interval_and_the_steady_step():
    mean, error, half = oracles.interval(np.array([1.0, 2.0, 3.0]), 0.95)
    assert (mean, error) == (2.0, pytest.approx(1 / math.sqrt(3)))
    assert half == pytest.approx(4.302652729911275 / math.sqrt(3), rel=1e-9)
    assert _steady(30, zeroed=False) == pytest.approx(1.0, rel=1e-12)
    assert _steady(1, zeroed=True) == pytest.approx(math.sqrt(1.999), rel=1e-12)
