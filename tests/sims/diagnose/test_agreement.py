"""Every number equals that of the separate function, or of its definition on the states themselves."""

import numpy as np
import pytest

from porism.sims.alignment import alignment_report
from porism.sims.diagnose import diagnose
from porism.sims.pattern import _scan, scan_attention
from porism.theory.pattern.shuffles import null_p_value
from porism.theory.token_capacity import HiddenStateMoments, choose_positions, coverage, min_positions

pytestmark = pytest.mark.full

KINDS = ["bert", "gpt2", "llama"]


def plain(batches):
    return [{name: value for name, value in batch.items() if name != "labels"} for batch in batches]


@pytest.fixture(params=[(kind, side) for kind in KINDS for side in ("right", "left")])
def case(request, world):
    kind, side = request.param
    return world.model(kind), world.batches(side=side), kind


def test_positions(case):
    model, batches, kind = case
    found = diagnose(model, batches, aspects="capacity", eps=0.05).capacity
    alone = choose_positions(model, batches, eps=0.05)
    for name in ("k", "layer", "warnings", "align"):
        assert getattr(found.choice, name) == getattr(alone, name)
    for name in ("order", "curve", "bins"):
        np.testing.assert_array_equal(getattr(found.choice, name), getattr(alone, name))
    with HiddenStateMoments(model, align="start" if kind == "bert" else "end") as watch:
        for batch in plain(batches):
            watch.update(**batch)
    for layer, curve, k, second in zip(
        found.layers, found.curves, found.k, watch.result().second, strict=True
    ):
        own = coverage(second, alone.order)
        np.testing.assert_array_equal(curve, own)
        assert k == min_positions(own, 0.05)
        assert layer in dict(model.named_modules())
    assert found.k.max() == found.choice.k


@pytest.mark.filterwarnings("ignore::porism.errors.NumericalWarning")
def test_alignment(case):
    model, batches, kind = case
    position = "cls" if kind == "bert" else "last"
    modules = [r.module for r in diagnose(model, batches, aspects="alignment", rank=4).alignment]
    assert len(modules) == {"bert": 6, "gpt2": 4, "llama": 6}[kind]  # query or fused, value, first of the MLP
    for rows in (4096, 40):
        found = diagnose(
            model, batches, aspects="alignment", rank=4, max_rows=rows, random_state=3, modules=modules
        ).alignment
        alone = alignment_report(
            model, batches, modules, 4, position=position, max_rows=rows, random_state=3, on_degenerate="warn"
        )
        assert (found.n_seen, found.position) == (24, position)
        for ours, theirs in zip(found, alone, strict=True):
            assert (ours.module, ours.rule, ours.recommendation) == (
                theirs.module,
                theirs.rule,
                theirs.recommendation,
            )
            np.testing.assert_equal(vars(ours.result), vars(theirs.result))
    assert {row.rule for row in found} >= {"attention", "target"}


def test_one_sequence_is_the_scan(case):
    model, batches, _ = case
    one = {name: value[:1] for name, value in plain(batches)[0].items()}
    found = diagnose(model, one, aspects="heads", n_null=19, random_state=4).heads
    alone = scan_attention(model, one, n_null=19, random_state=4)
    assert found.records == alone.records
    assert (found.causal, found.n_null, found.seed) == (alone.causal, 19, 4)
    assert set(found.n_tokens) == set(alone.n_tokens)


def test_pooled_heads(case, monkeypatch):
    """Means over sequences of what the scan of the whole batch has; p-values from its own shuffles."""
    model, batches, _ = case
    batch = plain(batches)[0]
    drawn = []
    honest = _scan.Scan._fixed

    def watched(self, *arguments):
        drawn.append(honest(self, *arguments)[1])
        return honest(self, *arguments)

    found = diagnose(model, batch, aspects="heads", n_null=19, random_state=4, scan_samples=None)
    with monkeypatch.context() as patch:
        patch.setattr(_scan.Scan, "_fixed", watched)
        alone = scan_attention(model, batch, n_null=19, random_state=4)
    nulls = dict(zip(sorted_places(alone), drawn, strict=True))
    assert found.n_scanned == 8
    for record in found.heads:
        same = [r for r in alone if (r.layer, r.head, r.mask) == (record.layer, record.head, record.mask)]
        assert len(same) == 8
        assert record.mass_outside == pytest.approx(np.mean([r.mass_outside for r in same]), abs=1e-13)
        assert record.null_mean == pytest.approx(np.mean([r.null_mean for r in same]), abs=1e-13)
        order = ["sink1", "sink4", "local"].index(record.mask)
        pooled = np.mean([nulls[r.layer, r.sample, r.head][:, order] for r in same], axis=0)
        p_value, effect = null_p_value(np.mean([r.mass_outside for r in same]), pooled)
        assert record.p_value == p_value
        assert record.effect == pytest.approx(effect, abs=1e-12)


