"""Watching a run: a live view for a person, plain lines for a log, JSON lines for a program."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from benchmark.core.events import Event, ModelFinished, ModelStarted, ModelState, ModelWaiting, TrialFinished, TrialStep
from benchmark.core.trial import Outcome, TrialResult

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.table import Table

_PLAIN_EVERY_S = 10.0
_PROJECT_AFTER = 5
_WIDE = 100
"""Columns of a terminal on which nothing need be shortened."""


class View(Protocol):
    """Something that watches a run while it is open."""

    def __enter__(self) -> View: ...

    def __exit__(self, *_: object) -> None: ...

    def watch(self, event: Event) -> None:
        """Take note of an event."""
        ...


@dataclass(slots=True)
class Count:
    """One model's progress."""

    total: int
    position: int
    models: int
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

    def rate(self, now: float) -> float:
        """Trials per second so far."""
        elapsed = self.seconds if self.ended else now - self.started
        return self.done / elapsed if elapsed > 0 else 0.0

    def left(self, now: float) -> float | None:
        """Seconds still to go, once enough is known to say."""
        rate = self.rate(now)
        return None if self.done < _PROJECT_AFTER or rate == 0 else (self.total - self.done) / rate

    @property
    def projected_usd(self) -> float | None:
        """What all its trials will have cost, once enough is known to say; None without a price."""
        return None if self.priced < _PROJECT_AFTER else self.cost_usd / self.priced * self.total


@dataclass(slots=True)
class Counts:
    """Every model's progress, kept up to date by events; nothing is ever counted anew."""

    models: dict[str, Count] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic

    def watch(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, TrialFinished):
            self._finished(event.result)
        elif isinstance(event, ModelStarted):
            self.models[event.model] = Count(event.trials, event.position, event.models, self.clock())
        elif isinstance(event, ModelWaiting):
            count = self.models[event.model]
            count.waiting, count.waiting_until = event.reason, self.clock() + event.seconds
        elif isinstance(event, ModelFinished):
            count = self.models.setdefault(event.model, Count(0, 0, 0, self.clock()))
            count.ended, count.seconds = event.state, event.seconds

    def _finished(self, result: TrialResult) -> None:
        count = self.models[result.trial.model.label]
        count.done += 1
        usage = result.output.usage if result.output else None
        if usage is not None:
            count.tokens += usage.input_tokens + usage.output_tokens
            if usage.cost_usd is not None:
                count.priced += 1
                count.cost_usd += usage.cost_usd
        if result.outcome is Outcome.FAILED:
            count.failed += 1
        elif result.primary is not None:
            count.right += result.primary.value


class Live:
    """Bars that move, redrawn a few times a second whatever happens in between."""

    def __init__(self, console: RichConsole) -> None:
        from rich.live import Live as RichLive

        self._counts = Counts()
        self._console = console
        self.watch = self._counts.watch
        self._live = RichLive(console=console, get_renderable=self._table, refresh_per_second=5, transient=True)

    def __enter__(self) -> Live:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _table(self) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for name, justify in (("", "left"), ("", "left"), ("done", "right"), ("per s", "right"), ("failed", "right")):
            table.add_column(name, justify=justify, no_wrap=True, header_style="dim")  # type: ignore[arg-type]
        table.add_column("left", no_wrap=True, header_style="dim", overflow="ellipsis")
        if any(count.projected_usd is not None for count in list(self._counts.models.values())):
            table.add_column("cost in all", justify="right", no_wrap=True, header_style="dim")
        now = self._counts.clock()
        for name, count in list(self._counts.models.items()):
            table.add_row(*_row(name, count, now, wide=self._console.width >= _WIDE))
        return table


def _row(name: str, count: Count, now: float, *, wide: bool) -> tuple[Any, ...]:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    longest = 36 if wide else 23
    label = name if len(name) <= longest else "…" + name[1 - longest :]
    bar = ProgressBar(total=max(count.total, 1), completed=count.done if count.total else 1, width=18 if wide else 10)
    standing = _standing(count, now)
    failed = Text(str(count.failed), style="red" if count.failed else "dim")
    return (
        Text(label),
        bar,
        f"{count.done}/{count.total}",
        f"{count.rate(now):.1f}",
        failed,
        Text(standing if wide or len(standing) <= 20 else standing[:19] + "…"),
        *_projection(count),
    )


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


class Plain:
    """A line now and then, for logs and pipes."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._counts = Counts()
        self._last = 0.0

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None: ...

    def watch(self, event: Event) -> None:
        """Say that a model started, how it gets on, and how it ended."""
        self._counts.watch(event)
        if isinstance(event, ModelStarted):
            self._last = self._counts.clock()
            self._say(f"[{event.position}/{event.models}] Processing: {event.model}")
        elif isinstance(event, ModelFinished):
            count = self._counts.models[event.model]
            state = "finished" if event.state is ModelState.FINISHED else event.state.replace("_", " ")
            why = f": {event.message}" if event.message else ""
            self._say(f"  {event.model}: {state}, {count.done} asked, {count.failed} failed, {event.seconds:.1f} s{why}")
        elif self._counts.clock() - self._last >= _PLAIN_EVERY_S:
            self._last = self._counts.clock()
            for name, count in self._counts.models.items():
                if not count.ended:
                    self._say(f"  {name}: {count.done}/{count.total}, {count.failed} failed, {self._to_go(count)}")

    def _to_go(self, count: Count) -> str:
        now = self._counts.clock()
        if now < count.waiting_until:
            return _standing(count, now)
        left = count.left(now)
        cost = "".join(f", {projected} in all" for projected in _projection(count))
        return f"{count.rate(now):.1f}/s" + ("" if left is None else f", about {left:.0f} s left") + cost


class JsonLines:
    """Every event as a JSON object on a line of standard output."""

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()

    def watch(self, event: Event) -> None:
        """Print the event."""
        self.say(_event_data(event))

    def say(self, data: dict[str, Any]) -> None:
        """Print one object."""
        sys.stdout.buffer.write(msgspec.json.encode(data) + b"\n")
        sys.stdout.buffer.flush()


class Silent:
    """Watches nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None: ...

    def watch(self, event: Event) -> None:
        """Take no note."""


def _event_data(event: Event) -> dict[str, Any]:
    if isinstance(event, TrialFinished):
        return {"event": "trial_finished", **_trial_data(event.result)}
    if isinstance(event, ModelStarted):
        return {
            "event": "model_started",
            "model": event.model,
            "position": event.position,
            "models": event.models,
            "trials": event.trials,
        }
    if isinstance(event, ModelWaiting):
        return {"event": "waiting", "model": event.model, "reason": event.reason, "seconds": event.seconds}
    if isinstance(event, TrialStep):
        return {"event": "trial_step", **msgspec.structs.asdict(event)}
    return {
        "event": "model_finished",
        "model": event.model,
        "state": event.state,
        "message": event.message,
        "seconds": event.seconds,
        "done": event.done,
    }


def _trial_data(result: TrialResult) -> dict[str, Any]:
    primary, failure = result.primary, result.failure
    return {
        "model": result.trial.model.label,
        "sample": result.trial.sample.id,
        "repeat": result.trial.repeat,
        "outcome": result.outcome,
        "score": None if primary is None else primary.value,
        "answer": None if primary is None else primary.answer,
        "failure": None if failure is None else {"kind": failure.kind, "message": failure.message},
        **({} if result.work is None else {"agent": result.trial.agent, "work": result.work.outcome}),
    }
