"""Certificates: what was decided, for which class, with its margins, its witness and its check."""

import json
import os
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from porism._files import read_text
from porism._show import html_table, plain
from porism.checks import write_atomic
from porism.theory.partition._exact import rational
from porism.theory.partition._partitions import describe, revive
from porism.theory.partition.classes import MonotoneClass, SmallCoalitions
from porism.theory.partition.decisions import Decision
from porism.theory.partition.semivalue import Semivalue
from porism.theory.partition.table import UtilityTable
from porism.theory.partition.witness import WitnessUtility

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FORMAT_VERSION", "Certificate"]

FORMAT_VERSION = 1
_UNFIT = (KeyError, TypeError, AttributeError, OverflowError, RecursionError, json.JSONDecodeError)


@dataclass(frozen=True)
class Certificate:
    """Verdict on a decision, for every utility of an admissible class.

    Parameters
    ----------
    verdict : {"robust", "not_robust", "undecided"}
        Whether the decision stays valid (weakly: no player below a player it is placed above).
    strict : bool
        Whether it stays strictly valid.
    decision : Decision
        The decision certified.
    members : tuple of int
        Players above the (first) boundary.
    blocks : tuple of tuples of int
        All blocks, best first.
    semivalues : tuple of float
        Value of each player at the table, in units of the score.
    base_gap : float
        Least difference over the rows of the decision at the table.
    level_margin : Fraction or None
        Least level difference; >= 0 exactly if the decision is robust to every increasing transform.
    level : float or None
        Level of the least difference; ``pair`` its players.
    slope_radius : float or None
        Largest slope ratio up to which the decision holds (inf: any); ``slope_pair`` its players.
    score_margin : float or None
        Twice the largest error of the scores that the decision survives, if positive.
    permanent_ties : tuple of pairs
        Pairs across a boundary that are tied under every transform.
    witness : WitnessUtility or None
        For ``not_robust``: a utility of the class that breaks the decision.
    assumptions, statistics : dict
        What the verdict rests on; sample size, confidence, radius, bounds where sampled.
    table_sha256 : str
        Hash of the scores.
    format_version : int
        Version of the JSON layout.

    References
    ----------
    PR-3 to PR-19 (reconstruction of the partition-robustness criterion).

    Examples
    --------
    >>> from porism.theory.partition import TopK, certify_partition
    >>> c = certify_partition(UtilityTable.from_array([0, 1, 3, 4]), Semivalue.shapley(), TopK(1))
    >>> c.verdict, c.members, c.slope_radius, c == Certificate.from_json(c.to_json())
    ('robust', (1,), inf, True)
    """

    verdict: str
    strict: bool
    decision: Decision
    members: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]
    semivalues: tuple[float, ...]
    base_gap: float
    level_margin: Fraction | None
    level: float | None
    pair: tuple[int, ...] | None
    slope_radius: float | None
    slope_pair: tuple[int, ...] | None
    score_margin: float | None
    permanent_ties: tuple[tuple[int, int], ...]
    witness: WitnessUtility | None
    assumptions: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)
    table_sha256: str = ""
    format_version: int = FORMAT_VERSION

    @property
    def robust(self) -> bool:
        """True if the verdict is "robust"."""
        return self.verdict == "robust"

    @property
    def semivalue(self) -> Semivalue:
        """The semivalue the decision was taken with."""
        return Semivalue.parse(self.assumptions["semivalue"])

    @property
    def transforms(self) -> MonotoneClass:
        """The class of transforms."""
        return MonotoneClass.from_dict(self.assumptions["class"])

    @property
    def small(self) -> SmallCoalitions | None:
        """The assumption on small coalitions."""
        return SmallCoalitions.from_dict(self.assumptions["small"])

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """JSON text; inf is the string "inf", fractions are strings "a/b".

        Parameters
        ----------
        path : str or path, optional
            File to write too, through a temporary file.

        Returns
        -------
        str
            The text; the same certificate gives the same text.
        """
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data["decision"] = describe(self.decision)
        data["witness"] = None if self.witness is None else self.witness.to_dict()
        text = json.dumps(plain(data), indent=1, allow_nan=False, default=str)  # of a Fraction
        if path is not None:
            write_atomic(path, lambda file: file.write(text.encode()))
        return text

    @classmethod
    def from_json(cls, text: str | os.PathLike[str]) -> "Certificate":
        """Certificate from JSON text or from a file.

        Parameters
        ----------
        text : str or path
            JSON text, or the path of a file that holds it.

        Returns
        -------
        Certificate
            Equal to the one that was written.

        Raises
        ------
        ValueError
            If it is no certificate, or one of a newer format.
        """
        if isinstance(text, os.PathLike) or (isinstance(text, str) and not text.lstrip().startswith("{")):
            text = read_text(text)
        try:
            data = json.loads(text)
            if data["format_version"] > FORMAT_VERSION:
                raise ValueError(
                    f"format_version {data['format_version']} is newer than {FORMAT_VERSION}; update porism"
                )
            decision = revive(data["decision"])
            data["decision"] = decision
            data["witness"] = (
                None if data["witness"] is None else WitnessUtility.from_dict(data["witness"], decision)
            )
            margin = data["level_margin"]
            data["level_margin"] = None if margin is None else rational("level_margin", margin)
            for name in ("base_gap", "slope_radius", "score_margin"):
                data[name] = None if data[name] is None else float(data[name])
            for name in ("members", "semivalues", "pair", "slope_pair"):
                data[name] = None if data[name] is None else tuple(data[name])
            for name in ("blocks", "permanent_ties"):
                data[name] = tuple(tuple(item) for item in data[name])
            data["statistics"] = {
                k: float(v) if v in ("inf", "-inf") else v for k, v in data["statistics"].items()
            }
            return cls(**data)
        except _UNFIT as error:
            raise ValueError(
                f"certificate: not a certificate in JSON ({error!r}); write one with to_json"
            ) from None

    def verify(self, table: UtilityTable) -> None:
        """Recompute the certificate from the table by another route, or raise.

        Values come from marginal contributions instead of folded sums; level differences from two sorted
        mass functions a pair instead of a sweep; a witness is applied and its reversal recomputed.

        Parameters
        ----------
        table : UtilityTable
            The table it was made from.

        Raises
        ------
        CertificateMismatch
            If anything differs; the message says what.

        Notes
        -----
        O(pairs 2^n n) time: meant for audits, not for speed.
        """
        from porism.theory.partition._verify import verify_certificate
        from porism.theory.partition.table import UtilityTable

        if not isinstance(table, UtilityTable):
            raise TypeError(f"table must be a UtilityTable, got {type(table).__name__}")
        verify_certificate(self, table)

    def summary(self) -> str:
        """Verdict, decision and margins in one line.

        Returns
        -------
        str
            Such as ``ROBUST  k=2  margin=0  slope_radius=inf  score_margin=1``.
        """
        word = self.verdict.replace("_", " ").upper()
        name = f"k={len(self.members)}" if len(self.blocks) == 2 else f"blocks={len(self.blocks)}"
        margin = "none" if self.level_margin is None else _short(self.level_margin)
        return (
            f"{word}  {name}  margin={margin}  slope_radius={_short(self.slope_radius)}  "
            f"score_margin={_short(self.score_margin)}"
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Bar chart of the values with the blocks in colour.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        Axes
            The axes.
        """
        from matplotlib import pyplot

        if ax is None:
            ax = pyplot.subplots()[1]
        colours = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
        for number, block in enumerate(self.blocks):
            if block:
                ax.bar(
                    [str(i) for i in block],
                    [self.semivalues[i] for i in block],
                    color=colours[number % len(colours)],
                    label=f"block {number + 1}",
                )
        ax.set_xlabel("player")
        ax.set_ylabel("value (score units)")
        ax.set_title(self.summary(), fontsize="small")
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return ax

    def _repr_html_(self) -> str:
        rows = {
            "verdict": self.verdict,
            "strict": self.strict,
            "members": list(self.members),
            "level margin": self.level_margin,
            "slope radius": _short(self.slope_radius),
            "score margin": _short(self.score_margin),
            "level": self.level,
            "pair": self.pair,
            **self.statistics,
        }
        return html_table(("Certificate", ""), rows.items())


def _short(x: float | Fraction | None) -> str:
    if x is None:
        return "none"
    return str(x) if isinstance(x, Fraction) else f"{x:.6g}"
