"""What a fit reports is what its reconstruction leaves, also where no best completion exists."""

import numpy as np
import pytest

from porism.theory.pattern import masks, pattern_plus_low_rank


@pytest.mark.parametrize("seed", range(20, 32))
def test_error_is_that_of_the_reconstruction(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(4, 4))
    fit = pattern_plus_low_rank(A, masks.checkerboard(4, 4), 1, order="independent", random_state=seed)
    left = float(((A - fit.reconstruct()) ** 2).sum() / (A**2).sum())
    assert left == pytest.approx(fit.error, abs=1e-9)


def test_a_runaway_completion_is_not_taken():
    A = np.array([[5.0, 1.0], [1.0, 0.0]])  # free at [0, 0]: the infimum 0 is not attained at rank 1
    fit = pattern_plus_low_rank(A, masks.sink(2, 2, 1).S * np.eye(2), 1, order="none", random_state=0)
    assert np.abs(fit.left).max() * np.abs(fit.right).max() < 1e6
    assert float(((A - fit.reconstruct()) ** 2).sum() / (A**2).sum()) == pytest.approx(fit.error, abs=1e-9)
