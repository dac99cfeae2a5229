"""What a scan of attention heads returns: one record a head and mask, and the best mask of each head."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from porism.checks import probability, require
from porism.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["HeadRecord", "HeadRecords"]


@dataclasses.dataclass(frozen=True)
class HeadRecord(Result):
    """One attention head against one mask.

    Parameters
    ----------
    layer, head : int
        Place in the model, from 0, layers in the order in which they ran.
    mask : str
        Name of the mask.
    mass_outside : float
        Share of the map's mass outside the mask.
    null_mean : float
        Mean over shuffled maps.
    effect : float
        ``1 - mass_outside / null_mean``.
    p_value, p_holm : float
        P-value of this mask alone, and adjusted for the library on this head.
    order : {"none", "common", "independent"}
        Which tokens were free to move.
    null : str
        How maps were shuffled.
    stripped : int
        Sink columns emptied before.
    sample : int
        Row of the batch.

    Examples
    --------
    >>> HeadRecord(0, 3, "sink1", 0.1, 0.8, 0.875, 0.01, 0.02, "none", "rows").effect
    0.875
    """

    layer: int
    head: int
    mask: str
    mass_outside: float
    null_mean: float
    effect: float
    p_value: float
    p_holm: float
    order: str
    null: str
    stripped: int = 0
    sample: int = 0


@dataclasses.dataclass(frozen=True)
class HeadRecords(Result):
    """All records of a scan, in the order sample, layer, head, mask; iterates over them.

    Parameters
    ----------
    records : tuple of HeadRecord
        The records.
    n_null : int
        Shuffled maps for each head.
    n_tokens : tuple of int
        Tokens of each sample, without padding.
    causal : bool
        Whether no map looks ahead.
    seed : int or None
        Seed of the shuffles.

    Examples
    --------
    >>> record = HeadRecord(0, 0, "sink1", 0.1, 0.9, 8 / 9, 0.01, 0.02, "none", "rows")
    >>> HeadRecords((record,), 99, (84,), False, 0).counts()
    {'sink1': 1}
    """

    records: tuple[HeadRecord, ...]
    n_null: int
    n_tokens: tuple[int, ...]
    causal: bool
    seed: int | None = None

    def __iter__(self) -> Iterator[HeadRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def best(
        self, alpha: float = 0.01, min_effect: float = 0.2, adjusted: bool = False
    ) -> dict[tuple[int, int, int], HeadRecord | None]:
        """The mask of largest effect for each head, among those that pass both thresholds.

        Parameters
        ----------
        alpha : float, default 0.01
            Largest p-value.
        min_effect : float, default 0.2
            The effect must be above it.
        adjusted : bool, default False
            Judge `p_holm`, which holds for the library, instead of `p_value`.

        Returns
        -------
        dict of (sample, layer, head) to HeadRecord or None
            None for a head that follows none of the masks.

        Raises
        ------
        ValueError
            If alpha is outside [0, 1].
        """
        probability("alpha", alpha)
        found: dict[tuple[int, int, int], HeadRecord | None] = {}
        for record in self.records:
            place = record.sample, record.layer, record.head
            p = record.p_holm if adjusted else record.p_value
            rival = found.setdefault(place, None)
            if (
                p <= alpha + 1e-12
                and record.effect > min_effect
                and (rival is None or record.effect > rival.effect)
            ):
                found[place] = record
        return found

    def counts(self, alpha: float = 0.01, min_effect: float = 0.2, adjusted: bool = False) -> dict[str, int]:
        """How many heads follow each mask.

        Parameters
        ----------
        alpha, min_effect, adjusted
            As in `best`.

        Returns
        -------
        dict of str to int
            By mask, most frequent first; "none" where no mask passes.
        """
        chosen = self.best(alpha, min_effect, adjusted).values()
        return dict(Counter("none" if record is None else record.mask for record in chosen).most_common())

    def to_frame(self) -> Any:
        """Records as a pandas table.

        Returns
        -------
        DataFrame
            One row a record, one column a field of it.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        names = [field.name for field in dataclasses.fields(HeadRecord)]
        frame = pandas.DataFrame([dataclasses.asdict(record) for record in self.records], columns=names)
        frame.attrs.update(n_null=self.n_null, n_tokens=self.n_tokens, causal=self.causal, seed=self.seed)
        return frame

    def summary(self, alpha: float = 0.01, min_effect: float = 0.2, adjusted: bool = False) -> str:
        """Count winners, and say by which rule.

        Parameters
        ----------
        alpha, min_effect, adjusted
            As in `best`.

        Returns
        -------
        str
            Text of a few lines.
        """
        chosen = self.best(alpha, min_effect, adjusted)
        layers = sorted({layer for _, layer, _ in chosen})
        tokens = f"{min(self.n_tokens)}" + (f" to {max(self.n_tokens)}" if len({*self.n_tokens}) > 1 else "")
        kind = "causal" if self.causal else "bidirectional"
        nulls = " and ".join(sorted({repr(record.null) for record in self.records}))
        lines = [
            f"{len(chosen)} heads in {len(layers)} layers, {tokens} tokens, {kind}, "
            f"null {nulls} of {self.n_null}"
        ]
        for name, count in self.counts(alpha, min_effect, adjusted).items():
            places = Counter(
                layer
                for (_, layer, _), record in chosen.items()
                if (record.mask if record else "none") == name
            )
            lines.append(f"{name}: {count} (by layer {' '.join(str(places[layer]) for layer in layers)})")
        which = "p Holm" if adjusted else "p"
        lines.append(f"largest effect with {which} <= {alpha:g} and effect > {min_effect:g}")
        if alpha * (self.n_null + 1) < 1:
            lines.append(
                f"{self.n_null} nulls allow no p-value below {1 / (self.n_null + 1):.3g}: none can pass"
            )
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None, alpha: float = 0.01, min_effect: float = 0.2) -> "Axes":
        """Map of the winning mask of each layer and head, of the first sample.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure without it.
        alpha, min_effect
            As in `best`.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        from matplotlib import pyplot
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        from porism.sims.style import COLORS

        ax = ax if ax is not None else pyplot.subplots()[1]
        first = min(record.sample for record in self.records)
        chosen = {place[1:]: r for place, r in self.best(alpha, min_effect).items() if place[0] == first}
        names = sorted({record.mask for record in chosen.values() if record})
        layers, heads = (sorted({place[k] for place in chosen}) for k in (0, 1))
        colours = ["#EEEEEE", *(COLORS[k % len(COLORS)] for k in range(len(names)))]
        grid = np.full((len(layers), len(heads)), np.nan)
        for (layer, head), record in chosen.items():
            code = 0 if record is None else 1 + names.index(record.mask)
            i, j = layers.index(layer), heads.index(head)
            grid[i, j] = code
            if record is not None:
                ax.text(j, i, f"{record.effect:.2f}", ha="center", va="center", fontsize=7, color="white")
        ax.imshow(grid, cmap=ListedColormap(colours), vmin=-0.5, vmax=len(colours) - 0.5, aspect="auto")
        ax.set_xticks(range(len(heads)), [str(head) for head in heads])
        ax.set_yticks(range(len(layers)), [str(layer) for layer in layers])
        ax.set(xlabel="head", ylabel="layer", title="mask of largest effect (number: effect)")
        ax.grid(False)
        patches = [Patch(color=c, label=n) for c, n in zip(colours, ["none", *names], strict=True)]
        ax.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
        return ax
