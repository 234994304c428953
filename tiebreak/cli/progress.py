"""Watching a run: a live view for a person, plain lines for a log, JSON lines for a program."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tiebreak.cli.layout import Column, Row, lay_out, shortened, wrapped
from tiebreak.cli.terminal import harmless, harmless_json
from tiebreak.core.events import (
    ContestantFinished,
    ContestantStarted,
    ContestantWaiting,
    Event,
    NodeChanged,
    NodeState,
    TrialFinished,
    TrialLost,
    TrialStep,
)
from tiebreak.core.trial import Outcome, TrialResult
from tiebreak.core.work import WorkOutcome

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import Group
    from rich.text import Text

_PLAIN_EVERY_S = 10.0
_PROJECT_AFTER = 5
_PROJECT_AFTER_TASKS = 2
_WAITING_SHOWN = 4
_BAR = 12
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
_NODE_WORDS = {NodeState.READY: "", NodeState.LEFT_OUT: "left out: ", NodeState.LOST: "lost: "}
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
    unjudged: int = 0
    """Answers that a judge failed on."""
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
    def spent_usd(self) -> float:
        """What it has cost so far, the task it is at included."""
        return self.cost_usd + ((self.step.cost_usd or 0.0) if self.step else 0.0)

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
        if result.unjudged and result.primary is None:
            self.unjudged += 1
        elif result.outcome is Outcome.FAILED:
            self.failed += 1
        elif result.primary is not None:
            self.right += result.primary.value


@dataclass(slots=True)
class Counts:
    """Every contestant's progress, kept up to date by events; nothing is ever counted again."""

    by_label: dict[str, Count] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    has_tasks: bool = False
    nodes: int | None = None
    """Machines of a cluster at work; None where the run is on this one alone."""

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
        elif isinstance(event, NodeChanged):
            self.nodes = event.ready
        elif isinstance(event, ContestantFinished):
            count = self.by_label.setdefault(event.contestant, Count(0, 0, 0, self.clock()))
            count.ended, count.seconds = event.state, event.seconds

    def waiting(self, now: float) -> list[str]:
        """Why contestants wait, a line for each; of many, how many more there are."""
        waits = [(label, c) for label, c in list(self.by_label.items()) if now < c.waiting_until and not c.ended]
        lines = [f"{label} waits: {count.waiting}" for label, count in waits[:_WAITING_SHOWN]]
        return lines + ([f"and {len(waits) - _WAITING_SHOWN} more wait"] if len(waits) > _WAITING_SHOWN else [])

    def sentence(self, now: float) -> str:
        """The whole run in a line: what is done, what it costs and when it ends."""
        counts = list(self.by_label.values())
        done, failed, spent = sum(c.done for c in counts), sum(c.failed for c in counts), sum(c.spent_usd for c in counts)
        planned, left = self._planned(counts), self._left(counts, now)
        parts = [f"{done:,} of {planned:,} done"]
        parts += [f"{failed:,} failed"] if failed else []
        parts += [f"{_dollars(spent)} so far"] if spent else []
        parts += [f"about {_minutes(left)} left"] if left else []
        parts += [] if self.nodes is None else [f"on {self.nodes:,} node{'' if self.nodes == 1 else 's'}"]
        return "In all: " + ", ".join(parts)

    def _planned(self, counts: Sequence[Count]) -> int:
        """Trials of the run: those that have not begun have as many as the others."""
        to_come = max((c.contestants for c in counts), default=0) - len(counts)
        return sum(c.total for c in counts) + max(0, to_come) * max((c.total for c in counts), default=0)

    def _left(self, counts: Sequence[Count], now: float) -> float | None:
        """Seconds until everybody is through, at the pace so far; what was stopped early is not waited for."""
        elapsed = now - min((c.started for c in counts), default=now)
        done = sum(c.done for c in counts)
        given_up = sum(c.total - c.done for c in counts if c.ended)
        if done < (_PROJECT_AFTER_TASKS if self.has_tasks else _PROJECT_AFTER) or elapsed <= 0:
            return None
        return (self._planned(counts) - given_up - done) * elapsed / done


