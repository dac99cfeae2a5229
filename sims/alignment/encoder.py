"""Few-shot LoRA of a small bidirectional encoder on real text: whether the start matters at this size."""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, one_of, positive, require
from porism.results import Result
from porism.sims.alignment import _encoder_text
from porism.sims.alignment._arms import even, paired, standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ENCODER_METHODS",
    "ENCODER_TASKS",
    "EncoderRun",
    "compare_encoder_starts",
]

ENCODER_TASKS = _encoder_text.TASKS
"""Topic of a window, read at its first token; which of two words was masked, read at the mask."""

ENCODER_METHODS = (
    "kaiming",
    "orthonormal",
    "pissa",
    "all",
    "target",
    "auto",
    "target_pivot",
    "auto_pivot",
)
"""Random starts, top singular vectors of the weight, and principal directions of the inputs: those of all
tokens, of the token that is read, and of what has the largest first-step energy in each module (these, or
attention-pooled ones for v, centred or not), measured under other heads than the task's; the last two with a
canonical rotation after a tenth of the steps."""

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class EncoderRun(Result):
    """Test accuracy of every start on every task and seed.

    Parameters
    ----------
    tasks, methods : tuple of str
        Some of `ENCODER_TASKS` and of `ENCODER_METHODS`.
    accuracy : float64 array of shape (tasks, methods, seeds)
        On held-out windows of other text; chance is 1/2.
    losses : float64 array of shape (tasks, methods, seeds)
        Training loss at the end, nats.
    seeds : int64 array of shape (seeds,)
        Of classes, windows, head and random starts.
    n, n_test, r, steps : int
        Training and test windows, rank, and steps.
    lr : float
        Step size.
    masked_loss : float
        Validation loss of the pretrained encoder, nats a masked token.
    corpus_hash : str
        SHA-256 of the text, which differs between versions of Python.

    Examples
    --------
    >>> a = np.array([[[0.5, 0.7], [0.6, 1.0]]])
    >>> run = EncoderRun(("topic",), ("kaiming", "all"), a, a, np.arange(2), 16, 64, 4, 30, 5e-4, 4.0, "a1")
    >>> run.difference("topic", "all").round(6).tolist()
    [0.1, 0.3]
    """

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    accuracy: Floats
    losses: Floats
    seeds: NDArray[np.int64]
    n: int
    n_test: int
    r: int
    steps: int
    lr: float
    masked_loss: float
    corpus_hash: str

    def difference(self, task: str, method: str, base: str = "kaiming") -> Floats:
        """Accuracy of a method less that of another, paired by seed.

        Parameters
        ----------
        task : str
            One of `tasks`.
        method, base : str
            Two of `methods`.

        Returns
        -------
        float64 array of shape (seeds,)
            Differences.
        """
        rows = self.accuracy[self.tasks.index(one_of("task", task, self.tasks))]
        i, j = (self.methods.index(one_of("method", name, self.methods)) for name in (method, base))
        return rows[i] - rows[j]

    def to_frame(self) -> Any:
        """One row a task and method.

        Returns
        -------
        DataFrame
            Mean accuracy, its standard error over seeds, and mean training loss; where "kaiming" is among the
            methods also the paired difference to it, its standard error, and the seeds won and lost.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        frames = []
        for task, values, losses in zip(self.tasks, self.accuracy, self.losses, strict=True):
            columns = {
                "task": task,
                "method": self.methods,
                "accuracy": values.mean(axis=1),
                "se": standard_error(values, axis=1),
                "loss": losses.mean(axis=1),
            }
            if "kaiming" in self.methods:
                columns |= paired(values, self.methods.index("kaiming"))
            frames.append(pandas.DataFrame(columns))
        return pandas.concat(frames, ignore_index=True)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw mean accuracy with bars of two standard errors, one row a method.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        Axes
            One colour a task.
        """
        from porism.sims.drawing import canvas

        place = np.arange(len(self.methods))
        error = standard_error(self.accuracy, axis=2)
        with canvas(ax) as axes:
            for i, task in enumerate(self.tasks):
                mean = self.accuracy[i].mean(axis=1)
                axes.errorbar(mean, place + 0.15 * i, xerr=2 * error[i], fmt="o", label=f"{task} task")
            axes.set_yticks(place, [name.replace("_", ", ") for name in self.methods])
            axes.invert_yaxis()
            axes.set(xlabel="test accuracy")
            axes.legend()
        return axes


