"""The batch jobs of a run, beside its store: written down before they are sent, kept until all is answered."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tiebreak.core.batch import OPEN, Job, JobState, Settled, Waiting
from tiebreak.core.errors import FailureKind, ProviderError, StoreError, StoreFull
from tiebreak.core.message import Reply
from tiebreak.store.folder import DATABASE, is_network_file_system

BATCHES = "batches.sqlite"
MOST_TRIES = 3
"""Jobs a request may be in before it counts as failed."""
_AT_ONCE = 500
_VERSION = 1
_TABLES = f"""
    BEGIN;
    CREATE TABLE jobs (
        number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, contestant TEXT NOT NULL, lines INTEGER NOT NULL,
        planned_at TEXT NOT NULL, previous TEXT NOT NULL, nano_usd INTEGER NOT NULL, tokens INTEGER NOT NULL,
        id TEXT NOT NULL, state TEXT NOT NULL, message TEXT NOT NULL
    );
    -- A request belongs to one job at a time, and to none while it waits to be sent (again).
    CREATE TABLE lines (
        number INTEGER PRIMARY KEY, trial TEXT NOT NULL UNIQUE, job TEXT, tries INTEGER NOT NULL, failure_kind TEXT, failure TEXT,
        nano_usd INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0, reply BLOB
    );
    CREATE INDEX lines_of_job ON lines (job);
    PRAGMA user_version = {_VERSION};
    COMMIT;
