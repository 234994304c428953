"""A person at the terminal who helps agents, and permits them to act."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from string import ascii_lowercase

import click

from tiebreak.cli.console import Console
from tiebreak.core.sample import Sample
from tiebreak.core.work import PermissionOption, PermissionRequest, Verdict, Workspace

_LONGEST_DETAILS = 1_500


class AtTerminal:
    """A person at the terminal who helps an agent that got stuck, and permits it to act."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def answer(self, sample: Sample, said: str, verdict: Verdict, workspace: Workspace) -> str | None:
        """Show where the agent got to, and ask what to say to it."""
        self._console.line(f"\n{sample.id}: the check does not pass.", style="bold")
        for title, text in (("The agent said", said), ("The check said", verdict.output)):
            if text.strip():
                self._console.line(f"{title}:", style="dim")
                self._console.line(text.strip()[-1500:])
        self._console.line(f"The workspace: {workspace.folder}  (files may be changed by hand now)", style="dim")
        return await asyncio.to_thread(_typed, "What to tell the agent (empty: nothing more)") or None

    async def permit(self, sample: Sample, request: PermissionRequest) -> PermissionOption | None:
        """Show what the agent wants to do, and ask which of its options to take."""
        what = f"{request.kind}: {request.title}" if request.kind else request.title
        self._console.line(f"\n{sample.id}: the agent asks for permission to act.", style="bold")
        self._console.line(_cut(what, 300))
        if request.details.strip():
            self._console.line(_cut(request.details.strip(), _LONGEST_DETAILS), style="dim")
        options = request.options[: len(ascii_lowercase)]
        for number, option in enumerate(options):
            self._console.line(f"  {number + 1} or {ascii_lowercase[number]}  {_cut(option.name or option.kind, 100)}")
        return await asyncio.to_thread(_chosen, options, self._console)


def _typed(question: str) -> str | None:
    """What the person types; None at the end of the input."""
    try:
        return str(click.prompt(question, default="", show_default=False, err=True)).strip()
    except (click.Abort, EOFError):
        return None


def _chosen(options: Sequence[PermissionOption], console: Console) -> PermissionOption | None:
    """The option whose number or letter the person types; an empty line allows, the end of the input refuses."""
    allowing = next((number for number, option in enumerate(options) if option.allows), None)
    empty = "refuse" if allowing is None else f"{allowing + 1}, allow"
    known = {name: option for number, option in enumerate(options) for name in (str(number + 1), ascii_lowercase[number])}
    while typed := _typed(f"Which (empty: {empty}; Ctrl-D: refuse)"):
        if typed.lower() in known:
            return known[typed.lower()]
        console.line(f"There is no option {typed[:20]!r}: type one of {', '.join(known)}.", style="yellow")
    return None if typed is None or allowing is None else options[allowing]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"
