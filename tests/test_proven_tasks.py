"""Public sets of coding tasks by name: converted from a copy, tried here once, and nothing scored that cannot pass."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
from support.command import run
from support.repositories import BOTH, git, shop

from tiebreak.core.errors import DatasetError, UsageError
from tiebreak.core.run import Source
from tiebreak.proven_tasks import proven
from tiebreak.registry import spelled_tasks

RIGHT, WRONG = "def double(n):\n    return 2 * n\n", "def double(n):\n    pass\n"
DOUBLE_TEST = """
    import unittest

    from double import double


    class DoubleTest(unittest.TestCase):
        def test_it(self):
            self.assertEqual(double(4), 8)
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text).lstrip())


def exercise(root: Path, place: str, files: dict[str, list[str]], texts: dict[str, str]) -> None:
    """One exercise in Exercism's layout, with texts of our own."""
    language, name = place.split("/")
    folder = root / language / "exercises" / "practice" / name
    write(folder / ".meta" / "config.json", json.dumps({"files": files, "blurb": name}))
    write(folder / ".docs" / "instructions.md", f"# {name}\n\nDo it.\n")
    for path, text in texts.items():
        write(folder / path, text)


def doubling(root: Path, name: str, *, stub: str, example: str) -> None:
    exercise(
        root,
        f"python/{name}",
        {"solution": ["double.py"], "test": ["double_test.py"], "example": [".meta/example.py"]},
        {"double.py": stub, ".meta/example.py": example, "double_test.py": DOUBLE_TEST},
    )


@pytest.fixture
def polyglot(tmp_path: Path) -> Path:
    """A copy with one exercise that can be used and three that cannot."""
    root = tmp_path / "exercises"
    doubling(root, "double", stub=WRONG, example=RIGHT)
    doubling(root, "hopeless", stub=WRONG, example=WRONG)
    doubling(root, "solved", stub=RIGHT, example=RIGHT)
    exercise(root, "java/double", {"solution": ["Double.java"], "test": [], "example": []}, {"Double.java": "class Double {}"})
    return root


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tiebreak" / "proofs"


@pytest.mark.needs("bubblewrap")
def test_a_set_keeps_what_can_pass_here_and_says_why_the_rest_is_left_out(polyglot: Path, cache: Path) -> None:
    told: list[tuple[str, int, int]] = []

    tasks = proven("polyglot", Source(path=str(polyglot)), lambda *trial: told.append(trial))

    assert [sample.id for sample in (tasks[place] for place in range(len(tasks)))] == ["python/double"]
    assert tasks[0].category == "python"
    reasons = dict(tasks.skipped)
    assert "Gradle" in reasons["java/double"]
    assert "its own solution does not pass here" in reasons["python/hopeless"]
    assert reasons["python/solved"] == "doing nothing passes its check"
    assert [done for _, done, _ in told] == [0, 1, 2, 3]

    told.clear()
    again = proven("polyglot", Source(path=str(polyglot)), lambda *trial: told.append(trial))

    assert not told, "what came of each is kept"
    assert again.digest == tasks.digest and again.skipped == tasks.skipped


@pytest.mark.needs("bubblewrap")
def test_a_changed_solution_is_tried_again_and_so_is_what_cannot_be_read(polyglot: Path, cache: Path) -> None:
    source = Source(path=str(polyglot), ids=("python/[dh]*",))
    assert len(proven("polyglot", source)) == 1
    for kept in cache.glob("*.json"):
        kept.write_text('{"problem": 3}' if kept.stat().st_size % 2 else "[")
    write(polyglot / "python/exercises/practice/hopeless/.meta/example.py", RIGHT)

    assert len(proven("polyglot", source)) == 2


LOOKS_INSIDE = """
    import types
    import unittest

    import double


    class DoubleTest(unittest.TestCase):
        def test_it(self):
            self.assertIs(type(double.double), types.FunctionType)
            self.assertEqual(double.double(4), 8)
"""


@pytest.mark.needs("bubblewrap")
def test_tests_that_look_into_the_work_are_run_by_pytest(polyglot: Path, cache: Path) -> None:
    """The strictest runner keeps objects of the work to itself; the next one finds out who meddles with its tests."""
    write(polyglot / "python/exercises/practice/double/double_test.py", LOOKS_INSIDE)

    for _ in range(2):
        task = proven("polyglot", Source(path=str(polyglot), ids=("python/double",)))[0].task
        assert task is not None and task.check is not None
        assert "$RUN_PYTEST" in task.check.script


CMAKE = """
    cmake_minimum_required(VERSION 3.5.1)
    get_filename_component(exercise ${CMAKE_CURRENT_SOURCE_DIR} NAME)
    project(${exercise} CXX)
    add_executable(${exercise} ${exercise}_test.cpp ${exercise}.cpp)
    add_custom_command(TARGET ${exercise} POST_BUILD COMMAND ${exercise})
"""


