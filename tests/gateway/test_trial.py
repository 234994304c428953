"""A coding agent in the sandbox, its model behind the gateway: what is counted, what is kept apart, what ends a trial."""

from __future__ import annotations

import asyncio

import pytest
from support.agent_model import DONE, KEY, USAGE, AgentModel
from support.gateways import OWN, PROVIDERS
from support.specs import assignment, spec_of, trial_of

from tiebreak.core.events import ContestantFinished, ContestantState, TrialFinished
from tiebreak.core.message import user
from tiebreak.core.model import ModelRef
from tiebreak.core.run import RetryPolicy, TaskRules
from tiebreak.core.sample import Sample
from tiebreak.core.task import Check, Task, TaskFile, TaskLimits
from tiebreak.core.trial import Outcome, Trial, TrialResult
from tiebreak.core.work import WorkOutcome
from tiebreak.engine.execute import execute

pytestmark = pytest.mark.needs("bubblewrap")

WHOLE, STREAMED = "support.chat_agent:ChatAgent", "support.chat_agent:StreamingAgent"

TASKS = frozenset({"task"})


def reference(model: AgentModel, name: str, provider: str = "openai", **more) -> ModelRef:
    variable = {"anthropic": "ANTHROPIC_API_KEY", "google": "GOOGLE_API_KEY", "ollama": ""}.get(provider, "OPENAI_API_KEY")
    url = model.url + PROVIDERS[provider][1]
    return ModelRef(provider=provider, name=name, label=f"{provider}/{name}", base_url=url, key_variable=variable, **more)


def task(**limits) -> Task:
    return Task(
        files=(TaskFile(path="README.md", content=b"This is teh demo.\n"),),
        check=Check(script="grep -q 'This is the demo' README.md"),
        limits=TaskLimits(**limits),
    )


def trial(ref: ModelRef, agent: str, **limits) -> Trial:
    sample = Sample(id="typo", messages=(user("Fix the typo in README.md."),), scorers=("check",), task=task(**limits))
    return trial_of(sample, ref, agent)


async def results(*trials: Trial, tmp_path, **spec) -> list[TrialResult]:
    rules = spec.pop("tasks", TaskRules(timeout_s=60, follow_ups=0))
    retry = RetryPolicy(max_attempts=2, first_wait_s=0.01, longest_wait_s=0.02)
    run = spec_of([t.model for t in trials], "x", tmp_path, max_workers=4, tasks=rules, retry=retry, **spec)
    events = [event async for event in execute([assignment([t]) for t in trials], run, kinds=TASKS)]
    found = [event.result for event in events if isinstance(event, TrialFinished)]
    assert len(found) == len(trials), events[-1]
    return sorted(found, key=lambda result: [t.id for t in trials].index(result.trial.id))


async def one(model: AgentModel, name: str, agent: str = WHOLE, *, tmp_path, provider="openai", limits=None, **spec):
    return (await results(trial(reference(model, name, provider), agent, **(limits or {})), tmp_path=tmp_path, **spec))[0]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_agent_repairs_a_file_by_any_provider(model, provider, tmp_path):
    """One agent that speaks chat works with models of every provider, and everything it did is counted."""
    result = await one(model, "shell", tmp_path=tmp_path, provider=provider)

    work = result.work
    assert work.outcome is WorkOutcome.PASSED, result.failure
    assert (work.model_calls, work.tool_calls, work.side_calls, work.prompts_sent) == (3, 2, 0, 1)
    assert work.hosts == ("telemetry.example.com",)
    assert result.output.usage.input_tokens == 3 * USAGE.input_tokens
    assert result.output.usage.output_tokens == 3 * USAGE.output_tokens
    assert result.output.text.strip() == DONE
    assert {asked.dialect for asked in model.ledger} == {OWN[provider]}


async def test_streams_side_calls_and_first_tokens_are_told(model, tmp_path):
    """A call without tools beside others with tools is a side call; a streamed answer has a first token."""
    result = await one(model, "shell", STREAMED, tmp_path=tmp_path)

    assert result.work.outcome is WorkOutcome.PASSED, result.failure
    assert (result.work.model_calls, result.work.side_calls) == (4, 1)
    assert result.output.timing.first_token_s > 0
    assert [asked.request.stream for asked in model.ledger] == [True] * 4


async def test_the_user_s_settings_win_over_the_agent_s(model, tmp_path):
    """Whatever name and settings the agent asks for, the trial's model is asked as the user set it."""
    ref = reference(model, "shell", settings={"temperature": 0.25, "max_tokens": 77})
    await results(trial(ref, WHOLE), tmp_path=tmp_path)

    assert {asked.body["temperature"] for asked in model.ledger} == {0.25}
    assert {asked.body["max_tokens"] for asked in model.ledger} == {77}
    assert {asked.headers["Authorization"] for asked in model.ledger} == {f"Bearer {KEY}"}


