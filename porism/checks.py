"""Validators for public boundaries: a message names the argument, the rule, the value, and the way out."""

import contextlib
import errno
import importlib
import numbers
import os
import stat
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from porism.errors import MissingExtraError

__all__ = [
    "detached",
    "finite_array",
    "generator",
    "integer",
    "not_negative",
    "one_of",
    "positive",
    "probability",
    "require",
    "write_atomic",
]


def require(module: str, extra: str) -> Any:
    """Import a package of an extra, or say which extra to install.

    Parameters
    ----------
    module : str
        Name to import, such as ``"torch"``.
    extra : str
        Extra of porism that installs it.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingExtraError
        If the package is not installed.

    Examples
    --------
    >>> require("json", "none").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (
            error.name != module.partition(".")[0]
        ):  # installed, but something it needs is not: say that instead
            raise
        raise MissingExtraError(
            f"{module} is not installed; it needs the extra {extra!r}: pip install 'porism[{extra}]'",
            name=module,
        ) from None


def integer(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """Accept an integer in [low, high]; bools and floats are refused, also where they are whole.

    Parameters
    ----------
    name : str
        Name of the argument in the message.
    value : object
        What the caller passed.
    low, high : int, optional
        Inclusive bounds.

    Returns
    -------
    int
        The value as a Python int.

    Raises
    ------
    TypeError
        If the value is not an integer.
    ValueError
        If it is out of range.

    Examples
    --------
    >>> integer("k", 3, low=1, high=5)
    3
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(
            f"{name} must be an int, got {_show(value)}; pass a whole number without a decimal point"
        )
    value = int(value)
    if (low is not None and value < low) or (high is not None and value > high):
        rule = f">= {low}" if high is None else f"<= {high}" if low is None else f"in {low}..{high}"
        raise ValueError(f"{name} must be {rule}, got {value}; choose a value in that range")
    return value


def detached(value: Any) -> Any:
    """Turn a tensor of torch into an array, without its gradient and device; all else stays as it is.

    Parameters
    ----------
    value : object
        What the caller passed.

    Returns
    -------
    object
        An array for a tensor, in float32 where floats have fewer bytes, since NumPy has no bfloat16.

    Examples
    --------
    >>> detached([1.0, 2.0])
    [1.0, 2.0]
    """
    if not (hasattr(value, "detach") and hasattr(value, "element_size")):
        return value
    value = value.detach().cpu()
    return (value.float() if value.is_floating_point() and value.element_size() < 4 else value).numpy()


def finite_array(
    name: str, value: ArrayLike, ndim: int | None = None, dtype: DTypeLike = np.float64
) -> NDArray[Any]:
    """Accept an array of finite real numbers.

    Parameters
    ----------
    name : str
        Name of the argument in the message.
    value : array_like
        What the caller passed; not copied where its dtype already fits.
    ndim : int, optional
        Number of axes it must have.
    dtype : dtype, default float64
        Type of the result.

    Returns
    -------
    ndarray
        The values as `dtype`.

    Raises
    ------
    TypeError
        If the values are not real numbers.
    ValueError
        If the number of axes is wrong, the rows are ragged, or a value is NaN or infinite.

    Examples
    --------
    >>> finite_array("scores", [1, 2])
    array([1., 2.])
    """
    try:
        array = np.asarray(detached(value))
    except ValueError:
        raise ValueError(
            f"{name} must be a rectangular array, got rows of unequal length; pad or split them"
        ) from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}; convert it to float first")
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {array.shape}; reshape it")
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        place = where[0] if len(where) == 1 else where
        more = f" at index {place} ({int((~finite).sum())} such values in all)" if where else ""
        raise ValueError(f"{name} must be finite, got {array[where]}{more}; drop or replace them")
    return array.astype(dtype, copy=False)


def probability(name: str, value: Any, open: bool = False) -> float:
    """Accept a number in [0, 1], or in (0, 1).

    Parameters
    ----------
    name : str
        Name of the argument in the message.
    value : float
        What the caller passed.
    open : bool, default False
        Whether 0 and 1 are refused.

    Returns
    -------
    float
        The value.

    Raises
    ------
    TypeError
        If the value is not a real number.
    ValueError
        If it is out of range or NaN.

    Examples
    --------
    >>> probability("delta", 0.05, open=True)
    0.05
    """
    number = _real(name, value)
    if not (0 < number < 1 if open else 0 <= number <= 1):
        rule = "strictly between 0 and 1" if open else "in [0, 1]"
        raise ValueError(f"{name} must be {rule}, got {number!r}; pass a probability, not a percentage")
    return number


