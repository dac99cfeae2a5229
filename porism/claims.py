"""The ledger: what was promised, whether it held, and a control on which the same check must fail."""

import contextlib
import dataclasses
import re
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from porism import checks
from porism._pool import connect, in_order
from porism._show import html_table, plain, show

__all__ = [
    "KINDS",
    "SCALES",
    "Claim",
    "Evidence",
    "Ledger",
    "Outcome",
    "claim",
    "registered",
    "run",
]

KINDS = ("theorem", "statistical", "empirical", "refuted")
"""Exact up to rounding; tested at a stated error rate; a trend in a small world; false as worded."""

SCALES = ("smoke", "paper")
"""Seconds, for tests; minutes, for notebooks and the report."""

_REGISTRY: dict[str, "Claim"] = {}


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What one check of a claim measured.

    Parameters
    ----------
    holds : bool
        Whether the check came out as the claim says.
    measured, expected : float or str
        The number that decides and the number it is compared with.
    tolerance : float
        Largest admissible difference, in the unit of `measured`.
    tolerance_origin : str
        Where the tolerance comes from, such as ``"rounding, 8 eps n"``.
    trials : int, default 1
        Number of independent repetitions, >= 1.
    numbers : dict
        Further numbers worth reading.
    quantity : str, default ""
        What `measured` is, such as "largest difference"; a number alone says little.
    """

    holds: bool
    measured: float | str
    expected: float | str
    tolerance: float
    tolerance_origin: str
    trials: int = 1
    numbers: Mapping[str, float | int | str] = dataclasses.field(default_factory=dict)
    quantity: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON.

        Returns
        -------
        dict
            One key a field.
        """
        return {name: plain(value) for name, value in dataclasses.asdict(self).items()}


@dataclasses.dataclass(frozen=True)
class Claim:
    """One line of the ledger: a statement, where it comes from, and the check of it; made by `claim`.

    Parameters
    ----------
    id : str
        Short name, unique over all modules.
    module : str
        Package of `porism.sims` that defines it.
    kind : {"theorem", "statistical", "empirical", "refuted"}
        What sort of promise it is.
    source : str
        Paper and place, or the word reconstruction.
    statement : str
        What is claimed.
    control : str
        The variant with one hypothesis broken.
    check : callable
        ``check(scale, rng, broken) -> Evidence``.
    """

    id: str
    module: str
    kind: str
    source: str
    statement: str
    control: str
    check: Callable[..., Evidence] = dataclasses.field(repr=False, compare=False)

    def run(self, scale: str = "smoke", seed: int = 0) -> "Outcome":
        """Run the check, then its control from the same random stream.

        Parameters
        ----------
        scale : {"smoke", "paper"}
            Size of the worlds.
        seed : int, default 0
            The stream depends on it and on the claim's id only.

        Returns
        -------
        Outcome
            Also where the check raises: it then counts as failed and carries the message.
        """
        checks.one_of("scale", scale, SCALES)
        entropy = [checks.integer("seed", seed, low=0), zlib.crc32(self.id.encode())]
        start = time.perf_counter()
        errors, evidence = [], []
        for broken in (False, True):
            try:
                found = self.check(scale, np.random.default_rng(entropy), broken=broken)
                if not isinstance(found, Evidence):
                    raise TypeError(f"the check must return Evidence, got {type(found).__name__}")
            except Exception as error:  # one broken claim must not hide the others
                message = f"{'control' if broken else 'claim'} raised {type(error).__name__}: {error}"
                errors.append(message)
                found = Evidence(False, message, "no exception", 0.0, "none", 1)
            evidence.append(found)
        return Outcome(
            self, evidence[0], evidence[1], scale, seed, time.perf_counter() - start, "; ".join(errors)
        )

    def to_dict(self) -> dict[str, str]:
        """Describe the claim.

        Returns
        -------
        dict
            id, module, kind, statement, source, control.
        """
        return {
            name: getattr(self, name) for name in ("id", "module", "kind", "statement", "source", "control")
        }


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A claim after its run; shows itself as a table in a notebook.

    Parameters
    ----------
    claim : Claim
        What was run.
    evidence, control_evidence : Evidence
        What the check and its control measured.
    scale : {"smoke", "paper"}
        Size of the worlds.
    seed : int
        Seed of the run.
    seconds : float
        Wall time of both.
    error : str
        Message of whatever was raised, empty otherwise.
    """

    claim: Claim
    evidence: Evidence
    control_evidence: Evidence
    scale: str
    seed: int
    seconds: float
    error: str = ""

    @property
    def verdict(self) -> str:
        """One of holds, refuted, fails, control did not fail."""
        if self.error or not self.evidence.holds:
            return "fails"
        if self.control_evidence.holds:
            return "control did not fail"
        return "refuted" if self.claim.kind == "refuted" else "holds"

    @property
    def ok(self) -> bool:
        """Whether the claim came out as its kind says and the control failed."""
        return self.verdict in ("holds", "refuted")

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON.

        Returns
        -------
        dict
            The claim's fields, ok, verdict, error, scale, seed, seconds, evidence and control_evidence.
        """
        return {
            **self.claim.to_dict(),
            **{name: getattr(self, name) for name in ("ok", "verdict", "error", "scale", "seed", "seconds")},
            "evidence": self.evidence.to_dict(),
            "control_evidence": self.control_evidence.to_dict(),
        }

    def _repr_html_(self) -> str:
        return Ledger([self])._repr_html_()


