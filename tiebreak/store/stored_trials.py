"""What was asked in a run, read back from its store alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from string import ascii_uppercase
from typing import Any

import msgspec

from tiebreak.core.contestant import Contestant
from tiebreak.core.message import user
from tiebreak.core.run import scorer_name
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Trial

# In the order they lie: the scores of rows already read may be changed meanwhile without any row coming twice.
_QUERY = (
    "SELECT t.id, t.asked, t.repeat, s.sample, s.category, s.grouped, s.prompt, s.target, s.choices, s.metadata"
    " FROM trials t CROSS JOIN samples s ON s.asked = t.asked WHERE t.superseded = 0 AND t.contestant = ? ORDER BY t.rowid"
)


def stored_trials(
    connection: sqlite3.Connection, contestant: Contestant, number: int, scorers: tuple[str, ...]
) -> Iterator[Trial]:
    """The trials of a contestant, each with its sample as far as the store has it: prompt, targets, choices, metadata."""
    names = tuple(scorer_name(versioned) for versioned in scorers)
    for identity, asked, repeat, *sample in connection.execute(_QUERY, (number,)):
        yield Trial(sample=_sample(sample, names), contestant=contestant, repeat=repeat, asked=asked, id=identity)


def _sample(row: list[Any], scorers: tuple[str, ...]) -> Sample:
    identity, category, group, prompt, target, listed, told = row
    choices = tuple(msgspec.json.decode(listed) or ())
    metadata = msgspec.json.decode(told) or {}
    return Sample(
        id=identity,
        messages=(user(prompt),),
        targets=_spelled_out(tuple(metadata.get("targets") or (target,)), choices),
        choices=choices,
        category=category,
        group=group,
        scorers=scorers,
        metadata=metadata,
        fixed=True,
    )


def _spelled_out(targets: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str, ...]:
    """The targets; where they are letters of choices, the choices first."""
    letters = dict(zip(ascii_uppercase, choices, strict=False))
    if not choices or set(targets) & set(choices) or not set(targets) <= set(letters):
        return targets
    return (*(letters[target] for target in targets), *targets)
