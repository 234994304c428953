"""Checks of a provider: a real call where one can be made, and every error as a ProviderError with a kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Reply, StreamEvent, TextDelta, Usage, user
from tiebreak.core.model import Request
from tiebreak.core.protocols import Endpoint
from tiebreak.plugin_checks.fault_server import KEY, Fault, FaultServer
from tiebreak.plugin_checks.findings import (
    Finding,
    check_attributes,
    check_methods,
    flag,
    named,
    passed,
    run_within,
    short,
    text,
    texts,
    unproven,
    words,
    wrong,
)
from tiebreak.registry import make_ref, provider_class

_CALL_S = 60.0
_FAULT_S = 15.0
_PROMPT = "Reply with the word: ready"


def check(name: str, model: str = "") -> Iterator[Finding]:
    """Everything about a provider; `model` is the one to call, else the first that it lists."""
    served_by = provider_class(name)
    attributes = (texts("key_variables"), texts("url_variables"), words("unsupported"))
    flags = (flag("local"), flag("reference"), flag("tells_likelihood"), flag("takes_batches"))
    methods = {"open": ("model",), "generate": ("request", "listener"), "list_models": (), "close": ()}
    declared = [
        *check_attributes(served_by, (text("name"), *attributes, *flags)),
        *check_methods(served_by, methods),
    ]
    yield from declared
    if any(finding.is_wrong for finding in declared):
        return
    yield from _check_errors(name)
    yield from _check_real_calls(name, model)


# --- errors ----------------------------------------------------------------------------------------


_FAULTS: Sequence[tuple[str, Fault, Callable[[FailureKind], bool], str]] = (
    ("a rejected key (401)", Fault(401), lambda kind: kind is FailureKind.AUTH, "auth"),
    ("too many requests (429)", Fault(429), lambda kind: kind.retryable, "one that is tried again, as rate_limit"),
    ("a broken server (500)", Fault(500), lambda kind: kind.retryable, "one that is tried again, as transient"),
    ("an answer that cannot be read", Fault(200, b"<html>hello</html>"), lambda kind: True, "any"),
    ("a closed connection", Fault(0), lambda kind: kind.retryable, "one that is tried again, as transient"),
)


def _check_errors(name: str) -> Iterator[Finding]:
    """Put it before a server on this machine that only fails; a provider without an address would call its real one."""
    if not provider_class(name).url_variables:
        yield unproven("it has no url_variables, so no failing server can be put in its place: its errors are not proven")
        return
    for what, fault, fits, wanted in _FAULTS:
        try:
            asked, error = run_within(_FAULT_S, lambda fault=fault: _failed_call(name, fault))  # type: ignore[misc]
        except TimeoutError as late:
            yield wrong(f"{what}: {late}")
            continue
        yield _judged_error(what, error, fits, wanted) if asked else unproven(f"{what}: it did not call the address it was given")


async def _failed_call(name: str, fault: Fault) -> tuple[int, Exception | Reply]:
    result: Exception | Reply
    with FaultServer(fault) as server:
        try:
            result = await _call(name, Endpoint(base_url=server.url, api_key=KEY), "any")
        except Exception as error:
            result = error
        return server.asked, result


def _judged_error(what: str, result: object, fits: Callable[[FailureKind], bool], wanted: str) -> Finding:
    if not isinstance(result, Exception):
        return wrong(f"{what}: generate should raise a ProviderError; it returned {short(result)}")
    if not isinstance(result, ProviderError):
        return wrong(f"{what}: generate should raise a ProviderError; it raised {named(result)}")
    if KEY in str(result):
        return wrong(f"{what}: the error's text shows the key; an error is printed and kept")
    if not isinstance(result.kind, FailureKind) or not fits(result.kind):
        return wrong(f"{what}: the kind should be {wanted}; it is {short(result.kind)}")
    return passed(f"{what} is a ProviderError of kind {result.kind.value}")


# --- a call ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Heard:
    """A listener that keeps what it hears."""

    events: list[StreamEvent] = field(default_factory=list)

    @property
    def begun(self) -> bool:
        """Whether something was heard."""
        return bool(self.events)

    def hear(self, event: StreamEvent) -> None:
        """The next event of the answer."""
        self.events.append(event)

    def hear_verbatim(self, data: bytes, events: Sequence[StreamEvent]) -> None:
        """Nothing is sent verbatim here; what comes all the same is heard too."""
        self.events.extend(events)


def _check_real_calls(name: str, model: str) -> Iterator[Finding]:
    """Two short calls to the real server, or to the one that the address variable names."""
    ref = make_ref(name, model or "any")
    if ref.key_variable and not os.environ.get(ref.key_variable):
        yield unproven(f"no call was made: set {ref.key_variable}")
        return
    endpoint = Endpoint(base_url=ref.base_url, api_key=os.environ.get(ref.key_variable, ""), max_connections=1)
    finding, listed = _check_list(name, endpoint)
    yield finding
    called = model or next(iter(listed), "")
    if not called:
        yield unproven("no call was made: no model is known; name one with --model")
        return
    yield from _check_whole(name, endpoint, called)
    yield from _check_streamed(name, endpoint, called)


def _check_list(name: str, endpoint: Endpoint) -> tuple[Finding, Sequence[str]]:
    try:
        listed = run_within(_CALL_S, lambda: _list_models(name, endpoint))
    except (ProviderError, TimeoutError) as error:
        return unproven(f"list_models brought nothing: {error}"), ()
    except Exception as error:
        return wrong(f"list_models raised {named(error)}"), ()
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not all(isinstance(one, str) for one in listed):
        return wrong(f"list_models should return a sequence of names; it returned {short(listed)}"), ()
    return passed(f"list_models names {len(listed):,} models"), listed


def _check_whole(name: str, endpoint: Endpoint, model: str) -> Iterator[Finding]:
    try:
        reply = run_within(_CALL_S, lambda: _call(name, endpoint, model))
    except Exception as error:
        yield wrong(f"a call of {model}: {named(error)}")
        return
    yield _judged_reply(name, f"a call of {model}", reply)


def _check_streamed(name: str, endpoint: Endpoint, model: str) -> Iterator[Finding]:
    heard = _Heard()
    try:
        reply = run_within(_CALL_S, lambda: _call(name, endpoint, model, heard))
    except Exception as error:
        yield wrong(f"a streamed call of {model}: {named(error)}")
        return
    yield _judged_reply(name, f"a streamed call of {model}", reply)
    spoken = "".join(event.text for event in heard.events if isinstance(event, TextDelta))
    if not heard.events:
        yield unproven("it tells a listener nothing: who listens gets the answer whole, at its end")
    elif isinstance(reply, Reply) and spoken != reply.text:
        yield wrong(f"the listener heard {short(spoken)}, and the reply says {short(reply.text)}")
    else:
        yield passed(f"a streamed answer is told to the listener in {len(heard.events)} events")


def _judged_reply(name: str, what: str, reply: object) -> Finding:
    if not isinstance(reply, Reply):
        return wrong(f"{what}: generate should return a Reply; it returned {short(reply)}")
    if not isinstance(reply.text, str):
        return wrong(f"{what}: the text of a Reply should be a string; it is {short(reply.text)}")
    usage = reply.usage
    if not isinstance(usage, Usage):
        return wrong(f"{what}: the Reply has no usage; without it there are no costs and no token counts")
    counted = usage.input_tokens > 0 and (usage.output_tokens > 0 or not reply.text)
    if not counted and not provider_class(name).reference:
        numbers = f"{usage.input_tokens} tokens read and {usage.output_tokens} written"
        return wrong(f"{what}: the usage should count the tokens; it says {numbers}")
    return passed(f"{what} has an answer of {usage.output_tokens} tokens, with its usage")


async def _call(name: str, endpoint: Endpoint, model: str, listener: _Heard | None = None) -> Reply:
    provider = provider_class(name)(endpoint)
    request = Request(model=model, messages=(user(_PROMPT),), stream=listener is not None, settings=_required(name, model))
    try:
        await provider.open(make_ref(name, model, endpoint.base_url))
        return await (provider.generate(request, listener) if listener else provider.generate(request))
    finally:
        await provider.close()


def _required(name: str, model: str) -> dict[str, Any]:
    return dict(provider_class(name).required_settings(model))


async def _list_models(name: str, endpoint: Endpoint) -> Sequence[Any]:
    provider = provider_class(name)(endpoint)
    try:
        return await provider.list_models()
    finally:
        await provider.close()