class Live(View):
    """Bars that move, redrawn a few times a second whatever happens in between; of coding tasks also the last action."""

    def __init__(self, console: RichConsole) -> None:
        from rich.live import Live as RichLive

        self._counts = Counts()
        self._console = console
        self._live = RichLive(console=console, get_renderable=self._screen, refresh_per_second=5, transient=True)

    def __enter__(self) -> Live:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def watch(self, event: Event) -> None:
        """Count it; the next redraw shows it."""
        self._counts.watch(event)

    def _screen(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        counts, now, width = self._counts, self._counts.clock(), self._console.width
        columns, row = (_TASK_COLUMNS, _task_cells) if counts.has_tasks else (_COLUMNS, _cells)
        # Redrawn in a thread of its own: contestants may begin meanwhile.
        under_way = list(counts.by_label.items())
        rows = [Row(cells=row(label, count, now), short_name=label.rpartition("/")[2]) for label, count in under_way]
        filled = [place for place in range(len(columns)) if place < 3 or any(str(r.cells[place]) for r in rows)]
        shown = [replace(row, cells=[row.cells[place] for place in filled]) for row in rows]
        lines = lay_out([columns[place] for place in filled], shown, width) if rows else []
        return Group(*lines, *(Text(shortened(line, width)) for line in counts.waiting(now)), *self._in_all(now))

    def _in_all(self, now: float) -> list[Text]:
        from rich.text import Text

        several = len(self._counts.by_label) > 1 or self._counts.nodes is not None
        return [Text(), *wrapped(Text(self._counts.sentence(now)), self._console.width)] if several else []


_COLUMNS = (
    Column(heading="contestant"),
    Column(heading=""),
    Column(heading="done", right=True),
    Column(heading="failed", right=True),
    Column(heading="per s", right=True, worth=1),
    Column(heading="cost", right=True),
    Column(heading="", cut=True),
)
_TASK_COLUMNS = (
    Column(heading="contestant"),
    Column(heading=""),
    Column(heading="done", right=True),
    Column(heading="solved", right=True),
    Column(heading="calls", right=True, worth=2),
    Column(heading="tokens", right=True, worth=1),
    Column(heading="cost", right=True),
    Column(heading="time", right=True),
    Column(heading="", cut=True),
)


def _cells(label: str, count: Count, now: float) -> tuple[str | Text, ...]:
    from rich.text import Text

    return (
        label,
        _bar(count),
        f"{count.done}/{count.total}",
        Text(str(count.failed), style="red" if count.failed else "dim"),
        f"{count.rate(now):.1f}",
        _cost(count),
        _words(_briefly(count, now), _colour(count, now)),
    )


def _task_cells(label: str, count: Count, now: float) -> tuple[str | Text, ...]:
    step, seconds = count.step, count.elapsed(now)
    tokens = count.tokens + (step.tokens if step else 0)
    return (
        label,
        _bar(count),
        f"{count.done}/{count.total}",
        f"{count.right:g}",
        str(count.calls + (step.calls if step else 0)),
        str(tokens) if tokens < 10_000 else f"{tokens / 1000:.0f}k",
        _cost(count),
        _minutes(seconds),
        _words(_doing(count, now), _colour(count, now)),
    )


def _words(text: str, style: str) -> Text:
    """A server's or an agent's words on one line."""
    from rich.text import Text

    return Text(" ".join(harmless(text).split()), style=style)


def _bar(count: Count) -> Text:
    """How much is done, also where there are no colours."""
    from rich.text import Text

    share = count.done / count.total if count.total else 1.0
    filled = min(_BAR, int(share * _BAR))
    return Text.assemble(("━" * filled, "green" if share >= 1 else "cyan"), ("·" * (_BAR - filled), "dim"))


def _cost(count: Count) -> str:
    """What it has cost so far, and what it will; empty where no price is known."""
    spent, projected = count.spent_usd, count.projected_usd
    if not spent:
        return ""
    return _dollars(spent) + (f" of ~{_dollars(projected)}" if projected is not None and not count.ended else "")


def _dollars(usd: float) -> str:
    return f"${usd:.4f}" if usd < 1 else f"${usd:,.2f}"


def _minutes(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _colour(count: Count, now: float) -> str:
    asks = count.step is not None and _PHASES.get(count.step.phase) == "asking"
    return "dim" if count.ended else "yellow" if now < count.waiting_until or asks else ""


def _doing(count: Count, now: float) -> str:
    """What a contestant does with its task: the task, the phase and the last action, the longest last."""
    if count.ended or now < count.waiting_until:
        return _briefly(count, now)
    step = count.step
    if step is None:
        return count.outcome or "starting"
    said = step.text if step.phase != "prompt" else ""
    return ": ".join(filter(None, (step.sample.rpartition("/")[2], _PHASES.get(step.phase, step.phase), said)))


def _briefly(count: Count, now: float) -> str:
    """The same without the reason, which has a line of its own."""
    return _standing(count, now).partition(":")[0] if now < count.waiting_until else _standing(count, now)


def _standing(count: Count, now: float) -> str:
    """Finished, waiting for something, or how long still."""
    if count.ended:
        return count.ended.replace("_", " ")
    if now < count.waiting_until:
        return f"waiting {count.waiting_until - now:.0f} s: {count.waiting}"
    left = count.left(now)
    return "starting" if left is None else f"{_minutes(left)} left"


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
            unjudged = f", {count.unjudged} not judged" if count.unjudged else ""
            done = f"{count.done} asked, {count.failed} failed{unjudged}"
            ended = f"{event.state.replace('_', ' ')}, {done}, {event.seconds:.1f} s"
            self._say(f"  {event.contestant}: {ended}{why}")
        elif isinstance(event, TrialFinished) and event.result.work is not None:
            count = self._counts.by_label[event.result.trial.contestant.label]
            self._say(f"  [{count.done}/{count.total}] {attempt_line(event.result)}")
        elif isinstance(event, NodeChanged):
            self._say(f"  node {event.node}: {_NODE_WORDS[event.state]}{event.message}")
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
        projected = count.projected_usd
        cost = "" if projected is None else f", ~{_dollars(projected)} in all"
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
    NodeChanged: "node_changed",
}


def _event_data(event: Event) -> dict[str, Any]:
    if not isinstance(event, TrialFinished | TrialLost):
        return {"event": _EVENTS[type(event)], **msgspec.structs.asdict(event)}
    result = event.result
    primary, failure, contestant = result.primary, result.failure, result.trial.contestant
    return {
        "event": "trial_finished" if isinstance(event, TrialFinished) else "trial_lost",
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
