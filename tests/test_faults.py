"""Every way a server can misbehave, in every dialect, streamed or not: what is made of it, and how often it is asked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from msgspec.structs import replace
from support.faults import DIALECTS, FAULTS, HINTS, KEYS, USAGE, FaultServer
from support.specs import trial_of

from tiebreak.core.clock import SystemClock
from tiebreak.core.contestant import DIRECT
from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Reply, Usage, user
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Endpoint
from tiebreak.core.redact import Redactor
from tiebreak.core.run import RetryPolicy
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Outcome, Trial, TrialResult
from tiebreak.engine.attempt import Agents, Tools, attempt
from tiebreak.engine.call import Caller
from tiebreak.engine.deadlines import Deadlines
from tiebreak.engine.stop import Stop
from tiebreak.engine.traffic import Account, Gate
from tiebreak.providers.anthropic import Anthropic
from tiebreak.providers.google import Google
from tiebreak.providers.http import HttpProvider
from tiebreak.providers.ollama import Ollama
from tiebreak.providers.openai import OpenAI, Responses

PROVIDERS: Mapping[str, tuple[type[HttpProvider], str]] = {
    "chat": (OpenAI, "OPENAI_API_KEY"),
    "responses": (Responses, "OPENAI_API_KEY"),
    "messages": (Anthropic, "ANTHROPIC_API_KEY"),
    "gemini": (Google, "GOOGLE_API_KEY"),
    "ollama": (Ollama, ""),
}
MODEL = "stand-in"
MENDED = "half of a \N{REPLACEMENT CHARACTER} character"
MAX_ATTEMPTS = 3
QUICK = RetryPolicy(max_attempts=MAX_ATTEMPTS, first_wait_s=0.001, longest_wait_s=0.002)
HANGS = frozenset({"never answers", "drip of the head", "drip of the body", "never-ending stream", "drip of chunks"})
HANG_TIMEOUT_S = 0.5
HEAVY = frozenset({"gzip bomb", "body over the cap", "body over the cap, announced"})
_MB = 1024 * 1024

Expected = FailureKind | Outcome
EXPECTED: dict[str, Expected] = {
    "status 400": FailureKind.BAD_REQUEST,
    "status 401": FailureKind.AUTH,
    "status 402": FailureKind.QUOTA,
    "status 403": FailureKind.AUTH,
    "status 404": FailureKind.NOT_FOUND,
    "status 408": FailureKind.TIMEOUT,
    "status 409": FailureKind.TRANSIENT,
    "status 413": FailureKind.CONTEXT_LENGTH,
    "status 422": FailureKind.BAD_REQUEST,
    "status 429": FailureKind.RATE_LIMIT,
    "status 500": FailureKind.TRANSIENT,
    "status 502": FailureKind.TRANSIENT,
    "status 503": FailureKind.OVERLOADED,
    "status 504": FailureKind.TIMEOUT,
    "status 529": FailureKind.OVERLOADED,
    "insufficient quota": FailureKind.QUOTA,
    "redirect 301": FailureKind.MALFORMED,
    "reset before the answer": FailureKind.TRANSIENT,
    "closed before the answer": FailureKind.TRANSIENT,
    "half a head": FailureKind.TRANSIENT,
    "not HTTP": FailureKind.TRANSIENT,
    "reset mid-body": FailureKind.TRANSIENT,
    "half a body, then close": FailureKind.TRANSIENT,
    "half a body of unknown length": FailureKind.MALFORMED,
    "never answers": FailureKind.TIMEOUT,
    "drip of the head": FailureKind.TIMEOUT,
    "drip of the body": FailureKind.TIMEOUT,
    "malformed JSON": FailureKind.MALFORMED,
    "empty body": FailureKind.MALFORMED,
    "200 text/html": FailureKind.MALFORMED,
    "JSON of another kind": FailureKind.MALFORMED,
    "nested too deeply": FailureKind.MALFORMED,
    "binary rubbish": FailureKind.MALFORMED,
    "wrong charset": Outcome.ANSWERED,
    "lone surrogate": Outcome.ANSWERED,
    "no choices": Outcome.EMPTY,
    "no text": Outcome.EMPTY,
    "content filter": Outcome.FILTERED,
    "prompt blocked": Outcome.FILTERED,
    "refusal": Outcome.REFUSED,
    "NaN as usage": FailureKind.MALFORMED,
    "negative usage": Outcome.ANSWERED,
    "usage beyond all bounds": Outcome.ANSWERED,
    "no usage": Outcome.ANSWERED,
    "error after 200: overloaded": FailureKind.OVERLOADED,
    "error after 200: rate limit": FailureKind.RATE_LIMIT,
    "gzip bomb": FailureKind.MALFORMED,
    "broken gzip": FailureKind.TRANSIENT,
    "half of a gzip": FailureKind.MALFORMED,
    "body over the cap, announced": FailureKind.MALFORMED,
    "body over the cap": FailureKind.MALFORMED,
    "head over the cap": FailureKind.MALFORMED,
    "duplicate chunks": FailureKind.MALFORMED,
    "answers twice": Outcome.ANSWERED,
    "one byte at a time": Outcome.ANSWERED,
    "no terminal marker": FailureKind.MALFORMED,
    "reset mid-stream": FailureKind.TRANSIENT,
    "never-ending stream": FailureKind.TIMEOUT,
    "drip of chunks": FailureKind.TIMEOUT,
    "fine": Outcome.ANSWERED,
}
UNLIKE: dict[tuple[str, str], Expected] = {
    # Anthropic has one word for both.
    ("content filter", "messages"): Outcome.REFUSED,
    # Ollama reports errors as a sentence; which kind it is, nobody can tell.
    ("error after 200: overloaded", "ollama"): FailureKind.TRANSIENT,
    ("error after 200: rate limit", "ollama"): FailureKind.TRANSIENT,
    # Google gives a reason for having no candidates, or the answer is none.
    ("no choices", "gemini, whole"): FailureKind.MALFORMED,
    # And one of OpenAI's is in the choices, or there is none.
    ("no choices", "chat, whole"): FailureKind.MALFORMED,
    # The end of a stream may come twice; a body may not.
    **{("duplicate chunks", f"{dialect}, streamed"): Outcome.ANSWERED for dialect in DIALECTS},
}
WITHOUT_USAGE = frozenset({"negative usage", "usage beyond all bounds", "no usage", "prompt blocked"})
TEXTS = {"wrong charset": MENDED, "lone surrogate": MENDED}


@dataclass(frozen=True)
class Way:
    """A dialect, and whether its answers are streamed."""

    dialect: str
    streamed: bool

    def __str__(self) -> str:
        return f"{self.dialect}, {'streamed' if self.streamed else 'whole'}"


WAYS = [Way(dialect, streamed) for dialect in DIALECTS for streamed in (False, True)]


def ways_of(name: str) -> list[Way]:
    """Where a fault can happen."""
    fault = FAULTS[name]
    return [way for way in WAYS if way.dialect in fault.dialects and way.streamed in fault.streamed]


def expected(name: str, way: Way) -> Expected:
    """What is to be made of a fault."""
    return UNLIKE.get((name, str(way)), UNLIKE.get((name, way.dialect), EXPECTED[name]))


def is_retryable(name: str, way: Way) -> bool:
    """Whether a fault may go away."""
    made = expected(name, way)
    return isinstance(made, FailureKind) and made.retryable


def answer_to(prompt: str) -> str:
    """What the server says when it is well."""
    return f"The answer to {len(prompt)} letters, at length"


class Witnessed:
    """The real provider, asked for streams where that is the case; everything it raises is kept."""

    def __init__(self, provider: HttpProvider, *, streamed: bool) -> None:
        self.provider = provider
        self.streamed = streamed
        self.errors: list[BaseException] = []

    async def generate(self, request: Request, listener: Any = None) -> Reply:
        try:
            return await self.provider.generate(replace(request, stream=self.streamed))
        except Exception as error:
            self.errors.append(error)
            raise


class NoPause(Stop):
    """Waits take no time and are written down."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    async def pause(self, seconds: float) -> None:
        self.waits.append(seconds)


