"""What a row asserts about its answer, as promptfoo's users write it: several conditions, with weights and a threshold."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tiebreak.core.record import Record

SET = "assert-set"
JUDGED = frozenset({"judge", "llm-rubric", "model-graded-closedqa", "factuality"})
"""Kinds that a judge decides."""
CODE = "python"
"""The kind that calls a function of the user's, which a dataset may name and never bring."""
_NEGATED = "not-"
_FILE = "file://"
_KNOWN_FIELDS = frozenset({"type", "value", "threshold", "weight", "metric", "assert"})
_NAMED_GROUP = re.compile(r"\(\?<(?![=!])")
_PLACE = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")
_SHORT = re.compile(r"(?P<kind>[a-z][a-z-]*)(?:\((?P<threshold>[\d.]+)\))?(?::(?P<value>.*))?", re.DOTALL)


class Assertion(Record, frozen=True, kw_only=True):
    """One condition on an answer, or a set of them that counts as one."""

    kind: str
    negated: bool = False
    value: Any = None
    threshold: float | None = None
    weight: float = 1.0
    """One that weighs nothing is shown and never fails the answer."""
    metric: str = ""
    members: tuple[Assertion, ...] = ()

    @property
    def words(self) -> str:
        """The condition as a report names it."""
        said = f"{_NEGATED if self.negated else ''}{self.kind}"
        wanted = "" if self.value is None else f" {self.value!r}"
        limit = "" if self.threshold is None else f" ({self.threshold:g})"
        return self.metric or f"{said}{wanted if len(wanted) <= 60 else wanted[:57] + '...'}{limit}"


def assertions_of(data: Any) -> tuple[Assertion, ...]:
    """The assertions of a row; ValueError where one is not understood."""
    if not isinstance(data, Sequence) or isinstance(data, str) or not data:
        raise ValueError(f"'assert' must be a list of assertions, not {data!r}")
    return tuple(_assertion(one) for one in data)


def threshold_of(value: Any) -> float:
    """The share of a row's assertions that must hold."""
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if isinstance(value, bool) or not 0 <= share <= 1:
        raise ValueError(f"'threshold' must be a number from 0 to 1, not {value!r}")
    return share


def every(assertions: Sequence[Assertion]) -> Iterator[Assertion]:
    """All of them, those within sets included."""
    for assertion in assertions:
        yield assertion
        yield from every(assertion.members)


def scorer_of(data: Any) -> str:
    """The scorer that looks at a row's assertions, each of which is checked here: whether it asks a judge, or calls code."""
    kinds = {assertion.kind for assertion in every(assertions_of(data))}
    if CODE in kinds:
        return "assert:python"
    return "assert" if JUDGED.isdisjoint(kinds) else "assert-judged"


def _assertion(data: Any) -> Assertion:
    if not isinstance(data, Mapping) or not isinstance(data.get("type"), str):
        raise ValueError(f"an assertion has a 'type' and mostly a 'value', not {data!r}")  # noqa: TRY004 -- of data
    if unknown := sorted(set(data) - _KNOWN_FIELDS):
        raise ValueError(f"the assertion {data['type']!r} has {unknown[0]!r}, which is not understood")
    said = data["type"]
    negated = said.startswith(_NEGATED)
    kind, value = said.removeprefix(_NEGATED), data.get("value")
    if kind == SET:
        members = assertions_of(data.get("assert"))
    elif kind in _VALUES:
        members, value = (), _VALUES[kind](said, value)
    else:
        raise ValueError(f"the assertion {said!r} is not understood; known are {', '.join(sorted((*_VALUES, SET)))}")
    threshold = _number(said, "threshold", data.get("threshold"))
    if kind in _LIMITS and threshold is None:
        raise ValueError(f"the assertion {said!r} needs a 'threshold': {_LIMITS[kind]}")
    weight = _number(said, "weight", data.get("weight", 1))
    metric = str(data.get("metric", ""))
    return Assertion(
        kind=kind,
        negated=negated,
        value=value,
        threshold=threshold,
        weight=1.0 if weight is None else weight,
        metric=metric,
        members=members,
    )


def _number(kind: str, name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"the assertion {kind!r} has the {name} {value!r}; it must be a number that is not negative")
    return float(value)


# --- what each kind takes as its value -------------------------------------------------------------


