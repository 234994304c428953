"""Ray: the only module that knows it. It says which nodes there are, starts workers on them, and carries bytes.

Keys go by a call of a method, and nowhere else: what a worker is made with is kept by Ray, what it is told is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tiebreak.cluster.links import PATIENCE, CannotWork, LinkBroken, Member, Patience
from tiebreak.cluster.worker import Worker
from tiebreak.core.errors import UsageError
from tiebreak.core.extras import optional
from tiebreak.core.redact import is_secret_name

_REACH_S = 10.0
_SHUTDOWN_S = 10.0
_JOINS = 3
_REST_S = 2.0
"""Between two tries to join a cluster."""
_AT_ONCE = 16
"""Calls a worker takes at once: it is told, heard and looked at by one each."""
_GPU, _CPU = "GPU", "CPU"
_REFUSED = re.compile(r"auth|token|version mismatch", re.IGNORECASE)
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""A cluster of our own tells nobody that it runs."""


class WorkerActor:
    """A worker as an actor."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._worker: Worker | None = None

    def _made(self) -> Worker:
        """The worker, made in the loop it lives in."""
        if self._worker is None:
            self._worker = Worker(patience=self._patience, on_orphan=lambda: os._exit(0))
        return self._worker

    async def inspect(self, question: bytes) -> bytes:
        """What the node can do."""
        return await self._made().inspect(question)

    async def tell(self, batch: bytes) -> None:
        """Give orders."""
        await self._made().tell(batch)

    async def hear(self) -> bytes:
        """What the worker has to say."""
        return await self._made().hear()

    async def close(self) -> None:
        """Put everything away."""
        await self._made().close()


class RayLink:
    """The way to a worker that is an actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor

    async def inspect(self, question: bytes) -> bytes:
        """What the worker's node can do."""
        return bytes(await self._called(lambda: self._actor.inspect.remote(question)))

    async def tell(self, batch: bytes) -> None:
        """Give orders."""
        await self._called(lambda: self._actor.tell.remote(batch))

    async def hear(self) -> bytes:
        """What the worker has to say."""
        return bytes(await self._called(self._actor.hear.remote))

    async def close(self) -> None:
        """Have the worker put everything away."""
        await self._called(self._actor.close.remote)

    def end(self) -> None:
        """End the actor; nothing is waited for."""
        with contextlib.suppress(RuntimeError):  # no more threads: Ray ends it when we do
            _in_thread(lambda: self._ray.kill(self._actor))

    async def _called(self, call: Callable[[], Any]) -> Any:
        errors = self._ray.exceptions
        try:
            return await _reply_of(call())
        except errors.RayTaskError as error:
            raise LinkBroken(f"its worker failed: {_first_line(error.cause)}") from None
        except errors.RayError as error:
            raise _why_gone(error) from None
        except LinkBroken:
            raise
        except Exception as error:
            # Whatever Ray raises besides: the way to this worker is of no use any more, and that is all.
            raise LinkBroken(f"Ray does not reach its worker: {_first_line(error)}") from error


class RayCluster:
    """The nodes of a Ray cluster."""

    def __init__(self, ray: Any, *, is_own: bool, patience: Patience = PATIENCE) -> None:
        self._ray = ray
        self._patience = patience
        self.is_own = is_own
        """It was started for this run alone, on this machine."""

    @property
    def takes_keys(self) -> bool:
        """Whether keys may be handed over: not where anybody may give orders."""
        return self.is_own or asks_for_token(self._ray)

    async def members(self) -> Sequence[Member]:
        """The nodes that are alive."""
        try:
            nodes = await _awaited(_in_thread(self._ray.nodes))
            return [_member(node) for node in nodes if node["Alive"]]
        except Exception as error:
            raise LinkBroken(f"Ray does not answer: {_first_line(error)}") from None

    async def start(self, member: Member, resources: Sequence[str]) -> RayLink:
        """A new actor on a node. It takes no CPU in Ray's books, so that it is placed wherever it is wanted."""
        has = {name: member.resources[name] for name in resources if name in member.resources}
        gpus, cpus = has.pop(_GPU, 0), has.pop(_CPU, 0)
        affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id=member.id, soft=False)
        options = {
            "num_cpus": cpus,
            "num_gpus": gpus,
            "resources": has,
            "scheduling_strategy": affinity,
            "max_restarts": 0,
            "max_task_retries": 0,
            "max_concurrency": _AT_ONCE,
        }
        try:
            made = await _awaited(_in_thread(lambda: self._ray.remote(WorkerActor).options(**options).remote(self._patience)))
        except Exception as error:
            raise LinkBroken(f"Ray starts no worker: {_first_line(error)}") from None
        return RayLink(self._ray, made)


