"""Gram and eigendecomposition in torch, with float64 for the members that need it.

A batch is a tensor (K, r, d) or a list of K matrices (r, d), r <= d. A list is never stacked: that would cost
as much as the arithmetic.
"""

import math
from typing import Any, NamedTuple

from porism.kernels.polar._common import EPS64, POLAR_EXPRESS, TAYLOR, refuse_nonfinite
from porism.kernels.polar._newton_schulz import about_the_mean, multiplier, scaled

__all__: list[str] = []

KAPPA32 = 20.0
"""Condition number up to which a float32 Gram decides a float32 member; its error there is below 1e-5."""
KAPPA64 = 1e3
"""Condition number up to which a float64 Gram decides a float64 member; its error there is 1e-10."""
LARGE = 128
"""Short side from which "auto" tries the polynomial before an eigendecomposition."""
HALVES = 64
"""Short side from which a Gram is made of two diagonal blocks and one off the diagonal."""
SAFE = {4: (1e-20, 1e35), 8: (1e-200, 1e290)}
"""Range of a Gram's largest entry, by bytes, in which its squares neither overflow nor vanish."""


class Solution(NamedTuple):
    """What makes the factors: ``P[k] @ X[k]``, unless `wide` has P in float64 or `answer` the factor."""

    P: Any
    wide: dict[int, Any]
    answer: dict[int, Any]
    rank: Any
    bad: list[int]


def gram(X: Any, dtype: Any = None) -> Any:
    """``X X^T`` of each member, in `dtype` where given."""
    import torch

    r, first = (X.shape[1], X) if isinstance(X, torch.Tensor) else (X[0].shape[0], X[0])
    M = torch.empty((len(X), r, r), dtype=dtype or first.dtype)
    if dtype is not None and dtype != first.dtype:
        buffer = torch.empty(X[0].shape, dtype=dtype)  # one for all: it stays in the cache
        for x, m in zip(X, M, strict=True):
            buffer.copy_(x)
            torch.mm(buffer, buffer.T, out=m)
        return M
    h = r // 2 if r >= HALVES else r
    if isinstance(X, torch.Tensor):
        if h == r:
            return torch.bmm(X, X.mT, out=M)
        M[:, :h, :h] = torch.bmm(X[:, :h], X[:, :h].mT)
        M[:, h:, :h] = torch.bmm(X[:, h:], X[:, :h].mT)
        M[:, h:, h:] = torch.bmm(X[:, h:], X[:, h:].mT)
    elif h == r:
        for x, m in zip(X, M.unbind(), strict=True):
            torch.mm(x, x.T, out=m)
        return M
    else:
        for x, m in zip(X, M.unbind(), strict=True):
            top, low = x[:h], x[h:]
            m[:h, :h] = torch.mm(top, top.T)
            m[h:, :h] = torch.mm(low, top.T)
            m[h:, h:] = torch.mm(low, low.T)
    M[:, :h, h:] = M[:, h:, :h].mT
    return M


def solve(
    X: Any, *, smoothing: float, method: str, rtol: float, check: tuple[int, ...] | None, want_rank: bool
) -> Solution:
    """Decide each member: from its Gram, from a float64 Gram, or by an SVD."""
    import torch

    K, r, dtype = len(X), X[0].shape[0], X[0].dtype
    double = dtype == torch.float64
    if method == "polynomial":
        return _polynomial(X, check)
    rank = torch.full((K,), r)
    if method == "svd":
        P, redo = torch.zeros((K, r, r), dtype=dtype), list(range(K))
        double = True
    elif method == "gram" and not double:
        P, redo = torch.zeros((K, r, r), dtype=dtype), list(range(K))
    else:
        M = gram(X)
        top = M.diagonal(dim1=1, dim2=2).amax(1)
        low, high = SAFE[M.element_size()]
        ask = ~((top >= low) & (top <= high))  # zero, NaN, or squares out of range: looked at again
        P = torch.zeros_like(M)
        rest = torch.ones(K, dtype=torch.bool)
        if r >= LARGE and smoothing == 0 and not double and not want_rank:
            Q, done = about_the_mean(M.masked_fill(ask[:, None, None], 0.0))
            P[done], rest = Q[done], ~done
        rest &= ~ask
        index = slice(None) if bool(rest.all()) else rest.nonzero()[:, 0]
        if bool(rest.any()):
            w, V = torch.linalg.eigh(M[index].double())
            extra = 0.0 if want_rank else smoothing**2
            kappa = KAPPA64 if double else KAPPA32
            if method == "auto":
                ask[index] = (w[:, 0] + extra) * kappa**2 < w[:, -1] + extra
            floor = max(rtol, math.sqrt(r * EPS64)) if method == "gram" else rtol
            root, rank[index] = _inverse_root(M[index], w, V, smoothing, floor)
            P[index] = root.to(dtype)
        redo = ask.nonzero()[:, 0].tolist()
    if not redo:
        return Solution(P, {}, {}, rank, [])
    members = [X[k] for k in redo]
    decide = _by_svd if double else _by_wide_gram
    found, ranks, bad = decide(members, smoothing, rtol)
    bad = [redo[k] for k in bad]
    _refuse(bad, check)
    P[redo] = 0.0
    rank[redo] = torch.as_tensor(ranks)
    made = dict(zip(redo, found, strict=True))
    return Solution(P, {} if double else made, made if double else {}, rank, bad)


