"""What one batch adds to the moments, held apart until the batch has gone through."""

from typing import Any

import numpy as np

from porism.theory.token_capacity._bins import Index, Mask


class Pass:
    """What one batch adds: its rows by layer, or their sums where these are smaller."""

    def __init__(self, mask: Mask, place: Index, bin: Index, bins: int, layers: int) -> None:
        self.mask, self.place, self.bin, self.bins = mask, place, np.where(mask, bin, -1), bins
        rows, columns = np.nonzero(mask)
        order = np.argsort(self.bin[rows, columns], kind="stable")
        self._tokens = (rows[order], columns[order], self.bin[rows, columns][order])
        self._moved: dict[Any, tuple[Any, ...]] = {}
        self.kept: list[list[Any]] = [[] for _ in range(layers)]
        self.second: list[Any] = [None] * layers
        self.cross: list[Any] = [None] * layers

    def tokens(self, device: Any) -> tuple[Any, ...]:
        """Row, column and bin of each real token, bin by bin."""
        if device not in self._moved:
            import torch

            self._moved[device] = tuple(torch.from_numpy(part).to(device) for part in self._tokens)
        return self._moved[device]

    def ran(self, i: int) -> bool:
        return bool(self.kept[i]) or self.second[i] is not None

    def widths(self) -> list[Any]:
        return [parts[0] for parts in self.kept if parts]

    def folded(self, i: int, total: Any) -> Any:
        """Sums with the rows of a layer added in place, which are then dropped."""
        import torch

        found, starts = np.unique(self._tokens[2], return_index=True)
        stops = np.append(starts[1:], len(self._tokens[2]))
        for x in self.kept[i]:
            if total is None:
                shape = (self.bins, x.shape[-1], x.shape[-1])
                total = torch.zeros(shape, dtype=torch.float64, device=x.device)
            for b, begin, stop in zip(found.tolist(), starts.tolist(), stops.tolist(), strict=True):
                part = x[begin:stop].double()
                total[b] += part.T @ part
        self.kept[i] = []
        return total
