"""From tensors of any batch shape, side and dtype to batches (K, r, d), and back."""

from typing import Any

import torch

from porism.kernels import on_gpu
from porism.kernels.polar import _common as common
from porism.kernels.polar import _newton_schulz as steps_of
from porism.kernels.polar import cpu, reference

__all__: list[str] = []


def tolerance(dtype: torch.dtype, rtol: float | None) -> float:
    """Rank tolerance, by default that of the dtype."""
    info = torch.finfo(dtype)
    return common.default_rtol(info.bits, info.eps) if rtol is None else rtol


def working(dtype: torch.dtype) -> torch.dtype:
    """Half precision is computed in float32."""
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def thin(G: Any) -> Any:
    """Short side first."""
    return G.mT if G.shape[-2] > G.shape[-1] else G


@torch.no_grad()
def polar(
    G: Any,
    smoothing: float,
    method: str,
    rtol: float | None,
    out: Any,
    check_finite: bool,
    return_rank: bool,
    backend: str,
) -> tuple[Any, Any]:
    """Factor and rank (None unless asked for) of a tensor (..., m, n)."""
    if out is not None and (out.shape != G.shape or out.dtype != G.dtype or out.device != G.device):
        raise ValueError(
            f"out must have shape {tuple(G.shape)}, dtype {G.dtype} and the device of G, "
            f"got {tuple(out.shape)}, {out.dtype}; make it by torch.empty_like(G)"
        )
    batch, tol = tuple(G.shape[:-2]), tolerance(G.dtype, rtol)
    result: Any
    rank: Any
    if G.numel() == 0:
        rank = torch.zeros(batch, dtype=torch.int64, device=G.device)
        return (torch.zeros_like(G) if out is None else out), rank
    flat = G.detach().reshape(-1, *G.shape[-2:])
    made: Any
    with torch.autocast(G.device.type, enabled=False):
        if backend == "reference":
            flags = _nonfinite(flat) if check_finite else []
            common.refuse_nonfinite(flags, batch)
            made, ranks = reference.polar(flat.cpu().double().numpy(), smoothing, tol)
            result, rank = torch.from_numpy(made).to(G), torch.from_numpy(ranks).to(G.device)
        elif backend == "triton" or (backend == "auto" and on_gpu(G)):
            common.refuse_nonfinite(_nonfinite(flat) if check_finite else [], batch)
            from porism.kernels.polar import triton

            made = triton.polar(flat, smoothing=smoothing, method=method, rtol=tol, return_rank=return_rank)
            result, rank = made if return_rank else (made, None)
        else:
            place = None
            if (
                out is not None
                and G.dtype == working(G.dtype)
                and out.is_contiguous()
                and not _shared(out, G)
            ):
                place = out.view(flat.shape)
            result, rank = _on_cpu(
                flat.cpu(), smoothing, method, tol, place, batch, check_finite, return_rank
            )
            result = result.to(G.device)
    result = result.to(G.dtype).view(G.shape)
    if out is not None and result.data_ptr() != out.data_ptr():
        out.copy_(result)
    rank = rank.view(batch).to(G.device) if return_rank else None
    return (result if out is None else out), rank


def _on_cpu(
    flat: Any,
    smoothing: float,
    method: str,
    rtol: float,
    place: Any,
    batch: tuple[int, ...],
    check_finite: bool,
    want_rank: bool,
) -> tuple[Any, Any]:
    X = flat.to(working(flat.dtype))
    solution = cpu.solve(
        thin(X),
        smoothing=smoothing,
        method=method,
        rtol=rtol,
        check=batch if check_finite else None,
        want_rank=want_rank,
    )
    result = torch.empty(X.shape, dtype=X.dtype) if place is None else place
    cpu.apply(solution, thin(X), thin(result))
    return result, solution.rank