def apply(solution: Solution, X: Any, out: Any) -> None:
    """Write the factor of each member into the members of `out`, which may not share memory with X."""
    import torch

    P, wide, answer = solution.P, solution.wide, solution.answer
    if len(wide) + len(answer) < len(X):
        if isinstance(X, torch.Tensor) and isinstance(out, torch.Tensor):
            torch.bmm(P, X, out=out)
        else:
            left = [k for k in range(len(X)) if k not in wide and k not in answer]
            multipliers = P.unbind()
            for k in left:
                torch.mm(multipliers[k], X[k], out=out[k])
    if wide:
        buffer = torch.empty(X[0].shape, dtype=torch.float64)
        product = torch.empty_like(buffer)
        for k, p in wide.items():
            buffer.copy_(X[k])
            out[k].copy_(torch.mm(p, buffer, out=product))
    for k, factor in answer.items():
        out[k].copy_(factor)


def _refuse(bad: list[int], check: tuple[int, ...] | None) -> None:
    if check is not None:
        refuse_nonfinite(bad, check)


def _polynomial(X: Any, check: tuple[int, ...] | None) -> Solution:
    """Five steps of Polar Express and two of Taylor on the Gram."""
    import torch

    Y = X if isinstance(X, torch.Tensor) else torch.stack(list(X))
    Z = scaled(Y)
    M = gram(Z)
    bad = (~M.diagonal(dim1=1, dim2=2).sum(1).isfinite()).nonzero()[:, 0].tolist()
    _refuse(bad, check)
    P = multiplier(M, [*POLAR_EXPRESS, TAYLOR, TAYLOR], 1.02)
    P[bad] = torch.nan
    answer = {} if Z is Y else dict(enumerate(torch.bmm(P, Z)))
    return Solution(P, {}, answer, torch.full((len(Y),), Y.shape[1]), bad)


def _inverse_root(M: Any, w: Any, V: Any, smoothing: float, rtol: float) -> tuple[Any, Any]:
    """``V f(w) V^T`` with ``f(w) = (w + beta^2)^(-1/2)``, 0 below the tolerance where beta = 0."""
    import torch

    w = w.clamp(min=0.0)
    kept = w > rtol**2 * w[:, -1:]
    gain = torch.where(kept, w, 1.0).rsqrt() * kept if smoothing == 0 else (w + smoothing**2).rsqrt()
    P = torch.bmm(V * gain[:, None], V.mT)
    live = M.diagonal(dim1=1, dim2=2) > 0  # zero rows stay exactly zero
    if not bool(live.all()):
        P *= live[:, :, None] & live[:, None, :]
    return P, kept.sum(1)


def _by_wide_gram(members: list[Any], smoothing: float, rtol: float) -> tuple[Any, Any, list[int]]:
    """Multipliers in float64 of float32 members, whose squares float64 always holds."""
    import torch

    M = gram(members, torch.float64)
    top = M.diagonal(dim1=1, dim2=2).amax(1)
    bad = ~top.isfinite()
    M[bad] = 0.0
    w, V = torch.linalg.eigh(M)
    P, rank = _inverse_root(M, w, V, smoothing, max(rtol, math.sqrt(M.shape[-1] * EPS64)))
    P[bad] = torch.nan
    return P, rank, bad.nonzero()[:, 0].tolist()


def _by_svd(members: list[Any], smoothing: float, rtol: float) -> tuple[list[Any], list[int], list[int]]:
    """Factors by QR and an SVD of the small triangle, each member scaled by its largest entry."""
    import torch

    factors, ranks, bad = [], [], []
    for k, member in enumerate(members):
        x = member.double()
        top = float(x.abs().max())
        if not 0 < top < math.inf:
            if top != 0:
                bad.append(k)
            factors.append(torch.full_like(x, 0.0 if top == 0 else torch.nan))
            ranks.append(0)
            continue
        x = x / top
        Q, R = torch.linalg.qr(x.mT)
        U, s, Vh = torch.linalg.svd(R)
        kept = s > rtol * s[0]
        beta = smoothing / top
        gain = kept.to(s.dtype) if beta == 0 else s / torch.hypot(s, torch.tensor(beta, dtype=s.dtype))
        live = (x != 0).any(1)[:, None] & (x != 0).any(0)[None]
        factors.append(((Vh.mT * gain) @ (Q @ U).mT) * live)
        ranks.append(int(kept.sum()))
    return factors, ranks, bad
