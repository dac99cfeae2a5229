"""Fine-tune an encoder and a small causal model on real text through the positions that coverage asks for.

``python -m porism.sims.token_capacity.example`` prints for both models memory, time and held-out loss of full
fine-tuning, of the same with gradient checkpointing, and of a subset of positions.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, one_of, require
from porism.results import Result

__all__ = ["MODELS", "FineTuning", "compare_fine_tuning"]

MODELS = ("minilm", "causal")
"""Models: a sentence encoder that comes with weights, and a Llama-shaped one trained here."""

MIB = 2**20
SAME = "full, labels of the subset"
TOPICS = ("specialnames", "compound", "types", "formatstrings", "string-methods", "typesseq", "debugger",
          "attribute-access")  # fmt: skip
SIZES: dict[tuple[str, str], dict[str, int]] = {
    ("minilm", "paper"): {"length": 128, "batch": 4, "steps": 24, "held": 4, "probe": 16},
    ("minilm", "smoke"): {"length": 24, "batch": 2, "steps": 1, "held": 1, "probe": 4},
    ("causal", "paper"): {"length": 256, "batch": 4, "steps": 40, "held": 16, "probe": 16, "before": 120},
    ("causal", "smoke"): {"length": 32, "batch": 2, "steps": 2, "held": 2, "probe": 4, "before": 2},
}


@dataclass(frozen=True, eq=False)
class FineTuning(Result):
    """Ways to fine-tune one model, side by side.

    Parameters
    ----------
    model : {"minilm", "causal"}
        What was fine-tuned.
    k, length : int
        Selected positions, and tokens of a sequence.
    layer : str
        Layer whose coverage asks for that many.
    arms : tuple of str, length A
        Ways: "full", "checkpointing", "subset", and what tells their effects apart.
    saved : int64 array of shape (A,)
        Bytes that the graph keeps between forward and backward pass, without weights.
    peak : int64 array of shape (A,)
        Most bytes of tensors alive at once in a step, without weights and their gradients; on a CPU.
    seconds : float64 array of shape (A,)
        Median wall time of a step, the optimiser's included.
    before : float64 array of shape (S,)
        Held-out loss at the start, nats, for each seed.
    after : float64 array of shape (S, A)
        Held-out loss at the end.

    Examples
    --------
    >>> two, one = np.zeros(2, dtype=np.int64), np.ones(1)
    >>> run = FineTuning("causal", 3, 8, "q", ("full", "subset"), two, two, np.ones(2), one, np.ones((1, 2)))
    >>> run.table().splitlines()[0]
    'causal: 3 of 8 positions (q), held-out loss 1.000 at the start'
    """

    model: str
    k: int
    length: int
    layer: str
    arms: tuple[str, ...]
    saved: NDArray[np.int64]
    peak: NDArray[np.int64]
    seconds: NDArray[np.float64]
    before: NDArray[np.float64]
    after: NDArray[np.float64]

    def table(self) -> str:
        """One line an arm: MiB saved and at the peak, seconds a step, held-out loss, its range over seeds.

        Returns
        -------
        str
            Lines of text.
        """
        start = float(self.before.mean())
        lines = [
            f"{self.model}: {self.k} of {self.length} positions ({self.layer}), "
            f"held-out loss {start:.3f} at the start",
            f"{'':28}{'saved MiB':>10}{'peak MiB':>10}{'s/step':>8}{'loss':>8}  range over {len(self.after)}",
        ]
        for i, name in enumerate(self.arms):
            found = self.after[:, i]
            lines.append(
                f"{name:28}{self.saved[i] / MIB:10.1f}{self.peak[i] / MIB:10.1f}{self.seconds[i]:8.3f}"
                f"{found.mean():8.3f}  {found.min():.3f} to {found.max():.3f}"
            )
        return "\n".join(lines)


_Losses = dict[str, Callable[[Any], Any]]


@dataclass
class _Task:
    """A model with its data: batches, losses of the ways, and what is held out."""

    net: Any
    trained: Any  # list of parameter groups
    draw: Callable[[Any], Any]
    losses: _Losses
    held: Any  # a batch; its loss is that of "full"
    base: Any  # the transformers model
    k: int
    layer: str


def compare_fine_tuning(
    model: str = "causal", *, scale: str = "paper", seeds: int = 1, eps: float = 0.1, progress: bool = False
) -> FineTuning:
    """Fine-tune a model in several ways on the same batches, and measure memory, time and held-out loss.

    k is the smallest number of positions whose coverage is ``1 - eps`` of that of all; see
    :func:`porism.theory.token_capacity.choose_positions`.

    Parameters
    ----------
    model : {"minilm", "causal"}, default "causal"
        "minilm": the encoder tells from [CLS] which of eight parts of Python's reference an excerpt is from.
        "causal": a Llama of four blocks, 8 heads on 2, learns the text on, and goes on with parts of the
        reference that it has not seen.
    scale : {"smoke", "paper"}, default "paper"
        Seconds, or some minutes.
    seeds : int, default 1
        Number of runs, each with its own batches (and causal model), >= 1.
    eps : float, default 0.1
        Share of coverage that may be lost, in [0, 1).
    progress : bool, default False
        Whether to show progress on stderr.

    Returns
    -------
    FineTuning
        Arms "full"; "checkpointing", the same gradient; "subset"; for the encoder "head alone"; for the
        causal model "full, labels of the subset", the full gradient of the loss that the subset has.

    Raises
    ------
    MissingExtraError
        If torch or transformers, or the package with the encoder, is not installed.
    ValueError
        If an argument is out of range.

    Notes
    -----
    All ways start at the same weights and see the same batches; AdamW with the same rates. Held-out text is
    from the ends of the parts (encoder), or the last fifth of the unseen parts (causal), whose loss is the
    mean over all positions. One run says little about small differences: look at the range over seeds.

    References
    ----------
    TC-6 to TC-9.

    Examples
    --------
    >>> print(compare_fine_tuning("causal", scale="smoke").table())  # doctest: +SKIP
    """
    one_of("model", model, MODELS)
    one_of("scale", scale, ("smoke", "paper"))
    seeds = integer("seeds", seeds, 1)
    torch = require("torch", "torch")
    require("transformers", "hf")
    from tqdm import tqdm

    from porism.sims.token_capacity._peers import checkpointed

    build: Any = _encoder if model == "minilm" else _causal
    size = SIZES[model, scale]
    saved: list[int] = []
    peak: list[int] = []
    spent: list[list[float]] = []
    before: list[float] = []
    after: list[list[float]] = []
    for seed in range(seeds):
        task = build(size, eps, seed)
        start = {name: value.clone() for name, value in task.net.state_dict().items()}
        before.append(_held_out(task))
        after.append([])
        for name, loss in task.losses.items():
            task.net.load_state_dict(start)
            draws = torch.Generator().manual_seed(seed)
            with checkpointed(task.base) if name == "checkpointing" else contextlib.nullcontext():
                if not seed:
                    first = task.draw(torch.Generator().manual_seed(seed))
                    for kept, value in zip((saved, peak), _bytes(task, loss, first), strict=True):
                        kept.append(value)
                    spent.append([])
                optimizer = torch.optim.AdamW(task.trained, weight_decay=0.01)
                shown = {"desc": f"{model} {seed + 1}/{seeds}, {name}", "unit": "step"}
                for _ in tqdm(range(size["steps"]), disable=not progress, **shown):
                    batch, began = task.draw(draws), time.perf_counter()
                    loss(batch).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    if not seed:
                        spent[len(after[-1])].append(time.perf_counter() - began)
            after[-1].append(_held_out(task))
    return FineTuning(
        model, task.k, size["length"], task.layer, tuple(task.losses),
        np.array(saved), np.array(peak), np.median(spent, axis=1), np.array(before), np.array(after),
    )  # fmt: skip


def _bytes(task: _Task, loss: Callable[[Any], Any], batch: Any) -> tuple[int, int]:
    """What the graph keeps, and the peak of forward and backward pass."""
    from porism.sims._peak import peak_bytes
    from porism.sims.token_capacity.memory import measure_saved_bytes

    weights = [value for value in task.net.parameters() if value.requires_grad]
    for value in weights:
        value.grad = value.detach().clone().zero_()  # there before, as when gradients accumulate
    known = [*task.net.parameters(), *task.net.buffers(), *(value.grad for value in weights)]
    kept = measure_saved_bytes(lambda: loss(batch), task.net)
    most = peak_bytes(lambda: loss(batch).backward(), *known)
    task.net.zero_grad()
    return kept, most


def _held_out(task: _Task) -> float:
    import torch

    with torch.no_grad():
        return float(task.losses["full"](task.held))


def _mean(value: Any, target: Any) -> Any:
    from torch.nn.functional import cross_entropy

    return cross_entropy(value.flatten(0, -2), target.flatten())


def _encoder(size: dict[str, int], eps: float, seed: int) -> _Task:
    """MiniLM and a linear head on [CLS] that tells parts of the reference apart."""
    import torch

    from porism.sims.pattern import minilm, real_text
    from porism.sims.token_capacity.subset import SubsetBackprop
    from porism.theory.token_capacity import choose_positions

    base, tokenizer = minilm()
    base.set_attn_implementation("sdpa")
    base.config.use_cache = False
    for module in base.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # checkpointing runs in training mode; all ways are to be the same function
    top: Any = torch.nn.Linear(base.config.hidden_size, len(TOPICS))
    torch.nn.init.zeros_(top.weight)
    torch.nn.init.zeros_(top.bias)
    net = torch.nn.ModuleDict({"encoder": base, "head": top})
    texts = [
        torch.tensor(tokenizer.encode(real_text(t), add_special_tokens=False, verbose=False)) for t in TOPICS
    ]
    room = size["length"] - 2  # without [CLS] and [SEP]

    def excerpt(c: int, at: int) -> Any:
        ends = tokenizer.cls_token_id, tokenizer.sep_token_id
        return torch.cat([torch.tensor(ends[:1]), texts[c][at : at + room], torch.tensor(ends[1:])])

    def cut(c: int) -> int:
        return int(0.8 * len(texts[c]))

    def draw(draws: Any, count: int = size["batch"]) -> tuple[Any, Any]:
        y = torch.randint(len(TOPICS), (count,), generator=draws)
        at = [int(torch.randint(cut(int(c)) - room, (1,), generator=draws)) for c in y]
        return torch.stack([excerpt(int(c), a) for c, a in zip(y, at, strict=True)]), y

    places = [
        (c, int(at))
        for c in range(len(TOPICS))
        for at in np.linspace(cut(c), len(texts[c]) - room, size["held"])
    ]
    held = torch.stack([excerpt(c, at) for c, at in places]), torch.tensor([c for c, _ in places])
    probe = draw(torch.Generator().manual_seed(1), size["probe"])[0]
    choice = choose_positions(base, [{"input_ids": part} for part in probe.split(size["batch"])], eps=eps)
    step, chosen = SubsetBackprop(base), torch.from_numpy(choice.positions)  # [CLS] is the first of them

    def read(hidden: Any, y: Any) -> Any:
        return _mean(top(hidden[:, 0]), y)

    def full(batch: Any) -> Any:
        return read(base(input_ids=batch[0]).last_hidden_state, batch[1])

    def subset(batch: Any) -> Any:
        return read(step.forward(chosen.expand(len(batch[0]), -1), input_ids=batch[0]).hidden, batch[1])

    def head(batch: Any) -> Any:
        with torch.no_grad():
            hidden = base(input_ids=batch[0]).last_hidden_state
        return read(hidden, batch[1])

    trained = [
        {"params": list(base.parameters()), "lr": 2e-5},
        {"params": list(top.parameters()), "lr": 5e-3},
    ]
    losses: _Losses = {"full": full, "checkpointing": full, "subset": subset, "head alone": head}
    return _Task(net, trained, draw, losses, held, base, choice.k, choice.layer)


def _causal(size: dict[str, int], eps: float, seed: int) -> _Task:
    """A Llama-shaped model that has learned nine tenths of the reference, and goes on with the rest."""
    import torch

    from porism.sims.corpora import topics_bpe
    from porism.sims.fit import fit
    from porism.sims.token_capacity._peers import model
    from porism.sims.token_capacity.subset import SubsetBackprop
    from porism.theory.token_capacity import choose_positions

    corpus, T = topics_bpe(), size["length"]
    net = model("llama", width=128, layers=4, heads=8, length=T, vocab=corpus.vocab, seed=seed)
    fit(
        net, corpus.batches(size["batch"], T), steps=size["before"], lr=3e-3, rng=seed,
        loss=lambda net, x, y: _mean(net(input_ids=x).logits, y),
    )  # fmt: skip
    text = torch.tensor(corpus.validation)
    end = int(0.8 * len(text))

    def windows(at: Any) -> Any:
        return torch.stack([text[a : a + T] for a in at])

    def draw(draws: Any) -> Any:
        return windows(torch.randint(end - T, (size["batch"],), generator=draws).tolist())

    held = windows(np.linspace(end, len(text) - T, size["held"]).astype(int).tolist())
    probe = windows(np.linspace(0, end - T, size["probe"]).astype(int).tolist())
    choice = choose_positions(net, [{"input_ids": part} for part in probe.split(size["batch"])], eps=eps)
    k, step = max(choice.k, 2), SubsetBackprop(net)  # the very last position predicts nothing

    def full(ids: Any) -> Any:
        return net(input_ids=ids, labels=ids).loss

    def subset(ids: Any) -> Any:
        labels = ids.clone()
        labels[:, : T - k + 1] = -100  # label j is predicted at j - 1
        return step.loss(labels, k, input_ids=ids)

    def same(ids: Any) -> Any:
        hidden = net.base_model(input_ids=ids).last_hidden_state[:, -k:-1]
        return _mean(net.get_output_embeddings()(hidden), ids[:, 1 - k :])

    losses: _Losses = {"full": full, "checkpointing": full, "subset": subset, SAME: same}
    trained = [{"params": list(net.parameters()), "lr": 1e-3}]
    return _Task(net, trained, draw, losses, held, net, k, choice.layer)


def _main() -> None:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("model", nargs="*", default=MODELS, help="minilm, causal; both by default")
    parser.add_argument("--scale", choices=("smoke", "paper"), default="paper")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--eps", type=float, default=0.1, help="share of coverage that may be lost")
    given = parser.parse_args()
    for model in given.model:
        run = compare_fine_tuning(model, scale=given.scale, seeds=given.seeds, eps=given.eps, progress=True)
        print(run.table(), end="\n\n")


if __name__ == "__main__":
    _main()
