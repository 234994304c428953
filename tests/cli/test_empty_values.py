"""An empty value is a variable that nobody set. It must never quietly mean something else, and least of all something dearer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import tiebreak as package
from tiebreak.cli.main import _MAY_BE_EMPTY, run_command_line, tiebreak
from tiebreak.core.errors import UsageError


def _options() -> Iterator[tuple[str, str]]:
    for name, command in tiebreak.commands.items():
        for parameter in command.params:
            takes_text = isinstance(parameter, click.Option) and not parameter.is_flag
            if takes_text and parameter.name not in _MAY_BE_EMPTY:
                yield name, parameter.opts[0]


@pytest.mark.parametrize(("command", "option"), list(_options()))
def test_no_option_of_any_command_takes_an_empty_value(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run_command_line([command, option, ""]) == 1
    assert capsys.readouterr().err.startswith(f"error: {option} is empty: give it a value, or leave it out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["run", "report", "compare", "export", "open", "audit", "merge", "history", "score"])
def test_no_run_or_file_has_an_empty_name(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([command, ""]) == 1
    assert " is empty: give it a value, or leave it out" in capsys.readouterr().err


def test_an_empty_text_among_several_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", "--sample-id", "a", "--sample-id", ""]) == 1
    assert "error: --sample-id is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["models", "dataset", "scorers", "until", "sample_ids", "judge", "results_dir", "resume", "stop"]
)
def test_python_takes_no_empty_value_either(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"input": "Hi", "target": "x"}]
    asked = {"models": "baseline/random", "dataset": rows} | {name: ""}

    with pytest.raises(UsageError, match=f"^{name} is empty"):
        package.run(**asked)
    assert not list(tmp_path.iterdir())
