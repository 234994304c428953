"""What may be an image or a document is known by its bytes."""

from __future__ import annotations

import struct

import pytest
from support.media import gif, jpeg, mp3, pdf, png, wav, webp

from tiebreak.core import media
from tiebreak.core.errors import DatasetError
from tiebreak.core.media import bytes_of, media_part, with_bytes
from tiebreak.core.message import AudioPart, FilePart, Message, TextPart


@pytest.mark.parametrize(
    ("data", "media_type", "size"),
    [
        (png(640, 480), "image/png", (640, 480)),
        (jpeg(800, 600), "image/jpeg", (800, 600)),
        (gif(7, 4), "image/gif", (7, 4)),
        (webp(9, 6), "image/webp", (9, 6)),
        (b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 99 | 49 << 14), "image/webp", (100, 50)),
        (b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 30, 20), "image/webp", (30, 20)),
        (pdf(), "application/pdf", (0, 0)),
        (wav(), "audio/wav", (0, 0)),
        (mp3(), "audio/mpeg", (0, 0)),
        (b"ID3\x04\0\0\0\0\0\0" + mp3(), "audio/mpeg", (0, 0)),
        (b"ID3\x04\0\0\0\0\1\0" + bytes(128 + 500) + mp3(), "audio/mpeg", (0, 0)),
        (wav().replace(b"data\xa0\0\0\0", b"LIST\3\0\0\0abc\0data\xff\xff\xff\xff"), "audio/wav", (0, 0)),
    ],
)
def test_known_kinds_are_told_by_their_bytes(data, media_type, size):
    """Whatever the name says."""
    part = media_part(data, name="file.svg")
    assert (part.media_type, (part.width, part.height)) == (media_type, size)
    assert isinstance(part, FilePart) == (media_type == "application/pdf")
    assert isinstance(part, AudioPart) == media_type.startswith("audio/")
    assert bytes_of(part) == data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "SVG or other markup, which is refused"),
        (b"\xef\xbb\xbf <?xml version='1.0'?><svg/>", "SVG or other markup"),
        (b"<!-- x --><html><script>alert(1)</script>", "SVG or other markup"),
        (b"", "none of them"),
        (b"MZ\x90\0", "none of them"),
        (b"junk%PDF-1.4", "none of them"),
        (b"BM" + png(), "none of them"),
        (png(60_000, 60_000), r"60,000 × 60,000 pixels"),
        (png(200_000, 1), "30,000 on a side"),
        (jpeg(65_000, 65_000), "65,000 × 65,000 pixels"),
        (gif(65_535, 65_535), "65,535 × 65,535 pixels"),
        (png(0, 5), "its header is broken"),
        (png()[:20], "its header is broken"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 20, "its header is broken"),
        (b"\xff\xd8\xff" + b"\xff" * 100, "its header is broken"),
        (b"RIFF\0\0\0\0WEBPjunk", "its header is broken"),
        (b"RIFF\0\0\0\0AVI junk", "none of them"),
        (b"\xff\xfb\xff\x00", "none of them"),
        (b"\xff\xfb", "none of them"),
        (wav()[:12], "begins as audio/wav, but there is no sound in it"),
        (wav()[:44], "begins as audio/wav, but there is no sound in it"),
        (b"RIFF\0\0\0\0WAVEdata" + bytes(40), "begins as audio/wav, but there is no sound in it"),
        (wav().replace(b"data", b"junk"), "begins as audio/wav, but there is no sound in it"),
        (b"ID3", "begins as audio/mpeg, but there is no sound in it"),
        (b"ID3\x04\0\0\0\0\0\x7f" + mp3(), "begins as audio/mpeg, but there is no sound in it"),
        (b"%PDF-1.4", "begins as application/pdf, but there is no object in it"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(data, words):
    """Markup with scripts, programs, polyglots that begin as something else, and images that would unpack to gigabytes."""
    with pytest.raises(ValueError, match=words):
        media_part(data, name="x.png")


def test_a_polyglot_is_what_its_first_bytes_say():
    """What is hidden behind an image is never looked at: it is sent, stored and shown as that image."""
    assert media_part(gif() + b"<script>alert(1)</script>", name="x.html").media_type == "image/gif"


def test_a_file_beyond_the_limit_is_refused(monkeypatch):
    """The limit is the same for a file and for bytes in a row."""
    monkeypatch.setattr(media, "LARGEST_BYTES", 50)
    with pytest.raises(ValueError, match="an image or file may have 50 bytes"):
        media_part(png(), name="x.png")


def test_a_file_that_changed_since_it_was_read_is_not_sent(tmp_path):
    """What was looked at is what is asked."""
    path = tmp_path / "x.png"
    path.write_bytes(png())
    part = media_part(png(), name="x.png", path=str(path))
    assert part.data_base64 == ""
    assert bytes_of(part) == png()
    path.write_bytes(png(colour=3))
    with pytest.raises(DatasetError, match="has changed since the dataset was read"):
        bytes_of(part)
    path.unlink()
    with pytest.raises(DatasetError, match="cannot be read"):
        bytes_of(part)


def test_nothing_of_a_path_goes_into_a_request(tmp_path):
    """A recording made here must be found on another machine."""
    path = tmp_path / "x.png"
    path.write_bytes(png())
    part = media_part(png(), name="x.png", path=str(path))
    sent = with_bytes([Message(role="user", parts=(part, TextPart("?")))])
    assert str(tmp_path) not in repr(sent)
    assert sent[0].parts[0].data_base64
