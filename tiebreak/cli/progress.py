"""Watching a run: a live view for a person, plain lines for a log, JSON lines for a program."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tiebreak.cli.terminal import harmless_json
from tiebreak.core.events import (
    ContestantFinished,
    ContestantStarted,
    ContestantWaiting,
    Event,
    TrialFinished,
    TrialStep,
)
from tiebreak.core.trial import Outcome, TrialResult
from tiebreak.core.work import WorkOutcome

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.table import Table

_PLAIN_EVERY_S = 10.0
_PROJECT_AFTER = 5
_WIDE = 100
"""Columns of a terminal on which nothing need be shortened."""
_PHASES = {
    "prompt": "thinking",
    "tool": "thinking",
    "call": "acting",
    "checking": "checking",
    "check": "checked",
    "question": "asking",
    "permission": "asking",
    "edit": "edited",
    "error": "stuck",
}
_MARKS = {WorkOutcome.PASSED: "✓", WorkOutcome.UNCHECKED: "?"}


class View(Protocol):
    """Something that watches a run while it is open."""

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def watch(self, event: Event) -> None:
        """Take note of an event."""
        ...


@dataclass(slots=True)
class Count:
    """One contestant's progress."""

    total: int
    position: int
    contestants: int
    started: float
    done: int = 0
    right: float = 0.0
    failed: int = 0
    waiting: str = ""
    waiting_until: float = 0.0
    ended: str = ""
    seconds: float = 0.0
    priced: int = 0
    """Trials whose cost is known."""
    cost_usd: float = 0.0
    tokens: int = 0
    calls: int = 0
    """Model calls of the coding tasks that ended."""
    step: TrialStep | None = None
    """What a coding task is just doing."""
    outcome: str = ""
    """How the last coding task ended."""

    def rate(self, now: float) -> float:
        """Trials per second so far."""
        elapsed = self.elapsed(now)
        return self.done / elapsed if elapsed > 0 else 0.0

    def elapsed(self, now: float) -> float:
        """Seconds since it began."""
        return self.seconds if self.ended else now - self.started

    def left(self, now: float) -> float | None:
        """Seconds still to go, once enough is known to say."""
        rate = self.rate(now)
        return None if self.done < _PROJECT_AFTER or rate == 0 else (self.total - self.done) / rate

    @property
    def projected_usd(self) -> float | None:
        """What all its trials will have cost, once enough is known to say; None without a price."""
        return None if self.priced < _PROJECT_AFTER else self.cost_usd / self.priced * self.total

    def finish(self, result: TrialResult) -> None:
        """Count a trial that ended."""
        self.done += 1
        usage, work = result.output.usage if result.output else None, result.work
        if usage is not None:
            self.tokens += usage.input_tokens + usage.output_tokens
            if usage.cost_usd is not None:
                self.priced += 1
                self.cost_usd += usage.cost_usd
        if work is not None:
            self.calls, self.step, self.outcome = self.calls + work.model_calls, None, work.outcome.replace("_", " ")
        if result.outcome is Outcome.FAILED:
            self.failed += 1
        elif result.primary is not None:
            self.right += result.primary.value


@dataclass(slots=True)
class Counts:
    """Every contestant's progress, kept up to date by events; nothing is ever counted again."""

    by_label: dict[str, Count] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    has_tasks: bool = False

    def watch(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, TrialFinished):
            self.by_label[event.result.trial.contestant.label].finish(event.result)
        elif isinstance(event, TrialStep):
            self.has_tasks = True
            self.by_label[event.contestant].step = event
        elif isinstance(event, ContestantStarted):
            self.by_label[event.contestant] = Count(event.trials, event.position, event.contestants, self.clock())
        elif isinstance(event, ContestantWaiting):
            # The judge waits too, and has no progress of its own.
            if (count := self.by_label.get(event.contestant)) is not None:
                count.waiting, count.waiting_until = event.reason, self.clock() + event.seconds
        else:
            count = self.by_label.setdefault(event.contestant, Count(0, 0, 0, self.clock()))
            count.ended, count.seconds = event.state, event.seconds


