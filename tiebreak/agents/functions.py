"""Tools that are Python functions of the user's own, out of a file named on the command line."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from tiebreak.core.errors import UsageError
from tiebreak.core.message import Message, TextPart, ToolCall
from tiebreak.core.own_thread import in_thread

Functions = Mapping[str, Callable[..., Any]]
LONGEST_S = 30.0
MOST_CHARACTERS = 100_000
"""Of a result: what is longer is cut, for it is sent with every further request."""


def functions_of(module: ModuleType) -> Functions:
    """The functions that a file defines, by name; what it imports, its classes, and names with _ are its own business.

    What they print goes to standard error: standard output may be read by a program.
    """
    vars(module).setdefault("print", partial(print, file=sys.stderr))
    found = {name: value for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")}
    own = {name: value for name, value in found.items() if value.__module__ == module.__name__}
    if not own:
        raise UsageError(f"{module.__file__} defines no function that could answer a tool; each is called as its tool is")
    return own


async def call_function(call: ToolCall, function: Callable[..., Any]) -> Message:
    """The result of a call as the model reads it; what goes wrong is told to it too."""
    arguments = call.parsed()
    if arguments is None:
        return told(call, "the arguments are no JSON object", failed=True)
    try:
        result = await asyncio.wait_for(_called(function, arguments), LONGEST_S)
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    except TimeoutError:
        return told(call, f"{call.name} took longer than {LONGEST_S:g} s", failed=True)
    except (Exception, SystemExit) as error:
        return told(call, f"{type(error).__name__}: {error}", failed=True)
    return told(call, text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} … (cut)")


def told(call: ToolCall, text: str, *, failed: bool = False) -> Message:
    """What a tool says."""
    return Message(role="tool", parts=(TextPart(text),), tool_call_id=call.id, failed=failed)


async def _called(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    return await in_thread(lambda: function(**arguments))
