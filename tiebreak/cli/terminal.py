"""Text on its way to a terminal: what models, agents, datasets and servers wrote is shown, and never obeyed."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

PIPE_WIDTH = 80
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
"""What moves the cursor, sets a title or a clipboard, or has words shown in another order; lines and tabs stay."""


def harmless(text: str) -> str:
    """A text that a terminal only shows: what would act on it is spelled out."""
    return _CONTROL.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def harmless_json(data: bytes) -> bytes:
    """JSON that says the same and acts on no terminal. Such characters stand in strings alone, and can be escaped there."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _CONTROL.sub(_escaped, data.decode()).encode()


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\u{unit:04x}" for unit in _utf16(found[0]))


def _utf16(character: str) -> Iterable[int]:
    data = character.encode("utf-16-be")
    return (int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2))


def echo(text: str, *, err: bool = False) -> None:
    """A line on standard output, or on standard error."""
    click.echo(harmless(text), err=err)


@cache
def _console_class() -> type[RichConsole]:
    from rich.console import Console as RichConsole
    from rich.segment import Segment

    class SafeConsole(RichConsole):
        """Whatever is drawn, and however it got there, its words are harmless; control codes are rich's own."""

        def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                acts = segment.control is None and _CONTROL.search(segment.text)
                yield Segment(harmless(segment.text), segment.style) if acts else segment

    return SafeConsole


def make_console(*, to_stderr: bool) -> RichConsole:
    """A console of rich's that obeys nobody's words; in a pipe it is as wide as COLUMNS says, whatever terminal is near."""
    console = _console_class()(stderr=to_stderr, highlight=False, soft_wrap=False)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console.width = PIPE_WIDTH
    return console


class HarmlessFormatter(logging.Formatter):
    """For what the program logs: an error's text may be somebody else's."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's text, harmless."""
        return harmless(super().format(record))
