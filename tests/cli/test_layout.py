"""Tables of any width."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.text import Text
from support.command import ROOT, clean_environment

from tiebreak.cli.layout import Column, Row, lay_out, shortened, wrapped

COLUMNS = [
    Column(heading="Tier", right=True, lead=True),
    Column(heading="Model"),
    Column(heading="Provider", worth=1),
    Column(heading="Score"),
    Column(heading="Cost", right=True),
]


def shown(rows: list[Row], width: int) -> list[str]:
    return [line.plain for line in lay_out(COLUMNS, rows, width)]


def row(name: str, provider: str, short: str = "") -> Row:
    return Row(cells=["1", name, provider, "0.50 [0.40, 0.60]", "$0.1234"], short_name=short)


def test_what_is_worth_least_goes_first_then_the_names_are_shortened_then_stand_alone() -> None:
    rows = [row("openai/gpt-4o", "openai", "gpt-4o"), row("anthropic/claude-3-opus", "anthropic", "claude-3-opus")]
    assert shown(rows, 72)[2] == "   1  anthropic/claude-3-opus  anthropic  0.50 [0.40, 0.60]  $0.1234"
    assert shown(rows, 58)[2] == "   1  anthropic/claude-3-opus  0.50 [0.40, 0.60]  $0.1234"
    assert shown(rows, 50)[2] == "   1  claude-3-opus  0.50 [0.40, 0.60]  $0.1234"
    assert shown(rows, 42)[-2:] == ["   1  anthropic/claude-3-opus", "        0.50 [0.40, 0.60]  $0.1234"]
    assert shown(rows, 24)[-3:] == ["  Score 0.50 [0.40,", "  0.60]", "  Cost $0.1234"]


def test_names_are_not_shortened_to_the_same() -> None:
    rows = [row("openai/m", "openai", "m"), row("azure/m", "azure", "m")]
    for width in range(20, 80):
        lines = " ".join(shown(rows, width))
        assert "openai/m" in lines
        assert "azure/m" in lines


@pytest.mark.parametrize("width", range(24, 120, 3))
def test_no_width_cuts_a_cell_or_passes_the_edge(width: int) -> None:
    rows = [row("日本語/モデル-large", "日本語"), row("x" * 22, "p" * 30), row("", "")]
    lines = shown(rows, width)
    assert max(map(cell_len, lines)) <= width
    together = " ".join(" ".join(lines).split())
    assert together.count("0.50 [0.40, 0.60]") == together.count("$0.1234") == 3
    assert "日本語/モデル-large" in together


def test_a_cell_cannot_draw_on_the_screen() -> None:
    (_, line) = shown([row("a\x1b[31m\nb\tc", "p")], 100)
    assert "a\\x1b[31m b c" in line


def test_words_are_kept_whole() -> None:
    assert shortened("circuit open: too many failures", 16) == "circuit open …"
    assert shortened("y" * 30, 10) == "y" * 9 + "…"
    assert [line.plain for line in wrapped(Text("one two three"), 8)] == ["one two", "three"]
    assert [line.plain for line in wrapped(Text("  indented words here"), 12)] == ["  indented", "words here"]


@pytest.mark.parametrize(("columns", "widest"), [("", 80), ("140", 140)])
def test_a_pipe_has_80_columns_whatever_terminal_is_near(columns: str, widest: int, tmp_path: Path) -> None:
    """As in `tiebreak list datasets | less` on a wide screen."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, 200))
    environment = {name: value for name, value in clean_environment().items() if name != "COLUMNS"}
    environment |= {"COLUMNS": columns} if columns else {}
    command = [sys.executable, str(ROOT / "run_benchmarks.py"), "list", "datasets"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, stdin=theirs, capture_output=True, text=True, check=True)
    os.close(ours)
    os.close(theirs)
    assert widest - 20 < max(map(len, done.stdout.splitlines())) <= widest