@contextlib.contextmanager
def connected(*, patience: Patience = PATIENCE) -> Iterator[RayCluster]:
    """The cluster that RAY_ADDRESS names, else the one that runs on this machine, else a new one for as long as this lasts."""
    ray = optional("ray", extra="ray", needed_by="--on ray")
    optional("ray.util.scheduling_strategies", extra="ray", needed_by="--on ray")
    address = os.environ.get("RAY_ADDRESS", "")
    _refuse_unreachable(address)
    try:
        # In this thread: what Ray starts ends with the thread that started it.
        with _without_secrets():
            is_own = _persistently(lambda: _init(ray, address), between=ray.shutdown)
    except Exception as error:
        why = _first_line(error)
        raise UsageError(f"the Ray cluster {_named(address)} cannot be used: {why}. Look at it with: ray status") from None
    try:
        yield RayCluster(ray, is_own=is_own, patience=patience)
    finally:
        with contextlib.suppress(Exception):
            _within(_SHUTDOWN_S, ray.shutdown)


def asks_for_token(ray: Any) -> bool:
    """Whether the cluster obeys only who has its token."""
    mode = getattr(getattr(ray, "_raylet", None), "get_authentication_mode", None)
    return bool(mode()) if mode is not None else os.environ.get("RAY_AUTH_MODE") == "token"


def _init(ray: Any, address: str) -> bool:
    given: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    if address:
        ray.init(address=address, **given)
        return False
    try:
        ray.init(address="auto", **given)
        return False
    except ConnectionError:
        # Where none runs, one of our own: without a dashboard, which anybody on this machine could look at.
        ray.init(address="local", include_dashboard=False, **given)
        return True


def _persistently(start: Callable[[], bool], *, between: Callable[[], object]) -> bool:
    """A cluster that is busy may be late for Ray's own limits; one that refuses us would do so again."""
    for left in range(_JOINS - 1, -1, -1):
        try:
            return start()
        except Exception as error:
            if _REFUSED.search(str(error)) or not left:
                raise
        with contextlib.suppress(Exception):
            between()
        time.sleep(_REST_S)
    raise AssertionError("unreachable")


def _refuse_unreachable(address: str) -> None:
    """An address nobody answers at: Ray would wait a minute, and then end the program."""
    if not address or address in ("auto", "local"):
        return
    host, colon, port = address.rpartition(":")
    if "//" in address or not colon or not port.isdecimal():
        raise UsageError(f"RAY_ADDRESS={address}: give the head node's HOST:PORT, as `ray start --head` prints it")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_S).close()
    except OSError as error:
        why = error.strerror or "no answer"
        raise UsageError(f"no Ray cluster answers at {address} (RAY_ADDRESS): {why}. Is it up? ray status says") from None


def _named(address: str) -> str:
    return f"at {address} (RAY_ADDRESS)" if address else "of this machine"


@contextlib.contextmanager
def _without_secrets() -> Iterator[None]:
    """What Ray starts has no key in its environment; Ray's own token stays."""
    hidden = {name: value for name, value in os.environ.items() if is_secret_name(name) and not name.startswith("RAY_")}
    added = {name: value for name, value in _QUIET.items() if name not in os.environ}
    for name in hidden:
        del os.environ[name]
    os.environ.update(added)
    try:
        yield
    finally:
        os.environ.update(hidden)
        for name in added:
            os.environ.pop(name, None)


def _member(node: dict[str, Any]) -> Member:
    resources = {name: float(amount) for name, amount in node["Resources"].items() if not name.startswith("node:")}
    return Member(id=node["NodeID"], name=node["NodeManagerAddress"], resources=resources)


def _why_gone(error: BaseException) -> LinkBroken:
    """Ray's reasons run to pages; what matters is one line of them."""
    text = str(error)
    reason = next((line.strip() for line in text.splitlines() if "ModuleNotFoundError" in line), "")
    if reason:
        cure = "Install tiebreak[ray] there, in the Python that Ray runs in"
        return CannotWork(f"its worker could not be started: {reason}. {cure}")
    return LinkBroken("its worker is gone" if "unavailable" not in text.lower() else "its worker cannot be reached")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


# --- waiting for Ray, never without end ---------------------------------------------------------------


async def _reply_of(reference: Any) -> Any:
    """What a call brings. Whoever stops waiting leaves the call alone; a call that Ray gave up on is no cancellation of ours."""
    reply = asyncio.wrap_future(reference.future())
    reply.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(reply)
    except asyncio.CancelledError:
        if reply.cancelled():
            raise LinkBroken("Ray gave up on a call of its worker") from None
        raise


class _Running:
    """Work in a thread that can be left: it holds up neither the run nor the end of the program."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Event()
        self._told: list[Callable[[], object]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self.result = work()
        except BaseException as error:
            self.error = error
        with self._lock:
            self.done.set()
        for tell in self._told:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                tell()

    def when_done(self, tell: Callable[[], object]) -> None:
        with self._lock:
            if not self.done.is_set():
                self._told.append(tell)
                return
        tell()

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


def _in_thread(work: Callable[[], Any]) -> _Running:
    return _Running(work)


async def _awaited(running: _Running) -> Any:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    running.when_done(lambda: loop.call_soon_threadsafe(over.set))
    await over.wait()
    return running.outcome()


def _within(seconds: float, work: Callable[[], Any]) -> Any:
    running = _in_thread(work)
    if not running.done.wait(seconds):
        raise TimeoutError
    return running.outcome()
