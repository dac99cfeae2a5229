import numpy as np
import pytest

from porism.sims.pattern import CORRELATIONS, GRAPHS, load_matrix, load_transformer, real_text


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "shape", "mass"),
    [
        ("karate", (34, 34), 2 * 78), ("les_miserables", (77, 77), 2 * 254), ("florentine", (15, 15), 2 * 20),
        ("davis", (18, 14), 89), ("iris", (4, 4), None), ("wine", (13, 13), None),
        ("diabetes", (10, 10), None), ("breast_cancer", (30, 30), None),
    ],
)  # fmt: skip
def test_matrices(needs, name, shape, mass):
    needs("networkx")
    needs("sklearn")
    A, names = load_matrix(name)
    assert A.shape == shape
    assert len(names) == shape[1]
    if name in GRAPHS:
        assert set(np.unique(A)) == {0, 1}
        assert A.sum() == mass
    else:
        assert np.diag(A) == pytest.approx(np.ones(len(A)))
    if name != "davis":
        assert np.allclose(A, A.T)


def test_all_names_are_tried():
    assert len(GRAPHS + CORRELATIONS) == 8
    with pytest.raises(ValueError, match="name must be one of 'karate'"):
        load_matrix("zachary")


def test_text():
    text = real_text()
    assert "\n" not in text
    assert len(text) > 2000
    assert real_text(characters=10) == text[:10]
    with pytest.raises(ValueError, match="topic must be a key of pydoc_data"):
        real_text("poems")


@pytest.mark.full
def test_folders(needs, tmp_path):
    transformers, tokenizers = needs("transformers"), needs("tokenizers")
    with pytest.raises(ValueError, match=r"model must be a folder with a config\.json"):
        load_transformer(tmp_path)
    config = transformers.GPT2Config(
        vocab_size=4, n_layer=1, n_head=2, n_embd=8, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2Model(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"folder .* holds no tokenizer; save one there"):
        load_transformer(tmp_path)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(tmp_path)
    model, tokenizer = load_transformer(tmp_path)
    assert model.config._attn_implementation == "eager"
    assert not model.training
    assert tokenizer("a b a c")["input_ids"] == [0, 1, 0, 2]
