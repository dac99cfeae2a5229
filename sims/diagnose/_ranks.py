"""Second moments of hidden states, block by block, and the ranks that they give."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from porism._models import is_linear
from porism.sims.diagnose.ranks import HiddenRanks
from porism.theory.token_capacity import effective_rank

__all__ = ["Ranks", "block_names"]


class Ranks:
    """Sums of outer products of the states around a common shift, so that centring loses no digits."""

    def __init__(self, model: Any, max_bytes: int) -> None:
        self.blocks = block_names(model)
        self.names = ["input", *self.blocks] if self.blocks else []
        self.room = int((max_bytes / (8 * max(len(self.names), 1))) ** 0.5)
        self.sums: list[Any] = [None] * len(self.names)
        self.counts = [0] * len(self.names)  # a block may run several times in a pass
        self.n, self.mask, self.sketched = 0, np.ones((0, 0), dtype=bool), False

    @contextlib.contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """Hooks on the blocks."""
        modules = dict(model.named_modules())
        with contextlib.ExitStack() as stack:
            for i, name in enumerate(self.blocks):
                if not i:
                    first = modules[name].register_forward_pre_hook(self._enter, with_kwargs=True)
                    stack.callback(first.remove)
                stack.callback(modules[name].register_forward_hook(self._leave(i + 1)).remove)
            yield

    def begin(self, seen: Any) -> None:
        """A batch is about to run."""
        self.mask = seen.mask
        self.n += int(seen.mask.sum())

    def judge(self, tick: Callable[[], object]) -> HiddenRanks | None:
        """Ranks of all layers, or None where there are no blocks."""
        rows = []
        for i, name in enumerate(self.names):
            if self.sums[i] is None:
                continue
            shift, total, second = (part.cpu().numpy() for part in self.sums[i][:3])
            n = self.counts[i]
            mean = total / n
            centred = second - np.outer(total, mean)
            cross = np.outer(total, shift)
            plain = second + cross + cross.T + n * np.outer(shift, shift)
            energy = float(np.trace(plain))
            tiny = float(np.trace(centred)) <= 1e-12 * energy
            rows.append(
                (
                    name,
                    len(mean),
                    float(effective_rank(plain)),
                    0.0 if tiny else float(effective_rank(centred)),
                    0.0 if tiny else float(effective_rank(centred, kind="participation")),
                    float(n * ((mean + shift) ** 2).sum() / energy) if energy else 0.0,
                )
            )
            self.sums[i] = None
            tick()
        if not rows:
            return None
        names, dim, *ranks = (np.array(column) for column in zip(*rows, strict=True))
        plain, centred, ratio, share = ranks
        return HiddenRanks(names, dim.astype(np.int64), plain, centred, ratio, share, self.n, self.sketched)

    def _enter(self, module: Any, args: Any, kwargs: Any) -> None:
        x = next((v for v in (*args, *kwargs.values()) if getattr(v, "ndim", 0) == 3), None)
        self._add(0, x)

    def _leave(self, i: int) -> Any:
        def leave(module: Any, args: Any, output: Any) -> None:
            self._add(i, output[0] if isinstance(output, tuple) else output)

        return leave

    def _add(self, i: int, x: Any) -> None:
        import torch

        if x is None or getattr(x, "ndim", 0) != 3 or tuple(x.shape[:2]) != self.mask.shape:
            return  # packed or pooled states are no rows of tokens
        real = torch.from_numpy(self.mask).to(x.device)
        x = x.detach()[real]
        x = (x.cpu() if x.device.type == "mps" else x).double()
        if not bool(torch.isfinite(x).all()):
            where = f"the output of {self.names[i]}" if i else "what the first block reads"
            raise ValueError(
                f"hidden states must be finite, got NaN or infinity in {where}; look for overflow"
            )
        if self.sums[i] is None:
            project = None
            if x.shape[1] > self.room:
                draws = torch.Generator().manual_seed(i)
                shape = (int(x.shape[1]), max(self.room, 1))
                project = (torch.randn(shape, generator=draws, dtype=torch.float64) / shape[1] ** 0.5).to(x)
                self.sketched = True
            start = x if project is None else x @ project
            shift = start.mean(0)
            self.sums[i] = [shift, torch.zeros_like(shift), shift.new_zeros(len(shift), len(shift)), project]
        shift, total, second, project = self.sums[i]
        x = (x if project is None else x @ project) - shift
        self.counts[i] += len(x)
        total += x.sum(0)
        second.addmm_(x.T, x)


def block_names(model: Any) -> list[str]:
    """Names of the blocks: the list of modules that holds the most of the linear maps, each in an own one."""
    modules = dict(model.named_modules())
    counts: dict[str, dict[str, None]] = {}
    for parts in (name.split(".") for name, module in modules.items() if is_linear(module)):
        for k in range(1, len(parts)):
            if parts[k].isdigit():
                counts.setdefault(".".join(parts[:k]), {})[".".join(parts[: k + 1])] = None
    if not counts:
        return []
    best = max(counts, key=lambda name: len(counts[name]))
    return [f"{best}.{key}" for key, _ in modules[best].named_children()]
