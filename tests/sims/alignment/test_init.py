"""A LoRA start on real model classes: what is written, what is not, and what is refused before any write."""

import contextlib
import json
import warnings

import numpy as np
import pytest

from porism.errors import NumericalWarning
from porism.sims.alignment.features import Features, collect_features
from porism.sims.alignment.init import InitReport, init_pivot_lora

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:transformers"),
]
POSITION = {"bert": "cls", "gpt2": "last", "llama": "last"}


def projector(rows):
    q = np.linalg.qr(np.asarray(rows, dtype=np.float64).T)[0]
    return q @ q.T


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama"])
def test_a_spans_the_principal_directions_and_the_base_is_untouched(adapted, kind):
    base, batches = adapted.base(kind), adapted.batches()
    before, plain = adapted.checksum(base), adapted.logits(base, batches)
    names = [name for name, _ in base.named_modules()]
    model = adapted.lora(kind, base)
    kept = {name: (a, b) for name, (a, b) in adapted.factors(model).items()}
    wanted = {id(p): p.requires_grad for p in model.parameters()}
    report = init_pivot_lora(model, batches, position=POSITION[kind], measure=False, random_state=0)
    assert adapted.checksum(model, base_only=True) == before
    np.testing.assert_array_equal(adapted.logits(model, batches), plain)  # B = 0 adds exact zeros
    assert {id(p): p.requires_grad for p in model.parameters()} == wanted
    assert model.training
    fresh = adapted.base(kind)  # features of the model before it was adapted
    ours = [name for name in names if f"base_model.model.{name}" in kept]
    features = collect_features(fresh, batches, ours, position=POSITION[kind])
    assert len(report.module) == len(ours) == len(kept) > 3
    for place, name in enumerate(report.module):
        a, b = adapted.factors(model)[str(name)]
        assert a is kept[str(name)][0]
        assert b is kept[str(name)][1]
        assert not b.any()
        f = features[str(name).removeprefix("base_model.model.")]
        assert (f.rule, f.reason, len(f.x)) == (report.rule[place], report.reason[place], report.rows[place])
        x = f.x.astype(np.float64)
        s, v = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[1:]
        rows = a.detach().double().numpy()
        # float32 storage: entries are off by 6e-8 of at most 1
        np.testing.assert_allclose(rows @ rows.T, np.eye(4), atol=1e-6)
        np.testing.assert_allclose(np.abs(rows @ v[:4].T), np.eye(4), atol=2e-4)
        assert report.explained[place] == pytest.approx((s[:4] ** 2).sum() / (s**2).sum(), rel=1e-4)


def test_target_rows_are_what_a_hook_sees(adapted):
    """An oracle that shares no code: the inputs of one module at [CLS], read by hand."""
    model, batches, seen = adapted.lora(), adapted.batches(), []
    name = "base_model.model.bert.encoder.layer.1.attention.self.query"
    base = adapted.base().eval()
    hook = base.get_submodule(name.removeprefix("base_model.model.")).register_forward_pre_hook(
        lambda module, args: seen.append(args[0][:, 0])
    )
    adapted.logits(base, batches)
    hook.remove()
    init_pivot_lora(model, batches, measure=False)
    x = adapted.torch.cat(seen).double().numpy()
    v = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2]
    rows = adapted.factors(model)[name][0].detach().double().numpy()
    np.testing.assert_allclose(projector(rows), projector(v[:4]), atol=1e-4)


