"""Second moments of hidden states by position, from forward passes that are never kept."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from porism._models import linear_maps, read_tokens
from porism._modes import evaluation
from porism.checks import integer, one_of, require
from porism.results import Result
from porism.theory.token_capacity._bins import ALIGNMENTS, Index, aligned, bin_of, layout
from porism.theory.token_capacity._pass import Pass
from porism.theory.token_capacity.rank import effective_rank

__all__ = ["HiddenStateMoments", "PositionMoments"]

MAX_CROSS = 32


@dataclass(frozen=True, eq=False)
class PositionMoments(Result):
    """Second moments of what linear maps read, one bin of aligned positions beside the other.

    Parameters
    ----------
    count : int64 array of shape (P,)
        Real tokens seen in each bin.
    second : float64 array of shape (L, P, m, m)
        Sums of ``x x'``, uncentred, per layer and bin.
    cross : float64 array of shape (L, P, P, m, m), or None
        Sums over examples of ``x_s x_t'``.
    bins : int64 array of shape (P, 2)
        First aligned position of each bin and the one after its last.
    sketched : bool
        Whether inputs were projected to fewer dimensions: effective ranks are then biased low.
    layers : tuple of str
        Names of the linear maps.
    align : str
        Where position 0 is: "end", "start" or "absolute".

    Examples
    --------
    >>> one = np.eye(2)[None, None]
    >>> PositionMoments(np.array([2]), one, None, np.array([[0, 1]]), False, ("q",), "end").effective_ranks()
    array([[2.]])
    """

    count: NDArray[np.int64]
    second: NDArray[np.float64]
    cross: NDArray[np.float64] | None
    bins: NDArray[np.int64]
    sketched: bool
    layers: tuple[str, ...] = ()
    align: str = "end"

    def effective_ranks(self) -> NDArray[np.float64]:
        """Entropy effective rank of each layer and bin, that of the Gram matrix of its rows.

        Returns
        -------
        float64 array, shape (L, P)
            Ranks; biased low where `sketched`.
        """
        return np.asarray(effective_rank(self.second))

    def alignments(self) -> NDArray[np.float64]:
        """Uncentred alignment of the Gram matrices of each pair of positions.

        ``|C_st|_F^2 / (|C_s|_F |C_t|_F)``; an example that lacks a position counts as a zero row there.

        Returns
        -------
        float64 array, shape (L, P, P)
            Alignments in [0, 1], nan beside a zero moment.

        Raises
        ------
        ValueError
            If cross moments were not collected, or inputs were sketched.
        """
        if self.cross is None:
            raise ValueError("alignments need cross moments, got none; collect with cross=True")
        if self.sketched:
            raise ValueError(
                "alignments need inputs as they are, got sketched ones; collect with sketch=None"
            )
        top = abs(self.second).max((1, 2, 3))[:, None, None] + (self.count.sum() == 0)
        top = np.where(top > 0, top, 1)
        joint = ((self.cross / top[..., None, None]) ** 2).sum((3, 4))
        size = np.sqrt(((self.second / top[..., None]) ** 2).sum((2, 3)))
        product = size[:, :, None] * size[:, None, :]
        found: NDArray[np.float64] = np.where(product > 0, joint / np.where(product > 0, product, 1), np.nan)
        return found


class HiddenStateMoments:
    """Collect second moments of hidden states while a model runs forward.

    ``C_t = sum over examples of x_t x_t'`` for what each watched linear map reads, uncentred, real tokens
    only.

    Parameters
    ----------
    model : torch.nn.Module
        A transformers model, a PeftModel, a tiny transformer, or any module whose linear maps read (B, T, d).
    layers : "all" or list of str, default "all"
        Names of linear maps; "all" takes every query or fused projection and the first map of every MLP.
    align : {"end", "start", "absolute"}
        Whether position 0 is the last real token, the first one, or column 0.
    max_bins : int, default 64
        Most bins, >= 1. Bins hold one position each until a row is longer; then the first half stays single,
        further edges grow by 1.3, and the last bin is open. Sums are merged exactly.
    sketch : int, optional
        Number m of dimensions of a Gaussian projection of the inputs, >= 1.
    cross : bool, default False
        Whether to collect cross moments of pairs of positions; rows must then have at most 32 tokens and at
        most `max_bins`.
    seed : int, default 0
        Seed of the projection.

    Raises
    ------
    MissingExtraError
        If torch is not installed.
    TypeError
        If a number is no int.
    ValueError
        If layers are unknown or a value is out of range.

    Notes
    -----
    Memory does not depend on the number of examples: ``P m^2`` float64 a layer, and while a batch runs its
    rows or as much again, whichever is less, so that a batch that fails leaves the sums as they were. With
    `cross`, P times that. Products are taken in float64. The effective rank of a sketch is biased low (38.9
    gave 27.4 for m=64). Cost 2 B T m^2 a layer and batch beside the forward pass. A map that is called
    several times in a pass adds up all calls. Labels in a batch are ignored.

    References
    ----------
    Johnson and Lindenstrauss (1984), "Extensions of Lipschitz mappings into a Hilbert space", for the sketch.

    Examples
    --------
    >>> with HiddenStateMoments(model) as watch:  # doctest: +SKIP
    ...     for batch in batches:
    ...         watch.update(**batch)
    >>> watch.result().effective_ranks()  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        layers: Any = "all",
        *,
        align: str = "end",
        max_bins: int = 64,
        sketch: int | None = None,
        cross: bool = False,
        seed: int = 0,
    ) -> None:
        require("torch", "torch")
        self.align = one_of("align", align, ALIGNMENTS)
        self.max_bins, self.seed = integer("max_bins", max_bins, 1), integer("seed", seed, 0)
        self.sketch = None if sketch is None else integer("sketch", sketch, 1)
        if not isinstance(cross, bool):
            raise TypeError(f"cross must be True or False, got {cross!r}; pass a bool")
        self.model, self.cross = model, cross
        self._modules = linear_maps(model, layers)
        self.layers = tuple(self._modules)
        self._handles: list[Any] = []
        self._pass: Pass | None = None
        self._projections: dict[int, Any] = {}
        self._clear()

    def _clear(self) -> None:
        self._longest, self._batches = 0, 0
        self._count = np.zeros(0, dtype=np.int64)
        self._second: list[Any] = [None] * len(self.layers)
        self._cross: list[Any] = [None] * len(self.layers)

    def __enter__(self) -> Self:
        if self._handles:
            raise RuntimeError("the model is being watched already; leave the first with block")
        try:
            for i, module in enumerate(self._modules.values()):
                hook = functools.partial(self._see, i)
                self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        while self._handles:
            self._handles.pop().remove()

    def update(self, **batch: Any) -> None:
        """Run the model on one batch and add what its maps read; all or nothing.

        Parameters
        ----------
        **batch
            Keywords of the model. "attention_mask" or "key_mask", shape (B, T), marks real tokens; without it
            all are real.

        Raises
        ------
        NotImplementedError
            If the batch has a cache, a mask of four axes, packed sequences or asks for attention maps.
        RuntimeError
            If it is called outside the with block, or a watched map did not run.
        ValueError
            If a row is all padding, a value at a real token is not finite, a map does not read (B, T, d),
            widths differ without a sketch, or cross moments are asked for and rows are too long.
        """
        if not self._handles:
            raise RuntimeError("update must be called inside 'with HiddenStateMoments(...) as watch:'")
        inputs, mask = read_tokens(self.model, batch)
        place = aligned(mask, self.align)
        own = mask.shape[1] if self.align == "absolute" else int(place.max()) + 1
        longest = max(self._longest, own)
        if self.cross and longest > min(self.max_bins, MAX_CROSS):
            raise ValueError(
                f"cross moments need rows of at most {min(self.max_bins, MAX_CROSS)} tokens, got {longest}; "
                "shorten the rows or collect without cross"
            )
        edges = layout(longest, self.max_bins)
        self._pass = seen = Pass(mask, place, bin_of(place, edges), len(edges), len(self.layers))
        try:
            with evaluation(self.model):
                self.model(**inputs)
        finally:
            self._pass = None
        missing = [name for i, name in enumerate(self.layers) if not seen.ran(i)]
        if missing:
            raise RuntimeError(f"layer {missing[0]} did not run in the forward pass; leave it out of layers")
        self._commit(seen, longest, edges)

    def result(self) -> PositionMoments:
        """What has been collected.

        Returns
        -------
        PositionMoments
            A copy of the sums in main memory.

        Raises
        ------
        ValueError
            If no batch has been added.
        """
        self._check()
        second = np.stack([part.cpu().numpy() for part in self._second])
        cross = np.stack([part.cpu().numpy() for part in self._cross]) if self.cross else None
        return self._moments(second, cross, self.layers)

    def drain(self) -> Iterator[PositionMoments]:
        """Hand over what has been collected, one layer at a time; afterwards there are no moments.

        Returns
        -------
        iterator of PositionMoments
            Second moments of one layer each, in the order of `layers`.

        Raises
        ------
        ValueError
            If no batch has been added.
        """
        self._check()
        try:
            for i, name in enumerate(self.layers):
                second, self._second[i] = self._second[i].cpu().numpy()[None], None
                yield self._moments(second, None, (name,))
        finally:
            self._clear()

    @property
    def batches(self) -> int:
        """Number of batches added."""
        return self._batches

    def _check(self) -> None:
        if not self._batches:
            raise ValueError("there are no moments yet, got 0 batches; call update first")

    def _moments(self, second: Any, cross: Any, layers: tuple[str, ...]) -> PositionMoments:
        edges = layout(self._longest, self.max_bins)
        bins = np.stack([edges, np.append(edges[1:], self._longest)], axis=1)
        sketched = self.sketch is not None
        return PositionMoments(self._count.copy(), second, cross, bins, sketched, layers, self.align)

    def _see(self, i: int, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen = self._pass
        if seen is None:  # someone else runs the model
            return
        import torch

        name = self.layers[i]
        x = args[0] if args else next(iter(kwargs.values()))
        if x.ndim == 2 and len(x) == seen.mask.size:  # all tokens of the batch as rows
            x = x.reshape(*seen.mask.shape, -1)
        if tuple(x.shape[:-1]) != seen.mask.shape:
            raise ValueError(
                f"layer {name} must read (B, T, d) with (B, T) = {seen.mask.shape}, got {tuple(x.shape)}; "
                "name other layers"
            )
        with torch.no_grad():
            rows, columns, bins = seen.tokens(x.device)
            x = x.detach()[rows, columns]
            finite = torch.isfinite(x).all(-1)
            if not bool(finite.all()):
                at = int((~finite).nonzero()[0, 0])
                row, column = int(rows[at]), int(columns[at])
                raise ValueError(
                    f"layer {name} reads a value that is not finite in batch {self._batches}, row {row}, "
                    f"aligned position {int(seen.place[row, column])} ({self.align}); nothing was added"
                )
            x = x.cpu() if x.device.type == "mps" else x  # which has no float64
            project = self._projection(i, x)
            x = x if project is None else x.double() @ project
            m = int(x.shape[-1])
            widths = {
                part.shape[-1] for part in (*self._second, *seen.second, *seen.widths()) if part is not None
            }
            if widths - {m}:
                raise ValueError(
                    f"layer {name} reads width {m}, others {min(widths - {m})}; one result needs one width: "
                    "name layers of one width or pass sketch"
                )
            seen.kept[i].append(x)
            if self.cross:
                wide = torch.zeros(len(seen.mask), seen.bins, m, dtype=torch.float64, device=x.device)
                wide[rows.to(x.device), bins.to(x.device)] = x.double()
                flat = wide.reshape(len(wide), -1)
                joint = (flat.T @ flat).reshape(seen.bins, m, seen.bins, m).transpose(1, 2).contiguous()
                seen.cross[i] = joint if seen.cross[i] is None else seen.cross[i] + joint
            if sum(part.nbytes for part in seen.kept[i]) > seen.bins * m * m * 8:
                seen.second[i] = seen.folded(i, seen.second[i])  # the sums are smaller than the rows

    def _projection(self, i: int, x: Any) -> Any:
        if self.sketch is None:
            return None
        if i not in self._projections:
            import torch

            draws = torch.Generator().manual_seed(self.seed + i)
            shape = (int(x.shape[-1]), self.sketch)
            matrix = torch.randn(shape, generator=draws, dtype=torch.float64) / self.sketch**0.5
            self._projections[i] = matrix.to(x.device)
        return self._projections[i]

    def _commit(self, seen: Pass, longest: int, edges: Index) -> None:
        import torch

        old = layout(self._longest, self.max_bins) if self._longest else np.zeros(0, dtype=np.int64)
        target = bin_of(old, edges)
        count = np.bincount(seen.bin[seen.mask], minlength=len(edges))
        np.add.at(count, target, self._count)
        second = self._second
        if not np.array_equal(old, edges):  # more bins, or single ones merge
            second = [None if part is None else part.new_zeros(seen.bins, *part.shape[1:]) for part in second]
            for part, before in zip(second, self._second, strict=True):
                if part is not None:
                    part.index_add_(0, torch.from_numpy(target).to(part.device), before)
        if self.cross:
            for part, before in zip(seen.cross, self._cross, strict=True):
                if before is not None:
                    part[: len(before), : len(before)] += before
        for i, extra in enumerate(seen.second):
            if second[i] is not None and extra is not None:
                second[i] += extra
            second[i] = seen.folded(i, extra if second[i] is None else second[i])
        self._count, self._second, self._cross = count.astype(np.int64), second, seen.cross
        self._longest = longest
        self._batches += 1
