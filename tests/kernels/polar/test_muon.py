"""SpectralMuon beside torch.optim.Muon with its orthogonaliser replaced, and what a drop-in must keep."""

import copy
import doctest
import io

import numpy as np
import pytest

from porism.kernels import polar

pytestmark = pytest.mark.full


SHAPES = [(4, 30), (30, 4), (4, 30), (6, 6), (1, 9), (5, 3)]


def drawn(torch, dtype=None, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(*s, generator=g, dtype=torch.float64).to(dtype)) for s in SHAPES]


def give(torch, params, step):
    g = torch.Generator().manual_seed(100 + step)
    for p in params:
        p.grad = torch.randn(*p.shape, generator=g, dtype=torch.float64).to(p.dtype)


def exact(G, *_):
    """A float64 SVD in the place of torch's polynomial."""
    import torch

    U, s, V = torch.linalg.svd(G.double(), full_matrices=False)
    return ((U * (s > 1e-12 * s[0])) @ V).to(G.dtype)


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("momentum", [0.0, 0.6, 0.95])
@pytest.mark.parametrize("scale", ["original", "match_rms_adamw"])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_torch_muon_with_an_exact_orthogonaliser(nesterov, momentum, scale, decay, torch, monkeypatch):
    monkeypatch.setattr("torch.optim._muon._zeropower_via_newtonschulz", exact)
    ours, theirs = drawn(torch, torch.float64), drawn(torch, torch.float64)
    single = drawn(torch, torch.float32)
    options = {"lr": 0.1, "momentum": momentum, "nesterov": nesterov, "weight_decay": decay}
    mine = polar.SpectralMuon(ours, shape_scale=scale, **options)
    small = polar.SpectralMuon(single, shape_scale=scale, **options)
    peer = torch.optim.Muon(theirs, adjust_lr_fn=scale, **options)
    for step in range(6):
        for optimizer, params in ((mine, ours), (peer, theirs), (small, single)):
            give(torch, params, step)
            optimizer.step()
    for p, q, s in zip(ours, theirs, single, strict=True):
        assert torch.allclose(p, q, atol=1e-10, rtol=0)
        assert torch.allclose(mine.state[p]["momentum_buffer"], peer.state[q]["momentum_buffer"], atol=1e-14)
        # float32: six steps of at most 0.12, and a direction of a Gaussian 6 x 6 feels rounding kappa times
        assert torch.allclose(s.double(), q, atol=2e-4, rtol=0)


def test_no_shape_scale_is_none(torch):
    p = torch.nn.Parameter(torch.zeros(8, 2))
    p.grad = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    polar.SpectralMuon([p], lr=0.5).step()
    assert torch.linalg.svdvals(p.detach()).numpy() == pytest.approx([0.5, 0.5], abs=1e-6)
    for scale, factor in (("original", 2.0), ("match_rms_adamw", 0.2 * 8**0.5)):
        q = torch.nn.Parameter(torch.zeros(8, 2))
        q.grad = p.grad
        polar.SpectralMuon([q], lr=0.5, shape_scale=scale).step()
        assert torch.linalg.svdvals(q.detach()).numpy() == pytest.approx([0.5 * factor] * 2, abs=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("nesterov", [True, False])
def test_neither_gradient_nor_momentum_is_overwritten(nesterov, dtype, torch):
    """torch 2.13 normalises bfloat16 momentum in place without Nesterov: its norm is 1 after every step."""
    p = torch.nn.Parameter(torch.zeros(16, 64, dtype=getattr(torch, dtype)))
    optimizer = polar.SpectralMuon([p], lr=0.01, nesterov=nesterov)
    expected = torch.zeros(16, 64)
    for step in range(3):
        give(torch, [p], step)
        kept = p.grad.clone()
        expected = 0.95 * expected + 0.05 * p.grad.float()
        optimizer.step()
        assert torch.equal(p.grad, kept)
        buffer = optimizer.state[p]["momentum_buffer"]
        assert buffer.dtype == p.dtype
        assert torch.allclose(buffer.float(), expected, rtol=0.05, atol=1e-2)
    assert buffer.float().norm() > 1.5


def test_bf16_parameters(torch):
    ours, wide = drawn(torch, torch.bfloat16), drawn(torch, torch.bfloat16)
    wide = [torch.nn.Parameter(p.detach().float()) for p in wide]
    a, b = (polar.SpectralMuon(ps, lr=0.25, momentum=0.0, weight_decay=0.1) for ps in (ours, wide))
    give(torch, ours, 0)
    for p, q in zip(ours, wide, strict=True):
        q.grad = p.grad.float()
    a.step(), b.step()
    for p, q in zip(ours, wide, strict=True):
        assert p.dtype == torch.bfloat16
        assert torch.allclose(p.float(), q, atol=2.0**-6, rtol=2.0**-6)  # bf16 rounds the parameter twice


def test_rank_deficient_and_zero_gradients(torch):
    """The start of LoRA: B = 0 makes the gradient of A zero, so A must not move."""
    B, A = torch.nn.Parameter(torch.zeros(12, 3)), torch.nn.Parameter(torch.randn(3, 10))
    X, start = torch.randn(10, 7), A.detach().clone()
    optimizer = polar.SpectralMuon([B, A], lr=0.1)
    (B @ A @ X).sum().backward()
    optimizer.step()
    assert torch.equal(A.detach(), start)
    s = torch.linalg.svdvals(B.detach())
    assert s[0] == pytest.approx(0.1, rel=1e-5)
    assert s[1] < 1e-7  # the gradient has rank one: one direction moves


def test_smoothing_holds_noise_back(torch):
    noise = 1e-9 * torch.randn(3, 10, generator=torch.Generator().manual_seed(0))
    update = (0.05 + 0.95 * 0.05) * noise  # what Nesterov makes of a first gradient
    for smoothing, low, high in ((0.0, 0.999, 1.001), (1e-4, 0.0, 1e-4)):
        p = torch.nn.Parameter(torch.zeros(3, 10))
        p.grad = noise.clone()
        polar.SpectralMuon([p], lr=1.0, smoothing=smoothing).step()
        assert low <= torch.linalg.matrix_norm(p.detach(), 2) <= high
        expected = polar.polar_factor(update, smoothing=smoothing)
        assert torch.allclose(-p, expected, rtol=1e-4, atol=1e-7 * high)


def test_state_dict_round_trip(torch):
    params, again = drawn(torch, torch.float32), drawn(torch, torch.float32)
    make = lambda ps: polar.SpectralMuon(
        [{"params": ps[:2], "lr": 0.3, "nesterov": False}, {"params": ps[2:], "weight_decay": 0.1}],
        lr=0.1, shape_scale="original", smoothing=0.01,
    )  # fmt: skip
    first = make(params)
    for step in range(3):
        give(torch, params, step)
        first.step()
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = polar.SpectralMuon([{"params": again[:2]}, {"params": again[2:]}], lr=9.0)
    second.load_state_dict(torch.load(file, weights_only=True))
    with torch.no_grad():
        for p, q in zip(params, again, strict=True):
            q.copy_(p)
    for step in range(3, 6):
        for optimizer, ps in ((first, params), (second, again)):
            give(torch, ps, step)
            optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(params, again, strict=True))
    third = copy.deepcopy(first)
    third.step()
    assert [group["lr"] for group in third.param_groups] == [0.3, 0.1]