def test_the_last_query_lives_on_the_target_and_mostly_on_its_mean(adapted):
    """The first gradient of B, ``G A'``, has all of its energy on the target rows, the mean among them."""
    batches, shares = adapted.batches(count=1, size=6), {}
    name = "base_model.model.bert.encoder.layer.1.attention.self.query"
    base = adapted.base().double().eval()
    weight = base.get_submodule(name.removeprefix("base_model.model.")).weight
    base(**batches[0]).loss.backward()
    for center in (True, False):
        model = adapted.lora(r=6).double().eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)  # 6 centred samples have 5 directions
            report = init_pivot_lora(model, batches, pooling="target", center=center, random_state=0)
        model(**batches[0]).loss.backward()
        a, b = adapted.factors(model)[name]
        scaling = model.get_submodule(name).scaling["default"]
        expected = scaling * weight.grad.numpy() @ a.detach().numpy().T
        # collect_features keeps float64, so this is rounding only
        np.testing.assert_allclose(b.grad, expected, atol=1e-9 * np.abs(expected).max())
        shares[center] = float((b.grad**2).sum() / scaling**2 / (weight.grad**2).sum())
        assert report.center is center
        assert report.explained[list(report.module).index(name)] == pytest.approx(1, abs=1e-6)
    assert shares[False] == pytest.approx(1, abs=1e-9)
    assert shares[True] < shares[False]
    with pytest.raises(TypeError, match="center must be a bool"):
        init_pivot_lora(adapted.lora(), batches, center="mean")


def first_steps(adapted, model, batch):
    """Energy of the first step of every module, from the gradient of B that training sees."""
    model.zero_grad()
    model.eval()(**batch).loss.backward()
    return {name: float((b.grad.double() ** 2).sum()) for name, (_, b) in adapted.factors(model).items()}


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_auto_has_the_largest_first_step(adapted, kind):
    """Against every candidate, started and differentiated by peft and torch themselves."""
    (batch,), found = adapted.batches(count=1, size=16), {}
    for pooling in ("auto", "target", "all"):
        for center in (True, False):
            model = adapted.lora(kind)
            report = init_pivot_lora(
                model, [batch], position=POSITION[kind], pooling=pooling, center=center, measure=False,
                random_state=0,
            )  # fmt: skip
            assert not report.n_random.any()
            assert set(report.centred) == {center}
            found[pooling, center] = first_steps(adapted, model, batch)
    model = adapted.lora(kind)
    before = adapted.checksum(model, base_only=True)
    report = init_pivot_lora(model, [batch], position=POSITION[kind], random_state=0)
    assert adapted.checksum(model, base_only=True) == before
    assert report.center is None
    assert all("largest first-step energy" in reason for reason in report.reason)
    energy = first_steps(adapted, model, batch)
    for name, centred in zip(report.module, report.centred, strict=True):
        best = max(found[pooling, c][name] for pooling in ("auto", "target", "all") for c in (True, False))
        assert energy[name] == pytest.approx(best, rel=1e-3)  # float32 rows and slopes
        assert centred in (True, False)
    only = init_pivot_lora(adapted.lora(kind), [batch], position=POSITION[kind], center=True, random_state=0)
    assert only.centred.all()
    # the mean has energy of its own in these models: without centring some module is better off
    assert not report.centred.all()


def test_heads_stand_in_where_the_model_has_none(adapted):
    base, batches = adapted.base().bert, adapted.batches()
    config = adapted.peft.LoraConfig(r=4, target_modules=["query", "value"])
    model = adapted.peft.get_peft_model(base, config)
    one, two = (init_pivot_lora(model, batches, random_state=seed) for seed in (0, 0))
    assert all("largest first-step energy" in reason for reason in one.reason)
    assert one.reason.tolist() == two.reason.tolist()


