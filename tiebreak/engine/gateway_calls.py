"""Calls that a program makes through the gateway: within the task's limits, counted and written down like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from tiebreak.core.errors import BenchmarkError, FailureKind, OutOfCalls, ProviderError, RejectedRequest
from tiebreak.core.message import Message, Reply, StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta, Usage
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Listener
from tiebreak.core.redact import HIDDEN, Redactor, StreamRedactor
from tiebreak.core.trial import Trial
from tiebreak.core.work import PermissionRequest
from tiebreak.engine.budget import characters, priced
from tiebreak.engine.call import Caller
from tiebreak.engine.context import settings_of
from tiebreak.engine.stop import ContestantOver, Interrupted
from tiebreak.registry import provider_class

_IN_VAIN = 5
"""So many calls running that nobody answers, and the agent is stopped: some never give up by themselves."""
_LETTERS_PER_TOKEN = 4
_SETTLE_S = 5.0
"""How long an answer that had begun may go on after its agent is gone: what it cost is known at its end."""
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
        self._open: dict[asyncio.Future[Reply], _Heard] = {}
        """Calls that are being answered, also those whose agent has hung up."""
        self._in_vain = 0
        self._with_tools = self._without_tools = 0
        self._took_verbatim = False
        """The server has answered a request in the agent's own words."""
        self._seen: set[int] = set()
        self._redact = caller.redact
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
        heard = _Heard(listener, self._redact)
        # Shielded: what an agent that hangs up has asked for is generated and billed all the same, and so counted.
        call = asyncio.ensure_future(self._call(request, heard))
        self._open[call] = heard
        call.add_done_callback(self._over)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            heard.left = True
            raise

    async def _call(self, request: Request, heard: _Heard) -> Reply:
        """One call from its beginning to its end, whether or not the agent waits for that."""
        context, clock = self._context, self._caller.clock
        began = clock.monotonic()
        try:
            reply = await context.call(self._ours(request), heard)
            heard.end_verbatim()
        except ProviderError as error:
            self._note_cut(f"not answered: {error}", request, heard, clock.monotonic() - began)
            self._trouble(RejectedRequest(str(error), error.status) if self._is_own_doing(request, error) else error)
            raise
        except (ContestantOver, Interrupted) as over:
            context.halt(over)
            raise ProviderError("the run is being stopped", kind=FailureKind.OURS) from over
        except asyncio.CancelledError:
            self._count_cut(request, heard, clock.monotonic() - began)
            raise
        self._answered(request, reply, heard, clock.monotonic() - began)
        return reply

    def _is_own_doing(self, request: Request, error: ProviderError) -> bool:
        """Whether the server refuses what the agent wrote, and nothing that we or the user's settings made of it.

        Its words went out as they were, and the server had taken others of them with the same settings: so it is neither
        our translation, nor a setting, nor an agent that this server cannot serve at all.
        """
        verbatim = request.verbatim
        return error.kind is FailureKind.BAD_REQUEST and verbatim is not None and verbatim.whole and self._took_verbatim

    def _over(self, call: asyncio.Future[Reply]) -> None:
        del self._open[call]
        if not call.cancelled():
            # Nobody may be left to hear of it.
            call.exception()

    async def settle(self) -> None:
        """The agent is gone: let answers that had begun come to their end for a while, and give up the others."""
        for call, heard in tuple(self._open.items()):
            if not heard.anything:
                call.cancel()
        if self._open:
            await asyncio.wait(tuple(self._open), timeout=_SETTLE_S)
        await self.give_up()

    async def give_up(self) -> None:
        """Nothing more is waited for."""
        for call in tuple(self._open):
            call.cancel()
        if self._open:
            await asyncio.wait(tuple(self._open))

    def _check_budget(self) -> None:
        if self._context.calls + len(self._open) < self._most:
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
        self._took_verbatim = self._took_verbatim or request.verbatim is not None
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

    def _count_cut(self, request: Request, heard: _Heard, seconds: float) -> None:
        """Count a call that was given up by what can be told of it: the agent hung up, and its server says nothing more."""
        self._context.calls += 1
        self._context.add_usage(priced(_estimated(request, heard.letters), self._trial.model))
        self._note_cut("given up: the agent hung up", request, heard, seconds)

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

    __slots__ = ("_kind", "_last", "_listener", "_raw", "_redact", "_text", "anything", "left", "letters")

    def __init__(self, listener: Listener, redact: Redactor) -> None:
        self._listener = listener
        self._redact = redact
        self._raw = StreamRedactor(redact)
        self._text = StreamRedactor(redact)
        self._kind: tuple[type, int] | None = None
        self._last: StreamEvent | None = None
        self.letters = 0
        self.anything = False
        """The answer has begun."""
        self.left = False
        """Whoever listened has hung up."""

    @property
    def begun(self) -> bool:
        # A call that nobody waits for is not tried again.
        return self.left or self._listener.begun

    def hear(self, event: StreamEvent) -> None:
        self.anything = True
        for passed in self._without_secrets(event):
            self._listener.hear(passed)

    def hear_verbatim(self, data: bytes, events: Sequence[StreamEvent]) -> None:
        self.anything = True
        for event in events:
            said = _said(event)
            shown = "".join(map(_said, self._without_secrets(event)))
            if HIDDEN in shown and self._redact.known(said) == said:
                # Spread over several pieces of the stream, each in a frame of its own: it cannot be cut out of them.
                message = "the server repeats the key it was sent; its answer is not passed on"
                raise ProviderError(message, kind=FailureKind.MALFORMED)
        text = self._raw.feed(data.decode("latin-1"))
        if text:
            self._listener.hear_verbatim(text.encode("latin-1"), events)

    def end_verbatim(self) -> None:
        """Pass on what was held back; the stream is over."""
        if rest := self._raw.rest():
            self._listener.hear_verbatim(rest.encode("latin-1"), ())

    def _without_secrets(self, event: StreamEvent) -> Iterator[StreamEvent]:
        """The event, and before it what was held back of another stream of words."""
        said = _said(event)
        self.letters += len(said)
        kind = (type(event), event.index if isinstance(event, ToolCallDelta) else 0)
        if kind != self._kind:
            if self._last is not None and (rest := self._text.rest()):
                yield _with(self._last, rest)
            self._kind = kind
        if not isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
            yield event
            return
        self._last, passed = event, self._text.feed(said)
        yield event if passed == said else _with(event, passed)


def _said(event: StreamEvent) -> str:
    """The words of an event."""
    if isinstance(event, TextDelta | ThinkingDelta):
        return event.text
    return event.arguments if isinstance(event, ToolCallDelta) else ""


def _with(event: StreamEvent, words: str) -> StreamEvent:
    """The event with other words."""
    if isinstance(event, ToolCallDelta):
        return replace(event, arguments=words)
    return replace(event, text=words) if isinstance(event, TextDelta | ThinkingDelta) else event
