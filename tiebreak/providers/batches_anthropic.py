"""Anthropic's message batches. They have no metadata: whose a batch is shows in its results alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec

from tiebreak.core.batch import End, Job, JobLimits, LineResult, RemoteJob
from tiebreak.core.errors import ProviderError
from tiebreak.core.model import Request
from tiebreak.providers.batches import MEGABYTE, BatchClient, answered, encoded_line, failed
from tiebreak.providers.transport import Upload
from tiebreak.wire import messages
from tiebreak.wire.errors import reported_error
from tiebreak.wire.reading import parse

_BATCHES = "/v1/messages/batches"
_BEFORE, _AFTER = b'{"requests":[', b"]}"


class _Counts(msgspec.Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class _Batch(msgspec.Struct):
    id: str
    processing_status: str
    request_counts: _Counts = msgspec.field(default_factory=_Counts)


class _Page(msgspec.Struct):
    data: list[_Batch]
    has_more: bool = False


class _Result(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"null")
    error: dict[str, Any] | None = None


class _Line(msgspec.Struct):
    custom_id: str
    result: _Result


_BATCH = msgspec.json.Decoder(_Batch)
_PAGE = msgspec.json.Decoder(_Page)
_LINE = msgspec.json.Decoder(_Line)


class AnthropicBatches(BatchClient):
    """Batches of messages."""

    limits: ClassVar[JobLimits] = JobLimits(lines=100_000, bytes=240 * MEGABYTE)

    def line(self, trial: str, request: Request) -> bytes:
        """A request with the parameters it would have by itself."""
        return encoded_line({"custom_id": trial, "params": messages.encode(request)})

    async def create(self, job: Job, path: Path, upload: str, model: str) -> str:
        """The batch's id. The lines of the file go into one body."""
        response = await self.fetch("POST", _BATCHES, _as_array(path))
        return parse(_BATCH, response.body, "a batch").id

    async def look(self, identity: str) -> RemoteJob:
        """The batch as it is now."""
        response = await self.fetch("GET", f"{_BATCHES}/{quote(identity, safe='')}")
        return _remote(parse(_BATCH, response.body, "a batch"))

    async def listed(self) -> AsyncGenerator[RemoteJob, None]:
        """The account's batches, page by page."""
        after = ""
        while True:
            page = parse(_PAGE, (await self.fetch("GET", f"{_BATCHES}?limit=100{after}")).body, "a list of batches")
            for batch in page.data:
                yield _remote(batch)
            if not page.has_more or not page.data:
                return
            after = f"&after_id={quote(page.data[-1].id, safe='')}"

    def read(self, line: bytes) -> LineResult | None:
        """An answer, the error of one request, or None where it expired or was cancelled."""
        found = parse(_LINE, line, "a line of a batch's results")
        if found.result.type in ("expired", "canceled"):
            return None
        try:
            if found.result.type != "succeeded":
                raise reported_error(found.result.error or {})
            return answered(found.custom_id, messages.decode(bytes(found.result.message)))
        except ProviderError as error:
            return failed(found.custom_id, error)


def _as_array(path: Path) -> Upload:
    """The lines of a file as the elements of an array: each line feed but the last becomes a comma."""
    size = path.stat().st_size

    def pieces() -> Iterator[bytes]:
        yield _BEFORE
        with path.open("rb") as file:
            last = file.readline()
            for line in file:
                yield last[:-1] + b","
                last = line
            yield last[:-1] + _AFTER

    return Upload(len(_BEFORE) + size - 1 + len(_AFTER), pieces)


def _remote(batch: _Batch) -> RemoteJob:
    counts = batch.request_counts
    done = counts.succeeded + counts.errored + counts.canceled + counts.expired
    end = None
    if batch.processing_status == "ended":
        end = End.CANCELLED if counts.canceled else End.EXPIRED if counts.expired else End.COMPLETED
    return RemoteJob(
        id=batch.id,
        end=end,
        lines=counts.processing + done,
        done=done,
        files=(f"{_BATCHES}/{quote(batch.id, safe='')}/results",),
    )
