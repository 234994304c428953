"""promptfoo's configuration as a dataset: its tests, with each of its prompts. What it means beyond that is refused, by name."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tiebreak.core.assertions import filled, in_short, scorer_of, threshold_of
from tiebreak.core.errors import DatasetError
from tiebreak.core.message import Message, TextPart, user
from tiebreak.core.plain_yaml import load_plain
from tiebreak.core.sample import Sample
from tiebreak.datasets.indexed import IndexedFile, Row
from tiebreak.datasets.records import BadRecord, checked_rows, open_records

SUFFIXES = (".yaml", ".yml")
_FILE = "file://"
_HARMLESS = frozenset({"description", "tags", "providers", "targets", "outputPath", "evaluateOptions", "sharing", "metadata"})
"""What changes no verdict: models are named by --model."""
_CONFIG = _HARMLESS | {"prompts", "tests", "defaultTest"}
_TEST = frozenset({"vars", "assert", "threshold", "description", "metadata", "options"})
_MOST_OF_ONE_TEST = 10_000
_ROLES = ("system", "user", "assistant")


def load(path: Path, name: str) -> IndexedFile:
    """The dataset in a configuration file."""
    return IndexedFile(path, _sample, name=name, about="your promptfoo file", opened=_Tests)


class _Tests:
    """The tests of one configuration, held whole: people write these by hand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digest = hashlib.blake2b(digest_size=16)
        config = _mapping(self._yaml(path), path)
        _refuse_unknown(config, _CONFIG, f"{path}: ")
        default = _mapping(config.get("defaultTest", {}), path)
        _refuse_unknown(default, _TEST, f"{path}, defaultTest: ")
        self._default = default
        self._prompts = [self._prompt(one) for one in _list(config.get("prompts", []), path, "prompts")]
        if not self._prompts:
            raise DatasetError(f"{path}: names no prompts")
        self._tests = self._all_tests(config.get("tests", []))
        self._made: list[Row] = []

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Number and content of each question: every prompt with every test, and with every one of its variables' values."""
        self._made = []
        for number, test in enumerate(self._tests, start=1):
            try:
                made = list(self._questions(number, _mapping(test, self.path)))
            except (ValueError, DatasetError) as error:
                raise BadRecord(len(self._made), f"test {number}: {error}") from None
            for row in made:
                self._made.append(row)
                yield len(self._made) - 1, row

    def read(self, place: int, end: int | None) -> Row:
        """The question of a number."""
        return self._made[place]

    def where(self, place: int) -> str:
        """The test a question belongs to."""
        return f"test {self._made[place]['test']}" if place < len(self._made) else "tests"

    def _questions(self, number: int, test: Row) -> Iterator[Row]:
        _refuse_unknown(test, _TEST, "")
        if options := test.get("options") or self._default.get("options"):
            raise ValueError(f"the options {', '.join(map(repr, options))} are not understood")
        variables = {**self._default.get("vars", {}), **(test.get("vars") or {})}
        asserted = [*self._default.get("assert", []), *(test.get("assert") or [])]
        if not asserted:
            raise ValueError("asserts nothing: any answer would pass")
        named = [value for value in variables.values() if isinstance(value, str) and value.startswith(_FILE)]
        if named:
            raise ValueError(f"a variable names the file {named[0]!r}, which is not read; write its text out")
        count = len(self._prompts) * math.prod(len(value) for value in variables.values() if isinstance(value, list))
        if count > _MOST_OF_ONE_TEST:
            raise ValueError(f"its variables make {count:,} questions; {_MOST_OF_ONE_TEST:,} are the most for one test")
        threshold = test.get("threshold", self._default.get("threshold"))
        single = len(self._prompts) == 1
        for turn, words in enumerate(_combinations(variables), start=1):
            for label, prompt in self._prompts:
                identity = ".".join(map(str, (number, *([turn] if turn > 1 else []), *([] if single else [label]))))
                yield {
                    "id": identity,
                    "test": number,
                    "category": "" if single else label,
                    "group": str(number),
                    "said": filled(prompt, words),
                    "assert": filled(asserted, words),
                    "threshold": None if threshold is None else threshold_of(threshold),
                }

    def _prompt(self, given: Any) -> tuple[str, str]:
        """A prompt's name and its words."""
        label = str(given.get("label") or given.get("id") or "") if isinstance(given, dict) else ""
        text = (given.get("raw") or given.get("id")) if isinstance(given, dict) else given
        if not isinstance(text, str) or not text.strip():
            raise DatasetError(f"{self.path}: a prompt is a text or names a file beside it, not {given!r}")
        if text.startswith(_FILE):
            return label or text.removeprefix(_FILE), self._text(self._beside(text))
        return label or " ".join(text.split())[:40], text

    def _all_tests(self, given: Any) -> list[Any]:
        """The tests as they stand there, and those of files they name."""
        found: list[Any] = []
        for test in [given] if isinstance(given, str) else _list(given, self.path, "tests"):
            found += self._tests_in(self._beside(test)) if isinstance(test, str) else [test]
        return found

    def _tests_in(self, path: Path) -> list[Any]:
        if path.suffix in SUFFIXES:
            return _list(self._yaml(path), path, "the file")
        records = open_records(path)
        rows = [{"vars": _variables(row), **_cells(row)} for _, row in checked_rows(records)]
        self.digest.update(records.digest.digest())
        return rows

    def _beside(self, reference: str) -> Path:
        """A file that is named, which must lie in the folder of the configuration."""
        folder = self.path.resolve().parent
        found = (folder / reference.removeprefix(_FILE)).resolve()
        if not found.is_relative_to(folder) or not found.is_file():
            raise DatasetError(f"{self.path}: names {reference!r}, and there is no such file in its folder")
        return found

    def _text(self, path: Path) -> str:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DatasetError(f"{path}: cannot be read: {error}") from None
        self.digest.update(text.encode())
        return text

    def _yaml(self, path: Path) -> Any:
        try:
            return load_plain(self._text(path))
        except yaml.YAMLError as error:
            raise DatasetError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from None


