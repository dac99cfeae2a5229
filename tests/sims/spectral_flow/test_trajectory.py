"""What runs return and refuse, and the reduction: it changes nothing but the time."""

import dataclasses

import numpy as np
import pytest

from porism.errors import NumericalWarning
from porism.results import Result
from porism.sims.spectral_flow import (
    FlowTrajectory,
    aligned_init,
    lora_init,
    random_target,
    simulate_descent,
    simulate_flow,
)
from porism.sims.spectral_flow._model import product_svd, span

Y = random_target(6, 7, [4.0, 1.0], 0)
START = lora_init(6, 7, 3, 0.05, 1)


def short(**changes):
    return simulate_flow(Y, *START, **{"smoothing": 0.05, "t_end": 1.5} | changes)


@pytest.mark.parametrize("kind", ["spectral", "gradient"])
@pytest.mark.parametrize(("m", "n", "r"), [(20, 24, 3), (5, 24, 3), (20, 4, 2), (3, 4, 5)])
def test_reduced_equals_full(kind, m, n, r):
    rng = np.random.default_rng(2)
    target = random_target(m, n, [3.0, 1.0], rng)
    B, A = 0.3 * rng.normal(size=(m, r)), 0.2 * rng.normal(size=(r, n))
    settings = {"kind": kind, "smoothing": 0.05, "t_end": 2.5, "rtol": 1e-10, "atol": 1e-12, "ridge": 0.1}
    reduced, full = (simulate_flow(target, B, A, reduce=flag, **settings) for flag in (True, False))
    for name in ("singular_values", "loss", "factor_norms", "B", "A"):
        assert np.abs(getattr(reduced, name) - getattr(full, name)).max() < 1e-7, name
    assert reduced.arrival_times == pytest.approx(full.arrival_times, abs=1e-7, nan_ok=True)
    seen = np.isfinite(full.alignment)
    assert np.abs(reduced.alignment - full.alignment)[seen].max() < 1e-5
    assert full.B.shape == (m, r)


def test_the_reduction_is_as_small_as_promised():
    rng = np.random.default_rng(0)
    target = random_target(60, 70, [3.0, 1.0], rng)
    assert span(target, rng.normal(size=(60, 5))).shape == (60, 7)
    assert span(target, np.zeros((60, 5))).shape == (60, 2)
    assert span(np.zeros((4, 3)), np.zeros((4, 2))) is None
    assert span(rng.normal(size=(4, 3)), rng.normal(size=(4, 2))) is None
    basis = span(target, 1e-9 * rng.normal(size=(60, 5)))  # a tiny start counts as much as the target
    assert basis.shape == (60, 7)
    assert np.abs(basis.T @ basis - np.eye(7)).max() < 1e-14


def test_spectra_without_the_product():
    rng = np.random.default_rng(0)
    for m, n, r in ((6, 7, 3), (3, 7, 5), (6, 2, 4)):
        B, A = rng.normal(size=(4, m, r)), rng.normal(size=(4, r, n))
        U, s = product_svd(B, A, min(m, n, r))
        dense = np.linalg.svd(B @ A)[1][:, : min(m, n, r)]
        assert np.abs(s - dense).max() < 1e-13
        along = np.swapaxes(U, 1, 2) @ (B @ A)
        assert np.abs(np.linalg.norm(along, axis=2) - s).max() < 1e-13


