"""Scores against the full matrix and against steps that are taken; methods, chunks, memory, files."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import NumericalWarning
from porism.theory.selection import DualScores, dual_scores, per_sample_gradients


@pytest.fixture(autouse=True)
def torch(needs):
    return needs("torch")


def numbers(columns):
    return np.concatenate([value.flatten().numpy() for value in columns.values()])


def by_hand(net, weights, mask):
    """Gradients by central differences in double precision, no autograd: good to about 1e-9."""
    loss, val_loss, params, batch = net
    J, v = [], []
    for name, value in params.items():
        for at in np.ndindex(value.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = {key: tensor.clone() for key, tensor in params.items()}
                moved[name][at] += step
                ends.append((loss(moved, batch).numpy(), float(val_loss(moved))))
            J.append((ends[0][0] - ends[1][0]) / 2e-5)
            v.append((ends[0][1] - ends[1][1]) / 2e-5)
    return weights[:, None] * np.array(J).T * np.array(v) * mask


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), chunk=st.sampled_from([None, 1, 3]))
def test_rows_and_columns_are_sums_of_one_matrix(seed, chunk):
    import torch

    rng = np.random.default_rng(seed)
    w, m = rng.normal(size=7), rng.normal(size=9) * (rng.random(9) < 0.7)
    net = NET(seed=seed)
    mask = {"W": torch.as_tensor(m[:6].reshape(3, 2)), "w": torch.as_tensor(m[6:])}
    G = by_hand(net, w, m)
    size = np.abs(G).sum() + 1e-9
    for method in ("auto", "double_backward", "per_sample", "central"):
        found = dual_scores(*net, weights=w, mask=mask, method=method, chunk=chunk)
        assert np.abs(found.rows.numpy() - G.sum(1)).max() < 1e-7 * size
        assert np.abs(numbers(found.columns) - G.sum(0)).max() < 1e-7 * size
        assert found.total == pytest.approx(G.sum(), abs=1e-7 * size)
        assert found.imbalance <= (1e-7 if method == "central" else 1e-12) * size / np.abs(G.sum(1)).sum()


NET = None


@pytest.fixture(autouse=True)
def _share(net):
    global NET
    NET = net


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), lr=st.floats(1e-3, 0.5))
def test_shares_add_up_to_the_step_taken(seed, lr):
    loss, val_loss, params, batch = net = NET(seed=seed)
    w = np.random.default_rng(seed).uniform(0, 2, 7)
    found = dual_scores(*net, weights=w, order="path", lr=lr, nodes=24)
    each = per_sample_gradients(loss, params, batch)
    step = {name: np.tensordot(w, value.numpy(), 1) * lr / 7 for name, value in each.items()}
    import torch

    moved = {name: value - torch.as_tensor(step[name]) for name, value in params.items()}
    gain = float(val_loss(params)) - float(val_loss(moved))
    tolerance = 1e-9 * float(val_loss(params))  # weights of size 1 to 3: poles of tanh bound the quadrature
    assert found.actual == pytest.approx(gain, abs=1e-13 * (1 + float(val_loss(params))))
    assert found.total == pytest.approx(gain, abs=tolerance)
    assert float(found.rows.sum()) == pytest.approx(found.total, abs=1e-12 * float(found.rows.abs().sum()))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_end_point_is_the_derivative_in_the_weights(seed):
    net, rng = NET(seed=seed), np.random.default_rng(seed)
    w, lr, h = rng.uniform(0.5, 1.5, 7), 0.1, 1e-5
    found = dual_scores(*net, weights=w, order="endpoint", lr=lr)
    for i in range(7):
        ends = [dual_scores(*net, weights=w + s * h * np.eye(7)[i], lr=lr).actual for s in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * h)
        # rounding of losses of some units over the step, and its square times a third derivative
        assert float(found.rows[i]) == pytest.approx(w[i] * slope, abs=1e-8 * (1 + abs(slope)))


def test_second_order_of_the_first(net):
    gaps = [
        abs(found.predicted - found.actual) / lr
        for lr in (0.02, 0.01)
        for found in (dual_scores(*net(), lr=lr),)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(2, abs=0.2)


def test_cosines(net, torch):
    loss, val_loss, params, batch = net()
    mask = {"W": 1.0, "w": torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)}
    found = dual_scores(loss, val_loss, params, batch, mask=mask, norms="exact", chunk=2)
    ones = {key: torch.ones_like(value) for key, value in params.items()}
    leaves = {key: value.clone().requires_grad_() for key, value in params.items()}
    v = torch.autograd.grad(val_loss(leaves), list(leaves.values()))
    m = torch.cat([torch.ones(6), torch.tensor([1.0, 0.0, 2.0])]).double()
    way = torch.cat([part.flatten() for part in v]) * m
    each = per_sample_gradients(loss, params, batch)
    J = torch.cat([value.flatten(1) for value in each.values()], 1) * (m != 0)
    assert set(ones) == set(each)
    expected = (J @ way) / J.norm(dim=1) / way.norm()
    torch.testing.assert_close(found.cosines, expected, rtol=1e-12, atol=1e-14)
    assert dual_scores(loss, val_loss, params, batch).cosines is None


def test_both_references_agree(net, torch):
    loss, _, params, batch = net()
    loop, both = (per_sample_gradients(loss, params, batch, method=name) for name in ("loop", "vmap"))
    for name in params:
        assert loop[name].shape == (7, *params[name].shape)
        torch.testing.assert_close(loop[name], both[name], rtol=1e-12, atol=1e-14)


def test_no_array_of_samples_times_parameters(torch):
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            largest.extend(
                x.numel() for x in (out if isinstance(out, tuple) else (out,)) if hasattr(x, "numel")
            )
            return out

    draws = torch.Generator().manual_seed(0)
    x = torch.randn(50, 20, generator=draws)
    params = {"W": torch.randn(30, 20, generator=draws), "w": torch.randn(30, generator=draws)}

    def loss(p, batch):
        return (torch.tanh(batch @ p["W"].T) @ p["w"]) ** 2

    for method in ("jvp", "double_backward", "central", "per_sample"):
        largest.clear()
        with Watch():
            dual_scores(loss, lambda p: loss(p, x).mean(), params, x, method=method)
        # activations are 50 x 30, the parameters 630, the matrix 50 x 630
        assert (max(largest) >= 50 * 600) == (method == "per_sample"), method
        assert max(largest) <= 1500 or method == "per_sample"


def test_unsupported_operations_fall_through(net, torch):
    loss, val_loss, params, batch = net()

    class OneWay(torch.autograd.Function):
        """Has neither forward mode nor a second derivative."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    class TwoWay(OneWay):
        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    for kind, methods in ((TwoWay, ["double_backward"]), (OneWay, ["central"])):

        def cut(p, batch, kind=kind):
            return kind.apply(loss(p, batch))

        exact = dual_scores(cut, val_loss, params, batch, method="per_sample").rows
        found = dual_scores(cut, val_loss, params, batch)
        assert [found.method] == methods
        assert [note.split(":")[0] for note in found.fallbacks] == ["jvp", "double_backward"][
            : 1 if kind is TwoWay else 2
        ]
        assert "not supported: jvp" in found.summary()
        torch.testing.assert_close(found.rows, exact, rtol=1e-6, atol=1e-8)


