"""An agent at work on a sample. What the code of others raises is told with its place, and ends that contestant alone."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path
from types import CoroutineType
from typing import Any

from tiebreak.core.errors import BenchmarkError, UsageError, exhausted
from tiebreak.core.events import ContestantState
from tiebreak.core.protocols import Agent
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.engine.stop import ContestantOver, Interrupted

_KINDS = frozenset({"question", "task"})
_OURS = Path(__file__).parents[1]


def refuse_broken(name: str, agent: Agent) -> None:
    """An agent that could never work is refused before anything is asked."""
    works_on = agent.works_on
    if isinstance(works_on, str) or not isinstance(works_on, frozenset | set | tuple | list) or not set(works_on) <= _KINDS:
        raise UsageError(f"the agent {name!r}: works_on must be a frozenset of 'question' and 'task', not {works_on!r:.80}")
    if not callable(getattr(agent, "run", None)):
        raise UsageError(f"the agent {name!r} has no method run: write `async def run(self, sample, context)`")
    try:
        inspect.signature(agent.run).bind("sample", "context")
    except TypeError as error:
        raise UsageError(f"the agent {name!r}: run must take a sample and a context: {error}") from None


async def output_of(name: str, agent: Agent, sample: Sample, context: Any) -> Output:
    """What an agent brings back. Whatever the code of others raises is its own: every further sample would end alike."""
    try:
        work = agent.run(sample, context)
        output = await work if type(work) is CoroutineType or inspect.isawaitable(work) else work
    except (BenchmarkError, ContestantOver, Interrupted):
        raise
    except Exception as error:
        if _is_ours(agent) or exhausted(error):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise _over(f"the agent {name!r} raised {what} ({_place_of(error)})") from error
    if not isinstance(output, Output):
        where = inspect.getsourcefile(type(agent)) or type(agent).__module__
        raise _over(f"the agent {name!r} returned {output!r:.80}; run must return an Output of tiebreak.core.trial ({where})")
    return output


def _is_ours(agent: Agent) -> bool:
    return type(agent).__module__.partition(".")[0] == __name__.partition(".")[0]


def _over(message: str) -> ContestantOver:
    return ContestantOver(ContestantState.FAILED, f"{message}. Mend it and resume the run")


def _place_of(error: Exception) -> str:
    """The last line that is not ours: where whoever wrote the agent has to look."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not Path(frame.filename).is_relative_to(_OURS)]
    frame = (theirs or list(frames))[-1]
    return f"{frame.filename}, line {frame.lineno}"
