"""Functions of the user's that judge: called so that whatever they do is their own trial's failure."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from tiebreak.core.errors import ScorerError
from tiebreak.core.own_thread import OwnThread, TookTooLong

LONGEST_S = 60.0
LONGEST_ASYNC_S = 600.0
"""Longer, because it waits for others: for a model, as a rule."""


async def called(what: str, thread: OwnThread, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the user's returns, plain or async; an error of its own where it raises, or takes too long."""
    waiting = asyncio.timeout(LONGEST_ASYNC_S)
    try:
        is_async = inspect.iscoroutinefunction(function)
        said = function(*arguments) if is_async else await thread.call(partial(function, *arguments), LONGEST_S)
        if not inspect.isawaitable(said):
            return said
        async with waiting:
            return await said
    except TookTooLong:
        raise ScorerError(f"{what} took longer than {LONGEST_S:g} s") from None
    except (Exception, SystemExit) as error:
        if isinstance(error, TimeoutError) and waiting.expired():
            raise ScorerError(f"{what} took longer than {LONGEST_ASYNC_S:g} s") from None
        raise ScorerError(f"{what} raised {type(error).__name__}: {error}") from error
