"""Queries as lines of JSON and their answers, for `porism route run`."""

import json
import math
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from porism._show import plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from porism.theory.pandora import FittedRouter, Router

LONGEST = 1 << 24  # bytes of a line: more than any query, less than what fills the memory


class Wanted(BaseException):
    """The router asks for a refined estimate that the query does not hold.

    No `Exception`, since a router takes those for failures of the refinement.
    """

    def __init__(self, k: int) -> None:
        self.k = k


class Query:
    """One line: cheap estimates, and what it holds of refined ones."""

    def __init__(self, body: dict[str, Any], fitted: "FittedRouter", names: tuple[str, ...]) -> None:
        self.fitted = fitted
        self.wide: NDArray[np.float64] | None = None
        given = [key for key in ("cheap", "features") if key in body]
        if len(given) != 1:
            raise ValueError(
                f"a query must have either features or cheap, got {' and '.join(given) or 'none'}"
            )
        if "cheap" in body:
            K = len(names)
            self.m = _vector("cheap", body["cheap"], K, f"one estimate for each of the {K} specialists")
            self.m = np.clip(self.m, 0.0, 1.0) if fitted.returns == "binary" else self.m
        else:
            self.m = self._cheap(body["features"])
        self.known = _refined(body.get("refined"), names)
        if "expensive_features" in body:
            if fitted.refined_model is None:
                raise ValueError("the saved router has no expensive estimator: leave expensive_features out "
                                 "and send refined")  # fmt: skip
            width = fitted.refined_model.width
            self.wide = _vector(
                "expensive_features", body["expensive_features"], width, "the columns of the fit"
            )
        self.estimates: NDArray[np.float64] | None = None

    def _cheap(self, features: Any) -> "NDArray[np.float64]":
        cheap, refined = self.fitted.cheap_model, self.fitted.refined_model
        if cheap is None:
            raise ValueError("the saved router has no cheap estimator: send cheap, the estimates themselves")
        wide = refined is not None and isinstance(features, list) and len(features) == refined.width
        if wide and refined.width >= cheap.width:
            self.wide = _vector("features", features, refined.width, "the columns of the fit")
            return self.fitted.cheap(self.wide[: cheap.width])
        return self.fitted.cheap(_vector("features", features, cheap.width, "the columns of the fit"))

    def ask(self, k: int) -> float:
        """A refined estimate: from the line, or else from the expensive estimator; NaN if it failed."""
        if k in self.known:
            return self.known[k]
        if self.wide is None:
            raise Wanted(k)
        if self.estimates is None:
            self.estimates = self.fitted.refined(self.wide)
        return float(self.estimates[k])


class Service:
    """Answers lines with one router and counts what it answers."""

    def __init__(self, router: "Router", fitted: "FittedRouter") -> None:
        self.router, self.fitted = router, fitted
        self.counts = {"lines": 0, "decided": 0, "asked": 0, "errors": 0}
        self.first = ""

    def answer(self, line: bytes | None, number: int) -> str:
        """The answer to a line, as one line of JSON; None stands for a line that is too long."""
        self.counts["lines"] += 1
        label: Any = None
        try:
            body = _parse(line)
            label = _label(body)
            reply = {"id": label} | self._reply(Query(body, self.fitted, self.router.names))
            text = json.dumps(reply, allow_nan=False)
        except Exception as error:  # whatever a line does, the next one is answered
            self.counts["errors"] += 1
            message = " ".join(str(error).split()) or type(error).__name__
            self.first = self.first or f"line {number}: {message}"
            return json.dumps({"id": label, "line": number, "error": message})
        self.counts["decided" if "choice" in reply else "asked"] += 1
        return text

    @property
    def useless(self) -> str:
        """What to say where no line at all could be answered."""
        lines, errors = self.counts["lines"], self.counts["errors"]
        return f"no line could be answered: {self.first}" if lines == errors > 0 else ""

    def report(self) -> dict[str, Any]:
        """Counts of lines and of the router; None for a mean of nothing."""
        counters = self.router.counters()
        means = {name: None for name in ("spend_mean", "spend_se") if math.isnan(counters[name])}
        return self.counts | plain(counters | means)

    def _reply(self, query: Query) -> dict[str, Any]:
        names = self.router.names
        try:
            decision = self.router.route(query.m, query.ask)
        except Wanted as wanted:
            return {"refine": wanted.k, "name": names[wanted.k]}
        return {
            "choice": decision.choice,
            "name": decision.name,
            "value": decision.value,
            "spend": decision.spend,
            "refined": {names[k]: value for k, value in decision.refined.items()},
        }


def lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Lines that are not blank, with their numbers from 1, as they come; None for one that is too long."""
    number = 0
    while line := stream.readline(LONGEST):
        number += 1
        if len(line) == LONGEST and not line.endswith(b"\n"):
            while (rest := stream.readline(LONGEST)) and not rest.endswith(b"\n"):
                pass
            yield number, None
        elif line.strip():
            yield number, line


def queries(
    stream: IO[bytes], fitted: "FittedRouter", names: tuple[str, ...], name: str
) -> "NDArray[np.float64]":
    """Cheap estimates of all queries in a file of such lines, shape (n, K)."""
    found = []
    for number, line in lines(stream):
        try:
            found.append(Query(_parse(line), fitted, names).m)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{name} line {number}: {error}") from None
    if not found:
        raise ValueError(f"{name} holds no query; write one JSON object a line")
    return np.array(found)


def _parse(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise ValueError(f"the line has more than {LONGEST} bytes; send one query a line")
    try:
        body = json.loads(line.decode("utf-8-sig"), parse_constant=_no_constant, object_pairs_hook=_different)
    except UnicodeDecodeError as error:
        raise ValueError(f"the line is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the line is no JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueError("the line is nested too deeply") from None
    if not isinstance(body, dict):
        raise ValueError(f"a query must be a JSON object, got {_kind(body)}")
    return body


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON; null marks a refinement that failed")


def _different(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for key, value in pairs:
        if key in body:
            raise ValueError(f"an object has the key {key[:40]!r} twice")
        body[key] = value
    return body


def _label(body: dict[str, Any]) -> Any:
    label = body.get("id")
    if isinstance(label, (dict, list)) or (isinstance(label, float) and not math.isfinite(label)):
        raise ValueError(f"id must be a text or a finite number, got {_kind(label)}")
    return label


def _vector(name: str, value: Any, width: int, meaning: str) -> "NDArray[np.float64]":
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list of {width} numbers, got {_kind(value)}")
    if len(value) != width:
        raise ValueError(f"{name} must have {width} numbers, {meaning}, got {len(value)}")
    return np.array([_number(f"{name}[{i}]", item) for i, item in enumerate(value)], np.float64)


def _refined(value: Any, names: tuple[str, ...]) -> dict[int, float]:
    if value is None:
        return {}
    if isinstance(value, list):
        if len(value) != len(names):
            raise ValueError(
                f"refined must have an entry for each of the {len(names)} specialists, got {len(value)}; "
                "use an object for some of them"
            )
        pairs = list(enumerate(value))
    elif isinstance(value, dict):
        pairs = [(_place(key, names), item) for key, item in value.items()]
    else:
        raise ValueError(f"refined must be a list or an object, got {_kind(value)}")
    out: dict[int, float] = {}
    for k, item in pairs:
        if k in out:
            raise ValueError(f"refined names specialist {names[k]!r} twice")
        out[k] = math.nan if item is None else _number(f"refined of {names[k]!r}", item)
    return out


def _place(key: str, names: tuple[str, ...]) -> int:
    if key in names:
        return names.index(key)
    if key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(names):
        return int(key)
    raise ValueError(
        f"refined has no specialist {key[:40]!r}; use a name or a number from 0 to {len(names) - 1}"
    )


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number, got {_kind(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number


def _kind(value: Any) -> str:
    words = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return words.get(type(value), str(value)[:40])
