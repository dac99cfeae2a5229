"""Sequences token by token: soft values against the whole tree, and where mixed logits are exact."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.policies import combine, soft_values, tilt, token_mix_gap

HALF = np.log([0.5, 0.5])


def tree(rng, shape, independent=False):
    found = []
    for t in range(len(shape)):
        logits = rng.normal(size=shape[t] if independent else shape[: t + 1])
        logits = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        found.append(np.broadcast_to(logits, shape[: t + 1]).copy())
    return found


def joint(conditionals, shape):
    """Log-probabilities of whole sequences, one by one."""
    found = np.empty(shape)
    for x in itertools.product(*map(range, shape)):
        found[x] = sum(c[x[: t + 1]] for t, c in enumerate(conditionals))
    return found


def test_oracle():
    gap = token_mix_gap([HALF, [HALF, HALF]], [[[0, 1], [3, 0]], [[1, 0], [0, 2]]], [1, 1])
    sequence = [0.08259453944, 0.08259453944, 0.6102956854, 0.2245152357]
    np.testing.assert_allclose(np.exp(gap.sequence).ravel(), sequence, atol=5e-11)
    mix = [0.03624711686, 0.03624711686, 0.6780610472, 0.2494447191]
    np.testing.assert_allclose(np.exp(gap.token_mix).ravel(), mix, atol=5e-11)
    assert gap.tv == pytest.approx(0.09269484516, abs=5e-12)
    np.testing.assert_allclose(gap.corrected, gap.sequence, atol=1e-14)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(2,), (3, 2), (2, 3, 2), (3, 3, 3)]))
def test_against_the_whole_tree(seed, shape):
    """PO-8: soft values are log-partition functions; the two mixes by their definitions."""
    rng = np.random.default_rng(seed)
    conditionals, rewards = tree(rng, shape), rng.normal(size=(2, *shape))
    w, betas, beta = rng.normal(size=2), rng.uniform(0.5, 2, 2), float(rng.uniform(0.5, 2))
    base = joint(conditionals, shape)
    r = np.tensordot(w, rewards, 1)
    values = soft_values(conditionals, r, beta)
    weight = np.exp(base + r / beta)
    for t, value in enumerate(values):
        rest = tuple(range(t, len(shape)))
        prefix = np.exp(base).sum(axis=rest)
        np.testing.assert_allclose(value, beta * np.log(weight.sum(axis=rest) / prefix), atol=1e-12)
    gap = token_mix_gap(conditionals, rewards, w, beta, betas)
    # whole sequences: the experts' log-policies, combined
    experts = tilt(base.ravel(), rewards.reshape(2, -1), betas)
    whole = combine(base.ravel(), experts, w * betas / beta)
    np.testing.assert_allclose(gap.sequence.ravel(), whole, atol=1e-12)
    assert gap.corrected_tv < 1e-13
    assert gap.last_token < 1e-13
    # token by token: conditionals of base and experts from their joints
    expected = np.zeros(shape)
    for t in range(len(shape)):
        rest = tuple(range(t + 1, len(shape)))
        logs = [np.log(np.exp(x).sum(axis=rest)) for x in (base, *experts.reshape(2, *shape))]
        logs = [x - np.log(np.exp(x).sum(axis=-1, keepdims=True)) for x in logs]
        mixed = logs[0] + sum(a * (x - logs[0]) for a, x in zip(w * betas / beta, logs[1:], strict=True))
        mixed -= np.log(np.exp(mixed).sum(axis=-1, keepdims=True))
        expected = expected + mixed.reshape(*shape[: t + 1], *(1,) * len(rest))
    np.testing.assert_allclose(gap.token_mix, expected, atol=1e-11)
    tv = np.abs(np.exp(expected) - np.exp(gap.sequence)).sum() / 2
    assert gap.tv == pytest.approx(tv, abs=1e-11)


@pytest.mark.parametrize(("independent", "additive"), [(True, True), (False, True), (True, False)])
def test_exact_only_if_both_hold(independent, additive):
    rng = np.random.default_rng(3)
    shape = (3, 3, 3)
    conditionals = tree(rng, shape, independent)
    rewards = rng.normal(size=(2, *shape))
    if additive:
        parts = rng.normal(size=(2, 3, 3))
        rewards = parts[:, 0, :, None, None] + parts[:, 1, None, :, None] + parts[:, 2, None, None, :]
    gap = token_mix_gap(conditionals, rewards, [1.0, -0.5]).tv
    assert gap < 1e-14 if independent and additive else gap > 1e-3


def test_prefixes_that_never_occur():
    conditionals = [np.array([0.0, -np.inf]), np.stack([HALF, HALF])]
    gap = token_mix_gap(conditionals, [[[0, 1], [3, 0]], [[1, 0], [0, 2]]], [1, 1])
    np.testing.assert_allclose(np.exp(gap.sequence), [[0.5, 0.5], [0, 0]], atol=1e-15)
    assert max(gap.tv, gap.last_token, gap.corrected_tv) < 1e-15


def test_bad_input():
    reward = np.zeros((2, 2))
    with pytest.raises(ValueError, match=r"log_conditionals must have one table a token, 2, got 1"):
        soft_values([HALF], reward)
    with pytest.raises(ValueError, match=r"log_conditionals\[1\] must have shape \(2, 2\)"):
        soft_values([HALF, HALF], reward)
    with pytest.raises(ValueError, match=r"log_conditionals\[0\] must hold log-probabilities"):
        soft_values([HALF + 1, [HALF, HALF]], reward)
    with pytest.raises(ValueError, match="beta must be finite and > 0"):
        soft_values([HALF, [HALF, HALF]], reward, 0.0)
    with pytest.raises(ValueError, match="at most 1000000 sequences"):
        soft_values([HALF] * 20, np.broadcast_to(0.0, (2,) * 20))
    with pytest.raises(ValueError, match="rewards must have one table a weight, 2"):
        token_mix_gap([HALF, [HALF, HALF]], [reward], [1.0, 1.0])
    with pytest.raises(ValueError, match="expert_betas must be one number"):
        token_mix_gap([HALF, [HALF, HALF]], [reward], [1.0], 1.0, [1.0, 2.0])
