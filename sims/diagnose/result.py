"""What a diagnosis found, as one object."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from porism.checks import one_of, require, write_atomic
from porism.results import Result
from porism.sims.alignment.report import AlignmentReport
from porism.sims.diagnose.capacity import LayerCapacity
from porism.sims.diagnose.ranks import HiddenRanks
from porism.sims.pattern.records import HeadRecords
from porism.theory.lora_spectrum import AdapterSpectrum

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Diagnosis"]

ALPHA = 0.01
"""Largest p-value of a mask that a head is said to follow."""


@dataclass(frozen=True, eq=False)
class Diagnosis(Result):
    """All aspects of one model on one set of data; an aspect that could not be had is None.

    Parameters
    ----------
    model : str
        Class of the model.
    n_samples, n_tokens, n_batches : int
        What went through it, padding left out.
    n_scanned : int or None
        Sequences whose heads were measured.
    causal : bool or None
        Whether attention hides later tokens; None where nobody asked.
    capacity : LayerCapacity or None
        Positions that carry a gradient.
    heads : HeadRecords or None
        One record a head and mask, pooled over the sequences (sample 0).
    ranks : HiddenRanks or None
        Effective ranks of hidden states.
    alignment : AlignmentReport or None
        Rho and a recommendation a module.
    adapters : dict of str to AdapterSpectrum
        Spectra by name of the adapter; empty without one.
    classes : tuple of str
        Names of the classes where labels were names.
    notes : tuple of str
        What is missing and why, and what to know of the rest.
    seconds : dict of str to float
        Wall time of the pass and of judging each aspect.

    Examples
    --------
    >>> print(Diagnosis("BertModel", 2, 9, 1, None, False).summary())
    BertModel, bidirectional: 2 sequences, 9 tokens in 1 batch
    """

    model: str
    n_samples: int
    n_tokens: int
    n_batches: int
    n_scanned: int | None
    causal: bool | None
    capacity: LayerCapacity | None = None
    heads: HeadRecords | None = None
    ranks: HiddenRanks | None = None
    alignment: AlignmentReport | None = None
    adapters: dict[str, AdapterSpectrum] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def aspects(self) -> tuple[str, ...]:
        """Names of the aspects that were found, in the order of the page."""
        found = {
            "capacity": self.capacity,
            "heads": self.heads,
            "ranks": self.ranks,
            "alignment": self.alignment,
            "lora": self.adapters or None,
        }
        return tuple(name for name, value in found.items() if value is not None)

    def headlines(self) -> dict[str, str]:
        """One sentence an aspect.

        Returns
        -------
        dict of str to str
            By aspect, those that were found.
        """
        found: dict[str, str] = {}
        if self.capacity is not None:
            choice = self.capacity.choice
            longest = int(choice.bins[-1, 1])
            which = "last" if choice.align == "end" else "spread"
            kept = f"{100 * (1 - self.capacity.eps):.4g}% of coverage"
            found["capacity"] = (
                f"{choice.k} of {longest} positions ({which}) keep {kept}; "
                f"{choice.layer} decides, the least demanding layer needs {int(self.capacity.k.min())}"
            )
        if self.heads is not None:
            counts = self.heads.counts(alpha=ALPHA)
            parts = ", ".join(f"{count} {name}" for name, count in counts.items())
            found["heads"] = f"{sum(counts.values())} heads on {_count(self.n_scanned, 'sequence')}: {parts}"
        if self.ranks is not None:
            ranks = self.ranks.centred_rank
            found["ranks"] = (
                f"effective rank of the covariance {ranks[0]:.1f} at the input, {ranks[-1]:.1f} at the "
                f"end, of {int(self.ranks.dim.max())} dimensions"
            )
        if self.alignment is not None:
            parts = ", ".join(f"{n} {name}" for name, n in self.alignment.counts().items()) or "none"
            found["alignment"] = f"{len(self.alignment)} modules at rank {self.alignment.r}: {parts}"
        if self.adapters:
            parts = ", ".join(
                f"{name} with {_count(len(s.modules), 'module')} of rank {_span(s.rank)}, "
                f"mean effective rank {s.effective_rank.mean():.2f}"
                for name, s in self.adapters.items()
            )
            found["lora"] = parts
        return found

    def summary(self) -> str:
        """The whole as a few lines of text.

        Returns
        -------
        str
            A line on the data, one an aspect, and the notes.
        """
        lines = [self._title()]
        lines += [f"{name:<10}{text}" for name, text in self.headlines().items()]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def to_frames(self) -> dict[str, Any]:
        """Tidy tables by aspect.

        Returns
        -------
        dict of str to DataFrame
            "capacity" (a row a layer and step), "heads" (a head and mask), "ranks" (a layer), "alignment" (a
            module), "lora" (an adapter, module and singular value); those that were found.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        frames: dict[str, Any] = {}
        for name in self.aspects:
            if name == "lora":
                parts = {key: spectrum.to_frame() for key, spectrum in self.adapters.items()}
                frames[name] = (
                    pandas.concat(parts, names=["adapter"]).reset_index(level=0).reset_index(drop=True)
                )
            else:
                frames[name] = getattr(self, name).to_frame()
        return frames

    def to_frame(self) -> Any:
        """The headlines as a pandas table; `to_frames` has the numbers.

        Returns
        -------
        DataFrame
            Columns aspect and finding.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        rows = list(self.headlines().items())
        return pandas.DataFrame(rows, columns=["aspect", "finding"])

    def plot(self, ax: "Axes | None" = None, aspect: str | None = None) -> "Axes":
        """Draw one aspect.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure without it.
        aspect : str, optional
            One of `aspects`; the first one by default. "lora" draws the first adapter.

        Returns
        -------
        Axes
            The axes drawn on.

        Raises
        ------
        ValueError
            If there is no such aspect.
        """
        from porism.sims.drawing import canvas

        if not self.aspects:
            raise ValueError("there is nothing to draw, got no aspect; see the notes")
        name = one_of("aspect", self.aspects[0] if aspect is None else aspect, self.aspects)
        with canvas(ax) as axes:
            thing = next(iter(self.adapters.values())) if name == "lora" else getattr(self, name)
            drawn: Axes = thing.plot(axes)
            return drawn

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write one page that needs no other file and no network.

        Parameters
        ----------
        path : path
            File to create or replace; its folder must exist.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        from porism.sims.diagnose._page import page

        text = page(self)
        write_atomic(Path(path), lambda stream: stream.write(text.encode()))

    def patterns(self) -> dict[tuple[int, int], str]:
        """The mask that each head follows, "none" where none passes.

        Returns
        -------
        dict of (layer, head) to str
            Empty where heads were not measured.
        """
        if self.heads is None:
            return {}
        best = self.heads.best(alpha=ALPHA)
        return {place[1:]: "none" if record is None else record.mask for place, record in best.items()}

    def _repr_html_(self) -> str:
        from porism._show import html_table

        return html_table(("aspect", self._title()), self.headlines().items())

    def _title(self) -> str:
        kind = {True: ", causal", False: ", bidirectional", None: ""}[self.causal]
        classes = f", {len(self.classes)} classes" if self.classes else ""
        counts = f"{_count(self.n_samples, 'sequence')}, {_count(self.n_tokens, 'token')}"
        return f"{self.model}{kind}: {counts} in {_count(self.n_batches, 'batch')}{classes}"


def _span(values: Any) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _count(n: int | None, name: str) -> str:
    return f"{n} {name}" if n == 1 else f"{n} {name}{'es' if name == 'batch' else 's'}"
