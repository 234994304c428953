"""A function called beside the program: in a thread that can be left alone, or in a process that can be ended."""

from __future__ import annotations

import atexit
import contextlib
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

BenchmarkFunction = Callable[[str, str], Mapping[str, Any]]
"""Called with a model's name and a dataset's name."""

_GLANCE_S = 0.05
"""How often a process is looked at that sends nothing."""
_LEAVE_S = 0.5
"""How long a process that has answered may take to end by itself."""
_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a process may use."""

    memory_limit_mb: float | None = None
    cpu_seconds: float | None = None

    @property
    def words(self) -> str:
        """The limits that are set, in brackets."""
        words = [f"{name}={value:g}" for name, value in asdict(self).items() if value is not None]
        return f" ({', '.join(words)})" if words else ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a model has no result."""

    text: str
    kind: str
    """The name of the error's class."""

    @classmethod
    def of(cls, error: BaseException) -> Trouble:
        """The trouble an error stands for."""
        return cls(str(error) or type(error).__name__, type(error).__name__)


class Stopwatch:
    """When something began, as a date and for measuring."""

    def __init__(self) -> None:
        self.start_time = datetime.now(UTC)
        self.started = time.monotonic()

    def seconds(self) -> float:
        """Seconds since then."""
        return time.monotonic() - self.started


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one call of the function."""

    value: Any = None
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """The function and what it is called with."""

    function: BenchmarkFunction
    model: str
    dataset: str

    def do(self) -> Outcome:
        """Call it; whatever it raises is its outcome."""
        try:
            return Outcome(self.function(self.model, self.dataset))
        except BaseException as error:
            return Outcome(trouble=Trouble.of(error))


class Call(Protocol):
    """A call of the function that goes on beside the runner."""

    entrant: Any
    watch: Stopwatch
    seconds: float
    """What it took, once there is an outcome."""
    outcome: Outcome | None

    def start(self, tell: Callable[[Call], None]) -> None:
        """Begin, and tell when there is an outcome."""
        ...

    def end(self) -> None:
        """Leave nothing running that can be ended."""
        ...


class ThreadCall:
    """The function in a daemon thread: it cannot be ended, only left alone, and keeps nobody from leaving."""

    entrant: Any
    watch: Stopwatch

    def __init__(self, work: Work) -> None:
        self.seconds = 0.0
        self.outcome: Outcome | None = None
        self._work = work

    def start(self, tell: Callable[[Call], None]) -> None:
        """Call the function in a thread."""

        def work() -> None:
            self._conclude(self._work.do(), tell)

        try:
            threading.Thread(target=work, name=f"benchmark {self._work.model}", daemon=True).start()
        except RuntimeError as error:
            self._conclude(Outcome(trouble=Trouble.of(error)), tell)

    def _conclude(self, outcome: Outcome, tell: Callable[[Call], None]) -> None:
        self.seconds = self.watch.seconds()
        self.outcome = outcome
        tell(self)

    def end(self) -> None:
        """Nothing ends a thread."""


class ProcessCall(ThreadCall):
    """The function in a fresh process: its limits hold, and at its timeout it is ended with all it started."""

    def __init__(self, work: Work, limits: Limits) -> None:
        super().__init__(work)
        context = multiprocessing.get_context("spawn")
        self._limits = limits
        self._inbox, self._outbox = context.Pipe(duplex=False)
        # Not a daemon in multiprocessing's sense: those may not have processes of their own.
        self._process = context.Process(target=_in_process, args=(work, limits, self._outbox), name=f"benchmark {work.model}")
        self._called = False

    def start(self, tell: Callable[[Call], None]) -> None:
        """Start the process from this thread, whose end it does not outlive, and watch it from another."""
        trouble = self._started()
        if trouble is not None:
            self._conclude(Outcome(trouble=trouble), tell)
            return
        threading.Thread(target=lambda: self._conclude(self._wait(), tell), name=self._process.name, daemon=True).start()

    def _started(self) -> Trouble | None:
        """Start the process, or say why it could not be."""
        try:
            ForkingPickler.dumps(self._work.function)
        except Exception as error:
            text = f'the benchmark function cannot be sent to another process ({error}); use isolation="thread" for it'
            return Trouble(text, type(error).__name__)
        try:
            self._process.start()
        except OSError as error:
            return Trouble.of(error)
        atexit.register(self.end)
        self._outbox.close()
        return None

    def _wait(self) -> Outcome:
        """What the process sends, or how it died. It is looked at too: a process it left behind may hold the pipe open."""
        try:
            while self._process.is_alive() or self._inbox.poll():
                if self._inbox.poll(_GLANCE_S):
                    message = self._inbox.recv()
                    if isinstance(message, Outcome):
                        return message
                    self._called = True
        except EOFError:
            while self._process.is_alive():
                time.sleep(_GLANCE_S)
        except Exception as error:
            text = f'what the benchmark function returned cannot be sent back ({error}); use isolation="thread" for it'
            return Outcome(trouble=Trouble(text, type(error).__name__))
        return Outcome(trouble=Trouble(self._obituary(), "ChildProcessError"))

    def _obituary(self) -> str:
        """How the process ended, in a sentence."""
        code = self._process.exitcode or 0
        if not self._called:
            return (
                f"the process ended with exit code {code} before it could call the benchmark function: a script must call run()"
                ' below `if __name__ == "__main__":`, and the function must be importable; isolation="thread" needs neither'
            )
        if code == -signal.SIGXCPU:
            return f"stopped after {self._limits.cpu_seconds:g} seconds of processor time (cpu_seconds)"
        if code < 0:
            return f"the process was killed by {signal.Signals(-code).name}{self._limits.words}"
        return f"the process ended with exit code {code} before the benchmark function returned{self._limits.words}"

    def end(self) -> None:
        """Let a process that has answered leave by itself; kill every other, and what either leaves behind."""
        if self._process.pid is None:
            return
        if self.outcome is not None:
            self._process.join(_LEAVE_S)
        _kill_group(self._process.pid)
        if self._process.is_alive():
            self._process.kill()  # It may not have made its own group yet.
        self._process.join(_LEAVE_S)
        atexit.unregister(self.end)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _in_process(work: Work, limits: Limits, outbox: Connection) -> None:
    """What the fresh process does: limit itself, call the function, send what came of it."""
    os.setsid()
    _die_with_parent()
    outbox.send("called")
    try:
        _set_limits(limits)
        outcome = _explained(work.do(), limits)
        outbox.send(outcome)
    except Exception as error:
        text = f'what the benchmark function returned cannot be sent back ({error}); use isolation="thread" for it'
        outbox.send(_explained(Outcome(trouble=Trouble(text, type(error).__name__)), limits))


def _die_with_parent() -> None:
    """Have the system kill this process when the runner's thread is gone, even by kill -9."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PDEATHSIG, int(signal.SIGKILL))


