"""The page of a diagnosis: figures, tables and anchors in one file, without scripts or other assets."""

import io
import platform
from collections.abc import Iterable
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from porism._page import document, figure, table
from porism._show import show

if TYPE_CHECKING:
    from porism.sims.diagnose.result import Diagnosis

__all__ = ["page"]

SHORT = 24
"""Rows above which a table is folded away."""

TEXTS = {
    "capacity": (
        "Token capacity",
        "How many positions reach the energy of each layer's inputs. Coverage looks at inputs alone: it is "
        "necessary for a gradient and promises no accuracy.",
    ),
    "heads": (
        "Attention heads",
        "Each head's maps against masks, next to maps whose rows were shuffled. Effect is 1 less the mass "
        "outside the mask over its mean under the null.",
    ),
    "ranks": (
        "Hidden states",
        "Directions in which the states after each block have their mass. Where most energy sits in the "
        "mean, the rank of the covariance tells more.",
    ),
    "alignment": (
        "Alignment",
        "Whether an adapter should start with principal directions of a module's features. Rho sees class "
        "means only: near 0 is no proof that the features do not help.",
    ),
    "lora": ("Adapters", "Singular values of the update that each adapted module makes."),
}

CAPTIONS = {
    "capacity": "Coverage by the positions taken first, a line a layer. Dashed: the share asked for, and k.",
    "heads": "The mask of largest effect of each head, where p is at most 0.01 and the effect above 0.2.",
    "ranks": "Effective ranks of the hidden states against depth.",
    "alignment": "Predicted gain of principal directions against rho, a point a module.",
}


def page(found: "Diagnosis") -> str:
    """The page as one string."""
    lines = found.headlines()
    findings = "".join(
        f'<li style="overflow-wrap:anywhere"><a href="#{n}">{escape(TEXTS[n][0])}</a>: {escape(t)}</li>'
        for n, t in lines.items()
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.notes)
    sections = "".join(_section(found, name) for name in lines)
    notes = f'<h3 id="notes">Notes</h3><ul>{notes}</ul>' if notes else ""
    summary = f'<section id="summary"><h2>Summary</h2><ul>{findings}</ul>{notes}</section>'
    about = f'<section id="about"><h2>About</h2>{_about(found)}</section>'
    links = [*((name, TEXTS[name][0]) for name in lines), ("about", "About")]
    lead = f"<p>{escape(found._title())}</p>"
    return document(f"Diagnosis of {found.model}", lead, links, summary + sections + about)


def _section(found: "Diagnosis", name: str) -> str:
    title, text = TEXTS[name]
    figures = [(CAPTIONS.get(name, ""), getattr(found, name, None))]
    if name == "lora":
        figures = [
            (f"Singular values of adapter {key}, a line a module.", s) for key, s in found.adapters.items()
        ]
    drawn = "".join(_figure(f"{name}-figure-{i}", label, thing) for i, (label, thing) in enumerate(figures))
    heads, rows = _rows(found, name)
    return (
        f'<section id="{name}"><h2>{escape(title)}</h2><p>{escape(text)}</p>'
        f'<div class="figures">{drawn}</div>'
        f'<h3 id="{name}-table">Numbers</h3>{_table(f"numbers of {title}", heads, rows)}</section>'
    )


def _rows(found: "Diagnosis", name: str) -> tuple[list[str], list[list[Any]]]:
    if name == "capacity":
        part: Any = found.capacity
        taken = part.choice.bins[part.choice.order]
        steps = (taken[:, 1] - taken[:, 0]).cumsum().tolist()
        rows = [
            [layer, int(k), float(curve[0]), float(curve[steps.index(int(k))])]
            for layer, k, curve in zip(part.layers, part.k, part.curves, strict=True)
        ]
        return ["layer", "positions needed", "coverage of the first", "coverage at k"], rows
    if name == "heads":
        records: Any = found.heads
        best = {place[1:]: record for place, record in records.best(alpha=0.01).items()}
        fields = ["layer", "head", "mask", "mass_outside", "null_mean", "effect", "p_value", "p_holm"]
        rows = [
            [getattr(r, field) for field in fields] + ["follows" if best[r.layer, r.head] == r else ""]
            for r in records
        ]
        return [
            "layer",
            "head",
            "mask",
            "mass outside",
            "null mean",
            "effect",
            "p",
            "p Holm",
            "verdict",
        ], rows
    if name == "ranks":
        ranks: Any = found.ranks
        columns = (
            ranks.layer,
            ranks.effective_rank,
            ranks.centred_rank,
            ranks.participation_ratio,
            ranks.mean_share,
        )
        heads = ["after", "second moment", "covariance", "participation ratio", "energy in the mean"]
        return heads, [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    if name == "alignment":
        report: Any = found.alignment
        heads = ["module", "rule", "rho", "predicted gain", "signal z", "recommendation", "why"]
        return heads, [
            [
                row.module, row.rule, row.result.rho, row.result.predicted_gain, row.result.signal_z,
                row.recommendation.replace("_", " "), row.reason,
            ]
            for row in report
        ]  # fmt: skip
    heads = ["adapter", "module", "rank", "scaling", "largest", "stable rank", "effective rank"]
    rows = []
    for adapter, s in found.adapters.items():
        numbers = (s.rank.tolist(), s.scaling.tolist(), s.stable_rank.tolist(), s.effective_rank.tolist())
        for (module, values), rank, scaling, stable, effective in zip(
            s.spectra.items(), *numbers, strict=True
        ):
            rows.append([adapter, module, rank, scaling, float(values[0]), stable, effective])
    return heads, rows


def _figure(anchor: str, label: str, thing: Any) -> str:
    from matplotlib.figure import Figure

    from porism.sims.style import style

    with style():
        drawn = Figure(figsize=(7, 4.2), layout="constrained")
        thing.plot(drawn.subplots())
        stream = io.BytesIO()
        drawn.savefig(stream, format="svg", metadata={"Date": None})
    return figure(anchor, "svg+xml", stream.getvalue(), f"Figure: {label}", escape(label))


def _table(label: str, heads: Iterable[str], rows: list[list[Any]]) -> str:
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    box = table(label, heads, f"<tbody>{body}</tbody>")
    return box if len(rows) <= SHORT else f"<details><summary>{len(rows)} rows</summary>{box}</details>"


def _cell(value: Any) -> str:
    if isinstance(value, (int, float)):
        return f'<td class="number">{show(value)}</td>'
    kind = ' class="long"' if " " in value and len(value) > 24 else ""  # sentences, which may wrap
    return f"<td{kind}>{escape(value)}</td>"


def _about(found: "Diagnosis") -> str:
    rows: list[list[Any]] = [[f"seconds, {name}", float(value)] for name, value in found.seconds.items()]
    for name in ("porism", "torch", "transformers", "peft", "numpy"):
        try:
            rows.append([name, version(name)])
        except PackageNotFoundError:
            rows.append([name, "not installed"])
    rows.append(["Python", platform.python_version()])
    return _table("times and versions", ("what", "value"), rows)
