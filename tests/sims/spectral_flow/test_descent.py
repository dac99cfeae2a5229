"""Six optimisers on a factorization: exact recursions, arrivals, slopes, and the limit of small steps."""

import numpy as np
import pytest

from porism.errors import NumericalWarning
from porism.sims.spectral_flow import (
    OPTIMIZERS,
    aligned_init,
    lora_init,
    random_target,
    simulate_descent,
    simulate_flow,
)
from porism.theory.spectral_flow import speed_limit

FIVE = [5.0, 4.0, 3.0, 2.0, 1.0]


@pytest.fixture
def torch(needs):
    return needs("torch")


def recursion(sigma, a0, b0, lr, steps):
    """Spectral descent of aligned modes: every factor moves by lr times the sign of its gradient."""
    a, b, path = np.array(a0, float), np.array(b0, float), []
    for _ in range(steps + 1):
        path.append((a.copy(), b.copy()))
        gap = sigma - a * b
        a, b = a + lr * np.sign(gap * b), b + lr * np.sign(gap * a)
    return path


def test_oracle_case_10(torch):
    run = simulate_descent([[2.0]], [[0.05]], [[0.05]], lr=0.1, steps=40)
    assert run.arrival_steps.tolist() == [14]
    assert run.singular_values[14, 0] == pytest.approx(2.1025, abs=1e-12)
    cycle = run.singular_values[14:, 0]
    assert np.abs(cycle[::2] - 2.1025).max() < 1e-12
    assert np.abs(cycle[1::2] - 1.8225).max() < 1e-12
    # s goes from 1.35^2 to 1.45^2 within the step
    share = (0.99 * 2 - 1.8225) / (2.1025 - 1.8225)
    assert run.arrival_times[0] == pytest.approx(1.3 + 0.1 * share, abs=1e-12)
    assert run.t[-1] == pytest.approx(4.0)


def test_sf11_the_descent_is_the_recursion(torch):
    """Whole runs with cycles; rounding of 150 steps of size .02 stays below 1e-12."""
    sigma, a0, lr = np.array([3.0, 1.7, 0.6]), np.array([0.013, 0.007, 0.019]), 0.02
    Y = random_target(8, 7, sigma, 0)
    run = simulate_descent(Y, *aligned_init(Y, a0, 0.0, 1), lr=lr, steps=150)
    path = recursion(sigma, a0, np.zeros(3), lr, 150)
    expected = np.array([-np.sort(-np.abs(a * b)) for a, b in path])
    assert np.abs(run.singular_values - expected).max() < 1e-11
    k = np.arange(1, 30)[:, None]  # before the first arrival
    closed = -np.sort(-k * lr * (a0 + (k - 1) * lr), axis=1)
    assert np.abs(run.singular_values[1:30] - closed).max() < 1e-13
    first = [
        next(k for k in range(200) if k * lr * (x + (k - 1) * lr) >= 0.99 * s)
        for s, x in zip(sigma, a0, strict=True)
    ]
    assert run.arrival_steps.tolist() == first
    least = np.ceil(np.sqrt(0.99 * sigma) / lr)
    assert set((run.arrival_steps - least).tolist()) <= {0.0, 1.0}
    # a fixed step cycles within its floor
    floor = lr * 2 * np.sqrt(sigma + lr) + 2 * lr**2
    assert (np.abs(run.singular_values[-10:] - sigma) <= floor).all()
    assert np.abs(run.singular_values[-1] - run.singular_values[-3]).max() < 1e-12
    assert np.abs(run.singular_values[-1] - run.singular_values[-2]).min() > 1e-3


def test_sf11_decay_of_the_step_converges(torch):
    Y = random_target(12, 10, [3.0, 2.0, 1.0], 0)
    fixed = simulate_descent(Y, *lora_init(12, 10, 3, 1e-3, 0), lr=0.02, steps=400)
    decayed = simulate_descent(
        Y, *lora_init(12, 10, 3, 1e-3, 0), lr=lambda k: 0.02 * 0.95 ** max(0, k - 120), steps=400
    )
    assert fixed.loss[-1] > 1e-5
    assert decayed.loss[-1] < 1e-12
    assert decayed.t[-1] == pytest.approx(0.02 * sum(0.95 ** max(0, k - 120) for k in range(400)))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_first_step_from_a_lora_start_leaves_the_second_factor(optimizer, torch):
    """B = 0 makes its gradient exactly zero, and a partial isometry of zero is zero."""
    Y, (B0, A0) = random_target(9, 8, FIVE, 0), lora_init(9, 8, 3, 1e-3, 0)
    run = simulate_descent(Y, B0, A0, optimizer=optimizer, lr=0.01, steps=1)
    assert np.array_equal(run.A, A0)
    assert np.abs(run.B).max() > 1e-6
    assert not B0.any()  # inputs are not written to
    second = simulate_descent(Y, B0, A0, optimizer=optimizer, lr=0.01, steps=2)
    assert not np.array_equal(second.A, A0)


