"""Triton's interpreter against float64 polar factors; test_triton.py runs this in a process of its own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.kernels import polar
from porism.kernels.polar import _launch, _tiles, reference, triton
from porism.kernels.polar._common import POLAR_EXPRESS, QUINTIC, TAYLOR

SHARP = [*POLAR_EXPRESS, TAYLOR, TAYLOR]
SMALL_FORMS = ("fused", "split")
SHAPES = [
    (2, 1, 1),
    (3, 1, 65),
    (2, 15, 15),
    (2, 15, 17),
    (2, 17, 63),
    (1, 63, 65),
    (1, 65, 70),
    (1, 16, 1031),
]
EPS = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float32: 2.0**-23, torch.float64: 2.0**-52}
pytestmark = pytest.mark.usefixtures("poison")


def known(shape, kappa, seed=0):
    """Members with singular values from 1 down to 1 / kappa, and their polar factors, in float64."""
    (K, r, d), rng = shape, np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(K, r, r)))[0]
    right = np.linalg.qr(rng.normal(size=(K, d, r)))[0].transpose(0, 2, 1)
    s = np.geomspace(1, 1 / kappa, r)
    return left * s @ right, left @ right


def gauss(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def error(found, expected):
    """Largest operator norm of the difference of members."""
    found = found.double().numpy() if isinstance(found, torch.Tensor) else found
    assert found.shape == expected.shape
    return float(np.linalg.norm(found - expected, 2, axis=(1, 2)).max(initial=0.0))


def truth(G, smoothing=0.0, rtol=1e-9):
    return reference.polar(np.asarray(G, dtype=np.float64), smoothing, rtol)[0]


EVERY = {
    "auto": lambda g: triton.polar(g),
    "smooth": lambda g: triton.polar(g, smoothing=0.1),
    "svd": lambda g: triton.polar(g, method="svd"),
    "fused": lambda g: triton.newton_schulz(g, SHARP[:3], form="fused"),
    "split": lambda g: triton.newton_schulz(g, SHARP[:3], form="split"),
    "tiled": lambda g: triton.newton_schulz(g, SHARP[:2], form="tiled"),
}


@pytest.mark.parametrize("form", SMALL_FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_polynomial_in_gram_space(shape, form):
    """A float32 Gram loses eps kappa^2 of its smallest eigenvalue, half of that relative in the factor."""
    for kappa, tolerance in ((10, 2e-5), (100, 5e-4))[: 1 if shape[1] > 32 else 2]:
        G, P = known(shape, kappa)
        assert error(triton.newton_schulz(torch.tensor(G).float(), SHARP, 1.02, form=form), P) <= tolerance


@pytest.mark.parametrize("shape", [(2, 1, 1), (2, 15, 17), (1, 65, 71), (1, 129, 130)])
def test_polynomial_on_the_members(shape):
    """The tiled form squares nothing: what remains are the last Taylor step, 1.3e-6, and rounding."""
    G, P = known(shape, 30)
    assert error(triton.newton_schulz(torch.tensor(G).float(), SHARP, 1.02, form="tiled"), P) <= 1e-5


def sensitivity(s, triples):
    """Rounding units of a singular value after all steps: the sizes summed in each, carried on by slopes."""
    total = s.copy()
    for a, b, c in triples:
        total = np.abs(a + 3 * b * s**2 + 5 * c * s**4) * total + abs(a) * s + abs(b) * s**3 + abs(c) * s**5
        s = a * s + b * s**3 + c * s**5
    return float(total.max())


@pytest.mark.parametrize("form", [*SMALL_FORMS, "tiled"])
@pytest.mark.parametrize(
    "triples", [QUINTIC * 5, POLAR_EXPRESS, [TAYLOR], [(1.5, -0.5, 0.0), (2.0, 0.0, -0.3)], []]
)
def test_each_step_is_that_of_the_definition(triples, form):
    """Not only its limit. A Gram turns a unit in the largest value into kappa^2 units of the smallest."""
    kappa = 3
    G, _ = known((2, 15, 33), kappa)
    for safety in (1.0, 1.02):
        expected = reference.newton_schulz(G, triples, safety)
        start = np.linalg.svd(G[0], compute_uv=False) / np.linalg.norm(G[0]) / safety
        tolerance = (1 if form == "tiled" else kappa**2) * 2.0**-22 * sensitivity(start, triples)
        assert tolerance <= 1e-3
        found = triton.newton_schulz(torch.tensor(G).float(), triples, safety, form=form)
        assert error(found, expected) <= tolerance


def test_a_scalar_follows_the_map():
    found = triton.newton_schulz(torch.tensor([[1.0]]), QUINTIC * 5)
    assert float(found) == pytest.approx(0.69643641, abs=2e-6)


@pytest.mark.parametrize("kappa", [3, 100, 1e3, 1e4])
@pytest.mark.parametrize("shape", SHAPES)
def test_exact_in_float32(shape, kappa):
    """Storing G, and a factor of size kappa that multiplies it, costs half a unit each: eps kappa / 2."""
    G, P = known(shape, kappa)
    found, rank = triton.polar(torch.tensor(G).float(), return_rank=True)
    assert found.dtype == torch.float32
    assert error(found, P) <= 1e-6 + 6e-8 * kappa
    assert rank.tolist() == [shape[1]] * shape[0]


@pytest.mark.parametrize(
    ("kappa", "method", "tolerance"),
    [(10, "gram", 1e-13), (1e3, "gram", 1e-9), (10, "auto", 1e-13), (1e6, "auto", 1e-9), (1e6, "svd", 1e-9)],
)
def test_exact_in_float64(kappa, method, tolerance):
    """A Gram errs by eps kappa^2, the decomposition by eps kappa."""
    for shape in SHAPES[2:6]:
        G, P = known(shape, kappa)
        assert error(triton.polar(torch.tensor(G), method=method), P) <= tolerance


def test_float64_members_go_to_the_svd_one_by_one():
    easy, hard = known((1, 7, 20), 10), known((1, 7, 20), 1e6)
    G, P = (np.concatenate([easy[i], hard[i], easy[i] * 3 ** (1 - i)]) for i in (0, 1))
    found = triton.polar(torch.tensor(G))
    assert error(found, P) <= 1e-9
    assert error(triton.polar(torch.tensor(G), method="gram")[1:2], P[1:2]) > 1e-7
    assert error(found[::2], P[::2]) <= 1e-13


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("method", ["auto", "gram", "svd", "polynomial"])
def test_half_precision_in_and_out(method, kind):
    """Against the rounded matrix: what remains is rounding of the result, eps / 2 of its Frobenius norm."""
    for shape in ((2, 15, 17), (1, 65, 70), (2, 1, 65)):
        G = torch.tensor(gauss(shape)).to(kind)
        found = triton.polar(G.repeat(1, 1, 3), method=method) * 3**0.5  # repetition keeps kappa below 1e3
        assert found.dtype == kind
        own = truth(G.double().repeat(1, 1, 3).numpy()) * 3**0.5
        slack = 5e-4 if method == "polynomial" and shape[1] == 65 else 2e-5
        assert error(found, own) <= EPS[kind] * 3 * shape[1] ** 0.5 + slack


def test_the_rounding_of_bfloat16_itself_is_larger():
    """The tolerance tells the rounded matrix from the one before."""
    G = gauss((1, 15, 17))
    found = triton.polar(torch.tensor(G).bfloat16().float())
    assert error(found, truth(torch.tensor(G).bfloat16().double())) <= 1e-5
    assert error(found, truth(G)) > 1e-3


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("rank", [0, 1, 4])
def test_rank_deficient_members_give_partial_isometries(rank, kind):
    rng = np.random.default_rng(rank)
    whole = rng.integers(-2, 3, (3, 9, rank)) @ rng.integers(-2, 3, (3, rank, 33))  # exact in every precision
    G = torch.tensor(whole).to(kind)
    ranks = [int(np.linalg.matrix_rank(g)) for g in whole]
    for method in ("auto", "gram", "svd"):
        found, known_rank = triton.polar(G, method=method, return_rank=True)
        assert known_rank.tolist() == ranks
        assert error(found, truth(whole)) <= 3 * EPS[kind] + 1e-5


def test_oracles():
    """Closed forms, and values of 30 digits by mpmath."""
    G = torch.tensor([[3.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    smooth = [[0.999002987557, 0.000995519908556], [0.000995519908556, 0.998007467648]]
    assert triton.polar(G, smoothing=0.1).numpy() == pytest.approx(np.array(smooth), abs=1e-11)
    assert triton.polar(G).numpy() == pytest.approx(np.eye(2), abs=1e-14)
    found = triton.polar(torch.tensor([[1.0, 1.0], [0.0, 1.0]]))
    assert found.numpy() == pytest.approx(np.array([[2.0, 1.0], [-1.0, 2.0]]) / 5**0.5, abs=3e-7)
    wide = [
        [0.526598632371, 0.816496580928, -0.236700683814],
        [-0.236700683814, 0.408248290464, 0.881649658093],
    ]
    assert triton.polar(torch.tensor([[1.0, 2, 0], [0, 1, 1]])).numpy() == pytest.approx(
        np.array(wide), abs=3e-7
    )
    one = triton.polar(torch.tensor([[0.0, 0.0, 15.0], [0.0, 0.0, 20.0]]))  # one direction, zero columns
    assert one.numpy() == pytest.approx(np.array([[0, 0, 0.6], [0, 0, 0.8]]), abs=3e-7)
    assert not one[:, :2].any()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("smoothing", [1e-6, 1e-2, 0.3, 10.0])
def test_smoothing(smoothing, kind):
    G = gauss((3, 15, 17))
    G[1] = np.outer(G[1, :, 0], G[1, 0])  # rank 1: what is zero stays zero
    G[2], size = 0, 2.0**-40
    for method in ("auto", "gram", "svd"):
        found = triton.polar(torch.tensor(G).to(kind), smoothing=smoothing, method=method)
        expected = truth(torch.tensor(G).to(kind).double(), smoothing)
        # a spurious direction of size 2 eps32 s_1 shows as that over the smoothing
        assert error(found, expected) <= 1e-5 + (3e-6 / smoothing if kind == torch.float32 else 1e-9)
        again = triton.polar(torch.tensor(G * size).to(kind), smoothing=smoothing * size, method=method)
        assert error(again, found.double().numpy()) <= 1e-5


@pytest.mark.parametrize("method", ["auto", "gram", "svd"])
def test_smoothing_does_not_cut_at_the_rank_tolerance(method):
    G = torch.diag(torch.tensor([1.0, 1e-3, 5e-7]))
    found, rank = triton.polar(G, smoothing=1e-7, method=method, return_rank=True)
    assert found.diagonal().tolist() == pytest.approx([1.0, 1.0, 5 / 26**0.5], rel=1e-5)
    assert int(rank) == 2  # above 8 eps of float32
    assert not triton.polar(G * 0, smoothing=1e-50, method=method).any()


@pytest.mark.parametrize("name", ["auto", "svd", "fused", "split", "tiled"])
def test_layouts_give_the_same(name):
    """The same bits where no product is torch's, whose order of sums may depend on the batch."""
    G = torch.tensor(known((4, 7, 19), 10)[0]).float()
    call, kept = EVERY[name], G.clone()
    expected = call(G)
    assert expected.is_contiguous()
    four = G.reshape(2, 2, 7, 19)
    pairs = {
        "strided": (torch.stack([G, G * 0], -1)[..., 0], expected),
        "columns first": (G.mT.contiguous().mT, expected),
        "reversed": (G.flip(0), expected.flip(0)),
        "sliced": (torch.nn.functional.pad(G, (2, 3, 1, 1))[:, 1:-1, 2:-3], expected),
        "tall view": (G.mT, expected.mT),
        "tall": (G.mT.contiguous(), expected.mT),
        "four axes": (four, expected.view(2, 2, 7, 19)),
        "axes exchanged": (four.transpose(0, 1), expected.view(2, 2, 7, 19).transpose(0, 1)),
        "one": (G[0], expected[0]),
        "expanded": (G[:1].expand(2, 7, 19), expected[:1].expand(2, 7, 19)),
        "with a gradient": (G.clone().requires_grad_(), expected),
    }
    slack = 1e-5 if name in ("auto", "svd") else 0.0
    for layout, (view, right) in pairs.items():
        found = call(view)
        assert found.shape == right.shape
        assert float((found - right).abs().max()) <= slack, layout
    assert torch.equal(G, kept)


