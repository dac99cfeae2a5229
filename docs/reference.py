"""Write the reference: one page a module and floor, found by walking the packages."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gather
from rst import lines, title, tree

from porism.claims import Claim


def api_pages(source: Path) -> dict[str, Any]:
    """Write the reference; return where to find names that stand on another page or under another path."""
    owner, claims = gather.owners(), gather.checks_of_claims()
    elsewhere: dict[str, Any] = {"names": {}, "scopes": {}}
    listed: dict[str, list[str]] = {}
    for page, modules in gather.pages().items():
        document = f"api/{page}"
        floor = next(floor for floor in gather.FLOORS if page == floor or page.startswith(f"{floor}."))
        listed.setdefault(floor, []).append(page)
        elsewhere["scopes"][document] = modules
        text = []
        for module in modules:
            # a submodule may bear the name of the function it holds
            hidden = "   :no-index:\n" if tuple(module.rsplit(".", 1)) in owner else ""
            text += [title(module, "=" if module == page else "-"), f".. automodule:: {module}\n{hidden}\n"]
            text += names(module, owner, claims, elsewhere["names"], "-" if module == page else "~")
        lines(source / f"{document}.rst", *text)
    index = [
        title("Reference"),
        "One page a module and floor; a module has the same name on every floor.\n\n",
    ]
    for floor in ("porism.theory", "porism.sims", "porism.kernels", "porism"):
        index.append(tree(*listed[floor], caption=floor, hidden=False))
    lines(source / "api/index.rst", *index)
    return elsewhere


def names(
    module: str,
    owner: dict[tuple[str, str], str],
    claims: dict[int, Claim],
    elsewhere: dict[str, Any],
    line: str,
) -> Iterator[str]:
    """Write what a module offers: in full where it is documented, else as a link with an anchor."""
    here = importlib.import_module(module)
    own, linked = [], []
    for name in here.__all__:
        value, full = getattr(here, name), f"{module}.{name}"
        if id(value) in claims:
            elsewhere[full] = [f"modules/{claims[id(value)].module}", claims[id(value)].id]
            linked.append(name)
        elif isinstance(value, ModuleType):
            elsewhere[full] = ["py", value.__name__]
            linked.append(name)
        elif owner[module, name] != module:
            elsewhere[full] = ["py", f"{owner[module, name]}.{name}"]
            linked.append(name)
        else:
            own.append(name)
    shown = [name for name in own if gather.documented(getattr(here, name))]
    if len(shown) > 1:
        rows = "\n".join(f"   {name}" for name in shown)
        yield f".. autosummary::\n   :nosignatures:\n\n{rows}\n\n"
    for name in own:
        value = getattr(here, name)
        if name not in shown:
            yield constant(module, name, value)
        elif inspect.isclass(value):
            yield f".. autoclass:: {module}.{name}\n   :members:\n   :show-inheritance:\n\n"
        else:
            yield f".. autofunction:: {module}.{name}\n\n"
    if linked:
        anchors = "".join(f'<span id="{module}.{name}"></span>' for name in linked)
        targets = ", ".join(f":py:obj:`{name} <{module}.{name}>`" for name in linked)
        lead = "Also here" if own else "Documented elsewhere"
        yield f".. raw:: html\n\n   {anchors}\n\n{lead}: {targets}.\n\n"


def constant(module: str, name: str, value: Any) -> str:
    """Describe a constant, with its value where that is short."""
    text = repr(value)
    shown = f"   :value: {text}\n" if len(text) < 90 and " at 0x" not in text else ""
    note = gather.note(module, name)
    return f".. py:data:: {name}\n{shown}\n" + "".join(f"   {row}\n" for row in note.splitlines()) + "\n"
