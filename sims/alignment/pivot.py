"""Rotation of an adapter's rank coordinates that leaves its product, and so the model, as it is."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import generator
from porism.errors import NumericalWarning
from porism.results import Result
from porism.sims.alignment import _moments, _rank_space
from porism.sims.alignment._adapters import Adapter, double, find_adapters, write
from porism.sims.alignment.features import Features

__all__ = ["PivotReport", "pivot_"]

Floats = NDArray[np.float64]
NOTICEABLE = 1e-3


@dataclasses.dataclass(frozen=True, eq=False)
class PivotReport(Result):
    """What a pivot changed.

    Parameters
    ----------
    max_rel_change : float
        Largest ``||B'A' - BA||_F / ||BA||_F`` of a module, from the stored values: rounding, nothing else.
    offdiag_before, offdiag_after : float
        Largest share of the norm of ``A A'`` off its diagonal, before and after.
    n_layers : int
        Number of modules.
    module : str array of shape (n_layers,)
        Their full names.
    rel_change, offdiag_a_before, offdiag_a_after : float64 arrays of shape (n_layers,)
        The same for each module.
    n_reseeded : int64 array of shape (n_layers,)
        Idle rank coordinates that were given a new direction.
    rotation, moments : str
        What was done; "given" for a matrix of the caller's.
    optimizer : str
        Kind whose averages were moved: "adam", "sgd", or "none".

    Examples
    --------
    >>> values = np.array([1e-8])
    >>> PivotReport(1e-8, 0.1, 0.0, 1, np.array(["a"]), values, values, values, np.array([0])).summary()
    "svd pivot of 1 modules: BA changed by 1.0e-08 at most, off-diagonal of AA' 0.1 -> 0, moments: none moved"
    """

    max_rel_change: float
    offdiag_before: float
    offdiag_after: float
    n_layers: int
    module: NDArray[np.str_]
    rel_change: Floats
    offdiag_a_before: Floats
    offdiag_a_after: Floats
    n_reseeded: NDArray[np.int64]
    rotation: str = "svd"
    moments: str = "transport"
    optimizer: str = "none"

    def summary(self) -> str:
        """Say in one line what changed.

        Returns
        -------
        str
            Modules, largest change, and what became of the optimiser's averages.
        """
        moved = "none moved" if self.optimizer == "none" else f"{self.moments} ({self.optimizer})"
        fresh = int(self.n_reseeded.sum())
        return (
            f"{self.rotation} pivot of {self.n_layers} modules: BA changed by {self.max_rel_change:.1e} "
            f"at most, off-diagonal of AA' {self.offdiag_before:.3g} -> {self.offdiag_after:.3g}, "
            f"moments: {moved}" + (f", {fresh} idle rows re-seeded" if fresh else "")
        )


def pivot_(
    model: Any,
    optimizer: Any = None,
    *,
    adapter_name: str = "default",
    rotation: str | ArrayLike = "svd",
    moments: str = "transport",
    reseed_idle: bool | Mapping[str, Features] = False,
    random_state: np.random.Generator | int | None = None,
) -> PivotReport:
    """Turn an adapter in rank space, in place: ``(A, B) -> (QA, BQ')`` with Q orthogonal leaves BA as it is.

    Parameters
    ----------
    model : torch.nn.Module
        Model with LoRA of linear layers.
    optimizer : torch.optim.Optimizer, optional
        The one that trains it; wrappers such as accelerate's are looked into. Without it no averages move.
    adapter_name : str, default "default"
        Adapter to turn.
    rotation : {"svd", "random"} or array_like of shape (r, r)
        "svd": rows of Q are the eigenvectors of ``B'B``, largest first, each with its largest entry in size
        positive, so that the columns of B become orthogonal; the identity where B = 0. "random": Haar. Or one
        orthogonal matrix for all modules.
    moments : {"transport", "reset", "keep"}
        "transport": first moments turn with their factors, second moments ``v'_kj = sum_l Q_kl^2 v_lj``.
        "reset": averages and step count of these parameters start anew. "keep": left as they are.
    reseed_idle : bool or dict of str to Features, default False
        Whether rank coordinates that B does not use, which "svd" brings to light, get a new row of A, of the
        length of the old one: a random direction, or the principal directions of the features given that A
        does not hold yet. For SGD, whose B has rank C - 1 at most before a frozen head of C classes. Its use
        is not verified.
    random_state : Generator, int or None
        Draws random rotations and directions; give the same seed to all processes.

    Returns
    -------
    PivotReport
        Change of BA by rounding, and how far ``A A'`` is from diagonal.

    Raises
    ------
    TypeError
        If the model has no adapters, or the optimiser is not Adam, AdamW or SGD and moments is not "keep".
    ValueError
        If an argument is out of range, Q is not orthogonal or of another rank, or a factor is not finite or
        is trainable but not in the optimiser.
    NotImplementedError
        If the adapter holds more than LoRA of linear layers, or sharded parameters.
    RuntimeError
        If the adapter is merged, or shares its factors.
    MissingExtraError
        If torch or peft is not installed.

    Warns
    -----
    NumericalWarning
        If BA changes by more than 1e-3, as factors in bfloat16 do.

    Notes
    -----
    All refusals come before the first write; the product is formed in float64 on the host and written back in
    the factors' own type. Under gradient descent, with momenta transported, the path of BA is the same with
    and without a pivot; Adam's is not. Second moments cannot be moved exactly: the rule is exact for signed
    permutations and for gradients with uncorrelated rank coordinates. To zero them alone is refused. From
    orthonormal rows and B = 0 gradient flow keeps ``A A' - B'B`` at the identity, so "svd" makes the rows of
    A orthogonal too. Gradients, where present, turn with their factors. Cost: ``r^2 (d + m)`` a module.

    References
    ----------
    DK-21 to DK-25 (reconstruction: a rank-space pivot).

    Examples
    --------
    >>> pivot_(model, optimizer).summary()  # doctest: +SKIP
    "svd pivot of 24 modules: BA changed by 4.1e-08 at most, off-diagonal of AA' 0.12 -> 0.0008, ..."
    """
    plan = _prepare(model, optimizer, adapter_name, rotation, moments, reseed_idle)
    rng = generator(random_state, "random_state")
    rows = []
    for adapter, child in zip(plan.adapters, rng.spawn(len(plan.adapters)), strict=True):
        a, b = double(adapter.a), double(adapter.b)
        q = plan.q if plan.q is not None else _rank_space.rotation(plan.rotation, b, child)
        new_a, new_b = q @ a, b @ q.T
        idle = np.zeros(0, dtype=np.intp)
        if reseed_idle is not False:
            idle = _rank_space.idle(new_b, adapter)
            idle = _rank_space.reseed(new_a, new_b, idle, reseed_idle, adapter, child)
        write(adapter.a, new_a)
        write(adapter.b, new_b)
        for factor, left in ((adapter.a, True), (adapter.b, False)):
            if factor.grad is not None:
                grad = double(factor.grad)
                grad = q @ grad if left else grad @ q.T
                grad[(idle, slice(None)) if left else (slice(None), idle)] = 0.0  # of the old direction
                write(factor.grad, grad)
        if plan.kind != "none":
            _moments.move(plan.optimizer, adapter.a, adapter.b, q, moments)
            if idle.size:
                _moments.silence(plan.optimizer, adapter, idle)
        stored = double(adapter.a), double(adapter.b)
        rows.append(
            (_rank_space.change(a, b, *stored), _rank_space.off(a), _rank_space.off(stored[0]), idle.size)
        )
    return _report(plan, rows, moments)


@dataclasses.dataclass(frozen=True, eq=False)
class _Plan:
    adapters: list[Adapter]
    optimizer: Any
    kind: str
    rotation: str
    q: Floats | None


def _prepare(
    model: Any, optimizer: Any, adapter_name: str, rotation: Any, moments: str, reseed_idle: Any
) -> _Plan:
    """Everything that can be refused, before anything is written."""
    _moments.check_moments(moments)
    adapters = find_adapters(model, adapter_name, "pivoting")
    for adapter in adapters:
        if adapter_name in adapter.layer.merged_adapters:
            raise RuntimeError(f"adapter is merged; unmerge before pivoting (module {adapter.name!r})")
        for factor in (adapter.a, adapter.b):
            if not bool(factor.isfinite().all()):
                raise ValueError(
                    f"factors of {adapter.name!r} must be finite; training has diverged before the pivot"
                )
    optimizer = _moments.unwrap(optimizer)
    kind = _moments.admit(optimizer, adapters, moments)
    _check_reseed(reseed_idle, adapters, optimizer, kind, moments)
    if isinstance(rotation, str):
        if rotation not in ("svd", "random"):
            raise ValueError(f"rotation must be 'svd', 'random' or an orthogonal matrix, got {rotation!r}")
        return _Plan(adapters, optimizer, kind, rotation, None)
    return _Plan(adapters, optimizer, kind, "given", _rank_space.orthogonal(rotation, adapters))


def _check_reseed(reseed: Any, adapters: list[Adapter], optimizer: Any, kind: str, moments: str) -> None:
    if isinstance(reseed, bool):
        pass
    elif not isinstance(reseed, Mapping):
        raise TypeError(
            f"reseed_idle must be a bool or what collect_features returns, got {type(reseed).__name__}"
        )
    else:
        for adapter in adapters:
            rows = getattr(reseed.get(adapter.name), "x", None)
            if rows is None or rows.ndim != 2 or rows.shape[1] != adapter.d or len(rows) < 2:
                raise ValueError(
                    f"reseed_idle must hold at least 2 rows of {adapter.d} features for {adapter.name!r}; "
                    "collect them with collect_features(model, batches, modules)"
                )
    if (
        reseed is not False
        and optimizer is not None
        and (kind == "none" or (kind, moments) == ("adam", "transport"))
    ):
        raise ValueError(
            f"reseed_idle must go with SGD or moments='reset', got {type(optimizer).__name__} and "
            f"{moments!r}; averages of the old directions would drive the new ones"
        )


def _report(plan: _Plan, rows: list[tuple[float, float, float, int]], moments: str) -> PivotReport:
    change, before, after, fresh = (np.array(column) for column in zip(*rows, strict=True))
    worst = float(change.max())
    if worst > NOTICEABLE:
        name = plan.adapters[int(change.argmax())].name
        kinds = sorted({str(adapter.a.dtype).removeprefix("torch.") for adapter in plan.adapters})
        warnings.warn(
            f"the pivot changed BA of {name!r} by {worst:.2g} of its norm through rounding in "
            f"{', '.join(kinds)}; keep the factors in float32",
            NumericalWarning,
            stacklevel=3,
        )
    return PivotReport(
        max_rel_change=worst,
        offdiag_before=float(before.max()),
        offdiag_after=float(after.max()),
        n_layers=len(rows),
        module=np.array([adapter.name for adapter in plan.adapters]),
        rel_change=change,
        offdiag_a_before=before,
        offdiag_a_after=after,
        n_reseeded=fresh.astype(np.int64),
        rotation=plan.rotation,
        moments=moments,
        optimizer=plan.kind,
    )