@pytest.mark.parametrize("name", ["auto", "svd", *SMALL_FORMS, "tiled"])
def test_padding_changes_nothing(name):
    def call(g):
        if name in ("auto", "svd"):
            return triton.polar(g, method=name)
        return triton.newton_schulz(g, SHARP[:3], form=name)

    G = torch.tensor(known((2, 15, 33), 10)[0]).float()
    expected = call(G)
    wider = call(torch.nn.functional.pad(G, (0, 38)))
    taller = call(torch.nn.functional.pad(G, (0, 0, 0, 3)))
    assert error(wider[..., :33], expected.double().numpy()) <= 1e-5
    assert error(taller[:, :15], expected.double().numpy()) <= 1e-5
    assert not wider[..., 33:].any()
    assert not taller[:, 15:].any()


def test_zero_rows_and_columns_stay_zero_where_eigenvectors_are_rounded(monkeypatch):
    G = torch.tensor(gauss((2, 6, 9)))
    G[0, 2], G[1, :, 3] = 0, 0
    right = torch.linalg.eigh

    def rounded(M):
        w, V = right(M)
        return w, V + 1e-15

    monkeypatch.setattr(torch.linalg, "eigh", rounded)
    found = triton.polar(G, method="gram")
    assert error(found, truth(G)) <= 1e-10
    assert not found[0, 2].any()
    assert not found[1, :, 3].any()


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 4, 0), (3, 0, 0), (0, 0), (2, 0, 5, 3)])
def test_empty_batches_and_members(shape):
    G = torch.zeros(shape)
    for method in ("auto", "gram", "svd"):
        found, rank = triton.polar(G, method=method, return_rank=True)
        assert found.shape == shape
        assert rank.tolist() == torch.zeros(shape[:-2]).tolist()
    for form in _launch.FORMS:
        assert triton.newton_schulz(G.bfloat16(), SHARP, form=form).shape == shape
    assert triton.gram(torch.zeros(2, 3, 0)).tolist() == np.zeros((2, 3, 3)).tolist()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of NaN and infinity in the interpreter
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16])
def test_members_do_not_touch_each_other(kind, name):
    """Zero members are zero, members with NaN or infinity are NaN, and the others as if alone."""
    G = torch.tensor(gauss((5, 15, 17))).to(kind)
    G[1], G[2, 3, 4], G[4, 0, 0] = 0, float("nan"), float("inf")
    found = EVERY[name](G)
    assert not found[1].any()
    assert bool(found[2].isnan().all())
    assert bool(found[4].isnan().all())
    for k in (0, 3):
        alone = EVERY[name](G[k : k + 1])[0]
        # torch's products of eigenvectors may add up in another order: a unit of kappa < 1e3
        slack = 1e3 * EPS[kind] if name in ("auto", "smooth", "svd") else 0.0
        assert float((found[k] - alone).abs().max()) <= slack


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("form", [*SMALL_FORMS, "tiled"])
def test_members_that_are_not_finite_are_nan_after_no_step_too(form):
    G = torch.tensor(gauss((3, 3, 5))).float()
    G[0, 1, 2], G[2, 0, 0] = float("inf"), float("nan")
    found = triton.newton_schulz(G, [], form=form)
    assert found.isnan().flatten(1).sum(1).tolist() == [15, 0, 15]