def compare_encoder_starts(
    tasks: Iterable[str] = ENCODER_TASKS,
    methods: Iterable[str] = ENCODER_METHODS,
    seeds: Iterable[int] = range(10),
    *,
    n: int = 16,
    n_test: int = 128,
    r: int = 4,
    steps: int = 30,
    lr: float = 5e-4,
    scaling: float = 2.0,
    width: int = 128,
    length: int = 48,
    pretrain_steps: int = 400,
    pretrain_seed: int = 0,
    progress: bool = False,
) -> EncoderRun:
    """Fine-tune adapters on q and v, and a head, from every start; paired by seed.

    Parameters
    ----------
    tasks : iterable of str, default both
        Some of `ENCODER_TASKS`.
    methods : iterable of str, default all
        Some of `ENCODER_METHODS`.
    seeds : iterable of int, default 0..9
        At least two, each >= 0. A seed sets the two classes, the windows, the head, and the random starts.
    n, n_test : int, default 16 and 128
        Training and test windows, even: half of each class.
    r : int, default 4
        Rank.
    steps : int, default 30
        Steps of AdamW on all n windows at once.
    lr : float, default 5e-4
        Step size of adapters and head, constant; betas and decay are those of torch.
    scaling : float, default 2
        Factor s of BA: LoRA's alpha / r.
    width, length : int, default 128 and 48
        Width of the encoder and tokens of a window.
    pretrain_steps : int, default 400
        Steps of pretraining, 32 windows each.
    pretrain_seed : int, default 0
        Of the encoder, which all seeds share.
    progress : bool, default False
        Whether to show a bar.

    Returns
    -------
    EncoderRun
        Accuracies and losses.

    Raises
    ------
    MissingExtraError
        If torch or safetensors is not installed.
    ValueError
        If an argument is out of range.

    Notes
    -----
    Choices of this world, made before its results were seen. Two blocks, four heads, rotary positions, 512
    byte pairs with two tokens more; pretraining masks 15 % of the tokens of the first nine tenths of the
    text. "topic": two of the eight longest topics, training windows from the first half and test windows from
    the second half of each; the encoder has seen most of that text, without labels. "token": two of the eight
    most frequent words of two letters or more, test occurrences from the last tenth. Where the token that is
    read has the same input in every window (q and v of the first block), "target" is a random orthonormal
    start. "pissa" is our own: top singular vectors, ``s B A`` taken off the weight. The head starts from
    N(0, 0.02^2) with bias 0. About a second a run, and a minute once for the encoder, which the cache keeps.

    Examples
    --------
    >>> run = compare_encoder_starts(seeds=range(10))  # doctest: +SKIP
    >>> run.to_frame()  # doctest: +SKIP
    """
    chosen = tuple(one_of("tasks", task, ENCODER_TASKS) for task in tasks)
    named = tuple(one_of("methods", method, ENCODER_METHODS) for method in methods)
    numbers = [integer("seeds", seed, 0) for seed in seeds]
    if len(numbers) < 2 or not chosen or not named:
        raise ValueError(
            f"seeds must be at least two, and tasks and methods at least one each, got {len(numbers)}, "
            f"{len(chosen)} and {len(named)}; standard errors are over seeds"
        )
    n, n_test = even("n", n), even("n_test", n_test)
    steps, width = integer("steps", steps, 2), integer("width", width, 1)
    r = integer("r", r, 1, width)
    lr, scaling = positive("lr", lr), positive("scaling", scaling)
    model, fitted = _encoder_text.pretrained(width, length, pretrain_steps, pretrain_seed)
    from tqdm import tqdm

    from porism.sims.alignment import _encoder_lora as lora

    layers = {name: layer for name, layer in model.named_linears().items() if name[-1] in "qv"}
    shape = (len(chosen), len(named), len(numbers))
    accuracy, losses = np.empty(shape), np.empty(shape)
    bar = tqdm(total=int(np.prod(shape)), desc="encoder", unit="run", disable=not progress)
    with bar:
        for k, seed in enumerate(numbers):
            for i, task in enumerate(chosen):
                data, head, found, start = lora.world(model, task, seed, n, n_test, length)
                probes = np.random.default_rng([seed, start, 1])
                found = lora.measured(model, data[0], found, layers, r, probes)
                for j, method in enumerate(named):
                    kind, _, pivot = method.partition("_")
                    # the same draws for every method: where two starts both need random rows, they share them
                    rng = np.random.default_rng([seed, start])
                    made = lora.starts(kind, layers, found, r, scaling, rng)
                    accuracy[i, j, k], losses[i, j, k] = lora.train(
                        model,
                        made,
                        head,
                        *data,
                        steps=steps,
                        lr=lr,
                        scaling=scaling,
                        pivot_at=max(1, round(0.1 * steps)) if pivot else None,
                    )
                    bar.update()
    return EncoderRun(
        chosen,
        named,
        accuracy,
        losses,
        np.array(numbers),
        n,
        n_test,
        r,
        steps,
        lr,
        float(fitted.validation[-1]),
        fitted.corpus_hash,
    )
