"""Figures of latent reuse: each draws on one axes, or around it, and returns it."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator
from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.style import BLUE, GREEN, GREY, ORANGE, RED
from porism.sims.subspace.atoms import few_atoms
from porism.sims.subspace.worlds import digits_by_class, latent_covariance, score_error_monte_carlo
from porism.theory.subspace import (
    ReuseError,
    crossover_angle,
    mixture_spectrum,
    off_latent_error,
    reuse_error,
    reuse_error_general,
    reuse_report,
    shared_dimension,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

SIGNAL, NOISE, AMBIENT, DIM = 1.0, 0.01, 20, 4
"""The world of F1 to F3: four dimensions of twenty."""

ANGLES = (0.1, 0.5, 0.9, 1.4)
"""The oracle of the staircase."""

ERROR = "E‖s* − ŝ‖²"
BY_NOISE: dict[str, Any] = {"xscale": "log", "xlabel": "variance h² of the diffusion noise"}
PRESERVING: dict[str, Any] = {"xscale": "log", "xlabel": "variance h² of the diffusion noise, α² = 1 − h²"}


@contextlib.contextmanager
def _two(ax: "Axes | None") -> "Iterator[list[Axes]]":
    """Two panels side by side."""
    with canvas(ax, (11.6, 4.6)) as ax:
        yield panels(ax, 1, 2)


def _law(angles: Any, h2: float, calibrated: bool = False) -> ReuseError:
    return reuse_error(np.broadcast_to(angles, DIM), SIGNAL, NOISE, 1.0, h2, AMBIENT, DIM, calibrated)


def _pair(angle: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Latents of R^20 with one common angle."""
    U, V = np.zeros((2, AMBIENT, DIM))
    U[:DIM] = np.eye(DIM)
    V[:DIM], V[DIM : 2 * DIM] = np.cos(angle) * np.eye(DIM), np.sin(angle) * np.eye(DIM)
    return U, V


