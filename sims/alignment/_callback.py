"""A callback of transformers' Trainer that pivots once."""

import logging
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from transformers.trainer_callback import ExportableState, TrainerCallback

from porism.checks import integer, probability
from porism.sims.alignment.pivot import PivotReport, _prepare, pivot_

__all__ = ["PivotCallback"]

logger = logging.getLogger("porism.alignment")


class PivotCallback(TrainerCallback, ExportableState):
    """Pivot an adapter during `Trainer.train`: after an update, when gradients are cleared.

    Parameters
    ----------
    at : float or int, default 0.1
        A share of all steps in (0, 1), at least one step; or a number of updates, >= 1.
    once : bool, default True
        Whether to stop after the first; otherwise every so many steps.
    adapter_name, rotation, moments, reseed_idle
        As in `pivot_`; `reseed_idle` is a bool here.
    random_state : int, default 0
        Seed of random rotations, the same in all processes.

    Attributes
    ----------
    reports : list of PivotReport
        One a pivot of this process.
    done : bool
        Whether a pivot has taken place, also before a checkpoint that training resumed from.

    Notes
    -----
    Refusals (an unknown optimiser, a merged adapter) come when training begins. The Trainer saves `done` in
    each checkpoint, so that a resumed run does not pivot twice; a checkpoint at the step of the pivot holds
    the turned factors. The pivot is noted in ``state.log_history``.

    Examples
    --------
    >>> trainer = Trainer(model, args, train_dataset=data, callbacks=[PivotCallback()])  # doctest: +SKIP
    """

    def __init__(
        self,
        at: float | int = 0.1,
        once: bool = True,
        *,
        adapter_name: str = "default",
        rotation: str | ArrayLike = "svd",
        moments: str = "transport",
        reseed_idle: bool = False,
        random_state: int = 0,
    ) -> None:
        share = isinstance(at, (float, np.floating))
        self.at = probability("at", at, open=True) if share else integer("at", at, low=1)
        if not isinstance(reseed_idle, bool):
            raise TypeError(
                f"reseed_idle must be a bool here, got {type(reseed_idle).__name__}; call pivot_ for more"
            )
        self.once, self.random_state = once, integer("random_state", random_state, low=0)
        self.adapter_name, self.rotation = adapter_name, rotation
        self.moments, self.reseed_idle = moments, reseed_idle
        self.done = False
        self.reports: list[PivotReport] = []

    def state(self) -> dict[str, Any]:
        """What the Trainer writes into a checkpoint.

        Returns
        -------
        dict
            Arguments and `done`, of plain types.
        """
        rotation = self.rotation
        if not isinstance(rotation, str):
            rotation = rotation.tolist() if hasattr(rotation, "tolist") else np.asarray(rotation).tolist()
        arguments = {"at": self.at, "once": bool(self.once), "random_state": self.random_state}
        arguments |= self._options() | {"rotation": rotation}
        return {"args": arguments, "attributes": {"done": self.done}}

    def _options(self) -> dict[str, Any]:
        names = ("adapter_name", "rotation", "moments", "reseed_idle")
        return {name: getattr(self, name) for name in names}

    def step(self, max_steps: int) -> int:
        """Update after which the pivot takes place.

        Parameters
        ----------
        max_steps : int
            Updates of the whole run.

        Returns
        -------
        int
            A number of updates, >= 1.
        """
        return max(1, round(self.at * max_steps)) if isinstance(self.at, float) else self.at

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Check that the pivot can take place, and whether it has.

        Parameters
        ----------
        args, state, control
            The Trainer's.
        **kwargs
            The Trainer's model and optimizer.
        """
        stored = state.stateful_callbacks.get(type(self).__name__)
        if state.global_step == 0:
            self.done = False
        elif stored is not None:
            entries = stored if isinstance(stored, list) else [stored]
            self.done = self.done or any(entry.get("attributes", {}).get("done") for entry in entries)
        if stored is None:
            # resumed from a run without this callback; the Trainer expects an entry when it saves
            state.stateful_callbacks[type(self).__name__] = self.state()
        if self.done and self.once:
            return
        at = self.step(state.max_steps)
        if self.once and not state.global_step < at <= state.max_steps:
            warnings.warn(
                f"no pivot will take place: at={self.at} is step {at}, and training goes from step "
                f"{state.global_step} to {state.max_steps}; choose another at",
                UserWarning,
                stacklevel=2,
            )
        _prepare(kwargs.get("model"), kwargs.get("optimizer"), **self._options())

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Pivot, where this is the step.

        Parameters
        ----------
        args, state, control
            The Trainer's.
        **kwargs
            The Trainer's model and optimizer.
        """
        at = self.step(state.max_steps)
        due = state.global_step == at and not self.done if self.once else state.global_step % at == 0
        if not due:
            return
        seed = self.random_state + int(state.global_step)
        report = pivot_(kwargs["model"], kwargs.get("optimizer"), **self._options(), random_state=seed)
        self.done = True
        self.reports.append(report)
        state.log_history.append(
            {
                "step": int(state.global_step),
                "pivot_rel_change": report.max_rel_change,
                "pivot_layers": report.n_layers,
            }
        )
        logger.info(report.summary())
