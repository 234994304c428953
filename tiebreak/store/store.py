"""The store of one run: opened once, owned by one process, readable by all."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from tiebreak import __version__
from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import BenchmarkError, ProtocolMismatch, StoreError
from tiebreak.core.events import COMPLETE, Event
from tiebreak.core.message import Usage
from tiebreak.core.preference import AnswerPair
from tiebreak.core.redact import Redactor
from tiebreak.core.run import Protocol, RunInfo
from tiebreak.core.trial import Outcome, Output, Score, Trial
from tiebreak.store import judgements, preferences
from tiebreak.store.folder import DATABASE, at_rest, check_writable, has_database, is_network_file_system, leave_nothing, owned
from tiebreak.store.judgements import JUDGED_AS
from tiebreak.store.rows import contestant_row, safe
from tiebreak.store.schema import APPLICATION_ID, check_version, complete, is_outdated, migrate, put_off
from tiebreak.store.stored_trials import stored_trials
from tiebreak.store.votes import join_votes, joined_size, votes_size
from tiebreak.store.writer import Writer

_LOOK_UP = 500
"""Trials looked up at once when a run goes on."""
_MADE_AT_ONCE = 64
"""Trials made ahead of a new run: one by one between the requests, each would take three times as long."""
_RESTING_TRIES, _RESTING_WAIT_S = 40, 0.05

STANDING = ("bad_request", "context_length", "budget", "unchecked")
"""Kinds of failures that are not tried again, unless that is asked for."""
_UNKNOWN = "outcome = 'failed' AND input_tokens IS NULL AND failure_kind IN ('overloaded', 'transient', 'timeout', 'malformed')"
"""Failed attempts that may have been paid for; a refused request costs nothing."""

_USED = f"""
    SELECT contestant,
        total(input_tokens) FILTER (WHERE cost_usd IS NOT NULL), total(cached_tokens) FILTER (WHERE cost_usd IS NOT NULL),
        total(output_tokens) FILTER (WHERE cost_usd IS NOT NULL), sum(cost_usd),
        total(input_tokens) FILTER (WHERE cost_usd IS NULL), total(cached_tokens) FILTER (WHERE cost_usd IS NULL),
        total(output_tokens) FILTER (WHERE cost_usd IS NULL),
        total(attempts) FILTER (WHERE {_UNKNOWN}),
        total(attempts * (SELECT length(prompt) FROM samples WHERE samples.asked = trials.asked)) FILTER (WHERE {_UNKNOWN})
    FROM trials GROUP BY contestant
"""

_UNKNOWN_CALLS = """
    SELECT u.contestant, total(u.calls), total(u.calls * length(s.prompt)) FROM unknown_calls u
    JOIN trials t ON t.id = u.trial AND NOT t.superseded JOIN samples s USING (asked) GROUP BY u.contestant
"""

_ANSWERED = f"""
    SELECT t.contestant, s.place, s.grouped, t.outcome, t.score, t.second, t.cost_usd FROM trials t JOIN samples s USING (asked)
    WHERE t.superseded = 0 AND (t.outcome <> 'failed' OR t.failure_kind IN {STANDING}) ORDER BY s.place, t.number
"""


UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What SQLite raises of a damaged file; the second where its own words about the damage are no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a contestant's trials used so far, also those asked again since."""

    priced: Usage
    unpriced: Usage
    unknown_attempts: int
    """Attempts that failed before anyone said what they used."""
    unknown_characters: int
    """What was sent with them."""


