"""What OpenAI's two formats have in common, and Ollama took over: functions, schemas, log-probabilities, usage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tiebreak.core.message import MediaPart, Message, TextPart, TokenLogprob, Tool, Usage
from tiebreak.wire.reading import usage_of

SCHEMA_NAME = "answer"
"""A schema must have a name."""


def function(tool: Tool) -> dict[str, Any]:
    """A tool as OpenAI and those who followed spell it."""
    body: dict[str, Any] = {"name": tool.name}
    if tool.description:
        body["description"] = tool.description
    body["parameters"] = dict(tool.parameters)
    return body


def content(message: Message, spell: Callable[[TextPart | MediaPart], dict[str, Any]]) -> str | list[dict[str, Any]]:
    """A message's text; where there are images or files in it, its parts as the format spells each."""
    parts = message.parts
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    if not any(isinstance(part, MediaPart) for part in parts):
        return message.text
    return [spell(part) for part in parts if isinstance(part, (TextPart, MediaPart))]


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is closed throughout, as OpenAI wants it before it will hold a model to it."""
    properties = schema.get("properties")
    if isinstance(properties, Mapping) or schema.get("type") == "object":
        names = set(properties or ())
        if schema.get("additionalProperties") is not False or names != set(schema.get("required") or ()):
            return False
    return all(is_strict(inner) for inner in _inner_schemas(schema))


def _inner_schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    named = [schema.get(name) for name in ("properties", "$defs", "definitions")]
    listed = [schema.get(name) for name in ("anyOf", "allOf", "oneOf")]
    groups: list[Iterable[Any]] = [group.values() for group in named if isinstance(group, Mapping)]
    groups += [group for group in listed if isinstance(group, list)]
    yield from (inner for group in (*groups, [schema.get("items")]) for inner in group if isinstance(inner, Mapping))


class TokenDetails(msgspec.Struct, gc=False):
    """What of a count was cached, or reasoning."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


def detailed_usage(
    input_tokens: int, output_tokens: int, sent: TokenDetails | None, generated: TokenDetails | None
) -> Usage | None:
    """The usage that counts and their details tell of."""
    return usage_of(
        input_tokens=input_tokens,
        cached_tokens=sent.cached_tokens if sent else 0,
        output_tokens=output_tokens,
        reasoning_tokens=generated.reasoning_tokens if generated else 0,
    )


class Logprob(msgspec.Struct, gc=False):
    """One token's entry in the log-probabilities."""

    token: str
    logprob: float
    top_logprobs: list[Logprob] | None = None


def decode_logprobs(entries: Iterable[Logprob] | None) -> tuple[TokenLogprob, ...]:
    """Log-probabilities in our words."""
    return tuple(TokenLogprob(one.token, one.logprob, decode_logprobs(one.top_logprobs)) for one in entries or ())


def encode_logprobs(logprobs: Iterable[TokenLogprob], *, with_top: bool = True) -> list[dict[str, Any]]:
    """Log-probabilities as OpenAI and Ollama spell them."""
    entries = []
    for one in logprobs:
        entry: dict[str, Any] = {"token": one.token, "logprob": one.logprob, "bytes": list(one.token.encode())}
        if with_top:
            entry["top_logprobs"] = encode_logprobs(one.top, with_top=False)
        entries.append(entry)
    return entries
