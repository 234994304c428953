"""Public sets of coding tasks, converted from a local copy of their repository; nothing of them is fetched or kept."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import structs

from tiebreak.core.errors import DatasetError
from tiebreak.core.message import user
from tiebreak.core.run import Source
from tiebreak.core.sample import Sample
from tiebreak.core.task import Check, Solution, Task, TaskFile
from tiebreak.datasets.repository import TEST_FILES
from tiebreak.datasets.suites import RUN_PYTEST
from tiebreak.datasets.task_folders import CannotRunHere, files_below, task_file
from tiebreak.datasets.tasks import Tasks, read_task

_POLYGLOT = "https://github.com/Aider-AI/polyglot-benchmark"
_QUIXBUGS = "https://github.com/jkoppel/QuixBugs"
_QUIXBUGS_S = 30.0
"""Many of its programs never end as long as their defect is there."""
_QUIXBUGS_PROMPT = """\
The program {program} has a defect on a single line. Find it and repair it.

The text at the end of the file says what the program should do. Change as little as possible: keep the names of functions and
their parameters, and use only the standard library. Hidden tests call the program and compare what it returns.
"""


def polyglot(source: Source) -> Tasks:
    """Exercises in six languages as aider's polyglot set has them, the language as the category."""
    root = _copy_of(source, "polyglot", _POLYGLOT, "*/exercises/practice/*/.meta/config.json")
    samples: list[Sample] = []
    skipped: list[tuple[str, str]] = []
    for config in sorted(root.glob("*/exercises/practice/*/.meta/config.json")):
        folder = config.parent.parent
        language = folder.parents[2].name
        name = f"{language}/{folder.name}"
        if not _is_wanted(source, name, language):
            continue
        try:
            samples.append(structs.replace(read_task(folder), id=name, category=language))
        except CannotRunHere as reason:
            skipped.append((name, str(reason)))
    return _tasks("polyglot", source, samples, skipped)


def quixbugs(source: Source) -> Tasks:
    """Small Python programs, each with a defect on one line: those of the QuixBugs repository."""
    root = _copy_of(source, "quixbugs", _QUIXBUGS, "python_testcases/test_*.py")
    programs = [path.stem.removeprefix("test_") for path in sorted(root.glob("python_testcases/test_*.py"))]
    wanted = [name for name in programs if _is_wanted(source, f"python/{name}", "python")]
    samples, skipped = [], []
    for name in wanted:
        try:
            samples.append(_repair(root, name))
        except (ValueError, OSError) as error:
            skipped.append((f"python/{name}", f"it cannot be read: {error}"))
    return _tasks("quixbugs", source, samples, skipped)


def _repair(root: Path, name: str) -> Sample:
    """One program of QuixBugs as a task: its tests are hidden, its corrected version is the solution."""
    program = f"python_programs/{name}.py"
    corrected = task_file(root / "correct_python_programs" / f"{name}.py", program, root=root)
    task = Task(
        title=f"Repair {name}",
        files=(task_file(root / program, program, root=root),),
        check=Check(
            script=f"{RUN_PYTEST} python_testcases/test_{name}.py\n",
            files=tuple(_tests_of(root, name)),
            restore=TEST_FILES,
            timeout_s=_QUIXBUGS_S,
        ),
        solution=Solution(files=(corrected,)),
    )
    return Sample(
        id=f"python/{name}",
        messages=(user(_QUIXBUGS_PROMPT.format(program=program)),),
        category="python",
        scorers=("check",),
        task=task,
        metadata={"title": task.title, "tags": []},
    )


def _tests_of(root: Path, name: str) -> Iterator[TaskFile]:
    """The tests of one program with all they read; those of other programs are left out."""
    yield task_file(root / "conftest.py", "conftest.py", root=root)
    yield task_file(root / "python_testcases" / f"test_{name}.py", f"python_testcases/test_{name}.py", root=root)
    for file in files_below(root / "python_testcases", root=root, prefix="python_testcases/"):
        if not Path(file.path).name.startswith("test_"):
            yield file
    data = root / "json_testcases" / f"{name}.json"
    if data.is_file():
        yield task_file(data, f"json_testcases/{name}.json", root=root)


def _copy_of(source: Source, name: str, home: str, holds: str) -> Path:
    """The folder with the repository's files."""
    if not source.path:
        raise DatasetError(f"{name} needs a copy of its repository: git clone {home}, then name the folder with --data")
    root = Path(source.path)
    if not root.is_dir():
        raise DatasetError(f"--data {source.path}: there is no such folder")
    if next(root.glob(holds), None) is None:
        raise DatasetError(f"--data {source.path} is no copy of {home}: it holds no {holds}")
    return root


def _is_wanted(source: Source, name: str, category: str) -> bool:
    """Whether a task is among those chosen: others need not be proven."""
    by_id = not source.ids or any(fnmatchcase(name, pattern) for pattern in source.ids)
    return by_id and (not source.categories or any(fnmatchcase(category, pattern) for pattern in source.categories))


def _tasks(name: str, source: Source, samples: list[Sample], skipped: list[tuple[str, str]]) -> Tasks:
    if not samples and not skipped:
        raise DatasetError(f"{name} has no task that fits {', '.join((*source.ids, *source.categories))}")
    return Tasks(name, samples, skipped)
