"""Images and documents as the official clients' own types have them."""

from __future__ import annotations

from typing import Any

import pytest
from support.media import mp3, pdf, png, wav
from support.packages import need_packages

from tiebreak.core.media import media_part, with_bytes
from tiebreak.core.message import Message, TextPart
from tiebreak.core.model import Request
from tiebreak.wire import chat, gemini, messages, ollama, responses


def request(*data: bytes) -> Request:
    parts = (*(media_part(one, name=f"{n}.bin") for n, one in enumerate(data)), TextPart("What is shown?"))
    return Request(model="m", messages=with_bytes([Message(role="user", parts=parts)]))


def checked(kind: Any, value: Any) -> None:
    """Raises where the value is not of the type, or has a key that the type has not."""
    from pydantic import TypeAdapter

    assert set(value) <= set(kind.__annotations__)
    TypeAdapter(kind).validate_python(value)


def test_openai_knows_the_parts_of_chat_completions():
    """An image by a data URL, a document with its name."""
    need_packages("openai")
    from openai.types.chat import ChatCompletionContentPartImageParam
    from openai.types.chat.chat_completion_content_part_param import File

    body = chat.encode(request(png(), pdf()))["messages"][0]
    assert [part["type"] for part in body["content"]] == ["image_url", "file", "text"]
    checked(ChatCompletionContentPartImageParam, body["content"][0])
    checked(File, body["content"][1])


def test_openai_knows_sounds_in_chat_completions():
    """By the name of their format."""
    need_packages("openai")
    from openai.types.chat import ChatCompletionContentPartInputAudioParam

    body = chat.encode(request(wav(), mp3()))["messages"][0]
    assert [part["input_audio"]["format"] for part in body["content"][:2]] == ["wav", "mp3"]
    for part in body["content"][:2]:
        checked(ChatCompletionContentPartInputAudioParam, part)


def test_openai_knows_the_parts_of_responses():
    """The same, in the other format."""
    need_packages("openai")
    from openai.types.responses import ResponseInputFileParam, ResponseInputImageParam

    body = responses.encode(request(png(), pdf()))["input"][0]
    assert [part["type"] for part in body["content"]] == ["input_image", "input_file", "input_text"]
    checked(ResponseInputImageParam, body["content"][0])
    checked(ResponseInputFileParam, body["content"][1])


def test_anthropic_knows_the_blocks():
    """A document is a block of its own kind."""
    need_packages("anthropic")
    from anthropic.types import Base64ImageSourceParam, Base64PDFSourceParam

    body = messages.encode(request(png(), pdf()))["messages"][0]
    assert [block["type"] for block in body["content"]] == ["image", "document", "text"]
    checked(Base64ImageSourceParam, body["content"][0]["source"])
    checked(Base64PDFSourceParam, body["content"][1]["source"])


def test_google_knows_the_parts():
    """All are inline data of their type."""
    need_packages("google.genai")
    from google.genai import types

    body = gemini.encode(request(png(), pdf(), wav()))["contents"][0]
    content = types.Content.model_validate(body)
    assert content.parts is not None
    blobs = [part.inline_data for part in content.parts if part.inline_data]
    assert [blob.mime_type for blob in blobs] == ["image/png", "application/pdf", "audio/wav"]
    assert [blob.data for blob in blobs] == [png(), pdf(), wav()]


def test_ollama_has_images_beside_the_text():
    """And says that it takes no documents."""
    body = ollama.encode(request(png()))["messages"][0]
    assert (body["content"], len(body["images"])) == ("What is shown?", 1)
    assert "file" in ollama.UNSUPPORTED


@pytest.mark.parametrize("codec", [responses, messages, ollama])
def test_formats_without_sounds_say_so(codec):
    assert "audio" in codec.UNSUPPORTED


@pytest.mark.parametrize("codec", [chat, responses, messages, gemini, ollama])
def test_nothing_of_our_own_is_sent(codec):
    """Digest, size and path stay here."""
    body = str(codec.encode(request(png())))
    assert "digest" not in body
    assert "size_bytes" not in body