@pytest.mark.parametrize("wrap", [dict, tuple, set], ids=["dict", "tuple", "unknown"])
def test_kinds_of_output(adapted, wrap):
    """A model of the user's may return its logits in a dict; what is not known is not measured."""
    torch = adapted.torch

    class Net(torch.nn.Sequential):
        def forward(self, x):
            found = super().forward(x)
            return {"logits": found} if wrap is dict else wrap([found])

    torch.manual_seed(0)
    net = Net(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    model = adapted.peft.get_peft_model(net, adapted.peft.LoraConfig(r=2, target_modules=["0"]))
    report = init_pivot_lora(model, [(torch.randn(20, 6), torch.arange(20) % 3)], random_state=0)
    expected = "not measured: an output of type set" if wrap is set else "largest first-step energy"
    assert expected in report.reason[0]


def test_what_cannot_be_measured_says_so(adapted):
    model, batches = adapted.lora(), adapted.batches()
    bare = [{"input_ids": batch["input_ids"]} for batch in batches]
    report = init_pivot_lora(model, bare, random_state=0)
    assert all(reason.endswith("(not measured: no classes)") for reason in report.reason)
    assert report.centred.all()
    broken = adapted.lora()
    adapted.torch.nn.init.constant_(broken.base_model.model.classifier.original_module.weight, float("inf"))
    report = init_pivot_lora(broken, batches, random_state=0)
    assert all(reason.endswith("(not measured: gradients that are not finite)") for reason in report.reason)
    same = [batch | {"labels": batch["labels"] * 0} for batch in batches]
    assert "fewer than two classes" in init_pivot_lora(model, same).reason[0]
    inner = model.base_model.model.bert
    inner.forward = adapted.torch.no_grad()(inner.forward)
    report = init_pivot_lora(model, batches, random_state=0)
    assert all("not measured: no backward pass (RuntimeError)" in reason for reason in report.reason[:-1])
    with pytest.raises(TypeError, match="measure must be a bool"):
        init_pivot_lora(model, batches, measure="energy")


def test_pissa_changes_the_base_and_is_refused(adapted):
    """The control of the checksum: a start that hides in the base weights does not pass it."""
    base = adapted.base()
    before = adapted.checksum(base)
    model = adapted.lora(base=base, init_lora_weights="pissa")
    assert adapted.checksum(model, base_only=True) != before
    whole = adapted.checksum(model)
    with pytest.raises(RuntimeError, match="has changed the base weights"):
        init_pivot_lora(model, adapted.batches(), overwrite=True)
    assert adapted.checksum(model) == whole


def test_stock_peft_reloads_a_trained_adapter(adapted, tmp_path):
    model, batches = adapted.lora(modules_to_save=["classifier"], use_rslora=True), adapted.batches()
    optimizer = adapted.torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    init_pivot_lora(model, batches)
    start = adapted.logits(model, batches)
    adapted.train(model, batches, optimizer)  # built before the start was written
    trained = adapted.logits(model, batches)
    assert np.abs(trained - start).max() > 1e-2
    model.save_pretrained(tmp_path)
    again = adapted.peft.PeftModel.from_pretrained(adapted.base(), tmp_path)
    np.testing.assert_allclose(adapted.logits(again, batches), trained, atol=1e-6)
    with model.disable_adapter():
        np.testing.assert_allclose(
            adapted.logits(model, batches), adapted.logits(adapted.base(), batches), atol=1e-6
        )


def test_ranks_scaling_and_norms(adapted):
    options = {"rank_pattern": {"query": 2, "layer.1.attention.self.value": 7}, "use_rslora": True}
    model = adapted.lora(**options)
    default = {name: a.detach().double().numpy() for name, (a, _) in adapted.factors(model).items()}
    scales = {n: m.scaling["default"] for n, m in model.named_modules() if hasattr(m, "lora_A")}
    report = init_pivot_lora(model, adapted.batches(), match_norm="kaiming")
    assert {n: m.scaling["default"] for n, m in model.named_modules() if hasattr(m, "lora_A")} == scales
    sizes = dict(zip(report.module.tolist(), report.r.tolist(), strict=True))
    assert {2, 4, 7} == set(sizes.values())
    energies = []
    for name, (a, _) in adapted.factors(model).items():
        r = 2 if name.endswith("query") else 7 if "layer.1.attention.self.value" in name else 4
        assert tuple(a.shape) == (r, default[name].shape[1])
        assert sizes[name] == r
        rows = a.detach().double().numpy()
        np.testing.assert_allclose(rows @ rows.T, np.eye(r) / 3, atol=1e-6)
        energies.append((default[name] ** 2).mean() / (rows**2).mean())
    # the mean square of k uniform entries is known to 0.9 / sqrt(k), over ten modules to 2.6 %
    assert np.mean(energies) == pytest.approx(1, abs=0.08)


def test_other_adapters_stay_and_do_not_count(adapted):
    batches, alone = adapted.batches(), adapted.lora()
    init_pivot_lora(alone, batches)
    model = adapted.lora()
    model.add_adapter(
        "other", adapted.peft.LoraConfig(r=3, target_modules=["query", "dense"], task_type="SEQ_CLS")
    )
    model.set_adapter("other")
    for _, b in adapted.factors(model, "other").values():
        adapted.torch.nn.init.normal_(b)  # would change the features if it were on
    other = {n: a.clone() for n, (a, _) in adapted.factors(model, "other").items()}
    next(iter(adapted.factors(model, "other").values()))[0].requires_grad_(False)  # frozen by the user
    flags = [p.requires_grad for p in model.parameters()]
    init_pivot_lora(model, batches)
    for name, (a, _) in adapted.factors(model).items():
        np.testing.assert_allclose(
            projector(a.detach().numpy()),
            projector(adapted.factors(alone)[name][0].detach().numpy()),
            atol=1e-4,
        )
    assert all(adapted.torch.equal(other[n], a) for n, (a, _) in adapted.factors(model, "other").items())
    assert model.active_adapters == ["other"]
    assert [p.requires_grad for p in model.parameters()] == flags
    with pytest.raises(ValueError, match=r"adapter_name must be one of 'default', 'other', got 'x'"):
        init_pivot_lora(model, batches, adapter_name="x")


def test_constant_target(adapted):
    batches, model = adapted.batches(same_first=True), adapted.lora()
    report = init_pivot_lora(model, batches)
    first = {name.split("layer.")[1]: i for i, name in enumerate(report.module)}
    assert report.rule[first["0.attention.self.query"]] == "all"
    assert not report.n_random.any()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NumericalWarning)
        report = init_pivot_lora(model, batches, pooling="target", random_state=3)
    assert len([w for w in caught if w.category is NumericalWarning]) == 1
    place = first["0.attention.self.query"]
    assert report.n_random[place] == 4
    assert np.isnan(report.explained[place])
    rows = adapted.factors(model)[str(report.module[place])][0].detach().double().numpy()
    np.testing.assert_allclose(rows @ rows.T, np.eye(4), atol=1e-6)
    before = adapted.checksum(model)
    with pytest.raises(ValueError, match="fewer directions than the rank"):
        init_pivot_lora(model, batches, pooling="target", on_degenerate="raise")
    assert adapted.checksum(model) == before


