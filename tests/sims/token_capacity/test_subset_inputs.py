"""Bad input is refused with its row and value; features that are not supported are named."""

import pytest

from porism.sims.subset_backprop import SubsetBackprop

pytestmark = pytest.mark.full


@pytest.fixture
def wrapper(tiny):
    return SubsetBackprop(tiny("llama", num_hidden_layers=1), verify="never")


def refused(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_positions(torch, wrapper, batch):
    ids, mask = batch("left")

    def run(positions):
        return lambda: wrapper.forward(positions, input_ids=ids, attention_mask=mask)

    need = "need at least one selected position"
    refused(ValueError, need, run(0))
    refused(ValueError, need, run(-2))
    refused(ValueError, need, run(torch.zeros(3, 0, dtype=torch.long)))
    refused(ValueError, need, run(torch.zeros(3, 10, dtype=torch.bool)))
    refused(ValueError, "k=11 exceeds sequence length T=10", run(11))
    refused(ValueError, "k=11 exceeds sequence length T=10", run(torch.zeros(3, 11, dtype=torch.long)))
    refused(TypeError, "positions must be an int", run(2.0))
    refused(TypeError, "positions must be an int", run(True))
    refused(TypeError, "positions must hold integers", run(torch.full((3, 2), 9.0)))
    refused(TypeError, "positions must be an int", run(None))
    refused(ValueError, "equally many entries in every row", run([[9], [8, 9], [9]]))
    for wrong in ("ab", {"k": 1}, [[None], [9], [9]]):
        refused(TypeError, "positions must hold integers", run(wrong))
    refused(ValueError, r"positions must have shape \(3, k\)", run(torch.tensor([8, 9])))
    refused(ValueError, "positions must have shape", run(torch.tensor([[8, 9]])))
    refused(ValueError, r"not repeat .* row 1: \[9, 9\]", run(torch.tensor([[8, 9], [9, 9], [7, 8]])))
    refused(
        ValueError, r"must be in 0\.\.9 .* row 2: \[7, 10\]", run(torch.tensor([[8, 9], [9, 8], [7, 10]]))
    )
    refused(
        ValueError, r"must be in 0\.\.9 .* row 0: \[-2, 9\]", run(torch.tensor([[-2, 9], [9, 8], [7, 8]]))
    )
    refused(ValueError, r"at least one .* row 1: \[-1, -1\]", run(torch.tensor([[8, 9], [-1, -1], [7, 8]])))
    refused(ValueError, r"padding .* row 2: \[1, 9\]", run(torch.tensor([[8, 9], [9, 8], [1, 9]])))
    uneven = torch.zeros(3, 10, dtype=torch.bool)
    uneven[:, 9] = uneven[1, 8] = True
    refused(ValueError, "got 1 in row 0 and 2 in row 1; pass indices .* padded with -1", run(uneven))
    refused(ValueError, r"must have shape \(B, 10\)", run(torch.ones(3, 4, dtype=torch.bool)))


def test_forms_of_positions_agree(torch, wrapper, batch):
    import numpy as np

    ids, mask = batch("left")
    chosen = torch.zeros(3, 10, dtype=torch.bool)
    chosen[:, 8:] = True
    forms = [2, np.int64(2), chosen, torch.tensor([[8, 9]] * 3), np.array([[8, 9]] * 3), [[8, 9]] * 3,
             torch.tensor([[8, 9]] * 3, dtype=torch.int32)]  # fmt: skip
    forms.append(np.array([[9, 8]] * 3)[:, ::-1])
    forms[-1].flags.writeable = False  # torch would warn, and refuse the strides
    for form in forms:
        out = wrapper.forward(form, input_ids=ids, attention_mask=mask)
        assert out.positions.tolist() == [[8, 9]] * 3
        assert out.positions.dtype == torch.long


def test_short_rows_leave_slots_unused(torch, wrapper, batch):
    ids, mask = batch()
    mask[1, :8] = 0
    out = wrapper.forward(4, input_ids=ids, attention_mask=mask)
    assert out.positions[1].tolist() == [8, 9, -1, -1]
    assert out.valid.tolist() == [[True] * 4, [True, True, False, False], [True] * 4]
    assert out.hidden[1, 2:].abs().max() == 0
    alone = wrapper.forward(2, input_ids=ids[1:2], attention_mask=mask[1:2]).hidden
    torch.testing.assert_close(out.hidden[1:2, :2], alone, rtol=1e-12, atol=1e-12)


def test_inputs(torch, wrapper, batch):
    ids, mask = batch()

    def run(**inputs):
        return lambda: wrapper.forward(2, **inputs)

    embeds = torch.zeros(3, 10, 16, dtype=torch.float64)
    refused(ValueError, "exactly one of", run())
    refused(ValueError, "exactly one of", run(input_ids=ids, inputs_embeds=embeds))
    refused(TypeError, "input_ids must be a tensor", run(input_ids=[[1, 2, 3]]))
    refused(ValueError, "input_ids must have 2 axes", run(input_ids=ids[0]))
    refused(ValueError, "input_ids must have 2 axes", run(input_ids=ids[:, :0]))
    refused(TypeError, r"input_ids must be long or int, got torch\.float32", run(input_ids=ids.float()))
    refused(ValueError, r"input_ids must be in 0\.\.30, the model's vocabulary", run(input_ids=ids + 9))
    refused(ValueError, "inputs_embeds must have 3 axes", run(inputs_embeds=embeds[0]))
    refused(ValueError, "attention_mask must have shape", run(input_ids=ids, attention_mask=mask[:, 1:]))
    refused(TypeError, "attention_mask must be a tensor", run(input_ids=ids, attention_mask=mask.tolist()))
    refused(ValueError, "attention_mask must hold 0 and 1", run(input_ids=ids, attention_mask=mask * 2))
    empty = mask.clone()
    empty[2] = 0
    refused(ValueError, "row 2 is all padding", run(input_ids=ids, attention_mask=empty))
    refused(ValueError, "position_ids must have shape", run(input_ids=ids, position_ids=ids[:, 1:]))
    refused(TypeError, "takes no input 'tokens'", run(input_ids=ids, tokens=ids))
    refused(TypeError, "forward takes no labels", run(input_ids=ids, labels=ids))
    four = mask[:, None, None, :].expand(-1, 1, 10, -1)
    refused(NotImplementedError, "4-D attention masks", run(input_ids=ids, attention_mask=four))
    refused(NotImplementedError, "cache", run(input_ids=ids, past_key_values=object()))
    refused(NotImplementedError, "cache", run(input_ids=ids, use_cache=True))
    refused(NotImplementedError, "output_attentions", run(input_ids=ids, output_attentions=True))
    refused(NotImplementedError, "cross-attention", run(input_ids=ids, encoder_hidden_states=embeds))
    packed = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4]]).expand(3, -1)
    refused(NotImplementedError, "packed", run(input_ids=ids, position_ids=packed, attention_mask=mask))
    gaps = torch.arange(0, 20, 2).expand(3, -1)  # read as packed where there is no mask
    refused(NotImplementedError, "packed", run(input_ids=ids, position_ids=gaps))
    assert wrapper.forward(2, input_ids=ids, position_ids=gaps, attention_mask=mask).hidden.isfinite().all()
    assert wrapper.forward(2, input_ids=ids, use_cache=False, output_attentions=False).valid.all()


