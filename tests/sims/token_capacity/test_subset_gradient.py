"""Values and gradients against a full forward pass in float64 that detaches frozen positions everywhere."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from porism.sims.subset_backprop import SubsetBackprop, select_last, select_random
from porism.sims.token_capacity._cut import cut_everywhere
from porism.sims.token_capacity.worlds import position_gradients

pytestmark = pytest.mark.full

KINDS = ("gpt2", "llama", "bert")
PADDING = ("none", "left", "right")


def reference(model, ids, mask, chosen):
    """Hidden states (B, T, d) of the whole sequence; those outside `chosen` (B, T) are constants."""
    model = model.get_base_model() if hasattr(model, "peft_config") else model
    with cut_everywhere(model, chosen, mask):
        return model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state


@pytest.fixture
def gradients(torch):
    """Gradients of all parameters by name, after fixed weights on the hidden states."""

    def take(model, hidden):
        generator = torch.Generator().manual_seed(5)
        weights = torch.randn(hidden.shape, generator=generator, dtype=hidden.dtype)
        named = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
        found = torch.autograd.grad((hidden * weights).sum(), [v for _, v in named], allow_unused=True)
        return {name: g for (name, _), g in zip(named, found, strict=True) if g is not None}

    return take


def close(found, wanted, tolerance=1e-12):
    """Largest gap below 1e-12 of the largest entry: some 4000 roundings of 2.2e-16."""
    assert found.keys() == wanted.keys()
    scale = max(float(g.abs().max()) for g in wanted.values())
    gap = max(float((found[name] - wanted[name]).abs().max()) for name in wanted)
    assert scale > 0.1
    assert gap <= tolerance * scale, (gap, scale)


def mask_of(torch, positions, length):
    chosen = torch.zeros(len(positions), length, dtype=torch.bool)
    for row, wanted in enumerate(positions.tolist()):
        chosen[row, [j for j in wanted if j >= 0]] = True
    return chosen


def check(torch, model, ids, mask, positions, gradients, **options):
    chosen = mask_of(torch, positions, ids.shape[1])
    full = reference(model, ids, mask, chosen)
    index = positions.clamp(min=0)[..., None].expand(-1, -1, full.shape[2])
    wanted = full.gather(1, index).masked_fill((positions < 0)[..., None], 0.0)
    output = SubsetBackprop(model, **options).forward(positions, input_ids=ids, attention_mask=mask)
    assert output.hidden.dtype == torch.float64
    assert (output.valid == (positions >= 0)).all()
    assert float((output.hidden - wanted).detach().abs().max()) <= 1e-12 * float(wanted.detach().abs().max())
    close(gradients(model, output.hidden), gradients(model, wanted))


@pytest.mark.parametrize("suffix", [False, True])
@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("kind", KINDS)
def test_models(torch, tiny, batch, gradients, kind, padding, suffix):
    ids, mask = batch(padding, length=8)
    positions = select_last(mask, 3) if suffix else select_random(mask, 3, always=(), generator=4)
    check(torch, tiny(kind), ids, mask, positions, gradients)


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_adapters(torch, tiny, batch, adapt, gradients, kind, dora):
    ids, mask = batch("left", rows=2, length=8)
    model = adapt(tiny(kind), dora)
    names = [name for name, value in model.named_parameters() if value.requires_grad]
    assert any("lora_A" in name for name in names)
    assert any("magnitude" in name for name in names) == dora
    positions = select_random(mask, 3, generator=1)
    check(torch, model, ids, mask, positions, gradients)


@pytest.mark.parametrize(("kind", "attention"), [("gpt2", "auto"), ("llama", "auto"), ("bert", "reference")])
def test_unused_slots_anywhere(torch, tiny, batch, gradients, kind, attention):
    ids, mask = batch("left")
    positions = torch.tensor([[-1, 9, 0, 4], [6, -1, -1, 3], [5, 9, 8, 3]])
    check(torch, tiny(kind), ids, mask, positions, gradients, attention=attention)


@pytest.mark.parametrize("kind", KINDS)
def test_all_positions_give_the_full_gradient(torch, tiny, batch, gradients, kind):
    ids, _ = batch()
    model = tiny(kind)
    output = SubsetBackprop(model).forward(ids.shape[1], input_ids=ids)
    full = model.base_model(input_ids=ids).last_hidden_state
    close(gradients(model, output.hidden), gradients(model, full))


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_columns_may_be_permuted(torch, tiny, batch, kind):
    ids, mask = batch("right")
    positions = select_random(mask, 4, generator=0)
    order = torch.tensor([2, 0, 3, 1])
    model, found = tiny(kind), []
    for columns in (positions, positions[:, order]):
        hidden = SubsetBackprop(model).forward(columns, input_ids=ids, attention_mask=mask).hidden
        named = dict(model.base_model.named_parameters())
        grads = torch.autograd.grad(hidden.pow(2).sum(), list(named.values()), allow_unused=True)
        found.append({k: g for k, g in zip(named, grads, strict=True) if g is not None})
    close(found[0], found[1])


def test_a_suffix_has_the_true_gradient_of_each_position(torch, tiny, batch):
    """TC-8, padded: the weight gradient is the sum of g x over the suffix, g of the full backward pass."""
    ids, mask = batch("left")
    model, k = tiny("llama"), 4
    weights = torch.randn((3, k, 16), generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def run():
        hidden = model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
        return (hidden[:, -k:] * weights).sum()

    true = {
        name: torch.from_numpy(np.einsum("bto,bti->oi", g[:, -k:], x[:, -k:]))
        for name, (x, g) in position_gradients(model, run).items()
    }
    hidden = SubsetBackprop(model).forward(k, input_ids=ids, attention_mask=mask).hidden
    found = torch.autograd.grad((hidden * weights).sum(), [model.get_submodule(n).weight for n in true])
    assert len(true) == 3 * 7
    for name, g in zip(true, found, strict=True):
        assert (g - true[name]).norm() / true[name].norm() <= 1e-12, name


def test_embeddings_as_input(torch, tiny, batch, gradients):
    ids, mask = batch("left")
    model = tiny("llama")
    embeds = model.get_input_embeddings()(ids).detach().requires_grad_()
    wrapper = SubsetBackprop(model)
    by_ids = wrapper.forward(3, input_ids=ids, attention_mask=mask).hidden
    by_embeds = wrapper.forward(3, inputs_embeds=embeds, attention_mask=mask).hidden
    assert torch.equal(by_ids, by_embeds)
    by_embeds.pow(2).sum().backward()
    assert embeds.grad[:, :-3].abs().max() == 0
    assert embeds.grad[:, -3:].abs().amin(2).min() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_explicit_position_ids(torch, tiny, batch, kind):
    """With positions counted from its first token, a left-padded row equals the row alone."""
    ids, mask = batch("left")
    places = (mask.cumsum(1) - 1).clamp(min=0)
    model = tiny(kind)
    wrapper = SubsetBackprop(model, verify="always")
    hidden = wrapper.forward(3, input_ids=ids, attention_mask=mask, position_ids=places).hidden
    for row in range(3):
        alone = model.base_model(input_ids=ids[row, mask[row] == 1][None]).last_hidden_state[0, -3:]
        assert float((alone - hidden[row]).detach().abs().max()) <= 1e-12 * float(alone.detach().abs().max())
    other = wrapper.forward(3, input_ids=ids, attention_mask=mask).hidden
    assert (kind != "llama") == bool((other - hidden).abs().max() > 1e-3)  # rotary: only distances matter


def test_scatter(torch, tiny, batch):
    ids, mask = batch("left")
    model = tiny("bert")
    output = SubsetBackprop(model).forward(
        torch.tensor([[9, -1], [5, 2], [4, -1]]), input_ids=ids, attention_mask=mask
    )
    full = model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
    placed = output.scatter(full)
    assert placed.shape == full.shape
    torch.testing.assert_close(placed[mask == 1], full[mask == 1], rtol=1e-12, atol=1e-12)
    (grad,) = torch.autograd.grad(placed.sum(), output.hidden)
    assert torch.equal(grad, output.valid[..., None].expand_as(grad).to(grad))
    assert output.scatter()[0, :9].abs().max() == 0
    with pytest.raises(ValueError, match="full must have shape"):
        output.scatter(full[:, 1:])
    with pytest.raises(TypeError, match="full must be a tensor, got ndarray"):
        output.scatter(full.detach().numpy())


def test_token_types_are_gathered(torch, tiny, batch):
    ids, _ = batch()
    model = tiny("bert")
    types = (torch.arange(10) > 4).long().expand(3, -1)
    wrapper = SubsetBackprop(model, verify="always")
    hidden = wrapper.forward(3, input_ids=ids, token_type_ids=types).hidden
    full = model.base_model(input_ids=ids, token_type_ids=types).last_hidden_state[:, -3:]
    torch.testing.assert_close(hidden, full, rtol=1e-12, atol=1e-12)


@st.composite
def choices(draw, rows=2, length=6):
    """Padding masks, also with holes, and selections of real tokens with unused slots in any column."""
    real = draw(st.lists(st.sets(st.integers(0, length - 1), min_size=1), min_size=rows, max_size=rows))
    k = draw(st.integers(1, length))
    positions = []
    for tokens in real:
        chosen = draw(st.lists(st.sampled_from(sorted(tokens)), min_size=1, max_size=k, unique=True))
        positions.append(draw(st.permutations(chosen + [-1] * (k - len(chosen)))))
    return [[int(j in tokens) for j in range(length)] for tokens in real], positions


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_any_mask_and_any_positions(torch, tiny, batch, kind):
    """Values are those of the full model, and no gradient reaches a token outside the selection."""
    model = tiny(kind, num_hidden_layers=2)
    wrapper = SubsetBackprop(model, verify="never")
    ids, _ = batch(rows=2, length=6)
    embeds = model.get_input_embeddings()(ids).detach().requires_grad_()

    @given(choices())
    @settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def run(choice):
        mask, positions = (torch.tensor(part) for part in choice)
        out = wrapper.forward(positions, inputs_embeds=embeds, attention_mask=mask)
        with torch.no_grad():
            full = model.base_model(inputs_embeds=embeds, attention_mask=mask).last_hidden_state
        wanted = full.gather(1, positions.clamp(min=0)[..., None].expand_as(out.hidden))
        torch.testing.assert_close(out.hidden[out.valid], wanted[out.valid], rtol=1e-11, atol=1e-11)
        (grad,) = torch.autograd.grad(out.hidden.pow(3).sum(), embeds)
        assert torch.equal(grad.abs().amax(2) > 0, mask_of(torch, positions, 6))

    run()
