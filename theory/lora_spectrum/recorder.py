"""Record the spectrum of every adapter of a model while it trains."""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, require
from porism.theory.lora_spectrum._checkpoints import compare
from porism.theory.lora_spectrum._layout import DORA
from porism.theory.lora_spectrum._pairs import adapters, is_dora, live_pairs
from porism.theory.lora_spectrum._values import torch_values
from porism.theory.lora_spectrum.history import SpectrumHistory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LoraSpectrumRecorder"]


class LoraSpectrumRecorder:
    """Singular values of ``scaling * B @ A`` of every adapter, along training.

    Call `step` with the number of optimiser steps done, or the recorder itself without a number. As a context
    manager it also records the start and the end of its block, and, with `optimizer`, every step in it.

    Parameters
    ----------
    model : nn.Module
        A model of peft, or any model with modules that hold ``lora_A (r, n)`` and ``lora_B (m, r)`` as
        tensors or as layers with a weight, and optionally a number ``scaling``.
    every : int, default 1
        Steps that `every` does not divide are passed over.
    adapter : str, default "default"
        Adapter of a peft model to record.
    optimizer : torch.optim.Optimizer, optional
        Its steps are recorded inside the block; the hook for it is gone after the block.
    pairs : callable ``model -> iterable of (name, B, A, scaling)``, optional
        Finds the pairs in a model of another kind: B (..., m, r) and A (..., r, n) are tensors.

    Raises
    ------
    TypeError
        If `every` is not an int.
    ValueError
        If the model holds no pair of this adapter, or `every` is below 1.
    KeyError
        If a module holds one factor only.

    Warns
    -----
    UserWarning
        If the adapter is a DoRA: the spectrum is of BA before magnitude rescaling.

    Notes
    -----
    Training is not touched: the factors are read without gradients, no random number is drawn, nothing is
    moved or switched, and weights come out bit by bit as without a recorder. Factors that are not finite are
    recorded as NaN. A record takes O(modules * r) numbers of memory, and O((m + n) r**2) time a module; BA is
    never formed.

    Examples
    --------
    >>> with LoraSpectrumRecorder(model, every=10) as recorder:  # doctest: +SKIP
    ...     for k in range(1, 101):
    ...         train_one_step(model)
    ...         recorder.step(k)
    >>> recorder.as_frame()  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        every: int = 1,
        adapter: str = "default",
        *,
        optimizer: Any = None,
        pairs: Callable[[Any], Iterable[tuple[str, Any, Any, Any]]] | None = None,
    ) -> None:
        self.model, self.every, self.adapter = model, integer("every", every, 1), adapter
        self.optimizer, self.pairs = optimizer, pairs
        self._steps: list[int] = []
        self._records: dict[str, list[NDArray[np.float64]]] = {}
        self._now = 0
        self._hook: Any = None
        if not sum(1 for _ in self._find()):  # all of them: a pair may lack one half
            there = adapters(model)
            way = f"pass adapter= one of {there}" if there else "add an adapter first, or pass pairs="
            raise ValueError(f"model must hold a pair lora_A, lora_B of adapter {adapter!r}, got none; {way}")
        if pairs is None and is_dora(model, adapter):
            warnings.warn(DORA, UserWarning, stacklevel=2)

    def step(self, k: int) -> bool:
        """Record the model as it is after k steps, if `every` divides k.

        Parameters
        ----------
        k : int
            Number of steps done, not below the last one; the same number again replaces its record.

        Returns
        -------
        bool
            Whether a record was made.

        Raises
        ------
        TypeError
            If k is not an int.
        ValueError
            If k goes back, or the modules or their ranks are not those of the first record.
        """
        k = integer("k", k, 0)
        if k < self._now:
            raise ValueError(f"k must not go back, got {k} after {self._now}; use a recorder for each run")
        if k % self.every:
            self._now = k
            return False
        self._record(k)
        return True

    def __call__(self, k: int | None = None) -> bool:
        """Count one step, or take its number, and record it as `step` does."""
        return self.step(self._now + 1 if k is None else k)

    def __enter__(self) -> Self:
        if not self._steps:
            self._record(self._now)
        if self.optimizer is not None:
            self._hook = self.optimizer.register_step_post_hook(lambda *_: self() and None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        if kind is None and self._steps[-1] != self._now:
            self._record(self._now)

    def history(self) -> SpectrumHistory:
        """Everything recorded so far.

        Returns
        -------
        SpectrumHistory
            Steps and spectra; it does not change when recording goes on.
        """
        spectra = {name: np.array(rows) for name, rows in self._records.items()}
        return SpectrumHistory(np.array(self._steps, dtype=np.int64), spectra)

    def as_frame(self) -> Any:
        """Everything recorded so far as a long table.

        Returns
        -------
        DataFrame
            Columns step, module, index (0 is the largest), singular_value, stable_rank and effective_rank.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        return self.history().to_frame()

    def plot(self, ax: "Axes | None" = None, module: str | None = None) -> "Axes":
        """Draw the roots of the singular values against the step.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure without it.
        module : str, optional
            The only module to draw; all of them without it.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        return self.history().plot(ax, module)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything recorded so far to one file, which `SpectrumHistory.load` and `load` read.

        Parameters
        ----------
        path : path
            File to create or replace, by custom named ``.npz``.
        """
        self.history().save(path)

    def state(self) -> dict[str, Any]:
        """Everything recorded so far as plain arrays, for a checkpoint of the run.

        Returns
        -------
        dict
            ``now`` (int), ``steps`` (T,) and ``spectra``, name to array (T, r); `load` takes it.
        """
        found = self.history()
        return {"now": self._now, "steps": found.steps, "spectra": found.spectra}

    def load(self, state: Mapping[str, Any] | str | os.PathLike[str]) -> Self:
        """Go on from an earlier recording, in place of what this recorder holds.

        Parameters
        ----------
        state : dict or path
            From `state`, or a file written by `save`.

        Returns
        -------
        LoraSpectrumRecorder
            This recorder.

        Raises
        ------
        ValueError
            If it is no recording, or of other modules or ranks than the model has; the recorder is then
            unchanged.
        """
        if isinstance(state, (str, os.PathLike)):
            past = SpectrumHistory.load(state)
            state = {"steps": past.steps, "spectra": past.spectra}
        try:
            steps = [int(k) for k in state["steps"]]
            spectra = {str(name): np.array(rows, dtype=np.float64) for name, rows in state["spectra"].items()}
            now = int(state.get("now", steps[-1] if steps else 0))
            good = all(rows.ndim == 2 and len(rows) == len(steps) for rows in spectra.values())
        except (KeyError, TypeError, ValueError, AttributeError):
            good = False
        if not good or sorted(set(steps)) != steps or (steps and now < steps[-1]):
            raise ValueError("state must be a recording, made by state() or save(), got something else")
        if steps:
            compare({name: rows.shape[1] for name, rows in spectra.items()}, self._ranks(), "the model")
        self._steps, self._now = steps, now
        self._records = {name: list(rows) for name, rows in spectra.items()} if steps else {}
        return self

    def _find(self) -> Iterable[tuple[str, Any, Any, Any]]:
        return live_pairs(self.model, self.adapter) if self.pairs is None else self.pairs(self.model)

    def _ranks(self) -> dict[str, int]:
        return {name: A.shape[-2] for full, _, A, _ in self._find() for name in _names(full, A)}

    def _record(self, k: int) -> None:
        torch = require("torch", "torch")
        found: dict[str, NDArray[np.float64]] = {}
        for full, B, A, scaling in self._find():
            whole = bool(torch.isfinite(B).all()) and bool(torch.isfinite(A).all())
            scale = np.abs(np.asarray(scaling, dtype=np.float64))
            if whole:
                values = torch_values(torch, B, A).cpu().numpy().astype(np.float64) * scale[..., None]
            else:  # the run has diverged: say so in the record, and leave it to its owner to stop
                values = np.full((*A.shape[:-2], A.shape[-2]), np.nan)
            for name, row in zip(_names(full, A), values.reshape(-1, A.shape[-2]), strict=True):
                if name in found:
                    raise ValueError(f"pairs must have a name each, got {name!r} twice; rename one of them")
                found[name] = row
        if self._steps:
            past = {name: len(rows[0]) for name, rows in self._records.items()}
            compare(past, {name: len(row) for name, row in found.items()}, f"step {k}")
        self._now = k
        if self._steps[-1:] != [k]:
            self._steps.append(k)
        for name, row in found.items():
            rows = self._records.setdefault(name, [])
            rows[len(self._steps) - 1 :] = [row]


def _names(name: str, A: Any) -> list[str]:
    return [name] if A.ndim == 2 else [f"{name}[{e}]" for e in range(A.shape[:-2].numel())]
