"""Attention against a loop over rows, and torch's own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.results import Result
from porism.theory.attention.reference import attend


def loop(q, k, v, seen, scale):
    """One row at a time, with Python floats for the softmax."""
    out, p, lse = np.zeros((*q.shape[:2], v.shape[2])), np.zeros((*q.shape[:2], k.shape[1])), {}
    for h in range(len(q)):
        g = h * len(k) // len(q)
        for t in range(q.shape[1]):
            keys = [s for s in range(k.shape[1]) if seen[h, t, s]]
            weights = {
                s: np.exp(scale * sum(a * b for a, b in zip(q[h, t], k[g, s], strict=True))) for s in keys
            }
            total = sum(weights.values())
            lse[h, t] = np.log(total) if keys else -np.inf
            for s, w in weights.items():
                p[h, t, s] = w / total
                out[h, t] += w / total * v[g, s]
    return out, p, lse


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_against_a_loop(shared, group, T, S, seed):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal(s) for s in ((shared * group, T, 3), (shared, S, 3), (shared, S, 2)))
    seen = rng.random((shared * group, T, S)) < 0.6
    found = attend(q, k, v, seen)
    out, p, lse = loop(q, k, v, seen, 3**-0.5)
    np.testing.assert_allclose(found.output, out, atol=1e-14)
    np.testing.assert_allclose(found.probabilities, p, atol=1e-15)
    for where, value in lse.items():
        assert found.logsumexp[where] == pytest.approx(value, abs=1e-14)
    added = attend(q, k, v, np.where(seen, 0.0, -np.inf))
    np.testing.assert_array_equal(added.output, found.output)


def test_rows_that_see_nothing_are_zero():
    q = np.ones((1, 2, 2))
    found = attend(q, q, q, np.array([[False, False], [True, False]]))
    assert found.output.tolist() == [[[0, 0], [1, 1]]]
    assert found.probabilities.sum(-1).tolist() == [[0, 1]]
    assert found.logsumexp[0, 0] == -np.inf


def test_large_scores_do_not_overflow():
    q = np.array([[[1e3]], [[-1e3]]])
    found = attend(q, [[[1e3], [-1e3]]], [[[1.0], [2.0]]])
    assert found.output.ravel().tolist() == [1, 2]
    assert found.logsumexp.ravel().tolist() == [1e6, 1e6]


def test_batch_mask_and_scale():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 4, 5, 3)) for _ in range(3))
    mask = rng.standard_normal((2, 1, 5, 5))
    found = attend(q, k, v, mask, gqa=False, scale=0.3)
    each = [attend(*(x[b] for x in (q, k, v)), mask[b], scale=0.3).output for b in range(2)]
    np.testing.assert_array_equal(found.output, each)
    weights = np.exp(0.3 * q @ k.swapaxes(-1, -2) + mask)
    np.testing.assert_allclose(found.output, weights @ v / weights.sum(-1, keepdims=True), atol=1e-13)


@pytest.mark.full
def test_against_torch(needs):
    torch = needs("torch")
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, h, 7, 4)) for h in (6, 2, 2))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    theirs = sdpa(*(torch.from_numpy(x) for x in (q, k, v)), is_causal=True, enable_gqa=True)
    np.testing.assert_allclose(attend(q, k, v, np.tri(7, dtype=bool)).output, theirs, atol=1e-14)


def test_result_round_trip(tmp_path):
    attend(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), np.ones((1, 1, 1))).save(tmp_path / "a.npz")
    assert Result.load(tmp_path / "a.npz").output.tolist() == [[[1]]]


Q = np.zeros((4, 3, 2))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: attend(Q[0], Q, Q), ValueError, "must be .*heads, tokens, width.*, got q \\(3, 2\\)"),
        (lambda: attend(Q[:, :0], Q, Q), ValueError, "must be"),
        (lambda: attend(Q, Q[..., :1], Q), ValueError, "must have the same width"),
        (lambda: attend(Q, Q, Q[:, :2]), ValueError, "the same heads and tokens"),
        (lambda: attend(Q, Q[:3], Q[:3]), ValueError, "a multiple of the key heads"),
        (lambda: attend(Q, Q[:2], Q[:2], gqa=False), ValueError, "pass gqa=True"),
        (
            lambda: attend(Q[None].repeat(2, 0), Q[None].repeat(3, 0), Q[None].repeat(3, 0)),
            ValueError,
            "broad",
        ),
        (lambda: attend(Q, Q, Q, np.ones((2, 3), bool)), ValueError, "mask must broadcast to"),
        (lambda: attend(Q, Q, Q, np.ones((3, 3), int)), TypeError, "mask must hold booleans"),
        (lambda: attend(Q, Q, Q, np.full((3, 3), np.nan)), ValueError, "mask must be below infinity"),
        (lambda: attend(Q + 1e160, Q + 1e160, Q), ValueError, "scores .* must be finite, got an overflow"),
        (lambda: attend(Q, Q, Q, scale=0), ValueError, "scale must be finite and > 0"),
        (lambda: attend(Q * np.nan, Q, Q), ValueError, "q must be finite"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()
