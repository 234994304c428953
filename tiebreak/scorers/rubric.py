"""Rubrics: what a judge is asked about an answer, on which scale, and how its reply is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec
import yaml

from tiebreak.core.errors import UsageError
from tiebreak.core.plain_yaml import load_plain
from tiebreak.core.text import answer_text

_FILES = (".yaml", ".yml", ".txt", ".md")
_LONGEST_REPLY = 50_000
_MOST_OBJECTS = 200
_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?```\s*\Z", re.DOTALL)
_SCALE = re.compile(r"(-?\d{1,3})\s*-\s*(-?\d{1,3})")
_SHORT = re.compile(r"(pass/fail|\d{1,3}-\d{1,3}):\s*(\S.*)", re.DOTALL)
_NAME = re.compile(r"[\w .-]{1,60}")
_DECODER = json.JSONDecoder()

Read = TypeVar("Read")


_PASS_FAIL = {"pass": 1.0, "passed": 1.0, "true": 1.0, "fail": 0.0, "failed": 0.0, "false": 0.0}
_WHOLE = re.compile(r"(-?\d{1,9})(?:\.0+)?")
_VERDICTS = frozenset({"verdict", "grade", "grades", "score"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Whole numbers from low to high, or pass and fail."""

    low: int = 0
    high: int = 10
    pass_fail: bool = False
    anchors: Mapping[str, str] = field(default_factory=dict)
    """What some of the grades mean, by grade."""

    @property
    def words(self) -> str:
        """The scale as a judge is told it."""
        if self.pass_fail:
            return '"pass" or "fail"' + self._anchored
        ends = "" if self.anchors else " (not at all)", "" if self.anchors else " (fully)"
        return f"a whole number from {self.low}{ends[0]} to {self.high}{ends[1]}" + self._anchored

    @property
    def _anchored(self) -> str:
        return "".join(f"; {grade} means: {meaning}" for grade, meaning in self.anchors.items())

    @property
    def schema(self) -> dict[str, Any]:
        """What a grade may be, as JSON schema."""
        if self.pass_fail:
            return {"type": "string", "enum": ["pass", "fail"]}
        return {"type": "integer", "minimum": self.low, "maximum": self.high}

    def read(self, grade: Any) -> float | None:
        """A grade from 0 to 1; None when it is none of this scale."""
        if self.pass_fail:
            return _PASS_FAIL.get(_plain(grade))
        number = whole(grade)
        if number is None or not self.low <= number <= self.high:
            return None
        return (number - self.low) / (self.high - self.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One question about an answer."""

    name: str
    question: str
    weight: float = 1.0
    scale: Scale = field(default_factory=Scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge said, read by a rubric."""

    value: float
    reason: str
    grades: Mapping[str, float] = field(default_factory=dict)
    """By criterion, where there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """Everything a judge is asked about one answer."""

    criteria: tuple[Criterion, ...]
    majority: bool = False
    """Several judges: by majority instead of by mean."""
    reference: bool = True
    """Judges are shown the target, where a sample has one."""
    digest: int = 0
    """Tells apart versions of a file."""

    @property
    def words(self) -> str:
        """The questions as a judge is told them, and the reply it should give."""
        reason = '"reason": "one sentence"'
        if len(self.criteria) == 1:
            only = self.criteria[0]
            key = "verdict" if only.scale.pass_fail else "grade"
            return f'Rubric: {only.question}\n\nReply with {{{reason}, "{key}": N}}, where N is {only.scale.words}.'
        listed = "\n".join(f"- {one.name}: {one.question} N is {one.scale.words}." for one in self.criteria)
        grades = ", ".join(f"{json.dumps(one.name)}: N" for one in self.criteria)
        return f'Rubric:\n{listed}\n\nReply with {{{reason}, "grades": {{{grades}}}}}, with a grade N for each criterion.'

    @property
    def schema(self) -> dict[str, Any]:
        """The reply as JSON schema."""
        if len(self.criteria) == 1:
            scale = self.criteria[0].scale
            return _object({"reason": {"type": "string"}, "verdict" if scale.pass_fail else "grade": scale.schema})
        return _object({"reason": {"type": "string"}, "grades": _object({one.name: one.scale.schema for one in self.criteria})})

    def read(self, data: Any) -> Verdict | None:
        """A verdict in the form that was asked for; None for anything else."""
        if not isinstance(data, dict):
            return None
        said = {_plain(name): value for name, value in data.items()}
        reason = said["reason"] if isinstance(said.get("reason"), str) else ""
        key = "grades" if len(self.criteria) > 1 else "verdict" if self.criteria[0].scale.pass_fail else "grade"
        # Other keys tell more of the reason, unless they are verdicts of another form: which of two holds, nobody knows.
        if len(said) < len(data) or said.keys() & _VERDICTS != {key}:
            return None
        if len(self.criteria) == 1:
            value = self.criteria[0].scale.read(said[key])
            return None if value is None else Verdict(value=value, reason=reason)
        return self._graded(said[key], reason) if isinstance(said[key], dict) else None

    def _graded(self, given: Mapping[str, Any], reason: str) -> Verdict | None:
        if not given.keys() >= {one.name for one in self.criteria}:
            return None
        grades = {one.name: one.scale.read(given[one.name]) for one in self.criteria}
        known = {name: grade for name, grade in grades.items() if grade is not None}
        if len(known) < len(grades):
            return None
        total = sum(one.weight for one in self.criteria)
        value = sum(one.weight * known[one.name] for one in self.criteria) / total
        return Verdict(value=min(1.0, value), reason=reason, grades=known)


def _plain(said: Any) -> str:
    """A word of a judge's as it is meant: "PASS." is pass, and so is true."""
    return str(said).strip(" .!*\n").lower() if isinstance(said, str | bool) else ""


def whole(said: Any) -> int | None:
    """A whole number, also written as 4.0 or "4"."""
    if isinstance(said, bool) or not isinstance(said, int | float | str):
        return None
    found = _WHOLE.fullmatch(str(said).strip())
    return int(found[1]) if found else None


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(properties), "additionalProperties": False}


