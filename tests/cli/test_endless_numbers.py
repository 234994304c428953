"""`nan` compares with nothing and `inf` ends nothing: a limit or a gate that is one would quietly be none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import tiebreak as package
from tiebreak.cli.main import run_command_line, tiebreak
from tiebreak.cli.options import Percent
from tiebreak.core.errors import UsageError

ENDLESS = ("nan", "inf", "-inf", "1e999", "1e300")
AMOUNTS = ("timeout_s", "request_timeout_s", "task_timeout_s", "max_cost_usd", "max_time_s", "poll_s")


def _numbers() -> Iterator[tuple[str, str]]:
    for name, command in tiebreak.commands.items():
        for parameter in command.params:
            if isinstance(parameter.type, click.FloatRange | Percent) or parameter.type is click.FLOAT:
                yield name, parameter.opts[0]


@pytest.mark.parametrize("value", ENDLESS)
@pytest.mark.parametrize(("command", "option"), list(_numbers()))
def test_no_option_takes_a_number_that_is_none(
    command: str, option: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run_command_line([command, option, value]) == 1
    assert f"Invalid value for '{option}'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_options_are_found() -> None:
    assert {("run", "--fail-under"), ("run", "--max-cost"), ("run", "--request-timeout"), ("score", "--max-cost")} <= set(
        _numbers()
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
@pytest.mark.parametrize("name", AMOUNTS)
def test_no_keyword_takes_one(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name}=.*: must be a number above 0, up to a billion"):
        package.run("scripted/a", [{"input": "a", "target": "b"}], **{name: value})


@pytest.mark.parametrize("value", [".inf", ".nan", "-.INF", "1.0e+999"])
@pytest.mark.parametrize(
    "text",
    [
        "models:\n  - {{name: m, provider: openai, model: x, price: {{input: {0}, output: 2}}}}\n",
        "models:\n  - {{name: m, provider: openai, model: x, settings: {{temperature: {0}}}}}\n",
        "default_settings: {{timeout: {0}}}\n",
    ],
)
def test_no_configuration_has_one(text: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(text.format(value))

    assert (
        run_command_line(["run", "--model", "scripted/a", "--dataset", "truthfulness", "--config", str(config), "--dry-run"]) == 1
    )
    assert f"{value} is no number that means anything here" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["inf", "nan", "-1", "0", "true", '"ten"'])
def test_no_task_of_harbors_form_has_a_limit_that_is_none(value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = tmp_path / "task"
    for folder in ("environment", "tests"):
        (task / folder).mkdir(parents=True)
    (task / "instruction.md").write_text("Write a file.")
    (task / "task.toml").write_text(f"[verifier]\ntimeout_sec = {value}\n")
    (task / "environment" / "Dockerfile").write_text("FROM python:3.12\n")
    (task / "tests" / "test.sh").write_text("true\n")

    assert run_command_line(["batch", "--task", str(task), "--model", "scripted/a", "--dry-run"]) == 1
    assert "timeout_sec of [verifier] in task.toml" in capsys.readouterr().err
