"""What all Triton paths share in the interpreter: where their tensors come from, and which they refuse."""

import numpy as np
import pytest
import torch

from porism.kernels import _device as device


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3)[::-1],
        np.arange(12.0).reshape(4, 3)[::2],
        np.broadcast_to(np.float32(2), (2, 3)),
        np.arange(6, dtype=">f8").reshape(2, 3),
        np.arange(6, dtype=np.longdouble).reshape(2, 3),
    ],
)
def test_arrays_of_any_layout_are_taken(array):
    found = device.placed("x", array)
    assert found.is_contiguous()
    assert (found.numpy() == array).all()


def test_a_type_and_its_conversion():
    assert device.placed("x", [1, 2], dtype=np.float64).dtype == torch.float64
    assert not device.placed("x", torch.ones(2, requires_grad=True)).requires_grad
    words = "x must be float64, float32, float16 or bfloat16 for Triton, got torch.int32; convert it, or take"
    with pytest.raises(TypeError, match=words):
        device.placed("x", torch.ones(2).int())
    with pytest.raises(TypeError, match=r"x must be float64 or float32 for Triton, got torch\.float16"):
        device.placed("x", torch.ones(2).half(), device.FLOATS[:2])


def test_finite():
    assert device.all_finite(torch.zeros(0))
    assert device.all_finite(torch.tensor([1e38, -1e38]))
    for bad in (np.nan, np.inf, -np.inf):
        assert not device.all_finite(torch.tensor([0.0, bad, 1.0]))


def test_this_process_interprets():
    assert device.interpreted()
    assert device.product_type(torch.bfloat16) is device.TYPES[torch.float32]
