"""Real pytest, judged from outside: the results of a plain run, and no cheat among them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import pytest
from msgspec import structs
from sandbox.pytest_cheats import CHEATS, RIGHT, TEST, WRONG

from tiebreak.core.task import Check, Environment, Task, TaskFile
from tiebreak.core.work import Command, Verdict
from tiebreak.sandbox import judge, run_pytest
from tiebreak.sandbox.isolation import isolation_at
from tiebreak.sandbox.run_pytest import Session, judged
from tiebreak.sandbox.twins import test_functions as functions_of
from tiebreak.sandbox.twins import twinned
from tiebreak.sandbox.workspace import Workspace

pytestmark = pytest.mark.needs("bubblewrap")
HIDDEN = "tests/test_calc.py"
HERE = Environment(python=sys.executable)


def file(path: str, text: str) -> TaskFile:
    return TaskFile(path=path, content=text.encode())


def task_of(
    files: dict[str, str], tests: dict[str, str], script: str = f'python3 -I "$RUN_PYTEST" {HIDDEN}', **named: object
) -> Task:
    hidden = tuple(file(path, text) for path, text in tests.items())
    check = Check(script=script, files=hidden, timeout_s=60, **named)  # type: ignore[arg-type]
    return Task(files=tuple(file(path, text) for path, text in files.items()), check=check, environment=HERE)


async def verdict_on(task: Task, scratch: Path, changed: dict[str, str] | None = None, level: str = "bubblewrap") -> Verdict:
    async with Workspace.open(task, isolation=isolation_at(level), scratch=scratch) as workspace:
        for path, text in (changed or {}).items():
            await workspace.write(path, text.encode())
        assert task.check is not None
        return await workspace.verify(task.check)


CALC = {"calc.py": WRONG}


@pytest.mark.parametrize("level", ["bubblewrap", pytest.param("landlock", marks=pytest.mark.needs("landlock"))])
async def test_right_work_passes_and_wrong_work_does_not(tmp_path: Path, level: str) -> None:
    task = task_of(CALC, {HIDDEN: TEST})

    right = await verdict_on(task, tmp_path, {"calc.py": RIGHT}, level)
    wrong = await verdict_on(task, tmp_path, level=level)

    assert (right.passed, right.problem) == (True, ""), right.output
    assert [test.status for test in right.tests] == ["passed"] * 6
    assert not wrong.passed
    assert [test.status for test in wrong.tests].count("failed") == 5, "the sixth holds for the wrong work as well"
    assert "assert -1 == (1 + 2)" in wrong.output, "the agent is told what a plain run would tell"


@pytest.mark.parametrize("name", CHEATS)
async def test_a_cheat_passes_plain_pytest_and_not_the_judge(name: str, tmp_path: Path) -> None:
    """The control first: tests laid over the work and run beside it, as one would do it at first."""
    cheat, task = CHEATS[name], task_of(CALC, {HIDDEN: TEST})
    async with Workspace.open(task, isolation=isolation_at("bubblewrap"), scratch=tmp_path) as workspace:
        for path, text in cheat.items():
            await workspace.write(path, text.encode())
        assert task.check is not None
        verdict = await workspace.verify(task.check)
        assert (verdict.passed, verdict.problem) == (False, ""), verdict.output
        await workspace.write(HIDDEN, TEST.encode())
        plain = Command(argv=("python", "-m", "pytest", "-q", HIDDEN), env={"PYTHONPATH": "."}, timeout_s=60)
        finished = await workspace.run(plain)
        assert finished.code == 0, finished.output


def test_there_are_thirty_cheats() -> None:
    assert len(CHEATS) >= 30


SUITE = {
    "pyproject.toml": """
        [tool.pytest.ini_options]
        addopts = "--import-mode=importlib -n 2 --strict-markers"
        markers = ["slow: takes long"]
        asyncio_mode = "auto"
        testpaths = ["tests"]
        """,
    "src/shop/__init__.py": "from shop.prices import total\n",
    "src/shop/prices.py": """
        import json
        def total(prices, discount=0):
            if discount > 1: raise ValueError("discount")
            return sum(prices) * (1 - discount)
        def load(path): return json.loads(open(path).read())
        async def later(value): return value
        class Basket:
            def __init__(self): self.prices = []
            def __eq__(self, other): return isinstance(other, Basket) and self.prices == other.prices
            def __hash__(self): return 0
        """,
    "tests/conftest.py": """
        import pytest
        from shop.prices import Basket
        @pytest.fixture(params=["empty", "full"])
        def basket(request):
            basket = Basket()
            if request.param == "full": basket.prices.append(3)
            return basket
        @pytest.fixture(autouse=True, scope="session")
        def _once(): yield
        """,
    "tests/unit/conftest.py": "import pytest\n@pytest.fixture\ndef tenth(): return 0.1\n",
    "tests/unit/test_prices.py": """
        import json
        import pytest
        from hypothesis import given, strategies as st
        from shop.prices import Basket, later, load, total
        @pytest.mark.parametrize("prices", [[1], [1, 2], pytest.param([], id="none")])
        @pytest.mark.parametrize("discount", [0, 0.5])
        def test_total(prices, discount): assert total(prices, discount) == sum(prices) * (1 - discount)
        def test_tenth(tenth): assert total([1], tenth) == pytest.approx(0.9)
        def test_basket(basket): assert basket == basket and basket.prices in ([], [3])
        def test_refused():
            with pytest.raises(ValueError, match="discount"): total([1], 2)
        async def test_later(): assert await later(3) == 3
        def test_files(tmp_path, monkeypatch, capsys):
            (tmp_path / "a.json").write_text("[1, 2]")
            monkeypatch.chdir(tmp_path)
            print("hello")
            assert capsys.readouterr().out == "hello\\n"
            assert load("a.json") == [1, 2]
        @pytest.mark.slow
        def test_marked(): assert True
        @pytest.mark.skip(reason="never")
        def test_skipped(): assert False
        @pytest.mark.xfail(strict=True)
        def test_known_to_fail(): assert total([1]) == 2
        def test_fails(): assert total([1]) == 2, "on purpose"
        def test_breaks(no_such_fixture): pass
        @given(st.lists(st.integers()))
        def test_any(prices): assert total(prices) == sum(prices)
        class TestBasket:
            name = "basket"
            def test_equal(self): assert Basket() == Basket()
            @staticmethod
            def helper(): return 1
            def test_checked_by_a_helper(self): self.helper()
        """,
    "tests/test_old.py": """
        import unittest
        from shop import total
        class Old(unittest.TestCase):
            def setUp(self): self.prices = [1, 2]
            def test_total(self): self.assertEqual(total(self.prices), 3)
            def test_in(self): self.assertIn(1, self.prices)
            def test_raises(self):
                with self.assertRaises(ValueError): total([], 3)
            @unittest.skip("never")
            def test_skipped(self): self.fail()
            def test_fails(self): self.assertEqual(total(self.prices), 4)
        """,
}


def dedented(files: dict[str, str]) -> dict[str, str]:
    import textwrap

    return {path: textwrap.dedent(text).lstrip("\n") for path, text in files.items()}


def plain_results(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """Of each test what a plain run says, by its name."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "--junitxml=out.xml", "-o", "junit_family=xunit1", "tests"]
    subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": "src", "PATH": "/usr/bin:/bin"}, check=False, capture_output=True, timeout=120
    )
    results = {}
    for case in ElementTree.parse(folder / "out.xml").iter("testcase"):
        kinds = {child.tag for child in case}
        status = next((kind for kind in ("failure", "error", "skipped") if kind in kinds), "passed")
        results[f"{case.get('file')}::{case.get('name')}"] = status
    return results


