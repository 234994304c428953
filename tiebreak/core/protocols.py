"""What a plugin must be. Nothing here is inherited from; having the methods is enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from tiebreak.core.batch import Batches
from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.events import Event
from tiebreak.core.message import Likelihood, Message, Reply, StreamEvent, Tool
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output, Score
from tiebreak.core.work import Finished, Gateway, PermissionOption, PermissionRequest, Verdict, Workspace

Watcher = Callable[[Event], Awaitable[object] | None]
"""Is told what happened, once it is on disk. What it returns, if anything, is awaited before the next is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where one provider's models are reached and with which key; never stored, never shown."""

    base_url: str = ""
    api_key: str = ""
    max_connections: int = 64
    threads: int | None = None

    def __repr__(self) -> str:
        return f"Endpoint(base_url={self.base_url!r})"


class Listener(Protocol):
    """Hears a streamed answer while it comes; what is never streamed comes as the reply alone."""

    @property
    def begun(self) -> bool:
        """Whether something was passed on already, which cannot be taken back: the call is not tried again."""
        ...

    def hear(self, event: StreamEvent) -> None:
        """The next event of the answer."""
        ...

    def hear_verbatim(self, data: bytes, events: Sequence[StreamEvent]) -> None:
        """When the request was sent verbatim: the answer's next bytes as they came, and the events they tell of."""
        ...


