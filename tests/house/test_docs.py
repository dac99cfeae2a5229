"""The documentation site: complete, sound in its links, and read without a network."""

import html.parser
import importlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

import pytest

from porism import sims

FOLDERS = ("porism", "theory", "sims", "kernels")
UNLISTED = re.compile(r"porism\.(cli|__main__)(\..*)?|porism\.kernels\.\w+\.(reference|cpu|triton)")
SHOWN = (".html", ".js", ".css")
LOADING = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src", "object": "data"}


class Html(html.parser.HTMLParser):
    """Ids, links and loaded resources of a page, and the ids below each second-level heading."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded, self.sections, self.depth, self.text = [], [], [], {}, 0, ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "section":
            self.depth += 1
            if self.depth == 2:
                self.sections[found["id"]] = []
        if "id" in found:
            self.ids.append(found["id"])
            if self.depth >= 2:
                self.sections[list(self.sections)[-1]].append(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if found.get("rel") not in ("canonical", "author") and found.get(LOADING.get(tag)):
            self.loaded.append(found[LOADING[tag]])

    def handle_data(self, data):
        self.text += data

    def handle_endtag(self, tag):
        self.depth -= tag == "section"


def python(root, *words):
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=root / "docs", capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def site(root, tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    done = python(root, "build.py", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out / "html"


@pytest.fixture(scope="module")
def read(site):
    return {path: Html(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


@pytest.fixture
def builder(root, monkeypatch):
    """The scripts that write the pages, as modules."""
    monkeypatch.syspath_prepend(root / "docs")
    yield importlib.import_module("build")
    for name in ("build", "gather", "reference", "rst"):
        sys.modules.pop(name, None)


def public_names(root):
    """What `__all__` lists in every public file, found on disk and not by walking packages."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            parts = [*path.relative_to(root).with_suffix("").parts]
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            name = ".".join(parts if folder == "porism" else ["porism", *parts])
            if "._" not in name and not UNLISTED.fullmatch(name):
                yield from (f"{name}.{entry}" for entry in importlib.import_module(name).__all__)


def plain(text):
    """Letters and digits only: quotation marks, dashes and dots are typeset."""
    return re.sub(r"\W|_", "", text)


@pytest.mark.full
def test_every_public_name_has_an_anchor(root, read):
    anchors = {id for page in read.values() for id in page.ids}
    names = {*public_names(root)}
    assert len(names) > 600
    assert sorted(names - anchors) == []


@pytest.mark.full
@pytest.mark.parametrize("module", sims.modules())
def test_page_of_a_module_has_its_ledger(site, read, module):
    page = read[site / "modules" / f"{module}.html"]
    assert {"what-holds", "what-is-refuted", "what-is-not-reproduced"} <= set(page.sections)
    text = plain(page.text)
    for claim in sims.ledger(module):
        place = "what-is-refuted" if claim.kind == "refuted" else "what-holds"
        if "not reproduced" in claim.source + claim.statement:
            place = "what-is-not-reproduced"
        assert [name for name, ids in page.sections.items() if claim.id in ids] == [place]
        assert plain(claim.statement) in text
    which = read[site / "which.html"]
    assert f"modules/{module}.html" in which.links