def test_fields_of_a_flow():
    t = [0.0, 0.3, 1.1]
    flow = short(t_eval=t, keep_factors=True)
    assert flow.t.tolist() == t
    assert flow.singular_values.shape == (3, 3)
    assert np.isnan(flow.alignment[0]).all()  # B = 0
    for i, (B, A) in enumerate(zip(flow.B_path, flow.A_path, strict=True)):
        u, s, _ = np.linalg.svd(B @ A)
        assert np.abs(s[:3] - flow.singular_values[i]).max() < 1e-12
        assert flow.loss[i] == pytest.approx(0.5 * ((Y - B @ A) ** 2).sum(), abs=1e-12)
        if i:
            own = np.abs((np.linalg.svd(Y)[0] * u).sum(axis=0))[:2]
            assert np.abs(flow.alignment[i, :2] - own).max() < 1e-9
    assert np.isnan(flow.alignment[:, 2]).all()
    assert np.isnan(flow.levels[2])
    end = short()
    assert np.abs(flow.B - end.B).max() < 1e-12  # at t_end, also where no record is there
    assert (flow.kind, flow.status, flow.smoothing, flow.fraction) == ("spectral", 0, 0.05, 0.99)
    assert flow.nfev > 10
    assert flow.best_loss == 0
    assert flow.B_path.shape == (3, 6, 3)
    assert end.B_path is None
    assert np.array_equal(short(keep_factors=True).B_path[-1], end.B)
    assert flow.arrival_steps is None


def test_arrivals_are_where_the_spectrum_meets_its_level():
    flow = simulate_flow(Y, *START, smoothing=0.02, t_end=3, rtol=1e-11, atol=1e-13)
    again = simulate_flow(
        Y, *START, smoothing=0.02, t_end=3, t_eval=np.sort(flow.arrival_times[:2]), rtol=1e-11, atol=1e-13
    )
    assert again.singular_values[0, 1] == pytest.approx(0.99, abs=1e-8)
    assert again.singular_values[1, 0] == pytest.approx(3.96, abs=1e-8)
    assert np.isnan(simulate_flow(Y, *START, smoothing=0.02, t_end=1.2).arrival_times[0])
    other = simulate_flow(Y, *START, smoothing=0.02, t_end=3, fraction=0.5)
    assert other.arrival_times[0] == pytest.approx(2**0.5, abs=0.05)


def test_a_mode_that_starts_above_its_level_has_arrived():
    flow = simulate_flow(Y, *aligned_init(Y, [1.0, 1.5], [0.2, 1.5], 0), smoothing=0.05, t_end=3)
    # sorted: 2.25 and .2; the level of mode 0 is 3.96
    assert (flow.arrival_times > 0).all()
    flow = simulate_flow(Y, *aligned_init(Y, [3.0, 0.1], [1.5, 0.1], 0), smoothing=0.05, t_end=3)
    assert flow.arrival_times[0] == 0
    assert flow.arrival_order[0] == (0,)
    run = simulate_descent(Y, *aligned_init(Y, [3.0, 0.1], [1.5, 0.1], 0), optimizer="gd", lr=0.01, steps=3)
    assert run.arrival_times[0] == 0
    assert run.arrival_steps.tolist() == [0, -1]


def test_repeated_singular_values_tie():
    target = random_target(6, 7, [4.0, 1.0, 1.0], 0)
    flow = simulate_flow(target, *lora_init(6, 7, 3, 1e-2, 0), smoothing=0.02, t_end=3)
    assert flow.arrival_order == ((1, 2), (0,))
    assert flow.alignment[-1] == pytest.approx([1, 1, 1], abs=1e-6)  # in the plane, not with one vector
    times, levels = np.array([2.0, np.nan, 1.0, 1.0]), np.array([4.0, 3.0, 2.0, 1.0])
    order = dataclasses.replace(flow, arrival_times=times, levels=levels).arrival_order
    assert order == ((2, 3), (0,))


def test_round_trip(tmp_path):
    for made in (
        short(keep_factors=True),
        simulate_descent(Y, *START, optimizer="gd", lr=0.01, steps=5, record_every=2),
    ):
        made.save(tmp_path / "run.npz")
        back = Result.load(tmp_path / "run.npz")
        assert isinstance(back, FlowTrajectory)
        for field in dataclasses.fields(made):
            one, two = getattr(made, field.name), getattr(back, field.name)
            if isinstance(one, np.ndarray):
                assert one.dtype == two.dtype
                assert np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
            else:
                assert one == two


