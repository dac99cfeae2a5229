"""First-step energy of candidate starts, by a backward pass to the outputs of modules.

``G A' = sum_t g_t (A x_t)'`` over the tokens of all samples, so that neither weights nor their gradients are
touched and nothing of size (m, d) is kept.
"""

import contextlib
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.sims import hooks
from porism.sims._batches import Batch, Position, read_batch

__all__ = ["HEADS", "Unmeasured", "energies"]

HEADS = 4
"""Random heads where the model has none of its own."""


class Unmeasured(Exception):
    """There is no first step to measure."""


def energies(
    model: Any,
    batches: Iterable[Any],
    bases: dict[str, list[NDArray[np.float64]]],
    *,
    position: Position,
    labels_key: str | None,
    mask_token_id: int | None,
    rng: np.random.Generator,
) -> dict[str, list[float]]:
    """``|G A'|^2`` of each candidate A (r, d) of each module, all of one scale within a module.

    G is the gradient of the cross-entropy of the model's own classes. Where its output is not one logit a
    class, G is that of a small random head on the output at the target, in the mean over `HEADS` of them.
    Raises `Unmeasured` with the reason where there are no classes, or no way back.
    """
    torch = require("torch", "torch")
    read: list[Batch] = []
    for raw in batches:
        read.append(read_batch(raw, position, labels_key, mask_token_id, sum(b.size for b in read)))
    labels = [batch.y[batch.kept] for batch in read if batch.y is not None]
    if len(labels) < len(read):
        raise Unmeasured("no classes")
    classes, counts = np.unique(np.concatenate(labels), return_counts=True)
    if len(classes) < 2:
        raise Unmeasured("fewer than two classes")
    probe = _Probe(bases, classes, counts / counts.sum(), rng)
    try:
        with hooks.evaluation(model), torch.enable_grad(), probe.watching(model):
            for batch in read:
                probe.add(batch, hooks.call(model, batch.inputs))
    except (RuntimeError, NotImplementedError) as error:  # a layer without a backward pass, as some quantised
        raise Unmeasured(f"no backward pass ({type(error).__name__})") from error
    return probe.energies()


class _Probe:
    def __init__(
        self,
        bases: dict[str, list[NDArray[np.float64]]],
        classes: NDArray[np.int64],
        shares: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> None:
        self.bases, self.classes, self.shares, self.rng = bases, classes, shares, rng
        self.seen: list[tuple[str, Any, Any]] = []  # module, A x of all candidates, zeros added to its output
        self.heads: Any = None
        self.sums: dict[tuple[str, int], Any] = {}

    def watching(self, model: Any) -> contextlib.ExitStack:
        modules, stack = dict(model.named_modules()), contextlib.ExitStack()
        for name in self.bases:
            stack.callback(modules[name].register_forward_hook(self._hook(name), with_kwargs=True).remove)
        return stack

    def _hook(self, name: str) -> Any:
        import torch

        stacked = torch.from_numpy(np.concatenate(self.bases[name])).float()

        def hook(module: Any, args: Any, kwargs: Any, output: Any) -> Any:
            x = next(v for v in (*args, *kwargs.values()) if hasattr(v, "is_floating_point"))
            ease = torch.zeros_like(output, requires_grad=True)
            self.seen.append((name, x.detach().float() @ stacked.to(x.device).T, ease))
            return output + ease

        return hook

    def add(self, batch: Batch, output: Any) -> None:
        """Take the gradients of one batch."""
        import torch

        seen, self.seen = self.seen, []
        losses = self._losses(batch, output)
        for k, loss in enumerate(losses):
            found = torch.autograd.grad(
                loss, [ease for *_, ease in seen], retain_graph=k + 1 < len(losses), allow_unused=True
            )
            for (name, images, _), slope in zip(seen, found, strict=True):
                if slope is not None:
                    part = slope.detach().float().flatten(0, -2).T @ images.flatten(0, -2)
                    self.sums[name, k] = self.sums.get((name, k), 0) + part.double().cpu()

    def _losses(self, batch: Batch, output: Any) -> list[Any]:
        """Sums over samples whose gradients are those of a cross-entropy."""
        import torch

        out = _tensor(output)
        if out.ndim not in (2, 3):
            raise Unmeasured(f"an output of {out.ndim} axes")
        assert batch.y is not None
        kept = torch.from_numpy(np.flatnonzero(batch.kept)).to(out.device)
        own = out.ndim == 2 and int(self.classes.max()) < out.shape[1] and int(self.classes.min()) >= 0
        if out.ndim == 3:
            at = torch.from_numpy(batch.target("the output", out.shape[1])).to(out.device)
            rows = out[kept, at].float()
        else:
            rows = out[kept].float()
        y = batch.y[batch.kept]
        if own:
            right = torch.nn.functional.one_hot(torch.from_numpy(y), out.shape[1]).to(rows)
            return [((torch.softmax(rows, dim=1) - right).detach() * rows).sum()]
        error = torch.from_numpy(self.shares - (y[:, None] == self.classes)).to(rows)
        if self.heads is None:
            drawn = self.rng.standard_normal((HEADS, len(self.classes), rows.shape[1]))
            self.heads = torch.from_numpy(drawn)
        return [(error * (rows @ head.to(rows).T)).sum() for head in self.heads]

    def energies(self) -> dict[str, list[float]]:
        """Of every candidate, summed over heads."""
        found = {}
        for name, candidates in self.bases.items():
            sums = [s for (module, _), s in self.sums.items() if module == name]
            if not sums:
                raise Unmeasured("an output that does not depend on the modules")
            squares = sum(s.square().sum(dim=0) for s in sums).numpy()
            if not np.isfinite(squares).all():
                raise Unmeasured("gradients that are not finite")
            ends = np.cumsum([0, *map(len, candidates)])
            found[name] = [float(squares[i:j].sum()) for i, j in itertools.pairwise(ends)]
        return found


def _tensor(output: Any) -> Any:
    """What a head reads, or the head's own logits, in what a model returned."""
    found = output
    if isinstance(output, (tuple, list)):
        found = output[0]
    elif not hasattr(output, "ndim"):
        take = output.get if hooks.is_mapping(output) else lambda name: getattr(output, name, None)
        found = next((v for v in map(take, ("logits", "last_hidden_state")) if v is not None), None)
    if not hasattr(found, "ndim"):
        raise Unmeasured(f"an output of type {type(output).__name__} without logits or last_hidden_state")
    return found
