"""Odd polynomials: the scalar map, both forms, precision, normalisation."""

import numpy as np
import pytest

from porism.kernels.polar import newton_schulz, polar_factor
from porism.kernels.polar._common import POLAR_EXPRESS, QUINTIC, TAYLOR

full = pytest.mark.full


def scalar(x, triples):
    for a, b, c in triples:
        x = a * x + b * x**3 + c * x**5
    return x


def with_values(s, seed=0, d=30):
    """A matrix with given singular values next to one that makes the Frobenius norm 1."""
    rng = np.random.default_rng(seed)
    s = np.append(s, np.sqrt(1 - (np.asarray(s) ** 2).sum()))
    U = np.linalg.qr(rng.normal(size=(len(s), len(s))))[0]
    V = np.linalg.qr(rng.normal(size=(d, len(s))))[0]
    return (U * s) @ V.T, s, U, V


SCALAR = [(1.0, 0.69643641), (0.5, 0.76543853), (0.1, 0.71212008), (0.01, 0.69891706)]


@pytest.mark.parametrize(("x", "expected"), SCALAR)
def test_oracle_of_the_quintic(x, expected):
    assert scalar(x, QUINTIC * 5) == pytest.approx(expected, abs=5e-9)
    if x == 1.0:
        assert newton_schulz([[x]]) == pytest.approx(expected, abs=5e-9)
        return
    G = with_values([x])[0]
    assert np.abs(np.linalg.svd(newton_schulz(G), compute_uv=False) - expected).min() < 1e-8


@full
@pytest.mark.parametrize("gram", [True, False, "auto"])
@pytest.mark.parametrize("coefficients", ["quintic", "polar_express", "taylor", [(2.0, -1.5, 0.5), TAYLOR]])
def test_scalar_map_on_every_singular_value(coefficients, gram, torch):
    G, s, U, V = with_values([0.01, 0.1, 0.3, 0.5])
    triples, safety = {
        "quintic": (QUINTIC * 5, 1.0),
        "polar_express": (POLAR_EXPRESS, 1.02),
        "taylor": ([TAYLOR] * 5, 1.0),
    }.get(coefficients if isinstance(coefficients, str) else "", (coefficients, 1.0))
    for polish in (0, 2):
        expected = (U * scalar(s / safety, [*triples, *[TAYLOR] * polish])) @ V.T
        for X, E in ((G, expected), (G.T, expected.T)):
            found = newton_schulz(torch.tensor(X), coefficients, polish=polish, gram=gram)
            assert found.numpy() == pytest.approx(E, abs=1e-9)  # kappa^2 eps, grown 1e3-fold at the small end
            single = newton_schulz(
                torch.tensor(X, dtype=torch.float32), coefficients, polish=polish, gram=gram
            )
            assert single.numpy() == pytest.approx(E, abs=2e-3)
            plain = newton_schulz(torch.tensor(X), coefficients, polish=polish, backend="reference")
            assert plain.numpy() == pytest.approx(E, abs=1e-12)
            assert newton_schulz(X, coefficients, polish=polish) == pytest.approx(E, abs=1e-12)


def test_ranges_of_the_notes():
    x = np.geomspace(1e-2, 1, 200_001)
    quintic = scalar(x, QUINTIC * 5)
    assert quintic.min() == pytest.approx(0.6818, abs=2e-4)
    assert quintic.max() == pytest.approx(1.1344, abs=2e-4)
    assert (np.diff(quintic) < 0).any()
    wide = np.geomspace(1e-5, 1, 400_001)
    at = scalar(wide, QUINTIC * 5).argmax()
    assert scalar(wide, QUINTIC * 5)[at] == pytest.approx(1.2024, abs=1e-4)
    assert wide[at] == pytest.approx(0.00411, abs=1e-5)
    express = scalar(x, POLAR_EXPRESS)
    assert express.min() == pytest.approx(0.859, abs=1e-3)
    assert express.max() == pytest.approx(1.141, abs=1e-3)
    x = np.geomspace(1e-3, 1, 200_001)
    assert np.abs(scalar(x, [*POLAR_EXPRESS, TAYLOR, TAYLOR]) - 1).max() < 1.4e-6
    for triples, safety, gain in ((QUINTIC * 5, 1.0, 485), (POLAR_EXPRESS, 1.02, 970)):
        assert np.prod([a for a, _, _ in triples]) / safety == pytest.approx(gain, rel=1e-3)


@full
def test_is_what_torch_does_in_its_precision(torch):
    from torch.optim import _muon

    G = torch.randn(16, 200, generator=torch.Generator().manual_seed(0))
    for X in (G, G.T):
        peer = _muon._zeropower_via_newtonschulz(X, QUINTIC[0], 5, 1e-7).double()
        found = newton_schulz(X, dtype=torch.bfloat16).double()
        assert torch.linalg.matrix_norm(found - peer, 2) <= 0.05  # two bf16 runs, eps 8e-3, five steps
        assert found.dtype == torch.float64  # of the comparison
        assert newton_schulz(X, dtype=torch.bfloat16).dtype == torch.float32


@full
def test_steps_repeat_the_last_triple(torch):
    G = torch.randn(5, 20, generator=torch.Generator().manual_seed(0)).double()
    s, safety = torch.linalg.svdvals(G), 1.02
    for steps in (0, 1, 3, 8):
        triples = [POLAR_EXPRESS[min(k, 4)] for k in range(steps)]
        found = torch.linalg.svdvals(newton_schulz(G, "polar_express", steps=steps))
        expected = scalar((s / (s.norm() * safety)).numpy(), triples)
        assert found.numpy() == pytest.approx(np.sort(expected)[::-1], abs=1e-9)


