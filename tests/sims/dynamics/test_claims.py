"""The ledger of skill and delegation: its kinds, its oracles, and controls that break what they name."""

import numpy as np
import pytest

from porism import sims
from porism.sims.dynamics.claims import _oracles as oracles
from porism.sims.dynamics.claims.basins import _joined
from porism.sims.dynamics.claims.laws import _rest
from porism.sims.dynamics.claims.performance import _run, _starts
from porism.theory.dynamics import DelegationModel

LEDGER = {claim.id: claim for claim in sims.ledger("dynamics")}
KINDS = dict.fromkeys(["SD-6", "SD-8", "SD-9"], "refuted") | dict.fromkeys(["SD-10", "SD-11"], "empirical")


def test_the_ledger_is_complete():
    assert {id.rstrip("b") for id in LEDGER} == {f"SD-{k}" for k in range(1, 12)}
    assert {id: claim.kind for id, claim in LEDGER.items()} == dict.fromkeys(LEDGER, "theorem") | KINDS
    for id, claim in LEDGER.items():
        assert ("(False" in claim.statement) == (KINDS.get(id) == "refuted")


def test_parameters():
    models = [DelegationModel(1, 2, 3, 0.5), DelegationModel(4, 5, 6, 0.7)]
    values = oracles.parameters(models, 2)
    assert values["learn"].tolist() == [1, 1, 4, 4]
    assert values["quality"].tolist() == [0.5, 0.5, 0.7, 0.7]
    assert values["gain"] is None
    assert oracles.parameters([DelegationModel(1, 1, 1, 0.5, "logistic", 9)])["gain"].tolist() == [9]


def test_perturbed():
    model = DelegationModel(1, 2, 3, 0.5, "logistic", 9)
    assert oracles.perturbed(model, learn=2, quality=0.1) == DelegationModel(2, 2, 3, 0.6, "logistic", 9)


def test_joined_area():
    """With one speed it is the area itself; with two it lies between theirs."""
    one, three = (DelegationModel(1, 0.6, k, 0.6) for k in (1, 3))
    assert _joined(one.separatrix(), one.separatrix(), 0.6) == pytest.approx(one.low_skill_area(), abs=1e-10)
    mixed = [_joined(x.separatrix(), y.separatrix(), 0.6) for x, y in ((three, one), (one, three))]
    assert mixed[0] > one.low_skill_area() > mixed[1]
    # each half changes with its own speed only
    assert sum(mixed) == pytest.approx(one.low_skill_area() + three.low_skill_area(), abs=1e-10)


def test_rest_by_newton():
    found = _rest(DelegationModel(1, 0.6, 1, 0.7, "logistic", 12))
    known = [(0.000376334, 0.999774166), (0.748171546, 0.359379444), (0.979452531, 0.033783012)]
    np.testing.assert_allclose([e.point for e in found], known, atol=6e-10)


def test_starts_and_runs():
    low, high = _starts(3, 4, np.random.default_rng(0))
    assert all(m.verdict(s, d) != "high" and s < m.quality for m, s, d in zip(*low, strict=True))
    assert all(s > m.quality for m, s, _ in zip(*high, strict=True))
    t, gain = _run(*low, np.full(12, 2.0), 400)
    orbit = low[0][5].trajectory(low[1][5], low[2][5], t[:, 5])
    np.testing.assert_allclose(gain[:, 5], orbit.performance - orbit.alone, atol=1e-8)
