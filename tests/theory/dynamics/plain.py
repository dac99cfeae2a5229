"""The equations of skill and delegation written down once more, and the slow way to everything."""

import math

import numpy as np
from scipy.integrate import solve_ivp


def field(a, b, k, q, gamma=None):
    def velocity(t, y):
        s, d = y
        trust = d * (1 - d) * (q - s) if gamma is None else 1 / (1 + math.exp(-gamma * (q - s))) - d
        return a * (1 - d) * (1 - s) - b * d * s, k * trust

    return velocity


def of(model):
    return field(model.learn, model.forget, model.speed, model.quality, model.gain)


def run(model, start, times):
    """LSODA in (s, d): another method in other coordinates."""
    times = np.atleast_1d(times)
    end = max(float(times[-1]), 1e-9)
    found = solve_ivp(of(model), (0, end), start, method="LSODA", t_eval=times, rtol=1e-11, atol=1e-13)
    return found.y


def is_low(model, start, end=400.0):
    return run(model, start, [end])[0, -1] < 0.5


def border(model, s, bits=34):
    """Bisection by runs forward."""
    low, high = 0.0, 1.0
    for _ in range(bits):
        middle = (low + high) / 2
        low, high = (low, middle) if is_low(model, (s, middle)) else (middle, high)
    return (low + high) / 2


def jacobian(model, s, d, h=1e-6):
    """Central differences of second order."""
    f, J = of(model), np.zeros((2, 2))
    for column, (x, y) in enumerate(((h, 0.0), (0.0, h))):
        up, down = np.array(f(0, (s + x, d + y))), np.array(f(0, (s - x, d - y)))
        J[:, column] = (up - down) / (2 * h)
    return J
