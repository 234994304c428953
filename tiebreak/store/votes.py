"""People's votes, kept beside a run's store: one line each, on disk before they are confirmed.

While a run goes on its store has one writer, and a page that takes votes is another program. So votes are appended to a file,
and joined to the store when nobody else holds it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tiebreak.core.record import Record
from tiebreak.store.judgements import HUMAN, keep_votes

VOTES = "votes.jsonl"
_REPLACE_PAIR = """
    UPDATE preferences SET superseded = 1
    WHERE superseded = 0 AND scorer = ?1 AND ((first = ?2 AND second = ?3) OR (first = ?3 AND second = ?2))
"""
_INSERT_PAIR = """
    INSERT INTO preferences (sample, first, second, scorer, judge, better, calls, seconds, local, at)
    VALUES (?, ?, ?, ?, '', ?, 0, 0.0, 0, ?)
"""


class Vote(Record, frozen=True, kw_only=True):
    """What a person says of two answers, or of one; or that they take it back."""

    person: str
    sample: str
    first: str
    """The trial of the answer shown on the left, or of the only one."""
    second: str | None = None
    verdict: int | None
    """Of two answers: 1 or 2, 0 for a tie, -1 for both bad. Of one: 1 right, 0 wrong. None takes a vote back."""
    at: str

    @property
    def subject(self) -> tuple[str, str, str]:
        """Whose vote on what: a later vote on the same replaces an earlier one, so that one sent twice counts once."""
        first, second = sorted((self.first, self.second or ""))
        return self.person, first, second


def append_vote(folder: Path, vote: Vote) -> None:
    """Keep a vote; it is on disk when this returns. A line that a kill left unfinished is closed first."""
    path = folder / VOTES
    new = not path.exists()
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(msgspec.json.encode(vote) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if new:
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_votes(folder: Path, start: int = 0) -> Iterator[tuple[Vote, int]]:
    """The votes from a place in the file on, each with the place behind it; what a kill cut off is no vote."""
    try:
        with (folder / VOTES).open("rb") as file:
            file.seek(start)
            for line in file:
                start += len(line)
                if not line.endswith(b"\n"):
                    return
                try:
                    yield msgspec.json.decode(line, type=Vote), start
                except (msgspec.DecodeError, UnicodeError):
                    continue
    except FileNotFoundError:
        return


def votes_size(folder: Path) -> int:
    """How much of votes there is."""
    try:
        return (folder / VOTES).stat().st_size
    except OSError:
        return 0


def joined_size(connection: sqlite3.Connection) -> int:
    """How much of them is in the store."""
    return int(connection.execute("SELECT coalesce(max(bytes), 0) FROM joined_votes").fetchone()[0])


def join_votes(connection: sqlite3.Connection, folder: Path) -> None:
    """Bring into the store what it does not have yet: all of it or nothing, and never twice."""
    joined = joined_size(connection)
    if votes_size(folder) <= joined:
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for vote, end in read_votes(folder, joined):
            _join(connection, vote)
            joined = end
        connection.execute("DELETE FROM joined_votes")
        connection.execute("INSERT INTO joined_votes VALUES (?)", (joined,))


def _join(connection: sqlite3.Connection, vote: Vote) -> None:
    scorer = f"{HUMAN}{vote.person}"
    if vote.second is not None:
        connection.execute(_REPLACE_PAIR, (scorer, vote.first, vote.second))
        if vote.verdict is not None:
            row = (vote.sample, vote.first, vote.second, scorer, vote.verdict, vote.at)
            connection.execute(_INSERT_PAIR, row)
    elif vote.verdict is not None:
        keep_votes(connection, vote.person, [(vote.first, float(vote.verdict))])
    else:
        connection.execute("UPDATE judgements SET superseded = 1 WHERE trial = ? AND scorer = ?", (vote.first, scorer))
