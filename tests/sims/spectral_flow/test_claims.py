"""The ledger of the spectral flow: every claim and its control, on two streams, and its oracles."""

import math

import numpy as np
import pytest

from porism import sims
from porism.sims.spectral_flow import aligned_init, random_target
from porism.sims.spectral_flow.claims import _oracles as oracles
from porism.sims.spectral_flow.claims.discrete import _cycle, _first
from porism.theory.spectral_flow import ideal_arrival_time

LEDGER = {claim.id: claim for claim in sims.ledger("spectral_flow")}
KINDS = dict.fromkeys(
    ["SF-4b", "SF-7b", "SF-8b", "SF-8d", "SF-9b", "SF-10", "SF-12", "SF-14"], "empirical"
) | dict.fromkeys(["SF-6b", "SF-12b"], "refuted")


def test_the_ledger_is_complete():
    assert {id.rstrip("bcd") for id in LEDGER} == {f"SF-{k}" for k in range(1, 15)}
    assert {id: claim.kind for id, claim in LEDGER.items()} == dict.fromkeys(LEDGER, "theorem") | KINDS
    assert all(claim.module == "spectral_flow" for claim in LEDGER.values())


@pytest.mark.parametrize(
    ("sigma", "a", "b", "time"),
    [
        (4.0, 0.1, 0.1, 1.9),
        (2.25, 0.5, 0.05, 1.24178113121),
        (4.0, 0.0, 0.1, 1.95062490237),
        (0.5, 1.0, 0.01, 0.358148307071),
        (1.0, 1.0, -0.1, 0.1 + (-0.9 + 4.81**0.5) / 2),
        (1.0, 3.0, 2.0, (5 - 5**0.5) / 2),
        (1.0, 0.3, -0.3, math.inf),
        (1.0, 0.0, 0.0, math.inf),
    ],
)
def test_the_walk(sigma, a, b, time):
    """Printed ideal times, and hand-made ones for other signs and from above."""
    assert oracles.walk(sigma, a, b, sigma) == pytest.approx(time, abs=1e-11)
    assert oracles.walk(sigma, -a, -b, sigma) == pytest.approx(time, abs=1e-11)


def test_the_quadrature():
    """Printed smoothed times, to 12 digits, and the ideal one without smoothing."""
    for sigma, beta, s0, time in (
        (1.0, 0.01, 1e-6, 1.01741007271),
        (4.0, 0.01, 1e-6, 1.99148343867),
        (9.0, 0.001, 1e-4, 2.97496303812),
    ):
        assert oracles.quadrature(sigma, s0, 0.99, beta) == pytest.approx(time, abs=2e-11)
    assert oracles.quadrature(4.0, 1e-4, 0.99, 0.0) == pytest.approx(3.96**0.5 - 0.01, abs=1e-12)


def test_a_descent_by_hand():
    """A diagonal case: every entry moves by its sign, the ridge enters the gradient."""
    Y, B, A = np.diag([4.0, 1.0]), np.diag([0.5, 0.1]), np.diag([0.3, -0.2])
    Bs, As = oracles.descend(Y, B, A, oracles.exact, 0.1, 1)
    assert np.abs(Bs[1] - np.diag([0.6, 0.0])).max() < 1e-15
    assert np.abs(As[1] - np.diag([0.4, -0.1])).max() < 1e-15
    Bs, As = oracles.descend(Y, B, A, oracles.plain, 0.1, 1, ridge=2.0)
    assert (
        np.abs(np.diag(Bs[1]) - [0.5 + 0.1 * (3.85 * 0.3 - 1), 0.1 + 0.1 * (1.02 * -0.2 - 0.2)]).max() < 1e-15
    )


def test_what_is_read_off_the_factors():
    rng = np.random.default_rng(0)
    sigma, a, b = [3.0, 2.0, 1.0], np.array([0.3, -0.7, 0.2]), np.array([0.5, 0.4, 0.9])
    Y = random_target(6, 5, sigma, rng)
    B, A = aligned_init(Y, a, b, rng)
    assert np.abs(oracles.modes(Y, B[None], A[None], 3)[0] - a * b).max() < 1e-14
    assert np.abs(oracles.singular_values(B, A) - np.sort(np.abs(a * b))[::-1]).max() < 1e-14
    squares = oracles.root_balance(B, A)
    U = np.linalg.svd(Y)[2][:3] @ A.T  # rows a_i q_i'
    Q = (U / a[:, None]).T
    assert np.abs(Q.T @ squares @ Q - np.diag(np.abs(a) - np.abs(b))).max() < 1e-14
    R = oracles.rotation(5, rng)
    assert np.abs(R.T @ R - np.eye(5)).max() < 1e-14


def test_one_mode_step_by_step():
    """Known run: sigma 2, lr 0.1, both factors 0.05; then a cycle of two values."""
    product = _cycle(2.0, 0.05, 0.05, 0.1, 20).prod(axis=1)
    assert int((product >= 1.98).argmax()) == 14
    assert np.abs(product[14::2] - 2.1025).max() < 1e-12
    assert np.abs(product[15::2] - 1.8225).max() < 1e-12
    assert _first(2.0, 0.05, np.full((40, 2), 0.1)) == 15  # from b = 0: .1 k (.05 + .1 (k - 1)) >= 2


def test_the_three_orthogonalisers_differ():
    G = np.diag([1.0, 0.5, 0.1])
    assert np.abs(oracles.exact(G) - np.eye(3)).max() < 1e-15
    assert 0.05 < np.abs(oracles.express(G) - np.eye(3)).max() < 0.2
    assert 0.2 < np.abs(oracles.quintic(G) - np.eye(3)).max() < 0.35
    assert oracles.plain(G) is G


def test_a_control_breaks_what_it_names():
    """An aligned start turned out of the target's rows is no longer aligned, and its times are others."""
    rng = np.random.default_rng(1)
    Y = random_target(6, 7, [3.0, 1.0], rng)
    B, A = aligned_init(Y, 0.3, 0.2, rng)
    limit = ideal_arrival_time([3.0, 1.0], 0.3, 0.2)
    for start, apart in ((A, False), (A @ oracles.rotation(7, rng), True)):
        path = oracles.modes(Y, *oracles.descend(Y, B, start, oracles.exact, 0.01, 250), 2)
        steps = (path >= [3.0, 1.0]).argmax(axis=0)
        assert (np.abs(steps - limit / 0.01).max() > 3) == apart