async def test_results_are_those_of_a_plain_run(tmp_path: Path) -> None:
    """Fixtures, parametrize, conftest, src layout, xdist, asyncio, hypothesis and unittest; what fails and is skipped too."""
    files = dedented(SUITE)
    (tmp_path / "plain").mkdir()
    plain = plain_results(tmp_path / "plain", files)
    tests = {path: text for path, text in files.items() if path.startswith("tests/")}
    names = " ".join(path for path in tests if "/test_" in path)

    verdict = await verdict_on(task_of(files, tests, f'python3 -I "$RUN_PYTEST" {names}'), tmp_path)

    words = {"passed": "passed", "failed": "failure", "error": "error", "skipped": "skipped"}
    ours = {_by_name(test.id): words.get(test.status, test.status) for test in verdict.tests}
    assert ours == {_by_name(test): status for test, status in plain.items()}
    assert len(plain) == 25


def _by_name(test: str) -> str:
    """File and name: the two report classes in different places."""
    path, _, name = test.partition("::")
    return f"{path}::{name.rpartition('::')[2]}"


async def test_named_tests_decide_and_others_do_not(tmp_path: Path) -> None:
    tests = {HIDDEN: "from calc import add\ndef test_good(): assert add(3, 1) == 2\ndef test_bad(): assert add(1, 1) == 5\n"}
    good, bad = f"{HIDDEN}::test_good", f"{HIDDEN}::test_bad"
    script = 'python3 -I "$RUN_PYTEST"'

    passing = await verdict_on(task_of(CALC, tests, script, pass_to_pass=(good,)), tmp_path)
    failing = await verdict_on(task_of(CALC, tests, script, fail_to_pass=(bad,), pass_to_pass=(good,)), tmp_path)
    gone = await verdict_on(task_of(CALC, tests, script, pass_to_pass=(good, f"{HIDDEN}::test_gone")), tmp_path)

    assert passing.passed, passing.output
    assert not failing.passed
    assert {test.id: (test.status, test.group) for test in failing.tests} == {
        good: ("passed", "pass_to_pass"),
        bad: ("failed", "fail_to_pass"),
    }
    assert {test.id: test.status for test in gone.tests}[f"{HIDDEN}::test_gone"] == "missing"
    assert not gone.passed


