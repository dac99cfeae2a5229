"""What the verbs of `porism route` read and write: routers, matrices, numbers of options, pictures."""

import contextlib
import math
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from porism import _files
from porism.cli.common import as_options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from porism.sims.pandora import ScoreMatrix
    from porism.theory.pandora import FittedRouter, Router

    Floats = NDArray[np.float64]

SWEPT = ("m", "nu", "c", "mu", "s-other", "omega")
"""Parameters of `porism route bidder`, in the order of `bidder_statics`."""


WORDS = {"spend_per_query": "--budget", "k": "--picks"}
"""What the library calls options that have another name."""


def load(path: Path) -> "tuple[FittedRouter, Router | None]":
    """The fit in a file of `porism route fit`; or that of `Router.save` with the router itself."""
    from porism.results import Result
    from porism.theory.pandora import FittedRouter, Router

    if path.is_file() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path.name} is no saved router, or is cut off; write one with `porism route fit`")
    router = None
    try:
        fitted: Any = Result.load(path)
        if not isinstance(fitted, FittedRouter):
            router = Router.load(path)
            fitted = router.fitted
        K, n = len(fitted.names), len(fitted.m_hat)
        shapes = {"m_hat": (n, K), "q_hat": (n, K), "nu": (K,), "A": (K, K), "B": (K, K)}
        whole = all(getattr(fitted, name).shape == shape for name, shape in shapes.items())
        whole = whole and fitted.report.names == fitted.names
    except (KeyError, TypeError, AttributeError):  # parts are missing, or are something else
        whole = False
    if not whole:
        raise ValueError(f"{path.name} is a damaged router; write it again with `porism route fit`")
    return fitted, router


def matrix(
    path: Path, features: Path | None, groups: str | None = None
) -> "tuple[ScoreMatrix, dict[str, Any]]":
    """Scores, and the arrays cheap and refined where an npz holds them."""
    import dataclasses

    import numpy as np

    from porism.sims.pandora import read_csv, read_scores

    suffix = path.suffix.lower()
    if suffix not in (".npz", ".csv", ".parquet"):
        raise ValueError(f"{path.name} must end in .npz, .csv or .parquet")
    matrix = read_scores(path, groups=groups)
    if features is not None:
        held = read_csv(features)
        if not held.known.all():
            raise ValueError(f"{features.name} must have a number in every cell of its columns of numbers")
        if len(held.scores) != len(matrix.scores):
            raise ValueError(
                f"{features.name} must have a row for each of the {len(matrix.scores)} queries "
                f"of {path.name}, got {len(held.scores)}"
            )
        matrix = dataclasses.replace(matrix, features=held.scores)
    given: dict[str, Any] = {}
    if suffix == ".npz":
        given = _files.read_npz(path, ("cheap", "refined"))
    for name, array in given.items():
        if array.shape != matrix.scores.shape:
            raise ValueError(
                f"{path.name}: {name} of shape {array.shape} does not fit scores of shape "
                f"{matrix.scores.shape}"
            )
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise ValueError(f"{path.name}: {name} must hold finite numbers")
    return matrix, {name: np.asarray(array, np.float64) for name, array in given.items()}


def narrow(matrix: "ScoreMatrix", name: str, count: int | None) -> "Floats | None":
    """Features of the cheap estimator: those in the file, or the first ones where a count is given."""
    if count is None:
        return matrix.cheap_features
    if matrix.cheap_features is not None or matrix.features is None:
        held = "no features" if matrix.cheap_features is None else "cheap_features already"
        raise ValueError(f"--cheap-features needs features to choose from; {name} has {held}")
    p = matrix.features.shape[1]
    if count > p:
        raise ValueError(f"--cheap-features must be at most {p}, the features of {name}, got {count}")
    return matrix.features[:, :count]


def folded(matrix: "ScoreMatrix", path: Path, column: str | None, folds: int) -> "NDArray[np.str_] | None":
    """Groups of the rows, refused where they are fewer than folds."""
    if column == "none" or matrix.groups is None:
        return None
    count = len(set(matrix.groups.tolist()))
    if count < folds:
        array = path.suffix.lower() == ".npz"
        if column is None and array:
            column = "groups" if _files.read_npz(path, ("groups",)) else "prompt_sha1"
        if column is None:  # costs stand in the tables of RouterBench only
            column = "prompt" if matrix.costs is None else "prompt or sample_id"
        fewer = f", or --folds {count}" if count > 1 else ""
        raise ValueError(
            f"groups come from {'array' if array else 'column'} {column} of {path.name} and are fewer "
            f"({count}) than --folds {folds}; give --groups none or another column{fewer}"
        )
    return matrix.groups


