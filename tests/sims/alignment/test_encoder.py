"""Few-shot LoRA of the tiny encoder: data, features, starts, and that nothing of the encoder changes."""

import numpy as np
import pytest

from porism.results import Result
from porism.sims.alignment import _encoder_text as text
from porism.sims.alignment.encoder import ENCODER_METHODS, EncoderRun, compare_encoder_starts
from porism.sims.alignment.energy import measure_energy

pytestmark = pytest.mark.full

SMALL = {"width": 16, "length": 12, "pretrain_steps": 3}


@pytest.fixture
def cache(needs, tmp_path_factory, monkeypatch):
    torch = needs("torch")
    needs("safetensors")
    monkeypatch.setenv("PORISM_CACHE", str(tmp_path_factory.getbasetemp() / "encoder"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(before)


@pytest.fixture
def world(cache):
    from porism.sims.alignment import _encoder_lora as lora

    model, _ = text.pretrained(16, 12, 3, 0)
    return lora, model, {task: lora.world(model, task, 1, 8, 6, 12) for task in text.TASKS}


def test_windows():
    corpus = text.topics_bpe(text.MERGED)
    for task in text.TASKS:
        train, test = text.windows(task, 8, 40, 12, np.random.default_rng(0))
        assert train.x.shape == (8, 12)
        assert test.y.tolist() == [0] * 20 + [1] * 20
        assert (train.x[:, 0] == text.CLS).all()
        assert ((train.x == text.MASK).sum(axis=1) == (task == "token")).all()
        if task == "token":
            assert (train.x[np.arange(8), train.position] == text.MASK).all()
            assert (train.position >= 1).all()
        else:
            assert not train.position.any()
    words = [corpus.symbols[i] for i in text.frequent_words()]
    assert " the" in words
    assert len(set(words)) == text.CANDIDATES
    # the masked word is one of the task's two: putting it back gives a piece of the text
    train, _ = text.windows("token", 8, 2, 12, np.random.default_rng(0))
    pieces = np.lib.stride_tricks.sliding_window_view(corpus.train, 11)
    for row, place in zip(train.x[::3], train.position[::3], strict=True):
        fits = pieces[(pieces[:, : place - 1] == row[1:place]).all(axis=1)]
        fits = fits[(fits[:, place:] == row[place + 1 :]).all(axis=1)]
        assert set(fits[:, place - 1].tolist()) & set(text.frequent_words())


def test_topics_train_and_test_on_different_halves():
    train, test = text.windows("topic", 40, 40, 12, np.random.default_rng(3))
    halves = [(ids[: len(ids) // 2], ids[len(ids) // 2 :]) for _, ids in text.longest_topics()]

    def inside(row, part):
        return (np.lib.stride_tricks.sliding_window_view(part, 11) == row[1:]).all(axis=1).any()

    homes = [{c for c, h in enumerate(halves) if inside(row, h[0])} for row in train.x]
    assert len(set.intersection(*homes[:20])) == 1
    assert set.intersection(*homes[:20]) != set.intersection(*homes[20:])
    (home,) = set.intersection(*homes[:20])
    assert all(inside(row, halves[home][1]) for row in test.x[:20])


def test_features_against_a_plain_forward_pass(world):
    _, model, worlds = world
    import torch

    (data, _), _, found, _ = worlds["token"]
    x, position = torch.from_numpy(data.x), torch.from_numpy(data.position)
    with torch.no_grad():
        streams = model(x, hidden=True)[1]
        inputs = [block.norm1(h) for block, h in zip(model.blocks, streams[:-1], strict=True)]
    for i, into in enumerate(inputs):
        target = into[torch.arange(8), position].double().numpy()
        every = into.flatten(0, 1).double().numpy()
        for part in "qkv":
            assert np.allclose(found[f"blocks.{i}.{part}"]["target"], target, atol=1e-6)
            assert np.allclose(found[f"blocks.{i}.{part}"]["all"], every, atol=1e-6)
        # the output of v at the target is W_v applied to the pooled features, head by head
        pooled = found[f"blocks.{i}.v"]["auto"].reshape(8, 4, 16)
        weight = model.blocks[i].v.weight.detach().double().numpy().reshape(4, 4, 16)
        heads = np.einsum("hkd,bhd->bhk", weight, pooled).reshape(8, 16)
        caught = {}
        model.blocks[i].o.tap = lambda into, _, caught=caught: caught.update(x=into)
        with torch.no_grad():
            model(x)
        model.blocks[i].o.tap = None
        seen = caught["x"][torch.arange(8), position].double().numpy()
        assert np.allclose(heads, seen, atol=1e-5)
    constant = found["blocks.0.q"]
    assert (constant["target"] == constant["target"][0]).all()  # the mask has no neighbours yet
    assert constant["auto"] is constant["all"] or np.array_equal(constant["auto"], constant["all"])
    assert np.array_equal(found["blocks.1.q"]["auto"], found["blocks.1.q"]["target"])
    assert all(layer.tap is None for layer in model.named_linears().values())
    assert all(block.attend is None for block in model.blocks)


def test_starts(world):
    lora, model, worlds = world
    _, _, found, seed = worlds["topic"]
    layers = {name: layer for name, layer in model.named_linears().items() if name[-1] in "qv"}
    for kind in ("kaiming", "orthonormal", "pissa", "all", "target", "auto"):
        made = lora.starts(kind, layers, found, 3, 2.0, np.random.default_rng(seed))
        for name, (a, b) in made.items():
            weight = layers[name].weight.detach().double().numpy()
            if kind == "pissa":
                left = np.linalg.svd(weight - 2 * b @ a, compute_uv=False)
                full = np.linalg.svd(weight, compute_uv=False)
                assert np.allclose(left[:13], full[3:], atol=1e-9)
                continue
            assert not b.any()
            if kind != "kaiming":
                assert np.allclose(a @ a.T, np.eye(3), atol=1e-9)
            else:
                assert np.abs(a).max() <= 0.25
            if kind in ("all", "auto") or (kind == "target" and name[7] == "1"):
                rows = found[name][kind]
                rows = rows - rows.mean(axis=0)
                top = np.linalg.svd(rows, compute_uv=False)[:3] ** 2
                assert np.allclose(np.sum((rows @ a.T) ** 2), top.sum())


def test_training_leaves_the_encoder_alone(world):
    lora, model, worlds = world
    import torch

    data, head, found, seed = worlds["token"]
    layers = {name: layer for name, layer in model.named_linears().items() if name[-1] in "qv"}
    before = {name: value.clone() for name, value in model.state_dict().items()}
    options = {"steps": 6, "lr": 1e-2, "scaling": 2.0}
    for kind in ("orthonormal", "pissa"):
        made = lora.starts(kind, layers, found, 3, 2.0, np.random.default_rng(seed))
        plain = lora.train(model, made, head, *data, **options, pivot_at=None)
        assert plain == lora.train(model, made, head, *data, **options, pivot_at=None)
        turned = lora.train(model, made, head, *data, **options, pivot_at=3)
        assert turned != plain
        assert abs(turned[1] - plain[1]) < 0.2  # BA itself does not change at a pivot
        at_the_end = lora.train(model, made, head, *data, **options, pivot_at=6)
        assert abs(at_the_end[1] - plain[1]) < 1e-5
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert all(layer.adapter is None for layer in model.named_linears().values())
    assert all(p.requires_grad for p in model.parameters())


def test_gradients_by_finite_differences(world):
    lora, model, worlds = world
    import torch

    (data, _), head, _, _ = worlds["topic"]
    found = lora.gradients(model, head, data)
    last = [found[f"blocks.1.{part}"][1] for part in ("q", "o", "up", "down")]
    assert np.allclose(last, 1, atol=1e-12)  # the last block reaches the head through one token only
    assert found["blocks.1.v"][1] < 0.9
    double = type(model)(model.config, model.seed).double()
    double.load_state_dict({k: v.double() for k, v in model.state_dict().items()})
    x, position, y = (torch.from_numpy(part) for part in (data.x, data.position, data.y))

    def loss():
        with torch.no_grad():
            logits = lora.encode(double, x, position) @ torch.from_numpy(head).T
            return float(torch.nn.functional.cross_entropy(logits, y))

    for name in ("blocks.0.v", "blocks.1.q", "blocks.1.down"):
        layer, slope = double.named_linears()[name], found[name][0]
        i, j = np.unravel_index(np.abs(slope).argmax(), slope.shape)
        values = []
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                layer.weight[i, j] += step
            values.append(loss())
        with torch.no_grad():
            layer.weight[i, j] += 1e-5
        # float32 gradients: about 1e-6 relative, with room for cancellation
        assert abs((values[0] - values[1]) / 2e-5 - slope[i, j]) < 1e-3 * abs(slope[i, j])


def test_a_run(cache, needs, tmp_path, capsys):
    needs("pandas")
    settings = {"n": 4, "n_test": 6, "r": 2, "steps": 3, **SMALL}
    run = compare_encoder_starts(seeds=[3, 4], progress=True, **settings)
    assert "32/32" in capsys.readouterr().err
    assert run.accuracy.shape == (2, 8, 2)
    assert run.methods == ENCODER_METHODS
    assert ((run.accuracy >= 0) & (run.accuracy <= 1)).all()
    again = compare_encoder_starts(("token",), ("auto",), [4, 3], **settings)
    assert np.array_equal(again.losses[0, 0], run.losses[1, 5, ::-1])  # neither order nor company matters
    frame = run.to_frame()
    assert len(frame) == 16
    assert frame["difference"][0] == 0
    assert run.plot().get_xlabel() == "test accuracy"
    run.save(tmp_path / "r.npz")
    assert isinstance(Result.load(tmp_path / "r.npz"), EncoderRun)
    assert len(run.corpus_hash) == 64


def test_energy(cache, needs):
    needs("pandas")
    energy = measure_energy("topic", [0, 1], n=8, r=3, **SMALL)
    assert len(energy.modules) == 12
    assert ((energy.captured >= 0) & (energy.captured <= 1 + 1e-12)).all()
    assert np.allclose(
        energy.random, [3 / 64 if name.endswith("down") else 3 / 16 for name in energy.modules]
    )
    assert np.allclose(energy.ratio("all", "all"), 1)
    assert len(energy.to_frame()) == 12
    assert energy.plot().get_xlabel() == "share"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: compare_encoder_starts(seeds=[1]), "seeds must be at least two"),
        (lambda: compare_encoder_starts(("colour",)), "tasks must be"),
        (lambda: compare_encoder_starts(methods=("eva",)), "methods must be"),
        (lambda: compare_encoder_starts(n=5), "n must be even"),
        (lambda: measure_energy("colour"), "task must be"),
        (lambda: measure_energy(seeds=[]), "seeds must be"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(ValueError, match=text):
        call()
