"""Losses that were measured before, and checkpoints that are kept and made again."""

import math
import sys
from functools import partial
from pathlib import Path

import pytest

from porism.sims import fit as module
from porism.sims.benchmark import one_thread
from porism.sims.corpora import digits_patches, markov, text_corpus, topics_char
from porism.sims.fit import RECIPES, Recipe, cache_dir, evaluator, fit, trained
from porism.sims.tiny_transformer import TinyConfig

TINY = TinyConfig(vocab=12, d=16, layers=1, heads=2, max_len=32, tie=False)


@pytest.fixture
def torch(needs):
    """One thread: small products are slower on two, and bits are promised for one."""
    torch = needs("torch")
    with one_thread():
        yield torch


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PORISM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "checkpoints"


# -- measured losses ----------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.slow
def test_smoke_gate(torch):
    from porism.sims.tiny_transformer import TinyTransformer

    corpus, model = topics_char(), TinyTransformer(TinyConfig(vocab=96), seed=0)
    check = evaluator(*corpus.windows())
    assert check(model) == pytest.approx(math.log(96), abs=0.05)
    result = fit(model, corpus.batches(), steps=100, schedule_steps=500, lr=4e-3, rng=0, eval_fn=check)
    assert result.validation[-1] <= 2.30
    assert result.validation[-1] == pytest.approx(2.216, abs=0.05)  # texts of other Pythons differ a little


@pytest.mark.full
@pytest.mark.slow
def test_markov_comes_near_its_floor(torch):
    """Below what any predictor of order one reaches, and never below the entropy rate."""
    from porism.sims.tiny_transformer import TinyTransformer

    corpus = markov(0)
    model = TinyTransformer(TinyConfig(vocab=12, d=48, layers=1, tie=False, max_len=64))
    check = evaluator(*corpus.windows(64))
    result = fit(model, corpus.batches(16, 64), steps=300, lr=1e-2, rng=0, eval_fn=check)
    error = 0.02  # of 64 texts: the spread of the surprise, 1.3 nats, over the root of 4096 symbols
    assert corpus.entropy_rate - error < result.validation[-1] < corpus.entropy_rate + 0.2
    assert result.validation[-1] < corpus.order1_loss - 0.5


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(("causal", "readout"), [(False, "mean"), (True, "last"), (True, "token")])
def test_digits_are_learned(torch, needs, causal, readout):
    needs("sklearn")
    from porism.sims.tiny_transformer import TinyTransformer

    corpus = digits_patches()
    model = TinyTransformer(
        TinyConfig(
            input_dim=4, n_out=10, d=48, position="learned", max_len=16, causal=causal, readout=readout
        )
    )
    fit(model, corpus.batches(64), steps=150, lr=4e-3, loss="classify", rng=0)
    x, y = corpus.windows()
    with torch.no_grad():
        accuracy = float((model(torch.tensor(x)).argmax(dim=1) == torch.tensor(y)).double().mean())
    assert accuracy > 0.75  # chance is 0.1


# -- checkpoints --------------------------------------------------------------------------------------------

QUICK = Recipe(TINY, "markov", steps=5, lr=1e-2, options={"seed": 1})


@pytest.mark.full
def test_checkpoints_are_kept_and_made_again(torch, needs, cache, monkeypatch):
    needs("safetensors")
    model, result = trained(QUICK, seed=3)
    assert result.corpus_hash == markov(1).hash == model.corpus_hash
    assert (model.seed, result.steps) == (3, 5)
    (path,) = cache.glob("*.safetensors")
    content, same = path.read_bytes(), partial(torch.testing.assert_close, model.state_dict(), rtol=0, atol=0)
    monkeypatch.setattr(module, "fit", None)  # from here on, training would fail
    again, record = trained(QUICK, seed=3)
    assert again is not model
    same(again.state_dict())
    assert record.train.tolist() == result.train.tolist()
    with pytest.raises(TypeError):
        trained(QUICK, seed=4)
    monkeypatch.undo()
    monkeypatch.setenv("PORISM_CACHE", str(cache.parent))
    for damage in (lambda: path.write_bytes(content[:100]), path.unlink, path.with_suffix(".npz").unlink):
        damage()
        same(trained(QUICK, seed=3)[0].state_dict())
        assert path.read_bytes() == content
    trained(Recipe(TINY, "markov", steps=5, lr=1e-2, options={"seed": 2}), seed=3)
    trained(Recipe(TINY, "markov", steps=6, lr=1e-2, options={"seed": 1}), seed=3)
    assert len(list(cache.glob("*.safetensors"))) == 3
    assert {file.suffix for file in cache.iterdir()} == {".safetensors", ".npz"}  # no temporary files


@pytest.mark.full
def test_a_cache_that_cannot_be_written_warns(torch, needs, tmp_path, monkeypatch):
    needs("safetensors")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PORISM_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="set the environment variable PORISM_CACHE"):
        model, _ = trained(QUICK)
    assert model.corpus_hash


@pytest.mark.full
def test_digits_recipe(torch, needs, cache):
    needs("sklearn")
    needs("safetensors")
    config = TinyConfig(input_dim=4, n_out=10, d=16, max_len=16, causal=False, readout="mean")
    model, result = trained(Recipe(config, "digits_patches", steps=2, lr=1e-3, batch=8))
    assert model.tokenizer == "digits_2_0"
    assert result.validation[-1] == pytest.approx(math.log(10), abs=0.5)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"PORISM_CACHE": "/x/y", "XDG_CACHE_HOME": "/z"}, "/x/y"),
        ("linux", {"XDG_CACHE_HOME": "/z"}, "/z/porism"),
        ("linux", {"XDG_CACHE_HOME": "z"}, "~/.cache/porism"),
        ("linux", {}, "~/.cache/porism"),
        ("darwin", {"XDG_CACHE_HOME": "/z"}, "~/Library/Caches/porism"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/porism"),
        ("win32", {}, "~/AppData/Local/porism"),
    ],
)
def test_place_of_the_cache(monkeypatch, platform, variables, expected):
    for name in ("PORISM_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_dir() == Path(expected).expanduser()


def test_recipes():
    assert [RECIPES[name].config.n_parameters for name in ("xs", "s", "m")] == [104_768, 314_016, 799_872]
    with pytest.raises(ValueError, match="corpus must be one of 'topics_char'"):
        Recipe(TINY, "wikipedia", steps=5, lr=1e-2)
    with pytest.raises(ValueError, match="optimizer must be one of"):
        Recipe(TINY, "markov", steps=5, lr=1e-2, optimizer="lion")


@pytest.mark.full
def test_any_text_can_be_learned(torch):
    """A user's own text: memorised within a few steps, below the entropy of its characters."""
    from porism.sims.tiny_transformer import TinyTransformer

    corpus = text_corpus("the cat sat on the mat. " * 40, name="cats")
    model = TinyTransformer(TinyConfig(vocab=96, d=16, layers=1, heads=2))
    result = fit(
        model, corpus.batches(8, 16), steps=150, lr=1e-2, rng=0, eval_fn=evaluator(*corpus.windows(16))
    )
    assert result.validation[-1] < 1.0  # the characters alone have 2.2 nats
    assert model.tokenizer == "cats"