# --- where rubrics come from ------------------------------------------------------------------------


class _InCriterion(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    question: str
    weight: float = 1.0
    scale: str | None = None
    anchors: dict[str | int, str] | None = None


class _InRubric(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    criteria: list[_InCriterion]
    scale: str = "0-10"
    anchors: dict[str | int, str] = msgspec.field(default_factory=dict)
    combine: str = ""
    reference: bool = True


def rubric_of(option: str) -> Rubric:
    """A rubric from what stands behind `judge:` — a question, one with its scale, or a file of either or of YAML."""
    path = Path(option).expanduser()
    if len(option) > 500 or not path.is_file():
        if path.suffix.lower() in _FILES and not any(map(str.isspace, option)):
            raise UsageError(f"judge:{option}: there is no such file; a question to the judge is written out, with spaces")
        return question_rubric(option)
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option}: the rubric cannot be read: {error}") from None
    made = _from_yaml(option, text) if path.suffix.lower() in (".yaml", ".yml") else question_rubric(text)
    return Rubric(criteria=made.criteria, majority=made.majority, reference=made.reference, digest=crc32(text.encode()))


def question_rubric(text: str) -> Rubric:
    """One question; `pass/fail:` or a range such as `1-5:` before it says on which scale."""
    marked = _SHORT.fullmatch(text)
    scale = _scale(marked[1], {}, text) if marked else Scale()
    question = marked[2] if marked else text
    return Rubric(criteria=(Criterion(name="", question=question, scale=scale),), majority=scale.pass_fail)


def _from_yaml(name: str, text: str) -> Rubric:
    try:
        given = msgspec.convert(load_plain(text), _InRubric)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise UsageError(f"{name}: the rubric cannot be read: {error}") from None
    criteria = tuple(_criterion(one, given, name) for one in given.criteria)
    names = [one.name for one in criteria]
    if not criteria or len(set(names)) < len(names):
        raise UsageError(f"{name}: a rubric has one or more criteria, each with a name of its own")
    if given.combine not in ("", "mean", "majority"):
        raise UsageError(f"{name}: combine is mean or majority, not {given.combine!r}")
    usual = all(one.scale.pass_fail for one in criteria)
    return Rubric(criteria=criteria, majority=given.combine == "majority" if given.combine else usual, reference=given.reference)


def _criterion(given: _InCriterion, rubric: _InRubric, where: str) -> Criterion:
    if not _NAME.fullmatch(given.name) or not given.question.strip():
        raise UsageError(f"{where}: a criterion has a short name and a question, not {given.name[:80]!r}")
    if not 0 < given.weight < 1e6:
        raise UsageError(f"{where}: the weight of {given.name!r} must be above 0, not {given.weight:g}")
    anchors = rubric.anchors if given.anchors is None else given.anchors
    scale = _scale(given.scale or rubric.scale, anchors if given.scale is None or given.anchors else {}, f"{where}: {given.name}")
    return Criterion(name=given.name, question=given.question.strip(), weight=given.weight, scale=scale)


def _scale(text: str, anchors: Mapping[str | int, str], where: str) -> Scale:
    named = {str(grade): meaning for grade, meaning in anchors.items()}
    if text.strip() == "pass/fail":
        if not set(named) <= {"pass", "fail"}:
            raise UsageError(f"{where}: the anchors of a pass/fail scale are pass and fail, not {', '.join(named)}")
        return Scale(pass_fail=True, anchors=named)
    ends = _SCALE.fullmatch(text.strip())
    if ends is None or int(ends[1]) >= int(ends[2]):
        raise UsageError(f"{where}: a scale is pass/fail or a range such as 1-5, not {text!r}")
    low, high = int(ends[1]), int(ends[2])
    if not all(grade.lstrip("-").isdecimal() and low <= int(grade) <= high for grade in named):
        raise UsageError(f"{where}: the anchors are grades from {low} to {high}, not {', '.join(named)}")
    return Scale(low=low, high=high, anchors=named)


# --- how replies are read ---------------------------------------------------------------------------


def read_reply(text: str, read: Callable[[Any], Read | None], material: str) -> Read | None:
    """A judge's reply as a verdict, also where words, fences or thoughts stand around it.

    A verdict that stands in the graded material too may be a quotation, and is none. Where several stand in the reply,
    they must agree.
    """
    said = answer_text(text).strip()[-_LONGEST_REPLY:]
    fenced = _FENCE.match(said)
    if (whole := _decoded(fenced[1] if fenced else said)) is not None:
        return read(whole)
    own = [data for data, raw in _objects(said) if raw not in material and not any(data == one for one, _ in _objects(material))]
    found = [verdict for data in own if (verdict := read(data)) is not None]
    return found[0] if found and all(_same(verdict, found[0]) for verdict in found) else None


def _same(one: Any, other: Any) -> bool:
    """Whether two verdicts say the same, for whatever reason."""
    if isinstance(one, Verdict) and isinstance(other, Verdict):
        return one.value == other.value and one.grades == other.grades
    return bool(one == other)


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _objects(text: str) -> Iterator[tuple[Any, str]]:
    """JSON objects that stand in a text, the outermost ones, one after another, and how each is written."""
    place = 0
    for _ in range(_MOST_OBJECTS):
        place = text.find("{", place)
        if place < 0:
            return
        try:
            data, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
            continue
        yield data, text[place:end]
        place = end
