"""What a user asked for, validated once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from tiebreak.core.contestant import Contestant
from tiebreak.core.digest import order_key
from tiebreak.core.model import ModelRef
from tiebreak.core.sample import Sample


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
    encoding: str = ""
    """How the characters of a text file are encoded; empty: UTF-8, or as its byte order mark says."""
    shots: int | None = None
    """Worked examples before each question; None: as many as the dataset's protocol has."""
    likelihood: bool = False
    """Choices are compared by their likelihood instead of being asked for."""
    ids: tuple[str, ...] = ()
    """Only samples whose id fits one of these patterns (with * and ?); none: all."""
    categories: tuple[str, ...] = ()
    """Only samples whose category fits one of these."""
    without_target: bool = False
    """Rows need no target: answers are judged by something else."""
    sandbox: str = ""
    """The container engine that makes the images of tasks; empty: tasks that need one are skipped."""
    workspace: str = ""
    """The folder that tasks without files of their own are worked on in, as a copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRules:
    """What an attempt at a coding task may use, and who helps."""

    timeout_s: float = 1800.0
    """Most seconds per attempt; a task may set less, unless this was asked for."""
    max_model_calls: int = 50
    timeout_asked: bool = False
    """The seconds were asked for: they hold for every task, also where it sets less or more."""
    calls_asked: bool = False
    """The same of the model calls."""
    follow_ups: int = 1
    """How often the failing check's output is sent back."""
    ask_permissions: str = ""
    """allow or deny: agents ask for permission to act, and are answered so; person: by whoever attends; empty: everything
    is permitted beforehand."""
    allow_unsandboxed: bool = False


def scorer_name(versioned: str) -> str:
    """A scorer as a protocol lists it, without its version; those of other tools have none."""
    name, _, version = versioned.rpartition("/")
    return name if version.isdecimal() and name else versioned


