"""Pairs of answers that are compared, and what judges have said of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tiebreak.core.message import user
from tiebreak.core.preference import AnswerPair
from tiebreak.core.sample import Sample

_READ_AT_ONCE = 64
_ANSWERED = """
    SELECT id, contestant, sample, repeat FROM trials
    WHERE superseded = 0 AND text IS NOT NULL AND (outcome <> 'failed' OR unjudged IS NOT NULL OR failure_kind = 'unchecked')
    ORDER BY sample, repeat, contestant
"""
_TEXTS = """
    SELECT t.id, t.text, s.prompt, s.metadata FROM trials t JOIN samples s USING (asked)
    WHERE NOT t.superseded AND t.id IN
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer that can be compared."""

    trial: str
    contestant: str
    sample: str
    repeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairToCompare:
    """Two answers in the order they are to be shown, and the judges that have not compared them yet."""

    first: Answered
    second: Answered
    judges: tuple[str, ...]


def comparable_answers(connection: sqlite3.Connection, labels: Mapping[int, str]) -> list[Answered]:
    """Every answer of these contestants, also an empty one; what failed is not an answer."""
    return [
        Answered(trial=trial, contestant=labels[contestant], sample=sample, repeat=repeat)
        for trial, contestant, sample, repeat in connection.execute(_ANSWERED)
        if contestant in labels
    ]


def answer_pairs(connection: sqlite3.Connection, pairs: Sequence[PairToCompare]) -> Iterator[AnswerPair]:
    """The pairs with their question and their texts, read some at a time."""
    for start in range(0, len(pairs), _READ_AT_ONCE):
        some = pairs[start : start + _READ_AT_ONCE]
        ids = sorted({answer.trial for pair in some for answer in (pair.first, pair.second)})
        rows = connection.execute(f"{_TEXTS} ({', '.join('?' * len(ids))})", ids).fetchall()
        known = {trial: rest for trial, *rest in rows}
        yield from (_with_texts(pair, known) for pair in some)


def _with_texts(pair: PairToCompare, known: Mapping[str, Sequence[str]]) -> AnswerPair:
    text, prompt, metadata = known[pair.first.trial]
    return AnswerPair(
        sample=Sample(id=pair.first.sample, messages=(user(prompt),), metadata=msgspec.json.decode(metadata) or {}),
        repeat=pair.first.repeat,
        first=pair.first.trial,
        second=pair.second.trial,
        first_text=text,
        second_text=known[pair.second.trial][0],
        judges=pair.judges,
    )


def compare_by(connection: sqlite3.Connection, scorer: str, judges: set[str]) -> set[tuple[str, str, str]]:
    """Have verdicts of other scorers and judges count no more; those that count, by first answer, second and judge."""
    places = ", ".join("?" * len(judges))
    others = f"judge <> '' AND (scorer <> ? OR judge NOT IN ({places}))"
    connection.execute(f"UPDATE preferences SET superseded = 1 WHERE superseded = 0 AND {others}", (scorer, *judges))
    query = "SELECT first, second, judge FROM preferences WHERE superseded = 0 AND judge <> '' AND better IS NOT NULL"
    return set(connection.execute(query))
