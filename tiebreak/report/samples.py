"""Single samples: those a contestant got wrong, and every score by sample."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tiebreak.core.run import scorer_name
from tiebreak.store.reader import StoreReader

_WORST = 5
_LONGEST_REASON = 300
_OWN = "FROM trials t WHERE superseded = 0 AND t.contestant = ? AND t.outcome <> 'failed'"
_WORST_OF_ONE = f"""
    WITH kinds AS (SELECT t.category AS category, avg(coalesce(t.score, 0)) AS mean {_OWN} GROUP BY t.category),
    own AS (SELECT t.rowid AS number, t.category AS category, coalesce(t.score, 0) AS value {_OWN}),
    worst AS (SELECT * FROM own JOIN kinds USING (category) WHERE value < 1 ORDER BY mean, value, number LIMIT ?)
    SELECT t.sample, s.prompt, s.target, coalesce(t.answer, t.text, ''), t.outcome FROM worst
    JOIN trials t ON t.rowid = worst.number JOIN samples s ON s.asked = t.asked ORDER BY mean, value, worst.number
"""
"""No text is read but those of the few that are found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleAnswer:
    """A sample and what a contestant answered, for looking at."""

    sample: str
    prompt: str
    expected: str
    answer: str
    outcome: str


def worst_samples(reader: StoreReader, label: str, limit: int = _WORST) -> list[SampleAnswer]:
    """A few samples a contestant did not get right, those of its weakest categories first, and among them the worst."""
    number = reader.numbers[label]
    rows = reader.rows(_WORST_OF_ONE, number, number, limit)
    return [SampleAnswer(sample=r[0], prompt=r[1], expected=r[2], answer=r[3], outcome=r[4]) for r in rows]


_WHY_FAILED = """
    SELECT contestant, coalesce(failure_kind, ''), count(*), coalesce(failure, ''), min(rowid) FROM trials
    WHERE superseded = 0 AND outcome = 'failed' GROUP BY contestant, failure_kind ORDER BY count(*) DESC, contestant
"""
"""The message is that of the first: SQLite takes what stands beside min() from its row."""


def why_failed(reader: StoreReader, told: Collection[str] = (), limit: int = _WORST) -> list[str]:
    """Sentences on what made trials fail, the most frequent first, each in the words of its first failure.

    What stands in `told` already is not told again.
    """
    label_of = {number: label for label, number in reader.numbers.items()}
    found = [row for row in reader.rows(_WHY_FAILED) if row[3] and not any(row[3] in one for one in told)]
    lines = [
        f"{label_of[number]}: {count:,} {_ended(kind)}{', the first' if count > 1 else ''}: {_in_a_line(why)}"
        for number, kind, count, why, _ in found[:limit]
    ]
    return [*lines, f"trials.csv has {len(found) - limit:,} more kinds of failures."] if len(found) > limit else lines


def _ended(kind: str) -> str:
    return "not judged" if kind == "unjudged" else f"failed ({kind})"


def _in_a_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} …"


def answers_to(reader: StoreReader, label: str, samples: Sequence[str]) -> dict[str, SampleAnswer]:
    """What a contestant answered to some samples, by sample; of repeats, the last."""
    query = (
        "SELECT t.sample, s.prompt, s.target, coalesce(t.answer, t.text, ''), t.outcome FROM trials t"
        " JOIN samples s ON s.asked = t.asked WHERE superseded = 0 AND t.contestant = ?"
        f" AND t.sample IN ({', '.join('?' * len(samples))}) ORDER BY t.repeat"
    )
    rows = reader.rows(query, reader.numbers[label], *samples)
    return {r[0]: SampleAnswer(sample=r[0], prompt=r[1], expected=r[2], answer=r[3], outcome=r[4]) for r in rows}


_BY_SCORER = """
    WITH own AS (SELECT contestant, sample, score, scores FROM trials WHERE superseded = 0 AND outcome <> 'failed'),
    judged AS (
        SELECT contestant, key AS scorer, sample, json_extract(value, '$.value') AS score FROM own, json_each(own.scores)
    ),
    scorers AS (SELECT DISTINCT contestant, scorer FROM judged),
    silent AS (
        SELECT contestant, scorer, sample, 0.0 FROM own JOIN scorers USING (contestant) WHERE score IS NULL AND scores IS NULL
    ),
    counted AS (SELECT * FROM judged UNION ALL SELECT * FROM silent),
    means AS (SELECT contestant, scorer, avg(score) AS mean FROM counted GROUP BY contestant, scorer, sample)
    SELECT contestant, scorer, avg(mean) FROM means GROUP BY contestant, scorer
"""


def means_by_scorer(reader: StoreReader) -> dict[int, dict[str, float]]:
    """By contestant, the mean by each scorer, those that rank first; empty where only one judged.

    It is the mean that ranks: repeats of a sample are averaged first, and an outcome without a score counts 0.
    """
    # All trials of a run were judged by as many scorers: one tells whether the others need to be looked at.
    one = next(reader.rows("SELECT scores FROM trials WHERE superseded = 0 AND score IS NOT NULL LIMIT 1"), None)
    if one is None or one[0] is None:
        return {}
    place = {scorer_name(versioned): number for number, versioned in enumerate(reader.info.protocol.scorers)}
    means: dict[int, dict[str, float]] = {}
    for contestant, scorer, mean in sorted(reader.rows(_BY_SCORER), key=lambda row: (place.get(row[1], len(place)), row[1])):
        means.setdefault(contestant, {})[scorer] = mean
    return {contestant: own for contestant, own in means.items() if len(own) > 1}


def scores_by_sample(reader: StoreReader, label: str) -> dict[str, float]:
    """A contestant's mean score on every sample it answered; an outcome without a score counts 0."""
    query = (
        "SELECT sample, avg(coalesce(score, 0)) FROM trials"
        " WHERE superseded = 0 AND outcome <> 'failed' AND contestant = ? GROUP BY sample"
    )
    return dict(reader.rows(query, reader.numbers[label]))


def groups_by_sample(reader: StoreReader) -> dict[str, str]:
    """The group of every sample that has one."""
    return dict(reader.rows("SELECT DISTINCT sample, grouped FROM samples WHERE grouped <> ''"))