def make_caller(provider: Any, deadlines: Deadlines, policy: RetryPolicy, timeout_s: float, stop: Stop) -> Caller:
    """The only place that knows what a caller is made of."""
    return Caller(
        provider=provider,
        clock=SystemClock(),
        deadlines=deadlines,
        stop=stop,
        policy=policy,
        request_timeout_s=timeout_s,
        on_wait=lambda reason, seconds: None,
        redact=Redactor.from_environment(),
        gate=Gate(account=Account(monotonic), stop=stop, awake=monotonic, tell=lambda *_: None),
    )


@dataclass
class Tried:
    """What became of one trial, ours and the server's account of it."""

    result: TrialResult
    requests: int
    billed_tokens: int
    seconds: float
    waits: list[float]
    errors: list[BaseException]

    @property
    def made(self) -> Expected:
        failure = self.result.failure
        return self.result.outcome if failure is None else failure.kind

    @property
    def attempts(self) -> int:
        assert self.result.output is not None
        return self.result.output.attempts

    @property
    def text(self) -> str:
        assert self.result.output is not None
        return self.result.output.text


@dataclass
class Bench:
    """Puts trials to a server that follows a script."""

    server: FaultServer
    errors: list[BaseException] = field(default_factory=list)
    results: list[TrialResult] = field(default_factory=list)

    async def attempt(
        self,
        way: Way,
        script: tuple[str, ...],
        *,
        policy: RetryPolicy = QUICK,
        timeout_s: float = 20.0,
        stop: Stop | None = None,
        base_url: str = "",
    ) -> Tried:
        """Attempt one trial whose requests are answered by the script."""
        prompt = f"{way}: {', '.join(script)}"
        self.server.scripts[prompt] = script
        self.server.ledger.pop((MODEL, prompt), None)
        stop = stop or Stop()
        async with _provider(way.dialect, base_url or self.server.base_url(way.dialect)) as provider:
            witnessed, deadlines = Witnessed(provider, streamed=way.streamed), Deadlines(SystemClock())
            caller = make_caller(witnessed, deadlines, policy, timeout_s, stop)
            tools = Tools(agents=Agents(DIRECT), scorers={}, caller=caller, redact=Redactor.from_environment())
            ticker, started = asyncio.create_task(deadlines.watch()), time.monotonic()
            try:
                result = await attempt(_trial(prompt), tools)
            finally:
                ticker.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await ticker
        seconds, account = time.monotonic() - started, self.server.account(MODEL, prompt)
        self.errors += witnessed.errors
        self.results.append(result)
        waits = stop.waits if isinstance(stop, NoPause) else []
        return Tried(result, account.requests, account.billed_tokens, seconds, waits, witnessed.errors)


