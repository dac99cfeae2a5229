import os
from fractions import Fraction

import numpy as np
import pytest

from porism import checks
from porism.errors import MissingExtraError


def test_require_names_the_extra():
    with pytest.raises(
        MissingExtraError,
        match=r"nowhere.deep is not installed.*extra 'torch': pip install 'porism\[torch\]'",
    ):
        checks.require("nowhere.deep", "torch")


def test_require_does_not_blame_the_extra_for_a_broken_package(tmp_path, monkeypatch):
    (tmp_path / "halfpackage.py").write_text("import nowhere_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all") as caught:
        checks.require("halfpackage", "torch")
    assert not isinstance(caught.value, MissingExtraError)


@pytest.mark.parametrize("value", [True, 2.0, np.float64(2), "2", None, np.bool_(True)])
def test_integer_refuses_other_types(value):
    with pytest.raises(TypeError, match="k must be an int, got"):
        checks.integer("k", value)


def test_integer():
    value = checks.integer("k", np.int64(3), 1, 3)
    assert value == 3
    assert type(value) is int
    with pytest.raises(ValueError, match=r"k must be in 1\.\.3, got 4"):
        checks.integer("k", 4, 1, 3)
    with pytest.raises(ValueError, match="k must be >= 1, got 0"):
        checks.integer("k", 0, low=1)
    with pytest.raises(ValueError, match="k must be <= 5, got 6"):
        checks.integer("k", 6, high=5)


def test_finite_array():
    array = checks.finite_array("x", [[1, 2], [3, 4]], ndim=2)
    assert array.dtype == np.float64
    same = np.ones(3)
    assert checks.finite_array("x", same) is same
    assert checks.finite_array("x", [], ndim=1).shape == (0,)


def test_finite_array_reads_tensors(needs):
    torch = needs("torch")
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        array = checks.finite_array("x", torch.tensor([1.5, -2.0], dtype=dtype, requires_grad=True))
        assert array.dtype == np.float64
        assert array.tolist() == [1.5, -2.0]
    assert checks.detached(torch.tensor([1, 2])).dtype == np.int64
    with pytest.raises(TypeError, match="x must hold real numbers, got dtype complex64"):
        checks.finite_array("x", torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="x must be finite, got nan at index 0"):
        checks.finite_array("x", torch.tensor([float("nan")], requires_grad=True))


@pytest.mark.parametrize(
    ("value", "ndim", "kind", "message"),
    [
        ([1, np.nan], None, ValueError, "x must be finite, got nan at index 1 .1 such"),
        ([[1, 2], [np.inf, np.nan]], None, ValueError, r"got inf at index \(1, 0\) .2 such"),
        ([1, 2], 2, ValueError, r"x must have 2 axes, got shape \(2,\)"),
        ([[1], [2, 3]], None, ValueError, "unequal length"),
        (["a"], None, TypeError, "real numbers, got dtype"),
        ([1j], None, TypeError, "got dtype complex128"),
        ([None], None, TypeError, "got dtype object"),
    ],
)
def test_finite_array_refuses(value, ndim, kind, message):
    with pytest.raises(kind, match=message):
        checks.finite_array("x", value, ndim)


def test_numbers():
    assert checks.probability("p", 1) == 1.0
    assert checks.positive("tau", Fraction(1, 2)) == 0.5
    for value in (0, 1):
        with pytest.raises(ValueError, match="p must be strictly between 0 and 1"):
            checks.probability("p", value, open=True)
    for value in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"p must be in \[0, 1\], got"):
            checks.probability("p", value)
    for value in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="tau must be finite and > 0"):
            checks.positive("tau", value)
    for check in (checks.probability, checks.positive):
        for value in (True, "1", None, 1j):
            with pytest.raises(TypeError, match="must be a real number"):
                check("x", value)


def test_one_of():
    for value in ("c", None, ["a"]):
        with pytest.raises(ValueError, match="mode must be one of 'a', 'b', got"):
            checks.one_of("mode", value, ("a", "b"))


def random_state():
    return np.random.get_state()[1].tolist()  # noqa: NPY002


def test_zero_and_above():
    assert checks.not_negative("noise", 0) == 0 == checks.not_negative("noise", np.array(0.0))
    assert checks.not_negative("noise", np.float32(0.5)) == 0.5
    for value in (-1e-300, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"noise must be a finite number >= 0, got .*; pass zero"):
            checks.not_negative("noise", value)
    for value in ("1", True, [1.0], None):
        with pytest.raises(TypeError, match="noise must be a real number"):
            checks.not_negative("noise", value)


def test_an_int_beyond_floats_is_refused():
    for check in (checks.positive, checks.not_negative, checks.probability):
        with pytest.raises(ValueError, match="tau must be within the range of floats"):
            check("tau", 10**400)


def test_a_number_has_no_index():
    with pytest.raises(ValueError, match=r"noise must be finite, got nan; drop"):
        checks.finite_array("noise", np.nan)


def test_generator_leaves_global_state_alone():
    before = random_state()
    rng = checks.generator(3)
    assert checks.generator(rng) is rng
    assert rng.random() == checks.generator(3).random()
    assert checks.generator(None).random() != checks.generator(None).random()
    assert random_state() == before
    with pytest.raises(TypeError, match="rng must be an int"):
        checks.generator("seed")
    with pytest.raises(ValueError, match="rng must be >= 0"):
        checks.generator(-1)
    with pytest.raises(TypeError, match="random_state must be an int"):
        checks.generator("seed", "random_state")


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_file(tmp_path, problem):
    file = tmp_path / "a.bin"
    file.write_bytes(b"old")

    def writer(stream):
        stream.write(b"half")
        raise problem

    with pytest.raises(problem):
        checks.write_atomic(file, writer)
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_write_atomic_keeps_the_mode(tmp_path):
    file = tmp_path / "a.bin"
    checks.write_atomic(file, lambda stream: stream.write(b"1"))
    plain = tmp_path / "b.bin"
    plain.write_bytes(b"1")
    assert file.stat().st_mode == plain.stat().st_mode
    os.chmod(file, 0o600)
    checks.write_atomic(file, lambda stream: stream.write(b"2"))
    assert file.stat().st_mode & 0o777 == 0o600
