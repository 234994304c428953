"""Runs pytest where the work is, and tells the judge of every test as it ends.

    python -I pytest_guest.py DESCRIPTOR ROOT MODULES -- ARGUMENTS…       MODULES: top-level names that the work owns

Pytest and its plugins are loaded before anything of the work can be found. Modules of Python and of the environment are
never found among the work's, except those that the work owns. Also loaded as a plugin, in this process and in those of
pytest-xdist.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

_SETTINGS = "TIEBREAK_SUITE"
_LONGEST_REASON = 4_000


class TrustedFirst(importlib.abc.MetaPathFinder):
    """Finds what Python and the environment have, before anyone looks among the work."""

    def __init__(self, own: frozenset[str], trusted: Sequence[str]) -> None:
        self._own, self._trusted = own, list(trusted)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A top-level module of ours; None for everything else."""
        if path is not None or (fullname in self._own and fullname not in sys.stdlib_module_names):
            return None
        return importlib.machinery.PathFinder.find_spec(fullname, self._trusted)


class Telling:
    """Tells of tests over a descriptor, a line of JSON each."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def tell(self, **what: Any) -> None:
        """One line, whole."""
        line = memoryview(json.dumps(what).encode() + b"\n")
        while line:
            line = line[os.write(self._descriptor, line) :]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A part of a test has ended: its setup, itself or its teardown."""
        self.tell(
            test=report.nodeid,
            part=report.when,
            outcome=report.outcome,
            reason=str(report.longrepr or "")[-_LONGEST_REASON:] if report.outcome == "failed" else "",
        )

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be read."""
        if report.outcome == "failed":
            self.tell(file=report.nodeid, reason=str(report.longrepr or "")[-_LONGEST_REASON:])

    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        """All is done."""
        self.tell(end=int(exitstatus))


def pytest_load_initial_conftests() -> None:
    """All plugins are loaded: the work can be found from here on."""
    root, own = json.loads(os.environ[_SETTINGS])
    trusted = [path for path in sys.path if not _below(path, root)]
    sys.meta_path.insert(0, TrustedFirst(frozenset(own), trusted))
    source = Path(root, "src")
    places = [root, *([str(source)] if source.is_dir() and not (source / "__init__.py").exists() else [])]
    sys.path[:0] = [place for place in places if place not in sys.path]


def _below(path: str, root: str) -> bool:
    return not path or Path(path).resolve().is_relative_to(root)


def main() -> int:
    """Run pytest; nothing but the reports says how the tests went."""
    descriptor, root, own = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    os.environ[_SETTINGS] = json.dumps([root, own])
    sys.path.append(str(Path(__file__).resolve().parent))
    telling = Telling(descriptor)
    try:
        import pytest
    except ImportError:
        telling.tell(missing="pytest")
        return 3
    telling.tell(begin=pytest.__version__)
    return int(pytest.main(["-p", "pytest_guest", *sys.argv[5:]], plugins=[telling]))


if __name__ == "__main__":
    sys.exit(main())
