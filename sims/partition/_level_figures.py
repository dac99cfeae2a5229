"""Figures of level games: a witness, level differences with their band, verdicts from samples."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator
from porism.sims.partition._drawing import GUIDE, KINDS, Rng, beside, canvas, is_paper, legend
from porism.sims.partition.games import block_game
from porism.sims.partition.level_data import level_differences, sampled_differences, verdict_bounds
from porism.sims.partition.sampling import sample_table
from porism.sims.style import BLUE, GREY, RED
from porism.theory.partition import Certificate, TopK, UtilityTable, certify_partition

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curves", "verdicts", "witness"]

VERDICTS = {
    "robust": (BLUE, "o", "robust"),
    "undecided": (GREY, "D", "undecided"),
    "not_robust": (RED, "X", "not robust"),
}


def witness(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """A witness: a strictly increasing change of the score that swaps a selected and a rejected player."""
    n, rng = (6 if is_paper(scale) else 5), generator(rng)
    table, found = _fragile(n, n // 2, rng)
    change = found.witness
    assert change is not None
    before, (after, (i, j), _) = np.array(found.semivalues), change.check(table, KINDS["Shapley"])
    levels = np.unique(table.scores)
    with canvas(ax, (6.8, 4.0)) as ax:
        low, high = levels[levels < change.level], levels[levels >= change.level]
        for part in (low, high):
            ax.plot(part, change.transform(part), "-", color=BLUE, marker="o", markersize=3)
        ends = change.transform([low[-1], change.level])
        ax.plot([low[-1], change.level], ends, ":", color=BLUE)
        place = (change.level, float(ends.mean()))
        left = change.level > levels.mean()
        ax.annotate(
            f"jump at\nσ = {change.level:.3g}",
            place,
            (-8 if left else 8, 0),
            fontsize=9,
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
        )
        ax.set(xlabel="score σ", ylabel="changed score φ(σ)", title="A change of the score …")
        side = beside(ax)
        start, end = _unit(before), _unit(after)
        for player in range(n):
            color, marker, bold = {i: (BLUE, "o", 1), j: (RED, "s", 1)}.get(player, ("0.72", ".", 0))
            side.plot(
                (0, 1),
                (start[player], end[player]),
                color=color,
                marker=marker,
                linewidth=1 + 1.4 * bold,
                zorder=2 + bold,
                gid=f"player {player}",
            )
        for player, color, word in ((i, BLUE, "selected"), (j, RED, "rejected")):
            side.annotate(
                f"player {player}: {word}",
                (0, start[player]),
                (6, 6 if player == i else -6),
                color=color,
                textcoords="offset points",
                va="bottom" if player == i else "top",
                fontsize=9,
            )
        side.set(
            xlim=(-0.12, 1.12),
            ylim=(-0.06, 1.1),
            xticks=(0, 1),
            xticklabels=("before", "after"),
            yticks=(0, 1),
            yticklabels=("least", "most"),
            ylabel="Shapley value, rescaled",
            title="… swaps two players",
        )
        side.grid(visible=False)
    return ax


def curves(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Level differences with their sampling band: one dip below zero breaks the selection."""
    n, rows, rng = (*((10, 20_000) if is_paper(scale) else (8, 2_000)), generator(rng))
    table, found = _fragile(n, n // 2, rng)
    sv = KINDS["Shapley"]
    rest = [player for player in range(n) if player not in found.members]
    values = np.array(found.semivalues)
    best = (max(found.members, key=lambda p: values[p]), min(rest, key=lambda p: values[p]))
    worst = (found.pair[0], found.pair[1]) if found.pair else best
    sampled = sample_table(table, rows, design="shapley-size", rng=rng)
    levels, exact = level_differences(table, sv, [best, worst])
    seen, estimate, radius = sampled_differences(sampled, [best, worst])
    with canvas(ax, (6.8, 4.4)) as ax:
        for number, (pair, color) in enumerate(zip((best, worst), (BLUE, RED), strict=True)):
            low, high = estimate[number] - radius[number], estimate[number] + radius[number]
            ax.fill_between(seen, low, high, step="pre", color=color, alpha=0.16, linewidth=0, zorder=1)
            word = ("farthest", "worst")[number]
            ax.plot(seen, estimate[number], "-", drawstyle="steps-pre", color=color, linewidth=1.0, zorder=2)
            ax.plot(
                levels,
                exact[number],
                ("-", "--")[number],
                drawstyle="steps-pre",
                color=color,
                linewidth=2,
                label=f"{word} pair {pair}",
                zorder=3,
            )
        ax.axhline(0.0, **GUIDE)
        least = int(np.argmin(exact[1]))
        ax.plot(
            levels[least],
            exact[1, least],
            "v",
            color="black",
            markersize=7,
            zorder=4,
            label=f"least D = {exact[1, least]:.3f}".replace("-", "−"),
        )
        ax.set(
            xlabel="level σ (score)",
            ylabel="level difference D (probability)",
            title=f"Exact (thick); estimate (thin), 95% band, {rows} rows",
        )
        legend(ax, 3)
    return ax


def verdicts(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Verdict against sample size: undecided until the band is narrow enough, then right."""
    sizes = (300, 1000, 3000, 10_000, 30_000, 100_000) if is_paper(scale) else (300, 3000, 30_000)
    epsilon, rng = 0.05, generator(rng)
    with canvas(ax, (6.8, 4.6)) as ax:
        ax.axhspan(-epsilon, 0, color="0.9", zorder=0, label=f"tolerated (ε = {epsilon})")
        for shift, team in zip((0.86, 1.0, 1.16), (0, 4, 3), strict=True):
            found = verdict_bounds(_jackpot_game(8, 2, team), 2, sizes, epsilon, rng=rng)
            for m, low, high, verdict in zip(sizes, found.lower, found.upper, found.verdicts, strict=True):
                color, marker, _ = VERDICTS[verdict]
                ax.plot([m * shift] * 2, [low, high], color=color, linewidth=2, solid_capstyle="butt")
                ax.plot(
                    m * shift,
                    (low + high) / 2,
                    marker,
                    color=color,
                    markersize=7,
                    gid=f"{team}:{m}:{verdict}",
                )
            ax.annotate(
                f"truth {found.truth:.3g}".replace("-", "−"),
                (sizes[-1] * 1.9, found.truth),
                va="center",
                fontsize=9,
                annotation_clip=False,
            )
            ax.plot(
                [sizes[0] * 0.75, sizes[-1] * 1.7], [found.truth] * 2, color="0.55", linewidth=0.8, zorder=0.5
            )
        for color, marker, word in VERDICTS.values():
            ax.plot([], [], marker, color=color, linestyle="-", label=word)
        ax.set(
            xscale="log",
            xlabel="sampled coalitions m",
            ylabel="bounds on the least D (probability)",
            xlim=(sizes[0] * 0.7, sizes[-1] * 1.8),
            title="Three worlds, 95% bounds and verdicts",
        )
        legend(ax, 4)
    return ax


def _unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return (values - values.min()) / np.ptp(values)


def _fragile(n: int, k: int, rng: np.random.Generator) -> tuple[UtilityTable, Certificate]:
    """A noisy block game whose Shapley selection of the good players is valid but not robust."""
    while True:
        table = block_game(n, k, 3.0, rng)
        found = certify_partition(table, KINDS["Shapley"], TopK(k), radii=())
        if found.verdict == "not_robust" and found.members == tuple(range(k)):
            return table, found


def _jackpot_game(n: int, k: int, team: int) -> UtilityTable:
    """The first k players pay 1 each; a team of others pays 0.6 * 2^(team-1) once it is complete.

    Under Banzhaf a member of the team is worth 0.6, but the jackpot alone puts it ahead: the least level
    difference is -2^-(team-1) where the jackpot exceeds k. No jackpot for team=0.
    """
    masks = np.arange(1 << n)
    steady = np.bitwise_count(masks & ((1 << k) - 1)).astype(np.float64)
    full = ((1 << team) - 1) << k
    return UtilityTable.from_array(steady + (0.3 * 2**team * ((masks & full) == full) if team else 0.0))