@pytest.mark.parametrize("name", ["auto", "svd", "fused", "split", "tiled"])
def test_scale_does_not_matter(name):
    """A power of two changes no bit; others round G anew, which costs eps kappa."""
    G = torch.tensor(known((2, 15, 33), 10)[0]).float()
    expected = EVERY[name](G)
    for size in (2.0**-100, 2.0**90):
        assert torch.equal(EVERY[name](G * size), expected)
    for size in (1e-30, 1e30):
        assert error(EVERY[name](G * size), expected.double().numpy()) <= 1e-5
    tiny = torch.stack([G[0] * 1e-30, G[1] * 1e30])  # each member has its own scale
    assert error(EVERY[name](tiny), expected.double().numpy()) <= 1e-5
    double = torch.stack([G[0].double() * 1e-200, G[1].double() * 1e200])
    assert error(EVERY[name](double), expected.double().numpy()) <= 2e-5
    half = torch.tensor(gauss((1, 4, 70))).half().float()  # the norm of the second overflows float16
    assert (
        error(EVERY[name]((half * 2.0**-4).half()), EVERY[name]((half * 2.0**13).half()).double().numpy())
        <= 1e-3
    )


@pytest.mark.parametrize("order", [1, -1])
def test_columns_of_very_different_size(order):
    """The fused Gram is rescaled while its largest entry grows from 1e-25 to 1e25."""
    G = gauss((2, 3, 700)) * np.geomspace(1e-25, 1e25, 700)[::order]
    for form in SMALL_FORMS:
        found = triton.newton_schulz(torch.tensor(G.copy()).float(), SHARP[:2], form=form)
        assert error(found, reference.newton_schulz(G, SHARP[:2], 1.0)) <= 1e-4


