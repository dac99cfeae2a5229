"""Runs behind the figures: growth of modes, starts at random, orders of arrival, LoRA."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer
from porism.sims.drawing import is_paper
from porism.sims.spectral_flow.descent import simulate_descent
from porism.sims.spectral_flow.flow import simulate_flow
from porism.sims.spectral_flow.starts import lora_init, random_target
from porism.sims.spectral_flow.trajectory import FlowTrajectory

if TYPE_CHECKING:
    from porism.sims.spectral_flow.lora_run import LoraRun

__all__ = [
    "RACERS",
    "SPECTRUM",
    "START_KINDS",
    "TIMES",
    "arrival_races",
    "effective_starts",
    "growth_pair",
    "lora_runs",
    "order_violations",
    "random_flows",
    "ridge_flows",
    "saddle_flows",
]

Floats = NDArray[np.float64]

RACERS = ("spectral", "polar_express", "newton_schulz", "muon")
"""Optimisers whose orders of arrival are compared."""

START_KINDS = ((0.01, 0.01), (0.5, 0.01), (3.0, 0.01), (0.5, 0.3))
"""Standard deviation of both factors at the start, and smoothing, in `random_flows`."""

SPECTRUM = (5.0, 4.0, 3.0, 2.0, 1.0)
"""Singular values of targets."""

TIMES = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0)
"""Records of `random_flows`."""


def effective_starts(Y: ArrayLike, A0: ArrayLike) -> Floats:
    """Balanced start of each mode that has the gradient flow of a small LoRA start, to leading order.

    ``s0_i = R_ii^2 / 4`` with ``A0 V = Q R``, V the right singular vectors of the target.

    Parameters
    ----------
    Y : array_like, shape (m, n)
        Target, singular values distinct.
    A0 : array_like, shape (r, n)
        Second factor at the start; the first one is zero.

    Returns
    -------
    float64 array, shape (min(m, n, r),)
        Product singular values at time 0, largest target first.

    Raises
    ------
    ValueError
        If the shapes do not fit or a value is not finite.

    Notes
    -----
    At the start ``a = a0 cosh(sigma t)`` and ``b = a0 sinh(sigma t)``, so s grows as ``a0^2 exp(2 sigma t) /
    4``. Larger modes come first and take their directions of the inner space with them: what is left of
    column i of ``A0 V`` has length ``|R_ii|``.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> effective_starts(np.diag([2.0, 1.0]), [[0.2, 0.2], [0.0, 0.1]])
    array([0.01  , 0.0025])
    """
    target, A = finite_array("Y", Y, 2), finite_array("A0", A0, 2)
    if A.shape[1] != target.shape[1]:
        raise ValueError(
            f"A0 must have as many columns as Y, got {A.shape} and {target.shape}; the order is Y, A0"
        )
    V = np.linalg.svd(target, full_matrices=False)[2].T
    r = min(*target.shape, len(A))
    upper = np.linalg.qr(A @ V[:, :r])[1]
    return np.asarray(np.diagonal(upper) ** 2 / 4)


def growth_pair(
    scale: str, rng: np.random.Generator | int | None
) -> tuple[FlowTrajectory, FlowTrajectory, Floats]:
    """Spectral descent and gradient flow from the same LoRA start.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        Targets of 20 x 24 with three modes, or of 60 x 70 with five.
    rng : Generator, int or None
        Source of target and start.

    Returns
    -------
    (FlowTrajectory, FlowTrajectory, float64 array of shape (k,))
        Descent with steps of 0.01, gradient flow, and `effective_starts`.

    Raises
    ------
    MissingExtraError
        If torch is not installed.

    Examples
    --------
    >>> descent, flow, starts = growth_pair("smoke", 0)  # doctest: +SKIP
    >>> descent.arrival_order, flow.arrival_order  # doctest: +SKIP
    (((2,), (1,), (0,)), ((0,), (1,), (2,)))
    """
    big, rng = is_paper(scale), generator(rng)
    m, n, sigma = (60, 70, [9.0, 6.25, 4.0, 2.25, 1.0]) if big else (20, 24, [9.0, 4.0, 1.0])
    Y, start = random_target(m, n, sigma, rng), lora_init(m, n, len(sigma), 1e-3, rng)
    descent = simulate_descent(Y, *start, lr=0.01, steps=340)
    flow = simulate_flow(Y, *start, kind="gradient", t_end=12.0, t_eval=np.linspace(0, 12, 361))
    return descent, flow, effective_starts(Y, start[1])


@functools.cache
def random_flows(scale: str = "paper", seed: int = 0) -> tuple[FlowTrajectory, ...]:
    """Spectral flows from random starts towards a target of rank five, with factors of rank three.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        One start, or twelve, for each of `START_KINDS`.
    seed : int, default 0
        Of target and starts, >= 0.

    Returns
    -------
    tuple of FlowTrajectory
        4 or 48 runs until time 40, kind by kind; kept in memory, so do not change them.

    Examples
    --------
    >>> len(random_flows("smoke"))
    4
    """
    count = 12 if is_paper(scale) else 1
    root = np.random.default_rng(integer("seed", seed, 0))
    Y = random_target(8, 9, SPECTRUM, root)
    found = []
    for deviation, smoothing in START_KINDS:
        for rng in root.spawn(count):
            B0, A0 = deviation * rng.standard_normal((8, 3)), deviation * rng.standard_normal((3, 9))
            found.append(simulate_flow(Y, B0, A0, smoothing=smoothing, t_end=TIMES[-1], t_eval=TIMES))
    return tuple(found)


@functools.cache
def ridge_flows(scale: str = "paper", seed: int = 0) -> tuple[FlowTrajectory, ...]:
    """Spectral flows with a ridge, each from a random start of full rank.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        Three or twelve ridges between 0.25 and 5.2.
    seed : int, default 0
        Of target and starts, >= 0.

    Returns
    -------
    tuple of FlowTrajectory
        Until time 40, by ridge, towards singular values 5, 4, 3, 2, 1; kept in memory, so do not change them.

    Examples
    --------
    >>> [round(float(flow.singular_values[-1, 0]), 6) for flow in ridge_flows("smoke")]
    [4.75, 2.95, 1.15]
    """
    root = np.random.default_rng(integer("seed", seed, 0))
    Y = random_target(8, 9, SPECTRUM, root)
    ridges = 0.25 + 0.45 * np.arange(0, 12, 1 if is_paper(scale) else 4)
    found = []
    for ridge, rng in zip(ridges.tolist(), root.spawn(len(ridges)), strict=True):
        B0, A0 = rng.standard_normal((8, 5)), rng.standard_normal((5, 9))
        found.append(
            simulate_flow(
                Y, B0, A0, smoothing=0.01, ridge=ridge, t_end=TIMES[-1], t_eval=[0.0, 20.0, TIMES[-1]]
            )
        )
    return tuple(found)


def saddle_flows(
    amounts: Sequence[float], rng: np.random.Generator | int | None
) -> tuple[FlowTrajectory, ...]:
    """Spectral flows from a saddle of diag(4, 2, 1), where the first mode is absent, and from beside it.

    Parameters
    ----------
    amounts : sequence of float, of length k
        What is put into one entry of the absent mode; 0 is the saddle itself.
    rng : Generator, int or None
        Source of the other entries, the same for all runs.

    Returns
    -------
    tuple of FlowTrajectory, of length k
        With smoothing 0.3, until time 8.

    Raises
    ------
    ValueError
        If an amount is not finite.

    Notes
    -----
    An explicit method keeps the saddle: every term of its steps is exactly zero in the absent mode. Amounts
    that are small grow as ``exp(4 t / smoothing)``.

    Examples
    --------
    >>> stays, leaves = saddle_flows([0.0, 1e-6], 0)
    >>> round(float(stays.excess_loss[-1]), 6), bool(leaves.excess_loss[-1] < 1e-9)
    (8.0, True)
    """
    rng = generator(rng)
    Y, B0, A0 = np.diag([4.0, 2.0, 1.0]), *(0.5 * rng.standard_normal((2, 3, 3)))
    B0[0], A0[:, 0] = 0.0, 0.0
    found = []
    for amount in finite_array("amounts", amounts, 1).tolist():
        B = B0.copy()
        B[0, 0] = amount
        found.append(
            simulate_flow(
                Y,
                B,
                A0,
                smoothing=0.3,
                t_end=8.0,
                t_eval=np.linspace(0, 8, 161),
                method="DOP853",  # implicit methods solve for all entries together, and rounding fills zeros
                rtol=1e-12,
                atol=1e-16,
            )
        )
    return tuple(found)


@functools.cache
def arrival_races(
    scale: str = "paper", seed: int = 0, optimizers: tuple[str, ...] = RACERS
) -> dict[str, NDArray[np.int64]]:
    """Steps of arrival at 99 % of five singular values, by optimiser, from LoRA starts.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        One start or eight.
    seed : int, default 0
        Of targets and starts, >= 0; all optimisers see the same.
    optimizers : tuple of str, default RACERS
        Some of :data:`porism.sims.spectral_flow.OPTIMIZERS`.

    Returns
    -------
    dict of str to int64 array, shape (starts, 5)
        Steps of size 0.01 for the singular values 5, 4, 3, 2, 1 of a 60 x 70 target, -1 where not reached;
        kept in memory, so do not change them.

    Raises
    ------
    ImportError
        If torch is missing or too old for Muon.

    Examples
    --------
    >>> arrival_races("smoke", optimizers=("spectral",))["spectral"].tolist()  # doctest: +SKIP
    [[223, 200, 173, 142, 101]]
    """
    count = 8 if is_paper(scale) else 1
    root = np.random.default_rng(integer("seed", seed, 0))
    worlds = [
        (random_target(60, 70, SPECTRUM, rng), lora_init(60, 70, 5, 1e-3, rng)) for rng in root.spawn(count)
    ]

    def race(optimizer: str) -> NDArray[np.int64]:
        runs = [
            simulate_descent(Y, *start, optimizer=optimizer, lr=0.01, steps=260, record_every=260)
            for Y, start in worlds
        ]
        return np.array([run.arrival_steps for run in runs], dtype=np.int64)

    return {optimizer: race(optimizer) for optimizer in optimizers}


def order_violations(steps: ArrayLike) -> NDArray[np.bool_]:
    """Say of each neighbouring pair of modes whether the larger one arrived first.

    Parameters
    ----------
    steps : array_like of int, shape (..., k)
        Steps of arrival, largest target first; -1 is never.

    Returns
    -------
    bool array, shape (..., k - 1)
        Whether mode i arrived before mode i + 1, which is smaller.

    Raises
    ------
    ValueError
        If a value is not finite.

    Examples
    --------
    >>> order_violations([208, 217, 189, 170, 122]).tolist()
    [True, False, False, False]
    """
    found = finite_array("steps", steps)
    found = np.where(found < 0, np.inf, found)
    return np.asarray(found[..., :-1] < found[..., 1:])


@functools.cache
def lora_runs(scale: str = "paper", seed: int = 0) -> "tuple[LoraRun, ...]":
    """LoRA on the tiny transformer under the four optimisers of :func:`lora_comparison`, once a process.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        12 steps of a small run, or the 150 steps of :func:`porism.sims.spectral_flow.lora_run.lora_run`.
    seed : int, default 0
        Of everything, >= 0.

    Returns
    -------
    tuple of LoraRun
        Muon, AdamW, SGD, SpectralMuon; kept in memory, so do not change them.

    Raises
    ------
    ImportError
        If torch or safetensors is missing, or torch is too old for Muon.

    Examples
    --------
    >>> [round(run.growth().mean, 2) for run in lora_runs()]  # doctest: +SKIP
    [0.96, 0.53, 0.66, 0.97]
    """
    from porism.sims.spectral_flow.lora_run import lora_comparison

    small: dict[str, Any] = {"steps": 12, "record_every": 3, "rank": 4, "batch": 4, "length": 16}
    settings = {} if is_paper(scale) else small | {"pretrain_steps": 3}
    return lora_comparison(seeds=(integer("seed", seed, 0),), **settings)
