"""A bidder that refines before it accepts: its utility and everyone's welfare, by the noise of prices."""

from typing import TYPE_CHECKING

import numpy as np

from porism.checks import generator
from porism.sims.pandora._drawing import GUIDE, Rng, canvas, is_paper, legend, panels
from porism.sims.pandora.simulators import market
from porism.sims.style import BLUE, GREEN, ORANGE, RED
from porism.theory.pandora import bidder_sign_map, bidder_statics, wedge_threshold

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["market_figure"]

CASE = {"m": 0.0, "nu": 0.5, "c": 0.02, "mu": 1.2, "s_other": 0.3}
LINES = {
    "dU": (BLUE, "o", "-", "utility of the bidder dU"),
    "dA": (ORANGE, "s", "--", "gross welfare dA"),
    "dW": (RED, "^", ":", "net welfare dW"),
}


def market_figure(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Refining helps the bidder; at noisy raw prices it may harm everyone, at shrunk prices never."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    big, rng = is_paper(scale), generator(rng)
    omega = np.linspace(0, 1.2, 121 if big else 13)
    drawn = (0.0, 0.3, 0.5, 0.8, 1.1) if big else (0.5,)
    seed, n = int(rng.integers(2**31)), 200_000 if big else 4000
    spots = {price: [market(n, 1, w, seed=seed).change(price) for w in drawn] for price in ("raw", "shrunk")}
    distance = np.linspace(0, 2.5, 81 if big else 11)
    noise = np.linspace(0, 1.5, 76 if big else 9)
    signs = bidder_sign_map(distance, noise)
    kinds = (signs["dA"] < 0).astype(int) + (signs["dW"] < 0)
    with canvas(ax, (12.0, 4.6)) as ax:
        ax, shrunk, chart = panels(ax, 1, 3)
        for place, price in ((ax, "raw"), (shrunk, "shrunk")):
            change = bidder_statics(omega=omega, price=price, **CASE)
            for key, (color, marker, dash, name) in LINES.items():
                place.plot(omega, 100 * change[key], dash, color=color, label=name)
                means = [100 * getattr(spot, key) for spot in spots[price]]
                errors = [200 * getattr(spot, f"{key}_se") for spot in spots[price]]
                place.errorbar(
                    drawn, means, errors, color=color, marker=marker, markersize=5, linestyle="", capsize=2
                )
            place.axhline(0, **GUIDE)
            place.set(
                xlabel="noise ω of the competing estimate",
                ylabel="change a query, 10⁻² of value",
                title=f"{price} price, μ − m = 1.2",
            )
            legend(place, 1)
        shrunk.set_ylim(-0.02, 0.17)
        colors = ("#F7F7F7", "#F2C879", RED)
        chart.pcolormesh(
            noise, distance, kinds, cmap=ListedColormap(colors), vmin=0, vmax=2, rasterized=True,
            shading="nearest",
        )  # fmt: skip
        law = np.asarray(wedge_threshold(0.3, noise[1:]))
        chart.plot(noise[1:], law, color=GREEN, label="law for small ν and c: dA < 0 above")
        chart.axhline(1.2, **GUIDE)
        handles = [
            Patch(facecolor=colors[0], edgecolor="0.6", label="all gain"),
            Patch(facecolor=colors[1], label="dW < 0 < dA: the cost is not worth it"),
            Patch(facecolor=colors[2], label="dA, dW < 0: the allocation gets worse"),
            chart.lines[0],
        ]
        chart.set(
            xlim=(0, 1.5),
            ylim=(0, 2.5),
            xlabel="noise ω of the competing estimate",
            ylabel="distance |μ − m|",
            title="raw price: who loses (dU > 0)",
        )
        chart.grid(visible=False)
        legend(chart, 1, handles=handles)
    return ax
