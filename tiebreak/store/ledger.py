"""What a run with a budget may have spent, written down before it may be spent: a kill makes nobody forget it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tiebreak.store.folder import DATABASE
from tiebreak.store.writer import explained

_PATIENCE_S = 60.0
"""The writer of the results may hold the store for a while, on a slow disk."""


class Ledger:
    """The most that may have been spent, in billionths of a dollar and in tokens."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path) -> Iterator[Ledger]:
        """The ledger in the store of a run, by a connection of its own: results are written by another thread."""
        connection = sqlite3.connect(folder / DATABASE, isolation_level=None, timeout=_PATIENCE_S)
        with contextlib.closing(connection):
            connection.execute("PRAGMA synchronous = FULL")
            yield cls(connection)

    @property
    def risked(self) -> tuple[int, int]:
        """What earlier sessions may have spent."""
        # A run merged of several has a row of each.
        found = self._connection.execute("SELECT coalesce(sum(nano_usd), 0), coalesce(sum(tokens), 0) FROM risked").fetchone()
        return found[0], found[1]

    def keep(self, nano_usd: int, tokens: int) -> None:
        """Write down what may have been spent from now on. It is on disk when this returns."""
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("DELETE FROM risked")
                self._connection.execute("INSERT INTO risked VALUES (?, ?)", (nano_usd, tokens))
        except sqlite3.Error as error:
            raise explained(error) from None