@contextlib.asynccontextmanager
async def _provider(dialect: str, base_url: str) -> AsyncIterator[HttpProvider]:
    made, variable = PROVIDERS[dialect]
    provider = made(Endpoint(base_url=base_url, api_key=KEYS.get(variable, "")))
    try:
        yield provider
    finally:
        await provider.close()


def _trial(prompt: str) -> Trial:
    sample = Sample(id="s", messages=(user(prompt),), scorers=())
    model = ModelRef(provider="any", name=MODEL, label=MODEL)
    return trial_of(sample, model)


@pytest.fixture(scope="module")
def running() -> Iterator[FaultServer]:
    """One server for all: what a fault leaves behind must not disturb the next trial."""
    with FaultServer(answer_to) as server:
        yield server


@pytest.fixture
def bench(running: FaultServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Bench]:
    """A bench whose every error, result and log is searched for the keys at the end."""
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    caplog.set_level(logging.DEBUG)
    bench = Bench(running)
    yield bench
    shown = [caplog.text, *map(repr, bench.results)]
    for error in bench.errors:
        shown += [repr(error), *map(repr, _causes(error))]
    leaks = {name for name, key in KEYS.items() for text in shown if key in text}
    assert leaks == set()
    assert running.strays == []


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = error
    while (cause := seen.__cause__ or seen.__context__) is not None:
        yield cause
        seen = cause


