"""Arithmetic behind psi.py: xp is numpy or torch, arrays are float64, nothing is checked."""

from typing import Any

import numpy as np

from porism.theory.pandora._inputs import LOG_ROOT_2PI, ROOT_2PI

SWITCH = 12.0  # beyond it 1 - aR(a) loses two digits to cancellation, and the series has all of them
SERIES = np.cumprod([1.0, *(-(2.0 * k + 1) for k in range(1, 17))])  # (-1)^k (2k+1)!!
MAX_ITERATIONS = 60
LINEAR = 40.0  # psi(-z) = z to the last digit from here on


def invert(xp: Any, kappa: Any, log_kappa: Any) -> Any:
    """Root z of psi(z) = kappa, given kappa and its logarithm (either may have left the range of floats)."""
    small = log_kappa <= -LOG_ROOT_2PI
    l_safe = xp.where(small & (log_kappa > -np.inf), log_kappa, xp.full_like(log_kappa, -1.0))
    upper = xp.sqrt(2 * xp.clip(-(l_safe + LOG_ROOT_2PI), 0, None))  # psi <= phi: not below the root
    k_safe = xp.where(~small & (kappa < np.inf), kappa, xp.full_like(kappa, 1.0))
    z = xp.where(small, upper, -k_safe)  # psi(-k) > k: not above the root
    for _ in range(MAX_ITERATIONS):
        a = xp.clip(z, 0, None)
        down = (gain_log(xp, a) - l_safe) * _g_over_mills(xp, a)
        up = (gain(xp, z) - k_safe) / tail(xp, z)
        step = xp.where(small, down, up)
        z = xp.where(small, xp.clip(z + step, 0, None), z + step)
        if bool((xp.abs(step) <= 1e-14 * xp.clip(xp.abs(z), 1, None)).all()):
            break
    else:
        raise RuntimeError(f"psi_inv did not settle in {MAX_ITERATIONS} steps; please report the input")
    z = xp.where(log_kappa == -np.inf, xp.full_like(z, np.inf), z)
    return xp.where(kappa == np.inf, xp.full_like(z, -np.inf), z)


def halfwidth(xp: Any, nu: Any, c: Any) -> Any:
    """The inspection half-width of checked arrays or tensors in float64."""
    with np.errstate(all="ignore"):
        beyond = c >= LINEAR * nu  # also nu = 0
        safe_nu = xp.where(beyond, xp.ones_like(nu), nu)
        safe_c = xp.where(beyond, xp.ones_like(c), c)
        kappa, log_kappa = safe_c / safe_nu, xp.log(safe_c) - xp.log(safe_nu)
        log_kappa = xp.where(kappa > 1e-290, xp.log(kappa), log_kappa)  # the quotient may underflow
        z = invert(xp, detach(xp, kappa), detach(xp, log_kappa))
        z = with_slope(xp, kappa, z, lambda _: -1 / tail(xp, z))
        unbounded = (c == 0) & (nu > 0)
        inside = xp.where(unbounded, xp.full_like(z, np.inf), safe_nu * z)
        return xp.where(beyond, -c + 0 * nu, inside)


def tail(xp: Any, z: Any) -> Any:
    """Phibar(z) = P(Z > z), with relative accuracy."""
    if xp is np:
        return _special(xp).ndtr(-z)
    return xp.special.erfc(z / float(np.sqrt(2))) / 2  # torch's ndtr is (1 + erf)/2, and 0 past z = 8.3


def density(xp: Any, z: Any) -> Any:
    """phi(z), the standard normal density."""
    return xp.exp(-0.5 * z * z) / ROOT_2PI


def gain(xp: Any, z: Any) -> Any:
    a = xp.abs(z)
    return density(xp, a) * _g(xp, a) + xp.clip(-z, 0, None)


def gain_log(xp: Any, z: Any) -> Any:
    a = xp.clip(z, 0, None)
    near = xp.log(_g(xp, xp.clip(a, None, SWITCH)))
    far = xp.clip(a, SWITCH, None)
    log_g = xp.where(a > SWITCH, xp.log(_series(xp, far)) - 2 * xp.log(far), near)
    log_g = xp.where(a == np.inf, xp.full_like(a, -np.inf), log_g)
    return xp.where(z > 0, -0.5 * a * a - LOG_ROOT_2PI + log_g, xp.log(gain(xp, xp.clip(z, None, 0))))


def _g(xp: Any, a: Any) -> Any:
    """g(a) = 1 - a R(a) for a >= 0, so that psi = phi g."""
    near = xp.clip(a, None, SWITCH)
    far = xp.clip(a, SWITCH, None)
    return xp.where(a > SWITCH, _series(xp, far) / (far * far), 1 - near * _mills(xp, near))


def _series(xp: Any, a: Any) -> Any:
    """a^2 g(a) by its asymptotic series."""
    x = 1 / (a * a)
    total = xp.zeros_like(a)
    for term in SERIES[::-1]:
        total = total * x + float(term)
    return total


def _mills(xp: Any, a: Any) -> Any:
    """R(a) = Phibar(a)/phi(a)."""
    return float(np.sqrt(np.pi / 2)) * _special(xp).erfcx(a / float(np.sqrt(2)))


def _g_over_mills(xp: Any, a: Any) -> Any:
    """psi/Phibar for a >= 0; the quotient stays in range where g underflows."""
    far = xp.clip(a, SWITCH, None)
    near = xp.clip(a, None, SWITCH)
    return xp.where(
        a > SWITCH, _series(xp, far) / far / (far * _mills(xp, far)), _g(xp, near) / _mills(xp, near)
    )


def hazard(xp: Any, z: Any) -> Any:
    """Phibar/psi, minus the slope of log psi."""
    below = xp.clip(z, None, 0)
    return xp.where(z > 0, 1 / _g_over_mills(xp, xp.clip(z, 0, None)), tail(xp, below) / gain(xp, below))


def _special(xp: Any) -> Any:
    if xp is np:
        from scipy import special

        return special
    return xp.special


def detach(xp: Any, z: Any) -> Any:
    return z if xp is np else z.detach()


def with_slope(xp: Any, z: Any, value: Any, slope: Any) -> Any:
    """Give a tensor's value its first derivative, without tracing the branches and iterations."""
    if xp is np or not z.requires_grad:
        return value
    plain = z.detach()
    rate = slope(plain)
    usable = xp.isfinite(plain) & xp.isfinite(rate)
    shift = xp.where(usable, z - plain, xp.zeros_like(plain))
    return value + xp.where(usable, rate, xp.zeros_like(rate)) * shift


def one_step(xp: Any, gap: Any, nu: Any) -> Any:
    """Nu psi(|gap|/nu), 0 for nu = 0."""
    with np.errstate(all="ignore"):
        safe = xp.where(nu > 0, nu, xp.ones_like(nu))
        z = xp.abs(gap) / safe
        value = with_slope(xp, z, gain(xp, detach(xp, z)), lambda y: -tail(xp, y))
        return xp.where(nu > 0, safe * value, 0 * value)


def best_other(xp: Any, m: Any, outside: Any) -> Any:
    """b_{-i}: for each entry of the last axis the largest of the others and of the outside option."""
    lead = xp.argmax(m, -1)[..., None] == xp.arange(m.shape[-1], **({} if xp is np else {"device": m.device}))
    top = xp.amax(m, -1)[..., None]
    second = xp.amax(xp.where(lead, xp.full_like(m, -np.inf), m), -1)[..., None]
    return xp.maximum(xp.where(lead, second, top), outside[..., None])
