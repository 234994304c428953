"""The executor of a cluster: trials are leased to workers, a lost worker's go to others, and each counts once."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TypeVar

from msgspec.structs import replace

from tiebreak.cluster.calls import Taken
from tiebreak.cluster.going_on import going_on
from tiebreak.cluster.inspection import Wanted, in_words, inspection_of, question_bytes, unfit
from tiebreak.cluster.leases import TASKS, TRIALS, Broken, Lease, Lost, NotServed, Wish, wish_for
from tiebreak.cluster.links import PATIENCE, Cluster, Link, LinkBroken, Member, Patience
from tiebreak.cluster.messages import Begin, Halt, Release, Serve, Unable, contestant_channel, judge_channel
from tiebreak.cluster.needs import Needs
from tiebreak.cluster.node import Node
from tiebreak.cluster.places import Places, could
from tiebreak.core.errors import BenchmarkError, FailureKind, ProviderError, UsageError
from tiebreak.core.events import ContestantState, Event, NodeChanged, NodeState, TrialLost
from tiebreak.core.trial import Failure, Outcome, Output, Trial, TrialResult
from tiebreak.core.work import Isolation, Work, WorkOutcome
from tiebreak.engine.budget import priced
from tiebreak.engine.deadlines import Deadlines
from tiebreak.engine.stop import ContestantOver, Interrupted
from tiebreak.engine.traffic import CEILING, Gate
from tiebreak.engine.workshop import Attempting, Conditions, Seat, Service
from tiebreak.registry import configured_agents

log = logging.getLogger(__name__)

_TOGETHER = 2
"""Losses after which a trial is tried alone: it may be what takes the nodes down, and then takes no other trial along."""
_MOST_LOSSES = 5
_RECALL_S = 2.0
"""How long is waited for an answer that nobody has judged yet, when its trial is cancelled."""
_FAILED_STARTS = 5
"""So many starts failing one after another, and a node is not tried again."""
_TICK_S = 0.5

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a run uses its cluster."""

    wanted: Wanted
    needs: Needs = field(default_factory=Needs)
    per_node: int | None = None
    """Trials at once on each node; None: of questions as many as come, of coding tasks as many as the pace says."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Handed over to nodes that have no keys of their own; in memory only."""
    strict: bool = False
    """A node that cannot take part ends the run before anything is asked."""
    patience: Patience = PATIENCE

    def __repr__(self) -> str:
        return "Terms()"


@dataclass(slots=True)
class _Known:
    """A node we have heard of."""

    member: Member
    node: Node | None = None
    task: asyncio.Task[None] | None = None
    problems: tuple[str, ...] = ()
    """Why it is left out."""
    failed_starts: int = 0
    again_at: float = 0.0
    trouble: str = ""
    """Why no worker could be started there the last time."""

    @property
    def may_come(self) -> bool:
        """Whether another start could help."""
        return not self.problems and self.failed_starts < _FAILED_STARTS


