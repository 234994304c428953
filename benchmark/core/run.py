"""What a user asked for, validated once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from benchmark.core.model import ModelRef


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how long one call may be tried again."""

    max_attempts: int = 6
    max_wait_s: float = 900.0
    """Most seconds of waiting between the attempts of one call."""
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    same_failures: int = 5
    """The same failure so often running is no accident: it would come again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a dataset's rows are, how they are read, and which of them are asked."""

    path: str = ""
    """A local copy of a registered dataset: its file or folder."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Columns of the file and what they are in our words."""
    shots: int | None = None
    """Worked examples before each question; None: as many as the dataset's protocol has."""
    likelihood: bool = False
    """Choices are compared by their likelihood instead of being asked for."""
    ids: tuple[str, ...] = ()
    """Only samples whose id fits one of these patterns (with * and ?); none: all."""
    categories: tuple[str, ...] = ()
    """Only samples whose category fits one of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompting:
    """The words around a question."""

    system: str = ""
    template: str = ""
    """With {question} and, where there are choices, {choices} and {letters}."""
    cot: bool = False
    """Reason first, then state the answer on a line of its own."""
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkSettings:
    """How coding tasks are worked on."""

    timeout_s: float = 1800.0
    """Most seconds per model and task; a task may set less."""
    max_model_calls: int = 50
    follow_ups: int = 1
    """How often the failing check's output is sent back."""
    ask_permissions: str = ""
    """allow or deny: agents ask for leave to act, and are answered so; person: by whoever attends; empty: all leave is
    given beforehand."""
    allow_unsandboxed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One run: which models, which questions, how."""

    models: tuple[ModelRef, ...]
    dataset: str
    results_dir: Path
    source: Source = field(default_factory=Source)
    prompting: Prompting = field(default_factory=Prompting)
    scorers: tuple[str, ...] = ()
    """Instead of the samples' own; the first is the primary one."""
    judge: ModelRef | None = None
    """The model that judges, where a scorer needs one."""
    agents: tuple[str, ...] = ("direct",)
    limit: int | None = None
    repeats: int = 1
    seed: int = 0
    max_workers: int = 1
    """Models at once."""
    max_connections: int | None = None
    """Requests in flight per model; None: one to a local model, to others as many as their account takes."""
    timeout_s: float | None = None
    """Most seconds per model."""
    request_timeout_s: float = 600.0
    """Most seconds per attempt of one call."""
    max_cost_usd: float | None = None
    """Most dollars of the whole run, what it spent before it was resumed included."""
    max_total_tokens: int | None = None
    """Most tokens, sent and generated, of the whole run."""
    max_time_s: float | None = None
    """Most seconds of this session, for all models together."""
    stream: bool = False
    """Have answers streamed, so that the time to the first token is known."""
    record_dir: Path | None = None
    """Write every exchange down here."""
    replay_dir: Path | None = None
    """Answer from what was written down here; nothing is sent."""
    cache_dir: Path | None = None
    """Remember answers here between runs."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    retry_failed: bool = False
    """On resume, ask again also what failed by the model's own doing."""
    command: str = ""
    """How to repeat this run."""
    work: WorkSettings | None = None
    """Set when the samples are coding tasks."""


def scorer_name(versioned: str) -> str:
    """A scorer as a protocol lists it, without its version; those of other tools have none."""
    name, _, version = versioned.rpartition("/")
    return name if version.isdecimal() and name else versioned


IMPORTED = "imported: "
"""How the form of a protocol begins that another tool followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How the questions were put. Results of different protocols are never compared silently."""

    dataset: str
    dataset_digest: str
    template_digest: str
    scorers: tuple[str, ...]
    agent: str
    """The agents, where there are several separated by commas."""
    limit: int | None
    repeats: int
    seed: int
    source: Source = field(default_factory=Source)
    prompting: Prompting = field(default_factory=Prompting)
    form: str = ""
    """The dataset's protocol in words, with what it can be compared with."""
    public_since: int | None = None
    """The year since which models may have seen the answers."""
    chosen_scorers: tuple[str, ...] = ()
    judge: ModelRef | None = None
    follow_ups: int = 0

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents by name."""
        return tuple(self.agent.split(","))

    @property
    def imported(self) -> bool:
        """Whether another tool asked: what was asked stands in the store alone, there is no dataset to ask from."""
        return self.form.startswith(IMPORTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What a store says of its run: enough to go on with it, and to say how it was made."""

    run_id: str
    created_at: datetime
    command: str
    protocol: Protocol
    models: tuple[ModelRef, ...]
    planned: int
    """Trials per model."""
    made_with: str
    """Versions of the tool and of Python, and the kind of machine."""
