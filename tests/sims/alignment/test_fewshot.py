"""LoRA of a linear layer against torch, closed forms and conserved quantities; panels, regimes and pivots."""

import numpy as np
import pytest

from porism.results import Result
from porism.sims.alignment import _rotation
from porism.sims.alignment.comparison import ARMS, compare_pivots
from porism.sims.alignment.fewshot import (
    FEWSHOT_OPTIMIZERS,
    LinearPivot,
    _State,
    lora_start,
    random_head,
    train_lora,
)
from porism.sims.alignment.regime import sweep_regime
from porism.sims.alignment.spiked import sample_class_task
from porism.sims.alignment.tracking import PREDICTORS, track_gains
from porism.sims.alignment.trajectories import measure_conservation, pivot_paths
from porism.theory.alignment import predicted_accuracy, principal_subspace

SEED = 0


@pytest.fixture(scope="module")
def task():
    return sample_class_task(24, [6, 4, 5], 3, 5.0, [6.0], random_state=SEED)


@pytest.fixture(scope="module")
def setup(task):
    return lora_start("kaiming", task.x, 4, random_state=1), random_head(3, 7, 2)


def test_starts(task):
    raw = np.stack([lora_start("kaiming", task.x, 4, match_norm=False, random_state=i) for i in range(300)])
    assert np.abs(raw).max() <= 1 / np.sqrt(24)
    assert abs(np.mean(raw**2) * 3 * 24 - 1) < 5 * np.sqrt(0.8 / raw.size)  # var(u^2) / mean(u^2)^2 = 0.8
    for kind in ("kaiming", "orthonormal", "pca"):
        assert abs(np.linalg.norm(lora_start(kind, task.x, 4, random_state=0)) - 2) < 1e-12
    assert np.array_equal(lora_start("pca", task.x, 4), principal_subspace(task.x, 4).basis)
    haar = np.stack([lora_start("orthonormal", task.x, 4, random_state=i) for i in range(300)])
    assert np.allclose(haar @ haar.mT, np.eye(4), atol=1e-12)
    captured = np.sum(haar[:, :, 0] ** 2, axis=1)  # Beta(2, 10): mean 1/6, variance 2 * 4 * 20 / (24^2 * 26)
    assert abs(captured.mean() - 1 / 6) < 5 * np.sqrt(160 / (576 * 26) / 300)


@pytest.mark.parametrize("optimizer", FEWSHOT_OPTIMIZERS)
def test_against_torch(optimizer, task, setup, needs):
    torch = needs("torch")
    a0, head = setup
    path = train_lora(
        task.x, task.y, a0, head, optimizer=optimizer, lr=0.01, steps=20, scaling=1.5, record=range(21)
    )
    a = torch.tensor(a0, requires_grad=True)
    b = torch.zeros(7, 4, dtype=torch.float64, requires_grad=True)
    made = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    }[optimizer]([a, b])
    x, y, H = torch.tensor(task.x), torch.tensor(task.y), torch.tensor(head)
    bias = torch.tensor(np.log(task.shares))
    for k in range(20):
        loss = torch.nn.functional.cross_entropy(1.5 * x @ a.T @ b.T @ H.T + bias, y)
        assert abs(float(loss.detach()) - path.losses[k]) < 1e-9
        made.zero_grad()
        loss.backward()
        made.step()
        assert np.abs(path.a[k + 1] - a.detach().numpy()).max() < 1e-9
        assert np.abs(path.b[k + 1] - b.detach().numpy()).max() < 1e-9
    logits = task.x @ path.weights()[-1].T + path.bias
    assert np.allclose(logits, (1.5 * x @ a.T @ b.T @ H.T + bias).detach().numpy(), atol=1e-8)
    assert np.allclose(head @ path.product()[-1], path.weights()[-1], atol=1e-12)


def test_first_step_is_the_head_gradient(task, setup):
    a0, head = setup
    path = train_lora(task.x, task.y, a0, head, optimizer="sgd", lr=0.3, steps=1, scaling=2.0, record=(0, 1))
    counts = np.bincount(task.y)
    means = np.array([task.x[task.y == c].mean(axis=0) for c in range(3)])
    rows = -(counts / len(task.y))[:, None] * (means - task.x.mean(axis=0))
    gradient = head.T @ rows
    assert np.allclose(path.b[1], -0.3 * 2 * gradient @ a0.T, atol=1e-12)
    assert np.array_equal(path.a[1], a0)
    assert not path.b[0].any()


