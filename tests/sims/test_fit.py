"""The trainer: its schedule, what it promises about determinism and side effects, and measured losses."""

import math
import warnings

import numpy as np
import pytest

from porism.results import Result
from porism.sims.benchmark import one_thread
from porism.sims.corpora import markov
from porism.sims.fit import FitResult, evaluator, fit, learning_rate
from porism.sims.tiny_transformer import TinyConfig

TINY = TinyConfig(vocab=12, d=16, layers=1, heads=2, max_len=32, tie=False)


@pytest.fixture
def torch(needs):
    """One thread: small products are slower on two, and bits are promised for one."""
    torch = needs("torch")
    with one_thread():
        yield torch


def tiny(seed=0, **changes):
    from dataclasses import replace

    from porism.sims.tiny_transformer import TinyTransformer

    return TinyTransformer(replace(TINY, **changes), seed)


def run(model=None, **changes):
    settings = {"steps": 6, "lr": 1e-2, "warmup": 2, "rng": 0} | changes
    model = model or tiny()
    return fit(model, settings.pop("batches", markov().batches(4, 16)), **settings)


# -- schedule and arguments ---------------------------------------------------------------------------------


def test_schedule():
    rates = [learning_rate(i, 2.0, 50, 500) for i in range(501)]
    assert rates[0] == pytest.approx(2 / 50)
    assert rates[49] == pytest.approx(2 * (0.1 + 0.45 * (1 + math.cos(math.pi * 49 / 500))))
    assert rates[250] == pytest.approx(2 * 0.55)
    assert rates[500] == pytest.approx(0.2)
    assert max(rates) == rates[49]
    assert learning_rate(0, 2.0, 0, 500) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps must be >= 1, got 0"),
        ({"lr": 0.0}, "lr must be finite and > 0"),
        ({"schedule_steps": 5}, "schedule_steps must be >= 6, got 5"),
        ({"stop_below": 1.0}, "stop_below compares the validation loss, got eval_fn=None"),
        ({"budget_seconds": 9.0, "scale": "smoke"}, "budget_seconds must be None at scale='smoke', got 9.0"),
        ({"budget_seconds": 0}, "budget_seconds must be finite and > 0"),
        ({"scale": "big"}, "scale must be one of 'smoke', 'paper'"),
        ({"clip": 0}, "clip must be finite and > 0"),
        ({"weight_decay": -0.1}, "weight_decay must be finite and > 0"),
        ({"betas": (0.9, 1.5)}, r"betas\[1\] must be in \[0, 1\]"),
        ({"betas": (0.9, 1.0)}, r"betas must be two numbers in \[0, 1\), got \(0\.9, 1\.0\)"),
        ({"betas": (0.9,)}, r"betas must be two numbers in \[0, 1\), got \(0\.9,\)"),
    ],
)
def test_arguments_that_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        run(model=object(), **changes)


@pytest.mark.full
def test_arguments_that_are_refused_with_a_model(torch):
    with pytest.raises(ValueError, match="loss must be one of 'next_token', 'classify', 'regress'"):
        run(loss="hinge")
    with pytest.raises(ValueError, match="optimizer must be one of 'adamw', 'muon'"):
        run(optimizer="lion")
    with pytest.raises(ValueError, match="parameters must not be empty"):
        run(parameters=[])
    model = tiny()
    model.head.weight.requires_grad_(False)
    with pytest.raises(ValueError, match="parameters must require gradients, got 1 that do not"):
        run(model, parameters=[model.head.weight])
    linear = torch.nn.Linear(2, 1)
    with pytest.raises(ValueError, match=r"needs parameters with two axes in model\.blocks"):
        run(linear, optimizer="muon", loss="regress")
    with pytest.raises(ValueError, match=r"y must have the shape of the output, \(3, 1\), got \(3,\)"):
        run(linear, loss="regress", batches=lambda rng: (np.zeros((3, 2)), np.zeros(3)))


# -- one step by hand ---------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("clip", [None, 1e-2])
def test_steps_equal_a_plain_loop(torch, clip):
    batches, ours, theirs = markov().batches(4, 16), tiny(3), tiny(3)
    decay = [p for p in theirs.parameters() if p.ndim == 2]
    other = [p for p in theirs.parameters() if p.ndim != 2]
    assert {n for n, p in theirs.named_parameters() if p.ndim != 2} == {
        "blocks.0.norm1.weight",
        "blocks.0.norm2.weight",
        "norm.weight",
    }
    groups = [{"params": decay, "weight_decay": 0.3}, {"params": other, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=(0.8, 0.9))
    rng, losses = np.random.default_rng(5), []
    for i in range(4):
        x, y = (torch.tensor(part) for part in batches(rng))
        loss = torch.nn.functional.cross_entropy(theirs(x).reshape(-1, 12), y.reshape(-1))
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip)
        for group in optimizer.param_groups:
            group["lr"] = 0.02 * min(1, (i + 1) / 3) * (0.1 + 0.45 * (1 + math.cos(math.pi * i / 9)))
        optimizer.step()
    result = run(
        ours,
        batches=batches,
        steps=4,
        lr=0.02,
        warmup=3,
        weight_decay=0.3,
        betas=(0.8, 0.9),
        clip=clip,
        schedule_steps=9,
        rng=5,
        eval_every=2,
    )
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=1e-6)  # float32, lr 0.02
    assert result.train == pytest.approx([np.mean(losses[:2]), np.mean(losses[2:])], rel=1e-5)
    assert result.step.tolist() == [2, 4]