class Ledger(tuple[Outcome, ...]):
    """The outcomes of a run, in order; a tuple that shows itself as a table in a notebook."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Whether every claim came out as it should."""
        return all(outcome.ok for outcome in self)

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain Python values, ready for JSON.

        Returns
        -------
        list of dict
            One entry an outcome.
        """
        return [outcome.to_dict() for outcome in self]

    def _repr_html_(self) -> str:
        heads = ("claim", "statement", "kind", "verdict", "measured", "expected", "tolerance", "control")
        rows = (
            (
                *(outcome.claim.id, outcome.claim.statement, outcome.claim.kind, outcome.verdict),
                f"{show(outcome.evidence.measured)} ({outcome.evidence.quantity or 'measured'})",
                outcome.evidence.expected,
                f"{show(outcome.evidence.tolerance)} ({outcome.evidence.tolerance_origin})",
                f"{outcome.claim.control}: {show(outcome.control_evidence.measured)}",
            )
            for outcome in self
        )
        return html_table(heads, rows)


def claim(
    id: str, *, kind: str, source: str, statement: str, control: str
) -> Callable[[Callable[..., Evidence]], Callable[..., Evidence]]:
    """Enter a check into the ledger.

    Parameters
    ----------
    id : str
        Short name, unique over all modules, such as ``"PR-3"``.
    kind : {"theorem", "statistical", "empirical", "refuted"}
        What sort of promise it is.
    source : str
        Paper and place, or the word reconstruction.
    statement : str
        What is claimed, in one precise sentence.
    control : str
        The variant with one hypothesis broken that ``broken=True`` runs; the check must not hold on it.

    Returns
    -------
    callable
        Decorator for ``check(scale, rng, broken=False) -> Evidence``; it returns the function itself.

    Raises
    ------
    ValueError
        If the id is taken, the kind unknown, or a text empty: a check that cannot fail proves nothing.

    Examples
    --------
    >>> @claim("DOC-1", kind="theorem", source="arithmetic", statement="1 + 1 = 2.", control="add 2 instead")
    ... def addition(scale, rng, broken=False):
    ...     total = 1 + (2 if broken else 1)
    ...     return Evidence(total == 2, total, 2, 0.0, "exact integers")
    >>> registered()["DOC-1"].run().verdict
    'holds'
    """
    checks.one_of("kind", kind, KINDS)
    for name, text in {"id": id, "source": source, "statement": statement, "control": control}.items():
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{name} of claim {id!r} must be a non-empty line, got {text!r}; write it down")

    def enter(check: Callable[..., Evidence]) -> Callable[..., Evidence]:
        entry = Claim(id, _module(check.__module__), kind, source, statement, control, check)
        known = _REGISTRY.get(id, entry).check
        if (known.__module__, known.__qualname__) != (
            check.__module__,
            check.__qualname__,
        ):  # a reload is welcome
            raise ValueError(
                f"id must be unique, got {id!r}, taken by {known.__module__}.{known.__qualname__}; rename it"
            )
        _REGISTRY[id] = entry
        check.__doc__ = check.__doc__ or statement
        return check

    return enter


def registered() -> dict[str, Claim]:
    """List the claims of the modules imported so far.

    Returns
    -------
    dict of str to Claim
        By id, in natural order: PR-2, PR-4, PR-4b, PR-10. `porism.sims.ledger` imports the modules too.

    Examples
    --------
    >>> isinstance(registered(), dict)
    True
    """
    return {id: _REGISTRY[id] for id in sorted(_REGISTRY, key=_natural)}


def run(
    claims: Iterable[Claim],
    scale: str = "smoke",
    seed: int = 0,
    progress: bool = False,
    workers: int = 1,
    each: Callable[[Outcome], object] | None = None,
    scheduler: Any = None,
) -> Ledger:
    """Run claims with their controls.

    Parameters
    ----------
    claims : iterable of Claim
        What to run; `porism.sims.ledger()` has them all.
    scale : {"smoke", "paper"}
        Size of the worlds.
    seed : int, default 0
        Each claim draws from a stream of its own, so none of selection, `workers` and `scheduler` changes a
        number.
    progress : bool, default False
        Show a bar on stderr.
    workers : int, default 1
        Number of processes on this machine, >= 1.
    each : callable, optional
        Receives each outcome as soon as it is there, in the order given.
    scheduler : str or distributed.Client, optional
        Address of a Dask scheduler, or a client of one; claims run on its workers, which need this package in
        this version. What ran on a worker that died runs again on another.

    Returns
    -------
    Ledger
        The outcomes, in the order given.

    Raises
    ------
    ValueError
        If the scale is unknown or a number out of range.
    ConnectionError
        If the scheduler does not answer within 5 s, or goes away.
    ChildProcessError
        If a process on this machine dies.

    Examples
    --------
    >>> run([]).ok
    True
    """
    listed = list(claims)
    checks.one_of("scale", scale, SCALES)
    checks.integer("seed", seed, low=0)
    tasks = [(entry, scale, seed) for entry in listed]
    done: list[Outcome] = []
    with (
        connect(scheduler, workers) as client,
        contextlib.closing(in_order(Claim.run, tasks, workers, client)) as results,
    ):
        found: Iterable[Any] = results
        if progress:
            from tqdm import tqdm

            found = tqdm(results, total=len(listed), desc="claims", unit="claim")
        for entry, outcome in zip(listed, found, strict=True):
            done.append(_lost(entry, outcome, scale, seed) if isinstance(outcome, Exception) else outcome)
            if each:
                each(done[-1])
    return Ledger(done)


def _lost(entry: Claim, error: Exception, scale: str, seed: int) -> Outcome:
    """Outcome of a claim that never came back from a cluster."""
    message = f"not run: {type(error).__name__}: {error}"
    nothing = Evidence(False, message, "no exception", 0.0, "none", 1)
    return Outcome(entry, nothing, nothing, scale, seed, 0.0, message)


def _module(name: str) -> str:
    parts = name.split(".")
    if "sims" in parts[:-1]:
        return parts[parts.index("sims") + 1]
    return next((part for part in reversed(parts) if part != "claims"), name)


def _natural(id: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", id)]