def test_side_by_side_is_one_by_one(setup):
    tasks = [sample_class_task(10, 4, 2, 3.0, random_state=i) for i in range(3)]
    heads = [random_head(2, 5, i) for i in range(3)]
    starts = [lora_start("orthonormal", t.x, 2, random_state=i) for i, t in enumerate(tasks)]
    for pivot in (None, LinearPivot(3), LinearPivot(3, "canonical", "reset")):
        together = train_lora(
            np.stack([t.x for t in tasks]),
            np.stack([t.y for t in tasks]),
            np.stack(starts),
            np.stack(heads),
            lr=0.01,
            steps=8,
            pivot=pivot,
        )
        for i, t in enumerate(tasks):
            alone = train_lora(t.x, t.y, starts[i], heads[i], lr=0.01, steps=8, pivot=pivot)
            assert np.allclose(together.a[:, i], alone.a, atol=1e-12)
            assert np.allclose(together.losses[:, i], alone.losses, atol=1e-12)


def test_one_step_accuracy_is_the_centroid_law():
    # DK-13 at P = a fixed random subspace: 200 draws of n = 16; the law is first order, the spec saw +0.003
    population = sample_class_task(40, 8, 2, 2.0, random_state=0)
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((40, 6)))[0].T
    basis[0] = population.means[1] - population.means[0]
    basis = np.linalg.qr(basis.T)[0].T
    draws = [population.draw(8, i) for i in range(200)]
    x, y = np.stack([t.x for t in draws]), np.stack([t.y for t in draws])
    many = np.broadcast_to(basis, (200, 6, 40))
    heads = np.stack([random_head(2, 4, i) for i in range(200)])
    path = train_lora(x, y, many, heads, optimizer="sgd", lr=1e-3, steps=1, record=(1,))
    # the law's classifier thresholds midway between the projected centroids; the model's bias stays at 0, and
    # with means at +-m the population's midpoint is 0
    found = [population.accuracy(w, [0, 0]) for w in path.weights()[0]]
    expected = predicted_accuracy(population.captured(basis), population.separation, 6, 16)
    error = np.std(found, ddof=1) / np.sqrt(200)
    assert abs(np.mean(found) - expected) < 3 * error + 0.01


def test_canonical_rotation_of_the_printed_case():
    b = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 1.0]])
    a = np.array([[1.0, 0, 1, 0], [0, 1, 1, 1]])
    q = _rotation.canonical(b)
    assert np.allclose(q, [[0.47185793, 0.88167460], [0.88167460, -0.47185793]], atol=1e-8)
    new_a, new_b = _rotation.rotate(a, b, q)
    expected = [[2.23520712, -0.06204125], [0.88167460, -0.47185793], [1.35353252, 0.40981667]]
    assert np.allclose(new_b, expected, atol=1e-8)
    assert np.allclose(new_b @ new_a, [[1, 2, 3, 2], [0, 1, 1, 1], [1, 1, 2, 1]], atol=1e-12)
    half = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    assert np.allclose(_rotation.move_second(np.array([[4.0], [0.0]]), b, half)[0], 2)
    assert np.array_equal(_rotation.canonical(np.zeros((2, 3, 2))), np.broadcast_to(np.eye(2), (2, 2, 2)))


@pytest.mark.parametrize("rotation", ["random", "canonical"])
def test_gradient_descent_does_not_see_a_pivot(rotation):
    for optimizer in ("sgd", "momentum"):
        paths = pivot_paths(optimizer, rotation=rotation, d=32, n=16, r=4, C=4, steps=40, at=20, rng=1)
        moved = paths.rules.index("transport")
        assert paths.deviation[moved].max() < 1e-12
        assert np.abs(paths.losses[1 + moved] - paths.losses[0]).max() < 1e-12
    assert paths.deviation[paths.rules.index("keep"), 20] < 1e-12
    assert paths.deviation[paths.rules.index("keep"), 25] > 1e-3  # momenta that were not moved


def test_adam_sees_it_and_zeroed_second_moments_blow_the_step_up():
    paths = pivot_paths("adam", d=32, n=16, r=4, C=4, steps=40, at=20, rng=1)
    before, after = paths.deviation[:, :21], paths.deviation[:, 30]
    assert before.max() < 1e-12
    assert (after > 1e-3).all()
    step = dict(zip(paths.rules, paths.growth, strict=True))
    # same gradient and first moment, v smaller by at least (1 - beta2^20) / (1 - beta2) = 19.8 on average
    assert step["zero_second"] > 3
    assert step["transport"] < 1.5
    assert paths.losses[:, :21].std(axis=0).max() < 1e-12


