"""Several stores made into one: the shards of a run, or runs that asked other contestants the same."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import ProtocolMismatch, UsageError
from tiebreak.core.events import ContestantState
from tiebreak.core.run import IN_MEMORY, SAMPLES_FILE, RunInfo
from tiebreak.store.batches import answers_to_collect
from tiebreak.store.folder import DATABASE, owned
from tiebreak.store.rows import PREFERENCE_COLUMNS, TRIAL_COLUMNS
from tiebreak.store.store import compared, connected, create, parts_in_words
from tiebreak.store.votes import join_votes

_SHARD_FLAG = re.compile(r" --shard[ =]\S+")
_SAME = "(SELECT c.contestant FROM main.contestants c JOIN part.contestants p USING (label) WHERE p.contestant = t.contestant)"
"""The number here of the contestant that a row of the part is about."""
_TRIALS = ", ".join(f"t.{column}" if column != "contestant" else _SAME for column in TRIAL_COLUMNS)
_JUDGED = (
    "trial, scorer, judge, value, failure_kind, calls, input_tokens, output_tokens, cost_usd, seconds, at, superseded, grades,"
    " because, failure, reply_text"
)
_PREFERRED = f"{', '.join(PREFERENCE_COLUMNS)}, superseded"
_COPY = (
    "INSERT OR IGNORE INTO samples SELECT * FROM part.samples",
    f"INSERT INTO trials ({', '.join(TRIAL_COLUMNS)}, superseded) SELECT {_TRIALS}, t.superseded FROM part.trials t"
    " LEFT JOIN part.samples s USING (asked) ORDER BY t.contestant, t.repeat, s.place, t.number",
    "INSERT OR IGNORE INTO blobs SELECT * FROM part.blobs",
    "INSERT OR IGNORE INTO blobs SELECT * FROM part.blobs",
    "INSERT INTO work SELECT * FROM part.work",
    "INSERT INTO exchanges SELECT * FROM part.exchanges",
    "INSERT INTO exchanges SELECT * FROM part.exchanges",
    f"INSERT INTO looks SELECT t.at, {_SAME}, t.answered, t.planned FROM part.looks t",
    "INSERT INTO risked SELECT * FROM part.risked",
    f"INSERT INTO unknown_calls SELECT {_SAME}, t.trial, t.calls FROM part.unknown_calls t",
    f"INSERT INTO timings SELECT {_SAME}, t.asked, t.model_s, t.first_token_s, t.cost_usd FROM part.timings t",
    f"INSERT INTO judgements ({_JUDGED}) SELECT {_JUDGED} FROM part.judgements ORDER BY number",
    f"INSERT INTO preferences ({_PREFERRED}) SELECT {_PREFERRED} FROM part.preferences ORDER BY number",
    # How its last session ended: that an earlier one was stopped, or waited for a batch, is over.
    f"INSERT INTO ends SELECT {_SAME}, t.state, t.message, t.all_s, t.at FROM"
    " (SELECT *, sum(seconds) OVER of_one AS all_s, row_number() OVER (of_one ORDER BY rowid DESC) AS back FROM part.ends"
    " WINDOW of_one AS (PARTITION BY contestant)) t WHERE t.back = 1",
)
_ONE_END = f"""
    CREATE TEMP TABLE one_end AS
    SELECT contestant, max(state), max(message), max(seconds), max(at) FROM (
        SELECT contestant, nullif(state, '{ContestantState.FINISHED}') AS state, message, seconds, at FROM ends
    ) GROUP BY contestant;
    DELETE FROM ends;
    INSERT INTO ends SELECT contestant, coalesce("max(state)", ?1), "max(message)", "max(seconds)", "max(at)" FROM one_end;
    DROP TABLE one_end
