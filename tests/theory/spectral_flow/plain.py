"""Recursions, integrals and Hessians straight from the definitions: slow, and sharing no code with porism."""

import numpy as np
from scipy.integrate import quad, solve_ivp


def polar(G, smoothing=0.0):
    """Orthogonalised gradient by SVD; with no smoothing the partial isometry."""
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    if smoothing == 0:
        s = (s > 1e-12 * max(s.max(initial=0), 1e-300)).astype(float)
    else:
        s = s / np.hypot(s, smoothing)
    return (U * s) @ Vt


def gradients(Y, B, A, ridge=0.0):
    R = Y - B @ A
    return ridge * B - R @ A.T, ridge * A - B.T @ R


def loss(Y, B, A, ridge=0.0):
    return ((Y - B @ A) ** 2).sum() / 2 + ridge * ((A**2).sum() + (B**2).sum()) / 2


def flow(Y, B, A, smoothing, times, ridge=0.0, kind="spectral"):
    """Factors along the flow, at the given times; the first is 0."""
    m, r = B.shape

    def velocity(_, v):
        steps = gradients(Y, v[: m * r].reshape(m, r), v[m * r :].reshape(r, -1), ridge)
        return -np.concatenate([(polar(G, smoothing) if kind == "spectral" else G).ravel() for G in steps])

    v = np.concatenate([B.ravel(), A.ravel()])
    found = solve_ivp(velocity, (0, times[-1]), v, "LSODA", times, rtol=1e-10, atol=1e-12)
    return [(x[: m * r].reshape(m, r), x[m * r :].reshape(r, -1)) for x in found.y.T]


def mode_time(sigma, a, b, level, smoothing, ridge=0.0):
    """Time at which a b passes the level in the two scalar equations, by an event of the integrator."""

    def velocity(_, v):
        x = (sigma - v[0] * v[1]) * v[1] - ridge * v[0], (sigma - v[0] * v[1]) * v[0] - ridge * v[1]
        return [g / np.hypot(g, smoothing) for g in x]

    def event(_, v):
        return v[0] * v[1] - level

    event.terminal = True
    found = solve_ivp(velocity, (0, 50), [a, b], "LSODA", events=event, rtol=1e-11, atol=1e-13)
    return found.t_events[0][0] if len(found.t_events[0]) else np.inf


def smoothed_time(sigma, s0, fraction, smoothing):
    """The integral over the factor, with the logarithm of the factor and of what is left as variables."""
    root, start, end = sigma**0.5, s0**0.5, (fraction * sigma) ** 0.5
    middle = min(max((sigma / 3) ** 0.5, start), end)

    def pace(a, left):
        return np.hypot(1, smoothing / (left * (root + a) * a))  # left is root - a

    ends = np.log([(1 - fraction) * sigma / (root + end), root - middle])
    options = {"epsabs": 0, "epsrel": 1e-12, "limit": 400}
    first = quad(
        lambda u: pace(np.exp(u), root - np.exp(u)) * np.exp(u), np.log(start), np.log(middle), **options
    )
    last = quad(lambda u: pace(root - np.exp(u), np.exp(u)) * np.exp(u), *ends, **options)
    return first[0] + last[0]


def arrival_step(sigma, lr, a, b, level, most=10_000):
    """First step at or past the level, running the recursion; -1 if it never is."""
    above = a * b > sigma
    if above and level < sigma:
        return 0
    for k in range(most):
        s = a * b
        if s <= level if above else s >= level:
            return k
        a, b = a + lr * np.sign((sigma - s) * b), b + lr * np.sign((sigma - s) * a)
    return -1


def hessian(Y, B, A, ridge):
    """Dense Hessian of the loss, column by column."""
    m, r = B.shape
    R = Y - B @ A
    size = B.size + A.size
    H = np.empty((size, size))
    for k, unit in enumerate(np.eye(size)):
        dB, dA = unit[: m * r].reshape(m, r), unit[m * r :].reshape(r, -1)
        J = dB @ A + B @ dA
        rows = (J @ A.T - R @ dA.T + ridge * dB, B.T @ J - dB.T @ R + ridge * dA)
        H[k] = np.concatenate([row.ravel() for row in rows])
    return H
