"""A user's own file or folder, in whichever of the usual forms its rows are."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from tiebreak.core.assertions import filled, in_short, scorer_of, threshold_of
from tiebreak.core.errors import DatasetError
from tiebreak.core.message import Message, TextPart, user
from tiebreak.core.run import Source
from tiebreak.core.sample import Exchange, Keywords, Sample
from tiebreak.datasets import content, layouts, promptfoo
from tiebreak.datasets.content import MediaFolder
from tiebreak.datasets.indexed import IndexedFile, Row, ToSample
from tiebreak.datasets.records import PACKED, SUFFIXES, is_records

_INPUTS = ("input", "prompt", "question", "query", "problem", "messages")
_TARGETS = (
    *("target", "answer", "expected", "ideal", "response", "answerKey", "label"),
    *("expected_answer", "correct_answer", "reference_answer", "expected_output", "gold"),
)
_TARGET_NAMES = frozenset(_TARGETS)
_SPLITS = ("test", "validation", "dev", "train")
_OURS = (
    *("id", "input", "target", "choices", "category", "group", "scorer", "system"),
    *("image", "images", "file", "audio", "tools", "tool_results", "expected_calls", "response_schema", "turns", "turn_targets"),
)
_KEPT = frozenset(("schema", "rubric", "human"))
"""What scorers and reports may want to know of a row."""
_CHECKED_OTHERWISE = frozenset(("evaluation_method", "expected_keywords", "assert", "__expected", "__expected1"))
"""Fields of rows that have no plain target; few have any, and one look tells."""
_READ = frozenset(
    {
        *(*_INPUTS, *_TARGETS, *_OURS, *_KEPT, *_CHECKED_OTHERWISE, *content.COLUMNS, *layouts.COLUMNS),
        *("rejected_keywords", "keywords_required", "options", "subject", "vars", "threshold", "__threshold"),
        *(f"__expected{i}" for i in range(1, 10)),
        *(*ascii_uppercase, *(f"choice{i}" for i in range(10)), *(f"choice_{i}" for i in range(10))),
    }
)
"""Columns that something is made of, by their names in our files."""
_FOLDED = {name.casefold(): name for name in sorted(_READ) if len(name) > 1}
_IN_CELLS = re.compile(r"__expected\d*")
_NO_FOLDER = MediaFolder(None)
_BESIDES = _KEPT | content.COLUMNS
_JUDGED_BY_CONTENT = frozenset((content.CALLS, content.SCHEMA))
_CALLS_SCORER = "tool_calls"
_RUBRIC = "judge:"
"""How the scorers begin that a model judges by, with no target."""


def load(name: str, *, known: Callable[[], Sequence[str]], source: Source | None = None) -> IndexedFile:
    """The dataset in a file or folder; `known` gives the registered names, for when there is neither."""
    path = Path(name).expanduser()
    source = source or Source()
    folder = path if path.is_dir() else path.parent
    reading = reader_of(source.fields, without_target=source.without_target, folder=folder)
    is_read = read_columns(source.fields)
    if path.is_dir():
        return IndexedFile(files_in(path), reading, name=name, about="your folder", is_read=is_read, encoding=source.encoding)
    if path.is_file():
        if path.suffix.lower() in promptfoo.SUFFIXES:
            return promptfoo.load(path, name)
        if not is_records(path):
            raise DatasetError(f"{name}: a dataset file ends in {', '.join(SUFFIXES)}, also with {' or '.join(PACKED)} behind")
        return IndexedFile(path, reading, name=name, about="your file", is_read=is_read, encoding=source.encoding)
    if path.exists():
        raise DatasetError(f"{name} is a pipe or a device, and its rows are read more than once: write them to a file first")
    registered = known()
    close = difflib.get_close_matches(name, registered, n=2)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else "."
    raise DatasetError(f"there is no dataset and no file {name!r}{hint} Registered: {', '.join(registered)}")


def files_in(folder: Path) -> list[Path]:
    """The files of a folder that are to be asked: of the first split there is, else all of them."""
    found = sorted(p for p in folder.rglob("*") if p.is_file() and is_records(p))
    for split in _SPLITS:
        chosen = [p for p in found if split in re.split(r"[^A-Za-z]+", str(p.relative_to(folder)))]
        if chosen:
            return chosen
    if not found:
        raise DatasetError(f"{folder}: holds no file that ends in {', '.join(SUFFIXES)}")
    return found


def reader_of(fields: Mapping[str, str], *, without_target: bool = False, folder: Path | None = None) -> ToSample:
    """What makes samples of rows whose columns have these names in our words; `without_target`: they need none.

    Images and files lie in `folder`.
    """
    plain = partial(to_sample, without_target=without_target, folder=MediaFolder(folder))
    for theirs, ours in fields.items():
        if ours not in _OURS:
            raise DatasetError(f"--field {theirs}={ours}: there is no field {ours!r}; there are {', '.join(_OURS)}")
    if not fields:
        return plain
    renamed = dict(fields)

    def read(row: Row, number: int) -> Sample:
        missing = [name for name in renamed if name not in row and renamed[name] in ("input", "target")]
        if missing:
            raise ValueError(f"field {missing[0]!r} is missing; the row has {', '.join(map(repr, row)) or 'nothing'}")
        taken = set(renamed.values())
        kept = {name: value for name, value in row.items() if name not in renamed and name not in taken}
        return plain(kept | {ours: row[theirs] for theirs, ours in renamed.items() if theirs in row}, number)

    return read


def read_columns(fields: Mapping[str, str]) -> Callable[[str], bool]:
    """Tells of a column whether anything is made of it."""
    used = frozenset(fields)
    return lambda column: column in used or _our_name(column) in _READ


def _our_name(column: str) -> str:
    """A column's name as we spell it: `Expected Answer` is `expected_answer`."""
    return column if column in _READ else _FOLDED.get("_".join(column.casefold().replace("-", " ").split()), column)


