import pytest

from porism.sims.subset_backprop import SubsetBackprop

pytestmark = pytest.mark.full


@pytest.mark.parametrize("reduction", ["selected", "all_labels"])
@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_all_positions_give_the_models_own_loss(torch, tiny, batch, kind, reduction):
    ids, _ = batch()
    labels = ids.masked_fill(torch.rand(ids.shape, generator=torch.Generator().manual_seed(0)) < 0.3, -100)
    model = tiny(kind)
    found = SubsetBackprop(model).loss(labels, ids.shape[1], input_ids=ids, reduction=reduction)
    wanted = model(input_ids=ids, labels=labels).loss
    # transformers computes its loss in float32: 2e-6 is some 30 roundings
    torch.testing.assert_close(found.float(), wanted.float(), rtol=2e-6, atol=0)
    parameters = [p for p in model.parameters() if p.requires_grad]
    mine = torch.autograd.grad(found, parameters, allow_unused=True)
    theirs = torch.autograd.grad(wanted, parameters, allow_unused=True)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_subset_by_hand(torch, tiny, batch, kind):
    ids, mask = batch("left")
    model = tiny(kind)
    labels = ids.masked_fill(mask == 0, -100)
    labels[0, 1] = -100
    positions = torch.tensor([[9, 0, 4], [5, -1, 8], [3, 9, 7]])
    logits = model(input_ids=ids, attention_mask=mask).logits.log_softmax(-1)
    shift, terms = int(kind == "llama"), []
    for row, chosen in enumerate(positions.tolist()):
        for j in chosen:
            if j >= 0 and j + shift < 10 and labels[row, j + shift] != -100:
                terms.append(-logits[row, j, labels[row, j + shift]])
    total = int((labels[:, shift:] != -100).sum())
    seen = []
    hook = model.get_output_embeddings().register_forward_hook(lambda _, x, out: seen.append(x[0].shape[:2]))
    wrapper = SubsetBackprop(model)
    with pytest.warns(UserWarning, match=f"{1 - len(terms) / total:.0%} of the labels"):
        found = wrapper.loss(labels, positions, input_ids=ids, attention_mask=mask)
    hook.remove()
    assert seen == [(3, 3)]  # the head ran on selected positions only
    torch.testing.assert_close(found, torch.stack(terms).mean(), rtol=1e-12, atol=0)
    with pytest.warns(UserWarning, match="dropped"):
        found = wrapper.loss(labels, positions, input_ids=ids, attention_mask=mask, reduction="all_labels")
    torch.testing.assert_close(found, torch.stack(terms).sum() / total, rtol=1e-12, atol=0)


def test_readout_must_be_selected(torch, tiny, batch):
    ids, _ = batch()
    labels = torch.full_like(ids, -100)
    labels[:, 6] = 5
    for kind, reader in (("llama", 5), ("bert", 6)):
        wrapper = SubsetBackprop(tiny(kind))
        chosen = torch.tensor([[reader, 9]]).expand(3, -1)
        wrapper.loss(labels, chosen, input_ids=ids).backward()
        other = torch.tensor([[11 - reader, 9]]).expand(3, -1)  # 6 for 5 and 5 for 6
        with pytest.raises(ValueError, match="no label falls on a selected position; gradient would be zero"):
            wrapper.loss(labels, other, input_ids=ids)
    first = torch.full_like(ids, -100)
    first[:, 0] = 5  # nothing predicts the first token of a causal model
    with pytest.raises(ValueError, match="no label falls"):
        SubsetBackprop(tiny("llama")).loss(first, 10, input_ids=ids)


def test_bad_labels(torch, tiny, batch):
    ids, _ = batch()
    model = tiny("llama")
    wrapper = SubsetBackprop(model)
    with pytest.raises(ValueError, match="labels must have shape"):
        wrapper.loss(ids[:, 1:], 3, input_ids=ids)
    with pytest.raises(TypeError, match="labels must be an integer tensor"):
        wrapper.loss(ids.float(), 3, input_ids=ids)
    with pytest.raises(ValueError, match="reduction must be one of"):
        wrapper.loss(ids, 3, input_ids=ids, reduction="mean")
    with pytest.raises(ValueError, match=r"labels must be in 0\.\.30 or -100, got 31"):
        wrapper.loss(torch.full_like(ids, 31), 10, input_ids=ids)
    with pytest.raises(ValueError, match=r"labels must be in 0\.\.30 or -100, got -1"):
        wrapper.loss(torch.where(ids > 20, -1, ids), 10, input_ids=ids)
    with pytest.raises(TypeError, match="loss needs a model with a head for each token"):
        SubsetBackprop(model.model).loss(ids, 3, input_ids=ids)


def test_pooled_heads_are_refused(torch, hf, batch):
    ids, _ = batch()
    config = hf.BertConfig(vocab_size=31, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                           intermediate_size=8, max_position_embeddings=16)  # fmt: skip
    wrapper = SubsetBackprop(hf.BertForSequenceClassification(config).eval())
    with pytest.raises(TypeError, match="logits for each token"):
        wrapper.loss(ids, 10, input_ids=ids)
    assert wrapper.forward(3, input_ids=ids).hidden.shape == (3, 3, 16)


def test_adapters_learn(torch, tiny, batch, adapt):
    """A few steps on LoRA weights through a subset lower the loss, and touch nothing else."""
    ids, _ = batch()
    model = adapt(tiny("llama"))
    frozen = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}
    weights = [p for p in model.parameters() if p.requires_grad]
    wrapper = SubsetBackprop(model)
    labels = torch.full_like(ids, -100)
    labels[:, -3:] = 7
    losses = []
    for _ in range(6):
        loss = wrapper.loss(labels, 4, input_ids=ids)
        for weight, grad in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.data -= 0.01 * grad.sign()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    assert all(torch.equal(p, frozen[n]) for n, p in model.named_parameters() if n in frozen)