class Live(View):
    """Bars that move, redrawn a few times a second whatever happens in between; of coding tasks also the last action."""

    def __init__(self, console: RichConsole) -> None:
        from rich.live import Live as RichLive

        self._counts = Counts()
        self._console = console
        self._live = RichLive(console=console, get_renderable=self._table, refresh_per_second=5, transient=True)

    def __enter__(self) -> Live:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def watch(self, event: Event) -> None:
        """Count it; the next redraw shows it."""
        self._counts.watch(event)

    def _table(self) -> Table:
        from rich.table import Table

        counts, now, wide = list(self._counts.by_label.items()), self._counts.clock(), self._console.width >= _WIDE
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=self._counts.has_tasks)
        if self._counts.has_tasks:
            _add_columns(table, "model", "task", "phase", "solved>", "calls>", "tokens>", *(["cost>"] if wide else []), "time>")
            table.add_column("last action", no_wrap=True, overflow="ellipsis", ratio=1, header_style="dim")
            for label, count in counts:
                table.add_row(*_task_row(label, count, now, wide=wide))
            return table
        _add_columns(table, "", "", "done>", "per s>", "failed>", "left")
        if any(count.projected_usd is not None for _, count in counts):
            _add_columns(table, "cost in all>")
        for label, count in counts:
            table.add_row(*_row(label, count, now, wide=wide))
        return table


def _add_columns(table: Table, *headings: str) -> None:
    """Columns by heading; one that ends in > holds numbers."""
    for heading in headings:
        right = heading.endswith(">")
        table.add_column(heading.rstrip(">"), justify="right" if right else "left", no_wrap=True, header_style="dim")


def _row(label: str, count: Count, now: float, *, wide: bool) -> tuple[Any, ...]:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    bar = ProgressBar(total=max(count.total, 1), completed=count.done if count.total else 1, width=18 if wide else 10)
    standing = _standing(count, now)
    return (
        Text(_shortened(label, 36 if wide else 23)),
        bar,
        f"{count.done}/{count.total}",
        f"{count.rate(now):.1f}",
        Text(str(count.failed), style="red" if count.failed else "dim"),
        Text(standing if wide or len(standing) <= 20 else standing[:19] + "…"),
        *_projection(count),
    )


def _task_row(label: str, count: Count, now: float, *, wide: bool) -> tuple[Any, ...]:
    from rich.text import Text

    step, seconds = count.step, count.elapsed(now)
    phase = _phase(count, now)
    style = "green" if phase == "passed" else "yellow" if phase.startswith(("waiting", "asking")) else ""
    tokens = count.tokens + (step.tokens if step else 0)
    cost = count.cost_usd + ((step.cost_usd or 0.0) if step else 0.0)
    task = step.sample.rpartition("/")[2] if step else ""
    return (
        Text(_shortened(label, 30 if wide else 16)),
        Text(task[: 24 if wide else 12], style="dim" if count.ended else ""),
        Text(phase, style=style),
        f"{count.right:g}/{count.done}" + (f" of {count.total}" if wide else ""),
        str(count.calls + (step.calls if step else 0)),
        str(tokens) if tokens < 10_000 else f"{tokens / 1000:.0f}k",
        *((f"${cost:.3f}" if cost else "–",) if wide else ()),
        f"{seconds // 60:.0f}:{seconds % 60:02.0f}",
        Text(step.text if step and step.phase != "prompt" and not count.ended else "", style="dim"),
    )


def _phase(count: Count, now: float) -> str:
    """What a contestant is doing, in a word or two."""
    if count.ended or now < count.waiting_until:
        return _standing(count, now).partition(":")[0]
    return _PHASES.get(count.step.phase, count.step.phase) if count.step else count.outcome or "starting"


def _shortened(label: str, longest: int) -> str:
    return label if len(label) <= longest else "…" + label[1 - longest :]


def _projection(count: Count) -> tuple[str, ...]:
    cost = count.projected_usd
    return () if cost is None else (f"~${cost:.4f}" if cost < 1 else f"~${cost:,.2f}",)


def _standing(count: Count, now: float) -> str:
    """Finished, waiting for something, or how long still."""
    if count.ended:
        return count.ended.replace("_", " ")
    if now < count.waiting_until:
        return f"waiting {count.waiting_until - now:.0f} s: {count.waiting}"
    left = count.left(now)
    return "…" if left is None else f"{left // 60:.0f}:{left % 60:02.0f}"


