"""Reading a run, whether it is running, finished or was cut down."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from tiebreak import __version__
from tiebreak.core.run import RunInfo
from tiebreak.store.folder import DATABASE, owned
from tiebreak.store.looks import Look, read_extensions, read_looks
from tiebreak.store.store import connect_to_read, damaged, keep_figures, read_info, refusing, stands
from tiebreak.store.without_answers import hide_answers

Figures = TypeVar("Figures")
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Texts that are none are told by Python, without a code of SQLite's."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE or "Could not decode to UTF-8" in str(error)


class StoreReader:
    """A run's results, row by row."""

    def __init__(self, folder: Path, *, check: bool = True, mode: str = "ro", answers: bool = True) -> None:
        """Open a run. Unless it was left in order, the whole file is checked, which takes a second for a large one.

        Without `answers`, no text of a question or an answer is found in it.
        """
        self.folder = folder
        self.answers = answers
        self._connection = connect_to_read(folder, check=check, mode=mode)
        with refusing(self._connection, folder / DATABASE):
            if not answers:
                hide_answers(self._connection)
            if mode == "ro" and self._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                # Someone may be writing: whatever is read from here on is of one moment. It holds nobody up.
                self._connection.execute("BEGIN")
            self.info: RunInfo = read_info(self._connection)
            self.numbers: dict[str, int] = dict(self.rows("SELECT label, contestant FROM contestants"))
            """Each contestant's number in the other tables, by label."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._connection.close()
        if isinstance(error, UnicodeDecodeError) or (isinstance(error, sqlite3.DatabaseError) and _is_damage(error)):
            raise damaged(self.folder / DATABASE, error) from None

    def rows(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """The rows a query finds, one after another."""
        return self._connection.execute(query, values)

    def records(self, query: str, *values: Any) -> Iterator[sqlite3.Row]:
        """The rows a query finds, with their columns' names."""
        cursor = self._connection.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor.execute(query, values)

    def looks(self) -> Sequence[Look]:
        """Who saw a comparison before the end of the plan."""
        return read_looks(self._connection)

    def extensions(self) -> Sequence[int]:
        """The plans that the run was extended beyond."""
        return read_extensions(self._connection)

    def answered_counts(self, *, retry_failed: bool) -> dict[str, int]:
        """By contestant, how many trials it need not be asked again: those with a result, and those that wait for a judge."""
        settled = f"superseded = 0 AND ({stands(retry_failed)} OR unjudged IS NOT NULL)"
        counts = dict(self.rows(f"SELECT contestant, count(*) FROM trials WHERE {settled} GROUP BY contestant"))
        return {label: counts.get(number, 0) for label, number in self.numbers.items()}

    def figures(self, name: str, kind: type[Figures]) -> Figures | None:
        """What this version of the program worked out of the run as it is now, and kept; None where it did not."""
        row = next(self.rows("SELECT data FROM figures WHERE name = ? AND made_with = ?", name, __version__), None)
        return None if row is None else msgspec.json.decode(row[0], type=kind)


class FiguresKeeper(StoreReader):
    """A run at rest, read to keep what is worked out of it."""

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path) -> Iterator[FiguresKeeper]:
        """Hold the run meanwhile; all figures are kept together, or none. OSError says that they cannot be."""
        try:
            with owned(folder), cls(folder, mode="rw") as keeper, keeper._connection as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield keeper
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
                raise  # A slip in the query; everything else is the disk's doing, or somebody in the way.
            raise OSError(str(error)) from None

    def keep(self, name: str, figures: Any) -> None:
        """Keep some figures until the run changes."""
        keep_figures(self._connection, name, figures)

    def keep_facts(self, query: str, *values: Any) -> None:
        """Keep what a query finds about every sample; the columns are those of `facts` after its first."""
        self._connection.execute("DELETE FROM facts")
        columns = "sample, category, trials, mean, spread, slowest_s, failed, answered, right, readings_differ"
        self._connection.execute(f"INSERT INTO facts ({columns}) {query}", values)
