"""A run as Markdown: for a pull request, or for the summary page of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiebreak.report.caveats import caveats
from tiebreak.report.factors import Factor
from tiebreak.report.judging import CORRECTED_HEADINGS, JUDGE_HEADINGS, Judging, corrected_rows, judge_rows
from tiebreak.report.preferences import preference_tables
from tiebreak.report.summary import Summary
from tiebreak.report.table import cells, contestant_notes, factor_rows, headings, noun
from tiebreak.report.verdict import verdict
from tiebreak.report.work_files import guarded_cell
from tiebreak.report.work_words import HEADINGS as WORK_HEADINGS
from tiebreak.report.work_words import standing, work_cells

_LIVE = str.maketrans({**{mark: f"\\{mark}" for mark in "\\`*_[]|#~"}, "<": "&lt;", ">": "&gt;", "&": "&amp;"})
"""Characters that mean something in Markdown; a model's label is only text."""


def markdown_report(summary: Summary, notes: Sequence[str] = ()) -> str:
    """Verdict, tables and caveats, and what else is to be noted."""
    info = summary.info
    first, *others = verdict(summary) or [""]
    parts = [
        f"### {plain(info.protocol.dataset.rpartition('/')[2])}",
        " ".join([f"**{plain(first)}**", *map(plain, others)]) if first else "",
        markdown_table(summary),
        _work_table(summary) if summary.tasks is not None else "",
        *(_factor_table(factor) for factor in summary.factors),
        *_judging_tables(summary.judging),
        "\n".join(f"- {plain(line)}" for line in (*contestant_notes(summary), *notes)),
        *(f"> {plain(caveat)}." for caveat in caveats(summary)),
        f"<sub>{plain(info.run_id)}, {plain(info.made_with)}</sub>",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def markdown_table(summary: Summary) -> str:
    """The comparison table alone."""
    return _table(headings(summary), [cells(contestant, note=True) for contestant in summary.listed], 2)


def _work_table(summary: Summary) -> str:
    """What was done on coding tasks."""
    return _table([noun(summary).capitalize(), *WORK_HEADINGS[1:]], [work_cells(c) for c in standing(summary)], 1)


def _judging_tables(judging: Judging | None) -> list[str]:
    """What judges did and cost, and scores corrected by people's votes."""
    if judging is None:
        return []
    tables = ((JUDGE_HEADINGS, judge_rows(judging)), (CORRECTED_HEADINGS, corrected_rows(judging)))
    shown = [_table(names, rows, 1) for names, rows in tables if rows]
    for compared in map(preference_tables, judging.preferences):
        shown.append(f"{plain(compared['title'])}. {plain(compared['verdict'])}")
        shown += [_table(table["headings"], table["rows"], 1) for table in compared["tables"]]
    return shown


def _factor_table(factor: Factor) -> str:
    return _table(*factor_rows(factor), 1)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> str:
    """A table of which the first columns hold words and the others numbers."""
    body = [[plain(guarded_cell(cell) if place < words else cell) for place, cell in enumerate(row)] for row in rows]
    heading, *lines = [f"| {' | '.join(line)} |" for line in (map(plain, names), *body)]
    return "\n".join((heading, "|" + "---|" * words + "---:|" * (len(names) - words), *lines))


def plain(text: str) -> str:
    """The text on one line, with nothing in it that Markdown or HTML would act on."""
    return " ".join(text.split()).translate(_LIVE)
