"""The suite itself: nothing is left out, and the fast part needs little."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import covered_rooms
import pytest

ROOT = Path(__file__).resolve().parents[1]
SLOW_LIST = ROOT / "tests" / "slow_tests.txt"


def _commands_of(target: str) -> list[list[str]]:
    """The pytest command lines that a target of the Makefile runs, without running them."""
    # The environments are there as far as make is concerned: only the commands matter.
    stamps = [option for name in ("dev", "full") for option in ("-o", f".venv/.installed-{name}")]
    done = subprocess.run(["make", "-n", *stamps, target], cwd=ROOT, check=True, capture_output=True, text=True)
    lines = [shlex.split(line) for line in done.stdout.splitlines() if " -m pytest " in line]
    return [line[line.index("pytest") + 1 :] for line in lines]


def _collected(*arguments: str) -> set[str]:
    """The tests that a pytest command line chooses."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600)
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_fast_tests_and_the_rest_are_all_tests() -> None:
    """`make test-all` begins with `make test`, and both together run every test once."""
    fast, rest = (_collected(*line) for line in _commands_of("test-all"))
    assert _commands_of("test-all")[:1] == _commands_of("test")
    assert fast & rest == set()
    assert fast | rest == _collected()
    assert len(fast) > len(rest) > 0


def test_every_slow_test_exists() -> None:
    """A test that was renamed would come back into the fast part unseen."""
    for line in SLOW_LIST.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            path, _, function = line.partition("::")
            source = (ROOT / "tests" / path).read_text(encoding="utf-8")
            assert re.search(rf"^\s*(async )?def {re.escape(function)}\(", source, re.MULTILINE), line


def _pins(name: str) -> set[str]:
    return set(re.findall(r"^(\S+==\S+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_lock_files_agree(name: str) -> None:
    """They fill one environment, one after the other."""
    assert _pins(name) - _pins("requirements-full.lock") == set()
    assert "://" not in (ROOT / name).read_text(encoding="utf-8")


def test_ci_and_the_readme_run_all_tests() -> None:
    assert "\nmake test-all" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make test-all" in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_every_target_that_the_documents_name_exists() -> None:
    """Each is a target with a line in `make help`, and its commands can be made."""
    shown = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    named = {name for page in pages for name in re.findall(r"^make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)}
    assert named >= {"check", "demo", "perf", "site", "test", "test-all"}
    for name in named:
        assert re.search(rf"^{name}\b", shown, re.MULTILINE), name
        subprocess.run(["make", "-n", name], cwd=ROOT, check=True, capture_output=True)


def test_coverage_is_told_by_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of a room's files are added up; one room below the least is named, and fails."""

    def file(run: int, there: int) -> dict[str, dict[str, int]]:
        return {"summary": {"covered_lines": run, "num_statements": there}}

    files = {"tiebreak/store/a.py": file(90, 90), "tiebreak/store/b.py": file(0, 10), "tiebreak/api.py": file(9, 10)}
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps({"files": files}))
    assert covered_rooms.main(str(path)) == 0
    path.write_text(
        json.dumps({"files": {**files, "tiebreak/wire/a.py": file(84, 100), "tiebreak/core/__init__.py": file(0, 0)}})
    )
    capsys.readouterr()
    assert covered_rooms.main(str(path)) == 1
    first, *others = capsys.readouterr().out.splitlines()
    assert first == " 84.0 %  wire (16 of 100 lines are not run)  <- too few"
    assert [line.split()[2] for line in others] == ["store", "api"]


def test_the_slow_list_is_written_from_times(tmp_path: Path) -> None:
    """One slow case makes a function slow; so do many that add up."""
    cases = "".join(
        f'<testcase classname="{module}" name="{name}" time="{seconds}"/>'
        for module, name, seconds in [
            ("tests.store.test_a", "test_long[x]", 3.0),
            ("tests.store.test_a", "test_long[y]", 0.1),
            ("tests.test_b.TestIt", "test_short", 0.1),
            *(("tests.test_b", f"test_many[{number}]", 0.5) for number in range(40)),
        ]
    )
    (tmp_path / "times.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    script = tmp_path / "update_slow_tests.py"
    script.write_text((ROOT / "tests" / "update_slow_tests.py").read_text(encoding="utf-8"), encoding="utf-8")
    subprocess.run([sys.executable, str(script), str(tmp_path / "times.xml")], check=True, capture_output=True)
    written = (tmp_path / "slow_tests.txt").read_text().splitlines()[2:]
    assert written == ["store/test_a.py::test_long", "test_b.py::test_many"]
