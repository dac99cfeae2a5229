"""Bytes at their peak, without a GPU."""

import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["peak_bytes"]


def peak_bytes(work: Callable[[], Any], *known: Any) -> int:
    """Most bytes of tensors and arrays that are alive at once while `work` runs, its result included.

    The sum of two peaks: of tensors, seen between operations, each storage once, those of `known` left out;
    and of NumPy's arrays. Memory that one operation of torch takes for itself is not seen.
    """
    import torch
    from torch.utils import _python_dispatch
    from torch.utils._pytree import tree_leaves

    Mode: Any = _python_dispatch.TorchDispatchMode

    alive: dict[int, int] = {}
    size = [0, 0]  # now and at most

    def drop(key: int) -> None:
        size[0] -= alive.pop(key, 0)

    def see(tensor: Any, count: bool = True) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in alive:
            alive[key] = storage.nbytes() if count else 0
            weakref.finalize(storage, drop, key)
            size[0] += alive[key]
            size[1] = max(size)

    class Seen(Mode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            for leaf in tree_leaves(out):
                if isinstance(leaf, torch.Tensor):
                    see(leaf, count=func is not torch.ops.aten.lift_fresh.default)  # memory of an array
            return out

    for tensor in known:
        see(tensor, count=False)
    work()  # imports are done, caches are filled
    with Seen():
        work()
    tracemalloc.start()
    try:
        work()
        arrays = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return size[1] + arrays
