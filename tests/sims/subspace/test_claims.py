"""What the ledger's evidence shows beyond its verdict."""

import pytest

from porism import sims

LEDGER = {claim.id: claim for claim in sims.ledger("subspace")}


def test_kinds():
    kinds = {id: claim.kind for id, claim in LEDGER.items()}
    assert {id for id, kind in kinds.items() if kind == "refuted"} == {"LR-2b", "LR-5"}
    assert {id for id, kind in kinds.items() if kind == "theorem"} == {
        f"LR-{k}" for k in (1, 2, 3, 4, 6, 7, 8)
    }


def test_each_wrong_law_is_wrong():
    found = LEDGER["LR-1"].run().evidence
    wrong = [found.numbers[name] for name in found.numbers if name != "against 80 digits"]
    assert len(wrong) == 3
    assert min(wrong) > 0.01
    assert found.numbers["against 80 digits"] < 1e-14


def test_doubled_noise_is_seen():
    outcome = LEDGER["LR-3"].run()
    assert outcome.evidence.numbers["aligned, kappa outside"] < 1e-20
    assert outcome.control_evidence.numbers["aligned, kappa outside"] == pytest.approx(4.21, abs=0.005)


def test_the_counterexample():
    outcome = LEDGER["LR-5"].run()
    assert outcome.evidence.measured == "69.58 and 283.05"
    assert outcome.control_evidence.measured == "69.58 and 69.58"


def test_unequal_shares_split_the_loss():
    control = LEDGER["LR-8"].run().control_evidence
    assert control.measured > 0.1
    assert control.numbers["weighted mean off by"] < 1e-12
