"""Your own function as a scorer: `--scorer module:function`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from tiebreak.core.errors import ScorerError, UsageError
from tiebreak.core.own_thread import OwnThread
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output, Score
from tiebreak.scorers.own_functions import called

_CALL = "function(sample, text)"


class Function:
    """Calls `function(sample, text)`, plain or async; it returns right or wrong, a number from 0 to 1, or a Score."""

    version: ClassVar[int] = 1

    def __init__(self, function: Callable[..., Any]) -> None:
        name = getattr(function, "__name__", repr(function))
        if not callable(function):
            raise UsageError(f"the scorer {name!s:.80} is no function, but {type(function).__name__}; it is called as {_CALL}")
        try:
            inspect.signature(function).bind("sample", "text")
        except TypeError as error:
            raise UsageError(f"the scorer {name} must take a sample and a text, as in {_CALL}: {error}") from None
        except ValueError:
            pass  # Some functions of C cannot be looked into.
        self._function = function
        self._thread = OwnThread()

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Call the function. What it raises is its own fault, not the model's: the trial has no score."""
        name = getattr(self._function, "__name__", "the function")
        value = await called(f"the scorer {name}", self._thread, self._function, sample, output.text)
        if isinstance(value, Score):
            return value
        if not isinstance(value, (bool, int, float)) or not 0 <= value <= 1:
            raise ScorerError(f"the scorer {name} returned {value!r:.80}; it should be right or wrong, or a number from 0 to 1")
        return Score(value=float(value), answer=output.text.strip()[:200] or None, because=f"by {name}")