class Plain(View):
    """Lines for logs and pipes: one now and then, and one for every coding task."""

    def __init__(self, say: Callable[[str], None], *, verbose: bool = False) -> None:
        self._say = say
        self._verbose = verbose
        self._counts = Counts()
        self._last = 0.0

    def watch(self, event: Event) -> None:
        """Say that a contestant started, how it gets on, and how it ended."""
        self._counts.watch(event)
        if isinstance(event, ContestantStarted):
            self._last = self._counts.clock()
            self._say(f"[{event.position}/{event.contestants}] Processing: {event.contestant}")
        elif isinstance(event, ContestantFinished):
            count, why = self._counts.by_label[event.contestant], f": {event.message}" if event.message else ""
            ended = f"{event.state.replace('_', ' ')}, {count.done} asked, {count.failed} failed, {event.seconds:.1f} s"
            self._say(f"  {event.contestant}: {ended}{why}")
        elif isinstance(event, TrialFinished) and event.result.work is not None:
            self._say(f"  {attempt_line(event.result)}")
        elif isinstance(event, TrialStep) and self._verbose and event.text:
            self._say(f"    {event.phase}: {event.text[:160]}")
        elif isinstance(event, ContestantWaiting) and self._counts.has_tasks:
            self._say(f"  {event.contestant}: waiting {event.seconds:.0f} s: {event.reason}")
        elif self._counts.clock() - self._last >= _PLAIN_EVERY_S and not self._counts.has_tasks:
            self._progress()

    def _progress(self) -> None:
        self._last = self._counts.clock()
        for label, count in self._counts.by_label.items():
            if not count.ended:
                self._say(f"  {label}: {count.done}/{count.total}, {count.failed} failed, {self._to_go(count)}")

    def _to_go(self, count: Count) -> str:
        now = self._counts.clock()
        if now < count.waiting_until:
            return _standing(count, now)
        left = count.left(now)
        cost = "".join(f", {projected} in all" for projected in _projection(count))
        return f"{count.rate(now):.1f}/s" + ("" if left is None else f", about {left:.0f} s left") + cost


def attempt_line(result: TrialResult) -> str:
    """One attempt at a coding task in a line."""
    work = result.work
    assert work is not None
    mark = _MARKS.get(work.outcome, "✗")
    calls = f"{work.model_calls:,} call{'' if work.model_calls == 1 else 's'}"
    label = result.trial.contestant.label
    said = f"{mark} {label}, {result.trial.sample.id}: {work.outcome.replace('_', ' ')} in {work.seconds:.1f} s, {calls}"
    files = len(work.changes.files)
    changed = f", {files} file{'' if files == 1 else 's'} +{work.changes.lines_added} −{work.changes.lines_removed}"
    why = f": {result.failure.message}" if result.failure else ""
    return said + (changed if files else "") + why


class JsonLines(View):
    """Every event as a JSON object on a line of standard output."""

    def watch(self, event: Event) -> None:
        """Print the event."""
        self.say(_event_data(event))

    def say(self, data: dict[str, Any]) -> None:
        """Print one object."""
        sys.stdout.buffer.write(harmless_json(msgspec.json.encode(data)) + b"\n")
        sys.stdout.buffer.flush()


class Silent(View):
    """Watches nothing."""

    def watch(self, event: Event) -> None:
        """Take no note."""


_EVENTS: dict[type[Event], str] = {
    ContestantStarted: "contestant_started",
    ContestantWaiting: "waiting",
    TrialStep: "trial_step",
    ContestantFinished: "contestant_finished",
}


def _event_data(event: Event) -> dict[str, Any]:
    if not isinstance(event, TrialFinished):
        return {"event": _EVENTS[type(event)], **msgspec.structs.asdict(event)}
    result = event.result
    primary, failure, contestant = result.primary, result.failure, result.trial.contestant
    return {
        "event": "trial_finished",
        "contestant": contestant.label,
        "model": contestant.model.label,
        "agent": contestant.agent.label,
        "sample": result.trial.sample.id,
        "repeat": result.trial.repeat,
        "outcome": result.outcome,
        "score": None if primary is None else primary.value,
        "answer": None if primary is None else primary.answer,
        "failure": None if failure is None else {"kind": failure.kind, "message": failure.message},
        **({} if result.work is None else {"work": result.work.outcome}),
    }
