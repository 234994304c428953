"""Public sets of coding tasks, converted from a local copy of their repository; nothing of them is fetched or kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import structs

from tiebreak.core.errors import DatasetError
from tiebreak.core.message import user
from tiebreak.core.run import Source
from tiebreak.core.sample import Sample
from tiebreak.core.task import Check, Environment, Solution, Task, TaskFile
from tiebreak.datasets.records import checked_rows, open_records
from tiebreak.datasets.repository import TEST_FILES
from tiebreak.datasets.suites import RUN_PYTEST
from tiebreak.datasets.task_environment import as_solution, repository_at
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


# --- SWE-bench: rows, and the repositories they speak of beside them --------------------------------------

_SWEBENCH_S = 1200.0
_ROWS = ("*.jsonl", "*.parquet", "*.json", "*.csv")


def swebench(source: Source) -> Tasks:
    """Issues of real projects as SWE-bench writes them down: each row a commit, the patch with its tests, and its solution."""
    root = Path(source.path)
    files = sorted(path for pattern in _ROWS for path in root.glob(pattern)) if source.path else []
    if not files:
        raise DatasetError(
            "swebench needs a folder with its rows (*.jsonl or *.parquet) and beside them the repositories, "
            "cloned as OWNER__NAME: name it with --data"
        )
    samples: list[Sample] = []
    skipped: list[tuple[str, str]] = []
    for file in files:
        for number, row in checked_rows(open_records(file)):
            name, project = str(row.get("instance_id", f"{file.name}:{number}")), str(row.get("repo", ""))
            if not _is_wanted(source, name, project):
                continue
            try:
                samples.append(_issue(root, name, project, row))
            except KeyError as missing:
                skipped.append((name, f"the field {missing} is missing"))
            except (CannotRunHere, ValueError, OSError) as reason:
                skipped.append((name, str(reason)))
    return _tasks("swebench", source, samples, skipped)


def _issue(root: Path, name: str, project: str, row: Mapping[str, Any]) -> Sample:
    """One row as a task."""
    repository, commit = repository_at(_clone(root, row["repo"])), str(row["base_commit"])
    files = repository.files(commit)
    tests, solved = (repository.applied(commit, str(row[field]).encode()) for field in ("test_patch", "patch"))
    mended, kept = _listed(row["FAIL_TO_PASS"]), _listed(row["PASS_TO_PASS"])
    if foreign := [test for test in mended if "::" not in test]:
        raise CannotRunHere(f"its tests are named by another runner than pytest: {foreign[0][:80]}")
    named = {test.partition("::")[0] for test in (*mended, *kept)}
    laid = {file.path: file for file in (*(file for file in files if file.path in named), *tests.files)}
    task = Task(
        title=name,
        files=files,
        check=Check(
            script=f"{RUN_PYTEST}\n",
            files=tuple(laid.values()),
            restore=TEST_FILES,
            fail_to_pass=mended,
            pass_to_pass=kept,
            timeout_s=_SWEBENCH_S,
        ),
        solution=as_solution(solved),
        environment=Environment(python=_python_of(root, project, str(row.get("version", "")))),
    )
    return Sample(
        id=name,
        messages=(user(str(row["problem_statement"])),),
        category=project,
        scorers=("check", "tests"),
        task=task,
        metadata={"title": name, "tags": []},
    )


def _listed(names: Any) -> tuple[str, ...]:
    """Names of tests, which some files hold as a list and others as its JSON."""
    found = json.loads(names) if isinstance(names, str) else names
    return tuple(map(str, found or ()))


def _clone(root: Path, project: str) -> Path:
    """The repository of a project, in the folder of the rows."""
    name = project.replace("/", "__")
    places = [root / name, root / f"{name}.git"]
    found = next((place for place in places if place.is_dir() and place.resolve().is_relative_to(root.resolve())), None)
    if found is None or not name or name.startswith("."):
        raise CannotRunHere(f"its repository is not here: git clone https://github.com/{project} {places[0]}")
    return found


def _python_of(root: Path, project: str, version: str) -> str:
    """The interpreter of the environment that was made for a project, where one was; else the tests get ours."""
    name = project.replace("/", "__")
    places = [root / "environments" / folder / "bin" / "python" for folder in (f"{name}-{version}", name)]
    return next((str(place.absolute()) for place in places if place.exists()), "")


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
