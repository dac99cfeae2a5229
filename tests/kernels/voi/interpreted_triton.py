"""Triton's interpreter against the exact CPU path; test_triton.py runs this in a process of its own."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.kernels import voi
from porism.kernels.voi import triton
from porism.theory.pandora import inspection_halfwidth, voi_net

pytestmark = pytest.mark.usefixtures("poison")


def problem(n, K, each=False, dtype=np.float32):
    rng = np.random.default_rng([n, K])
    shape = (n, K) if each else K
    nu = rng.uniform(0.0, 0.6, shape)
    c = nu * rng.uniform(0.0, 0.45, shape)
    return rng.normal(size=(n, K)).astype(dtype), nu, c, inspection_halfwidth(nu, c)


def close(found, m, nu, c, w, price=None, outside=-math.inf, done=None, rule="net"):
    """Values within the tolerance of float32; decisions differ only where values do not."""
    exact = voi.voi_argmax(m, nu, c, w, price=price, done=done, outside=outside, rule=rule)
    least = 2e-6 * float(np.max(nu, initial=0.0)) + 1e-7 * float(np.abs(m[np.isfinite(m)]).max(initial=0.0))
    assert [part.dtype for part in found] == [part.dtype for part in exact]
    assert np.array_equal(np.isnan(found[0]), np.isnan(exact[0]))
    assert found[3] == pytest.approx(exact[3], abs=4 * least, nan_ok=True)
    x = m.astype(float) - (0.0 if price is None else price)
    for q in np.flatnonzero(found[1] != exact[1]):
        i, k = found[1][q], exact[1][q]
        if rule == "index":
            edge = lambda i, q=q: (x[q, i] + w[i]) if i >= 0 else -math.inf
            assert abs(edge(i) - edge(k)) <= 4 * least
            continue
        net = voi_net(x[q], nu if nu.ndim == 1 else nu[q], c if c.ndim == 1 else c[q], outside=outside)
        assert abs((net[i] if i >= 0 else 0) - (net[k] if k >= 0 else 0)) <= least
    if rule == "net":
        assert found[0] == pytest.approx(exact[0], abs=least, nan_ok=True)
    else:
        agree = found[1] == exact[1]
        assert found[0][agree] == pytest.approx(exact[0][agree], abs=least, nan_ok=True)
    lead = np.where(found[2] >= 0, np.take_along_axis(x, found[2][:, None].clip(0), 1)[:, 0], outside)
    best = np.where(exact[2] >= 0, np.take_along_axis(x, exact[2][:, None].clip(0), 1)[:, 0], outside)
    assert lead == pytest.approx(best, abs=2 * least, nan_ok=True)


CASES = [(n, K) for K in (1, 2, 63, 64, 65, 129) for n in (1, 37)] + [(256, 5), (0, 4), (70, 32), (3, 1024)]


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "K"), CASES)
def test_as_the_cpu_path(n, K, dtype, each):
    args = problem(n, K, each, dtype)
    close(triton.voi_argmax(*args), *args)


@pytest.mark.parametrize("rule", ["net", "index"])
@pytest.mark.parametrize("outside", [-math.inf, 0.7])
@pytest.mark.parametrize("K", [1, 3, 64, 65, 129])
def test_options(K, outside, rule):
    args = problem(33, K)
    rng = np.random.default_rng(K)
    done = rng.integers(-(2**63), 2**63 - 1, (33, (K + 63) // 64))
    options = {"price": 0.3 * rng.random(K), "outside": outside, "done": done, "rule": rule}
    close(triton.voi_argmax(*args, **options), *args, **options)
    close(triton.voi_argmax(*args, rule=rule), *args, rule=rule)


def test_done_is_looked_at_bit_by_bit():
    m, nu, c = np.zeros((70, 70), np.float32), np.full(70, 0.5), np.full(70, 0.01)
    done = np.full((70, 2), -1)
    for k in range(70):
        done[k, k // 64] ^= np.int64(-(2**63)) if k == 63 else 1 << (k % 64)
    _, arg, *_ = triton.voi_argmax(m, nu, c, inspection_halfwidth(nu, c), done=done)
    assert arg.tolist() == list(range(70))


def test_equals_go_to_the_smallest_index():
    m = np.array([[0.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
    nu, c = np.full(4, 0.5), np.full(4, 0.02)
    for rule in ("net", "index"):
        found = triton.voi_argmax(m, nu, c, inspection_halfwidth(nu, c), rule=rule)
        assert (found[1].tolist(), found[2].tolist()) == ([1, 0, 0], [1, 0, 0])
        tied = triton.voi_argmax(m, nu, c, inspection_halfwidth(nu, c), outside=1.0, rule=rule)
        assert tied[2].tolist() == [1, 0, -1]


@pytest.mark.parametrize("bad", [0, 5, 64])
def test_a_row_with_nan_is_flagged(bad):
    m, *rest = problem(3, 65)
    m[1, bad] = np.nan
    found = triton.voi_argmax(m, *rest)
    assert np.isnan(found[0]).tolist() == np.isnan(found[3]).tolist() == [False, True, False]
    assert (found[1][1], found[2][1]) == (-1, -1)
    close(found, m, *rest)


def test_bands_decide_where_gains_underflow():
    m, nu = np.array([[0.0, 100.0]]), np.array([1.0, 1.0])
    free = triton.voi_argmax(m, nu, np.zeros(2), [np.inf, np.inf])
    assert (free[0][0], free[1][0]) == (0.0, 0)
    never = triton.voi_argmax(m, nu, [np.inf, np.inf], [-np.inf, -np.inf])
    assert never[1][0] == -1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of infinities in the interpreter
def test_specialists_that_are_not_there():
    m = np.array([[-np.inf, 0.1, -np.inf], [-np.inf] * 3, [0.3, -np.inf, 0.2]])
    args = m, np.ones(3), np.full(3, 0.01), np.ones(3)
    for outside in (-np.inf, 0.0):
        found, exact = triton.voi_argmax(*args, outside=outside), voi.voi_argmax(*args, outside=outside)
        assert np.array_equal(found[1], exact[1])
        assert np.array_equal(found[2], exact[2])
        assert found[3] == pytest.approx(exact[3])


def test_float64_means_far_from_zero():
    m, nu, c, w = problem(40, 5, dtype=np.float64)
    m = np.round(m * 2**20) / 2**20
    near = triton.voi_argmax(m / 1024, nu / 1024, c / 1024, w / 1024, outside=0.0)
    far = triton.voi_argmax(m / 1024 + 2**20, nu / 1024, c / 1024, w / 1024, outside=2.0**20)
    assert all(np.array_equal(a, b) for a, b in zip(near, far, strict=True))


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_of_any_layout_and_precision(kind):
    m, *rest = problem(9, 6)
    tensor = torch.tensor(m).to(kind)
    views = [tensor, tensor.T.contiguous().T, torch.stack([tensor, tensor * 0], -1)[..., 0], tensor.clone()]
    views[-1].requires_grad_()
    for view in views:
        found = triton.voi_argmax(view, *map(torch.tensor, rest))
        assert all(isinstance(part, torch.Tensor) for part in found)
        wide = np.float64 if kind is torch.float64 else np.float32
        close([part.numpy() for part in found], tensor.to(torch.float64).numpy().astype(wide), *rest)


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_any_small_problem(data):
    n, K = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 5))
    level = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0])
    m = np.array(data.draw(st.lists(level, min_size=n * K, max_size=n * K)), dtype=float).reshape(n, K)
    nu = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=K, max_size=K)))
    c = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.125, 1.0]), min_size=K, max_size=K)))
    args = m, nu, c, inspection_halfwidth(nu, c)
    outside = data.draw(level)
    close(triton.voi_argmax(*args, outside=outside), *args, outside=outside)


def test_rows_do_not_matter_to_each_other():
    m, *rest = problem(12, 6)
    alone = [triton.voi_argmax(m[q : q + 1], *rest) for q in range(12)]
    for whole, parts in zip(triton.voi_argmax(m, *rest), zip(*alone, strict=True), strict=True):
        assert np.array_equal(whole, np.concatenate(parts))


def test_dispatch():
    args = problem(5, 3)
    for a, b in zip(voi.voi_argmax(*args, backend="triton"), triton.voi_argmax(*args), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda m, r: triton.voi_argmax(torch.ones(2, 3).int(), *r),
            TypeError,
            r"m must be float64, .* for Triton, got torch\.int32",
        ),
        (lambda m, r: triton.voi_argmax(torch.ones(3), *r), ValueError, r"shape \(n, K\).*got \(3,\)"),
        (lambda m, r: triton.voi_argmax(np.ones((2, 1025)), *r), ValueError, "at most 1024 columns.*'cpu'"),
        (lambda m, r: triton.voi_argmax(m, r[0][:2], *r[1:]), ValueError, r"nu must have shape \(3,\)"),
        (lambda m, r: triton.voi_argmax(m, -r[0], *r[1:]), ValueError, "nu must be >= 0"),
        (lambda m, r: triton.voi_argmax(m, *r, rule="x"), ValueError, "rule must be one of"),
        (lambda m, r: triton.voi_argmax(m, *r, outside=np.nan), ValueError, "outside must be a number"),
        (lambda m, r: triton.voi_argmax(m, *r, done=[0]), ValueError, "done must have shape"),
        (lambda m, r: triton.voi_argmax(m, *r, price=[0.0]), ValueError, "price must have shape"),
    ],
)
def test_bad_input(call, error, words):
    m, *rest = problem(2, 3)
    with pytest.raises(error, match=words):
        call(m, rest)
