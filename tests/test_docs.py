"""Documents are checked like code: what they name exists, what they show is what is seen."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmark.cli.main import tiebreak
from benchmark.core.errors import FailureKind
from benchmark.pipeline import REPORT_JSON, TRIALS_CSV
from benchmark.registry import names
from benchmark.report.tabular import COLUMNS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
WIDTH = 100


def _help(*command: str) -> str:
    result = CliRunner().invoke(tiebreak, [*command, "--help"], prog_name="tiebreak", terminal_width=WIDTH)
    assert result.exit_code == 0
    return result.output.rstrip()


def _reference() -> str:
    parts = ["# Command line\n\nWhat `--help` says, for every command.\n"]
    for name in ("", *tiebreak.commands):
        title = f"tiebreak {name}".strip()
        parts.append(f"## {title}\n\n```\n{_help(*filter(None, [name]))}\n```\n")
    return "\n".join(parts)


def test_command_reference_is_what_help_says() -> None:
    """docs/cli.md is the help text; `UPDATE_DOCS=1 make test ARGS=tests/test_docs.py` writes it anew."""
    path = ROOT / "docs" / "cli.md"
    if os.environ.get("UPDATE_DOCS"):
        path.write_text(_reference(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == _reference()


def _flags() -> set[str]:
    commands = [tiebreak, *tiebreak.commands.values()]
    return {o for c in commands for p in c.params if isinstance(p, click.Option) for o in p.opts} | {"--help", "--version"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_every_flag_in_the_documents_exists(path: Path) -> None:
    """A flag shown behind our own command is one of ours."""
    text = path.read_text(encoding="utf-8")
    ours = [line for line in text.splitlines() if re.search(r"tiebreak|run_benchmarks", line) or line.startswith("|")]
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", "\n".join(ours)))
    assert used - _flags() == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_every_link_and_file_in_the_documents_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (path.parent / target).exists(), target
    for name in re.findall(r"`((?:benchmark|docs|tests|perf)/[\w./]+\.\w+)`", text):
        assert (ROOT / name).exists(), name


def test_every_registered_name_and_failure_kind_is_explained() -> None:
    concepts = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    scorers = (ROOT / "docs" / "scorers.md").read_text(encoding="utf-8")
    datasets = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    assert [name for name in names("scorers") if f"`{name}`" not in scorers] == []
    assert [name for name in names("datasets") if f"`{name}`" not in datasets] == []
    assert all(f"`{kind}`" in concepts for kind in FailureKind)


def test_every_column_is_listed() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    listed = reference.partition("## trials.csv")[2].partition("##")[0]
    assert re.findall(r"\w+", listed) == list(COLUMNS)
    assert REPORT_JSON in reference
    assert TRIALS_CSV in reference


def test_examples_in_the_documents_run_as_printed() -> None:
    """Every block of Python that needs no model is executed."""
    for path in DOCUMENTS:
        for block in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            compile(block, str(path), "exec")