@pytest.mark.parametrize("name", ["split", "tiled", "auto"])
def test_runs_repeat_bit_for_bit(name):
    G = torch.tensor(gauss((1, 16, 1100))).float()  # three chunks of columns
    found = EVERY[name](G)
    assert torch.equal(EVERY[name](G), found)


def test_partial_grams_are_those_of_fixed_chunks():
    """Each on its own, so neither the other members nor the order of programs matter."""
    G = torch.tensor(gauss((2, 16, 1100))).float()
    parts = _launch._partial(G, None, torch.float32, "ieee")
    assert parts.shape == (2, 3, 16, 16)
    for chunk, columns in enumerate(G.split(512, 2)):
        assert torch.equal(parts[:, chunk], triton.gram(columns, dtype=torch.float32))
    assert torch.equal(torch.cat([EVERY["split"](g[None]) for g in G]), EVERY["split"](G))


@pytest.mark.parametrize("shape", [(2, 1, 1), (2, 15, 17), (1, 65, 70), (1, 3, 1100), (1, 130, 5)])
def test_gram_and_apply(shape):
    K, r, _ = shape
    X, P, unit = gauss(shape), gauss((K, r, r), 1), gauss(K, 2) + 3
    for kind, tolerance in ((torch.float64, 1e-14), (torch.float32, 2e-6)):
        x, p, u = (torch.tensor(v).to(kind) for v in (X, P, unit))
        exact = x.double().numpy()
        M = triton.gram(x, dtype=kind)
        assert M.dtype == kind
        assert torch.equal(M, M.mT) or r <= 64  # mirrored; inside a diagonal tile up to the order of sums
        size = np.linalg.norm(exact, axis=(1, 2))[:, None, None] ** 2
        assert (np.abs(M.double().numpy() - exact @ exact.transpose(0, 2, 1)) / size).max() <= tolerance
        scaled = triton.gram(x, unit=u, dtype=kind)
        assert scaled.numpy() == pytest.approx((M * u[:, None, None] ** 2).numpy(), rel=1e-4, abs=1e-4)
        found = triton.apply(p, x, unit=u, shift=0.5)
        expected = u.double().numpy()[:, None, None] * (0.5 * exact + p.double().numpy() @ exact)
        assert error(found, expected) <= tolerance * 20 * (1 + np.linalg.norm(expected, 2, axis=(1, 2)).max())
        assert error(triton.apply(p, x), p.double().numpy() @ exact) <= tolerance * 40 * r
    exact = gauss(shape, 3).astype(np.float32).astype(np.float64)  # products of float32 are exact in float64
    M = triton.gram(torch.tensor(exact).float()).numpy()
    assert pytest.approx(exact @ exact.transpose(0, 2, 1), rel=1e-12, abs=1e-11) == M


