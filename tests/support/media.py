"""Small images and documents for tests, made byte by byte."""

from __future__ import annotations

import base64
import struct
import zlib


def png(width: int = 2, height: int = 2, colour: int = 0) -> bytes:
    """A grey PNG that every decoder reads, whatever its size in pixels says."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = (b"\0" + bytes([colour]) * min(width, 64)) * min(height, 64)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def jpeg(width: int = 3, height: int = 5) -> bytes:
    """The beginning of a JPEG: a comment, then the frame header."""
    comment = b"\xff\xfe" + struct.pack(">H", 6) + b"note"
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    return b"\xff\xd8" + comment + frame + b"\xff\xd9"


def gif(width: int = 7, height: int = 4) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def webp(width: int = 9, height: int = 6) -> bytes:
    """An extended WebP's header."""
    body = (
        b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def pdf() -> bytes:
    return b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


def wav(seconds: float = 0.01) -> bytes:
    """Silence at 8 kHz."""
    data = bytes(2 * int(8000 * seconds))
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    return b"RIFF" + struct.pack("<I", 28 + 8 + len(data)) + b"WAVE" + form + b"data" + struct.pack("<I", len(data)) + data


def mp3() -> bytes:
    """The beginning of an MP3: the header of a frame of 128 kbit/s at 44.1 kHz."""
    return b"\xff\xfb\x90\x00" + bytes(413)


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
