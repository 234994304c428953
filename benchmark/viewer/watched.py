"""A run that is looked at: what it says now, worked out anew only when its store has changed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmark.core.run import RunInfo
from benchmark.report.batch import summarise_batch
from benchmark.report.browse import SampleFacts, SampleView, in_order, pick, sample_facts, view_samples
from benchmark.report.overview import account, browser, overview
from benchmark.report.summary import Summary, summarise
from benchmark.store.folder import DATABASE, is_running
from benchmark.store.reader import StoreReader

CUT = 20_000
"""Most characters of a text that are sent to the page."""
_REST = 4.0
"""After working something out, so many times as long is waited before doing it again."""

_SEARCHERS = 4
_ENDED = "SELECT count(*) FROM trials WHERE superseded = 0"
_COUNTS = (
    "SELECT model, count(*), total(outcome = 'failed'), max(rowid) FROM trials WHERE rowid > ? AND superseded = 0 GROUP BY model"
)

Value = TypeVar("Value")
Stamp = tuple[int, ...]


class Kept(Generic[Value]):
    """A value that is worked out again when the store has changed, but never all the time."""

    def __init__(self, work_out: Callable[[], Value]) -> None:
        self._work_out = work_out
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._value: Value | None = None
        self._not_before = 0.0

    def get(self, stamp: Stamp) -> Value:
        """The value as of now, or of a moment ago where working it out takes long."""
        with self._lock:
            began = time.monotonic()
            if self._value is None or (stamp != self._stamp and began >= self._not_before):
                self._value, self._stamp = self._work_out(), stamp
                ended = time.monotonic()
                self._not_before = ended + _REST * (ended - began)
            return self._value


class Counts:
    """How many trials of each model have ended, and failed; what was counted once is not counted again."""

    def __init__(self) -> None:
        self._done: Counter[int] = Counter()
        self._failed: Counter[int] = Counter()
        self._last = 0

    def of(self, reader: StoreReader) -> dict[int, tuple[int, int]]:
        """By model. Where a failed trial was asked again, which is rare, all are counted anew."""
        self._add(reader)
        if self._done.total() != next(reader.rows(_ENDED))[0]:
            self._done, self._failed, self._last = Counter(), Counter(), 0
            self._add(reader)
        return {model: (done, self._failed[model]) for model, done in self._done.items()}

    def _add(self, reader: StoreReader) -> None:
        for model, done, failed, last in reader.rows(_COUNTS, self._last):
            self._done[model] += done
            self._failed[model] += int(failed)
            self._last = max(self._last, last)


class Index:
    """A run's samples in every order, without their texts."""

    def __init__(self, summary: Summary, facts: list[SampleFacts]) -> None:
        self.summary = summary
        self.facts = facts
        self._orders = {"sample": facts}

    def ordered(self, sort: str) -> list[SampleFacts]:
        """All of them in an order, which is found once."""
        if sort not in self._orders:
            self._orders[sort] = in_order(self.facts, sort)
        return self._orders[sort]


class Watched:
    """One run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.page: Kept[dict[str, Any]] = Kept(self._page)
        self.state: Kept[dict[str, Any]] = Kept(self._state)
        self._ended: Kept[tuple[RunInfo, int]] = Kept(self._count_ended)
        self._index: Kept[Index] = Kept(self._indexed)
        self._counts = Counts()
        self._hits: dict[str, tuple[Stamp, set[str]]] = {}

    def stamp(self) -> Stamp:
        """Changes when the store does; costs two looks at the file system."""
        found = []
        for path in (self.folder / DATABASE, self.folder / f"{DATABASE}-wal"):
            try:
                status = path.stat()
            except OSError:
                found += [0, 0]
            else:
                found += [status.st_mtime_ns, status.st_size]
        return (*found, is_running(self.folder))

    def ended(self) -> tuple[RunInfo, int]:
        """What the store says of the run, and how many trials have ended; for a list of many runs."""
        return self._ended.get(self.stamp())

    def _count_ended(self) -> tuple[RunInfo, int]:
        with self._reader() as reader:
            count: int = next(reader.rows(_ENDED))[0]
            return reader.info, count

    def samples(self, *, q: str, only: str, category: str, sort: str, page: int, per_page: int) -> dict[str, Any]:
        """A page of samples."""
        stamp = self.stamp()
        index = self._index.get(stamp)
        found = pick(index.ordered(sort), only=only, category=category)
        with self._reader() as reader:
            if q:
                hits = self._matching(q, stamp)
                found = [f for f in found if f.sample in hits]
            chosen = found[page * per_page : (page + 1) * per_page]
            rows: Sequence[SampleView] = view_samples(reader, index.summary, chosen, CUT)
        return {"total": len(found), "rows": rows}

    def _matching(self, q: str, stamp: Stamp) -> set[str]:
        """Samples that hold the words anywhere; remembered while their pages are turned."""
        known = self._hits.get(q)
        if known is None or known[0] != stamp:
            self._hits = {q: (stamp, search(self.folder, q))}
        return self._hits[q][1]

    def _reader(self) -> StoreReader:
        return StoreReader(self.folder, check=False)

    def _indexed(self) -> Index:
        with self._reader() as reader:
            summary = summarise(reader, so_far=is_running(self.folder))
            return Index(summary, sample_facts(reader, summary))

    def _page(self) -> dict[str, Any]:
        """Everything the page shows; a run that is still going is ranked by what it has."""
        going = is_running(self.folder)
        index = self._index.get(self.stamp())
        summary, facts = index.summary, index.facts
        with self._reader() as reader:
            batch = summarise_batch(reader) if reader.info.protocol.dataset.startswith("tasks:") else None
            shown = overview(reader, summary, batch)
            if going:
                shown["accounts"] = [account(model) for model in summarise(reader).models]
        return {**shown, **browser(summary, facts), "going": going, "shown": len(facts), "cut": f"{CUT:,}"}

    def _state(self) -> dict[str, Any]:
        """How far every model is."""
        with self._reader() as reader:
            counts = self._counts.of(reader)
            numbers = dict(reader.rows("SELECT label, model FROM models"))
            ends = dict(reader.rows("SELECT model, state FROM ends ORDER BY rowid"))
            info = reader.info
        going = is_running(self.folder)
        asked = [(model.label, numbers[model.label]) for model in info.models]
        rows = [_progress(label, *counts.get(n, (0, 0)), info.planned, ends.get(n), going=going) for label, n in asked]
        return {"running": going, "models": rows}


def _progress(label: str, done: int, failed: int, planned: int, end: str | None, *, going: bool) -> dict[str, Any]:
    state = "finished" if done >= planned else "waiting" if going and not done else "running" if going else end or "not finished"
    return {"model": label, "done": done, "planned": planned, "failed": failed, "state": state.replace("_", " ")}


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