def test_token_types_of_another_shape(torch, tiny, batch):
    ids, _ = batch()
    wrapper = SubsetBackprop(tiny("bert", num_hidden_layers=1))
    refused(
        ValueError,
        "token_type_ids must be a tensor",
        lambda: wrapper.forward(2, input_ids=ids, token_type_ids=ids[:, 1:]),
    )
    refused(
        ValueError,
        "token_type_ids must be a tensor",
        lambda: wrapper.forward(2, input_ids=ids, token_type_ids=0),
    )


def test_options(tiny):
    model = tiny("llama", num_hidden_layers=1)
    for name, value in (("attention", "flash"), ("verify", "maybe"), ("frozen_store", "disk")):
        refused(ValueError, f"{name} must be one of", lambda n=name, v=value: SubsetBackprop(model, **{n: v}))
    refused(NotImplementedError, "frozen_store='cpu'", lambda: SubsetBackprop(model, frozen_store="cpu"))
    refused(TypeError, "frozen_dropout", lambda: SubsetBackprop(model, frozen_dropout=1))
    refused(TypeError, "causal must be", lambda: SubsetBackprop(model, causal=1))
    refused(ValueError, "causal must agree", lambda: SubsetBackprop(model, causal=False))
    assert SubsetBackprop(model).causal is SubsetBackprop(model, causal=True).causal is True
    refused(TypeError, "model must be", lambda: SubsetBackprop(object()))


def test_causality_is_read_from_attention(torch, tiny):
    model = tiny("llama", num_hidden_layers=2)
    model.model.layers[1].self_attn.is_causal = False
    refused(ValueError, "mixes causal and bidirectional", lambda: SubsetBackprop(model))
    for layer in model.model.layers:
        del layer.self_attn.is_causal
    refused(ValueError, "causal cannot be read", lambda: SubsetBackprop(model))
    ids = torch.arange(3, 13)[None]
    assert SubsetBackprop(model, causal=True).forward(3, input_ids=ids).hidden.shape == (1, 3, 16)
    assert SubsetBackprop(tiny("bert", num_hidden_layers=1)).causal is False


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_models_that_are_not_supported(torch, tiny, needs, batch):
    ids, _ = batch()
    model = tiny("llama", num_hidden_layers=1)
    wrapper = SubsetBackprop(model)
    model.gradient_checkpointing_enable()
    for call in (lambda: SubsetBackprop(model), lambda: wrapper.forward(2, input_ids=ids)):
        refused(NotImplementedError, "active gradient checkpointing", call)
    model.gradient_checkpointing_disable()
    wrapper.forward(2, input_ids=ids)
    model.model.layers[0]._compiled_call_impl = lambda *a: None  # what Module.compile sets
    refused(NotImplementedError, r"torch\.compile", lambda: wrapper.forward(2, input_ids=ids))
    model.model.layers[0]._compiled_call_impl = None
    compiled = torch.nn.Module()
    compiled._orig_mod = model  # what torch.compile returns
    refused(NotImplementedError, r"torch\.compile", lambda: SubsetBackprop(compiled))
    model.config._attn_implementation_internal = "eager"
    model.config.output_attentions = True
    refused(NotImplementedError, "output_attentions", lambda: SubsetBackprop(model))
    bert = tiny("bert", num_hidden_layers=1, is_decoder=True, add_cross_attention=True)
    refused(NotImplementedError, "cross-attention", lambda: SubsetBackprop(bert))


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_prompt_learning_is_refused(tiny, needs):
    peft = needs("peft")
    for config in (peft.PrefixTuningConfig(num_virtual_tokens=2, task_type="CAUSAL_LM"),
                   peft.PromptTuningConfig(num_virtual_tokens=2, task_type="CAUSAL_LM")):  # fmt: skip
        model = peft.get_peft_model(tiny("llama", num_hidden_layers=1), config)
        refused(NotImplementedError, "prompt or prefix tuning", lambda m=model: SubsetBackprop(m))
