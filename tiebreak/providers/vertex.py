"""Google's models, and Anthropic's, on Vertex AI: vertex/<model>, with a Google Cloud project's own credentials."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import quote

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.extras import optional
from tiebreak.core.message import Reply
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Endpoint, Listener
from tiebreak.core.redact import Redactor
from tiebreak.providers.anthropic import Anthropic
from tiebreak.providers.http import HttpProvider
from tiebreak.providers.transport import Sink
from tiebreak.wire import gemini, messages

_PROJECT, _LOCATION = "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_ANTHROPIC_VERSION = "vertex-2023-10-16"


class Vertex(HttpProvider):
    """Gemini and Claude models of a Google Cloud project; the access token comes from application default credentials."""

    name: ClassVar[str] = "vertex"
    key_variables: ClassVar[tuple[str, ...]] = (_PROJECT,)
    url_variables: ClassVar[tuple[str, ...]] = ("VERTEX_BASE_URL",)
    unsupported: ClassVar[frozenset[str]] = gemini.UNSUPPORTED

    def __init__(self, endpoint: Endpoint) -> None:
        # The project is no secret: what a server says of it may be read.
        super().__init__(replace(endpoint, base_url=endpoint.base_url or _address(endpoint.api_key), api_key=""))
        self._credentials: Any = None
        self._refreshing = asyncio.Lock()

    @classmethod
    def lacking(cls, base_url: str) -> str:
        """The project is part of every address."""
        if base_url or os.environ.get(_PROJECT):
            return ""
        return (
            f"'vertex' needs a project of Google Cloud and its credentials: set {_PROJECT}, and run gcloud auth "
            "application-default login or set GOOGLE_APPLICATION_CREDENTIALS"
        )

    @classmethod
    def required_settings(cls, name: str) -> Mapping[str, Any]:
        """Claude models want a limit on every answer."""
        return Anthropic.required_settings(name) if _is_claude(name) else {}

    @classmethod
    def lacks(cls, name: str) -> frozenset[str]:
        """What Claude models cannot take here."""
        return Anthropic.lacks(name) | {"audio"} if _is_claude(name) else frozenset()

    async def open(self, model: ModelRef) -> None:
        """Find the credentials; a token is fetched with the first call."""
        auth = optional("google.auth", extra="vertex", needed_by=f"the model {model.label}")
        try:
            self._credentials, _ = await asyncio.to_thread(auth.default, scopes=[_SCOPE])
        except auth.exceptions.GoogleAuthError as error:
            raise ProviderError(
                f"no credentials of Google Cloud were found ({error}): run gcloud auth application-default login, or set "
                "GOOGLE_APPLICATION_CREDENTIALS to a service account's file",
                kind=FailureKind.AUTH,
            ) from None
        await super().open(model)

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one answer, in the format of the model's maker."""
        if _is_claude(request.model):
            action = "streamRawPredict" if request.stream else "rawPredict"
            return await self.ask(_path("anthropic", request.model, action), messages, request, listener)
        action = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        return await self.ask(_path("google", request.model, action), gemini, request, listener)

    def adapt_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Claude's format has the model in the address here, and a version of its own."""
        if "contents" in body:
            return body
        return {name: value for name, value in body.items() if name != "model"} | {"anthropic_version": _ANTHROPIC_VERSION}

    async def list_models(self) -> Sequence[str]:
        """There is no list of what a project may use."""
        return ()

    async def _fetch(
        self, method: str, path: str, data: bytes, sink: Sink | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        token = await self._token()
        return await super()._fetch(method, path, data, sink, {**(headers or {}), "Authorization": f"Bearer {token}"})

    async def _token(self) -> str:
        """A token that is valid now; fetched anew, by one of those who wait for it, when it is about to expire."""
        async with self._refreshing:
            if not self._credentials.valid:
                await asyncio.to_thread(self._refresh)
                self._redact = Redactor((str(self._credentials.token),))
        return str(self._credentials.token)

    def _refresh(self) -> None:
        requests = optional("google.auth.transport.requests", extra="vertex", needed_by="Vertex AI")
        exceptions = optional("google.auth.exceptions", extra="vertex", needed_by="Vertex AI")
        try:
            self._credentials.refresh(requests.Request())
        except exceptions.TransportError as error:
            raise ProviderError(f"Google Cloud gave no access token: {error}", kind=FailureKind.TRANSIENT) from None
        except exceptions.GoogleAuthError as error:
            raise ProviderError(f"Google Cloud refused the credentials: {error}", kind=FailureKind.AUTH) from None


def _is_claude(name: str) -> bool:
    return name.startswith("claude")


def _path(maker: str, model: str, action: str) -> str:
    return f"/publishers/{maker}/models/{quote(model, safe='@')}:{action}"


def _address(project: str) -> str:
    """Where a project's models are reached; the location `global` has a host of its own."""
    location = os.environ.get(_LOCATION) or "global"
    host = "aiplatform.googleapis.com" if location == "global" else f"{location}-aiplatform.googleapis.com"
    return f"https://{host}/v1/projects/{quote(project, safe='')}/locations/{quote(location, safe='')}"
