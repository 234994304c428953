# ruff: noqa: E501 - what is planted reads best on one line
"""A task's folder: files in, changes out, and a check that cannot be fooled."""

from __future__ import annotations

import os
import random
import subprocess

import pytest

from tiebreak.core.errors import SandboxError
from tiebreak.core.task import Check, Solution, Task, TaskFile
from tiebreak.core.work import Command
from tiebreak.core.work import Workspace as Promised
from tiebreak.sandbox.difference import differences
from tiebreak.sandbox.isolation import isolation_at
from tiebreak.sandbox.workspace import Workspace, glob_pattern

pytestmark = pytest.mark.needs("bubblewrap")

FILES = (
    TaskFile(path="work.py", content=b"def answer():\n    return 41\n"),
    TaskFile(path="src/keep.txt", content=b"keep\n"),
    TaskFile(path="run.sh", content=b"echo run\n", executable=True),
    TaskFile(path="picture.png", content=b"\x89PNG\0\1"),
)
HIDDEN = TaskFile(path="test_hidden.py", content=b"import json, work\ndef test_answer():\n    assert work.answer() == 42\n")
CHECK = Check(script='python3 -I "$RUN_TESTS" test_hidden.py', files=(HIDDEN,))
RIGHT = b"def answer():\n    return 42\n"


@pytest.fixture
async def workspace(tmp_path):
    async with Workspace.open(Task(files=FILES), isolation=isolation_at("bubblewrap"), scratch=tmp_path / "scratch") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _scratch(tmp_path):
    (tmp_path / "scratch").mkdir()


async def sh(workspace, script):
    return await workspace.run(Command(argv=("bash", "-c", script)))


async def test_the_files_are_there_and_nothing_else(workspace):
    """As the task has them, and executable where it says so."""
    finished = await sh(workspace, "find . -type f | sort; ./run.sh; whoami; pwd; ls -A ~")
    assert finished.output.split() == ["./picture.png", "./run.sh", "./src/keep.txt", "./work.py", "run", "agent", "/workspace"]


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "", ".", "a/", ".git/config", "a/.GIT/hooks/x", "a\0b"])
async def test_paths_that_lead_elsewhere_are_refused(path, tmp_path):
    """A task cannot write outside of its workspace, nor plant a git folder."""
    task = Task(files=(TaskFile(path=path, content=b""),))
    with pytest.raises(SandboxError, match=r"path|git"):
        async with Workspace.open(task, isolation=isolation_at("bubblewrap"), scratch=tmp_path / "scratch"):
            pass
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_the_folder_is_private_and_goes(tmp_path):
    """Nobody else can look into it."""
    async with Workspace.open(Task(files=FILES), isolation=isolation_at("bubblewrap"), scratch=tmp_path / "scratch"):
        [folder] = (tmp_path / "scratch").iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


async def test_reading_and_writing(workspace):
    """Relative, or as programs inside name it; links are followed inside."""
    await workspace.write("new/deep/file.txt", b"written", executable=True)
    await sh(workspace, "ln -s new/deep link; ln -s /workspace/work.py absolute")
    assert await workspace.read("/workspace/new/deep/file.txt") == b"written"
    assert await workspace.read("link/file.txt", 3) == b"wri"
    assert (await workspace.read("absolute")).startswith(b"def answer")
    await workspace.write("link/file.txt", b"again")
    assert await workspace.read("new/deep/file.txt") == b"again"
    await workspace.write_home(".config/agent.yaml", b"key: value")
    assert (await sh(workspace, "cat ~/.config/agent.yaml")).output == "key: value"


@pytest.mark.parametrize(
    ("plant", "path"),
    [
        ("ln -s /etc/passwd x", "x"),
        ("ln -s / x", "x/etc/passwd"),
        ("ln -s ../../../../../../etc x", "x/passwd"),
        ("ln -s x x", "x"),
        ("mkfifo x", "x"),
        ("mkdir x", "x"),
        ("true", "../x"),
        ("true", "/etc/passwd"),
        ("true", "missing"),
        ("true", "work.py/x"),
    ],
)
async def test_reading_never_leads_out_and_never_hangs(workspace, plant, path):
    """Links, pipes and folders give the usual errors."""
    await sh(workspace, plant)
    with pytest.raises(OSError):
        await workspace.read(path)