"""
_JOB = "key, contestant, lines, planned_at, previous, nano_usd, tokens, id, state, message"
_IS_OPEN = f"state IN {tuple(state.value for state in OPEN)}"
_UNSETTLED = "reply IS NULL AND failure_kind IS NULL"
_PLAN = (
    "INSERT INTO lines (trial, job, tries) VALUES (?, ?, 1)"
    " ON CONFLICT (trial) DO UPDATE SET job = excluded.job, tries = tries + 1, failure_kind = NULL, failure = NULL, reply = NULL"
)
_SETTLE = (
    "UPDATE lines SET reply = ?, failure_kind = ?, failure = ?, nano_usd = ?, tokens = ?"
    f" WHERE trial = ? AND job = ? AND {_UNSETTLED}"
)
_REPLY = msgspec.json.Decoder(Reply)


class BatchBook:
    """The jobs of one run, open for writing by the process that owns the run."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path) -> Iterator[BatchBook]:
        """The book of a run's folder, made where there is none. Failed requests of earlier sessions may be sent again."""
        path = folder / BATCHES
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            try:
                connection.execute(f"PRAGMA journal_mode = {'DELETE' if is_network_file_system(folder) else 'WAL'}")
                connection.execute("PRAGMA synchronous = FULL")
                if _version(connection, path) == 0:
                    connection.executescript(_TABLES)
                connection.execute(
                    "UPDATE lines SET job = NULL, tries = 0, failure_kind = NULL, failure = NULL WHERE failure_kind IS NOT NULL"
                )
            except sqlite3.DatabaseError as error:
                raise StoreError(
                    f"{path} cannot be used ({error}). It says which batches were paid for: without it they would be sent again"
                ) from None
            yield cls(connection)
            with contextlib.suppress(sqlite3.OperationalError):  # Somebody is looking at it.
                connection.execute("PRAGMA journal_mode = DELETE")

    def open_jobs(self, contestant: str) -> Sequence[Job]:
        """Jobs that may still bring answers, the oldest first."""
        query = f"SELECT {_JOB} FROM jobs WHERE contestant = ? AND {_IS_OPEN} ORDER BY number"
        return [_job(row) for row in self._connection.execute(query, (contestant,))]

    def remote_ids(self) -> frozenset[str]:
        """The provider's names of all our jobs."""
        return frozenset(row[0] for row in self._connection.execute("SELECT id FROM jobs WHERE id <> ''"))

    def in_hand(self, trials: Sequence[str]) -> set[str]:
        """Which of these trials are in an open job, or have a result."""
        return self._among(trials, f"(job IS NOT NULL OR NOT ({_UNSETTLED}))")

    def with_result(self, trials: Sequence[str]) -> set[str]:
        """Which of these trials have a result."""
        return self._among(trials, f"NOT ({_UNSETTLED})")

    def holds(self, job: Job, trial: str) -> bool:
        """Whether a trial is in a job."""
        query = "SELECT 1 FROM lines WHERE trial = ? AND job = ?"
        return self._connection.execute(query, (trial, job.key)).fetchone() is not None

    def plan(self, job: Job, trials: Iterable[str]) -> None:
        """Write a job down before it is sent."""
        planned = (job.key, job.contestant, job.lines, job.planned_at.isoformat(), job.previous, job.nano_usd, job.tokens)
        with self._together() as connection:
            connection.execute(
                f"INSERT INTO jobs ({_JOB}) VALUES (?, ?, ?, ?, ?, ?, ?, '', ?, '')", (*planned, JobState.PLANNED.value)
            )
            connection.executemany(_PLAN, ((trial, job.key) for trial in trials))

    def submitted(self, job: Job, identity: str) -> None:
        """Write down that a job exists, and by which name."""
        values = (JobState.SUBMITTED.value, identity, job.key)
        with self._together() as connection:
            connection.execute("UPDATE jobs SET state = ?, id = ? WHERE key = ?", values)

    def drop(self, job: Job, message: str) -> None:
        """Write down that a job was never created: its requests go into another one."""
        with self._together() as connection:
            connection.execute("UPDATE lines SET job = NULL, tries = tries - 1 WHERE job = ?", (job.key,))
            self._end(job, JobState.DROPPED, message)

    def expected(self, job: Job, trials: Sequence[str]) -> set[str]:
        """Which of these trials are in a job and have no result yet."""
        return self._among(trials, f"job = ? AND {_UNSETTLED}", job.key)

    def has_unsent(self) -> bool:
        """Whether a request was taken out of its job, to be sent in another."""
        return self._connection.execute("SELECT 1 FROM lines WHERE job IS NULL LIMIT 1").fetchone() is not None

    def settle(self, job: Job, results: Sequence[Settled]) -> None:
        """Write results down; the first one of a trial stands. What was asked again too often has failed."""
        rows = [
            (r.reply, r.kind and r.kind.value, r.message or None, r.nano_usd, r.tokens, r.trial, job.key)
            for r in results
            if not r.again
        ]
        with self._together() as connection:
            connection.executemany(_SETTLE, rows)
            for r in results:
                if r.again and r.kind is not None:
                    self._release(connection, f"trial = ? AND job = ? AND {_UNSETTLED}", (r.trial, job.key), r.kind, r.message)

    def collected(self, job: Job, *, again: bool, kind: FailureKind, message: str) -> None:
        """Write down that a job is over. What has no result by now is asked again, or failed."""
        with self._together() as connection:
            if again:
                self._release(connection, f"job = ? AND {_UNSETTLED}", (job.key,), kind, message)
            else:
                values = (kind.value, message, job.key)
                connection.execute(f"UPDATE lines SET failure_kind = ?, failure = ? WHERE job = ? AND {_UNSETTLED}", values)
            self._end(job, JobState.COLLECTED, message)

    def result_of(self, trial: str) -> Reply | None:
        """The reply to a trial; None where it was in no job. Raises ProviderError where there is none and will be none."""
        row = self._connection.execute("SELECT reply, failure_kind, failure FROM lines WHERE trial = ?", (trial,)).fetchone()
        if row is None or (row[0] is None and row[1] is None):
            return None
        if row[0] is None:
            raise ProviderError(row[2] or "no answer", kind=FailureKind(row[1]))
        return _REPLY.decode(row[0])

    def not_in_store(self, folder: Path) -> tuple[int, int]:
        """What answers cost that a session collected and did not live to store: billionths of a dollar, and tokens."""
        _, nano_usd, tokens = _not_in_store(self._connection, folder)
        return nano_usd, tokens

    def forget_answers(self) -> None:
        """Everything was answered and is in the store: what is left is which jobs there were."""
        self._connection.execute("DELETE FROM lines")
        self._connection.execute("VACUUM")

    def _among(self, trials: Sequence[str], condition: str, *values: str) -> set[str]:
        found: set[str] = set()
        for start in range(0, len(trials), _AT_ONCE):
            some = trials[start : start + _AT_ONCE]
            places = ", ".join("?" * len(some))
            query = f"SELECT trial FROM lines WHERE trial IN ({places}) AND {condition}"
            found.update(row[0] for row in self._connection.execute(query, (*some, *values)))
        return found

    def _release(
        self, connection: sqlite3.Connection, which: str, values: tuple[str, ...], kind: FailureKind, message: str
    ) -> None:
        """Have lines sent again, as long as they may be."""
        told = (kind.value, f"{message} (asked {MOST_TRIES} times)")
        connection.execute(
            f"UPDATE lines SET failure_kind = ?, failure = ? WHERE tries >= {MOST_TRIES} AND {which}", (*told, *values)
        )
        connection.execute(f"UPDATE lines SET job = NULL WHERE {which}", values)

    def _end(self, job: Job, state: JobState, message: str) -> None:
        self._connection.execute("UPDATE jobs SET state = ?, message = ? WHERE key = ?", (state.value, message, job.key))

    @contextlib.contextmanager
    def _together(self) -> Iterator[sqlite3.Connection]:
        """Changes that are on disk together, or not at all."""
        try:
            with self._connection as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
        except sqlite3.OperationalError as error:
            raise StoreFull(f"{BATCHES} could not be written ({error}); free some space, then resume the run") from None