async def test_without_pytest_nobody_is_blamed(tmp_path: Path) -> None:
    """The check could not be run: that is said, with what to do."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=60)
    bare = Environment(python=str(tmp_path / "bare" / "bin" / "python"))
    task = Task(
        files=(file("calc.py", WRONG),),
        check=Check(script=f'python3 -I "$RUN_PYTEST" {HIDDEN}', files=(file(HIDDEN, TEST),)),
        environment=bare,
    )

    (tmp_path / "work").mkdir()
    verdict = await verdict_on(task, tmp_path / "work")

    assert "the check needs pytest, which is not in the sandbox" in verdict.problem


@pytest.mark.parametrize(
    ("script", "blamed"),
    [("no_such_program --version", True), ("work python3 claims.py", False), ("work python3 absent.py; exit 127", False)],
)
async def test_a_missing_program_of_the_checks_is_no_fault_of_the_works(script: str, blamed: bool, tmp_path: Path) -> None:
    """What the work prints, or the exit code it has, makes no check impossible."""
    claims = "import sys\nprint('bash: line 1: nothing_of_that_name: command not found', file=sys.stderr)\nsys.exit(127)\n"
    verdict = await verdict_on(task_of({"claims.py": claims}, {}, script), tmp_path)

    assert not verdict.passed
    assert bool(verdict.problem) == blamed, verdict


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one for each process that tests are run in."""
    started: list[str] = []
    real = judge._Service._suite_ran

    async def counted(self: judge._Service, request: dict[str, Any], channel: socket.socket) -> dict[str, Any]:
        started.append(str(request["program"]))
        return await real(self, request, channel)

    monkeypatch.setattr(judge._Service, "_suite_ran", counted)
    return started


PAIR = "from calc import add\ndef test_mended(): assert add(1, 2) == 3\ndef test_kept(): assert add(4, 0) == 4\n"
MENDED, KEPT = (f"{HIDDEN}::test_mended",), (f"{HIDDEN}::test_kept",)