async def test_writing_through_a_planted_link_changes_nothing_outside(workspace, tmp_path):
    """Neither the file nor a folder on the way."""
    (tmp_path / "canary").write_text("safe")
    await sh(workspace, f"ln -s {tmp_path}/canary file; ln -s {tmp_path} folder; mkfifo pipe")
    for path in ("file", "folder/canary", "folder/new", "pipe"):
        with pytest.raises(OSError):
            await workspace.write(path, b"hacked")
    assert (tmp_path / "canary").read_text() == "safe"
    assert not (tmp_path / "new").exists()


async def test_huge_files_are_read_in_part(workspace):
    """As much as was asked for."""
    await sh(workspace, "truncate -s 400M sparse")
    assert await workspace.read("sparse", 10) == bytes(10)


async def test_nothing_done_is_no_change(workspace):
    """By-products of tools are no change."""
    await sh(workspace, "git init -q . 2>/dev/null; mkdir -p __pycache__ .pytest_cache; touch __pycache__/a.pyc; touch work.py")
    changes = await workspace.changes()
    assert (changes.files, changes.files_changed, changes.diff) == ((), 0, "")


async def test_changes_of_every_kind(workspace):
    """New, changed, deleted, binary, ignored, executable, linked."""
    await sh(
        workspace,
        "sed -i s/41/42/ work.py; rm src/keep.txt; printf 'a\\nb' > new.txt; printf '\\0\\1' > picture.png; "
        "echo '*' > .gitignore; chmod -x run.sh; ln -s work.py link; mkfifo pipe",
    )
    changes = await workspace.changes()
    assert changes.files == (".gitignore", "link", "new.txt", "picture.png", "run.sh", "src/keep.txt", "work.py")
    assert (changes.lines_added, changes.lines_removed) == (5, 2)
    assert "-    return 41\n+    return 42\n" in changes.diff
    assert "picture.png: binary" in changes.diff
    assert "\\ No newline at end of file" in changes.diff


async def test_git_in_the_workspace_gains_nothing(workspace, tmp_path):
    """Hooks, filters, fsmonitor, external diffs and attributes are never run by us."""
    mark = f"{workspace._workspace}/ran"
    await sh(
        workspace,
        "git init -q .; for h in post-index-change pre-commit post-checkout; do printf '#!/bin/sh\\ntouch ran\\n' > .git/hooks/$h;"
        " chmod +x .git/hooks/$h; done; git config core.fsmonitor 'touch ran'; git config diff.external 'touch ran';"
        " git config filter.x.clean 'touch ran; cat'; git config diff.x.textconv 'touch ran; cat'; git config core.hooksPath .git/hooks;"
        " echo '* filter=x diff=x' > .gitattributes; echo changed >> work.py; rm -f ran",
    )
    changes = await workspace.changes()
    assert changes.files == (".gitattributes", "work.py")
    assert not os.path.exists(mark)


def test_line_counts_agree_with_git(tmp_path):
    """For ordinary edits, what git would count."""
    chance = random.Random(7)
    for number in range(20):
        before = [f"line {n} {chance.random()}" for n in range(chance.randrange(1, 60))]
        after = [line for line in before if chance.random() > 0.1]
        for _ in range(chance.randrange(5)):
            after.insert(chance.randrange(len(after) + 1), f"new {chance.random()}")
        old, new = tmp_path / f"old{number}", tmp_path / f"new{number}"
        new.mkdir()
        old.write_text("\n".join([*before, ""]))
        (new / "f").write_text("\n".join([*after, ""]))
        counted = subprocess.run(["git", "diff", "--no-index", "--numstat", old, new / "f"], capture_output=True, text=True)
        changes = differences(new, {"f": TaskFile(path="f", content=old.read_bytes())})
        expected = counted.stdout.split()[:2] or ["0", "0"]
        assert [str(changes.lines_added), str(changes.lines_removed)] == expected