async def test_the_transcript_tells_what_was_said_and_done_once(model, tmp_path):
    """Each call writes down what is new: not the whole conversation every time."""
    result = await one(model, "shell", tmp_path=tmp_path)

    steps = [(step.kind, step.text.strip()) for step in result.transcript]
    assert steps[:3] == [
        ("prompt", "Fix the typo in README.md."),
        ("context", "You repair files."),
        ("context", "Fix the typo in README.md."),
    ]
    assert [kind for kind, _ in steps[3:]] == ["call", "tool", "call", "tool", "call", "check"]
    assert steps[4][1] == "This is teh demo."
    call = result.transcript[3]
    assert call.data["tools"] == [{"name": "bash", "arguments": '{"command": "cat README.md"}'}]
    assert (call.data["input_tokens"], call.data["output_tokens"]) == (1200, 34)
    assert call.data["seconds"] > 0


async def test_the_call_budget_ends_a_loop(model, tmp_path):
    """Past it the agent is told once and for all; nothing more is asked of the model."""
    result = await one(model, "loop", tmp_path=tmp_path, limits={"max_model_calls": 4})

    assert result.work.outcome is WorkOutcome.BUDGET
    assert (result.failure, result.primary.value) == (None, 0.0)
    assert result.work.model_calls == len(model.ledger) == 4
    assert any("budget is used up" in step.text for step in result.transcript if step.kind == "error")


async def test_an_agent_that_never_gives_up_is_stopped(model, tmp_path):
    """After its budget is used up, long before its time is."""
    result = await one(model, "loop", "support.chat_agent:Stubborn", tmp_path=tmp_path, limits={"max_model_calls": 2})

    assert result.work.outcome is WorkOutcome.BUDGET
    assert len(model.ledger) == 2
    assert result.work.seconds < 30


@pytest.mark.parametrize(("name", "kind"), [("status-500", "transient"), ("status-429", "rate_limit"), ("status-401", "auth")])
async def test_a_provider_s_failure_is_not_the_model_s(name, kind, model, tmp_path):
    """However the agent ends after it."""
    result = await one(model, name, tmp_path=tmp_path)

    assert result.work.outcome is WorkOutcome.PROVIDER_ERROR
    assert result.failure.kind == kind
    assert (result.work.model_calls, len(model.ledger)) == (0, 1 if kind == "auth" else 2)
    assert result.output.attempts == len(model.ledger)


async def test_a_failure_that_passes_costs_a_retry_and_nothing_else(model, tmp_path):
    """Attempts and answered calls are counted apart; the agent never hears of it."""
    result = await one(model, "flaky", tmp_path=tmp_path)

    assert result.work.outcome is WorkOutcome.PASSED
    assert (result.work.model_calls, result.output.attempts, len(model.ledger)) == (3, 4, 4)


async def test_a_request_of_the_agent_s_making_that_is_refused_counts_as_wrong(model, tmp_path):
    """The server took its words before, and they were passed on as they were: nobody else can have spoilt this one."""
    result = await one(model, "then-400", tmp_path=tmp_path)
    assert result.work.outcome is WorkOutcome.REJECTED
    assert (result.outcome, result.failure, result.scores["check"].value) == (Outcome.ANSWERED, None, 0.0)


@pytest.mark.parametrize(
    ("name", "provider"),
    [("status-400", "openai"), ("then-500", "openai"), ("then-400", "anthropic")],
    ids=["never answered", "the server's own failure", "translated by us"],
)
async def test_a_refusal_that_may_be_somebody_else_s_doing_is_left_out(model, tmp_path, name, provider):
    result = await one(model, name, tmp_path=tmp_path, provider=provider)
    assert result.work.outcome is WorkOutcome.PROVIDER_ERROR
    assert result.outcome is Outcome.FAILED and not result.scores


async def test_a_full_context_is_told_as_such(model, tmp_path):
    result = await one(model, "context", tmp_path=tmp_path)

    assert result.work.outcome is WorkOutcome.CONTEXT
    assert (result.failure, result.primary.value) == (None, 0.0)


@pytest.mark.parametrize("agent", [WHOLE, STREAMED])
async def test_a_call_in_flight_when_time_is_up_is_written_down(agent, model, tmp_path):
    """And the model is told to stop at once."""
    model.slow_s = 30
    result = await one(model, "slow", agent, tmp_path=tmp_path, tasks=TaskRules(timeout_s=2, follow_ups=0))

    assert result.work.outcome is WorkOutcome.TIMEOUT
    (cut,) = [step for step in result.transcript if step.data.get("aborted")]
    assert cut.data["estimated"]
    assert result.work.model_calls == 1
    for _ in range(100):
        await asyncio.sleep(0.02)
        if model.hung_up:
            break
    assert model.hung_up == ["slow"]


