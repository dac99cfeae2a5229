"""What the ledger's evidence shows beyond its verdict."""

import pytest

from porism import sims

LEDGER = {claim.id: claim for claim in sims.ledger("selection")}


@pytest.fixture(autouse=True)
def torch(needs):
    return needs("torch")


def test_kinds():
    kinds = {id: claim.kind for id, claim in LEDGER.items()}
    assert kinds == {
        **{f"DS-{k}": "theorem" for k in (1, 2, 4, 5, 6, "6c")},
        "DS-3": "statistical",
        "DS-5b": "empirical",
        "DS-6b": "refuted",
        "DS-7": "empirical",
    }


def test_the_trapezoid_is_twice_the_midpoint():
    outcome = LEDGER["DS-3"].run()
    numbers = outcome.evidence.numbers
    assert numbers["trapezoid over midpoint"] == pytest.approx(-2, abs=0.01)
    assert numbers["slope, first"] == pytest.approx(1, abs=0.02)
    assert outcome.control_evidence.numbers["slope, trapezoid"] == pytest.approx(1, abs=0.02)


def test_first_order_is_no_account_of_a_finite_step():
    outcome = LEDGER["DS-4"].run()
    assert outcome.control_evidence.measured > 0.01
    assert outcome.control_evidence.numbers["rows against columns (tolerance 1e-12)"] < 1e-12
    assert outcome.evidence.numbers["5 nodes, over L (reported)"] < 1e-6


def test_the_counterexample():
    outcome = LEDGER["DS-6b"].run()
    assert outcome.evidence.numbers["known matrix, one shot"] == 0.2
    assert outcome.evidence.numbers["known matrix, best"] == 10
    assert outcome.control_evidence.measured == pytest.approx(1)


def test_joint_choice_by_family():
    numbers = LEDGER["DS-7"].run().evidence.numbers
    assert numbers["positive, one shot"] == pytest.approx(1)
    assert numbers["signed, one shot"] < 0.7
    assert numbers["signed, one shot, least"] < 0
