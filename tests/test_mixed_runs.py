"""Questions and coding tasks together: one run, one store, one report, one verdict."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from support.command import read_csv, run, start

TASK = """# Write it

Write the word done into done.txt.

## Verify

```bash
grep -q done done.txt
```

## Solution

```bash
echo done > done.txt
```
"""
SHELL = "```shell\necho done > done.txt\n```\nFINISH"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three questions, two tasks, and somebody's notes."""
    mixed = tmp_path / "mixed"
    (mixed / "tasks").mkdir(parents=True)
    rows = [{"id": f"q{i}", "input": f"Question {i}?", "target": f"answer {i}"} for i in range(3)]
    (mixed / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("one", "two"):
        (mixed / "tasks" / f"{name}.md").write_text(TASK)
    (mixed / "NOTES.md").write_text("# Notes\n\nNothing to do here.\n")
    answers = [{"when": f"Question {i}?", "text": f"answer {i}"} for i in range(3)]
    working = [*answers, {"when": "done.txt", "text": SHELL}]
    (tmp_path / "good.json").write_text(json.dumps({"answers": working, "default": "FINISH"}))
    (tmp_path / "bad.json").write_text(json.dumps({"answers": [answers[0]], "default": "FINISH"}))
    return tmp_path


MODELS = "scripted/good.json,scripted/bad.json"


@pytest.mark.needs("bubblewrap")
def test_one_run_has_both_and_one_verdict(folder: Path) -> None:
    """Questions are asked directly and tasks done by the built-in agent; the notes are named and left out."""
    done = run("--models", MODELS, "--dataset", "mixed", "--output", "r", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOTES.md: no task: it has no check" in done.stdout
    report = json.loads((folder / "r" / "comparison_report.json").read_text())
    good, bad = report["contestants"]
    assert (good["score"], good["planned"], good["work"]["solved"], good["work"]["planned"]) == (1.0, 5, 2, 2)
    assert (bad["score"], bad["work"]["solved"]) == (0.2, 0)
    assert report["task"] == ["one", "two"]
    assert report["rankings"]["fastest"] == "scripted/good.json"
    assert {row["sample"]: row["outcome"] for row in report["results"] if row["contestant"] == "scripted/good.json"} == {
        "q0": "answered",
        "q1": "answered",
        "q2": "answered",
        "tasks/one": "passed",
        "tasks/two": "passed",
    }
    assert len(read_csv(folder / "r" / "trials.csv")) == 10
    assert {row["task"] for row in read_csv(folder / "r" / "comparison_report.csv")} == {"one", "two"}
    assert "scripted/good.json solved 2 of 2 without help." in done.stdout
    assert any(claim["kind"] in ("leads", "tie") for claim in report["claims"])
    page = (folder / "r" / "comparison_report.html").read_text()
    assert "Question 0?" not in page  # carried as data, never as mark-up
    assert 'id="tasks"' in page


@pytest.mark.needs("bubblewrap")
def test_run_and_batch_differ_in_words_only(folder: Path) -> None:
    """The same folder through either door: the same results, and either goes on with the other's run."""
    one = run("run", "--models", MODELS, "--dataset", "mixed", "--output", "r", cwd=folder)
    other = run("batch", "--models", MODELS, "--dataset", "mixed", "--output", "b", cwd=folder)
    assert (one.returncode, other.returncode) == (0, 0)
    rows = [
        sorted((row["model"], row["sample"], row["outcome"], row["score"]) for row in read_csv(folder / name / "trials.csv"))
        for name in ("r", "b")
    ]
    assert rows[0] == rows[1]
    for door, name in (("batch", "r"), ("run", "b")):
        again = run(door, "--resume", name, "--json", cwd=folder)
        events = [json.loads(line) for line in again.stdout.splitlines()]
        assert not [event for event in events if event["event"] == "trial_finished"]
        assert events[-1]["event"] == f"{door}_finished"


@pytest.mark.needs("bubblewrap")
def test_a_mixed_run_that_is_killed_goes_on_to_the_same_results(folder: Path) -> None:
    """kill -9 now and then; every trial ends once, with the result it has in a run that was never killed."""
    slow = json.loads((folder / "good.json").read_text())
    slow["answers"] = [{**line, "delay_s": 0.15} for line in slow["answers"]]
    (folder / "good.json").write_text(json.dumps(slow))
    line = ["run", "--model", "scripted/good.json", "--dataset", "mixed", "--max-connections", "1", "--output", "k"]
    for wait_s in (0.9, 1.2, 1.5):
        begun = (folder / "k" / "run.sqlite").exists()
        process = start(*(["run", "--resume", "k"] if begun else line), cwd=folder)
        time.sleep(wait_s)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    done = run("run", "--resume", "k", cwd=folder) if (folder / "k" / "run.sqlite").exists() else run(*line, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_csv(folder / "k" / "trials.csv")
    assert sorted(row["sample"] for row in rows) == ["q0", "q1", "q2", "tasks/one", "tasks/two"]
    assert {row["score"] for row in rows} == {"1.0"}


def test_the_same_id_twice_is_refused(folder: Path) -> None:
    (folder / "mixed" / "questions.jsonl").write_text('{"id": "tasks/one", "input": "?", "target": "x"}\n')
    done = run("--models", MODELS, "--dataset", "mixed", cwd=folder)
    assert done.returncode == 1
    assert "a question and a task have the id 'tasks/one'" in done.stderr


def test_a_folder_of_tasks_alone_is_a_dataset_too(folder: Path) -> None:
    done = run("--models", MODELS, "--dataset", "mixed/tasks", "--dry-run", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "2 models × 2 tasks × 1 repeat = 4 attempts" in done.stdout


@pytest.mark.needs("bubblewrap")
def test_a_run_of_tasks_is_made_longer(folder: Path) -> None:
    """With a larger limit on resume more tasks are planned, and each counts once."""
    line = ("batch", "--task", "mixed/tasks", "--models", "scripted/good.json", "--limit", "1", "--output", "b")
    assert run(*line, cwd=folder).returncode == 0
    assert run("batch", "--resume", "b", "--limit", "2", "--max-model-calls", "9", cwd=folder).returncode == 0
    report = json.loads((folder / "b" / "comparison_report.json").read_text())
    (good,) = report["contestants"]
    assert (good["planned"], good["work"]["planned"], good["work"]["solved"]) == (2, 2, 2)
    assert report["protocol"]["tasks"]["max_model_calls"] == 9