@pytest.mark.needs("bubblewrap", "cmake")
def test_an_exercise_in_cpp_is_built_in_a_folder_of_its_own_name_and_may_be_a_header_alone(tmp_path: Path, cache: Path) -> None:
    exercise(
        tmp_path,
        "cpp/seven",
        {"solution": ["seven.cpp", "seven.h"], "test": ["seven_test.cpp"], "example": [".meta/example.h"]},
        {
            "CMakeLists.txt": CMAKE,
            "seven.cpp": '#include "seven.h"\n',
            "seven.h": "inline int seven() { return 0; }\n",
            ".meta/example.h": "inline int seven() { return 7; }\n",
            "seven_test.cpp": '#include "seven.h"\nint main() { return seven() == 7 ? 0 : 1; }\n',
        },
    )

    tasks = proven("polyglot", Source(path=str(tmp_path)))

    assert len(tasks) == 1 and not tasks.skipped


CONFTEST = """
    import pytest


    def pytest_addoption(parser):
        parser.addoption("--correct", action="store_true")


    def pytest_configure(config):
        pytest.use_correct = config.getoption("--correct")
"""
PROGRAM_TEST = """
    import pytest
    from load_data import load

    if pytest.use_correct:
        from correct_python_programs.{name} import {name}
    else:
        from python_programs.{name} import {name}


    @pytest.mark.parametrize("given,expected", load("{name}"))
    def test_{name}(given, expected):
        assert {name}(*given) == expected
"""
LOADER = """
    import json
    from pathlib import Path


    def load(name):
        path = Path(__file__).parent / ".." / "json_testcases" / f"{name}.json"
        return [json.loads(line) for line in path.read_text().splitlines()]
"""


@pytest.fixture
def quixbugs(tmp_path: Path) -> Path:
    """A copy with two programs, one of which never ends as long as its defect is there."""
    root = tmp_path / "programs"
    write(root / "conftest.py", CONFTEST)
    write(root / "python_testcases/load_data.py", LOADER)
    right = {
        "total": "def total(numbers):\n    return sum(numbers)\n",
        "count": "def count(n):\n    steps = 0\n    while n:\n        n, steps = n - 1, steps + 1\n    return steps\n",
    }
    wrong = {"total": right["total"].replace("sum", "max"), "count": right["count"].replace("n - 1", "n")}
    cases = {"total": "[[[1, 2]], 3]\n[[[4]], 4]\n", "count": "[[2], 2]\n"}
    for name, solution in right.items():
        write(root / f"python_testcases/test_{name}.py", PROGRAM_TEST.format(name=name))
        write(root / f"json_testcases/{name}.json", cases[name])
        write(root / f"correct_python_programs/{name}.py", solution)
        write(root / f"python_programs/{name}.py", wrong[name])
    return root


@pytest.mark.needs("bubblewrap")
def test_programs_with_a_defect_are_run_by_name(quixbugs: Path, tmp_path: Path) -> None:
    """Also one command later: proven, solved by who repairs the program, not by who rewrites its tests."""
    answers = {
        "repairs": ["FILE python_programs/total.py\n```\ndef total(numbers):\n    return sum(numbers)\n```\nFINISH"],
        "cheats": ["FILE python_testcases/test_total.py\n```\ndef test_total(): pass\n```\nFINISH"],
    }
    for name, said in answers.items():
        (tmp_path / name).write_text(json.dumps({"answers": said, "default": "FINISH"}))
    cache = str(tmp_path / "cache")

    done = run(
        *("batch", "--task", "quixbugs", "--data", str(quixbugs), "--sample-id", "python/total"),
        *("--models", "scripted/repairs,scripted/cheats", "--output", "out", "--yes"),
        cwd=tmp_path,
        XDG_CACHE_HOME=cache,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 tried" in done.stdout
    results = {row["model"]: row for row in json.loads((tmp_path / "out" / "comparison_report.json").read_text())["results"]}
    assert results["scripted/repairs"]["success"] and not results["scripted/cheats"]["success"]
    shown = json.dumps(results["scripted/repairs"])
    assert "correct_python_programs/total.py" not in shown


@pytest.mark.needs("bubblewrap")
def test_check_tasks_tells_programs_what_came_of_a_set(polyglot: Path, tmp_path: Path) -> None:
    done = run(
        *("check-tasks", "polyglot", "--data", str(polyglot), "--json", "--max-workers", "2"),
        cwd=tmp_path,
        timeout=120,
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )

    told = json.loads(done.stdout)
    tests = [{"id": "double_test.py::DoubleTest::test_it", "status": "passed", "group": ""}]
    assert told["tasks"] == [{"id": "python/double", "proven": True, "problems": [], "tests": tests}], done.stderr
    assert {row["task"] for row in told["skipped"]} == {"java/double", "python/hopeless", "python/solved"}
    assert (done.returncode, told["proven"], told["not_proven"]) == (0, 1, 0)


def test_a_set_without_its_copy_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"git clone .*polyglot-benchmark"):
        proven("polyglot", Source())
    with pytest.raises(DatasetError, match="is no copy of"):
        proven("quixbugs", Source(path=str(tmp_path)))
    with pytest.raises(DatasetError, match="no such folder"):
        proven("quixbugs", Source(path=str(tmp_path / "nowhere")))