def cases(wanted: Callable[[str, Way], bool]) -> pytest.MarkDecorator:
    """Every fault in every way that is wanted."""
    found = [(name, way) for name in EXPECTED for way in ways_of(name) if wanted(name, way)]
    return pytest.mark.parametrize(("name", "way"), found, ids=[f"{name}-{way}" for name, way in found])


def test_every_fault_has_an_expectation() -> None:
    hints = {f"429 {name}" for name in (*HINTS, "RetryInfo")}
    assert set(FAULTS) - hints - {"the key as an answer"} == set(EXPECTED)


@cases(lambda name, way: name not in HANGS | HEAVY)
async def test_fault_is_called_by_its_name_and_counted_right(bench: Bench, name: str, way: Way) -> None:
    """What may pass is tried as often as it may be; anything else once. The server counts what we count."""
    tried = await bench.attempt(way, (name,))

    assert tried.made is expected(name, way), tried.result
    assert tried.attempts == tried.requests == (MAX_ATTEMPTS if is_retryable(name, way) else 1)
    if isinstance(tried.made, FailureKind):
        own_doing = tried.made is FailureKind.CONTEXT_LENGTH
        assert tried.result.outcome is (Outcome.EXHAUSTED if own_doing else Outcome.FAILED)
        assert tried.result.scores == {}
        assert tried.result.failure is not None
        assert tried.result.failure.message
        assert tried.result.failure.attempts == tried.attempts
        assert all(isinstance(error, ProviderError) for error in tried.errors)
    elif tried.made is Outcome.ANSWERED:
        assert tried.text in (answer_to(f"{way}: {name}"), TEXTS.get(name))
        tried.text.encode()


@cases(lambda name, way: isinstance(expected(name, way), Outcome))
async def test_usage_is_what_was_billed_or_unknown(bench: Bench, name: str, way: Way) -> None:
    """Tokens below none, beyond all bounds or never told are unknown, and so is what they cost."""
    tried = await bench.attempt(way, (name,))

    assert tried.result.output is not None
    usage = tried.result.output.usage
    if (name, way.dialect) == ("no usage", "ollama"):
        assert usage == Usage()  # a count that Ollama leaves out is one of nothing
    elif name in WITHOUT_USAGE:
        assert usage is None
    else:
        assert usage == USAGE
        assert usage.input_tokens + usage.output_tokens == tried.billed_tokens


@cases(lambda name, way: name not in HANGS | HEAVY and is_retryable(name, way))
async def test_fault_that_goes_away_ends_in_the_right_answer(bench: Bench, name: str, way: Way) -> None:
    """Nothing of the failed attempts is left in the answer."""
    script = (name, name, "fine")
    tried = await bench.attempt(way, script)

    assert tried.made is Outcome.ANSWERED, tried.result
    assert tried.text == answer_to(f"{way}: {', '.join(script)}")
    assert tried.attempts == tried.requests == 3
    assert tried.result.output is not None
    assert tried.result.output.usage == USAGE


@cases(lambda name, way: name not in HANGS | HEAVY and is_retryable(name, way))
async def test_connection_used_before_makes_no_difference(bench: Bench, name: str, way: Way) -> None:
    """A request is never sent again behind our back, although a connection in use may just have been closed."""
    tried = await bench.attempt(way, ("status 500", name, "fine"))

    assert tried.made is Outcome.ANSWERED, tried.result
    assert tried.attempts == tried.requests == 3


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_answer_nobody_asked_for_is_no_answer_to_the_next(bench: Bench, way: Way) -> None:
    """It is thrown away with its connection."""
    prompt = f"{way}: once and again"
    bench.server.scripts[prompt] = ("answers twice", "fine")
    async with _provider(way.dialect, bench.server.base_url(way.dialect)) as provider:
        request = Request(model=MODEL, messages=(user(prompt),), stream=way.streamed)
        replies = [await provider.generate(request) for _ in range(2)]

    assert [reply.text for reply in replies] == [answer_to(prompt)] * 2


