"""What differs from the files a task began with: counted without trusting anything in the workspace, git least of all."""

from __future__ import annotations

import difflib
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tiebreak.core.task import TaskFile
from tiebreak.core.work import Changes
from tiebreak.sandbox.shortest_edit import shortest_edit
from tiebreak.sandbox.tree import Entry, found_at, walk

BY_PRODUCTS = frozenset({".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
"""What tools leave behind: not work. Nothing in them counts as changed, and checks are run without the caches."""
_LISTED = 1000
_MOST_TEXT = 2 << 20
"""Larger files are listed; their lines are not counted."""
_MOST_READ = 64 << 20
_MOST_LINES = 500_000
"""Lines looked at one by one; of further files only their number is known."""
_MOST_DIFF = 200_000
_UNSHOWN = "{}: binary, or too large to be shown\n"
_TOO_MANY = "{}: too many lines changed to be shown\n"
Opcode = tuple[str, int, int, int, int]
"""What becomes of lines begin to end of the old text, and which lines of the new one take their place; as difflib has it."""


def differences(root: Path, start: Mapping[str, TaskFile]) -> Changes:
    """Everything new, changed or deleted below a folder."""
    tally = _Tally()
    seen = set()
    for entry in walk(root, skip=BY_PRODUCTS):
        if entry.kind != stat.S_IFDIR:
            seen.add(entry.path)
            tally.compare(entry, start.get(entry.path))
    for path in sorted(start.keys() - seen):
        # A very full folder is not walked to its end: a file that was not met may be there. Behind a link it is not.
        with found_at(root, path) as found:
            if found is None or found.kind != stat.S_IFREG:
                tally.add(path, start[path].content, b"")
            else:
                tally.compare(found, start[path])
    return tally.changes()


class _Tally:
    """Differences found so far."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._added = self._removed = 0
        self._left = _MOST_READ
        self._room = 8 * _MOST_DIFF
        self._lines_left = _MOST_LINES

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
        if not (_is_text(old) and _is_text(new)):
            self._found[path] = _UNSHOWN.format(_shown(path))
            return
        self._lines_left -= old.count(b"\n") + new.count(b"\n")
        diff, added, removed = (_compared if self._lines_left > 0 else _counted)(_shown(path), old, new)
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


def _is_text(content: bytes) -> bool:
    return len(content) <= _MOST_TEXT and b"\0" not in content[:8000]


def _lines(content: bytes) -> list[str]:
    pieces = content.decode("utf-8", "replace").split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _compared(name: str, old: bytes, new: bytes) -> tuple[str, int, int]:
    """The difference of two texts, and how many lines were added and removed."""
    before, after = _lines(old), _lines(new)
    edit = shortest_edit(before, after)
    if edit is None:
        had, has = Counter(before), Counter(after)
        return _TOO_MANY.format(name), (has - had).total(), (had - has).total()
    lines = _unified(name, before, after, edit)
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return text, sum(end - begin for _, _, _, begin, end in edit), sum(end - begin for _, begin, end, _, _ in edit)


def _counted(name: str, old: bytes, new: bytes) -> tuple[str, int, int]:
    """By how many lines a text became longer or shorter."""
    grown = new.count(b"\n") - old.count(b"\n")
    return _TOO_MANY.format(name), max(0, grown), max(0, -grown)


def _unified(name: str, before: list[str], after: list[str], edit: list[Opcode]) -> Iterator[str]:
    matcher = _Edited(_with_equal_parts(edit, len(before), len(after)))
    yield from (f"--- a/{name}\n", f"+++ b/{name}\n")
    for group in matcher.get_grouped_opcodes():
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
        for tag, old_begin, old_end, new_begin, new_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[old_begin:old_end])
            else:
                yield from (f"-{line}" for line in before[old_begin:old_end])
                yield from (f"+{line}" for line in after[new_begin:new_end])


class _Edited(difflib.SequenceMatcher[str]):
    """Groups an edit that is known already with the lines around it."""

    def __init__(self, opcodes: list[Opcode]) -> None:
        super().__init__()
        self._opcodes = opcodes

    def get_opcodes(self) -> Any:
        """The edit, with what stays."""
        return self._opcodes


def _with_equal_parts(edit: list[Opcode], before: int, after: int) -> list[Opcode]:
    parts, old, new = list[Opcode](), 0, 0
    for change in (*edit, ("end", before, before, after, after)):
        if change[1] > old:
            parts.append(("equal", old, change[1], new, change[3]))
        parts += [change] if change[0] != "end" else []
        old, new = change[2], change[4]
    return parts


def _range(begin: int, end: int) -> str:
    """Lines as unified diffs name them: from 1, and by the line before where there are none."""
    length = end - begin
    return f"{begin + (length > 0)}" if length == 1 else f"{begin + (length > 0)},{length}"


def cut(text: str, most: int) -> str:
    """A text with its middle left out where it is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _shown(path: str) -> str:
    """A path as text: bytes that are none are spelled out."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