def test_a_set_is_named_alone_and_a_folder_of_its_name_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert spelled_tasks(["polyglot"]) == "polyglot"
    with pytest.raises(UsageError, match="named alone"):
        spelled_tasks(["polyglot", "quixbugs"], data=True)
    with pytest.raises(UsageError, match="copy of a public set"):
        spelled_tasks(["mine"], data=True)

    (tmp_path / "polyglot").mkdir()

    assert spelled_tasks(["polyglot"]) == f"tasks:{tmp_path / 'polyglot'}"
    assert spelled_tasks(["polyglot"], data=True) == "polyglot"


# --- SWE-bench ----------------------------------------------------------------------------------------


def row_of(folder: Path, name: str, **changed: object) -> dict[str, object]:
    """A row as SWE-bench has it, of the commit of the shop that brings a feature."""
    names = json.loads((folder / "names.json").read_text())
    start, end = names["first"], names["feature"]
    diffs = {
        field: git(folder / "some__shop", "diff", start, end, "--", *paths) + "\n"
        for field, paths in (("test_patch", ["tests"]), ("patch", ["src"]))
    }
    return {
        "instance_id": name,
        "repo": "some/shop",
        "base_commit": start,
        "problem_statement": "There is no way to double a number.",
        "FAIL_TO_PASS": json.dumps(["tests/test_sums.py::test_double"]),
        "PASS_TO_PASS": json.dumps(["tests/test_sums.py::test_add"]),
        "version": "1.0",
        **diffs,
        **changed,
    }


@pytest.fixture
def issues(tmp_path: Path) -> Path:
    folder = tmp_path / "issues"
    names = shop(folder / "some__shop")
    (folder / "names.json").write_text(json.dumps(names))
    rows = [
        row_of(folder, "good"),
        row_of(folder, "lists", FAIL_TO_PASS=["tests/test_sums.py::test_double"], PASS_TO_PASS=[]),
        row_of(folder, "hopeless", FAIL_TO_PASS=["tests/test_sums.py::test_never"]),
        row_of(folder, "solved", FAIL_TO_PASS=["tests/test_sums.py::test_add"]),
        row_of(folder, "absent", repo="some/other"),
        row_of(folder, "outside", repo="../shop"),
        row_of(folder, "django", FAIL_TO_PASS=["test_double (tests.Sums)"]),
        row_of(folder, "torn", patch="no patch at all"),
        row_of(folder, "later", base_commit="0" * 40),
    ]
    (folder / "names.json").unlink()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"instance_id": "bare"}]))
    return folder


@pytest.mark.needs("bubblewrap")
def test_rows_of_swebench_are_read_and_proven_where_their_environment_is(issues: Path, cache: Path) -> None:
    tasks = proven("swebench", Source(path=str(issues)))

    assert [tasks[place].id for place in range(len(tasks))] == ["good", "lists"]
    good = tasks[0]
    assert good.prompt == "There is no way to double a number." and good.category == "some/shop"
    assert good.task is not None and good.task.check is not None
    assert good.task.check.fail_to_pass == ("tests/test_sums.py::test_double",)
    assert not any(b"double" in file.content for file in good.task.files), "nothing that came later is there"
    reasons = dict(tasks.skipped)
    assert "its own solution does not pass here" in reasons["hopeless"]
    assert reasons["solved"] == "doing nothing passes its check"
    assert "git clone https://github.com/some/other" in reasons["absent"]
    assert "its repository is not here" in reasons["outside"]
    assert "another runner than pytest" in reasons["django"]
    assert "git apply" in reasons["torn"]
    assert "missing" in reasons["bare"]
    assert set(reasons) == {"hopeless", "solved", "absent", "outside", "django", "torn", "later", "bare"}


@pytest.mark.needs("bubblewrap", "parquet")
def test_parquet_rows_are_read_too_and_models_are_run_on_them(issues: Path, tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [json.loads(line) for line in (issues / "rows.jsonl").read_text().splitlines()]
    (issues / "rows.jsonl").unlink()
    parquet.write_table(pyarrow.Table.from_pylist(rows[:1]), issues / "rows.parquet")
    (tmp_path / "script.json").write_text(
        json.dumps({"answers": [f"FILE src/shop/sums.py\n```\n{BOTH}```\nFINISH"], "default": "x"})
    )

    done = run(
        *("batch", "--task", "swebench", "--data", str(issues), "--models", "scripted/script.json", "--output", "out"),
        cwd=tmp_path,
        timeout=120,
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )

    (result,) = json.loads((tmp_path / "out" / "comparison_report.json").read_text())["results"]
    assert result["success"], done.stdout + done.stderr
    assert {test["id"]: test["status"] for test in result["tests"] if test["group"]} == {
        "tests/test_sums.py::test_double": "passed",
        "tests/test_sums.py::test_add": "passed",
    }


def test_swebench_without_its_rows_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cloned as OWNER__NAME"):
        proven("swebench", Source(path=str(tmp_path)))
