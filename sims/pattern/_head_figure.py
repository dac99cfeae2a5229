"""Attention heads of a real encoder: winning masks, nulls, maps of noise, and the rerun without sinks."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator
from porism.sims.drawing import LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.pattern._hooks import run_with_maps
from porism.sims.pattern.attention import scan_attention
from porism.sims.pattern.planted import random_softmax
from porism.sims.pattern.records import HeadRecords
from porism.sims.pattern.worlds import minilm, real_text
from porism.sims.style import COLORS
from porism.theory.pattern import masks, pattern_distance
from porism.theory.pattern.nulls import NullResult, pattern_null

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["heads", "noise_curve", "read_heads", "stripped"]

Floats = NDArray[np.float64]


def heads(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Heads of MiniLM on real text: what wins, what chance gives, and what sinks hide."""
    big, rng = is_paper(scale), generator(rng)
    records, maps = read_heads(84 if big else 32, int(rng.integers(2**31)))
    scales = [0.0, 1.0, 2.0, 4.0, 8.0] if big else [0.0, 2.0, 8.0]
    curve = noise_curve(scales, 64 if big else 16, rng)
    rerun = stripped(records, maps, 4 if big else 2, 3 if big else 2, rng)
    with canvas(ax, (10.0, 8.4)) as ax:
        ax, distances, noise, blocks = panels(ax, 2, 2)
        _winners(ax, records)
        _distances(distances, records)
        _noise(noise, scales, curve, 64 if big else 16)
        _stripped(blocks, rerun)
    return ax


def read_heads(tokens: int, seed: int) -> tuple[HeadRecords, dict[tuple[int, int], Floats]]:
    """Records of a scan in the given order of the tokens, and the maps themselves."""
    model, tokenizer = minilm()
    inputs = tokenizer(real_text("assignment"), truncation=True, max_length=tokens, return_tensors="pt")
    maps: dict[tuple[int, int], Floats] = {}

    def keep(layer: int, found: Any) -> None:
        maps.update({(layer, head): one.double().numpy() for head, one in enumerate(found[0])})

    run_with_maps(model, inputs, keep)
    return scan_attention(model, inputs, random_state=seed), maps


def noise_curve(scales: list[float], T: int, rng: Rng) -> dict[str, Floats]:
    """Mass of random softmax maps outside a mask, rows and columns free or fixed, by scale of the logits."""
    rng = generator(rng)
    library = {"4 blocks": masks.block_diagonal([T // 4] * 4), "band 3": masks.band(T, 3)}
    found: dict[str, Floats] = {}
    drawn = [random_softmax(T, s, random_state=rng) for s in scales]
    for order, word in (("independent", "free"), ("none", "as given")):
        for name, mask in library.items():
            values = []
            for A, s in zip(drawn, scales, strict=True):
                way = order if s else "none"  # a constant map has one value for all orders
                fit = pattern_distance(A, mask, order=way, n_restarts=4, random_state=0)
                values.append(fit.mass_outside)
            found[f"{name}, {word}"] = np.array(values)
    return found


def stripped(
    records: HeadRecords, maps: dict[tuple[int, int], Floats], count: int, n_null: int, rng: Rng
) -> dict[tuple[int, int], tuple[NullResult, NullResult]]:
    """The heads that sinks explain best against 4 blocks of tokens, whole and without the 4 sinks."""
    rng = generator(rng)
    sinks = [record for record in records.best().values() if record and record.mask.startswith("sink")]
    sinks = sorted(sinks, key=lambda record: record.mass_outside)[:count]
    out = {}
    for record in sinks:
        A, seed = maps[record.layer, record.head], int(rng.integers(2**31))
        mask = masks.block_diagonal([len(part) for part in np.array_split(np.arange(len(A)), 4)])
        whole, bare = (
            pattern_null(A, mask, order="common", null=null, n_null=n_null, n_restarts=0, random_state=seed)
            for null in ("rows", "rows_without_sinks(4)")
        )
        out[record.layer, record.head] = (whole, bare)
    return out


def _winners(ax: "Axes", records: HeadRecords) -> None:
    records.plot(ax)
    drawn: Any = ax.get_legend()
    keys, counts = drawn.legend_handles, records.counts()
    words = [f"{key.get_label()} ({counts.get(key.get_label(), 0)})" for key in keys]
    legend(ax, len(keys), handles=keys, labels=words)
    (image,) = ax.images
    shades = image.to_rgba(np.asarray(image.get_array()))
    for text in ax.texts:
        column, row = (round(x) for x in text.get_position())
        pale = float(shades[row, column, :3] @ (0.3, 0.59, 0.11)) > 0.5
        text.set(fontsize=8, color="black" if pale else "white")
    ax.grid(visible=False)
    ax.set_title(f"winning mask (number: effect), {records.n_tokens[0]} tokens", loc="left")


def _distances(ax: "Axes", records: HeadRecords) -> None:
    names = sorted({record.mask for record in records})  # colours as on the map
    for name, (color, _, dash) in zip(names, LOOKS, strict=False):
        chosen = [record for record in records if record.mask == name]
        values = np.sort([record.mass_outside for record in chosen])
        shares = np.arange(1, values.size + 1) / values.size
        ax.step(values, shares, where="post", color=color, linestyle=dash, label=name)
        chance = float(np.mean([record.null_mean for record in chosen]))
        ax.axvline(chance, 0.9, color=color, linewidth=3)
    ax.plot([], [], "|", color="0.25", markersize=9, markeredgewidth=3, label="mean of shuffled rows")
    ax.set(
        xlim=(0, 1),
        ylim=(0, 1),
        xlabel="d² (mass outside)",
        ylabel="share of heads with at most d²",
        title="distances, and what chance gives (top)",
    )
    legend(ax, 4)


def _noise(ax: "Axes", scales: list[float], curve: dict[str, Floats], T: int) -> None:
    for number, (name, values) in enumerate(curve.items()):
        color, marker, _ = LOOKS[number % 2]
        ax.plot(
            scales,
            values,
            "-" if number < 2 else ":",
            color=color,
            marker=marker,
            markersize=6,
            markerfacecolor=color if number < 2 else "white",
            label=name,
            clip_on=False,
            zorder=3,
        )
    ax.set(
        ylim=(0, 1),
        xlabel="standard deviation of random logits",
        ylabel="d² (mass outside)",
        title=f"maps of nothing, {T} tokens",
    )
    legend(ax, 2)


def _stripped(ax: "Axes", rerun: dict[tuple[int, int], tuple[NullResult, NullResult]]) -> None:
    for at, results in enumerate(rerun.values()):
        for side, result in enumerate(results):
            place = at + (-0.16, 0.16)[side]
            first = at == 0
            nulls = result.d2_null
            ax.plot(
                np.full(nulls.size, place), nulls, "_", color="0.35", markersize=14, markeredgewidth=1.5,
                label="shuffled rows" if first and side == 0 else None,
            )  # fmt: skip
            color, marker = ((COLORS[3], "o"), (COLORS[0], "s"))[side]
            label = ("whole head", "without 4 sinks")[side] if first else None
            ax.plot(place, result.observed, marker, color=color, markersize=8, label=label)
    ax.set_xticks(range(len(rerun)), [f"{layer}.{head}" for layer, head in rerun])
    ax.grid(visible=False, axis="x")
    ax.set(
        ylim=(0, 0.8),
        xlim=(-0.6, len(rerun) - 0.4),
        xlabel="layer.head",
        ylabel="d² of 4 blocks, order common",
        title="4 blocks of tokens, with and without sinks",
    )
    legend(ax, 3)
