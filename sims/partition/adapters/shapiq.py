"""Read the values of a shapiq game, or record what an approximator asks of it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism._files import read_json, read_npz
from porism.checks import integer
from porism.sims.partition.adapters._rows import build_table, mask_of

if TYPE_CHECKING:
    from porism.theory.partition import UtilityTable

__all__ = ["RecordingGame", "from_shapiq"]


def from_shapiq(game: Any, *, on_duplicate: str = "raise") -> "UtilityTable":
    """Utility table of a shapiq game, or of a file that one was saved to.

    Parameters
    ----------
    game : shapiq.Game, path, or RecordingGame
        A game whose values were precomputed, the ``.npz`` or ``.json`` file of ``game.save_values`` or
        ``game.save`` (read without shapiq), or a :class:`RecordingGame`.
    on_duplicate : {"raise", "mean", "first"}
        What to do if a file or recording has one coalition with different scores.

    Returns
    -------
    UtilityTable
        Un-normalised scores; complete if all 2^n coalitions were stored.

    Raises
    ------
    ValueError
        If no value is stored: calling a game stores nothing, only ``precompute`` does.
    TypeError
        If ``game`` is none of the three.

    Notes
    -----
    Calling a shapiq game returns v(S) - ``normalization_value``; its storage and files hold v(S). The
    constant changes no difference of values, so top-k certificates agree either way, but it moves the
    rounding of scores, and levels that were equal may split. The stored scores are taken as they are.
    Time and memory are linear in the coalitions stored, plus 8 * 2^n bytes.

    References
    ----------
    shapiq 1.4, ``shapiq.Game``.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> game = SimpleNamespace(n_players=2, game_values={(): 1.0, (0,): 2.0, (1,): 4.0, (0, 1): 5.0})
    >>> from_shapiq(game).scores.tolist()
    [1.0, 2.0, 4.0, 5.0]
    """
    if isinstance(game, RecordingGame):
        return game.table(on_duplicate=on_duplicate)
    if isinstance(game, str | os.PathLike):
        coalitions, scores, n = _read(Path(game))
    elif hasattr(game, "game_values") and hasattr(game, "n_players"):
        coalitions, scores, n = list(game.game_values), list(game.game_values.values()), int(game.n_players)
    else:
        raise TypeError(
            f"game must be a shapiq Game, a RecordingGame or the path of a saved game, got "
            f"{type(game).__name__}; wrap a plain function in RecordingGame(function, n_players)"
        )
    if not coalitions:
        raise ValueError(
            "game must have stored values, got none: calling a shapiq game stores nothing; call "
            "game.precompute() first, or hand RecordingGame(game) to the approximator"
        )
    masks = [mask_of(coalition) for coalition in coalitions]
    return build_table(masks, scores, n, design=None if n <= 24 else "unknown", on_duplicate=on_duplicate)


class RecordingGame:
    """A game that answers as the given one does and keeps every coalition with its un-normalised score.

    Hand it to a shapiq approximator or ``ExactComputer(recording, n_players=recording.n_players)`` in
    place of the game.

    Parameters
    ----------
    game : shapiq.Game or callable
        A game, or a function of a bool matrix (coalitions, players) that returns one score a row.
    n_players : int, optional
        Number of players n >= 1; needed for a function, taken from a game.

    Raises
    ------
    TypeError
        If ``game`` cannot be called.
    ValueError
        If n_players is missing or differs from the game's, or the game returns another number of scores
        than it was asked for.

    Notes
    -----
    A ``Game`` subtracts its ``normalization_value`` from what it returns; the recorder evaluates with
    the value set to zero, restores it, records v(S) and returns v(S) - ``normalization_value``, so the
    approximator sees the same numbers. Sign and threshold decisions need the un-normalised scores.
    Memory: n/8 + 8 bytes a coalition. In one process only; not for concurrent calls.

    References
    ----------
    shapiq 1.4, ``shapiq.Game.__call__``.

    Examples
    --------
    >>> game = RecordingGame(lambda rows: rows.sum(axis=1) ** 2.0, n_players=2)
    >>> game(np.array([[True, False], [True, True]])).tolist()
    [1.0, 4.0]
    >>> game.table().missing()
    [(), (1,)]
    """

    def __init__(self, game: Callable[[NDArray[np.bool_]], ArrayLike], n_players: int | None = None) -> None:
        if not callable(game):
            kind = type(game).__name__
            raise TypeError(f"game must be callable, got {kind}; pass a shapiq Game or a function")
        own = getattr(game, "n_players", None)
        if n_players is None and own is None:
            raise ValueError("n_players must be given for a plain function, got None; count its players")
        count = int(own) if n_players is None and own is not None else n_players
        self.n_players = integer("n_players", count, 1)
        if own is not None and int(own) != self.n_players:
            raise ValueError(f"n_players must be the game's {own}, got {self.n_players}; leave it out")
        self.game = game
        self._rows: list[NDArray[np.uint8]] = []
        self._scores: list[NDArray[np.float64]] = []

    def __call__(self, coalitions: ArrayLike, **options: Any) -> NDArray[np.float64]:
        """Evaluate and record; options such as ``verbose`` are handed to the game."""
        rows = np.asarray(coalitions)
        if rows.ndim not in (1, 2) or rows.shape[-1] != self.n_players:
            raise ValueError(
                f"coalitions must have shape (rows, {self.n_players}) or ({self.n_players},), got "
                f"{rows.shape}; give one bool column a player"
            )
        matrix = np.atleast_2d(rows).astype(bool)
        shift = getattr(self.game, "normalization_value", None)
        if shift:
            try:
                self.game.normalization_value = 0.0  # type: ignore[attr-defined]
                scores = self.game(matrix, **options)
            finally:
                self.game.normalization_value = shift  # type: ignore[attr-defined]
        else:
            scores = self.game(matrix, **options)
        values = np.array(scores, dtype=np.float64).reshape(-1)
        if len(values) != len(matrix):
            raise ValueError(f"game must return one score a row ({len(matrix)}), got {len(values)}")
        self._rows.append(np.packbits(matrix, axis=1, bitorder="little"))
        self._scores.append(values)
        return values - (shift or 0.0)

    @property
    def coalitions(self) -> NDArray[np.bool_]:
        """Recorded coalitions in the order they were asked for, bool, shape (m, n)."""
        packed = np.concatenate([np.zeros((0, (self.n_players + 7) // 8), np.uint8), *self._rows])
        return np.unpackbits(packed, axis=1, count=self.n_players, bitorder="little").astype(bool)

    @property
    def values(self) -> NDArray[np.float64]:
        """Un-normalised score of each recorded coalition, shape (m,)."""
        return np.concatenate([np.zeros(0), *self._scores])

    def table(
        self,
        n: int | None = None,
        *,
        design: str | None = None,
        on_duplicate: str = "raise",
        score_range: tuple[float, float] | None = None,
    ) -> "UtilityTable":
        """Everything recorded so far as a utility table.

        Parameters
        ----------
        n : int, optional
            Number of players; default: the game's.
        design : str, optional
            None: a dense table (n <= 24). Else the sampled rows under this design; shapiq's samplers
            remove duplicates and pair coalitions with their complements, so "unknown" is the true name.
        on_duplicate : {"raise", "mean", "first"}
            Dense tables only: what to do with a coalition that came with different scores.
        score_range : (float, float), optional
            Interval that holds every possible score.

        Returns
        -------
        UtilityTable
            Un-normalised scores.

        Raises
        ------
        ValueError
            If nothing was recorded.
        """
        if not self._rows:
            raise ValueError("game must have been called, got no record; hand it to an approximator first")
        masks = [int.from_bytes(row.tobytes(), "little") for block in self._rows for row in block]
        n = self.n_players if n is None else n
        return build_table(
            masks, self.values.tolist(), n, design=design, score_range=score_range, on_duplicate=on_duplicate
        )


def _read(path: Path) -> tuple[list[Any], list[float], int]:
    if path.suffix == ".npz":
        data = read_npz(path)
        absent = {"coalitions", "values", "n_players"} - set(data)
        if absent:
            raise ValueError(
                f"game: {path.name} must be a file that shapiq saved, it lacks "
                f"{', '.join(sorted(absent))}; read other tables with UtilityTable.load"
            )
        members = [np.flatnonzero(row) for row in data["coalitions"]]
        return members, data["values"].tolist(), int(data["n_players"])
    if path.suffix != ".json":
        raise ValueError(f"game must be a .npz or .json file, got {path.name}; save it with game.save_values")
    content = read_json(path)
    try:
        n = int(content["metadata"]["n_players"])
        names, scores = list(content["data"]), [float(value) for value in content["data"].values()]
        return [[] if name == "Empty" else [int(i) for i in name.split(",")] for name in names], scores, n
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ValueError(
            f"game: {path.name} must be a file that shapiq saved, with metadata.n_players and data; read "
            "other tables with UtilityTable.load"
        ) from None
