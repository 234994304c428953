"""Every way a trial can end is in the table, and the documentation says the same."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

from tiebreak.core.endings import FAILURES, OUTCOMES, WORK
from tiebreak.core.errors import FailureKind
from tiebreak.core.trial import Outcome
from tiebreak.core.work import WorkOutcome

DOCS = Path(__file__).parents[2] / "docs" / "concepts.md"


@pytest.mark.parametrize(("kind", "table"), [(Outcome, OUTCOMES), (FailureKind, FAILURES), (WorkOutcome, WORK)])
def test_every_ending_is_decided(kind: type[StrEnum], table: dict[StrEnum, str]) -> None:
    assert set(table) == set(kind)


@pytest.mark.parametrize(
    ("heading", "table"), [("outcome", OUTCOMES), ("kind of failure", FAILURES), ("end of a coding task", WORK)]
)
def test_the_documented_table_is_the_one_in_force(heading: str, table: dict[StrEnum, str]) -> None:
    assert documented(heading) == {name.value: counts.value for name, counts in table.items()}


def documented(heading: str) -> dict[str, str]:
    """A table of the documentation: each name in its first column, with what the last column says of it."""
    text = DOCS.read_text(encoding="utf-8")
    body = text[text.index(f"| {heading} |") :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in body]
    return {name: row[-1] for row in cells for name in re.findall(r"`(\w+)`", row[0])}
