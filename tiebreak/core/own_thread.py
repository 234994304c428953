"""Work of the user's own, done beside the event loop: what blocks, or never ends, holds up neither the others nor the exit."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

_IDLE_S = 5.0


class TookTooLong(Exception):
    """Some work took longer than it may."""


class _Piece:
    """One piece of work, and who waits for it."""

    __slots__ = ("_loop", "done", "started_at", "watch", "work")

    watch: asyncio.TimerHandle
    """Looks whether it takes too long."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.started_at: float | None = None
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self._loop.create_future()

    def do(self) -> None:
        """Do the work, and tell whoever waits what came of it."""
        self.started_at = time.monotonic()
        result, error = None, None
        try:
            result = self.work()
        except BaseException as raised:
            # An exit, an interrupt and an end of iteration would be taken for those of whoever waits.
            own = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            error = raised if own else RuntimeError(repr(raised))
        with contextlib.suppress(RuntimeError):  # The loop is gone: nobody waits any more.
            self._loop.call_soon_threadsafe(self.settle, result, error)

    def settle(self, result: Any, error: BaseException | None) -> None:
        """Tell it, unless whoever waited has left."""
        if not self.done.done():
            self.done.set_exception(error) if error is not None else self.done.set_result(result)


async def in_thread(work: Callable[[], Any]) -> Any:
    """What some work returns or raises, in a thread that nothing else is done in. One that never ends is left behind."""
    piece = _Piece(work)
    threading.Thread(target=piece.do, daemon=True).start()
    return await piece.done


class OwnThread:
    """Does pieces of work one after another in one thread, as functions expect that were written without a thought of threads.

    The thread ends when there has been nothing to do for a while. One that is stuck is left behind, and another goes on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: SimpleQueue[_Piece] | None = None
        """What the thread takes its work from; None while there is no thread."""

    async def call(self, work: Callable[[], Any], longest_s: float) -> Any:
        """What the work returns or raises; TookTooLong where it takes longer; waiting for its turn does not count."""
        piece = _Piece(work)
        with self._lock:
            queue = self._queue or self._begin()
            queue.put(piece)
        self._watch(piece, longest_s, longest_s)
        try:
            return await piece.done
        finally:
            piece.watch.cancel()

    def _watch(self, piece: _Piece, after_s: float, longest_s: float) -> None:
        piece.watch = asyncio.get_running_loop().call_later(after_s, self._look_at, piece, longest_s)

    def _look_at(self, piece: _Piece, longest_s: float) -> None:
        left_s = longest_s if piece.started_at is None else piece.started_at + longest_s - time.monotonic()
        if left_s > 0:
            return self._watch(piece, left_s, longest_s)
        self._leave_behind()
        return piece.settle(None, TookTooLong())

    def _begin(self) -> SimpleQueue[_Piece]:
        queue: SimpleQueue[_Piece] = SimpleQueue()
        self._queue = queue
        threading.Thread(target=self._work, args=(queue,), name="own-functions", daemon=True).start()
        return queue

    def _work(self, queue: SimpleQueue[_Piece]) -> None:
        """The thread: it ends when it is idle, or was left behind."""
        while self._queue is queue:
            try:
                piece = queue.get(timeout=_IDLE_S)
            except Empty:
                with self._lock:
                    if self._queue is queue and queue.empty():
                        self._queue = None
            else:
                piece.do()

    def _leave_behind(self) -> None:
        """What waits behind a piece that is stuck gets another thread."""
        with self._lock:
            stuck = self._queue
            queue = self._begin()
            while stuck is not None and not stuck.empty():
                queue.put(stuck.get())
