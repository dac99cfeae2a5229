"""Value of information: against the definition, quadrature, the theory, and each other."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import erfc

from porism.kernels import voi
from porism.kernels.voi import cpu, reference
from porism.theory.pandora import inspection_halfwidth, psi, voi_correlated, voi_net

BACKENDS = ["cpu", "reference"]
SHAPES = [(40, 1), (60, 2), (0, 3), (1, 7), (12, 63), (12, 64), (12, 65), (6, 129)]


def problem(n, K, seed=0, each=False, dtype=np.float64):
    """Means, spreads, costs, half-widths; each: a row of the last three for every query."""
    rng = np.random.default_rng([seed, n, K])
    shape = (n, K) if each else K
    nu = rng.uniform(0.0, 0.6, shape)
    c = nu * rng.uniform(0.0, 0.45, shape)  # some never pay: 0.45 > psi(0)
    return rng.normal(size=(n, K)).astype(dtype), nu, c, inspection_halfwidth(nu, c)


def same(found, expected, atol=1e-15):
    """Equal decisions; values to rounding."""
    assert np.array_equal(found[1], expected[1])
    assert np.array_equal(found[2], expected[2])
    assert found[0] == pytest.approx(expected[0], abs=atol, nan_ok=True)
    assert found[3] == pytest.approx(expected[3], abs=atol, nan_ok=True)


@pytest.mark.parametrize("rule", ["net", "index"])
@pytest.mark.parametrize("outside", [-math.inf, 0.8])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(("n", "K"), SHAPES)
def test_paths_agree(n, K, each, outside, rule):
    m, *rest = problem(n, K, each=each)
    kept = m.copy()
    rng = np.random.default_rng(K)
    options = {
        "price": 0.3 * rng.random(K),
        "done": rng.integers(-(2**63), 2**63 - 1, (n, (K + 63) // 64)) & rng.integers(-(2**63), 2**63 - 1),
        "outside": outside,
        "rule": rule,
    }
    found, expected = (voi.voi_argmax(m, *rest, backend=b, **options) for b in BACKENDS)
    same(found, expected)
    assert [part.dtype for part in found] == [np.float64, np.int32, np.int32, np.float64]
    assert [part.shape for part in found] == [(n,)] * 4
    assert np.array_equal(m, kept)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gain_is_the_integral(backend):
    m, nu, c = problem(12, 4, seed=3)[:3]
    c *= 0.2
    net, arg, top, gap = voi.voi_argmax(m, nu, c, inspection_halfwidth(nu, c), outside=0.2, backend=backend)
    assert len(set(arg)) >= 3  # some stop, and not all refine the same
    for q in range(12):
        gains = []
        for i in range(4):
            other = max(0.2, *np.delete(m[q], i))
            law = lambda x, i=i, q=q: (
                math.exp(-0.5 * ((x - m[q, i]) / nu[i]) ** 2) / nu[i] / math.sqrt(2 * math.pi)
            )
            low, high = m[q, i] - 12 * nu[i], m[q, i] + 12 * nu[i]
            value = quad(
                lambda x, law=law, o=other: max(x, o) * law(x), low, high, points=[other], limit=200
            )[0]
            gains.append(value - max(other, m[q, i]) - c[i])
        assert net[q] == pytest.approx(max(0, *gains), abs=1e-7)  # quad asks for 1.5e-8
        assert arg[q] == (np.argmax(gains) if max(gains) > 0 else -1)
        usable = np.append(m[q], 0.2)
        assert top[q] == (-1 if usable.argmax() == 4 else usable.argmax())
        assert gap[q] == pytest.approx(np.diff(np.sort(usable))[-1], abs=1e-15)


@pytest.mark.parametrize(("n", "K"), [(500, 9), (8000, 64)])
def test_gain_is_that_of_the_theory(n, K):
    """With 64 specialists several are close to the best: ruling one out too early would show."""
    m, nu, c = problem(n, K, seed=1)[:3]
    m, nu = 0.2 * m, nu + 0.2
    w = inspection_halfwidth(nu, c)
    net, arg, *_ = voi.voi_argmax(m, nu, c, w, outside=-0.1)
    expected = voi_net(m, nu, c, outside=-0.1)
    assert net == pytest.approx(np.maximum(expected.max(axis=1), 0), abs=1e-15)
    stop = expected.max(axis=1) <= 0
    assert np.array_equal(arg, np.where(stop, -1, expected.argmax(axis=1)))


def test_largest_index_within_the_bands():
    m, nu, c, w = problem(500, 6, seed=2)
    _, arg, *_ = voi.voi_argmax(m, nu, c, w, rule="index")
    rest = np.stack([np.delete(m, i, axis=1).max(axis=1) for i in range(6)], axis=1)
    index = np.where(np.abs(m - rest) < w, m + w, -np.inf)
    assert np.array_equal(arg, np.where(np.isinf(index).all(axis=1), -1, index.argmax(axis=1)))
    assert (arg != voi.voi_argmax(m, nu, c, w)[1]).any()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rule", ["net", "index"])
def test_equals_go_to_the_smallest_index(backend, rule):
    m = np.array([[0.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
    nu, c = np.full(4, 0.5), np.full(4, 0.02)
    found = voi.voi_argmax(m, nu, c, inspection_halfwidth(nu, c), rule=rule, backend=backend)
    assert found[1].tolist() == [1, 0, 0]
    assert found[2].tolist() == [1, 0, 0]
    assert found[3].tolist() == [0, 0, 0]
    tied = voi.voi_argmax(m, nu, c, inspection_halfwidth(nu, c), rule=rule, backend=backend, outside=1.0)
    assert tied[2].tolist() == [1, 0, -1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bad", [0, 5, 64])
def test_a_row_with_nan_is_flagged(backend, bad):
    m, *rest = problem(3, 65)
    m[1, bad] = np.nan
    net, arg, top, gap = voi.voi_argmax(m, *rest, backend=backend)
    assert np.isnan(net).tolist() == np.isnan(gap).tolist() == [False, True, False]
    assert (arg[1], top[1]) == (-1, -1)
    clean = voi.voi_argmax(np.delete(m, 1, axis=0), *rest, backend=backend)
    assert np.array_equal(np.delete(arg, 1), clean[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_bands_decide_where_gains_underflow(backend):
    m, nu = np.array([[0.0, 100.0]]), np.array([1.0, 1.0])
    free = voi.voi_argmax(m, nu, np.zeros(2), [np.inf, np.inf], backend=backend)
    assert (free[0][0], free[1][0]) == (0.0, 0)
    nothing = voi.voi_argmax(m, np.zeros(2), np.zeros(2), inspection_halfwidth([0.0, 0.0], [0.0, 0.0]))
    assert nothing[1][0] == -1
    never = voi.voi_argmax(m, nu, [np.inf, np.inf], [-np.inf, -np.inf], backend=backend)
    assert never[1][0] == -1
    absent = voi.voi_argmax([[-np.inf, 0.1, -np.inf]], np.ones(3), np.full(3, 0.01), np.ones(3), outside=0.0)
    assert (absent[1][0], absent[2][0], absent[3][0]) == (1, 1, 0.1)


def test_means_far_from_zero_lose_nothing_in_float64():
    m, nu, c, w = problem(50, 5, seed=4)
    m = np.round(m * 2**20) / 2**20  # so that the shift is exact
    near = voi.voi_argmax(m * 2**-10, nu * 2**-10, c * 2**-10, w * 2**-10)
    far = voi.voi_argmax(m * 2**-10 + 2**20, nu * 2**-10, c * 2**-10, w * 2**-10)
    same(far, near, atol=0)


@pytest.mark.parametrize("K", [1, 2, 63, 64, 65, 129])
def test_float32_keeps_its_tolerance(K):
    m, *rest = problem(1000, K, seed=5, dtype=np.float32)
    found, exact = voi.voi_argmax(m, *rest), voi.voi_argmax(m.astype(np.float64), *rest)
    assert found[0].dtype == found[3].dtype == np.float32
    assert np.array_equal(found[1], exact[1])  # the CPU path computes in float64
    assert np.abs(found[0] - exact[0]).max() <= 2e-6 * rest[0].max() + 1e-7 * np.abs(m).max()


def test_options_are_what_they_say():
    m, nu, c, w = problem(30, 5, seed=6)
    price = np.linspace(0, 0.5, 5)
    same(voi.voi_argmax(m, nu, c, w, price=price), voi.voi_argmax(m - price, nu, c, w))
    blocked = np.where(np.arange(5) % 2, -np.inf, w)
    same(voi.voi_argmax(m, nu, c, w, done=np.full(30, 0b01010)), voi.voi_argmax(m, nu, c, blocked))
    wide = np.column_stack([m, np.full(30, 0.3)])
    lone = voi.voi_argmax(wide, np.append(nu, 0), np.append(c, 0), np.append(w, 0))
    same(
        voi.voi_argmax(m, nu, c, w, outside=0.3),
        [lone[0], lone[1], np.where(lone[2] == 5, -1, lone[2]), lone[3]],
    )
    rows = [voi.voi_argmax(m[q : q + 1], nu, c, w) for q in range(30)]
    same(voi.voi_argmax(m, nu, c, w), [np.concatenate(part) for part in zip(*rows, strict=True)])


def test_arrays_of_any_layout():
    m, *rest = problem(20, 6, seed=7)
    expected = voi.voi_argmax(m, *rest)
    for view in (np.asfortranarray(m), np.stack([m, m], -1)[..., 1], m[::-1].copy()[::-1]):
        same(voi.voi_argmax(view, *rest), expected)
    half = voi.voi_argmax(m.astype(np.float16), *rest)
    same(half, voi.voi_argmax(m.astype(np.float16).astype(np.float32), *rest))
    m.flags.writeable = False
    same(voi.voi_argmax(m, *rest), expected)


@pytest.mark.full
def test_tensors_on_the_cpu(needs):
    torch = needs("torch")
    m, *rest = problem(20, 6, seed=7)
    tensor = torch.tensor(m, requires_grad=True)
    found = voi.voi_argmax(tensor, *map(torch.tensor, rest))
    assert all(isinstance(part, torch.Tensor) for part in found)
    same([part.numpy() for part in found], voi.voi_argmax(m, *rest))
    short = tensor.bfloat16()
    for one, other in zip(voi.voi_argmax(short, *rest), voi.voi_argmax(short.float(), *rest), strict=True):
        assert torch.equal(one, other)


def test_no_news_gain_nothing():
    """An infinite band with nu = 0: refining is free and useless, and the first one is picked."""
    for backend in BACKENDS:
        found = voi.voi_argmax([[0.5, 0.4]], [0.0, 0.0], [0.0, 0.0], [math.inf, math.inf], backend=backend)
        assert [part.tolist() for part in found[:3]] == [[0.0], [0], [0]]


@pytest.mark.parametrize(("change", "words"), [
    ({"nu": [1j] * 3}, "nu must hold real numbers, got dtype complex128"),
    ({"w": ["a"] * 3}, "w must hold real numbers"),
    ({"outside": "a"}, "outside must be a number, got str"),
    ({"outside": None}, "outside must be a number, got NoneType"),
])  # fmt: skip
def test_what_is_no_number_is_named(change, words):
    good = {"m": [[0.5, 0.4, 0.0]], "nu": [0.5] * 3, "c": [0.05] * 3, "w": [0.45] * 3}
    with pytest.raises(TypeError, match=words):
        voi.voi_argmax(**good | change)


@pytest.mark.parametrize("f", [reference.psi, cpu.psi])
def test_psi(f):
    z = np.concatenate([np.linspace(0, 37, 500), np.linspace(11.9, 12.1, 50)])
    found = np.array([f(float(x)) for x in z])
    # both lose z^4/2 roundings just below 12, where the series takes over: 1e4 * 2.2e-16 = 2.3e-12
    assert found == pytest.approx(psi(z), rel=1e-11, abs=0)
    assert f(0.5) == pytest.approx(0.19779655740130603, rel=1e-15)
    assert f(20.0) == pytest.approx(1.3700124947295799e-90, rel=1e-13)
    assert f(41.0) == f(math.inf) == 0.0


def test_chords_of_the_table_bound_psi():
    """From above, and less the slack from below: at random points, at knots, and next to them."""
    knots = np.arange(cpu.LAST + 1) / cpu.KNOTS
    z = np.random.default_rng(0).uniform(0, 12, 20_000)
    z = np.concatenate(
        [z, knots, np.nextafter(knots, 13), np.nextafter(knots, -1)[1:], [13.0, 1e9, math.inf]]
    )
    bound = np.array([cpu._ceiling(x, cpu.TABLE) for x in z])
    exact = np.array([cpu.psi(x) for x in z])
    assert (bound >= exact).all()
    assert (bound - cpu.SLACK <= exact).all()
    assert (bound - exact).max() > 0.9 * cpu.SLACK  # at psi'' = phi(0), in the middle of the first chord


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_small_problem(data):
    n, K = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 5))
    level = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, -math.inf])
    m = np.array(data.draw(st.lists(level, min_size=n * K, max_size=n * K)), dtype=float).reshape(n, K)
    nu = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=K, max_size=K)))
    c = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.125, 1.0]), min_size=K, max_size=K)))
    options = {"outside": data.draw(level), "rule": data.draw(st.sampled_from(["net", "index"]))}
    w = inspection_halfwidth(nu, c)
    same(*(voi.voi_argmax(m, nu, c, w, backend=b, **options) for b in BACKENDS))
    slope = np.round(np.random.default_rng(K).normal(size=(K, K)), 1)
    joint = [voi.joint_argmax(m, slope, c, outside=options["outside"], backend=b) for b in BACKENDS]
    same(*joint, atol=1e-14)


@pytest.mark.parametrize("outside", [-math.inf, 0.5])
@pytest.mark.parametrize(("n", "K"), [(30, 1), (30, 2), (0, 3), (20, 5), (4, 17)])
def test_joint_paths_agree(n, K, outside):
    rng = np.random.default_rng([n, K])
    m, slope, c = rng.normal(size=(n, K)), 0.4 * rng.normal(size=(K, K)), 0.05 * rng.random(K)
    options = {"price": 0.2 * rng.random(K), "outside": outside, "done": rng.integers(0, 1 << K, n) & 0b11011}
    found, expected = (voi.joint_argmax(m, slope, c, backend=b, **options) for b in BACKENDS)
    same(found, expected, atol=1e-14)


def test_joint_gain_is_that_of_the_theory_and_of_quadrature():
    rng = np.random.default_rng(0)
    m, slope, c = rng.normal(size=(40, 5)), 0.5 * rng.normal(size=(5, 5)), np.full(5, 0.03)
    net, arg, *_ = voi.joint_argmax(m, slope, c)
    gains = np.stack([voi_correlated(m, slope[i]) for i in range(5)], axis=1) - c
    assert net == pytest.approx(gains.max(axis=1).clip(0), abs=1e-14)
    assert np.array_equal(arg, np.where(gains.max(axis=1) > 0, gains.argmax(axis=1), -1))
    z = np.linspace(-9, 9, 40_001)
    law = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    for q in range(5):
        best = (m[q] + slope[:, None, :] * z[:, None]).max(axis=-1)
        value = np.trapezoid(best * law, z, axis=1) - m[q].max()
        assert value - c == pytest.approx(gains[q], abs=1e-7)  # kinks cost h^2 = 2e-7 times their jump / 8


def test_joint_oracles():
    one = lambda m, slope: voi.joint_argmax([m], [slope] * len(m), np.zeros(len(m)))
    assert one([0.3, 0.1, -0.2], [0.6, 0.4, -0.5])[0][0] == pytest.approx(0.23340614266219696, rel=1e-13)
    assert one([0.2, 0.35], [0.49, 0.3])[0][0] == pytest.approx(0.023266143171366245, rel=1e-13)
    alike = one([0.3, 0.1, -0.2], [0.6, 0.6, 0.6])
    assert (alike[0][0], alike[1][0]) == (0.0, -1)
    far = one([0.0, 100.0], [1.0, 0.0])  # the gain underflows, the news may still matter, and is free
    assert (far[0][0], far[1][0]) == (0.0, 0)


def test_joint_with_a_diagonal_is_the_independent_one():
    m, nu, c, w = problem(300, 7, seed=8)
    same(voi.joint_argmax(m, np.diag(nu), c), voi.voi_argmax(m, nu, c, w))
    same(voi.joint_argmax(m, np.diag(-nu), c, outside=0.4), voi.voi_argmax(m, nu, c, w, outside=0.4))


def test_joint_groups_have_slopes_of_their_own():
    rng = np.random.default_rng(2)
    m, slope, c = rng.normal(size=(20, 4)), 0.4 * rng.normal(size=(3, 4, 4)), np.full(4, 0.02)
    group = rng.integers(0, 3, 20)
    rows = [voi.joint_argmax(m[q : q + 1], slope[group[q]], c) for q in range(20)]
    for backend in BACKENDS:
        found = voi.joint_argmax(m, slope, c, group=group, backend=backend)
        same(found, [np.concatenate(part) for part in zip(*rows, strict=True)], atol=1e-14)


def test_joint_nan_rows():
    m = np.array([[0.0, 0.1], [np.nan, 0.1]])
    for backend in BACKENDS:
        net, arg, top, gap = voi.joint_argmax(m, np.eye(2), [0.01, 0.01], backend=backend)
        assert np.isnan(net).tolist() == np.isnan(gap).tolist() == [False, True]
        assert (arg[1], top[1]) == (-1, -1)


def test_bands_that_cannot_be_are_harmless():
    """No spread, and a band nevertheless: 0/0 must not reach the table."""
    assert voi.voi_argmax([[0.0, 0.0]], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0])[1].tolist() == [0]
    dear = voi.voi_argmax([[0.0, 0.1]], [1.0, 1.0], [math.inf] * 2, [1.0, 1.0])
    assert (dear[0][0], dear[1][0]) == (0.0, 0)


def numpy_argmax(m, nu, c, w):
    """The same by whole arrays, as one would write it in NumPy."""
    rows, lead = np.arange(len(m)), m.argmax(axis=1)
    first = m[rows, lead]
    rest = m.copy()
    rest[rows, lead] = -np.inf
    d = first[:, None] - m
    d[rows, lead] = first - rest.max(axis=1)
    z = d / nu
    net = nu * (np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) - 0.5 * z * erfc(z / math.sqrt(2))) - c
    net = np.where(d < w, net, -np.inf)
    best = net.max(axis=1)
    return best.clip(0), np.where(best > -np.inf, net.argmax(axis=1), -1)


@pytest.mark.slow
@pytest.mark.full
def test_eight_times_faster_than_whole_arrays():
    rng = np.random.default_rng(0)
    m, nu = rng.normal(size=(200_000, 64)), rng.uniform(0.2, 0.6, 64)
    c = nu * rng.uniform(0.01, 0.2, 64)
    args = m, nu, c, inspection_halfwidth(nu, c)
    found, expected = voi.voi_argmax(*args), numpy_argmax(*args)
    assert np.array_equal(found[1], expected[1])
    assert found[0] == pytest.approx(expected[0], abs=1e-15)
    assert 0.3 < (found[1] >= 0).mean() < 1
    times = []
    for _ in range(3):  # interleaved, in CPU time of this one thread
        for call in (voi.voi_argmax, numpy_argmax):
            start = time.thread_time()
            call(*args)
            times.append(time.thread_time() - start)
    assert min(times[1::2]) > 8 * min(times[::2])  # 15 to 28 seen


M = np.zeros((2, 3))
ONE = np.ones(3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: voi.voi_argmax(ONE, ONE, ONE, ONE), ValueError, r"m must have shape \(n, K\).*got \(3,\)"),
        (lambda: voi.voi_argmax(np.zeros((2, 0)), [], [], []), ValueError, "K >= 1"),
        (lambda: voi.voi_argmax(M.astype(object), ONE, ONE, ONE), TypeError, "m must hold real numbers"),
        (
            lambda: voi.voi_argmax(M, np.ones(2), ONE, ONE),
            ValueError,
            r"nu must have shape \(3,\) or \(2, 3\)",
        ),
        (lambda: voi.voi_argmax(M, -ONE, ONE, ONE), ValueError, r"nu must be >= 0; got min -1"),
        (lambda: voi.voi_argmax(M, ONE * np.inf, ONE, ONE), ValueError, "nu must be >= 0 and finite"),
        (lambda: voi.voi_argmax(M, ONE, ONE * np.nan, ONE), ValueError, "c must be >= 0; got min nan"),
        (lambda: voi.voi_argmax(M, ONE, ONE, ONE * np.nan), ValueError, "w must not be NaN"),
        (lambda: voi.voi_argmax(M, ONE, ONE, ONE, price=[1.0]), ValueError, r"price must have shape \(3,\)"),
        (lambda: voi.voi_argmax(M, ONE, ONE, ONE, price=ONE * np.inf), ValueError, "price must be finite"),
        (lambda: voi.voi_argmax(M, ONE, ONE, ONE, done=[0.0, 0.0]), TypeError, "done must be int64"),
        (
            lambda: voi.voi_argmax(M, ONE, ONE, ONE, done=np.zeros(3, int)),
            ValueError,
            r"done must have shape \(2,\)",
        ),
        (lambda: voi.voi_argmax(M, ONE, ONE, ONE, outside=np.nan), ValueError, "outside must be a number"),
        (
            lambda: voi.voi_argmax(M, ONE, ONE, ONE, rule="best"),
            ValueError,
            "rule must be one of 'net', 'index'",
        ),
        (lambda: voi.voi_argmax(M, ONE, ONE, ONE, backend="gpu"), ValueError, "backend must be one of"),
        (
            lambda: voi.voi_route(M, M[:1], ONE, ONE, ONE),
            ValueError,
            r"refined must have shape \(2, 3\) as m",
        ),
        (lambda: voi.voi_route(M, M > 0, ONE, ONE, ONE), TypeError, "refined must hold real numbers"),
        (lambda: voi.voi_route(M, M, ONE, ONE, ONE, fee=[1.0]), ValueError, r"fee must have shape \(3,\)"),
        (lambda: voi.voi_route(M, M, ONE, ONE, ONE, rounds=-1), ValueError, "rounds must be >= 0"),
        (lambda: voi.voi_route(M, M, ONE, ONE, ONE, backend="triton"), ValueError, "backend must be one of"),
        (lambda: voi.joint_argmax(M, np.eye(2), ONE), ValueError, r"slope must have shape \(3, 3\)"),
        (lambda: voi.joint_argmax(M, np.eye(3) * np.nan, ONE), ValueError, "slope must be finite"),
        (lambda: voi.joint_argmax(M, np.eye(3), np.ones((2, 3))), ValueError, r"c must have shape \(3,\)"),
        (lambda: voi.joint_argmax(M, np.eye(3)[None], ONE), ValueError, "group belongs to slopes of shape"),
        (lambda: voi.joint_argmax(M, np.eye(3), ONE, group=[0, 0]), ValueError, "group belongs to slopes"),
        (lambda: voi.joint_argmax(M, np.eye(3)[None], ONE, group=[0]), ValueError, r"int of shape \(2,\)"),
        (
            lambda: voi.joint_argmax(M, np.eye(3)[None], ONE, group=[0, 1]),
            ValueError,
            r"in 0\.\.0, got 0\.\.1",
        ),
        (lambda: voi.joint_argmax(M, np.eye(3), ONE, backend="triton"), ValueError, "backend must be one of"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
