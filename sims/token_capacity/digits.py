"""Digits as 16 patches and a readout: pretrained, then fine-tuned through a subset of positions."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, one_of, positive, require
from porism.results import Result
from porism.sims.corpora import digits_patches
from porism.sims.drawing import is_paper

__all__ = [
    "ARMS",
    "KINDS",
    "ORDERS",
    "DigitArms",
    "Pretrained",
    "compare_arms",
    "finetune",
    "layer_moments",
    "pretrain",
]

KINDS = ("causal", "bidirectional")
"""Attention of the model: pretrained on the next patch, or on hidden patches."""

ORDERS = ("suffix", "earliest", "random", "unread")
"""Which positions go with a readout; "unread" is a suffix that leaves the readout out."""

ARMS = (
    *((k, "suffix") for k in (0, 1, 2, 4, 8, 17)),
    *((4, "random"), (8, "random"), (4, "earliest"), (4, "unread")),
)
"""Numbers and orders of positions that `compare_arms` tries; 17 is full fine-tuning."""

READOUT, LENGTH = 16, 17
_LR, _BATCH = 3e-3, 32

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pretrained:
    """Backbones that were pretrained without labels, one a seed.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    steps : int
        Steps of pretraining.
    seeds : tuple of int
        Seeds of split, weights and batches.
    weights : dict of str to float32 array, shape (runs, ...)
        Parameters by name, a run along the first axis.
    loss : float64 array, shape (steps, runs)
        Mean squared error of predicted pixels.
    """

    kind: str
    steps: int
    seeds: tuple[int, ...]
    weights: dict[str, NDArray[np.float32]]
    loss: Floats


@dataclass(frozen=True, eq=False)
class DigitArms(Result):
    """Accuracy of fine-tuning through subsets of positions, paired by seed.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    pretrain_steps : int
        Steps of pretraining.
    k : int64 array, shape (arms,)
        Positions of each arm; the one with 17 is full fine-tuning.
    order : tuple of str
        Order of each arm.
    accuracy : float64 array, shape (arms, seeds)
        Shares of test images that are classified right.
    """

    kind: str
    pretrain_steps: int
    k: NDArray[np.int64]
    order: tuple[str, ...]
    accuracy: Floats

    def arm(self, k: int, order: str = "suffix") -> Floats:
        """Accuracies of one arm, by seed.

        Parameters
        ----------
        k : int
            Positions.
        order : str, default "suffix"
            Order.

        Returns
        -------
        float64 array, shape (seeds,)
            Shares.

        Raises
        ------
        ValueError
            If this arm was not run.
        """
        for i, arm in enumerate(zip(self.k.tolist(), self.order, strict=True)):
            if arm == (k, order):
                row: Floats = self.accuracy[i]
                return row
        raise ValueError(f"k and order must be an arm that was run, got {k} and {order!r}; see .k and .order")

    def gap(self, k: int, order: str = "suffix") -> tuple[float, float]:
        """Accuracy of an arm less that of full fine-tuning: mean over seeds, and its standard error.

        Parameters
        ----------
        k : int
            Positions.
        order : str, default "suffix"
            Order.

        Returns
        -------
        mean, error : float
            Negative where full fine-tuning wins; the error is nan for one seed.

        Raises
        ------
        ValueError
            If one of the two was not run.
        """
        gaps = self.arm(k, order) - self.arm(LENGTH)
        error = float(gaps.std(ddof=1)) / len(gaps) ** 0.5 if len(gaps) > 1 else float("nan")
        return float(gaps.mean()), error


def pretrain(kind: str, *, steps: int = 200, seeds: Iterable[int] = range(5)) -> Pretrained:
    """Train backbones without labels: the next patch if causal, else patches hidden with probability 0.3.

    ``min E |W h_t - x_(t+1)|^2`` or ``min E |W h_t - x_t|^2`` over hidden t.

    Parameters
    ----------
    kind : {"causal", "bidirectional"}
        Attention and task.
    steps : int, default 200
        Steps on batches of 32 images, >= 0.
    seeds : iterable of int, default range(5)
        One run a seed, >= 0: split, weights and batches.

    Returns
    -------
    Pretrained
        Weights and losses.

    Raises
    ------
    MissingExtraError
        If torch or scikit-learn is not installed.
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    Two layers, width 32, two heads, pre-norm, learned positions, Adam at a constant 3e-3. Runs go side by
    side and do not depend on each other.

    Examples
    --------
    >>> pretrain("causal", steps=1, seeds=[0]).loss.shape  # doctest: +SKIP
    (1, 1)
    """
    torch = require("torch", "torch")
    from porism.sims.token_capacity import _digits_model as model

    causal = one_of("kind", kind, KINDS) == "causal"
    runs = tuple(integer("an entry of seeds", seed, 0) for seed in seeds)
    if not runs:
        raise ValueError("seeds must hold at least one seed, got none; pass range(5)")
    integer("steps", steps, 0)
    x, _ = _stack(runs, "train")
    rngs = [np.random.default_rng([seed, 1]) for seed in runs]
    w = model.start(list(runs))
    for value in w.values():
        value.requires_grad_()
    optimizer = model.adam(list(w.values()), _LR)
    losses = np.empty((steps, len(runs)))
    for step in range(steps):
        batch = _rows(x, rngs)
        if causal:
            h = model.backbone(w, model.embed(w, batch), True)
            error = ((model.linear(w, "regress", h[:, :, : READOUT - 1]) - batch[:, :, 1:]) ** 2).mean(
                (1, 2, 3)
            )
        else:
            hidden = torch.from_numpy(np.stack([rng.random(batch.shape[1:3]) < 0.3 for rng in rngs]))
            h = model.backbone(w, model.embed(w, batch, hidden), False)
            gap = (model.linear(w, "regress", h[:, :, :READOUT]) - batch) ** 2 * hidden[..., None]
            error = gap.sum((1, 2, 3)) / (4 * hidden.sum((1, 2)).clamp(min=1))
        optimizer.zero_grad()
        error.sum().backward()
        optimizer.step()
        losses[step] = error.detach().numpy()
    return Pretrained(kind, steps, runs, {name: value.detach().numpy() for name, value in w.items()}, losses)


def finetune(
    pretrained: Pretrained, k: int, order: str = "suffix", *, steps: int = 150, lr: float = 3e-3
) -> Floats:
    """Fine-tune for ten classes through k positions and give the accuracy on test images.

    The classifier reads the readout; all parameters are trained, by the gradient that stops at every
    activation outside the selected positions (TC-7).

    Parameters
    ----------
    pretrained : Pretrained
        Backbones; one run each.
    k : int
        Positions, 0 to 17: 17 is full fine-tuning, 0 trains the classifier alone.
    order : {"suffix", "earliest", "random", "unread"}, default "suffix"
        The last k positions; the readout and the first k - 1, or k - 1 random ones, which are drawn anew for
        each image and step; or the last k (at most 16) without the readout, whose gradient is zero.
    steps : int, default 150
        Steps on batches of 32 images, >= 0.
    lr : float, default 3e-3
        Step size of Adam, > 0.

    Returns
    -------
    float64 array, shape (runs,)
        Shares of the 397 test images that are classified right.

    Raises
    ------
    MissingExtraError
        If torch or scikit-learn is not installed.
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    Batches and classifiers depend on the seed alone, so all arms of a seed are paired. The step size is
    constant; of 1e-3, 3e-3 and 1e-2 the default is the best one for full fine-tuning and for most subsets.
    The frozen positions are recorded and the others replayed, as in `SubsetBackprop`, whose gradient is the
    same.

    References
    ----------
    TC-7, TC-8.

    Examples
    --------
    >>> finetune(pretrain("causal", seeds=[0]), 4).shape  # doctest: +SKIP
    (1,)
    """
    torch = require("torch", "torch")
    from porism.sims.token_capacity import _digits_model as model

    one_of("order", order, ORDERS)
    integer("k", k, 0, LENGTH - (order == "unread"))
    integer("steps", steps, 0)
    seeds, causal = pretrained.seeds, pretrained.kind == "causal"
    (x, y), (test_x, test_y) = _stack(seeds, "train"), _stack(seeds, "test")
    rngs = [np.random.default_rng([seed, 2]) for seed in seeds]
    draws = [np.random.default_rng([seed, 3]) for seed in seeds]
    w = {name: torch.from_numpy(value.copy()) for name, value in pretrained.weights.items()}
    w |= model.head(list(seeds))
    trained = [value for name, value in w.items() if k or name.startswith("classify")]
    for value in trained:
        value.requires_grad_()
    optimizer = model.adam(trained, positive("lr", lr))
    for _ in range(0 if order == "unread" else steps):  # a readout that is not selected has gradient zero
        batch, labels = _rows(x, rngs, y)
        positions = _positions(k or 1, order, batch.shape[1], draws)
        h = model.replay(w, batch, causal, positions)[:, :, -1:]
        logits = model.linear(w, "classify", h)[:, :, 0]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        optimizer.zero_grad()
        (loss / batch.shape[1]).backward()
        optimizer.step()
    with torch.no_grad():
        h = model.backbone(w, model.embed(w, test_x), causal)[:, :, -1:]
        right = model.linear(w, "classify", h)[:, :, 0].argmax(-1) == test_y
    accuracy: Floats = right.double().mean(1).numpy()
    return accuracy


@functools.cache
def compare_arms(
    kind: str,
    scale: str = "paper",
    *,
    pretrain_steps: int | None = None,
    arms: tuple[tuple[int, str], ...] = ARMS,
    seed: int = 0,
) -> DigitArms:
    """Pretrain once a seed, and fine-tune through every subset.

    Parameters
    ----------
    kind : {"causal", "bidirectional"}
        Attention and pretraining task.
    scale : {"smoke", "paper"}
        Two seeds, 10 steps of pretraining and 2 of fine-tuning; or five, 200 and 150.
    pretrain_steps : int, optional
        Steps of pretraining, in place of those of the scale.
    arms : tuple of (int, str), default `ARMS`
        Number and order of positions; (17, "suffix") is full fine-tuning.
    seed : int, default 0
        First of the consecutive seeds, >= 0.

    Returns
    -------
    DigitArms
        Accuracies; kept in memory, so do not change them.

    Raises
    ------
    MissingExtraError
        If torch or scikit-learn is not installed.
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    Paper scale takes about half a minute on one core; 2000 steps of pretraining half a minute more.

    Examples
    --------
    >>> compare_arms("causal", "smoke").accuracy.shape  # doctest: +SKIP
    (10, 2)
    """
    base, steps = base_of(kind, *_plan(scale, pretrain_steps, seed)), 150 if is_paper(scale) else 2
    accuracy = np.stack([finetune(base, k, order, steps=steps) for k, order in arms])
    numbers, orders = zip(*arms, strict=True)
    return DigitArms(kind, base.steps, np.array(numbers, dtype=np.int64), orders, accuracy)


def layer_moments(
    kind: str, scale: str = "paper", *, pretrain_steps: int | None = None, seed: int = 0
) -> list[Floats]:
    """Second moments by position of what the pretrained backbones of `compare_arms` read.

    ``C_t = sum over 512 training images of x_t x_t'``.

    Parameters
    ----------
    kind : {"causal", "bidirectional"}
        Attention and pretraining task.
    scale : {"smoke", "paper"}
        As in `compare_arms`.
    pretrain_steps : int, optional
        As in `compare_arms`.
    seed : int, default 0
        First of the consecutive seeds, >= 0.

    Returns
    -------
    list of float64 arrays, shape (layers, 17, 32, 32)
        One a seed; inputs of query maps and of first MLP maps, positions from the first patch to the readout.

    Raises
    ------
    MissingExtraError
        If torch or scikit-learn is not installed.
    TypeError, ValueError
        If an argument is out of range.

    References
    ----------
    TC-6.

    Examples
    --------
    >>> layer_moments("causal", "smoke")[0].shape  # doctest: +SKIP
    (4, 17, 32, 32)
    """
    torch = require("torch", "torch")
    from porism.sims.token_capacity import _digits_model as model

    base = base_of(kind, *_plan(scale, pretrain_steps, seed))
    w = {name: torch.from_numpy(value) for name, value in base.weights.items()}
    watch: dict[str, Any] = {}
    images = _stack(base.seeds, "train")[0][:, :512]
    with torch.no_grad():
        model.backbone(w, model.embed(w, images), kind == "causal", watch=watch)
        moments = [torch.einsum("rnti,rntj->rtij", x.double(), x.double()) for x in watch.values()]
    return list(torch.stack(moments, dim=1).numpy())


def _plan(scale: str, pretrain_steps: int | None, seed: int) -> tuple[int, tuple[int, ...]]:
    """Steps of pretraining, and seeds."""
    seeds, steps = (5, 200) if is_paper(scale) else (2, 10)
    start = integer("seed", seed, 0)
    return steps if pretrain_steps is None else pretrain_steps, tuple(range(start, start + seeds))


@functools.lru_cache(maxsize=8)
def base_of(kind: str, steps: int, seeds: tuple[int, ...]) -> Pretrained:
    """Backbones that several arms start from, kept in memory."""
    return pretrain(kind, steps=steps, seeds=seeds)


def _positions(k: int, order: str, rows: int, rngs: list[np.random.Generator]) -> Any:
    """Selected positions (R, N, k), the readout last; None for all."""
    torch = require("torch", "torch")
    if k == LENGTH:
        return None
    shape = (len(rngs), rows, k)
    if order == "random":
        patches = np.stack([rng.random((rows, READOUT)).argsort(1)[:, : k - 1] for rng in rngs])
    else:
        patches = np.arange(k - 1) + (READOUT - (k - 1) if order == "suffix" else 0)
    patches = np.broadcast_to(patches, (*shape[:2], k - 1))
    return torch.from_numpy(np.concatenate([patches, np.full((*shape[:2], 1), READOUT)], axis=2))


def _rows(x: Any, rngs: list[np.random.Generator], y: Any = None) -> Any:
    """A batch of each run, with its labels if there are any."""
    torch = require("torch", "torch")
    index = torch.from_numpy(np.stack([rng.integers(0, x.shape[1], _BATCH) for rng in rngs]))
    run = torch.arange(len(rngs))[:, None]
    return x[run, index] if y is None else (x[run, index], y[run, index])


def _stack(seeds: tuple[int, ...], part: str) -> tuple[Any, Any]:
    """Images and labels of every run."""
    torch = require("torch", "torch")
    data = [digits_patches(seed) for seed in seeds]
    names = (f"{part}_x", f"{part}_y")
    x, y = (torch.from_numpy(np.stack([getattr(one, name) for one in data])) for name in names)
    return x, y
