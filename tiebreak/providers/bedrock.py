"""Models of many makers in an AWS account: bedrock/<model id>."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from msgspec.structs import replace as replaced

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.extras import optional
from tiebreak.core.message import Reply
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Endpoint, Listener
from tiebreak.core.redact import Redactor
from tiebreak.providers.anthropic import Anthropic
from tiebreak.providers.http import HttpProvider
from tiebreak.providers.transport import Sink
from tiebreak.wire import converse

_BEARER = "AWS_BEARER_TOKEN_BEDROCK"
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_NOWHERE = "https://bedrock-runtime.REGION.amazonaws.com"
_CLAUDE = "anthropic."


class Bedrock(HttpProvider):
    """The Converse API. A Bedrock API key goes as it is; without one, requests are signed with the account's credentials."""

    name: ClassVar[str] = "bedrock"
    key_variables: ClassVar[tuple[str, ...]] = (
        *(_BEARER, "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
        *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    )
    """Any of them says where credentials are; on a machine with a role, AWS_PROFILE=default does."""
    url_variables: ClassVar[tuple[str, ...]] = ("BEDROCK_BASE_URL",)
    unsupported: ClassVar[frozenset[str]] = converse.UNSUPPORTED
    default_url: ClassVar[str] = _NOWHERE

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._bearer = os.environ.get(_BEARER, "")
        self._region = next(filter(None, map(os.environ.get, _REGIONS)), "")
        self._session: Any = None

    @classmethod
    def lacking(cls, base_url: str) -> str:
        """A region, which a profile may name too, and credentials."""
        if not any(map(os.environ.get, cls.key_variables)):
            return (
                f"'bedrock' needs credentials: set {_BEARER}, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; "
                f"and the region, as in {_REGIONS[0]}=eu-central-1"
            )
        if base_url or any(map(os.environ.get, (*_REGIONS, "AWS_PROFILE"))):
            return ""
        return f"'bedrock' needs the region of its models: set {_REGIONS[0]}, as in {_REGIONS[0]}=eu-central-1"

    @classmethod
    def required_settings(cls, name: str) -> Mapping[str, Any]:
        """Claude models are stopped early unless a limit is named."""
        _, is_claude, own = name.partition(_CLAUDE)
        return Anthropic.required_settings(own) if is_claude else {}

    async def open(self, model: ModelRef) -> None:
        """Know the region and the credentials before anything is sent."""
        if not self._bearer:
            self._session = optional("botocore.session", extra="bedrock", needed_by=f"the model {model.label}").Session()
            self._region = self._region or str(self._session.get_config_variable("region") or "")
        if self.base_url == _NOWHERE:
            if not self._region:
                raise ProviderError(
                    f"the region of {model.label} is not known: set AWS_REGION, as in AWS_REGION=eu-central-1",
                    kind=FailureKind.AUTH,
                )
            self.base_url = f"https://bedrock-runtime.{self._region}.amazonaws.com"
        await super().open(model)

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one answer; it comes whole, also where a stream is wanted."""
        path = f"/model/{quote(request.model, safe='')}/converse"
        reply = await self.ask(path, converse, replaced(request, stream=False, verbatim=None), listener)  # type: ignore[arg-type]
        return replaced(reply, model=request.model)

    async def list_models(self) -> Sequence[str]:
        """What an account may use is listed by another service than this one."""
        return ()

    async def _fetch(
        self, method: str, path: str, data: bytes, sink: Sink | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        own = {"Authorization": f"Bearer {self._bearer}"} if self._bearer else await self._signed(method, path, data)
        return await super()._fetch(method, path, data, sink, {**(headers or {}), **own})

    async def _signed(self, method: str, path: str, data: bytes) -> dict[str, str]:
        """The headers that sign one request (AWS Signature Version 4)."""
        auth = optional("botocore.auth", extra="bedrock", needed_by="Bedrock")
        request = optional("botocore.awsrequest", extra="bedrock", needed_by="Bedrock").AWSRequest(
            method=method, url=self.base_url + path, data=data, headers={"Content-Type": "application/json"}
        )
        credentials = await asyncio.to_thread(self._credentials)
        auth.SigV4Auth(credentials, "bedrock", self._region).add_auth(request)
        return {name: value for name, value in request.headers.items() if name.lower() != "content-type"}

    def _credentials(self) -> Any:
        """The account's credentials as they are now: those of a role expire, and are fetched again in time."""
        exceptions = optional("botocore.exceptions", extra="bedrock", needed_by="Bedrock")
        try:
            found = self._session.get_credentials()
            frozen = None if found is None else found.get_frozen_credentials()
        except exceptions.BotoCoreError as error:
            raise ProviderError(f"AWS credentials cannot be had: {error}", kind=FailureKind.AUTH) from None
        if frozen is None:
            raise ProviderError(
                f"no AWS credentials were found: set {_BEARER}, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
                kind=FailureKind.AUTH,
            )
        self._redact = Redactor(tuple(filter(None, (frozen.access_key, frozen.secret_key, frozen.token))))
        return frozen
