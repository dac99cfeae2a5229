import pytest

from porism.sims.token_capacity import SubsetBackprop, _peers, measure_saved_bytes

pytestmark = pytest.mark.full


def test_counts_by_hand(torch):
    """Two linear maps and a ReLU: their inputs; weights are not counted, shared storages once."""
    first, second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
    model = torch.nn.Sequential(first, torch.nn.ReLU(), second)
    x = torch.randn(32, 8)
    assert measure_saved_bytes(lambda: model(x), model) == 4 * 32 * (8 + 16)
    assert measure_saved_bytes(lambda: (model(x), model(x)), model) == 4 * 32 * (8 + 2 * 16)
    view = torch.randn(100, 8)[:32]  # a view keeps all of its tensor
    assert measure_saved_bytes(lambda: model(view), model) == 4 * (100 * 8 + 32 * 16)


def test_counts_what_is_alive(torch):
    layer, x = torch.nn.Linear(4, 4), torch.randn(5, 4)

    def step():
        layer(x).sum().backward()

    assert measure_saved_bytes(step, layer) == 0
    with torch.no_grad():
        assert measure_saved_bytes(lambda: layer(x), layer) == 0
    assert measure_saved_bytes(lambda: torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum(),
                               layer) >= x.nbytes  # fmt: skip
    norm = torch.nn.BatchNorm1d(4).eval()
    x.requires_grad_()
    assert measure_saved_bytes(lambda: norm(x), norm) == x.nbytes  # running statistics are buffers


def test_bad_input(torch):
    with pytest.raises(TypeError, match="fn must be callable"):
        measure_saved_bytes(3, torch.nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module"):
        measure_saved_bytes(lambda: None, None)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
def test_ours_then_concatenation_then_full(torch, tiny, kind):
    """Direction of the table of TC-9 at T = 256, k = 16: one row, float32, head on k rows everywhere."""
    k, length = 16, 256
    sizes = {
        "num_attention_heads": 8,
        "hidden_size": 64,
        "intermediate_size": 128,
        "max_position_embeddings": 256,
    }
    changes = {"gpt2": {"n_embd": 64, "n_head": 8, "n_positions": 256}}.get(kind, sizes)
    model = tiny(kind, dtype=torch.float32, **changes)
    ids = torch.randint(3, 31, (1, length), generator=torch.Generator().manual_seed(0))
    head = model.get_output_embeddings()
    wrapper = SubsetBackprop(model, verify="never")

    def full():
        return (
            head(model.base_model(input_ids=ids, use_cache=False).last_hidden_state[:, -k:])
            .logsumexp(-1)
            .sum()
        )

    def ours():
        return head(wrapper.forward(k, input_ids=ids).hidden).logsumexp(-1).sum()

    whole, mine = measure_saved_bytes(full, model), measure_saved_bytes(ours, model)
    value = ours().detach()
    with _peers.replayed_by(_peers.ATTENTIONS["concat+SDPA"]):
        joined = measure_saved_bytes(ours, model)
        torch.testing.assert_close(ours().detach(), value)  # the arms compute the same
    torch.testing.assert_close(full().detach(), value)
    assert mine < joined < whole
    assert mine < 0.4 * whole


def test_slope_in_the_length(torch, tiny):
    """TC-9: 2 d_kv values a layer and frozen token, float32, and its index (int32); nothing else grows."""
    model = tiny("llama", dtype=torch.float32)
    wrapper = SubsetBackprop(model, verify="never")

    def saved(length):
        ids = torch.full((1, length), 5)
        return measure_saved_bytes(lambda: wrapper.forward(8, input_ids=ids).hidden, model)

    assert (saved(60) - saved(20)) == 40 * (3 * 2 * 8 * 4 + 4)
