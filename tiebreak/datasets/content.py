"""What a row asks besides words: images, files and sounds, tools, a response schema, further turns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tiebreak.core.media import LARGEST_BYTES, Known, decoded, in_bytes, media_part
from tiebreak.core.message import MediaPart, Message, Part, TextPart, Tool, ToolCall
from tiebreak.core.sample import Exchange, ToolResult

Row = Mapping[str, Any]

MEDIA = ("image", "images", "file", "audio", *(f"image_{number}" for number in range(1, 10)))
CALLS = "expected_calls"
SCHEMA = "response_schema"
TURNS = "turns"
TURN_TARGETS = "turn_targets"
COLUMNS = frozenset({*MEDIA, TURN_TARGETS, "tools", "tool_results", CALLS, SCHEMA, TURNS})
ROLES = ("system", "user", "assistant", "tool")
NO_CALL = "no call"

_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),(.*)", re.DOTALL)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//|(?!\\))")
_PLACE = re.compile(r"<image (\d+)>")
_ALIASES = {
    **dict.fromkeys(("audio/mp3", "audio/x-mp3"), "audio/mpeg"),
    **dict.fromkeys(("audio/x-wav", "audio/wave", "audio/vnd.wave"), "audio/wav"),
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "application/x-pdf": "application/pdf",
}
_UNNAMED = frozenset({"", "application/octet-stream"})
_TEXTS = ("text", "input_text", "output_text")
_HOLDERS = ("image_url", "image", "file", "document", "input_audio", "audio")
"""Where content parts have the path or the bytes."""
_REMEMBERED = 20_000
_MOST_NAME = 200


class BadField(ValueError):
    """A field that nothing can be made of; the message names it."""


class MediaFolder:
    """Where the images and files of a dataset lie. Nothing outside of it is read, and no address is fetched."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def part(self, value: Any, field: str) -> Known:
        """The image or file that a cell stands for: a path, a data URL, or its bytes as Parquet files hold them."""
        if isinstance(value, Mapping):
            value, name = self._inside(value, field)
            if isinstance(value, bytes):
                return media_part(value, name=name or field)
        if not isinstance(value, str) or not value.strip():
            raise BadField(f"field {field!r} must be a path or a data URL, not {_short(value)}")
        if value.startswith("data:"):
            return _in_data_url(value, field)
        if _ADDRESS.match(value):
            raise BadField(f"field {field!r} is an address, and none is fetched: download {_short(value)} beside the dataset")
        return self._in_file(value, field)

    def _inside(self, value: Mapping[str, Any], field: str) -> tuple[Any, str]:
        name = str(value.get("path") or value.get("filename") or "")[:_MOST_NAME]
        data = value.get("bytes")
        if isinstance(data, bytes):
            return data, Path(name).name
        found = data or value.get("file_data") or value.get("url") or value.get("path")
        return found, Path(name).name

    def _in_file(self, value: str, field: str) -> Known:
        if self._folder is None:
            raise BadField(f"field {field!r} is a path, {_short(value)}, and this dataset has no folder of files")
        root = self._folder.resolve()
        try:
            path = (root / value).resolve(strict=True)
            if not path.is_relative_to(root):
                raise BadField(f"field {field!r}: {_short(value)} leads out of the dataset's folder, and is not read")
            if not path.is_file():
                raise BadField(f"field {field!r}: {_short(value)} is no file")
            status = path.stat()
            return _of_file(path, status.st_mtime_ns, status.st_size, str(path.relative_to(root)))
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise BadField(f"field {field!r}: {_short(value)} cannot be read beside the dataset: {reason}") from None


@lru_cache(maxsize=_REMEMBERED)
def _of_file(path: Path, changed_ns: int, size: int, name: str) -> Known:
    """Looked at once: samples are made anew each time they are asked."""
    if size > LARGEST_BYTES:
        raise BadField(f"{name} has {in_bytes(size)}; an image or file may have {in_bytes(LARGEST_BYTES)}")
    with path.open("rb") as file:
        return media_part(file.read(LARGEST_BYTES + 1), name=name, path=str(path))


def _in_data_url(url: str, field: str) -> Known:
    found = _DATA_URL.fullmatch(url)
    if found is None or ";base64" not in found[2].lower():
        raise BadField(f"field {field!r} must be a data URL in base64, as in data:image/png;base64,…")
    part = media_part(decoded(found[3], f"field {field!r}"), name=field)
    said = found[1].strip().lower()
    if said not in _UNNAMED and _ALIASES.get(said, said) != part.media_type:
        raise BadField(f"field {field!r} is called {said}, and its bytes are {part.media_type}")
    return part


