"""Which runner of tests runs which files, and the script of a check that has it do so."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tiebreak.core.task import TaskFile

RUN_PYTEST = 'python3 -I "$RUN_PYTEST"'
RUN_SUITE = 'python3 -I "$RUN_SUITE"'
_PYTHON = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")
_SCRIPT = re.compile(r"\.(?:test|spec)\.[cm]?[jt]sx?$|(?:^|/)(?:tests?|__tests__)/[^/]*\.[cm]?[jt]sx?$")
_RUST = re.compile(r"(?:^|/)tests/[^/]+\.rs$")
_GO = re.compile(r"_test\.go$")
_PACKAGE = "package.json"


@dataclass(frozen=True, slots=True)
class Suite:
    """How some tests are run."""

    script: str
    """For a check."""
    needs: tuple[str, ...] = ()
    """Programs it calls."""


def holds_tests(path: str) -> bool:
    """Whether a file has tests in it that a runner we know can run."""
    return any(pattern.search(path) for pattern in (_PYTHON, _SCRIPT, _RUST, _GO))


def suite_of(tests: Iterable[TaskFile], files: Sequence[TaskFile]) -> Suite | None:
    """The suite that runs the tests of a project with these files; of several languages that of the first."""
    listed = list(tests)
    for pattern, made in ((_PYTHON, _pytest), (_SCRIPT, _of_scripts), (_RUST, _cargo), (_GO, _go)):
        if chosen := [file for file in listed if pattern.search(file.path)]:
            return made(chosen, files)
    return None


def _quoted(words: Iterable[str]) -> str:
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


def _pytest(tests: Sequence[TaskFile], files: Sequence[TaskFile]) -> Suite:
    return Suite(f"{RUN_PYTEST} {_quoted(test.path for test in tests)}\n")


def _of_scripts(tests: Sequence[TaskFile], files: Sequence[TaskFile]) -> Suite:
    """JavaScript and TypeScript: by node itself where the tests say so, else by what the project has."""
    if any(b"node:test" in test.content for test in tests):
        chosen = [test.path for test in tests if b"node:test" in test.content]
        return Suite(f"{RUN_SUITE} node --test {_quoted(chosen)}\n", ("node",))
    packages = [_dependencies(file) for file in files if PurePosixPath(file.path).name == _PACKAGE]
    runner = "vitest run" if any("vitest" in names for names in packages) else "jest"
    return Suite(f"{RUN_SUITE} npx --no-install {runner} {_quoted(test.path for test in tests)}\n", ("node", "npx"))


def _dependencies(file: TaskFile) -> set[str]:
    try:
        data = json.loads(file.content)
        return {name for part in ("dependencies", "devDependencies") for name in data.get(part) or ()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return set()


def _cargo(tests: Sequence[TaskFile], files: Sequence[TaskFile]) -> Suite:
    """Integration tests by name, so that those of other files cannot fail for them."""
    names = dict.fromkeys(PurePosixPath(test.path).stem for test in tests)
    chosen = " ".join(f"--test {shlex.quote(name)}" for name in names)
    return Suite(f"{RUN_SUITE} cargo test --offline {chosen}\n", ("cargo",))


def _go(tests: Sequence[TaskFile], files: Sequence[TaskFile]) -> Suite:
    folders = dict.fromkeys(str(PurePosixPath(test.path).parent) for test in tests)
    packages = [folder if folder == "." else f"./{folder}" for folder in folders]
    return Suite(f"{RUN_SUITE} go test {_quoted(packages)}\n", ("go",))
