"""How far a judge can be trusted: does it agree with people, and does it go by length?"""

from __future__ import annotations

from statistics import StatisticsError, correlation

import msgspec

from tiebreak.store.reader import StoreReader

_LEAST = 5
_QUERY = (
    "SELECT t.score, length(t.text), s.metadata FROM trials t JOIN samples s ON s.asked = t.asked"
    " WHERE t.superseded = 0 AND t.score IS NOT NULL AND t.text IS NOT NULL"
)


def judge_notes(reader: StoreReader) -> list[str]:
    """What is to be said of the judge; nothing where no model judged."""
    judges = reader.info.protocol.judges
    if not judges:
        return []
    rows = [(score, length, _human(metadata)) for score, length, metadata in reader.rows(_QUERY)]
    if len(rows) < _LEAST:
        return []
    try:
        lengths = correlation([row[1] for row in rows], [row[0] for row in rows])
    except StatisticsError:  # One of them does not vary.
        lengths = 0.0
    names = ", ".join(judge.label for judge in judges)
    notes = [f"Judged by {names}: the verdicts correlate with the length of the answers by {lengths:+.2f} (n={len(rows)})."]
    labelled = [(score, human) for score, _, human in rows if human is not None]
    if labelled:
        alike = sum((score >= 0.5) == (human >= 0.5) for score, human in labelled)
        notes.append(f"It agrees with people on {alike} of {len(labelled)} answers they judged ({alike / len(labelled):.0%}).")
    return notes


def _human(metadata: str) -> float | None:
    try:
        value = (msgspec.json.decode(metadata) or {}).get("human")
    except (msgspec.DecodeError, AttributeError):
        return None
    return float(value) if isinstance(value, (bool, int, float)) else None