def test_enormous_changes_are_counted_and_cut(tmp_path):
    """A hundred thousand files and a rewritten large file take seconds, not minutes."""
    (tmp_path / "many").mkdir()
    for number in range(3000):
        (tmp_path / "many" / str(number)).write_text("x\n")
    (tmp_path / "big").write_text("".join(f"new {n}\n" for n in range(60_000)))
    with open(tmp_path / "sparse", "w") as sparse:
        sparse.truncate(5 << 30)
    start = {"big": TaskFile(path="big", content="".join(f"old {n}\n" for n in range(60_000)).encode())}
    changes = differences(tmp_path, start)
    assert changes.files_changed == 3002
    assert len(changes.files) == 1000
    assert (changes.lines_added, changes.lines_removed) == (63_000, 60_000)
    assert len(changes.diff) < 210_000


async def test_the_check_passes_right_work_and_fails_the_rest(workspace):
    """With the check's own files, which are never in the workspace."""
    assert not (await workspace.verify(CHECK)).passed
    await workspace.write("work.py", RIGHT)
    verdict = await workspace.verify(CHECK)
    assert (verdict.passed, verdict.problem) == (True, "")
    assert (await sh(workspace, "find / -maxdepth 4 -name 'test_hidden*' 2>/dev/null")).output == ""


async def test_nothing_in_the_way_keeps_the_check_from_running(workspace):
    """Neither a folder where a hidden file belongs, nor a workspace that was closed to its owner."""
    await sh(workspace, "mkdir -p test_hidden.py/deep/er; touch test_hidden.py/deep/er/f; chmod 000 .")
    verdict = await workspace.verify(CHECK)
    assert (verdict.passed, verdict.problem) == (False, "")
    assert "AssertionError" in verdict.output


async def test_it_is_what_agents_are_promised(workspace):
    """Every word of the protocol."""
    promised = {name for name in (*vars(Promised), *Promised.__annotations__) if not name.startswith("_")}
    assert {name for name in promised if not hasattr(workspace, name)} == set()


async def test_every_failing_line_of_a_script_fails_it(workspace):
    """A forgotten `&&` does not let wrong work pass."""
    assert not (await workspace.verify(Check(script="false\ntrue"))).passed


async def test_the_copy_is_judged_and_not_the_workspace(workspace):
    """A check cannot change the work."""
    await workspace.verify(Check(script="rm -rf ./* ~/*; echo gone > work.py"))
    assert (await workspace.changes()).files_changed == 0


async def test_an_edited_test_is_the_original_again(workspace):
    """And links or folders planted in its place are not written through."""
    await sh(workspace, "echo 'def test_answer(): pass' > test_hidden.py")
    assert not (await workspace.verify(CHECK)).passed
    await sh(workspace, "ln -sf /workspace/work.py test_hidden.py")
    assert not (await workspace.verify(CHECK)).passed
    assert (await workspace.read("work.py")).startswith(b"def answer")


CHEATS = {
    "exits at import": {"work.py": b"import os\nos._exit(0)\n"},
    "exits at import, politely": {"work.py": b"import sys\nsys.exit(0)\n"},
    "exits in the function": {"work.py": b"import os\ndef answer():\n    os._exit(0)\n"},
    "exits at the end": {"work.py": b"import atexit, os\natexit.register(lambda: os._exit(0))\ndef answer(): return 41\n"},
    "skips": {"work.py": b"import unittest\ndef answer():\n    raise unittest.SkipTest('cheat')\n"},
    "changes the test case": {"work.py": b"import unittest\nunittest.TestCase.run = lambda *a, **k: None\ndef answer(): return 41\n"},
    "shadows a module": {"json.py": b"import os\nos._exit(0)\n"},
    "shadows unittest": {"unittest.py": b"import os\nos._exit(0)\n"},
    "sitecustomize": {"sitecustomize.py": b"import os\nos._exit(0)\n", "usercustomize.py": b"import os\nos._exit(0)\n"},
    "empties the tests": {"work.py": b"import sys\nsys.modules['test_hidden'].__dict__.clear()\ndef answer(): return 41\n"},
    "a value equal to all": {"work.py": b"import sys\ndef answer():\n    return 41\nsys.exit = lambda *a: None\n"},
}  # fmt: skip


