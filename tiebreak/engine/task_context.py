"""A coding task from start to end: the agent works in a workspace, and the check alone says how it went."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from tiebreak.core.clock import Clock
from tiebreak.core.endings import WORK, Counts
from tiebreak.core.errors import (
    AgentError,
    BenchmarkError,
    FailureKind,
    OutOfCalls,
    ProviderError,
    RejectedRequest,
    SandboxError,
    UsageError,
)
from tiebreak.core.events import Event, TrialStep
from tiebreak.core.message import Message, Reply, Tool
from tiebreak.core.protocols import Agent, Attendant
from tiebreak.core.run import TaskRules
from tiebreak.core.steps import call_in_words
from tiebreak.core.task import Task
from tiebreak.core.trial import Output, Trial
from tiebreak.core.work import (
    Changes,
    Command,
    Gateway,
    Isolation,
    PermissionRequest,
    Step,
    Verdict,
    Work,
    WorkOutcome,
    Workspace,
)
from tiebreak.engine.agent_work import output_of
from tiebreak.engine.call import Caller
from tiebreak.engine.context import TrialContext
from tiebreak.engine.gateway_calls import GatewayCalls, context_of, gateway_name
from tiebreak.engine.hidden_files import without_hidden_lines
from tiebreak.engine.task_control import SolutionTrials, fails_solution

_LONGEST_STEP = 20_000
_LARGEST_TRANSCRIPT = 2_000_000
_SHOWN_OUTPUT = 6_000
_MOST_TESTS = 5_000
_FOLLOW_UP = "The work was checked and does not pass yet. The check said:\n\n{output}\n\nPlease go on until it passes."
_LOCAL_TURN_TOKENS = 4096
_EMBEDDED_TURN_TOKENS = 512
"""A small local model that has lost its way writes for ever: its turns have an end, unless the user set another. The
embedded runtime's is an eighth of the context it is given."""
_REPOSITORY_S = 120.0
_REPOSITORY = """\
command -v git >/dev/null || exit 0
export GIT_AUTHOR_DATE="2026-01-01T00:00:00Z" GIT_COMMITTER_DATE="2026-01-01T00:00:00Z"
git init -q -b main . && git config user.name agent && git config user.email agent@localhost
git add -A -f . && git commit -q --allow-empty -m start
"""
"""Agents find their way by git: the workspace is a repository with one commit, the same for all, and nothing of its past."""
_NOBODY = "Nobody can answer questions here: decide yourself. "


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSetup:
    """What the coding tasks of a run share."""

    rules: TaskRules
    isolation: Isolation
    clock: Clock
    tell: Callable[[Event], None]
    attendant: Attendant | None = None
    solutions: SolutionTrials | None = None
    """Tries the solution of a task whose check fails; None: a failing check is believed."""

    def seconds_for(self, task: Task) -> float:
        """Most seconds an agent may work on a task: what was asked for, else less than usual where the task says so."""
        own = task.limits.timeout_s
        return self.rules.timeout_s if own is None or self.rules.timeout_asked else min(own, self.rules.timeout_s)

    def calls_for(self, task: Task) -> int:
        """Most calls of the model for a task."""
        own = task.limits.max_model_calls
        return self.rules.max_model_calls if own is None or self.rules.calls_asked else min(own, self.rules.max_model_calls)


