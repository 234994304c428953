"""Runs the tests of another language by that language's own runner, and tells how each of them went.

    python3 -I "$RUN_SUITE" node --test tests/sums.test.js      in a check's script; also cargo test, go test, jest and vitest

The runner works where the work is, with the check's own files laid over it; the check and its script are elsewhere. All
tests must pass, or those that the task names. A test that is written down in a file of the check and never reported is
missing, and has not passed: so a work that ends its tests early gains nothing. What the work tells the runner itself is
believed: see docs/tasks.md.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HELPERS = Path(__file__).resolve().parent
_MISSING_PROGRAM = 127
_LONGEST_OUTPUT = 3_000
_SHOWN = 20
PASSED, FAILED, SKIPPED, MISSING = "passed", "failed", "skipped", "missing"
_REPORTER, _RESULTS = ".tiebreak-reporter.mjs", ".tiebreak-results.json"
_SCRIPT = f"""\
pwd; rm -rf {_RESULTS}
command -v "$1" >/dev/null || {{ echo "$1: command not found" >&2; exit {_MISSING_PROGRAM}; }}
exec "$@" 2>&1
"""
"""The first line says where the work is, as runners name files by their whole paths. Results that lie there are no runner's."""
_REPORTER_SOURCE = """
import { relative } from 'node:path';
export default async function* report(events) {
  const parents = [];
  for await (const { type, data } of events) {
    if (type === 'test:start') { parents.length = data.nesting; parents[data.nesting] = data.name; }
    if (type === 'test:stdout' || type === 'test:stderr') yield JSON.stringify({ said: data.message }) + '\\n';
    if ((type !== 'test:pass' && type !== 'test:fail') || data.details?.type === 'suite') continue;
    const error = data.details?.error;
    yield JSON.stringify({
      file: data.file ? relative(process.cwd(), data.file) : '',
      whole: data.name === data.file || relative(process.cwd(), data.name) === relative(process.cwd(), data.file ?? ''),
      name: [...parents.slice(0, data.nesting), data.name].join(' > '),
      status: data.skip !== undefined || data.todo !== undefined ? 'skipped' : type === 'test:pass' ? 'passed' : 'failed',
      reason: String(error?.cause?.message ?? error?.message ?? ''),
    }) + '\\n';
  }
}
"""


@dataclass(frozen=True)
class Outcome:
    """What came of one test."""

    status: str
    reason: str = ""


Results = dict[str, Outcome]
Sources = Mapping[str, str]
"""The check's own files, as text."""


@dataclass(frozen=True)
class Ran:
    """What a runner left behind."""

    root: str
    """Where the work was."""
    code: int | None
    output: str
    results: str
    """The file of results it was asked for, where it writes one."""


@dataclass(frozen=True)
class Runner:
    """How one runner of tests is asked, and understood."""

    command: Callable[[list[str]], list[str]]
    """Its words, with those added that make it tell of each test."""
    read: Callable[[Ran, Sources], Results]
    defined: Callable[[Sources], Iterable[str]]
    """The tests that the check's files define, by the names it would report."""