@lru_cache(maxsize=256)
def _renamed(columns: tuple[str, ...]) -> tuple[Mapping[str, str], bool]:
    """Columns that are spelled in another way than ours, and ours, none where both are there; and whether a layout has them."""
    ours = {column: _our_name(column) for column in columns}
    renamed = {column: name for column, name in ours.items() if column != name and name not in columns}
    return renamed, not layouts.COLUMNS.isdisjoint(ours.values())


def _in_our_words(row: Row) -> tuple[Row, frozenset[str]]:
    """The row by our names without its empty cells, and the names of those."""
    names, has_layout = _renamed(tuple(row))
    if names:
        row = {names.get(column, column): value for column, value in row.items()}
    if has_layout:
        row = layouts.in_our_words(row)
    if "" not in row.values():
        return row, frozenset()
    blank = frozenset(name for name, value in row.items() if isinstance(value, str) and not value)
    return {name: value for name, value in row.items() if name not in blank}, blank


def to_sample(row: Row, number: int, *, without_target: bool = False, folder: MediaFolder = _NO_FOLDER) -> Sample:
    """A row in any of the usual forms: see docs/datasets.md."""
    row, blank = _in_our_words(row)
    try:
        return _sample(_flattened(row), number, without_target=without_target, folder=folder)
    except _Missing as missing:
        empty = next((name for name in missing.names if name in blank), None)
        raise (ValueError(f"the column {empty!r} is empty in this row") if empty else missing) from None


class _Missing(ValueError):
    """A row lacks a field that it must have, under any of these names."""

    def __init__(self, row: Row, names: Sequence[str]) -> None:
        there = ", ".join(map(repr, row)) or "nothing"
        super().__init__(f"field {names[0]!r} is missing; the row has {there}. --field COLUMN={names[0]} says which column it is")
        self.names = names


def _sample(row: Row, number: int, *, without_target: bool, folder: MediaFolder) -> Sample:
    in_words = _BESIDES.isdisjoint(row)
    messages, exchange = _in_words(row, folder) if in_words else _asked(row, folder)
    choices = _choices(row)
    keywords, asserted = (None, {}) if _CHECKED_OTHERWISE.isdisjoint(row) else (_keywords(row), _asserted(row))
    kept = {} if in_words else {name: row[name] for name in sorted(_KEPT) if name in row}
    targets: tuple[str, ...] = ()
    if asserted:
        scorer = str(row.get("scorer") or scorer_of(asserted["assert"]))
    elif exchange is not None and not _JUDGED_BY_CONTENT.isdisjoint(row):
        targets, scorer, about = _judged_by_content(row)
        kept |= about
    elif exchange is not None and exchange.turn_targets:
        targets, scorer = _judged_by_turn(row, exchange)
    else:
        has_target = not _TARGET_NAMES.isdisjoint(row)
        free = not has_target and keywords is None and not choices and (without_target or _brings_rubric(row))
        targets = () if free else _targets(row, choices) if keywords is None or has_target else keywords.accept
        scorer = _scorer(row, targets, choices, keywords)
    return Sample(
        id=str(row.get("id", number)),
        messages=messages,
        targets=targets,
        choices=choices,
        keywords=keywords,
        category=str(row.get("category", row.get("subject", ""))),
        group=str(row.get("group", "")),
        scorers=(scorer,),
        metadata=kept | asserted if asserted else kept,
        exchange=exchange,
    )