@pytest.mark.parametrize("signed", [True, False])
def test_transport_is_exact_for_signed_permutations_under_adam(signed):
    rng = np.random.default_rng(0)
    gradients = [(rng.standard_normal((3, 5)), rng.standard_normal((4, 3))) for _ in range(9)]
    q = np.eye(3)[[2, 0, 1]] * [[1.0], [-1.0], [1.0]] if signed else _rotation.random_rotation(rng, (), 3)
    runs = []
    for turn in (False, True):
        a, b = np.ones((3, 5)), np.zeros((4, 3))
        state = _State("adam", 0.01, a, b)
        for k, (grad_a, grad_b) in enumerate(gradients):
            if turn and k == 4:
                a[...], b[...] = _rotation.rotate(a, b, q)
                state.pivot(q, "transport")
            moved = (q @ grad_a, grad_b @ q.T) if turn and k >= 4 else (grad_a, grad_b)
            state.step(a, b, *moved)
        runs.append(b @ a)
    apart = np.abs(runs[0] - runs[1]).max()
    assert apart < 1e-14 if signed else apart > 1e-5


def test_idle_slots():
    sgd = pivot_paths("sgd", d=32, n=16, r=6, C=4, steps=60, at=20, rng=2).singular_values
    adam = pivot_paths("adam", d=32, n=16, r=6, C=4, steps=60, at=20, rng=2).singular_values
    assert (sgd[3:] < 1e-12 * sgd[0]).all()  # rank <= C - 1
    assert sgd[2] > 0.05 * sgd[0]
    assert (adam[3:] > 1e-3 * adam[0]).all()


def test_conservation():
    found = measure_conservation(rng=3, time=0.4, lrs=(0.02, 0.002), d=32, n=16, r=4)
    # the error of Euler's method is of first order: a tenth of the step, a tenth of the error
    assert 8 < found.error[0] / found.error[1] < 12
    assert 8 < found.after[0] / found.after[1] < 12
    assert (found.before > 20 * found.after).all()
    assert (found.off_b < 1e-12).all()
    other = measure_conservation(rng=3, time=0.4, lrs=(0.002,), d=32, n=16, r=4, start="kaiming")
    assert other.error[0] > 0.3
    adam = measure_conservation(rng=3, time=0.2, lrs=(0.002,), d=32, n=16, r=4, optimizer="adam")
    assert adam.error[0] > 0.1


def test_comparison_of_pivots(tmp_path):
    settings = {"tasks": 6, "d": 40, "n": 12, "r": 3, "steps": 20, "rng": 0}
    found = compare_pivots(**settings)
    assert found.arms == ARMS
    assert found.at == 2
    assert ((found.accuracy > 0.3) & (found.accuracy <= 1)).all()
    assert np.array_equal(found.accuracy, compare_pivots(**settings).accuracy)
    mean, error = found.difference("canonical_reset")
    gap = found.accuracy[:, 3] - found.accuracy[:, 1]
    assert (mean, error) == (gap.mean(), gap.std(ddof=1) / np.sqrt(6))
    under_sgd = compare_pivots(**settings, optimizer="sgd", lr=0.01)
    assert np.abs(under_sgd.accuracy[:, 2:] - under_sgd.accuracy[:, [1]]).max() < 1e-9
    found.save(tmp_path / "c.npz")
    assert np.array_equal(Result.load(tmp_path / "c.npz").accuracy, found.accuracy)


def test_regime():
    cells = [(96, 16, 8.0, 3e-4), (96, 96, 8.0, 3e-4), (96, 16, 400.0, 3e-4)]
    sweep = sweep_regime(cells, draws=8, steps=16, r=4, rng=0)
    assert np.allclose(sweep.tau, 3e-4 * 16 * np.sqrt(96))
    assert sweep.captured[1] > sweep.captured[0] + 5 * (sweep.captured_se[0] + sweep.captured_se[1])
    assert sweep.gain.shape == (3, 3)
    assert sweep.random[2, 2] > 0.99  # the ceiling
    assert abs(sweep.gain[2, 2]) < 0.01
    assert (sweep.initial > 0.9).all()
    with pytest.raises(ValueError, match="n must be even, got 5"):
        sweep_regime([(8, 5, 1.0, 1e-3)])


