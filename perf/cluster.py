"""What a cluster costs its driver: the run's own process, with nodes that are simulated and answer after two seconds.

The plan, the gates, the leases and the store are the real ones; only what is behind the links is not there. So this is the
most a driver can do, on one processor, before Ray's own work is added.

    python perf/cluster.py [NODES ...]
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tiebreak.cluster.executor import executor_on
from tiebreak.cluster.inspection import Question, inspect_machine
from tiebreak.cluster.links import LinkBroken, Member, Patience
from tiebreak.cluster.messages import Admit, Answered, Ask, Attempt, Beat, Done, contestant_channel, encode, orders
from tiebreak.cluster.servings import _STUB
from tiebreak.contestants import cross
from tiebreak.core.clock import SystemClock
from tiebreak.core.contestant import AgentRef, Prompting
from tiebreak.core.message import Usage
from tiebreak.core.run import Pace, Protocol, RunSpec
from tiebreak.core.trial import Outcome, Output, Score, TrialResult
from tiebreak.pipeline import loop_factory, make_plan, run_plan
from tiebreak.registry import make_ref
from tiebreak.spec.flags import Flags

ANSWER_S = 2.0
PER_NODE = 4
SECONDS = 10
NODES = (1, 3, 10, 30, 100, 300, 1000)
MOST = 20_000
_USAGE = Usage(input_tokens=100, output_tokens=10)


class SimulatedLink:
    """A worker that asks for a call, waits for its answer, and brings a result; its own CPU is counted apart."""

    cpu_s = 0.0

    def __init__(self, label: str, found: bytes) -> None:
        self.label, self.found = label, found
        self.said: list[msgspec.Struct] = []
        self.something = asyncio.Event()
        self.heard = 0
        self.lease_of: dict[int, int] = {}
        self.held: set[int] = set()
        self.due: list[tuple[float, int]] = []
        self.result = TrialResult(
            trial=_STUB,
            outcome=Outcome.ANSWERED,
            output=Output(text="The answer is A, as far as can be told from the question.", usage=_USAGE),
            scores={"match": Score.of(True, answer="A")},
            finished_at=SystemClock().now(),
        )

    async def inspect(self, question: bytes) -> bytes:
        return self.found

    async def tell(self, batch: bytes) -> None:
        began = time.process_time()
        for order in orders(batch):
            if isinstance(order, Attempt):
                call = order.lease
                self.held.add(order.lease)
                self.said.append(Ask(call=call, lease=order.lease, channel=contestant_channel(self.label), size=200, settings={}))
            elif isinstance(order, Admit):
                heapq.heappush(self.due, (time.monotonic() + ANSWER_S, order.call))
        self.heard += 1
        self.something.set()
        SimulatedLink.cpu_s += time.process_time() - began

    async def hear(self) -> bytes:
        ends = time.monotonic() + 1.0
        while not self.said and time.monotonic() < ends:
            next_s = min([ends, *(at for at, _ in self.due[:1])]) - time.monotonic()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.something.wait(), max(0.0, next_s))
            self.something.clear()
            self._answer()
        began = time.process_time()
        said, self.said = self.said, []
        said.append(Beat(heard=self.heard, leases=tuple(self.held)))
        data = encode(said)
        SimulatedLink.cpu_s += time.process_time() - began
        return data

    def _answer(self) -> None:
        while self.due and self.due[0][0] <= time.monotonic():
            call = heapq.heappop(self.due)[1]
            self.held.discard(call)
            self.said += [Answered(call=call, usage=_USAGE), Done(lease=call, result=self.result)]

    async def close(self) -> None:
        """Nothing is to be put away."""

    def end(self) -> None:
        """Nobody is to be ended."""


class SimulatedCluster:
    """So many nodes."""

    def __init__(self, nodes: int, label: str, found: bytes) -> None:
        self.nodes = [Member(id=str(i), name=f"node-{i}") for i in range(nodes)]
        self.label, self.found = label, found

    async def members(self) -> Sequence[Member]:
        return self.nodes

    async def start(self, member: Member, resources: Sequence[str]) -> SimulatedLink:
        if member not in self.nodes:
            raise LinkBroken("no such node")
        return SimulatedLink(self.label, self.found)


async def measure(nodes: int, folder: Path) -> dict[str, float]:
    """One run on so many simulated nodes."""
    trials = min(MOST, max(200, int(nodes * PER_NODE / ANSWER_S * SECONDS)))
    path = folder / f"{nodes}.jsonl"
    path.write_text("".join(json.dumps({"id": i, "question": f"What is {i}?", "answer": "A"}) + "\n" for i in range(trials)))
    model = replace(make_ref("openai", "gpt-x"), key_variable="")
    spec = RunSpec(
        protocol=Protocol(dataset=str(path)),
        contestants=cross([model], [Prompting()], [AgentRef()]),
        pace=Pace(max_connections=nodes * PER_NODE),
        results_dir=folder / f"run-{nodes}",
    )
    plan = make_plan(spec)
    found = msgspec.msgpack.encode(await inspect_machine(Question()))
    cluster = SimulatedCluster(nodes, spec.contestants[0].label, found)
    flags = Flags(per_node=PER_NODE)
    executor = await executor_on(cluster, plan.spec, plan.dataset.kinds, flags, patience=Patience(lost_s=120, orphan_s=60))
    SimulatedLink.cpu_s, began, cpu = 0.0, time.monotonic(), time.process_time()
    summary = await run_plan(plan, executor_of=executor)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu - SimulatedLink.cpu_s
    assert summary.contestants[0].answered == trials
    ideal = trials / (nodes * PER_NODE / ANSWER_S)
    return {"nodes": nodes, "trials": trials, "per_s": trials / seconds, "ms": cpu / trials * 1000, "of_ideal": ideal / seconds}


def main() -> None:
    """A row for each number of nodes."""
    counts = [int(word) for word in sys.argv[1:]] or NODES
    print("| nodes | trials | trials a second | of what the nodes could do | driver CPU a trial |\n|---:|---:|---:|---:|---:|")
    for nodes in counts:
        with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=loop_factory()) as runner:
            row = runner.run(measure(nodes, Path(folder)))
        print(f"| {nodes:,} | {row['trials']:,} | {row['per_s']:,.0f} | {row['of_ideal']:.0%} | {row['ms']:.2f} ms |", flush=True)


if __name__ == "__main__":
    main()