def error_by_angle(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Error against the angle, for three noise levels: a floor, then growth like sin²; dots are sampled."""
    big, draw = is_paper(scale), generator(rng)
    theta = np.geomspace(0.01, np.pi / 2, 200 if big else 40)
    seen = np.geomspace(0.02, 1.5, 7 if big else 3)
    with canvas(ax, (7.4, 5.0)) as ax:
        for h2, (color, marker, _) in zip((1e-3, 1e-2, 1e-1), LOOKS, strict=False):
            ax.plot(theta, [_law(t, h2).total for t in theta], color=color, label=f"law, h² = {h2:g}")
            for angle in seen:
                U, V = _pair(angle)
                C = latent_covariance(V, SIGNAL, NOISE)
                drawn = score_error_monte_carlo(U, C, 1.0, h2, 4000 if big else 500, draw)
                ax.plot(angle, drawn.mean, marker, color=color, markeredgecolor="white", markersize=7)
            rise = DIM * SIGNAL * np.sin(theta) ** 2 / h2**2
            floor = (AMBIENT - DIM) * NOISE / h2**2
            shown = rise > 0.03 * floor
            name = f"a Σ sin²θ / h⁴, h² = {h2:g}"
            ax.plot(theta[shown], rise[shown], ":", color=color, linewidth=1.3, label=name)
            name = f"(D − d) n / h⁴, h² = {h2:g}"
            ax.axhline(floor, color=color, linestyle=(0, (5, 4)), linewidth=1.0, label=name)
        cross = crossover_angle(SIGNAL, NOISE, AMBIENT, DIM)
        if cross is not None:
            ax.axvline(cross, **GUIDE)
            ax.text(cross * 1.07, 1.3, "both equal\nas h → 0", fontsize=9.5)
        ax.set(
            xscale="log",
            yscale="log",
            ylim=(1, None),
            xlabel="angle θ of all four directions, radians",
            ylabel=ERROR,
            title="the error of reuse: a floor, and sin² of the angle",
        )
        legend(ax, 3, 0.16)
    return ax


def error_by_noise(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Both parts of the error against h²: slope −2 while h² is small, then −3; both only fall."""
    points = 300 if is_paper(scale) else 40
    h2 = np.geomspace(1e-5, 1e3, points)
    kept = np.geomspace(1e-5, 0.995, points)
    with _two(ax) as (ax, preserving):
        found = [_law(0.5, h) for h in h2]
        for name, color, values in (
            ("misalignment, θ = 0.5", BLUE, [one.misalignment.sum() for one in found]),
            ("noise floor", ORANGE, [one.noise for one in found]),
            ("true score energy: predicting zero", GREY, [one.score_energy for one in found]),
        ):
            ax.plot(h2, values, "-." if color == GREY else "-", color=color, label=name)
        start = np.array([1e-5, 1e-3])
        ax.plot(start, 0.1 * (AMBIENT - DIM) * NOISE * start**-2, **GUIDE)
        ax.text(1.2e-5, 8e3, "slope −2", fontsize=9.5)
        end = np.array([10.0, 1e3])
        ax.plot(end, 0.1 * (AMBIENT - DIM) * NOISE**2 * end**-3, **GUIDE)
        ax.text(9, 1e-9, "slope −3", ha="right", fontsize=9.5)
        ax.set(yscale="log", ylabel="expected squared error", title="variance exploding, α = 1", **BY_NOISE)
        legend(ax, 1, 0.19)
        for (color, _, dash), angle in zip(LOOKS, (0.0, 0.1, 0.5, 1.4), strict=False):
            values = [reuse_error([angle] * DIM, SIGNAL, NOISE, 1 - h, h, AMBIENT, DIM).ratio for h in kept]
            preserving.plot(kept, values, dash, color=color, label=f"θ = {angle:g}")
        preserving.axhline(1, **GUIDE)
        preserving.text(1.2e-5, 0.3, "below: better than predicting zero", va="top", fontsize=9.5)
        preserving.set(
            yscale="log",
            ylabel="error / score energy",
            title="variance preserving: reuse fails at small noise",
            **PRESERVING,
        )
        legend(preserving, 2, 0.19)
    return ax


def calibrated(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """One number mends the floor: the score −x/κ outside in place of −x/h²."""
    h2 = np.geomspace(1e-5, 10, 300 if is_paper(scale) else 40)
    with canvas(ax, (7.4, 4.8)) as ax:
        for angle, (color, _, _) in zip((0.0, 0.1, 0.5, 1.4), LOOKS, strict=False):
            plain = [_law(angle, h).total for h in h2]
            ax.plot(h2, plain, "--", color=color, linewidth=1.3, label=f"naive, θ = {angle:g}")
            if angle:
                mended = [_law(angle, h, True).total for h in h2]
                ax.plot(h2, mended, color=color, label=f"calibrated, θ = {angle:g}")
        ax.plot([], [], color=LOOKS[0][0], label="calibrated, θ = 0: exactly 0")
        ax.axvline(NOISE, **GUIDE)
        ax.text(NOISE * 1.2, 1e10, "h² = n", fontsize=9.5)
        title = "calibrated reuse: no floor, amplification stops at 1/κ²"
        ax.set(yscale="log", ylim=(1e-3, 1e13), ylabel=ERROR, title=title, **BY_NOISE)
        handles = ax.get_legend_handles_labels()[0]
        legend(ax, 2, 0.18, handles=[handles[i] for i in (0, 1, 3, 5, 7, 2, 4, 6)])
    return ax


def sharing(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """One latent for both domains: dimensions it needs by tolerance, and what d of them lose."""
    points = 400 if is_paper(scale) else 60
    tol, theta = np.geomspace(1e-3, 0.49, points), np.linspace(0, np.pi / 2, points)
    with _two(ax) as (ax, cost):
        for weight, (color, _, dash) in zip((0.5, 0.3, 0.1), LOOKS, strict=False):
            counts = [shared_dimension(ANGLES, t, weight) for t in tol]
            ax.step(tol, counts, dash, color=color, where="post", label=f"share of the source {weight:g}")
        for value in mixture_spectrum(ANGLES)[len(ANGLES) :]:
            ax.axvline(value, **GUIDE)
        ax.plot([], [], **GUIDE, label="minor eigenvalues, equal shares")
        ax.set(
            xscale="log",
            ylim=(3.8, 8.2),
            yticks=range(4, 9),
            xlabel="tolerance τ, in units of the signal",
            ylabel="dimensions of a latent for both",
            title="d = 4, angles 0.1, 0.5, 0.9, 1.4",
        )
        legend(ax, 2, 0.19)
        cost.plot(theta, np.sin(theta) ** 2, color=RED, label="frozen source latent: target loses sin²θ")
        both = 2 * np.sin(theta / 2) ** 2
        cost.plot(theta, both, color=BLUE, label="shared latent: both together, 2 sin²(θ/2)")
        cost.plot(theta, both / 2, "--", color=BLUE, label="either domain")
        cost.fill_between(theta, both, np.sin(theta) ** 2, color=GREEN, alpha=0.12, linewidth=0)
        cost.set(
            ylim=(0, 1.05),
            xlabel="angle θ, radians",
            ylabel="lost energy a direction",
            title="sharing never costs more than freezing",
        )
        legend(cost, 1, 0.19)
    return ax


def beyond_angles(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Where angles do not decide: two spectra at the same angles, and a law that is not Gaussian."""
    h2 = np.geomspace(1e-3, 3, 50 if is_paper(scale) else 15)
    U, V = np.eye(6)[:, :2], np.zeros((6, 2))
    V[0, 0], V[1:3, 1] = 1.0, (np.cos(1.0), np.sin(1.0))
    u = np.array([np.cos(0.6), np.sin(0.6)])
    with _two(ax) as (ax, signs):
        for spectrum, color in (((4.0, 1.0), BLUE), ((1.0, 4.0), RED)):
            C = latent_covariance(V, np.array(spectrum), 0.01)
            scaled = [reuse_error_general(U, C, 1.0, h) * h**2 for h in h2]
            ax.plot(h2, scaled, color=color, label=f"variances {spectrum[0]:g}, {spectrum[1]:g}")
            outside = float(np.trace(C) - np.vdot(U, C @ U))
            ax.axhline(outside, color=color, linestyle=(0, (4, 3)), linewidth=1.0)
        ax.plot([], [], **GUIDE, label="α² tr(P C), P off the latent")
        title = "the same angles, 0 and 1: the spectrum decides"
        ax.set(ylim=(0, None), ylabel="h⁴ × error", title=title, **BY_NOISE)
        legend(ax, 3, 0.19)
        latent = U[:2, :1]
        worlds = [few_atoms([u, -u], latent, 0.9, h) for h in h2]
        second = np.outer(u, u)
        bound = [off_latent_error(latent, second, 0.9, h) for h in h2]
        gaussian = [off_latent_error(latent, 0.9 / (0.9 + h) * second, 0.9, h) for h in h2]
        for name, values, color, dash in (
            ("exact, signs −1 and 1", [world.off_latent for world in worlds], BLUE, "-"),
            ("bound, x₀ in place of E[x₀ | x]", bound, GREY, "--"),
            ("Gaussian of the same variance", gaussian, ORANGE, "-."),
        ):
            signs.plot(h2, np.array(values) * h2**2, dash, color=color, label=name)
        signs.set(
            ylim=(0, None),
            ylabel="h⁴ × error outside of the latent",
            title="any law, by Tweedie's formula: θ = 0.6",
            **BY_NOISE,
        )
        legend(signs, 2, 0.19)
    return ax


def digits(scale: str, rng: Rng, ax: "Axes | None" = None) -> "Axes":
    """Does the latent of digits 0–4 serve 5–9? Angles, and the price of reuse by noise level."""
    h2 = np.geomspace(0.005, 0.9, 60 if is_paper(scale) else 9)
    found = reuse_report(digits_by_class(0, 4), digits_by_class(5, 9), 10, 1 - h2, h2)
    with _two(ax) as (ax, price):
        order = np.arange(1, len(found.angles) + 1)
        ax.bar(order, np.degrees(found.angles), color=BLUE, width=0.7)
        ax.set(
            ylim=(0, 90),
            yticks=range(0, 91, 15),
            xticks=order,
            xlabel="pair of directions",
            ylabel="principal angle, degrees",
            title=f"digits 0–4 against 5–9: {found.kept:.0%} of variance kept, own {found.kept_own:.0%}",
        )
        for name, values, color, dash in (
            ("latent of 0–4, reused", found.reuse, RED, "-"),
            ("the target's own ten directions", found.own, BLUE, "--"),
            ("predicting zero", found.score_energy, GREY, "-."),
        ):
            price.plot(h2, values, dash, color=color, label=name)
        bad = h2[found.worse_than_zero]
        if len(bad):
            price.axvspan(h2[0], bad[-1], color=RED, alpha=0.1, linewidth=0)
            price.text(h2[0] * 1.1, 0.02, "worse than\npredicting zero", fontsize=9.5)
        price.set(yscale="log", xlim=(h2[0], h2[-1]), ylabel=ERROR, title="the price of reuse", **PRESERVING)
        legend(price, 2, 0.19)
    return ax


FIGURES = {
    "F1": error_by_angle,
    "F2": error_by_noise,
    "F3": calibrated,
    "F4": sharing,
    "F5": beyond_angles,
    "F6": digits,
}
