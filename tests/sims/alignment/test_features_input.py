"""What features refuse: modules that cannot be read, and rows that are not finite."""

import numpy as np
import pytest

from porism.sims.alignment._hooks import select
from porism.sims.alignment.features import collect_features

pytestmark = pytest.mark.full


def test_modules_that_cannot_be_read(needs):
    torch, transformers = needs("torch"), needs("transformers")
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(vocab_size=50, **sizes))
    batch = {"input_ids": torch.randint(5, 50, (2, 6)), "attention_mask": torch.ones(2, 6).long()}
    batch["attention_mask"][1, 4:] = 0
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got dict"):
        collect_features({}, [batch], ["query"])
    with torch.no_grad():
        model.encoder.layer[0].output.dense.bias[3] = float("nan")
    words = r"^features of 'encoder\.layer\.1\.attention\.self\.query' contain 64 non-finite values "
    with pytest.raises(ValueError, match=words + r"\(first at row 0\); rho is undefined"):
        collect_features(model, [batch], ["query"])
    model.unused = torch.nn.Linear(3, 3)
    with pytest.raises(ValueError, match="module 'unused' never ran"):
        collect_features(model, [batch], ["unused"])
    maps = ["encoder.layer.0.attention.self.query", "encoder.layer.0.attention.self.key"]
    with pytest.raises(ValueError, match=r"^modules must name linear .*'foo'; it has " + ", ".join(maps)):
        collect_features(model, [batch], ["foo"])
    for name in ("pooler.activation", "encoder.layer.0", "LayerNorm"):
        with pytest.raises(NotImplementedError, match=rf"{name}' is a \w+; .* linear layers only: {maps[0]}"):
            collect_features(model, [batch], [name])
    net = torch.nn.Sequential(torch.nn.Conv1d(2, 2, 1))
    with pytest.raises(NotImplementedError, match="module '0' is a Conv1d"):
        collect_features(net, [torch.ones(1, 2, 3)], ["0"])
    flat = torch.nn.Sequential(torch.nn.Linear(3, 2))
    x = torch.arange(12.0).reshape(4, 3)
    assert np.array_equal(collect_features(flat, [(x, [0, 1, 0, 1])], ["0"])["0"].x, x.numpy())
    with pytest.raises(ValueError, match="must see one sample a row"):
        collect_features(flat, [torch.ones(2, 2, 2, 3)], ["0"])


def test_a_text_is_a_pattern_for_whole_names(needs):
    torch = needs("torch")
    block = torch.nn.Module()
    block.query, block.norm = torch.nn.Linear(3, 3), torch.nn.LayerNorm(3)
    model = torch.nn.Sequential()
    model.block = block
    words = r"got 'query'; a text is a pattern for whole names: pass \['query'\] or '\.\*query'$"
    with pytest.raises(ValueError, match=words):
        select(model, "query")
    assert select(model, ["query"]) == select(model, ".*query") == select(model, ".*") == ["block.query"]
    with pytest.raises(ValueError, match=r"a text is a pattern for whole names: it has block\.query$"):
        select(model, "value")
    with pytest.raises(ValueError, match=r"modules must be a regular expression .*, got '\*query' \(nothing"):
        select(model, "*query")


def test_packed_weights_are_linear_maps_and_adapters_are_not_suggested(needs):
    torch = needs("torch")
    packed, wrapped = torch.nn.Module(), torch.nn.Linear(3, 3)
    packed.in_features = 3  # as kernels for quantized weights have it, whose weight is no matrix
    wrapped.base_layer, wrapped.lora_A = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
    model = torch.nn.ModuleDict({"packed": packed, "wrapped": wrapped, "table": torch.nn.Embedding(2, 3)})
    assert select(model, ["packed", "wrapped"]) == ["packed", "wrapped"]
    with pytest.raises(NotImplementedError, match=r"'table' is a Embedding; .* only: packed, wrapped$"):
        select(model, ["table"])
