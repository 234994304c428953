"""Runs real pytest on work that it shares an interpreter with, and believes none of what the work could forge.

    python3 -I "$RUN_PYTEST" [OPTION…] [FILE…] [-- ARGUMENT…]      in a check's script; without files, those of the named tests

Pytest runs where the work is, in two processes that have never seen this one. Each test runs once as it is and once as a
twin that must fail (twins.py); which is which is drawn for each process. A test has passed when it did as itself and
failed as its twin. When all have passed, the tests to be mended are drawn again, twice: work that guesses which is which
would have to guess right each time. Settings, conftest.py and all other files of the check are the check's own.

Where a task names tests, only those are run.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import importlib.util
import json
import random
import socket
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HELPERS = Path(__file__).resolve().parent
_MISSING_PROGRAM = 127
_SHOWN = 20
_LONGEST_OUTPUT = 3_000
PASSED, SKIPPED, FORGED, MISSING = "passed", "skipped", "forged", "missing"
_RUNS = 2
DRAWS = 3
"""So often it is drawn which process has which twin. One guess is right in one of four cases, three in one of 64."""
_SPARE_DRAWS = 1


def helper(name: str) -> Any:
    """A module that lies beside this one, where `python3 -I` does not look."""
    spec = importlib.util.spec_from_file_location(name, _HELPERS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Session:
    """What one process of pytest told."""

    twins: Mapping[str, Collection[str]]
    """By file, the tests that were replaced by their twins."""
    tests: Collection[str] = ()
    """The tests it was to run; all where none is named."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    ended: dict[str, Any] = field(default_factory=dict)
    """How the process ended."""
    to_first_failure: bool = False
    """Whether it is ended once a test has failed that it was to run."""
    cut_short: bool = False
    """Whether it was ended for that."""

    def hear(self, lines: Iterable[bytes]) -> None:
        """Take note of what is told, until nothing more is to be known."""
        for line in filter(None, map(_parsed, lines)):
            self.lines.append(line)
            test = line.get("test")
            if self.to_first_failure and test in self.tests and line.get("outcome") == "failed" and not self.is_twin(str(test)):
                self.cut_short = True
                return

    def was_to_run(self, test: str) -> bool:
        """Whether a test was asked for."""
        return not self.tests or test in self.tests

    def is_twin(self, test: str) -> bool:
        """Whether a test was a twin in this process."""
        file, _, name = test.partition("::")
        return name.partition("[")[0] in self.twins.get(file, ())

    def outcomes(self) -> dict[str, tuple[str, str]]:
        """Of each test what came of it, and why it failed."""
        parts: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in self.lines:
            if isinstance(line.get("test"), str) and line.get("outcome") != "rerun":
                parts[line["test"]].append(line)
        return {test: _outcome(told) for test, told in parts.items()}

    def first(self, name: str) -> Any:
        """The first line that says something; None where none does."""
        return next((line[name] for line in self.lines if name in line), None)


