"""YAML files of people's: read with the line of every key, checked part by part, explained in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from tiebreak.core.errors import ConfigError
from tiebreak.core.plain_yaml import compose_plain, scalar

Where = tuple[str | int, ...]
"""The way to a value: keys, and places in lists."""
_T = TypeVar("_T")
_MOST_MISTAKES = 5
_DEEPEST = 60
_MOST_VALUES = 20_000
_MISTAKE = re.compile(r"(?P<said>.*?)(?: - at (?:`key` in )?`\$(?P<path>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_TYPE = re.compile(r"`([^`]+)`")
_IN_WORDS: Mapping[str, str] = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "names with values",
    "str": "a text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedYaml:
    """A file's data, and the mistakes found in it so far."""

    path: Path
    data: Any
    lines: Mapping[Where, int]
    mistakes: list[str] = field(default_factory=list)

    def line(self, where: Where) -> int:
        """The line of a value, or of the nearest around it."""
        return next((self.lines[where[:n]] for n in range(len(where), -1, -1) if where[:n] in self.lines), 1)

    def part(self, kind: type[_T], value: Any, *where: str | int) -> _T | None:
        """A part of the data as the record it should be; None, and a mistake taken down, when it is not."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            self.mistakes.append(self._explained(str(error), value, where))
            return None

    def settle(self) -> None:
        """Raise when there were mistakes, naming the first few."""
        if self.mistakes:
            raise ConfigError("\n".join(self.mistakes[:_MOST_MISTAKES]))

    def unknown_keys(self, part: object, value: Any, where: Where) -> Iterator[tuple[str, Where, tuple[str, ...]]]:
        """Each key that no record reads, the way to it, and the names its record knows."""
        if isinstance(part, list) and isinstance(value, list):
            for place, (inside, given) in enumerate(zip(part, value, strict=True)):
                yield from self.unknown_keys(inside, given, (*where, place))
        elif isinstance(part, msgspec.Struct) and isinstance(value, dict):
            known = part.__struct_encode_fields__
            yield from ((str(key), (*where, key), known) for key in value if key not in known)
            for field, name in zip(part.__struct_fields__, known, strict=True):
                yield from self.unknown_keys(getattr(part, field), value.get(name), (*where, name))

    def _explained(self, error: str, value: Any, where: Where) -> str:
        found = _MISTAKE.match(error)
        assert found is not None
        steps = [name or int(place) for name, place in _STEP.findall(found["path"] or "")]
        said, given = found["said"], f" (it is {_inside(value, steps)!r})"
        if missing := _MISSING.match(said):
            said, given = f"the field {missing[1]!r} is missing", ""
        at = (*where, *steps)
        said = _TYPE.sub(_named, said[:1].lower() + said[1:])
        return f"{self.path}, line {self.line(at)}: {'.'.join(map(str, at)) or 'the file'}: {said}{given}"


def read_yaml(path: Path) -> CheckedYaml:
    """Read a file; its data is an empty mapping when nothing is in it."""
    try:
        node = compose_plain(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}, line {line}: not readable as YAML: {error.problem}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    lines: dict[Where, int] = {}
    return CheckedYaml(path=path, data={} if node is None else _data(node, (), lines, path), lines=lines)


def _data(node: yaml.Node, where: Where, lines: dict[Where, int], path: Path) -> Any:
    if len(where) > _DEEPEST:
        raise ConfigError(f"{path}, line {node.start_mark.line + 1}: an anchor that refers to itself")
    if len(lines) > _MOST_VALUES:
        raise ConfigError(f"{path}: more than {_MOST_VALUES:,} values; are there anchors that stand for one another?")
    lines[where] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _data(key_node, (*where, "?"), lines, path)
            if isinstance(key, dict | list):
                raise ConfigError(f"{path}, line {key_node.start_mark.line + 1}: a key must be a word or a number")
            if key in result:
                raise ConfigError(f"{path}, line {key_node.start_mark.line + 1}: the key {key!r} stands twice")
            result[key] = _data(value_node, (*where, key), lines, path)
        return result
    if node.tag == "tag:yaml.org,2002:merge":
        raise ConfigError(f"{path}, line {node.start_mark.line + 1}: merge keys (<<) are not read; write the values out")
    if isinstance(node, yaml.SequenceNode):
        return [_data(item, (*where, i), lines, path) for i, item in enumerate(node.value)]
    try:
        return scalar(node)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{path}, line {node.start_mark.line + 1}: {error.problem}") from None


def _inside(value: Any, steps: list[str | int]) -> Any:
    """What stands at the end of the way, as far as it can be followed."""
    for step in steps:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            break
    return value


def _named(found: re.Match[str]) -> str:
    return " or ".join(_IN_WORDS.get(name, name) for name in found[1].split(" | "))