def test_buffers_of_torch_go_on(torch, monkeypatch):
    monkeypatch.setattr("torch.optim._muon._zeropower_via_newtonschulz", exact)
    ours, theirs = drawn(torch, torch.float64), drawn(torch, torch.float64)
    peer = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.0)
    mine = polar.SpectralMuon(ours, lr=0.1, shape_scale="original")
    give(torch, theirs, 0)
    peer.step()
    with torch.no_grad():
        for p, q in zip(ours, theirs, strict=True):
            p.copy_(q)
    mine.load_state_dict({**mine.state_dict(), "state": copy.deepcopy(peer.state_dict()["state"])})
    for optimizer, params in ((mine, ours), (peer, theirs)):
        give(torch, params, 1)
        optimizer.step()
    assert all(torch.allclose(p, q, atol=1e-12) for p, q in zip(ours, theirs, strict=True))


def test_groups_follow_their_options(torch):
    params = drawn(torch, torch.float64)
    give(torch, params, 0)
    start = [p.detach().clone() for p in params]
    polar.SpectralMuon([{"params": params[:3], "lr": 0.5}, {"params": params[3:]}], lr=0.25).step()
    for k, (p, before) in enumerate(zip(params, start, strict=True)):
        moved = torch.linalg.svdvals(before - p.detach()).numpy()
        assert moved == pytest.approx(np.full(len(moved), 0.5 if k < 3 else 0.25), abs=1e-9)


def test_parameters_without_gradient_and_closure(torch):
    p, q = torch.nn.Parameter(torch.eye(3)), torch.nn.Parameter(torch.eye(3))
    optimizer = polar.SpectralMuon([p, q], lr=0.1)

    def closure():
        optimizer.zero_grad()
        assert torch.is_grad_enabled()
        loss = p.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 3.0
    assert torch.equal(q.detach(), torch.eye(3))
    assert q not in optimizer.state
    assert torch.allclose(p.detach(), 0.9 * torch.eye(3))
    assert optimizer.step() is None


def test_sparse_and_complex(torch):
    p = torch.nn.Parameter(torch.eye(3))
    p.grad = torch.eye(3).to_sparse()
    with pytest.raises(RuntimeError, match="SpectralMuon does not support sparse gradients"):
        polar.SpectralMuon([p], lr=0.1).step()
    c = torch.nn.Parameter(torch.eye(3, dtype=torch.complex64))
    c.grad = torch.eye(3, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match="SpectralMuon does not support complex parameters"):
        polar.SpectralMuon([c], lr=0.1).step()


