"""Exact polar factors: oracle values, both references, every method, layout, dtype and scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.kernels.polar import _common as common
from porism.kernels.polar import polar_factor, polar_factors, reference

full = pytest.mark.full

ORACLES = [  # section 9 of the contract: 30 digits, independent of this code
    ([[3, 1], [1, 2]], 0.1, [[0.999002987557, 0.000995519908556], [0.000995519908556, 0.998007467648]]),
    ([[3, 1], [1, 2]], 0.0, [[1, 0], [0, 1]]),
    ([[1, 1], [0, 1]], 0.0, [[0.894427191, 0.4472135955], [-0.4472135955, 0.894427191]]),
    (
        [[1, 2, 0], [0, 1, 1]],
        0.0,
        [
            [0.526598632371, 0.816496580928, -0.236700683814],
            [-0.236700683814, 0.408248290464, 0.881649658093],
        ],
    ),
    (
        [[1, 2, 0], [0, 1, 1]],
        0.5,
        [[0.4988854382, 0.8, -0.1977708764], [-0.1977708764, 0.4, 0.7955417528]],
    ),
    ([[0, 0, 15], [0, 0, 20]], 0.0, [[0, 0, 0.6], [0, 0, 0.8]]),
]


def made(rng, r, d, kappa, tall=False):
    """A matrix with log-spaced singular values and its polar factor, float64."""
    U = np.linalg.qr(rng.normal(size=(r, r)))[0]
    V = np.linalg.qr(rng.normal(size=(d, r)))[0]
    G, P = (U * np.logspace(0, -np.log10(kappa), r)) @ V.T, U @ V.T
    return (G.T, P.T) if tall else (G, P)


def norm(x):
    return np.linalg.norm(np.asarray(x, np.float64), 2)


@pytest.mark.parametrize(("G", "beta", "expected"), ORACLES)
def test_oracle_of_arrays(G, beta, expected):
    G = np.array(G, float)
    assert polar_factor(G, smoothing=beta) == pytest.approx(np.array(expected), abs=5e-11)
    assert polar_factor(G.T, smoothing=beta) == pytest.approx(np.array(expected).T, abs=5e-11)


@full
@pytest.mark.parametrize("method", ["auto", "gram", "svd"])
@pytest.mark.parametrize(("G", "beta", "expected"), ORACLES)
def test_oracle_of_tensors(G, beta, expected, method, torch):
    G = torch.tensor(G, dtype=torch.float64)
    for X, E in ((G, expected), (G.T, np.array(expected).T)):
        assert polar_factor(X, smoothing=beta, method=method).numpy() == pytest.approx(
            np.array(E, float), abs=5e-11
        )
        # float32: eps 6e-8 times the condition number of the smoothed root, at most 3 here
        assert polar_factor(X.float(), smoothing=beta, method=method).numpy() == pytest.approx(
            np.array(E, float), abs=1e-6
        )


@full
@pytest.mark.parametrize("tall", [False, True])
@pytest.mark.parametrize("kappa", [3, 10, 19, 1e2, 1e3, 1e4, 1e5, 1e6])
def test_error_table_of_the_docstring(kappa, tall, torch):
    # the table is the worst of 40 draws; other draws get half as much again
    table = {
        3: (3.9e-7, 5.9e-8, 5.9e-8, 4.4e-6, 0.32),
        10: (2.8e-6, 1.4e-7, 1.4e-7, 1.6e-5, 0.32),
        19: (9.3e-6, 2.6e-7, 2.6e-7, 1.5e-5, 0.32),
        1e2: (1.2e-6, 1.2e-6, 1.2e-6, 3.1e-4, 0.32),
        1e3: (1.0e-5, 1.0e-5, 1.0e-5, 2.0e-2, 0.70),
        1e4: (9.6e-5, 9.6e-5, 9.6e-5, 0.7, 1.0),
        1e5: (9.8e-4, 9.8e-4, 9.8e-4, 1.0, 1.1),
        1e6: (9.2e-3, 9.2e-3, 9.2e-3, 1.0, 1.1),
    }[kappa]
    from porism.kernels.polar import newton_schulz

    worst = np.zeros(5)
    for seed in range(5):
        G, P = made(np.random.default_rng(seed), 16, 512, kappa, tall)
        F = torch.tensor(G, dtype=torch.float32)
        found = [polar_factor(F, method=m) for m in ("auto", "gram", "svd", "polynomial")]
        found.append(newton_schulz(F, dtype=torch.bfloat16))
        worst = np.maximum(worst, [norm(x.numpy() - P) for x in found])
    assert (worst <= 1.5 * np.array(table)).all()
    assert worst[0] <= 1.5 * max(1e-5, 1e-8 * kappa)
    assert worst[4] > 0.25  # what it is compared with


@full
@pytest.mark.parametrize("kappa", [3, 30, 290, 900, 1.1e3, 1e5, 1e8, 1e11])
def test_float64_error(kappa, torch):
    G, P = made(np.random.default_rng(1), 12, 100, kappa)
    for X, E in ((G, P), (G.T, P.T)):
        found = polar_factor(torch.tensor(X)).numpy()
        assert norm(found - E) <= 1e-15 * kappa + 1e-10
        if kappa <= 30:  # a Gram: kappa^2 eps, times 5 for its 100 terms
            assert norm(found - E) <= 5 * kappa**2 * 2.3e-16
    if kappa >= 1e8:  # why there is a switch: the Gram keeps nothing of the last direction
        assert norm(polar_factor(torch.tensor(G), method="gram").numpy() - P) > 0.1


@full
@pytest.mark.parametrize(("r", "d"), [(16, 4096), (8, 768), (64, 2048), (127, 512), (128, 1024), (200, 1024)])
def test_gaussian_factors_to_1e_5(r, d, torch):
    G = np.random.default_rng(r).normal(size=(2, r, d)).astype(np.float32)
    expected = polar_factor(G.astype(np.float64))
    for X, E in ((G, expected), (G.transpose(0, 2, 1), expected.transpose(0, 2, 1))):
        for found in (polar_factor(torch.tensor(X)), polar_factors([torch.tensor(x) for x in X])):
            assert max(norm(a.numpy() - b) for a, b in zip(found, E, strict=True)) <= 1e-5


@full
def test_large_members_take_the_polynomial_only_where_it_is_exact(torch):
    from porism.kernels.polar._newton_schulz import about_the_mean

    rng = np.random.default_rng(0)
    flat, _ = made(rng, 128, 1024, 1.5)
    steep, _ = made(rng, 128, 1024, 50)
    outlier, _ = made(rng, 128, 1024, 1.5)
    U, s, V = np.linalg.svd(outlier, full_matrices=False)
    s[-1] = 1e-3  # a flat spectrum but for one value: the spread does not show it, the residual does
    batch = np.stack([flat, steep, (U * s) @ V]).astype(np.float32)
    G = torch.tensor(batch)
    assert about_the_mean(G @ G.mT)[1].tolist() == [True, False, False]
    found, expected = polar_factor(G).numpy(), polar_factor(batch.astype(np.float64))
    assert max(norm(a - b) for a, b in zip(found, expected, strict=True)) <= 1e-5


@full
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["auto", "gram", "svd"])
def test_rank_deficient_gives_a_partial_isometry(method, dtype, torch):
    rng = np.random.default_rng(3)
    for r, d, k in [(4, 10, 2), (16, 300, 1), (16, 300, 9), (5, 5, 4), (1, 7, 0)]:
        G = rng.normal(size=(r, k)) @ rng.normal(size=(k, d))
        U, s, V = np.linalg.svd(G, full_matrices=False)
        expected = U[:, :k] @ V[:k]
        for X, E in ((G, expected), (G.T, expected.T)):
            found, rank = polar_factor(
                torch.tensor(X, dtype=getattr(torch, dtype)), method=method, return_rank=True
            )
            kappa = s[0] / s[k - 1] if k else 1.0
            # storage in float32 moves the kept directions by eps kappa
            assert norm(found.numpy() - E) <= (4e-7 if dtype == "float32" else 1e-13) * kappa
            assert rank.item() == k
            assert rank.dtype == torch.int64


@full
def test_lapack_extra_direction_is_not_there(torch):
    G = torch.tensor([[0.0, 0, 15], [0, 0, 20]])
    assert polar_factor(G).numpy() == pytest.approx(np.array([[0, 0, 0.6], [0, 0, 0.8]]), abs=1e-7)
    assert (polar_factor(G)[:, :2] == 0).all()


@full
def test_rtol_decides_what_is_a_direction(torch):
    G = torch.diag(torch.tensor([1.0, 1e-2, 1e-5], dtype=torch.float64))
    for rtol, rank in ((None, 3), (1e-6, 3), (1e-4, 2), (0.05, 1)):
        found, count = polar_factor(G, rtol=rtol, return_rank=True)
        assert count.item() == rank
        assert torch.allclose(found, torch.diag(torch.tensor([1.0] * rank + [0.0] * (3 - rank)).double()))
    assert polar_factor(G.float(), rtol=0.05, return_rank=True)[1].item() == 1
    assert polar_factor(torch.diag(torch.tensor([1.0, 4e-3])).half(), return_rank=True)[1].item() == 2
    assert polar_factor(torch.diag(torch.tensor([1.0, 4e-3])).bfloat16(), return_rank=True)[1].item() == 1
    # a float64 Gram of float64 data never goes below sqrt(r eps)
    tiny = torch.diag(torch.tensor([1.0, 1e-9], dtype=torch.float64))
    assert polar_factor(tiny, method="gram", rtol=0.0, return_rank=True)[1].item() == 1
    assert polar_factor(tiny, return_rank=True)[1].item() == 2


@full
@pytest.mark.parametrize("method", ["auto", "gram", "svd"])
@pytest.mark.parametrize("kappa", [5, 200, 1e5])
def test_smoothing(kappa, method, torch):
    rng = np.random.default_rng(0)
    G, _ = made(rng, 6, 40, kappa)
    for beta in (1e-4, 0.03, 2.0):
        U, s, V = np.linalg.svd(G, full_matrices=False)
        expected = (U * (s / np.hypot(s, beta))) @ V
        found = polar_factor(torch.tensor(G), smoothing=beta, method=method).numpy()
        # the root is conditioned like (s_1^2 + beta^2) / (s_r^2 + beta^2); 10 for rounding in the Gram
        spread = (1 + beta**2) / (s[-1] ** 2 + beta**2)
        assert (
            norm(found - expected)
            <= 10 * 2.3e-16 * (spread if method == "gram" else min(spread, 1e6)) + 1e-14
        )
        single = polar_factor(torch.tensor(G, dtype=torch.float32), smoothing=beta, method=method).numpy()
        assert norm(single - expected) <= 1.5e-5 + 6e-8 * min(kappa, 1 / beta)


@full
@given(
    st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 9), st.floats(1e-3, 10.0), st.floats(-6.0, 2.0)
)
@settings(max_examples=60, deadline=None)
def test_lipschitz_and_descent(seed, m, n, beta, log_scale):
    import torch

    rng = np.random.default_rng(seed)
    G = rng.normal(size=(m, n)) * 10**log_scale
    H = G + rng.normal(size=(m, n)) * beta * 10 ** rng.uniform(-3, 1)
    a, b = (polar_factor(torch.tensor(x), smoothing=beta).numpy() for x in (G, H))
    assert np.linalg.norm(a - b) <= np.linalg.norm(G - H) / beta * (1 + 1e-9) + 1e-12
    assert norm(a) <= 1 + 1e-12
    s = np.linalg.svd(G, compute_uv=False)
    assert (a * G).sum() == pytest.approx((s * s / np.hypot(s, beta)).sum(), rel=1e-9)


@full
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 8), st.integers(0, 6), st.integers(-30, 30))
@settings(max_examples=80, deadline=None)
def test_defining_properties(seed, m, n, k, exponent):
    """``T^T G`` is positive semi-definite and T a partial isometry with the row and column space of G."""
    import torch

    rng = np.random.default_rng(seed)
    k = min(k, m, n)
    U = np.linalg.qr(rng.normal(size=(m, m)))[0][:, :k]
    V = np.linalg.qr(rng.normal(size=(n, n)))[0][:, :k]
    G = (U * rng.uniform(0.1, 1.0, k)) @ V.T * 10.0**exponent
    for dtype, error in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        T, rank = polar_factor(torch.tensor(G).to(dtype), return_rank=True)
        T = T.double().numpy()
        assert norm(T @ T.T @ T - T) <= 3 * error
        H = T.T @ G / 10.0**exponent
        assert norm(H - H.T) <= 2 * error
        assert np.linalg.eigvalsh((H + H.T) / 2).min() >= -2 * error
        assert norm(T @ H - G / 10.0**exponent) <= 3 * error
        assert int(rank) == k


@full
@pytest.mark.parametrize("method", ["auto", "gram", "svd", "polynomial"])
def test_layouts_agree(method, torch):
    g = torch.Generator().manual_seed(0)
    G = torch.randn(3, 2, 5, 37, generator=g)
    expected = polar_factor(G, method=method)
    assert expected.shape == G.shape
    close = lambda a, b: torch.allclose(a, b, atol=2e-5 if method == "polynomial" else 2e-6, rtol=0)
    for k in np.ndindex(3, 2):
        assert close(polar_factor(G[k], method=method), expected[k])
    assert close(polar_factor(G.mT, method=method), expected.mT)
    assert close(polar_factor(G.mT.contiguous(), method=method), expected.mT)
    spaced = torch.zeros(3, 2, 10, 74)[..., ::2, ::2].copy_(G)
    assert close(polar_factor(spaced, method=method), expected)
    assert close(polar_factor(G.transpose(0, 1), method=method), expected.transpose(0, 1))
    wide = G[:1].expand(4, 2, 5, 37)
    assert close(polar_factor(wide, method=method)[3], expected[0])
    rotated = torch.linalg.qr(torch.randn(50, 37, generator=g))[0]
    assert close(polar_factor(G @ rotated.T, method=method), expected @ rotated.T)


@full
@pytest.mark.parametrize("n", [1, 15, 17, 63, 65])
@pytest.mark.parametrize("m", [1, 15, 17, 63, 65])
def test_odd_sizes(m, n, torch):
    G = np.random.default_rng(m * 100 + n).normal(size=(2, m, n))
    expected = polar_factor(G)
    s = np.linalg.svd(G, compute_uv=False)
    kappa = (s[:, 0] / s[:, -1]).max()
    single = polar_factor(torch.tensor(G, dtype=torch.float32)).numpy()
    assert max(map(norm, single - expected)) <= 1e-5 + 1e-7 * kappa
    for method in ("auto", "gram", "svd"):
        found = polar_factor(torch.tensor(G), method=method).numpy()
        assert max(map(norm, found - expected)) <= 1e-13 + 1e-15 * kappa**2


@full
@pytest.mark.parametrize("method", ["auto", "gram", "svd"])
@pytest.mark.parametrize("kappa", [3, 100])
def test_scale_invariance(kappa, method, torch):
    G = torch.tensor(made(np.random.default_rng(0), 8, 64, kappa)[0], dtype=torch.float32)
    expected = polar_factor(G, method=method)
    for exponent in (-99, -66, -33, 20, 60, 99):  # powers of two round nothing: 2^-99 = 1.6e-30
        found = polar_factor(G * 2.0**exponent, method=method)
        # where the squares leave float32 the Gram is float64, and the other's error shows
        assert torch.allclose(found, expected, atol=2e-6 if kappa == 3 else 2e-7, rtol=0)
        assert torch.allclose(polar_factor(G.double() * 2.0 ** (9 * exponent), method=method).float(),
                              expected, atol=2e-6, rtol=0)  # fmt: skip
    both = polar_factor(torch.stack([G * 1e-30, G, G * 1e30]), method=method)
    # float32 rounds 1e-30 G and 1e30 G by 6e-8 each, and the last direction feels that kappa times
    assert torch.allclose(both[0], both[2], atol=1.2e-7 * kappa, rtol=0)
    beta = 0.1
    smooth = polar_factor(G, smoothing=beta, method=method)
    for scale in (1e-30, 1e30):
        found = polar_factor(G * scale, smoothing=beta * scale, method=method)
        assert torch.allclose(found, smooth, atol=2e-6, rtol=0)


@full
def test_members_do_not_disturb_each_other(torch):
    rng = np.random.default_rng(5)
    parts = [made(rng, 6, 50, kappa)[0] for kappa in (2, 50, 1e5, 3)]
    parts += [np.zeros((6, 50)), np.outer(rng.normal(size=6), rng.normal(size=50)), parts[0] * 1e-32]
    G = torch.tensor(np.stack(parts), dtype=torch.float32)
    found, rank = polar_factor(G, return_rank=True)
    assert rank.tolist() == [6, 6, 6, 6, 0, 1, 6]
    for k, g in enumerate(G):
        assert torch.allclose(polar_factor(g), found[k], atol=2e-6, rtol=0)
    assert (found[4] == 0).all()


@full
def test_zero_rows_and_columns_stay_exactly_zero(torch):
    rng = np.random.default_rng(0)
    for method in ("auto", "gram", "svd", "reference"):
        for dtype in (torch.float32, torch.float64):
            G = torch.tensor(rng.normal(size=(5, 9)), dtype=dtype)
            G[2], G[:, 4] = 0, 0
            options = {"backend": "reference"} if method == "reference" else {"method": method}
            for beta in (0.0, 0.3):
                for X in (G, G.T):
                    found = polar_factor(X, smoothing=beta, **options)
                    found = found if X is G else found.T
                    assert (found[2] == 0).all()
                    assert (found[:, 4] == 0).all()
                    assert (found != 0).sum() == 4 * 8


def test_reference_against_the_power_of_a_gram():
    from scipy.linalg import sqrtm

    rng = np.random.default_rng(0)
    G = rng.normal(size=(3, 4, 7))
    for beta in (0.0, 0.4):
        found, rank = reference.polar(G, beta, 1e-15)
        for g, f in zip(G, found, strict=True):
            assert np.linalg.solve(sqrtm(g @ g.T + beta**2 * np.eye(4)), g) == pytest.approx(f, abs=1e-12)
        assert rank.tolist() == [4, 4, 4]


@full
def test_backends_agree(torch):
    G = torch.tensor(made(np.random.default_rng(0), 6, 20, 8)[0])
    for beta in (0.0, 0.2):
        a = polar_factor(G, smoothing=beta, backend="cpu")
        b, rank = polar_factor(G, smoothing=beta, backend="reference", return_rank=True)
        assert torch.allclose(a, b, atol=1e-13)
        assert rank.item() == 6
        assert polar_factor(G.numpy(), smoothing=beta) == pytest.approx(b.numpy(), abs=1e-15)


@full
def test_list_of_matrices(torch):
    g = torch.Generator().manual_seed(1)
    shapes = [(4, 30), (30, 4), (4, 30), (7, 7), (1, 5), (4, 31), (0, 3), (130, 140)]
    matrices = [torch.randn(*shape, generator=g) for shape in shapes]
    matrices[2] = torch.randn(30, 4, generator=g).T  # another layout
    matrices += [torch.randn(4, 30, generator=g).bfloat16(), torch.randn(4, 30, generator=g).double()]
    before = [G.clone() for G in matrices]
    found = polar_factors(matrices)
    for G, kept, X in zip(matrices, before, found, strict=True):
        assert torch.equal(G, kept)
        assert X.shape == G.shape
        assert X.dtype == G.dtype
        assert torch.allclose(X.double(), polar_factor(G).double(), atol=1e-5)
    places = [X.data_ptr() for X in found]
    doubled = polar_factors([-G for G in matrices], out=found)
    assert doubled is found
    assert [X.data_ptr() for X in doubled] == places
    assert all(torch.allclose(X, polar_factor(-G), atol=1e-2) for G, X in zip(matrices, doubled, strict=True))
    for method in ("gram", "svd", "polynomial"):
        for G, X in zip(matrices, polar_factors(matrices, method=method), strict=True):
            assert torch.allclose(X.double(), polar_factor(G, method=method).double(), atol=1e-5)
    smooth = polar_factors(matrices, smoothing=0.5)
    assert torch.allclose(smooth[0], polar_factor(matrices[0], smoothing=0.5), atol=1e-6)
    assert polar_factors([]) == []
    assert polar_factors([np.eye(2), np.zeros((1, 3))])[0].tolist() == np.eye(2).tolist()


def test_default_tolerances():
    eps = np.finfo(np.float32).eps
    assert common.default_rtol(32, eps) == 8 * eps
    assert common.default_rtol(16, 2**-7) == 2**-7