@pytest.mark.parametrize(
    ("work", "options", "passes", "started"),
    [
        (RIGHT, "", True, 6),
        (WRONG, "", False, 2),
        (RIGHT, "--verdict", True, 6),
        (RIGHT, "--draws 1", True, 2),
        (WRONG, "--draws 0", False, 1),
        (RIGHT, "--draws 0", True, 1),
    ],
)
async def test_twins_are_drawn_three_times_before_work_has_passed(
    work: str, options: str, passes: bool, started: int, tmp_path: Path, processes: list[str]
) -> None:
    """Work that guesses which tests are twins would have to guess right each time; what fails at once is not drawn again."""
    task = task_of(CALC, {HIDDEN: PAIR}, f'python3 -I "$RUN_PYTEST" {options}', fail_to_pass=MENDED, pass_to_pass=KEPT)

    verdict = await verdict_on(task, tmp_path, {"calc.py": work})

    assert (verdict.passed, verdict.problem) == (passes, ""), verdict.output
    assert len(processes) == started
    assert {test.id for test in verdict.tests} == {*MENDED, *KEPT}


async def test_where_only_the_verdict_counts_the_first_failure_ends_the_tests(tmp_path: Path) -> None:
    """Of an attack nothing else matters; slow tests after it are not waited for."""
    failing = "".join(f"def test_{number}(): assert add(1, 2) == 3\n" for number in range(20))
    slow = "def test_slow():\n    import time\n    time.sleep(50)\n"
    mended = tuple(f"{HIDDEN}::test_{name}" for name in (*range(20), "slow"))
    task = task_of(CALC, {HIDDEN: f"from calc import add\n{failing}{slow}"}, 'python3 -I "$RUN_PYTEST" --verdict')
    assert task.check is not None
    task = structs.replace(task, check=structs.replace(task.check, fail_to_pass=mended))

    verdict = await verdict_on(task, tmp_path)

    assert not verdict.passed and verdict.seconds < 40
    assert "FAILED tests/test_calc.py::test_" in verdict.output
    assert "pytest did not come to its end" not in verdict.output


def told_by(twin: bool, outcome: str) -> Session:
    parts = (("setup", "passed"), ("call", outcome), ("teardown", "passed"))
    lines = [{"test": MENDED[0], "part": part, "outcome": each, "reason": ""} for part, each in parts]
    return Session({HIDDEN: ["test_mended"] if twin else []}, lines=lines)


def test_one_wrong_guess_in_three_draws_gives_a_cheat_away() -> None:
    """Objects that are equal to everything in one process and to nothing in the next."""
    right = [told_by(False, "passed"), told_by(True, "failed")]
    wrong = [told_by(False, "passed"), told_by(True, "passed")]

    assert judged(right * 3, MENDED)[MENDED[0]][0] == "passed"
    assert judged([*right, *right, *wrong], MENDED)[MENDED[0]][0] == "forged"
    assert judged([*right, told_by(False, "failed"), told_by(True, "failed")], MENDED)[MENDED[0]][0] == "failed"


class Draws:
    """What each draw tells, in order, in place of processes."""

    def __init__(self, *draws: str) -> None:
        self.left = [self.told[draw] for draw in draws]

    told: ClassVar[dict[str, list[Session]]] = {
        "right": [told_by(False, "passed"), told_by(True, "failed")],
        "fails": [told_by(False, "failed"), told_by(True, "failed")],
        "forged": [told_by(False, "passed"), told_by(True, "passed")],
    }

    def __call__(self, *_: object) -> list[Session]:
        return self.left.pop(0)


@pytest.mark.parametrize(
    ("draws", "passes"),
    [
        (("right", "right", "right"), True),
        (("right", "fails", "right", "right"), True),
        (("right", "fails", "fails"), False),
        (("right", "right", "forged"), False),
        (("right", "fails", "right", "forged"), False),
        (("fails",), False),
    ],
)
def test_a_test_that_fails_now_and_then_is_drawn_once_more(
    draws: tuple[str, ...], passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Being run three times makes a busy machine no likelier to fail right work; a twin that passes is never excused."""
    told = Draws(*draws)
    monkeypatch.setattr(run_pytest, "run_twice", told)
    suite = {"fail_to_pass": MENDED, "pass_to_pass": (), "files": [HIDDEN]}

    sessions = run_pytest.drawn(suite, run_pytest.asked([HIDDEN], suite))

    assert (judged(sessions, MENDED)[MENDED[0]][0] == "passed") == passes
    assert not told.left


async def test_only_the_named_tests_are_run(tmp_path: Path) -> None:
    hidden = {
        HIDDEN: f"{PAIR}def test_never():\n    import os\n    os._exit(1)\n",
        "tests/test_other.py": "raise SystemExit(1)\n",
    }
    script = f'python3 -I "$RUN_PYTEST" {HIDDEN} tests/test_other.py'

    verdict = await verdict_on(task_of(CALC, hidden, script, pass_to_pass=(*MENDED, *KEPT)), tmp_path, {"calc.py": RIGHT})

    assert verdict.passed, verdict.output


STARTING = """
import os, shutil, subprocess, sys
from pathlib import Path
import pytest

def said(*words, **named):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, **named)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()

