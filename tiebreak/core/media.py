"""Images, documents and sounds in samples: what may be one, known by its bytes, and how its bytes are read."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from tiebreak.core.errors import DatasetError
from tiebreak.core.message import AudioPart, FilePart, ImagePart, MediaPart, Message

LARGEST_BYTES = 20 * 1024 * 1024
"""Of one image or document: more than that, most providers refuse."""
MOST_PIXELS = 100_000_000
LONGEST_SIDE = 30_000
PDF = "application/pdf"
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
"""Sounds, each with the name that providers have for its format."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_GIFS = (b"GIF87a", b"GIF89a")
_NO_SIZE = frozenset({0xC4, 0xC8, 0xCC})
"""JPEG markers that look like the start of a frame and are none."""
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_LEAST_FORM = 16
_LONGEST_GAP = 1 << 16
_PDF_OBJECT = re.compile(rb"\d\s+\d+\s+obj\b")
_MARKUP = re.compile(rb"^(\xef\xbb\xbf)?\s*(<\?xml|<!doctype|<!--|<svg|<html)", re.IGNORECASE)

_WANTED = "a PNG, JPEG, GIF or WebP image, a PDF, or a WAV or MP3 sound"

Size = tuple[int, int]
Known = ImagePart | FilePart | AudioPart


def media_part(data: bytes, *, name: str, path: str = "") -> Known:
    """The image, document or sound that some bytes are; ValueError where they are none that may be sent.

    With a path the bytes stay in their file until they are sent.
    """
    if len(data) > LARGEST_BYTES:
        raise ValueError(f"{name} has {in_bytes(len(data))}; an image or file may have {in_bytes(LARGEST_BYTES)}")
    media_type, (width, height) = _kind_of(data, name)
    kept = "" if path else base64.b64encode(data).decode()
    return _part_class(media_type)(
        media_type=media_type,
        data_base64=kept,
        path=path,
        digest=digest_of_bytes(data),
        name=name,
        size_bytes=len(data),
        width=width,
        height=height,
    )


def _part_class(media_type: str) -> type[Known]:
    return FilePart if media_type == PDF else AudioPart if media_type in AUDIO_FORMATS else ImagePart


def digest_of_bytes(data: bytes) -> str:
    """Hex digest of the bytes of an image or document."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def bytes_of(part: MediaPart) -> bytes:
    """The bytes of an image or document, which must still be those that were looked at."""
    if part.data_base64:
        return base64.b64decode(part.data_base64)
    try:
        with Path(part.path).open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise DatasetError(f"{part.name}: cannot be read: {error.strerror}") from None
    if digest_of_bytes(data) != part.digest:
        raise DatasetError(f"{part.name}: has changed since the dataset was read; run it again")
    return data


def with_bytes(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages as they are sent: every image and document with its bytes, and nothing of where they came from."""
    return tuple(
        message
        if not message.media
        else replace(message, parts=tuple(_sent(part) if isinstance(part, MediaPart) else part for part in message.parts))
        for message in messages
    )


def _sent(part: MediaPart) -> MediaPart:
    if not part.digest:
        return part
    data = part.data_base64 or base64.b64encode(bytes_of(part)).decode()
    if isinstance(part, FilePart):
        return FilePart(media_type=part.media_type, data_base64=data, name=part.name)
    return type(part)(media_type=part.media_type, data_base64=data)


