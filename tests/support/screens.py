"""Runs as people meet them, and what a terminal of a given width shows of each."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from support.made import Planted, Trials, events_of, samples, summary_of, write_run
from tiebreak.cli.console import Console
from tiebreak.cli.progress import Live
from tiebreak.cli.run import show
from tiebreak.core.events import (
    ContestantFinished,
    ContestantStarted,
    ContestantState,
    ContestantWaiting,
    Event,
    TrialFinished,
    TrialStep,
)
from tiebreak.core.model import ModelRef
from tiebreak.core.work import Changes, Work, WorkOutcome
from tiebreak.report.summary import Summary

WIDTHS = (80, 100, 140)


def terminal(width: int) -> tuple[Console, io.StringIO]:
    """A console on a terminal of this width, without colours, and what it shows."""
    console, shown = Console(), io.StringIO()
    console.rich = type(console.rich)(file=shown, width=width, force_terminal=True, color_system=None, highlight=False)
    return console, shown


def shown_summary(summary: Summary, folder: Path, width: int) -> str:
    """What is shown of a run at its end."""
    console, shown = terminal(width)
    show(summary, folder, console)
    return shown.getvalue()


def demo(folder: Path) -> Summary:
    """One small model asked in two ways, and chance."""
    short, pirate = [1.0] * 29 + [0.0] * 19 + ["cut_off"] * 2, [1.0] * 18 + [0.0] * 29 + ["cut_off"] * 3
    model = {"label": "llama_cpp/smollm2-135m", "provider": "llama_cpp", "local": True, "cost_usd": 0.0}
    chance = Planted(
        label="baseline/random", planted=[0.0] * 50, provider="baseline", local=True, cost_usd=0.0, reference=True, took_s=0.0
    )
    people = [
        Planted(**model, prompt="short", planted=short, took_s=22.9),
        Planted(**model, prompt="pirate", planted=pirate, took_s=17.1),
        chance,
    ]
    return summary_of(write_run(folder, people, 50, dataset="warmup"))


def long_names(folder: Path) -> Summary:
    """Three models with the names their providers gave them."""
    people = [
        Planted(
            label=f"{provider}/{name}",
            provider=provider,
            planted=[1.0] * right + [0.0] * (800 - right),
            cost_usd=cost,
            took_s=seconds,
        )
        for provider, name, right, cost, seconds in (
            ("anthropic", "claude-haiku-4-5-20251001", 655, 0.00151, 312.4),
            ("openai", "gpt-4.1-mini-2025-04-14", 640, 0.000213, 268.0),
            ("google", "gemini-2.5-flash-preview-09-2025", 512, 0.0000471, 71.35),
        )
    ]
    return summary_of(write_run(folder, people, 800, dataset="truthfulness"))


class Variant(Planted):
    """A model with settings, as `name@effort=high` makes one."""

    @property
    def ref(self) -> ModelRef:
        """The model, by its family and what varies."""
        return replace(Planted.ref.fget(self), family=self.label.partition("@")[0], variant=self.settings)


def variants(folder: Path) -> Summary:
    """Two models, each with two settings and two prompts."""
    people = [
        Variant(
            label=f"{model}@effort={effort}",
            provider="openai",
            prompt=prompt,
            settings={"effort": effort},
            planted=[1.0] * right + [0.0] * (120 - right),
            cost_usd=0.0004 if effort == "low" else 0.0031,
            took_s=41.0,
        )
        for model, effort, prompt, right in (
            ("gpt-5-mini", "low", "terse", 71),
            ("gpt-5-mini", "low", "step by step", 80),
            ("gpt-5-mini", "high", "terse", 93),
            ("gpt-5-mini", "high", "step by step", 95),
            ("gpt-5-nano", "low", "terse", 52),
            ("gpt-5-nano", "low", "step by step", 61),
            ("gpt-5-nano", "high", "terse", 70),
            ("gpt-5-nano", "high", "step by step", 74),
        )
    ]
    return summary_of(write_run(folder, people, 120, dataset="my_questions.jsonl"))


def failures(folder: Path) -> Summary:
    """One got through, one failed often, one was stopped."""
    people = [
        Planted(label="gpt-4o-mini", provider="openai", planted=[1.0] * 150 + [0.0] * 40 + ["refused"] * 10, took_s=96.0),
        Planted(
            label="mistral-large-2411",
            provider="mistral",
            planted=["rate_limit"] * 20 + [1.0] * 121 + [0.0] * 50 + ["timeout"] * 9,
            cost_usd=0.0021,
            took_s=3_725.0,
        ),
        Planted(
            label="claude-3-opus-20240229",
            provider="anthropic",
            planted=[1.0] * 12 + [0.0] * 2 + ["quota"],
            state=ContestantState.FAILED,
            message="quota: the credit balance is too low; add credit, then resume the run",
            took_s=9.4,
        ),
    ]
    return summary_of(write_run(folder, people, 200, dataset="truthfulness"))


def batch(folder: Path) -> Summary:
    """Two models, each put to work by two agents, on four tasks; and the control that does nothing."""
    people = [
        Planted(
            label=model,
            provider="anthropic" if model.startswith("anthropic") else "ollama",
            local=model.startswith("ollama"),
            agent=agent,
            planted=[1.0] * right + [0.0] * (4 - right),
            cost_usd=0.0412,
            work=_work(agent, solved=right == 4),
            took_s=480.0,
        )
        for model, agent, right in (
            ("anthropic/claude-haiku-4-5-20251001", "builtin", 4),
            ("anthropic/claude-haiku-4-5-20251001", "mini-swe", 4),
            ("ollama/qwen2.5-coder:7b", "builtin", 0),
            ("ollama/qwen2.5-coder:7b", "mini-swe", 0),
            ("ollama/qwen2.5-coder:7b", "nothing", 0),
        )
    ]
    return summary_of(write_run(folder, people, 4, dataset="tasks/easy"))


def _work(agent: str, *, solved: bool) -> Work:
    if agent == "nothing":
        return Work(outcome=WorkOutcome.NO_CHANGE, seconds=0.2, checked=True)
    changes = Changes(files=("src/app.py",), files_changed=1, lines_added=12, lines_removed=4)
    return Work(
        outcome=WorkOutcome.PASSED if solved else WorkOutcome.WRONG_RESULT,
        seconds=78.4 if agent == "builtin" else 124.9,
        prompts_sent=1,
        model_calls=14 if agent == "builtin" else 31,
        first_try=solved,
        checked=True,
        changes=changes,
    )


STORIES: dict[str, Callable[[Path], Summary]] = {
    "demo": demo,
    "long_names": long_names,
    "variants": variants,
    "failures": failures,
    "batch": batch,
}


LONG = "anthropic/claude-haiku-4-5-20251001"
WAITS = "circuit open after 5 failures in a row: the server answered 529 overloaded each time"


def shown_progress(events: Sequence[tuple[float, Event]], at: float, width: int) -> str:
    """What the live view shows at a moment, after events that each came at their own."""
    console, shown = terminal(width)
    view, now = Live(console.rich), [0.0]
    view._counts.clock = lambda: now[0]
    for moment, event in events:
        now[0] = moment
        view.watch(event)
    now[0] = at
    console.rich.print(view._screen())
    return shown.getvalue()


def questions_under_way() -> list[tuple[float, Event]]:
    """Four models of five: one through, one at work with failures, one waiting, one just begun."""
    done = (("gpt-4o-mini", 0.0, 200, 0), (LONG, 1.0, 57, 4), ("mistral-large-2411", 2.0, 19, 1), ("ollama/qwen3:8b", 60.0, 1, 0))
    events: list[tuple[float, Event]] = []
    for position, (label, began, count, failed) in enumerate(done, start=1):
        who = Planted(label=label, planted=["rate_limit"] * failed + [1.0] * (count - failed), cost_usd=_cost(label))
        events.append((began, ContestantStarted(contestant=label, position=position, contestants=5, trials=200)))
        trials = [event for event in events_of([who], Trials(samples(200))) if isinstance(event, TrialFinished)]
        events += [(began + 0.25 * place, event) for place, event in enumerate(trials)]
    ended = ContestantFinished(contestant="gpt-4o-mini", state=ContestantState.FINISHED, message="", seconds=50.0, done=200)
    waiting = ContestantWaiting(contestant="mistral-large-2411", reason=WAITS, seconds=12.0)
    return sorted([*events, (50.0, ended), (57.0, waiting)], key=lambda pair: pair[0])


def _cost(label: str) -> float | None:
    return None if label.startswith("ollama") else 0.0013


def tasks_under_way() -> list[tuple[float, Event]]:
    """Two agents: one is in its third task, the other waits for its server."""
    events: list[tuple[float, Event]] = []
    for position, (agent, count) in enumerate((("builtin", 2), ("mini-swe", 1)), start=1):
        who = Planted(label=LONG, agent=agent, planted=[1.0] * count, cost_usd=0.0412, work=_work(agent, solved=True))
        label = who.contestant.label
        events.append((0.0, ContestantStarted(contestant=label, position=position, contestants=2, trials=6)))
        trials = [event for event in events_of([who], Trials(samples(6))) if isinstance(event, TrialFinished)]
        events += [(40.0 * (place + 1), event) for place, event in enumerate(trials)]
        text = "python -m pytest -q tests/test_app.py, then look at what src/app.py does with an empty list"
        events.append((95.0, _step(label, text)))
    waiting = ContestantWaiting(contestant=f"{LONG} · mini-swe", reason=WAITS, seconds=12.0)
    return sorted([*events, (96.0, waiting)], key=lambda pair: pair[0])


def _step(label: str, text: str) -> TrialStep:
    used = {"calls": 5, "tokens": 18_250, "cost_usd": 0.0125}
    return TrialStep(contestant=label, sample="tasks/easy/fix_typo", phase="call", text=text, **used)


UNDER_WAY: dict[str, Callable[[], list[tuple[float, Event]]]] = {
    "progress": questions_under_way,
    "progress_tasks": tasks_under_way,
}
