"""Parameters, batches and losses of a torch model, checked; names of parameters are kept throughout."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array, require
from porism.errors import AssumptionError

Params = dict[str, Any]
LossVector = Callable[[Any, Any], Any]
ValLoss = Callable[[Any], Any]

SEPARABLE = 1e-5  # relative change of a sample's gradient by its company; 64 roundings in lower precision


def parameters(params: Any) -> Params:
    """Tensors by name, cut off from any graph."""
    torch = require("torch", "torch")
    if torch.is_inference_mode_enabled():
        raise ValueError(
            "derivatives must be allowed, got torch.inference_mode(), which rules them out; leave it, or use "
            "torch.no_grad()"
        )
    if not isinstance(params, Mapping):
        raise TypeError(
            f"params must map names to tensors, got {type(params).__name__}; "
            "pass dict(model.named_parameters())"
        )
    if not params:
        raise ValueError("params must hold one tensor or more, got none; pass dict(model.named_parameters())")
    for name, value in params.items():
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            kind = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
            raise TypeError(f"params[{name!r}] must be a tensor of floats, got {kind}; leave buffers out")
    return {name: value.detach() for name, value in params.items()}


def samples(batch: Any) -> int:
    """Length of the first axis, which all arrays of a batch share."""
    lengths = {int(leaf.shape[0]) if len(leaf.shape) else 0 for leaf in _leaves(batch)}
    if not lengths:
        raise TypeError(
            f"batch must hold tensors or arrays, got {type(batch).__name__}; pass a tensor, or a tuple, list "
            "or dict of them"
        )
    if len(lengths) > 1 or 0 in lengths:
        raise ValueError(
            f"all arrays of batch must share a first axis of one or more samples, got lengths "
            f"{sorted(lengths)}; put samples first"
        )
    return lengths.pop()


def _leaves(batch: Any) -> Iterator[Any]:
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, (tuple, list)):
        for value in batch:
            yield from _leaves(value)
    elif hasattr(batch, "shape"):
        yield batch


def take(batch: Any, at: Any) -> Any:
    """The samples at an index or slice, in a batch of the same form."""
    if isinstance(batch, Mapping):
        return {key: take(value, at) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(take(value, at) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(take(value, at) for value in batch)
    return batch[at] if hasattr(batch, "shape") else batch


def pieces(batch: Any, n: int, chunk: int | None) -> Iterator[tuple[slice, Any]]:
    """The batch in chunks, each with the places of its samples."""
    if chunk is None or chunk >= n:
        yield slice(0, n), batch
        return
    for start in range(0, n, chunk):
        at = slice(start, min(start + chunk, n))
        yield at, take(batch, at)


def losses(loss_vector: LossVector, params: Any, part: Any, at: slice) -> Any:
    """One finite loss a sample."""
    torch = require("torch", "torch")
    found, count = loss_vector(params, part), at.stop - at.start
    if not isinstance(found, torch.Tensor):
        raise TypeError(f"loss_vector must return a tensor, got {type(found).__name__}")
    if found.ndim == 0:
        raise ValueError(
            "loss_vector must return one loss a sample, got a scalar; compute the loss with reduction='none'"
        )
    if tuple(found.shape) != (count,):
        raise ValueError(
            f"loss_vector must return shape ({count},) for {count} samples, got {tuple(found.shape)}; "
            "average over tokens, not over samples"
        )
    finite = found.detach().isfinite()
    if not bool(finite.all()):
        where = int((~finite).nonzero()[0, 0])
        raise ValueError(
            f"loss_vector must be finite, got {float(found.detach()[where])} at sample {at.start + where}; "
            "drop the sample or mend its loss"
        )
    return found


def one_loss(params: Any, loss_vector: LossVector, part: Any, at: slice, place: int) -> Any:
    """The loss of one sample among others."""
    return losses(loss_vector, params, part, at)[place]


def scalar(val_loss: ValLoss, params: Any) -> Any:
    """The validation loss, one finite number."""
    torch = require("torch", "torch")
    found = val_loss(params)
    if not isinstance(found, torch.Tensor) or found.numel() != 1:
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise ValueError(f"val_loss must return one number as a tensor, got {shape}; take the mean")
    found = found.reshape(())
    if not bool(found.detach().isfinite()):
        raise ValueError(
            f"val_loss must be finite, got {float(found.detach())}; lower lr, or look for bad validation data"
        )
    return found


def gradient(name: str, function: Callable[..., Any], params: Params, *rest: Any) -> tuple[Any, Params]:
    """Value and gradient of a function of the parameters and the rest; `name` is who is to blame."""
    torch = require("torch", "torch")
    with torch.enable_grad():
        leaves = {key: value.detach().requires_grad_() for key, value in params.items()}
        value = function(leaves, *rest)
        if value.requires_grad:
            parts = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
        if not value.requires_grad or all(part is None for part in parts):
            raise ValueError(
                f"{name} must depend on the parameters that it is given, got one that does not; "
                "run the model through torch.func.functional_call(model, params, ...)"
            )
    found = {
        key: torch.zeros_like(leaf) if part is None else part
        for (key, leaf), part in zip(params.items(), parts, strict=True)
    }
    return value.detach(), found


def steady_gradient(val_loss: ValLoss, params: Params) -> tuple[float, Params]:
    """Gradient of the validation loss, refused where it draws from torch's global generator."""
    torch = require("torch", "torch")
    devices = {value.device for value in params.values() if value.is_cuda}

    def states() -> list[Any]:
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]

    before = states()
    value, found = gradient("val_loss", lambda p: scalar(val_loss, p), params)
    if not all(torch.equal(a, b) for a, b in zip(before, states(), strict=True)):
        raise AssumptionError(
            "val_loss must be deterministic, got one that draws random numbers; switch dropout off with "
            "model.eval()"
        )
    return float(value), found


