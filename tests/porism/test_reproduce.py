import base64
import html.parser
import json
import re

import pytest

from porism.cli import main
from porism.cli.common import scrub

pytestmark = pytest.mark.full  # notebooks need the extra lab


@pytest.fixture
def reproduce(fake, tmp_path, capsys, needs):
    needs("nbclient")
    needs("jupytext")

    def run(*words):
        code = main(["reproduce", "fake", "--scale", "smoke", "--out", str(tmp_path / "out"), *words])
        return code, tmp_path / "out", capsys.readouterr()

    return lambda *words: run("--notebooks", str(fake), *words)


def test_report(reproduce):
    code, out, said = reproduce("fake")  # named twice, done once
    assert code == 0, said
    assert {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} == {
        "claims.json",
        "index.html",
        "figures/fake_F1.png",
        "figures/fake_F1.svg",
        "notebooks/99_fake.ipynb",
    }
    page = (out / "index.html").read_text()
    rows = json.loads((out / "claims.json").read_text())
    assert [row["id"] for row in rows] == ["FK-1", "FK-2", "FK-10"]
    for row in rows:
        assert f'id="{row["id"]}"' in page
        for evidence in (row["evidence"], row["control_evidence"]):
            measured = evidence["measured"]
            assert (f"{measured:.4g}" if isinstance(measured, float) else measured) in page
    assert "&lt;noise&gt; &amp; more" in page
    assert "<noise>" not in page
    assert page.count("fails, as it must") == 3
    assert 'alt="Figure F1 of fake: Noise against time: the mean stays at zero."' in page
    assert "which are not the caption" not in page
    data = base64.b64decode(re.search(r"data:image/svg\+xml;base64,([^\"]+)", page)[1])
    assert data == (out / "figures" / "fake_F1.svg").read_bytes()


def test_page_is_well_formed_and_self_contained(reproduce):
    page = (reproduce()[1] / "index.html").read_text()
    open_tags, assets, ids, links = [], [], [], []

    class Parser(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            values = dict(attributes)
            assets.extend(v for k, v in attributes if k in ("src", "srcset") or (k == "href" and v[0] != "#"))
            ids.extend([values["id"]] if "id" in values else [])
            links.extend([values["href"][1:]] if "href" in values else [])
            if tag not in ("meta", "img", "link", "br"):
                open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    Parser().feed(page)
    assert open_tags == []
    assert all(asset.startswith("data:image/") for asset in assets)
    assert len(set(ids)) == len(ids)
    assert set(links) <= set(ids)
    assert "@import" not in page
    assert "url(" not in page
    assert "<script" not in page


def test_page_tells_no_more_than_it_should(reproduce):
    import getpass
    import platform

    page = (reproduce()[1] / "index.html").read_text()
    page = re.sub(r'base64,[^"]+|<style>.*</style>', "", page, flags=re.DOTALL)
    for secret in (platform.node(), getpass.getuser()):
        assert not re.search(rf"\b{re.escape(secret)}\b", page)
    assert not re.search(r"(?<![\w<])/\w+/", page), "a path"


def test_one_failure_does_not_cost_the_page(reproduce, fake, tmp_path):
    figures = tmp_path / "sims" / "fake" / "figures.py"
    figures.write_text(
        figures.read_text()
        + "\n\ndef broken(scale, rng, ax=None):\n    raise OSError('no file /some/where/deep/data.csv')\n"
        "FIGURES['F2'] = broken\n"
    )
    (fake / "99_fake.py").write_text("# %%\n1 / 0\n")
    code, out, said = reproduce()
    page = (out / "index.html").read_text()
    assert code == 1
    lines = said.out.splitlines()
    assert "failed: fake/F2: OSError: no file data.csv" in lines
    assert "failed: fake/99_fake.ipynb: ZeroDivisionError: division by zero" in lines
    assert "\x1b" not in page
    assert "OSError: no file data.csv" in page
    assert "division by zero" in page
    assert (out / "figures" / "fake_F1.png").exists()
    assert not list((out / "figures").glob("*F2*"))


def test_a_folder_without_notebooks_is_told(reproduce, tmp_path):
    (tmp_path / "none").mkdir()
    code, _, said = reproduce("--notebooks", str(tmp_path / "none"))
    assert code == 0
    assert "3 claims, 1 figures, 0 notebooks (their folder comes with a checkout; --notebooks" in said.out


def test_an_interrupted_run_keeps_what_is_done(reproduce, fake, tmp_path, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("porism.cli.reproduce._execute", interrupt)
    code, out, _ = reproduce()
    assert code == 130
    assert len(json.loads((out / "claims.json").read_text())) == 3
    assert (out / "figures" / "fake_F1.svg").exists()
    assert not (out / "index.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--scheduler", "tcp://127.0.0.1:9"),
            "scheduler must be the address of a running one, got 'tcp://127",
        ),
        (
            ("--scheduler", "nowhere at all"),
            "scheduler must be the address of a running one, got 'nowhere at",
        ),
        (("--scheduler", ""), "scheduler must be the address of a running one, got ''"),
        (
            ("--scheduler", "tcp://127.0.0.1:9", "--workers", "2"),
            "workers must be 1 beside a scheduler, got 2",
        ),
    ],
)
def test_no_scheduler_there(reproduce, monkeypatch, needs, words, message):
    needs("distributed")
    monkeypatch.setattr("porism._pool.TIMEOUT", 0.5)
    code, out, said = reproduce(*words)
    assert code == 2
    assert said.err.startswith(f"porism reproduce: {message}")
    assert said.err.count("\n") == 1
    assert not out.exists()


def test_same_seed_same_figure(reproduce):
    figure = reproduce()[1] / "figures" / "fake_F1.svg"
    first = figure.read_bytes()
    reproduce()
    assert figure.read_bytes() == first
    reproduce("--seed", "1")
    assert figure.read_bytes() != first


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("see /usr/lib/python3/site.py:3", "see site.py:3"),
        ("either and/or both", "either and/or both"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("<Axes at 0x7f00aa11bb22>", "<Axes at 0x0>"),
        ("a/b", "a/b"),
    ],
)
def test_scrub(text, clean):
    assert scrub(text) == clean
