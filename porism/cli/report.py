"""The report page: one self-contained file, without scripts or external assets."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from porism._page import document, figure, table
from porism._show import show
from porism.claims import Evidence, Outcome
from porism.cli.common import scrub

if TYPE_CHECKING:
    from porism.cli.reproduce import Step

__all__ = ["page"]

SVG_LIMIT = 400_000
"""Bytes above which the page carries the PNG of a figure instead of its SVG."""

HEADS = ("claim", "verdict", "statement", "kind", "measured", "expected", "tolerance", "trials", "seconds")


def page(
    modules: Sequence[str],
    outcomes: Sequence[Outcome],
    figures: Sequence["Step"],
    notebooks: Sequence["Step"],
    folder: Path,
    scale: str,
    seed: int,
) -> str:
    """Write the page as one string; the figures' files are read from a folder."""
    good = sum(outcome.ok for outcome in outcomes)
    broken = [step for step in (*figures, *notebooks) if step.error]
    state = _verdict(f"{good} of {len(outcomes)} claims came out as stated", good == len(outcomes))
    failures = "".join(
        f'<li><a href="#{escape(o.claim.id)}">{escape(o.claim.id)}</a>: {_verdict(o.verdict, False)}</li>'
        for o in outcomes
        if not o.ok
    )
    failures += "".join(f"<li>{s.module}/{escape(s.name)}: {_verdict(s.error, False)}</li>" for s in broken)
    sections = "".join(
        _section(
            name,
            [outcome for outcome in outcomes if outcome.claim.module == name],
            [step for step in figures if step.module == name],
            [step for step in notebooks if step.module == name],
            folder,
        )
        for name in modules
    )
    lead = f"""<p>{state}, at scale {escape(scale)} with seed {seed}. Each claim is checked, and then checked
again with one hypothesis broken: on this control the same check must fail, or it could not have told us
anything.</p>{f"<ul>{failures}</ul>" if failures else ""}"""
    versions = table("versions", (), _versions())
    sections += f'\n<section id="versions"><h2>versions and machine</h2>{versions}</section>'
    return document("porism report", lead, [(name, name) for name in (*modules, "versions")], sections)


def _section(
    name: str, outcomes: list[Outcome], figures: list["Step"], notebooks: list["Step"], folder: Path
) -> str:
    runs = "".join(
        f"<p>Notebook {escape(n.name)}: "
        f"{_verdict(f'failed, {n.error}', False) if n.error else f'ran in {n.seconds:.1f} s'}.</p>"
        for n in notebooks
    )
    claims = table(f"claims of {name}", HEADS, "".join(map(_claim, outcomes))) if outcomes else ""
    drawn = "".join(_figure(step, folder) for step in figures)
    return (
        f'<section id="{name}"><h2>{name}</h2>{runs}{claims}'
        + (f'<h3 id="{name}-figures">figures</h3><div class="figures">{drawn}</div>' if drawn else "")
        + "</section>"
    )


def _claim(outcome: Outcome) -> str:
    claim, anchor = outcome.claim, escape(outcome.claim.id, quote=True)
    numbers = "".join(
        f"<small>{escape(key)}: {escape(scrub(show(value)))}</small>"
        for key, value in outcome.evidence.numbers.items()
    )
    details = f"<details><summary>numbers</summary>{numbers}</details>" if numbers else ""
    control = _verdict("fails, as it must", True)
    if outcome.control_evidence.holds:
        control = _verdict("does not fail", False)
    elif "control raised" in outcome.error:
        control = _verdict("raised", False)
    return (
        f'<tbody id="{anchor}"><tr><th scope="row"><a href="#{anchor}">{escape(claim.id)}</a></th>'
        f"<td>{_verdict(outcome.verdict, outcome.ok)}</td>"
        f'<td class="long">{escape(claim.statement)}<small>{escape(claim.source)}</small>{details}</td>'
        f"<td>{claim.kind}</td>{_numbers(outcome.evidence)}"
        f"<td>{outcome.seconds:.2f}</td></tr>"
        f'<tr class="control"><td></td><td>{control}</td>'
        f'<td class="long">control: {escape(claim.control)}</td>'
        f"<td></td>{_numbers(outcome.control_evidence)}<td></td></tr></tbody>"
    )


def _numbers(evidence: Evidence) -> str:
    cells = [
        escape(scrub(show(value))) for value in (evidence.measured, evidence.expected, evidence.tolerance)
    ]
    cells[0] += f"<small>{escape(evidence.quantity)}</small>"
    cells[2] += f"<small>{escape(evidence.tolerance_origin)}</small>"
    return "".join(f'<td class="number">{cell}</td>' for cell in (*cells, str(evidence.trials)))


def _figure(step: "Step", folder: Path) -> str:
    anchor = f"{step.module}-{step.name}"
    caption = f"<b>{escape(step.name)}</b> {escape(step.caption)}"
    if step.error:
        failure = _verdict(f"failed, {step.error}", False)
        return f'<figure id="{anchor}"><figcaption>{caption} {failure}</figcaption></figure>'
    file, kind = folder / f"{step.module}_{step.name}.svg", "svg+xml"
    if file.stat().st_size > SVG_LIMIT:
        file, kind = file.with_suffix(".png"), "png"
    alt = f"Figure {step.name} of {step.module}: {step.caption}"
    return figure(anchor, kind, file.read_bytes(), alt, f"{caption} <span>({step.seconds:.1f} s)</span>")


def _versions() -> str:
    """Name what a number may depend on, and nothing that names a person or a place."""
    rows = [("Python", platform.python_version()), ("porism", importlib.metadata.version("porism"))]
    names = {
        re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in importlib.metadata.requires("porism") or ()
    }
    for name in sorted(names - {"porism"}, key=str.lower):
        try:
            rows.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            rows.append((name, "not installed"))
    rows.append(("system", f"{platform.system()} {platform.machine()}"))
    rows.append(("CPU", f"{_cpu()}, {os.cpu_count()} threads"))
    return "".join(
        f'<tr><th scope="row">{escape(key)}</th><td>{escape(value)}</td></tr>' for key, value in rows
    )


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return found[1] if found else platform.processor() or "unknown"


def _verdict(text: str, good: bool) -> str:
    return f'<span class="{"good" if good else "bad"}">{escape(text)}</span>'
