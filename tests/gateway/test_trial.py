"""A coding agent in the sandbox, its model behind the gateway: what is counted, what is kept apart, what ends a trial."""

from __future__ import annotations

import pytest
from support.agent_model import DONE, USAGE, AgentModel

from benchmark.core.events import TrialFinished
from benchmark.core.message import user
from benchmark.core.model import ModelRef
from benchmark.core.run import RetryPolicy, RunSpec, WorkSettings
from benchmark.core.sample import Sample
from benchmark.core.task import Check, Task, TaskFile, TaskLimits
from benchmark.core.trial import Trial, TrialResult, trial_id
from benchmark.core.work import WorkOutcome
from benchmark.engine.execute import Lane, execute

pytestmark = pytest.mark.needs("bubblewrap")

WHOLE, STREAMED = "support.chat_agent:ChatAgent", "support.chat_agent:StreamingAgent"


def reference(model: AgentModel, name: str, provider: str = "openai", **more) -> ModelRef:
    urls = {"openai": f"{model.url}/v1", "anthropic": model.url, "google": model.url, "ollama": model.url}
    variable = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "google": "GOOGLE_API_KEY"}.get(provider, "")
    return ModelRef(
        provider=provider, name=name, label=f"{provider}/{name}", base_url=urls[provider], key_variable=variable, **more
    )


def task(**limits) -> Task:
    return Task(
        files=(TaskFile(path="README.md", content=b"This is teh demo.\n"),),
        check=Check(script="grep -q 'This is the demo' README.md"),
        limits=TaskLimits(**limits),
    )


def trial(ref: ModelRef, agent: str, **limits) -> Trial:
    sample = Sample(id="typo", messages=(user("Fix the typo in README.md."),), scorers=("check",), task=task(**limits))
    asked = sample.asked_digest
    return Trial(sample=sample, model=ref, agent=agent, repeat=0, asked=asked, id=trial_id(asked, ref.digest, agent, 0))


async def results(*trials: Trial, tmp_path, **spec) -> list[TrialResult]:
    work = spec.pop("work", WorkSettings(timeout_s=60, follow_ups=0))
    retry = RetryPolicy(max_attempts=2, first_wait_s=0.01, longest_wait_s=0.02)
    run = RunSpec(
        models=tuple(t.model for t in trials), dataset="x", results_dir=tmp_path, max_workers=4, work=work, retry=retry, **spec
    )
    lanes = [Lane(model=t.model, trials=iter([t]), count=1) for t in trials]
    events = [event async for event in execute(lanes, run)]
    found = [event.result for event in events if isinstance(event, TrialFinished)]
    assert len(found) == len(trials), events[-1]
    return sorted(found, key=lambda result: [t.id for t in trials].index(result.trial.id))


async def one(model: AgentModel, name: str, agent: str = WHOLE, *, tmp_path, provider="openai", limits=None, **spec):
    return (await results(trial(reference(model, name, provider), agent, **(limits or {})), tmp_path=tmp_path, **spec))[0]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google", "ollama"])
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
    assert {asked.dialect for asked in model.ledger} == {
        {"openai": "chat", "anthropic": "messages", "google": "gemini"}.get(provider, provider)
    }


async def test_streams_side_calls_and_first_tokens_are_told(model, tmp_path):
    """A call without tools beside others with tools is a side call; a streamed answer has a first token."""
    result = await one(model, "shell", STREAMED, tmp_path=tmp_path)

    assert result.work.outcome is WorkOutcome.PASSED, result.failure
    assert (result.work.model_calls, result.work.side_calls) == (4, 1)
    assert result.output.timing.first_token_s > 0
    assert [asked.request.stream for asked in model.ledger] == [True] * 4
