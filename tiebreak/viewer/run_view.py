"""A run that is looked at: what it says now, computed again only when its store has changed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, TypeVar

from tiebreak.core.batch import Waiting
from tiebreak.core.run import RunInfo
from tiebreak.report.browse import (
    Census,
    SampleFacts,
    SampleView,
    count_kept,
    in_order,
    kept_census,
    kept_facts,
    pick,
    sample_facts,
    view_samples,
)
from tiebreak.report.overview import account, browser, overview
from tiebreak.report.summary import Summary, summarise, summarise_contestants
from tiebreak.store.batches import BATCHES, waiting_batches
from tiebreak.store.folder import DATABASE, is_running
from tiebreak.store.looks import look_into
from tiebreak.store.reader import StoreReader
from tiebreak.store.store import bring_in_votes
from tiebreak.store.votes import VOTES
from tiebreak.viewer.run_list import result_of

CUT = 20_000
"""Most characters of a text that are sent to the page."""
_REST = 4.0
"""After computing something, so many times as long is waited before doing it again."""

_SEARCHERS = 4
_ENDED = "SELECT count(*) FROM trials WHERE NOT superseded"
_COUNTS = (
    "SELECT contestant, count(*), total(outcome = 'failed'), max(rowid) FROM trials WHERE rowid > ? AND superseded = 0"
    " GROUP BY contestant"
)

Value = TypeVar("Value")
Stamp = tuple[int, ...]


class Cached(Generic[Value]):
    """A value that is computed again when the store has changed, but never all the time."""

    def __init__(self, compute: Callable[[], Value]) -> None:
        self._compute = compute
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._value: Value | None = None
        self._not_before = 0.0

    def get(self, stamp: Stamp) -> Value:
        """The value as of now, or of a moment ago where computing it takes long."""
        with self._lock:
            began = time.monotonic()
            # The last entry says whether the run goes on. One at rest hardly changes, and nobody would ask again.
            due = began >= self._not_before or not stamp[-1]
            if self._value is None or (stamp != self._stamp and due):
                self._value, self._stamp = self._compute(), stamp
                ended = time.monotonic()
                self._not_before = ended + _REST * (ended - began)
            return self._value


class Counts:
    """How many trials of each contestant have ended, and failed; what was counted once is not counted again."""

    def __init__(self) -> None:
        self._done: Counter[int] = Counter()
        self._failed: Counter[int] = Counter()
        self._last = 0

    def of(self, reader: StoreReader) -> dict[int, tuple[int, int]]:
        """By contestant. Where a failed trial was asked again, which is rare, all are counted anew."""
        self._add(reader)
        if self._done.total() != next(reader.rows(_ENDED))[0]:
            self._done, self._failed, self._last = Counter(), Counter(), 0
            self._add(reader)
        return {contestant: (done, self._failed[contestant]) for contestant, done in self._done.items()}

    def _add(self, reader: StoreReader) -> None:
        for contestant, done, failed, last in reader.rows(_COUNTS, self._last):
            self._done[contestant] += done
            self._failed[contestant] += int(failed)
            self._last = max(self._last, last)


class Index:
    """A run's samples in every order, without their texts; those of a run that keeps its facts stay in its store."""

    def __init__(self, reader: StoreReader, *, so_far: bool, seen: bool) -> None:
        self.summary = summarise(reader, so_far=so_far, seen=seen)
        kept = kept_census(reader)
        self.census = kept or Census()
        self._facts = None if kept else list(self.census.of(sample_facts(reader, self.summary)))
        self._orders = {"sample": self._facts or []}

    def page(
        self, reader: StoreReader, hits: set[str] | None, *, only: str, category: str, sort: str, start: int, most: int
    ) -> tuple[int, list[SampleFacts]]:
        """Some of the samples that a filter, a category and a search leave, in an order; and how many there are."""
        if self._facts is not None:
            facts: Iterable[SampleFacts] = pick(self._ordered(sort), only=only, category=category)
        elif hits is None:
            some = kept_facts(reader, only=only, category=category, sort=sort, start=start, most=most)
            return self._count(reader, only, category), list(some)
        else:
            facts = kept_facts(reader, only=only, category=category, sort=sort)
        found = [f for f in facts if hits is None or f.sample in hits]
        return len(found), found[start : start + most]

    def _count(self, reader: StoreReader, only: str, category: str) -> int:
        if category:
            return count_kept(reader, only=only, category=category)
        return self.census.filters[only] if only else self.census.total

    def _ordered(self, sort: str) -> list[SampleFacts]:
        """All of them in an order, which is found once."""
        if sort not in self._orders:
            self._orders[sort] = in_order(self._orders["sample"], sort)
        return self._orders[sort]


