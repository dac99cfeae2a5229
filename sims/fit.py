"""Training of small models: one deterministic loop, and checkpoints that are made again where missing."""

import math
import platform
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import porism
from porism.checks import generator, integer, one_of, positive, probability, require
from porism.sims._fit_result import FitResult
from porism.sims._recipes import RECIPES, Recipe, cache_dir, checkpoint_path, remember, start

__all__ = [
    "LOSSES",
    "OPTIMIZERS",
    "RECIPES",
    "FitResult",
    "Recipe",
    "cache_dir",
    "evaluator",
    "fit",
    "learning_rate",
    "trained",
]

LOSSES = ("next_token", "classify", "regress")
"""Names of losses: cross-entropy of every token (label -100: none), cross-entropy, mean squared error."""

OPTIMIZERS = ("adamw", "muon")
"""Names of optimisers."""

Batch = tuple[Any, Any]
Loss = str | Callable[[Any, Any, Any], Any]


def learning_rate(i: int, lr: float, warmup: int, schedule_steps: int) -> float:
    """Step size of step i: a linear warm-up times a cosine that ends at a tenth.

    ``lr min(1, (i + 1) / warmup) (0.1 + 0.45 (1 + cos(pi i / schedule_steps)))``

    Parameters
    ----------
    i : int
        Index of the step, from 0.
    lr : float
        Largest step size.
    warmup : int
        Number of steps of the warm-up; 0 for none.
    schedule_steps : int
        Number of steps of half a cosine, > 0.

    Returns
    -------
    float
        Step size.

    Examples
    --------
    >>> round(learning_rate(0, 1.0, 50, 500), 6), round(learning_rate(500, 1.0, 50, 500), 6)
    (0.02, 0.1)
    """
    rise = min(1.0, (i + 1) / warmup) if warmup else 1.0
    return lr * rise * (0.1 + 0.45 * (1 + math.cos(math.pi * i / schedule_steps)))


