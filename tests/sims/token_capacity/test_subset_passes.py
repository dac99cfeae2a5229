"""What runs in which mode, and that everything is as before, also after an error."""

import threading

import pytest

from porism.sims.subset_backprop import SubsetBackprop

pytestmark = pytest.mark.full
DROPOUT = {"gpt2": {"resid_pdrop": 0.2, "attn_pdrop": 0.2}, "llama": {"attention_dropout": 0.3},
           "bert": {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}}  # fmt: skip
FIRST = {"gpt2": "transformer.h.0", "llama": "model.layers.0", "bert": "bert.encoder.layer.0"}


@pytest.fixture
def watch(torch):
    """Mode, gradient mode and length of each pass through the first layer."""

    def start(model, kind):
        seen = []

        def hook(module, inputs, kwargs):
            hidden = inputs[0] if inputs else kwargs["hidden_states"]
            seen.append((module.training, torch.is_grad_enabled(), hidden.shape[1]))

        model.get_submodule(FIRST[kind]).register_forward_pre_hook(hook, with_kwargs=True)
        return seen

    return start


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_lengths_and_modes(torch, tiny, batch, watch, kind):
    """A causal suffix runs T tokens in all; the recording is in evaluation mode, without gradient."""
    ids, _ = batch()
    model = tiny(kind).train()
    seen = watch(model, kind)
    wrapper = SubsetBackprop(model, verify="never")
    wrapper.forward(3, input_ids=ids)
    assert seen == [(False, False, 10 if kind == "bert" else 7), (True, True, 3)]
    seen.clear()
    wrapper.forward(torch.tensor([[2, 9, 4]]).expand(3, -1), input_ids=ids)
    assert seen == [(False, False, 10 if kind == "bert" else 9), (True, True, 3)]
    seen.clear()
    wrapper.forward(10, input_ids=ids)  # nothing to record
    assert seen == [(True, True, 10)]
    seen.clear()
    SubsetBackprop(model, verify="never", frozen_dropout=True).forward(3, input_ids=ids)
    assert seen[0][:2] == (True, False)
    assert model.training


def test_verification_is_done_once_or_always(torch, tiny, batch, watch):
    ids, _ = batch()
    for verify, passes in (("never", [2, 2]), ("first", [4, 2]), ("always", [4, 4])):
        model = tiny("llama").train()
        seen = watch(model, "llama")
        wrapper = SubsetBackprop(model, verify=verify)
        for wanted in passes:
            seen.clear()
            wrapper.forward(3, input_ids=ids)
            assert len(seen) == wanted
            assert seen[-1] == (True, True, 3)
            assert not any(training for training, _, _ in seen[:-1])


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_dropout(torch, tiny, batch, kind):
    """Off in evaluation mode; in training mode it acts on selected positions, and on frozen ones if asked."""
    ids, _ = batch("left")
    mask = batch("left")[1]
    model = tiny(kind, **DROPOUT[kind])
    still = SubsetBackprop(model).forward(3, input_ids=ids, attention_mask=mask).hidden
    model.train()

    def run(seed, **options):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return SubsetBackprop(model, **options).forward(3, input_ids=ids, attention_mask=mask).hidden

    a, again, b = run(0), run(0), run(1)
    assert torch.equal(a, again)
    assert (a - b).abs().max() > 1e-3
    assert (a - still).abs().max() > 1e-3
    assert (run(0, verify="never", frozen_dropout=True) - run(0, verify="never")).abs().max() > 1e-3
    a.sum().backward()
    assert model.training
    assert all(m.training for m in model.modules())


def test_dropped_attention_weights_have_the_right_mean(torch):
    """Kept with probability 1 - p and scaled: the mean of 4000 draws is within 6 standard errors."""
    from porism.sims.token_capacity._attention import plain

    generator = torch.Generator().manual_seed(0)
    q, k, v, kf, vf = (torch.randn(1, 2, n, 4, generator=generator) for n in (2, 2, 2, 3, 3))
    at = {"index_query": torch.tensor([[3, 4]]), "index_frozen": torch.arange(3)[None], "valid_fresh": None,
          "valid_frozen": None, "causal": True, "window": 0, "scale": 0.5}  # fmt: skip
    wanted = plain(q, k, v, kf, vf, **at)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        many = plain(*(x.expand(4000, -1, -1, -1) for x in (q, k, v, kf, vf)), **at, dropout=0.3)
    assert ((many.mean(0) - wanted).abs() <= 6 * many.std(0) / 4000**0.5 + 1e-6).all()
    assert many.std(0).min() > 0


@pytest.mark.parametrize("where", ["record", "verify", "replay"])
def test_everything_comes_back_after_an_error(torch, tiny, batch, where):
    ids, _ = batch()
    model = tiny("llama").train()
    model.model.layers[1].eval()
    modes = [m.training for m in model.modules()]
    calls = []

    def fail(module, inputs):
        calls.append(1)
        if len(calls) == {"record": 1, "verify": 2, "replay": 4}[where]:
            raise KeyError("stop")

    hook = model.model.layers[2].register_forward_pre_hook(fail)
    wrapper = SubsetBackprop(model)
    with pytest.raises(KeyError, match="stop"):
        wrapper.forward(3, input_ids=ids)
    assert model.config._attn_implementation == "sdpa"
    assert [m.training for m in model.modules()] == modes
    assert torch.is_grad_enabled()
    hook.remove()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    out = wrapper.forward(3, input_ids=ids)  # and the model is free again
    assert model.config._attn_implementation == "sdpa"
    assert [m.training for m in model.modules()] == modes
    out.hidden.sum().backward()


