"""Subset attention: against the definition and its autograd, torch's own, and finite differences."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.kernels.subset_attention import subset_attention

pytestmark = pytest.mark.full

MASKS = list(itertools.product((True, False), (0, 1, 4)))
TOLERANCE = {
    "float64": 1e-12,
    "float32": 2e-5,
    "float16": 2e-2,
    "bfloat16": 2e-2,
}  # promised in the docstring


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_case_by_hand(torch, backend):
    """Probabilities .506480391056, .307195885718, .186323723226 of two frozen keys and a fresh one."""
    row = lambda *rows: torch.tensor([[rows]], dtype=torch.float64)
    q, k, v = (x.requires_grad_() for x in (row([1, 0.5]), row([0.5, -1]), row([-1, 1])))
    out = subset_attention(
        q, k, v, row([1, 0], [0, 1]), row([1, 2], [3, 4]), scale=1.0, backend=backend,
        index_query=torch.tensor([2]), index_frozen=torch.tensor([0, 1]),
    )  # fmt: skip
    made = torch.autograd.grad(out, (q, k, v), row([1, -2]))
    expected = [
        [1.241744324985, 2.428068048211],
        [0.368415266, -0.540128909],
        [0.114475762, 0.057237881],
        [0.186323723, -0.372647446],
    ]
    tolerances = [1e-9, 1e-8, 1e-8, 1e-8]
    for got, want, least in zip((out, *made), expected, tolerances, strict=True):
        assert got.detach().ravel().tolist() == pytest.approx(want, abs=least)


@pytest.mark.parametrize("group", [1, 2, 4])
def test_as_the_definition(k, U, group, problem, everything, error):
    for causal, window in MASKS:
        tensors, places, grad = problem(k, U, group)
        places |= {"causal": causal, "window": window, "valid_frozen": places["index_frozen"] % 3 != 1}
        exact = everything(subset_attention, tensors, grad, backend="reference", **places)
        assert error(everything(subset_attention, tensors, grad, **places), exact) <= TOLERANCE["float64"]


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("causal", [True, False])
def test_precisions(kind, causal, torch, problem, everything, error):
    tensors, places, grad = problem(17, 64, 2, getattr(torch, kind), d=33)
    found = everything(subset_attention, tensors, grad, causal=causal, **places)
    assert {x.dtype for x in found} == {getattr(torch, kind)}
    wide = [x.detach().double().requires_grad_() for x in tensors]
    exact = everything(subset_attention, wide, grad.double(), causal=causal, backend="reference", **places)
    assert error(found, exact) <= TOLERANCE[kind]


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("causal", [True, False])
def test_no_frozen_keys_is_ordinary_attention(causal, group, torch, problem, everything, error):
    tensors, _, grad = problem(17, 0, group, d=8)
    places = {"index_query": torch.arange(17), "causal": causal}
    ordinary = lambda q, k, v, *_: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal, enable_gqa=True
    )
    exact = everything(ordinary, tensors, grad)
    assert error(everything(subset_attention, tensors[:3], grad, **places), exact) <= 1e-12
    places["index_frozen"] = torch.zeros(0, dtype=torch.int64)
    assert error(everything(subset_attention, tensors, grad, **places), exact) <= 1e-12


@pytest.mark.parametrize(("causal", "window"), MASKS)
def test_as_torch_with_a_mask_of_distances(causal, window, torch, problem, everything, error):
    """All keys at once; not causal, the window reaches to both sides."""
    tensors, places, grad = problem(17, 33, 4, d=8)
    at, rest = places["index_query"].long(), places["index_frozen"].long()
    distance = at[:, :, None] - torch.cat([rest, at], 1)[:, None, :]
    seen = torch.ones_like(distance, dtype=torch.bool)
    if causal:
        seen &= distance >= 0
    if window:
        seen &= distance.abs() < window

    def ordinary(q, k, v, k_frozen, v_frozen):
        return torch.nn.functional.scaled_dot_product_attention(
            q, torch.cat([k_frozen, k], 2), torch.cat([v_frozen, v], 2), attn_mask=seen[:, None],
            enable_gqa=True,
        )  # fmt: skip

    exact = everything(ordinary, tensors, grad)
    found = everything(subset_attention, tensors, grad, causal=causal, window=window, **places)
    assert error(found, exact) <= 1e-12


@pytest.mark.parametrize(("causal", "window"), [(True, 0), (False, 0), (True, 3), (False, 3)])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_finite_differences(group, causal, window, torch, problem):
    tensors, places, _ = problem(3, 5, group, d=3, B=1)
    places["valid_fresh"] = torch.tensor([[True, True, False]])
    call = lambda q, k, v: subset_attention(q, k, v, *tensors[3:], causal=causal, window=window, **places)
    assert torch.autograd.gradcheck(call, tensors[:3])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_rows_that_see_nothing(backend, torch, problem, everything):
    tensors, places, grad = problem(3, 5, 2)
    places |= {"index_query": torch.tensor([2, 9, 4]), "index_fresh": torch.tensor([20, 21, 22])}
    places["index_frozen"] = torch.arange(5, 10)
    out, dq, dk, dv = everything(subset_attention, tensors, grad, backend=backend, **places)
    assert not out[:, :, [0, 2]].any()
    assert not dq[:, :, [0, 2]].any()
    assert out[:, :, 1].abs().min() > 0
    assert dq[:, :, 1].abs().min() > 0
    assert not dk.any()
    assert not dv.any()
    places["valid_frozen"] = torch.zeros(5, dtype=torch.bool)
    assert not any(x.any() for x in everything(subset_attention, tensors, grad, backend=backend, **places))


def test_keys_that_are_not_valid_may_hold_anything(torch, problem, everything):
    (q, k, v, k_frozen, v_frozen), places, grad = problem(3, 5, 2)
    places |= {"valid_fresh": torch.tensor([True, False, True]), "valid_frozen": torch.arange(5) != 3}
    tensors = q, k, v, k_frozen, v_frozen
    clean = everything(subset_attention, tensors, grad, **places)
    with torch.no_grad():
        k[:, :, 1], v[:, :, 1], k_frozen[:, :, 3], v_frozen[:, :, 3] = [math.nan, math.inf] * 2
    dirty = everything(subset_attention, tensors, grad, **places)
    assert all(torch.equal(a, b) for a, b in zip(clean, dirty, strict=True))
    assert not clean[2][:, :, 1].any()
    assert not clean[3][:, :, 1].any()


def test_large_scores_do_not_overflow(torch, problem, everything, error):
    tensors, places, grad = problem(16, 33, 2, torch.float32)
    found = everything(subset_attention, tensors, grad, scale=1e4, **places)
    assert all(torch.isfinite(x).all() for x in found)
    exact = everything(subset_attention, tensors, grad, scale=1e4, backend="reference", **places)
    assert error(found[:1], exact[:1]) <= 1e-3  # scores of 1e4 are rounded by 1e-3 in float32


def test_frozen_keys_get_no_gradient(torch, problem):
    """None for them, even where they ask; and no operation of the backward pass makes one of their shape."""
    from torch.utils._python_dispatch import TorchDispatchMode

    made = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and not function.is_view:
                made.append(tuple(out.shape))
            return out

    tensors, places, grad = problem(3, 64, 2, d=7)
    frozen = [x.requires_grad_() for x in tensors[3:]]
    out = subset_attention(*tensors, **places)
    with Watch():
        out.backward(grad)
    assert [x.grad for x in frozen] == [None, None]
    assert all(x.grad is not None for x in tensors[:3])
    assert made
    assert not [shape for shape in made if shape[-2:] in ((64, 7), (7, 64)) or 64 in shape[:-1]]


def test_gradients_that_nobody_wants_are_not_made(torch, problem):
    tensors, places, grad = problem(3, 5, 2)
    full = torch.autograd.grad(subset_attention(*tensors, **places), tensors[:3], grad)
    for only in range(3):
        some = [x.detach().requires_grad_(n == only) for n, x in enumerate(tensors[:3])]
        (alone,) = torch.autograd.grad(subset_attention(*some, *tensors[3:], **places), some[only], grad)
        assert torch.equal(alone, full[only])
    assert not subset_attention(*[x.detach() for x in tensors], **places).requires_grad


def test_products_are_those_of_the_floor(torch, problem):
    """``4 k T d`` forward, ``6 k U d + 10 k^2 d`` backward, for each query head of each row."""
    from torch.utils.flop_counter import FlopCounterMode

    k, U, d, heads = 16, 64, 5, 2 * 4
    tensors, places, grad = problem(k, U, 2, d=d)
    with FlopCounterMode(display=False) as forward:
        out = subset_attention(*tensors, **places)
    with FlopCounterMode(display=False) as backward:
        out.backward(grad)
    assert forward.get_total_flops() == heads * 4 * k * (k + U) * d
    assert backward.get_total_flops() == heads * (6 * k * U * d + 10 * k * k * d)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_what_is_kept(backend, torch, problem):
    """The inputs as they are, output, logsumexp, indices, flags: nothing of size queries x keys, no copy."""
    tensors, places, _ = problem(16, 64, 4, torch.float32)
    places["valid_frozen"] = torch.ones(2, 64, dtype=torch.bool)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        out = subset_attention(*tensors, backend=backend, **places)
    known = {x.untyped_storage().data_ptr() for x in (*tensors, out, *places.values())}
    extra = [x for x in kept if x.untyped_storage().data_ptr() not in known]
    if backend == "reference":  # the check can fail
        assert sum(x.numel() for x in extra) > out.numel()
    else:
        assert [tuple(x.shape) for x in extra] == [(2, 8, 16)]
        assert len(kept) <= 11


def test_views_and_empty_axes(torch, problem, everything, error):
    tensors, places, grad = problem(16, 33, 2, d=6)
    plain = everything(subset_attention, tensors, grad, **places)
    twisted = [x.detach().transpose(1, 2).contiguous().transpose(1, 2) for x in tensors]
    twisted[3] = torch.stack([twisted[3], twisted[3] * 0], -1)[..., 0]
    twisted = [x.requires_grad_(n < 3) for n, x in enumerate(twisted)]
    grad = grad.mT.contiguous().mT
    assert error(everything(subset_attention, twisted, grad, **places), plain) <= 1e-14
    for shape in ({"B": 0, "k": 3, "U": 4}, {"k": 0, "U": 4}, {"k": 0, "U": 0}):
        tensors, places, grad = problem(**shape)
        made = everything(subset_attention, tensors, grad, **places)
        assert [x.shape for x in made] == [x.shape for x in tensors[:1] + tensors[:3]]


def test_order_of_positions_does_not_matter(torch, problem, everything, error):
    tensors, places, grad = problem(17, 33, 2)
    plain = everything(subset_attention, tensors, grad, window=9, **places)
    turn, other = torch.randperm(17), torch.randperm(33)
    q, k, v, k_frozen, v_frozen = tensors
    moved = (
        *(x[:, :, turn].detach().requires_grad_() for x in (q, k, v)),
        k_frozen[:, :, other],
        v_frozen[:, :, other],
    )
    places = {"index_query": places["index_query"][:, turn], "index_frozen": places["index_frozen"][:, other]}
    found = everything(subset_attention, moved, grad[:, :, turn], window=9, **places)
    assert error(found, [x[:, :, turn] for x in plain]) <= 1e-12


def test_it_is_differentiable_once(torch, problem):
    tensors, places, _ = problem(3, 5, 2)
    with pytest.raises(NotImplementedError, match="differentiable once, got create_graph=True"):
        torch.autograd.grad(subset_attention(*tensors, **places).sum(), tensors[:1], create_graph=True)
    out = subset_attention(*tensors, backend="reference", **places)
    (dq,) = torch.autograd.grad(out.sum(), tensors[:1], create_graph=True)
    assert torch.autograd.grad(dq.sum(), tensors[:1])[0].any()


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_keys_may_move_between_the_groups(data):
    """Output and query gradient depend on the keys a query sees, not on which of them are fresh."""
    import torch

    n, k = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    causal, window = data.draw(st.booleans()), data.draw(st.integers(0, 4))
    draws = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    normal = lambda *shape: torch.randn(shape, generator=draws, dtype=torch.float64)
    q, keys, values, grad = normal(1, 2, k, 3), normal(1, 1, n, 3), normal(1, 1, n, 3), normal(1, 2, k, 3)
    at = torch.tensor(data.draw(st.lists(st.integers(0, n), min_size=k, max_size=k)))
    valid = torch.tensor(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    made = []
    for cut in {0, data.draw(st.integers(0, n)), n}:
        leaf = q.clone().requires_grad_()
        out = subset_attention(
            leaf, keys[:, :, cut:], values[:, :, cut:], keys[:, :, :cut], values[:, :, :cut], causal=causal,
            window=window, index_query=at, index_fresh=torch.arange(cut, n), index_frozen=torch.arange(cut),
            valid_fresh=valid[cut:], valid_frozen=valid[:cut],
        )  # fmt: skip
        made.append((out.detach(), *torch.autograd.grad(out, leaf, grad)))
    for some in made[1:]:
        for a, b in zip(some, made[0], strict=True):
            assert float((a - b).abs().max()) <= 1e-12


def change(**changes):
    return lambda torch, named: named | changes


def turned(name, how):
    return lambda torch, named: named | {name: how(torch, named[name])}


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (change(q=[[1.0]]), TypeError, "q must be a tensor, got list"),
        (turned("q", lambda t, x: x.int()), TypeError, "q must be a floating tensor, got torch.int32"),
        (
            turned("k_fresh", lambda t, x: x.float()),
            TypeError,
            "k_fresh must have the dtype of q, torch.float64",
        ),
        (turned("q", lambda t, x: x[0]), ValueError, r"q must have 4 axes.*got shape \(4, 3, 5\)"),
        (
            turned("k_fresh", lambda t, x: x[..., :2]),
            ValueError,
            "k_fresh must have batch 2 and feature size 5",
        ),
        (turned("v_fresh", lambda t, x: x[:, :, :2]), ValueError, "v_fresh must have the shape of k_fresh"),
        (turned("q", lambda t, x: x[:, :3]), ValueError, "multiple of the 2 heads of k_fresh, got 3"),
        (
            lambda t, a: a | {n: a[n][:, :1] for n in ("k_frozen", "v_frozen")},
            ValueError,
            "k_frozen must have the 2 heads of k_fresh, got 1",
        ),
        (change(v_frozen=None), ValueError, "k_frozen and v_frozen belong together"),
        (
            turned("k_frozen", lambda t, x: x.to("meta")),
            ValueError,
            "k_frozen must be on the device of q, cpu",
        ),
        (
            turned("index_query", lambda t, x: x.float()),
            TypeError,
            "index_query must be an integer tensor, got t",
        ),
        (
            turned("index_query", lambda t, x: x > 1),
            TypeError,
            "index_query must be an integer tensor, got torch.b",
        ),
        (change(index_query=[0, 1, 2]), TypeError, "index_query must be an integer tensor, got list"),
        (
            turned("index_query", lambda t, x: x[:, :2]),
            ValueError,
            r"index_query must have shape \(2, 3\) or \(3,\)",
        ),
        (change(index_frozen=None), ValueError, "index_frozen must be given for 5 frozen keys"),
        (turned("index_frozen", lambda t, x: x[0, :1]), ValueError, r"index_frozen must have shape \(2, 5\)"),
        (
            lambda t, a: a | {n: a[n][:, :, :2] for n in ("k_fresh", "v_fresh")},
            ValueError,
            "index_fresh must be given for 2 fresh keys of 3 queries",
        ),
        (
            lambda t, a: a | {"valid_frozen": t.ones(5)},
            TypeError,
            "valid_frozen must be a bool tensor, got torch.float32",
        ),
        (
            lambda t, a: a | {"valid_fresh": t.ones(5, dtype=t.bool)},
            ValueError,
            r"valid_fresh must have shape \(2, 3\)",
        ),
        (change(causal=1), TypeError, "causal must be True or False, got 1"),
        (change(window=-1), ValueError, "window must be >= 0, got -1"),
        (change(window=2.0), TypeError, "window must be an int"),
        (change(scale=math.inf), ValueError, "scale must be finite, got inf"),
        (change(backend="gpu"), ValueError, "backend must be one of"),
    ],
)
def test_bad_input(change, kind, words, torch, problem):
    tensors, places, _ = problem(3, 5, 2)
    named = dict(zip(("q", "k_fresh", "v_fresh", "k_frozen", "v_frozen"), tensors, strict=True))
    with pytest.raises(kind, match=words):
        subset_attention(**change(torch, named | places))
