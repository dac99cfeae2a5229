"""Few-shot LoRA of one linear layer under a frozen head, many tasks at once, and the starts to compare."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, one_of, positive
from porism.results import Result
from porism.sims.alignment._rotation import MOMENTS, canonical, move_second, random_rotation, rotate
from porism.theory.alignment import principal_subspace

__all__ = [
    "FEWSHOT_OPTIMIZERS",
    "STARTS",
    "LinearPivot",
    "LoraPath",
    "lora_start",
    "random_head",
    "train_lora",
]

FEWSHOT_OPTIMIZERS = ("sgd", "momentum", "adam")
"""Plain gradient descent, with heavy-ball momentum 0.9, and Adam; all on the full batch."""

STARTS = ("kaiming", "orthonormal", "pca")
"""Kaiming-uniform with a = sqrt(5), uniformly random orthonormal rows, top principal directions."""

_BETAS, _EPS, _MOMENTUM = (0.9, 0.999), 1e-8, {"sgd": 0.0, "momentum": 0.9}

Floats = NDArray[np.float64]


def lora_start(
    kind: str,
    x: ArrayLike,
    r: int,
    *,
    match_norm: bool = True,
    random_state: np.random.Generator | int | None = None,
) -> Floats:
    """Make the matrix A that LoRA starts from.

    Parameters
    ----------
    kind : {"kaiming", "orthonormal", "pca"}
        Which of `STARTS`.
    x : array_like of shape (n, d)
        Training rows; "pca" reads them, the others only d.
    r : int
        Rank, 1..d.
    match_norm : bool, default True
        Whether A is scaled to ``|A|_F^2 = r``, that of orthonormal rows. Without it the Kaiming start has
        ``E|A|_F^2 = r / 3`` and a first step three times smaller, whatever its directions.
    random_state : Generator, int or None
        Source of the random kinds, and of rows that the data do not determine.

    Returns
    -------
    float64 array of shape (r, d)
        A.

    Raises
    ------
    ValueError
        If the kind is unknown or r out of range.

    Examples
    --------
    >>> x = np.outer([1.0, -1.0, 3.0], [0.6, 0.8])
    >>> lora_start("pca", x, 1).round(9)
    array([[0.6, 0.8]])
    """
    one_of("kind", kind, STARTS)
    rows = finite_array("x", x, 2)
    d, rng = rows.shape[1], generator(random_state, "random_state")
    r = integer("r", r, 1, d)
    if kind == "pca":
        return principal_subspace(rows, r, random_state=rng).basis
    if kind == "orthonormal":
        return np.linalg.qr(rng.standard_normal((d, r)))[0].T.copy()
    a = rng.uniform(-1, 1, (r, d)) / math.sqrt(d)
    return a * math.sqrt(r) / float(np.linalg.norm(a)) if match_norm else a


def random_head(C: int, m: int, random_state: np.random.Generator | int | None = None) -> Floats:
    """Draw a frozen head with entries from N(0, 1/m).

    Parameters
    ----------
    C, m : int
        Number of classes and width of the layer's output, >= 1.
    random_state : Generator, int or None
        Source.

    Returns
    -------
    float64 array of shape (C, m)
        The head.

    Examples
    --------
    >>> random_head(2, 16, 0).shape
    (2, 16)
    """
    C, m = integer("C", C, 1), integer("m", m, 1)
    return generator(random_state, "random_state").standard_normal((C, m)) / math.sqrt(m)


@dataclasses.dataclass(frozen=True, eq=False)
class LinearPivot(Result):
    """A rotation of the rank index in the middle of a run, ``(A, B) -> (QA, BQ')``.

    Parameters
    ----------
    at : int
        Number of steps before it, >= 1.
    rotation : {"canonical", "random"}
        Eigenvectors of B'B, or a uniformly random rotation for each task.
    moments : {"transport", "reset", "keep", "zero_second"}
        What becomes of the optimiser's averages: moved along (second moments by the squares of Q), started
        afresh with the step count, left as they are, or only the second moment set to zero.
    seed : int, default 0
        Of a random rotation.

    Examples
    --------
    >>> LinearPivot(6, "canonical", "transport").at
    6
    """

    at: int
    rotation: str = "canonical"
    moments: str = "transport"
    seed: int = 0

    def __post_init__(self) -> None:
        integer("at", self.at, 1)
        integer("seed", self.seed, 0)
        one_of("rotation", self.rotation, ("canonical", "random"))
        one_of("moments", self.moments, MOMENTS)


@dataclasses.dataclass(frozen=True, eq=False)
class LoraPath(Result):
    """What LoRA of a linear layer passed through; leading axes ``...`` are tasks.

    Parameters
    ----------
    steps : int64 array of shape (k,)
        Recorded steps; 0 is the start.
    a : float64 array of shape (k, ..., r, d)
        A at each of them.
    b : float64 array of shape (k, ..., m, r)
        B at each of them.
    losses : float64 array of shape (T + 1, ...)
        Training loss before each step and after the last, nats.
    head : float64 array of shape (..., C, m)
        The frozen head.
    bias : float64 array of shape (..., C)
        Its bias.
    scaling : float
        Factor s of BA.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [-1.0, 0.0]])
    >>> path = train_lora(x, [0, 1], np.eye(2)[:1], np.eye(2), optimizer="sgd", lr=0.1, steps=1)
    >>> path.product()[-1].round(9)
    array([[ 0.2,  0. ],
           [-0.2,  0. ]])
    """

    steps: NDArray[np.int64]
    a: Floats
    b: Floats
    losses: Floats
    head: Floats
    bias: Floats
    scaling: float

    def product(self) -> Floats:
        """The update of the layer, ``s B A``.

        Returns
        -------
        float64 array of shape (k, ..., m, d)
            One a recorded step.
        """
        return self.scaling * self.b @ self.a

    def weights(self) -> Floats:
        """The linear classifier that the adapted layer and the head make, ``s H B A``.

        Returns
        -------
        float64 array of shape (k, ..., C, d)
            One a recorded step.
        """
        return self.scaling * (self.head @ self.b) @ self.a


def train_lora(
    x: ArrayLike,
    y: ArrayLike,
    a: ArrayLike,
    head: ArrayLike,
    *,
    bias: ArrayLike | None = None,
    optimizer: str = "adam",
    lr: float = 3e-4,
    steps: int = 60,
    scaling: float = 2.0,
    record: Iterable[int] | None = None,
    pivot: LinearPivot | None = None,
) -> LoraPath:
    """Train A and B of ``logits = H s B A x + bias`` from B = 0 on the whole few-shot set.

    The loss is the mean cross-entropy. The layer's own weight is 0: what it would add to the logits is the
    same for every start, and without it the first step is that of a zero head (the projected centroids).

    Parameters
    ----------
    x : array_like of shape (..., n, d)
        Training rows; leading axes are tasks that are trained side by side.
    y : array_like of int, shape (..., n)
        Their classes, 0..C-1.
    a : array_like of shape (..., r, d)
        Start of A.
    head : array_like of shape (..., C, m)
        Frozen head.
    bias : array_like of shape (..., C), optional
        Frozen bias of the logits; by default the log of the class shares in y, where every class occurs.
    optimizer : {"sgd", "momentum", "adam"}
        Which of `FEWSHOT_OPTIMIZERS`; no weight decay. Adam has betas (0.9, 0.999) and eps 1e-8.
    lr : float, default 3e-4
        Step size, > 0.
    steps : int, default 60
        Number of steps T, >= 1.
    scaling : float, default 2
        Factor s of BA, > 0: LoRA's alpha / r, here alpha = 2 r.
    record : iterable of int, optional
        Steps to keep, 0..T; by default 0, 1, T // 4 and T.
    pivot : LinearPivot, optional
        Rotation after one of the steps; its `at` must be below T.

    Returns
    -------
    LoraPath
        A and B at the recorded steps, and the losses.

    Raises
    ------
    TypeError, ValueError
        If a shape does not fit, a label is out of range, or an argument is.

    Notes
    -----
    Time O(T n d r) and memory O(n d + r d) a task.

    References
    ----------
    Hu et al. (2022), "LoRA: low-rank adaptation of large language models", arXiv 2106.09685. Kingma and Ba
    (2015), "Adam: a method for stochastic optimization", arXiv 1412.6980.

    Examples
    --------
    >>> from porism.sims.alignment.spiked import sample_class_task
    >>> task = sample_class_task(64, 16, 2, 6.0, random_state=0)
    >>> start = lora_start("pca", task.x, 4)
    >>> path = train_lora(task.x, task.y, start, random_head(2, 8, 0))
    >>> bool(path.losses[-1] < path.losses[0])
    True
    """
    rows, a0 = finite_array("x", x), finite_array("a", a)
    H, labels = finite_array("head", head), np.asarray(y)
    one_of("optimizer", optimizer, FEWSHOT_OPTIMIZERS)
    lr, T, s = positive("lr", lr), integer("steps", steps, 1), positive("scaling", scaling)
    if labels.dtype.kind not in "iu":
        raise TypeError(f"y must hold integer classes, got dtype {labels.dtype}; convert it with astype(int)")
    if rows.ndim < 2 or a0.ndim != rows.ndim or H.ndim != rows.ndim or labels.shape != rows.shape[:-1]:
        raise ValueError(
            "x, y, a and head must have the shapes (..., n, d), (..., n), (..., r, d) and (..., C, m), got "
            f"{rows.shape}, {labels.shape}, {a0.shape} and {H.shape}; give every task its own start and head"
        )
    tasks, (n, d), C = rows.shape[:-2], rows.shape[-2:], H.shape[-2]
    if a0.shape[:-2] != tasks or H.shape[:-2] != tasks or a0.shape[-1] != d:
        raise ValueError(
            f"a must have shape {(*tasks, 'r', d)} and head {(*tasks, 'C', 'm')}, got {a0.shape} and "
            f"{H.shape}; give every task its own start and head"
        )
    if labels.size and (labels.min() < 0 or labels.max() >= C):
        raise ValueError(
            f"y must be in 0..{C - 1}, got {labels.min()}..{labels.max()}; the head has {C} rows"
        )
    onehot = (labels[..., None] == np.arange(C)).astype(np.float64)
    if bias is None:
        shares = onehot.mean(axis=-2)
        c = np.log(np.where(shares > 0, shares, 1.0))
        if (shares == 0).any():
            raise ValueError("y must have every class of the head where bias is None; pass a bias")
    else:
        c = np.broadcast_to(finite_array("bias", bias), (*tasks, C)).copy()
    wanted = sorted({integer("record", k, 0, T) for k in ((0, 1, T // 4, T) if record is None else record)})
    if pivot is not None:
        integer("pivot.at", pivot.at, 1, T - 1)

    A, B = a0.copy(), np.zeros((*tasks, H.shape[-1], a0.shape[-2]))
    state = _State(optimizer, lr, A, B)
    kept: list[tuple[Floats, Floats]] = []
    losses = np.empty((T + 1, *tasks))
    for k in range(T + 1):
        if k in wanted:
            kept.append((A.copy(), B.copy()))
        z = rows @ A.mT
        logits = s * z @ (H @ B).mT + c[..., None, :]
        logits = logits - logits.max(axis=-1, keepdims=True)
        total = np.exp(logits).sum(axis=-1, keepdims=True)
        losses[k] = np.mean(np.log(total[..., 0]) - np.sum(logits * onehot, axis=-1), axis=-1)
        if k == T:
            break
        error = s / n * (np.exp(logits) / total - onehot) @ H  # s dL/dh of each row, shape (..., n, m)
        state.step(A, B, (error @ B).mT @ rows, error.mT @ z)
        if pivot is not None and pivot.at == k + 1:
            q = (
                canonical(B)
                if pivot.rotation == "canonical"
                else random_rotation(np.random.default_rng(pivot.seed), tasks, A.shape[-2])
            )
            A[...], B[...] = rotate(A, B, q)
            state.pivot(q, pivot.moments)
    return LoraPath(
        np.array(wanted), np.stack([p[0] for p in kept]), np.stack([p[1] for p in kept]), losses, H, c, s
    )


class _State:
    """Averages of the gradients of A and B, and the update that they make."""

    def __init__(self, optimizer: str, lr: float, a: Floats, b: Floats) -> None:
        self.optimizer, self.lr, self.t = optimizer, lr, 0
        self.first: list[Any] = [np.zeros_like(a), np.zeros_like(b)]
        self.second: list[Any] = [np.zeros_like(a), np.zeros_like(b)]

    def step(self, a: Floats, b: Floats, grad_a: Floats, grad_b: Floats) -> None:
        self.t += 1
        for i, (value, grad) in enumerate(((a, grad_a), (b, grad_b))):
            if self.optimizer != "adam":
                self.first[i] = _MOMENTUM[self.optimizer] * self.first[i] + grad
                value -= self.lr * self.first[i]
            else:
                self.first[i] = _BETAS[0] * self.first[i] + (1 - _BETAS[0]) * grad
                self.second[i] = _BETAS[1] * self.second[i] + (1 - _BETAS[1]) * grad**2
                scale = np.sqrt(self.second[i] / (1 - _BETAS[1] ** self.t)) + _EPS
                value -= self.lr / (1 - _BETAS[0] ** self.t) * self.first[i] / scale

    def pivot(self, q: Floats, moments: str) -> None:
        if moments == "reset":
            self.t, self.first = 0, [np.zeros_like(part) for part in self.first]
        elif moments != "keep":
            self.first = list(rotate(self.first[0], self.first[1], q))
        if moments == "transport":
            self.second = list(move_second(self.second[0], self.second[1], q))
        elif moments != "keep":
            self.second = [np.zeros_like(part) for part in self.second]
