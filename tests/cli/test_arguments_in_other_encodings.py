"""Arguments are bytes. What is no UTF-8 cannot stand in a result, and is refused before anything is done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiebreak.cli.main import run_command_line

LATIN = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    "line",
    [
        ["run", "--model", f"scripted/{LATIN}", "--dataset", "truthfulness"],
        ["run", "--model", "scripted/a", "--dataset", f"{LATIN}.jsonl"],
        ["run", "--model", "scripted/a", "--dataset", "truthfulness", "--system", LATIN],
        ["run", "--model", "scripted/a", "--dataset", "truthfulness", "--output", LATIN],
        ["run", "--model", "scripted/a", "--dataset", "truthfulness", "--template", f"{LATIN} {{input}}"],
        ["batch", "--task", LATIN, "--model", "scripted/a"],
        ["ask", LATIN, "--model", "scripted/a"],
        ["audit", LATIN],
        ["report", LATIN],
        ["open", LATIN],
        ["import", LATIN],
        [LATIN],
    ],
)
def test_what_is_not_utf_8_is_refused(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run_command_line(line) == 1
    assert "caf\\xe9" in (said := capsys.readouterr().err) and "is not UTF-8" in said
    assert not list(tmp_path.iterdir())


def test_a_folder_named_in_another_encoding_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / LATIN
    folder.mkdir()
    monkeypatch.chdir(folder)

    assert run_command_line(["run", "--model", "random", "--dataset", "truthfulness", "--limit", "2"]) == 1
    assert "is not UTF-8: no result could tell of it" in capsys.readouterr().err
    assert not list(folder.iterdir())
