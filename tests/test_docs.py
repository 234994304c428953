"""Documents are checked like code: what they name exists, what they show is what is seen."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from support.server import FakeServer

from tiebreak.cli.main import tiebreak
from tiebreak.core.errors import FailureKind
from tiebreak.pipeline import REPORT_JSON, TRIALS_CSV
from tiebreak.registry import names
from tiebreak.report.tabular import COLUMNS
from tiebreak.runfile import RunFile
from tiebreak.spec.keywords import Options

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
    """docs/cli.md is the help text; `UPDATE_DOCS=1 make test ARGS=tests/test_docs.py` rewrites it."""
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


def _section(title: str) -> str:
    """A section of the reference, with those below it."""
    level, reference = title.partition(" ")[0], (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    return re.split(rf"^#{{1,{len(level)}}} ", reference.partition(f"\n{title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def _unnamed(keys: Iterable[str], text: str) -> list[str]:
    named = {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code)}
    return [key for key in keys if key not in named]


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, two prompts, and a choice among them: every part of a report has something in it."""
    folder = tmp_path_factory.mktemp("tiny")
    rows = [{"id": f"q{i}", "input": f"Q{i}?", "target": "yes"} for i in range(12)]
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for model, right in (("a", 9), ("b", 4)):
        answers = [{"when": f"Q{i}?", "text": "yes" if i < right else "no"} for i in range(12)]
        (folder / f"{model}.json").write_text(json.dumps({"answers": answers}))
    line = ["--models", f"scripted/{folder}/a.json,scripted/{folder}/b.json", "--dataset", str(folder / "q.jsonl")]
    line += ["--prompt", "plain=", "--prompt", "kind=Be kind.", "--choose-on", "half", "--output", str(folder / "r"), "--json"]
    result = CliRunner().invoke(tiebreak, ["run", *line], standalone_mode=False)
    assert result.return_value == 0, result.output
    (folder / "events.jsonl").write_text(result.stdout)
    return folder


def test_every_key_of_a_report_is_described(tiny_run: Path) -> None:
    """Top level, contestants, pairs, effects, the choice and results: one schema, all of it in the reference."""
    data = json.loads((tiny_run / "r" / REPORT_JSON).read_text(encoding="utf-8"))
    assert _unnamed(data, _section("## comparison_report.json").partition("###")[0]) == []
    documented = _section("## comparison_report.json").partition("###")[0]
    rows = re.findall(r"^\| (`.*?) \|", documented, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} - set(data) == set(), "and nothing that is not there"
    for part in ("protocol", "pace", "rankings", "rankings_full", "summary_stats"):
        assert _unnamed(data[part], _section("## comparison_report.json")) == [], part
    assert _unnamed(data["contestants"][0], _section("### A contestant")) == []
    assert _unnamed(data["comparisons"][0], _section("### A comparison")) == []
    factor = data["factors"][0]
    assert _unnamed([*factor, *factor["levels"][0], *factor["effects"][0]], _section("### factors")) == []
    assert _unnamed([*data["chosen"], *data["chosen"]["rivals"][0]], _section("### chosen")) == []
    assert list(data["results"][0]) == list(COLUMNS)


def test_every_event_and_its_keys_are_described(tiny_run: Path) -> None:
    described = _section("## Events (`--json`)")
    for line in (tiny_run / "events.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        keys = ["exit_code", "run"] if event["event"] == "run_finished" else event
        assert _unnamed([event["event"], *keys], described) == []


@pytest.mark.needs("bubblewrap")
def test_every_key_of_an_attempt_is_described(tmp_path: Path) -> None:
    """Coding tasks: `work` of a contestant, further keys of a result, and the model's own file."""
    task, output = ROOT / "benchmark" / "tasks" / "easy" / "fix_typo.md", tmp_path / "b"
    (tmp_path / "m.json").write_text('{"answers": [], "default": "FINISH"}')
    line = ["batch", "--task", str(task), "--model", f"scripted/{tmp_path}/m.json", "--output", str(output), "--quiet"]
    assert CliRunner().invoke(tiebreak, line, standalone_mode=False).return_value == 0
    data = json.loads((output / REPORT_JSON).read_text(encoding="utf-8"))
    assert _unnamed(data["contestants"][0]["work"], _section("### A contestant")) == []
    assert _unnamed(data["results"][0], _section("### A result") + _section("## trials.csv")) == []
    own = json.loads(next(output.glob("*_result.json")).read_text(encoding="utf-8"))
    described = _section("## NAME_result.json") + _section("### A result") + _section("## comparison_report.csv")
    assert _unnamed(own, described) == []
    assert isinstance(own["results"], list)


def test_every_key_of_a_run_file_is_described() -> None:
    assert _unnamed(RunFile.__struct_fields__, _section("## A run file")) == []


def _python_blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def test_examples_in_the_documents_can_be_read() -> None:
    for path in DOCUMENTS:
        for block in _python_blocks(path):
            compile(block, str(path), "exec")


_PRICED = """
models:
  - {name: gpt-4o-mini, provider: openai, price: {input: 0.15, output: 0.60}}
  - {name: claude-3-5-haiku-latest, provider: anthropic, price: {input: 0.80, output: 4.00}}
"""
_ANSWERS = {"Australia": "It is Canberra.", "spider": "8", "planet": "Venus"}


def test_examples_of_the_python_page_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One block after another, as a reader would run them; the models are served here."""
    (tmp_path / "models_config.yaml").write_text(_PRICED)
    monkeypatch.chdir(tmp_path)

    def answer(prompt: str) -> str:
        return next((text for word, text in _ANSWERS.items() if word in prompt), "A")

    with FakeServer(answer, latency_s=0.02, answer_tokens=45) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        names: dict[str, Any] = {"__name__": "example"}
        said = []
        for block in _python_blocks(ROOT / "docs" / "python.md"):
            exec(compile(block, "python.md", "exec"), names)
            said.append(capsys.readouterr().out)
    assert "claude-3-5-haiku-latest · terse 0." in said[0]
    assert "planet Mercury Venus" in said[1]
    assert said[2].startswith("{'short_and_right()': 0.666")
    assert said[3] == "False out_of_budget\nTrue\n"
    assert "tied" in said[4]
    assert "gpt-4o-mini finished" in said[5]
    assert said[6] == "True\nFalse\nTrue\n"


def test_every_option_is_on_the_python_page() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8").partition("## Every option")[2]
    assert _unnamed(Options.__annotations__, page) == []