class Store:
    """A run's database, open for writing."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, info: RunInfo, *, resumed: bool, had_batches: bool) -> None:
        self.folder = folder
        self.info = info
        self.resumed = resumed
        self._had_batches = had_batches
        self._connection = connection
        self._numbers: dict[str, int] = dict(connection.execute("SELECT label, contestant FROM contestants"))

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path, info: RunInfo, *, without: Iterable[str] = ()) -> Iterator[Store]:
        """Make the run's store, or go on with the one that is there. Refuses before anything is asked.

        A new one does without the indexes named until it is closed: see `tiebreak.store.schema`.
        """
        check_writable(folder, info.planned * len(info.contestants))
        with owned(folder), contextlib.ExitStack() as closed:
            resumed, had_batches = has_database(folder), False
            if not resumed:
                create(folder, info)
            with contextlib.closing(connected(folder)) as connection:
                if resumed:
                    before = read_info(connection)
                    info, had_batches = continued(before, info), before.pace.batch
                    _record(connection, info, extended_from=before.planned if info.planned > before.planned else None)
                    complete(connection)
                    join_votes(connection, folder)
                else:
                    put_off(connection, without)
                try:
                    yield cls(folder, connection, info, resumed=resumed, had_batches=had_batches)
                except BenchmarkError as error:
                    # Refused, by a cluster without nodes or a machine without a sandbox: there is nothing to resume.
                    if not (resumed or isinstance(error, StoreError) or _has_begun(connection)):
                        closed.callback(leave_nothing, folder, info.protocol)
                    raise
                complete(connection)
                join_votes(connection, folder)
                _come_to_rest(connection)

    def unfinished(self, trials: Iterable[Trial], *, retry_failed: bool) -> Iterator[Trial]:
        """The trials that still have to be asked, in order, without holding them all."""
        rest = iter(trials)
        while chunk := list(islice(rest, _LOOK_UP if self.resumed else _MADE_AT_ONCE)):
            if not self.resumed:
                yield from chunk
                continue
            done = self._finished([trial.id for trial in chunk], retry_failed=retry_failed)
            yield from self._with_answers([trial for trial in chunk if trial.id not in done])

    def finished_counts(self, *, retry_failed: bool) -> Mapping[str, int]:
        """By contestant, how many trials need not be asked again."""
        if not self.resumed:
            return {}
        query = f"SELECT contestant, count(*) FROM trials WHERE superseded = 0 AND {_finished(retry_failed)} GROUP BY contestant"
        counts = dict(self._connection.execute(query))
        return {label: counts.get(number, 0) for label, number in self._numbers.items()}

    def unjudged_counts(self) -> Mapping[str, int]:
        """By contestant, how many kept answers some judge has still to judge."""
        counts = judgements.unjudged_counts(self._connection)
        return {label: counts.get(number, 0) for label, number in self._numbers.items()}

    def unjudged(self, trials: Iterable[Trial]) -> Iterator[Trial]:
        """The trials whose answer some judge has still to judge, each with its answer."""
        rest = iter(trials)
        while chunk := list(islice(rest, _LOOK_UP)):
            yield from [trial for trial in self._with_answers(chunk) if trial.kept is not None]

    def used_by_judges(self) -> Mapping[str, Usage]:
        """By judge, what its calls used in all sessions so far."""
        return judgements.used_by_judges(self._connection)

    def used(self, *, this_session: bool = False) -> Mapping[str, Used]:
        """By contestant, what it used in all sessions so far, for the budget of what follows."""
        if not self.resumed and not this_session:
            return {}
        rows = {number: rest for number, *rest in self._connection.execute(_USED)}
        for number, calls, sent in self._connection.execute(_UNKNOWN_CALLS):
            rows[number][-2:] = [rows[number][-2] + calls, rows[number][-1] + (sent or 0.0)]
        return {label: _used(rows[number]) for label, number in self._numbers.items() if number in rows}

    def committed(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        """Write the events and yield each on once it is on disk."""
        redact = Redactor.from_environment()
        return Writer(self._connection, self._numbers, redact, resumed=self.resumed).committed(events)

    def answered(self) -> Iterator[dict[str, Any]]:
        """Every result so far, in the order of the plan, as a race goes by it."""
        if not self.resumed:
            return
        labels = {number: label for label, number in self._numbers.items()}
        for number, place, group, outcome, score, second, cost in self._connection.execute(_ANSWERED):
            value = score if score is not None or outcome == Outcome.FAILED else 0.0
            other = value if second is None else second
            yield {
                "contestant": labels[number],
                "place": place,
                "group": group,
                "score": value,
                "second": 0.0 if other is None else other,
                "cost_usd": cost,
            }

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """What is changed inside is kept together, or, when an error or a kill comes between, not at all."""
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield

    def may_wait(self) -> bool:
        """Whether an earlier session asked in batches and did not come to its end."""
        last = "SELECT state, max(rowid) FROM ends GROUP BY contestant"
        return self._had_batches and any(state not in COMPLETE for state, _ in self._connection.execute(last))

    def complete(self) -> None:
        """Make the indexes that were put off; nothing more will be written."""
        complete(self._connection)

    def keep_timing(
        self, contestant: str, asked: str, model_s: float, first_token_s: float | None, cost_usd: float | None
    ) -> None:
        """Keep one answer that was timed by itself."""
        row = (self._numbers[contestant], asked, model_s, first_token_s, cost_usd)
        self._connection.execute("INSERT INTO timings VALUES (?, ?, ?, ?, ?)", row)

    def timed(self) -> int:
        """How many answers were timed by themselves."""
        return int(self._connection.execute("SELECT count(*) FROM timings").fetchone()[0])

    def keep(self, name: str, figures: Any) -> None:
        """Keep what was worked out of the run as it is now."""
        keep_figures(self._connection, name, figures)

    def outputs(self, trials: Sequence[Trial]) -> dict[str, Output]:
        """What was answered in these trials, by trial; those that failed or were not asked are missing."""
        ids = [trial.id for trial in trials]
        places = ", ".join("?" * len(ids))
        query = f"SELECT id, text, {JUDGED_AS} FROM trials WHERE NOT superseded AND {JUDGED_AS} <> 'failed' AND id IN ({places})"
        said = judgements.exchanges(self._connection, ids)
        return {
            identity: Output(text=text or "", outcome=Outcome(outcome), messages=said.get(identity, ()))
            for identity, text, outcome in self._connection.execute(query, ids)
        }

    def trials(self, contestant: Contestant) -> Iterator[Trial]:
        """The trials of a contestant as the store knows them, for a run whose questions it alone has."""
        return stored_trials(self._connection, contestant, self._numbers[contestant.label], self.info.protocol.scorers)

    def rescore(self, judged: Sequence[tuple[Trial, Mapping[str, Score]]]) -> None:
        """Put new scores beside the old ones; the first of the new ones is the one that ranks from now on."""
        for trial, scores in judged:
            kept = {**self._scores(trial), **scores}
            primary = next(iter(scores.values()))
            self._connection.execute(
                f"UPDATE trials SET score = ?, second = ?, answer = ?, because = ?, scores = ?, outcome = {JUDGED_AS},"
                " failure_kind = NULL, failure = NULL, unjudged = NULL WHERE id = ? AND NOT superseded",
                (
                    primary.value,
                    primary.second,
                    safe(primary.answer),
                    safe(primary.because),
                    msgspec.json.encode(kept).decode(),
                    trial.id,
                ),
            )

    def judge_anew(self, protocol: Protocol, trials: Iterable[Trial]) -> None:
        """Have the answers of these trials judged again, under a protocol with other judges or another judging scorer.

        They wait from now on, also if this program is killed: a run is never scored by two kinds of judges. The scores
        there are stay beside the new ones.
        """
        with self.all_or_nothing():
            for trial in trials:
                if scores := self._scores(trial):
                    values = (msgspec.json.encode(scores).decode(), trial.id)
                    self._connection.execute("UPDATE trials SET scores = ? WHERE id = ? AND NOT superseded", values)
            judgements.wait_for_judges(self._connection)
            self._change(protocol)

    def keep_votes(self, person: str, votes: Iterable[tuple[str, float]]) -> None:
        """Keep what a person says of answers, by trial, as the scorer `human:NAME`."""
        judgements.keep_votes(self._connection, person, votes)

    def comparable_answers(self, labels: Iterable[str]) -> list[preferences.Answered]:
        """Every answer of these contestants that can be compared with another, without its text; by sample and repeat."""
        return preferences.comparable_answers(self._connection, {self._numbers[label]: label for label in labels})

    def answer_pairs(self, pairs: Sequence[preferences.PairToCompare]) -> Iterator[AnswerPair]:
        """These pairs with their question and their texts, some at a time."""
        return preferences.answer_pairs(self._connection, pairs)

    def compare_by(self, scorer: str, judges: Iterable[str]) -> set[tuple[str, str, str]]:
        """Have only verdicts of this scorer and these judges count; says which there are, by first answer, second and judge."""
        with self.all_or_nothing():
            return preferences.compare_by(self._connection, scorer, set(judges))

    def _with_answers(self, trials: Sequence[Trial]) -> list[Trial]:
        """The same trials; those whose answer waits for a judge have it with them."""
        kept = judgements.kept_answers(self._connection, trials, self._scores)
        return [structs.replace(trial, kept=kept[trial.id]) if trial.id in kept else trial for trial in trials]

    def _scores(self, trial: Trial) -> dict[str, Score]:
        """The scores a trial has so far, by scorer."""
        query = "SELECT scores, score, second, answer, because FROM trials WHERE id = ? AND NOT superseded"
        kept, value, second, answer, because = self._connection.execute(query, (trial.id,)).fetchone() or (None,) * 5
        if kept is not None:
            return msgspec.json.decode(kept, type=dict[str, Score])
        if value is None:
            return {}
        chosen = self.info.protocol.chosen_scorers or trial.sample.scorers
        return {chosen[0]: Score(value=value, answer=answer, because=because or "", second=second)}

    def judged_by(self, scorers: tuple[str, ...]) -> None:
        """Note in the protocol by which scorers the results now stand."""
        self._change(replace(self.info.protocol, scorers=scorers))

    def _change(self, protocol: Protocol) -> None:
        self.info = replace(self.info, protocol=protocol)
        self._connection.execute("UPDATE run SET info = ?", (msgspec.json.encode(self.info).decode(),))

    def _finished(self, ids: list[str], *, retry_failed: bool) -> set[str]:
        places = ", ".join("?" * len(ids))
        query = f"SELECT id FROM trials WHERE NOT superseded AND id IN ({places}) AND {_finished(retry_failed)}"
        return {row[0] for row in self._connection.execute(query, ids)}


def bring_in_votes(folder: Path) -> None:
    """Join votes that were kept beside a run at rest. Where somebody holds the run, or it cannot be written, they wait."""
    if not votes_size(folder):
        return
    with contextlib.suppress(OSError, StoreError, sqlite3.OperationalError):
        with contextlib.closing(connect_to_read(folder, check=False)) as connection:
            if votes_size(folder) <= joined_size(connection):
                return
        with owned(folder), contextlib.closing(connected(folder)) as connection:
            join_votes(connection, folder)
            _come_to_rest(connection)


def _come_to_rest(connection: sqlite3.Connection) -> None:
    """At rest a run is one plain file, to be copied or mailed. Who is just looking is waited for, but not for long."""
    for _ in range(_RESTING_TRIES):
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError:
            time.sleep(_RESTING_WAIT_S)
        else:
            return


def _used(row: Sequence[Any]) -> Used:
    priced, unpriced, (attempts, sent) = row[:4], row[4:7], row[7:]
    return Used(priced=_usage(*priced), unpriced=_usage(*unpriced), unknown_attempts=int(attempts), unknown_characters=int(sent))


def _usage(sent: float, cached: float, made: float, cost: float | None = None) -> Usage:
    return Usage(input_tokens=int(sent), cached_tokens=int(cached), output_tokens=int(made), cost_usd=cost)


def stands(retry_failed: bool) -> str:
    """Which results stand: what was answered, and unless asked otherwise what was refused as a request."""
    return "(outcome NOT IN ('failed', 'exhausted'))" if retry_failed else f"(outcome <> 'failed' OR failure_kind IN {STANDING})"


def _finished(retry_failed: bool) -> str:
    """Which trials need not be looked at again: their results stand, and no judge is missing."""
    return f"({stands(retry_failed)} AND unjudged IS NULL)"


def read_info(connection: sqlite3.Connection) -> RunInfo:
    """What a database says of its run."""
    try:
        row = connection.execute("SELECT info FROM run").fetchone()
        if row is None:
            raise StoreError("the run was never started")
        return msgspec.json.decode(row[0], type=RunInfo)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise StoreError(f"what the store says of its run cannot be read: {error}") from None


def keep_figures(connection: sqlite3.Connection, name: str, figures: Any) -> None:
    """Keep what was worked out of a run until the run changes. What would not come back the same is not kept."""
    data = msgspec.json.encode(figures)
    if msgspec.json.decode(data, type=type(figures)) == figures:
        connection.execute("INSERT OR REPLACE INTO figures VALUES (?, ?, ?)", (name, __version__, data.decode()))


def connect_to_read(folder: Path, *, check: bool = True, mode: str = "ro") -> sqlite3.Connection:
    """A connection, as a rule one that cannot change anything; a damaged or foreign file is named."""
    path = folder / DATABASE
    if not path.is_file():
        raise StoreError(f"there is no run in {folder}")
    in_order = at_rest(folder)
    if path.with_name(f"{DATABASE}-journal").exists():
        _roll_back(path)
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None)
    with refusing(connection, path):
        _check_kind(connection, path)
        if is_outdated(connection):
            _bring_up_to_date(path)
        # Figures are kept at the end of a run: one that was cut down has none.
        if check and not (in_order and connection.execute("SELECT 1 FROM figures").fetchone()):
            _check_whole(connection, path)
    return connection


def _bring_up_to_date(path: Path) -> None:
    """Change a store of an earlier version; whoever reads it sees the change at once."""
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            migrate(connection)
    except sqlite3.OperationalError as error:
        raise StoreError(
            f"{path} was made by an earlier version of tiebreak and cannot be brought up to date ({error}); "
            "copy the run's folder to where it can be written"
        ) from None


def _roll_back(path: Path) -> None:
    """Undo what a killed process left half done; only a connection that may write can. One that is at work is left alone."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _has_begun(connection: sqlite3.Connection) -> bool:
    """Whether anything became of any contestant, or may have been paid for."""
    found = ("trials", "ends", "risked WHERE nano_usd > 0 OR tokens > 0")
    return any(next(connection.execute(f"SELECT EXISTS (SELECT 1 FROM {where})"))[0] for where in found)


