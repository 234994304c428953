"""How fast contestants answer, measured apart from the run: a few samples, one request at a time.

While a run goes, many requests wait at the same server. What it takes to answer one of them says more about how many
there are than about the model.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from msgspec import structs

from tiebreak.core.contestant import Contestant
from tiebreak.core.events import TrialFinished
from tiebreak.core.trial import Outcome, Trial
from tiebreak.engine.budget import Amount
from tiebreak.engine.execute import Assignment, execute
from tiebreak.engine.plan import Plan
from tiebreak.engine.stop import Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedAnswer:
    """One answer that nothing else was in the way of."""

    contestant: str
    asked: str
    model_s: float
    first_token_s: float | None
    cost_usd: float | None


async def time_answers(plan: Plan, *, spent: Amount, stop: Stop | None = None) -> AsyncIterator[TimedAnswer]:
    """Ask the first samples again, contestant after contestant, one at a time; nothing is judged or remembered."""
    spec = plan.spec
    alone = replace(spec.pace, max_workers=1, max_connections=1, cache_dir="", record_dir="", replay_dir="")
    contestants = [c for c in spec.contestants if not c.reference]
    todo = [Assignment(contestant=c, trials=_trials(plan, c), count=spec.pace.timed_samples) for c in contestants]
    async for event in execute(todo, replace(spec, pace=alone), stop=stop, already_spent=spent):
        if isinstance(event, TrialFinished) and (output := event.result.output) and event.result.outcome is not Outcome.FAILED:
            trial, timing, usage = event.result.trial, output.timing, output.usage
            yield TimedAnswer(
                contestant=trial.contestant.label,
                asked=trial.asked,
                model_s=timing.model_s,
                first_token_s=timing.first_token_s,
                cost_usd=usage.cost_usd if usage else None,
            )


def _trials(plan: Plan, contestant: Contestant) -> Iterator[Trial]:
    questions = (t for t in plan.trials(contestant) if t.repeat == 0 and t.sample.task is None)
    return (_unscored(trial) for trial in islice(questions, plan.spec.pace.timed_samples))


def _unscored(trial: Trial) -> Trial:
    return structs.replace(trial, sample=structs.replace(trial.sample, scorers=()))
