"""A whole stream of an answer, as a server of any format sends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tiebreak.core.message import StreamEnd, StreamEvent


def encode_stream(wire: Any, events: Iterable[StreamEvent], **options: Any) -> Iterator[bytes]:
    """The stream piece by piece; `wire` is the module of a format, the options are its writer's."""
    writer = wire.Writer(**options)
    yield from writer.begin()
    for event in events:
        yield from writer.write(event)
        if isinstance(event, StreamEnd):
            return