def has_batches(folder: Path) -> bool:
    """Whether a run ever had batches."""
    return (folder / BATCHES).is_file()


def waiting_batches(folder: Path) -> list[Waiting]:
    """What a run waits for, contestant by contestant."""
    if not has_batches(folder):
        return []
    query = (
        f"SELECT contestant, sum(lines), min(planned_at), group_concat(nullif(id, ''), ' ') FROM jobs WHERE {_IS_OPEN}"
        " GROUP BY contestant ORDER BY min(number)"
    )
    path = (folder / BATCHES).resolve()
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute(query).fetchall()
    except sqlite3.Error:
        return []  # It is being made this very moment.
    return [
        Waiting(contestant=label, lines=lines, since=datetime.fromisoformat(since), ids=tuple((ids or "").split()))
        for label, lines, since, ids in rows
    ]


def answers_to_collect(folder: Path) -> int:
    """Answers of batches that are not in a run's store: those a provider still has, and those that were just brought home."""
    waiting = sum(one.lines for one in waiting_batches(folder))
    if not has_batches(folder):
        return waiting
    with contextlib.closing(sqlite3.connect(folder / BATCHES, isolation_level=None)) as connection:
        return waiting + _not_in_store(connection, folder)[0]


def _not_in_store(connection: sqlite3.Connection, folder: Path) -> tuple[int, int, int]:
    """Answers that are home and not in the store: how many, and what they cost."""
    connection.execute("ATTACH ? AS run", (str((folder / DATABASE).resolve()),))
    try:
        row = connection.execute(
            "SELECT count(*), total(nano_usd), total(tokens) FROM main.lines l WHERE reply IS NOT NULL"
            " AND NOT EXISTS (SELECT 1 FROM run.trials t WHERE t.id = l.trial)"
        ).fetchone()
    finally:
        connection.execute("DETACH run")
    return int(row[0]), int(row[1]), int(row[2])


def _version(connection: sqlite3.Connection, path: Path) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > _VERSION:
        raise StoreError(f"{path} was made by a newer version of tiebreak; update it to go on with the run")
    return version


def _job(row: Sequence[Any]) -> Job:
    key, contestant, lines, planned_at, previous, nano_usd, tokens, identity, state, message = row
    return Job(
        key=key,
        contestant=contestant,
        lines=lines,
        planned_at=datetime.fromisoformat(planned_at),
        previous=previous,
        nano_usd=nano_usd,
        tokens=tokens,
        id=identity,
        state=JobState(state),
        message=message,
    )
