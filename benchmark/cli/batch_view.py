"""Watching coding tasks: a row per model with what it is doing, or a line per attempt."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmark.cli.console import counted
from benchmark.core.events import Event, ModelFinished, ModelStarted, ModelState, ModelWaiting, TrialFinished, TrialStep
from benchmark.core.trial import TrialResult
from benchmark.core.work import WorkOutcome

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.table import Table

_WIDE = 100
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
MARKS = {WorkOutcome.PASSED: "✓", WorkOutcome.UNCHECKED: "?"}


@dataclass(slots=True)
class Row:
    """What one model is doing."""

    trials: int
    began: float
    done: int = 0
    solved: int = 0
    task: str = ""
    phase: str = "starting"
    action: str = ""
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    earlier_calls: int = 0
    earlier_tokens: int = 0
    earlier_usd: float = 0.0
    ended: str = ""
    seconds: float = 0.0

    def elapsed(self, now: float) -> float:
        """Seconds since it began."""
        return self.seconds if self.ended else now - self.began

    def finished(self, result: TrialResult) -> None:
        """An attempt is over; what it used is added up."""
        work, usage = result.work, result.output.usage if result.output else None
        self.done += 1
        self.earlier_calls += work.model_calls if work else 0
        self.earlier_tokens += usage.input_tokens + usage.output_tokens if usage else 0
        self.earlier_usd += (usage.cost_usd or 0.0) if usage else 0.0
        self.calls = self.tokens = 0
        self.cost_usd = None
        if work is not None:
            self.solved += work.outcome is WorkOutcome.PASSED
            self.phase, self.action = work.outcome.replace("_", " "), ""


class Rows:
    """Every model's row, kept up to date by events."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.rows: dict[str, Row] = {}
        self.clock = clock

    def watch(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, ModelStarted):
            self.rows[event.model] = Row(trials=event.trials, began=self.clock())
        elif isinstance(event, TrialStep):
            self._step(self.rows[event.model], event)
        elif isinstance(event, TrialFinished):
            self.rows[event.result.trial.model.label].finished(event.result)
        elif isinstance(event, ModelWaiting):
            row = self.rows[event.model]
            row.phase, row.action = "waiting", f"{event.seconds:.0f} s: {event.reason}"
        elif isinstance(event, ModelFinished):
            row = self.rows.setdefault(event.model, Row(trials=0, began=self.clock()))
            row.ended, row.seconds = event.state.replace("_", " "), event.seconds

    def _step(self, row: Row, step: TrialStep) -> None:
        row.task, row.phase = step.sample.rpartition("/")[2], _PHASES.get(step.phase, step.phase)
        row.calls, row.tokens, row.cost_usd = step.calls, step.tokens, step.cost_usd
        if step.text and step.phase != "prompt":
            row.action = step.text


class LiveBatch:
    """A row per model, redrawn a few times a second."""

    def __init__(self, console: RichConsole) -> None:
        from rich.live import Live

        self._rows = Rows()
        self._console = console
        self.watch = self._rows.watch
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=5, transient=True)

    def __enter__(self) -> LiveBatch:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _table(self) -> Table:
        from rich.table import Table

        wide = self._console.width >= _WIDE
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=True)
        headings = (("model", "left"), ("task", "left"), ("phase", "left"), ("solved", "right"), ("calls", "right"))
        more = (("tokens", "right"), ("cost", "right"), ("time", "right")) if wide else (("tokens", "right"), ("time", "right"))
        for name, justify in (*headings, *more):
            table.add_column(name, justify=justify, no_wrap=True, header_style="dim")
        table.add_column("last action", no_wrap=True, overflow="ellipsis", ratio=1, header_style="dim")
        now = self._rows.clock()
        for name, row in list(self._rows.rows.items()):
            table.add_row(*_cells(name, row, now, wide=wide))
        return table


def _cells(name: str, row: Row, now: float, *, wide: bool) -> tuple[Any, ...]:
    from rich.text import Text

    longest = 30 if wide else 16
    seconds = row.elapsed(now)
    style = "green" if row.phase == "passed" else "yellow" if row.phase in ("waiting", "asking") else ""
    cost = row.earlier_usd + (row.cost_usd or 0.0)
    return (
        Text(name if len(name) <= longest else "…" + name[1 - longest :]),
        Text(row.task[: 24 if wide else 12], style="dim" if row.ended else ""),
        Text(row.ended or row.phase, style=style),
        f"{row.solved}/{row.done}" + (f" of {row.trials}" if wide else ""),
        str(row.earlier_calls + row.calls),
        _thousands(row.earlier_tokens + row.tokens),
        *((f"${cost:.3f}" if cost else "–",) if wide else ()),
        f"{seconds // 60:.0f}:{seconds % 60:02.0f}",
        Text("" if row.ended else row.action, style="dim"),
    )


def _thousands(count: int) -> str:
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"


class PlainBatch:
    """A line when a model starts, one per attempt, one when it ends."""

    def __init__(self, say: Callable[[str], None], *, verbose: bool = False) -> None:
        self._say = say
        self._verbose = verbose

    def __enter__(self) -> PlainBatch:
        return self

    def __exit__(self, *_: object) -> None: ...

    def watch(self, event: Event) -> None:
        """Say what is worth a line."""
        if isinstance(event, ModelStarted):
            self._say(f"[{event.position}/{event.models}] Processing: {event.model}")
        elif isinstance(event, TrialFinished):
            self._say(f"  {attempt_line(event.result)}")
        elif isinstance(event, TrialStep) and self._verbose and event.text:
            self._say(f"    {event.phase}: {event.text[:160]}")
        elif isinstance(event, ModelWaiting):
            self._say(f"  {event.model}: waiting {event.seconds:.0f} s: {event.reason}")
        elif isinstance(event, ModelFinished) and event.state is not ModelState.FINISHED:
            self._say(f"  {event.model}: {event.state.replace('_', ' ')}: {event.message}")


def attempt_line(result: TrialResult) -> str:
    """One attempt in a line."""
    work = result.work
    if work is None:
        return f"✗ {result.trial.sample.id}: {result.failure.message if result.failure else result.outcome}"
    mark = MARKS.get(work.outcome, "✗")
    agent = "" if result.trial.agent == "builtin" else f" ({result.trial.agent})"
    took = f"{work.seconds:.1f} s, {counted(work.model_calls, 'call')}"
    said = f"{mark} {result.trial.sample.id}{agent}: {work.outcome.replace('_', ' ')} in {took}"
    files = counted(len(work.changes.files), "file")
    changed = f", {files} +{work.changes.lines_added} −{work.changes.lines_removed}"
    why = f": {result.failure.message}" if result.failure else ""
    return said + (changed if work.changes.files else "") + why
