"""The datasets that come with the tool; every question in them was written for it."""

from __future__ import annotations

from pathlib import Path

from tiebreak.core.message import user
from tiebreak.core.sample import Keywords, Sample
from tiebreak.datasets.indexed import IndexedFile, Row

_DATA = Path(__file__).parent / "data"


def truthfulness() -> IndexedFile:
    """Things people commonly get wrong, as multiple choice."""
    return IndexedFile(
        _DATA / "truthfulness.jsonl", _as_choice, name="truthfulness", about="things people commonly get wrong, multiple choice"
    )


def truthfulness_open() -> IndexedFile:
    """The same questions in free text, scored by keywords."""
    return IndexedFile(
        _DATA / "truthfulness.jsonl", _by_keywords, name="truthfulness:open", about="the same questions in free text, by keywords"
    )


def warmup() -> IndexedFile:
    """Fifty easy questions a small model has a chance with."""
    return IndexedFile(
        _DATA / "warmup.jsonl", _by_keywords, name="warmup", about="fifty easy common-knowledge questions in free text"
    )


def _as_choice(row: Row, number: int) -> Sample:
    return Sample(
        id=row["id"],
        messages=(user(row["question"]),),
        targets=(row["best"],),
        choices=(row["best"], *row["wrong"]),
        category=row["category"],
        scorers=("choice",),
        metadata={"difficulty": row["difficulty"], "why": row["why"]},
    )


def _by_keywords(row: Row, number: int) -> Sample:
    return Sample(
        id=row["id"],
        messages=(user(f"{row['question']} Answer in one short sentence."),),
        targets=(row["best"] if "best" in row else row["answer"],),
        keywords=Keywords(accept=tuple(row["accept"]), reject=tuple(row["reject"])),
        category=row["category"],
        scorers=("keywords",),
        metadata={name: row[name] for name in ("difficulty", "why") if name in row},
    )
