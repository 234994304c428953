"""Agents that ask for leave to act, and the person who gives or refuses it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.acp_agent import OPTIONS
from support.agent_model import AgentModel
from support.command import ROOT, clean_environment
from support.specs import assignment, spec_of, trial_of

from tiebreak.core.events import TrialFinished
from tiebreak.core.message import user
from tiebreak.core.model import ModelRef
from tiebreak.core.run import TaskRules
from tiebreak.core.sample import Sample
from tiebreak.core.task import Check, Task, TaskFile
from tiebreak.core.trial import TrialResult
from tiebreak.core.work import PermissionOption, PermissionRequest, Verdict, WorkOutcome, Workspace
from tiebreak.engine.execute import execute

pytestmark = pytest.mark.needs("bubblewrap")

AGENT = "support.acp_agent:AcpAgent"
FIX_TYPO = ROOT / "benchmark" / "tasks" / "easy" / "fix_typo.md"


class Person:
    """Takes the option of a kind, after a while."""

    def __init__(self, kind: str, *, thinks_s: float = 0.0) -> None:
        self.kind = kind
        self.thinks_s = thinks_s
        self.asked: list[PermissionRequest] = []

    async def answer(self, sample: Sample, said: str, verdict: Verdict, workspace: Workspace) -> str | None:
        return None

    async def permit(self, sample: Sample, request: PermissionRequest) -> PermissionOption | None:
        self.asked.append(request)
        await asyncio.sleep(self.thinks_s)
        return next((option for option in request.options if option.kind == self.kind), None)


async def attempted(person: Person, tmp_path: Path, *, policy: str = "person", timeout_s: float = 60) -> TrialResult:
    """One attempt at a typo by the scripted agent."""
    task = Task(
        files=(TaskFile(path="README.md", content=b"This is teh demo.\n"),), check=Check(script="grep -q 'the demo' README.md")
    )
    sample = Sample(id="typo", messages=(user("Fix it."),), scorers=("check",), task=task)
    model = ModelRef(provider="baseline", name="constant", label="m", reference=True)
    rules = TaskRules(timeout_s=timeout_s, follow_ups=0, ask_permissions=policy)
    spec = spec_of([model], "x", tmp_path, tasks=rules)
    todo = [assignment([trial_of(sample, model, AGENT)])]
    events = [event async for event in execute(todo, spec, kinds=frozenset({"task"}), attendant=person)]
    (result,) = [event.result for event in events if isinstance(event, TrialFinished)]
    return result


async def test_what_a_person_allows_is_done_and_counted(tmp_path: Path) -> None:
    """Both the request and the answer stand in the transcript; it was an intervention, so the agent had help."""
    person = Person("allow_once")
    result = await attempted(person, tmp_path)

    (request,) = person.asked
    assert request.kind == "edit"
    assert request.details.startswith("path: README.md\ntext: xxx")
    assert len(request.details) == 4_000
    assert [option.id for option in request.options] == [option["optionId"] for option in OPTIONS]
    work = result.work
    assert work is not None
    assert work.outcome is WorkOutcome.PASSED
    assert (work.permission_requests, work.permissions_by_person, work.interventions) == (1, 1, 1)
    assert work.permissions == "asked over ACP, answered by a person"
    steps = [(step.kind, step.actor, step.text.partition("\n")[0][:21]) for step in result.transcript]
    assert ("permission", "agent", "edit: Write README.md") in steps
    place = steps.index(("answer", "person", "Yes, this time"))
    assert result.transcript[place].data == {"allowed": True}


@pytest.mark.parametrize("kind", ["reject_always", "none of them"])
async def test_what_a_person_refuses_is_not_done(kind: str, tmp_path: Path) -> None:
    """Who takes no option refuses for this time: the agent hears the option that says so."""
    result = await attempted(Person(kind), tmp_path)

    assert result.work is not None
    assert (result.work.outcome, result.work.permissions_by_person) == (WorkOutcome.NO_CHANGE, 1)
    assert result.output is not None
    assert result.output.text == ("Answered: no." if kind == "reject_always" else "Answered: not-now.")


async def test_the_time_a_person_takes_is_not_the_agents(tmp_path: Path) -> None:
    """It neither counts nor runs out: the agent's deadline waits."""
    began = time.monotonic()
    await attempted(Person("allow_once"), tmp_path / "quick")
    # As long as a whole attempt takes three times here and now, and the person thinks longer than that.
    timeout_s = 3 + 3 * (time.monotonic() - began)
    person = Person("allow_once", thinks_s=timeout_s + 0.5)
    result = await attempted(person, tmp_path / "slow", timeout_s=timeout_s)

    work = result.work
    assert work is not None
    assert work.outcome is WorkOutcome.PASSED
    assert work.person_seconds >= person.thinks_s
    assert work.seconds < timeout_s


