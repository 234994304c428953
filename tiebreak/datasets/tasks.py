"""Coding tasks as a dataset: from Markdown files, folders, and the folders of Harbor and Exercism."""

from __future__ import annotations

import glob
import json
import os
import shutil
import tomllib
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import structs

from tiebreak.core.digest import digest_of_texts, order_key
from tiebreak.core.errors import DatasetError
from tiebreak.core.message import user
from tiebreak.core.run import Source
from tiebreak.core.sample import Sample
from tiebreak.core.task import Task, TaskFile
from tiebreak.datasets.repository import folder_files
from tiebreak.datasets.task_environment import completed
from tiebreak.datasets.task_folders import CannotRunHere, left_out, read_exercism, read_folder, read_harbor
from tiebreak.datasets.task_markdown import FrontMatter, read_markdown

SCHEME = "tasks:"
_LEVELS = ("smoke", "easy", "medium", "hard")
Read = Callable[[Path], tuple[FrontMatter, str, Task]]


class Tasks:
    """Coding tasks, all of them in memory: there are hundreds of them at most, and each is small."""

    def __init__(
        self,
        name: str,
        samples: Iterable[Sample],
        skipped: Iterable[tuple[str, str]] = (),
        folders: Iterable[Path] = (),
    ) -> None:
        self.name = name
        self.about = "coding tasks"
        self.kinds = frozenset({"task"})
        self.skipped = tuple(skipped)
        """Tasks that cannot run here, by path, and why."""
        self.folders = tuple(folders)
        """Tasks that are folders: what lies in them is theirs."""
        self._samples = tuple(samples)
        numbers: dict[str, int] = {}
        self.shuffle = array("Q", [order_key(sample.id) for sample in self._samples])
        self.categories = array("I", [numbers.setdefault(s.category, len(numbers)) for s in self._samples])
        self.scorers = tuple(dict.fromkeys(scorer for sample in self._samples for scorer in sample.scorers)) or ("check",)
        self.digest = digest_of_texts([sample.asked_digest for sample in self._samples])

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, position: int) -> Sample:
        return self._samples[position]


def spelled(paths: Iterable[str | Path]) -> str:
    """The dataset name of some task files and folders."""
    if not all(str(path).strip() for path in paths):
        raise DatasetError("a task has an empty name; name a file, a folder of tasks or a pattern")
    return SCHEME + os.pathsep.join(str(Path(path).expanduser().absolute()) for path in paths)


def load(name: str, source: Source | None = None) -> Tasks:
    """The tasks a name stands for: `tasks:PATH`, several paths separated as in $PATH."""
    common = folder_files(Path(source.workspace)) if source and source.workspace else ()
    samples: dict[str, Sample] = {}
    skipped: list[tuple[str, str]] = []
    for path, root in _find_tasks(name.removeprefix(SCHEME).split(os.pathsep)):
        try:
            sample = _on_copy(read_task(path, root, source.sandbox if source else ""), common)
        except CannotRunHere as reason:
            skipped.append((str(path), str(reason)))
            continue
        if sample.id in samples:
            raise DatasetError(f"{path}: another task has the id {sample.id!r} already; every task needs its own")
        samples[sample.id] = sample
        skipped += [(str(place), reason) for place, reason in left_out(path)] if path.is_dir() else []
    if not samples:
        raise DatasetError(f"no task can run here: {'; '.join(f'{path}: {why}' for path, why in skipped[:5])}")
    return Tasks(name, samples.values(), skipped)


def _on_copy(sample: Sample, files: tuple[TaskFile, ...]) -> Sample:
    """A task that brings no files of its own, with those of the folder it is to be done in."""
    if not files or sample.task is None or sample.task.files:
        return sample
    return structs.replace(sample, task=structs.replace(sample.task, files=files))


def checked_tasks(name: str, folder: Path) -> Tasks:
    """The tasks below a folder that may hold other things too: a Markdown file without a check is none, and is named."""
    samples: dict[str, Sample] = {}
    skipped: list[tuple[str, str]] = []
    folders = []
    for path in _below(folder):
        folders += [path] if path.is_dir() else []
        try:
            sample = read_task(path, folder)
        except (CannotRunHere, DatasetError) as reason:
            skipped.append((str(path), str(reason)))
            continue
        if sample.task is not None and sample.task.check is None:
            skipped.append((str(path), "no task: it has no check"))
        else:
            samples[sample.id] = sample
    return Tasks(name, samples.values(), skipped, folders)


