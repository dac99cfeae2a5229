"""The ledger of the policies module: its kinds, and the numbers that decide."""

import numpy as np
import pytest

from porism import sims
from porism.sims.policies import _measures

LEDGER = {claim.id: claim for claim in sims.ledger("policies")}
REFUTED = {"PO-8", "AG-3", "AG-5b", "AG-6", "AG-7"}
EMPIRICAL = {"PO-9", "AG-6b"}


def test_kinds():
    numbers = {f"{prefix}-{k}" for prefix in ("PO", "AG") for k in range(1, 10)}
    assert set(LEDGER) == numbers | {"PO-8b", "AG-3b", "AG-5b", "AG-6b", "AG-7b"}
    for id, claim in LEDGER.items():
        kind = "refuted" if id in REFUTED else "empirical" if id in EMPIRICAL else "theorem"
        assert claim.kind == kind, id


@pytest.mark.slow
@pytest.mark.parametrize("id", LEDGER)
def test_at_paper_scale(id):
    outcome = LEDGER[id].run("paper")
    assert outcome.ok, (outcome.verdict, outcome.error, outcome.evidence, outcome.control_evidence)


@pytest.mark.parametrize(
    ("id", "name", "low", "high"),
    [
        ("PO-5", "of the TV bound", 0.999, 1 + 1e-9),
        ("PO-5", "of the KL bound", 0.999, 1 + 1e-9),
        ("PO-7", "largest share of a bound that was used", 0.99, 1 + 1e-9),
        ("AG-4", "mass at 1/2, G = 8", 0.92775, 0.92785),
        ("AG-8", "at k = G - 1, G = 16", 7.615, 7.625),
        ("AG-5b", "smallest cosine, sum", 1 - 1e-12, 1 + 1e-12),
        ("PO-2", "median with coefficients divided by their sum", 0.05, 1),
    ],
)
def test_numbers(id, name, low, high):
    assert low <= LEDGER[id].run().evidence.numbers[name] <= high


def test_expected_update_of_a_coin():
    """One sample: the update is A (1 - p) with probability p, and minus A p otherwise."""
    pi = np.array([0.3, 0.7])
    found = _measures.expected_update(pi, np.array([1.0, 0.0]), 1, lambda r: np.where(r > 0, 2.0, -1.0))
    np.testing.assert_allclose(found, 3 * 0.3 * 0.7 * np.array([1, -1]), rtol=1e-12)
    assert _measures.cosine(np.array([1.0, 1]), np.array([1.0, -1])) == 0
