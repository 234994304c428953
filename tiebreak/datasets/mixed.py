"""A folder as one dataset: files of questions, coding tasks, or both together."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tiebreak.core.digest import digest_of_texts
from tiebreak.core.errors import DatasetError
from tiebreak.core.run import Source
from tiebreak.core.sample import Sample
from tiebreak.datasets import files
from tiebreak.datasets.records import is_records
from tiebreak.datasets.tasks import Tasks, checked_tasks


def load(name: str, *, known: Callable[[], Sequence[str]], source: Source | None = None) -> Any:
    """What a folder holds; a Markdown file in it is a task when it has a check, and else somebody's notes."""
    folder = Path(name).expanduser()
    tasks = checked_tasks(name, folder)
    has_questions = any(is_records(path) for path in folder.rglob("*") if path.is_file() and not _within(path, tasks))
    if not len(tasks):
        return files.load(name, known=known, source=source)
    return Joined(name, [files.load(name, known=known, source=source), tasks]) if has_questions else tasks


def _within(path: Path, tasks: Tasks) -> bool:
    """Whether a file belongs to a task's own folder."""
    return any(path.is_relative_to(folder) for folder in tasks.folders)


class Joined:
    """Several datasets as one."""

    def __init__(self, name: str, parts: Sequence[Any]) -> None:
        self._parts = parts
        self.name = name
        self.about = "questions and coding tasks"
        self.kinds = frozenset({"question", "task"})
        self.skipped = tuple(entry for part in parts for entry in getattr(part, "skipped", ()))
        self.needs = frozenset(need for part in parts for need in getattr(part, "needs", ()))
        self.scorers = tuple(dict.fromkeys(scorer for part in parts for scorer in part.scorers))
        self.digest = digest_of_texts(part.digest for part in parts)
        self.shuffle, self.categories, self._first = array("Q"), array("I"), array("Q")
        for part in parts:
            self._first.append(len(self.shuffle))
            numbers = max(self.categories, default=-1) + 1
            self.shuffle.extend(part.shuffle)
            self.categories.extend(array("I", (numbers + number for number in part.categories)))
        self._refuse_twins()

    def _refuse_twins(self) -> None:
        """A task and a question of one id would be one sample."""
        if len(set(self.shuffle)) < len(self.shuffle):
            seen: set[str] = set()
            for position in range(len(self)):
                identity = self[position].id
                if identity in seen:
                    raise DatasetError(f"{self.name}: a question and a task have the id {identity!r}; every sample needs its own")
                seen.add(identity)

    def __len__(self) -> int:
        return len(self.shuffle)

    def __getitem__(self, position: int) -> Sample:
        part = bisect_right(self._first, position) - 1
        sample: Sample = self._parts[part][position - self._first[part]]
        return sample
