"""Calls that a program makes through the gateway: within the task's limits, counted and written down like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from tiebreak.core.errors import BenchmarkError, FailureKind, OutOfCalls, ProviderError
from tiebreak.core.message import Message, Reply, StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta, Usage
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Listener
from tiebreak.core.redact import Redactor
from tiebreak.core.trial import Trial
from tiebreak.core.work import PermissionRequest
from tiebreak.engine.budget import characters
from tiebreak.engine.call import Caller
from tiebreak.engine.context import settings_of
from tiebreak.engine.stop import ContestantOver, Interrupted
from tiebreak.registry import provider_class

_IN_VAIN = 5
"""So many calls running that nobody answers, and the agent is stopped: some never give up by themselves."""
_LETTERS_PER_TOKEN = 4
_MOST_ASKED_ELSEWHERE = 8192
"""More than this an agent asks of models it knows; what it means is: as long as you like. Others refuse the number."""
_ASK_TOOLS = frozenset({"askquestion", "askuserquestion", "askuser", "askfollowupquestion", "question", "requestuserinput"})
"""Tools by which agents turn to a person, spelled without marks."""


def gateway_name(model: ModelRef) -> str:
    """The name agents ask for: the model's own, as agents know some by name, but no folder of this machine."""
    return model.name.rstrip("/").rpartition("/")[2]


def context_of(model: ModelRef) -> int | None:
    """How many tokens the model takes, where known; what the user gave it room for comes first."""
    given = model.settings.get("num_ctx")
    return given if isinstance(given, int) else model.context_window


class CallLog(Protocol):
    """The trial's context, as far as calls through the gateway are counted and written down by it."""

    calls: int
    last_was_question: bool

    def add_usage(self, usage: Usage) -> None:
        """Count what a call consumed."""
        ...

    def count_reply(self, reply: Reply, seconds: float, **more: Any) -> None:
        """A call was answered."""
        ...

    async def call(self, request: Request, listener: Listener) -> Reply:
        """Have the trial's model answer one request, listening in."""
        ...

    def note(self, kind: str, text: str, *, actor: str = "agent", **data: Any) -> None:
        """Write a step down."""
        ...

    async def permit(self, request: PermissionRequest) -> str:
        """Have a person answer a request for permission."""
        ...

    def halt(self, reason: BaseException) -> None:
        """Stop the agent."""
        ...


