"""What stock Sphinx lacks: formulas without scripts, the ledger as blocks, names that stand elsewhere."""

import functools
import json
import re
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from gather import kind, ledger_tables
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

from porism import sims
from porism.claims import KINDS, Claim

MEANING = {
    "theorem": "exact, up to rounding",
    "statistical": "tested at a stated error rate",
    "empirical": "a trend in a small world",
    "refuted": "false as worded",
}
ARRAY = re.compile(r"ndarray\[tuple\[(?:Any|int), \.\.\.\], dtype\[(\w+)\]\]")
BAR = re.compile(r"``.*?``|`[^`]*`|(?<!\\)\|")
"""Bars, and literals, in which bars stay."""
DOTTED = re.compile(r"porism(\.\w+)+")
CLASSES = re.compile(r"\\math(?:rel|bin|ord|op)\{([^{}]*)\}")
"""Spacing that the translator does not know."""
LOG = logging.getLogger(__name__)


class Claims(SphinxDirective):
    """The claims of a module that are of one kind."""

    required_arguments = 1
    option_spec: ClassVar = {"kind": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Make one block a claim."""
        module = self.arguments[0]
        measured = ledger_tables(Path(self.env.srcdir), module)
        wanted = [claim for claim in sims.ledger(module) if kind(claim) == self.options["kind"]]
        return [self.block(claim, measured.get(claim.id, {})) for claim in wanted]

    def block(self, claim: Claim, row: dict[str, str]) -> nodes.Element:
        """Show a claim with its control, and what the notebook measured."""
        block = nodes.container(classes=["claim", claim.kind], ids=[claim.id])
        self.state.document.note_explicit_target(block)
        block += nodes.paragraph("", "", nodes.strong(text=claim.id), nodes.Text(f"  {claim.statement}"))
        facts = {"Kind": f"{claim.kind}, {MEANING[claim.kind]}", "Source": claim.source}
        facts["Control, on which the check fails"] = claim.control
        if row:
            facts["Notebook"] = f"{row['verdict']}; measured {row['measured']}, expected {row['expected']}"
        for name, text in facts.items():
            block += nodes.paragraph(
                "", "", nodes.emphasis(text=f"{name}: "), nodes.Text(text), classes=["small"]
            )
        return block


def mathml(tex: str, display: str) -> str:
    """Turn LaTeX into MathML, which browsers show by themselves."""
    found = convert(CLASSES.sub(r"{\1}", tex.strip()), display=display)
    if "\\" in found:
        raise ValueError("a command is unknown")
    return found


def visit_math(self: Any, node: nodes.Element, display: str = "inline") -> None:
    """Write a formula; one that cannot be translated is a warning, and so an error of the build."""
    try:
        self.body.append(mathml(node.astext(), display))
    except Exception as error:  # whatever the parser raises
        LOG.warning("no MathML for %r: %s", node.astext(), error, location=node)
    raise nodes.SkipNode


def visit_math_block(self: Any, node: nodes.Element) -> None:
    """Write a formula on a line of its own."""
    visit_math(self, node, display="block")


def bars(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Take ``|x|`` in running text as an absolute value or a size, which reStructuredText does not."""
    verbatim = -1  # indent of the text that opened a literal block, -2 within a doctest
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith(">>>"):
            verbatim = -2
        elif not line.strip():
            verbatim = -1 if verbatim == -2 else verbatim
            continue
        elif verbatim >= 0 and indent <= verbatim:
            verbatim = -1
        if verbatim == -1:
            lines[i] = BAR.sub(lambda match: match[0] if match[0][0] == "`" else r"\|", line)
            if line.rstrip().endswith("::") or line.lstrip().startswith(".. "):
                verbatim = indent


def resolve(app: Sphinx, env: Any, node: nodes.Element, content: nodes.Element) -> nodes.Element | None:
    """Find names that are documented elsewhere; of the rest, only those of porism must exist.

    A name in single backticks may be a parameter, an option, or a name of another library.
    """
    if node.get("refdomain") != "py":
        return None
    target, domain, known = node["reftarget"], env.get_domain("py"), elsewhere(str(app.srcdir))
    scopes = [node.get("py:module") or "", *known["scopes"].get(node["refdoc"], [])]
    for name in (target, *(f"{scope}.{target}" for scope in scopes)):
        place = known["names"].get(name)
        if place and place[0] == "py" and place[1] in domain.objects:
            found = domain.objects[place[1]]
            return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, content, target)
        if place and place[0] != "py":
            return make_refnode(app.builder, node["refdoc"], place[0], place[1], content, target)
    return None if DOTTED.fullmatch(target) else content


def shorten(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, *rest: Any
) -> Any:
    """Write types of arrays as the code does."""
    return tuple(text and ARRAY.sub(r"NDArray[\1]", text) for text in (signature, *rest))


@functools.cache
def elsewhere(folder: str) -> dict[str, Any]:
    """Read where names are that are documented under another one."""
    found: dict[str, Any] = json.loads((Path(folder) / "elsewhere.json").read_text())
    return found


def public_bases(app: Sphinx, name: str, thing: Any, options: Any, bases: list[type]) -> None:
    """Leave out base classes that have no page."""
    bases[:] = [base for base in bases if "._" not in getattr(base, "__module__", "")] or [object]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register all of it."""
    assert set(KINDS) == set(MEANING)
    app.add_directive("claims", Claims)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.connect("autodoc-process-docstring", bars, priority=900)  # after numpydoc
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-process-bases", public_bases)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
