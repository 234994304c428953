"""Single samples with every model's answer, for the pages that let people look through them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, product
from typing import Any

import msgspec
from msgspec.structs import replace

from tiebreak.core.media import IMAGE_TYPES
from tiebreak.core.message import Message
from tiebreak.core.record import Record
from tiebreak.core.steps import spent, standing
from tiebreak.core.work import Step, Work
from tiebreak.report.summary import Summary
from tiebreak.report.work_tests import suite_lines, suite_summary
from tiebreak.store.judgements import HUMAN
from tiebreak.store.reader import FiguresKeeper, StoreReader

FILTERS: Mapping[str, str] = {
    "readings_differ": "Readings differ",
    "disagree": "Models disagree",
    "all_wrong": "All wrong",
    "one_right": "Only one right",
    "failed": "Failed",
    "all_right": "All right",
}
"""What a sample can be picked out by, and what people call it."""
SORTS: Mapping[str, str] = {
    "readings": "Readings that differ first",
    "sample": "By name",
    "hardest": "Hardest first",
    "apart": "Most disagreement first",
    "slowest": "Slowest first",
}

_HOLDS: Mapping[str, str] = {
    "readings_differ": "readings_differ",
    "disagree": "spread > 0",
    "all_wrong": "answered > 0 AND right = 0",
    "one_right": "right = 1 AND answered > 1",
    "failed": "failed",
    "all_right": "answered > 0 AND right = answered",
}
"""When a sample passes a filter, by its facts."""
_FILTERS_OF = {flags: tuple(compress(FILTERS, flags)) for flags in product((False, True), repeat=len(FILTERS))}
"""The filters by what holds of a sample, in their order: so few combinations that each is made only once."""

_BY_CONTESTANT = (
    "SELECT sample, min(category) AS category, group_concat(rowid) AS trials, max(model_s) AS slowest,"
    " max(outcome = 'failed') AS failed,"
    " coalesce(max(outcome <> 'failed' AND (second >= 1) <> (coalesce(score, 0) >= 1)), 0) AS readings_differ,"
    " CASE WHEN contestant IN ({tested}) THEN avg(iif(outcome = 'failed', NULL, coalesce(score, 0))) END AS mean"
    " FROM trials WHERE superseded = 0 GROUP BY sample, contestant"
)
_FACTS = (
    "SELECT sample, min(category) AS category, group_concat(trials) AS trials, coalesce(avg(mean), 0) AS mean,"
    " coalesce(max(mean) - min(mean), 0) AS spread, coalesce(max(slowest), 0) AS slowest_s, max(failed) AS failed,"
    " count(mean) AS answered, total(mean >= 1) AS right, max(readings_differ) AS readings_differ"
    f" FROM ({_BY_CONTESTANT}) GROUP BY sample ORDER BY sample"
)
"""Added up by SQLite: half a million trials are no matter, as long as no text is read."""
_ANSWERS = (
    "SELECT t.rowid, t.contestant, t.sample, t.repeat, t.outcome, t.score, t.second, t.answer, t.because, t.text, t.failure_kind,"
    " t.failure, t.model_s, t.cost_usd, t.output_tokens, {work} FROM trials t {joined} WHERE t.rowid IN"
)
_QUESTIONS = _ANSWERS.format(work="NULL, NULL", joined="")
_TASKS = _ANSWERS.format(work="w.work, w.transcript", joined="LEFT JOIN work w ON w.id = t.id AND w.finished_at = t.finished_at")
_TEXTS = "SELECT t.sample, s.prompt, s.target, s.media FROM trials t CROSS JOIN samples s ON s.asked = t.asked WHERE t.rowid IN"
_JUDGED = (
    "SELECT t.rowid, j.scorer, j.judge, j.value, j.failure, j.reply_text FROM judgements j JOIN trials t ON t.id = j.trial"
    " WHERE j.superseded = 0 AND t.rowid IN"
)
_SAID = (
    "SELECT t.rowid, e.messages FROM exchanges e JOIN trials t ON t.id = e.id AND t.finished_at = e.finished_at WHERE t.rowid IN"
)
_LOOK_UP = 500
_MOST_STEPS = 200
_MOST_TESTS = 200
_DIFF_CHARACTERS = 10
"""A diff, a check's output and a step may be so many times as long as an answer: there are few of them."""


