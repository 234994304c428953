"""What an agent did, in words a person can follow."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from tiebreak.core.work import Step

BAD, GOOD, ASKED = "bad", "good", "asked"


def standing(step: Step) -> str:
    """How a step went, where that can be told: bad, good, asked (for help), or empty."""
    if step.kind == "error" or step.data.get("failed") or step.data.get("passed") is False:
        return BAD
    if step.kind in ("question", "permission"):
        return ASKED
    return GOOD if step.data.get("passed") or step.data.get("failed") is False else ""


def spent(step: Step) -> list[str]:
    """What a step took besides what is said in it: tokens and seconds."""
    tokens = [f"{step.data[name]:,} {words}" for name, words in _SPENT.items() if step.data.get(name)]
    return [*tokens, *([f"{step.data['seconds']:.1f} s"] if step.data.get("seconds") else [])]


_SPENT = {"input_tokens": "tokens in", "output_tokens": "tokens out"}
_COMMANDS = ("command", "cmd", "bash_command", "script")
_SHORT = 100
_LONGEST = 4_000


def call_in_words(name: str, arguments: str) -> str:
    """A tool call: a command as one types it, anything else as its name and what it was given."""
    try:
        given = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        return f"{name} {arguments[:_LONGEST]}".rstrip()
    if not isinstance(given, dict):
        return f"{name} {arguments[:_LONGEST]}".rstrip()
    key = next((key for key in _COMMANDS if given.get(key)), None)
    if key is None:
        return _named(name, given)
    rest = {other: value for other, value in given.items() if other != key}
    return f"$ {_command(given[key])}" + (f"\n{_named(name, rest)}" if rest else "")


def _command(given: Any) -> str:
    words = shlex.join(map(str, given)) if isinstance(given, list) else str(given)
    return words[:_LONGEST]


def _named(name: str, given: Mapping[str, Any]) -> str:
    """The name with short values beside it and long ones below, each under its own name."""
    texts = {key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in given.items()}
    short = [f"{key}={text}" for key, text in texts.items() if _is_short(text)]
    long = [f"{key}:\n{_indented(text)}" for key, text in texts.items() if not _is_short(text)]
    return "\n".join([" ".join([name, *short]), *long])


def _is_short(text: str) -> bool:
    return len(text) <= _SHORT and "\n" not in text


def _indented(text: str) -> str:
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return "\n".join(f"    {line}" for line in cut.splitlines())