def _set_limits(limits: Limits) -> None:
    import resource

    def limit(which: int, soft: int, hard: int) -> None:
        most = resource.getrlimit(which)[1]
        soft, hard = (value if most == resource.RLIM_INFINITY else min(value, most) for value in (soft, hard))
        resource.setrlimit(which, (soft, hard))

    limit(resource.RLIMIT_CORE, 0, 0)
    if limits.memory_limit_mb is not None:
        most_bytes = int(limits.memory_limit_mb * 1024 * 1024)
        limit(resource.RLIMIT_AS, most_bytes, most_bytes)
    if limits.cpu_seconds is not None:
        most_s = math.ceil(time.process_time() + limits.cpu_seconds)
        limit(resource.RLIMIT_CPU, most_s, most_s + 1)  # First a signal that says why, then one that cannot be ignored.


def _explained(outcome: Outcome, limits: Limits) -> Outcome:
    """The outcome, naming the limit where memory ran out: MemoryError itself says nothing."""
    trouble = outcome.trouble
    if trouble is None or limits.memory_limit_mb is None or not trouble.kind.endswith("MemoryError"):
        return outcome
    text = f"ran out of memory: the limit is {limits.memory_limit_mb:g} MB (memory_limit_mb)"
    return Outcome(trouble=Trouble(text, "MemoryError"))