def test_jitter_of_half_precision_is_no_variance(adapted, monkeypatch):
    """Rows that differ by one unit in the last place of the model's type say nothing."""
    rng = np.random.default_rng(0)
    x = (1 + 2.0**-8 * rng.integers(0, 2, (20, 32))).astype(np.float32)
    model = adapted.lora(target_modules=["query"])
    for eps, random in ((2.0**-7, 4), (2.0**-23, 0)):
        read = lambda model, batches, names, eps=eps, **options: {
            n: Features(x, None, 20, input_eps=eps) for n in names
        }
        monkeypatch.setattr("porism.sims.alignment.init.collect_features", read)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            assert set(init_pivot_lora(model, []).n_random) == {random}


def test_few_samples_leave_random_rows(adapted):
    model, batches = adapted.lora(r=6), adapted.batches(count=1, size=4)
    with pytest.warns(NumericalWarning, match="fewer directions than the rank"):
        report = init_pivot_lora(model, batches, pooling="target", random_state=0)
    assert set(report.n_random) == {3}  # 4 centred samples have 3 directions
    again = adapted.lora(r=6)
    with pytest.warns(NumericalWarning):
        init_pivot_lora(again, batches, pooling="target", random_state=0)
    for name, (a, _) in adapted.factors(model).items():
        assert adapted.torch.equal(a, adapted.factors(again)[name][0])


