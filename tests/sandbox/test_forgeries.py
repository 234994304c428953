"""Forgeries: each passes a check that protects nothing, and fails the same check where work and judge are kept apart."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from sandbox.unprotected import JUDGE_PIPE, RUN_TESTS

from tiebreak.agents import forgeries
from tiebreak.agents.controls import EarlyExit
from tiebreak.cli.check_tasks import CHEATS
from tiebreak.core.task import Check, Solution, Task, TaskFile
from tiebreak.core.work import Command
from tiebreak.engine.hidden_files import without_hidden_lines
from tiebreak.sandbox.isolation import isolation_at
from tiebreak.sandbox.workspace import Workspace

LEVELS = [
    pytest.param("bubblewrap", marks=pytest.mark.needs("bubblewrap")),
    pytest.param("landlock", marks=pytest.mark.needs("landlock")),
]
SOURCE = b"""
def answer():
    return 41

def is_right():
    return answer() == 42

if __name__ == "__main__":
    print(answer())
"""
WRONG = TaskFile(path="work.py", content=SOURCE)
RIGHT = TaskFile(path="work.py", content=WRONG.content.replace(b"41", b"42"))
EXPECTED = TaskFile(path="expected.txt", content=b"42\n")
TEST = TaskFile(path="test_hidden.py", content=b"import work\n\ndef test_answer():\n    assert work.answer() == 42\n")
BELIEF = TaskFile(path="test_belief.py", content=b"import work\n\ndef test_answer():\n    assert work.is_right() is True\n")


def file(path: str, text: str) -> TaskFile:
    return TaskFile(path=path, content=text.encode())


@dataclass(frozen=True)
class Attack:
    """A forgery, the check it passes, and the same check as it should be written."""

    forgery: type[forgeries.Forgery]
    unprotected: str
    protected: str
    files: tuple[TaskFile, ...] = (EXPECTED,)
    """The check's; `run_tests.py` and `judge_pipe.py` are laid beside them for the control."""
    believes: bool = False
    """The control runs where the check runs, and believes what the work says of itself."""


COMPARED = "work python3 work.py > got.txt; cmp got.txt expected.txt"
PATIENT = "for n in $(seq 40); do cmp -s got.txt expected.txt && exit 0; sleep 0.1; done; exit 1"
"""A check that gives a process the work left behind the time it needs, on a busy machine too."""
TESTED = 'python3 -I "$RUN_TESTS" test_hidden.py'
ATTACKS = [
    Attack(forgeries.Frames, "python3 run_tests.py test_hidden.py", TESTED, (TEST,)),
    Attack(forgeries.Links, "python3 work.py > got.txt; cmp got.txt expected.txt", COMPARED),
    Attack(forgeries.PlantedLinks, "python3 work.py > out; cat out > got.txt; cmp got.txt expected.txt", COMPARED),
    Attack(forgeries.Expected, "python3 work.py > got.txt; cmp got.txt expected.txt", COMPARED),
    Attack(forgeries.Tracing, 'test "$(cat expected.txt)" = 42; python3 work.py > got.txt; cmp got.txt expected.txt', COMPARED),
    Attack(forgeries.StolenDescriptors, "python3 judge_pipe.py", COMPARED),
    Attack(forgeries.Everything, "python3 run_tests.py test_hidden.py", TESTED, (TEST,)),
    Attack(forgeries.Answering, 'python3 -I "$RUN_TESTS" test_belief.py', TESTED, (TEST, BELIEF), believes=True),
    Attack(forgeries.Background, f"python3 work.py > got.txt; {PATIENT}", COMPARED),
]


def attacked(attack: Attack, script: str) -> Task:
    return Task(files=(WRONG,), check=Check(script=script, files=attack.files, timeout_s=30), solution=Solution(files=(RIGHT,)))


async def passes_unprotected(workspace: Workspace, attack: Attack, task: Task) -> bool:
    """The check beside the work, as one would write it first."""
    assert task.check is not None
    if attack.believes:
        return (await workspace.verify(task.check)).passed
    controls = (file("run_tests.py", RUN_TESTS), file("judge_pipe.py", JUDGE_PIPE))
    for each in (*task.check.files, *controls):
        await workspace.write(each.path, each.content)
    finished = await workspace.run(Command(argv=("bash", "-e", "-c", task.check.script, "script"), timeout_s=30))
    return finished.code == 0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.forgery.__name__)