# -- record and stopping ------------------------------------------------------------------------------------


@pytest.mark.full
def test_record(torch, tmp_path):
    corpus, model = markov(), tiny()
    result = run(model, steps=7, eval_every=3, eval_fn=evaluator(*corpus.windows(16)), rng=11)
    assert result.step.tolist() == [3, 6, 7]
    assert np.isfinite(result.validation).all()
    assert (np.diff(result.seconds) > 0).all()
    assert (result.steps, result.stopped, result.seed) == (7, "steps", 11)
    assert result.corpus_hash == corpus.hash == model.corpus_hash
    assert model.tokenizer == "markov_12_0.3_0"
    assert result.threads == torch.get_num_threads()
    assert result.versions["torch"] == torch.__version__
    assert list(result.history) == ["step", "seconds", "train", "validation"]
    result.save(tmp_path / "r.npz")
    again = Result.load(tmp_path / "r.npz")
    assert isinstance(again, FitResult)
    assert again.history["train"].tolist() == result.train.tolist()
    assert run(rng=np.random.default_rng(4)).seed == 4
    assert np.isnan(run().validation).all()


@pytest.mark.full
def test_record_as_table_and_picture(torch, needs):
    needs("pandas")
    needs("matplotlib").use("agg")
    from matplotlib import pyplot

    result = run(eval_every=2)
    frame = result.to_frame()
    assert list(frame.columns) == ["step", "seconds", "train", "validation"]
    assert frame.attrs["stopped"] == "steps"
    ax = result.plot()
    assert ax.lines[0].get_ydata().tolist() == result.train.tolist()
    pyplot.close(ax.figure)


@pytest.mark.full
def test_stopping(torch):
    values = iter([3.0, 2.0, 1.0, 0.5])
    result = run(steps=9, eval_every=2, eval_fn=lambda model: next(values), stop_below=1.5)
    assert (result.stopped, result.steps, result.validation.tolist()) == ("loss", 6, [3.0, 2.0, 1.0])
    result = run(steps=10_000, budget_seconds=0.05, eval_every=10_000, eval_fn=lambda model: 1.0)
    assert result.stopped == "budget"
    assert result.steps == result.step[-1] < 10_000
    assert result.validation.tolist() == [1.0]


@pytest.mark.full
def test_evaluation_records_no_gradient(torch):
    corpus = markov()
    x, y = corpus.windows(16, 10)
    model = tiny()
    with torch.no_grad():
        out = model(torch.tensor(x)).log_softmax(dim=-1)
        expected = -out.gather(2, torch.tensor(y)[..., None]).mean().item()
    for chunk in (3, 10, 64):  # the last chunk is shorter and weighs less
        assert evaluator(x, y, chunk=chunk)(model) == pytest.approx(expected, rel=1e-6)
    seen = []
    run(eval_fn=lambda model: seen.append(torch.is_grad_enabled()) or 0.0)
    assert seen == [False]
    with pytest.raises(ValueError, match="equally many and not empty, got 2 and 1"):
        evaluator(x[:2], y[:1])


# -- determinism and side effects ---------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_two_runs_have_the_same_bits(torch, optimizer):
    def once(seed):
        model = tiny(2)
        torch.manual_seed(len(seen))  # global state is not read
        seen.append(run(model, optimizer=optimizer, rng=seed, steps=12))
        return b"".join(value.numpy().tobytes() for value in model.state_dict().values())

    seen = []
    assert once(0) == once(0) != once(1)
    assert seen[0].train.tolist() == seen[1].train.tolist()


@pytest.mark.full
def test_only_chosen_parameters_change(torch):
    model = tiny()
    layer = model.named_linears()["blocks.0.v"]
    layer.adapter = torch.nn.Linear(16, 16, bias=False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    model.eval()
    run(model, parameters=layer.adapter.parameters())
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"blocks.0.v.adapter.weight"}
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert not model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    model.embedding.requires_grad_(False)
    run(model)
    assert torch.equal(model.embedding, before["embedding"])
    assert not torch.equal(model.head.weight, before["head.weight"])


