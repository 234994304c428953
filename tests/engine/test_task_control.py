"""A failing check is held against an agent only where the task's own solution passes it here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command import run

pytestmark = pytest.mark.needs("bubblewrap")
TASK = """\
Write ok.txt.

## Verify

```bash
{check}
```

## Solution

```bash
touch ok.txt; printf 'test -f ok.txt' > written_by_the_agent.sh; chmod +x written_by_the_agent.sh
```
"""


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        ("test -f ok.txt", "no_change"),
        ("test -f never.txt", "verifier_error"),
        ("no_such_program ok.txt", "verifier_error"),
        ("env no_such_program ok.txt", "verifier_error"),
        ("./written_by_the_agent.sh", "no_change"),
    ],
)
def test_who_is_blamed_for_a_check_that_fails(check: str, outcome: str, tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text(TASK.format(check=check))
    (tmp_path / "idle").write_text(json.dumps({"answers": ["All is well."], "default": "FINISH"}))

    chosen = ("--task", "task.md", "--models", "scripted/idle", "--follow-ups", "0")
    done = run("batch", *chosen, "--output", "out", "--yes", cwd=tmp_path)

    result = json.loads((tmp_path / "out" / "comparison_report.json").read_text())["results"][0]
    assert result["outcome"] == outcome, done.stdout + done.stderr
    said = result["failure"] or result["check_output"]
    expected = {"verifier_error": ("own solution does not pass" if "never" in check else "needs no_such_program")}
    assert expected.get(outcome, "") in said


@pytest.mark.parametrize(("check", "outcome"), [("test -f ok.txt", "passed"), ("test -f never.txt", "verifier_error")])
def test_a_check_that_fails_the_control_is_broken_and_no_wrong_result(check: str, outcome: str, tmp_path: Path) -> None:
    """What the control does is the task's own solution: nobody did anything wrong."""
    (tmp_path / "task.md").write_text(TASK.format(check=check))

    chosen = ("--task", "task.md", "--models", "baseline/constant", "--agent", "solution,nothing", "--follow-ups", "0")
    run("batch", *chosen, "--output", "out", "--yes", cwd=tmp_path)

    results = {row["agent"]: row for row in json.loads((tmp_path / "out" / "comparison_report.json").read_text())["results"]}
    assert results["solution"]["outcome"] == outcome
    assert results["nothing"]["outcome"] == "no_change", "doing nothing is right to fail, whatever the check is worth"
    if outcome == "verifier_error":
        assert "own solution does not pass" in results["solution"]["failure"]
        proven = run("check-tasks", "task.md", cwd=tmp_path, timeout=120)
        assert proven.returncode == 2
        assert "✗ task: the task's own solution does not pass its check here" in proven.stdout
