"""The shape of a run's database, as numbered steps. A step, once released, is never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from tiebreak.core.errors import StoreError

APPLICATION_ID = 0x71EB4EA6
"""Marks the file as ours, so that a foreign database is not taken for a run."""

OLDEST = 10
"""Stores below this version were made before contestants were stored; they are refused."""

_SOURCES = ("run", "contestants", "samples", "trials", "ends", "work", "looks", "timings", "judgements", "preferences")
_FORGETTING = "".join(
    f"CREATE TRIGGER {table}_{act} AFTER {act} ON {table} BEGIN DELETE FROM figures; END;"
    for table in _SOURCES
    for act in ("insert", "update", "delete")
)
"""Whoever changes a run, by whatever program, makes what was worked out of it before be forgotten."""

MIGRATIONS: tuple[str, ...] = (
    f"""
    CREATE TABLE run (info TEXT NOT NULL);
    CREATE TABLE contestants (
        contestant INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, model TEXT NOT NULL, provider TEXT NOT NULL,
        agent TEXT NOT NULL, prompt TEXT NOT NULL, info TEXT NOT NULL
    );
    CREATE TABLE samples (
        asked TEXT NOT NULL, sample TEXT NOT NULL, category TEXT NOT NULL, grouped TEXT NOT NULL,
        place INTEGER NOT NULL, prompt TEXT NOT NULL, target TEXT NOT NULL, choices TEXT NOT NULL, metadata TEXT NOT NULL,
        media TEXT NOT NULL
    );
    -- Images and documents that were sent, each once; the column media of samples names them by digest.
    CREATE TABLE blobs (digest TEXT PRIMARY KEY, media_type TEXT NOT NULL, data BLOB NOT NULL);
    CREATE UNIQUE INDEX one_row_per_sample ON samples (asked);
    -- Long texts come last: what stands behind them in a row is reached only by reading them.
    CREATE TABLE trials (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL, contestant INTEGER NOT NULL, asked TEXT NOT NULL, sample TEXT NOT NULL,
        category TEXT NOT NULL, repeat INTEGER NOT NULL, outcome TEXT NOT NULL, score REAL, second REAL, failure_kind TEXT,
        input_tokens INTEGER, cached_tokens INTEGER, output_tokens INTEGER, reasoning_tokens INTEGER, cost_usd REAL,
        model_s REAL, first_token_s REAL, queue_s REAL, retry_s REAL, in_flight INTEGER, attempts INTEGER NOT NULL,
        finished_at TEXT NOT NULL, cached INTEGER NOT NULL DEFAULT 0, superseded INTEGER NOT NULL DEFAULT 0,
        unjudged TEXT, answer TEXT, because TEXT, failure TEXT, scores TEXT, text TEXT, thinking TEXT
    );
    -- unjudged: the outcome of an answer that some judge has still to judge; its failure_kind is unjudged while it has no score.
    -- A failed trial that was asked again keeps its row, for what it cost; only one row counts as its result.
    -- Who looks a trial up by its id says NOT superseded too. Who reads all of them says superseded = 0: SQLite would
    -- else go by the index, that is from page to page at random.
    CREATE UNIQUE INDEX one_result_per_trial ON trials (id) WHERE NOT superseded;
    CREATE TABLE ends (
        contestant INTEGER NOT NULL, state TEXT NOT NULL, message TEXT NOT NULL, seconds REAL NOT NULL, at TEXT NOT NULL
    );
    -- Of a coding task: what the attempt amounted to, and step by step what happened.
    CREATE TABLE work (
        id TEXT NOT NULL, finished_at TEXT NOT NULL, work TEXT NOT NULL, transcript TEXT NOT NULL, PRIMARY KEY (id, finished_at)
    );
    -- Of a question with tools or further turns: everything that was said after its own messages.
    CREATE TABLE exchanges (id TEXT NOT NULL, finished_at TEXT NOT NULL, messages TEXT NOT NULL, PRIMARY KEY (id, finished_at));
    -- Who saw a verdict before the plan was at its end: of each contestant, how many of its planned trials had ended.
    -- A row without a contestant says that the run was extended beyond the plan it names.
    CREATE TABLE looks (at TEXT NOT NULL, contestant INTEGER, answered INTEGER NOT NULL, planned INTEGER NOT NULL);
    -- What judges said of answers, models and people; the scorer of a person is human:NAME, and its judge is empty.
    -- Verdicts that were replaced keep their rows, for what they cost, and so do tries that failed.
    CREATE TABLE judgements (
        number INTEGER PRIMARY KEY, trial TEXT NOT NULL, scorer TEXT NOT NULL, judge TEXT NOT NULL, value REAL,
        failure_kind TEXT, calls INTEGER NOT NULL, input_tokens INTEGER, output_tokens INTEGER, cost_usd REAL,
        seconds REAL NOT NULL, at TEXT NOT NULL, superseded INTEGER NOT NULL DEFAULT 0,
        grades TEXT, because TEXT, failure TEXT, reply_text TEXT
    );
    CREATE INDEX judgements_of_trial ON judgements (trial);
    -- Which of two answers to a sample somebody prefers, in the order they were shown: models, and people as above.
    -- better: 1 the first, 2 the second, 0 a tie, -1 neither is any good; none where a judge failed.
    CREATE TABLE preferences (
        number INTEGER PRIMARY KEY, sample TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL, scorer TEXT NOT NULL,
        judge TEXT NOT NULL, better INTEGER, failure_kind TEXT, calls INTEGER NOT NULL, input_tokens INTEGER,
        output_tokens INTEGER, cost_usd REAL, seconds REAL NOT NULL, local INTEGER NOT NULL, at TEXT NOT NULL,
        superseded INTEGER NOT NULL DEFAULT 0, because TEXT, failure TEXT, reply_text TEXT
    );
    CREATE INDEX preferences_of_pair ON preferences (first, second);
    -- How much of the votes kept beside the store is in it.
    CREATE TABLE joined_votes (bytes INTEGER NOT NULL);
    -- Answers that were asked for again one at a time, for their times alone.
    CREATE TABLE timings (
        contestant INTEGER NOT NULL, asked TEXT NOT NULL, model_s REAL NOT NULL, first_token_s REAL, cost_usd REAL
    );
    -- What reports worked out of all that, as JSON and by sample, in the order of their names; see store/reader.py.
    CREATE TABLE figures (name TEXT PRIMARY KEY, made_with TEXT NOT NULL, data TEXT NOT NULL);
    CREATE TABLE facts (
        place INTEGER PRIMARY KEY, sample TEXT NOT NULL, category TEXT NOT NULL, trials TEXT NOT NULL, mean REAL NOT NULL,
        spread REAL NOT NULL, slowest_s REAL NOT NULL, failed INTEGER NOT NULL, answered INTEGER NOT NULL, right INTEGER NOT NULL,
        readings_differ INTEGER NOT NULL
    );
    {_FORGETTING}
    """,
    # It stands behind the long texts: read it only of runs that were streamed.
    "ALTER TABLE trials ADD COLUMN first_answer_s REAL",
    # The most that a run with a budget may have spent so far: written before it may be spent.
    "CREATE TABLE risked (nano_usd INTEGER NOT NULL, tokens INTEGER NOT NULL)",
    # Rare, so not a column: calls that may have been paid for, of trials whose own rows do not tell of any doubt.
    "CREATE TABLE unknown_calls (contestant INTEGER NOT NULL, trial TEXT NOT NULL, calls INTEGER NOT NULL)",
)

INDEXES = {
    "one_result_per_trial": "trials (id) WHERE NOT superseded",
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
    if version:
        check_version(version)
    done = max(0, version - OLDEST + 1)
    for number, step in enumerate(MIGRATIONS[done:], start=OLDEST + done):
        connection.executescript(
            f"BEGIN; {step}; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number}; COMMIT;"
        )


def is_outdated(connection: sqlite3.Connection) -> bool:
    """Whether steps are missing in a store that can be read."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0]) < OLDEST + len(MIGRATIONS) - 1


def check_version(version: int) -> None:
    """Refuse a store of a version this program cannot read."""
    if version < OLDEST:
        raise StoreError("the run was made by an earlier version of tiebreak, whose runs this one cannot read; run it again")
    if version >= OLDEST + len(MIGRATIONS):
        raise StoreError("the run was made by a newer version of tiebreak; update it to read the run")