class Refused:
    def __getitem__(self, grid):
        pytest.fail("launched")


def test_the_form_fits_the_batch(monkeypatch):
    """Four processors in the interpreter."""
    monkeypatch.setattr(_tiles, "square", Refused())
    G = torch.tensor(gauss((4, 3, 5))).float()
    with monkeypatch.context() as patch:
        patch.setattr(_tiles, "middle", Refused())
        triton.newton_schulz(G, [TAYLOR])
    with monkeypatch.context() as patch:
        patch.setattr(_tiles, "fused", Refused())
        triton.newton_schulz(G[:3], [TAYLOR])
    with pytest.raises(pytest.fail.Exception, match="launched"):
        triton.newton_schulz(torch.ones(5, 129, 129), [TAYLOR])


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 3), st.integers(1, 20), st.integers(1, 40), st.integers(0, 1000))
def test_any_small_shape(K, m, n, seed):
    """Against NumPy, both ways round; Gaussian members may be near singular, so kappa sets the tolerance."""
    G = gauss((K, m, n), seed)
    s = np.linalg.svd(G, compute_uv=False)
    found = triton.polar(torch.tensor(G).float())
    assert error(found, truth(G)) <= 2e-6 + 1e-7 * (s[:, 0] / s[:, -1]).max()
    steps = triton.newton_schulz(torch.tensor(G).float(), [TAYLOR, TAYLOR])
    wide = G if m <= n else G.transpose(0, 2, 1)
    expected = reference.newton_schulz(wide, [TAYLOR, TAYLOR], 1.0)
    assert error(steps, expected if m <= n else expected.transpose(0, 2, 1)) <= 1e-5


