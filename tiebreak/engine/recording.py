"""Answers kept and used again: recordings, to run without a network; a cache, for runs that repeat themselves."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tiebreak.core.digest import digest_of
from tiebreak.core.errors import ConfigError, FailureKind, ProviderError
from tiebreak.core.files import slug
from tiebreak.core.message import Likelihood, Message, Reply
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Generates, Listener

Redact = Callable[[str], str]


class _Fault(msgspec.Struct):
    kind: FailureKind
    message: str
    retry_after: float | None = None


class _Entry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One exchange: what was asked, for a person to read, and what came of it."""

    key: str
    asked: str
    reply: Reply | None = None
    fault: _Fault | None = None


_ENTRY = msgspec.json.Decoder(_Entry)
_REPLY = msgspec.json.Decoder(Reply)


def request_key(request: Request) -> str:
    """Identity of everything in a request that affects its answer; the repeat is part of it."""
    asked = msgspec.to_builtins(replace(request, verbatim=None))
    if request.verbatim is not None and not request.messages:
        # Nobody but its provider could read it: its own words are all there is to know it by.
        asked["verbatim"] = request.verbatim.body.decode("utf-8", "replace")
    return digest_of({**asked, "nonce": "", "options": (), "stream": False})


class _Before:
    """Stands before a provider; likelihoods are neither recorded nor remembered."""

    def __init__(self, inner: Generates) -> None:
        self._inner = inner

    async def likelihood(self, model: str, messages: Sequence[Message], continuation: str, *, raw: bool = False) -> Likelihood:
        """Ask the provider itself."""
        return await self._inner.likelihood(model, messages, continuation, raw=raw)


class Recorder(_Before):
    """Passes requests on and writes down every exchange, failed ones too, with secrets removed."""

    def __init__(self, inner: Generates, folder: Path, model: ModelRef, redact: Redact) -> None:
        super().__init__(inner)
        self._redact = redact
        path = _file(folder, model)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise ConfigError(f"cannot record to {path}: {error.strerror}") from None

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask, and write down what came of it."""
        try:
            reply = await self._inner.generate(request, listener)
        except ProviderError as error:
            self._write(request, fault=_Fault(error.kind, str(error), error.retry_after))
            raise
        self._write(request, reply=reply)
        return reply

    def _write(self, request: Request, **outcome: Any) -> None:
        entry = _Entry(key=request_key(request), asked=request.messages[-1].text if request.messages else "", **outcome)
        line = self._redact(msgspec.json.encode(entry).decode())
        self._file.write(line.encode() + b"\n")

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class Replay:
    """Answers from a recording: the same request gets the same answers, in the order they were given."""

    def __init__(self, folder: Path, model: ModelRef) -> None:
        self._path = _file(folder, model)
        self._answers: dict[str, deque[_Entry]] = defaultdict(deque)
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            raise ConfigError(f"there is no recording of {model.label} in {folder}") from None
        for number, line in enumerate(lines, start=1):
            entry = self._read(line, number)
            self._answers[entry.key].append(entry)

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """The next answer recorded for this request."""
        answers = self._answers.get(request_key(request))
        if not answers:
            raise ProviderError(f"the recording {self._path} has no answer to this request", kind=FailureKind.BAD_REQUEST)
        # The last answer stays: a run that asks more often than the recorded one hears it again.
        entry = answers.popleft() if len(answers) > 1 else answers[0]
        if entry.reply is not None:
            return entry.reply
        fault = entry.fault or _Fault(FailureKind.MALFORMED, "the recording is incomplete")
        raise ProviderError(fault.message, kind=fault.kind, retry_after=fault.retry_after)

    async def likelihood(self, model: str, messages: Sequence[Message], continuation: str, *, raw: bool = False) -> Likelihood:
        """A recording has answers only."""
        raise ProviderError(f"the recording {self._path} has no likelihoods; leave out --replay", kind=FailureKind.BAD_REQUEST)

    def _read(self, line: bytes, number: int) -> _Entry:
        try:
            return _ENTRY.decode(line)
        except msgspec.DecodeError as error:
            raise ConfigError(f"{self._path}, line {number}: not a recorded exchange: {error}") from None


class Cache(_Before):
    """Remembers good answers between runs. A remembered answer is marked, and costs and counts nothing."""

    def __init__(self, inner: Generates, folder: Path, model: ModelRef, redact: Redact = str) -> None:
        super().__init__(inner)
        self._model = model.digest
        self._redact = redact
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._answers = sqlite3.connect(folder / "answers.sqlite", isolation_level=None)
            self._answers.execute("PRAGMA journal_mode = WAL")
            self._answers.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, reply BLOB) WITHOUT ROWID")
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"cannot keep a cache in {folder}: {error}") from None

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """The remembered answer, or a new one that is remembered from now on."""
        key = f"{self._model}/{request_key(request)}"
        row = self._answers.execute("SELECT reply FROM answers WHERE key = ?", (key,)).fetchone()
        if row is not None:
            return replace(_REPLY.decode(row[0]), cached=True)
        reply = await self._inner.generate(request, listener)
        with contextlib.suppress(sqlite3.Error):  # A full disk is no reason to lose an answer.
            kept = self._redact(msgspec.json.encode(reply).decode()).encode()
            self._answers.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, kept))
        return reply

    def close(self) -> None:
        """Let go of the file."""
        self._answers.close()


def _file(folder: Path, model: ModelRef) -> Path:
    return folder / f"{slug(model.spelled_out)}.jsonl"
