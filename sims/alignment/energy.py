"""Which tokens carry the first gradient of each module of the small encoder, and what captures it."""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, one_of, require
from porism.results import Result
from porism.sims.alignment import _encoder_text
from porism.sims.alignment._arms import even

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ModuleEnergy", "measure_energy"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class ModuleEnergy(Result):
    """Where the first gradient of a task lies, module by module.

    Parameters
    ----------
    modules : tuple of str
        "blocks.0.q" and so on.
    rules : tuple of str
        "target", "all", "module" (by the kind of module: attention-pooled for values, all tokens for keys and
        where the target is constant, else the target) and "auto" (the largest first-step energy of all these,
        centred or not, measured under other heads than the task's).
    share : float64 array of shape (modules, seeds)
        Share of the target token in the squared gradients at a module's outputs.
    captured : float64 array of shape (modules, rules, seeds)
        First-step energy ``|G A'|_F^2 / |G|_F^2`` of r orthonormal principal rows A under each rule.
    random : float64 array of shape (modules,)
        Its mean for random orthonormal rows, r/d.
    r : int
        Rank.

    Examples
    --------
    >>> one = np.ones((1, 2))
    >>> energy = ModuleEnergy(("blocks.0.q",), ("target",), one, one[:, None] / 2, np.array([0.1]), 4)
    >>> energy.ratio("target", "target").tolist()
    [1.0]
    """

    modules: tuple[str, ...]
    rules: tuple[str, ...]
    share: Floats
    captured: Floats
    random: Floats
    r: int

    def ratio(self, rule: str, base: str) -> Floats:
        """Mean captured energy of a rule over that of another.

        Parameters
        ----------
        rule, base : str
            Two of `rules`.

        Returns
        -------
        float64 array of shape (modules,)
            Ratio of means over seeds.
        """
        i, j = (self.rules.index(one_of("rule", name, self.rules)) for name in (rule, base))
        mean = self.captured.mean(axis=2)
        return mean[:, i] / mean[:, j]

    def to_frame(self) -> Any:
        """One row a module.

        Returns
        -------
        DataFrame
            Mean share of the target token, mean captured energy under every rule, and r/d.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        columns: dict[str, Any] = {"module": self.modules, "target_share": self.share.mean(axis=1)}
        columns |= {rule: self.captured[:, i].mean(axis=1) for i, rule in enumerate(self.rules)}
        return pandas.DataFrame(columns | {"random": self.random})

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw captured energy under every rule, and the share of the target token, one row a module.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        Axes
            One marker a rule.
        """
        from porism.sims.drawing import canvas

        place = np.arange(len(self.modules))
        with canvas(ax) as axes:
            axes.barh(place, self.share.mean(axis=1), color="0.88", label="target's share of the gradient")
            for i, rule in enumerate(self.rules):
                axes.plot(self.captured[:, i].mean(axis=1), place, "osD"[i % 3], label=f"captured, {rule}")
            axes.plot(self.random, place, "k|", label="captured, random")
            axes.set_yticks(place, self.modules)
            axes.invert_yaxis()
            axes.set(xlabel="share", xlim=(0, 1))
            axes.legend()
        return axes


def measure_energy(
    task: str = "topic",
    seeds: Iterable[int] = range(4),
    *,
    n: int = 16,
    r: int = 4,
    width: int = 128,
    length: int = 48,
    pretrain_steps: int = 400,
    pretrain_seed: int = 0,
) -> ModuleEnergy:
    """Measure which tokens carry the gradient of each module, and which features capture it.

    Parameters
    ----------
    task : {"topic", "token"}
        Topic of a window, read at its first token; or which of two words was masked, read at the mask.
    seeds : iterable of int, default 0..3
        Classes, windows and head, each >= 0.
    n : int, default 16
        Training windows, even.
    r : int, default 4
        Rank.
    width, length, pretrain_steps, pretrain_seed : int
        As for `compare_encoder_starts`.

    Returns
    -------
    ModuleEnergy
        All twelve linear maps of the two blocks.

    Raises
    ------
    MissingExtraError
        If torch or safetensors is not installed.
    ValueError
        If an argument is out of range.

    Notes
    -----
    G is the gradient of a layer's weight, of the mean cross-entropy at the first step.

    Examples
    --------
    >>> measure_energy("topic").to_frame()  # doctest: +SKIP
    """
    one_of("task", task, _encoder_text.TASKS)
    numbers = [integer("seeds", seed, 0) for seed in seeds]
    n, width = even("n", n), integer("width", width, 1)
    r = integer("r", r, 1, width)
    if not numbers:
        raise ValueError("seeds must be at least one, got none; pass some")
    model, _ = _encoder_text.pretrained(width, length, pretrain_steps, pretrain_seed)
    from porism.sims.alignment import _encoder_lora as lora

    rules = ("target", "all", "module", "auto")
    shares, captured, random = [], [], np.empty(0)
    names: tuple[str, ...] = ()
    for seed in numbers:
        data, head, found, start = lora.world(model, task, seed, n, 2, length)
        found = {name: rows | {"module": rows["auto"]} for name, rows in found.items()}
        found = lora.measured(model, data[0], found, found, r, np.random.default_rng([seed, start, 1]))
        slopes = lora.gradients(model, head, data[0])
        names = tuple(slopes)
        random = np.array([r / slope.shape[1] for slope, _ in slopes.values()])
        shares.append([share for _, share in slopes.values()])
        rng = np.random.default_rng([seed, start])
        captured.append(
            [
                [
                    np.sum((slope @ lora.basis(found[name][rule], r, rng).T) ** 2) / np.sum(slope**2)
                    for rule in rules
                ]
                for name, (slope, _) in slopes.items()
            ]
        )
    return ModuleEnergy(names, rules, np.array(shares).T, np.array(captured).transpose(1, 2, 0), random, r)