def separable(
    loss_vector: LossVector, params: Params, batch: Any, n: int, check: int, reference: float
) -> None:
    """Refuse losses that are random, or that depend on who else is in the batch."""
    torch = require("torch", "torch")
    count = min(check, n)
    if count < 2:
        return
    at = slice(0, count)
    part = take(batch, at)
    with torch.no_grad():
        first, second = (losses(loss_vector, params, part, at) for _ in range(2))
    eps = torch.finfo(first.dtype).eps
    tolerance = max(SEPARABLE, 64 * eps)
    size = float(first.abs().max())
    if float((first - second).abs().max()) > tolerance * size:
        raise AssumptionError(
            "loss_vector must be deterministic, got two answers for one batch; switch dropout off with "
            "model.eval()"
        )
    for i in range(count):
        own = slice(i, i + 1)
        _, among = gradient("loss_vector", one_loss, params, loss_vector, part, at, i)
        try:
            _, alone = gradient("loss_vector", one_loss, params, loss_vector, take(batch, own), own, 0)
        except (RuntimeError, ValueError) as error:
            raise AssumptionError(
                f"loss_vector must take each sample on its own, yet fails on sample {i} alone: {error}; put "
                "batch normalisation in eval mode"
            ) from error
        scale = max(norm(among), norm(alone), reference)
        change = norm({name: among[name] - alone[name] for name in alone})
        if change > tolerance * scale:
            raise AssumptionError(
                f"losses must not depend on the rest of the batch, got a gradient of sample {i} that changes "
                f"by {change / scale:.1e} of its size when the batch is split; put batch normalisation in "
                "eval mode, use no loss across samples, or pass check=0 if this is rounding"
            )


def norm(values: Params) -> float:
    """Euclidean norm over all tensors."""
    torch = require("torch", "torch")
    parts = (value.float() if value.element_size() < 4 else value for value in values.values())
    return math.hypot(*(float(torch.linalg.vector_norm(part)) for part in parts))


def weight_vector(weights: Any, n: int, like: Any) -> Any:
    """One weight a sample, never below single precision."""
    torch = require("torch", "torch")
    dtype = torch.promote_types(like.dtype, torch.float32)
    if weights is None:
        return torch.ones(n, dtype=dtype, device=like.device)
    array = finite_array("weights", weights)
    if array.shape != (n,):
        raise ValueError(
            f"weights must have shape ({n},), got {array.shape}; pass one weight for each sample of batch"
        )
    return torch.tensor(array, dtype=dtype, device=like.device)  # copied: pandas' are read-only


def parameter_mask(mask: Any, params: Params) -> Params | None:
    """One factor a parameter; a number stands for a whole tensor."""
    torch = require("torch", "torch")
    if mask is None:
        return None
    if not isinstance(mask, Mapping):
        raise TypeError(f"mask must map names to tensors or numbers, got {type(mask).__name__}")
    if set(mask) != set(params):
        wrong = sorted(set(mask) ^ set(params))[0]
        raise ValueError(
            f"mask must have the names of params, got a difference at {wrong!r}; pass 0.0 or 1.0 for one "
            "that is wholly out or in"
        )
    found = {}
    for name, value in params.items():
        factor = mask[name]
        if not isinstance(factor, torch.Tensor):
            factor = finite_array(f"mask[{name!r}]", factor)
        factor = torch.as_tensor(factor, dtype=value.dtype, device=value.device).detach()
        if factor.ndim and factor.shape != value.shape:
            raise ValueError(
                f"mask[{name!r}] must have shape {tuple(value.shape)}, got {tuple(factor.shape)}; "
                "one factor a parameter, or one number"
            )
        if not bool(factor.isfinite().all()):
            raise ValueError(f"mask[{name!r}] must be finite, got NaN or infinity; use 0 and 1")
        found[name] = factor.expand(value.shape)
    return found


def indices(name: str, values: Any, total: int) -> NDArray[np.int64]:
    """Places in 0..total-1."""
    found = np.asarray(values)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"{name} must be sequences of ints, got dtype {found.dtype}, shape {found.shape}")
    wrong = found[(found < 0) | (found >= total)]
    if wrong.size:
        raise ValueError(f"{name} must be in 0..{total - 1}, got {int(wrong[0])}; count columns from 0")
    return found.astype(np.int64)
