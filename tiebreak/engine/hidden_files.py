"""What an agent is shown of a failed check: never a line of the files that are hidden from it."""

from __future__ import annotations

from tiebreak.core.task import Task

_SHORTEST = 8
"""Shorter lines, such as `pass` or a bracket, are in every text and tell nothing."""
_HIDDEN = "[a line of a hidden file]"


def without_hidden_lines(text: str, task: Task) -> str:
    """A check's output with every line that quotes the check's own files or script replaced."""
    secret = _hidden_lines(task)
    if not secret:
        return text
    lines = [_HIDDEN if any(line in shown for line in secret) else shown for shown in text.splitlines()]
    # One mark stands for any number of lines in a row.
    return "\n".join(line for place, line in enumerate(lines) if line != _HIDDEN or place == 0 or lines[place - 1] != _HIDDEN)


def _hidden_lines(task: Task) -> frozenset[str]:
    if task.check is None:
        return frozenset()
    hidden = _lines([task.check.script.encode(), *(file.content for file in task.check.files)])
    return hidden - _lines([file.content for file in task.files])


def _lines(contents: list[bytes]) -> frozenset[str]:
    texts = (content.decode("utf-8", "replace") for content in contents)
    return frozenset(line.strip() for text in texts for line in text.splitlines() if len(line.strip()) >= _SHORTEST)