@full
def test_polynomial_method_to_its_tolerance(torch):
    rng = np.random.default_rng(0)
    for kappa, error in ((10, 2e-5), (100, 5e-4)):
        s = np.logspace(0, -np.log10(kappa), 16)
        U, V = (np.linalg.qr(rng.normal(size=(n, 16)))[0] for n in (16, 512))
        G = torch.tensor((U * s) @ V.T, dtype=torch.float32)
        assert np.linalg.norm(polar_factor(G, method="polynomial").numpy() - U @ V.T, 2) <= error
        low = polar_factor(G.bfloat16(), method="polynomial").float().numpy()
        exact = polar_factor(G.bfloat16().double().numpy())
        assert np.linalg.norm(low - exact, 2) <= 2e-2


@full
def test_polishing_is_done_on_the_matrix_itself(torch):
    """On its Gram, digits are lost: 1e-2 at condition number 1e3, where the matrix itself keeps 3e-5."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(n, 16)))[0] for n in (16, 512))
    G = torch.tensor((U * np.logspace(0, -3, 16)) @ V.T, dtype=torch.float32)
    error = {}
    for gram in ("auto", False, True):
        found = newton_schulz(G, "polar_express", polish=5, gram=gram)
        error[gram] = np.linalg.norm(found.numpy() - U @ V.T, 2)
    assert error["auto"] == error[False] <= 5e-5
    assert error[True] > 1e-4


@full
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_normalisation_has_no_floor(dtype, torch):
    """torch clamps the norm at 1e-7, so that a small gradient makes a small step."""
    G = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    kind = getattr(torch, dtype)
    expected = newton_schulz(G.to(kind)).double()
    scales = (2.0**-100, 2.0**-30, 2.0**80) if dtype != "float16" else (2.0**-8, 2.0**6)
    for scale in scales:
        for gram in (True, False):
            found = newton_schulz((G * scale).to(kind), gram=gram).double()
            # float16 loses bits of small entries
            assert torch.linalg.matrix_norm(found - expected, 2) <= (5e-2 if dtype == "float16" else 1e-2)
    assert (newton_schulz(torch.zeros(2, 3, 4)) == 0).all()
    mixed = newton_schulz(torch.stack([G * 1e-35, torch.zeros(8, 64), G]))
    assert (mixed[1] == 0).all()
    assert torch.allclose(mixed[0], mixed[2], atol=1e-4)
    big = torch.full((4, 4), 6e4, dtype=torch.float16)  # squares overflow float16
    assert torch.isfinite(newton_schulz(big)).all()


@full
@pytest.mark.parametrize("method", ["auto", "polynomial"])
def test_autocast_changes_nothing(method, torch):
    G = torch.randn(3, 8, 64, generator=torch.Generator().manual_seed(0))
    expected = polar_factor(G, method=method), newton_schulz(G, gram=True), newton_schulz(G, gram=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = polar_factor(G, method=method), newton_schulz(G, gram=True), newton_schulz(G, gram=False)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@full
def test_bad_input(torch):
    G = torch.randn(2, 4, 5)
    with pytest.raises(ValueError, match=r"newton_schulz needs a matrix \(..., m, n\); got shape \(3,\)"):
        newton_schulz(torch.ones(3))
    with pytest.raises(TypeError, match=r"newton_schulz needs a real floating dtype; got torch.int64"):
        newton_schulz(torch.ones(3, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match="coefficients must be one of 'quintic'"):
        newton_schulz(G, "cubic")
    for bad in ([(1.0, 2.0)], [], [(1.0, 2.0, np.nan)], 3.0, [("a", "b", "c")]):
        with pytest.raises(ValueError, match="coefficients must be a name or a list of finite triples"):
            newton_schulz(G, bad)
    with pytest.raises(ValueError, match="steps must be >= 0"):
        newton_schulz(G, steps=-1)
    with pytest.raises(TypeError, match="polish must be an int"):
        newton_schulz(G, polish=1.5)
    with pytest.raises(ValueError, match="gram must be True, False or 'auto'"):
        newton_schulz(G, gram="yes")
    with pytest.raises(TypeError, match=r"dtype must be a floating torch.dtype"):
        newton_schulz(G, dtype=torch.int32)
    with pytest.raises(ValueError, match="backend must be one of"):
        newton_schulz(G, backend="cuda")
    with pytest.raises(RuntimeError, match="newton_schulz has no gradient; detach G"):
        newton_schulz(G.clone().requires_grad_())
    G[1, 0, 0] = np.inf
    with pytest.raises(ValueError, match=r"non-finite entries in G \(batch indices \[1\]\)"):
        newton_schulz(G)
    with pytest.raises(ValueError, match=r"non-finite entries in G \(batch indices \[1\]\)"):
        newton_schulz(G.numpy())
    with pytest.raises(TypeError, match="backend and dtype are for tensors"):
        newton_schulz(np.eye(2), dtype=torch.float32)
    assert newton_schulz(torch.empty(0, 3, 4)).shape == (0, 3, 4)
    assert newton_schulz(np.empty((2, 0, 4))).shape == (2, 0, 4)