def test_nan_reaches_its_own_parameter_only(torch):
    params = [torch.nn.Parameter(torch.zeros(3, 5)) for _ in range(3)]
    for k, p in enumerate(params):
        p.grad = torch.full_like(p, torch.nan) if k == 1 else torch.randn(3, 5)
    polar.SpectralMuon(params, lr=0.1).step()
    assert [bool(p.isnan().any()) for p in params] == [False, True, False]


def test_schedule_tensor_rate_and_layout(torch):
    p = torch.nn.Parameter(torch.zeros(8, 3).T)  # not contiguous
    q = torch.nn.Parameter(torch.zeros(3, 8))
    rate = torch.tensor(0.5)
    a, b = polar.SpectralMuon([p], lr=rate), polar.SpectralMuon([q], lr=0.5)
    turn = torch.optim.lr_scheduler.StepLR(b, 1, 0.5)
    for step in range(3):
        give(torch, [q], step)
        p.grad = q.grad.T.contiguous().T
        a.step(), b.step(), turn.step()
        a.param_groups[0]["lr"] = torch.tensor(0.5 ** (step + 2))
    assert torch.allclose(p, q, atol=1e-6)
    assert b.param_groups[0]["lr"] == 0.0625


def test_many_parameters_in_chunks(torch, monkeypatch):
    from porism.kernels.polar import _muon

    one, two = drawn(torch, torch.float32), drawn(torch, torch.float32)
    polar_one, polar_two = polar.SpectralMuon(one, lr=0.1), polar.SpectralMuon(two, lr=0.1)
    give(torch, one, 0), give(torch, two, 0)
    polar_one.step()
    monkeypatch.setattr(_muon, "CHUNK", 1)
    polar_two.step()
    assert all(torch.allclose(p, q, atol=1e-6) for p, q in zip(one, two, strict=True))


@pytest.mark.parametrize("method", ["auto", "gram", "svd", "polynomial"])
def test_methods_and_autocast(method, torch):
    params, others = drawn(torch, torch.float32), drawn(torch, torch.float32)
    for ps in (params, others):
        give(torch, ps, 0)
    start = [p.detach().clone() for p in params]
    polar.SpectralMuon(params, lr=1.0, method=method).step()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        polar.SpectralMuon(others, lr=1.0, method=method).step()
    for p, q, before in zip(params, others, start, strict=True):
        assert torch.equal(p, q)
        s = torch.linalg.svdvals(before - p.detach())
        assert s.numpy() == pytest.approx(np.ones(len(s)), abs=1e-3)


def test_it_trains(torch):
    torch_g = torch.Generator().manual_seed(0)
    target = torch.randn(10, 4, generator=torch_g) @ torch.randn(4, 12, generator=torch_g)
    B = torch.nn.Parameter(torch.zeros(10, 4))
    A = torch.nn.Parameter(0.01 * torch.randn(4, 12, generator=torch_g))
    # the steps sum to 0.2 / 0.03 = 6.7, the largest value of the target needs its root, 3.8
    optimizer = polar.SpectralMuon([B, A], lr=0.2, momentum=0.5)
    turn = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    for _ in range(300):
        optimizer.zero_grad()
        loss = (B @ A - target).square().sum()
        loss.backward()
        optimizer.step(), turn.step()
    assert float(loss.detach()) < 1e-3 * float(target.square().sum())


def test_refused(torch):
    make = polar.SpectralMuon
    matrix = torch.nn.Parameter(torch.eye(2))
    for shape in ((5,), (), (2, 3, 4)):
        message = f"SpectralMuon only supports 2-D parameters, got one of shape {shape}".replace("(", r"\(")
        with pytest.raises(ValueError, match=message.replace(")", r"\)")):
            make([torch.nn.Parameter(torch.zeros(shape))], lr=0.1)
    optimizer = make([matrix], lr=0.1)
    with pytest.raises(ValueError, match=r"2-D parameters, got one of shape \(5,\)"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(5))]})
    assert len(optimizer.param_groups) == 1
    for name, value, message in [
        ("lr", -0.1, "lr must be >= 0 and finite"),
        ("lr", float("nan"), "lr must be >= 0 and finite"),
        ("momentum", 1.0, r"momentum must be in \[0, 1\)"),
        ("momentum", -0.1, "momentum must be in"),
        ("weight_decay", -1.0, "weight_decay must be >= 0"),
        ("shape_scale", "rms", "shape_scale must be one of 'original', 'match_rms_adamw'"),
        ("method", "qr", "method must be one of"),
        ("smoothing", -1.0, "smoothing must be a finite number >= 0"),
        ("lr", torch.ones(2), "lr must have one element"),
    ]:
        with pytest.raises(ValueError, match=message):
            make([matrix], **{"lr": 0.1, name: value})
    with pytest.raises(ValueError, match="method='polynomial' has no smoothing"):
        make([matrix], lr=0.1, method="polynomial", smoothing=0.1)


def test_examples(torch):
    from porism.kernels.polar import _muon

    assert doctest.testmod(_muon).failed == 0
