"""Seeds: the one that a result records, and those of its parts."""

import numpy as np

from porism.checks import integer

__all__ = ["child_seed", "recorded", "root"]

RandomState = np.random.Generator | int | None


def recorded(random_state: RandomState) -> int | None:
    """The seed that repeats a result, or None where a generator was passed, or nothing."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return None
    return integer("random_state", random_state, 0)


def root(random_state: RandomState) -> np.random.SeedSequence:
    """Where the seeds of parts come from; of a generator one number is drawn."""
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63)))
    return np.random.SeedSequence(recorded(random_state))


def child_seed(child: np.random.SeedSequence) -> int:
    """An int seed from a child."""
    return int(child.generate_state(1, np.uint64)[0] >> 1)
