"""A log of another tool in our words: what every reader of logs makes, and makes it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tiebreak.core.contestant import AgentRef, Contestant
from tiebreak.core.model import ModelRef
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Trial, TrialResult, make_trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One model's results on one task."""

    path: Path
    task: str
    model: ModelRef
    made_with: str
    created_at: datetime
    results: Sequence[TrialResult]
    questions: Mapping[str, str]
    """By sample, a digest of what is asked, without what is wrapped around it for one model."""
    recorded: Mapping[str, float] = field(default_factory=dict)
    """What the other tool wrote down as its figures."""

    @property
    def scorers(self) -> tuple[str, ...]:
        """Every scorer of its samples."""
        return tuple(dict.fromkeys(name for result in self.results for name in result.trial.sample.scorers))


def model_ref(name: str) -> ModelRef:
    """A model as another tool names it; nobody asks it anything."""
    provider, slash, rest = name.partition("/")
    return ModelRef(provider=provider if slash else "imported", name=rest or name, label=name, verified=False)


def trial_of(sample: Sample, model: ModelRef, *, repeat: int = 0, agent: str = "direct") -> Trial:
    """The trial of a sample; `direct` just asked, `likelihood` weighed the choices."""
    contestant = Contestant(label=model.label, model=model, agent=AgentRef(name=agent))
    return make_trial(sample, contestant, repeat)


def parse_time(text: str) -> datetime:
    """A time as it was written down; the beginning of time where none was."""
    try:
        made = datetime.fromisoformat(text)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return made if made.tzinfo else made.replace(tzinfo=UTC)