def test_quantised_layers_are_only_read(adapted):
    torch = adapted.torch

    class Int8(torch.nn.Module):
        """A layer whose weight is no float and cannot be trained."""

        def __init__(self, linear):
            super().__init__()
            scale = linear.weight.abs().max() / 127
            self.register_buffer("weight", (linear.weight / scale).round().to(torch.int8))
            self.scale, self.in_features, self.out_features = (
                scale.item(),
                linear.in_features,
                linear.out_features,
            )

        def forward(self, x):
            return x @ (self.weight.float() * self.scale).T

    model, batches = adapted.lora(), adapted.batches()
    for module in model.modules():
        if hasattr(module, "lora_A"):
            module.base_layer = Int8(module.base_layer)
    before = adapted.checksum(model, base_only=True)
    report = init_pivot_lora(model, batches)
    assert adapted.checksum(model, base_only=True) == before
    assert not report.n_random.any()


def test_types_of_the_factors_stay(adapted):
    torch = adapted.torch
    model = adapted.lora(base=adapted.base().to(torch.bfloat16))
    for module in model.modules():
        if hasattr(module, "lora_A"):
            module.lora_A.to(torch.bfloat16)
    init_pivot_lora(model, adapted.batches())
    for a, b in adapted.factors(model).values():
        assert (a.dtype, b.dtype) == (torch.bfloat16, torch.float32)
        rows = a.detach().double().numpy()
        np.testing.assert_allclose(rows @ rows.T, np.eye(4), atol=8e-3)  # entries rounded to 2^-9


def test_regression_targets_are_no_matter(adapted):
    model, batches = adapted.lora(), adapted.batches()
    init_pivot_lora(model, batches, measure=False)
    expected = {n: a.clone() for n, (a, _) in adapted.factors(model).items()}
    real = [batch["labels"].float() for batch in batches]
    for labels in (real, [y.numpy() for y in real], [y.tolist() for y in real]):
        given = [batch | {"labels": y} for batch, y in zip(batches, labels, strict=True)]
        pairs = [({"input_ids": batch["input_ids"]}, batch["labels"]) for batch in given]
        for data in (given, pairs):
            assert init_pivot_lora(model, data).n_seen == 24
            assert all(adapted.torch.equal(expected[n], a) for n, (a, _) in adapted.factors(model).items())


def test_dora_keeps_the_output(adapted):
    model, batches = adapted.lora(use_dora=True), adapted.batches()
    init_pivot_lora(model, batches)
    plain = adapted.logits(adapted.base(), batches)
    np.testing.assert_allclose(adapted.logits(model, batches), plain, atol=1e-5)
    for _, b in adapted.factors(model).values():
        adapted.torch.nn.init.ones_(b)
    with pytest.raises(NotImplementedError, match="trained DoRA magnitudes"):
        init_pivot_lora(model, batches, overwrite=True)


def test_trained_and_merged_adapters_are_refused(adapted):
    model, batches = adapted.lora(), adapted.batches()
    adapted.torch.nn.init.ones_(next(iter(adapted.factors(model).values()))[1])
    before = adapted.checksum(model)
    with pytest.raises(RuntimeError, match="init would discard a trained adapter"):
        init_pivot_lora(model, batches)
    assert adapted.checksum(model) == before
    model.merge_adapter()
    with pytest.raises(RuntimeError, match="adapter is merged; unmerge before initialising"):
        init_pivot_lora(model, batches, overwrite=True)
    model.unmerge_adapter()
    init_pivot_lora(model, batches, overwrite=True)
    assert not any(b.any() for _, b in adapted.factors(model).values())