class TaskTrialContext(TrialContext):
    """An agent's way to its model and its workspace; everything that happens is counted and written down here."""

    def __init__(self, trial: Trial, caller: Caller, *, setup: TaskSetup, task: Task, workspace: Workspace) -> None:
        super().__init__(_with_ends(trial), caller)
        self._setup = setup
        self._task = task
        self._workspace = workspace
        self._began = setup.clock.monotonic()
        self._aside_s = 0.0
        self._deadline: asyncio.Timeout | None = None
        self._verdict: Verdict | None = None
        self._size = 0
        self.transcript: list[Step] = []
        self.said = ""
        self._model_said = ""
        self.calls = 0
        self.tool_calls = 0
        self.follow_ups = 0
        self.questions = 0
        self.permission_requests = 0
        self.permissions_by_person = 0
        self.manual_edits = 0
        self.person_seconds = 0.0
        self.agent_version = ""
        self.permissions = ""
        self.first_try: bool | None = None
        self.last_was_question = False
        self.gateway_calls = GatewayCalls(self, self._trial, caller, most=setup.calls_for(task))
        self.gateway_key = ""
        self._worker: asyncio.Task[Any] | None = None
        self._halted: BaseException | None = None
        self._one_at_a_time = asyncio.Lock()
        self._proves_task = self._does_solution = False

    @property
    def gateway(self) -> Gateway:
        """Where a program inside the workspace finds the trial's model."""
        address = self._workspace.gateway
        if not address:
            raise AgentError("there is no gateway: an agent that uses one says so by `uses_gateway = True`")
        model = self._trial.model
        return Gateway(
            base_url=f"http://{address}", model=gateway_name(model), key=self.gateway_key, context_window=context_of(model)
        )

    @property
    def permission_policy(self) -> str:
        """How requests for permission are answered."""
        return self._setup.rules.ask_permissions

    @property
    def workspace(self) -> Workspace:
        """The trial's own folder."""
        return self._workspace

    @property
    def worked_s(self) -> float:
        """Seconds since the first prompt; checks and people's time are not in it."""
        return self._setup.clock.monotonic() - self._began - self._aside_s

    async def ask(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), vote: int = 0) -> Reply:
        """Call the trial's model, as often as the task allows."""
        most = self._setup.calls_for(self._task)
        if self.calls >= most:
            raise OutOfCalls(f"the model was called {most} times, which is all the task allows; --max-model-calls raises it")
        began = self._setup.clock.monotonic()
        reply = await super().ask(messages, tools=tools, vote=vote)
        self.count_reply(reply, self._setup.clock.monotonic() - began)
        return reply

    def count_reply(self, reply: Reply, seconds: float, **more: Any) -> None:
        """A call was answered: count it and write it down."""
        self.calls += 1
        self.tool_calls += len(reply.tool_calls)
        self._model_said = "" if reply.tool_calls else reply.text
        usage, hide = reply.usage, self._caller.redact
        tokens = {} if usage is None else {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        asked = [{"name": call.name, "arguments": hide(call.arguments[:_LONGEST_STEP])} for call in reply.tool_calls]
        said = "\n".join(filter(None, (reply.text, *(call_in_words(call.name, call.arguments) for call in reply.tool_calls))))
        self.note("call", said, actor="model", seconds=round(seconds, 3), tools=asked, **tokens, **more)

    def halt(self, reason: BaseException) -> None:
        """Stop the agent: it would only go on asking in vain."""
        if self._worker is not None and self._halted is None:
            self._halted = reason
            self._worker.cancel()

    def note(self, kind: str, text: str, *, actor: str = "agent", **data: Any) -> None:
        """Write a step down and show it. A transcript has an end: what goes on for ever is not kept for ever."""
        text = self._caller.redact(text)
        text = text if len(text) <= _LONGEST_STEP else f"{text[: _LONGEST_STEP // 2]}\n…\n{text[-_LONGEST_STEP // 2 :]}"
        if kind == "agent":
            self.agent_version, self.permissions = str(data.get("version", "")), str(data.get("permissions", ""))
        if kind == "permission":
            self.permission_requests += 1
        if kind == "question":
            self.questions += 1
            self.last_was_question = True
        self._size += len(text) + 100
        if self._size < _LARGEST_TRANSCRIPT:
            self.transcript.append(Step(at_s=round(self.worked_s, 3), kind=kind, actor=actor, text=text, data=data))
        self._show(kind, text)

    def _show(self, phase: str, text: str) -> None:
        usage, trial = self.usage, self._trial
        self._setup.tell(
            TrialStep(
                contestant=trial.contestant.label,
                sample=trial.sample.id,
                phase=phase,
                text=" ".join(text[:300].split()),
                calls=self.calls,
                tokens=0 if usage is None else usage.input_tokens + usage.output_tokens,
                cost_usd=None if usage is None else usage.cost_usd,
            )
        )

    async def verify(self) -> Verdict:
        """What the check says of the workspace as it is."""
        check = self._task.check
        if check is None:
            return Verdict(passed=False, problem="the task has no check")
        if self._verdict is None:
            self._show("checking", "")
            with self._aside():
                self._verdict = await self._workspace.verify(check)
            said = self._verdict.problem or self._verdict.output
            self.note("check", said, actor="runner", passed=self._verdict.passed, seconds=round(self._verdict.seconds, 3))
            if self.first_try is None:
                self.first_try = self._verdict.passed
        return self._verdict

    @contextlib.contextmanager
    def _aside(self) -> Any:
        """Time that is not the agent's: its deadline waits."""
        began = self._setup.clock.monotonic()
        deadline, loop = self._deadline, asyncio.get_running_loop()
        left = None if deadline is None or (when := deadline.when()) is None else when - loop.time()
        if deadline is not None and left is not None:
            deadline.reschedule(None)
        try:
            yield
        finally:
            self._aside_s += self._setup.clock.monotonic() - began
            if deadline is not None and left is not None and not deadline.expired():
                deadline.reschedule(loop.time() + left)

    async def review(self, said: str) -> str | None:
        """The agent is done for now: check its work, and say what comes next."""
        self._heard(said)
        verdict = await self.verify()
        if verdict.passed or verdict.problem:
            return None
        prompt = await (self._from_person(said, verdict) if self._setup.attendant else self._from_runner(verdict))
        if prompt is not None:
            self._verdict = None
            self.follow_ups += 1
            self.last_was_question = False
            self.note("prompt", prompt, actor="person" if self._setup.attendant else "runner")
        return prompt

    def _heard(self, said: str) -> None:
        """Take note of the last words; some agents print more after what the model itself said last."""
        self.said = said
        asked = next((text for text in (said, self._model_said) if _is_question(text)), None)
        if asked is not None and not self.last_was_question:
            self.note("question", asked.rstrip().splitlines()[-1])

    async def _from_runner(self, verdict: Verdict) -> str | None:
        if self.follow_ups >= self._setup.rules.follow_ups:
            return None
        output = without_hidden_lines(verdict.output, self._task).strip() or "(nothing, but it failed)"
        shown = output if len(output) <= _SHOWN_OUTPUT else f"…{output[-_SHOWN_OUTPUT:]}"
        return (_NOBODY if self.last_was_question else "") + _FOLLOW_UP.format(output=shown)

    async def _from_person(self, said: str, verdict: Verdict) -> str | None:
        """Ask whoever attends; what they change by hand counts as their doing."""
        assert self._setup.attendant is not None
        before = await self._workspace.changes()
        began = self._setup.clock.monotonic()
        with self._aside():
            prompt = await self._setup.attendant.answer(self._trial.sample, said, verdict, self._workspace)
        self.person_seconds += self._setup.clock.monotonic() - began
        if (await self._workspace.changes()) != before:
            self.manual_edits += 1
            self._verdict = None
            self.note("edit", "files were changed by hand", actor="person")
        return prompt

    async def permit(self, request: PermissionRequest) -> str:
        """Have whoever attends answer a request for permission: the option taken; empty when the agent offers no refusal."""
        attendant = self._setup.attendant
        if attendant is None or self.permission_policy != "person":
            raise UsageError("nobody is here to be asked for permission")
        async with self._one_at_a_time:
            hide, began = self._caller.redact, self._setup.clock.monotonic()
            options = [hide(option.name) for option in request.options]
            self.note("permission", f"{request.kind}: {request.title}\n{request.details}".strip(), options=options)
            with self._aside():
                chosen = await attendant.permit(self._trial.sample, request) or request.refusal
            self.person_seconds += self._setup.clock.monotonic() - began
            self.permissions_by_person += 1
            said = chosen.name or chosen.kind if chosen else "refused"
            self.note("answer", said, actor="person", allowed=chosen is not None and chosen.allows)
        return chosen.id if chosen else ""

    async def work(self, agent: Agent) -> BenchmarkError | None:
        """Let the agent work until it is done, its time is over, or it cannot go on; the error says which."""
        self._proves_task, self._does_solution = agent.control, agent.does_solution
        if not agent.control:
            await self._workspace.run(Command(argv=("/bin/sh", "-c", _REPOSITORY), timeout_s=_REPOSITORY_S))
        self._began = self._setup.clock.monotonic()
        self.note("prompt", self._trial.sample.prompt, actor="runner")
        seconds = self._setup.seconds_for(self._task)
        try:
            async with asyncio.timeout(seconds) as self._deadline:
                output = await self._run(agent)
            self.said = self.said or output.text
        except TimeoutError:
            self.note("error", f"timed out after {seconds:g} seconds; raise --timeout", actor="runner")
            late = _OutOfTime(f"timed out after {seconds:g} seconds; raise --timeout, or the task's agent.timeout_sec")
            return self.gateway_calls.trouble or late
        except (OutOfCalls, AgentError, ProviderError, SandboxError) as error:
            self.note("error", str(error), actor="runner")
            # An agent whose model does not answer fails in a way of its own; the model's silence is why.
            return (self.gateway_calls.trouble or error) if isinstance(error, AgentError) else error
        finally:
            self._deadline = None
        return self.gateway_calls.trouble

    async def _run(self, agent: Agent) -> Output:
        """The agent's own work, until it is done or halted."""
        self._worker = asyncio.current_task()
        try:
            return await output_of(self._trial.contestant.agent.name, agent, self._trial.sample, self)
        except asyncio.CancelledError:
            if self._halted is None or self._worker is None or self._worker.uncancel():
                raise
            raise self._halted from None
        finally:
            self._worker = None

    async def judged(self, error: BenchmarkError | None) -> Work:
        """What the attempt amounted to; the check decides, however the agent ended."""
        seconds = self.worked_s
        changes = await self._workspace.changes()
        verdict = None
        # A model that nobody could reach has done nothing that need be checked.
        own_doing = _out_of_context(error) or isinstance(error, RejectedRequest)
        unreached = isinstance(error, (ProviderError, SandboxError)) and not own_doing and not changes.files
        if self._task.check is not None and not unreached:
            verdict = await self._believed(await self.verify())
        return Work(
            outcome=_outcome(self._task, error, verdict, changes, asked=self.last_was_question),
            seconds=seconds,
            prompts_sent=1 + self.follow_ups,
            model_calls=self.calls,
            side_calls=self.gateway_calls.side_calls,
            tool_calls=self.tool_calls,
            follow_ups=self.follow_ups,
            questions=self.questions,
            permission_requests=self.permission_requests,
            permissions_by_person=self.permissions_by_person,
            manual_edits=self.manual_edits,
            person_seconds=self.person_seconds,
            first_try=bool(self.first_try) and not self.manual_edits,
            changes=changes,
            checked=verdict is not None and not verdict.problem,
            check_output=(verdict.problem or verdict.output)[-_LONGEST_STEP:] if verdict else "",
            tests=verdict.tests[:_MOST_TESTS] if verdict else (),
            isolation=self._workspace.isolation,
            agent_version=self.agent_version,
            permissions=self.permissions,
            hosts=tuple(self._workspace.hosts),
        )

    async def _believed(self, verdict: Verdict) -> Verdict:
        """A failing check is held against the work only where the task's own solution passes it."""
        trials = self._setup.solutions
        if verdict.passed or verdict.problem or trials is None or (self._proves_task and not self._does_solution):
            return verdict
        # Of a control that has just done what the solution does, the verdict says all there is to know.
        problem = fails_solution(verdict.output) if self._does_solution else await trials.problem(self._task)
        if not problem:
            return verdict
        self.note("error", problem, actor="runner")
        self._verdict = structs.replace(verdict, problem=problem)
        return self._verdict


def _is_question(text: str) -> bool:
    return text.rstrip().rstrip("*_`\"')").endswith("?")


def _with_ends(trial: Trial) -> Trial:
    """The trial with an end to every turn of a local model."""
    model = trial.model
    if not model.local or "max_tokens" in model.settings:
        return trial
    most = _EMBEDDED_TURN_TOKENS if model.provider == "llama_cpp" else _LOCAL_TURN_TOKENS
    settings = {**model.settings, "max_tokens": most}
    return structs.replace(trial, contestant=replace(trial.contestant, model=replace(model, settings=settings)))


def _out_of_context(error: BenchmarkError | None) -> bool:
    return isinstance(error, ProviderError) and error.kind is FailureKind.CONTEXT_LENGTH


class _OutOfTime(BenchmarkError):
    """The agent's time was over."""


_ENDINGS: tuple[tuple[type[BenchmarkError], WorkOutcome], ...] = (
    (_OutOfTime, WorkOutcome.TIMEOUT),
    (OutOfCalls, WorkOutcome.BUDGET),
    (AgentError, WorkOutcome.AGENT_ERROR),
    (SandboxError, WorkOutcome.SANDBOX_ERROR),
    (RejectedRequest, WorkOutcome.REJECTED),
    (ProviderError, WorkOutcome.PROVIDER_ERROR),
)
_KINDS = {
    WorkOutcome.TIMEOUT: FailureKind.TIMEOUT,
    WorkOutcome.BUDGET: FailureKind.BUDGET,
    WorkOutcome.CONTEXT: FailureKind.CONTEXT_LENGTH,
    WorkOutcome.REJECTED: FailureKind.BAD_REQUEST,
    WorkOutcome.AGENT_ERROR: FailureKind.AGENT,
    WorkOutcome.SANDBOX_ERROR: FailureKind.SANDBOX,
    WorkOutcome.VERIFIER_ERROR: FailureKind.VERIFIER,
    WorkOutcome.UNCHECKED: FailureKind.UNCHECKED,
}


def _outcome(task: Task, error: BenchmarkError | None, verdict: Verdict | None, changes: Changes, *, asked: bool) -> WorkOutcome:
    if verdict is not None and verdict.passed:
        return WorkOutcome.PASSED
    if _out_of_context(error):
        return WorkOutcome.CONTEXT
    if error is not None:
        return next(outcome for kind, outcome in _ENDINGS if isinstance(error, kind))
    if task.check is None:
        return WorkOutcome.UNCHECKED
    if verdict is None or verdict.problem:
        return WorkOutcome.VERIFIER_ERROR
    if asked:
        return WorkOutcome.QUESTION
    return WorkOutcome.WRONG_RESULT if changes.files else WorkOutcome.NO_CHANGE


def failure_of(work: Work, error: BenchmarkError | None) -> tuple[FailureKind, str] | None:
    """Why an attempt has no score; None when it has one."""
    if work.checked and WORK[work.outcome] is not Counts.LEFT_OUT:
        return None
    if work.outcome is WorkOutcome.PROVIDER_ERROR and isinstance(error, ProviderError):
        return error.kind, str(error)
    message = str(error) if error else work.check_output or "the task has no check: what was changed is kept, and not judged"
    return _KINDS[work.outcome], message
