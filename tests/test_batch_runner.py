"""Coding tasks as a user runs them: known models with known ends, the documented command lines, kills and damage."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.command import ROOT, clean_environment, events, only_run, read_csv, run
from support.seeds import BATCH_LINES, make_checkout, run_as_printed
from support.server import FakeServer

pytestmark = pytest.mark.needs("bubblewrap")

TASK = """\
---
title: Add two numbers
agent: {timeout_sec: 60, max_model_calls: 8}
---
Make add() in calc.py return the sum of its arguments. The tests are in test_calc.py.

## Workspace

```python file=calc.py
def add(a, b):
    return a - b
```

```python file=test_calc.py
from calc import add


def test_add():
    assert add(2, 3) == 5
```

## Verify

```bash
python3 -I "$RUN_TESTS" test_calc.py hidden_test.py
```

```python file=test_calc.py
from calc import add


def test_add():
    assert add(2, 3) == 5
```

```python file=hidden_test.py
from calc import add


def test_add_more():
    assert add(-7, 12) == 5 and add("a", "b") == "ab"
```

## Solution

```bash
sed -i 's/a - b/a + b/' calc.py
```
"""

EDIT = "EDIT calc.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return {}\n>>>>>>> REPLACE\n"
SOLVES = [EDIT.format("a + b"), "I repaired it.\nFINISH"]
SCRIPTS: Mapping[str, list[str]] = {
    "solves": SOLVES,
    "helped": [EDIT.format("a + 3"), "FINISH", EDIT.replace("a - b", "a + 3").format("a + b"), "FINISH"],
    "asks": ["Which of the two functions do you mean?", "Shall I go on?"],
    "breaks": [EDIT.format("a +"), "FINISH", "FINISH"],
    "loops": ["```shell\nls\n```"] * 50,
    "edits_tests": ["```shell\necho 'def test_add(): pass' > test_calc.py\n```", "FINISH", "FINISH"],
    "idle": ["All is well as it is.", "Really.", "Nothing to do.", "Nothing."],
}


def batch(*arguments: str, cwd: Path, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the batch as its document does."""
    command = [sys.executable, str(ROOT / "benchmark" / "batch_runner.py"), *arguments]
    return subprocess.run(
        command, cwd=cwd, env=clean_environment(**environment), capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a task and the scripts of models whose behaviour is known."""
    (tmp_path / "tasks" / "easy").mkdir(parents=True)
    (tmp_path / "tasks" / "easy" / "add.md").write_text(TASK, encoding="utf-8")
    for name, lines in SCRIPTS.items():
        (tmp_path / name).write_text(json.dumps({"answers": lines, "default": "FINISH"}), encoding="utf-8")
    return tmp_path


def models(*names: str) -> str:
    return ",".join(f"scripted/{name}" for name in names)


def report(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "comparison_report.json").read_text(encoding="utf-8"))
    return data


EXPECTED: Mapping[str, dict[str, Any]] = {
    "solves": {"outcome": "passed", "success": True, "first_try": True, "prompts_sent": 1, "model_calls": 2, "follow_ups": 0,
               "human_interventions": 0, "questions": 0, "files_modified": 1, "lines_added": 1, "lines_removed": 1},
    "helped": {"outcome": "passed", "success": True, "first_try": False, "prompts_sent": 2, "model_calls": 4, "follow_ups": 1,
               "human_interventions": 1, "questions": 0, "files_modified": 1, "lines_added": 1, "lines_removed": 1},
    "asks": {"outcome": "question", "success": False, "prompts_sent": 2, "model_calls": 2, "questions": 2, "files_modified": 0},
    "breaks": {"outcome": "wrong_result", "success": False, "prompts_sent": 2, "model_calls": 3, "files_modified": 1},
    "loops": {"outcome": "budget", "success": False, "prompts_sent": 1, "model_calls": 8, "files_modified": 0},
    "edits_tests": {"outcome": "wrong_result", "success": False, "prompts_sent": 2, "files_modified": 1},
    "idle": {"outcome": "no_change", "success": False, "prompts_sent": 2, "model_calls": 4, "files_modified": 0},
}  # fmt: skip


def test_models_of_known_behaviour_get_exactly_the_metrics_outcomes_and_rankings_they_deserve(home: Path) -> None:
    done = batch("--task", "tasks/easy/add.md", "--models", models(*EXPECTED), "--output", "out", cwd=home)
    data = report(home / "out")
    by_model = {row["model"].removeprefix("scripted/"): row for row in data["results"]}

    assert done.returncode == 0, done.stdout + done.stderr
    for name, wanted in EXPECTED.items():
        assert {key: by_model[name][key] for key in wanted} == wanted, name
    assert (data["models_tested"], data["successful"], data["failed"], data["task"]) == (7, 2, 5, "add")
    assert data["rankings"]["most_efficient"] == data["rankings"]["most_autonomous"] == "scripted/solves"
    assert data["rankings"]["least_intervention"] == "scripted/solves"
    assert data["rankings"]["fastest"] in ("scripted/solves", "scripted/helped")
    assert [(r["model"], r["rank"]) for r in data["rankings_full"]["most_efficient"]] == [
        ("scripted/solves", 1),
        ("scripted/helped", 2),
    ]
    assert data["summary_stats"]["avg_prompts_sent"] == pytest.approx(12 / 7)
    for mark in ("🏆 Fastest", "💬 Most efficient", "🤖 Most autonomous", "anecdote", "solved 1 of 1 without help"):
        assert mark in done.stdout
    assert "0 interventions" not in done.stdout


def test_a_tie_is_called_a_tie_and_nobody_is_ranked_who_solved_nothing(home: Path) -> None:
    (home / "twin").write_text((home / "solves").read_text())
    batch("--task", "tasks", "--models", models("solves", "twin", "idle"), "--output", "out", cwd=home)
    ranking = report(home / "out")["rankings_full"]["most_autonomous"]

    assert [(place["model"], place["rank"]) for place in ranking] == [("scripted/solves", 1), ("scripted/twin", 1)]

    batch("--task", "tasks", "--models", models("idle"), "--output", "none", cwd=home)
    assert report(home / "none")["rankings"] == dict.fromkeys(
        ("fastest", "most_efficient", "most_autonomous", "least_intervention")
    )


def test_follow_ups_are_sent_as_often_as_asked(home: Path) -> None:
    batch("--task", "tasks", "--models", models("helped"), "--follow-ups", "0", "--output", "out", cwd=home)
    assert report(home / "out")["results"][0]["outcome"] == "wrong_result"
    assert report(home / "out")["results"][0]["prompts_sent"] == 1


def test_the_folder_has_every_file_of_the_document(home: Path) -> None:
    done = batch("--task", "tasks/easy/add.md", "--models", models("solves", "idle"), cwd=home)
    folder = only_run(home)

    assert folder.name.startswith("batch_") and done.returncode == 0
    names = {path.name for path in folder.iterdir()}
    assert {"comparison_report.json", "comparison_report.csv", "trials.csv", "run.sqlite"} <= names
    assert {"solves_result.json", "idle_result.json"} <= names
    own = json.loads((folder / "solves_result.json").read_text())
    assert own["success"] is True and "+    return a + b" in own["diff"] and own["isolation"] == "bubblewrap"
    rows = read_csv(folder / "comparison_report.csv")
    assert [(row["model"], row["success"]) for row in rows] == [("scripted/solves", "True"), ("scripted/idle", "False")]


def test_files_of_ollama_models_keep_their_provider_and_lose_latest(home: Path) -> None:
    with FakeServer(lambda prompt: "FINISH") as server:
        line = ("--task", "tasks", "--models", "llama3,gpt-4", "--output", "out", "--follow-ups", "0")
        batch(*line, cwd=home, **server.environment())

    names = {path.name for path in (home / "out").glob("*_result.json")}
    assert names == {"ollama_llama3_result.json", "gpt-4_result.json"}


@pytest.mark.parametrize("line", BATCH_LINES)
def test_every_documented_command_line_runs(line: str, tmp_path: Path) -> None:
    found = ("llama3:latest", "mistral:latest", "codellama:latest", "mixtral:latest")
    with FakeServer(lambda prompt: "FINISH", ollama_models=found) as server:
        done = run_as_printed(line, make_checkout(tmp_path), timeout=120, **server.environment())

    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "my_results" if "my_results" in line else only_run(tmp_path)
    assert report(folder)["successful"] == 0 and report(folder)["models_tested"] >= 2


def test_an_unknown_model_is_named_with_those_there_are(home: Path) -> None:
    (home / "empty.yaml").write_text("models: []\n")
    done = batch("--task", "tasks", "--models", "nobody-has-this", "--config", "empty.yaml", cwd=home)

    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "nobody-has-this" in done.stdout and "Available models" in done.stdout


def test_a_timeout_names_the_flag_and_the_work_is_checked_all_the_same(home: Path) -> None:
    slow = {"answers": [{"text": EDIT.format("a + b"), "times": 1}, {"text": "FINISH", "delay_s": 60}]}
    (home / "slow").write_text(json.dumps(slow))
    stuck = {"answers": [{"text": "FINISH", "delay_s": 60}]}
    (home / "stuck").write_text(json.dumps(stuck))
    done = batch("--task", "tasks", "--models", models("slow", "stuck"), "--timeout", "2", "--output", "out", cwd=home)
    rows = {row["model"]: row for row in report(home / "out")["results"]}

    assert done.returncode == 0
    assert rows["scripted/slow"]["outcome"] == "passed" and rows["scripted/slow"]["success"]
    assert rows["scripted/stuck"]["outcome"] == "timeout" and not rows["scripted/stuck"]["success"]
    assert rows["scripted/stuck"]["completion_time"] == pytest.approx(2, abs=1)


def test_a_bad_batch_id_names_the_ids_that_exist(home: Path) -> None:
    batch("--task", "tasks", "--models", models("solves"), cwd=home)
    done = batch("--task", "tasks", "--resume", "batch_20241213_143022", cwd=home)

    assert done.returncode == 1 and only_run(home).name in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "no task was named"),
        (("--task", "nowhere.md"), "there is no task"),
        (("--task", "tasks", "--agent", "nobody"), "there is no agent 'nobody'"),
        (("--task", "tasks", "--attended", "--parallel"), "exclude each other"),
        (("--task", "tasks", "--timeout", "-3"), "--timeout"),
    ],
)
def test_bad_input_is_a_sentence_and_code_1(home: Path, arguments: tuple[str, ...], complaint: str) -> None:
    done = batch(*arguments, "--models", models("solves"), cwd=home)

    assert done.returncode == 1 and complaint in done.stderr and "Traceback" not in done.stderr


def test_a_damaged_result_file_is_rebuilt_from_the_store(home: Path) -> None:
    batch("--task", "tasks", "--models", models("solves"), "--output", "out", cwd=home)
    whole = {name: (home / "out" / name).read_bytes() for name in ("solves_result.json", "comparison_report.json")}
    (home / "out" / "solves_result.json").write_bytes(whole["solves_result.json"][:40])
    (home / "out" / "comparison_report.json").unlink()

    done = batch("--resume", "out", cwd=home)

    assert done.returncode == 0
    assert (home / "out" / "solves_result.json").read_bytes() == whole["solves_result.json"]
    assert json.loads((home / "out" / "comparison_report.json").read_text())["results"][0]["success"]


def test_a_task_without_a_check_is_worked_on_and_not_judged(home: Path) -> None:
    (home / "prose.md").write_text("# Add\n\nMake add() return the sum.\n")
    done = batch("--task", "prose.md", "--models", models("idle"), "--output", "out", cwd=home)
    row = report(home / "out")["results"][0]

    assert done.returncode == 0 and row["outcome"] == "unchecked" and row["success"] is False
    assert "Without a check" in done.stdout


def test_tasks_models_agents_and_repeats_multiply_and_the_controls_are_not_ranked(home: Path) -> None:
    (home / "tasks" / "easy" / "more.md").write_text(TASK.replace("Add two", "Add some"))
    line = ("--task", "tasks", "--models", models("solves"), "--agent", "builtin,solution", "--agent", "nothing")
    done = batch(*line, "--repeats", "2", "--json", "--output", "out", cwd=home)
    said = events(done.stdout)
    data = report(home / "out")

    assert sum(event["event"] == "trial_finished" for event in said) == 12 == len(data["results"])
    assert said[-1]["event"] == "batch_finished" and said[-1]["exit_code"] == done.returncode == 0
    by_agent = {c["agent"]: c for c in data["contestants"]}
    assert by_agent["solution"]["work"]["solved"] == 4 and by_agent["nothing"]["work"]["solved"] == 0
    assert {place["model"] for place in data["rankings_full"]["fastest"]} <= {"scripted/solves · builtin"}


def test_killed_at_any_moment_a_batch_resumes_and_every_attempt_has_exactly_one_result(home: Path) -> None:
    """Twenty kills: what was finished stays as it was, and nothing is done twice or left out."""
    for number in range(6):
        (home / "tasks" / "easy" / f"add{number}.md").write_text(TASK.replace("Add two", f"Add {number}"))
    slow = {"answers": [{"text": EDIT.format("a + b"), "delay_s": 0.1}], "default": "FINISH"}
    for name in ("one", "two"):
        (home / name).write_text(json.dumps(slow))
    start = ("--task", "tasks", "--models", models("one", "two"), "--output", "out", "--parallel")
    chance = random.Random(7)
    kept: dict[str, str] = {}
    for _ in range(20):
        store = home / "out" / "run.sqlite"
        begun = store.exists() and store.stat().st_size > 0  # killed in the very moment it was made, it is no run yet
        _killed_after(chance.uniform(0.4, 2.2), ("--resume", "out", "--parallel") if begun else start, home)
        if not begun:
            continue
        now = _finished(home / "out")
        assert {key: now[key] for key in kept} == kept
        kept = now
    done = batch("--resume", "out", cwd=home)

    assert done.returncode == 0, done.stdout + done.stderr
    rows = report(home / "out")["results"]
    assert len({(row["model"], row["task_id"]) for row in rows}) == len(rows) == 14


def _killed_after(seconds: float, arguments: tuple[str, ...], home: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmark" / "batch_runner.py"), *arguments]
    process = subprocess.Popen(
        command, cwd=home, env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(seconds)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()


def _finished(folder: Path) -> dict[str, str]:
    with contextlib.closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
        rows = connection.execute("SELECT id, finished_at FROM trials WHERE superseded = 0 AND outcome <> 'failed'").fetchall()
    connection.close()
    return dict(rows)


def test_interrupted_it_says_how_to_go_on(home: Path) -> None:
    (home / "slow").write_text(json.dumps({"answers": [{"text": "```shell\nls\n```", "delay_s": 1}]}))
    command = [sys.executable, str(ROOT / "benchmark" / "batch_runner.py"), "--task", "tasks", "--models", models("slow")]
    process = subprocess.Popen(command, cwd=home, env=clean_environment(), stdout=subprocess.PIPE, text=True)
    time.sleep(2.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)

    assert process.returncode == 130 and "batch --resume" in out


def test_what_a_person_changes_by_hand_counts_as_theirs(home: Path) -> None:
    """The terminal says where the files are; edited there, the task is solved, with help."""
    line = ("--task", "tasks", "--models", models("idle"), "--attended", "--output", "out")
    command = [sys.executable, "-u", str(ROOT / "benchmark" / "batch_runner.py"), *line]
    process = subprocess.Popen(
        command,
        cwd=home,
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    said = next(text for text in process.stdout if text.startswith("The workspace: "))
    file = Path(said.removeprefix("The workspace: ").split("  (")[0]) / "calc.py"
    file.write_text(file.read_text().replace("a - b", "a + b"))
    process.stdin.write("\n")
    process.stdin.close()
    process.stdout.read()
    row_code = process.wait(60)
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()
    row = report(home / "out")["results"][0]

    assert row_code == 0 and row["outcome"] == "passed" and row["manual_edits"] == 1
    assert row["human_interventions"] == 1 and row["follow_ups"] == 0 and not row["first_try"]


def test_a_person_at_the_terminal_helps_and_is_counted(home: Path) -> None:
    line = ("--task", "tasks", "--models", models("helped"), "--attended", "--output", "out")
    command = [sys.executable, str(ROOT / "benchmark" / "batch_runner.py"), *line]
    said = "It must add both numbers.\n"
    done = subprocess.run(
        command, cwd=home, env=clean_environment(), input=said, capture_output=True, text=True, timeout=60, check=False
    )
    row = report(home / "out")["results"][0]

    assert done.returncode == 0, done.stderr
    assert row["success"] and row["human_interventions"] == 1 and row["follow_ups"] == 1 and not row["first_try"]


def test_every_attempt_leaves_a_transcript_a_trajectory_and_a_patch(home: Path) -> None:
    """What was done can be read by people, and by tools that read Harbor's trajectories."""
    done = batch("--task", "tasks/easy/add.md", "--models", models("helped", "idle"), "--output", "out", cwd=home)
    assert done.returncode == 0, done.stdout + done.stderr
    (helped,) = (home / "out" / "attempts").glob("scripted_helped*/add")
    told = (helped / "transcript.md").read_text()
    assert told.startswith("# ")
    assert "passed after" in told
    assert "## 1. prompt" in told
    assert (helped / "patch.diff").read_text() == report(home / "out")["results"][0]["diff"]
    atif = json.loads((helped / "trajectory.json").read_text())
    assert atif["schema_version"] == "ATIF-v1.4"
    assert [step["step_id"] for step in atif["steps"]] == list(range(1, len(atif["steps"]) + 1))
    assert {step["source"] for step in atif["steps"]} <= {"system", "user", "agent"}
    assert sum(step["source"] == "agent" for step in atif["steps"]) == 4
    assert atif["final_metrics"]["total_steps"] == len(atif["steps"])
    assert (home / "out" / "attempts").as_posix().removeprefix(home.as_posix() + "/") in done.stdout


def test_an_agent_that_is_not_installed_is_named_before_anything_is_asked(tmp_path):
    """All that are missing at once, each with what installs it; --no-preflight has the attempts say it."""
    (tmp_path / "add.md").write_text(TASK)
    (tmp_path / "empty").mkdir()
    line = (
        "batch",
        "--task",
        "add.md",
        "--models",
        "baseline/constant",
        "--agent",
        "codex,gemini-cli,builtin",
        "--output",
        "out",
    )
    done = run(*line, cwd=tmp_path, PATH=str(tmp_path / "empty"))
    assert done.returncode == 1
    assert "the agent codex needs codex, which is not installed: npm install -g @openai/codex" in done.stderr
    assert "the agent gemini-cli needs gemini" in done.stderr
    assert not (tmp_path / "out" / "run.sqlite").exists()
