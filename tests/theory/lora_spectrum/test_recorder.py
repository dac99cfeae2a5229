import copy

import numpy as np
import pytest

from porism.theory.lora_spectrum import (
    LoraSpectrumRecorder,
    SpectrumHistory,
    growth_uniformity,
    product_singular_values,
)

COLUMNS = ["step", "module", "index", "singular_value", "stable_rank", "effective_rank"]


def history(T=4, ranks=(2, 3), seed=0):
    rng = np.random.default_rng(seed)
    rows = {f"m{k}": -np.sort(-rng.random((T, r)), axis=1) for k, r in enumerate(ranks)}
    return SpectrumHistory(np.arange(T) * 10, rows)


def test_history_saves(tmp_path):
    found = history()
    found.save(tmp_path / "spectra.npz")
    back = SpectrumHistory.load(tmp_path / "spectra.npz")
    assert back.steps.tolist() == found.steps.tolist()
    assert {name: rows.tolist() for name, rows in back.spectra.items()} == {
        name: rows.tolist() for name, rows in found.spectra.items()
    }


def test_history_plots():
    found = history()
    ax = found.plot()
    assert len(ax.lines) == 5
    assert ax.lines[3].get_ydata() == pytest.approx(np.sqrt(found.spectra["m1"][:, 1]))
    assert ax.lines[0].get_xdata().tolist() == [0, 10, 20, 30]
    assert ax.lines[0].get_color() == ax.lines[1].get_color() != ax.lines[2].get_color()
    assert len(found.plot(module="m0").lines) == 2
    assert found.plot(ax) is ax
    with pytest.raises(KeyError, match="module must be one of"):
        found.plot(module="m7")


@pytest.mark.full
def test_history_frame(needs):
    needs("pandas")
    found = history()
    found.spectra["m0"][1] = np.nan
    frame = found.to_frame()
    assert list(frame) == COLUMNS
    assert len(frame) == 4 * 5
    for name, rows in found.spectra.items():
        for t, step in enumerate(found.steps):
            part = frame[(frame["module"] == name) & (frame["step"] == step)]
            assert part["index"].tolist() == list(range(rows.shape[1]))
            assert np.array_equal(part["singular_value"], rows[t], equal_nan=True)
            stable = (rows[t] ** 2).sum() / rows[t].max() ** 2
            assert part["stable_rank"].tolist() == pytest.approx([stable] * len(part), nan_ok=True)
            p = rows[t] / rows[t].sum()
            entropy = np.exp(-(p * np.log(p)).sum())
            assert part["effective_rank"].tolist() == pytest.approx([entropy] * len(part), nan_ok=True)
    empty = SpectrumHistory(np.zeros(0, dtype=np.int64), {}).to_frame()
    assert list(empty) == COLUMNS
    assert len(empty) == 0


@pytest.fixture
def torch(needs):
    return needs("torch")


@pytest.fixture
def model(torch):
    """Two adapted layers of the tiny transformer; one factor pair as layers, one as parameters."""
    from porism.sims.tiny_transformer import TinyConfig, TinyTransformer

    nn = torch.nn

    class Adapter(nn.Module):
        def __init__(self, layers, seed):
            super().__init__()
            draws = torch.Generator().manual_seed(seed)
            A, B = (0.3 * torch.randn(shape, generator=draws) for shape in ((2, 8), (8, 2)))
            self.drop, self.scaling = nn.Dropout(0.5), 1.5 if layers else 1.0
            if layers:
                self.lora_A, self.lora_B = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
                self.lora_A.weight.data, self.lora_B.weight.data = A, B
            else:
                self.lora_A, self.lora_B = nn.Parameter(A), nn.Parameter(B)

        def forward(self, x):
            A, B = (getattr(f, "weight", f) for f in (self.lora_A, self.lora_B))
            return self.scaling * (self.drop(x) @ A.T @ B.T)

    base = TinyTransformer(TinyConfig(vocab=11, d=8, heads=2, layers=1))
    base.requires_grad_(False)
    base.blocks[0].q.adapter, base.blocks[0].v.adapter = Adapter(True, 1), Adapter(False, 2)
    return base


NAMES = ("blocks.0.q.adapter", "blocks.0.v.adapter")