ALL = "all"
"""Nobody leaves early, though somebody may have before."""
IN_MEMORY = "samples from Python"
"""The dataset of a run whose samples a program made: they are kept beside the store."""
SAMPLES_FILE = "samples.jsonl"
"""Where they are kept, in the run's folder."""
IMPORTED = "imported: "
"""How the form of a protocol begins that another tool followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What is compared: which samples, put how often, judged by what. Results of different protocols are never mixed."""

    dataset: str
    dataset_digest: str = ""
    """Identity of its content; empty until the dataset was loaded."""
    source: Source = field(default_factory=Source)
    limit: int | None = None
    repeats: int = 1
    seed: int = 0
    chosen_scorers: tuple[str, ...] = ()
    """Instead of the samples' own; the first is the primary one."""
    scorers: tuple[str, ...] = ()
    """Every scorer that judges, with its version; empty until the dataset was loaded."""
    judges: tuple[ModelRef, ...] = ()
    """The models that judge, where a scorer needs any."""
    tasks: TaskRules = field(default_factory=TaskRules)
    choose_on: str = ""
    """half: the best contestant is chosen on one half of the samples and tested on the other; empty: on all."""
    until: str = ""
    """The strategy by which contestants leave early, `all` for one that no longer does, empty for none ever."""
    form: str = ""
    """The dataset's own protocol in words, with what it can be compared with."""
    public_since: int | None = None
    """The year since which models may have seen the answers."""

    @property
    def races(self) -> bool:
        """Whether contestants may leave before the end of the plan."""
        return self.until not in ("", ALL)

    @property
    def imported(self) -> bool:
        """Whether another tool asked: what was asked stands in the store alone, there is no dataset to ask from."""
        return self.form.startswith(IMPORTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast, and how much. It changes no answer: a resumed run may have another one."""

    max_workers: int = 1
    """Contestants at once."""
    max_connections: int | None = None
    """Requests in flight per model; None: one to a local model, to others as many as their account takes."""
    timeout_s: float | None = None
    """Most seconds per contestant."""
    request_timeout_s: float = 600.0
    """Most seconds per attempt of one call."""
    max_cost_usd: float | None = None
    """Most dollars of the whole run, what it spent before it was resumed included."""
    max_total_tokens: int | None = None
    """Most tokens, sent and generated, of the whole run."""
    max_time_s: float | None = None
    """Most seconds of one session, for all contestants together."""
    stream: bool = False
    """Have answers streamed, so that the time to the first token is known."""
    batch: bool = False
    """Have providers answer in batches, at a lower price, where they can."""
    poll_s: float = 30.0
    """Seconds between two looks at a batch."""
    timed_samples: int = 0
    """Samples that are asked again after the run, one at a time, to measure how fast each contestant answers."""
    record_dir: str = ""
    """Write every exchange down here."""
    replay_dir: str = ""
    """Answer from what was written down here; nothing is sent."""
    cache_dir: str = ""
    """Remember answers here between runs."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of the parts a run is cut into, to be asked by itself and merged with the others afterwards."""

    number: int
    """From 1."""
    of: int

    def holds(self, sample: Sample) -> bool:
        """Whether a sample belongs here; samples of one group stay together."""
        return order_key("shard", sample.group or sample.id) % self.of == self.number - 1

    @property
    def words(self) -> str:
        """As the flag spells it."""
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One run: what is compared, who competes, how fast."""

    protocol: Protocol
    contestants: tuple[Contestant, ...]
    pace: Pace = field(default_factory=Pace)
    results_dir: Path
    retry_failed: bool = False
    """On resume, ask again also what failed by the contestant's own doing."""
    detach: bool = False
    """Do not wait for the answers of batches: who resumes the run collects them."""
    command: str = ""
    """How to repeat this run."""
    shard: Shard | None = None
    """The part of the run that is asked; None: all of it."""

    def share(self) -> RunSpec:
        """What this shard may use: its part of the caps and of the rates that are set for the whole run."""
        if self.shard is None:
            return self
        of, pace = self.shard.of, self.pace
        cost, tokens = pace.max_cost_usd, pace.max_total_tokens
        pace = replace(
            pace,
            max_cost_usd=None if cost is None else cost / of,
            max_total_tokens=None if tokens is None else max(1, tokens // of),
        )
        return replace(self, pace=pace, contestants=tuple(_slowed(contestant, of) for contestant in self.contestants))

    @property
    def models(self) -> tuple[ModelRef, ...]:
        """Every model that is asked, each once, in the order of the contestants."""
        return tuple({contestant.model.digest: contestant.model for contestant in self.contestants}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What a store says of its run: enough to go on with it, and to say how it was made."""

    run_id: str
    created_at: datetime
    command: str
    protocol: Protocol
    contestants: tuple[Contestant, ...]
    pace: Pace = field(default_factory=Pace)
    planned: int
    """Trials per contestant."""
    planned_tasks: int = 0
    """Of these, attempts at coding tasks."""
    shard: Shard | None = None
    whole: tuple[int, int] = (0, 0)
    """Of a shard: what is planned, and of these attempts at coding tasks, in all shards together."""
    made_with: str
    """Versions of the tool and of Python, and the kind of machine."""

    @property
    def samples(self) -> int:
        """Samples that every contestant is asked."""
        return self.planned // max(1, self.protocol.repeats)


def resumed(info: RunInfo, folder: Path) -> RunSpec:
    """The run a store holds, to go on with: the one way back from a store to a spec."""
    protocol = beside_store(info.protocol, folder)
    return RunSpec(
        protocol=protocol,
        contestants=info.contestants,
        pace=info.pace,
        results_dir=folder,
        command=info.command,
        shard=info.shard,
    )


def _slowed(contestant: Contestant, of: int) -> Contestant:
    limits = contestant.model.limits
    rpm, tpm = (None if rate is None else max(1, rate // of) for rate in (limits.rpm, limits.tpm))
    return replace(contestant, model=replace(contestant.model, limits=replace(limits, rpm=rpm, tpm=tpm)))


def beside_store(protocol: Protocol, folder: Path) -> Protocol:
    """The protocol with its samples where the run's folder is now, if they are kept there."""
    if protocol.dataset != IN_MEMORY:
        return protocol
    return replace(protocol, source=replace(protocol.source, path=str((folder / SAMPLES_FILE).resolve())))
