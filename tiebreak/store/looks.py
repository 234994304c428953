"""Looks at a verdict before the end of the plan: written down before they are shown, because they cost certainty."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tiebreak.core.errors import StoreError
from tiebreak.store.folder import DATABASE
from tiebreak.store.store import read_info

_WAIT_S = 10.0
"""How long whoever is writing to the run is waited for."""
_ENDED = "SELECT contestant, count(*) FROM trials WHERE superseded = 0 GROUP BY contestant ORDER BY contestant"
_INSERT = "INSERT INTO looks VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What somebody saw: how many trials of each contestant had ended, by its number, out of how many planned."""

    planned: int
    answered: dict[int, int]


def look_into(folder: Path) -> bool:
    """Write down that somebody is about to see the run; False where nothing may be compared: in a shard, or in a locked store."""
    address = f"{(folder / DATABASE).resolve().as_uri()}?mode=rw"
    with contextlib.ExitStack() as stack:
        try:
            connection = sqlite3.connect(address, uri=True, timeout=_WAIT_S, isolation_level=None)
            stack.callback(connection.close)
            if read_info(connection).shard is not None:
                return False  # Part of a run: who saw it would have looked early at the whole.
            look = _look_now(connection)
        except (sqlite3.DatabaseError, StoreError):
            return True  # There is nothing to see; whoever reads the run says what is wrong with it.
        try:
            if look is not None:
                _record(connection, look)
        except sqlite3.DatabaseError:
            return False
    return True


def _look_now(connection: sqlite3.Connection) -> Look | None:
    """What is to be seen; None where nobody can compare anything yet, all is over, or nothing has happened since a look."""
    if connection.execute("SELECT 1 FROM figures WHERE name = 'summary'").fetchone():
        return None  # Kept when it was last seen, and forgotten by any change.
    info = read_info(connection)
    if info.protocol.until:
        return None  # The race looks after every sample, and its tests allow for any look.
    references = {contestant.label for contestant in info.contestants if contestant.reference}
    rows = connection.execute("SELECT contestant, label FROM contestants")
    tested = {number for number, label in rows if label not in references}
    ended = {number: count for number, count in connection.execute(_ENDED) if number in tested}
    early = len(ended) > 1 and min(ended.values()) < info.planned
    look = Look(planned=info.planned, answered=ended)
    return look if early and read_looks(connection)[-1:] != [look] else None


def _record(connection: sqlite3.Connection, look: Look) -> None:
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_INSERT, [(now, number, count, look.planned) for number, count in look.answered.items()])


def read_looks(connection: sqlite3.Connection) -> Sequence[Look]:
    """Every look, the first one first."""
    looks: dict[str, Look] = {}
    query = "SELECT at, contestant, answered, planned FROM looks WHERE contestant IS NOT NULL ORDER BY rowid"
    for at, contestant, answered, planned in connection.execute(query):
        looks.setdefault(at, Look(planned=planned, answered={})).answered[contestant] = answered
    return list(looks.values())


def read_extensions(connection: sqlite3.Connection) -> Sequence[int]:
    """The plans that the run was extended beyond, the first one first; in trials of each contestant."""
    return [row[0] for row in connection.execute("SELECT planned FROM looks WHERE contestant IS NULL ORDER BY rowid")]