@pytest.mark.parametrize("folder", [".", "/"])
def test_by_the_interpreter(folder):
    assert said(sys.executable, "-c", "import shop; print(shop.NAME)", cwd=folder) == "the shop"
def test_as_a_module(): assert said(sys.executable, "-m", "shop", cwd="/") == "the shop"
def test_by_its_name(): assert said("python3", "-m", "shop", cwd="/") == "the shop"
def test_isolated(): assert said(sys.executable, "-I", "-c", "import shop; print(shop.NAME)", env={}) == "the shop"
def test_console_script(): assert said("shop-name", cwd="/") == "the shop"
def test_console_script_beside_the_interpreter():
    assert said(Path(sys.executable).with_name("shop-name"), cwd="/", env={}) == "the shop"
def test_packages_of_the_environment(): assert said(sys.executable, "-c", "import pytest; print(pytest.__name__)") == "pytest"
def test_a_process_of_multiprocessing():
    from multiprocessing import get_context
    import shop
    process = get_context("spawn").Process(target=shop.main)
    process.start()
    process.join(60)
    assert process.exitcode == 0
"""
SHOP = {
    "shop/__init__.py": "NAME = 'the shop'\ndef name(): return NAME\ndef main(): print(NAME)\n",
    "shop/__main__.py": "from shop import main\nmain()\n",
}
SCRIPTS = '[project]\nname = "shop"\n[project.scripts]\nshop-name = "shop:main"\n'


@pytest.mark.parametrize("level", ["bubblewrap", pytest.param("landlock", marks=pytest.mark.needs("landlock"))])
@pytest.mark.parametrize(("layout", "options"), [("src/", ""), ("", "-- -n 2")], ids=["src", "flat-xdist"])
async def test_programs_that_tests_start_find_the_project(layout: str, options: str, level: str, tmp_path: Path) -> None:
    """As after `pip install -e .`: whatever folder they start in, and whatever their environment holds."""
    files = {"pyproject.toml": SCRIPTS, **{f"{layout}{path}": text for path, text in SHOP.items()}}
    script = f'python3 -I "$RUN_PYTEST" --draws 1 tests/test_starting.py {options}'

    verdict = await verdict_on(task_of(files, {"tests/test_starting.py": STARTING}, script), tmp_path, level=level)

    assert verdict.passed, verdict.output
    assert len(verdict.tests) == 9


def test_a_twin_claims_what_is_not_so() -> None:
    source = (
        "def test_equal():\n    assert f() == 4\n"
        "def test_text():\n    assert f() == 'a'\n"
        "def test_truth():\n    assert f()\n"
        "def test_raises():\n    with raises(KeyError):\n        f()\n"
        "class TestOld:\n    def test_true(self):\n        self.assertTrue(f())\n"
        "def test_helper():\n    check(f())\n"
        "def test_returns():\n    return f()\n"
    )

    text, replaced = twinned(source, functions_of(source))

    assert text.count("\n") == source.count("\n")
    assert "assert f() == -4" in text
    assert "assert f() == 'aa'" in text
    assert "assert not (f())" in text
    assert "with raises(type('Missing'" in text
    assert "self.assertFalse(f())" in text
    assert "check(f()); assert [] == [0]" in text
    assert replaced == [name for name in functions_of(source) if name != "test_returns"]
    assert twinned("def test_(:", ["test_"]) == ("def test_(:", [])
