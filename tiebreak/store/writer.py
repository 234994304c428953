"""The one thread that writes. Results are gathered for a moment and committed together."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

from tiebreak.core.errors import DatasetError, StoreError, StoreFull
from tiebreak.core.events import ContestantFinished, Event, PairJudged, TrialFinished, TrialLost
from tiebreak.core.media import bytes_of
from tiebreak.core.message import MediaPart
from tiebreak.core.trial import TrialResult
from tiebreak.store.rows import (
    INSERT_ENDS,
    INSERT_EXCHANGES,
    INSERT_JUDGEMENTS,
    INSERT_LOST_TRIALS,
    INSERT_PREFERENCES,
    INSERT_SAMPLES,
    INSERT_TRIALS,
    INSERT_UNKNOWN_CALLS,
    INSERT_WORK,
    JUDGE_KEPT_ANSWER,
    Redact,
    exchange_row,
    insert,
    judgement_row,
    kept_answer_row,
    preference_row,
    sample_row,
    trial_row,
    unknown_calls_rows,
    work_row,
)

_GATHER_S = 0.05
_LARGEST_BATCH = 500
_LARGEST_PENDING = 1000
_SUPERSEDE = "UPDATE trials SET superseded = 1 WHERE id = ? AND NOT superseded AND outcome IN ('failed', 'exhausted')"


@dataclass(slots=True)
class Batch:
    """Events to be committed together, and the rows they become.

    The rows are made by the event loop: the thread then only waits for the disk, without the interpreter's lock.
    """

    events: list[Event]
    rows: Mapping[str, list[tuple[Any, ...]]]
    """By the statement that inserts them."""
    kept: list[tuple[Any, ...]]
    """Answers of earlier sessions that were judged now."""
    media: list[MediaPart]
    """Images and documents whose bytes are read by the thread, one at a time."""


class Writer:
    """Commits events in batches and hands each batch back once it is on disk."""

    def __init__(self, connection: sqlite3.Connection, numbers: Mapping[str, int], redact: Redact, *, resumed: bool) -> None:
        self._connection = connection
        self._numbers = numbers
        self._redact = redact
        self._resumed = resumed
        self._blobs: set[str] = set()
        """Digests of the images and documents that are stored."""
        self._lost: set[str] = set()
        """What was asked in trials that were lost."""
        self._inbox: SimpleQueue[Batch | None] = SimpleQueue()
        self._pending = 0
        self._room = asyncio.Event()
        self._room.set()

    async def committed(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        """Yield each event on once it, and all before it, are on disk."""
        outbox: asyncio.Queue[Batch | BaseException | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=self._write, args=(loop, outbox), name="store-writer", daemon=True)
        thread.start()
        pump = asyncio.create_task(self._pump(events, outbox))
        try:
            while (batch := await outbox.get()) is not None:
                if isinstance(batch, BaseException):
                    raise batch
                self._count(-len(batch.events))
                for event in batch.events:
                    yield event
            await pump
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            # The pump says so itself, unless it was ended before it began.
            self._inbox.put(None)
            await asyncio.to_thread(thread.join)

    async def _pump(self, events: AsyncIterator[Event], outbox: asyncio.Queue[Batch | BaseException | None]) -> None:
        """Gather events and pass them to the thread, a batch at a time."""
        gathered: list[Event] = []
        flusher = asyncio.create_task(self._flush_regularly(gathered, outbox))
        try:
            async with contextlib.aclosing(events):  # type: ignore[type-var]
                async for event in events:
                    gathered.append(event)
                    if len(gathered) >= _LARGEST_BATCH:
                        self._flush(gathered, outbox)
                    if self._pending >= _LARGEST_PENDING:
                        await self._room.wait()
        finally:
            flusher.cancel()
            self._flush(gathered, outbox)
            self._inbox.put(None)

    async def _flush_regularly(self, gathered: list[Event], outbox: asyncio.Queue[Batch | BaseException | None]) -> None:
        while True:
            await asyncio.sleep(_GATHER_S)
            self._flush(gathered, outbox)

    def _flush(self, gathered: list[Event], outbox: asyncio.Queue[Batch | BaseException | None]) -> None:
        """Pass on what was gathered; a result that cannot be written down ends the run, as one the disk does not take."""
        events = gathered.copy()
        gathered.clear()
        if not events:
            return
        self._count(len(events))
        try:
            self._inbox.put(self._batch(events))
        except Exception as error:
            outbox.put_nowait(explained(error))

    def _batch(self, events: list[Event]) -> Batch:
        finished = [event.result for event in events if isinstance(event, TrialFinished)]
        results = [result for result in finished if result.trial.kept is None]
        lost = [event.result for event in events if isinstance(event, TrialLost)]
        numbered = [(result, self._numbers[result.trial.contestant.label]) for result in results]
        rows: dict[str, list[tuple[Any, ...]]] = {
            INSERT_SAMPLES: self._sample_rows(results, lost),
            INSERT_TRIALS: [trial_row(result, number, self._redact) for result, number in numbered],
            INSERT_LOST_TRIALS: [
                (*trial_row(result, self._numbers[result.trial.contestant.label], self._redact), 1) for result in lost
            ],
            INSERT_UNKNOWN_CALLS: unknown_calls_rows(numbered),
            INSERT_WORK: [work_row(result, self._redact) for result in results if result.work is not None],
            INSERT_EXCHANGES: [
                exchange_row(result, self._redact) for result in results if result.output and result.output.messages
            ],
            INSERT_JUDGEMENTS: [
                judgement_row(result.trial.id, judgement, result.finished_at, self._redact)
                for result in finished
                for judgement in result.judgements
            ],
            INSERT_PREFERENCES: [
                preference_row(event.preference, datetime.now(UTC), self._redact)
                for event in events
                if isinstance(event, PairJudged)
            ],
            INSERT_ENDS: [self._end_row(event) for event in events if isinstance(event, ContestantFinished)],
        }
        kept = [kept_answer_row(result, self._redact) for result in finished if result.trial.kept is not None]
        media = [part for result in results if result.trial.sample.exchange is not None for part in result.trial.sample.media]
        return Batch(events, rows, kept, media)

    def _sample_rows(self, results: Sequence[TrialResult], lost: Sequence[TrialResult]) -> list[tuple[Any, ...]]:
        """The sample of every result; that of a lost trial once, also where the index that sees to it is put off."""
        there = self._lost.copy()
        self._lost.update(result.trial.asked for result in lost)
        firsts = {result.trial.asked: sample_row(result) for result in lost if result.trial.asked not in there}
        return [*firsts.values(), *(sample_row(result) for result in results if result.trial.asked not in self._lost)]

    def _count(self, change: int) -> None:
        """Keep count of what the disk has not taken yet; too much of it makes the pump wait."""
        self._pending += change
        (self._room.set if self._pending < _LARGEST_PENDING else self._room.clear)()

    def _write(self, loop: asyncio.AbstractEventLoop, outbox: asyncio.Queue[Batch | BaseException | None]) -> None:
        """The thread: commit, then report. After an error nothing more is written."""
        report = loop.call_soon_threadsafe
        while (batch := self._inbox.get()) is not None:
            try:
                self._commit(batch)
            except Exception as error:
                # Whatever it is, whoever waits for this batch must hear of it, or would wait for ever.
                report(outbox.put_nowait, explained(error))
                break
            report(outbox.put_nowait, batch)
        report(outbox.put_nowait, None)

    def _commit(self, batch: Batch) -> None:
        if not (batch.kept or any(batch.rows.values())):
            return
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            if self._resumed:
                connection.executemany(_SUPERSEDE, [row[:1] for row in batch.rows[INSERT_TRIALS]])
            for statement, rows in batch.rows.items():
                insert(connection, statement, rows)
            connection.executemany(JUDGE_KEPT_ANSWER, batch.kept)
            for part in batch.media:
                self._keep_blob(part)

    def _keep_blob(self, part: MediaPart) -> None:
        """Keep the bytes of an image or document, once. A file that is gone by now costs its preview, not the result."""
        if not part.digest or part.digest in self._blobs:
            return
        self._blobs.add(part.digest)
        if self._connection.execute("SELECT 1 FROM blobs WHERE digest = ?", (part.digest,)).fetchone():
            return
        with contextlib.suppress(DatasetError):
            row = (part.digest, part.media_type, bytes_of(part))
            self._connection.execute("INSERT INTO blobs VALUES (?, ?, ?)", row)

    def _end_row(self, end: ContestantFinished) -> tuple[int, str, str, float, str]:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return self._numbers[end.contestant], end.state.value, self._redact(end.message), end.seconds, now


def explained(error: Exception) -> StoreError:
    """An error in writing, in words that say what to do."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
        return StoreFull("the disk is full: what was reported finished is kept; free some space, then resume the run")
    return StoreError(
        f"the results could not be written ({error}); what was reported finished is kept; resume the run to continue"
    )