async def test_a_forgery_passes_unprotected_and_fails_protected(attack: Attack, level: str, tmp_path: Path) -> None:
    """The control first: a forgery that cannot pass it would prove nothing. The right work passes both."""
    if attack.forgery is forgeries.Tracing and platform.machine() != "x86_64":
        pytest.skip("the forgery speaks x86_64")
    if attack.forgery in (forgeries.Tracing, forgeries.StolenDescriptors) and yama():
        pytest.skip("this kernel lets nobody trace a process but its parent: the control holds")
    weak, strong = attacked(attack, attack.unprotected), attacked(attack, attack.protected)
    planted = attack.forgery().plan(weak)
    for solution, passes, holds in ((Solution(), False, False), (planted, True, False), (weak.solution, True, True)):
        async with Workspace.open(weak, isolation=isolation_at(level), scratch=tmp_path) as workspace:
            assert solution is not None and (await workspace.apply(solution)).code == 0
            verdict = await workspace.verify(strong.check)
            assert (verdict.passed, verdict.problem) == (holds, ""), verdict.output
            assert await passes_unprotected(workspace, attack, weak) == passes


def yama() -> bool:
    setting = Path("/proc/sys/kernel/yama/ptrace_scope")
    return setting.exists() and setting.read_text().strip() != "0"


def test_every_forgery_is_tried_on_every_task() -> None:
    """By check-tasks, and here."""
    known = {name for name, each in vars(forgeries).items() if isinstance(each, type) and issubclass(each, forgeries.Forgery)}
    concrete = known - {"Forgery", "Payload"}
    assert {name.rpartition(":")[2] for name in CHEATS if "forgeries:" in name} == concrete
    assert {attack.forgery.__name__ for attack in ATTACKS} == concrete - {"Protected", "Leak"}


@pytest.mark.needs("bubblewrap")
async def test_protected_files_do_not_change_behind_a_link(tmp_path: Path) -> None:
    """Renamed folder, link, changed content: with the right work, so that only the rule can fail it."""
    given = TaskFile(path="tests/test_work.py", content=b"given\n")
    check = Check(script="grep -q 42 work.py", protect=("tests/**",))
    task = Task(files=(WRONG, given), check=check, solution=Solution(files=(RIGHT,)))
    async with Workspace.open(task, isolation=isolation_at("bubblewrap"), scratch=tmp_path) as workspace:
        assert (await workspace.apply(forgeries.Protected().plan(task))).code == 0
        assert b"changed" in await workspace.read("tests/test_work.py")
        assert (await workspace.verify(Check(script=check.script))).passed
        verdict = await workspace.verify(check)
        assert (verdict.passed, verdict.output) == (False, "tests/test_work.py was not to be changed")


@pytest.mark.needs("bubblewrap")
async def test_hidden_files_are_not_shown_to_the_agent(tmp_path: Path) -> None:
    """A check that runs the work beside its files has them in its output; the agent is not told."""
    check = Check(script="python3 work.py; cmp got.txt expected.txt", files=(TEST, EXPECTED))
    task = Task(files=(WRONG,), check=check)
    async with Workspace.open(task, isolation=isolation_at("bubblewrap"), scratch=tmp_path) as workspace:
        assert (await workspace.apply(forgeries.Leak().plan(task))).code == 0
        output = (await workspace.verify(check)).output
        assert "assert work.answer() == 42" in output
        shown = without_hidden_lines(output, task)
        assert "work.answer() == 42" not in shown and "hidden file" in shown and "return 41" in shown
        apart = await workspace.verify(Check(script="work python3 work.py", files=(TEST, EXPECTED)))
        assert not apart.passed and "see above" in apart.output and "work.answer() == 42" not in apart.output


COUNTS = "import sys\nsys.counted = getattr(sys, 'counted', 0) + 1"
FUTURE = '"""Words."""\nfrom __future__ import annotations\ndef f(a: Missing): return 1\n'


@pytest.mark.parametrize("content", ["", "x = 1", FUTURE, "from __future__ import annotations", "def broken(:"])
def test_an_attack_runs_before_whatever_a_file_holds(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the file has to begin with what it asks of the future."""
    for name in ("planted", "counted"):
        monkeypatch.setattr(sys, name, 0, raising=False)

    exec(forgeries.planted(COUNTS, content), {})

    assert sys.counted == 1  # type: ignore[attr-defined]


def test_an_attack_runs_twice_in_a_process_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project of two hundred modules is not attacked two hundred times by each process that imports it."""
    for name in ("planted", "counted"):
        monkeypatch.setattr(sys, name, 0, raising=False)

    for _ in range(200):
        exec(forgeries.planted(COUNTS, ""), {})

    assert sys.counted == 2  # type: ignore[attr-defined]


@pytest.mark.needs("bubblewrap")
async def test_an_early_exit_is_planted_in_files_that_begin_with_the_future(tmp_path: Path) -> None:
    files = {"plain.py": "print('plain')\n", "future.py": f"{FUTURE}print('future')\n"}
    task = Task(files=tuple(file(path, text) for path, text in files.items()))
    async with Workspace.open(task, isolation=isolation_at("bubblewrap"), scratch=tmp_path) as workspace:
        finished = await workspace.apply(Solution(script=EarlyExit.script))
        assert finished.code == 0, finished.output
        for name in files:
            said = await workspace.run(Command(argv=("python3", name)))
            assert (said.code, said.output) == (0, ""), said.output