@cases(lambda name, way: name in HANGS)
async def test_hang_ends_at_its_deadline(bench: Bench, name: str, way: Way) -> None:
    """Bytes that keep coming do not put it off; the next attempt has a deadline of its own, and a good answer still counts."""
    tried = await bench.attempt(way, (name, "fine"), timeout_s=HANG_TIMEOUT_S)

    assert tried.made is Outcome.ANSWERED, tried.result
    assert tried.attempts == tried.requests == 2
    assert HANG_TIMEOUT_S * 0.8 < tried.seconds < HANG_TIMEOUT_S + 2


@cases(lambda name, way: name in HANGS)
async def test_hang_that_does_not_go_away_is_a_timeout(bench: Bench, name: str, way: Way) -> None:
    """Within the deadline, and as often as allowed."""
    tried = await bench.attempt(way, (name,), timeout_s=0.3, policy=RetryPolicy(max_attempts=1))

    assert tried.made is FailureKind.TIMEOUT, tried.result
    assert tried.attempts == tried.requests == 1
    assert tried.seconds < 0.3 + 2


@cases(lambda name, way: name in HEAVY)
async def test_answer_without_end_does_not_fill_the_memory(bench: Bench, name: str, way: Way) -> None:
    """However small it was packed."""
    with _memory() as grown:
        tried = await bench.attempt(way, (name, "fine"))

    assert tried.made is Outcome.ANSWERED, tried.result
    assert [error.kind for error in tried.errors if isinstance(error, ProviderError)] == [FailureKind.MALFORMED]
    assert tried.attempts == tried.requests == 2
    assert grown() < 150 * _MB


@contextlib.contextmanager
def _memory() -> Iterator[Callable[[], int]]:
    """How far this process's memory rose above where it stood, looked at all the time."""
    start, peak, done = _resident(), [0], threading.Event()

    def look() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], _resident() - start)

    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    try:
        yield lambda: peak[0]
    finally:
        done.set()
        looker.join()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


LEAST_WAITS: dict[str, list[float]] = {
    "zero": [0, 0],
    "negative": [0, 0],
    "seconds": [7, 7],
    "fraction": [1.5, 1.5],
    "milliseconds": [2.5, 2.5],
    "past date": [0, 0],
    "garbage": [0, 0],
    "impossible date": [0, 0],
    "infinite": [0, 0],
    "overflowing": [0, 0],
    "RetryInfo": [7.5, 7.5],
    # A wait that would go beyond what one call may wait in all is not begun.
    "ten minutes": [600],
    "absurd": [],
    "date": [],
}


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("hint", [*HINTS, "RetryInfo"])
async def test_server_says_how_long_to_wait(bench: Bench, hint: str, way: Way) -> None:
    """Seconds, milliseconds, a date or Google's way; nonsense is no hint, and nobody waits for thirty years."""
    stop = NoPause()
    tried = await bench.attempt(way, (f"429 {hint}",), stop=stop)

    assert tried.made is FailureKind.RATE_LIMIT
    assert tried.waits == pytest.approx(LEAST_WAITS[hint], rel=0.1, abs=0.01)
    assert tried.attempts == tried.requests == len(tried.waits) + 1


def test_date_stands_far_enough_in_the_future() -> None:
    """The hint that nobody may wait for is one for a good while yet."""
    assert datetime.now(UTC).year < 2099


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_nobody_there(bench: Bench, way: Way) -> None:
    """A refused connection is tried again, and says whose address it was."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        tried = await bench.attempt(way, ("fine",), base_url=base_url)

    assert tried.made is FailureKind.TRANSIENT
    assert (tried.attempts, tried.requests) == (MAX_ATTEMPTS, 0)
    assert tried.result.failure is not None
    assert base_url in tried.result.failure.message


@pytest.mark.parametrize("way", ways_of("the key as an answer"), ids=str)
async def test_key_in_an_answer_is_not_kept(running: FaultServer, monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    """No secret reaches the store, whoever says it."""
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    tried = await Bench(running).attempt(way, ("the key as an answer",))

    assert tried.made is Outcome.ANSWERED
    assert not [key for key in KEYS.values() if key in repr(tried.result)]
