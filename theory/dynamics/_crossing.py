"""When the AI stops paying."""

import math
from typing import Any

import numpy as np

from porism.theory.dynamics._laws import Equations

__all__ = ["sign_changes"]


def sign_changes(law: Equations, s: float, d: float) -> list[float]:
    """Times up to the bound at which performance less that without AI changes sign; the bound if none."""
    from scipy.optimize import brentq

    end = math.log1p((law.q - s) / (1 - law.q)) / law.a  # then the person alone is as good as the AI
    orbit = law.orbit(s, d, end)

    def advantage(t: Any) -> Any:
        skill, given, kept = orbit(t)
        # q - alone without cancellation: its sign at the end matters where nearly all is delegated
        ahead = (1 - law.q) * np.expm1(law.a * (end - np.asarray(t)))
        return kept * (skill - law.alone(s, np.asarray(t))) + given * ahead

    times = orbit.dense()
    gains = advantage(times) > 0
    turns = np.flatnonzero(gains[:-1] != gains[1:])
    if not gains[0]:  # nothing is delegated at time 0, and then something
        turns = turns[1:]
    ends = [(float(times[i]), float(times[i + 1])) for i in turns]
    return [float(brentq(advantage, *pair, xtol=1e-14 * end, rtol=1e-14)) for pair in ends] or [end]
