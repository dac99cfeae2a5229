"""The same numbers on a GPU."""

import numpy as np
import pytest

from porism.theory.token_capacity import choose_positions, coverage, effective_rank, position_ntk

pytestmark = [pytest.mark.gpu, pytest.mark.full]


def test_arrays(needs):
    torch = needs("torch")
    rng = np.random.default_rng(0)
    X, G = rng.normal(size=(6, 4, 5)), rng.normal(size=(6, 4, 3))
    for tied in (False, True):
        found = position_ntk(torch.tensor(X, device="cuda"), torch.tensor(G, device="cuda"), tied=tied)
        assert found.device.type == "cuda"
        np.testing.assert_allclose(found.cpu(), position_ntk(X, G, tied=tied), rtol=0, atol=1e-10)
        np.testing.assert_allclose(effective_rank(found).cpu(), effective_rank(found.cpu()), rtol=1e-9)
    second = np.einsum("nti,ntj->tij", X, X)
    curve = coverage(torch.tensor(second, device="cuda"), range(4))
    assert curve.device.type == "cuda"
    np.testing.assert_allclose(curve.cpu(), coverage(second, range(4)), rtol=0, atol=1e-12)


def test_choice(needs):
    torch = needs("torch")
    from porism.sims.tiny_transformer import TinyConfig, TinyTransformer

    model = TinyTransformer(TinyConfig(vocab=30, d=16, heads=2), seed=0).double()
    ids = torch.randint(30, (6, 9), generator=torch.Generator().manual_seed(0))
    expected, found = choose_positions(model, [ids]), choose_positions(model.cuda(), [ids.cuda()])
    assert (found.k, found.layer) == (expected.k, expected.layer)
    np.testing.assert_allclose(found.curve, expected.curve, rtol=0, atol=1e-9)
