"""Muon with exact polar factors."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from porism.checks import not_negative, one_of
from porism.kernels import on_gpu
from porism.kernels.polar import cpu
from porism.kernels.polar._common import METHODS
from porism.kernels.polar._tensors import polar, thin, tolerance, working

__all__: list[str] = []

CHUNK = 4 << 20
"""Bytes of momentum that are orthogonalised at a time, so that they are still in the cache when used."""
SCALES = ("original", "match_rms_adamw")


class SpectralMuon(Optimizer):
    """Muon whose direction is the exact polar factor; takes the place of ``torch.optim.Muon``.

    ``m <- mu m + (1 - mu) g``, ``u = (1 - mu) g + mu m`` with Nesterov, else ``u = m``, and
    ``p <- (1 - lr wd) p - lr scale T_beta(u)``.

    Parameters
    ----------
    params : iterable of tensors or of param groups
        Matrices; every option below may be set by group.
    lr : float or tensor
        Learning rate >= 0.
    momentum : float, default 0.95
        mu in [0, 1).
    nesterov : bool, default True
        Whether the gradient looks ahead.
    weight_decay : float, default 0
        Decoupled decay wd >= 0, multiplied by `lr`. torch's default is 0.1.
    shape_scale : {None, "original", "match_rms_adamw"}
        Factor on lr for an m x n matrix: 1, ``sqrt(max(1, m / n))``, or ``0.2 sqrt(max(m, n))``. torch calls
        it `adjust_lr_fn`, and takes "original" where None is given.
    method : {"auto", "gram", "svd", "polynomial"}
        As in `polar_factor`.
    smoothing : float, default 0
        beta >= 0 in the unit of u: directions of u far below it hardly move, see Notes.

    Raises
    ------
    ValueError
        If a parameter is no matrix, or an option is out of range.
    RuntimeError
        In `step`, if a gradient is sparse or a parameter complex.

    Notes
    -----
    State, closure, learning-rate schedules and parameters without gradient behave as in torch, and
    ``momentum_buffer`` has torch's meaning, so the buffers of a ``torch.optim.Muon`` can be taken over.
    Gradients are never written to; the momentum buffer has the dtype of the gradient and everything after it
    is float32 (float64 for float64). A gradient of rank k moves k directions: at the start of LoRA,
    where B = 0, the zero gradient of A leaves A alone, and where it is nearly zero `smoothing` keeps noise
    from becoming steps of full size. NaN in a gradient reaches its own parameter only, as in torch; no error
    is raised.

    References
    ----------
    K. Jordan et al. (2024), Muon, https://kellerjordan.github.io/posts/muon/; the second shape factor:
    J. Liu et al. (2025), arXiv:2502.16982.

    Examples
    --------
    >>> p = torch.nn.Parameter(torch.tensor([[3.0, 0.0], [0.0, 0.5]]))
    >>> optimizer = SpectralMuon([p], lr=0.5)
    >>> p.square().sum().backward(), optimizer.step()
    (None, None)
    >>> p.detach().round(decimals=4).tolist()
    [[2.5, 0.0], [0.0, 0.0]]
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float = 0.0,
        shape_scale: str | None = None,
        method: str = "auto",
        smoothing: float = 0.0,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "nesterov": nesterov,
            "weight_decay": weight_decay,
            "shape_scale": shape_scale,
            "method": method,
            "smoothing": smoothing,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, with options of their own.

        Parameters
        ----------
        param_group : dict
            "params" and any option of the constructor.

        Returns
        -------
        None
        """
        super().add_param_group(param_group)
        try:
            _check(self.param_groups[-1])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step.

        Parameters
        ----------
        closure : callable, optional
            Evaluates the model again and returns the loss; gradients are recorded while it runs.

        Returns
        -------
        object
            What `closure` returned, or None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            batches: dict[Any, list[Any]] = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.is_complex() or p.grad.is_sparse:
                    what = "complex parameters" if p.is_complex() else "sparse gradients"
                    raise RuntimeError(
                        f"SpectralMuon does not support {what}; give them to another optimizer"
                    )
                batches.setdefault((min(p.shape), max(p.shape), p.grad.dtype, p.device), []).append(p)
            for (r, d, dtype, device), batch in batches.items():
                if r == 0:
                    continue
                size = max(1, CHUNK // (r * d * torch.finfo(working(dtype)).bits // 8))
                if device.type == "cuda":
                    size = len(batch)  # one launch
                for start in range(0, len(batch), size):
                    with torch.autocast(device.type, enabled=False):
                        self._move(batch[start : start + size], group)
        return loss

    def _move(self, params: list[Any], group: dict[str, Any]) -> None:
        """Momentum, direction and step of parameters of one short and long side."""
        momentum, dtype = group["momentum"], params[0].grad.dtype
        updates = []
        scratch = self._room(params[0].grad, len(params)) if group["nesterov"] else [None] * len(params)
        for p, room in zip(params, scratch, strict=True):
            state = self.state[p]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(p.grad, memory_format=torch.preserve_format)
            buffer = state["momentum_buffer"].lerp_(p.grad, 1 - momentum)
            update = buffer
            if room is not None:
                update = torch.lerp(p.grad, buffer, momentum, out=room.view(p.shape))
            updates.append(thin(update.to(working(dtype))))
        lr = float(group["lr"])
        keep = 1 - lr * group["weight_decay"]
        options = {"smoothing": group["smoothing"], "method": group["method"]}
        if on_gpu(params[0]):
            rtol = tolerance(dtype, None)
            factors = polar(torch.stack(updates), **options, rtol=rtol, out=None, check_finite=False,
                            return_rank=False, backend="auto")[0]  # fmt: skip
            for p, factor in zip(params, factors, strict=True):
                p.mul_(keep).add_(_like(factor, p), alpha=-lr * _scale(group["shape_scale"], p.shape))
            return
        solution = cpu.solve(updates, **options, rtol=tolerance(dtype, None), check=None, want_rank=False)
        for k, (p, P, x) in enumerate(zip(params, solution.P.unbind(), updates, strict=True)):
            rate = -lr * _scale(group["shape_scale"], p.shape)
            if k in solution.answer:
                p.mul_(keep).add_(_like(solution.answer[k], p), alpha=rate)
            elif k in solution.wide:
                p.mul_(keep).add_(_like(torch.mm(solution.wide[k], x.double()), p), alpha=rate)
            elif p.dtype != x.dtype:
                p.mul_(keep).add_(_like(torch.mm(P, x), p), alpha=rate)
            elif p.shape == x.shape:  # the factor itself is never written down
                p.addmm_(P, x, beta=keep, alpha=rate)
            else:
                p.addmm_(x.T, P, beta=keep, alpha=rate)

    def _room(self, like: Any, count: int) -> Any:
        """Memory for the updates of a chunk, kept between steps, as fresh pages are dear."""
        rooms = self.__dict__.setdefault("_rooms", {})
        room = rooms.get((like.dtype, like.device))
        if room is None or room.numel() < count * like.numel():
            room = torch.empty(count * like.numel(), dtype=like.dtype, device=like.device)
            rooms[like.dtype, like.device] = room
        return room[: count * like.numel()].view(count, -1)


def _like(factor: Any, p: Any) -> Any:
    """A thin factor turned as its parameter is."""
    return factor if factor.shape == p.shape else factor.mT


def _scale(name: str | None, shape: Any) -> float:
    """Factor on the learning rate of a matrix."""
    if name is None:
        return 1.0
    m, n = shape
    return math.sqrt(max(1.0, m / n)) if name == "original" else 0.2 * math.sqrt(max(m, n))


def _check(group: dict[str, Any]) -> None:
    """Refuse what no step could take."""
    for p in group["params"]:
        if p.ndim != 2:
            raise ValueError(
                f"SpectralMuon only supports 2-D parameters, got one of shape {tuple(p.shape)}; "
                "give biases, norms and convolutions to another optimizer, such as AdamW"
            )
    lr = group["lr"]
    if isinstance(lr, torch.Tensor) and lr.numel() != 1:
        raise ValueError(f"lr must have one element, got shape {tuple(lr.shape)}; pass a float")
    for name, high in (("lr", math.inf), ("momentum", 1.0), ("weight_decay", math.inf)):
        value = float(group[name])
        if not 0 <= value < high:
            rule = ">= 0 and finite" if high == math.inf else "in [0, 1)"
            raise ValueError(f"{name} must be {rule}, got {value!r}; choose a value in that range")
    if group["shape_scale"] is not None:
        one_of("shape_scale", group["shape_scale"], SCALES)
    one_of("method", group["method"], METHODS)
    if not_negative("smoothing", group["smoothing"]) and group["method"] == "polynomial":
        raise ValueError("method='polynomial' has no smoothing; use method='auto' or 'gram'")
