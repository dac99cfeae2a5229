"""Gram matrices of per-position gradients: the entrywise product of an input and a gradient Gram.

For a linear map shared by all positions the gradient of example n at position t is the outer product of
gradient and input, so Grams of gradients need no gradients. The reference adds scalar products in loops
(``reference.py``), the CPU path multiplies a few positions at a time (``cpu.py``), the Triton path keeps one
tile of examples in registers over all positions (``triton.py``).
"""

from typing import Any

from porism.checks import integer
from porism.kernels._arrays import floats, implementation, is_tensor, same_device

__all__ = ["position_gram"]


def position_gram(
    inputs: Any, grads: Any, *, per_position: bool = False, backend: str = "auto", chunk: int = 256
) -> Any:
    """Compute the Gram matrix of per-position gradients of a linear map, summed over positions or for each.

    ``K_t[n, m] = (x_nt . x_mt)(g_nt . g_mt)``, the Gram of the blocks ``g_nt x_nt'``; their sum over t is the
    untied kernel, which treats the weights of each position as its own.

    Parameters
    ----------
    inputs : float array or tensor, shape (N, T, d_i)
        Inputs of the map: example, position, feature; any strides.
    grads : float array or tensor, shape (N, T, d_o)
        Gradients of a scalar for each example with respect to the outputs of the map.
    per_position : bool, default False
        Whether to return one matrix a position instead of their sum.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors and the CPU path for the rest.
    chunk : int, default 256
        Most examples on a side of the tiles that the CPU path works on, which takes 128 at most; Triton has
        tiles of its own.

    Returns
    -------
    array or tensor, shape (N, N) or (T, N, N)
        Like `inputs`, on its device: float64 if either argument is, else float32. Symmetric to the bit,
        positive semidefinite up to rounding.

    Raises
    ------
    TypeError
        If an argument is not float, or only one of them is a tensor.
    ValueError
        If shapes do not fit, or the tensors are on several devices.

    Notes
    -----
    Error relative to the largest entry: 1e-12 in float64, 1e-5 in float32 and for half precision, which is
    computed in float32. NaN and infinity stay in the rows and columns of their example.

    Floor: ``N^2 T (d_i + d_o + 1)`` FLOP by symmetry; ``N T (d_i + d_o) b ceil(N / tile)`` bytes read for
    entries of b bytes, and the result. Products of all positions kept at once would take ``3 T N^2`` numbers;
    the CPU path takes some ``2 tile^2``, or up to T / 8 products where they are small, besides the result,
    and copies of some positions where precision asks for it. For N = T = 64 and d_i = d_o = 128 in float64 on
    one core the sum takes 0.07 times the bytes and 2 to 3 ms: 0.7 times the seconds of two einsum of torch
    over all positions, those of NumPy's product (which uses symmetry too), and 1/500 of those of contracted
    Jacobians of torch.func. One matrix a position takes 0.75 times the seconds of einsum there, 0.85 times
    for N = 256 and T = 32, half for N = 1024, T = 4 and d = 256. Triton does half of the tiles and mirrors
    them. Time on a GPU: not measured.

    References
    ----------
    I. J. Goodfellow (2015), Efficient per-example gradient computations, arXiv:1510.01799 (norms by the same
    identity); R. Novak, J. Sohl-Dickstein, S. S. Schoenholz (2022), Fast finite width neural tangent kernel,
    arXiv:2206.08720.

    Examples
    --------
    >>> x = [[[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [1.0, -1.0]]]
    >>> g = [[[1.0], [1.0]], [[2.0], [-1.0]]]
    >>> position_gram(x, g)
    array([[ 5.,  4.],
           [ 4., 10.]])
    """
    _, path = implementation(__name__, backend, inputs)
    chunk = integer("chunk", chunk, 1)
    if not isinstance(per_position, bool):
        raise TypeError(f"per_position must be True or False, got {per_position!r}; pass a bool")
    x, g = _rows("inputs", inputs), _rows("grads", grads)
    if is_tensor(x) != is_tensor(g):
        raise TypeError(
            "inputs and grads must both be tensors or both be arrays, got one of each; convert one"
        )
    if x.shape[:2] != g.shape[:2]:
        raise ValueError(f"grads must have the {x.shape[0]} examples and {x.shape[1]} positions of inputs, "
                         f"got shape {tuple(g.shape)}; one gradient an input")  # fmt: skip
    if is_tensor(x):
        same_device("grads", g, "inputs", x)
    return path.position_gram(x, g, per_position, chunk)


def _rows(name: str, value: Any) -> Any:
    value = floats(name, value)
    if value.ndim != 3:
        raise ValueError(f"{name} must have 3 axes (example, position, feature), got shape "
                         f"{tuple(value.shape)}; add the one that is missing")  # fmt: skip
    return value
