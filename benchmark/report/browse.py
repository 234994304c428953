"""Single samples with every model's answer, for the pages that let people look through them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from benchmark.core.record import Record
from benchmark.core.work import Step, Work
from benchmark.report.summary import Summary
from benchmark.store.reader import StoreReader

FILTERS: Mapping[str, str] = {
    "disagree": "Models disagree",
    "all_wrong": "All wrong",
    "one_right": "Only one right",
    "failed": "Failed",
    "all_right": "All right",
}
"""What a sample can be picked out by, and what people call it."""
SORTS: Mapping[str, str] = {
    "sample": "By name",
    "hardest": "Hardest first",
    "apart": "Most disagreement first",
    "slowest": "Slowest first",
}

_FACTS = (
    "SELECT t.sample, s.rowid, t.category, t.rowid, t.model, t.agent, t.outcome, t.score, t.model_s"
    " FROM trials t CROSS JOIN samples s ON s.asked = t.asked WHERE t.superseded = 0"
)
_ANSWERS = (
    "SELECT t.rowid, m.label, t.agent, t.sample, t.repeat, t.outcome, t.score, t.answer, t.because, t.text, t.failure_kind,"
    " t.failure, t.model_s, t.cost_usd, t.output_tokens, w.work, w.transcript"
    " FROM trials t JOIN models m ON m.model = t.model"
    " LEFT JOIN work w ON w.id = t.id AND w.finished_at = t.finished_at WHERE t.rowid IN"
)
_LOOK_UP = 500
_MOST_STEPS = 200
_DIFF_CHARACTERS = 10
"""A diff, a check's output and a step may be so many times as long as an answer: there are few of them."""


@dataclass(slots=True)
class SampleFacts:
    """What is known of a sample without reading any text."""

    sample: str
    category: str
    row: int
    """Where its text is in the store."""
    trials: array[int] = field(default_factory=lambda: array("q"))
    """Where its results are."""
    mean: float = 0.0
    spread: float = 0.0
    """Best minus worst score of a model; references left out."""
    slowest_s: float = 0.0
    filters: tuple[str, ...] = ()