def test_no_reentrant_use(torch, tiny, batch):
    ids, _ = batch()
    model = tiny("llama")
    inner, outer = SubsetBackprop(model), SubsetBackprop(model, verify="never")
    hook = model.model.layers[0].register_forward_pre_hook(lambda *a: inner.forward(2, input_ids=ids))
    with pytest.raises(RuntimeError, match="already inside a SubsetBackprop pass"):
        outer.forward(2, input_ids=ids)
    hook.remove()
    outer.forward(2, input_ids=ids)


def test_two_models_in_two_threads(torch, tiny, batch):
    ids, _ = batch()
    models = [tiny("llama"), tiny("bert")]
    wanted = [SubsetBackprop(m).forward(3, input_ids=ids).hidden for m in models]
    found = [None, None]

    def work(i):
        for _ in range(5):
            found[i] = SubsetBackprop(models[i]).forward(3, input_ids=ids).hidden

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_a_different_number_of_calls(torch, tiny, batch):
    """Layers that are skipped at random in one of the passes are noticed, both ways."""
    ids, _ = batch()
    for recorded in (1, 2):
        model = tiny("llama")
        layers, short = model.model.layers, model.model.layers[:1]
        model.model.register_forward_pre_hook(
            lambda m, a, kw, n=recorded, full=layers, few=short: setattr(
                m, "layers", few if (kw["input_ids"].shape[1] == 3) == (n == 2) else full
            ),
            with_kwargs=True,
        )
        with pytest.raises(RuntimeError, match="attention calls"):
            SubsetBackprop(model, verify="never").forward(3, input_ids=ids)


def test_the_same_number_of_calls_in_other_layers(torch, tiny, batch):
    """Layers that are skipped at random in both passes can agree in number alone."""
    ids, _ = batch()
    model = tiny("llama")
    layers = model.model.layers
    model.model.register_forward_pre_hook(
        lambda m, a, kw: setattr(m, "layers", layers[:2] if kw["input_ids"].shape[1] == 3 else layers[1:]),
        with_kwargs=True,
    )
    with pytest.raises(RuntimeError, match="attention call 0 in another layer than recorded"):
        SubsetBackprop(model, verify="never").forward(3, input_ids=ids)


def test_the_attention_is_for_the_two_passes_only(torch, tiny, batch):
    ids, _ = batch()
    model = tiny("llama")
    SubsetBackprop(model).forward(2, input_ids=ids)
    model.config._attn_implementation_internal = "porism_subset"
    with pytest.raises(RuntimeError, match="works inside SubsetBackprop only"):
        model(input_ids=ids)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_autocast(torch, tiny, batch, kind):
    """Same gradients as in float32 up to bfloat16; none is missing through casts made without gradient."""
    ids, mask = batch("left")
    model = tiny(kind, dtype=torch.float32)
    names = [n for n, _ in model.base_model.named_parameters() if "pooler" not in n]

    def grads(enabled):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            hidden = (
                SubsetBackprop(model, verify="always").forward(3, input_ids=ids, attention_mask=mask).hidden
            )
        hidden.float().pow(2).mean().backward()
        return torch.cat([model.base_model.get_parameter(n).grad.flatten().double() for n in names])

    exact, rough = grads(False), grads(True)
    assert torch.nn.functional.cosine_similarity(exact, rough, dim=0) > 0.98
    assert not torch.equal(exact, rough)


def test_bfloat16_model(torch, tiny, batch):
    ids, mask = batch("left")
    model = tiny("llama", dtype=torch.bfloat16)
    out = SubsetBackprop(model, verify="always").forward(3, input_ids=ids, attention_mask=mask)
    assert out.hidden.dtype == torch.bfloat16
    out.hidden.float().sum().backward()
    assert all(p.grad is not None for n, p in model.named_parameters() if "lm_head" not in n)


def test_a_plain_pass_that_is_not_finite_is_no_reference(torch, tiny, batch):
    """The library's eager attention gives NaN on left-padded float64 rows."""
    ids, mask = batch("left")
    model = tiny("llama", attn_implementation="eager")
    with pytest.raises(RuntimeError, match="not finite at selected positions"):
        SubsetBackprop(model).forward(3, input_ids=ids, attention_mask=mask)
    out = SubsetBackprop(model, verify="never").forward(3, input_ids=ids, attention_mask=mask)
    wanted = SubsetBackprop(tiny("llama")).forward(3, input_ids=ids, attention_mask=mask)
    torch.testing.assert_close(out.hidden, wanted.hidden, rtol=1e-12, atol=1e-12)
    assert model.config._attn_implementation == "eager"


def test_paths_agree(torch, tiny, batch):
    ids, mask = batch("left")
    positions = torch.tensor([[0, 4, 9], [3, 9, -1], [4, 6, 8]])
    for kind in ("llama", "bert"):
        model = tiny(kind)
        a, b = (
            SubsetBackprop(model, attention=path)
            .forward(positions, input_ids=ids, attention_mask=mask)
            .hidden
            for path in ("auto", "reference")
        )
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
