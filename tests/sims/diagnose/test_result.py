"""The result: text, tables, file, figures, page."""

import dataclasses
import html.parser
import re
import zipfile

import numpy as np
import pytest

from porism.results import Result
from porism.sims.diagnose import ASPECTS, Diagnosis, HiddenRanks, LayerCapacity, diagnose

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),  # from inside peft
]


@pytest.fixture
def whole(world, needs):
    """All five aspects."""
    peft = needs("peft")
    world.torch.manual_seed(1)
    config = peft.LoraConfig(r=3, target_modules=["query", "value"], init_lora_weights=False)
    model = peft.get_peft_model(world.model(), config)
    y = np.concatenate([b["labels"].numpy() for b in world.batches()])
    batches = world.batches(labels=False)
    return diagnose(model, batches, labels=np.array(["<a>", "b", "c"])[y], n_null=99, rank=4)


def test_summary(whole):
    lines = whole.summary().splitlines()
    assert (
        lines[0] == f"PeftModel, bidirectional: 24 sequences, {whole.n_tokens} tokens in 3 batches, 3 classes"
    )
    assert [line.split()[0] for line in lines[1:6]] == list(ASPECTS)
    assert f"{whole.capacity.choice.k} of 13 positions" in lines[1]
    counts = whole.heads.counts(alpha=0.01)
    assert lines[2].endswith(", ".join(f"{n} {name}" for name, n in counts.items()))
    assert list(whole.patterns()) == [(i, j) for i in range(2) for j in range(4)]
    assert str(whole) == whole.summary()
    assert "&lt;a&gt;" not in whole._repr_html_()
    assert whole._repr_html_().count("<tr>") == 6


def test_frames(whole, needs):
    needs("pandas")
    frames = whole.to_frames()
    assert list(frames) == list(ASPECTS)
    capacity = frames["capacity"]
    assert len(capacity) == whole.capacity.curves.size
    last = capacity.groupby("layer").last()
    assert (last["positions"] == 13).all()
    row = capacity[
        (capacity["layer"] == whole.capacity.choice.layer) & (capacity["positions"] == last["k"].max())
    ]
    assert row["coverage"].item() >= 0.9 * whole.capacity.choice.curve[-1]
    assert len(frames["heads"]) == 2 * 4 * 3
    assert list(frames["ranks"]["layer"][:1]) == ["input"]
    assert set(frames["alignment"]["recommendation"]) <= {
        "use_pca",
        "no_effect_expected",
        "signal_not_detected",
    }
    assert list(frames["lora"].columns[:3]) == ["adapter", "module", "index"]
    assert len(frames["lora"]) == 4 * 3
    assert list(whole.to_frame()["aspect"]) == list(ASPECTS)


def test_saved_and_read_back(whole, tmp_path):
    file = tmp_path / "d.npz"
    whole.save(file)
    with zipfile.ZipFile(file) as stored:
        assert all(name.endswith(".npy") for name in stored.namelist())
    for read in (Diagnosis.load(file), Result.load(file)):
        assert read.summary() == whole.summary()
        assert read.heads == whole.heads
        assert read.seconds == whole.seconds
        np.testing.assert_array_equal(read.capacity.curves, whole.capacity.curves)
        np.testing.assert_array_equal(read.ranks.centred_rank, whole.ranks.centred_rank)
        assert [row.module for row in read.alignment] == [row.module for row in whole.alignment]
        for name, values in whole.adapters["default"].spectra.items():
            np.testing.assert_array_equal(read.adapters["default"].spectra[name], values)


def test_plots(whole, needs):
    matplotlib = needs("matplotlib")
    matplotlib.use("agg")
    from matplotlib.figure import Figure

    before = dict(matplotlib.rcParams)
    for aspect in ASPECTS:
        ax = Figure().subplots()
        assert whole.plot(ax, aspect) is ax
        assert ax.has_data()
    ax = whole.plot(Figure().subplots(), "capacity")
    curves = {tuple(line.get_ydata()) for line in ax.get_lines()}
    assert {tuple(curve) for curve in whole.capacity.curves} <= curves
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(ValueError, match="aspect must be one of"):
        whole.plot(aspect="colour")
    with pytest.raises(ValueError, match="there is nothing to draw"):
        Diagnosis("M", 1, 1, 1, None, None).plot()


class Page(html.parser.HTMLParser):
    """Ids, targets, sources and unclosed tags of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.sources, self.open, self.tags = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        self.tags.append(tag)
        if "id" in own:
            self.ids.append(own["id"])
        if "href" in own:
            self.links.append(own["href"])
        if "src" in own:
            self.sources.append(own["src"])
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page(whole, tmp_path):
    file = tmp_path / "page.html"
    whole.to_html(file)
    text = file.read_text()
    page = Page(text)
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert set(page.links) == {f"#{name}" for name in (*ASPECTS, "about")}
    assert len(page.sources) == 5
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    assert not re.search(r"<(script|link|iframe)|@import|url\(", text)
    assert "width=device-width" in text
    assert "prefers-color-scheme: dark" in text
    assert page.tags.count("table") == 6
    for layer in whole.capacity.layers:
        assert layer in text


def test_page_escapes(tmp_path):
    found = Diagnosis("<b>&", 1, 1, 1, None, None, notes=("<script>",))
    found.to_html(tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text()
    assert "&lt;b&gt;&amp;" in text
    assert "<script>" not in text
    assert Page(text).open == []


def test_undefined_numbers_are_shown(whole, tmp_path):
    row = whole.alignment.rows[0]
    none = dataclasses.replace(row, result=dataclasses.replace(row.result, rho=float("nan")))
    odd = dataclasses.replace(whole, alignment=dataclasses.replace(whole.alignment, rows=(none,)))
    odd.to_html(tmp_path / "p.html")
    assert '<td class="number">nan</td>' in (tmp_path / "p.html").read_text()


def test_parts_are_results(whole, tmp_path):
    for part, kind in ((whole.capacity, LayerCapacity), (whole.ranks, HiddenRanks)):
        part.save(tmp_path / "part.npz")
        assert type(Result.load(tmp_path / "part.npz")) is kind
    assert whole.capacity.share == whole.capacity.choice.k / 13
