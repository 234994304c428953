"""What differs from the files a task began with: counted without trusting anything in the workspace, git least of all."""

from __future__ import annotations

import difflib
import stat
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tiebreak.core.task import TaskFile
from tiebreak.core.work import Changes
from tiebreak.sandbox.tree import Entry, read_file, walk

BY_PRODUCTS = frozenset({".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
"""What tools leave behind: not work. Nothing in them counts as changed, and checks are run without the caches."""
_LISTED = 1000
_MOST_TEXT = 2 << 20
"""Larger files are listed; their lines are not counted."""
_MOST_READ = 64 << 20
_MOST_DIFF = 200_000
_UNSHOWN = "{}: binary, or too large to be shown\n"
_MOST_COMPARED = 4_000_000
"""Pairs of lines compared to find the shortest difference; above, lines are counted as a heap."""


def differences(root: Path, start: Mapping[str, TaskFile]) -> Changes:
    """Everything new, changed or deleted below a folder."""
    tally = _Tally()
    seen = set()
    for entry in walk(root, skip=BY_PRODUCTS):
        if entry.kind != stat.S_IFDIR:
            seen.add(entry.path)
            tally.compare(entry, start.get(entry.path))
    for path in start.keys() - seen:
        if not _there(root, path):
            tally.add(path, start[path].content, b"")
    return tally.changes()


def _there(root: Path, path: str) -> bool:
    """A very full folder is not walked to its end, so that a file that was not met may still be there."""
    try:
        read_file(root, path, 1)
    except OSError:
        return False
    return True


class _Tally:
    """Differences found so far."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._added = self._removed = 0
        self._left = _MOST_READ
        self._room = 8 * _MOST_DIFF

    def compare(self, entry: Entry, before: TaskFile | None) -> None:
        """One file that is there now."""
        same_size = before is not None and entry.kind == stat.S_IFREG and entry.size == len(before.content)
        content = self._content(entry, entry.size if same_size else _MOST_TEXT)
        if content is None:
            self._found[entry.path] = _UNSHOWN.format(_shown(entry.path))
        elif not (before is not None and same_size and content == before.content):
            self.add(entry.path, before.content if before else b"", content)
        elif entry.executable != before.executable:
            self._found[entry.path] = f"{_shown(entry.path)}: may {'now' if entry.executable else 'no longer'} be executed\n"

    def _content(self, entry: Entry, most_bytes: int) -> bytes | None:
        """None for what is too large, or cannot be read."""
        if entry.size > min(most_bytes, self._left):
            return None
        self._left -= entry.size
        try:
            return entry.read(most_bytes)
        except OSError:
            return None

    def add(self, path: str, old: bytes, new: bytes) -> None:
        """One difference; a file that is not there counts as empty."""
        before, after = _lines(old), _lines(new)
        if before is None or after is None:
            self._found[path] = _UNSHOWN.format(_shown(path))
            return
        diff, added, removed = _compared(_shown(path), before, after)
        self._added += added
        self._removed += removed
        self._found[path] = diff if self._room > 0 else ""
        self._room -= len(diff)

    def changes(self) -> Changes:
        """All of it."""
        paths = sorted(self._found)
        diff = "".join(self._found[path] for path in paths)
        return Changes(
            files=tuple(_shown(path) for path in paths[:_LISTED]),
            files_changed=len(paths),
            lines_added=self._added,
            lines_removed=self._removed,
            diff=cut(diff, _MOST_DIFF),
        )


def _lines(content: bytes) -> list[str] | None:
    """The lines of a text; None for what is none."""
    if len(content) > _MOST_TEXT or b"\0" in content[:8000]:
        return None
    pieces = content.decode("utf-8", "replace").split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _compared(name: str, before: list[str], after: list[str]) -> tuple[str, int, int]:
    first = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after)))
    if (len(before) - first) * (len(after) - first) > _MOST_COMPARED:
        old, new = Counter(before), Counter(after)
        return f"{name}: too many lines changed to be shown\n", (new - old).total(), (old - new).total()
    lines = list(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))
    marks = Counter(line[0] for line in lines[2:])
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return text, marks["+"], marks["-"]


def cut(text: str, most: int) -> str:
    """A text with its middle left out where it is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _shown(path: str) -> str:
    """A path as text: bytes that are none are spelled out."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