def _outcome(told: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """What the parts of a test come to: setup, the test itself, teardown."""
    names = [part.get("part") for part in told]
    if len(names) != len(set(map(str, names))):
        return FORGED, "it was reported more than once"
    by_name = {str(part.get("part")): part for part in told}
    failed = next((part for part in told if part.get("outcome") == "failed"), None)
    if failed is not None:
        return ("failed" if failed.get("part") == "call" else "error"), str(failed.get("reason", ""))
    if any(part.get("outcome") == SKIPPED for part in told):
        return SKIPPED, ""
    complete = set(by_name) == {"setup", "call", "teardown"} and all(part.get("outcome") == PASSED for part in told)
    return (PASSED, "") if complete else ("error", "it did not come to its end")


@dataclass(frozen=True)
class Asked:
    """What a check asks for."""

    files: list[str]
    more: list[str]
    """Arguments for pytest itself."""
    wanted: list[str]
    """The tests that are to pass; none where all are."""
    mended: list[str]
    """Those among them that did not pass at the start."""
    draws: int
    """0: without twins, what pytest reports is believed. For trying work that is one's own."""
    verdict: bool
    """Nothing but the verdict matters: what has decided it ends the run."""

    @property
    def rounds(self) -> list[list[str]]:
        """The tests of each draw: all once, those that were mended as often as anything is drawn."""
        again = [self.mended or self.wanted] * (self.draws - 1)
        return [*again, self.wanted] if self.verdict else [self.wanted, *again]


def asked(words: Sequence[str], suite: Mapping[str, Any]) -> Asked:
    """Take a check's words apart. Files without any of the named tests are left out."""
    place = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(prog="run_pytest", allow_abbrev=False)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--verdict", action="store_true")
    given = parser.parse_args(words[:place])
    wanted = [*suite["fail_to_pass"], *suite["pass_to_pass"]]
    named = list(dict.fromkeys(test.partition("::")[0] for test in wanted))
    files = [file for file in given.files if not wanted or file in named or file not in suite["files"]]
    more, mended = list(words[place + 1 :]), list(suite["fail_to_pass"])
    return Asked(files or named, more, wanted, mended, given.draws, given.verdict)


def main() -> int:
    """Run the tests; 0 when all that are to pass have passed."""
    suite = json.loads((_HELPERS / "suite.json").read_text(encoding="utf-8"))
    ask = asked(sys.argv[1:], suite)
    unknown = [file for file in ask.files if file not in suite["files"]]
    if unknown or not ask.files:
        sys.stderr.write(f"run_pytest: {', '.join(unknown) or 'no file of tests'}: tests must be files of the check\n")
        return 2
    sessions = drawn(suite, ask)
    if sessions[0].first("missing"):
        sys.stderr.write(f"{sessions[0].first('missing')}: command not found\n")
        return _MISSING_PROGRAM
    results = judged(sessions, ask.wanted or defined(ask.files, sessions))
    decisive = ask.wanted or decisive_tests(suite, results)
    tell(suite, results)
    show(sessions, results, decisive)
    return 0 if all_passed(results, decisive) else 1


def all_passed(results: Mapping[str, tuple[str, str]], tests: Sequence[str]) -> bool:
    """Whether there are tests, and none that did not pass."""
    return bool(tests) and all(results[test][0] == PASSED for test in tests)


def drawn(suite: Mapping[str, Any], ask: Asked) -> list[Session]:
    """What the processes of all draws told; the first draw that does not pass is the last.

    One of the later draws may be made again, where nothing was forged: tests that fail now and then, on a busy machine,
    are no more likely to fail for being run more often.
    """
    if not ask.draws:
        return run_at_once(suite, ask, ask.wanted, [{}])
    sessions, rounds, spare = list[Session](), deque(ask.rounds), _SPARE_DRAWS
    while rounds:
        told = run_twice(suite, ask, rounds[0])
        results = judged(told, rounds[0] or defined(ask.files, told))
        if all_passed(results, rounds[0] or decisive_tests(suite, results)):
            sessions += told
            rounds.popleft()
        elif sessions and spare and not any(status == FORGED for status, _ in results.values()):
            spare -= 1
        else:
            return sessions + told
    return sessions


def run_twice(suite: Mapping[str, Any], ask: Asked, tests: Sequence[str]) -> list[Session]:
    """Two processes, in each of which the other half of the tests is replaced by twins."""
    halves = drawn_halves(ask.files)
    if not ask.verdict:
        return run_at_once(suite, ask, tests, halves)
    first = run_at_once(suite, ask, tests, halves[:1])
    own = {test: result for test, result in first[0].outcomes().items() if not first[0].is_twin(test)}
    wrong = any(own.get(test, ("failed", ""))[0] != PASSED for test in tests or own if not first[0].is_twin(test))
    return first if wrong else first + run_at_once(suite, ask, tests, halves[1:])


_Half = Mapping[str, tuple[str, list[str]]]
"""By file, its text with some tests replaced by twins, and which those are."""


def drawn_halves(files: Sequence[str]) -> list[_Half]:
    """The files twice: each test that can have a twin is itself in one of them, and its twin in the other."""
    twins = helper("twins")
    halves: list[dict[str, tuple[str, list[str]]]] = [{}, {}]
    for file in (file for file in files if file.endswith(".py")):
        source = Path(file).read_text(encoding="utf-8", errors="replace")
        names = twins.test_functions(source)
        first = {name for name in names if random.SystemRandom().random() < 1 / _RUNS}
        for half, chosen in zip(halves, (first, set(names) - first), strict=True):
            half[file] = twins.twinned(source, chosen)
    return list(halves)


def run_at_once(suite: Mapping[str, Any], ask: Asked, tests: Sequence[str], halves: Sequence[_Half]) -> list[Session]:
    """A process for each of these halves, side by side; only these tests, or all."""
    client = helper("work_client")
    named = frozenset(tests)
    sessions = [
        Session({file: names for file, (_, names) in half.items()}, named, to_first_failure=ask.verdict) for half in halves
    ]
    threads = []
    for session, half in zip(sessions, halves, strict=True):
        texts = {file: text for file, (text, _) in half.items()}
        words = [*_holding(ask.files, tests), *ask.more]
        threads.append(threading.Thread(target=_run, args=(session, client, suite, texts, words)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return sessions


def _holding(files: Sequence[str], tests: Sequence[str]) -> list[str]:
    """The files that hold some of these tests; all of them where no test is named."""
    return [file for file in files if not tests or any(test.startswith(f"{file}::") for test in tests)] or list(files)


def _run(session: Session, client: Any, suite: Mapping[str, Any], texts: Mapping[str, str], words: Sequence[str]) -> None:
    """One process: hand its files over, then listen until it has ended."""
    ours, theirs = socket.socketpair()
    laid = {file: base64.b64encode(text.encode()).decode() for file, text in texts.items()}
    config, content = suite["config"]
    request = {
        "inputs": [file for file in suite["files"] if file not in texts],
        "files": {**laid, config: base64.b64encode(content.encode()).decode()},
        "program": "pytest_guest.py",
        "argv": ["--", "-c", config, "--rootdir=.", "-o", "cache_dir=/tmp/cache", *words],
    }
    told = {"own": suite["own"], "scripts": suite["scripts"], "tests": list(session.tests)}
    with client.send("suite", theirs) as answer:
        theirs.close()
        answer.sendall(json.dumps(request).encode())
        answer.shutdown(socket.SHUT_WR)
        # A process that ended before it has heard everything says so by its end; one that nobody hears any more ends soon.
        with ours, contextlib.suppress(OSError):
            ours.sendall(json.dumps(told).encode() + b"\n")
            with ours.makefile("rb") as lines:
                session.hear(lines)
        session.ended = json.loads(answer.makefile("rb").read() or b"{}")


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def judged(sessions: Sequence[Session], wanted: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Of every test what is to be believed, and why it did not pass."""
    told = [(session, session.outcomes()) for session in sessions]
    tests = dict.fromkeys((*wanted, *(test for _, outcomes in told for test in outcomes)))
    return {test: _believed(test, [each for each in told if each[0].was_to_run(test)]) for test in tests}


def _believed(test: str, told: Sequence[tuple[Session, Mapping[str, tuple[str, str]]]]) -> tuple[str, str]:
    nothing = (MISSING, "it was not run")
    own = [outcomes.get(test, nothing) for session, outcomes in told if not session.is_twin(test)] or [nothing]
    twins = [outcomes.get(test, nothing) for session, outcomes in told if session.is_twin(test)]
    failing = next((each for each in own if each[0] != PASSED), None)
    if failing is not None:
        return failing
    if any(status in (PASSED, FORGED) for status, _ in twins):
        return FORGED, "its twin, which claims the opposite, passed as well: the work meddles with its tests"
    if any(status not in ("failed", "error") for status, _ in twins):
        return MISSING, "its twin did not come to its end"
    return PASSED, ""


def defined(files: Sequence[str], sessions: Sequence[Session]) -> list[str]:
    """Tests that the files define and that nobody reported: something kept them from being run."""
    known = {test.partition("[")[0] for session in sessions for test in session.outcomes()}
    twins = helper("twins")
    sources = {file: Path(file).read_text(encoding="utf-8", errors="replace") for file in files if file.endswith(".py")}
    tests = [f"{file}::{name}" for file, source in sources.items() for name in twins.test_functions(source)]
    return [test for test in tests if test not in known]


def decisive_tests(suite: Mapping[str, Any], results: Mapping[str, tuple[str, str]]) -> list[str]:
    """The tests that decide where none is named: all but those that the check's own files skip."""
    if any("skip" in Path(file).read_text(encoding="utf-8", errors="replace") for file in suite["files"] if "conftest" in file):
        return [test for test, (status, _) in results.items() if status != SKIPPED]
    twins = helper("twins")
    excused = {
        f"{file}::{name}"
        for file in {test.partition("::")[0] for test in results}
        if file.endswith(".py") and file in suite["files"]
        for name in twins.excused(Path(file).read_text(encoding="utf-8", errors="replace"))
    }
    return [test for test, (status, _) in results.items() if status != SKIPPED or test.partition("[")[0] not in excused]


def tell(suite: Mapping[str, Any], results: Mapping[str, tuple[str, str]]) -> None:
    """Report each test to the judge, for people to look at."""
    group = {test: name for name in ("fail_to_pass", "pass_to_pass") for test in suite[name]}
    rows = [{"id": test, "status": status, "group": group.get(test, "")} for test, (status, _) in results.items()]
    helper("work_client").report(rows)


def show(sessions: Sequence[Session], results: Mapping[str, tuple[str, str]], decisive: Sequence[str]) -> None:
    """What a person, or an agent, needs to know of what failed."""
    failing = {test: results[test] for test in decisive if results[test][0] != PASSED}
    for session in sessions:
        for line in session.lines:
            if "file" in line:
                failing.setdefault(str(line["file"]), ("error", str(line.get("reason", ""))))
    for test, (status, reason) in list(failing.items())[:_SHOWN]:
        sys.stdout.write(f"{status.upper()} {test}\n{reason.strip()}\n\n")
    early = next((session.ended for session in sessions if session.first("end") is None and not session.cut_short), None)
    if early is not None:
        words = [str(early.get(name) or "")[-_LONGEST_OUTPUT:] for name in ("refused", "output", "errors", "ended_by")]
        sys.stdout.write("\n".join(["pytest did not come to its end", *filter(None, words), ""]))
    passed = sum(results[test][0] == PASSED for test in decisive)
    sys.stdout.write(f"{passed} of {len(decisive)} tests passed\n")


if __name__ == "__main__":
    sys.exit(main())
