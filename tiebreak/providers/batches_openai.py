"""OpenAI's batches, and those of servers that speak like it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import quote

import msgspec

from tiebreak.core.batch import End, Job, JobLimits, LineResult, RemoteJob
from tiebreak.core.errors import ProviderError
from tiebreak.core.message import Reply
from tiebreak.core.model import Request
from tiebreak.providers.batches import (
    MEGABYTE,
    Account,
    BatchClient,
    answered,
    encoded_line,
    failed,
    file_upload,
    job_refused,
)
from tiebreak.wire.errors import http_error, reported_error
from tiebreak.wire.reading import parse

_METADATA = "tiebreak_batch"
_BOUNDARY = "tiebreak-batch-9b1f6c5e2d7a4083"
_ENDS = {"completed": End.COMPLETED, "expired": End.EXPIRED, "cancelled": End.CANCELLED, "failed": End.REFUSED}
_NOT_RUN = frozenset({"batch_expired", "batch_cancelled"})
"""Codes of requests that were never run."""


class _Named(msgspec.Struct):
    id: str
    filename: str | None = None


class _Counts(msgspec.Struct):
    total: int = 0
    completed: int = 0
    failed: int = 0


class _Problem(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Problems(msgspec.Struct):
    data: list[_Problem] | None = None


class _Batch(msgspec.Struct):
    id: str
    status: str
    input_file_id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    metadata: dict[str, Any] | None = None
    request_counts: _Counts | None = None
    errors: _Problems | None = None


class _Page(msgspec.Struct):
    data: list[_Batch]
    has_more: bool = False


class _Response(msgspec.Struct):
    status_code: int = 200
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: dict[str, Any] | None = None


_NAMED = msgspec.json.Decoder(_Named)
_BATCH = msgspec.json.Decoder(_Batch)
_PAGE = msgspec.json.Decoder(_Page)
_LINE = msgspec.json.Decoder(_Line)


class Speaks(Protocol):
    """How one endpoint spells a request and its answer."""

    def body(self, request: Request) -> Mapping[str, Any]:
        """A request's body."""
        ...

    def decode(self, data: bytes) -> Reply:
        """The answer in a body."""
        ...


class OpenAIBatches(BatchClient):
    """Batches of chat completions or of responses."""

    limits: ClassVar[JobLimits] = JobLimits(lines=50_000, bytes=190 * MEGABYTE)

    def __init__(self, account: Account, *, endpoint: str, speaks: Speaks) -> None:
        super().__init__(account)
        self._endpoint = endpoint
        self._speaks = speaks
        self._names: dict[str, str] = {}
        """Of files, as far as they were looked up."""

    def line(self, trial: str, request: Request) -> bytes:
        """A request with everything it would have by itself."""
        body = self._speaks.body(request)
        return encoded_line({"custom_id": trial, "method": "POST", "url": self._endpoint, "body": body})

    async def upload(self, job: Job, path: Path) -> str:
        """The file's id. Its name tells whose it is where jobs have no metadata."""
        before = (
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{_file_name(job.key)}"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        body = file_upload(path, before=before.encode(), after=f"\r\n--{_BOUNDARY}--\r\n".encode())
        response = await self.fetch("POST", "/files", body, kind=f"multipart/form-data; boundary={_BOUNDARY}")
        return parse(_NAMED, response.body, "an uploaded file").id

    async def create(self, job: Job, path: Path, upload: str, model: str) -> str:
        """The batch's id."""
        body = {
            "input_file_id": upload,
            "endpoint": self._endpoint,
            "completion_window": "24h",
            "metadata": {_METADATA: job.key},
        }
        return parse(_BATCH, (await self.post("/batches", body)).body, "a batch").id

    async def look(self, identity: str) -> RemoteJob:
        """The batch as it is now."""
        response = await self.fetch("GET", f"/batches/{quote(identity, safe='')}")
        return _remote(parse(_BATCH, response.body, "a batch"))

    async def listed(self) -> AsyncGenerator[RemoteJob, None]:
        """The account's batches, page by page; without metadata, by the names of their files."""
        after = ""
        while True:
            page = parse(_PAGE, (await self.fetch("GET", f"/batches?limit=100{after}")).body, "a list of batches")
            for batch in page.data:
                yield _remote(batch, key=await self._key(batch))
            if not page.has_more or not page.data:
                return
            after = f"&after={quote(page.data[-1].id, safe='')}"

    async def _key(self, batch: _Batch) -> str:
        """Our name of a batch, where the server tells of any."""
        if batch.metadata:
            return str(batch.metadata.get(_METADATA) or "another's")
        if not batch.input_file_id:
            return ""
        if batch.input_file_id not in self._names:
            self._names[batch.input_file_id] = await self._file_name_of(batch.input_file_id)
        name = self._names[batch.input_file_id]
        return name.removeprefix("tiebreak-").removesuffix(".jsonl") if name.startswith("tiebreak-") else ""

    async def _file_name_of(self, file: str) -> str:
        try:
            response = await self.fetch("GET", f"/files/{quote(file, safe='')}")
            return parse(_NAMED, response.body, "a file").filename or ""
        except ProviderError:
            return ""  # Not every server tells of files; the batch's results will say whose it is.

    def read(self, line: bytes) -> LineResult | None:
        """An answer, the error of one request, or None where it was not run."""
        found = parse(_LINE, line, "a line of a batch's results")
        if found.error and str(found.error.get("code")) in _NOT_RUN:
            return None
        if found.error and found.response is None:
            return failed(found.custom_id, reported_error(found.error))
        response = found.response or _Response()
        body = bytes(response.body)
        try:
            if response.status_code != 200:
                raise http_error(response.status_code, body, {})
            return answered(found.custom_id, self._speaks.decode(body))
        except ProviderError as error:
            return failed(found.custom_id, error)


class CompatibleBatches(OpenAIBatches):
    """The same at another server, most of which take smaller files."""

    limits: ClassVar[JobLimits] = JobLimits(lines=50_000, bytes=90 * MEGABYTE)


def _file_name(key: str) -> str:
    return f"tiebreak-{key}.jsonl"


def _remote(batch: _Batch, key: str = "") -> RemoteJob:
    counts, problems = batch.request_counts or _Counts(), (batch.errors.data if batch.errors else None) or []
    first = problems[0] if problems else _Problem()
    end = _ENDS.get(batch.status)
    files = [name for name in (batch.output_file_id, batch.error_file_id) if name]
    return RemoteJob(
        id=batch.id,
        end=end,
        key=key,
        lines=counts.total,
        done=counts.completed + counts.failed,
        error=job_refused(first.code or "", first.message or "") if end is End.REFUSED else None,
        files=tuple(f"/files/{quote(name, safe='')}/content" for name in files),
    )