def _in_words(row: Row, folder: MediaFolder) -> tuple[tuple[Message, ...], Exchange | None]:
    """What a row says whose columns hold nothing but words; a list of messages may have images in it all the same."""
    messages = _messages(row, folder)
    if len(messages) == 1 and messages[0].is_plain:
        return messages, None
    return messages, content.exchange_of(row, messages, folder, ())


def _asked(row: Row, folder: MediaFolder) -> tuple[tuple[Message, ...], Exchange | None]:
    """What is said first, and what besides."""
    turns = content.turns_of(row, folder)
    if turns and not any(name in row for name in _INPUTS):
        messages, turns = (*_told(row), turns[0]), turns[1:]
    else:
        messages = _messages(row, folder)
    messages = content.with_media(messages, row, folder)
    return messages, content.exchange_of(row, messages, folder, turns)


def _judged_by_content(row: Row) -> tuple[tuple[str, ...], str, dict[str, Any]]:
    """Targets, scorer and metadata of a row that names the calls or the JSON that would be right."""
    name = next((name for name in _TARGETS if name in row), "")
    given = [] if not name else row[name] if isinstance(row[name], list) and content.SCHEMA not in row else [row[name]]
    targets = tuple(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in given)
    about = content.about_answer(row, targets)
    calls = about.get(content.CALLS)
    if calls is not None:
        targets = targets or (content.calls_in_words(calls),)
    named = row.get("scorer")
    return targets, named if isinstance(named, str) else "json_schema" if calls is None else _CALLS_SCORER, about


def _judged_by_turn(row: Row, exchange: Exchange) -> tuple[tuple[str, ...], str]:
    """All targets in a line, for people to read, and the scorer that judges each turn by its own."""
    if (name := next((name for name in _TARGETS if name in row), None)) is not None:
        raise ValueError(f"the row has {content.TURN_TARGETS!r}: put {name!r} into it, as the target of the last turn")
    if row.get("scorer") == "choice":
        raise ValueError(f"the scorer 'choice' judges by choices, which {content.TURN_TARGETS!r} have not got")
    targets = exchange.turn_targets
    return (content.turns_in_words(targets),), _scorer(row, tuple(chain.from_iterable(targets)), (), None)


def _flattened(row: Row) -> Row:
    """The variables of a promptfoo test beside its other fields; one variable alone is the input."""
    inside = row.get("vars")
    if inside is None and _CHECKED_OTHERWISE.isdisjoint(row):
        return row
    if isinstance(inside, dict):
        row = {**inside, **{name: value for name, value in row.items() if name != "vars"}}
    if not any(name in row for name in _INPUTS):
        variables = [name for name in row if not name.startswith("__") and name not in (*_OURS, "assert", "threshold")]
        if len(variables) == 1:
            return {**row, "input": row[variables[0]]}
    return row


def _messages(row: Row, folder: MediaFolder) -> tuple[Message, ...]:
    name, value = _first_of(_INPUTS, row)
    asked = _conversation(value, name, folder) if isinstance(value, list) else (user(_text(row, _INPUTS)),)
    return (*_told(row), *asked) if "system" in row else asked


def _first_of(names: Sequence[str], row: Row) -> tuple[str, Any]:
    """The first of some names that the row has, and what it has there."""
    for name in names:
        if name in row:
            return name, row[name]
    return "", None


def _told(row: Row) -> tuple[Message, ...]:
    """The row's own instructions to the model."""
    told = row.get("system")
    if told is None:
        return ()
    if not isinstance(told, str) or not told.strip():
        raise ValueError(f"field 'system' must be a text that is not empty, not {told!r}")
    return (Message(role="system", parts=(TextPart(told),)),)


