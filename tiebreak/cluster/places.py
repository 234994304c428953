"""Which node a trial goes to: one that has what it takes, the least busy; some trials have a node for themselves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tiebreak.cluster.leases import Wish
from tiebreak.cluster.node import Node


@dataclass(slots=True)
class _Line:
    """Trials that wish the same, first come first served."""

    waiting: deque[asyncio.Future[Node]] = field(default_factory=deque)
    possible_at: float = 0.0
    """When there was last a node that could ever grant it."""


@dataclass(slots=True)
class Places:
    """The nodes at work, and who waits for one."""

    clock: Callable[[], float]
    nodes: list[Node] = field(default_factory=list)
    _lines: dict[Wish, _Line] = field(default_factory=dict)
    _kept: dict[Node, Wish] = field(default_factory=dict)
    """Nodes that get nothing more until they are empty."""

    async def take(self, wish: Wish) -> Node:
        """A place on some node; it is given back by `free`."""
        line = self._lines.get(wish)
        if line is None and (node := self._best(wish)) is not None:
            self._give(node, wish)
            return node
        if line is None:
            line = self._lines[wish] = _Line(possible_at=self.clock())
        waiter: asyncio.Future[Node] = asyncio.get_running_loop().create_future()
        line.waiting.append(waiter)
        self._keep_one(wish)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.free(waiter.result(), wish)
            self._end_line(wish, line)
            raise

    def free(self, node: Node, wish: Wish) -> None:
        """A place is free again: for whoever waits for one like it."""
        for name, amount in wish.demand:
            node.free[name] += amount
        node.alone = node.alone and not wish.alone
        self.offer(node)

    def join(self, node: Node) -> None:
        """One more node."""
        self.nodes.append(node)
        self.offer(node)

    def leave(self, node: Node) -> None:
        """One node less."""
        if node in self.nodes:
            self.nodes.remove(node)
        if (wish := self._kept.pop(node, None)) is not None:
            self._keep_one(wish)

    def offer(self, node: Node) -> None:
        """Give what a node has free to those who wait."""
        if node.is_lost:
            return
        for wish, line in list(self._lines.items()):
            while line.waiting and self._can_now(node, wish):
                waiter = line.waiting.popleft()
                if not waiter.done():
                    self._give(node, wish)
                    waiter.set_result(node)
            self._end_line(wish, line)
        for wish in [wish for wish in self._lines if wish.alone and wish not in self._kept.values()]:
            self._keep_one(wish)

    def refuse(self, wishes: Iterable[Wish], error: Exception) -> None:
        """Nobody will ever grant these wishes."""
        for wish in list(wishes):
            line = self._lines[wish]
            for waiter in line.waiting:
                if not waiter.done():
                    waiter.set_exception(error)
            self._end_line(wish, line)

    def impossible(self, for_s: float) -> list[Wish]:
        """Wishes that no node could have granted for so long, however idle."""
        now = self.clock()
        for wish, line in self._lines.items():
            if any(could(node, wish) for node in self.nodes):
                line.possible_at = now
        return [wish for wish, line in self._lines.items() if now - line.possible_at > for_s]

    def waiting_for(self, label: str) -> list[Wish]:
        """What trials of a contestant wait for."""
        return [wish for wish in self._lines if wish.label == label]

    def _best(self, wish: Wish) -> Node | None:
        """The least busy node with a place."""
        return min((node for node in self.nodes if self._can_now(node, wish)), key=_business, default=None)

    def _can_now(self, node: Node, wish: Wish) -> bool:
        kept_for = self._kept.get(node)
        if node.alone or (kept_for is not None and kept_for != wish):
            return False
        if (wish.alone and node.busy) or node.member.id == wish.elsewhere:
            return False
        return wish.label not in node.unable and all(node.free.get(name, 0.0) >= amount for name, amount in wish.demand)

    def _give(self, node: Node, wish: Wish) -> None:
        for name, amount in wish.demand:
            node.free[name] -= amount
        if wish.alone:
            node.alone = True
            self._kept.pop(node, None)

    def _keep_one(self, wish: Wish) -> None:
        """For a trial that is tried alone, the least busy node gets nothing more until it is empty."""
        if not wish.alone or wish not in self._lines or wish in self._kept.values():
            return
        able = [node for node in self.nodes if could(node, wish) and node not in self._kept and not node.alone]
        if able:
            self._kept[min(able, key=_business)] = wish

    def _end_line(self, wish: Wish, line: _Line) -> None:
        if any(not waiter.done() for waiter in line.waiting):
            return
        if self._lines.get(wish) is line:
            del self._lines[wish]
        for node in [node for node, kept_for in self._kept.items() if kept_for == wish]:
            del self._kept[node]
            self.offer(node)


def could(node: Node, wish: Wish) -> bool:
    """Whether a node could grant a wish when nothing else is on it."""
    if wish.label in node.unable or node.member.id == wish.elsewhere:
        return False
    return all(node.in_all.get(name, 0.0) >= amount for name, amount in wish.demand)


def _business(node: Node) -> float:
    return node.busy
