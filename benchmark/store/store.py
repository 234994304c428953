"""The store of one run: opened once, owned by one process, readable by all."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import msgspec

from benchmark.core.errors import ProtocolMismatch, StoreError
from benchmark.core.events import Event
from benchmark.core.message import Usage
from benchmark.core.model import ModelRef
from benchmark.core.redact import Redactor
from benchmark.core.run import RunInfo
from benchmark.core.trial import Outcome, Output, Score, Trial
from benchmark.store.folder import DATABASE, check_writable, is_network_file_system, owned
from benchmark.store.kept import kept_trials
from benchmark.store.rows import safe
from benchmark.store.schema import APPLICATION_ID, complete, migrate, put_off
from benchmark.store.writer import Writer

_LOOK_UP = 500
"""Trials looked up at once when a run goes on."""
_MADE_AT_ONCE = 64
"""Trials made ahead of a new run: one by one between the requests, each would take three times as long."""
_RESTING_TRIES, _RESTING_WAIT_S = 40, 0.05

_UNKNOWN = "outcome = 'failed' AND input_tokens IS NULL AND failure_kind IN ('overloaded', 'transient', 'timeout', 'malformed')"
"""Failed attempts that may have been paid for; a refused request costs nothing."""

_JUDGED_AS = "CASE WHEN failure_kind = 'unchecked' AND text IS NOT NULL THEN 'answered' ELSE outcome END"
"""The outcome of a trial that is judged anew: an answer that nobody had judged yet is an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a model's trials used so far, also those asked again since."""

    priced: Usage
    unpriced: Usage
    unknown_attempts: int
    """Attempts that failed before anyone said what they used."""
    unknown_characters: int
    """What was sent with them."""


