"""Runs in another folder than the usual one, and files that cannot be what they are named for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiebreak.cli.main import run_command_line


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text("input,target\nHi,x\n")
    assert run_command_line(["run", "--model", "baseline/random", "--dataset", "d.csv", "--output", "kept/monday"]) == 0
    return tmp_path


def test_runs_of_another_folder_are_listed_and_labelled(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["list", "runs"]) == 0
    assert capsys.readouterr().out.endswith("No runs yet.\n")

    assert run_command_line(["label", "monday", "the first", "--results", "kept"]) == 0
    assert run_command_line(["list", "runs", "--results", "kept"]) == 0
    assert "\nmonday\n  Label the first\n" in capsys.readouterr().out


def test_only_runs_are_in_a_folder_of_results(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["list", "models", "--results", "kept"]) == 1
    assert "it goes with `list runs`" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["kept.csv", "d.csv/x.csv"])
def test_a_csv_file_that_cannot_be_written_is_found_before_anything_is_asked(
    name: str, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (elsewhere / "kept.csv").mkdir()

    assert run_command_line(["run", "--model", "baseline/random", "--dataset", "d.csv", "--output", name]) == 1
    assert f"error: --output {name}: " in capsys.readouterr().err
    assert not list(elsewhere.glob("*/run_*"))


def test_so_is_one_in_a_folder_that_may_not_be_written(
    elsewhere: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system is asked in this test's stead: the superuser may write anywhere."""
    monkeypatch.setattr(os, "access", lambda folder, mode: Path(folder).name != "shut")
    (elsewhere / "shut").mkdir()

    assert run_command_line(["run", "--model", "baseline/random", "--dataset", "d.csv", "--output", "shut/x.csv"]) == 1
    assert "nothing can be written to" in capsys.readouterr().err


def test_a_pipe_is_no_dataset(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a shell makes one of <(command): it is there, and cannot be read twice."""
    os.mkfifo(elsewhere / "pipe.csv")

    for name in ("pipe.csv", "/dev/null"):
        assert run_command_line(["run", "--model", "baseline/random", "--dataset", name]) == 1
        assert "is a pipe or a device, and its rows are read more than once" in capsys.readouterr().err


def test_a_missing_argument_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["list"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_votes_file_is_no_dataset(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["score", "kept/monday", "--human", "nobody.csv"]) == 1
    assert "list datasets" not in capsys.readouterr().err