def train(torch, model, steps, after=lambda k, optimizer: None, watch=lambda optimizer: None):
    """Train the adapters with dropout drawing from the global generator; returns the losses."""
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    context = watch(optimizer)
    x = torch.arange(10)[None]
    losses = []

    def run():
        for k in range(1, steps + 1):
            loss = torch.nn.functional.cross_entropy(model(x)[0, :-1], x[0, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            after(k, optimizer)

    if context is None:
        run()
    else:
        with context:
            run()
    return losses


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


@pytest.mark.full
def test_values(torch, model):
    recorder = LoraSpectrumRecorder(model)
    assert recorder.step(0)
    found = recorder.history()
    assert found.modules == NAMES
    q, v = model.blocks[0].q.adapter, model.blocks[0].v.adapter
    expected = product_singular_values(
        q.lora_B.weight.detach().numpy(), q.lora_A.weight.detach().numpy(), 1.5
    )
    assert found.spectra[NAMES[0]][0] == pytest.approx(expected, rel=1e-13)
    dense = np.linalg.svd((v.lora_B @ v.lora_A).detach().double().numpy(), compute_uv=False)
    assert found.spectra[NAMES[1]][0] == pytest.approx(dense[:2], rel=1e-5)  # float32 product


@pytest.mark.full
@pytest.mark.parametrize("mode", ["step", "call", "block", "optimizer"])
def test_training_is_bit_by_bit_the_same(torch, model, mode):
    twin, plain = copy.deepcopy(model), copy.deepcopy(model)
    losses = train(torch, plain, 12)
    recorder = None
    if mode == "optimizer":

        def watch(optimizer):
            nonlocal recorder
            recorder = LoraSpectrumRecorder(twin, every=5, optimizer=optimizer)
            return recorder

        recorded = train(torch, twin, 12, watch=watch)
    else:
        recorder = LoraSpectrumRecorder(twin, every=5)
        after = (lambda k, _: recorder()) if mode == "call" else (lambda k, _: recorder.step(k))
        recorded = train(torch, twin, 12, after, watch=lambda _: recorder if mode == "block" else None)
    assert recorded == losses
    assert all(torch.equal(a, b) for a, b in zip(weights(twin), weights(plain), strict=True))
    assert twin.training
    inside = mode in ("block", "optimizer")
    assert recorder.history().steps.tolist() == ([0, 5, 10, 12] if inside else [5, 10])
    fresh = LoraSpectrumRecorder(plain)
    fresh()
    if inside:  # the end is the state after the last step
        last = {name: rows[-1].tolist() for name, rows in recorder.history().spectra.items()}
        assert last == {name: rows[0].tolist() for name, rows in fresh.history().spectra.items()}


@pytest.mark.full
def test_no_hook_stays(torch, model):
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)

    def hooks():
        tables = [optimizer._optimizer_step_post_hooks, optimizer._optimizer_step_pre_hooks]
        tables += [m._forward_hooks for m in model.modules()] + [m._backward_hooks for m in model.modules()]
        tables += [p._backward_hooks or {} for p in model.parameters()]
        return sum(map(len, tables))

    recorder = LoraSpectrumRecorder(model, optimizer=optimizer)
    assert hooks() == 0
    with recorder:
        assert hooks() == 1
        optimizer.step()
    assert hooks() == 0
    with pytest.raises(ZeroDivisionError), recorder:
        optimizer.step(lambda: 1 / 0)
    assert hooks() == 0
    assert recorder.history().steps.tolist() == [0, 1]
    optimizer.step()
    assert recorder.history().steps.tolist() == [0, 1]


@pytest.mark.full
def test_steps(torch, model):
    recorder = LoraSpectrumRecorder(model, every=3)
    assert [recorder() for _ in range(7)] == [False, False, True, False, False, True, False]
    with pytest.raises(ValueError, match="k must not go back, got 6 after 7"):
        recorder.step(6)
    with pytest.raises(TypeError, match="k must be an int"):
        recorder.step(8.0)
    before = recorder.step(9), recorder.history().spectra[NAMES[1]][-1].copy()
    with torch.no_grad():
        model.blocks[0].v.adapter.lora_B *= 2
    recorder.step(9)  # the same step again replaces its record
    found = recorder.history()
    assert found.steps.tolist() == [3, 6, 9]
    assert found.spectra[NAMES[1]][-1] == pytest.approx(2 * before[1], rel=1e-13)
    assert found.spectra[NAMES[1]].shape == (3, 2)


@pytest.mark.full
def test_resume(torch, model, tmp_path):
    whole = LoraSpectrumRecorder(model, every=2)
    train(torch, copy.deepcopy(model), 1)
    first = LoraSpectrumRecorder(model, every=2)
    for k in range(1, 6):
        whole.step(k)
        first.step(k)
    state = first.state()
    first.save(tmp_path / "spectra.npz")
    assert state["now"] == 5
    again = LoraSpectrumRecorder(model, every=2).load(state)
    with torch.no_grad():
        model.blocks[0].v.adapter.lora_B *= 2
    file = LoraSpectrumRecorder(model, every=2).load(tmp_path / "spectra.npz")
    first()  # what goes on afterwards does not change a state
    assert state["steps"].tolist() == [2, 4]
    for recorder in (whole, again, file):
        with recorder:
            recorder.step(6)
        assert recorder.history().steps.tolist() == [2, 4, 6]
        for name, rows in whole.history().spectra.items():
            assert np.array_equal(recorder.history().spectra[name], rows)
    assert again() is False  # step 7 of a run that goes on
    empty = LoraSpectrumRecorder(model).load(LoraSpectrumRecorder(model).state())
    assert empty.history().modules == ()


@pytest.mark.full
def test_states_that_do_not_fit(torch, model, tmp_path):
    recorder = LoraSpectrumRecorder(model)
    recorder()
    good = recorder.state()
    for bad in (
        {},
        {"steps": [1]},
        {"steps": [1], "spectra": {}},
        good | {"steps": [1, 2]},
        good | {"steps": [-1.0, "x"]},
        good | {"now": 0},
        good | {"spectra": dict.fromkeys(NAMES, np.zeros(2))},
    ):
        with pytest.raises(
            ValueError, match=r"state must be a recording|every checkpoint must have the same"
        ):
            recorder.load(bad)
    with pytest.raises(ValueError, match=r"other rank \['blocks.0.v.adapter \(3 to 2\)'\]"):
        recorder.load(good | {"spectra": good["spectra"] | {NAMES[1]: np.zeros((1, 3))}})
    (tmp_path / "no.npz").write_bytes(b"no")
    with pytest.raises(ValueError, match="is not a saved porism result"):
        recorder.load(tmp_path / "no.npz")
    assert recorder.history().steps.tolist() == [1]


@pytest.mark.full
def test_modules_may_not_change(torch, model):
    recorder = LoraSpectrumRecorder(model)
    recorder()
    model.blocks[0].v.adapter = None
    with pytest.raises(ValueError, match=r"step 2 differs .* missing \['blocks\.0\.v\.adapter'\], new \[\]"):
        recorder()
    assert recorder.history().steps.tolist() == [1]


@pytest.mark.full
def test_divergence_is_recorded_and_does_not_stop_the_run(torch, model):
    recorder = LoraSpectrumRecorder(model)
    recorder()
    with torch.no_grad():
        model.blocks[0].v.adapter.lora_B[0, 0] = float("nan")
    recorder()
    rows = recorder.history().spectra
    assert np.isnan(rows[NAMES[1]][1]).all()
    assert np.isfinite(rows[NAMES[0]]).all()
    with pytest.raises(ValueError, match=r"got nan in module blocks\.0\.v\.adapter at step 2"):
        growth_uniformity(recorder, window=(1, 2))


@pytest.mark.full
def test_a_model_without_adapters(torch, model):
    with pytest.raises(
        ValueError, match="must hold a pair lora_A, lora_B of adapter 'default', got none; add"
    ):
        LoraSpectrumRecorder(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="every must be >= 1"):
        LoraSpectrumRecorder(model, every=0)
    del model.blocks[0].v.adapter.lora_B
    with pytest.raises(KeyError, match=r"blocks\.0\.v\.adapter has lora_A but no lora_B"):
        LoraSpectrumRecorder(model)


@pytest.mark.full
def test_pairs_of_another_kind(torch):
    layer = torch.nn.Module()
    layer.down = torch.nn.Parameter(torch.randn(3, 2, 6, generator=torch.Generator().manual_seed(0)))
    layer.up = torch.nn.Parameter(torch.ones(3, 5, 2))
    scaling = np.array([1.0, -2.0, 0.5])
    recorder = LoraSpectrumRecorder(layer, pairs=lambda m: [("x", m.up, m.down, scaling)])
    recorder()
    found = recorder.history().spectra
    expected = product_singular_values(layer.up, layer.down, scaling).numpy()
    assert list(found) == ["x[0]", "x[1]", "x[2]"]
    assert np.concatenate(list(found.values())) == pytest.approx(expected, abs=1e-12)
    twice = LoraSpectrumRecorder(layer, pairs=lambda m: [("x", m.up[0], m.down[0], 1.0)] * 2)
    with pytest.raises(ValueError, match="pairs must have a name each, got 'x' twice"):
        twice()


@pytest.mark.full
def test_frame_plot_and_growth(torch, model, needs):
    needs("pandas")
    recorder = LoraSpectrumRecorder(model)
    train(torch, model, 3, lambda k, _: recorder.step(k))
    frame = recorder.as_frame()
    assert list(frame) == COLUMNS
    assert frame["step"].tolist() == [1] * 4 + [2] * 4 + [3] * 4
    assert len(recorder.plot().lines) == 4
    window = (1, 3)
    from_recorder, from_frame = (growth_uniformity(x, window=window) for x in (recorder, frame))
    assert np.array_equal(from_recorder.per_module, from_frame.per_module)
    assert from_frame.modules == from_recorder.modules == NAMES


@pytest.mark.full
def test_memory_is_a_few_numbers_a_module(torch):
    """Not a factor and not a product is kept."""
    layer = torch.nn.Module()
    layer.lora_A, layer.lora_B = (
        torch.nn.Parameter(torch.randn(4, 5000)),
        torch.nn.Parameter(torch.zeros(5000, 4)),
    )
    recorder = LoraSpectrumRecorder(torch.nn.ModuleDict({"a": layer}))
    for _ in range(3):
        recorder()
    assert sum(rows.nbytes for rows in recorder.state()["spectra"].values()) == 3 * 4 * 8
