"""What a task file says of a repository and of packages: the commit's files, the hidden tests, the environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import structs

from tiebreak.core.task import Check, Environment, Solution, Task, TaskFile
from tiebreak.datasets.repository import TEST_FILES, Patched, Repository
from tiebreak.datasets.suites import RUN_PYTEST, Suite, suite_of
from tiebreak.datasets.task_folders import inside, task_file
from tiebreak.datasets.task_markdown import FrontMatter

_PINNED = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,.-]+\])?==[\w.!+-]+")
_NPM_FILES = ("package.json", "package-lock.json")
PYTEST_CHECK = f"{RUN_PYTEST}\n"
"""The check of a task that says nothing but which tests of pytest are to pass."""


def completed(front: FrontMatter, task: Task, folder: Path) -> Task:
    """The task with what its front matter says of a repository and of an environment."""
    if front.repo:
        task = _from_repository(front, task, folder)
    elif front.commit or front.test_patch or front.solution_patch:
        raise ValueError("commit, test_patch and solution_patch belong to a repository: name it by `repo`")
    elif task.check is not None and (front.fail_to_pass or front.pass_to_pass):
        task = structs.replace(task, check=_with_tests(task.check, front))
    if task.environment != Environment():
        return task
    return structs.replace(task, environment=environment_of(front, task.files, folder))


def _with_tests(check: Check, front: FrontMatter) -> Check:
    return structs.replace(check, fail_to_pass=tuple(front.fail_to_pass), pass_to_pass=tuple(front.pass_to_pass))


def _from_repository(front: FrontMatter, task: Task, folder: Path) -> Task:
    """The files of a commit below the task's own; tests from a patch, a solution from another."""
    if not front.commit:
        raise ValueError("the commit is missing: `repo` and `commit` say together which files the workspace has")
    repository = repository_at(_place_of(front.repo, folder))
    files = repository.files(front.commit)
    tests = repository.applied(front.commit, _patch(front.test_patch, folder))
    check = task.check
    suite = _suite_of(front, files, tests) if check is None and (front.fail_to_pass or front.test_patch) else None
    if suite is not None:
        check = Check(script=suite.script, timeout_s=front.verifier.timeout_sec)
    if check is not None:
        laid = {file.path: file for file in (*_named_tests(front, files), *tests.files, *check.files)}
        check = structs.replace(_with_tests(check, front), files=tuple(laid.values()), restore=TEST_FILES)
    solution = task.solution
    if front.solution_patch:
        solution = as_solution(repository.applied(front.commit, _patch(front.solution_patch, folder)))
    own = {file.path for file in task.files}
    return structs.replace(
        task,
        files=(*(file for file in files if file.path not in own), *task.files),
        check=check,
        solution=solution,
        needs=(*task.needs, *(name for name in (suite.needs if suite else ()) if name not in task.needs)),
    )


def _suite_of(front: FrontMatter, files: Sequence[TaskFile], tests: Patched) -> Suite:
    """What runs the tests that are to pass; pytest where they tell nothing else."""
    suite = suite_of((*tests.files, *_named_tests(front, files)), files)
    return suite if suite is not None and suite.needs else Suite(PYTEST_CHECK)


def _named_tests(front: FrontMatter, files: Sequence[TaskFile]) -> list[TaskFile]:
    """The files of the tests that are to pass, as the commit has them."""
    named = {test.partition("::")[0] for test in (*front.fail_to_pass, *front.pass_to_pass)}
    return [file for file in files if file.path in named]


def as_solution(patched: Patched) -> Solution:
    """A patch as a reference solution."""
    removed = "\n".join(f"rm -f {shlex.quote(path)}" for path in patched.deleted)
    return Solution(files=patched.files, script=removed)


@cache
def repository_at(path: Path) -> Repository:
    """One reader for all tasks of a repository: they share most of their files."""
    return Repository(path)


def _place_of(name: str, folder: Path) -> Path:
    """Where a repository is. A task brings its own, beside it or around it: others are not shown to a model by a task's word."""
    path = (folder / Path(name).expanduser()).resolve()
    here = folder.resolve()
    if not (path.is_relative_to(here.parent) or here.is_relative_to(path)):
        raise ValueError(
            f"the repository {name} lies elsewhere ({path}): a task's repository is beside the task, below it or around it; "
            f"copy it to {here.parent / path.name}"
        )
    if not path.is_dir():
        raise ValueError(f"there is no repository {path}")
    return path


def _patch(name: str, folder: Path) -> bytes:
    return inside(folder / name, folder).read_bytes() if name else b""


def environment_of(front: FrontMatter, files: Sequence[TaskFile], folder: Path) -> Environment:
    """The packages and the set-up a task asks for; lock files are looked for in the workspace, then beside the task."""
    known = {file.path: file for file in files}
    pinned = [name for name in front.packages.pip if _PINNED.fullmatch(name)]
    locks = [_lock(name, known, folder) for name in front.packages.pip if name not in pinned]
    listed = TaskFile(path="packages.txt", content="".join(f"{name}\n" for name in pinned).encode())
    folders = [name.rpartition("/")[0] for name in front.packages.npm]
    npm = [f"{place}/{name}".lstrip("/") for place in dict.fromkeys(folders) for name in _NPM_FILES]
    python = (folder / Path(front.python).expanduser()) if front.python else None
    return Environment(
        # The last folder may be a link, and its path is what the interpreter finds its packages by.
        python=str(python.absolute()) if python else "",
        pip=(*locks, *([listed] if pinned else [])),
        npm=tuple(_lock(name, known, folder) for name in npm),
        setup=front.setup,
    )


def _lock(name: str, known: dict[str, TaskFile], folder: Path) -> TaskFile:
    if name in known:
        return known[name]
    if not (folder / name).is_file():
        raise ValueError(
            f"packages: there is no {name}, neither in the workspace nor beside the task; packages are NAME==VERSION"
        )
    return task_file(folder / name, name, root=folder)
