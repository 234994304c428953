"""A dataset, a scorer and an exporter from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import tiebreak
from tiebreak.core.message import user
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output, Score
from tiebreak.datasets.indexed import IndexedFile


def haiku() -> IndexedFile:
    """Poems to write, three lines each."""
    return IndexedFile(Path(__file__).parent / "topics.jsonl", _read, name="haiku", about="poems of three lines")


def _read(row: Any, number: int) -> Sample:
    asked = f"Write a haiku about {row['topic']}: three lines, nothing else."
    return Sample(id=str(number), messages=(user(asked),), targets=("3",), scorers=("lines",))


class Lines:
    """Right when the answer has as many lines as the target says; `lines:N` for another number."""

    version: ClassVar[int] = 1

    def __init__(self, wanted: str = "") -> None:
        self._wanted = wanted

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Count the lines that are not empty."""
        count = sum(bool(line.strip()) for line in output.text.splitlines())
        wanted = int(self._wanted or sample.target)
        return Score.of(count == wanted, answer=f"{count} lines", because=f"expected {wanted}")


def poems(folder: Path, path: Path) -> None:
    """Every poem of a run, each below its author."""
    trials = tiebreak.open(folder).trials()
    path.write_text("\n\n".join(f"{trial.model}:\n{trial.text}" for trial in trials), encoding="utf-8")
