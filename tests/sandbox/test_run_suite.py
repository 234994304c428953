"""Tests of other languages, by their own runners: each test's result, and what ends them early gains nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tiebreak.core.task import Check, Task, TaskFile
from tiebreak.core.work import Verdict
from tiebreak.sandbox import run_suite
from tiebreak.sandbox.isolation import isolation_at
from tiebreak.sandbox.workspace import Workspace

LEVELS = [
    pytest.param("bubblewrap", marks=pytest.mark.needs("bubblewrap")),
    pytest.param("landlock", marks=pytest.mark.needs("landlock")),
]


def files_of(texts: dict[str, str]) -> tuple[TaskFile, ...]:
    return tuple(TaskFile(path=path, content=text.encode()) for path, text in texts.items())


async def verdict_on(
    scratch: Path, work: dict[str, str], tests: dict[str, str], script: str, *, level: str = "bubblewrap", **named: object
) -> Verdict:
    program = script.partition('"$RUN_SUITE" ')[2].partition(" ")[0]
    needs = (program,) if shutil.which(program) else ()
    check = Check(script=script, files=files_of(tests), **named)  # type: ignore[arg-type]
    task = Task(files=files_of(work), check=check, needs=needs)
    async with Workspace.open(task, isolation=isolation_at(level), scratch=scratch) as workspace:
        return await workspace.verify(check)


def told(verdict: Verdict) -> dict[str, str]:
    return {test.id: test.status for test in verdict.tests}


# --- node ---------------------------------------------------------------------------------------------

SUMS = {"sums.js": "exports.add = (a, b) => a + b;\nexports.double = a => a;\n"}
SUMS_TEST = """
const { test, describe, it } = require('node:test');
const assert = require('node:assert');
const { add, double } = require('../sums.js');
test('adds', () => { console.log('not ok 1 - adds'); assert.equal(add(1, 2), 3); });
test.skip('not now', () => {});
describe('double', () => {
  it('keeps nothing', () => assert.equal(double(0), 0));
  it('doubles', async () => assert.equal(double(2), 4));
});
"""
NODE = 'python3 -I "$RUN_SUITE" node --test tests/sums.test.js'


@pytest.mark.needs("node")
@pytest.mark.parametrize("level", LEVELS)
async def test_each_test_of_node_is_told_by_its_file_and_its_groups(tmp_path: Path, level: str) -> None:
    tests = {"tests/sums.test.js": SUMS_TEST}

    wrong = await verdict_on(tmp_path, SUMS, tests, NODE, level=level)
    right = await verdict_on(tmp_path, {"sums.js": SUMS["sums.js"].replace("=> a;", "=> 2 * a;")}, tests, NODE, level=level)

    assert (wrong.passed, wrong.problem) == (False, "")
    assert told(wrong) == {
        "tests/sums.test.js::adds": "passed",
        "tests/sums.test.js::not now": "skipped",
        "tests/sums.test.js::double > keeps nothing": "passed",
        "tests/sums.test.js::double > doubles": "failed",
    }
    assert "FAILED tests/sums.test.js::double > doubles" in wrong.output
    assert "2 of 3 tests passed" in wrong.output
    assert right.passed, right.output


@pytest.mark.needs("node")
@pytest.mark.needs("bubblewrap")
async def test_only_the_tests_that_a_task_names_decide_and_they_are_told_by_group(tmp_path: Path) -> None:
    mended, kept = ("tests/sums.test.js::adds",), ("tests/sums.test.js::double > keeps nothing",)
    verdict = await verdict_on(tmp_path, SUMS, {"tests/sums.test.js": SUMS_TEST}, NODE, fail_to_pass=mended, pass_to_pass=kept)

    assert verdict.passed, verdict.output
    assert {test.id: test.group for test in verdict.tests if test.group} == {
        mended[0]: "fail_to_pass",
        kept[0]: "pass_to_pass",
    }


@pytest.mark.needs("node")
@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize(
    "work",
    [
        "process.exit(0)",
        "process.exitCode = 0; process.on('exit', () => process.exit(0)); exports.add = () => process.exit(0);",
        "exports.add = (a, b) => a + b; exports.double = () => process.exit(0);",
    ],
)
async def test_work_that_ends_the_tests_of_node_early_has_not_passed_them(tmp_path: Path, work: str) -> None:
    verdict = await verdict_on(tmp_path, {"sums.js": work}, {"tests/sums.test.js": SUMS_TEST}, NODE)

    assert not verdict.passed
    assert "missing" in told(verdict).values()


@pytest.mark.needs("node")
@pytest.mark.needs("bubblewrap")
async def test_a_plain_script_of_assertions_is_one_test(tmp_path: Path) -> None:
    tests = {"check.test.js": "require('assert').equal(require('./sums.js').double(2), 4)\n"}
    script = 'python3 -I "$RUN_SUITE" node --test check.test.js'

    assert told(await verdict_on(tmp_path, SUMS, tests, script)) == {"check.test.js": "failed"}


# --- cargo --------------------------------------------------------------------------------------------

CRATE = {
    "Cargo.toml": '[package]\nname = "sums"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": (
        "pub fn double(a: i32) -> i32 { a }\n"
        "#[cfg(test)] mod tests { #[test] fn inside() { assert_eq!(super::double(0), 0); } }\n"
    ),
}
CRATE_TEST = """
use sums::double;
#[test] fn keeps_nothing() { assert_eq!(double(0), 0); }
#[test]
fn doubles() { assert_eq!(double(2), 4, "twice two"); }
#[test] #[should_panic] fn panics() { panic!() }
#[test] #[ignore] fn slow() {}
"""
CARGO = 'python3 -I "$RUN_SUITE" cargo test --offline -q'


@pytest.mark.needs("cargo")
@pytest.mark.needs("bubblewrap")
async def test_each_test_of_cargo_is_told_by_the_file_it_is_in(tmp_path: Path) -> None:
    wrong = await verdict_on(tmp_path, CRATE, {"tests/sums.rs": CRATE_TEST}, CARGO, timeout_s=120)

    assert not wrong.passed
    assert told(wrong) == {
        "src/lib.rs::tests::inside": "passed",
        "tests/sums.rs::keeps_nothing": "passed",
        "tests/sums.rs::doubles": "failed",
        "tests/sums.rs::panics": "passed",
        "tests/sums.rs::slow": "skipped",
    }
    assert "twice two" in wrong.output


@pytest.mark.needs("cargo")
@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize(
    ("body", "passed", "status"),
    [("2 * a", True, "passed"), ("std::process::exit(0)", False, "missing"), ("a +", False, "missing")],
    ids=["right", "ends early", "does not compile"],
)
async def test_a_crate_passes_only_when_all_of_its_tests_were_run(tmp_path: Path, body: str, passed: bool, status: str) -> None:
    source = f"pub fn double(a: i32) -> i32 {{ {body} }}\n"

    verdict = await verdict_on(tmp_path, {**CRATE, "src/lib.rs": source}, {"tests/sums.rs": CRATE_TEST}, CARGO, timeout_s=120)

    assert (verdict.passed, verdict.problem) == (passed, ""), verdict.output
    assert told(verdict)["tests/sums.rs::doubles"] == status


# --- runners that are read from what they write -------------------------------------------------------

GO = "\n".join(
    json.dumps({"Package": "example.com/sums", **row})
    for row in (
        {"Action": "run", "Test": "TestDouble"},
        {"Action": "run", "Test": "TestDouble/two"},
        {"Action": "output", "Test": "TestDouble/two", "Output": "    sums_test.go:9: got 2, want 4\n"},
        {"Action": "fail", "Test": "TestDouble/two", "Elapsed": 0},
        {"Action": "fail", "Test": "TestDouble", "Elapsed": 0},
        {"Action": "pass", "Test": "TestAdd", "Elapsed": 0},
        {"Action": "skip", "Test": "TestLater", "Elapsed": 0},
        {"Action": "fail", "Elapsed": 0.1},
    )
)


def test_go_tells_of_each_test_by_its_package() -> None:
    ran = run_suite.Ran("/code", 1, f"# some words of the compiler\n{GO}\n", "")
    sources = {"sums_test.go": "func TestAdd(t *testing.T) {}\nfunc TestNever(t *testing.T) {}\nfunc Test(a int) {}\n"}

    results = run_suite.RUNNERS["go"].read(ran, sources)

    assert {test: outcome.status for test, outcome in results.items()} == {
        "example.com/sums::TestDouble/two": "failed",
        "example.com/sums::TestDouble": "failed",
        "example.com/sums::TestAdd": "passed",
        "example.com/sums::TestLater": "skipped",
        "::TestNever": "missing",
    }
    assert "got 2, want 4" in results["example.com/sums::TestDouble/two"].reason


def test_a_package_of_go_that_does_not_compile_is_an_error() -> None:
    ran = run_suite.Ran("/code", 1, json.dumps({"Action": "fail", "Package": "example.com/sums"}), "")

    assert run_suite.RUNNERS["go"].read(ran, {})["example.com/sums"].status == "error"


def test_jest_and_vitest_tell_of_each_test_by_its_file() -> None:
    report = {
        "testResults": [
            {
                "name": "/code/tests/sums.test.js",
                "status": "failed",
                "assertionResults": [
                    {"ancestorTitles": ["double"], "title": "doubles", "status": "failed", "failureMessages": ["got 2"]},
                    {"ancestorTitles": [], "title": "adds", "status": "passed", "failureMessages": []},
                    {"ancestorTitles": [], "title": "later", "status": "todo"},
                ],
            },
            {"name": "/code/tests/broken.test.js", "status": "failed", "message": "no such module", "assertionResults": []},
        ]
    }
    for name in ("jest", "vitest"):
        results = run_suite.RUNNERS[name].read(run_suite.Ran("/code", 1, "", json.dumps(report)), {})
        assert {test: outcome.status for test, outcome in results.items()} == {
            "tests/sums.test.js::double > doubles": "failed",
            "tests/sums.test.js::adds": "passed",
            "tests/sums.test.js::later": "skipped",
            "tests/broken.test.js": "error",
        }


FAKE_JEST = """\
#!/bin/sh
for word; do case "$word" in --outputFile=*) out="${word#--outputFile=}";; esac; done
test -f broken && exit 0
printf '{"testResults": [{"name": "%s/a.test.js", "assertionResults": [{"title": "adds", "status": "passed"}]}]}' "$PWD" > "$out"
"""


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("broken", [False, True], ids=["as it is", "results planted by the work"])
async def test_results_that_the_work_has_planted_are_not_the_runners(tmp_path: Path, broken: bool) -> None:
    planted = '{"testResults": [{"name": "a.test.js", "assertionResults": [{"title": "adds", "status": "passed"}]}]}'
    script = 'chmod +x jest; python3 -I "$RUN_SUITE" ./jest a.test.js'
    check = Check(
        script=script,
        files=(
            TaskFile(path="jest", content=FAKE_JEST.encode(), executable=True),
            TaskFile(path="a.test.js", content=b"test('adds', () => {})\n"),
        ),
    )
    work = {".tiebreak-results.json": planted, **({"broken": ""} if broken else {})}
    task = Task(files=files_of(work), check=check)
    async with Workspace.open(task, isolation=isolation_at("bubblewrap"), scratch=tmp_path) as workspace:
        verdict = await workspace.verify(check)

    assert verdict.passed is not broken, verdict.output
    assert told(verdict) == {"a.test.js::adds": "missing" if broken else "passed"}


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("node --test a.js", "node"),
        ("npx --no-install jest a.js", "jest"),
        ("/node_modules/.bin/vitest run", "vitest"),
        ("go test ./...", "go"),
        ("cargo test", "cargo"),
        ("node a.js", None),
        ("make test", None),
        ("", None),
    ],
)
def test_a_runner_is_known_by_the_command_that_calls_it(typed: str, name: str | None) -> None:
    assert run_suite.runner_of(typed.split()) is (run_suite.RUNNERS[name] if name else None)


def test_runners_are_asked_to_tell_of_each_test() -> None:
    typed = {"go": "go test -v ./...", "cargo": "cargo test -q -- --include-ignored", "vitest": "npx vitest a"}
    asked = {name: run_suite.RUNNERS[name].command(words.split()) for name, words in typed.items()}

    assert asked["go"] == ["go", "test", "-json", "-count=1", "./..."]
    assert asked["cargo"] == ["cargo", "test", "--no-fail-fast", "--", "--include-ignored"]
    assert asked["vitest"] == ["npx", "vitest", "run", "a", "--reporter=json", "--outputFile=.tiebreak-results.json"]


def test_settings_may_stand_before_a_command() -> None:
    settings, words = run_suite.divided(["env", "GOPROXY=off", "GOFLAGS=-mod=mod", "go", "test", "./..."])

    assert (settings, words) == (["env", "GOPROXY=off", "GOFLAGS=-mod=mod"], ["go", "test", "./..."])
    assert run_suite.divided(["cargo", "test"]) == ([], ["cargo", "test"])


@pytest.mark.needs("bubblewrap")
async def test_a_runner_that_is_not_there_is_nobodys_fault(tmp_path: Path) -> None:
    check = Check(script='python3 -I "$RUN_SUITE" vitest run', files=files_of({"a_test.js": ""}))
    async with Workspace.open(Task(check=check), isolation=isolation_at("bubblewrap"), scratch=tmp_path) as workspace:
        verdict = await workspace.verify(check)

    assert "the check needs vitest" in verdict.problem


# --- unittest -----------------------------------------------------------------------------------------

UNITTEST = """
import unittest
from sums import double
class Doubling(unittest.TestCase):
    def test_two(self): self.assertEqual(double(2), 4)
    def test_parts(self):
        for n in (0, 1):
            with self.subTest(n=n): self.assertEqual(double(n), 2 * n)
    @unittest.skip("not now")
    def test_later(self): pass
    @unittest.expectedFailure
    def test_known(self): self.assertEqual(double(2), 5)
    def test_breaks(self): double()
def test_nothing(): assert double(0) == 0
"""


@pytest.mark.parametrize("level", LEVELS)
async def test_each_test_of_unittest_is_told(tmp_path: Path, level: str) -> None:
    script = 'python3 -I "$RUN_TESTS" tests/test_sums.py'
    tests = {"tests/test_sums.py": UNITTEST}
    check = Check(script=script, files=files_of(tests), fail_to_pass=("tests/test_sums.py::Doubling::test_two",))
    task = Task(files=files_of({"sums.py": "def double(a): return a\n"}), check=check)
    async with Workspace.open(task, isolation=isolation_at(level), scratch=tmp_path) as workspace:
        verdict = await workspace.verify(check)

    assert not verdict.passed
    assert told(verdict) == {
        "tests/test_sums.py::Doubling::test_two": "failed",
        "tests/test_sums.py::Doubling::test_parts": "failed",
        "tests/test_sums.py::Doubling::test_later": "skipped",
        "tests/test_sums.py::Doubling::test_known": "passed",
        "tests/test_sums.py::Doubling::test_breaks": "error",
        "tests/test_sums.py::test_nothing": "passed",
    }
    assert [test.id for test in verdict.tests if test.group] == ["tests/test_sums.py::Doubling::test_two"]
