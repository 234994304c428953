"""An attempt taken again up to a step: the record is followed, another model goes on, and the step that decided is named."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from support.command import run

from tiebreak.core.run import Protocol, RunInfo
from tiebreak.core.work import Changes, Step, Work, WorkOutcome
from tiebreak.replaying import KeptAttempt, deciding

TASK = """\
Write answer.txt with the sum of numbers.txt.

## Workspace

```text file=numbers.txt
1
2
3
```

## Verify

```bash
grep -qx 6 answer.txt
```
"""
LOOKS, REMOVES, GUESSES = (
    "```shell\ncat numbers.txt; date +%N\n```",
    "```shell\nrm numbers.txt\n```",
    "```shell\necho 7 > answer.txt\n```",
)
SUMS = "```shell\nawk '{s+=$1} END {print s}' numbers.txt > answer.txt\n```"
LOOK, REMOVE, GUESS = 2, 4, 6
"""The numbers of these steps in the transcript."""


def script(place: Path, *answers: str) -> str:
    place.write_text(json.dumps({"answers": [*answers, "FINISH"], "default": "FINISH"}))
    return f"scripted/{place.name}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an attempt that removed what it needed, and a model that would have done it."""
    home = tmp_path_factory.mktemp("replay")
    (home / "sum.md").write_text(TASK)
    failing = script(home / "bad.json", f"Let me look.\n{LOOKS}", REMOVES, GUESSES)
    script(home / "good.json", SUMS)
    done = run("batch", "--task", "sum.md", "--models", failing, "--output", "first", "--follow-ups", "0", cwd=home)
    assert "solved 0 of 1" in done.stdout, done.stdout + done.stderr
    return home


def attempts(folder: Path) -> dict[str, str]:
    """By contestant, how its attempt ended."""
    results = json.loads((folder / "comparison_report.json").read_text())["results"]
    return {row["contestant"]: row["outcome"] for row in results}


def transcript(folder: Path, contestant: str) -> list[Step]:
    import msgspec

    with sqlite3.connect(folder / "run.sqlite") as store:
        query = "SELECT w.transcript FROM work w JOIN trials t USING (id) JOIN contestants c USING (contestant) WHERE c.label = ?"
        return msgspec.json.decode(store.execute(query, (contestant,)).fetchone()[0], type=list[Step])


def test_from_every_step_another_model_goes_on_and_the_one_that_decided_is_named(home: Path) -> None:
    done = run("replay", "first", "--from", "all", "--model", "scripted/good.json", "--output", "all", cwd=home, timeout=100)

    assert done.returncode == 0, done.stdout + done.stderr
    assert attempts(home / "all") == {
        f"scripted/good.json from step {LOOK}": "passed",
        f"scripted/good.json from step {REMOVE}": "passed",
        f"scripted/good.json from step {GUESS}": "wrong_result",
        "scripted/good.json from step 8": "wrong_result",
    }
    assert f"Step {REMOVE} decided: ```shell rm numbers.txt ```" in done.stdout
    assert "afterwards no more" in done.stdout
    assert "is an anecdote" in done.stdout
    assert "3 actions brought another result" in done.stdout, "what the clock says is never the same"