class Attempted(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt at a coding task left behind, cut to what a page can carry."""

    summary: str
    diff: str = ""
    check: str = ""
    steps: tuple[tuple[float, str, str, str], ...] = ()
    """Seconds, kind, actor, text."""
    more_steps: int = 0


class Answer(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One trial, cut to what a page can carry."""

    mark: str
    """right, wrong, none (no answer) or failed."""
    score: float | None = None
    repeat: int = 0
    outcome: str = "answered"
    answer: str | None = None
    text: str = ""
    note: str = ""
    """Why it was judged so, or why it failed."""
    length: int = 0
    """Of the whole text, where only a part is here."""
    seconds: float | None = None
    cost_usd: float | None = None
    output_tokens: int | None = None
    work: Attempted | None = None


class SampleView(Record, frozen=True, kw_only=True):
    """A sample with every entrant's answers, in the order of the entrants."""

    sample: str
    category: str
    prompt: str
    target: str
    mean: float
    spread: float
    slowest_s: float
    filters: tuple[str, ...]
    answers: tuple[tuple[Answer, ...], ...]


def sample_facts(reader: StoreReader, summary: Summary) -> list[SampleFacts]:
    """Every sample that was asked, by name; one pass over the store."""
    found: dict[str, SampleFacts] = {}
    scores: dict[str, dict[tuple[int, str], list[float]]] = {}
    failed: set[str] = set()
    fighting = _contestants(reader, summary)
    for sample, row, category, trial, model, agent, outcome, score, seconds in reader.rows(_FACTS):
        facts = found.get(sample)
        if facts is None:
            facts = found[sample] = SampleFacts(sample, category, row)
            scores[sample] = {}
        facts.trials.append(trial)
        facts.slowest_s = max(facts.slowest_s, seconds or 0.0)
        if outcome == "failed":
            failed.add(sample)
        elif (model, agent) in fighting:
            scores[sample].setdefault((model, agent), []).append(score or 0.0)
    for sample, facts in found.items():
        _judge(facts, [sum(own) / len(own) for own in scores[sample].values()], failed=sample in failed)
    return [found[sample] for sample in sorted(found)]


def _contestants(reader: StoreReader, summary: Summary) -> set[tuple[int, str]]:
    numbers = dict(reader.rows("SELECT label, model FROM models"))
    return {(numbers[m.model.label], m.agent) for m in summary.contestants}


def _judge(facts: SampleFacts, means: Sequence[float], *, failed: bool) -> None:
    right = sum(mean >= 1 for mean in means)
    holds = {
        "disagree": bool(means) and max(means) > min(means),
        "all_wrong": bool(means) and right == 0,
        "one_right": right == 1 and len(means) > 1,
        "failed": failed,
        "all_right": bool(means) and right == len(means),
    }
    facts.filters = tuple(name for name in FILTERS if holds[name])
    if means:
        facts.mean, facts.spread = sum(means) / len(means), max(means) - min(means)


_ORDERS: Mapping[str, Callable[[SampleFacts], Any]] = {
    "sample": lambda f: f.sample,
    "hardest": lambda f: (f.mean, f.sample),
    "apart": lambda f: (-f.spread, f.mean, f.sample),
    "slowest": lambda f: (-f.slowest_s, f.sample),
}


def pick(facts: Iterable[SampleFacts], *, only: str = "", category: str = "", sort: str = "sample") -> list[SampleFacts]:
    """The samples a filter and a category leave, in the order asked for."""
    left = [f for f in facts if (not only or only in f.filters) and (not category or f.category == category)]
    return sorted(left, key=_ORDERS[sort])


def view_samples(reader: StoreReader, summary: Summary, chosen: Sequence[SampleFacts], most: int) -> list[SampleView]:
    """The chosen samples with their texts, none longer than `most` characters."""
    entrants = {(m.model.label, m.agent): place for place, m in enumerate(ordered(summary))}
    texts = {row: (prompt, target) for row, prompt, target in _by_row(
        reader, "SELECT rowid, prompt, target FROM samples WHERE rowid IN", [f.row for f in chosen]
    )}  # fmt: skip
    answers: dict[str, list[list[Answer]]] = {f.sample: [[] for _ in entrants] for f in chosen}
    for row in _by_row(reader, _ANSWERS, [trial for f in chosen for trial in f.trials]):
        answers[row[3]][entrants[row[1], row[2]]].append(_answer(row, most))
    return [_view(f, *texts[f.row], answers[f.sample], most) for f in chosen]


def ordered(summary: Summary) -> list[Any]:
    """The entrants as the pages list them: ranked, not ranked, references."""
    return [*summary.ranked, *summary.unfinished, *summary.references]


def _by_row(reader: StoreReader, query: str, rows: Sequence[int]) -> Iterable[tuple[Any, ...]]:
    for start in range(0, len(rows), _LOOK_UP):
        some = rows[start : start + _LOOK_UP]
        yield from reader.rows(f"{query} ({', '.join('?' * len(some))})", *some)


def _view(facts: SampleFacts, prompt: str, target: str, answers: Sequence[list[Answer]], most: int) -> SampleView:
    return SampleView(
        sample=facts.sample,
        category=facts.category,
        prompt=cut(prompt, most),
        target=cut(target, most),
        mean=facts.mean,
        spread=facts.spread,
        slowest_s=facts.slowest_s,
        filters=facts.filters,
        answers=tuple(tuple(sorted(own, key=lambda a: a.repeat)) for own in answers),
    )


def _answer(row: tuple[Any, ...], most: int) -> Answer:
    _, _, _, _, repeat, outcome, score, answer, because, text, kind, failure, seconds, cost, tokens, work, transcript = row
    failed = outcome == "failed"
    said = text or ""
    return Answer(
        mark=_mark(outcome, score, answer),
        score=score,
        repeat=repeat,
        outcome=kind if failed else outcome,
        answer=cut(answer, most) if answer is not None and answer != said else None,
        text=cut(said, most),
        note=cut((failure if failed else because) or "", most),
        length=len(said) if len(said) > most else 0,
        seconds=seconds,
        cost_usd=cost,
        output_tokens=tokens,
        work=_attempted(work, transcript, most) if work else None,
    )


def _mark(outcome: str, score: float | None, answer: str | None) -> str:
    """The same four kinds as the table counts."""
    if outcome == "failed":
        return "failed"
    if score is not None and score >= 1:
        return "right"
    return "none" if score is None or answer is None else "wrong"


def _attempted(work: str, transcript: str, most: int) -> Attempted:
    made = msgspec.json.decode(work, type=Work)
    steps = msgspec.json.decode(transcript, type=tuple[Step, ...])
    return Attempted(
        summary=_told(made),
        diff=cut(made.changes.diff, most * _DIFF_CHARACTERS),
        check=cut(made.check_output, most * _DIFF_CHARACTERS),
        steps=tuple((round(s.at_s, 1), s.kind, s.actor, cut(s.text, most)) for s in steps[:_MOST_STEPS]),
        more_steps=max(0, len(steps) - _MOST_STEPS),
    )


def _told(work: Work) -> str:
    """An attempt in a line."""
    helped = "first try" if work.first_try and not work.interventions else f"{work.interventions} times helped"
    parts = [
        work.outcome.replace("_", " "),
        *([helped] if work.outcome == "passed" else []),
        f"{work.seconds:.1f} s",
        f"{work.model_calls} calls",
        f"{work.tool_calls} tools",
        f"{work.changes.files_changed or len(work.changes.files)} files",
        f"+{work.changes.lines_added} −{work.changes.lines_removed}",
    ]
    return " · ".join(parts)


def cut(text: str, most: int) -> str:
    """The beginning of a long text."""
    return text if len(text) <= most else text[: most - 1] + "…"
