"""A number of failures tells nobody what to do: the first failure of each kind is told in its own words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiebreak.cli.main import run_command_line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"s{n}", "input": f"Say {n}", "target": "x"} for n in range(6)]
    (tmp_path / "d.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "m.json").write_text(json.dumps({"answers": [{"text": "x"}]}))
    (tmp_path / "mine.py").write_text(
        "def boom(sample, text):\n"
        "    if sample.id == 's0': raise KeyError('no\\nsuch \\x1b[31mthing')\n"
        "    if sample.id == 's1': return 7\n"
        "    return 1\n"
        "def always(sample, text): raise KeyError('nope')\n"
        "def long(sample, text): raise KeyError('z' * 5000)\n"
    )
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    run_command_line(["run", "--dataset", "d.jsonl", *arguments])
    return capsys.readouterr().out


def test_one_contestant(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, "--model", "scripted/m.json", "--scorer", "./mine.py:always")

    assert "scripted/m.json: 6 failed (verifier), the first: the scorer always raised KeyError: 'nope'" in said


def test_each_of_several(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, "--model", "scripted/m.json", "--prompt", "a=", "--prompt", "b=Hey", "--scorer", "./mine.py:always")

    for name in "ab":
        assert f"scripted/m.json · {name}: 6 failed (verifier), the first: the scorer always raised KeyError" in said


def test_two_failures_among_answers_and_nothing_for_terminals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, "--model", "scripted/m.json", "--scorer", "./mine.py:boom")

    assert "scripted/m.json: 2 failed (verifier), the first: the scorer boom " in said
    assert "\x1b" not in said


def test_a_name_of_a_sample_writes_no_line_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever wrote the dataset would else write into the verdict."""
    rows = [{"id": "a\nb leads", "input": "Say 1", "target": "y"}, {"id": " ", "input": "Say 2", "target": "y"}]
    (folder / "d.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    said = told(capsys, "--model", "scripted/m.json")

    assert "\n  a b leads: expected 'y'" in said
    assert "\n  ' ': expected 'y'" in said


def test_a_long_message_is_cut(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, "--model", "scripted/m.json", "--scorer", "./mine.py:long")

    assert "z" * 200 in said
    assert "z" * 400 not in said


def test_nothing_is_said_where_nothing_failed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert " failed (" not in told(capsys, "--model", "scripted/m.json")