@pytest.mark.parametrize("cheat", CHEATS)
async def test_cheats_do_not_pass(cheat, workspace):
    """What decides the verdict is out of the work's reach."""
    for path, content in CHEATS[cheat].items():
        await workspace.write(path, content)
    assert not (await workspace.verify(CHECK)).passed


async def test_nothing_planted_steers_an_ordinary_check(workspace):
    """Neither home, nor shell start-up files, nor a test runner's configuration, nor bytecode."""
    await sh(
        workspace,
        "echo 'exit 0' | tee ~/.bashrc ~/.bash_profile ~/.profile .bashrc; mkdir -p ~/.local/lib bin; echo 'exit 0' > bin/python3;"
        " chmod +x bin/python3; echo 'import os; os._exit(0)' | tee conftest.py sitecustomize.py a.pth; echo '[pytest]' > pytest.ini;"
        " echo 'import os; os._exit(0)' > evil.py; python3 -m compileall -q evil.py; mv __pycache__/evil*.pyc __pycache__/work.cpython-311.pyc",
    )
    script = "ls -A ~ conftest.py pytest.ini sitecustomize.py a.pth __pycache__ 2>/dev/null || true; python3 -c 'import work; assert work.answer() == 42'"
    verdict = await workspace.verify(Check(script=script))
    assert not verdict.passed
    assert "AssertionError" in verdict.output
    assert "conftest" not in verdict.output
    kept = await workspace.verify(Check(script="ls conftest.py", keep=("**/conftest.py",)))
    assert kept.passed


async def test_protected_files_and_the_number_of_changes(workspace):
    """The check refuses by itself, and says why."""
    await sh(workspace, "echo more >> src/keep.txt; touch src/new; echo >> work.py")
    verdict = await workspace.verify(Check(script="true", protect=("src/**",), max_files_changed=2))
    assert not verdict.passed
    assert verdict.output.splitlines() == [
        "src/keep.txt was not to be changed",
        "src/new was not to be changed",
        "3 files were changed; at most 2 were to be",
    ]


async def test_a_check_that_takes_too_long_fails(workspace):
    """The work's fault or not: it did not pass."""
    verdict = await workspace.verify(Check(script="echo begun; sleep 60", timeout_s=0.5))
    assert not verdict.passed
    assert verdict.output == "begun\n\nthe check was stopped: it had not ended after 0.5 s"
    assert verdict.problem == ""


async def test_trouble_of_ours_is_a_problem(workspace):
    """And says nothing about the work."""
    verdict = await workspace.verify(Check(script="x" * 200_000))
    assert "at most" in verdict.problem


async def test_the_solution_is_applied(workspace):
    """Files first, then the script."""
    solution = Solution(files=(TaskFile(path="work.py", content=RIGHT),), script="echo done > src/done.txt")
    assert (await workspace.apply(solution)).code == 0
    assert (await workspace.verify(CHECK)).passed
    assert (await workspace.changes()).files == ("src/done.txt", "work.py")


async def test_the_copy_leaves_out_what_could_lead_out(workspace, tmp_path):
    """Pipes, and links that lead out; a link that stays inside is a copy of what it leads to."""
    (tmp_path / "canary").write_text("secret")
    await sh(
        workspace, f"ln -s {tmp_path}/canary out; ln -s ../../x up; ln -s work.py in; mkfifo pipe; mkdir d; ln -s ../work.py d/in"
    )
    verdict = await workspace.verify(
        Check(script="find . -type l -o -type p -o -name out -o -name up; cmp in work.py; cmp d/in in")
    )
    assert (verdict.passed, verdict.output) == (True, "")


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("src/**", ["src/a", "src/a/b"], ["src", "xsrc/a"]),
        ("**/*.py", ["a.py", "a/b/c.py"], ["a.pyc"]),
        ("*.py", ["a.py"], ["a/b.py"]),
        ("a?c/[xy].t", ["abc/x.t"], ["abc/z.t", "a/c/x.t"]),
        ("./README.md", ["README.md"], ["READMExmd"]),
    ],
)
def test_globs(glob, yes, no):
    """One star stays in a folder, two cross them."""
    pattern = glob_pattern(glob)
    assert all(pattern.fullmatch(path) for path in yes)
    assert not any(pattern.fullmatch(path) for path in no)
