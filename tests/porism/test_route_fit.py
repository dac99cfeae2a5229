"""`porism route fit` on files with groups that do not fit, and on outputs that are inputs."""

import functools

import numpy as np
import pytest

n, K = 60, 3
rng = np.random.default_rng(0)
X = rng.normal(size=(n, 4))
Y = X @ rng.normal(size=(4, K)) + 0.1 * rng.normal(size=(n, K))


@pytest.fixture
def call(shell):
    return functools.partial(shell, "route")


@pytest.mark.parametrize(
    ("words", "source"),
    [
        ("p.csv --features x.csv", "column prompt of p.csv and are fewer (1) than"),
        ("p.csv --features x.csv --groups task", "column task of p.csv and are fewer (4) than"),
        ("wide.csv --features x.csv", "column prompt or sample_id of wide.csv and are fewer (1) than"),
        ("p.npz", "array prompt_sha1 of p.npz and are fewer (1) than"),
        ("g.npz", "array groups of g.npz and are fewer (1) than"),
    ],
)
def test_too_few_groups_say_where_they_come_from(call, tmp_path, words, source):
    rows = [f"same,t{i % 4},{a},{b},0" for i, (a, b, _) in enumerate(Y.tolist())]
    (tmp_path / "p.csv").write_text("prompt,task,ant,bee,cat\n" + "\n".join(rows))
    (tmp_path / "wide.csv").write_text("prompt,task,ant,bee,bee|total_cost\n" + "\n".join(rows))
    (tmp_path / "x.csv").write_text("x0,x1\n" + "\n".join(f"{a},{b}" for a, b in X[:, :2].tolist()))
    np.savez("p.npz", scores=Y, features=X, prompt_sha1=np.full(n, "same"))
    np.savez("g.npz", scores=Y, features=X, groups=np.zeros(n, int))
    words = ["fit", *words.split(), "--expensive", "ridge", "--out", "o.npz"]
    code, _, err = call(*words)
    assert code == 2
    assert err.startswith(f"porism route fit: groups come from {source} --folds 5; give --groups none")
    assert err.count("\n") == 1
    assert call(*words, "--groups", "none")[0] in (0, 3)


def test_an_input_is_not_written_over(call, tmp_path):
    np.savez("d.npz", scores=Y, features=X)
    assert call("fit", "d.npz", "--expensive", "ridge", "--out", "r.npz")[0] in (0, 3)
    (tmp_path / "link.npz").symlink_to("d.npz")
    (tmp_path / "f.png").write_text("x0\n" + "1\n" * n)
    before = (tmp_path / "d.npz").read_bytes()
    for words in (
        "fit d.npz --out d.npz",
        "fit d.npz --out link.npz",
        "fit d.npz --features f.png --out f.png",
        "eval r.npz d.npz --features f.png --plot f.png",
    ):
        code, out, err = call(*words.split())
        assert (code, out) == (2, "")
        assert "is an input, and would be overwritten" in err
    assert (tmp_path / "d.npz").read_bytes() == before
