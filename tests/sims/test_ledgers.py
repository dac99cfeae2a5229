"""Every ledger: each claim holds as its kind says, each control fails, on two streams."""

import os

import pytest

from porism import sims

FULL = os.environ.get("PORISM_JOB") == "full"
LEDGER = {claim.id: claim for claim in sims.ledger()}
# some seconds each: not in the light job
SLOW = {
    *("PD-4", "PD-8", "PD-13", "PD-14", "PD-17", "PD-18", "SF-8b", "SF-10", "SF-14"),
    *("DK-15b", "DK-18b", "DK-19", "DK-20", "DK-25", "DK-25b", "TC-5f", "TC-7", "TC-9b", "TC-10"),
}
# seconds at the size of the papers too; the others run there with their notebook
PAPER = {
    *("DK-1", "DK-3", "DK-7", "DK-8", "DK-11", "DK-12", "DK-13", "DK-21", "DK-24"),
    *("SF-1", "SF-3", "SF-4b", "SF-6", "SF-8", "SF-8d", "SF-9", "SF-11", "SF-12"),
}


def cases():
    """Every claim on two streams; the light job takes the quick ones on the first."""
    for seed in (0, 1):
        for id in LEDGER:
            yield pytest.param(id, seed, marks=pytest.mark.slow if seed or id in SLOW else ())


def judge(outcome):
    """A missing extra is named, and stops nothing but its claim; all else is as stated."""
    if "MissingExtraError" in outcome.error:
        assert "porism[" in outcome.error
        (pytest.fail if FULL else pytest.skip)(outcome.error)
    assert outcome.ok, (outcome.verdict, outcome.error, outcome.evidence, outcome.control_evidence)


@pytest.mark.parametrize(("id", "seed"), list(cases()))
def test_as_stated(id, seed, small):
    outcome = LEDGER[id].run(seed=seed)
    judge(outcome)
    assert outcome.evidence.quantity
    assert outcome.evidence.tolerance_origin
    assert outcome.evidence.trials >= 1
    assert outcome.to_dict()["verdict"] == outcome.verdict
    if outcome.seconds < 0.3:  # cheap enough to ask twice
        again = LEDGER[id].run(seed=seed)
        assert again.evidence.to_dict() == outcome.evidence.to_dict()
        assert again.control_evidence.to_dict() == outcome.control_evidence.to_dict()


@pytest.mark.slow
@pytest.mark.parametrize("id", sorted(PAPER))
def test_at_paper_scale(id, small):
    judge(LEDGER[id].run("paper"))


@pytest.mark.parametrize("module", sims.modules())
def test_the_ids_have_no_gap(module):
    """Numbered from 1 under each prefix; letters mark side entries."""
    found = {}
    for claim in sims.ledger(module):
        prefix, number = claim.id.split("-")
        found.setdefault(prefix, set()).add(int(number.rstrip("abcdefghijklmnopqrstuvwxyz")))
    assert found == {prefix: set(range(1, len(numbers) + 1)) for prefix, numbers in found.items()}
