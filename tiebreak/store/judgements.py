"""Answers that wait for a judge, and what judges and people have said of answers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from tiebreak.core.message import Message, Usage
from tiebreak.core.trial import Judgement, KeptAnswer, Outcome, Output, Score, Trial

HUMAN = "human:"
"""How the scorer of a person begins; their name follows."""

JUDGED_AS = (
    "CASE WHEN unjudged IS NOT NULL THEN unjudged"
    " WHEN failure_kind = 'unchecked' AND text IS NOT NULL THEN 'answered' ELSE outcome END"
)
"""The outcome of a trial that is judged anew: an answer that nobody had judged yet is an answer."""

JUDGEABLE = f"text IS NOT NULL AND {JUDGED_AS} IN ('answered', 'cut_off')"
"""Trials with an answer that a judge can judge."""

_WAIT_FOR_JUDGE = f"""
    UPDATE trials SET unjudged = {JUDGED_AS}, outcome = 'failed', failure_kind = 'unjudged',
        failure = 'no judge has judged this answer yet', score = NULL, second = NULL, answer = NULL, because = NULL
    WHERE superseded = 0 AND {JUDGEABLE}
"""
_USED = """
    SELECT judge, total(input_tokens), total(output_tokens), sum(cost_usd) FROM (
        SELECT judge, input_tokens, output_tokens, cost_usd FROM judgements
        UNION ALL SELECT judge, input_tokens, output_tokens, cost_usd FROM preferences
    ) WHERE judge <> '' GROUP BY judge
"""


def kept_answers(
    connection: sqlite3.Connection, trials: Sequence[Trial], scores_of: Callable[[Trial], Mapping[str, Score]]
) -> dict[str, KeptAnswer]:
    """By trial, the answers that some judge has still to judge."""
    ids = [trial.id for trial in trials]
    query = (
        f"SELECT id, text, thinking, unjudged FROM trials WHERE NOT superseded AND unjudged IS NOT NULL AND id IN {_places(ids)}"
    )
    said = exchanges(connection, ids)
    outputs = {
        identity: Output(text=text or "", thinking=thinking or "", outcome=Outcome(outcome), messages=said.get(identity, ()))
        for identity, text, thinking, outcome in connection.execute(query, ids)
    }
    verdicts = _verdicts(connection, list(outputs))
    return {
        trial.id: KeptAnswer(output=outputs[trial.id], scores=scores_of(trial), judgements=tuple(verdicts.get(trial.id, ())))
        for trial in trials
        if trial.id in outputs
    }


def exchanges(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[Message, ...]]:
    """By trial, everything that was said in it, where that is more than one answer in words."""
    query = (
        "SELECT e.id, e.messages FROM exchanges e JOIN trials t ON t.id = e.id AND t.finished_at = e.finished_at"
        f" WHERE NOT t.superseded AND e.id IN {_places(ids)}"
    )
    return {
        identity: msgspec.json.decode(said, type=tuple[Message, ...]) for identity, said in connection.execute(query, list(ids))
    }


def _verdicts(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, list[Judgement]]:
    """By trial, the judges' verdicts that stand."""
    query = (
        "SELECT trial, scorer, judge, value, because, grades FROM judgements"
        f" WHERE superseded = 0 AND judge <> '' AND value IS NOT NULL AND trial IN {_places(ids)}"
    )
    found: dict[str, list[Judgement]] = {}
    for trial, scorer, judge, value, because, grades in connection.execute(query, list(ids)):
        score = Score(value=value, because=because or "", grades=msgspec.json.decode(grades) if grades else {})
        found.setdefault(trial, []).append(Judgement(scorer=scorer, judge=judge, score=score))
    return found


def unjudged_counts(connection: sqlite3.Connection) -> dict[int, int]:
    """By contestant, how many kept answers some judge has still to judge."""
    query = "SELECT contestant, count(*) FROM trials WHERE superseded = 0 AND unjudged IS NOT NULL GROUP BY contestant"
    return dict(connection.execute(query))


def wait_for_judges(connection: sqlite3.Connection) -> None:
    """Have every answer wait for a judge; verdicts there are keep their rows, and count no more."""
    connection.execute("UPDATE judgements SET superseded = 1 WHERE judge <> ''")
    connection.execute(_WAIT_FOR_JUDGE)


def used_by_judges(connection: sqlite3.Connection) -> dict[str, Usage]:
    """By judge, what its calls used in all sessions so far; None as cost where none of them has a price."""
    rows = connection.execute(_USED)
    return {judge: Usage(input_tokens=int(sent), output_tokens=int(made), cost_usd=cost) for judge, sent, made, cost in rows}


def keep_votes(connection: sqlite3.Connection, person: str, votes: Iterable[tuple[str, float]]) -> None:
    """Keep what a person says of answers, by trial; a later vote of the same person replaces an earlier one."""
    scorer, now = f"{HUMAN}{person}", datetime.now(UTC).isoformat(timespec="milliseconds")
    for trial, value in votes:
        connection.execute("UPDATE judgements SET superseded = 1 WHERE trial = ? AND scorer = ?", (trial, scorer))
        connection.execute(
            "INSERT INTO judgements (trial, scorer, judge, value, calls, seconds, at) VALUES (?, ?, '', ?, 0, 0.0, ?)",
            (trial, scorer, value, now),
        )


def _places(ids: Sequence[str]) -> str:
    return f"({', '.join('?' * len(ids))})"