@dataclass(slots=True, eq=False)
class Pool:
    """Workers on the nodes of a cluster, as one executor. Nodes may come, go and come back meanwhile."""

    conditions: Conditions
    cluster: Cluster
    terms: Terms
    gates: dict[str, Gate] = field(default_factory=dict)
    """The gates calls go through, by their channels."""
    places: Places = field(init=False)
    _known: dict[str, _Known] = field(default_factory=dict)
    _services: dict[str, Service] = field(default_factory=dict)
    _judges: tuple[Seat, ...] = ()
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _silence: str = ""
    """Why nobody knows which nodes there are."""

    def __post_init__(self) -> None:
        self.places = Places(clock=lambda: self.deadlines.awake_s)

    @property
    def deadlines(self) -> Deadlines:
        """The run's own clock, which stands still while this process sleeps."""
        return self.conditions.deadlines

    @property
    def patience(self) -> Patience:
        """How long is waited for what."""
        return self.terms.patience

    @property
    def machines(self) -> int:
        """How many nodes are at work, or on their way to it."""
        return max(1, len(self.places.nodes) + sum(known.task is not None for known in self._known.values()))

    # --- from the first worker to the last

    @contextlib.asynccontextmanager
    async def opened(self, judges: Sequence[Seat]) -> AsyncIterator[None]:
        """Workers stand ready on every node that fits; none does, and nothing is asked."""
        self._judges = tuple(judges)
        self.gates |= {judge_channel(seat.model.label): _gate(seat) for seat in judges}
        ticker = asyncio.ensure_future(self.deadlines.watch())
        try:
            await self._first_look()
            ticker.cancel()
            loops = (self._look_for_machines, self._look_after_leases, self._follow_stop)
            self._tasks = [asyncio.ensure_future(loop()) for loop in loops]
            yield
        finally:
            ticker.cancel()
            await self._close()

    async def _first_look(self) -> None:
        """Bring up every node there is. A busy cluster may fail to start workers: while none is ready, it is tried again."""
        ends, looks = self.deadlines.awake_s + self.patience.nobody_s, 1
        await self._bring_up_all()
        # However long the first look took: a start that was late for Ray's own limits gets a second one.
        while not self.places.nodes and (self.deadlines.awake_s < ends or looks == 1) and self._somebody_may_come():
            await asyncio.sleep(self.patience.look_s)
            looks += all(self.deadlines.awake_s >= known.again_at for known in self._known.values())
            await self._bring_up_all()
        left_out = [f"{known.member.name}: {problem}" for known in self._known.values() for problem in known.problems]
        if not self.places.nodes:
            failed = [f"{known.member.name}: {known.trouble}" for known in self._known.values() if known.trouble]
            reasons = "; ".join((*left_out, *failed)) or self._silence or "no node is there"
            raise UsageError(f"no node of the cluster can take part in this run. {reasons}")
        if left_out and self.terms.strict:
            raise UsageError("--strict: " + "; ".join(left_out))

    async def _bring_up_all(self) -> None:
        for member in await self._members():
            self._bring_up_later(member)
        # A node that hangs while others are ready holds nobody up: it joins the run when it can.
        while starting := [known.task for known in self._known.values() if known.task is not None]:
            longest = self.patience.lost_s if self.places.nodes and not self.terms.strict else None
            done, _ = await asyncio.wait(starting, timeout=longest, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                return

    def _somebody_may_come(self) -> bool:
        return bool(self._silence) or any(known.may_come for known in self._known.values())

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        starting = [known.task for known in self._known.values() if known.task is not None]
        for task in starting:
            task.cancel()
        await asyncio.gather(*self._tasks, *starting, return_exceptions=True)
        nodes, self.places.nodes = self.places.nodes, []
        await asyncio.gather(*(node.close() for node in nodes), return_exceptions=True)

    # --- nodes

    async def _members(self) -> Sequence[Member]:
        try:
            members = await self.deadlines.within(self.patience.start_s, self.cluster.members())
        except Exception as error:
            self._silence = f"the cluster does not say which nodes it has: {str(error) or 'no answer'}"
            log.warning("%s", self._silence)
            return ()
        self._silence = ""
        return members

    async def _look_for_machines(self) -> None:
        """Look who is there, for ever: a node that comes, or comes back, gets a worker."""
        while True:
            await asyncio.sleep(self.patience.look_s)
            with going_on("looking for nodes"):
                for member in await self._members():
                    self._bring_up_later(member)

    def _bring_up_later(self, member: Member) -> None:
        known = self._known.setdefault(member.id, _Known(member))
        if known.node is not None or known.task is not None:
            return
        if known.may_come and self.deadlines.awake_s >= known.again_at:
            known.task = asyncio.ensure_future(self._bring_up(known))

    async def _bring_up(self, known: _Known) -> None:
        """A worker on a node, once it is known that the node can take part."""
        link: Link | None = None
        try:
            link = await self._within_start(self.cluster.start(known.member, self.terms.needs.resources))
            found = inspection_of(await self._within_start(link.inspect(question_bytes(self.terms.wanted.question))))
            known.problems = tuple(unfit(found, self.terms.wanted))
            if known.problems:
                link.end()
                self._changed(known.member, NodeState.LEFT_OUT, "; ".join(known.problems))
            else:
                self._join(known, link)
                self._changed(known.member, NodeState.READY, in_words(found))
        except LinkBroken as error:
            self._failed_start(known, link, str(error), is_final=error.is_final)
        except TimeoutError:
            self._failed_start(known, link, f"it was not ready within {self.patience.start_s:g} s")
        except Exception as error:
            log.exception("a worker could not be started on %s", known.member.name)
            self._failed_start(known, link, f"unexpected {type(error).__name__}: {error}")
        except BaseException:
            if link is not None:
                link.end()
            raise
        finally:
            known.task = None

    async def _within_start(self, work: Awaitable[_T]) -> _T:
        return await asyncio.wait_for(work, self.patience.start_s)

    def _failed_start(self, known: _Known, link: Link | None, reason: str, *, is_final: bool = False) -> None:
        if link is not None:
            with going_on(f"the end of a worker on {known.member.name}"):
                link.end()
        known.failed_starts = _FAILED_STARTS if is_final else known.failed_starts + 1
        known.again_at = self.deadlines.awake_s + self.patience.look_s * 2.0**known.failed_starts
        known.trouble = f"a worker could not be started: {reason}"
        if known.failed_starts in (1, _FAILED_STARTS):
            self._changed(known.member, NodeState.LOST, known.trouble)

    def _join(self, known: _Known, link: Link) -> None:
        """A node that fits gets to work: what holds for the run, then whom it is to serve."""
        per_node, pace = self.terms.per_node, self.conditions.pace
        in_all = {**known.member.resources, TRIALS: per_node or CEILING, TASKS: per_node or pace.max_workers}
        node = known.node = Node(known.member, link, self, dict(in_all), in_all)
        begin = Begin(
            pace=pace,
            rules=self.conditions.rules,
            kinds=tuple(sorted(self.conditions.kinds)),
            judges=tuple(seat.model for seat in self._judges),
            agents=configured_agents(),
            keys=self.terms.keys,
        )
        node.send(begin)
        for service in self._services.values():
            node.send(_serve(service))
        if self.conditions.stop.draining:
            node.send(Halt(silent=self.conditions.stop.silent))
        node.begin()
        self.places.join(node)

    def _changed(self, member: Member, state: NodeState, message: str) -> None:
        words = self.conditions.redact(message)
        self.show(NodeChanged(node=member.name, state=state, message=words, ready=len(self.places.nodes)))

    # --- what nodes say

    def show(self, event: Event) -> None:
        """Tell whoever watches."""
        self.conditions.tell(event)

    def freed(self, node: Node, lease: Lease) -> None:
        """A lease is over: its place is for another."""
        known = self._known.get(node.member.id)
        if known is not None:
            known.failed_starts = 0
        self.places.free(node, lease.wish)

    def lost(self, node: Node, reason: str, *, idle: bool) -> None:
        """A worker is gone: its node gets another one, if it is still there."""
        self.places.leave(node)
        known = self._known[node.member.id]
        known.node, known.problems = None, ()
        # Whether a trial took it down is seen by what becomes of the trial; one that was idle cannot work here.
        known.failed_starts += idle
        known.again_at = self.deadlines.awake_s + self.patience.look_s * known.failed_starts
        self._changed(node.member, NodeState.LOST, reason)

    def unable(self, node: Node, word: Unable) -> None:
        """A node cannot serve a contestant: others may; where none can, the contestant is over."""
        self._changed(node.member, NodeState.READY, f"not for {word.label}: {word.message}")
        if (error := self._served_nowhere(word.label)) is not None:
            self.places.refuse(self.places.waiting_for(word.label), error)

    def _served_nowhere(self, label: str) -> ProviderError | None:
        words = [node.unable.get(label) for node in self.places.nodes]
        first = words[0] if words else None
        return None if first is None or not all(words) else ProviderError(first.message, kind=first.kind)

    async def _look_after_leases(self) -> None:
        """Every half second: trials of which nothing is heard, and trials that no node can take."""
        while True:
            await asyncio.sleep(_TICK_S)
            for node in list(self.places.nodes):
                with going_on(f"looking after the trials on {node.name}"):
                    node.look_after()
                    self.places.offer(node)
            with going_on("looking for trials that no node can take"):
                for wish in self.places.impossible(self._longest_without_node_s()):
                    over = ContestantOver(ContestantState.FAILED, self._why_nobody(wish))
                    self.places.refuse([wish], NotServed() if wish.elsewhere else over)

    def _longest_without_node_s(self) -> float:
        """A worker that is being started may be the one that is waited for: a busy machine takes its time."""
        starting = any(known.task is not None for known in self._known.values())
        return self.patience.nobody_s + (self.patience.start_s if starting else 0.0)

    def _why_nobody(self, wish: Wish) -> str:
        what = ", ".join(f"{name}:{amount:g}" for name, amount in wish.demand if name not in (TRIALS, TASKS))
        having = f" with {what}" if what else ""
        return f"no node{having} was there for {self.patience.nobody_s:g} s; resume the run to continue"

    async def _follow_stop(self) -> None:
        """When the run is being stopped, the workers begin nothing more."""
        await self.conditions.stop.wanted()
        for node in self.places.nodes:
            node.send(Halt(silent=self.conditions.stop.silent))

    # --- contestants and their trials

    @contextlib.asynccontextmanager
    async def serving(self, service: Service) -> AsyncIterator[Attempting]:
        """The contestant's model stands open on every node, as soon as it is needed."""
        label = service.contestant.label
        self.gates[contestant_channel(label)] = _gate(service)
        self._services[label] = service
        for node in self.places.nodes:
            node.send(_serve(service))
        try:
            yield partial(self._attempt, service)
        finally:
            del self._services[label]
            for node in self.places.nodes:
                node.send(Release(label=label))

    async def _attempt(self, service: Service, trial: Trial) -> TrialResult:
        """Have a trial attempted on some node; after a loss on another. It is not tried for ever."""
        losses: list[str] = []
        broke_on = ""
        while len(losses) < _MOST_LOSSES:
            if (error := self._served_nowhere(trial.contestant.label)) is not None:
                raise error
            if self.conditions.stop.draining:
                raise Interrupted
            needs = self.terms.needs.of(service.contestant, task=trial.sample.task is not None)
            wish = self._elsewhere(wish_for(trial, needs, alone=len(losses) >= _TOGETHER), broke_on)
            try:
                node = await self.places.take(wish)
                return await self._leased(node, service, trial, wish)
            except Broken as broken:
                if self.conditions.stop.draining:
                    raise Interrupted from None
                losses.append(f"{node.name}: {broken}")
                self._keep_what_was_taken(trial, broken.taken, f"made again elsewhere: {losses[-1]}")
                if broke_on:
                    # Not this node's alone: every trial may end so, as it would on one machine.
                    raise BenchmarkError("; ".join(losses)) from None
                broke_on = node.member.id
            except Lost as lost:
                losses.append(f"{node.name}: {lost}")
                self._keep_what_was_taken(trial, lost.taken, f"lost with the node it was on: {losses[-1]}")
            except NotServed:
                continue
        return self._given_up(trial, losses)

    def _elsewhere(self, wish: Wish, node_id: str) -> Wish:
        """The wish for another node than one, where there is any."""
        if not node_id:
            return wish
        other = dataclasses.replace(wish, elsewhere=node_id)
        return other if any(could(node, other) for node in self.places.nodes) else wish

    async def _leased(self, node: Node, service: Service, trial: Trial, wish: Wish) -> TrialResult:
        if node.is_lost:
            raise NotServed
        try:
            lease = node.lease(next(self._numbers), trial, service, wish=wish, quiet_s=self._quiet_s(trial))
        except BenchmarkError as error:
            # A file of the sample is gone, or has changed: that is the trial's failure, as on one machine.
            self.places.free(node, wish)
            return self._failed(trial, FailureKind.OURS, str(error))
        except BaseException:
            self.places.free(node, wish)
            raise
        try:
            return await lease.outcome
        except asyncio.CancelledError:
            node.recall(lease)
            await self._last_word(lease)
            raise

    async def _last_word(self, lease: Lease) -> None:
        """An answer that has only to be judged is waited for a little: it was paid for."""
        if self._judges:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(lease.ended.wait(), _RECALL_S)

    def _quiet_s(self, trial: Trial) -> float:
        """How long nothing need be heard of a trial: its longest call, and of a task its longest command and its check."""
        seconds, task = self.conditions.pace.request_timeout_s + self.patience.quiet_s, trial.sample.task
        if task is None:
            return seconds
        return seconds + self.conditions.rules.timeout_s + (task.check.timeout_s if task.check else 0.0)

    def _keep_what_was_taken(self, trial: Trial, taken: Taken, message: str) -> None:
        """What a lost trial used is told, so that a resumed run knows of it: calls in flight at their worst."""
        if taken.answered:
            usage, failed = priced(taken.usage, trial.contestant.model), self._failed(trial, FailureKind.SANDBOX, message)
            output = Output(text="", outcome=Outcome.FAILED, usage=usage, attempts=taken.answered)
            self.show(TrialLost(replace(failed, output=output)))
        if taken.unknown:
            failed = self._failed(trial, FailureKind.TRANSIENT, message)
            assert failed.failure is not None
            self.show(TrialLost(replace(failed, failure=replace(failed.failure, attempts=taken.unknown))))

    def _given_up(self, trial: Trial, losses: Sequence[str]) -> TrialResult:
        """A trial that was lost with node after node has a failure that names them."""
        message = f"the trial was lost {len(losses)} times, each time with the node it was on. {'; '.join(losses)}"
        return self._failed(trial, FailureKind.SANDBOX, message)

    def _failed(self, trial: Trial, kind: FailureKind, message: str) -> TrialResult:
        now = self.conditions.clock.now()
        failure = Failure(kind=kind, message=self.conditions.redact(message), at=now)
        work = None
        if trial.sample.task is not None:
            work = Work(outcome=WorkOutcome.SANDBOX_ERROR, seconds=0.0, isolation=Isolation())
        return TrialResult(trial=trial, outcome=Outcome.FAILED, failure=failure, finished_at=now, work=work)


def _serve(service: Service) -> Serve:
    return Serve(
        contestant=service.contestant,
        connections=service.connections,
        tasks_at_once=service.tasks_at_once,
        asks=service.asks,
    )


def _gate(of: Seat | Service) -> Gate:
    """The gate of this process that calls far away go through."""
    assert isinstance(of.gate, Gate)
    return of.gate