async def test_under_a_policy_no_person_is_asked(tmp_path: Path) -> None:
    person = Person("reject_once")
    result = await attempted(person, tmp_path, policy="allow")

    assert result.work is not None
    assert (result.work.outcome, person.asked) == (WorkOutcome.PASSED, [])
    assert (result.work.permission_requests, result.work.interventions) == (1, 0)


# --- at the terminal --------------------------------------------------------------------------------


def at_terminal(cwd: Path, typed: str, *more: str, agent: str = AGENT, model: str = "openai/noop", wait_s: float = 0.0) -> Any:
    """Run a batch with a person who types; its exit code, its one result, and all that was shown."""
    (cwd / "models_config.yaml").write_text("models: []\n", encoding="utf-8")
    line = ("--task", str(FIX_TYPO), "--models", model, "--agent", agent, "--output", "out", "--no-preflight", *more)
    path = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "tests")}
    typo = "This is teh demo project. It greets people."
    with AgentModel(old=typo, new=typo.replace("teh", "the"), root="/workspace/") as server:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "benchmark" / "batch_runner.py"), *line],
            cwd=cwd,
            env=clean_environment(**server.environment(), **path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        time.sleep(wait_s)
        shown, _ = process.communicate(typed, timeout=120)
    report = cwd / "out" / "comparison_report.json"
    row = json.loads(report.read_text(encoding="utf-8"))["results"][0] if report.is_file() else None
    return process.returncode, row, shown


PERSON = ("--attended", "--ask-permissions", "person")


@pytest.mark.parametrize(
    ("typed", "outcome"),
    [
        ("\n", "passed"),
        ("2\n", "passed"),
        ("C\n", "passed"),
        ("maybe\n4\n\n", "no_change"),
        ("a\n\n", "no_change"),
        ("", "no_change"),
    ],
    ids=["empty allows", "number", "letter", "no option, then one", "refused", "end of input refuses"],
)
def test_person_answers_at_the_terminal(typed: str, outcome: str, tmp_path: Path) -> None:
    """What the agent wants is shown so that it can only be read, never obeyed, and not at any length."""
    code, row, shown = at_terminal(tmp_path, typed, *PERSON)

    assert (code, row["outcome"]) == (0, outcome), shown
    assert (row["permission_requests"], row["human_interventions"], row["first_try"]) == (1, 1, False)
    assert "edit: Write README.md \\x1b[2J\\x1b]0;mine\\x07\\u202e" in shown
    assert "\x1b" not in shown
    assert "more characters" in shown
    assert "2 or b  Yes, this time" in shown
    assert "empty: 2, allow" in shown
    assert ("There is no option 'maybe'" in shown) == ("maybe" in typed)


def test_nobody_there_to_be_asked_is_said_beforehand(tmp_path: Path) -> None:
    code, row, shown = at_terminal(tmp_path, "", "--ask-permissions", "person")

    assert (code, row) == (1, None)
    assert "--ask-permissions person needs --attended" in shown
    assert "Traceback" not in shown


@pytest.mark.needs("agents")
@pytest.mark.xdist_group("agents")
@pytest.mark.parametrize("agent", ["gemini-cli", "qwen-code", "opencode"])
def test_real_agent_waits_for_the_person(agent: str, tmp_path: Path) -> None:
    """The person is asked for the edit, allows it, and the task is solved."""
    code, row, shown = at_terminal(tmp_path, "\n" * 5, *PERSON, "--max-model-calls", "8", agent=agent, model="openai/fix")

    assert (code, row["outcome"]) == (0, "passed"), shown
    assert row["permission_requests"] == row["human_interventions"] >= 1
    assert "README.md" in shown.partition("asks for permission to act")[2]
