"""The tests of a check, in words: how many of which kind passed, and each with what came of it."""

from __future__ import annotations

from collections.abc import Mapping

from tiebreak.core.work import Work

_GROUPS: Mapping[str, str] = {"fail_to_pass": "tests mended", "pass_to_pass": "tests kept", "": "tests passed"}
_MARKS: Mapping[str, str] = {"passed": "✓", "skipped": "–"}


def suite_summary(work: Work) -> str:
    """In a line; empty where no suite was run."""
    counts = {name: work.test_counts[name] for name in _GROUPS if name in work.test_counts}
    return ", ".join(f"{passed} of {total} {_GROUPS[name]}" for name, (passed, total) in counts.items())


def suite_lines(work: Work, most: int) -> list[str]:
    """A line for each test: those that did not pass come first."""
    ordered = sorted(work.tests, key=lambda test: (test.passed, test.group))
    lines = [f"{_MARKS.get(test.status, '✗')} {test.id}{_more(test.status, test.group)}" for test in ordered]
    return lines if len(lines) <= most else [*lines[:most], f"… and {len(lines) - most} more"]


def _more(status: str, group: str) -> str:
    words = [*([] if status == "passed" else [status]), *([group.replace("_", " ")] if group else [])]
    return f" ({', '.join(words)})" if words else ""