@pytest.mark.parametrize("seed", range(4))
def test_sf12_exact_polar_arrivals(seed, torch):
    Y = random_target(60, 70, FIVE, seed)
    run = simulate_descent(Y, *lora_init(60, 70, 5, 1e-3, seed), lr=0.01, steps=260, record_every=50)
    # the last hangs by a hair: step 100 gives 1.00 (a0 + .99) against .99, with a0 near 0 of either sign
    assert run.arrival_steps[:4].tolist() == [223, 200, 173, 142]
    assert run.arrival_steps[4] == 100 or (seed and run.arrival_steps[4] == 101)
    assert run.arrival_order == ((4,), (3,), (2,), (1,), (0,))
    assert (np.ceil(run.arrival_times / 0.01 - 1e-6) == run.arrival_steps).all()
    assert run.t.tolist() == pytest.approx([0, 0.5, 1, 1.5, 2, 2.5, 2.6])


@pytest.mark.full
@pytest.mark.parametrize("optimizer", ["spectral", "polar_express", "newton_schulz", "muon"])
def test_sf12_who_breaks_the_order(optimizer, torch):
    """Violated in 8 of 8 seeds by the quintic and torch's Muon, in none by the others."""
    violated = 0
    for seed in range(8):
        Y = random_target(60, 70, FIVE, seed)
        run = simulate_descent(
            Y, *lora_init(60, 70, 5, 1e-3, seed), optimizer=optimizer, lr=0.01, steps=300, record_every=300
        )
        assert (run.arrival_steps > 0).all()
        violated += bool((np.diff(run.arrival_times) >= 0).any())
    assert violated == (8 if optimizer in ("newton_schulz", "muon") else 0)


@pytest.mark.parametrize(
    ("rule", "slope"), [("original", 1.8612), ("match_rms_adamw", 0.2 * (60 * 70) ** 0.25)]
)
def test_sf13_slopes_of_muon(rule, slope, torch):
    """Thirty Taylor steps make its polar factor exact but for bfloat16, whose eight bits allow 1 %."""
    Y = random_target(60, 70, FIVE, 0)
    run = simulate_descent(
        Y,
        *lora_init(60, 70, 5, 1e-3, 0),
        optimizer="muon",
        lr=0.005,
        steps=60,
        momentum=0.0,
        ns_coefficients=(1.875, -1.25, 0.375),
        ns_steps=30,
        adjust_lr_fn=rule,
    )
    k = np.arange(20, 61)
    fitted = [np.polyfit(0.005 * k, np.sqrt(s), 1)[0] for s in run.singular_values[20:].T]
    assert fitted == pytest.approx([slope] * 5, rel=0.01)
    assert simulate_descent(Y, *lora_init(60, 70, 5, 1e-3, 0), lr=0.005, steps=60).singular_values[-1] == (
        pytest.approx([0.09] * 5, rel=0.03)
    )


def test_muon_decays_only_when_told(torch):
    Y, start = np.zeros((4, 3)), (np.zeros((4, 2)), np.ones((2, 3)))
    run = simulate_descent(Y, *start, optimizer="muon", lr=0.1, steps=1)
    assert np.array_equal(run.A, start[1])
    run = simulate_descent(Y, *start, optimizer="muon", lr=0.1, steps=1, weight_decay=0.1)
    assert np.abs(run.A - 0.99 * start[1]).max() < 1e-15
    assert run.options == {"weight_decay": 0.1, "lr": 0.1, "steps": 1, "record_every": 1}


