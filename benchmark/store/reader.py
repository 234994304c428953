"""Reading a run, whether it is running, finished or was cut down."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmark.core.run import RunInfo
from benchmark.store.store import connect_to_read, read_info


class StoreReader:
    """A run's results, row by row."""

    def __init__(self, folder: Path, *, check: bool = True) -> None:
        """Open a run; checking the whole file takes a second for a large one, and is for whoever reads it once."""
        self.folder = folder
        self._connection = connect_to_read(folder, check=check)
        if self._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            # Someone may be writing: whatever is read from here on is of one moment. It holds nobody up.
            self._connection.execute("BEGIN")
        self.info: RunInfo = read_info(self._connection)

    def __enter__(self) -> StoreReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """The rows a query finds, one after another."""
        return self._connection.execute(query, values)

    def records(self, query: str, *values: Any) -> Iterator[sqlite3.Row]:
        """The rows a query finds, with their columns' names."""
        cursor = self._connection.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor.execute(query, values)