class Store:
    """A run's database, open for writing."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, info: RunInfo, *, resumed: bool) -> None:
        self.folder = folder
        self.info = info
        self.resumed = resumed
        self._connection = connection
        self._models = dict(connection.execute("SELECT label, model FROM models"))

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path, info: RunInfo, *, without: Iterable[str] = ()) -> Iterator[Store]:
        """Make the run's store, or go on with the one that is there. Refuses before anything is asked.

        A new one does without the indexes named until it is closed: see `benchmark.store.schema`.
        """
        check_writable(folder, info.planned * len(info.models))
        with owned(folder), contextlib.closing(_connect(folder)) as connection:
            resumed = connection.execute("SELECT count(*) FROM run").fetchone()[0] > 0
            info = _continued(read_info(connection), info) if resumed else info
            _record(connection, info)
            if resumed:
                complete(connection)
            else:
                put_off(connection, without)
            yield cls(folder, connection, info, resumed=resumed)
            complete(connection)
            _come_to_rest(connection)

    def unfinished(self, trials: Iterable[Trial], *, retry_failed: bool) -> Iterator[Trial]:
        """The trials that still have to be asked, in order, without holding them all."""
        rest = iter(trials)
        while chunk := list(islice(rest, _LOOK_UP if self.resumed else _MADE_AT_ONCE)):
            done = self._finished([trial.id for trial in chunk], retry_failed=retry_failed) if self.resumed else ()
            yield from [trial for trial in chunk if trial.id not in done]

    def finished_count(self, model: ModelRef, *, retry_failed: bool) -> int:
        """How many trials of a model need not be asked again."""
        query = f"SELECT count(*) FROM trials WHERE superseded = 0 AND model = ? AND {_kept(retry_failed)}"
        count: int = self._connection.execute(query, (self._models[model.label],)).fetchone()[0]
        return count

    def used(self, model: ModelRef) -> Used:
        """What a model used in all sessions, for the budget of the next."""
        sums = "total(input_tokens), total(cached_tokens), total(output_tokens)"
        number = (self._models[model.label],)
        ask = self._connection.execute
        priced = ask(f"SELECT {sums}, sum(cost_usd) FROM trials WHERE model = ? AND cost_usd IS NOT NULL", number).fetchone()
        unpriced = ask(f"SELECT {sums} FROM trials WHERE model = ? AND cost_usd IS NULL", number).fetchone()
        unknown = "SELECT total(attempts), total(attempts * length(prompt)) FROM trials JOIN samples USING (asked)"
        attempts, sent = ask(f"{unknown} WHERE model = ? AND {_UNKNOWN}", number).fetchone()
        return Used(
            priced=_usage(*priced),
            unpriced=_usage(*unpriced),
            unknown_attempts=int(attempts),
            unknown_characters=int(sent),
        )

    def committed(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        """Write the events and yield each on once it is on disk."""
        redact = Redactor.from_environment()
        return Writer(self._connection, self._models, redact, resumed=self.resumed).committed(events)

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """What is changed inside is kept together, or, when an error or a kill comes between, not at all."""
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield

    def outputs(self, trials: Sequence[Trial]) -> dict[str, Output]:
        """What was answered in these trials, by trial; those that failed or were not asked are missing."""
        places = ", ".join("?" * len(trials))
        query = (
            f"SELECT id, text, {_JUDGED_AS} FROM trials WHERE superseded = 0 AND {_JUDGED_AS} <> 'failed' AND id IN ({places})"
        )
        found = self._connection.execute(query, [trial.id for trial in trials])
        return {row[0]: Output(text=row[1] or "", outcome=Outcome(row[2])) for row in found}

    def trials(self, model: ModelRef) -> Iterator[Trial]:
        """The trials of a model as the store knows them, for a run whose questions it alone has."""
        return kept_trials(self._connection, model, self._models[model.label], self.info.protocol.scorers)

    def rescore(self, judged: Sequence[tuple[Trial, Mapping[str, Score]]]) -> None:
        """Put new scores beside the old ones; the first of the new ones is the one that ranks from now on."""
        for trial, scores in judged:
            kept = {**self._scores(trial), **scores}
            primary = next(iter(scores.values()))
            self._connection.execute(
                f"UPDATE trials SET score = ?, answer = ?, because = ?, scores = ?, outcome = {_JUDGED_AS},"
                " failure_kind = NULL, failure = NULL WHERE id = ? AND superseded = 0",
                (primary.value, safe(primary.answer), safe(primary.because), msgspec.json.encode(kept).decode(), trial.id),
            )

    def _scores(self, trial: Trial) -> dict[str, Score]:
        """The scores a trial has so far, by scorer."""
        query = "SELECT scores, score, answer, because FROM trials WHERE id = ? AND superseded = 0"
        kept, value, answer, because = self._connection.execute(query, (trial.id,)).fetchone()
        if kept is not None:
            return msgspec.json.decode(kept, type=dict[str, Score])
        if value is None:
            return {}
        chosen = self.info.protocol.chosen_scorers or trial.sample.scorers
        return {chosen[0]: Score(value=value, answer=answer, because=because or "")}

    def judged_by(self, scorers: tuple[str, ...]) -> None:
        """Note in the protocol by which scorers the results now stand."""
        self.info = replace(self.info, protocol=replace(self.info.protocol, scorers=scorers))
        self._connection.execute("UPDATE run SET info = ?", (msgspec.json.encode(self.info).decode(),))

    def _finished(self, ids: list[str], *, retry_failed: bool) -> set[str]:
        places = ", ".join("?" * len(ids))
        query = f"SELECT id FROM trials WHERE superseded = 0 AND id IN ({places}) AND {_kept(retry_failed)}"
        return {row[0] for row in self._connection.execute(query, ids)}


def _come_to_rest(connection: sqlite3.Connection) -> None:
    """At rest a run is one plain file, to be copied or mailed. Who is just looking is waited for, but not for long."""
    for _ in range(_RESTING_TRIES):
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError:
            time.sleep(_RESTING_WAIT_S)
        else:
            return


def _usage(sent: float, cached: float, made: float, cost: float | None = None) -> Usage:
    return Usage(input_tokens=int(sent), cached_tokens=int(cached), output_tokens=int(made), cost_usd=cost)


def _kept(retry_failed: bool) -> str:
    """Which results stand: what was answered, and unless asked otherwise what was refused as a request."""
    blamed = "" if retry_failed else " OR failure_kind IN ('bad_request', 'context_length', 'budget', 'unchecked')"
    return f"(outcome <> 'failed'{blamed})"


def read_info(connection: sqlite3.Connection) -> RunInfo:
    """What a database says of its run."""
    row = connection.execute("SELECT info FROM run").fetchone()
    if row is None:
        raise StoreError("the run was never started")
    return msgspec.json.decode(row[0], type=RunInfo)


def connect_to_read(folder: Path, *, check: bool = True) -> sqlite3.Connection:
    """A connection that cannot change anything; a damaged or foreign file is named."""
    path = folder / DATABASE
    if not path.is_file():
        raise StoreError(f"there is no run in {folder}")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    _check(connection, path, whole=check)
    return connection


def _connect(folder: Path) -> sqlite3.Connection:
    path = folder / DATABASE
    existed = path.exists() and path.stat().st_size > 0
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    with contextlib.ExitStack() as opening:
        opening.callback(connection.close)
        try:
            if existed:
                _check(connection, path)
            # Over a network the write-ahead log's shared memory does not work; a rollback journal does.
            connection.execute(f"PRAGMA journal_mode = {'DELETE' if is_network_file_system(folder) else 'WAL'}")
            connection.execute("PRAGMA synchronous = FULL")
            migrate(connection)
        except sqlite3.DatabaseError as error:
            raise _damaged(path, error) from None
        opening.pop_all()
    return connection


def _check(connection: sqlite3.Connection, path: Path, *, whole: bool = True) -> None:
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0] if whole else "ok"
    except sqlite3.DatabaseError as error:
        connection.close()
        raise _damaged(path, error) from None
    if application != APPLICATION_ID:
        connection.close()
        raise StoreError(f"{path} is a database of something else; nothing was changed")
    if verdict != "ok":
        connection.close()
        raise _damaged(path, verdict)


def _damaged(path: Path, reason: object) -> StoreError:
    return StoreError(f"{path} is damaged ({reason}); nothing was changed. What can still be read: sqlite3 {path.name} .recover")


def _continued(stored: RunInfo, wanted: RunInfo) -> RunInfo:
    """The stored run, with the models that were added; its questions must be the same."""
    names = [n for n in stored.protocol.__slots__ if getattr(stored.protocol, n) != getattr(wanted.protocol, n)]
    # A file may have moved (its digest says it is the same), and a run may be made longer.
    names = [n for n in names if n not in ("dataset", "source") and not (n == "limit" and wanted.planned > stored.planned)]
    if names:
        raise ProtocolMismatch(
            f"the run {stored.run_id} was made with another {', '.join(names)}; its results cannot be mixed with these. "
            "Start a new run, or resume with what it was made with"
        )
    known = {model.label: model for model in stored.models}
    changed = [m.label for m in wanted.models if m.label in known and known[m.label].digest != m.digest]
    if changed:
        raise ProtocolMismatch(
            f"the run {stored.run_id} asked {', '.join(changed)} with other settings or at another address; "
            "resume it without naming the model, or name a variant of it"
        )
    added = tuple(model for model in wanted.models if model.label not in known)
    return replace(stored, models=stored.models + added, protocol=wanted.protocol, planned=wanted.planned)


def _record(connection: sqlite3.Connection, info: RunInfo) -> None:
    """Write the run's description; every model gets its number."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM run")
    connection.execute("INSERT INTO run VALUES (?)", (msgspec.json.encode(info).decode(),))
    rows = [(model.label, msgspec.json.encode(model).decode()) for model in info.models]
    connection.executemany("INSERT OR IGNORE INTO models (label, info) VALUES (?, ?)", rows)
    connection.execute("COMMIT")