class Generates(Protocol):
    """Answers requests: a provider, or something that stands before one."""

    async def likelihood(self, model: str, messages: Sequence[Message], continuation: str, *, raw: bool = False) -> Likelihood:
        """How likely a model finds a continuation; only for providers that say `tells_likelihood`."""
        ...

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Answer one request, or raise ProviderError."""
        ...


class Provider(Protocol):
    """Serves models. One instance is opened per contestant and endpoint, and closed at its end."""

    name: ClassVar[str]
    key_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables the key may be in; empty when none is needed."""
    url_variables: ClassVar[tuple[str, ...]] = ()
    local: ClassVar[bool] = False
    reference: ClassVar[bool] = False
    unsupported: ClassVar[frozenset[str]] = frozenset()
    """Settings and abilities its requests have no word for; abilities are image, file, tools and schema."""
    tells_likelihood: ClassVar[bool] = False
    """Whether it has `likelihood`: how likely a model finds a text."""
    takes_batches: ClassVar[bool] = False
    """Whether it has `batches`: many requests in one file, at a lower price."""

    @classmethod
    def lacking(cls, base_url: str) -> str:
        """What has to be set before anything can be sent, besides a key, in a sentence; empty where nothing is missing."""
        return ""

    @classmethod
    def dialects(cls, base_url: str) -> frozenset[str]:
        """Wire formats it passes on as they are."""
        return frozenset()

    @classmethod
    def required_settings(cls, name: str) -> Mapping[str, Any]:
        """Settings that every request for this model must have, and their values where the user sets none."""
        return {}

    @classmethod
    def lacks(cls, name: str) -> frozenset[str]:
        """What this model cannot take although the provider's requests have a word for it: image, file, tools, schema."""
        return frozenset()

    def __init__(self, endpoint: Endpoint) -> None: ...

    async def open(self, model: ModelRef) -> None:
        """Get ready to serve this model: connect, load, or nothing."""
        ...

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Answer one request, or raise ProviderError. Who streams tells the listener."""
        ...

    async def likelihood(self, model: str, messages: Sequence[Message], continuation: str, *, raw: bool = False) -> Likelihood:
        """How likely a model finds a continuation; only where `tells_likelihood`."""
        message = "this model's provider does not tell how likely a text is; leave out --likelihood"
        raise ProviderError(message, kind=FailureKind.BAD_REQUEST)

    def batches(self) -> Batches:
        """Its batch jobs; only where `takes_batches`."""
        raise NotImplementedError

    async def list_models(self) -> Sequence[str]:
        """Names of the models this endpoint has now."""
        ...

    async def close(self) -> None:
        """Let go of connections and processes."""
        ...


class AskContext(Protocol):
    """What the engine hands to agents and scorers: the only way to a model."""

    async def ask(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), vote: int = 0) -> Reply:
        """Call the trial's model: within its limits, with retries, metered. `vote` tells apart calls that ask the same."""
        ...

    async def likelihood(self, messages: Sequence[Message], continuation: str, *, raw: bool = False) -> Likelihood:
        """How likely the trial's model finds a continuation as its answer to the messages; `raw`: of their bare text."""
        ...

    async def judge(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """Call the model that judges, asking for an answer of this schema; metered apart from the trial."""
        ...

    async def run_code(self, code: str, *, timeout_s: float = 10.0) -> Finished:
        """Run a Python program in a sandbox; raises SandboxError where that cannot be done safely."""
        ...

    async def run_tests(self, program: str, tests: str, *, timeout_s: float = 10.0) -> Finished:
        """Run assertions about a Python program, which runs in a sandbox they are not in; the exit code is 0 when they held."""
        ...

    def note(self, kind: str, text: str, *, actor: str = "agent", **data: Any) -> None:
        """Add a step to the trial's transcript, and show it as what is going on. A question is counted."""
        ...


class TaskContext(AskContext, Protocol):
    """The same for a coding task, which also has a folder to work in and a check."""

    @property
    def workspace(self) -> Workspace:
        """The trial's own folder."""
        ...

    @property
    def gateway(self) -> Gateway:
        """Where a program inside the workspace finds the trial's model; only for agents that say `uses_gateway`."""
        ...

    @property
    def permission_policy(self) -> str:
        """How an agent's requests for permission are answered: allow, deny or person; empty when all is permitted."""
        ...

    async def review(self, said: str) -> str | None:
        """Hand the work back with the agent's last words: the next prompt, or None when it is over."""
        ...

    async def verify(self) -> Verdict:
        """What the task's check says of the workspace as it is."""
        ...


class Agent(Protocol):
    """Puts a model to work on a sample."""

    works_on: ClassVar[frozenset[str]] = frozenset({"task"})
    """question, task, or both. One that works on questions gets an AskContext there."""
    control: ClassVar[bool] = False
    """It proves a task rather than a model, and is never ranked."""
    does_solution: ClassVar[bool] = False
    """It does what the task's own solution does: a check that fails it is broken, and says nothing about anybody."""
    uses_gateway: ClassVar[bool] = False
    speaks_acp: ClassVar[bool] = False
    """Whether it can ask for permission to act, by the Agent Client Protocol."""
    converses: ClassVar[bool] = False
    """Whether it takes up a question's own tools and its further turns."""
    code_options: ClassVar[frozenset[str]] = frozenset()
    """Its options that hold a Python file, which it is given as a module; never in data."""
    functions: frozenset[str] = frozenset()
    """Names of the tools that functions of the user's own answer."""
    program: str = ""
    """The program that must be installed; empty for none."""
    install: str = ""
    """The one line that installs it."""
    permissions: str = ""
    """How it is allowed to act, in its own words."""

    async def run(self, sample: Sample, context: TaskContext) -> Output:
        """Bring back what the sample asks for."""
        ...


class Attendant(Protocol):
    """A person who helps an agent that got stuck, or permits it to act."""

    async def answer(self, sample: Sample, said: str, verdict: Verdict, workspace: Workspace) -> str | None:
        """What to say to the agent next, or None when it is left at that. The person may change files meanwhile."""
        ...

    async def permit(self, sample: Sample, request: PermissionRequest) -> PermissionOption | None:
        """Which of the options the person takes; None when they refuse by taking none."""
        ...


class Scorer(Protocol):
    """Judges an output. What a model may say never makes it raise; what it raises fails the trial, not the contestant."""

    version: ClassVar[int]
    """Raised when the same answer may now be judged otherwise; part of the protocol."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Parts of the sample it judges by (`targets`, `choices`, or keys of the metadata), any one of which will do."""
    reads_likelihoods: ClassVar[bool] = False
    """It reads what the agent `likelihood` brings back, and nothing else."""
    needs_judge: ClassVar[bool] = False
    """It asks the model that judges. With several judges it is called once for each."""
    majority: bool = False
    """With several judges: what more than half of them say, instead of their mean."""
    takes_code: ClassVar[bool] = False
    """Behind its colon may stand a Python file, which it is given as a module; never in data."""
    needs_workspace: ClassVar[bool] = False
    """It judges a coding task by its workspace, gets a TaskContext, and cannot judge again once that is gone."""

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Say how right the output is, and why."""
        ...


@runtime_checkable
class LooksAtSamples(Protocol):
    """A scorer that knows of some samples beforehand that it could never judge rightly."""

    def unfit(self, sample: Sample) -> str:
        """Why answers to the sample could not be judged; empty when they can be."""
        ...


@runtime_checkable
class ComparesAnswers(Protocol):
    """A scorer that says which of two answers is better."""

    async def prefer(self, sample: Sample, first: str, second: str, context: AskContext) -> tuple[int, str]:
        """0 for a tie, 1 or 2 for an answer; and why."""
        ...


class Row(Protocol):
    """One sample of a race, once everyone still in it has answered: by contestant the score, None where there is none."""

    @property
    def group(self) -> str:
        """What the sample stands or falls with; empty for nothing."""
        ...

    @property
    def scores(self) -> Mapping[str, float | None]:
        """Of everyone still in the race."""
        ...

    @property
    def second(self) -> Mapping[str, float | None]:
        """The same by a second reading of the answers, with failures counted as wrong."""
        ...

    @property
    def costs(self) -> Mapping[str, float | None]:
        """What each one's answers cost, in dollars; None where that is not known."""
        ...


class Strategy(Protocol):
    """Says, from what was answered so far, who need not be asked any more. It is made anew when a run is resumed."""

    def __init__(self, contestants: Sequence[str], planned: int) -> None:
        """Who races, and over how many samples at most."""
        ...

    def observe(self, row: Row) -> None:
        """The next sample, in the order of the plan."""
        ...

    def decided(self) -> Mapping[str, str]:
        """Whoever need not be asked any more, and why, in words that follow "stopped after 212 of 1,000:"."""
        ...


class Dataset(Protocol):
    """Samples that can be reached by position, so that a run need not hold them all."""

    name: str
    digest: str
    """Identity of the content."""
    scorers: tuple[str, ...]
    """Every scorer its samples use."""
    about: str
    shuffle: Sequence[int]
    """For each position a number that looks random but depends on the sample's id alone."""
    categories: Sequence[int]
    """For each position the number of its category."""
    form: str = ""
    """Its protocol in words, where it follows a reference."""
    public_since: int | None = None
    has_shots: bool = False
    """It puts worked examples before its questions itself."""
    kinds: frozenset[str] = frozenset({"question"})
    """What its samples are: question, task, or both."""
    needs: frozenset[str] = frozenset()
    """What some of its samples need besides text; see `Sample.needs`."""
    ignored: Sequence[str] = ()
    """Columns that nothing was made of."""
    skipped: Sequence[tuple[str, str]] = ()
    """What was left out, and why."""
    profile: Any = None
    """What was noticed of all samples while they were loaded, where they are too many to look at again."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int, /) -> Sample: ...
