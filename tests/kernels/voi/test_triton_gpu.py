"""The Triton path of the value of information on a GPU; skipped without one by conftest.py."""

import numpy as np
import pytest

from porism.kernels import voi
from porism.theory.pandora import inspection_halfwidth

pytestmark = [pytest.mark.gpu, pytest.mark.full]


@pytest.mark.parametrize("rule", ["net", "index"])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [1, 2, 9, 63, 64, 65, 129, 1024])
def test_as_the_cpu_path(K, dtype, each, rule, torch):
    rng = np.random.default_rng(K)
    n = 3001
    nu = rng.uniform(0.0, 0.6, (n, K) if each else K)
    c = nu * rng.uniform(0.0, 0.45, nu.shape)
    m = rng.normal(size=(n, K)).astype(dtype)
    m[7, K // 2] = np.nan
    args = nu, c, inspection_halfwidth(nu, c)
    options = {"price": 0.2 * rng.random(K), "outside": 0.1, "rule": rule}
    options["done"] = rng.integers(-(2**63), 2**63 - 1, (n, (K + 63) // 64))
    exact = voi.voi_argmax(m, *args, **options)
    found = voi.voi_argmax(torch.tensor(m, device="cuda"), *args, **options)
    assert all(part.is_cuda for part in found)
    again = voi.voi_argmax(torch.tensor(m, device="cuda"), *args, **options)
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(found, again, strict=True))
    net, arg, top, gap = (part.cpu().numpy() for part in found)
    least = 2e-6 * nu.max() + 1e-7 * np.nanmax(np.abs(m))
    differs = arg != exact[1]
    assert differs.mean() < 1e-3  # float32 moves the edge of a band by 1e-7 of the spread of the means
    if rule == "net":
        assert net == pytest.approx(exact[0], abs=least, nan_ok=True)
    assert net[~differs] == pytest.approx(exact[0][~differs], abs=least, nan_ok=True)
    assert (top != exact[2]).mean() < 1e-3
    assert gap == pytest.approx(exact[3], abs=4 * least, nan_ok=True)