def fit(
    model: Any,
    batches: Callable[[np.random.Generator], Batch],
    *,
    steps: int,
    lr: float,
    warmup: int = 50,
    weight_decay: float = 0.1,
    betas: tuple[float, float] = (0.9, 0.95),
    clip: float | None = 1.0,
    optimizer: str | Callable[[list[dict[str, Any]]], Any] = "adamw",
    loss: Loss = "next_token",
    rng: np.random.Generator | int | None,
    eval_fn: Callable[[Any], float] | None = None,
    eval_every: int = 100,
    stop_below: float | None = None,
    budget_seconds: float | None = None,
    parameters: Iterable[Any] | None = None,
    schedule_steps: int | None = None,
    scale: str = "paper",
) -> FitResult:
    """Train a model in place.

    Parameters
    ----------
    model : nn.Module
        Model, such as a `TinyTransformer`; its weights change, its mode and its flags do not.
    batches : callable ``Generator -> (x, y)``
        Draws a batch of arrays or tensors, such as a `TokenBatches`.
    steps : int
        Number of steps, >= 1.
    lr : float
        Largest step size, > 0; see `learning_rate`.
    warmup : int, default 50
        Steps of the linear warm-up, >= 0.
    weight_decay : float, default 0.1
        Decoupled decay of the parameters with two axes, also of embeddings and positions; >= 0.
    betas : pair of float, default (0.9, 0.95)
        Decay rates of AdamW's two averages, in [0, 1).
    clip : float or None, default 1.0
        Largest global norm of the gradient; None: no limit.
    optimizer : {"adamw", "muon"} or callable, default "adamw"
        "muon": the parameters of the blocks with two axes by `torch.optim.Muon`, scaled to AdamW's step, the
        rest by AdamW. A callable gets parameter groups (with `lr` and `weight_decay`) and returns an
        optimiser, or a list of several.
    loss : {"next_token", "classify", "regress"} or callable, default "next_token"
        What is minimised; a callable ``(model, x, y) -> scalar`` calls the model itself.
    rng : Generator, int or None
        Source of the batches.
    eval_fn : callable ``model -> float``, optional
        Validation loss, such as that of `evaluator`.
    eval_every : int, default 100
        Steps between records, >= 1; the last step is always recorded.
    stop_below : float, optional
        Stop at a record whose validation loss is below.
    budget_seconds : float, optional
        Stop after this time, > 0. The result then depends on the machine.
    parameters : iterable of Parameter, optional
        What to train; by default all that require a gradient. The others get no gradient.
    schedule_steps : int, optional
        Length of the cosine, >= `steps`; by default `steps`.
    scale : {"smoke", "paper"}, default "paper"
        At "smoke" a budget is refused.

    Returns
    -------
    FitResult
        Losses, why it stopped, and what is needed to repeat it.

    Raises
    ------
    MissingExtraError
        If torch is not installed.
    ValueError
        If an argument is out of range, there is nothing to train, or a budget meets ``scale="smoke"``.
    FloatingPointError
        If a loss or a gradient is not finite; the message has the step, and the weights are those before it.

    Notes
    -----
    Deterministic for one version of torch, one number of threads and one kind of processor. No global seed or
    number of threads is set. The corpus hash and tokenizer of `batches` are written to the model where it has
    a place for them.

    Examples
    --------
    >>> from porism.sims.corpora import topics_char  # doctest: +SKIP
    >>> from porism.sims.tiny_transformer import TinyConfig, TinyTransformer  # doctest: +SKIP
    >>> model, text = TinyTransformer(TinyConfig(vocab=96)), topics_char()  # doctest: +SKIP
    >>> fit(model, text.batches(), steps=500, lr=4e-3, rng=0).stopped  # doctest: +SKIP
    'steps'
    """
    one_of("scale", scale, ("smoke", "paper"))
    steps, eval_every = integer("steps", steps, 1), integer("eval_every", eval_every, 1)
    length = integer("schedule_steps", steps if schedule_steps is None else schedule_steps, steps)
    lr, warmup = positive("lr", lr), integer("warmup", warmup, 0)
    if len(betas) != 2 or 1 in betas:
        raise ValueError(f"betas must be two numbers in [0, 1), got {betas!r}; pass (0.9, 0.95)")
    betas = (probability("betas[0]", betas[0]), probability("betas[1]", betas[1]))
    if weight_decay:
        positive("weight_decay", weight_decay)
    if stop_below is not None and eval_fn is None:
        raise ValueError("stop_below compares the validation loss, got eval_fn=None; pass an eval_fn")
    if budget_seconds is not None:
        positive("budget_seconds", budget_seconds)
        if scale == "smoke":
            raise ValueError(
                f"budget_seconds must be None at scale='smoke', got {budget_seconds}; a result that depends "
                "on the machine cannot be tested: limit steps, or use stop_below"
            )
    if clip is not None:
        positive("clip", clip)
    torch = require("torch", "torch")
    from porism.sims._training import loss_function, make_optimizers, place, trainable

    compute, stream = loss_function(loss), generator(rng)
    chosen = trainable(model, parameters)
    optimizers = make_optimizers(model, chosen, optimizer, lr, weight_decay, betas)
    factors = [(group, group["lr"]) for one in optimizers for group in one.param_groups]
    records: list[tuple[int, float, float, float]] = []
    losses: list[float] = []
    seed, stopped, began, done = _seed_of(stream), "steps", time.perf_counter(), 0
    try:
        for i in range(steps):
            value = compute(model, *place(batches(stream), chosen[0]))
            losses.append(float(value.detach()))
            if not math.isfinite(losses[-1]):
                raise FloatingPointError(_not_finite("loss", losses[-1], i, lr))
            gradients = torch.autograd.grad(value, chosen, allow_unused=True)
            for parameter, gradient in zip(chosen, gradients, strict=True):
                parameter.grad = gradient
            norm = float(torch.nn.utils.clip_grad_norm_(chosen, math.inf if clip is None else clip))
            if not math.isfinite(norm):
                raise FloatingPointError(_not_finite("norm of the gradient", norm, i, lr))
            rate = learning_rate(i, 1.0, warmup, length)
            for group, base in factors:
                group["lr"] = base * rate
            for one in optimizers:
                one.step()
            done = i + 1
            late = budget_seconds is not None and time.perf_counter() - began > budget_seconds
            if late or done == steps or done % eval_every == 0:
                with torch.no_grad():
                    checked = math.nan if eval_fn is None else float(eval_fn(model))
                elapsed = time.perf_counter() - began
                records.append((done, elapsed, math.fsum(losses) / len(losses), checked))
                losses = []
                if stop_below is not None and checked < stop_below:
                    stopped = "loss"
                    break
            if late and done < steps:
                stopped = "budget"
                break
    finally:
        for parameter in chosen:
            parameter.grad = None
    corpus = str(getattr(batches, "corpus_hash", ""))
    if corpus and hasattr(model, "corpus_hash"):
        model.corpus_hash, model.tokenizer = corpus, str(getattr(batches, "tokenizer", ""))
    step, seconds, train, validation = (np.array(column) for column in zip(*records, strict=True))
    versions = {
        "porism": porism.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    threads = torch.get_num_threads()
    return FitResult(step, seconds, train, validation, done, stopped, seed, corpus, threads, versions)


def evaluator(x: Any, y: Any, *, loss: Loss = "next_token", chunk: int = 64) -> Callable[[Any], float]:
    """Make a function that measures the mean loss of a model on fixed data.

    Parameters
    ----------
    x, y : array or Tensor, first axis n
        Data, such as the `windows` of a corpus.
    loss : {"next_token", "classify", "regress"} or callable, default "next_token"
        As for `fit`; chunks are weighted by their number of examples.
    chunk : int, default 64
        Examples at a time, >= 1.

    Returns
    -------
    callable ``model -> float``
        Mean loss; it records no gradient.

    Raises
    ------
    ValueError
        If the loss is unknown, or x and y are empty or of different length.

    Examples
    --------
    >>> evaluator([[0]], [[1], [2]])
    Traceback (most recent call last):
    ValueError: x and y must be equally many and not empty, got 1 and 2; pass one label an input
    """
    n, chunk = len(x), integer("chunk", chunk, 1)
    if not callable(loss):
        one_of("loss", loss, LOSSES)
    if not n or n != len(y):
        raise ValueError(
            f"x and y must be equally many and not empty, got {n} and {len(y)}; pass one label an input"
        )

    def measure(model: Any) -> float:
        torch = require("torch", "torch")
        from porism.sims._training import loss_function, place

        compute, like = loss_function(loss), next(iter(model.parameters()))
        total = 0.0
        with torch.no_grad():
            for i in range(0, n, chunk):
                part = x[i : i + chunk], y[i : i + chunk]
                total += float(compute(model, *place(part, like))) * len(part[0])
        return total / n

    return measure


def trained(recipe: str | Recipe, *, seed: int = 0) -> tuple[Any, FitResult]:
    """Get a trained model: from the cache where it is, else trained from its seed and put there.

    Parameters
    ----------
    recipe : str or Recipe
        Name in `RECIPES` ("xs", "s" and "m" take about 25, 60 and 130 seconds), or a recipe of your own.
    seed : int, default 0
        Seed of the weights and of the batches, >= 0.

    Returns
    -------
    model : TinyTransformer
        The trained model, a new object at each call.
    result : FitResult
        Its training run.

    Raises
    ------
    MissingExtraError
        If torch or safetensors is not installed.
    ValueError
        If there is no recipe of that name.

    Warns
    -----
    UserWarning
        If the model was trained but could not be put into the cache.

    Notes
    -----
    A checkpoint is found by recipe, seed, corpus hash and version of torch; a damaged one is made again.
    `cache_dir` says where they are.

    Examples
    --------
    >>> model, result = trained("xs")  # doctest: +SKIP
    >>> trained("xl")
    Traceback (most recent call last):
    ValueError: recipe must be one of 'xs', 's', 'm', got str 'xl'
    """
    if not isinstance(recipe, Recipe):
        recipe = RECIPES[one_of("recipe", recipe, RECIPES)]
    seed = integer("seed", seed, 0)
    torch = require("torch", "torch")
    require("safetensors", "hf")
    from porism.sims.tiny_transformer import TinyTransformer

    model, batches, held_out, loss = start(recipe, seed)
    path = checkpoint_path(recipe, seed, batches.corpus_hash, torch.__version__)
    try:
        return TinyTransformer.load(path), FitResult.load(path.with_suffix(".npz"))
    except (OSError, ValueError):
        pass
    result = fit(
        model,
        batches,
        steps=recipe.steps,
        lr=recipe.lr,
        optimizer=recipe.optimizer,
        loss=loss,
        rng=seed,
        eval_fn=evaluator(*held_out, loss=loss),
        schedule_steps=recipe.schedule_steps or None,
    )
    remember(path, model, result)
    return model, result


def _seed_of(rng: np.random.Generator) -> int | None:
    entropy = getattr(rng.bit_generator.seed_seq, "entropy", None)
    return entropy if isinstance(entropy, int) else None


def _not_finite(what: str, value: float, step: int, lr: float) -> str:
    return (
        f"{what} must be finite, got {value} at step {step} (lr={lr:g}); lower lr, set clip, or look for "
        "non-finite values in the data"
    )
