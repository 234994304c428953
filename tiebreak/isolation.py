"""Calling a benchmark function in a thread, which can only be abandoned, or in a process, which can be killed."""

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
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

BenchmarkFunction = Callable[..., Mapping[str, Any]]
"""Called as `function(model_name, dataset_name, **options)`."""

_POLL_S = 0.05
"""How often a process that sends nothing is checked."""
_EXIT_GRACE_S = 0.5
"""How long a process that has sent its outcome may take to exit."""
_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a process may use."""

    memory_limit_mb: float | None = None
    cpu_seconds: float | None = None

    @property
    def description(self) -> str:
        """The limits that are set, in parentheses; empty when there are none."""
        limits = [f"{name}={value:g}" for name, value in asdict(self).items() if value is not None]
        return f" ({', '.join(limits)})" if limits else ""


@dataclass(frozen=True, slots=True)
class CaughtError:
    """An exception reduced to text, which any process can send."""

    message: str
    type_name: str

    @classmethod
    def of(cls, error: BaseException, message: str = "") -> CaughtError:
        """The error with its own message, or with one that explains it."""
        return cls(message or str(error) or type(error).__name__, type(error).__name__)


class Stopwatch:
    """When something started, and how long ago that is."""

    def __init__(self) -> None:
        self.start_time = datetime.now(UTC)
        self.started = time.monotonic()

    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a benchmark function returned, or the error it raised."""

    value: Any = None
    error: CaughtError | None = None


@dataclass(frozen=True, slots=True)
class BoundFunction:
    """A benchmark function with its arguments."""

    function: BenchmarkFunction
    model: str
    dataset: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def call(self) -> Outcome:
        """Call the function; any exception is its outcome."""
        try:
            return Outcome(self.function(self.model, self.dataset, **self.options))
        except BaseException as error:
            return Outcome(error=CaughtError.of(error))


class Call:
    """One call of a benchmark function in a daemon thread: it cannot be killed, but the interpreter can exit without it."""

    def __init__(self, bound: BoundFunction) -> None:
        self.watch = Stopwatch()
        self.seconds = 0.0
        """How long the call took, once there is an outcome."""
        self.outcome: Outcome | None = None
        self._bound = bound
        self._name = f"tiebreak {bound.model}"

    def start(self, on_done: Callable[[Call], None]) -> None:
        """Start the call in the background; `on_done` is called once there is an outcome."""
        error = self._prepare()
        thread = threading.Thread(target=lambda: self._finish(self._run(), on_done), name=self._name, daemon=True)
        try:
            if error is None:
                thread.start()
        except RuntimeError as caught:
            error = CaughtError.of(caught)
        if error is not None:
            self._finish(Outcome(error=error), on_done)

    def stop(self) -> None:
        """Kill what can be killed: of a thread, nothing."""

    def _prepare(self) -> CaughtError | None:
        """Make ready for the call; the error of a call that cannot be made."""
        return None

    def _run(self) -> Outcome:
        return self._bound.call()

    def _finish(self, outcome: Outcome, on_done: Callable[[Call], None]) -> None:
        self.seconds = self.watch.seconds()
        self.outcome = outcome
        on_done(self)


class ProcessCall(Call):
    """A call in a new process: its limits hold, and it can be killed with every process it started."""

    def __init__(self, bound: BoundFunction, limits: Limits) -> None:
        super().__init__(bound)
        context = multiprocessing.get_context("spawn")
        self._limits = limits
        self._inbox, self._outbox = context.Pipe(duplex=False)
        # Not daemonic in multiprocessing's sense: such a process may not start others.
        self._process = context.Process(target=_run_in_process, args=(bound, limits, self._outbox), name=self._name)
        self._function_called = False

    def _prepare(self) -> CaughtError | None:
        """Start the process from the calling thread, whose end it does not outlive; what cannot be pickled is an error."""
        options = {f"the keyword argument {name!r}": value for name, value in self._bound.options.items()}
        for what, value in {"the benchmark function": self._bound.function, **options}.items():
            try:
                ForkingPickler.dumps(value)
            except Exception as error:
                return CaughtError.of(error, f'{what} cannot be sent to another process ({error}); use isolation="thread"')
        try:
            self._process.start()
        except OSError as error:
            return CaughtError.of(error)
        atexit.register(self.stop)
        self._outbox.close()
        return None

    def _run(self) -> Outcome:
        """The outcome the process sends, or how it died."""
        try:
            # The end of the pipe is not enough: a process left behind by this one may hold it open.
            while self._process.is_alive() or self._inbox.poll():
                if self._inbox.poll(_POLL_S):
                    message = self._inbox.recv()
                    if isinstance(message, Outcome):
                        return message
                    self._function_called = True
        except EOFError:
            while self._process.is_alive():
                time.sleep(_POLL_S)
        except Exception as error:
            return _unsendable_result(error)
        return Outcome(error=CaughtError(self._exit_message(), "ChildProcessError"))

    def _exit_message(self) -> str:
        """How the process ended."""
        code = self._process.exitcode or 0
        if not self._function_called:
            return (
                f"the process ended with exit code {code} before it called the benchmark function: a script must call run()"
                ' below `if __name__ == "__main__":`, and the function must be importable; isolation="thread" needs neither'
            )
        if code == -signal.SIGXCPU:
            return f"stopped after {self._limits.cpu_seconds:g} seconds of processor time (cpu_seconds)"
        if code < 0:
            return f"the process was killed by {signal.Signals(-code).name}{self._limits.description}"
        return f"the process ended with exit code {code} before the benchmark function returned{self._limits.description}"

    def stop(self) -> None:
        """Wait briefly for a process that has sent its outcome; kill any other, and every process it started."""
        if self._process.pid is None:
            return
        if self.outcome is not None:
            self._process.join(_EXIT_GRACE_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.is_alive():
            self._process.kill()  # It may not have its own process group yet.
        self._process.join(_EXIT_GRACE_S)
        atexit.unregister(self.stop)


def _run_in_process(bound: BoundFunction, limits: Limits, outbox: Connection) -> None:
    """The main function of the new process: set the limits, call the function, send the outcome."""
    os.setsid()
    _die_with_parent()
    outbox.send("the function is called next")
    try:
        _set_limits(limits)
        outbox.send(_explain_memory_error(bound.call(), limits))
    except Exception as error:
        outbox.send(_explain_memory_error(_unsendable_result(error), limits))


def _unsendable_result(error: Exception) -> Outcome:
    message = f'what the benchmark function returned cannot be sent back ({error}); use isolation="thread"'
    return Outcome(error=CaughtError.of(error, message))


def _die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends, even by kill -9."""
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


def _explain_memory_error(outcome: Outcome, limits: Limits) -> Outcome:
    """The outcome; a MemoryError, which has no message of its own, names the limit."""
    error = outcome.error
    if error is None or limits.memory_limit_mb is None or not error.type_name.endswith("MemoryError"):
        return outcome
    message = f"ran out of memory: the limit is {limits.memory_limit_mb:g} MB (memory_limit_mb)"
    return Outcome(error=CaughtError(message, "MemoryError"))