@pytest.mark.full
def test_rules_and_custom_losses(torch):
    calls = []

    def loss(model, x, y):
        calls.append(x.shape)
        mask = torch.ones(x.shape, dtype=torch.bool)
        return torch.nn.functional.cross_entropy(model(x, key_mask=mask).flatten(0, 1), y.flatten())

    ours, theirs = tiny(1), tiny(1)
    for layer in ours.named_linears().values():
        layer.rule = lambda x, weight: x @ weight.T
    run(ours, loss=loss)
    run(theirs)
    assert calls == [(4, 16)] * 6
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=1e-4)


@pytest.mark.full
def test_labels_can_be_left_out(torch):
    """Labels of -100 are ignored: a masked language model trains on the others only."""

    def masked(rng):
        x, _ = markov().batches(4, 16)(rng)
        y = np.full_like(x, -100)
        y[:, 5] = x[:, 5]
        return np.where(y >= 0, 0, x), y

    result = run(tiny(causal=False), batches=masked, steps=1)
    model, (x, y) = tiny(causal=False), masked(np.random.default_rng(0))
    with torch.no_grad():
        out = model(torch.tensor(x))[:, 5].log_softmax(dim=-1)
    assert result.train[0] == pytest.approx(-out[range(4), y[:, 5]].mean().item(), rel=1e-5)


@pytest.mark.full
def test_optimizers_get_their_parameters(torch):
    made = []

    def several(groups):
        made.extend(groups)
        return [torch.optim.SGD([group]) for group in groups]

    model, before = tiny(), tiny().state_dict()
    run(model, optimizer=several, lr=0.5, warmup=0, weight_decay=0.2, steps=1)
    assert [(g["lr"], g["weight_decay"]) for g in made] == [(0.5, 0.2), (0.5, 0.0)]
    assert sum(len(g["params"]) for g in made) == len(list(model.parameters()))
    assert not any(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    plain = tiny()
    run(plain, optimizer=torch.optim.SGD, lr=0.5, warmup=0, weight_decay=0.2, steps=1)
    torch.testing.assert_close(plain.state_dict(), model.state_dict(), rtol=0, atol=0)


@pytest.mark.full
def test_muon_moves_block_matrices_by_orthogonal_steps(torch):
    model, before = tiny(), tiny().state_dict()
    run(model, optimizer="muon", lr=0.1, warmup=0, weight_decay=0.0, steps=1)
    step = {name: value - before[name] for name, value in model.state_dict().items()}
    assert 0.4 < float(step["embedding"].abs().max() / 0.1) <= 1.001  # AdamW's first step is a sign
    for name, moved in step.items():
        if name.startswith("blocks.") and moved.ndim == 2:
            # 0.2 sqrt(max side) times singular values that five iterations bring to 1, give or take a third
            singular = torch.linalg.svdvals(moved) / (0.1 * 0.2 * max(moved.shape) ** 0.5)
            assert 0.3 < float(singular.median()) < 1.3, name
            assert float(singular.max()) < 1.35, name


@pytest.mark.full
def test_not_finite(torch):
    def poisoned(rng):
        x = rng.normal(size=(4, 2))
        return x, np.full((4, 1), np.nan if next(step) == 3 else 0.0)

    step, linear = iter(range(9)), torch.nn.Linear(2, 1)
    with pytest.raises(FloatingPointError, match=r"loss must be finite, got nan at step 3 \(lr=0\.01\)"):
        run(linear, batches=poisoned, loss="regress", optimizer=torch.optim.SGD)
    assert all(bool(p.isfinite().all()) and p.grad is None for p in linear.parameters())

    def steep(model, x, y):
        return (model(x).abs() * 0).sqrt().sum()  # finite, with an infinite slope

    step = iter(range(9))
    with pytest.raises(FloatingPointError, match=r"norm of the gradient must be finite, got nan at step 0"):
        run(linear, batches=poisoned, loss=steep, optimizer=torch.optim.SGD)
    assert all(bool(p.isfinite().all()) for p in linear.parameters())


@pytest.mark.full
def test_examples_of_the_shown_classes_run(torch):
    """Classes that a public module only shows are passed over by the walk through the modules."""
    import doctest

    from porism.sims import _blocks, _corpus, _fit_result, _recipes, _transformer, _worlds, corpora

    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    names = {**vars(corpora), "TinyConfig": TinyConfig}
    count = 0
    for part in (_blocks, _corpus, _fit_result, _recipes, _transformer, _worlds):
        for name in part.__all__:
            for test in doctest.DocTestFinder(exclude_empty=True).find(
                getattr(part, name), name, module=False, globs=names | vars(part)
            ):
                with warnings.catch_warnings():
                    count += runner.run(test).attempted
    assert count > 15
    assert runner.summarize(verbose=False).failed == 0
