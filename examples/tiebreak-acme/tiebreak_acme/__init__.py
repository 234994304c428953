"""A provider over HTTP. Connections, deadlines, errors by status and hiding the key are HttpProvider's; retries the engine's."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from tiebreak.core.message import Finish, Reply, StreamEvent, TextDelta, Usage
from tiebreak.core.model import Request
from tiebreak.core.protocols import Listener
from tiebreak.providers.http import HttpProvider
from tiebreak.wire.reading import StreamReader, build_reply, parse


class Piece(msgspec.Struct):
    """What Acme sends: a whole answer, or a piece of one; the last piece says why it ended and what it took."""

    text: str = ""
    ended: Finish | None = None
    tokens: tuple[int, int] = (0, 0)
    dollars: float | None = None

    def usage(self) -> Usage:  # noqa: D102
        return Usage(input_tokens=self.tokens[0], output_tokens=self.tokens[1], cost_usd=self.dollars)


class Acme(HttpProvider):
    """Models of Acme: `acme/NAME`."""

    name: ClassVar[str] = "acme"
    key_variables: ClassVar[tuple[str, ...]] = ("ACME_API_KEY",)
    url_variables: ClassVar[tuple[str, ...]] = ("ACME_BASE_URL",)
    unsupported: ClassVar[frozenset[str]] = frozenset({"top_k", "min_p", "repeat_penalty", "num_ctx", "reasoning_effort"})
    default_url: ClassVar[str] = "https://api.acme.example/v2"
    FORMAT = "acme"
    pieces = msgspec.json.Decoder(Piece)

    def headers(self) -> dict[str, str]:  # noqa: D102 -- the docstrings are HttpProvider's
        return {"X-Acme-Key": self._endpoint.api_key}

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:  # noqa: D102
        return await self.ask("/answers", self, request, listener)

    async def list_models(self) -> Sequence[str]:  # noqa: D102
        return await self.model_ids("/models")

    def encode(self, request: Request) -> dict[str, Any]:  # noqa: D102
        turns = [{"by": message.role, "text": message.text} for message in request.messages]
        return {**request.settings, "model": request.model, "turns": turns, "stream": request.stream}

    def decode(self, data: bytes) -> Reply:  # noqa: D102
        piece = parse(self.pieces, data, "an answer of Acme's")
        return build_reply([TextDelta(piece.text)], finish=piece.ended or Finish.STOP, usage=piece.usage(), model="")

    class Reader(StreamReader):  # noqa: D106
        def _events(self, payload: bytes) -> Iterator[StreamEvent]:
            piece = parse(Acme.pieces, payload, "a piece of Acme's answer")
            yield TextDelta(piece.text)
            self._finish, self._usage = piece.ended, piece.usage()
            yield from self._end()  # Nothing, until Acme said why it ended: an answer that is cut is a failure.
