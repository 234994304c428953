"""What Ray may do to a call of a worker: each is the end of that worker's link, told in one line, and of nothing else."""

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from tiebreak.cluster.links import CannotWork, LinkBroken
from tiebreak.cluster.ray import RayCluster, RayLink


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__("a trace\nof many lines")
        self.cause = cause


def link_to(hear):
    """A link to a made-up worker: what a call of it is, or raises."""
    ray = SimpleNamespace(exceptions=SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError))
    return RayLink(ray, SimpleNamespace(hear=SimpleNamespace(remote=hear)))


def reply(error=None, *, cancelled=False):
    """What Ray hands out for a call that is over."""
    future = Future()
    if cancelled:
        future.cancel()
        future.set_running_or_notify_cancel()
    elif error is not None:
        future.set_exception(error)
    else:
        future.set_result(b"words")
    return SimpleNamespace(future=lambda: future)


@pytest.mark.parametrize(
    ("error", "kind", "why"),
    [
        (RayTaskError(OSError("no space")), LinkBroken, "its worker failed: no space"),
        (RayError("The actor died"), LinkBroken, "its worker is gone"),
        (RayError("The actor is temporarily Unavailable"), LinkBroken, "its worker cannot be reached"),
        (RayError("x\nModuleNotFoundError: No module named 'tiebreak'"), CannotWork, "Install tiebreak"),
        (RuntimeError("GCS is gone\nand so on"), LinkBroken, "Ray does not reach its worker: GCS is gone$"),
    ],
)
async def test_whatever_a_call_ends_with_breaks_the_link_in_words(error, kind, why):
    with pytest.raises(kind, match=why):
        await link_to(lambda: reply(error)).hear()


async def test_a_call_that_cannot_even_be_made_breaks_the_link():
    def hear():
        raise ValueError("The actor handle is not valid")

    with pytest.raises(LinkBroken, match="Ray does not reach its worker: The actor handle is not valid"):
        await link_to(hear).hear()


async def test_a_call_that_ray_gave_up_on_is_no_cancellation_of_ours():
    """A cancellation would end the task that hears the node, and nobody would ever know that it is lost."""
    with pytest.raises(LinkBroken, match="Ray gave up on a call"):
        await link_to(lambda: reply(cancelled=True)).hear()


async def test_whoever_stops_waiting_is_cancelled_and_the_call_goes_on():
    waiting = Future()
    hearing = asyncio.ensure_future(link_to(lambda: SimpleNamespace(future=lambda: waiting)).hear())
    await asyncio.sleep(0)
    hearing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hearing
    assert not waiting.cancelled()
    waiting.set_result(b"late")


async def test_nodes_that_ray_describes_otherwise_are_a_cluster_that_does_not_answer():
    with pytest.raises(LinkBroken, match="Ray does not answer"):
        await RayCluster(SimpleNamespace(nodes=lambda: [{"Alive": True}]), is_own=False).members()


def test_a_worker_is_let_go_of_also_where_no_thread_can_be_started(monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refused)
    link_to(reply).end()
