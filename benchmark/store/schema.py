"""The shape of a run's database, as numbered steps. A step, once released, is never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from benchmark.core.errors import StoreError

APPLICATION_ID = 0x71EB4EA6
"""Marks the file as ours, so that a foreign database is not taken for a run."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE run (info TEXT NOT NULL);
    CREATE TABLE models (model INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, info TEXT NOT NULL);
    CREATE TABLE samples (
        asked TEXT PRIMARY KEY, sample TEXT NOT NULL, category TEXT NOT NULL, grouped TEXT NOT NULL,
        prompt TEXT NOT NULL, target TEXT NOT NULL, choices TEXT NOT NULL, metadata TEXT NOT NULL
    );
    CREATE TABLE trials (
        id TEXT NOT NULL, model INTEGER NOT NULL, asked TEXT NOT NULL, sample TEXT NOT NULL, category TEXT NOT NULL,
        repeat INTEGER NOT NULL, agent TEXT NOT NULL, outcome TEXT NOT NULL, score REAL, answer TEXT, because TEXT,
        text TEXT, thinking TEXT, scores TEXT, failure_kind TEXT, failure TEXT,
        input_tokens INTEGER, cached_tokens INTEGER, output_tokens INTEGER, reasoning_tokens INTEGER, cost_usd REAL,
        model_s REAL, first_token_s REAL, queue_s REAL, retry_s REAL, attempts INTEGER NOT NULL,
        finished_at TEXT NOT NULL, cached INTEGER NOT NULL DEFAULT 0, superseded INTEGER NOT NULL DEFAULT 0
    );
    -- A failed trial that was asked again keeps its row, for what it cost; only one row counts as its result.
    CREATE UNIQUE INDEX one_result_per_trial ON trials (id) WHERE superseded = 0;
    CREATE TABLE ends (
        model INTEGER NOT NULL, state TEXT NOT NULL, message TEXT NOT NULL, seconds REAL NOT NULL, at TEXT NOT NULL
    );
    """,
    """
    -- Of a coding task: what the attempt amounted to, and step by step what happened.
    CREATE TABLE work (
        id TEXT NOT NULL, finished_at TEXT NOT NULL, work TEXT NOT NULL, transcript TEXT NOT NULL, PRIMARY KEY (id, finished_at)
    );
    """,
    """
    -- What is asked is found by an index with a name, which a long run can do without until its end.
    ALTER TABLE samples RENAME TO samples_before;
    CREATE TABLE samples (
        asked TEXT NOT NULL, sample TEXT NOT NULL, category TEXT NOT NULL, grouped TEXT NOT NULL,
        prompt TEXT NOT NULL, target TEXT NOT NULL, choices TEXT NOT NULL, metadata TEXT NOT NULL
    );
    INSERT INTO samples SELECT * FROM samples_before ORDER BY rowid;
    DROP TABLE samples_before;
    CREATE UNIQUE INDEX one_row_per_sample ON samples (asked);
    """,
)

INDEXES = {
    "one_result_per_trial": "trials (id) WHERE superseded = 0",
    "one_row_per_sample": "samples (asked)",
}
"""What can be put off while a run is new. Their keys are digests: with many rows every one that comes in dirties
a page of its own in each, which costs more than the row itself."""


def put_off(connection: sqlite3.Connection, indexes: Iterable[str]) -> None:
    """Go without some indexes until `complete`; for rows that cannot come twice."""
    for name in indexes:
        connection.execute(f"DROP INDEX {name}")


def complete(connection: sqlite3.Connection) -> None:
    """Make the indexes that were put off, also by a run that was cut down."""
    for name, keys in INDEXES.items():
        connection.execute(f"CREATE UNIQUE INDEX IF NOT EXISTS {name} ON {keys}")


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database up to date; each step happens wholly or not at all."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise StoreError("the run was made by a newer version of this tool; update it to read the run")
    for number, step in enumerate(MIGRATIONS[version:], start=version + 1):
        connection.executescript(
            f"BEGIN; {step}; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number}; COMMIT;"
        )
