"""A check and the work it judges: two sandboxes, between which only data passes."""

from __future__ import annotations

import os

import pytest

from tiebreak.core.task import Check, Task, TaskFile
from tiebreak.sandbox.isolation import isolation_at
from tiebreak.sandbox.workspace import Workspace

LEVELS = [
    pytest.param("bubblewrap", marks=pytest.mark.needs("bubblewrap")),
    pytest.param("landlock", marks=pytest.mark.needs("landlock")),
]
FILES = (
    TaskFile(
        path="work.py", content=b"import sys\n\ndef double(n):\n    return 2 * n\n\nprint(sys.stdin.read().upper(), end='')\n"
    ),
    TaskFile(path="tool.sh", content=b'echo out; echo err >&2; exit "$1"\n', executable=True),
)
HIDDEN = (TaskFile(path="hidden.txt", content=b"what is expected\n"), TaskFile(path="driver.sh", content=b"cat input.txt\n"))


@pytest.fixture(params=LEVELS)
async def workspace(request, tmp_path):
    async with Workspace.open(Task(files=FILES), isolation=isolation_at(request.param), scratch=tmp_path) as opened:
        yield opened


async def verify(workspace, script, *files, **more):
    verdict = await workspace.verify(Check(script=script, files=(*HIDDEN, *files), **more))
    assert verdict.problem == ""
    return verdict


async def test_a_command_of_the_work_has_its_streams_and_its_exit_code(workspace):
    """As if it ran here."""
    script = """
test "$(printf 'straße' | work python3 -I work.py)" = STRASSE
code=0; work bash tool.sh 7 > out.txt 2> err.txt || code=$?
test "$code $(cat out.txt) $(cat err.txt)" = "7 out err"
work bash -c 'kill -SEGV $$' || test $? = 139
"""
    assert (await verify(workspace, script)).passed
    assert not (await verify(workspace, "work bash tool.sh 3")).passed


async def test_the_work_sees_nothing_of_the_check(workspace):
    """Neither its files, nor its processes, nor its sockets; what is given by name is there, and stays."""
    script = """
work sh -c 'ls -A; ls /run; env; cat hidden.txt /proc/*/cwd/hidden.txt' > seen.txt 2> /dev/null || true
work sh -c 'cat /proc/*/cmdline /proc/*/environ' 2> /dev/null > lines.txt || true
if grep -a -E 'word''-of-the-script' lines.txt; then exit 1; fi
test -s seen.txt; if grep -E 'hidden|expected|run_tests|work_client|JUDGE' seen.txt; then exit 1; fi
echo given > input.txt
test "$(work -i input.txt -i driver.sh bash driver.sh)" = given
test "$(work bash driver.sh)" = given
if work cat hidden.txt 2> /dev/null; then exit 1; fi
: word-of-the-script
"""
    assert (await verify(workspace, script)).passed, (await verify(workspace, script)).output


async def test_files_come_back_as_data(workspace):
    """Folders with their permissions and without links; what the work deleted is gone here too."""
    script = """
mkdir box; echo old > box/gone.txt; echo kept > "box/a name"; chmod 640 "box/a name"
work -x box bash -c 'cd box; rm gone.txt; echo new > new.txt; chmod 600 new.txt; ln -s ../hidden.txt link; ln -s new.txt own'
work -x box mkfifo box/pipe
test "$(ls -A box | tr '\\n' ' ')" = "a name new.txt "
test "$(stat -c %a 'box/a name' box/new.txt | tr '\\n' ' ')" = "640 600 "
work -o result.txt bash -c 'ln -s hidden.txt result.txt'
test ! -e result.txt
work -o deep/result.txt bash -c 'mkdir deep; echo done > deep/result.txt'
test "$(cat deep/result.txt)" = done
"""
    verdict = await verify(workspace, script)
    assert verdict.passed, verdict.output


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", ".", "missing", ".git/config"])
async def test_paths_that_lead_elsewhere_are_refused(workspace, path):
    """With a message and an exit code of its own."""
    verdict = await verify(workspace, f"code=0; work -i {path} true || code=$?; test $code = 125")
    assert verdict.passed and "work: " in verdict.output


