"""What is looked at before money is spent: the expected cost, and whether the models answer at all."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tiebreak.core.errors import FailureKind, UsageError
from tiebreak.core.trial import Failure
from tiebreak.pipeline import Estimate, Plan, estimate, preflight, shares_left, to_ask
from tiebreak.registry import make_agent

ASK_ABOVE_USD = 1.0
"""What a run may be expected to cost without anybody having consented to it."""


def expected_spending(plan: Plan) -> Estimate | None:
    """What a run will cost; None where nothing is sent, or where it depends on how coding tasks go."""
    if plan.spec.pace.replay_dir or plan.tasks:
        return None
    whole, left = estimate(plan), shares_left(plan)
    return replace(whole, dollars={label: dollars * left.get(label, 1.0) for label, dollars in whole.dollars.items()})


def expected_cost(expected: Estimate) -> str:
    """What a run will cost, in words: how long answers are is known only once there are some."""
    total = expected.total
    known = [f"{label} {in_dollars(dollars.likely)}" for label, dollars in expected.dollars.items()]
    parts = (known if len(known) > 1 else []) + [f"{label} unknown" for label in expected.unknown]
    shares = f" ({', '.join(parts)})" if parts else ""
    ends = f"between {in_dollars(total.low)} and {in_dollars(total.high)}"
    return f"Expected cost: about {in_dollars(total.likely)}, {ends} by the length of the answers{shares}"


def in_dollars(amount: float) -> str:
    """An amount with two digits that mean something."""
    if amount >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.2g}" if amount >= 0.001 else "less than $0.001"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of a tiny call to every hosted model."""

    refused: Mapping[str, Failure]
    """By label, why a model will answer nothing."""
    stops: bool
    """Whether nothing should be asked for it."""

    @property
    def sentences(self) -> list[str]:
        """A line per model that will answer nothing."""
        return [f"{label}  {failure.kind.replace('_', ' ')}: {failure.message}" for label, failure in self.refused.items()]


def refuse_missing_agents(plan: Plan) -> None:
    """Raise for coding agents whose programs are not here: else that is found out attempt by attempt."""
    if not plan.tasks:
        return
    agents = {c.agent.name: make_agent(c.agent) for c in plan.spec.contestants}
    missing = [
        f"the agent {name} needs {agent.program}, which is not installed: {agent.install}"
        for name, agent in agents.items()
        if agent.program and shutil.which(agent.program) is None
    ]
    if missing:
        raise UsageError(f"{'; '.join(missing)}. Nothing was asked: install it, or leave the agent out")


async def try_models(plan: Plan, *, strict: bool = False) -> Tried:
    """Try every hosted model with a tiny call: a dead key or a wrong name costs a second, not an hour.

    A name that does not exist is a mistake and stops everything. A key that is refused does not: the others can be
    compared, unless `strict` says otherwise.
    """
    spec, judges = plan.spec, plan.spec.protocol.judges
    asked = {model.label: model for model in (*(contestant.model for contestant in to_ask(plan)), *judges)}
    refused = {} if spec.pace.replay_dir else await preflight(tuple(asked.values()))
    wrong_name = any(failure.kind is FailureKind.NOT_FOUND for failure in refused.values())
    none_left = all(c.model.label in refused for c in spec.contestants if not c.reference)
    no_judge = any(judge.label in refused for judge in judges)
    return Tried(refused=refused, stops=bool(refused) and (strict or wrong_name or none_left or no_judge))