def create(folder: Path, info: RunInfo, fill: Callable[[sqlite3.Connection], None] = lambda connection: None) -> None:
    """Make the database under another name first: a run that was killed at any moment is there as a whole or not at all."""
    new = folder / f"{DATABASE}.new"
    new.unlink(missing_ok=True)
    new.with_name(f"{new.name}-journal").unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(new.resolve().as_uri(), uri=True, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        migrate(connection)
        _record(connection, info)
        try:
            fill(connection)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    new.replace(folder / DATABASE)


def connected(folder: Path) -> sqlite3.Connection:
    """A connection that may write, to a store that is whole and up to date."""
    path = folder / DATABASE
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    with refusing(connection, path):
        _check_kind(connection, path)
        _check_whole(connection, path)
        # Over a network the write-ahead log's shared memory does not work; a rollback journal does.
        connection.execute(f"PRAGMA journal_mode = {'DELETE' if is_network_file_system(folder) else 'WAL'}")
        connection.execute("PRAGMA synchronous = FULL")
        migrate(connection)
    return connection


@contextlib.contextmanager
def refusing(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Close the connection when what is done with it inside fails."""
    with contextlib.ExitStack() as refused:
        refused.callback(connection.close)
        try:
            yield
        except UNREADABLE as error:
            raise damaged(path, error) from None
        refused.pop_all()


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    application, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is a database of something else; nothing was changed")
    check_version(version)


def _check_whole(connection: sqlite3.Connection, path: Path) -> None:
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise damaged(path, verdict)


def damaged(path: Path, reason: object) -> StoreError:
    """What to say of a file that cannot be read."""
    return StoreError(f"{path} is damaged ({reason}); nothing was changed. What can still be read: sqlite3 {path.name} .recover")


def continued(stored: RunInfo, wanted: RunInfo) -> RunInfo:
    """The stored run, with the contestants that were added; its questions must be the same."""
    one, other = compared(stored.protocol), compared(wanted.protocol)
    # A run may be made longer.
    names = [n for n in one if one[n] != other[n] and not (n == "limit" and wanted.planned > stored.planned)]
    if names:
        raise ProtocolMismatch(
            f"the run {stored.run_id} was made with {parts_in_words(names)}; its results cannot be mixed with these. "
            "Start a new run, or resume with what it was made with"
        )
    known = {contestant.label: contestant for contestant in stored.contestants}
    changed = [c.label for c in wanted.contestants if c.label in known and known[c.label].digest != c.digest]
    if changed:
        raise ProtocolMismatch(
            f"the run {stored.run_id} asked {', '.join(changed)} with other settings, in other words or at another address; "
            "resume it without naming the model, or name a variant of it"
        )
    added = tuple(contestant for contestant in wanted.contestants if contestant.label not in known)
    # When and how it was begun stays; everything else is as it goes on.
    contestants = stored.contestants + added
    return replace(
        wanted,
        run_id=stored.run_id,
        created_at=stored.created_at,
        command=stored.command,
        made_with=stored.made_with,
        contestants=contestants,
    )


def parts_in_words(names: Sequence[str]) -> str:
    """Parts of a protocol as a person knows them: `other questions, another seed`."""
    return ", ".join(dict.fromkeys(_IN_WORDS.get(name) or f"another {name.replace('_', ' ')}" for name in names))


_IN_WORDS = {
    "dataset_digest": "other questions",
    "scorers": "other scorers",
    "chosen_scorers": "other scorers",
    "judges": "other judges",
    "source": "another choice or reading of the samples",
    "tasks": "other rules for coding tasks",
    "repeats": "another number of repeats",
}


def compared(protocol: Protocol) -> dict[str, Any]:
    """What must not change while a run goes on.

    A file may have moved (its digest says whether it is the same), more may be allowed to later attempts at coding tasks,
    and how the best is chosen changes no result.
    """
    parts = asdict(protocol)
    del parts["dataset"], parts["source"]["path"], parts["choose_on"], parts["until"]
    parts["tasks"] = (protocol.tasks.follow_ups, protocol.tasks.ask_permissions)
    return parts


def _record(connection: sqlite3.Connection, info: RunInfo, *, extended_from: int | None = None) -> None:
    """Write the run's description, and what plan it is extended from; every contestant gets its number."""
    connection.execute("BEGIN IMMEDIATE")
    if extended_from is not None:
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        connection.execute("INSERT INTO looks VALUES (?, NULL, 0, ?)", (now, extended_from))
    connection.execute("DELETE FROM run")
    connection.execute("INSERT INTO run VALUES (?)", (msgspec.json.encode(info).decode(),))
    columns = "label, model, provider, agent, prompt, info"
    rows = [contestant_row(contestant) for contestant in info.contestants]
    connection.executemany(f"INSERT OR IGNORE INTO contestants ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.execute("COMMIT")