def test_fused_attention(torch):
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(4, 2, 6, 8, generator=draws)
    params = {"q": torch.randn(8, 8, generator=draws), "v": torch.randn(8, 8, generator=draws)}

    def loss(p, batch):
        out = torch.nn.functional.scaled_dot_product_attention(batch @ p["q"], batch, batch @ p["v"])
        return out.square().mean((1, 2, 3))

    arguments = loss, lambda p: loss(p, x[:2] + 1).mean(), params, x
    exact = dual_scores(*arguments, method="per_sample")
    for method, close in (("jvp", 1e-5), ("double_backward", 1e-5), ("central", 2e-3)):
        found = dual_scores(*arguments, method=method)
        assert (found.method, found.fallbacks) == (method, ())
        assert float((found.rows - exact.rows).norm() / exact.rows.norm()) < close


def test_differences_of_tensors_of_unlike_size(torch):
    """A small tensor with most of the slope sets the step: a step for the large one would leave its curve."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(9, 4, generator=draws)
    params = {"small": 0.02 * torch.randn(4, generator=draws), "large": 3 + torch.randn(4, generator=draws)}

    def loss(p, batch):
        return torch.sin(50 * batch @ p["small"]) + 0.01 * batch @ p["large"]

    arguments = loss, lambda p: loss(p, x[:3]).mean(), params, x
    exact, found = (dual_scores(*arguments, method=name).rows for name in ("jvp", "central"))
    assert float((found - exact).norm() / exact.norm()) < 5e-3


def test_too_few_nodes_warn(net):
    # weights three times as large: the path crosses the bend of tanh
    loss, val_loss, params, batch = net()
    steep = {name: 3 * value for name, value in params.items()}
    with pytest.warns(NumericalWarning, match="path total .* raise nodes from 2"):
        found = dual_scores(loss, val_loss, steep, batch, order="path", lr=1.0, nodes=2)
    assert found.imbalance < 1e-12


def test_single_precision_does_not_warn(net):
    found = dual_scores(*net(dtype="float32"), order="path", lr=0.05)
    assert found.rows.dtype == found.columns["W"].dtype
    assert found.predicted == pytest.approx(found.actual, abs=1e-5)


def test_weights_keep_their_digits_beside_half_precision(net):
    """Parameters in bfloat16 and losses in float32: a weight of 0.1 in 8 bits is off by 1e-3."""
    loss, val_loss, params, batch = net(dtype="float32")

    def single(p):
        return {name: value.float() for name, value in p.items()}

    half = {name: value.bfloat16() for name, value in params.items()}
    plain, weighted = (
        dual_scores(lambda p, b: loss(single(p), b), lambda p: val_loss(single(p)), half, batch, weights=w)
        for w in (None, [0.1] * 7)
    )
    np.testing.assert_allclose(weighted.rows, 0.1 * plain.rows, rtol=1e-6)  # of float32


def test_a_parameter_without_axes_is_one_column(net, torch):
    loss, val_loss, params, batch = net()
    params["c"] = torch.tensor(0.3, dtype=torch.float64)

    def shifted(p, part):
        return loss(p, {"x": part["x"], "y": [part["y"][0] - p["c"]]})

    found, plain = (
        dual_scores(shifted, val_loss, params, batch, norms="exact", method=method)
        for method in ("jvp", "per_sample")
    )
    np.testing.assert_allclose(found.rows, plain.rows, rtol=1e-12)
    np.testing.assert_allclose(found.cosines, plain.cosines, rtol=1e-12)
    assert found.columns["c"].shape == ()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sums_by_tensor_add_up_in_any_precision(net, torch, dtype):
    """In bfloat16 a sum of many columns would keep three digits."""
    loss, val_loss, params, batch = net(dtype="float64")
    kind = getattr(torch, dtype)
    low = {name: value.to(kind) for name, value in params.items()}

    def wide(p):
        return {name: value.double() for name, value in p.items()}

    found = dual_scores(lambda p, b: loss(wide(p), b), lambda p: val_loss(wide(p)), low, batch)
    assert sum(found.by_tensor().values()) == pytest.approx(found.total, rel=1e-12)


@pytest.mark.filterwarnings("error")
def test_weights_that_may_only_be_read(net):
    weights = np.arange(7.0)
    weights.flags.writeable = False
    assert dual_scores(*net(), weights=weights).rows[0] == 0


def test_parameters_are_left_alone(net, torch):
    loss, val_loss, params, batch = net()
    before = {name: value.clone() for name, value in params.items()}
    leaves = {name: torch.nn.Parameter(value) for name, value in params.items()}
    state = torch.get_rng_state()
    dual_scores(loss, val_loss, leaves, batch, order="path", lr=0.1)
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in leaves.items():
        assert value.grad is None
        assert torch.equal(value, before[name])


def test_a_result_is_kept(net, tmp_path):
    found = dual_scores(*net(), lr=0.1, norms="exact")
    found.save(tmp_path / "scores.npz")
    again = DualScores.load(tmp_path / "scores.npz")
    np.testing.assert_array_equal(again.rows, found.rows.numpy())
    np.testing.assert_array_equal(again.columns["W"], found.columns["W"].numpy())
    assert again.total == found.total
    assert again.summary() == found.summary()
    assert "improvement" in found.summary(2)
    assert sum(found.by_tensor().values()) == pytest.approx(found.total)


@pytest.mark.full
def test_a_table_of_samples(net, needs):
    needs("pandas")
    frame = dual_scores(*net(), norms="exact").to_frame()
    assert list(frame.columns) == ["rows", "cosines"]
    assert len(frame) == 7
    assert frame.attrs["order"] == "first"