def test_what_is_taken_again_costs_nothing_and_is_seen_in_the_transcript(home: Path) -> None:
    attempt = next((home / "first" / "attempts").glob("*/sum"))
    done = run("replay", str(attempt), "--from", str(REMOVE), "--model", "scripted/good.json", "--output", "one", cwd=home)

    assert done.returncode == 0, done.stdout + done.stderr
    steps = transcript(home / "one", f"scripted/good.json from step {REMOVE}")
    assert [step.kind for step in steps[:4]] == ["prompt", "replay", "tool", "call"]
    assert steps[1].text == f"Let me look.\n{LOOKS}" and steps[2].text.startswith("1\n2\n3\n")
    assert steps[2].data["differs"], "the clock went on"
    (row,) = json.loads((home / "one" / "comparison_report.json").read_text())["results"]
    assert row["model_calls"] == sum(step.kind == "call" for step in steps)
    again = run("batch", "--resume", "one", cwd=home)
    assert "finished, 0 asked" in again.stdout, again.stdout + again.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("first", "--from", "99"), "the attempt's last call of its model is step 8"),
        (("first", "--from", "x"), "name steps of the transcript by their numbers"),
        (("nowhere", "--from", "2"), "there is no run 'nowhere'"),
        (("other", "--from", "2"), "an attempt of the agent 'nothing': only those of builtin"),
        (("two", "--from", "2"), "there are 2 attempts"),
        (("first", "--from", "2", "--model", "no-such-model"), "no-such-model"),
    ],
)
def test_what_cannot_be_taken_again_is_refused_in_a_sentence(home: Path, words: tuple[str, ...], complaint: str) -> None:
    if words[0] == "other" and not (home / "other").exists():
        run("batch", "--task", "sum.md", "--models", "scripted/good.json", "--agent", "nothing", "--output", "other", cwd=home)
    if words[0] == "two" and not (home / "two").exists():
        run("batch", "--task", "sum.md", "--models", "scripted/good.json", "--repeats", "2", "--output", "two", cwd=home)
    models = () if "--model" in words else ("--model", "scripted/good.json")

    done = run("replay", *words, *models, "--output", "refused", cwd=home)

    assert done.returncode == 1
    assert complaint in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr
    assert not (home / "refused").exists()


def test_a_task_that_has_changed_since_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sum.md").write_text(TASK)
    model = script(tmp_path / "bad.json", GUESSES)
    run("batch", "--task", "sum.md", "--models", model, "--output", "first", cwd=tmp_path)
    (tmp_path / "sum.md").write_text(TASK.replace("3\n```", "4\n```"))

    done = run("replay", "first", "--from", "2", "--model", model, "--output", "again", cwd=tmp_path)

    assert done.returncode == 1
    assert "the task sum has changed since" in done.stderr


# --- which step decided ---------------------------------------------------------------------------------

CALLS = (2, 4, 6, 8)


def kept(*, solved: bool) -> KeptAttempt:
    steps = [Step(at_s=0, kind="prompt")]
    for number in CALLS:
        steps += [Step(at_s=0, kind="call", text=f"said in {number}"), Step(at_s=0, kind="tool")]
    outcome = WorkOutcome.PASSED if solved else WorkOutcome.WRONG_RESULT
    info = RunInfo.__new__(RunInfo)
    assert Protocol(dataset="x").tasks is not None
    work = Work(outcome=outcome, seconds=1, changes=Changes())
    return KeptAttempt(folder=Path(), info=info, trial="", label="", sample="", work=work, steps=tuple(steps))


@pytest.mark.parametrize(
    ("solved", "rates", "sentence"),
    [
        (False, {2: 1, 4: 1, 6: 0, 8: 0}, "Step 4 decided: said in 4\nUntil then the task could still be solved"),
        (False, {2: 1, 4: 1, 6: 1, 8: 1}, "Step 8 decided: said in 8\nUntil then"),
        (True, {2: 0, 4: 0, 6: 1, 8: 1}, "Step 4 decided: said in 4\nFrom then on the task was as good as solved"),
        (False, {2: 0.8, 4: 0.6, 6: 0.2, 8: 0}, "Step 4 decided"),
        (False, {2: 1, 8: 0}, "It was decided in steps 2 to 7. Until then the task could still be solved, afterwards no more."),
        (False, {2: 1, 4: 0, 6: 1, 8: 0}, "No single step decided: m solves it from 2, 6 of"),
        (False, {2: 0, 4: 0, 6: 0, 8: 0}, "m solves it from none of the steps that were tried; neither did the attempt itself"),
        (True, {2: 1, 4: 1}, "m solves it from every step that was tried, as the attempt itself did"),
        (False, {}, "m solves it from none of the steps"),
    ],
)
def test_the_step_that_decided_is_where_the_results_turn(solved: bool, rates: dict[int, float], sentence: str) -> None:
    assert deciding(kept(solved=solved), CALLS, rates, "m").startswith(sentence)