async def test_a_link_of_the_check_is_not_followed(workspace, tmp_path):
    """Whoever runs the work beside the check may have planted one."""
    (tmp_path / "canary").write_text("secret of the host")
    verdict = await verify(workspace, f"ln -s {tmp_path}/canary link; work -i link cat link || echo refused")
    assert "secret" not in verdict.output and "refused" in verdict.output


async def test_the_work_ends_with_the_check(workspace):
    """A check that gave up waiting leaves nothing running, and its time is the work's time too."""
    tag = os.urandom(8).hex()
    verdict = await verify(workspace, f"work env TAG={tag} sleep 600 & sleep 600", timeout_s=2)
    assert not verdict.passed and "had not ended after 2 s" in verdict.output
    assert tagged(tag) == []
    verdict = await verify(workspace, f"work env TAG={tag} sleep 600 & sleep 1; exit 0")
    assert verdict.passed and tagged(tag) == []


async def test_several_commands_at_once(workspace):
    """Each has its own answer."""
    script = """
for n in 1 2 3 4 5; do work sh -c "sleep 0.1; echo $n" > out$n.txt & done; wait
test "$(cat out?.txt | tr '\\n' ' ')" = "1 2 3 4 5 "
"""
    assert (await verify(workspace, script)).passed


TESTS = b"""
import unittest
import helper
from judge import run, work_module
from work import double

class TestWork(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(helper.NUMBER), 42)

    def test_command(self):
        done = run(["bash", "tool.sh", "4"])
        self.assertEqual((done.code, done.output, done.errors), (4, "out\\n", "err\\n"))

    def test_modules(self):
        self.assertEqual(work_module("work").double([1]), [1, 1])
"""


async def test_hidden_tests_run_here_and_the_work_there(workspace):
    """With helpers of the check's own, which the work cannot stand in for."""
    files = (TaskFile(path="test_hidden.py", content=TESTS), TaskFile(path="helper.py", content=b"NUMBER = 21\n"))
    await workspace.write("helper.py", b"raise SystemExit(0)\n")
    await workspace.write("unittest.py", b"raise SystemExit(0)\n")
    verdict = await verify(workspace, 'python3 -I "$RUN_TESTS" test_hidden.py', *files)
    assert verdict.passed, verdict.output
    await workspace.write("work.py", b"def double(n):\n    print('the work says so')\n    return n + 20\n")
    verdict = await verify(workspace, 'python3 -I "$RUN_TESTS" test_hidden.py', *files)
    assert not verdict.passed and "41 != 42" in verdict.output and "the work says so" in verdict.output


async def test_nothing_of_the_work_is_imported_beside_the_tests(workspace):
    """Not even a module that is no text: it would run where the verdict is made."""
    await workspace.write("work.cpython-311-x86_64-linux-gnu.so", b"\x7fELF")
    await workspace.write("extra.pyc", b"\0" * 16)
    test = TaskFile(path="test_hidden.py", content=b"import extra\n\ndef test_it():\n    pass\n")
    verdict = await verify(workspace, 'python3 -I "$RUN_TESTS" test_hidden.py', test)
    assert not verdict.passed and "In the work:" in verdict.output


async def test_no_tests_are_no_success(workspace):
    """Neither an empty file nor one that cannot be imported."""
    for content in (b"", b"raise SystemExit(0)\n", b"def helper():\n    pass\n"):
        test = TaskFile(path="test_hidden.py", content=content)
        assert not (await verify(workspace, 'python3 -I "$RUN_TESTS" test_hidden.py', test)).passed


def tagged(tag):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                found += [pid] if f"TAG={tag}".encode() in file.read() else []
        except OSError:
            continue
    return found