"""
"""Of a contestant that several shards asked: finished where all of them did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What the parts made."""

    info: RunInfo
    missing: tuple[int, ...]
    """Numbers of the shards that were not there."""
    side_by_side: bool
    """The parts were whole runs of different contestants."""


def merge(into: Path, parts: Sequence[Path]) -> Merged:
    """Make one run of several. Nothing is counted twice, and what does not belong together is refused."""
    with contextlib.ExitStack() as held:
        for part in parts:
            held.enter_context(_at_rest(part))
        # Messages name each part as it was typed.
        _refuse_waiting(parts)
        infos = [replace(_info(part), run_id=str(part)) for part in parts]
        _refuse_strangers(infos)
        sharded = infos[0].shard is not None
        info, missing = _of_shards(infos) if sharded else (_side_by_side(infos), ())
        info = replace(info, run_id=into.name)
        if info.protocol.dataset == IN_MEMORY:
            shutil.copyfile(parts[0] / SAMPLES_FILE, into / SAMPLES_FILE)
        held.enter_context(owned(into))
        create(into, info, lambda connection: _fill(connection, parts, sharded=sharded, complete=not missing))
    return Merged(info=info, missing=missing, side_by_side=not sharded)


@contextlib.contextmanager
def _at_rest(part: Path) -> Iterator[None]:
    """Hold a part that nobody is writing to, as one plain file: one that was cut down is put in order first."""
    with owned(part):
        with contextlib.closing(connected(part)) as connection:
            join_votes(connection, part)
            connection.execute("PRAGMA journal_mode = DELETE")
        yield


def _info(part: Path) -> RunInfo:
    from tiebreak.store.reader import StoreReader

    with StoreReader(part) as reader:
        return reader.info


def _refuse_waiting(parts: Sequence[Path]) -> None:
    """What a batch has still to answer would be asked, and paid for, once more."""
    for part in parts:
        lines = answers_to_collect(part)
        if lines:
            raise UsageError(f"{part} waits for {lines:,} answers in batches: collect them first by resuming it")


def _refuse_strangers(infos: Sequence[RunInfo]) -> None:
    first = infos[0]
    for other in infos[1:]:
        here, there = compared(first.protocol), compared(other.protocol)
        if names := [name for name in here if here[name] != there[name]]:
            raise ProtocolMismatch(
                f"{other.run_id} was made with {parts_in_words(names)} than {first.run_id}: they cannot be one run"
            )
        if (first.shard is None) != (other.shard is None):
            raise UsageError(f"one of {first.run_id} and {other.run_id} is a shard and the other a whole run")


def _of_shards(infos: Sequence[RunInfo]) -> tuple[RunInfo, tuple[int, ...]]:
    """The run its shards were cut from, and the numbers of those that are missing."""
    first, seen = infos[0], dict[int, str]()
    asked = {contestant.label: contestant.digest for contestant in first.contestants}
    for info in infos:
        assert info.shard is not None and first.shard is not None
        if info.shard.of != first.shard.of or info.whole != first.whole:
            raise UsageError(f"{info.run_id} is shard {info.shard.words} and {first.run_id} is shard {first.shard.words}")
        if {contestant.label: contestant.digest for contestant in info.contestants} != asked:
            raise UsageError(f"{info.run_id} asked other contestants than {first.run_id}: they are no shards of one run")
        if info.shard.number in seen:
            raise UsageError(f"{seen[info.shard.number]} and {info.run_id} are both shard {info.shard.words}")
        seen[info.shard.number] = info.run_id
    assert first.shard is not None
    missing = tuple(number for number in range(1, first.shard.of + 1) if number not in seen)
    planned, tasks = first.whole
    return replace(_together(infos), shard=None, whole=(0, 0), planned=planned, planned_tasks=tasks), missing


def _side_by_side(infos: Sequence[RunInfo]) -> RunInfo:
    """One run of everyone that several runs asked."""
    seen: dict[str, str] = {}
    for info in infos:
        if info.protocol.races:
            raise UsageError(
                f"{info.run_id} was a race: who left it early did so by what the others there answered. "
                "Ask the rest first: resume it with --until all"
            )
        for contestant in info.contestants:
            for known in (contestant.label, contestant.digest):
                if known in seen:
                    raise UsageError(_twice(contestant, infos[: infos.index(info)], seen[known], info.run_id))
                seen[known] = info.run_id
    everyone = tuple(contestant for info in infos for contestant in info.contestants)
    return replace(_together(infos), contestants=everyone)


def _twice(contestant: Contestant, before: Sequence[RunInfo], one: str, other: str) -> str:
    """Why a contestant cannot stand beside those of earlier runs: it is one of them, or has the name of one."""
    if any(known.digest == contestant.digest for info in before for known in info.contestants):
        return f"{one} and {other} both asked {contestant.label}: it would count twice"
    return (
        f"{one} and {other} both call a contestant {contestant.label}, and they differ in prompt, settings or agent: "
        "one of them needs another name"
    )


def _together(infos: Sequence[RunInfo]) -> RunInfo:
    made_with = " and ".join(dict.fromkeys(info.made_with for info in infos))
    begun = min(info.created_at for info in infos)
    return replace(infos[0], created_at=begun, made_with=made_with, command=_SHARD_FLAG.sub("", infos[0].command))


def _fill(connection: sqlite3.Connection, parts: Sequence[Path], *, sharded: bool, complete: bool) -> None:
    for part in parts:
        connection.execute("ATTACH ? AS part", (f"{(part / DATABASE).resolve().as_uri()}?mode=ro",))
        with connection:
            connection.execute("BEGIN")
            for statement in _COPY:
                connection.execute(statement)
        connection.execute("DETACH part")
    if sharded:
        state = ContestantState.FINISHED if complete else ContestantState.INTERRUPTED
        for statement in _ONE_END.split(";"):
            connection.execute(statement, (state.value,) if "?1" in statement else ())
