"""Runs pytest where the work is, and tells the judge of every test as it ends.

    python -I pytest_guest.py DESCRIPTOR ROOT -- ARGUMENTS…

A line of JSON comes over the descriptor first: the top-level names that the work owns, its console scripts, and the tests to
run. Pytest and its plugins are loaded before anything of the work can be found. Modules of Python and of the environment are
never found among the work's, except those that the work owns. Also loaded as a plugin, in this process and in those of
pytest-xdist.

Programs that tests start find the project as they would after `pip install -e .`: see `install_project`.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import site
import sys
import tempfile
from collections.abc import Mapping, Sequence
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
    told = _settings()
    trusted = [path for path in sys.path if not _below(path, told["root"])]
    sys.meta_path.insert(0, TrustedFirst(frozenset(told["own"]), trusted))
    sys.path[:0] = [place for place in project_folders(told["root"]) if place not in sys.path]


def pytest_sessionstart(session: Any) -> None:
    """What tests start from here on finds the project. Not what pytest-xdist starts: that has not loaded its plugins yet."""
    if session.config.pluginmanager.hasplugin("dsession"):
        return
    commands = str(Path(_settings()["environment"], "bin"))
    sys.executable = f"{commands}/python"
    os.environ["PATH"] = f"{commands}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # As in a plain run: what is started often is compiled once.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Only the tests that were asked for."""
    tests = set(_settings()["tests"])
    if not tests:
        return
    left_out = [item for item in items if item.nodeid not in tests]
    items[:] = [item for item in items if item.nodeid in tests]
    config.hook.pytest_deselected(items=left_out)


def _settings() -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(Path(os.environ[_SETTINGS]).read_text(encoding="utf-8"))
    return settings


def project_folders(root: str) -> list[str]:
    """Where the modules of a project are."""
    source = Path(root, "src")
    return [root, *([str(source)] if source.is_dir() and not (source / "__init__.py").exists() else [])]


def _below(path: str, root: str) -> bool:
    return not path or Path(path).resolve().is_relative_to(root)


def install_project(folder: Path, root: str, scripts: Mapping[str, str]) -> None:
    """A virtual environment that has the packages of this one, the project as it is, and the project's console scripts."""
    commands, library = folder / "bin", folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    for place in (commands, library):
        place.mkdir(parents=True)
    base = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n", encoding="utf-8")
    for program in Path(sys.executable).parent.iterdir():
        (commands / program.name).symlink_to(base if program.resolve() == base else program)
    places = [place for place in site.getsitepackages() if Path(place).is_dir()]
    added = "".join(f"import site; site.addsitedir({place!r})\n" for place in places)
    (library / "project.pth").write_text("\n".join((*project_folders(root), added)), encoding="utf-8")
    for name in ("python", "python3"):
        if not (commands / name).is_symlink():
            (commands / name).symlink_to(base)
    for name, target in scripts.items():
        _write_script(commands / name, commands / "python", target)


def _write_script(place: Path, python: Path, target: str) -> None:
    """A console script as installers write it, for a target `package.module:function`."""
    module, _, function = target.partition(":")
    place.unlink(missing_ok=True)
    text = f"#!{python}\nimport sys\nfrom {module} import {function.partition('.')[0]}\nsys.exit({function}())\n"
    place.write_text(text, encoding="utf-8")
    place.chmod(0o755)


def main() -> int:
    """Run pytest; nothing but the reports says how the tests went."""
    descriptor, root = int(sys.argv[1]), sys.argv[2]
    told = json.loads(_line(descriptor))
    folder = Path(tempfile.mkdtemp(prefix="project-"))
    install_project(folder / "environment", root, told["scripts"])
    settings = folder / "settings.json"
    settings.write_text(json.dumps({**told, "root": root, "environment": str(folder / "environment")}), encoding="utf-8")
    os.environ[_SETTINGS] = str(settings)
    sys.path.append(str(Path(__file__).resolve().parent))
    telling = Telling(descriptor)
    try:
        import pytest
    except ImportError:
        telling.tell(missing="pytest")
        return 3
    telling.tell(begin=pytest.__version__)
    return int(pytest.main(["-p", "pytest_guest", *sys.argv[4:]], plugins=[telling]))


def _line(descriptor: int) -> bytes:
    with open(descriptor, "rb", buffering=0, closefd=False) as channel:
        return channel.readline()


if __name__ == "__main__":
    sys.exit(main())
