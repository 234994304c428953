"""A cluster of workers in this process, over links that can be killed, frozen, cut and slowed down."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tiebreak.cluster.links import LinkBroken, Member, Patience
from tiebreak.cluster.worker import Worker

QUICK = Patience(beat_s=0.05, orphan_s=0.6, lost_s=1.2, start_s=10.0, nobody_s=1.5, look_s=0.1, close_s=2.0, quiet_s=5.0)
"""As in earnest, only sooner."""


class FakeLink:
    """The way to one worker. What a fault hides from the run goes on happening behind it."""

    def __init__(self, cluster: FakeCluster, member: Member, worker: Worker) -> None:
        self.cluster = cluster
        self.member = member
        self.worker = worker
        self.dead = False
        self.whole = asyncio.Event()
        """Not cut, not frozen."""
        self.whole.set()
        self.batches_told = 0
        self.dropped: list[str] = []

    async def _through(self) -> None:
        if self.cluster.delay_s:
            await asyncio.sleep(self.cluster.delay_s)
        await self.whole.wait()
        if self.dead:
            raise LinkBroken("its worker is gone")

    async def inspect(self, question: bytes) -> bytes:
        await self._through()
        return self.cluster.inspected(self.member, await self.worker.inspect(question))

    async def tell(self, batch: bytes) -> None:
        await self._through()
        self.batches_told += 1
        await self._worked(self.worker.tell(batch))

    async def hear(self) -> bytes:
        await self._through()
        heard = await self._worked(self.worker.hear())
        await self._through()
        return heard

    async def _worked(self, doing):
        try:
            return await doing
        except ConnectionError as error:
            raise LinkBroken(str(error)) from None

    async def close(self) -> None:
        await self._through()
        await self.worker.close()

    def end(self) -> None:
        """The run lets go; a machine that cannot be reached does not hear of it."""
        if self.whole.is_set():
            self.kill()

    # --- faults

    def kill(self) -> None:
        """The worker is gone at once: nothing it was doing goes on."""
        if not self.dead:
            self.dead = True
            self.whole.set()
            self.cluster.put_away(self.worker)

    def cut(self) -> None:
        """Nothing comes through any more; the worker works on, and after a while is an orphan."""
        self.whole.clear()

    def mend(self) -> None:
        self.whole.set()


class FakeCluster:
    """Machines with a worker each, in this process."""

    def __init__(self, *names: str, resources: dict[str, dict[str, float]] | None = None, patience: Patience = QUICK) -> None:
        self.all = [Member(id=f"id-{n}", name=n, resources=(resources or {}).get(n, {"CPU": 4.0})) for n in names]
        self.up = {member.id for member in self.all}
        self.patience = patience
        self.delay_s = 0.0
        self.links: list[FakeLink] = []
        self.started: dict[str, int] = {}
        self.putting_away: set[asyncio.Task[None]] = set()

    def inspected(self, member: Member, found: bytes) -> bytes:
        """What a machine says of itself; tests say otherwise."""
        return found

    async def members(self) -> Sequence[Member]:
        return [member for member in self.all if member.id in self.up]

    async def start(self, member: Member, resources: Sequence[str]) -> FakeLink:
        if member.id not in self.up:
            raise LinkBroken("it is not there")
        self.started[member.name] = self.started.get(member.name, 0) + 1
        worker = Worker(patience=self.patience)
        link = FakeLink(self, member, worker)
        self.links.append(link)
        return link

    def link(self, name: str) -> FakeLink:
        """The newest link to a machine."""
        return [link for link in self.links if link.member.name == name][-1]

    def take_down(self, name: str) -> None:
        """The machine is off: its worker is gone, and there will be no other until it is back."""
        self.up.discard(f"id-{name}")
        self.link(name).kill()

    def bring_back(self, name: str) -> None:
        self.up.add(f"id-{name}")

    def put_away(self, worker: Worker) -> None:
        task = asyncio.ensure_future(worker.close())
        self.putting_away.add(task)
        task.add_done_callback(self.putting_away.discard)

    async def closed(self) -> None:
        """Every worker is gone, those too that were cut off."""
        for link in self.links:
            link.kill()
        if self.putting_away:
            await asyncio.wait(self.putting_away, timeout=5)
