"""Cases with values known from full enumeration: the solver, with and without enumeration of its own."""

import numpy as np
import pytest

from porism.theory.pattern import pattern_distance

pytestmark = pytest.mark.filterwarnings("ignore::porism.theory.pattern.UninformativeMaskWarning")


@pytest.mark.parametrize("exact", ["auto", False])
def test_value_and_bounds(oracle, exact):
    for name, (A, mask, modes) in oracle.CASES.items():
        B = np.square(np.array(A, dtype=float))
        for mode, (outside, total, _, bounds) in modes.items():
            fit = pattern_distance(A, mask, order=mode, exact=exact, random_state=0)
            assert abs(fit.mass_outside - outside / total) <= 1e-12, (name, mode)
            known = {kind: float(bound) for kind, bound in bounds.items()}
            assert {k: fit.bounds[k] for k in known} == pytest.approx(known, abs=1e-6)  # six digits
            assert fit.lower_bound == min(max(fit.bounds.values()), fit.mass_outside)
            assert (mask.penalty * fit.reorder(B)).sum() == pytest.approx(outside, abs=1e-9)
            if exact == "auto" and max(B.shape) <= 7:
                assert fit.exact


@pytest.mark.parametrize(
    ("case", "mode", "certified"),
    [("O1", "common", True), ("O7", "common", True), ("O13", "independent", True), ("O5", "common", False)],
)
def test_certificates(oracle, case, mode, certified):
    A, mask, _ = oracle.CASES[case]
    assert pattern_distance(A, mask, order=mode).certified is certified
