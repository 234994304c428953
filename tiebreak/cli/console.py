"""The only place that prints. What it prints is decided elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiebreak.cli.layout import Column, Row, lay_out, shortened, wrapped
from tiebreak.cli.terminal import echo, harmless, make_console
from tiebreak.core.model import ModelRef
from tiebreak.core.trial import Outcome, TrialResult
from tiebreak.report.caveats import caveats
from tiebreak.report.judging import CORRECTED_HEADINGS, JUDGE_HEADINGS, Judging, corrected_rows, judge_rows, judging_notes
from tiebreak.report.preferences import preference_tables
from tiebreak.report.samples import SampleAnswer
from tiebreak.report.summary import ContestantSummary, Summary
from tiebreak.report.table import by_scorer, cells, contestant_notes, cost, factor_rows, headings, noun, score, short_name
from tiebreak.report.verdict import duration, verdict
from tiebreak.report.work_words import HEADINGS as WORK_HEADINGS
from tiebreak.report.work_words import MEDALS, podium, standing, work_cells, work_sentences

if TYPE_CHECKING:
    from rich.text import Text

    from tiebreak.spec.model_choice import Check

_TOGETHER = re.compile(r"(?<=\d) (?=%)|(?<=\bp) (?=[=<])|(?<=p [=<]) (?=\d)| (?=·)")
"""Spaces at which no line ends."""
_FEW_ATTEMPTS = 12
_LONGEST_REASON = 400
_LONGEST_ANSWER = 60
_WORTH = {"Provider": 1, "Time": 2}
"""Columns of the comparison that may be left out, the first one first; most names say the provider."""
_WORDS = ("Provider", "Score")
"""Its columns that are aligned to the left: an interval lines up by its first digit, whatever follows it."""
_SHORT = {"No answer": "None"}
_WORK_WORTH = {"Prompts": 1, "Files": 2, "Tokens": 3, "Calls": 4, "Lines": 5}


class Console:
    """Human words on standard output, or on standard error while it carries JSON."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        self.rich = make_console(to_stderr=to_stderr)
        self._to_stderr = to_stderr

    @property
    def is_terminal(self) -> bool:
        """Whether someone is looking."""
        return self.rich.is_terminal

    def line(self, text: str = "", *, style: str = "", indent: int = 0) -> None:
        """A plain line; nothing in it is mark-up. On a terminal it is wrapped between words, in a file not at all."""
        from rich.text import Text

        shown, margin = Text(harmless(text), style=style), " " * indent
        lines = _wrapped(shown, self.rich.width - indent) if self.is_terminal else [shown]
        self._lines([Text.assemble(margin, line) for line in lines] if indent else lines)

    def warn(self, text: str) -> None:
        """A line on standard error."""
        echo(f"warning: {text}", err=True)

    def checks(self, checks: Sequence[Check]) -> None:
        """A line per model: will it run, and who serves it?"""
        width = max(len(check.typed) for check in checks)
        for check in checks:
            if check.ref is None:
                self.line(f"✗ {check.typed:{width}}  {check.problem}", style="red")
                continue
            self.line(f"✓ {check.typed:{width}}  {described(check.ref)}")

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A plain table: the first column names what a row is about, a column of numbers is aligned as one."""
        columns = [
            Column(heading=heading, right=place > 0 and _are_numbers(row[place] for row in rows), prose=place > 0)
            for place, heading in enumerate(headings)
        ]
        self._lines(lay_out(columns, [Row(cells=row) for row in rows], self.rich.width))

    def _lines(self, lines: Sequence[Text]) -> None:
        for line in lines:
            self.rich.print(line, soft_wrap=True)

    def comparison(self, summary: Summary, *, table: bool = True) -> None:
        """All contestants in one table, best first, and what to make of it; `table` False for the words alone."""
        if table:
            self._lines(lay_out(*_comparison_table(summary), self.rich.width, ruled=True))
            self.line()
        for note in contestant_notes(summary):
            self.line(note, style="yellow")
        for factor in summary.factors:
            self.table(*factor_rows(factor))
            self.line()
        for place, sentence in enumerate(verdict(summary)):
            self.line(sentence, style="" if place else "bold")
        for caveat in caveats(summary):
            self.line(f"Note: {caveat}.", style="yellow")

    def markdown(self, text: str) -> None:
        """A document on standard output, whatever else is said elsewhere."""
        echo(text.rstrip("\n"))

    def work(self, summary: Summary) -> None:
        """What was done on coding tasks: a table, why the few that failed did, and the rankings."""
        assert summary.tasks is not None
        self._lines(lay_out(*_work_table(summary), self.rich.width))
        self.line()
        unsolved = [(c, a) for c in summary.tested if c.work for a in c.work.attempts if not a.solved]
        for contestant, attempt in unsolved if len(unsolved) <= _FEW_ATTEMPTS else ():
            outcome = attempt.outcome.replace("_", " ")
            self.line(shortened(f"✗ {contestant.label}, {attempt.task}: {outcome}: {attempt.reason}", _LONGEST_REASON))
        if 0 < len(unsolved) <= _FEW_ATTEMPTS:
            self.line()
        for name, title in MEDALS.items():
            self.line(f"{title}: {podium(summary.tasks, name)}")
        self.line()
        for sentence in work_sentences(summary):
            self.line(sentence)
        self.line()

    def details(self, model: ContestantSummary, worst: Sequence[SampleAnswer], dataset: str) -> None:
        """One model at length."""
        from rich.table import Table

        facts = Table.grid(padding=(0, 2))
        facts.add_column(style="bold")
        facts.add_column()
        for name, value in _facts(model, dataset):
            facts.add_row(name, _escaped(value))
        self.rich.print(facts)
        if model.categories:
            self.line()
            self.table(("Category", "Score", "Samples"), [(c.name, f"{c.score:.2f}", str(c.n)) for c in model.categories])
        if worst:
            self.line("\nSome it did not get right:", style="bold")
            for item in worst:
                self.line(f"{' '.join(item.sample.split()) or repr(item.sample)}{_expected(item)}", indent=2)

    def judging(self, judging: Judging | None) -> None:
        """What judges did and cost, how far they agree, and what people's votes make of the scores."""
        if judging is None:
            return
        self.line()
        if judging.judges:
            self.table(JUDGE_HEADINGS, judge_rows(judging))
        if judging.corrected:
            self.line()
            self.table(CORRECTED_HEADINGS, corrected_rows(judging))
        for shown in map(preference_tables, judging.preferences):
            self.line()
            self.line(f"{shown['title']}. {shown['verdict']}", style="bold")
            for table in shown["tables"]:
                self.table(table["headings"], table["rows"])
        for note in judging_notes(judging):
            self.line(note)

    def samples(self, word: str, ids: Sequence[str], answers: Mapping[str, SampleAnswer], shown: int) -> None:
        """Some samples of a kind, each with its question and what was expected and answered where that is known."""
        if not ids:
            return
        self.line(f"  {word}: {len(ids):,}")
        for sample in ids[:shown]:
            answer = answers.get(sample)
            known = f"{_expected(answer)}: {answer.prompt}" if answer else ""
            self.line(shortened(f"{sample}{known}", self.rich.width - 4), indent=4)
        if len(ids) > shown:
            self.line(f"and {len(ids) - shown:,} more", indent=4)

    def written(self, paths: Sequence[Path]) -> None:
        """Where the results are."""
        for path in paths:
            self.line(f"Wrote {path}", style="dim")

    def answers(self, results: Sequence[tuple[ModelRef, TrialResult | str]]) -> None:
        """Answers side by side, or below each other where the screen is narrow."""
        from rich.columns import Columns
        from rich.panel import Panel
        from rich.text import Text

        width = max(38, self.rich.width // max(1, min(len(results), self.rich.width // 40)) - 1)
        panels = [
            Panel(Text(_answer(result)), title=_escaped(model.label), subtitle=_cost_line(result), width=width)
            for model, result in results
        ]
        self.rich.print(Columns(panels, padding=(0, 0)) if len(panels) > 1 else panels[0])


def counted(n: int, word: str) -> str:
    """A number and what it counts: 1 model, 3 models."""
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def described(ref: ModelRef) -> str:
    """A model's provider, settings and standing, in a few words."""
    words = [ref.provider if ref.spelled_out == ref.label.partition("@")[0] else ref.spelled_out]
    if ref.settings:
        words.append("with " + ", ".join(f"{key}={value}" for key, value in ref.settings.items()))
    words += [f"{key}={value} as its provider requires" for key, value in ref.required.items() if key not in ref.settings]
    if ref.base_url:
        words.append(f"at {ref.base_url}")
    if not ref.verified:
        words.append("(unverified name)")
    return " ".join(words)


def _comparison_table(summary: Summary) -> tuple[list[Column], list[Row]]:
    several = len(summary.tiers) > 1 or any(len(tier) > 1 for tier in summary.tiers)
    name, *names = headings(summary)
    columns = [
        *([Column(heading="Tier", right=True, lead=True)] if several else []),
        Column(heading=name),
        *(Column(heading=n, short=_SHORT.get(n, ""), right=n not in _WORDS, worth=_WORTH.get(n, 0)) for n in names),
    ]
    parts = [part for part in (summary.ranked, summary.unfinished, summary.references) if part]
    rows = [
        Row(
            cells=[*([str(contestant.tier or "")] if several else []), *cells(contestant)],
            short_name=short_name(contestant),
            style="dim" if contestant.reference else "",
            rule=contestant is part[-1] and part is not parts[-1],
        )
        for part in parts
        for contestant in part
    ]
    return columns, rows


def _wrapped(text: Text, width: int) -> list[Text]:
    """The text in lines that fit; a figure stays with its unit, and a name's parts with the dot between them."""
    return [part for line in text.split("\n", allow_blank=True) for part in wrapped(line, width, keep=_TOGETHER)]


def _are_numbers(cells: Iterable[str]) -> bool:
    """Whether a column holds numbers, where it holds anything."""
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(cell.replace(",", "").replace(".", "").isdigit() for cell in filled)


def _work_table(summary: Summary) -> tuple[list[Column], list[Row]]:
    _, *names, outcome = WORK_HEADINGS
    columns = [
        Column(heading=noun(summary).capitalize()),
        *(Column(heading=name, right=True, worth=_WORK_WORTH.get(name, 0)) for name in names),
        Column(heading=outcome, prose=True),
    ]
    rows = [
        Row(cells=work_cells(contestant), short_name=short_name(contestant), style="dim" if contestant.reference else "")
        for contestant in standing(summary)
    ]
    return columns, rows


def _facts(model: ContestantSummary, dataset: str) -> list[tuple[str, str]]:
    ref = model.model
    failures = ", ".join(f"{count} {kind}" for kind, count in model.failures.items())
    outcomes = {
        "refused": model.refused,
        "empty": model.empty,
        "filtered": model.filtered,
        "cut off": model.cut_off,
        "out of context": model.exhausted,
    }
    silent = ", ".join(f"{count} {word}" for word, count in outcomes.items() if count)
    facts = [
        ("Model", ref.display_name or model.label),
        ("Provider", described(ref)),
        ("Dataset", f"{dataset}, {counted(model.planned, 'trial')}"),
        ("Score", f"{score(model)} (95 % interval, n={model.answered})"),
        ("Right", str(model.right)),
        ("Wrong", str(model.wrong)),
        ("No answer", f"{model.no_answer}{f' ({silent})' if silent else ''}"),
        ("Failed", f"{model.failed}{f' ({failures})' if failures else ''}"),
        *([("Not judged", f"{model.unjudged} (no judge has judged them yet)")] if model.unjudged else []),
        *([("Remembered", f"{model.remembered} of an earlier run (--cache or --replay)")] if model.remembered else []),
    ]
    if model.failed and model.score_failures_wrong is not None:
        facts.insert(4, ("With failures wrong", f"{model.score_failures_wrong:.2f}"))
    if model.by_scorer:
        facts.insert(4, ("By scorer", by_scorer(model)))
    if model.pass_at:
        at, every = (", ".join(f"{k}: {v:.2f}" for k, v in found.items()) for found in (model.pass_at, model.pass_all))
        facts.append(("Right once in k", at))
        facts.append(("Right k times", every))
    if model.not_asked:
        facts.append(("Not asked", f"{model.not_asked} ({model.message or model.state})"))
    facts += [
        # An imported run has taken no time of ours.
        *([("Time", _time(model))] if model.seconds else []),
        *_speed(model),
        ("Tokens", f"{model.input_tokens:,} in, {model.output_tokens:,} out"),
        ("Cost", cost(model)),
    ]
    return facts


def _time(model: ContestantSummary) -> str:
    """How long it took; where no answer was timed, as in batches, that says nothing about speed."""
    took = duration(model.seconds)
    return f"{took}, {model.per_second:.1f} samples/s" if model.latency is not None else took


def _speed(model: ContestantSummary) -> list[tuple[str, str]]:
    found = model.latency
    if found is None:
        return []
    words = f"{found.p50_s:.2f} s median, {found.p95_s:.2f} s p95, {found.p99_s:.2f} s p99"
    if found.in_flight is not None:
        words += f"; {found.in_flight:g} in flight"
    if found.alone_p50_s is not None:
        words += f"; {found.alone_p50_s:.2f} s one at a time"
    if found.first_token_p50_s is not None:
        words += f"; first token {found.first_token_p50_s:.2f} s"
    if found.first_answer_p50_s is not None and found.first_answer_p50_s != found.first_token_p50_s:
        words += f", {found.first_answer_p50_s:.2f} s to the first word of the answer"
    if found.tokens_per_s is not None:
        words += f"; {found.tokens_per_s:.0f} tokens/s"
    return [("Answers in", words)]


def _expected(answer: SampleAnswer) -> str:
    said = repr(shortened(answer.answer, _LONGEST_ANSWER)) if answer.answer else answer.outcome.replace("_", " ")
    expected = f"expected {shortened(answer.expected, _LONGEST_ANSWER)!r}, " if answer.expected else ""
    return f": {expected}got {said}"


def _answer(result: TrialResult | str) -> str:
    if isinstance(result, str):
        return f"no answer: {result}"
    if result.failure is not None:
        return f"no answer: {result.failure.message}"
    text = result.output.text if result.output else ""
    note = "" if result.outcome is Outcome.ANSWERED else f"\n[{result.outcome.value.replace('_', ' ')}]"
    return (text.strip() + note).strip() or "[empty]"


def _cost_line(result: TrialResult | str) -> str | None:
    if isinstance(result, str) or result.output is None:
        return None
    usage = result.output.usage
    tokens = f", {usage.output_tokens} tokens" if usage and usage.output_tokens else ""
    return f"{result.output.timing.model_s:.1f} s{tokens}"


def _escaped(text: Any) -> Any:
    from rich.markup import escape

    return escape(text) if isinstance(text, str) else text
