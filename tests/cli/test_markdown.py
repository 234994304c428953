"""`--markdown`: a document that GitHub shows as it is meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from support.command import run
from support.made import Planted, summary_of, write_run
from support.screens import STORIES

from tiebreak.report.markdown import markdown_report
from tiebreak.report.table import cells, headings
from tiebreak.report.work_words import work_cells

GITHUB = MarkdownIt("commonmark").enable("table").enable("strikethrough")
AWKWARD = "a|b *c* _d_ `e` <i>f</i> [g](h) \\| __i__ ~~j~~"


def tables(text: str) -> list[list[list[str]]]:
    """Every table of a document as cells, the header first."""
    found: list[list[list[str]]] = []
    for place, token in enumerate(tokens := GITHUB.parse(text)):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in ("th_open", "td_open"):
            found[-1][-1].append(_plain(tokens[place + 1]))
    return found


def _plain(token: Token) -> str:
    assert {child.type for child in token.children or ()} <= {"text", "text_special"}, token.content
    return "".join(child.content for child in token.children or ())


@pytest.mark.parametrize("story", STORIES)
def test_a_report_is_read_back_as_it_was_meant(story: str, tmp_path: Path) -> None:
    """One header row per table, as many cells in every row, and in them what the terminal shows."""
    summary = STORIES[story](tmp_path / "run")
    first, *others = tables(markdown_report(summary))

    assert first == [list(headings(summary)), *(list(cells(c, note=True)) for c in summary.listed)]
    assert len(others) == len(summary.factors) + (summary.tasks is not None)
    assert all(len(row) == len(table[0]) for table in others for row in table)
    if summary.tasks is not None:
        assert sorted(others[0][1:]) == sorted(list(work_cells(c)) for c in summary.contestants)


def test_names_are_text_whatever_is_in_them(tmp_path: Path) -> None:
    people = [Planted(label=AWKWARD, planted=[1.0] * 30), Planted(label="b\nc", planted=[0.0] * 30)]
    text = markdown_report(summary_of(write_run(tmp_path / "r", people, 30)))
    (table,) = tables(text)
    assert [row[0] for row in table[1:]] == [AWKWARD, "b c"]
    kinds = {child.type for token in GITHUB.parse(text) for child in token.children or ()}
    assert not kinds & {"link_open", "em_open", "code_inline", "s_open"}


def test_standard_output_holds_the_document_alone(tmp_path: Path) -> None:
    """What else is said is on standard error, so that `> summary.md` is a document."""
    (tmp_path / "d.jsonl").write_text("".join(f'{{"id": "{i}", "input": "Say {i}", "target": "{i}"}}\n' for i in range(12)))
    line = "--models baseline/random,baseline/constant --dataset d.jsonl --markdown --output r"
    done = run(*line.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run("report", "r", "--markdown", cwd=tmp_path).stdout
    assert done.stdout == run("export", "r", "--to", "markdown", "--output", "-", cwd=tmp_path).stdout
    kinds = [token.type for token in GITHUB.parse(done.stdout) if token.level == 0]
    assert kinds[0] == "heading_open"
    assert len(tables(done.stdout)[0]) == 3
    assert "Wrote " in done.stderr