@pytest.mark.parametrize("shape", [(2, 3, 7, 19), (19, 7), (0, 3, 4)])
def test_the_public_functions_come_here(shape):
    G = torch.tensor(gauss(shape)).float()
    for options in ({}, {"smoothing": 0.5}, {"method": "svd"}, {"method": "polynomial"}):
        found = polar.polar_factor(G, backend="triton", **options)
        assert torch.allclose(found, polar.polar_factor(G, backend="cpu", **options), atol=1e-4)
        assert torch.equal(found, triton.polar(G, **options))
    found = polar.newton_schulz(G, backend="triton", gram=True)
    assert torch.allclose(found, polar.newton_schulz(G, backend="cpu"), atol=1e-4)
    assert torch.equal(found, triton.newton_schulz(G, QUINTIC * 5, 1.0))


@pytest.mark.parametrize("name", EVERY)
def test_autocast_changes_nothing(name):
    G = torch.tensor(gauss((2, 15, 17))).float()
    expected = EVERY[name](G)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(EVERY[name](G), expected)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_the_rank_tolerance_is_the_callers(kind):
    G, _ = known((1, 4, 9), 1e3)
    for method in ("gram", "svd"):
        _, rank = triton.polar(torch.tensor(G).to(kind), method=method, rtol=0.05, return_rank=True)
        assert rank.tolist() == [2]  # 1, 0.1, 0.01, 0.001
        assert triton.polar(torch.tensor(G).to(kind), method=method, return_rank=True)[1].tolist() == [4]


ONES = torch.ones(2, 2)
BAD = [
    (lambda: triton.polar(ONES.int()), TypeError, r"G must be float64, .* for Triton, got torch\.int32"),
    (lambda: triton.polar(ONES, smoothing=-1), ValueError, "smoothing must be a finite number >= 0"),
    (lambda: triton.polar(ONES, smoothing=np.nan), ValueError, "smoothing must be a finite"),
    (lambda: triton.polar(ONES, method="qr"), ValueError, "method must be"),
    (lambda: triton.polar(ONES, method="polynomial", smoothing=1), ValueError, "take method='gram'"),
    (lambda: triton.polar(ONES, method="polynomial", return_rank=True), ValueError, "take method='gram'"),
    (lambda: triton.newton_schulz(ONES, [(1, np.inf, 0)]), ValueError, "must be finite"),
    (lambda: triton.newton_schulz(ONES, [TAYLOR], 0), ValueError, "safety must be positive"),
    (lambda: triton.newton_schulz(ONES, [TAYLOR], form="x"), ValueError, "form must be"),
    (lambda: triton.newton_schulz(ONES, [TAYLOR], precision="x"), ValueError, "precision must be"),
    (lambda: triton.newton_schulz(torch.ones(129, 129), [TAYLOR], form="fused"), ValueError, "above 128"),
]


@pytest.mark.parametrize(("call", "kind", "words"), BAD)
def test_bad_input(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