class RunView:
    """One run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.page: Cached[dict[str, Any]] = Cached(self._page)
        self.state: Cached[dict[str, Any]] = Cached(self._state)
        self._listed: Cached[tuple[RunInfo, int, Summary | None]] = Cached(self._count_ended)
        self._index: Cached[Index] = Cached(self._indexed)
        self._counts = Counts()
        self._hits: dict[str, tuple[Stamp, set[str]]] = {}

    def stamp(self) -> Stamp:
        """Changes when the store does; costs a few looks at the file system."""
        found = []
        for name in (DATABASE, f"{DATABASE}-wal", VOTES, BATCHES, f"{BATCHES}-wal"):
            try:
                status = (self.folder / name).stat()
            except OSError:
                found += [0, 0]
            else:
                found += [status.st_mtime_ns, status.st_size]
        return (*found, is_running(self.folder))

    def listed(self) -> tuple[RunInfo, int, Summary | None]:
        """What the store says of the run, how many trials have ended, and the result of a finished one; for the list."""
        return self._listed.get(self.stamp())

    def _count_ended(self) -> tuple[RunInfo, int, Summary | None]:
        with self._reader() as reader:
            count: int = next(reader.rows(_ENDED))[0]
            return reader.info, count, result_of(reader, count)

    def samples(self, *, q: str, only: str, category: str, sort: str, page: int, per_page: int) -> dict[str, Any]:
        """A page of samples."""
        stamp = self.stamp()
        index = self._index.get(stamp)
        with self._reader() as reader:
            hits = self._matching(q, stamp) if q else None
            start, most = page * per_page, per_page
            total, chosen = index.page(reader, hits, only=only, category=category, sort=sort, start=start, most=most)
            rows: Sequence[SampleView] = view_samples(reader, index.summary, chosen, CUT)
        return {"total": total, "rows": rows}

    def blob(self, digest: str) -> bytes | None:
        """The bytes of an image or document that was sent; None where there are none of this digest."""
        with self._reader() as reader:
            row = next(reader.rows("SELECT data FROM blobs WHERE digest = ?", digest), None)
        return None if row is None else bytes(row[0])

    def _matching(self, q: str, stamp: Stamp) -> set[str]:
        """Samples that hold the words anywhere; remembered while their pages are turned."""
        known = self._hits.get(q)
        if known is None or known[0] != stamp:
            self._hits = {q: (stamp, search(self.folder, q))}
        return self._hits[q][1]

    def _reader(self) -> StoreReader:
        return StoreReader(self.folder, check=False)

    def _indexed(self) -> Index:
        bring_in_votes(self.folder)
        # Written down before it is shown, and before the reader's view of the store is fixed.
        seen = look_into(self.folder)
        with self._reader() as reader:
            return Index(reader, so_far=is_running(self.folder), seen=seen)

    def _page(self) -> dict[str, Any]:
        """Everything the page shows; a run that is still going is ranked by what it has."""
        going = is_running(self.folder)
        index = self._index.get(self.stamp())
        summary = index.summary
        with self._reader() as reader:
            shown = overview(reader, summary)
            if going:
                shown["accounts"] = [account(contestant) for contestant in summarise_contestants(reader)]
        return {**shown, **browser(summary, index.census), "going": going, "shown": index.census.total, "cut": f"{CUT:,}"}

    def _state(self) -> dict[str, Any]:
        """How far every contestant is."""
        with self._reader() as reader:
            kept = reader.figures("summary", Summary)
            of_all = {reader.numbers[c.label]: (c.asked, c.failed) for c in kept.contestants} if kept else None
            counts = of_all or self._counts.of(reader)
            ends = dict(reader.rows("SELECT contestant, state FROM ends ORDER BY rowid"))
            planned, numbers = reader.info.planned, reader.numbers
        going = is_running(self.folder)
        asked = numbers.items()
        rows = [_progress(label, *counts.get(n, (0, 0)), planned, ends.get(n), going=going) for label, n in asked]
        waits = {waiting.contestant: in_words(waiting) for waiting in waiting_batches(self.folder)}
        return {"running": going, "contestants": [{**row, "state": waits.get(row["label"], row["state"])} for row in rows]}


def in_words(waiting: Waiting) -> str:
    """What a provider has still to answer."""
    return f"{waiting.lines:,} answers in batches, sent {waiting.since:%Y-%m-%d %H:%M} UTC"


def _progress(label: str, done: int, failed: int, planned: int, end: str | None, *, going: bool) -> dict[str, Any]:
    state = "finished" if done >= planned else "waiting" if going and not done else "running" if going else end or "not finished"
    return {"label": label, "done": done, "planned": planned, "failed": failed, "state": state.replace("_", " ")}


def search(folder: Path, q: str) -> set[str]:
    """The samples whose name, question, right answer, or any answer to them, holds the words.

    All texts are read, by several threads: SQLite lets go of the interpreter while it looks.
    """
    escaped = q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    like, holds = f"%{escaped}%", "LIKE ? ESCAPE '\\'"
    asked = f"SELECT sample FROM samples WHERE sample {holds} OR prompt {holds} OR target {holds}"
    anywhere = f"text {holds} OR (answer <> text AND answer {holds}) OR because {holds} OR failure {holds}"
    said = f"SELECT sample FROM trials WHERE superseded = 0 AND rowid > ? AND rowid <= ? AND ({anywhere})"

    def found(query: str, *values: Any) -> set[str]:
        with StoreReader(folder, check=False) as reader:
            return {row[0] for row in reader.rows(query, *values)}

    with StoreReader(folder, check=False) as reader:
        last = next(reader.rows("SELECT coalesce(max(rowid), 0) FROM trials"))[0]
    step = -(-last // _SEARCHERS) or 1
    with ThreadPoolExecutor(_SEARCHERS) as threads:
        parts = [threads.submit(found, said, start, start + step, *[like] * 4) for start in range(0, last, step)]
        return found(asked, *[like] * 3).union(*(part.result() for part in parts))