def sorted_places(records):
    """The order in which maps come by: layer, sample, head."""
    return sorted({(r.layer, r.sample, r.head) for r in records})


def test_heads_do_not_depend_on_batches(world):
    model = world.model()
    whole = plain(world.batches(count=1, lengths=(9, 10)))[0]
    split = [{k: v[i : i + 3] for k, v in whole.items()} for i in range(0, 8, 3)]
    one, other = (
        diagnose(model, batches, aspects="heads", n_null=9, scan_samples=None).heads
        for batches in (whole, split)
    )
    for a, b in zip(one, other, strict=True):
        assert (a.layer, a.head, a.mask, a.p_value) == (b.layer, b.head, b.mask, b.p_value)
        # rows of a batch run through other float32 kernels in another batch: 1e-6 of a mass of at most 1
        assert a.mass_outside == pytest.approx(b.mass_outside, abs=1e-5)


def test_ranks(case):
    model, batches, _ = case
    found = diagnose(model, batches, aspects="ranks").ranks
    import torch

    states = {}
    with torch.no_grad():
        for batch in plain(batches):
            told = model(**batch, output_hidden_states=True).hidden_states
            for i, x in enumerate(told[:-1]):  # the last one has gone through a final norm in some
                states.setdefault(i, []).append(x[batch["attention_mask"].bool()].double().numpy())
    assert list(found.layer[:1]) == ["input"]
    assert len(found.layer) == 3

    def rank(x):
        p = np.linalg.svd(x, compute_uv=False) ** 2
        p = p[p > 1e-13 * p.max()] / p.sum()
        return np.exp(-(p * np.log(p)).sum()), 1 / (p**2).sum()

    for i, rows in states.items():
        x = np.concatenate(rows)
        assert len(x) == found.n_tokens
        # float64 sums of squares of float32 states
        assert found.effective_rank[i] == pytest.approx(rank(x)[0], rel=1e-8)
        centred = rank(x - x.mean(0))
        assert found.centred_rank[i] == pytest.approx(centred[0], rel=1e-8)
        assert found.participation_ratio[i] == pytest.approx(centred[1], rel=1e-8)
        share = len(x) * (x.mean(0) ** 2).sum() / (x**2).sum()
        assert found.mean_share[i] == pytest.approx(share, rel=1e-8)


def test_ranks_of_a_block_that_runs_twice(world):
    """ALBERT's one block: both of its outputs count."""
    t = world.transformers
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
    model = t.AlbertModel(t.AlbertConfig(vocab_size=50, embedding_size=16, **sizes)).eval()
    (batch,) = plain(world.batches(count=1))
    found = diagnose(model, batch, aspects="ranks").ranks
    with world.torch.no_grad():
        states = model(**batch, output_hidden_states=True).hidden_states[1:]
    x = np.concatenate([h[batch["attention_mask"].bool()].double().numpy() for h in states])
    share = len(x) * (x.mean(0) ** 2).sum() / (x**2).sum()
    assert found.mean_share[1] == pytest.approx(share, rel=1e-8)
    p = np.linalg.svd(x - x.mean(0), compute_uv=False) ** 2
    assert found.participation_ratio[1] == pytest.approx(p.sum() ** 2 / (p**2).sum(), rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_another_attention_gives_the_same(world, kind):
    """With sdpa the weights are not returned; the pass switches to eager attention and back."""
    batches = world.batches()
    one, other = (diagnose(world.model(kind, a), batches, rank=4, n_null=9) for a in ("eager", "sdpa"))
    assert one.summary() == other.summary()
    assert one.heads == other.heads


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # from inside peft
def test_spectra(world, needs, tmp_path):
    from porism.theory.lora_spectrum import read_adapter_spectrum

    peft = needs("peft")
    world.torch.manual_seed(1)
    config = peft.LoraConfig(r=3, lora_alpha=6, target_modules=["query", "value"], init_lora_weights=False)
    model = peft.get_peft_model(world.model(), config)
    found = diagnose(model, world.batches(labels=False), n_null=9).adapters["default"]
    model.save_pretrained(tmp_path / "adapter")
    alone = read_adapter_spectrum(tmp_path / "adapter")
    assert set(found.modules) == set(alone.modules)
    for name in alone.modules:
        np.testing.assert_allclose(found.spectra[name], alone.spectra[name], rtol=1e-12)
    for name in ("rank", "scaling", "shape", "kind"):
        np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))