async def test_what_a_silent_server_consumed_is_estimated_and_marked(model, tmp_path):
    result = await one(model, "nousage", tmp_path=tmp_path)

    calls = [step for step in result.transcript if step.kind == "call"]
    assert result.work.outcome is WorkOutcome.PASSED
    assert all(step.data["estimated"] for step in calls)
    assert result.output.usage.input_tokens > 0
    assert result.output.usage.cost_usd is None


async def test_questions_by_tool_are_counted(model, tmp_path):
    """A model that turns to a person by the agent's asking tool, and changes nothing."""
    result = await one(model, "ask-tool", tmp_path=tmp_path)

    assert result.work.outcome is WorkOutcome.QUESTION
    assert result.work.questions == 2
    asked = [step.text for step in result.transcript if step.kind == "question"]
    assert asked[0] == "Which spelling do you want?"


async def test_follow_ups_go_through_the_same_gateway(model, tmp_path):
    result = await one(model, "noop", tmp_path=tmp_path, tasks=TaskRules(timeout_s=60, follow_ups=2))

    assert result.work.outcome is WorkOutcome.NO_CHANGE
    assert (result.work.prompts_sent, result.work.model_calls) == (3, 3)


async def test_four_trials_at_once_are_kept_apart(model, tmp_path):
    """Each has a gateway of its own: no call is counted twice, or for another."""
    trials = [trial(reference(model, f"shell.{n}"), STREAMED if n % 2 else WHOLE) for n in range(3)]
    trials.append(trial(reference(model, "loop.3"), WHOLE, max_model_calls=5))
    found = await results(*trials, tmp_path=tmp_path)

    assert [result.work.model_calls for result in found] == [3, 4, 3, 5]
    assert [len(model.asked_of(t.model.name)) for t in trials] == [3, 4, 3, 5]
    assert [result.work.outcome for result in found] == [WorkOutcome.PASSED] * 3 + [WorkOutcome.BUDGET]


@pytest.mark.parametrize("agent", [WHOLE, STREAMED])
async def test_the_real_key_stays_with_us(agent, model, tmp_path):
    """Even when the server repeats it: it is in no answer, no transcript, no variable."""
    result = await one(model, "keyed", agent, tmp_path=tmp_path)

    assert KEY in model.ledger[0].headers["Authorization"]
    assert KEY not in repr(result)
    assert "[hidden]" in result.output.text


async def test_no_key_can_be_found_from_inside(model, tmp_path):
    """Not in a variable, a process, the home, the workspace or a file of the system's."""
    result = await one(model, "noop", "support.chat_agent:Spy", tmp_path=tmp_path)

    assert "PATH=" in result.output.text
    assert KEY not in result.output.text


async def test_a_run_whose_budget_is_spent_stops_the_agent(model, tmp_path):
    """The trial has no result, and is asked again when the run goes on."""
    tried = trial(reference(model, "loop"), WHOLE)
    rules = TaskRules(timeout_s=60, follow_ups=0)
    spec = spec_of([tried.model], "x", tmp_path, tasks=rules, max_total_tokens=3000)
    events = [event async for event in execute([assignment([tried])], spec, kinds=TASKS)]

    assert not [event for event in events if isinstance(event, TrialFinished)]
    (end,) = [event for event in events if isinstance(event, ContestantFinished)]
    assert end.state is ContestantState.OUT_OF_BUDGET
    assert len(model.ledger) < 5


async def test_recorded_answers_are_played_back_through_the_gateway(model, tmp_path):
    """A recorded run repeats itself without a model."""
    folder = tmp_path / "recorded"
    first = await one(model, "shell", STREAMED, tmp_path=tmp_path, record_dir=folder)
    asked = len(model.ledger)
    again = await one(model, "shell", STREAMED, tmp_path=tmp_path, replay_dir=folder)

    assert first.work.outcome is again.work.outcome is WorkOutcome.PASSED
    assert len(model.ledger) == asked
    assert again.work.model_calls == first.work.model_calls == 4


async def test_an_agent_without_a_gateway_cannot_ask_for_one(model, tmp_path):
    result = await one(model, "noop", "support.chat_agent:Undeclared", tmp_path=tmp_path)

    assert result.work.outcome is WorkOutcome.AGENT_ERROR
    assert "uses_gateway" in result.failure.message


@pytest.mark.needs("landlock")
async def test_without_a_network_of_its_own_the_agent_is_led_to_a_port_with_a_key(model, tmp_path, monkeypatch):
    """A port can be reached by others too: the agent's key is then no dummy."""
    from tiebreak.sandbox import isolation

    async def weaker(**_):
        return isolation.isolation_at("landlock")

    monkeypatch.setattr(isolation, "detect_isolation", weaker)
    result = await one(model, "shell", tmp_path=tmp_path)

    assert result.work.outcome is WorkOutcome.PASSED, result.failure
    assert result.work.isolation.level == "landlock"
    assert result.work.model_calls == 3
