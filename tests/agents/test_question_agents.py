"""Agents for questions: several votes, and a tool at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command import only_run, read_csv, run

from tiebreak.agents.self_consistency import SelfConsistency
from tiebreak.agents.tool_loop import PYTHON, ToolLoop
from tiebreak.core.contestant import AgentRef
from tiebreak.core.errors import UsageError
from tiebreak.core.message import Finish, Reply, ToolCall, user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Outcome
from tiebreak.core.work import Finished
from tiebreak.engine.context import run_code
from tiebreak.registry import agent_ref, make_agent

SAMPLE = Sample(id="s", messages=(user("What is 2 + 2?"),), targets=("4",))


class Context:
    """Answers with the next of its replies, and runs nothing."""

    def __init__(self, *replies: Reply | str) -> None:
        self.replies = [Reply(text=reply) if isinstance(reply, str) else reply for reply in replies]
        self.asked: list[dict] = []
        self.ran: list[str] = []

    async def ask(self, messages, *, tools=(), vote=0):
        self.asked.append({"messages": list(messages), "tools": tools, "vote": vote})
        return self.replies[len(self.asked) - 1]

    async def run_code(self, code, *, timeout_s=10.0):
        self.ran.append(code)
        return Finished(code=0, output="4\n")


@pytest.mark.parametrize(
    ("replies", "answer"),
    [
        (["It is 4.", "Answer: 5", "The answer is 4", "so the answer is: 4.", "Answer: 3"], "The answer is 4"),
        (["A", "B", "B"], "B"),
        (["<think>Answer: 9</think>4", "5", "4"], "<think>Answer: 9</think>4"),
        (["x", "y"], "x"),
        (["", "4", ""], "4"),
    ],
)
async def test_most_votes_win_and_of_equals_the_first(replies, answer):
    context = Context(*replies)
    output = await SelfConsistency(votes=len(replies)).run(SAMPLE, context)
    assert (output.text, output.outcome) == (answer, Outcome.ANSWERED)
    assert sorted(call["vote"] for call in context.asked) == list(range(len(replies)))


async def test_refusals_are_no_votes_unless_there_is_nothing_else():
    refused = Reply(text="I cannot.", finish=Finish.REFUSED)
    assert (await SelfConsistency(votes=3).run(SAMPLE, Context(refused, refused, "4"))).text == "4"
    assert (await SelfConsistency(votes=2).run(SAMPLE, Context(refused, refused))).outcome is Outcome.REFUSED


async def test_a_tool_is_run_and_its_output_told():
    call = Reply(text="", tool_calls=(ToolCall(id="1", name="python", arguments='{"code": "print(2 + 2)"}'),))
    context = Context(call, "It is 4.")
    output = await ToolLoop().run(SAMPLE, context)
    assert (output.text, context.ran) == ("It is 4.", ["print(2 + 2)"])
    told = context.asked[1]["messages"][-1]
    assert (told.role, told.text, told.tool_call_id, told.failed) == ("tool", "4\n", "1", False)


@pytest.mark.parametrize("arguments", ["{}", "not json", '{"code": 7}', "[1]"])
async def test_a_broken_call_is_answered_and_runs_nothing(arguments):
    context = Context(Reply(text="", tool_calls=(ToolCall(id="1", name="python", arguments=arguments),)), "4")
    await ToolLoop().run(SAMPLE, context)
    assert context.ran == []
    assert context.asked[1]["messages"][-1].failed


async def test_a_model_that_only_calls_is_made_to_answer():
    """After the last turn it gets no tool any more; what it then says is its answer, even nothing."""
    call = Reply(text="", tool_calls=(ToolCall(id="1", name="python", arguments='{"code": "1"}'),))
    context = Context(*[call] * 10)
    output = await ToolLoop(turns=3).run(SAMPLE, context)
    assert len(context.asked) == 4
    assert [bool(asked["tools"]) for asked in context.asked] == [True, True, True, False]
    assert output.outcome is Outcome.EMPTY


def test_options_are_read_and_checked():
    assert agent_ref("self-consistency@votes=7").label == "self-consistency@votes=7"
    assert make_agent(agent_ref("tools@turns=2"))._turns == 2
    for typed in ("self-consistency@votes=1", "self-consistency@votes=many", "tools@turns=0", "direct@votes=3"):
        with pytest.raises(UsageError):
            agent_ref(typed)
    assert AgentRef().label == "direct"
    assert PYTHON.name == "python"


def questions(folder: Path, count: int = 3) -> None:
    rows = [{"id": f"q{i}", "input": f"Question {i}?", "target": "four"} for i in range(count)]
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_agents_compete_on_questions_from_the_command_line(tmp_path):
    """A model that is right two times in three: votes make it always right."""
    questions(tmp_path)
    once = {"text": "five", "times": 1}
    answers = [{"when": f"Question {i}?", **once} for i in range(3)] + [{"text": "four"}]
    (tmp_path / "m.json").write_text(json.dumps({"answers": answers}))
    done = run("--model", "scripted/m.json", "--dataset", "q.jsonl", "--agent", "direct,self-consistency@votes=3", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_csv(only_run(tmp_path) / "trials.csv")
    scores = {agent: {row["score"] for row in rows if row["agent"] == agent} for agent in {row["agent"] for row in rows}}
    assert scores == {"direct": {"0.0"}, "self-consistency@votes=3": {"1.0"}}
    assert {row["attempts"] for row in rows if row["agent"] != "direct"} == {"3"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--agent", "codex"), "the agent 'codex' works on coding tasks, and"),
        (("--agent", "nobody"), "there is no agent 'nobody'"),
        (("--agent", "tools@turns=x"), "a whole number from 1 to 100"),
    ],
)
def test_an_agent_that_cannot_work_is_refused_before_anything_is_asked(flags, said, tmp_path):
    questions(tmp_path)
    done = run("--model", "baseline/constant", "--dataset", "q.jsonl", *flags, cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.needs("bubblewrap")
async def test_what_a_model_computes_runs_in_the_sandbox(tmp_path):
    """A real program in the real sandbox: it sees nothing of this machine, and what it prints comes back."""
    secret = tmp_path / "secret"
    secret.write_text("here")
    code = f"import os; print('four' if not os.path.exists({str(secret)!r}) else 'seen')"

    class Real(Context):
        async def run_code(self, code, *, timeout_s=10.0):
            return await run_code(code, timeout_s=timeout_s)

    call = Reply(text="", tool_calls=(ToolCall(id="1", name="python", arguments=json.dumps({"code": code})),))
    context = Real(call, "four")
    await ToolLoop().run(SAMPLE, context)
    assert context.asked[1]["messages"][-1].text == "four\n"


def test_the_tool_is_offered_on_the_wire(tmp_path, server):
    questions(tmp_path, 1)
    server.answer = lambda prompt: "four"
    done = run("--model", "openai/m", "--dataset", "q.jsonl", "--agent", "tools", cwd=tmp_path, **server.environment())
    assert done.returncode == 0, done.stderr
    assert [tool["function"]["name"] for tool in server.ledger[0].body["tools"]] == ["python"]
