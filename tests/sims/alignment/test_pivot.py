"""Rotations of rank coordinates: what they must keep, optimiser by optimiser, and what is refused."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from porism.errors import NumericalWarning
from porism.sims.alignment import _rotation
from porism.sims.alignment.features import Features
from porism.sims.alignment.pivot import PivotReport, pivot_

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]
ROOT = np.sqrt(0.5)
TURN = np.array([[ROOT, ROOT], [-ROOT, ROOT]])


def fill(adapted, model, a, b):
    ours = next(iter(adapted.factors(model).values()))
    with adapted.torch.no_grad():
        for factor, values in zip(ours, (a, b), strict=True):
            factor.copy_(adapted.torch.as_tensor(np.asarray(values)))
    return ours


def random_world(adapted, seed=0, n=12, classes=3, **more):
    """Layer, inputs and classes; factors start anywhere."""
    model = adapted.linear(seed=seed, head=classes, **more)
    rng = np.random.default_rng(seed)
    (a, b), torch = next(iter(adapted.factors(model).values())), adapted.torch
    fill(adapted, model, rng.standard_normal(tuple(a.shape)), rng.standard_normal(tuple(b.shape)))
    x = torch.as_tensor(rng.standard_normal((n, a.shape[1])))
    return model, x, torch.as_tensor(rng.integers(0, classes, n))


def step(adapted, model, x, y, optimizer, clip=None):
    adapted.torch.nn.functional.cross_entropy(model(x), y).backward()
    if clip:
        adapted.torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    optimizer.zero_grad()


def path(adapted, make, pivot=None, steps=14, at=6, clip=None, **more):
    """Products BA after every step, with a pivot in between."""
    model, x, y = random_world(adapted, **more)
    optimizer = make([p for p in model.parameters() if p.requires_grad])
    found = []
    for k in range(steps):
        if k == at and pivot is not None:
            pivot(model, optimizer)
        adapted.torch.manual_seed(k)  # dropout
        step(adapted, model, x, y, optimizer, clip)
        found += adapted.products(model).values()
    return np.array(found)


def test_canonical_rotation_of_the_worked_case(adapted):
    model = adapted.linear(d=4, m=3, r=2)
    a, b = fill(adapted, model, [[1, 0, 1, 0], [0, 1, 1, 1]], [[1, 2], [0, 1], [1, 1]])
    report = pivot_(model)
    turned = [[2.23520712, -0.06204125], [0.88167460, -0.47185793], [1.35353252, 0.40981667]]
    q = np.array([[0.47185793, 0.88167460], [0.88167460, -0.47185793]])
    np.testing.assert_allclose(b.detach(), turned, atol=1e-8)
    np.testing.assert_allclose(a.detach(), q @ [[1, 0, 1, 0], [0, 1, 1, 1]], atol=1e-8)
    np.testing.assert_allclose((b.T @ b).detach().diagonal(), [7.60555128, 0.39444872], atol=1e-8)
    np.testing.assert_allclose((b @ a).detach(), [[1, 2, 3, 2], [0, 1, 1, 1], [1, 1, 2, 1]], atol=1e-14)
    assert report.n_layers == 1
    assert report.max_rel_change < 1e-14
    # AA' = [[2, 1], [1, 3]] before
    assert report.offdiag_before == pytest.approx(np.sqrt(2 / 15))
    after = q @ [[2, 1], [1, 3]] @ q.T
    assert report.offdiag_after == pytest.approx(
        np.sqrt(2) * abs(after[0, 1]) / np.linalg.norm(after), rel=1e-6
    )


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(1, 5), st.integers(1, 7), st.integers(1, 7), st.integers(0, 2**32 - 1), st.booleans())
def test_the_product_stays_and_columns_of_b_become_orthogonal(adapted, r, d, m, seed, low_rank):
    model = adapted.linear(d=d, m=m, r=r)
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((r, d)), rng.standard_normal((m, r))
    if low_rank:
        b = np.outer(b[:, 0], b[0])
    new_a, new_b = fill(adapted, model, a, b)
    report = pivot_(model)
    # products of numbers of order 1: rounding of a few units in the last place for each of r, d and m terms
    np.testing.assert_allclose((new_b @ new_a).detach(), b @ a, atol=1e-13)
    gram = (new_b.T @ new_b).detach().numpy()
    np.testing.assert_allclose(gram, np.diag(np.linalg.svd(b)[1].tolist() + [0] * r)[:r, :r] ** 2, atol=1e-12)
    assert report.max_rel_change < 1e-12
    if not low_rank and m >= r:
        q = _rotation.canonical(b)  # by another route, and where eigenvalues are apart
        gaps = np.diff(np.linalg.eigvalsh(b.T @ b), append=np.inf).min()
        top = np.sort(np.abs(q), axis=1)
        if gaps > 1e-4 and (r == 1 or (top[:, -1] - top[:, -2]).min() > 1e-6):
            np.testing.assert_allclose(new_a.detach(), q @ a, atol=1e-8)


def test_random_rotation_is_orthogonal_and_repeatable(adapted):
    model, *_ = random_world(adapted)
    ((a, b),) = adapted.factors(model).values()
    old_a, old_b = a.detach().clone().numpy(), b.detach().clone().numpy()
    pivot_(model, rotation="random", random_state=4)
    q = a.detach().numpy() @ np.linalg.pinv(old_a)
    np.testing.assert_allclose(q @ q.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(b.detach(), old_b @ q.T, atol=1e-12)
    assert np.abs(q - np.eye(3)).max() > 0.1
    pivot_(model, rotation=q.T)
    np.testing.assert_allclose(a.detach(), old_a, atol=1e-12)
    again, *_ = random_world(adapted)
    pivot_(again, rotation="random", random_state=4)
    pivot_(model, rotation=adapted.torch.as_tensor(q))
    np.testing.assert_allclose(adapted.factors(again).popitem()[1][0].detach(), a.detach(), atol=1e-12)


def test_nothing_learnt_nothing_turned(adapted):
    model = adapted.linear()
    ((a, b),) = adapted.factors(model).values()
    before = a.detach().clone()
    report = pivot_(model)
    assert adapted.torch.equal(a, before)
    assert not b.any()
    assert report.max_rel_change == 0


DESCENTS = {
    "plain, dropout": ("random", {}, {"lora_dropout": 0.3}),
    "momentum": ("svd", {"momentum": 0.9}, {}),
    "momentum, clipped": ("random", {"momentum": 0.9}, {"clip": 0.05}),
    "nesterov, decay": ("random", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}, {}),
    "dampened, DoRA": ("svd", {"momentum": 0.8, "dampening": 0.5}, {"use_dora": True}),
}


@pytest.mark.parametrize(("rotation", "options", "more"), DESCENTS.values(), ids=DESCENTS)
def test_descent_does_not_notice_a_pivot(adapted, rotation, options, more):
    make = lambda parameters: adapted.torch.optim.SGD(parameters, lr=0.05, **options)
    turn = lambda model, optimizer: pivot_(model, optimizer, rotation=rotation, random_state=0)
    plain, turned = path(adapted, make, **more), path(adapted, make, turn, **more)
    # rounding in float64 over 8 steps of contraction: far below 1e-11; products are of order 1
    np.testing.assert_allclose(turned, plain, atol=1e-11)
    assert np.abs(plain[-1] - plain[5]).max() > 1e-3


def test_momentum_left_behind_is_noticed(adapted):
    make = lambda parameters: adapted.torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    for rule in ("keep", "reset"):
        turn = lambda model, optimizer, rule=rule: pivot_(
            model, optimizer, rotation="random", moments=rule, random_state=0
        )
        assert np.abs(path(adapted, make, turn) - path(adapted, make)).max() > 1e-3


def test_gradients_turn_too(adapted):
    """A pivot between two backward passes of one accumulated step."""
    products = []
    for turned in (False, True):
        model, x, y = random_world(adapted)
        optimizer = adapted.torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        for part in (slice(0, 5), slice(5, 12)):
            adapted.torch.nn.functional.cross_entropy(model(x[part]), y[part]).backward()
            if turned and part.start == 0:
                pivot_(model, optimizer)
        optimizer.step()
        products += adapted.products(model).values()
    np.testing.assert_allclose(products[1], products[0], atol=1e-13)


def adam(adapted, model, kind="Adam", **more):
    """Two groups with settings of their own, as LoRA+ has."""
    ((a, b),) = adapted.factors(model).values()
    groups = [{"params": [a], "lr": 1e-2}, {"params": [b], "lr": 5e-2}]
    return getattr(adapted.torch.optim, kind)(groups, **more)


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_moments_are_transported(adapted, kind, amsgrad):
    model, x, y = random_world(adapted)
    optimizer = adam(adapted, model, kind, amsgrad=amsgrad)
    for _ in range(5):
        step(adapted, model, x, y, optimizer)
    ((a, b),) = adapted.factors(model).values()
    old = [{k: v.clone().numpy() for k, v in optimizer.state[p].items()} for p in (a, b)]
    q = _rotation.random_rotation(np.random.default_rng(1), (), 3)
    pivot_(model, optimizer, rotation=q)
    new = [{k: v.numpy() for k, v in optimizer.state[p].items()} for p in (a, b)]
    squares = ["exp_avg_sq"] + ["max_exp_avg_sq"] * amsgrad
    for entry in range(3):
        np.testing.assert_allclose(
            new[0]["exp_avg"][entry], sum(q[entry, k] * old[0]["exp_avg"][k] for k in range(3)), atol=1e-14
        )
        np.testing.assert_allclose(
            new[1]["exp_avg"][:, entry],
            sum(q[entry, k] * old[1]["exp_avg"][:, k] for k in range(3)),
            atol=1e-14,
        )
        for key in squares:
            np.testing.assert_allclose(
                new[0][key][entry], sum(q[entry, k] ** 2 * old[0][key][k] for k in range(3)), atol=1e-16
            )
    va, vb = _rotation.move_second(old[0]["exp_avg_sq"], old[1]["exp_avg_sq"], q)
    np.testing.assert_allclose(new[0]["exp_avg_sq"], va, atol=1e-16)
    np.testing.assert_allclose(new[1]["exp_avg_sq"], vb, atol=1e-16)
    for place, axis in ((0, 0), (1, 1)):
        for key in squares:  # the mass of each input or output stays
            np.testing.assert_allclose(new[place][key].sum(axis), old[place][key].sum(axis), rtol=1e-12)
            assert (new[place][key] >= 0).all()
        assert new[place]["step"] == 5
        if amsgrad:
            assert (new[place]["max_exp_avg_sq"] >= new[place]["exp_avg_sq"] - 1e-18).all()


def test_second_moments_of_the_worked_case(adapted):
    model = adapted.linear(d=1, m=3, r=2)
    optimizer = adam(adapted, model)
    ((a, b),) = adapted.factors(model).values()
    fill(adapted, model, [[1.0], [2.0]], np.ones((3, 2)))
    for factor in (a, b):
        factor.grad = adapted.torch.ones_like(factor)
    optimizer.step()
    optimizer.zero_grad()
    optimizer.state[a]["exp_avg_sq"].copy_(adapted.torch.tensor([[4.0], [0.0]]))
    pivot_(model, optimizer, rotation=TURN)
    np.testing.assert_allclose(optimizer.state[a]["exp_avg_sq"], [[2], [2]], atol=1e-14)


def test_adam_does_not_notice_a_signed_permutation_but_a_rotation(adapted):
    make = lambda parameters: adapted.torch.optim.AdamW(parameters, lr=0.05, amsgrad=True)
    q = np.array([[0, -1.0, 0], [0, 0, 1], [1, 0, 0]])
    plain = path(adapted, make)
    exact = path(adapted, make, lambda model, optimizer: pivot_(model, optimizer, rotation=q))
    np.testing.assert_allclose(exact, plain, atol=1e-12)
    turned = path(adapted, make, lambda *pair: pivot_(*pair, rotation="random", random_state=0))
    np.testing.assert_allclose(turned[:6], plain[:6], atol=0)
    assert np.abs(turned - plain).max() > 1e-3


OPTIMIZERS = {
    "adam": ("AdamW", {"lr": 0.01}),
    "amsgrad": ("Adam", {"lr": 0.01, "amsgrad": True}),
    "sgd": ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.3}),
}


@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_reset_is_a_new_optimiser(adapted, kind, options):
    found = []
    for fresh in (False, True):
        model, x, y = random_world(adapted)
        parameters = [p for p in model.parameters() if p.requires_grad]
        make = getattr(adapted.torch.optim, kind)
        optimizer = make(parameters, **options)
        for _ in range(5):
            step(adapted, model, x, y, optimizer)
        pivot_(model, optimizer, moments="reset")
        if fresh:
            optimizer = make(parameters, **options)
        for _ in range(3):
            step(adapted, model, x, y, optimizer)
        found += adapted.products(model).values()
    np.testing.assert_array_equal(found[0], found[1])


def test_zeroing_second_moments_alone_is_refused_for_a_reason(adapted):
    model, x, y = random_world(adapted)
    optimizer = adam(adapted, model)
    step(adapted, model, x, y, optimizer)
    before = adapted.checksum(model)
    for rule in ("zero_second", "reset_second", None):
        with pytest.raises(ValueError, match="zero second moments alone is no rule"):
            pivot_(model, optimizer, moments=rule)
    assert adapted.checksum(model) == before
    # the reason: under a constant gradient the step after 50 others grows 7.1 times
    p = adapted.torch.zeros(1, dtype=adapted.torch.float64, requires_grad=True)
    optimizer, sizes = adapted.torch.optim.Adam([p], lr=1.0, eps=0), []
    for k in range(51):
        if k == 50:
            optimizer.state[p]["exp_avg_sq"].zero_()
        p.grad, old = adapted.torch.ones_like(p), p.item()
        optimizer.step()
        sizes.append(abs(p.item() - old))
    assert sizes[50] / sizes[49] == pytest.approx(np.sqrt((1 - 0.999**51) / 0.001), rel=1e-9)


def descend(adapted, lr, steps, orthonormal=True, optimizer="SGD"):
    model, x, y = random_world(adapted, seed=2, d=12, m=8, r=4, n=40, classes=6)
    a = np.random.default_rng(3).standard_normal((4, 12))
    a = np.linalg.qr(a.T)[0].T if orthonormal else a / np.sqrt(12)
    fill(adapted, model, a, np.zeros((8, 4)))
    optimizer = getattr(adapted.torch.optim, optimizer)(
        [p for p in model.parameters() if p.requires_grad], lr=lr
    )
    for _ in range(steps):
        step(adapted, model, 3 * x, y, optimizer)
    ((a, b),) = adapted.factors(model).values()
    error = np.abs((a @ a.T - b.T @ b).detach().numpy() - np.eye(4)).max()
    return error, pivot_(model, optimizer)


def test_descent_conserves_and_one_rotation_makes_both_factors_orthogonal(adapted):
    coarse, first = descend(adapted, 0.08, 20)
    fine, second = descend(adapted, 0.008, 200)
    assert coarse / fine == pytest.approx(10, rel=0.3)  # the error is of first order in the rate
    assert first.offdiag_before > 0.01
    assert first.offdiag_after < first.offdiag_before / 10
    assert second.offdiag_after < second.offdiag_before / 100
    *_, plain = descend(adapted, 0.08, 20, orthonormal=False)
    assert plain.offdiag_after > plain.offdiag_before / 10
    *_, other = descend(adapted, 0.01, 20, optimizer="Adam")
    assert other.offdiag_after > other.offdiag_before / 10


def test_precision(adapted):
    model, *_ = random_world(adapted, d=256, m=128, r=8)
    assert pivot_(model.float(), rotation="random", random_state=0).max_rel_change < 3e-7
    with pytest.warns(NumericalWarning, match=r"changed BA of 'base_model[\w.]+' by 0\.00\d+ of its norm"):
        report = pivot_(model.bfloat16(), rotation="random", random_state=0)
    assert 1e-3 < report.max_rel_change < 1e-2


def idle_world(adapted, classes=2, optimizer="SGD", **more):
    model, x, y = random_world(adapted, d=12, m=8, r=4, classes=classes)
    rows = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 4)))[0].T
    fill(adapted, model, 2 * rows, np.zeros((8, 4)))
    optimizer = getattr(adapted.torch.optim, optimizer)(
        [p for p in model.parameters() if p.requires_grad], lr=0.05, **more
    )
    for _ in range(6):
        step(adapted, model, x, y, optimizer)
    return model, x, optimizer


@pytest.mark.parametrize("given", [False, True])
def test_idle_rows_get_new_directions(adapted, given):
    model, x, optimizer = idle_world(adapted, classes=3)  # two directions of output can be learnt
    ((name, (a, b)),) = adapted.factors(model).items()
    pivot_(model, optimizer)
    output, live = model(x).detach().numpy(), a.detach().clone().numpy()[:2]
    rng = np.random.default_rng(0)
    rows = 100 * rng.standard_normal((30, 2)) @ live  # most of the variance is held already
    rows += rng.standard_normal((30, 12)) * np.linspace(1, 2, 12)
    source = {name: Features(rows, None, 30)} if given else True
    report = pivot_(model, optimizer, reseed_idle=source, random_state=0)
    assert list(report.n_reseeded) == [2]
    assert "2 idle rows re-seeded" in report.summary()
    np.testing.assert_allclose(model(x).detach(), output, atol=1e-13)
    assert not b[:, 2:].any()
    assert b[:, :2].norm(dim=0).min() > 1e-3
    rows = a.detach().numpy()
    np.testing.assert_allclose(rows[:2], live, atol=1e-12)
    # rows that B does not use have moved by O(lr^2) from their first length of 2
    np.testing.assert_allclose(rows[2:] @ rows[2:].T, 4 * np.eye(2), atol=1e-3)
    np.testing.assert_allclose(rows[2:] @ rows[:2].T, 0, atol=1e-12)
    if given:  # the leading directions of what A does not hold
        held = np.linalg.qr(live.T)[0]
        left = source[name].x - source[name].x.mean(axis=0)
        v = np.linalg.svd(left - left @ held @ held.T)[2][:2]
        np.testing.assert_allclose(rows[2:] @ v.T @ v, rows[2:], atol=1e-9)


def test_new_directions_start_at_rest(adapted):
    """Momentum of an old direction must not drive the one that takes its place."""
    model, _, optimizer = idle_world(adapted, classes=3, momentum=0.9)
    ((a, b),) = adapted.factors(model).values()
    # what training leaves there is not zero in general: momentum has its own directions of input
    optimizer.state[b]["momentum_buffer"].add_(1.0)
    a.grad, b.grad = adapted.torch.ones_like(a), adapted.torch.ones_like(b)
    assert list(pivot_(model, optimizer, reseed_idle=True, random_state=0).n_reseeded) == [2]
    assert not optimizer.state[b]["momentum_buffer"][:, 2:].any()
    assert not optimizer.state[a]["momentum_buffer"][2:].any()
    assert not a.grad[2:].any()
    assert not b.grad[:, 2:].any()
    assert b.grad[:, :2].abs().max() > 0.1
    assert optimizer.state[b]["momentum_buffer"][:, :2].abs().max() > 0.1


def test_reseeding_is_for_descent(adapted):
    model, _, optimizer = idle_world(adapted, classes=4, optimizer="Adam")
    with pytest.raises(ValueError, match="reseed_idle must go with SGD or moments='reset'"):
        pivot_(model, optimizer, reseed_idle=True)
    assert list(pivot_(model, optimizer, reseed_idle=True, moments="reset").n_reseeded) == [0]
    model, _, optimizer = idle_world(adapted)
    with pytest.raises(ValueError, match="reseed_idle must hold at least 2 rows of 12 features"):
        pivot_(model, optimizer, reseed_idle={})
    with pytest.raises(TypeError, match="reseed_idle must be a bool"):
        pivot_(model, optimizer, reseed_idle=3)


def refusals(adapted):
    torch = adapted.torch
    model, *_ = random_world(adapted)
    parameters = [p for p in model.parameters() if p.requires_grad]
    ((a, b),) = adapted.factors(model).values()
    yield (
        model,
        torch.optim.RMSprop(parameters),
        {},
        TypeError,
        "must be torch's Adam, AdamW or SGD, got RMSprop",
    )
    yield model, torch.optim.Adam([b]), {}, ValueError, "optimizer must hold the factors of"
    odd = torch.optim.Adam(parameters)
    odd.state[a] = {
        "step": torch.tensor(1.0),
        "exp_avg": torch.zeros_like(a),
        "exp_avg_slow": torch.zeros_like(a),
    }
    yield model, odd, {}, TypeError, "with the state exp_avg_slow"
    flat = torch.optim.SGD(parameters, lr=1, momentum=0.5)
    flat.state[b] = {"momentum_buffer": torch.zeros(3)}
    yield model, flat, {}, NotImplementedError, r"has momentum_buffer of shape \(3,\)"
    yield model, None, {"rotation": "haar"}, ValueError, "rotation must be 'svd', 'random' or an orthogonal"
    yield model, None, {"rotation": np.eye(2)}, ValueError, r"rotation must have shape \(r, r\) = \(3, 3\)"
    yield model, None, {"rotation": 2 * np.eye(3)}, ValueError, "rotation must be orthogonal"
    yield model, None, {"rotation": np.full((3, 3), np.nan)}, ValueError, "rotation must be finite"
    yield model, None, {"rotation": [[1, 0], [0]]}, ValueError, "rotation must be a rectangular array"
    yield model, None, {"rotation": 1j * np.eye(3)}, TypeError, "rotation must hold real numbers"
    yield model, None, {"adapter_name": "x"}, ValueError, "adapter_name must be one of 'default', got 'x'"
    yield torch.nn.Linear(2, 2), None, {}, TypeError, "without any; call get_peft_model first"
    for other in (
        lambda factor: factor,
        lambda factor: torch.nn.Parameter(factor.data),
    ):  # one storage either way
        tied, *_ = random_world(adapted)
        tied.add_adapter("other", adapted.peft.LoraConfig(r=3, target_modules=["0"]))
        ((mine, _),) = adapted.factors(tied).values()
        tied.base_model.model[0].lora_A["other"].weight = other(mine)
        yield tied, None, {}, RuntimeError, "adapter is shared by"
    merged, *_ = random_world(adapted)
    merged.merge_adapter()
    yield merged, None, {}, RuntimeError, "^adapter is merged; unmerge before pivoting"
    diverged, *_ = random_world(adapted)
    fill(adapted, diverged, np.full((3, 6), np.inf), np.ones((5, 3)))
    yield diverged, None, {}, ValueError, "must be finite"


def test_refusals_come_before_any_write(adapted):
    for model, optimizer, options, kind, text in refusals(adapted):
        before = adapted.checksum(model)
        with pytest.raises(kind, match=text):
            pivot_(model, optimizer, **options)
        assert adapted.checksum(model) == before


def test_an_unknown_optimiser_may_be_left_alone(adapted):
    model, *_ = random_world(adapted)
    optimizer = adapted.torch.optim.RMSprop([p for p in model.parameters() if p.requires_grad])
    report = pivot_(model, optimizer, moments="keep")
    assert report.optimizer == "none"
    assert "none moved" in report.summary()


def test_frozen_a_needs_no_place_in_the_optimiser(adapted):
    model, x, y = random_world(adapted)
    ((a, b),) = adapted.factors(model).values()
    a.requires_grad_(False)
    optimizer = adapted.torch.optim.Adam([b])
    step(adapted, model, x, y, optimizer)
    before = model(x).detach()
    pivot_(model, optimizer)
    np.testing.assert_allclose(model(x).detach(), before, atol=1e-13)


def test_transformers_with_several_ranks_and_adapters(adapted):
    model, batches = (
        adapted.lora(rank_pattern={"query": 2}, modules_to_save=["classifier"]),
        adapted.batches(),
    )
    model.add_adapter("other", adapted.peft.LoraConfig(r=3, target_modules=["query"], task_type="SEQ_CLS"))
    optimizer = adapted.torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    adapted.train(model, batches, optimizer)
    other = {n: p.clone() for pair in [adapted.factors(model, "other")] for n, (p, _) in pair.items()}
    before = adapted.logits(model, batches)
    report = pivot_(model, optimizer)
    assert report.n_layers == 10
    np.testing.assert_allclose(adapted.logits(model, batches), before, atol=1e-5)
    for a, b in itertools.islice(adapted.factors(model).values(), 3):
        gram = (b.T @ b).detach().double().numpy()
        assert np.abs(gram - np.diag(np.diag(gram))).max() < 1e-6 * gram.max()
        assert a.dtype == adapted.torch.float32
    assert all(adapted.torch.equal(other[n], a) for n, (a, _) in adapted.factors(model, "other").items())


def test_report(adapted, tmp_path):
    model, x, y = random_world(adapted)
    optimizer = adam(adapted, model)
    step(adapted, model, x, y, optimizer)
    report = pivot_(model, optimizer)
    report.save(tmp_path / "pivot.npz")
    assert PivotReport.load(tmp_path / "pivot.npz").summary() == report.summary()
    assert "moments: transport (adam)" in report.summary()
    assert list(report.to_frame().module) == list(report.module)