class SampleFacts(Record, frozen=True):
    """What is known of a sample without reading any text."""

    sample: str
    category: str
    trials: str
    """Where its results are, separated by commas."""
    mean: float
    spread: float
    """Best minus worst score of a model; references left out."""
    slowest_s: float
    filters: tuple[str, ...]


class Attempted(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt at a coding task left behind, cut to what a page can carry."""

    summary: str
    diff: str = ""
    check: str = ""
    suite: str = ""
    """How many tests of which kind passed."""
    tests: str = ""
    """Each test, a line each."""
    steps: tuple[tuple[float, str, str, str, str, str], ...] = ()
    """Seconds, kind, actor, text, how it went, what it took."""
    more_steps: int = 0


class JudgeWords(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What a judge or a person said of an answer."""

    who: str
    value: float | None = None
    said: str = ""
    """All a model replied, cut; or why it gave no verdict."""


class Answer(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One trial, cut to what a page can carry."""

    mark: str
    """right, wrong, none (no answer), failed or unjudged."""
    score: float | None = None
    second: float | None = None
    """What the second rule says, where it says something else."""
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
    judges: tuple[JudgeWords, ...] = ()
    said: tuple[tuple[str, str], ...] = ()
    """Role and text of every message, where there is more than one answer in words."""


class MediaView(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An image or document of a sample."""

    digest: str
    media_type: str
    name: str = ""
    size_bytes: int = 0
    src: str = ""
    """A data URL of a small image, for pages that stand alone."""


class SampleView(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A sample with every contestant's answers, in the order tables list them."""

    sample: str
    category: str
    prompt: str
    target: str
    mean: float
    spread: float
    slowest_s: float
    filters: tuple[str, ...]
    answers: tuple[tuple[Answer, ...], ...]
    media: tuple[MediaView, ...] = ()


def sample_facts(reader: StoreReader, summary: Summary) -> Iterator[SampleFacts]:
    """Every sample that was asked, by name; there may be more of them than anybody should hold."""
    if kept_census(reader) is not None:
        return kept_facts(reader)
    query, tested = facts_query(reader, summary)
    return _facts(reader, f"({query}) ORDER BY sample", *tested)


def facts_query(reader: StoreReader, summary: Summary) -> tuple[str, list[int]]:
    """What finds the facts about every sample, by name, and the values that go with it."""
    tested = [reader.numbers[c.label] for c in summary.tested]
    return _FACTS.format(tested=", ".join("?" * len(tested))), tested


def kept_facts(
    reader: StoreReader, *, only: str = "", category: str = "", sort: str = "sample", start: int = 0, most: int = -1
) -> Iterator[SampleFacts]:
    """So many of the samples a filter and a category leave, in the order asked for; of a run that keeps its facts."""
    rest, values = _left_by(only, category)
    return _facts(reader, f"facts {rest} ORDER BY {_KEPT_ORDERS[sort]} LIMIT ? OFFSET ?", *values, most, start)


def count_kept(reader: StoreReader, *, only: str = "", category: str = "") -> int:
    """How many samples a filter and a category leave."""
    rest, values = _left_by(only, category)
    count: int = next(reader.rows(f"SELECT count(*) FROM facts {rest}", *values))[0]
    return count


def _left_by(only: str, category: str) -> tuple[str, list[str]]:
    holds = [*([_HOLDS[only]] if only else []), *(["category = ?"] if category else [])]
    return f"WHERE {' AND '.join(holds)}" if holds else "", [category] if category else []


def _facts(reader: StoreReader, found_in: str, *values: Any) -> Iterator[SampleFacts]:
    columns = "sample, category, trials, mean, spread, slowest_s"
    rows = reader.rows(f"SELECT {columns}, {', '.join(_HOLDS.values())} FROM {found_in}", *values)
    for sample, category, trials, mean, spread, slowest, *flags in rows:
        yield SampleFacts(sample, category, trials, mean, spread, slowest, _FILTERS_OF[tuple(flags)])


class Census(msgspec.Struct):
    """What the samples are together, counted as they pass by."""

    total: int = 0
    filters: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(FILTERS, 0))
    categories: set[str] = msgspec.field(default_factory=set)

    def of(self, facts: Iterable[SampleFacts]) -> Iterator[SampleFacts]:
        """The same samples, counted."""
        for fact in facts:
            self.total += 1
            self.categories.add(fact.category)
            for name in fact.filters:
                self.filters[name] += 1
            yield fact


def kept_census(reader: StoreReader) -> Census | None:
    """The census of a run that keeps the facts about its samples."""
    return reader.figures("census", Census)


def keep_facts(keeper: FiguresKeeper, summary: Summary) -> None:
    """Have a run keep the facts about its samples, and their census."""
    query, tested = facts_query(keeper, summary)
    keeper.keep_facts(query, *tested)
    counts = ", ".join(f"coalesce(sum({holds}), 0)" for holds in _HOLDS.values())
    total, *filters = next(keeper.rows(f"SELECT count(*), {counts} FROM facts"))
    categories = {category for (category,) in keeper.rows("SELECT DISTINCT category FROM facts")}
    keeper.keep("census", Census(total, dict(zip(FILTERS, filters, strict=True)), categories))


def most_telling(facts: Iterable[SampleFacts], most: int) -> list[SampleFacts]:
    """All samples, or where they are too many those on which models disagree most; in their order."""
    kept: list[SampleFacts] = []
    for fact in facts:
        kept.append(fact)
        if len(kept) == 2 * most:
            kept = _most_apart(kept, most)
    return _most_apart(kept, most)


def _most_apart(facts: list[SampleFacts], most: int) -> list[SampleFacts]:
    if len(facts) <= most:
        return facts
    places = sorted(range(len(facts)), key=lambda place: ("readings_differ" not in facts[place].filters, -facts[place].spread))[
        :most
    ]
    return [facts[place] for place in sorted(places)]


_ORDERS: Mapping[str, Callable[[SampleFacts], Any]] = {
    "readings": lambda f: ("readings_differ" not in f.filters, f.sample),
    "sample": lambda f: f.sample,
    "hardest": lambda f: (f.mean, f.sample),
    "apart": lambda f: (-f.spread, f.mean, f.sample),
    "slowest": lambda f: (-f.slowest_s, f.sample),
}
_KEPT_ORDERS = {
    "readings": "readings_differ DESC, place",
    "sample": "place",
    "hardest": "mean, place",
    "apart": "spread DESC, mean, place",
    "slowest": "slowest_s DESC, place",
}
"""The same for facts that are kept, which lie in the order of their samples' names."""


def in_order(facts: Iterable[SampleFacts], sort: str) -> list[SampleFacts]:
    """All samples, in the order asked for."""
    return sorted(facts, key=_ORDERS[sort])


def pick(facts: Iterable[SampleFacts], *, only: str = "", category: str = "") -> list[SampleFacts]:
    """The samples a filter and a category leave."""
    return [f for f in facts if (not only or only in f.filters) and (not category or f.category == category)]


class Previews:
    """Small images in a page that stands alone; together they never weigh more than a page can carry."""

    def __init__(self, reader: StoreReader, *, each_bytes: int = 48_000, all_bytes: int = 600_000) -> None:
        self._reader = reader
        self._each = each_bytes
        self._left = all_bytes

    def source(self, media: MediaView) -> str:
        """The image as a data URL; empty where it is too large, or none that a browser may be shown."""
        if media.media_type not in IMAGE_TYPES or media.size_bytes > min(self._each, self._left):
            return ""
        query = "SELECT data FROM blobs WHERE digest = ? AND length(data) <= ?"
        row = next(self._reader.rows(query, media.digest, min(self._each, self._left)), None)
        if row is None:
            return ""
        self._left -= len(row[0])
        return f"data:{media.media_type};base64,{base64.b64encode(row[0]).decode()}"


def view_samples(
    reader: StoreReader, summary: Summary, chosen: Sequence[SampleFacts], most: int, previews: Previews | None = None
) -> list[SampleView]:
    """The chosen samples with their texts, none longer than `most` characters; previews are for pages that stand alone."""
    places = {reader.numbers[c.label]: place for place, c in enumerate(summary.listed)}
    query = _TASKS if next(reader.rows("SELECT 1 FROM work LIMIT 1"), None) else _QUESTIONS
    # With repeats a sample was shown in several ways: the first of them is shown here.
    firsts = [min(map(int, f.trials.split(","))) for f in chosen]
    texts = {sample: rest for sample, *rest in _by_row(reader, _TEXTS, firsts)}
    answers: dict[str, list[list[Answer]]] = {f.sample: [[] for _ in places] for f in chosen}
    rows = [int(trial) for f in chosen for trial in f.trials.split(",")]
    judged, said = _judged(reader, rows, most), _said(reader, rows, most)
    for row in _by_row(reader, query, rows):
        answers[row[2]][places[row[1]]].append(_answer(row, most, judged.get(row[0], ()), said.get(row[0], ())))
    return [_view(f, texts[f.sample], answers[f.sample], most, previews) for f in chosen]


def _said(reader: StoreReader, rows: Sequence[int], most: int) -> dict[int, tuple[tuple[str, str], ...]]:
    """By trial, everything that was said in it, where that was more than one answer in words."""
    if next(reader.rows("SELECT 1 FROM exchanges LIMIT 1"), None) is None:
        return {}
    decode = msgspec.json.Decoder(tuple[Message, ...]).decode
    return {
        row: tuple((message.role, cut(_message_text(message), most)) for message in decode(said)[:_MOST_STEPS])
        for row, said in _by_row(reader, _SAID, rows)
    }


def _message_text(message: Message) -> str:
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(filter(None, [message.text, *calls]))


def _judged(reader: StoreReader, rows: Sequence[int], most: int) -> dict[int, list[JudgeWords]]:
    """By trial, what judges and people said of its answer; of those asked again, the last word."""
    if next(reader.rows("SELECT 1 FROM judgements LIMIT 1"), None) is None:
        return {}
    found: dict[int, dict[str, JudgeWords]] = {}
    for row, scorer, judge, value, failure, said in _by_row(reader, _JUDGED, rows):
        who = judge or scorer.removeprefix(HUMAN)
        words = JudgeWords(who=who, value=value, said=cut(said or failure or "", most))
        found.setdefault(row, {})[f"{scorer} {judge}"] = words
    return {row: list(own.values()) for row, own in found.items()}


def _by_row(reader: StoreReader, query: str, rows: Sequence[int]) -> Iterable[tuple[Any, ...]]:
    for start in range(0, len(rows), _LOOK_UP):
        some = rows[start : start + _LOOK_UP]
        yield from reader.rows(f"{query} ({', '.join('?' * len(some))})", *some)


def _view(
    facts: SampleFacts, texts: Sequence[str], answers: Sequence[list[Answer]], most: int, previews: Previews | None
) -> SampleView:
    prompt, target, listed = texts
    media = msgspec.json.decode(listed, type=tuple[MediaView, ...] | None) or ()
    if previews is not None:
        media = tuple(replace(one, src=previews.source(one)) for one in media)
    return SampleView(
        sample=facts.sample,
        category=facts.category,
        prompt=cut(prompt, most),
        target=cut(target, most),
        mean=facts.mean,
        spread=facts.spread,
        slowest_s=facts.slowest_s,
        filters=facts.filters,
        media=media,
        answers=tuple([tuple(own if len(own) < 2 else sorted(own, key=lambda a: a.repeat)) for own in answers]),
    )


def _answer(
    row: tuple[Any, ...], most: int, judged: Sequence[JudgeWords] = (), exchanged: tuple[tuple[str, str], ...] = ()
) -> Answer:
    _, _, _, repeat, outcome, score, second, answer, because, text, kind, failure, seconds, cost, tokens, work, transcript = row
    failed = outcome == "failed"
    said = text or ""
    return Answer(
        mark="unjudged" if kind == "unjudged" else _mark(outcome, score, answer),
        score=score,
        second=second if second is not None and (second >= 1) != ((score or 0.0) >= 1) else None,
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
        judges=tuple(judged),
        said=exchanged,
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
        suite=suite_summary(made),
        tests=cut("\n".join(suite_lines(made, _MOST_TESTS)), most * _DIFF_CHARACTERS),
        steps=tuple(
            (round(s.at_s, 1), s.kind, s.actor, cut(s.text, most), standing(s), " · ".join(spent(s))) for s in steps[:_MOST_STEPS]
        ),
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