def test_adam_is_adam(torch):
    """Written out, with betas passed on."""
    Y, (B, A) = random_target(5, 4, [2.0, 1.0], 0), lora_init(5, 4, 2, 0.3, 1)
    run = simulate_descent(Y, B, A, optimizer="adam", lr=0.03, steps=25, betas=(0.8, 0.95))
    X, first, second = [B, A], [0 * B, 0 * A], [0 * B, 0 * A]
    for k in range(1, 26):
        R = Y - X[0] @ X[1]
        G = [-R @ X[1].T, -X[0].T @ R]
        first = [0.8 * m + 0.2 * g for m, g in zip(first, G, strict=True)]
        second = [0.95 * v + 0.05 * g**2 for v, g in zip(second, G, strict=True)]
        X = [
            x - 0.03 * (m / (1 - 0.8**k)) / (np.sqrt(v / (1 - 0.95**k)) + 1e-8)
            for x, m, v in zip(X, first, second, strict=True)
        ]
    assert np.abs(run.B - X[0]).max() < 1e-12
    assert np.abs(run.A - X[1]).max() < 1e-12


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize(("optimizer", "kind"), [("gd", "gradient"), ("spectral", "spectral")])
def test_small_steps_give_the_flow_at_first_order(optimizer, kind, ridge, needs):
    """Euler's method: the error at t = 1 halves with the step, and the halving itself converges to 2."""
    if optimizer == "spectral":
        needs("torch")
    rng = np.random.default_rng(0)
    Y, B, A = (
        random_target(5, 6, [3.0, 1.5], rng),
        rng.normal(size=(5, 3)) * 0.3,
        rng.normal(size=(3, 6)) * 0.3,
    )
    kw = {"smoothing": 0.3} if optimizer == "spectral" else {}
    flow = simulate_flow(Y, B, A, kind=kind, smoothing=0.3, ridge=ridge, t_end=1, rtol=1e-12, atol=1e-14)
    errors = []
    for n in (100, 200, 400):
        run = simulate_descent(
            Y, B, A, optimizer=optimizer, lr=1 / n, steps=n, ridge=ridge, record_every=n, **kw
        )
        errors.append(max(np.abs(run.B - flow.B).max(), np.abs(run.A - flow.A).max()))
    rates = np.array(errors[:-1]) / errors[1:]
    assert np.abs(rates - 2).max() < 0.06
    # the remainder is of second order, and in one case vanishes
    assert abs(rates[1] - 2) < max(0.7 * abs(rates[0] - 2), 1e-4)


def test_sf5_the_exact_factor_keeps_the_speed_limit_and_the_quintic_breaks_it(torch):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Y = random_target(8, 9, [6.0, 2.0, 0.5], rng)
        B0, A0 = rng.normal(size=(8, 3)) * 0.2 * (seed % 2), rng.normal(size=(3, 9)) * 0.02
        run = simulate_descent(Y, B0, A0, lr=0.03, steps=90, ridge=0.1 * (seed % 3))
        assert (run.singular_values <= speed_limit(run.t, A0, B0) + 1e-10).all()
    Y, (B0, A0) = random_target(60, 70, FIVE, 0), lora_init(60, 70, 5, 1e-3, 0)
    quintic = simulate_descent(Y, B0, A0, optimizer="newton_schulz", lr=0.01, steps=80)
    assert (quintic.singular_values > speed_limit(quintic.t, A0, B0) + 1e-4).any()
    assert (quintic.singular_values <= speed_limit(quintic.t, A0, B0, gain=1.203) + 1e-10).all()


def test_gd_is_gradient_descent_and_records_as_asked():
    Y, (B, A) = random_target(5, 4, [2.0, 1.0], 0), lora_init(5, 4, 2, 0.3, 1)
    run = simulate_descent(
        Y,
        B,
        A,
        optimizer="gd",
        lr=lambda k: 0.1 / (k + 1),
        steps=7,
        record_every=3,
        ridge=0.2,
        keep_factors=True,
    )
    path = [(B, A)]
    for k in range(7):
        R = Y - B @ A
        B, A = B + 0.1 / (k + 1) * (R @ A.T - 0.2 * B), A + 0.1 / (k + 1) * (B.T @ R - 0.2 * A)
        path.append((B, A))
    kept = [path[k] for k in (0, 3, 6, 7)]
    assert np.abs(run.B_path - [B for B, _ in kept]).max() < 1e-14
    assert np.abs(run.A_path - [A for _, A in kept]).max() < 1e-14
    value = [0.5 * ((Y - B @ A) ** 2).sum() + 0.1 * ((A**2).sum() + (B**2).sum()) for B, A in kept]
    assert run.loss == pytest.approx(value, abs=1e-14)
    norms = np.array([[np.linalg.norm(X, 2) for X in pair] for pair in kept])
    assert np.abs(run.factor_norms - norms).max() < 1e-14
    assert run.t == pytest.approx([0.1 * sum(1 / (k + 1) for k in range(n)) for n in (0, 3, 6, 7)])
    assert (run.nfev, run.status, run.kind, run.options["lr"]) == (7, 0, "gd", "callable")


def test_divergence_is_told():
    Y, start = random_target(5, 4, [2.0, 1.0], 0), lora_init(5, 4, 2, 0.3, 1)
    with pytest.warns(NumericalWarning, match="gd diverged: .* lower lr=5"):
        run = simulate_descent(Y, *start, optimizer="gd", lr=5.0, steps=100)
    assert run.status == -1
    assert np.isfinite(run.loss).all()
    assert len(run.t) < 101


def test_an_old_torch_is_named(torch, monkeypatch):
    from porism.sims.spectral_flow._lora_torch import make_optimizer

    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ImportError, match=r"needs torch >= 2\.9.* or use 'newton_schulz'"):
        simulate_descent(np.eye(2), np.eye(2), np.eye(2), optimizer="muon", lr=0.1, steps=1)
    with pytest.raises(ImportError, match=r"needs torch >= 2\.9.* or use 'spectral_muon'"):
        make_optimizer("muon", [], 0.1, {})