def with_media(messages: tuple[Message, ...], row: Row, folder: MediaFolder) -> tuple[Message, ...]:
    """The messages with what the row's columns show: at `<image 1>` in the text, else before it."""
    media = _in_columns(row, folder)
    if not media:
        return messages
    *before, last = messages
    text = last.text
    named = {int(number) for number in _PLACE.findall(text)} & set(range(1, len(media) + 1))
    parts: list[Part] = [part for number, part in enumerate(media, start=1) if number not in named]
    pieces = _PLACE.split(text)
    for piece, number in zip(pieces[::2], [*pieces[1::2], None], strict=True):
        parts += [TextPart(piece)] if piece else []
        if number is not None:
            parts.append(media[int(number) - 1] if int(number) in named else TextPart(f"<image {number}>"))
    return (*before, Message(role=last.role, parts=(*(p for p in last.parts if isinstance(p, MediaPart)), *parts)))


def _in_columns(row: Row, folder: MediaFolder) -> list[Known]:
    found: list[Known] = []
    for name in MEDIA:
        if row.get(name) is None:
            continue
        value = _read(row[name], name) if name == "images" else row[name]
        listed = value if isinstance(value, list) else [value]
        found += [folder.part(one, name) for one in listed]
    return found


def said_in(turn: Any, folder: MediaFolder, field: str) -> Message:
    """A message of a conversation as OpenAI, Anthropic or Inspect write it."""
    if not isinstance(turn, dict) or turn.get("role") not in ROLES:
        raise BadField(f"field {field!r} must list messages of role ({', '.join(ROLES)}) and content, not {_short(turn)}")
    content, calls = turn.get("content"), turn.get("tool_calls")
    if not isinstance(content, str | list) and not (content is None and calls):
        raise BadField(f"field {field!r} must list messages of role ({', '.join(ROLES)}) and content, not {_short(turn)}")
    return Message(
        role=turn["role"],
        parts=parts_of(content or "", folder, field) if content else (),
        tool_calls=tuple(_past_call(call, field) for call in calls or ()),
        tool_call_id=str(turn.get("tool_call_id") or ""),
    )


def parts_of(content: str | list[Any], folder: MediaFolder, field: str) -> tuple[Part, ...]:
    """A message's content: a text, or a list of content parts."""
    if isinstance(content, str):
        return (TextPart(content),)
    return tuple(_part_of(part, folder, field) for part in content)


def _part_of(part: Any, folder: MediaFolder, field: str) -> Part:
    if isinstance(part, str):
        return TextPart(part)
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in _TEXTS and isinstance(part.get("text"), str):
        return TextPart(part["text"])
    if kind in ("image_url", "input_image", "image", "file", "input_file", "document", "input_audio", "audio"):
        return folder.part(_media_value(part), field)
    known = "text, image_url, image, file, document or input_audio"
    raise BadField(f"field {field!r}: a content part must be of type {known}, not {_short(part)}")


def _media_value(part: Mapping[str, Any]) -> Any:
    """Where each way of writing has the path or the bytes."""
    source = part.get("source")
    if isinstance(source, Mapping):
        data = source.get("data")
        return f"data:{source.get('media_type', '')};base64,{data}" if data else source.get("url")
    value = next((part[name] for name in _HOLDERS if name in part), part)
    if isinstance(value, Mapping) and isinstance(value.get("data"), str):
        return f"data:audio/{value.get('format', '')};base64,{value['data']}"
    return value.get("url", value) if isinstance(value, Mapping) and "url" in value else value


def _past_call(call: Any, field: str) -> ToolCall:
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise BadField(f"field {field!r}: a tool call has an id and a function with a name, not {_short(call)}")
    arguments = function.get("arguments", "{}")
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(id=str(call.get("id") or function["name"]), name=function["name"], arguments=written)


def exchange_of(row: Row, messages: Sequence[Message], folder: MediaFolder, turns: tuple[Message, ...]) -> Exchange | None:
    """What a sample has besides messages in words; None for a row that has nothing."""
    if COLUMNS.isdisjoint(row) and all(message.is_plain for message in messages):
        return None
    return Exchange(
        turns=turns,
        turn_targets=_turn_targets(row, 1 + len(turns)),
        tools=tuple(_tool(tool) for tool in _listed(row, "tools")),
        tool_results=_results(row),
        schema=_schema(row),
    )


def turns_of(row: Row, folder: MediaFolder) -> tuple[Message, ...]:
    """What the user says, turn by turn."""
    return tuple(_turn(turn, folder) for turn in _listed(row, TURNS))


def _turn(turn: Any, folder: MediaFolder) -> Message:
    if isinstance(turn, dict):
        turn = turn.get("content") if turn.get("role", "user") == "user" else None
    if not isinstance(turn, str | list) or not turn:
        raise BadField("field 'turns' must list what the user says: texts, or lists of content parts; the model says the rest")
    return Message(role="user", parts=parts_of(turn, folder, TURNS))


