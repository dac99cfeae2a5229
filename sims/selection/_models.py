"""Models of the benchmarks and of the figure on cost, and gradients of each sample by torch.func."""

import contextlib
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from porism.checks import require
from porism.sims.selection._next_token import next_token
from porism.sims.selection.worlds import ScoreWorld
from porism.theory.selection import DualScores, dual_scores, per_sample_gradients


class Work(ScoreWorld):
    """A model with data: our scores, those from all gradients at once, and those of one sample at a time."""

    @property
    def size(self) -> int:
        return sum(value.numel() for value in self.params.values())

    @property
    def known(self) -> tuple[Any, ...]:
        """Tensors that are there before."""
        return (*self.params.values(), *self.batch)

    def ours(self, **options: Any) -> DualScores:
        return dual_scores(*self.arguments, **options)

    def peer(self, method: str = "vmap") -> tuple[Any, dict[str, Any]]:
        """Rows and columns from gradients of each sample, all held; "plain" is vmap without fused kernels.

        vmap has no rule for fused attention on a CPU and says that it goes through the samples there.
        """
        torch = require("torch", "torch")
        from torch.nn.attention import SDPBackend, sdpa_kernel

        leaves = {name: value.detach().requires_grad_() for name, value in self.params.items()}
        v = torch.autograd.grad(self.val_loss(leaves), list(leaves.values()))
        with warnings.catch_warnings(), contextlib.ExitStack() as stack:
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            if method == "plain":
                stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            way = "loop" if method == "loop" else "vmap"
            J = per_sample_gradients(self.loss_vector, self.params, self.batch, method=way)
        rows = sum(each.flatten(1) @ part.flatten() for each, part in zip(J.values(), v, strict=True))
        return rows, {name: each.sum(0) * part for (name, each), part in zip(J.items(), v, strict=True)}

    def double(self) -> "Work":
        """The same in float64."""
        x, y = self.batch
        params = {name: value.double() for name, value in self.params.items()}
        return Work(self.loss_vector, self.val_loss, params, (x.double() if x.is_floating_point() else x, y))


def perceptron(n: int, sizes: tuple[int, ...] = (256, 512, 512, 10), n_val: int = 64, seed: int = 0) -> Work:
    """Perceptron with tanh on random inputs and labels, under cross-entropy, in float32."""
    torch = require("torch", "torch")
    F: Any = torch.nn.functional
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Any:
        return torch.as_tensor(rng.standard_normal(shape), dtype=torch.float32)

    params = {}
    for i, (into, out) in enumerate(itertools.pairwise(sizes)):
        params[f"{i}.weight"], params[f"{i}.bias"] = draw(out, into) / into**0.5, 0.1 * draw(out)
    x, held = draw(n, sizes[0]), draw(n_val, sizes[0])
    y, held_y = (torch.as_tensor(rng.integers(0, sizes[-1], size)) for size in (n, n_val))

    def loss(p: Any, batch: Any) -> Any:
        h = batch[0].to(p["0.weight"])
        for i in range(len(sizes) - 1):
            h = F.linear(h, p[f"{i}.weight"], p[f"{i}.bias"])
            h = h.tanh() if i < len(sizes) - 2 else h
        return F.cross_entropy(h, batch[1], reduction="none")

    return Work(loss, lambda p: loss(p, (held, held_y)).mean(), params, (x, y))


def transformer(n: int, length: int = 48, n_val: int = 32, seed: int = 0, **sizes: Any) -> Work:
    """Tiny causal transformer on random tokens, under the mean cross-entropy of next tokens, in float32."""
    torch = require("torch", "torch")
    from porism.sims.tiny_transformer import TinyConfig, TinyTransformer

    class Plain(TinyTransformer):
        """Without checks of its tokens, which torch.func cannot batch."""

        def _check(self, x: Any, *others: Any) -> tuple[int, int, int]:
            return int(x.shape[0]), int(x.shape[1]), 0

    shape = {"vocab": 96, "d": 128, "layers": 3, "heads": 4} | sizes
    model = Plain(TinyConfig(max_len=length, **shape), seed=seed)
    rng = np.random.default_rng(seed)
    ids = torch.as_tensor(rng.integers(0, shape["vocab"], (n + n_val, length + 1)))
    return Work(*next_token(model, ids, n))


def multiplications(work: Callable[[], Any]) -> int:
    """Multiplications in all matrix products of a call, the derivatives' included."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops()) // 2
