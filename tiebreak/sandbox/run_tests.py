"""Runs hidden Python tests on work that runs elsewhere.

    python3 -I "$RUN_TESTS" FILE…                 in a check's script; a file holds unittest cases, or functions test_…
    python3 -I "$RUN_TESTS" --program NAME FILE   a script of assertions, in which the names of a module of the work are known

The tests run here, the work in a sandbox of its own. A module of the work that a test imports is imported over there; its
functions and classes are called there, and what they return comes back as data (see remote.py). So nothing the work does
ends the tests, changes them, reads them or reports for them. What a test needs besides is in the module `judge`:

    from judge import run, work_module
    run(["python3", "speed.py"], inputs=["speed.py"])      the work as a command: its output, exit code and seconds
    work_module("threading").active_count()                any module, as it is in the process of the work
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import socket
import sys
import traceback
import types
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_HELPERS = Path(__file__).resolve().parent
_SHOWN_OUTPUT = 2000


def main() -> int:
    """Run what is named; 0 when there is something and all of it passed."""
    client, remote = _helper("work_client"), _helper("remote")
    tests, worker = socket.socketpair()
    report = client.send("tests", worker)
    worker.close()
    peer = remote.Peer(tests, "tests", guarded=True)
    peer.start()
    _offer_judge(peer, client)
    try:
        good = _run(peer, sys.argv[1:])
    except BaseException:
        # A SystemExit that comes from the work ends nothing here.
        traceback.print_exc()
        good = False
    peer.close()
    if not good:
        _show_output(report)
    return 0 if good else 1


def _run(peer: Any, words: list[str]) -> bool:
    if words[:1] == ["--program"]:
        return _run_script(peer, words[1], Path(words[2]))
    return _run_tests(peer, [Path(file).resolve() for file in words])


def _run_script(peer: Any, name: str, file: Path) -> bool:
    """Run assertions to their end."""
    program = peer.request("import", name)
    known = peer.request("import", "builtins").dir(program)
    spec = importlib.util.spec_from_file_location("tests", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update({word: getattr(program, word) for word in known if not word.startswith("__")})
    spec.loader.exec_module(module)
    return True


def _run_tests(peer: Any, files: Sequence[Path]) -> bool:
    sys.meta_path.insert(0, _WorkFinder(peer, _check_files(), [Path.cwd(), *(file.parent for file in files)]))
    suite = unittest.TestSuite()
    names: dict[int, str] = {}
    for file in files:
        for test in _each(_tests(file)):
            names[id(test)] = f"{os.path.relpath(file, os.environ['CHECK_ROOT'])}::{_name_of(test)}"
            suite.addTest(test)
    result = unittest.TextTestRunner(stream=sys.stderr, resultclass=_Result).run(suite)
    assert isinstance(result, _Result)
    _tell({name: result.statuses.get(test, "missing") for test, name in names.items()})
    return result.wasSuccessful() and result.testsRun > len(result.skipped)


class _Result(unittest.TextTestResult):
    """Also remembers what came of each test, by its identity: names may occur twice."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.statuses: dict[int, str] = {}

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.statuses.setdefault(id(test), "passed")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self.statuses[id(test)] = "failed"

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self.statuses[id(test)] = "error"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.statuses[id(test)] = "skipped"

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addExpectedFailure(test, err)
        self.statuses[id(test)] = "passed"

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self.statuses[id(test)] = "failed"

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.statuses[id(test)] = "failed"


def _each(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _each(test)
        else:
            yield test


def _name_of(test: unittest.TestCase) -> str:
    """As pytest would name it: the class, where there is one, and the test."""
    if isinstance(test, unittest.FunctionTestCase):
        return test.shortDescription() or str(test)
    return "::".join(test.id().split(".")[-2:])


def _tell(statuses: Mapping[str, str]) -> None:
    """Report each test to the judge, for people to look at."""
    suite = json.loads((_HELPERS / "suite.json").read_text(encoding="utf-8"))
    group = {test: name for name in ("fail_to_pass", "pass_to_pass") for test in suite.get(name, ())}
    rows = [{"id": test, "status": status, "group": group.get(test, "")} for test, status in statuses.items()]
    sys.modules["work_client"].report(rows)


def _helper(name: str) -> Any:
    """A module that lies beside this one, where `python3 -I` does not look."""
    spec = importlib.util.spec_from_file_location(name, _HELPERS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _check_files() -> frozenset[Path]:
    """The check's own files; these are never the work's."""
    named = json.loads((_HELPERS / "check_files.json").read_text(encoding="utf-8"))
    return frozenset(Path.cwd() / name for name in named)


def _offer_judge(peer: Any, client: Any) -> None:
    module: Any = types.ModuleType("judge")
    module.work_module = lambda name: peer.request("import", name)
    module.run = client.run
    sys.modules["judge"] = module


def _show_output(report: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError):
        finished = json.loads(report.makefile("rb").read())
        text = f"{finished['output']}{finished['errors']}".strip()
        ended = f"\nThe work was ended by {finished['ended_by']}." if finished["ended_by"] else ""
        if text or ended:
            sys.stderr.write(f"The work printed:\n{text[-_SHOWN_OUTPUT:]}{ended}\n")


class _WorkFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of the check and of the work, none of which can stand in for one of Python's.

    Nothing of the work is ever imported here: the folder it lies in is not on Python's path.
    """

    def __init__(self, peer: Any, check_files: frozenset[Path], roots: Sequence[Path]) -> None:
        self._peer, self._check_files, self._roots = peer, check_files, tuple(dict.fromkeys(roots))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A module of the check or of the work, or None for everything else."""
        top, _, _ = fullname.partition(".")
        if top in sys.stdlib_module_names:
            return None
        places = [root / fullname.replace(".", "/") for root in self._roots]
        for file in (file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")):
            if file in self._check_files:
                return importlib.util.spec_from_file_location(fullname, file)
        if not any(_module_at(place) for place in places):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=any(place.is_dir() for place in places))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """A module that asks the work for whatever it is asked for."""
        return _WorkModule(spec.name, self._peer.request("import", spec.name))

    def exec_module(self, module: types.ModuleType) -> None:
        """It ran over there."""


def _module_at(place: Path) -> bool:
    """Whether a module of any kind lies at a path."""
    return place.is_dir() or any(Path(f"{place}{suffix}").is_file() for suffix in importlib.machinery.all_suffixes())


class _WorkModule(types.ModuleType):
    """A module of the work."""

    def __init__(self, name: str, there: Any) -> None:
        super().__init__(name)
        self.__dict__["_there"] = there

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_there"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, types.ModuleType):
            super().__setattr__(name, value)
        else:
            setattr(self.__dict__["_there"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_there"], name)


def _tests(file: Path) -> unittest.TestSuite:
    """The tests of one file; one that cannot even be imported is a test that fails."""
    suite = unittest.TestSuite()
    spec = importlib.util.spec_from_file_location(file.stem, file)
    try:
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module
        spec.loader.exec_module(module)
    except BaseException:
        suite.addTest(unittest.FunctionTestCase(_failing(traceback.format_exc()), description=f"import of {file.name}"))
        return suite
    suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
    plain = [f for name, f in vars(module).items() if name.startswith("test_") and inspect.isfunction(f)]
    suite.addTests(unittest.FunctionTestCase(function, description=function.__name__) for function in plain)
    return suite


def _failing(reason: str) -> Callable[[], None]:
    def test() -> None:
        raise AssertionError(reason)

    return test


if __name__ == "__main__":
    sys.exit(main())
