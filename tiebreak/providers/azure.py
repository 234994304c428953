"""OpenAI's models, and others, in a company's own Azure resource: azure/<deployment>."""

from __future__ import annotations

from typing import ClassVar

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.model import ModelRef
from tiebreak.providers.openai import Compatible

_V1 = "/openai/v1"
_TOKEN = "eyJ"  # noqa: S105 -- how every JSON web token begins
"""A token of Microsoft Entra ID stands where a key may stand."""
_PLACE = "AZURE_OPENAI_ENDPOINT"


class Azure(Compatible):
    """The v1 API of an Azure OpenAI resource. A model is called by the name of its deployment."""

    name: ClassVar[str] = "azure"
    key_variables: ClassVar[tuple[str, ...]] = ("AZURE_OPENAI_API_KEY",)
    url_variables: ClassVar[tuple[str, ...]] = (_PLACE,)
    default_url: ClassVar[str] = "https://RESOURCE.openai.azure.com/openai/v1"
    """No address at all: every resource has its own."""

    @classmethod
    def lacking(cls, base_url: str) -> str:
        """Every resource has an address of its own."""
        return "" if base_url else f"'azure' needs the address of your resource: set {_PLACE}=https://<resource>.openai.azure.com"

    def headers(self) -> dict[str, str]:
        """The key in Azure's own header, or a token as bearer."""
        key = self._endpoint.api_key
        return {"Authorization": f"Bearer {key}"} if key.startswith(_TOKEN) else {"api-key": key}

    async def open(self, model: ModelRef) -> None:
        """Refuse to call nowhere."""
        if self.base_url == self.default_url:
            raise ProviderError(
                f"where {model.label} is served is not known: set {_PLACE}=https://<your resource>.openai.azure.com",
                kind=FailureKind.AUTH,
            )
        if not self.base_url.endswith(_V1):
            self.base_url = self.base_url.rstrip("/") + _V1
        await super().open(model)