def positive(name: str, value: Any) -> float:
    """Accept a finite number above zero.

    Parameters
    ----------
    name : str
        Name of the argument in the message.
    value : float
        What the caller passed.

    Returns
    -------
    float
        The value.

    Raises
    ------
    TypeError
        If the value is not a real number.
    ValueError
        If it is zero, negative, infinite or NaN.

    Examples
    --------
    >>> positive("kappa", 2)
    2.0
    """
    number = _real(name, value)
    if not 0 < number < float("inf"):
        raise ValueError(f"{name} must be finite and > 0, got {number!r}; pass a positive number")
    return number


def not_negative(name: str, value: Any) -> float:
    """Accept a finite number, zero or above.

    Parameters
    ----------
    name : str
        Name of the argument in the message.
    value : float
        What the caller passed.

    Returns
    -------
    float
        The value.

    Raises
    ------
    TypeError
        If the value is not a real number.
    ValueError
        If it is negative, infinite or NaN.

    Examples
    --------
    >>> not_negative("noise", 0)
    0.0
    """
    number = _real(name, value)
    if not 0 <= number < float("inf"):
        raise ValueError(f"{name} must be a finite number >= 0, got {number!r}; pass zero or more")
    return number


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """Accept one of a few words.

    Parameters
    ----------
    name : str
        Name of the argument in the message.
    value : str
        What the caller passed.
    choices : iterable of str
        The words allowed.

    Returns
    -------
    str
        The value.

    Raises
    ------
    ValueError
        If it is none of them.

    Examples
    --------
    >>> one_of("scale", "smoke", ("smoke", "paper"))
    'smoke'
    """
    allowed = list(choices)
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {_show(value)}")
    return value


def generator(rng: np.random.Generator | int | None, name: str = "rng") -> np.random.Generator:
    """Turn a seed into a generator; global random state is never touched.

    Parameters
    ----------
    rng : Generator, int or None
        A generator is returned as it is; None draws fresh entropy.
    name : str, default "rng"
        Name of the argument in the message.

    Returns
    -------
    Generator
        The generator.

    Raises
    ------
    TypeError
        If it is none of the three.
    ValueError
        If the seed is negative.

    Examples
    --------
    >>> int(generator(0).integers(100))
    85
    """
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(None if rng is None else integer(name, rng, low=0))


def write_atomic(path: str | os.PathLike[str], writer: Callable[[IO[bytes]], object]) -> None:
    """Write a file whole or not at all: an exception or a crash leaves the old file as it was.

    Parameters
    ----------
    path : path
        File to create or replace; its folder must exist.
    writer : callable
        Receives a binary file object and writes the content.

    Returns
    -------
    None

    Raises
    ------
    OSError
        If the folder does not exist or cannot be written, or the disk is full; it names `path`.

    Notes
    -----
    A link stays a link: the file that it points to is replaced. What is no file, such as a pipe or
    ``/dev/stdout``, is written to directly.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> write_atomic(file, lambda stream: stream.write(b"done"))
    >>> file.read_bytes()
    b'done'
    """
    shown, name = os.fspath(path), None
    target = Path(os.path.realpath(path))
    prefix = f".{target.name[:50]}."
    try:
        mode = os.stat(path).st_mode if os.path.exists(path) else stat.S_IFREG | (0o666 & ~_umask())
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), shown)
        if not stat.S_ISREG(mode):  # replacing it would take a device from the whole machine
            with open(path, "wb") as stream:
                writer(stream)
            return
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=prefix)
        with os.fdopen(handle, "wb") as stream:
            writer(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, mode & 0o777)  # mkstemp makes the file private
        os.replace(name, target)
    except BaseException as error:
        if name is not None:
            with contextlib.suppress(FileNotFoundError):  # interrupted just after it was renamed
                os.unlink(name)
        if isinstance(error, OSError) and error.errno:
            named = error.filename
            if named is None or os.path.basename(str(named)).startswith(prefix):  # no file, or ours
                raise OSError(error.errno, error.strerror, shown) from error
        raise


def _umask() -> int:
    mask = os.umask(0)  # there is no call that only reads it
    os.umask(mask)
    return mask


def _real(name: str, value: Any) -> float:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {_show(value)}; pass an int or a float")
    try:
        return float(value)
    except OverflowError:  # an int beyond all floats
        raise ValueError(f"{name} must be within the range of floats, got {_show(value)}") from None


def _show(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