def test_frame_and_plot(needs):
    flow = short(t_eval=[0.5, 1.0])
    axes = flow.plot()
    assert len([line for line in axes.lines if line.get_label().startswith("mode")]) == 3
    assert np.allclose(axes.lines[0].get_ydata(), np.sqrt(flow.singular_values[:, 0]))
    assert flow.plot(axes) is axes
    from matplotlib import pyplot

    pyplot.close(axes.figure)
    needs("pandas")
    frame = flow.to_frame()
    assert list(frame.columns) == ["t", "mode", "singular_value"]
    assert len(frame) == 6
    row = frame[(frame["t"] == 1.0) & (frame["mode"] == 1)]
    assert row["singular_value"].tolist() == [flow.singular_values[1, 1]]


def test_progress_is_a_bar_and_changes_nothing(capsys):
    quiet = short()
    run = simulate_descent(Y, *START, optimizer="gd", lr=0.01, steps=3)
    assert capsys.readouterr() == ("", "")
    loud = short(progress=True)
    assert "flow" in capsys.readouterr().err
    assert np.array_equal(quiet.singular_values, loud.singular_values)
    again = simulate_descent(Y, *START, optimizer="gd", lr=0.01, steps=3, progress=True)
    assert "3/3" in capsys.readouterr().err
    assert np.array_equal(run.B, again.B)


def test_an_integrator_that_gives_up_is_told(monkeypatch):
    from porism.sims.spectral_flow import flow as module

    monkeypatch.setattr(module, "gradients", lambda Y, B, A, ridge: (-(B**2), 0 * A))  # ends at t = 1
    with pytest.warns(NumericalWarning, match=r"stopped before t_end=3: .*; raise smoothing"):
        flow = simulate_flow(
            Y, np.ones((6, 3)), np.ones((3, 7)), kind="gradient", t_end=3, method="RK45", reduce=False
        )
    assert flow.status == -1
    assert 60 <= len(flow.t) <= 67  # 201 records over [0, 3], those before t = 1
    assert np.isfinite(flow.loss).all()


@pytest.mark.parametrize("smoothing", [None, 0, 0.0, np.float32(0)])
def test_no_flow_without_smoothing(smoothing):
    rule = "the flow is discontinuous at smoothing=0; use ideal_arrival_time or simulate_descent"
    with pytest.raises(ValueError, match=rule):
        short(smoothing=smoothing)
    short(smoothing=smoothing, kind="gradient")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"smoothing": -1.0}, ValueError, "smoothing must be a finite number >= 0"),
        ({"smoothing": float("nan")}, ValueError, "smoothing must be a finite number >= 0"),
        ({"smoothing": "x"}, TypeError, "smoothing must be a real number"),
        ({"ridge": -0.1}, ValueError, "ridge must be a finite number >= 0"),
        ({"kind": "adam"}, ValueError, "kind must be one of"),
        ({"method": "Euler"}, ValueError, "method must be one of"),
        ({"t_end": 0}, ValueError, "t_end must be finite and > 0"),
        ({"t_eval": [0.5, 0.1]}, ValueError, "t_eval must ascend"),
        ({"t_eval": [0.5, 9.0]}, ValueError, "t_eval must ascend within"),
        ({"t_eval": []}, ValueError, "number of times in t_eval must be >= 1"),
        ({"fraction": 0}, ValueError, "fraction must be finite and > 0"),
        ({"fraction": 1.5}, ValueError, "fraction must be in"),
        ({"rtol": 0}, ValueError, "rtol must be finite and > 0"),
    ],
)
def test_a_flow_refuses(changes, error, message):
    with pytest.raises(error, match=message):
        short(**changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"optimizer": "lion"}, ValueError, "optimizer must be one of"),
        ({"lr": 0.0}, ValueError, "lr must be finite and > 0"),
        ({"lr": lambda k: -1.0}, ValueError, r"lr\(0\) must be a finite number >= 0"),
        ({"lr": "fast"}, TypeError, "lr must be a real number"),
        ({"steps": 0}, ValueError, "steps must be >= 1"),
        ({"steps": 2.0}, TypeError, "steps must be an int"),
        ({"record_every": 0}, ValueError, "record_every must be >= 1"),
        ({"momentum": 0.9}, TypeError, "'gd' takes no further arguments, got momentum"),
        ({"ridge": float("inf")}, ValueError, "ridge must be a finite number >= 0"),
        ({"fraction": 0}, ValueError, "fraction must be finite and > 0"),
    ],
)
def test_a_descent_refuses(changes, error, message):
    with pytest.raises(error, match=message):
        simulate_descent(Y, *START, **{"optimizer": "gd", "lr": 0.1, "steps": 2} | changes)