@pytest.mark.parametrize("panel", ["controlled", "pooled"])
def test_tracking(panel, capsys):
    settings = {"tasks": 3, "draws": 2, "steps": 8, "d": 64, "n": 16, "r": 4}
    found = track_gains(panel, rng=0, progress=True, **settings)
    assert "3/3" in capsys.readouterr().err
    again = track_gains(panel, rng=0, **settings)
    for name in (*PREDICTORS, "gains", "accuracy", "d", "delta"):
        assert np.array_equal(getattr(found, name), getattr(again, name), equal_nan=True), name
    assert found.steps.tolist() == [1, 2, 8]
    assert ((found.true_rho > -0.1) & (found.true_rho < 1)).all()
    table = found.correlations()
    expected = np.corrcoef(found.true_rho, found.gains[:, 2])[0, 1]
    assert abs(table[0, 2] - expected) < 1e-12
    ranks = found.correlations("spearman")
    assert {round(float(v), 9) for v in ranks[0]} <= {-1.0, -0.5, 0.5, 1.0}
    if panel == "controlled":
        assert set(found.d) == {64}
        assert set(found.delta) == {6.0}


@pytest.mark.full
def test_tracking_tells_the_panels_apart():
    # seeds that were not looked at before; a correlation over 24 tasks has a standard error of about 0.12
    controlled = track_gains(tasks=24, rng=11).correlations()[0]
    pooled = track_gains("pooled", tasks=24, rng=12).correlations()[0]
    assert controlled[0] > 0.5
    assert pooled[2] < controlled[2]


@pytest.mark.full
def test_frames_and_plots(needs, tmp_path):
    needs("pandas")
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    paths = pivot_paths("adam", d=16, n=12, r=3, C=2, steps=8, at=4, rng=0)
    assert len(paths.to_frame()) == 5 * 9
    sweep = sweep_regime([(32, 16, 6.0, 3e-4), (32, 32, 6.0, 3e-4)], draws=2, steps=8, r=2, rng=0)
    assert len(sweep.to_frame()) == 2
    found = track_gains(tasks=3, draws=1, steps=8, d=32, n=16, r=2, rng=0)
    assert {"d", "delta", *PREDICTORS, "gain_1", "gain_8"} <= set(found.to_frame())
    pivots = compare_pivots(tasks=3, d=24, n=8, r=2, steps=10, rng=0)
    frame = pivots.to_frame().set_index("arm")
    assert frame.loc["pca", "won"] == frame.loc["pca", "lost"] == 0
    for result in (paths, sweep, found, pivots):
        assert result.plot().get_xlabel()
        result.save(tmp_path / "r.npz")
        assert type(Result.load(tmp_path / "r.npz")) is type(result)
    assert sweep.plot(against="tau").get_xscale() == "log"
    pyplot.close("all")


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"y": [0.0, 1.0]}, TypeError, "y must hold"),
        ({"y": [0, 2]}, ValueError, "y must be in"),
        ({"y": [0, 0]}, ValueError, "every class"),
        ({"y": [0, 1, 1]}, ValueError, "must have the shapes"),
        ({"a": np.ones((1, 4))}, ValueError, "a must have shape"),
        ({"optimizer": "lion"}, ValueError, "optimizer must be"),
        ({"lr": 0}, ValueError, "lr must be"),
        ({"record": [9]}, ValueError, "record must be"),
        ({"pivot": LinearPivot(5)}, ValueError, "pivot.at must"),
        ({"x": [[np.nan, 0, 0], [0, 0, 0]]}, ValueError, "x must be finite"),
    ],
)
def test_bad_input(change, error, text):
    good = {"x": np.eye(2, 3), "y": [0, 1], "a": np.ones((1, 3)), "head": np.eye(2), "steps": 5}
    call = good | change
    with pytest.raises(error, match=text):
        train_lora(call.pop("x"), call.pop("y"), call.pop("a"), call.pop("head"), **call)


def test_bad_pivots():
    with pytest.raises(ValueError, match="moments must be"):
        LinearPivot(3, moments="drop")
    with pytest.raises(ValueError, match="rotation must be"):
        LinearPivot(3, "svd")
    with pytest.raises(ValueError, match="multiple of C"):
        pivot_paths(n=10, C=4)
    with pytest.raises(ValueError, match="multiple of C"):
        measure_conservation(n=10, C=4)
    with pytest.raises(ValueError, match="at must be strictly between 0 and 1"):
        compare_pivots(at=1.0)
