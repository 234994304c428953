"""Samples on their way: what is large travels to each node once, by its digest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tiebreak.cluster.messages import Parcel, encode
from tiebreak.core.media import bytes_of, digest_of_bytes
from tiebreak.core.message import MediaPart, Message, Part
from tiebreak.core.sample import Sample

_LARGE_BYTES = 16 * 1024
"""A sample above this travels by itself: coding tasks with their files, long contexts, images written into it."""

_decoder = msgspec.msgpack.Decoder(Sample)


class Packer:
    """Packs samples for one machine, which keeps what it was sent."""

    def __init__(self) -> None:
        self._sent: set[str] = set()

    def pack(self, sample: Sample) -> tuple[list[Parcel], bytes, str]:
        """The parcels that must go first; then the sample itself, or the digest of the parcel that holds it."""
        parcels: dict[str, Parcel] = {}
        for part in sample.media:
            if part.path and part.digest not in self._sent and part.digest not in parcels:
                parcels[part.digest] = Parcel(digest=part.digest, data=bytes_of(part))
        data, digest = encode(_with_media(sample, _without_path) if sample.media else sample), ""
        if len(data) > _LARGE_BYTES:
            digest = digest_of_bytes(data)
            if digest not in self._sent:
                parcels[digest] = Parcel(digest=digest, data=data)
            data = b""
        # Only now: where one of them cannot be read, none is sent.
        self._sent.update(parcels)
        return list(parcels.values()), data, digest


class Depot:
    """Where a node keeps the parcels it was sent: in files, so that memory does not grow with the dataset."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, parcel: Parcel) -> None:
        """Keep a parcel for the samples that name it."""
        if digest_of_bytes(parcel.data) != parcel.digest:
            raise ValueError("a parcel was damaged on its way")
        self._file(parcel.digest).write_bytes(parcel.data)

    def unpack(self, data: bytes, digest: str) -> Sample:
        """The sample as it is shown, its images and documents in files of this machine."""
        sample = _decoder.decode(self._file(digest).read_bytes() if digest else data)
        return _with_media(sample, self._with_path) if sample.media else sample

    def _with_path(self, part: MediaPart) -> MediaPart:
        here = part.digest and not part.data_base64 and self._file(part.digest)
        return replace(part, path=str(here)) if here and here.is_file() else part

    def _file(self, digest: str) -> Path:
        # What names a file is a digest, whoever sent it.
        if not digest.isalnum():
            raise ValueError(f"{digest!r} is no digest")
        return self._folder / digest


def _without_path(part: MediaPart) -> MediaPart:
    """A path means nothing on another node, and is nobody else's business."""
    return replace(part, path="") if part.path else part


def _with_media(sample: Sample, change: Callable[[MediaPart], MediaPart]) -> Sample:
    """The sample with every image and document changed."""

    def changed(message: Message) -> Message:
        parts: tuple[Part, ...] = tuple(change(p) if isinstance(p, MediaPart) else p for p in message.parts)  # type: ignore[misc]
        return replace(message, parts=parts)

    exchange = sample.exchange
    if exchange is not None:
        exchange = replace(exchange, turns=tuple(map(changed, exchange.turns)))
    return replace(sample, messages=tuple(map(changed, sample.messages)), exchange=exchange)