def _text(kind: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise ValueError(f"the assertion {kind!r} needs a text as its value, not {value!r}")
    if isinstance(value, str) and value.startswith(_FILE) and kind.removeprefix(_NEGATED) != CODE:
        raise ValueError(f"the assertion {kind!r} names the file {value!r}, which is not read; write its text out")
    return str(value)


def _texts(kind: str, value: Any) -> list[str]:
    if isinstance(value, str):
        value = next(csv.reader([value.replace("\n", " ")], skipinitialspace=True), [])
    if not isinstance(value, list) or not value:
        raise ValueError(f"the assertion {kind!r} needs a list of texts, not {value!r}")
    return [_text(kind, one.strip() if isinstance(one, str) else one) for one in value]


def _pattern(kind: str, value: Any) -> str:
    """A pattern in Python's words: JavaScript writes a named group without its P."""
    text = _NAMED_GROUP.sub("(?P<", _text(kind, value))
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern {value!r} is no regular expression we can match: {error}") from None
    return text


def _schema(kind: str, value: Any) -> Any:
    if value is None or isinstance(value, Mapping):
        return value
    if isinstance(value, str) and not value.startswith("file:"):
        return _schema_in(kind, value)
    raise ValueError(f"the assertion {kind!r} takes a JSON schema as its value, written out, not {value!r}")


def _schema_in(kind: str, text: str) -> Any:
    import yaml

    from tiebreak.core.plain_yaml import load_plain

    try:
        found = load_plain(text)
    except yaml.YAMLError as error:
        raise ValueError(f"the schema of {kind!r} cannot be read: {error}") from None
    return _schema(kind, found if found is not None else {})


def _words(kind: str, value: Any) -> Any:
    """How many words: exactly, or from a least to a most."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    limits = value if isinstance(value, Mapping) else {}
    given = {name: limits[name] for name in ("min", "max") if isinstance(limits.get(name), int)}
    if not given or len(given) != len(limits) or given.get("min", 0) > given.get("max", given.get("min", 0)):
        raise ValueError(f"the assertion {kind!r} needs a number of words, or min and max, not {value!r}")
    return given


def _anything(kind: str, value: Any) -> Any:
    if value is None:
        raise ValueError(f"the assertion {kind!r} needs a value")
    return value


def _nothing(kind: str, value: Any) -> None:
    if value is not None:
        raise ValueError(f"the assertion {kind!r} takes a threshold and no value, not {value!r}")


_LISTS = ("contains-all", "contains-any", "icontains-all", "icontains-any")
_VALUES: Mapping[str, Callable[[str, Any], Any]] = {
    "equals": _anything,
    **dict.fromkeys(("contains", "icontains", "starts-with", "levenshtein", "rouge-n", CODE, *sorted(JUDGED)), _text),
    **dict.fromkeys(_LISTS, _texts),
    "regex": _pattern,
    **dict.fromkeys(("is-json", "contains-json", "json_schema"), _schema),
    "word-count": _words,
    **dict.fromkeys(("latency", "cost"), _nothing),
}
"""Every kind there is, and what reads its value."""
_LIMITS = {"latency": "milliseconds", "cost": "dollars"}
KINDS = frozenset({*_VALUES, SET})


# --- forms of promptfoo ----------------------------------------------------------------------------


def filled(value: Any, words: Mapping[str, Any]) -> Any:
    """A value with a row's own words in their places, {{name}}; ValueError where a template does more than that."""
    if isinstance(value, str):
        if "{%" in value or "{{" in _PLACE.sub("", value):
            raise ValueError(f"the template {value[:80]!r} does more than name a variable, which is not understood")
        return _PLACE.sub(lambda place: _word(place[1], words), value)
    if isinstance(value, Mapping):
        return {name: filled(one, words) for name, one in value.items()}
    return [filled(one, words) for one in value] if isinstance(value, list) else value


def _word(name: str, words: Mapping[str, Any]) -> str:
    found: Any = words
    for step in name.split("."):
        if not isinstance(found, Mapping) or step not in found:
            raise ValueError(f"{{{{{name}}}}} names a variable that the row has not got")
        found = found[step]
    return str(found)


def in_short(text: str) -> Mapping[str, Any]:
    """An assertion written in one cell: `contains: Paris`, `levenshtein(3): Paris`, or the expected answer itself."""
    found = _SHORT.fullmatch(text.strip())
    if found is None or found["kind"].removeprefix(_NEGATED) not in KINDS:
        if found is not None and found["value"] is not None and not found["value"].startswith("//"):
            raise ValueError(f"the assertion {found['kind']!r} is not understood; known are {', '.join(sorted(KINDS))}")
        return {"type": "equals", "value": text}
    value = (found["value"] or "").strip()
    given: dict[str, Any] = {"type": found["kind"]}
    limit = found["threshold"] or (value if found["kind"].removeprefix(_NEGATED) in _LIMITS else "")
    if limit:
        given["threshold"] = _as_number(limit)
    return given | ({"value": value} if value and value != limit else {})


def _as_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
