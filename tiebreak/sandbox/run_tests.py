"""Runs tests so that the code under test cannot end them early, or pass for them.

    python3 -I "$RUN_TESTS" FILE…          in a check's script; a file holds unittest cases, or functions test_…

The tests run in a second process. It is given a secret before any file of the work is imported, and has to send it
back with the count of tests that passed. So `os._exit(0)`, an exit in a module, a planted `json.py` or `unittest.py`,
a skipped test or a changed TestCase all fail. Code that reads the secret out of its own process could still cheat:
where that matters, let the work print, and compare what it printed in a process the work is no part of.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import subprocess
import sys
import traceback
import unittest
from pathlib import Path

_TOOLS = (unittest.TestCase, unittest.TestSuite, unittest.TestResult, unittest.TextTestResult, unittest.TextTestRunner)


def main() -> int:
    """Start the second process and believe it only when it knows the secret."""
    if sys.argv[1:2] == ["--inside"]:
        return _inside(int(sys.argv[2]), sys.argv[3:])
    secret = os.urandom(16).hex()
    report, end = os.pipe()
    command = [sys.executable, "-I", "-B", __file__, "--inside", str(end), *sys.argv[1:]]
    subprocess.run(command, input=secret.encode(), pass_fds=(end,), check=False)
    os.set_blocking(report, False)
    try:
        said = os.read(report, 1000).decode("utf-8", "replace").split()
    except BlockingIOError:
        said = []
    if said[:1] != [secret]:
        sys.stderr.write("the tests ended before they were done\n")
        return 1
    return 0 if said[1] == "passed" else 1


def _inside(end: int, files: list[str]) -> int:
    secret = sys.stdin.read()
    write, runner = os.write, unittest.TextTestRunner(stream=sys.stderr, buffer=False)
    before = [dict(vars(tool)) for tool in _TOOLS]
    _find_modules()
    suite = unittest.TestSuite()
    for file in files:
        suite.addTests(_tests(Path(file).resolve()))
    result = runner.run(suite)
    untouched = before == [dict(vars(tool)) for tool in _TOOLS]
    forbidden = [test for test, _ in result.skipped if not _meant_to_be_skipped(test)]
    good = untouched and not forbidden and result.wasSuccessful() and result.testsRun > len(result.skipped)
    write(end, f"{secret} {'passed' if good else 'failed'}".encode())
    return 0


def _find_modules() -> None:
    """The work's own modules come after Python's, so that none of them can stand in for one."""
    place = next((n for n, entry in enumerate(sys.path) if entry.endswith(("site-packages", "dist-packages"))), len(sys.path))
    sys.path.insert(place, str(Path.cwd()))


def _tests(file: Path) -> unittest.TestSuite:
    """The tests of one file; one that cannot even be imported is a test that fails."""
    suite = unittest.TestSuite()
    sys.path.append(str(file.parent))
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


def _failing(reason: str):  # type: ignore[no-untyped-def]
    def test() -> None:
        raise AssertionError(reason)

    return test


def _meant_to_be_skipped(test: object) -> bool:
    method = getattr(test, getattr(test, "_testMethodName", ""), None)
    return bool(getattr(test, "__unittest_skip__", False) or getattr(method, "__unittest_skip__", False))


if __name__ == "__main__":
    sys.exit(main())