class GatewayCalls:
    """What comes in at a trial's gateway, answered by the trial's model."""

    def __init__(self, context: CallLog, trial: Trial, caller: Caller, *, most: int) -> None:
        self.trouble: BenchmarkError | None = None
        """Why the last call was not answered: nobody could, or no more were allowed."""
        self._context = context
        self._trial = trial
        self._caller = caller
        self._most = most
        self._in_flight = 0
        self._in_vain = 0
        self._with_tools = self._without_tools = 0
        self._seen: set[int] = set()
        self._hide = caller.redact.known if isinstance(caller.redact, Redactor) else caller.redact
        provider = provider_class(trial.model.provider)
        self._unsupported: frozenset[str] = provider.unsupported
        self._dialects: frozenset[str] = provider.dialects(trial.model.base_url)

    @property
    def side_calls(self) -> int:
        """Calls without tools beside others with tools: a title, a summary, not the task."""
        return self._without_tools if self._with_tools else 0

    def speaks(self, dialect: str) -> bool:
        """Whether the model's provider takes requests in this dialect as they are."""
        return dialect in self._dialects

    async def permit(self, request: PermissionRequest) -> str:
        """Which option whoever attends takes."""
        return await self._context.permit(request)

    def probed(self, what: str) -> None:
        """Written down, and not counted."""
        self._context.note("context", what, probe=True)

    async def answer(self, request: Request, listener: Listener) -> Reply:
        """Have the trial's model answer, as often as the task allows."""
        self._check_budget()
        self._note_new(request.messages)
        context, clock = self._context, self._caller.clock
        heard, began = _Heard(listener, self._hide), clock.monotonic()
        self._in_flight += 1
        try:
            reply = await context.call(self._ours(request), heard)
        except ProviderError as error:
            self._note_cut(f"not answered: {error}", request, heard, clock.monotonic() - began)
            self._trouble(error)
            raise
        except (ContestantOver, Interrupted) as over:
            context.halt(over)
            raise ProviderError("the run is being stopped", kind=FailureKind.OURS) from over
        except asyncio.CancelledError:
            self._note_cut("given up: the agent hung up", request, heard, clock.monotonic() - began)
            raise
        finally:
            self._in_flight -= 1
        self._answered(request, reply, heard, clock.monotonic() - began)
        return reply

    def _check_budget(self) -> None:
        if self._context.calls + self._in_flight < self._most:
            return
        message = f"the budget is used up: the model was called {self._most} times, which is all the task allows; "
        error = OutOfCalls(f"{message}--max-model-calls raises it")
        self._trouble(error)
        raise error

    def _trouble(self, error: BenchmarkError) -> None:
        self.trouble = self.trouble or error
        self._in_vain += 1
        if self._in_vain >= _IN_VAIN or (isinstance(error, ProviderError) and error.kind.ends_model):
            self._context.halt(self.trouble)

    def _ours(self, request: Request) -> Request:
        """The trial's model, asked with the user's settings where there are any and else with the agent's."""
        trial = self._trial
        own = settings_of(trial)
        verbatim = request.verbatim and replace(request.verbatim, settings=own)
        theirs = request.settings if verbatim else self._translated(request.settings)
        settings = {**trial.model.required, **theirs, **own}
        return replace(request, model=trial.model.name, settings=settings, repeat=trial.repeat, nonce=trial.id, verbatim=verbatim)

    def _translated(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """An agent's settings for a model of another family than it was made for: only what any model understands."""
        kept = {name: value for name, value in settings.items() if name not in self._unsupported | {"reasoning_effort"}}
        if kept.get("max_tokens", 0) > _MOST_ASKED_ELSEWHERE:
            del kept["max_tokens"]
        return kept

    # --- what is written down

    def _note_new(self, messages: Sequence[Message]) -> None:
        """What the agent tells the model that it has not told before; what the model said is known."""
        names = {call.id: call.name for message in messages for call in message.tool_calls}
        for message in messages:
            mark = hash(message)
            if mark in self._seen or message.role == "assistant":
                continue
            self._seen.add(mark)
            if message.role == "tool":
                self._context.note("tool", message.text, name=names.get(message.tool_call_id, ""), failed=message.failed)
            else:
                self._context.note("context", message.text, role=message.role)

    def _answered(self, request: Request, reply: Reply, heard: _Heard, seconds: float) -> None:
        self.trouble, self._in_vain = None, 0
        self._with_tools += bool(request.tools)
        self._without_tools += not request.tools
        more: dict[str, Any] = {} if request.tools else {"without_tools": True}
        if reply.first_token_seconds is not None:
            more["first_token_s"] = round(reply.first_token_seconds, 3)
        if reply.usage is None:
            # Its price stays unknown: a guess of tokens is no bill.
            letters = len(reply.text) + len(reply.thinking) + sum(len(call.arguments) for call in reply.tool_calls)
            usage = _estimated(request, max(heard.letters, letters))
            self._context.add_usage(usage)
            reply, more["estimated"] = replace(reply, usage=usage), True
        self._context.last_was_question = False
        self._context.count_reply(reply, seconds, **more)
        for call in reply.tool_calls:
            if call.name.replace("_", "").casefold() in _ASK_TOOLS:
                self._context.note("question", _question(call.parsed()) or call.name, actor="model")

    def _note_cut(self, why: str, request: Request, heard: _Heard, seconds: float) -> None:
        usage = _estimated(request, heard.letters)
        tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        self._context.note("call", why, actor="model", seconds=round(seconds, 3), aborted=True, estimated=True, **tokens)


def _estimated(request: Request, letters: int) -> Usage:
    """What a call of which nobody tells consumed, by the length of what was sent and heard."""
    return Usage(input_tokens=characters(request) // _LETTERS_PER_TOKEN, output_tokens=-(-letters // _LETTERS_PER_TOKEN))


def _question(arguments: Mapping[str, Any] | None) -> str:
    """The question in an asking tool's arguments, however deep it stands."""
    for name, value in (arguments or {}).items():
        if name == "question" and isinstance(value, str):
            return value
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict) and (found := _question(inner)):
                return found
    return ""


class _Heard:
    """Stands between a provider and who listens: counts what is said, and lets no secret through."""

    __slots__ = ("_hide", "_listener", "letters")

    def __init__(self, listener: Listener, hide: Callable[[str], str]) -> None:
        self._listener = listener
        self._hide = hide
        self.letters = 0

    @property
    def begun(self) -> bool:
        return self._listener.begun

    def hear(self, event: StreamEvent) -> None:
        self._count(event)
        if isinstance(event, TextDelta | ThinkingDelta) and (text := self._hide(event.text)) != event.text:
            event = replace(event, text=text)
        self._listener.hear(event)

    def hear_verbatim(self, data: bytes, events: Sequence[StreamEvent]) -> None:
        for event in events:
            self._count(event)
        text = data.decode("latin-1")
        hidden = self._hide(text)
        self._listener.hear_verbatim(data if hidden == text else hidden.encode("latin-1"), events)

    def _count(self, event: StreamEvent) -> None:
        if isinstance(event, TextDelta | ThinkingDelta):
            self.letters += len(event.text)
        elif isinstance(event, ToolCallDelta):
            self.letters += len(event.arguments)
