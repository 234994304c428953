"""Your own function as a scorer: `--scorer module:function`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar

from tiebreak.core.errors import ScorerError
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output, Score


class Function:
    """Calls `function(sample, text)`, plain or async; it returns right or wrong, a number from 0 to 1, or a Score."""

    version: ClassVar[int] = 1

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Call the function. What it raises is its own fault, not the model's: the trial has no score."""
        name = getattr(self._function, "__name__", "the function")
        try:
            value = self._function(sample, output.text)
            if inspect.isawaitable(value):
                value = await value
        except (Exception, SystemExit) as error:
            raise ScorerError(f"the scorer {name} raised {type(error).__name__}: {error}") from error
        if isinstance(value, Score):
            return value
        if not isinstance(value, (bool, int, float)) or not math.isfinite(value):
            raise ScorerError(f"the scorer {name} returned {value!r}, which is no score")
        return Score(value=float(value), answer=output.text.strip()[:200] or None, because=f"by {name}")