def decoded(text: str, name: str) -> bytes:
    """The bytes that base64 stands for."""
    if len(text) > LARGEST_BYTES * 3 // 2:
        raise ValueError(f"{name} has more than {in_bytes(LARGEST_BYTES)}, which an image or file may have at most")
    try:
        return base64.b64decode(re.sub(r"\s+", "", text), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{name} is not readable as base64") from None


def in_bytes(count: int) -> str:
    """`20 MB`, `1.2 MB`, `14 kB` or `300 bytes`."""
    if count >= 1 << 20:
        return f"{count / (1 << 20):.3g} MB"
    return f"{count / 1024:.3g} kB" if count >= 1024 else f"{count} bytes"


def _kind_of(data: bytes, name: str) -> tuple[str, Size]:
    """The media type by the bytes alone, with the dimensions that an image's header names."""
    if data.startswith(b"%PDF-"):
        if not _PDF_OBJECT.search(data):
            raise ValueError(f"{name} begins as {PDF}, but there is no object in it")
        return PDF, (0, 0)
    if data.startswith(_PNG):
        kind, size = "image/png", _png_size(data)
    elif data.startswith(_JPEG):
        kind, size = "image/jpeg", _jpeg_size(data)
    elif data.startswith(_GIFS):
        kind, size = "image/gif", _unpacked("<HH", data, 6)
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        kind, size = "image/webp", _webp_size(data)
    elif (sound := _sound(data, name)) is not None:
        return sound, (0, 0)
    else:
        what = "SVG or other markup, which is refused" if _MARKUP.match(data[:1000]) else "none of them"
        raise ValueError(f"{name} must be {_WANTED} by its bytes, and is {what}")
    return kind, _bounded(size, kind, name)


def _sound(data: bytes, name: str) -> str | None:
    """The type of a sound: WAV by its chunks, MP3 by a frame, with a tag before it or none."""
    if data.startswith(b"RIFF") and data[8:12] == b"WAVE":
        kind, has_sound = "audio/wav", _has_samples(data)
    elif data.startswith(b"ID3"):
        kind, has_sound = "audio/mpeg", _has_frame(data)
    else:
        return "audio/mpeg" if _is_frame(data) else None
    if not has_sound:
        raise ValueError(f"{name} begins as {kind}, but there is no sound in it")
    return kind


def _has_samples(data: bytes) -> bool:
    """Whether a WAV says how its samples are written, and has some. Recorders leave the length at 0 or at its most."""
    at, form = 12, False
    while at + 8 < len(data):
        kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if kind == b"data":
            return form
        form = form or (kind == b"fmt " and length >= _LEAST_FORM)
        at += 8 + length + length % 2
    return False


def _has_frame(data: bytes) -> bool:
    """Whether a frame follows on an MP3's tag, and on what is left empty after it."""
    size = 0
    for part in data[6:10]:
        size = size << 7 | part & 0x7F
    begin = 10 + size
    return any(_is_frame(data[at : at + 4]) for at in range(begin, min(len(data), begin + _LONGEST_GAP)))


def _is_frame(data: bytes) -> bool:
    """Whether bytes begin as a frame of an MP3, with a rate that exists."""
    return len(data) > 3 and data[0] == 0xFF and data[1] & 0xE6 == 0xE2 and data[2] >> 4 not in (0, 15) and data[2] & 12 != 12


def _bounded(size: Size | None, kind: str, name: str) -> Size:
    if size is None or 0 in size:
        raise ValueError(f"{name} begins as {kind}, but its header is broken")
    width, height = size
    if width * height > MOST_PIXELS or max(size) > LONGEST_SIDE:
        most = f"{MOST_PIXELS:,} pixels, {LONGEST_SIDE:,} on a side"
        raise ValueError(f"{name} would unpack to {width:,} × {height:,} pixels; an image may have {most}")
    return size


def _unpacked(form: str, data: bytes, at: int) -> Size | None:
    try:
        first, second = struct.unpack_from(form, data, at)
    except struct.error:
        return None
    return first, second


def _png_size(data: bytes) -> Size | None:
    return _unpacked(">II", data, 16) if data[12:16] == b"IHDR" else None


def _jpeg_size(data: bytes) -> Size | None:
    """The dimensions in the first frame header; segments before it are skipped by their length."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _WITHOUT_LENGTH:
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_SIZE:
            found = _unpacked(">HH", data, at + 5)
            return None if found is None else (found[1], found[0])
        else:
            at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4]))
    return None


def _webp_size(data: bytes) -> Size | None:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L" and len(data) >= 25 and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        found = _unpacked("<HH", data, 26)
        return None if found is None else (found[0] & 0x3FFF, found[1] & 0x3FFF)
    return None