def aligned(matrix: "ScoreMatrix", fitted: "FittedRouter", name: str) -> "ScoreMatrix":
    """The matrix with its specialists in the order of the fit."""
    if len(matrix.models) != len(fitted.names):
        raise ValueError(
            f"{name} has scores of shape {matrix.scores.shape}, the router knows {len(fitted.names)} "
            f"specialists: {', '.join(fitted.names[:8])}"
        )
    if set(matrix.models) != set(fitted.names):
        strange = next(model for model in matrix.models if model not in fitted.names)
        raise ValueError(
            f"{name} has scores of {strange!r}, which the router does not know; it knows "
            f"{', '.join(fitted.names[:8])}"
        )
    return matrix.columns(fitted.names)


def estimates(
    fitted: "FittedRouter", matrix: "ScoreMatrix", given: dict[str, Any], name: str
) -> "tuple[Floats, Floats, str]":
    from porism.cli._judge import own

    if own(fitted, matrix):
        return fitted.m_hat, fitted.q_hat, "out of fold"
    m = cheap(fitted, matrix, given, name)
    if "refined" in given:
        return m, given["refined"], "given"
    if fitted.refined_model is None or matrix.features is None:
        missing = "features" if fitted.refined_model is not None else "array refined"
        raise ValueError(
            f"{name} is not the data of the fit, and has no {missing} to take refined estimates from"
        )
    return m, fitted.refined(matrix.features), "predicted"


def cheap(fitted: "FittedRouter", matrix: "ScoreMatrix", given: dict[str, Any], name: str) -> "Floats":
    if "cheap" in given:
        return given["cheap"]
    X = matrix.features if matrix.cheap_features is None else matrix.cheap_features
    if fitted.cheap_model is None or X is None:
        missing = "features" if fitted.cheap_model is not None else "array cheap"
        raise ValueError(
            f"{name} is not the data of the fit, and has no {missing} to take cheap estimates from"
        )
    return fitted.cheap(X if matrix.cheap_features is not None else X[:, : fitted.cheap_model.width])


def numbers(name: str, text: str, K: int) -> "Floats":
    import numpy as np

    try:
        values = np.array([float(word) for word in text.split(",")])
    except ValueError:
        raise ValueError(f"{name} must be a number or {K} numbers with commas, got {text!r}") from None
    if len(values) not in (1, K):
        raise ValueError(f"{name} must have 1 number or {K}, one a specialist, got {len(values)}")
    if np.isnan(values).any() or (name == "--price" and np.isinf(values).any()):
        raise ValueError(f"{name} must be finite, got {text!r}")
    return values if len(values) == K else np.repeat(values, K)


def money(name: str, text: str, K: int, infinite: bool = False) -> "Floats":
    import numpy as np

    values = numbers(name, text, K)
    if values.min() < 0:
        raise ValueError(f"{name} must be >= 0; got min {values.min():g}")
    if not infinite and np.isinf(values).any():
        raise ValueError(f"{name} must be finite, got {text!r}")
    return values


def sweep(text: str) -> "tuple[str, Floats]":
    import numpy as np

    name, found, span = text.partition("=")
    if name not in SWEPT:
        raise ValueError(f"--sweep must name one of {', '.join(SWEPT)}, got {name!r}")
    if not found:
        if name != "omega":
            raise ValueError(f"--sweep {name} needs a range: {name}=LOW:HIGH:COUNT")
        return name, np.linspace(0.0, 1.0, 11)
    try:
        low, high, count = span.split(":")
        ends, steps = (float(low), float(high)), int(count)
    except ValueError:
        raise ValueError(f"--sweep must look like {name}=0:1:11, got {text!r}") from None
    if not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and 1 <= steps <= 10_000):
        raise ValueError(f"--sweep needs finite ends and 1 to 10000 steps, got {text!r}")
    return name, np.linspace(*ends, steps)


@contextlib.contextmanager
def doubts(verb: Callable[..., object], name: str = "") -> Iterator[None]:
    """Show warnings of the library as lines, and name options as they are typed in its errors."""
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        try:
            yield
        except (ValueError, TypeError) as error:
            raise ValueError(as_options(str(error), verb, WORDS)) from error
    ours = (str(doubt.message) for doubt in doubts if issubclass(doubt.category, UserWarning))
    for message in dict.fromkeys(ours):
        typer.echo(f"porism route {name or verb.__name__}: warning: {message}", err=True)