@pytest.mark.parametrize(
    "shapes",
    [((4, 5), (3, 2), (2, 5)), ((4, 5), (4, 2), (3, 5)), ((4, 5), (4, 2), (2, 4)), ((0, 5), (0, 2), (2, 5))],
)
def test_shapes_are_named(shapes):
    arrays = [np.ones(shape) for shape in shapes]
    for call in (
        lambda: simulate_flow(*arrays, smoothing=0.1, t_end=1),
        lambda: simulate_descent(*arrays, optimizer="gd", lr=0.1, steps=1),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert all(str(shape) in str(caught.value) for shape in shapes)


def test_values_are_checked():
    bad = Y.copy()
    bad[2, 3] = np.nan
    with pytest.raises(ValueError, match=r"Y must be finite, got nan at index \(2, 3\)"):
        simulate_flow(bad, *START, smoothing=0.1, t_end=1)
    with pytest.raises(TypeError, match="B0 must hold real numbers"):
        simulate_flow(Y, START[0] + 1j, START[1], smoothing=0.1, t_end=1)
    with pytest.raises(ValueError, match="A0 must have 2 axes"):
        simulate_descent(Y, START[0], START[1][0], optimizer="gd", lr=0.1, steps=1)


def test_starts():
    B, A = lora_init(5, 4, 2, 0.1, 3)
    assert not B.any()
    assert A.shape == (2, 4)
    assert np.array_equal(A, lora_init(5, 4, 2, 0.1, np.random.default_rng(3))[1])
    big = lora_init(1, 20000, 1, 0.1, 0)[1]
    assert big.std() == pytest.approx(0.1, rel=0.03)  # five standard errors of a deviation
    target = random_target(7, 6, [1.0, 3.0], 4)
    assert np.linalg.svd(target)[1] == pytest.approx([3, 1, 0, 0, 0, 0], abs=1e-14)
    a, b = [0.5, -0.2], [0.1, 0.7]
    B, A = aligned_init(target, a, b, 0)
    u, _, v = np.linalg.svd(target)
    assert np.abs(u[:, :2].T @ B @ A @ v[:2].T - np.diag(np.multiply(a, b))).max() < 1e-14
    assert np.linalg.svd(B)[1] == pytest.approx([0.7, 0.1])
    assert np.linalg.svd(A)[1] == pytest.approx([0.5, 0.2])
    assert aligned_init(target, 0.1, 0.2, 0)[0].shape == (7, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lora_init(0, 4, 2, 0.1, 0), "m must be >= 1"),
        (lambda: lora_init(3, 4, 2, -0.1, 0), "scale must be >= 0"),
        (lambda: random_target(2, 3, [3, 2, 1], 0), "sigma must be at most 2 numbers >= 0"),
        (lambda: random_target(2, 3, [3, -2], 0), "sigma must be at most 2 numbers >= 0"),
        (lambda: aligned_init(Y, [1, 2], [1, 2, 3], 0), "a0 and b0 must be scalars or of one length"),
        (lambda: aligned_init(Y, np.ones(7), 1.0, 0), r"number of modes must be in 1\.\.6"),
        (lambda: aligned_init(np.zeros((2, 2)), 1.0, 1.0, 0), r"number of modes must be in 1\.\.2"),
    ],
)
def test_starts_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()
