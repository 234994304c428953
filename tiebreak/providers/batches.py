"""What batch jobs of all providers have in common: files go up and come down in pieces, and lines are read one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from tiebreak import __version__
from tiebreak.core.batch import Job, JobLimits, LineResult, RemoteJob, TakeLine
from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Reply
from tiebreak.core.redact import Redactor
from tiebreak.providers.transport import BodyTooLarge, Response, Sink, Transport, TransportError, Upload
from tiebreak.wire.errors import http_error

MEGABYTE = 1_000_000
_LARGEST_FILE_BYTES = 8 * 1024**3
"""More than any job's results can be: they are read line by line."""
_LONGEST_LINE_BYTES = 64 * 1024**2
_PIECE_BYTES = 256 * 1024
_ENCODER = msgspec.json.Encoder()
_LIMIT = re.compile(r"(token|rate)s?[_ ]limit|limit[_ ](exceeded|reached)|RESOURCE_EXHAUSTED", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where jobs are sent and with which headers, the key among them."""

    base_url: str
    headers: Mapping[str, str]
    redact: Redactor


class BatchClient:
    """The requests that jobs are made of; each provider adds its paths and its shapes."""

    limits: ClassVar[JobLimits]

    def __init__(self, account: Account) -> None:
        self._account = account
        self._transport: Transport | None = None

    async def close(self) -> None:
        """Close every connection."""
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    async def upload(self, job: Job, path: Path) -> str:
        """Nothing is sent ahead."""
        return ""

    async def results(self, remote: RemoteJob, take: TakeLine) -> None:
        """Every line of every file of results."""
        for file in remote.files:
            lines = Lines(take)
            await self.fetch("GET", file, sink=lines.feed)
            lines.end()

    async def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
        """Send JSON."""
        return await self.fetch("POST", path, _ENCODER.encode(body), headers=headers)

    async def fetch(
        self,
        method: str,
        path: str,
        body: bytes | Upload = b"",
        *,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
        sink: Sink | None = None,
    ) -> Response:
        """Send a request; the answer, or a ProviderError. A body that goes to a sink may be of any size."""
        account = self._account
        if self._transport is None:
            self._transport = Transport(account.base_url, {"User-Agent": f"tiebreak/{__version__}", **account.headers})
        headers = {"Content-Type": kind, **(headers or {})}
        largest = None if sink is None else _LARGEST_FILE_BYTES
        try:
            response = await self._transport.request(method, path, body, sink=sink, headers=headers, largest=largest)
        except BodyTooLarge as error:
            raise ProviderError(f"{account.base_url}: {error}", kind=FailureKind.MALFORMED) from error
        except TransportError as error:
            raise ProviderError(f"no answer from {account.base_url}: {error}", kind=FailureKind.TRANSIENT) from error
        if not 200 <= response.status < 300:
            failed = http_error(response.status, response.body, response.headers)
            failed.args = (account.redact(str(failed)),)
            raise failed
        return response

    def own_path(self, url: str) -> str:
        """The path of an address the server named; the key is sent to no other host."""
        parts, own = urlsplit(url), urlsplit(self._account.base_url)
        if parts.netloc and (parts.scheme, parts.netloc) != (own.scheme, own.netloc):
            raise ProviderError(f"{own.netloc} names a file on {parts.netloc}; no key is sent there", kind=FailureKind.MALFORMED)
        path = parts.path.removeprefix(own.path) if own.path else parts.path
        return f"{path}?{parts.query}" if parts.query else path


class Lines:
    """Bytes as they come, handed over line by line."""

    def __init__(self, take: TakeLine) -> None:
        self._take = take
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        if b"\n" not in data:
            self._rest += data
            if len(self._rest) > _LONGEST_LINE_BYTES:
                raise ProviderError("a line of the results has no end", kind=FailureKind.MALFORMED)
            return
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest
        for line in whole:
            self._hand_over(line)

    def end(self) -> None:
        """There are no more; the last line may do without a line feed."""
        self._hand_over(self._rest)
        self._rest = b""

    def _hand_over(self, line: bytes) -> None:
        if line.strip():
            self._take(line)


def encoded_line(parts: Mapping[str, Any]) -> bytes:
    """A line of a job's file."""
    return _ENCODER.encode(parts) + b"\n"


def file_upload(path: Path, *, before: bytes = b"", after: bytes = b"") -> Upload:
    """A file as a body, with something around it."""

    def pieces() -> Iterator[bytes]:
        yield before
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
        yield after

    return Upload(len(before) + path.stat().st_size + len(after), pieces)


def answered(trial: str, reply: Reply) -> LineResult:
    """A line that was answered."""
    return LineResult(trial=trial, reply=reply)


def failed(trial: str, error: ProviderError) -> LineResult:
    """A line that failed."""
    return LineResult(trial=trial, error=error)


def job_refused(code: str, message: str) -> ProviderError:
    """Why a provider ran none of a job: what is over a limit now can be sent later."""
    kind = FailureKind.RATE_LIMIT if _LIMIT.search(code) or _LIMIT.search(message) else FailureKind.BAD_REQUEST
    return ProviderError(": ".join(filter(None, (code, message))) or "the batch was refused", kind=kind)
