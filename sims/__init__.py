"""Worlds with a known truth, small trainers, claims and figures; all randomness lives here."""

import importlib
import pkgutil
from typing import TYPE_CHECKING

from porism import checks
from porism._lazy import submodules

if TYPE_CHECKING:
    from porism.claims import Claim

__all__ = ["ledger", "modules"]

__getattr__ = submodules(__name__)


def modules() -> tuple[str, ...]:
    """Name the modules that have claims.

    Returns
    -------
    tuple of str
        Packages of `porism.sims` with a `claims` module, in alphabetical order.

    Examples
    --------
    >>> "partition" in modules()
    True
    """
    found = []
    for entry in pkgutil.iter_modules(__path__):
        if entry.ispkg:
            package = importlib.import_module(f"{__name__}.{entry.name}")
            if any(part.name == "claims" for part in pkgutil.iter_modules(package.__path__)):
                found.append(entry.name)
    return tuple(sorted(found))


def ledger(*names: str) -> "list[Claim]":
    """Import the claims of modules and list them.

    Parameters
    ----------
    *names : str
        Modules of `porism.sims`; all of them where none is named.

    Returns
    -------
    list of Claim
        In natural order of their ids, module by module.

    Raises
    ------
    ValueError
        If there is no such module.

    Examples
    --------
    >>> all(claim.module == "partition" for claim in ledger("partition"))
    True
    """
    from porism.claims import registered

    known = modules()
    wanted = [checks.one_of("module", name, known) for name in names] or list(known)
    for name in wanted:
        importlib.import_module(f"{__name__}.{name}.claims")
    return [claim for name in wanted for claim in registered().values() if claim.module == name]
