"""Messages of the engine and the store fit whoever drives the run: the command, a batch, or Python."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "tiebreak"
TRANSLATED = {"folder.py"}
"""Errors that end a command line; Python's front door spells them as keywords."""


@pytest.mark.parametrize("room", ["engine", "report", "store"])
def test_no_message_takes_resume_for_a_flag(room: str) -> None:
    """`tiebreak.resume` is a function, and `batch` has the flag too: these rooms do not know which is at hand."""
    files = [path for path in (ROOT / room).rglob("*.py") if path.name not in TRANSLATED]
    assert [path.name for path in files if "--resume" in path.read_text(encoding="utf-8")] == []
