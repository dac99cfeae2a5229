import functools
import json
import subprocess
import sys

import numpy as np
import pytest

SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}


@pytest.fixture
def call(shell):
    return functools.partial(shell, "diagnose")


@pytest.fixture
def model(needs, tmp_path):
    torch, transformers = needs("torch"), needs("transformers")
    torch.manual_seed(0)
    made = transformers.BertModel(transformers.BertConfig(vocab_size=50, **SIZES))
    made.save_pretrained(tmp_path / "model")
    g = np.random.default_rng(0)
    ids, mask = g.integers(1, 50, (12, 9)), np.ones((12, 9), dtype=int)
    mask[:5, 6:] = 0
    np.savez(tmp_path / "ids.npz", input_ids=ids, attention_mask=mask, labels=g.permutation([0, 1] * 6))
    return made


FAST = ("--n-null", "9", "--rank", "4", "--batch-size", "6")


@pytest.mark.full
def test_json_is_the_library(call, model, tmp_path):
    from porism.sims.diagnose import Diagnosis, diagnose

    code, out, _ = call("model", "--data", "ids.npz", "--json", "--out", "d.npz", "--html", "p.html", *FAST)
    assert code == 0
    told = json.loads(out)
    found = diagnose(model, "ids.npz", n_null=9, rank=4, batch_size=6)
    assert told["n_tokens"] == found.n_tokens == 12 * 9 - 15
    assert told["capacity"]["choice"]["k"] == found.capacity.choice.k
    assert told["heads"]["records"][5]["effect"] == found.heads.records[5].effect
    assert told["ranks"]["centred_rank"] == found.ranks.centred_rank.tolist()
    assert [row["recommendation"] for row in told["alignment"]["rows"]] == [
        row.recommendation for row in found.alignment
    ]
    assert Diagnosis.load("d.npz").heads == found.heads
    assert "<h2>Alignment</h2>" in (tmp_path / "p.html").read_text()


@pytest.mark.full
def test_text_is_the_summary(call, model):
    code, out, err = call("model", "--data", "ids.npz", "--aspect", "ranks", "--aspect", "heads", *FAST)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "BertModel, bidirectional: 12 sequences, 93 tokens in 2 batches"
    assert [line.split()[0] for line in lines[1:3]] == ["heads", "ranks"]
    assert "pass" in err  # the bar
    warning = "porism diagnose: warning: --n-null 9 allows no p-value below 1/10, so no head passes at 0.01"
    assert warning in err
    code, out, _ = call("model", "--data", "ids.npz", "--aspect", "heads", "--scan", "3", *FAST)
    assert "note: heads were measured on 3 of 12 sequences" in out


@pytest.mark.full
def test_labels_in_a_file(call, model, tmp_path):
    (tmp_path / "y.txt").write_text("a\nb\n" * 6)
    code, out, _ = call("model", "--data", "ids.npz", "--labels", "y.txt", "--aspect", "alignment", *FAST)
    assert (code, out.splitlines()[0][-9:]) == (0, "2 classes")
    (tmp_path / "y.txt").write_text("a\nb\n" * 5)
    code, out, err = call("model", "--data", "ids.npz", "--labels", "y.txt", *FAST)
    assert (code, out) == (2, "")
    assert "labels must have one entry a sample, got 10 for more samples" in err


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("model", "--data", "none.npz"), "data file 'none.npz' is not there"),
        (("model", "--data", "model"), "data must end in .txt, .csv, .npz"),
        (("model", "--data", "ids.npz", "--aspect", "all but one"), "--aspect must be one of"),
        (("model", "--data", "ids.npz", "--rank", "32"), "rank must be below the 32 features"),
        (("model", "--data", "ids.npz", "--eps", "2"), "eps must be in [0, 1)"),
        (("model", "--data", "ids.npz", "--labels", "mood"), "labels 'mood' is no file"),
        (("model", "--data", "ids.npz", "--base", "model"), "base goes with a folder of an adapter"),
        (("model", "--data", "ids.npz", "--module", "foo"), "--module must name linear maps of the model"),
        (("model", "--data", "ids.npz", "--module", "foo"), "'foo'; it has encoder.layer.0."),
        (("model", "--data", "ids.npz", "--module", "pooler.activation"), "pooler.activation' is a Tanh"),
        (("model", "--data", "long.npz"), "rows of at most 512 tokens"),
    ],
)
def test_bad_input_is_one_line(call, model, tmp_path, words, message):
    np.savez(tmp_path / "long.npz", input_ids=np.ones((1, 600), dtype=int))
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    line = err.splitlines()[-1]
    assert line.startswith("porism diagnose: ")
    assert message in line


def test_refused_before_anything_is_loaded(call, tmp_path):
    code, _, err = call("bert-base-uncased", "--data", "a.txt")
    assert (code, err.count("\n")) == (2, 1)
    assert "names are not looked up on a hub" in err
    code, _, err = call("model", "--data", "a.txt", "--html", "no/page.html")
    assert (code, err.count("\n")) == (2, 1)
    assert "No such file or directory: 'no/page.html'" in err
    (tmp_path / "a.txt").write_text("a sentence")
    (tmp_path / "y.txt").write_text("1")
    for words, name in ((("--out", "a.txt"), "a.txt"), (("--labels", "y.txt", "--html", "./y.txt"), "y.txt")):
        code, out, err = call("model", "--data", "a.txt", *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{name} is an input, and would be overwritten" in err
    assert (tmp_path / "a.txt").read_text() == "a sentence"
    assert call("model")[0] == 2


@pytest.mark.full
def test_a_kind_of_model_that_is_refused(call, needs, tmp_path):
    needs("torch")
    transformers = needs("transformers")
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 20}
    sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    transformers.BartModel(transformers.BartConfig(**sizes)).save_pretrained(tmp_path / "bart")
    np.savez(tmp_path / "a.npz", input_ids=np.ones((1, 3), dtype=int))
    code, _, err = call("bart", "--data", "a.npz")
    assert code == 2
    assert "encoder-decoder models are not supported" in err


def test_import_is_light(tmp_path):
    code = (
        "import porism, sys; assert 'diagnose' in dir(porism); porism.diagnose; import porism.sims.diagnose; "
        "sys.exit(' '.join({'torch', 'matplotlib', 'pandas', 'numba'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_it_is_no_module_of_the_ledger():
    from porism import sims

    assert "diagnose" not in sims.modules()