def helper(name: str) -> Any:
    """A module that lies beside this one, where `python3 -I` does not look."""
    spec = importlib.util.spec_from_file_location(name, _HELPERS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main() -> int:
    """Run the tests; 0 when all that are to pass have passed."""
    settings, words = divided(sys.argv[1:])
    runner = runner_of(words)
    if runner is None:
        sys.stderr.write("run_suite: name a runner of tests: node --test, cargo test, go test, jest or vitest run\n")
        return 2
    suite = json.loads((_HELPERS / "suite.json").read_text(encoding="utf-8"))
    sources = _sources(suite["files"])
    finished = _run([*settings, *runner.command(words)], suite["files"])
    if finished.code == _MISSING_PROGRAM:
        sys.stderr.write(finished.errors)
        return _MISSING_PROGRAM
    ran = _ran(finished)
    wanted = [*suite["fail_to_pass"], *suite["pass_to_pass"]]
    results = judged(runner, ran, sources, wanted)
    _tell(suite, results)
    decisive = wanted or [test for test, outcome in results.items() if outcome.status != SKIPPED]
    _show(ran, results, decisive)
    good = bool(decisive) and all(results[test].status == PASSED for test in decisive)
    return 0 if good and (wanted or ran.code == 0) else 1


def judged(runner: Runner, ran: Ran, sources: Sources, wanted: Iterable[str]) -> Results:
    """Of each test what was told; what should have been told of and was not is missing."""
    results = runner.read(ran, sources)
    told = {test.partition("::")[0] + "::" + _last(test) for test in results}
    lost = [test for test in runner.defined(sources) if test.partition("::")[0] + "::" + _last(test) not in told]
    return {**results, **{test: Outcome(MISSING, "it was not run") for test in (*wanted, *lost) if test not in results}}


def _last(test: str) -> str:
    """A test's own name, without the groups it is in."""
    return re.split(r" > |::", test)[-1]


def _sources(files: Iterable[str]) -> dict[str, str]:
    root = Path(os.environ["CHECK_ROOT"])
    return {file: (root / file).read_text(encoding="utf-8", errors="replace") for file in files if (root / file).is_file()}


def _run(words: Sequence[str], files: Sequence[str]) -> Any:
    """Run the words where the work is, with the check's files there."""
    root = Path(os.environ["CHECK_ROOT"])
    (root / _REPORTER).write_text(_REPORTER_SOURCE, encoding="utf-8")
    (root / _RESULTS).unlink(missing_ok=True)
    inputs, argv = [str(root / name) for name in (*files, _REPORTER)], ["/bin/bash", "-c", _SCRIPT, "run_suite", *words]
    return helper("work_client").run(argv, inputs=inputs, outputs=[str(root / _RESULTS)])


def _ran(finished: Any) -> Ran:
    file = Path(os.environ["CHECK_ROOT"], _RESULTS)
    root, _, output = finished.output.partition("\n")
    ended = f"\nthe tests were ended by {finished.ended_by}\n" if finished.ended_by else ""
    results = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return Ran(root, finished.code, output + finished.errors + ended, results)


def _tell(suite: Mapping[str, Any], results: Results) -> None:
    """Report each test to the judge, for people to look at."""
    group = {test: name for name in ("fail_to_pass", "pass_to_pass") for test in suite[name]}
    rows = [{"id": test, "status": outcome.status, "group": group.get(test, "")} for test, outcome in results.items()]
    helper("work_client").report(rows)


def _show(ran: Ran, results: Results, decisive: Sequence[str]) -> None:
    """What a person, or an agent, needs to know of what failed."""
    failing = [test for test in decisive if results[test].status != PASSED]
    for test in failing[:_SHOWN]:
        sys.stdout.write(f"{results[test].status.upper()} {test}\n{results[test].reason.strip()}\n\n")
    if failing or not decisive or ran.code != 0:
        sys.stdout.write(f"{_plain(ran.output)[-_LONGEST_OUTPUT:].strip()}\n")
    sys.stdout.write(f"{len(decisive) - len(failing)} of {len(decisive)} tests passed\n")


def _plain(output: str) -> str:
    """The output as people read it: what our own reporter of node's wrote is taken apart again."""
    lines = [(line, _parsed(line)) for line in output.splitlines()]
    if not any("said" in row or "status" in row for _, row in lines):
        return output
    return "\n".join(str(row.get("said", "")).rstrip("\n") if row else line for line, row in lines if "status" not in row)


# --- node's own runner --------------------------------------------------------------------------------


def _node_command(words: list[str]) -> list[str]:
    given = [word for word in words if not word.startswith("--test-reporter")]
    return [given[0], f"--test-reporter=./{_REPORTER}", "--test-reporter-destination=stdout", *given[1:]]


def _node_results(ran: Ran, sources: Sources) -> Results:
    """Each test; a file that has tests and reports none of them has not passed, however it ended."""
    results: Results = {}
    for row in map(_parsed, ran.output.splitlines()):
        if "status" not in row:
            continue
        file, status = str(row.get("file", "")), str(row["status"])
        test = file if row.get("whole") else f"{file}::{row.get('name', '')}"
        if row.get("whole") and status == PASSED and _has_tests(sources.get(file, "")):
            results[test] = Outcome(MISSING, "the file ended before any of its tests")
        else:
            _note(results, test, Outcome(status, str(row.get("reason", ""))))
    return results


def _note(results: Results, test: str, outcome: Outcome) -> None:
    """Of two tests with one name, the one that did not pass is the one to know of."""
    known = results.get(test)
    if known is None or known.status == PASSED:
        results[test] = outcome


_SCRIPT_TEST = re.compile(r"""^[ \t]*(?:await\s+)?(?:\w+\.)?(?:test|it)\s*\(\s*(["'])((?:(?!\1)[^\\\n])+)\1""", re.MULTILINE)


def _has_tests(source: str) -> bool:
    return "node:test" in source and bool(re.search(r"\b(?:test|it)\s*\(", source))


def _script_tests(sources: Sources) -> Iterator[str]:
    """Tests of JavaScript and TypeScript that are named by a plain text."""
    for file, text in sources.items():
        if re.search(r"\.[cm]?[jt]sx?$", file):
            yield from (f"{file}::{found[2]}" for found in _SCRIPT_TEST.finditer(text))


# --- jest and vitest ----------------------------------------------------------------------------------


def _jest_command(words: list[str]) -> list[str]:
    return [*words, "--json", f"--outputFile={_RESULTS}"]


def _vitest_command(words: list[str]) -> list[str]:
    place = next(place for place, word in enumerate(words) if word.rpartition("/")[2] == "vitest")
    run = [] if "run" in words[place:] else ["run"]
    return [*words[: place + 1], *run, *(word for word in words[place + 1 :]), "--reporter=json", f"--outputFile={_RESULTS}"]


_JEST = {"passed": PASSED, "failed": FAILED}


def _jest_results(ran: Ran, sources: Sources) -> Results:
    results: Results = {}
    for file in _listed(_parsed(ran.results).get("testResults")):
        path = os.path.relpath(str(file.get("name", "")), ran.root)
        tests = _listed(file.get("assertionResults"))
        if not tests and file.get("status") == FAILED:
            results[path] = Outcome("error", str(file.get("message", "")))
        for test in tests:
            name = " > ".join(map(str, (*(test.get("ancestorTitles") or ()), test.get("title", ""))))
            reason = "\n".join(map(str, test.get("failureMessages") or ()))
            _note(results, f"{path}::{name}", Outcome(_JEST.get(str(test.get("status")), SKIPPED), reason))
    return results


def _listed(data: Any) -> list[dict[str, Any]]:
    return [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []


# --- go test ------------------------------------------------------------------------------------------

_GO = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}


def _go_command(words: list[str]) -> list[str]:
    place = words.index("test") + 1
    return [*words[:place], "-json", "-count=1", *(word for word in words[place:] if word not in ("-json", "-v"))]


def _go_results(ran: Ran, sources: Sources) -> Results:
    """Each test by its package; what is printed belongs to the test that printed it."""
    results: Results = {}
    said: dict[str, list[str]] = {}
    for row in map(_parsed, ran.output.splitlines()):
        package, name, action = str(row.get("Package", "")), str(row.get("Test", "")), str(row.get("Action", ""))
        test = f"{package}::{name}"
        if name and action == "output":
            said.setdefault(test, []).append(str(row.get("Output", "")))
        elif name and action in _GO:
            _note(results, test, Outcome(_GO[action], "".join(said.get(test, ())) if action == "fail" else ""))
        elif action == "fail" and package and not any(known.startswith(f"{package}::") for known in results):
            results[package] = Outcome("error", "the package's tests cannot be run")
    told = {_last(test) for test in results}
    lost = {name for text in _go_sources(sources) for name in _GO_TEST.findall(text) if name not in told}
    return {**results, **{f"::{name}": Outcome(MISSING, "it was not run") for name in sorted(lost)}}


_GO_TEST = re.compile(r"^func (Test[A-Z_0-9]\w*)\(\w+ \*testing\.T\)", re.MULTILINE)


def _go_sources(sources: Sources) -> Iterator[str]:
    yield from (text for file, text in sources.items() if file.endswith("_test.go"))


# --- cargo test ---------------------------------------------------------------------------------------

_CARGO_TARGET = re.compile(r"^\s+Running (?:unittests )?(\S+) \(|^\s+(Doc-tests) ")
_CARGO_TEST = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b")
_CARGO_WHY = re.compile(r"^---- (.+?) stdout ----$")
_CARGO = {"ok": PASSED, "FAILED": FAILED, "ignored": SKIPPED}
_RUST_TEST = re.compile(r"#\[(?:tokio::)?test\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\s+)?(?:async\s+)?fn\s+(\w+)")


def _cargo_command(words: list[str]) -> list[str]:
    given = [word for word in words if word not in ("-q", "--quiet")]
    place = given.index("test") + 1
    return [*given[:place], "--no-fail-fast", *(word for word in given[place:] if word != "--no-fail-fast")]


def _cargo_results(ran: Ran, sources: Sources) -> Results:
    """Each test by the file its program was made from."""
    results: Results = {}
    reasons: dict[str, list[str]] = {}
    target, failing = "", ""
    for line in ran.output.splitlines():
        if found := _CARGO_TARGET.match(line):
            target, failing = found[1] or "doc", ""
        elif found := _CARGO_TEST.match(line):
            _note(results, f"{target}::{found[1]}", Outcome(_CARGO[found[2]]))
        elif found := _CARGO_WHY.match(line):
            failing = f"{target}::{found[1]}"
        elif line.startswith(("failures:", "test result:")):
            failing = ""
        elif failing:
            reasons.setdefault(failing, []).append(line)
    return {test: Outcome(each.status, "\n".join(reasons.get(test, ()))) for test, each in results.items()}


def _rust_tests(sources: Sources) -> Iterator[str]:
    """Tests of the files that cargo makes programs of their own from."""
    for file, text in sources.items():
        if re.fullmatch(r"(?:.*/)?tests/[^/]+\.rs", file):
            yield from (f"{file}::{name}" for name in _RUST_TEST.findall(text))


# --- which runner -------------------------------------------------------------------------------------

RUNNERS: Mapping[str, Runner] = {
    "node": Runner(_node_command, _node_results, _script_tests),
    "jest": Runner(_jest_command, _jest_results, _script_tests),
    "vitest": Runner(_vitest_command, _jest_results, _script_tests),
    "go": Runner(_go_command, _go_results, lambda _: ()),
    "cargo": Runner(_cargo_command, _cargo_results, _rust_tests),
}


def divided(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command without the settings before it, as in `env GOPROXY=off go test`."""
    place = 0
    if words[:1] == ["env"]:
        place = next((place for place, word in enumerate(words) if place and "=" not in word), len(words))
    return list(words[:place]), list(words[place:])


def runner_of(words: Sequence[str]) -> Runner | None:
    """The runner that a command calls, also behind npx; None for any other command."""
    named = [word.rpartition("/")[2] for word in words if not word.startswith("-")]
    name = next(iter(named[1:] if named[:1] == ["npx"] else named), "")
    wants = {"node": "--test", "go": "test", "cargo": "test"}.get(name)
    return RUNNERS.get(name) if wants is None or wants in words else None


def _parsed(line: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


if __name__ == "__main__":
    sys.exit(main())
