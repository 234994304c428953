"""A run that is looked at: what it says now, worked out anew only when its store has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmark.core.run import RunInfo
from benchmark.report.batch import summarise_batch
from benchmark.report.browse import SampleFacts, SampleView, pick, sample_facts, view_samples
from benchmark.report.overview import account, browser, overview
from benchmark.report.summary import Summary, summarise
from benchmark.store.folder import DATABASE, is_running
from benchmark.store.reader import StoreReader

CUT = 20_000
"""Most characters of a text that are sent to the page."""
_REST = 4.0
"""After working something out, so many times as long is waited before doing it again."""

_COUNTS = "SELECT model, count(*), total(outcome = 'failed') FROM trials WHERE superseded = 0 GROUP BY model"

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


class Watched:
    """One run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.page: Kept[dict[str, Any]] = Kept(self._page)
        self.state: Kept[dict[str, Any]] = Kept(self._state)
        self._facts: Kept[tuple[Summary, list[SampleFacts]]] = Kept(self._all_facts)
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

    def info(self) -> RunInfo:
        """What the store says of the run."""
        with self._reader() as reader:
            return reader.info

    def samples(self, *, q: str, only: str, category: str, sort: str, page: int, per_page: int) -> dict[str, Any]:
        """A page of samples."""
        stamp = self.stamp()
        summary, facts = self._facts.get(stamp)
        found = pick(facts, only=only, category=category, sort=sort)
        with self._reader() as reader:
            if q:
                hits = self._matching(reader, q, stamp)
                found = [f for f in found if f.sample in hits]
            chosen = found[page * per_page : (page + 1) * per_page]
            rows: Sequence[SampleView] = view_samples(reader, summary, chosen, CUT)
        return {"total": len(found), "rows": rows}

    def _matching(self, reader: StoreReader, q: str, stamp: Stamp) -> set[str]:
        """Samples that hold the words anywhere; remembered while their pages are turned."""
        known = self._hits.get(q)
        if known is None or known[0] != stamp:
            self._hits = {q: (stamp, search(reader, q))}
        return self._hits[q][1]

    def _reader(self) -> StoreReader:
        return StoreReader(self.folder, check=False)

    def _all_facts(self) -> tuple[Summary, list[SampleFacts]]:
        with self._reader() as reader:
            summary = summarise(reader, so_far=is_running(self.folder))
            return summary, sample_facts(reader, summary)

    def _page(self) -> dict[str, Any]:
        """Everything the page shows; a run that is still going is ranked by what it has."""
        going = is_running(self.folder)
        summary, facts = self._facts.get(self.stamp())
        with self._reader() as reader:
            batch = summarise_batch(reader) if reader.info.protocol.dataset.startswith("tasks:") else None
            shown = overview(reader, summary, batch)
            if going:
                shown["accounts"] = [account(model) for model in summarise(reader).models]
        return {**shown, **browser(summary, facts), "going": going, "shown": len(facts), "cut": f"{CUT:,}"}

    def _state(self) -> dict[str, Any]:
        """How far every model is."""
        with self._reader() as reader:
            counts = {model: (done, int(failed)) for model, done, failed in reader.rows(_COUNTS)}
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


def search(reader: StoreReader, q: str) -> set[str]:
    """The samples whose name, question, right answer, or any answer to them, holds the words."""
    escaped = q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    like, holds = f"%{escaped}%", "LIKE ? ESCAPE '\\'"
    asked = f"SELECT sample FROM samples WHERE sample {holds} OR prompt {holds} OR target {holds}"
    anywhere = " OR ".join(f"{column} {holds}" for column in ("text", "answer", "because", "failure"))
    said = f"SELECT sample FROM trials WHERE superseded = 0 AND ({anywhere})"
    return {row[0] for row in reader.rows(f"{asked} UNION {said}", *[like] * 7)}