def _mapping(value: Any, path: Path) -> Row:
    if not isinstance(value, dict):
        raise DatasetError(
            f"{path}: a promptfoo file names 'prompts' and 'tests', each test with 'vars' and 'assert'; not {value!r}"
        )
    return value


def _list(value: Any, path: Path, what: str) -> list[Any]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise DatasetError(f"{path}: {what} must be a list, not {value!r}")
    return listed


def _refuse_unknown(given: Row, known: frozenset[str], where: str) -> None:
    if unknown := sorted(str(name) for name in given if name not in known and not str(name).startswith("$")):
        raise DatasetError(f"{where}{unknown[0]!r} is not understood; understood are {', '.join(sorted(known))}")


def _variables(row: Row) -> Row:
    return {name: value for name, value in row.items() if not name.startswith("__")}


def _cells(row: Row) -> Row:
    """What the cells of a table of tests assert."""
    cells = [in_short(str(value)) for name, value in row.items() if name.startswith("__expected") and value]
    threshold = {"threshold": float(row["__threshold"])} if row.get("__threshold") else {}
    return {"assert": cells, **threshold}


def _combinations(variables: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A variable that lists several values stands for each of them in turn."""
    several = {name: value if isinstance(value, list) else [value] for name, value in variables.items()}
    for values in itertools.product(*several.values()):
        yield dict(zip(several, values, strict=True))


def _sample(row: Row, number: int) -> Sample:
    kept = {"assert": row["assert"]} if row["threshold"] is None else {"assert": row["assert"], "threshold": row["threshold"]}
    return Sample(
        id=row["id"],
        messages=_messages(row["said"]),
        category=row["category"],
        group=row["group"],
        scorers=(scorer_of(row["assert"]),),
        metadata=kept,
    )


def _messages(said: str) -> tuple[Message, ...]:
    """What is asked: a text, or a conversation written as JSON."""
    if said.lstrip().startswith("["):
        try:
            turns = json.loads(said)
        except ValueError:
            turns = []
        if turns and all(isinstance(turn, dict) and turn.get("role") in _ROLES for turn in turns):
            return tuple(Message(role=turn["role"], parts=(TextPart(str(turn.get("content", ""))),)) for turn in turns)
    if not said.strip():
        raise ValueError("the prompt is empty")
    return (user(said),)
