"""The nodes of a cluster as a run sees them, whatever carries the bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One node of the cluster."""

    id: str
    name: str
    """What people call it: its address, or its name."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """What it has in all: CPU, GPU, memory, and whatever its owner declared."""


class LinkBroken(Exception):
    """The worker at the other end is gone, or cannot be reached any more. A broken link is never mended."""

    is_final = False
    """Whether another worker there would fare no better."""


class CannotWork(LinkBroken):
    """No worker can be started there as the node is."""

    is_final = True


class Link(Protocol):
    """The way to one worker: what is told and heard comes in order and once, until the link breaks for good."""

    async def inspect(self, question: bytes) -> bytes:
        """What the worker's node can do."""
        ...

    async def tell(self, batch: bytes) -> None:
        """Give orders."""
        ...

    async def hear(self) -> bytes:
        """What the worker has to say; it says something every second."""
        ...

    async def close(self) -> None:
        """Have the worker put everything away; then it may be ended."""
        ...

    def end(self) -> None:
        """End the worker, wherever it is; nothing is waited for."""
        ...


class Cluster(Protocol):
    """Nodes that workers can be started on. They may come and go."""

    async def members(self) -> Sequence[Member]:
        """The nodes that are there now."""
        ...

    async def start(self, member: Member, resources: Sequence[str]) -> Link:
        """A new worker on a node, which takes all of these resources that the node has."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long is waited for what, in seconds. Nothing on a cluster is waited for without end."""

    beat_s: float = 1.0
    """A worker says something at least this often."""
    orphan_s: float = 6.0
    """A worker that has heard nothing for so long leaves its trials..."""
    lost_s: float = 15.0
    """...before the run gives them to others."""
    start_s: float = 90.0
    """For a worker to start, and for its node to be looked at."""
    nobody_s: float = 60.0
    """With no node that could do a trial."""
    look_s: float = 2.0
    """Between two looks at who is there."""
    close_s: float = 10.0
    """For a worker to put everything away at the end."""
    quiet_s: float = 120.0
    """For a trial of which nothing is heard, on top of what its longest call or command may take."""


PATIENCE = Patience()
