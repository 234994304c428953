"""A user's own file, in whichever of the usual forms its rows are."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from benchmark.core.errors import DatasetError
from benchmark.core.message import user
from benchmark.core.sample import Keywords, Sample
from benchmark.datasets.indexed import IndexedFile, Row

_SUFFIXES = (".jsonl", ".ndjson", ".csv")
_INPUTS = ("input", "prompt", "question")
_TARGETS = ("target", "answer", "expected", "ideal")


def load(name: str, *, known: tuple[str, ...]) -> IndexedFile:
    """The dataset in a file; `known` are the registered names, for when there is no such file."""
    path = Path(name).expanduser()
    if path.is_file():
        if path.suffix.lower() not in _SUFFIXES:
            raise DatasetError(f"{name}: a dataset file ends in {', '.join(_SUFFIXES)}")
        return IndexedFile(path, to_sample, name=name, about="a file of yours")
    close = difflib.get_close_matches(name, known, n=2)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise DatasetError(f"there is no dataset and no file {name!r}{hint} Registered: {', '.join(known)}")


def to_sample(row: Row, number: int) -> Sample:
    """A row of {id, input, target, choices}, or of {id, prompt, evaluation_method, expected_keywords}."""
    question = _text(row, _INPUTS)
    keywords = _keywords(row)
    choices = _choices(row)
    targets = _targets(row, choices) if keywords is None or any(t in row for t in _TARGETS) else keywords.accept
    return Sample(
        id=str(row.get("id", number)),
        messages=(user(question),),
        targets=targets,
        choices=choices,
        keywords=keywords,
        category=str(row.get("category", "")),
        group=str(row.get("group", "")),
        scorers=(_scorer(row, targets, choices, keywords),),
    )


def _text(row: Row, names: tuple[str, ...]) -> str:
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if value is not None:
            raise ValueError(f"field {name!r} must be a text that is not empty, not {value!r}")
    raise ValueError(f"field {names[0]!r} is missing; the row has {', '.join(map(repr, row)) or 'nothing'}")


def _targets(row: Row, choices: tuple[str, ...]) -> tuple[str, ...]:
    for name in _TARGETS:
        if name in row:
            return _resolved(row[name], choices, name)
    raise ValueError(f"field {_TARGETS[0]!r} is missing; the row has {', '.join(map(repr, row))}")


def _resolved(value: Any, choices: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The accepted answers as texts; with choices, the one choice that a text, letter or index names."""
    if not choices:
        listed = value if isinstance(value, list) else [value]
        if not listed or not all(isinstance(v, (str, int, float)) for v in listed):
            raise ValueError(f"field {name!r} must be a text, a number or a list of them, not {value!r}")
        return tuple(str(v) for v in listed)
    if isinstance(value, str) and value in choices:
        return (value,)
    index = ascii_uppercase.find(value.strip().upper()) if isinstance(value, str) and len(value.strip()) == 1 else value
    if isinstance(value, str) and value.strip().isdecimal():
        index = int(value)
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(choices):
        return (choices[index],)
    raise ValueError(f"field {name!r} is {value!r}: neither one of the choices nor the letter or index of one")


def _choices(row: Row) -> tuple[str, ...]:
    """The choices: a list, a JSON list in a text, or texts with | between."""
    value = row.get("choices", row.get("options"))
    if value is None:
        return ()
    if isinstance(value, str):
        value = _listed(value)
    if not isinstance(value, list) or not 2 <= len(value) <= len(ascii_uppercase):
        raise ValueError(f"field 'choices' must list 2 to {len(ascii_uppercase)} answers, not {value!r}")
    choices = tuple(str(choice) for choice in value)
    if len(set(choices)) < len(choices):
        raise ValueError(f"field 'choices' lists the same answer twice: {value!r}")
    return choices


def _listed(text: str) -> Any:
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"a list that is not readable as JSON: {error}") from None
    return [part.strip() for part in text.split("|")]


def _keywords(row: Row) -> Keywords | None:
    method = row.get("evaluation_method")
    if method not in (None, "keyword_match"):
        raise ValueError(f"field 'evaluation_method' is {method!r}; known is 'keyword_match'")
    value = row.get("expected_keywords")
    if value is None:
        if method is not None:
            raise ValueError("field 'expected_keywords' is missing")
        return None
    listed = _listed(value) if isinstance(value, str) else value
    rejected = row.get("rejected_keywords", [])
    if not isinstance(listed, list) or not listed or not all(isinstance(word, str) for word in listed):
        raise ValueError(f"field 'expected_keywords' must be a list of texts, not {value!r}")
    rejected = _listed(rejected) if isinstance(rejected, str) else rejected
    if not isinstance(rejected, list) or not all(isinstance(word, str) for word in rejected):
        raise ValueError(f"field 'rejected_keywords' must be a list of texts, not {rejected!r}")
    return Keywords(accept=tuple(listed), reject=tuple(rejected), need_all=row.get("keywords_required") == "all")


def _scorer(row: Row, targets: tuple[str, ...], choices: tuple[str, ...], keywords: Keywords | None) -> str:
    named = row.get("scorer")
    if isinstance(named, str):
        return named
    if choices:
        return "choice"
    if keywords is not None:
        return "keywords"
    return "numeric" if all(map(_is_number, targets)) else "match"


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
