"""Gemini's batches, by files: large inline jobs were billed and could not be fetched, users report."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec

from tiebreak.core.batch import End, Job, JobLimits, LineResult, RemoteJob
from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.model import Request
from tiebreak.providers.batches import MEGABYTE, BatchClient, answered, encoded_line, failed, file_upload, job_refused
from tiebreak.wire import gemini
from tiebreak.wire.errors import reported_error
from tiebreak.wire.reading import parse

_ENDS = {"SUCCEEDED": End.COMPLETED, "EXPIRED": End.EXPIRED, "CANCELLED": End.CANCELLED, "FAILED": End.REFUSED}


class _File(msgspec.Struct):
    name: str


class _Uploaded(msgspec.Struct):
    file: _File


class _Output(msgspec.Struct, rename="camel"):
    responses_file: str | None = None


class _Stats(msgspec.Struct, rename="camel"):
    request_count: int | str = 0
    successful_request_count: int | str = 0
    failed_request_count: int | str = 0


class _About(msgspec.Struct, rename="camel"):
    state: str = ""
    display_name: str = ""
    batch_stats: _Stats = msgspec.field(default_factory=_Stats)
    output: _Output = msgspec.field(default_factory=_Output)


class _Operation(msgspec.Struct):
    name: str
    metadata: _About = msgspec.field(default_factory=_About)
    done: bool = False
    response: _Output = msgspec.field(default_factory=_Output)
    error: dict[str, Any] | None = None


class _Page(msgspec.Struct, rename="camel"):
    operations: list[_Operation] = msgspec.field(default_factory=list)
    next_page_token: str = ""


class _Line(msgspec.Struct):
    key: str
    response: msgspec.Raw = msgspec.Raw(b"")
    error: dict[str, Any] | None = None


_UPLOADED = msgspec.json.Decoder(_Uploaded)
_OPERATION = msgspec.json.Decoder(_Operation)
_PAGE = msgspec.json.Decoder(_Page)
_LINE = msgspec.json.Decoder(_Line)


class GoogleBatches(BatchClient):
    """Batches of generateContent."""

    limits: ClassVar[JobLimits] = JobLimits(lines=50_000, bytes=1_900 * MEGABYTE)

    def line(self, trial: str, request: Request) -> bytes:
        """A request as it would be by itself."""
        return encoded_line({"key": trial, "request": gemini.encode(request)})

    async def upload(self, job: Job, path: Path) -> str:
        """The file's name."""
        body = file_upload(path)
        start = {
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(body.size),
            "X-Goog-Upload-Header-Content-Type": "application/jsonl",
        }
        begun = await self.post("/upload/v1beta/files", {"file": {"display_name": job.key}}, start)
        address = begun.headers.get("x-goog-upload-url")
        if not address:
            raise ProviderError("the server does not say where the file is to go", kind=FailureKind.MALFORMED)
        whole = {"X-Goog-Upload-Offset": "0", "X-Goog-Upload-Command": "upload, finalize"}
        sent = await self.fetch("POST", self.own_path(address), body, kind="application/jsonl", headers=whole)
        return parse(_UPLOADED, sent.body, "an uploaded file").file.name

    async def create(self, job: Job, path: Path, upload: str, model: str) -> str:
        """The operation's name."""
        body = {"batch": {"displayName": job.key, "inputConfig": {"fileName": upload}}}
        response = await self.post(f"/v1beta/models/{quote(model, safe='')}:batchGenerateContent", body)
        return parse(_OPERATION, response.body, "a batch").name

    async def look(self, identity: str) -> RemoteJob:
        """The operation as it is now."""
        response = await self.fetch("GET", f"/v1beta/{quote(identity, safe='/')}")
        return _remote(parse(_OPERATION, response.body, "a batch"))

    async def listed(self) -> AsyncGenerator[RemoteJob, None]:
        """The account's operations, page by page."""
        token = ""
        while True:
            page = parse(_PAGE, (await self.fetch("GET", f"/v1beta/batches?pageSize=100{token}")).body, "a list of batches")
            for operation in page.operations:
                yield _remote(operation)
            if not page.next_page_token:
                return
            token = f"&pageToken={quote(page.next_page_token, safe='')}"

    def read(self, line: bytes) -> LineResult | None:
        """An answer, or the error of one request."""
        found = parse(_LINE, line, "a line of a batch's results")
        try:
            if found.error is not None or not found.response:
                raise reported_error({"error": found.error or {}})
            return answered(found.key, gemini.decode(bytes(found.response)))
        except ProviderError as error:
            return failed(found.key, error)


def _remote(operation: _Operation) -> RemoteJob:
    about, error = operation.metadata, operation.error or {}
    end = _ENDS.get(about.state.rpartition("STATE_")[2])
    if end is None and operation.done:
        end = End.REFUSED if operation.error else End.COMPLETED
    file = operation.response.responses_file or about.output.responses_file
    stats = about.batch_stats
    return RemoteJob(
        id=operation.name,
        end=end,
        key=about.display_name,
        lines=_number(stats.request_count),
        done=_number(stats.successful_request_count) + _number(stats.failed_request_count),
        error=job_refused(str(error.get("status") or ""), str(error.get("message") or "")) if end is End.REFUSED else None,
        files=(f"/download/v1beta/{quote(file, safe='/')}:download?alt=media",) if file else (),
    )


def _number(count: int | str) -> int:
    """A count, which this API writes as a text."""
    return count if isinstance(count, int) else int(count) if count.isdecimal() else 0