def unsupported(adapted, what):
    torch, peft = adapted.torch, adapted.peft
    if what == "embedding":
        return adapted.lora(target_modules=["query", "word_embeddings"])
    if what == "convolution":
        net = torch.nn.Sequential(torch.nn.Conv1d(3, 4, 2), torch.nn.Flatten(), torch.nn.Linear(8, 4))
        return peft.get_peft_model(net, peft.LoraConfig(r=2, target_modules=["0", "2"]))
    if what == "attention":
        net = torch.nn.TransformerEncoderLayer(8, 2, 8)
        return peft.get_peft_model(net, peft.LoraConfig(r=2, target_modules=["linear1", "self_attn"]))
    if what == "adalora":
        config = peft.AdaLoraConfig(init_r=2, target_r=1, total_step=9, target_modules=["query"])
        return peft.get_peft_model(adapted.base(), config)
    if what == "loha":
        return peft.get_peft_model(adapted.base(), peft.LoHaConfig(r=2, target_modules=["query"]))
    model = adapted.lora()
    if what == "flattened":
        a, _ = list(adapted.factors(model).values())[-1]
        a.data = a.data.flatten()
    else:
        list(adapted.factors(model).values())[-1][0].ds_id = 3
    return model


@pytest.mark.parametrize(
    "what", ["embedding", "convolution", "attention", "adalora", "loha", "flattened", "sharded"]
)
def test_what_is_not_known_is_refused_before_any_write(adapted, what):
    model = unsupported(adapted, what)
    before = adapted.checksum(model)
    with pytest.raises(NotImplementedError, match=r"module '[\w.]+' "):
        init_pivot_lora(model, adapted.batches())
    assert adapted.checksum(model) == before


def test_bad_arguments_change_nothing(adapted):
    model, batches = adapted.lora(rank_pattern={"layer.0.attention.self.query": 33}), adapted.batches()
    before = adapted.checksum(model)
    with pytest.raises(ValueError, match=r"^rank r=33 must be in 1..d=32"):
        init_pivot_lora(model, batches)
    with pytest.raises(TypeError, match="without any; call get_peft_model first"):
        init_pivot_lora(adapted.base(), batches)
    with pytest.raises(ValueError, match="match_norm must be one of"):
        init_pivot_lora(model, batches, match_norm="unit")
    model = adapted.lora()
    before, flags = adapted.checksum(model), [p.requires_grad for p in model.parameters()]
    for pooling in ("target", "auto"):
        with pytest.raises(ValueError, match=r"^need at least 2 samples, got 1 for module 'base_model"):
            init_pivot_lora(model, adapted.batches(count=1, size=1), pooling=pooling)
    with pytest.raises(ValueError, match="batches must hold at least one batch"):
        init_pivot_lora(model, [])
    with contextlib.suppress(Exception):  # whatever the model raises on a token that does not exist
        init_pivot_lora(model, [{"input_ids": batches[0]["input_ids"] + 100}])
    assert adapted.checksum(model) == before
    assert [p.requires_grad for p in model.parameters()] == flags
    assert not any(m.disable_adapters for m in model.modules() if hasattr(m, "lora_A"))


def test_non_finite_features_name_the_module(adapted):
    model = adapted.lora()
    with adapted.torch.no_grad():
        model.base_model.model.bert.embeddings.word_embeddings.weight[7] = float("nan")
    before = adapted.checksum(model)
    with pytest.raises(ValueError, match=r"features of 'base_model\.[\w.]+' contain \d+ non-finite values"):
        init_pivot_lora(model, adapted.batches(same_first=True))
    assert adapted.checksum(model) == before


def test_report(adapted, tmp_path):
    report = init_pivot_lora(adapted.lora(), adapted.batches())
    report.save(tmp_path / "init.npz")
    again = InitReport.load(tmp_path / "init.npz")
    assert again.summary() == report.summary()
    assert "24 samples" in report.summary()
    frame = report.to_frame()
    assert list(frame.module) == list(report.module)
    assert {"rule", "reason", "explained", "n_random"} <= set(frame)
    json.dumps(frame.attrs)