@pytest.mark.full
def test_links_inside_the_site_resolve(site, read):
    dead = []
    for path, page in read.items():
        for link in {*page.links, *page.loaded}:
            if re.match(r"https?:|mailto:|data:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / unquote(name.split("?")[0])).resolve() if name else path
            missing = not target.exists() or (
                anchor and target in read and unquote(anchor) not in read[target].ids
            )
            if missing:
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


@pytest.mark.full
def test_nothing_is_loaded_from_elsewhere(site, read):
    outside = [link for page in read.values() for link in page.loaded if re.match(r"(https?:)?//", link)]
    assert outside == []
    assert all(page.loaded for page in read.values())
    for path in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", path.read_text(encoding="utf-8")), path
    formulas = (site / "notebooks" / "01_partition.html").read_text(encoding="utf-8")
    assert "<math" in formulas  # no script makes them
    assert "\\frac" not in formulas
    spectral = (site / "notebooks" / "03_spectral_flow.html").read_text(encoding="utf-8")
    assert "<mfrac><mn>1</mn><mn>2</mn></mfrac>" in spectral  # from \frac12, which is easily misread


@pytest.mark.full
def test_site_tells_nothing_of_the_machine(root, site):
    places = {str(root), str(Path.home()), str(site.parents[1]), tempfile.gettempdir() + "/", sys.prefix}
    trace = re.compile("|".join(re.escape(place) for place in sorted(places)) + r"|/(?:home|Users)/\w+")
    texts = [path for path in (*site.rglob("*"), *(root / "docs").rglob("*")) if path.is_file()]
    read = {path: path.read_text(errors="ignore") for path in texts if path.suffix in (*SHOWN, ".py", ".rst")}
    assert [path.name for path, text in read.items() if trace.search(text)] == []
    addresses = re.compile(r"(?: at |=)0x[0-9a-f]{6,}")  # these would differ from build to build
    assert [path.name for path, text in read.items() if path.suffix in SHOWN and addresses.search(text)] == []


@pytest.mark.full
def test_gallery_shows_every_figure_of_the_notebooks(root, site, read):
    ids = read[site / "gallery.html"].ids
    for module in sims.modules():
        if [*(root / "notebooks").glob(f"[0-9]*_{module}.ipynb")]:
            figures = importlib.import_module(f"porism.sims.{module}.figures").FIGURES
            expected = {f"figure-{module}-{name}".lower().replace("_", "-") for name in figures}
            assert expected <= set(ids)


@pytest.mark.full
def test_a_dead_name_and_a_bad_formula_stop_the_build(root, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "elsewhere.json").write_text(json.dumps({"names": {}, "scopes": {}}))
    program = (
        "import sys, pathlib, build; here = pathlib.Path(sys.argv[1]); "
        "sys.exit(build.render(here / 'source', here))"
    )
    (source / "index.rst").write_text(
        "Title\n=====\n\n`porism.nowhere`, `parameter` and :math:`\\nosuch x`.\n"
    )
    bad = python(root, "-c", program, tmp_path)
    assert bad.returncode != 0
    assert "porism.nowhere" in bad.stderr
    assert "no MathML" in bad.stderr
    assert bad.stderr.count("WARNING") == 2  # a plain word in backticks need not be a name


@pytest.mark.full
def test_a_new_module_is_picked_up(builder, fake, tmp_path):
    package = fake.parent / "sims" / "fake" / "__init__.py"
    package.write_text('"""Does noise average out?"""\n\n__all__ = []\n')
    source = tmp_path / "pages"
    (source / "notebooks").mkdir(parents=True)
    table = sims.ledger("fake")[0].run()._repr_html_()
    cells = [
        {"cell_type": "code", "source": ['FIGURES["F1"]()'], "outputs": [{"data": {"image/png": "cG5n"}}]},
        {"cell_type": "code", "source": [], "outputs": [{"data": {"text/html": [table]}}]},
    ]
    (source / "notebooks" / "99_fake.ipynb").write_text(json.dumps({"cells": cells}))
    elsewhere = builder.api_pages(source)
    builder.module_pages(source)
    builder.gallery(source)
    assert ".. automodule:: porism.sims.fake" in (source / "api" / "porism.sims.fake.rst").read_text()
    assert elsewhere["names"].get("porism.sims.fake.figures.FIGURES") is None
    page = (source / "modules" / "fake.rst").read_text()
    assert "3 entries: 2 hold, 1 refuted, 0 not reproduced" in page
    assert "notebooks/99_fake" in page
    assert "porism.sims.fake" in (source / "api" / "index.rst").read_text()
    assert (source / "figures" / "fake_F1.png").read_bytes() == b"png"
    assert "Noise against time: the mean stays at zero." in (source / "gallery.rst").read_text()
    rows = builder.gather.ledger_tables(source, "fake")
    assert rows["FK-1"]["verdict"] == "holds"