def _turn_targets(row: Row, turns: int) -> tuple[tuple[str, ...], ...]:
    """What is right at each turn; null where a turn is not judged."""
    given = _listed(row, TURN_TARGETS)
    if not given:
        return ()
    if len(given) != turns:
        raise BadField(f"field {TURN_TARGETS!r} has {len(given)} targets, and the model answers {turns} times; null: not judged")
    found = tuple(_accepted(target) for target in given)
    if not any(found):
        raise BadField(f"field {TURN_TARGETS!r} has no target at all")
    return found


def _accepted(target: Any) -> tuple[str, ...]:
    listed = [] if target is None else target if isinstance(target, list) else [target]
    if not all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in listed):
        raise BadField(f"field {TURN_TARGETS!r} must list texts, numbers, lists of them, or null, not {_short(target)}")
    if any(isinstance(one, str) and not one.strip() for one in listed):
        raise BadField(f"field {TURN_TARGETS!r} has an empty target; null says that a turn is not judged")
    return tuple(str(one) for one in listed)


def turns_in_words(targets: Sequence[Sequence[str]]) -> str:
    """Targets of turns as reports show them: `1: Ada; 2: 36`."""
    return "; ".join(f"{number}: {own[0]}" for number, own in enumerate(targets, start=1) if own)


def _tool(given: Any) -> Tool:
    function = given.get("function", given) if isinstance(given, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise BadField(f"field 'tools' must list tools with name, description and parameters, not {_short(given)}")
    parameters = function.get("parameters", function.get("input_schema", {}))
    if not isinstance(parameters, dict):
        raise BadField(f"field 'tools': the parameters of {name!r} must be a JSON schema, not {_short(parameters)}")
    return Tool(name=name, description=str(function.get("description") or ""), parameters=parameters)


def _results(row: Row) -> tuple[ToolResult, ...]:
    given = _read(row.get("tool_results"), "tool_results")
    if given is None:
        return ()
    if isinstance(given, dict):
        given = [{"name": name, "result": result} for name, result in given.items()]
    if not isinstance(given, list):
        raise BadField(f"field 'tool_results' must list results of name and arguments, not {_short(given)}")
    return tuple(_result(one) for one in given)


def _result(given: Any) -> ToolResult:
    wrong = not isinstance(given, dict) or not isinstance(given.get("name"), str) or not {"result", "error"} & set(given)
    arguments = None if wrong else given.get("arguments")
    if wrong or not isinstance(arguments, dict | None):
        raise BadField(f"field 'tool_results' must list name, arguments and result or error, not {_short(given)}")
    said = given["error"] if "error" in given else given["result"]
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return ToolResult(name=given["name"], arguments=arguments, text=text, failed="error" in given)


def _schema(row: Row) -> Mapping[str, Any] | None:
    given = _read(row.get(SCHEMA), SCHEMA)
    if given is not None and not isinstance(given, dict):
        raise BadField(f"field {SCHEMA!r} must be a JSON schema, not {_short(given)}")
    return given


def expected_calls(row: Row) -> list[dict[str, Any]] | None:
    """The calls that would be right, none of them for "no call"; None where the row does not say."""
    if row.get(CALLS) is None:
        return None
    calls = _listed(row, CALLS)
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str) or not isinstance(call.get("arguments", {}), dict):
            raise BadField(f"field {CALLS!r} must list calls with name and arguments, not {_short(call)}")
    return [{"name": call["name"], "arguments": call.get("arguments", {})} for call in calls]


def calls_in_words(calls: Sequence[Mapping[str, Any]]) -> str:
    """Calls as reports show them: `weather(city="Paris")`, one per line."""
    lines = (f"{call['name']}({', '.join(f'{k}={_plain(v)}' for k, v in call['arguments'].items())})" for call in calls)
    return "\n".join(lines) or NO_CALL


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def about_answer(row: Row, targets: Sequence[str]) -> dict[str, Any]:
    """What scorers need to know of a row with tools or a schema, for the sample's metadata."""
    kept: dict[str, Any] = {}
    calls = expected_calls(row)
    if calls is not None:
        kept[CALLS] = calls
    schema = _schema(row)
    if schema is not None:
        kept["schema"] = schema
        if targets:
            kept["expected_json"] = _json_target(targets[0])
    return kept


def _json_target(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise BadField(f"with {SCHEMA!r} the target must be JSON, not {_short(text)}") from None


def _listed(row: Row, name: str) -> list[Any]:
    value = _read(row.get(name), name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadField(f"field {name!r} must be a list, not {_short(value)}")
    return value


def _read(value: Any, name: str) -> Any:
    """A cell's value; in files whose cells are texts, it is JSON."""
    if not isinstance(value, str) or (name == "images" and not value.lstrip().startswith("[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise BadField(f"field {name!r} is not readable as JSON: {error}") from None


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 120 else shown[:117] + "…"
