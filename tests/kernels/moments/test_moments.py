"""Gram of gathered tokens: the loop, the blocked CPU path, and plain NumPy as a third opinion."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.kernels import moments

BACKENDS = ["cpu", "reference"]
SIZES = [(1, 1, 1), (3, 2, 15), (17, 5, 17), (63, 3, 65), (0, 2, 4), (37, 4, 50)]


def problem(B, L, D, C=3, seed=0, dtype=np.float64):
    rng = np.random.default_rng([B, L, D, seed])
    h = rng.normal(size=(B, L, D)).astype(dtype) + dtype(2.0)
    index = rng.integers(-1, L, B)
    return h, index, h.reshape(-1, D)[0].copy() if B else np.zeros(D, dtype), rng.integers(0, C, B)


def truth(h, index, shift, y=None, C=0):
    """The same matrix by whole arrays."""
    kept = np.flatnonzero(index >= 0)
    x = h[kept, index[kept]].astype(np.float64) - np.asarray(shift, dtype=np.float64)
    parts = [x, np.ones((len(kept), 1))]
    if y is not None:
        parts.append((y[kept, None] == np.arange(C)).astype(np.float64))
    z = np.concatenate(parts, axis=1)
    return np.tril(z.T @ z)


def off(found, expected):
    """Relative error in Frobenius norm."""
    assert found.shape == expected.shape
    return np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-300)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_as_whole_arrays(size, labelled, backend):
    h, index, shift, y = problem(*size)
    options = {"y": y, "n_classes": 3} if labelled else {}
    found = moments.token_gram(h, index, shift, backend=backend, **options)
    expected = truth(h, index, shift, y if labelled else None, 3 if labelled else 0)
    assert found.dtype == np.float64
    assert off(found, expected) <= 1e-14  # at most 63 terms of float64
    D = size[2]
    assert np.array_equal(found[D, D:], expected[D, D:])  # counts are exact
    assert np.array_equal(found[D + 1 :, D:], expected[D + 1 :, D:])


@pytest.mark.parametrize("backend", BACKENDS)
def test_moments_are_those_of_the_rows(backend):
    h, index, shift, y = problem(40, 3, 6)
    y[y == 2] = 0
    gram = moments.token_gram(h, index, shift, y, n_classes=3, backend=backend)
    found = moments.read_moments(gram, shift)
    kept = index >= 0
    x = h[kept, index[kept]]
    assert found.n == kept.sum()
    assert found.mean == pytest.approx(x.mean(axis=0), abs=1e-13)
    assert found.covariance == pytest.approx(np.cov(x.T), abs=1e-13)
    assert found.class_counts.tolist() == [(y[kept] == c).sum() for c in range(3)]
    for c in (0, 1):
        assert found.class_means[c] == pytest.approx(x[y[kept] == c].mean(axis=0), abs=1e-13)
    assert np.isnan(found.class_means[2]).all()


def test_few_samples_have_no_moments():
    empty = moments.read_moments(moments.token_gram(np.zeros((2, 1, 3)), [-1, -1], np.zeros(3)), np.zeros(3))
    assert empty.n == 0
    assert np.isnan(empty.mean).all()
    assert np.isnan(empty.covariance).all()
    one = moments.read_moments(moments.token_gram(np.ones((2, 1, 3)), [0, -1], np.zeros(3)), np.zeros(3))
    assert (one.n, one.mean.tolist()) == (1, [1.0, 1.0, 1.0])
    assert np.isnan(one.covariance).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_batches_add_up(backend):
    h, index, shift, y = problem(30, 4, 7)
    whole = moments.token_gram(h, index, shift, y, n_classes=3, backend=backend)
    for kind, tolerance in ((np.float64, 1e-14), (np.float32, 1e-6)):
        out = np.triu(np.full(whole.shape, np.nan), 1).astype(kind)
        out[np.tril_indices(len(out))] = 0.0
        for part in (slice(0, 1), slice(1, 20), slice(20, 30)):
            back = moments.token_gram(h[part], index[part], shift, y[part], out, n_classes=3, backend=backend)
            assert back is out
        assert off(np.tril(out), whole) <= tolerance
        assert np.isnan(out[np.triu_indices(len(out), 1)]).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_rows_asked_for_are_read(backend):
    h, index, shift, y = problem(12, 3, 5)
    index[[2, 7]] = -1
    expected = truth(h, index, shift, y, 3)
    kept = np.zeros(h.shape[:2], dtype=bool)
    kept[np.flatnonzero(index >= 0), index[index >= 0]] = True
    h[~kept] = np.nan
    y[[2, 7]] = 99
    found = moments.token_gram(h, index, shift, y, n_classes=3, backend=backend)
    assert off(found, expected) <= 1e-14
    index[2] = 1
    y[2] = 0
    poisoned = moments.token_gram(h, index, shift, y, n_classes=3, backend=backend)
    assert np.isnan(np.tril(poisoned)[:5, :5][np.tril_indices(5)]).all()
    assert np.isfinite(poisoned[5:, 5:]).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_shift_keeps_the_variance(backend):
    """Mean 1e6 and unit noise: unshifted, the covariance loses 1e12 eps = 2e-4 of itself."""
    rng = np.random.default_rng(0)
    h = rng.normal(size=(200, 1, 4)) + 1e6
    index = np.zeros(200, dtype=int)
    error = []
    for shift in (h[0, 0], np.zeros(4)):
        gram = moments.token_gram(h, index, shift, backend=backend)
        error.append(off(moments.read_moments(gram, shift).covariance, np.cov(h[:, 0].T)))
    assert error[0] <= 1e-12
    assert error[1] > 1e-6


def test_arrays_of_any_layout():
    h, index, shift, _ = problem(9, 4, 6)
    expected = moments.token_gram(h, index, shift)
    views = [
        np.asfortranarray(h),
        np.stack([h, h], -1)[..., 1],
        h[::-1].copy()[::-1],
        h.transpose(2, 0, 1).copy(),
    ]
    views[-1] = views[-1].transpose(1, 2, 0)
    for view in views:
        assert np.array_equal(moments.token_gram(view, index, shift), expected)
    h.flags.writeable = False
    assert np.array_equal(moments.token_gram(h, index, shift), expected)
    half = h.astype(np.float16)
    assert np.array_equal(
        moments.token_gram(half, index, shift), moments.token_gram(half.astype(np.float64), index, shift)
    )


def test_many_blocks_of_rows(monkeypatch):
    from porism.kernels.moments import cpu

    h, index, shift, y = problem(37, 4, 50)
    whole = moments.token_gram(h, index, shift, y, n_classes=3)
    monkeypatch.setattr(cpu, "CELLS", 200)
    assert off(moments.token_gram(h, index, shift, y, n_classes=3), whole) <= 1e-14


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 6), st.integers(1, 3), st.integers(1, 5), st.integers(0, 2**31))
def test_any_small_problem(B, L, D, seed):
    h, index, shift, y = problem(B, L, D, seed=seed)
    found = [moments.token_gram(h, index, shift, y, n_classes=3, backend=b) for b in BACKENDS]
    assert np.allclose(*found, rtol=1e-13, atol=1e-13)
    full = np.tril(found[0]) + np.tril(found[0], -1).T
    assert np.linalg.eigvalsh(full).min() >= -1e-12 * max(1.0, np.trace(full))


@pytest.mark.full
@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
def test_tensors_on_the_cpu(needs, kind):
    torch = needs("torch")
    h, index, _, y = problem(20, 3, 6)
    tensor = torch.tensor(h, requires_grad=True).to(getattr(torch, kind))
    first = tensor[0, 0].detach()
    found = moments.token_gram(tensor, torch.tensor(index), first, torch.tensor(y), n_classes=3)
    assert isinstance(found, torch.Tensor)
    exact = truth(tensor.detach().double().numpy(), index, first.double().numpy(), y, 3)
    assert off(found.numpy(), exact) <= 1e-14
    slow = moments.token_gram(tensor, index, first, y, n_classes=3, backend="reference")
    assert off(slow.numpy(), exact) <= 1e-14
    out = torch.zeros(10, 10, dtype=torch.float64)
    assert moments.token_gram(tensor, index, first, y, out, n_classes=3) is out
    assert torch.equal(out, found)
    assert moments.read_moments(out, first).n == (index >= 0).sum()


H = np.zeros((2, 3, 4))
S = np.zeros(4)
AT = np.zeros(2, dtype=int)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda f: f(H.astype(int), AT, S), TypeError, "h must be float, got int64"),
        (lambda f: f(H[0], AT, S), ValueError, r"h must have shape \(B, L, D\).*got \(3, 4\)"),
        (lambda f: f(H, AT.astype(float), S), TypeError, "index must hold integers"),
        (
            lambda f: f(H, AT[:1], S),
            ValueError,
            r"index must have shape \(2,\) for h of 2 samples, got \(1,\)",
        ),
        (
            lambda f: f(H, [0, 3], S),
            ValueError,
            r"index must be in 0\.\.2, or -1 to skip, got 3 for sample 1",
        ),
        (lambda f: f(H, [-2, 0], S), ValueError, "got -2 for sample 0"),
        (lambda f: f(H, AT, S[:3]), ValueError, r"shift must have shape \(4,\)"),
        (lambda f: f(H, AT, S, AT), ValueError, "n_classes must be given with y"),
        (lambda f: f(H, AT, S, n_classes=2), ValueError, "n_classes belongs to y"),
        (lambda f: f(H, AT, S, [0, 2], n_classes=2), ValueError, r"y must be in 0\.\.1, got 2 for sample 1"),
        (lambda f: f(H, AT, S, [0.0, 1.0], n_classes=2), TypeError, "y must hold integers"),
        (lambda f: f(H, AT, S, out=np.zeros((4, 4))), ValueError, r"out must have shape \(5, 5\)"),
        (
            lambda f: f(H, AT, S, out=np.zeros((5, 5), dtype=int)),
            TypeError,
            "out must hold float32 or float64",
        ),
        (lambda f: f(H, AT, S, out=[[0.0]]), TypeError, "out must hold float32 or float64, got no array"),
        (lambda f: f(H, AT, S, backend="gpu"), ValueError, "backend must be one of"),
        (lambda f: moments.read_moments(np.zeros((3, 3)), S), ValueError, "gram must have shape"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(moments.token_gram)