def read_task(path: Path, root: Path | None = None, engine: str = "") -> Sample:
    """One task as a sample. Raises CannotRunHere when this machine lacks what it needs."""
    read = _reader_of(path)
    try:
        front, prompt, task = read_harbor(path, engine) if read is read_harbor else read(path)
        task = completed(front, task, path if path.is_dir() else path.parent)
    except (ValueError, KeyError, OSError, tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise DatasetError(f"{path}: {_reason(error)}") from None
    missing = [tool for tool in task.needs if shutil.which(tool) is None]
    if missing:
        raise CannotRunHere(f"it needs {', '.join(missing)}, not installed here")
    _refuse_unsafe_paths(path, task)
    name = front.id or _name_of(path, root)
    return Sample(
        id=name,
        messages=(user(prompt),),
        category=_level_of(path),
        scorers=("check", "tests") if task.check and task.check.fail_to_pass else ("check",),
        task=task,
        metadata={"title": task.title, "tags": list(task.tags)},
    )


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or ''} cannot be read: {error.strerror}".strip()
    return f"the field {error} is missing" if isinstance(error, KeyError) else str(error)


def _reader_of(path: Path) -> Read:
    kind = _kind_of(path)
    if kind is None:
        raise DatasetError(f"{path} is no task: a task is a .md file, or a folder with task.md, task.toml or .meta/config.json")
    return kind


def _kind_of(path: Path) -> Read | None:
    """How a path is read as a task; None when it is none."""
    if path.is_file():
        return _read_file if path.suffix.lower() == ".md" else None
    for marker, read in (("task.md", read_folder), ("task.toml", read_harbor), (".meta/config.json", read_exercism)):
        if (path / marker).is_file():
            return read
    return None


def _read_file(path: Path) -> tuple[FrontMatter, str, Task]:
    return read_markdown(path.read_text(encoding="utf-8-sig").replace("\r\n", "\n"))


def _find_tasks(paths: Iterable[str]) -> Iterator[tuple[Path, Path | None]]:
    """Every task below the paths, with the folder it was found in; a pattern stands for what it matches."""
    for typed in filter(None, paths):
        matches = [typed]
        if glob.has_magic(typed) and not Path(typed).exists():
            matches = sorted(glob.glob(typed, recursive=True))  # noqa: PTH207 -- an absolute pattern, which Path.glob refuses
        if not matches:
            raise DatasetError(f"no task matches {typed}")
        for match in matches:
            yield from _tasks_at(Path(match))


def _tasks_at(path: Path) -> Iterator[tuple[Path, Path | None]]:
    if not path.exists():
        near = ", ".join(sorted(str(p) for p in path.parent.glob("*.md"))[:5]) if path.parent.is_dir() else ""
        raise DatasetError(f"there is no task {path}{f'; there are {near}' if near else ''}")
    if _kind_of(path) is not None:
        yield path, None
        return
    if path.is_file():
        _reader_of(path)
    below = list(_below(path))
    if not below:
        raise DatasetError(f"{path} holds no tasks: no .md file, and no folder with task.md, task.toml or .meta/config.json")
    for found in below:
        yield found, path


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name.lower() == "readme.md":
            continue
        if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            raise DatasetError(f"{path} is a link that leads out of {folder}; name what it leads to as a task of its own")
        if _kind_of(path) is not None:
            yield path
        elif path.is_dir():
            yield from _below(path)


def _name_of(path: Path, root: Path | None) -> str:
    """The path below a folder of levels, or below where it was found; `.md` left out."""
    plain = path.with_suffix("") if path.is_file() else path
    parts = plain.absolute().parts
    for place in range(len(parts) - 2, -1, -1):
        if parts[place] in _LEVELS:
            return "/".join(parts[place:])
    return plain.relative_to(root).as_posix() if root else plain.name


def _level_of(path: Path) -> str:
    return next((part for part in reversed(path.absolute().parent.parts) if part in _LEVELS), "")


def _refuse_unsafe_paths(path: Path, task: Task) -> None:
    """A task's files stay below its workspace."""
    overlays = [part.files for part in (task.check, task.solution, task.cheat) if part]
    for file in (file for files in (task.files, *overlays) for file in files):
        parts = Path(file.path).parts
        if not parts or file.path.startswith("/") or ".." in parts or parts[0] == ".git":
            raise DatasetError(f"{path}: the file {file.path!r} does not lie below the workspace")