@torch.no_grad()
def polars(
    matrices: list[Any],
    smoothing: float,
    method: str,
    rtol: float | None,
    out: list[Any] | None,
    check_finite: bool,
) -> list[Any]:
    """Factors of a list of 2-D tensors."""
    groups: dict[Any, list[int]] = {}
    for k, G in enumerate(matrices):
        groups.setdefault((min(G.shape), max(G.shape), G.dtype, G.device), []).append(k)
    results = [None] * len(matrices) if out is None else out
    if out is not None:
        read = {G.untyped_storage().data_ptr() for G in matrices}
        for G, o in zip(matrices, out, strict=True):
            kept = o.untyped_storage().data_ptr() not in read or not o.numel()
            if o.shape != G.shape or o.dtype != G.dtype or o.device != G.device or not kept:
                raise ValueError(
                    f"out must hold tensors of the shapes and dtypes of matrices in memory of their own, got "
                    f"{tuple(o.shape)} for {tuple(G.shape)}; pass what an earlier call returned"
                )
    bad: list[int] = []
    todo = []
    for (r, d, dtype, device), index in groups.items():
        members = [thin(matrices[k].detach()) for k in index]
        if r == 0:
            solution: Any = None
        elif device.type == "cuda":
            stacked = torch.stack(members)
            if check_finite:
                bad += [index[k] for k in _nonfinite(stacked)]
            solution = stacked
        else:
            X = [x.to(working(dtype)) for x in members]
            with torch.autocast(device.type, enabled=False):
                solution = cpu.solve(
                    X,
                    smoothing=smoothing,
                    method=method,
                    rtol=tolerance(dtype, rtol),
                    check=None,
                    want_rank=False,
                )
            bad += [index[k] for k in solution.bad]
            members = X
        todo.append((r, d, dtype, device, index, members, solution))
    if check_finite:
        common.refuse_nonfinite(sorted(bad), (len(matrices),))
    for r, d, dtype, device, index, members, solution in todo:
        if out is None:  # one by one: an allocator hands small pieces out again, large ones come as new pages
            for k in index:
                results[k] = torch.empty_like(matrices[k], memory_format=torch.contiguous_format)
        if r == 0:
            continue
        places = [thin(results[k]) for k in index]
        if device.type == "cuda":
            factors = polar(solution, smoothing, method, rtol, None, False, False, "auto")[0]
            torch._foreach_copy_(places, list(factors))
        elif dtype == working(dtype):
            with torch.autocast(device.type, enabled=False):
                cpu.apply(solution, members, places)
        else:
            wide = torch.empty((len(index), r, d), dtype=working(dtype))
            with torch.autocast(device.type, enabled=False):
                cpu.apply(solution, members, list(wide))
            torch._foreach_copy_(places, list(wide))
    return results


@torch.no_grad()
def newton_schulz(
    G: Any,
    triples: list[common.Triple],
    safety: float,
    polish: int,
    dtype: torch.dtype | None,
    gram: bool | str,
    backend: str,
) -> Any:
    """The polynomial of a tensor (..., m, n)."""
    work = working(G.dtype) if dtype is None else dtype
    if not isinstance(work, torch.dtype) or not work.is_floating_point:
        raise TypeError(f"dtype must be a floating torch.dtype, got {dtype!r}; use torch.float32")
    if G.numel() == 0:
        return torch.zeros_like(G)
    flat = G.detach().reshape(-1, *G.shape[-2:])
    common.refuse_nonfinite(_nonfinite(flat), tuple(G.shape[:-2]))
    made: Any
    if backend == "reference":
        made = reference.newton_schulz(flat.cpu().double().numpy(), triples, safety)
        return torch.from_numpy(made).to(G).view(G.shape)
    X = steps_of.scaled(thin(flat).to(working(G.dtype)))
    r, d = X.shape[-2:]
    if gram == "auto":
        full = work in (torch.float32, torch.float64)
        gram = full and polish == 0 and 8 * r * len(triples) + 4 * d < (4 * d + 2 * r) * len(triples)
    with torch.autocast(G.device.type, enabled=False):
        # Triton's Gram form is float32 only
        if backend == "triton" or (backend == "auto" and gram and on_gpu(G) and work != torch.float64):
            from porism.kernels.polar import triton

            made = triton.newton_schulz(X.to(work), triples, safety)
        elif gram:
            Y = X.to(work)
            made = torch.bmm(steps_of.multiplier(torch.bmm(Y, Y.mT), triples, safety), Y)
        else:
            made = steps_of.direct(steps_of.normalised(X, safety).to(work), triples)
    made = made.mT if G.shape[-2] > G.shape[-1] else made
    return made.to(G.dtype).reshape(G.shape)


def _nonfinite(flat: Any) -> list[int]:
    """Members that hold NaN or infinity."""
    found: list[int] = (~flat.isfinite().flatten(1).all(1)).nonzero()[:, 0].tolist()
    return found


def _shared(a: Any, b: Any) -> bool:
    """Whether two tensors live in one storage."""
    return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())