def _conversation(value: list[Any], name: str, folder: MediaFolder) -> tuple[Message, ...]:
    """A conversation as a list of {role, content}."""
    said = tuple(content.said_in(turn, folder, name) for turn in value)
    if not said or not (said[-1].text.strip() or said[-1].media):
        raise ValueError(f"field {name!r} must be a text or messages that are not empty, not {value!r}")
    return said


def _text(row: Row, names: tuple[str, ...]) -> str:
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if value is not None:
            raise ValueError(f"field {name!r} must be a text that is not empty, not {value!r}")
    raise _Missing(row, names)


def _targets(row: Row, choices: tuple[str, ...]) -> tuple[str, ...]:
    for name in _TARGETS:
        if name in row:
            return _resolved(row[name], choices, name)
    raise _Missing(row, _TARGETS)


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
    """The choices: a list, a JSON list in a text, texts with | between, or columns A, B, C or choice0, choice1."""
    value = row.get("choices")
    if value is None:
        value = row.get("options", _in_columns(row))
    if value is None:
        return ()
    if isinstance(value, str):
        value = _listed(value)
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        value = value["text"]
    if not isinstance(value, list) or not 2 <= len(value) <= len(ascii_uppercase):
        raise ValueError(f"field 'choices' must list 2 to {len(ascii_uppercase)} answers, not {value!r}")
    choices = tuple([choice if type(choice) is str else str(choice) for choice in value])
    if len(set(choices)) < len(choices):
        raise ValueError(f"field 'choices' lists the same answer twice: {value!r}")
    return choices


def _in_columns(row: Row) -> list[str] | None:
    if "A" not in row and "choice0" not in row and "choice_0" not in row:
        return None
    for names in (list(ascii_uppercase), [f"choice{i}" for i in range(10)], [f"choice_{i}" for i in range(10)]):
        found = []
        for name in names:
            if name not in row:
                break
            found.append(str(row[name]))
        if len(found) > 1:
            return found
    return None


def _listed(text: str) -> Any:
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"a list that is not readable as JSON: {error}") from None
    return [part.strip() for part in text.split("|")]


def _asserted(row: Row) -> dict[str, Any]:
    """What a row asserts of its answer, by a list or in cells of their own, and how much of it must hold."""
    cells = [str(value) for name, value in row.items() if _IN_CELLS.fullmatch(name)]
    given = row.get("assert")
    if isinstance(given, str):
        given = _listed(given) if given.lstrip().startswith("[") else [in_short(given)]
    if given is None and not cells:
        return {}
    listed = [*(given if isinstance(given, list) else [given] * (given is not None)), *map(in_short, cells)]
    asserted = [filled(one, row) for one in listed]
    threshold = row.get("threshold", row.get("__threshold"))
    return {"assert": asserted} if threshold is None else {"assert": asserted, "threshold": threshold_of(threshold)}


def _keywords(row: Row) -> Keywords | None:
    method = row.get("evaluation_method")
    if method not in (None, "keyword_match"):
        raise ValueError(f"field 'evaluation_method' is {method!r}; known is 'keyword_match'")
    if row.get("expected_keywords") is None:
        if method is not None:
            raise ValueError("field 'expected_keywords' is missing")
        return None
    accept = _word_list(row, "expected_keywords")
    if not accept:
        raise ValueError("field 'expected_keywords' must be a list of texts, not empty")
    return Keywords(accept=accept, reject=_word_list(row, "rejected_keywords"), need_all=row.get("keywords_required") == "all")


def _word_list(row: Row, name: str) -> tuple[str, ...]:
    value = row.get(name, [])
    listed = _listed(value) if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(word, str) for word in listed):
        raise ValueError(f"field {name!r} must be a list of texts, not {value!r}")
    return tuple(listed)


def _brings_rubric(row: Row) -> bool:
    """Whether a row says itself what its answers are judged by, besides a target."""
    return bool(row.get("rubric")) or str(row.get("scorer", "")).startswith(_RUBRIC)


def _scorer(row: Row, targets: tuple[str, ...], choices: tuple[str, ...], keywords: Keywords | None) -> str:
    named = row.get("scorer")
    if isinstance(named, str) and named.partition(":")[0] == _CALLS_SCORER:
        raise ValueError(f"the scorer {named!r} judges by 'expected_calls', which this row has not got; [] says: no call")
    if isinstance(named, str):
        return named
    if choices:
        return "choice"
    if keywords is not None:
        return "keywords"
    if not targets:
        return _RUBRIC.removesuffix(":")
    return "numeric" if all(map(_is_number, targets)) else "match"


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
