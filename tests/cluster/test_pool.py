"""A run on a cluster: every trial ends once and as on one machine, whatever becomes of the nodes."""

import asyncio
import json
import os
import random
import sqlite3
from dataclasses import replace
from itertools import count

import msgspec
import pytest
from support.command import ROOT
from support.fake_cluster import QUICK, FakeCluster
from support.server import FakeServer, Fault
from support.specs import spec_of

from tiebreak.cluster.executor import executor_on
from tiebreak.cluster.inspection import Inspection
from tiebreak.cluster.links import CannotWork, LinkBroken
from tiebreak.cluster.messages import Parcel
from tiebreak.core.contestant import AgentRef
from tiebreak.core.errors import StoreError, UsageError
from tiebreak.core.events import ContestantFinished, ContestantState, NodeChanged, NodeState, TrialFinished, TrialLost, TrialStep
from tiebreak.engine.stop import Interrupted, Stop
from tiebreak.pipeline import make_plan, run_plan
from tiebreak.registry import make_ref
from tiebreak.report.summary import summarise
from tiebreak.spec.flags import Flags
from tiebreak.store.reader import StoreReader
from tiebreak.store.writer import Writer

ROWS = [{"id": f"q{i}", "question": f"What is {i} + {i}?", "answer": "A"} for i in range(60)]


@pytest.fixture
def exam(tmp_path):
    path = tmp_path / "exam.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.fixture
def server(monkeypatch):
    with FakeServer(latency_s=0.05) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def results(folder):
    """What was answered and how it was judged, by trial."""
    with StoreReader(folder) as reader:
        rows = reader.rows("SELECT id, outcome, score, text, attempts FROM trials WHERE superseded = 0")
        return {row[0]: tuple(row[1:]) for row in rows}


CALM = replace(QUICK, orphan_s=10.0, lost_s=20.0, start_s=40.0, nobody_s=20.0)
"""Where no node is lost, none may be given up because this computer is busy."""


async def run_on(cluster, plan, *, watch=lambda event: None, flags=None, **options):
    """Run a plan on a cluster; that takes a minute at most, whatever happens."""
    executor = await executor_on(cluster, plan.spec, plan.dataset.kinds, flags or Flags(), patience=cluster.patience)
    try:
        return await asyncio.wait_for(run_plan(plan, watch=watch, executor_of=executor, **options), 60)
    finally:
        await cluster.closed()


def plan_for(exam, folder, *, model="gpt-x", **options):
    return make_plan(spec_of([make_ref("openai", model)], str(exam), folder, **options))


async def alone(exam, folder):
    """What one machine makes of the same plan."""
    await run_plan(plan_for(exam, folder))
    return results(folder)


def asked(server):
    """How often each question was asked."""
    return [sum(one.prompt == other.prompt for other in server.ledger) for one in server.ledger]


def ended(events):
    """How the contestants ended."""
    return {e.contestant: (e.state, e.message) for e in events if isinstance(e, ContestantFinished)}


def lost(events):
    """Which nodes were lost, and why."""
    return [(e.node, e.message) for e in events if isinstance(e, NodeChanged) and e.state is NodeState.LOST]


async def test_a_run_on_three_machines_ends_as_on_one(exam, server, tmp_path):
    expected = await alone(exam, tmp_path / "one")
    events = []
    await run_on(FakeCluster("a", "b", "c"), plan_for(exam, tmp_path / "three"), watch=events.append)
    assert results(tmp_path / "three") == expected
    assert len(server.ledger) == 2 * len(ROWS)
    assert sorted(e.node for e in events if isinstance(e, NodeChanged)) == ["a", "b", "c"]
    assert sum(isinstance(e, TrialFinished) for e in events) == len(ROWS)


class Disturbed:
    """A watcher that does something to the cluster after so many results."""

    def __init__(self, *, after, act):
        self.events, self.after, self.act = [], after, act

    def __call__(self, event):
        self.events.append(event)
        done = sum(isinstance(e, TrialFinished) for e in self.events)
        if isinstance(event, TrialFinished) and done == self.after:
            self.act()


@pytest.mark.parametrize("fault", ["kill", "cut", "take_down"])
async def test_what_a_lost_machine_had_begun_goes_to_others(exam, server, tmp_path, fault):
    expected = await alone(exam, tmp_path / "one")
    server.ledger.clear()
    cluster = FakeCluster("a", "b", "c")
    acts = {
        "kill": lambda: cluster.link("b").kill(),
        "cut": lambda: cluster.link("b").cut(),
        "take_down": lambda: cluster.take_down("b"),
    }
    watch = Disturbed(after=15, act=acts[fault])
    plan = plan_for(exam, tmp_path / "three", max_connections=12)
    await run_on(cluster, plan, watch=watch, flags=Flags(per_node=4))
    found = results(tmp_path / "three")
    assert {key: row[:3] for key, row in found.items()} == {key: row[:3] for key, row in expected.items()}
    assert [name for name, _ in lost(watch.events)] == ["b"]
    # What was in flight there is asked once more, and nothing else.
    assert len(ROWS) <= len(server.ledger) <= len(ROWS) + 4


async def test_a_machine_that_comes_back_is_not_heard_and_gets_a_new_worker(exam, server, tmp_path):
    """Its old worker brings results late: each trial has counted once already."""
    cluster = FakeCluster("a", "b")
    watch = Disturbed(after=10, act=lambda: cluster.link("b").cut())
    server.latency_s = 0.2

    async def mend_later():
        while not lost(watch.events):
            await asyncio.sleep(0.05)
        cluster.links[1].mend()

    mending = asyncio.ensure_future(mend_later())
    await run_on(cluster, plan_for(exam, tmp_path / "two", max_connections=4), watch=watch, flags=Flags(per_node=2))
    await mending
    assert len(results(tmp_path / "two")) == len(ROWS)
    finished = [e.result.trial.id for e in watch.events if isinstance(e, TrialFinished)]
    assert len(finished) == len(set(finished)) == len(ROWS)
    assert cluster.started == {"a": 1, "b": 2}


class Poison(FakeCluster):
    """A cluster in which one trial takes down whatever node it is on."""

    def __init__(self, *names, trial, back=True):
        super().__init__(*names)
        self.trial, self.back, self.victims = trial, back, []

    async def start(self, member, resources):
        link = await super().start(member, resources)
        attempt = link.worker._obey

        def obey(order):
            if getattr(order, "trial", None) == self.trial:
                self.victims.append((member.name, len(link.worker._servings.leases)))
                asyncio.get_running_loop().call_later(0.05, link.kill)
            attempt(order)

        link.worker._obey = obey
        return link


async def test_a_trial_that_takes_down_machine_after_machine_fails_and_is_named(exam, server, tmp_path):
    """After two losses it is tried alone, so that no other trial is lost with it; after five it is given up."""
    plan = plan_for(exam, tmp_path / "run", max_connections=8)
    poison = list(plan.trials(plan.spec.contestants[0]))[3].id
    cluster, events = Poison("a", "b", "c", trial=poison), []
    await run_on(cluster, plan, watch=events.append, flags=Flags(per_node=4))
    found = results(tmp_path / "run")
    assert len(found) == len(ROWS)
    assert [key for key, row in found.items() if row[0] == "failed"] == [poison]
    failure = next(e.result.failure for e in events if isinstance(e, TrialFinished) and e.result.failure)
    assert "lost 5 times" in failure.message
    assert cluster.victims[0][0] in failure.message
    assert [others for _, others in cluster.victims[2:]] == [0, 0, 0]
    assert ended(events)["openai/gpt-x"][0] is ContestantState.FINISHED


async def test_one_machine_and_a_poisonous_trial_end_too(exam, server, tmp_path):
    plan = plan_for(exam, tmp_path / "run", max_connections=4)
    poison = next(plan.trials(plan.spec.contestants[0])).id
    await run_on(Poison("a", trial=poison), plan)
    found = results(tmp_path / "run")
    assert len(found) == len(ROWS)
    assert sum(row[0] == "failed" for row in found.values()) <= 1


async def test_with_no_machine_left_the_run_ends_and_says_so(exam, server, tmp_path):
    cluster = FakeCluster("a", "b")

    def act():
        cluster.take_down("a")
        cluster.take_down("b")

    watch = Disturbed(after=10, act=act)
    await run_on(cluster, plan_for(exam, tmp_path / "run", max_connections=4), watch=watch)
    state, message = ended(watch.events)["openai/gpt-x"]
    assert state is ContestantState.FAILED
    assert "no node was there for" in message
    assert "resume" in message
    # And on a node that is there again it goes on to the end.
    await run_on(FakeCluster("a"), plan_for(exam, tmp_path / "run", max_connections=4))
    assert len(results(tmp_path / "run")) == len(ROWS)


@pytest.mark.parametrize("seed", range(int(os.environ.get("CLUSTER_SEEDS", "3"))))
async def test_faults_at_random_lose_nothing_and_count_nothing_twice(exam, server, tmp_path, seed):
    """Nodes are killed, cut off, frozen and taken down at random; every trial ends once, as on one machine."""
    expected = await alone(exam, tmp_path / "one")
    chance, cluster, events = random.Random(seed), FakeCluster("a", "b", "c"), []

    async def disturb():
        for _ in range(6):
            await asyncio.sleep(chance.uniform(0.05, 0.3))
            name = chance.choice("abc")
            if not any(link.member.name == name for link in cluster.links):
                continue
            link, fault = cluster.link(name), chance.choice(["kill", "cut", "blink", "down"])
            if fault == "down":
                cluster.take_down(name)
                asyncio.get_running_loop().call_later(0.5, cluster.bring_back, name)
            elif fault == "blink":
                link.cut()
                asyncio.get_running_loop().call_later(chance.uniform(0.05, 1.0), link.mend)
            else:
                getattr(link, fault)()

    server.latency_s = 0.15
    disturbing = asyncio.ensure_future(disturb())
    plan = plan_for(exam, tmp_path / "three", max_connections=9)
    await run_on(cluster, plan, watch=events.append, flags=Flags(per_node=3))
    disturbing.cancel()
    found = results(tmp_path / "three")
    assert {key: row[:3] for key, row in found.items()} == {key: row[:3] for key, row in expected.items()}
    finished = [e.result.trial.id for e in events if isinstance(e, TrialFinished)]
    assert len(finished) == len(set(finished)) == len(ROWS)


# --- gates: limits, budgets, stops --------------------------------------------------------------------


async def test_limits_hold_for_all_machines_together(exam, server, tmp_path):
    await run_on(FakeCluster("a", "b", "c"), plan_for(exam, tmp_path / "run", max_connections=5))
    assert 1 < server.most_in_flight <= 5


async def test_a_budget_holds_for_all_machines_together(exam, server, tmp_path):
    """The tokens of three nodes are set aside in one place."""
    options = {"max_total_tokens": 300, "max_connections": 12}
    spec = spec_of([make_ref("openai", "gpt-x")], str(exam), tmp_path / "run", **options)
    capped = tuple(replace(c, model=replace(c.model, settings={"max_tokens": 5})) for c in spec.contestants)
    events = []
    await run_on(FakeCluster("a", "b", "c"), make_plan(replace(spec, contestants=capped)), watch=events.append)
    assert ended(events)["openai/gpt-x"][0] is ContestantState.OUT_OF_BUDGET
    with StoreReader(tmp_path / "run") as reader:
        used = next(reader.rows("SELECT sum(input_tokens + output_tokens) FROM trials"))[0]
    assert 0 < used <= 300


async def test_a_resumed_run_knows_what_a_lost_machine_may_have_used(exam, server, tmp_path):
    """All that the server could charge for, in both sessions together, fits into the cap; what was lost is in no score."""
    cap, answer = 600, 14
    spec = spec_of([make_ref("openai", "gpt-x")], str(exam), tmp_path / "run", max_total_tokens=cap, max_connections=12)
    capped = tuple(replace(c, model=replace(c.model, settings={"max_tokens": 5})) for c in spec.contestants)
    spec, cluster, events = replace(spec, contestants=capped), FakeCluster("a", "b", "c"), []
    server.hold()

    async def lose_one():
        while server.in_flight < 1:
            await asyncio.sleep(0.01)
        server.release()  # The first request is sent alone, to show what one costs.
        while len(server.ledger) < 2:
            await asyncio.sleep(0.001)
        server.hold()
        while server.in_flight < 8:
            await asyncio.sleep(0.01)
        cluster.take_down("b")
        while not lost(events):
            await asyncio.sleep(0.01)
        server.release()

    losing = asyncio.ensure_future(lose_one())
    await run_on(cluster, make_plan(spec), watch=events.append, flags=Flags(per_node=4))
    await losing
    again = [e.result for e in events if isinstance(e, TrialLost)]
    assert 0 < len(again) <= 4
    assert {one.failure.attempts for one in again} == {1}
    first = len(server.ledger)
    assert ended(events)["openai/gpt-x"][0] is ContestantState.OUT_OF_BUDGET
    await run_plan(make_plan(spec))
    assert first * answer <= cap
    assert len(server.ledger) * answer <= cap
    with StoreReader(tmp_path / "run") as reader:
        assert next(reader.rows("SELECT count(*) FROM trials WHERE failure LIKE '%lost with%'"))[0] == len(again)
        assert {c.failed for c in summarise(reader).contestants} == {0}


async def test_failed_calls_are_tried_again_as_on_one_machine(exam, server, tmp_path):
    seen = set()

    def fault(one, number):
        first = one.prompt not in seen
        seen.add(one.prompt)
        return Fault(status=500) if first and number % 3 == 0 else None

    server.fault = fault
    await run_on(FakeCluster("a", "b"), plan_for(exam, tmp_path / "run", max_connections=6))
    found = results(tmp_path / "run")
    assert {row[0] for row in found.values()} == {"answered"}
    assert sum(row[3] for row in found.values()) == len(server.ledger) > len(ROWS)


async def test_a_refused_key_ends_the_contestant_at_once(exam, server, tmp_path):
    server.fault = lambda one, number: Fault(status=401, body='{"error": {"message": "bad key"}}')
    events = []
    await run_on(FakeCluster("a", "b"), plan_for(exam, tmp_path / "run", max_connections=4), watch=events.append)
    state, message = ended(events)["openai/gpt-x"]
    assert state is ContestantState.FAILED
    assert "bad key" in message
    assert len(server.ledger) <= 8


async def test_a_stop_finishes_what_is_in_flight_and_begins_nothing_more(exam, server, tmp_path):
    stop, server.latency_s = Stop(), 0.2
    watch = Disturbed(after=12, act=stop.ask)
    plan = plan_for(exam, tmp_path / "run", max_connections=6)
    await run_on(FakeCluster("a", "b"), plan, watch=watch, stop=stop)
    assert ended(watch.events)["openai/gpt-x"][0] is ContestantState.INTERRUPTED
    assert 12 <= len(server.ledger) <= 24
    assert len(results(tmp_path / "run")) == len(server.ledger)


async def test_a_stop_at_once_ends_at_once(exam, server, tmp_path):
    stop, server.latency_s = Stop(), 5.0

    async def twice():
        await asyncio.sleep(1.0)
        stop.ask()
        stop.ask()

    plan = plan_for(exam, tmp_path / "run", max_connections=6)
    stopping = asyncio.ensure_future(twice())
    await asyncio.wait_for(run_on(FakeCluster("a", "b"), plan, stop=stop), 5)
    await stopping
    assert results(tmp_path / "run") == {}


# --- which nodes take part -------------------------------------------------------------------------


class Told(FakeCluster):
    """A cluster in which some node says something else of itself."""

    def __init__(self, *names, who, **said):
        super().__init__(*names)
        self.who, self.said = who, said

    def inspected(self, member, found):
        if member.name != self.who:
            return found
        true = msgspec.msgpack.decode(found, type=Inspection)
        return msgspec.msgpack.encode(msgspec.structs.replace(true, **self.said))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"version": "0.0.9"}, "it has tiebreak 0.0.9, here it is"),
        ({"code": "other"}, "is not the same code as here"),
        ({"python": "3.9"}, "it has Python 3.9"),
        ({"plugins": {"acme": "1.0 abc"}}, "the plugins of acme are 1.0 abc there and not installed here"),
        ({"keys": ()}, "OPENAI_API_KEY is not set there: set it, or say --send-keys"),
    ],
)
async def test_a_machine_that_does_not_fit_is_left_out_and_named(exam, server, tmp_path, said, why):
    events = []
    cluster = Told("a", "b", who="b", **said)
    await run_on(cluster, plan_for(exam, tmp_path / "run"), watch=events.append)
    left_out = [e for e in events if isinstance(e, NodeChanged) and e.state is NodeState.LEFT_OUT]
    assert [e.node for e in left_out] == ["b"]
    assert why in left_out[0].message
    assert len(results(tmp_path / "run")) == len(ROWS)


async def test_where_no_machine_fits_nothing_is_asked(exam, server, tmp_path):
    with pytest.raises(UsageError, match=r"no node of the cluster can take part in this run. a: it has tiebreak 0.0.9"):
        await run_on(Told("a", who="a", version="0.0.9"), plan_for(exam, tmp_path / "run"))
    with pytest.raises(UsageError, match="no node is there"):
        await run_on(FakeCluster(), plan_for(exam, tmp_path / "none"))
    assert server.ledger == []


@pytest.mark.parametrize("error", [LinkBroken("its worker is gone"), TimeoutError(), RuntimeError("odd")])
async def test_a_worker_that_fails_to_start_at_first_is_started_again(exam, server, tmp_path, error):
    cluster, made = FakeCluster("a"), FakeCluster.start
    failures = iter([error])

    async def start(member, resources):
        if (failure := next(failures, None)) is not None:
            raise failure
        return await made(cluster, member, resources)

    cluster.start = start
    await run_on(cluster, plan_for(exam, tmp_path / "run"))
    assert len(results(tmp_path / "run")) == len(ROWS)


async def test_a_start_that_was_late_gets_a_second_one(exam, server, tmp_path):
    """Also where the first took longer than anybody is waited for: a busy machine is no missing cluster."""
    cluster, made = FakeCluster("a"), FakeCluster.start
    late = iter([QUICK.nobody_s + 0.5])

    async def start(member, resources):
        if (seconds := next(late, None)) is not None:
            await asyncio.sleep(seconds)
            raise LinkBroken("its worker is gone")
        return await made(cluster, member, resources)

    cluster.start = start
    await run_on(cluster, plan_for(exam, tmp_path / "run"))
    assert len(results(tmp_path / "run")) == len(ROWS)


async def test_a_cluster_that_does_not_say_which_nodes_it_has_is_asked_again(exam, server, tmp_path):
    cluster, silent = FakeCluster("a"), iter([LinkBroken("late"), KeyError("odd")])

    async def members():
        if (error := next(silent, None)) is not None:
            raise error
        return cluster.all

    cluster.members = members
    await run_on(cluster, plan_for(exam, tmp_path / "run"))
    assert len(results(tmp_path / "run")) == len(ROWS)
    silent = iter([LinkBroken("late")] * 100)
    with pytest.raises(UsageError, match="does not say which nodes it has: late"):
        await run_on(cluster, plan_for(exam, tmp_path / "none"))


async def test_where_no_worker_can_be_started_the_reason_is_told(exam, server, tmp_path):
    """A reason that lasts is told at once; any other after some time of trying."""
    cluster, tries = FakeCluster("a"), []

    async def start(member, resources):
        tries.append(member.name)
        raise kind("no tiebreak is there")

    cluster.start = start
    for kind, least, most in ((CannotWork, 1, 1), (LinkBroken, 2, 5)):
        tries.clear()
        with pytest.raises(UsageError, match=r"take part in this run. a: a worker could not be started: no tiebreak is there"):
            await run_on(cluster, plan_for(exam, tmp_path / kind.__name__))
        assert least <= len(tries) <= most
    assert server.ledger == []


async def test_strict_asks_nothing_when_any_machine_is_left_out(exam, server, tmp_path):
    with pytest.raises(UsageError, match=r"--strict: b: it has Python 3.9"):
        plan = plan_for(exam, tmp_path / "run")
        await run_on(Told("a", "b", who="b", python="3.9"), plan, flags=Flags(strict=True))
    assert server.ledger == []


async def test_keys_are_handed_over_on_demand_only(exam, server, tmp_path, monkeypatch):
    """A node's own key comes first; in this process all nodes share an environment, so it is taken away."""
    key = server.environment()["OPENAI_API_KEY"]
    plan = plan_for(exam, tmp_path / "run")
    cluster = FakeCluster("a")
    executor = await executor_on(cluster, plan.spec, plan.dataset.kinds, Flags(send_keys=True), patience=QUICK)
    monkeypatch.delenv("OPENAI_API_KEY")
    try:
        await asyncio.wait_for(run_plan(plan, executor_of=executor), 30)
    finally:
        await cluster.closed()
    assert {one.headers["Authorization"] for one in server.ledger} == {f"Bearer {key}"}


async def test_trials_go_where_what_they_need_is(exam, server, tmp_path):
    cluster = FakeCluster("a", "b", "c", resources={"b": {"GPU": 1.0}, "c": {"GPU": 2.0}})
    given = []

    async def start(member, resources):
        link = await FakeCluster.start(cluster, member, resources)
        given.append((member.name, tuple(resources)))
        worked = link.worker._obey

        def obey(order):
            if hasattr(order, "lease") and hasattr(order, "sample"):
                busy[member.name] = max(busy.get(member.name, 0), 1 + len(link.worker._servings.leases))
            worked(order)

        link.worker._obey = obey
        return link

    busy, cluster.start = {}, start
    await run_on(cluster, plan_for(exam, tmp_path / "run"), flags=Flags(nodes_need=("openai/gpt-x=GPU:1",)))
    assert busy == {"b": 1, "c": 2}
    assert ("b", ("GPU",)) in given


async def test_what_no_machine_has_ends_the_contestant_and_is_named(exam, server, tmp_path):
    events = []
    flags = Flags(nodes_need=("GPU:4",))
    await run_on(FakeCluster("a"), plan_for(exam, tmp_path / "run"), watch=events.append, flags=flags)
    state, message = ended(events)["openai/gpt-x"]
    assert state is ContestantState.FAILED
    assert "no node with GPU:4 was there" in message
    assert server.ledger == []


async def test_a_model_that_no_machine_can_open_ends_its_contestant(exam, tmp_path):
    missing = make_ref("scripted", str(tmp_path / "gone.json"))
    events = []
    plan = make_plan(spec_of([missing], str(exam), tmp_path / "run"))
    await run_on(FakeCluster("a", "b"), plan, watch=events.append)
    (state, message) = next(iter(ended(events).values()))
    assert state is ContestantState.FAILED
    assert "gone.json" in message


@pytest.mark.parametrize("option", ["record_dir", "replay_dir", "cache_dir"])
async def test_what_is_kept_on_one_machine_is_refused(exam, tmp_path, option):
    plan = plan_for(exam, tmp_path / "run", **{option: str(tmp_path / "kept")})
    with pytest.raises(UsageError, match="cannot be used with --on"):
        await run_on(FakeCluster("a"), plan)


async def test_batches_and_files_of_tools_are_refused(exam, tmp_path):
    plan = plan_for(exam, tmp_path / "run", batch=True)
    with pytest.raises(UsageError, match="needs no cluster"):
        await run_on(FakeCluster("a"), plan)
    (tmp_path / "tools.py").write_text("def tool(): return 1\n")
    agent = AgentRef(options={"tools": str(tmp_path / "tools.py")})
    plain = plan_for(exam, tmp_path / "run")
    contestants = tuple(replace(contestant, agent=agent) for contestant in plain.spec.contestants)
    with pytest.raises(UsageError, match="the file of 'tools' is on this machine alone"):
        await run_on(FakeCluster("a"), replace(plain, spec=replace(plain.spec, contestants=contestants)))


# --- everything else a run can do ---------------------------------------------------------------------


async def test_judges_are_asked_from_the_nodes_and_counted_as_on_one_machine(exam, server, tmp_path):
    server.answer = lambda prompt: '{"reason": "fine", "grade": 8}' if "Rubric:" in prompt else "It is a line."

    def plan(name):
        options = {"chosen_scorers": ("judge",), "judges": (make_ref("anthropic", "referee"),), "max_connections": 4}
        return plan_for(exam, tmp_path / name, limit=12, **options)

    await run_plan(plan("one"))
    await run_on(FakeCluster("a", "b"), plan("two"))
    assert results(tmp_path / "two") == results(tmp_path / "one")

    def judgements(name):
        with StoreReader(tmp_path / name) as reader:
            return sorted(reader.rows("SELECT trial, scorer, judge, value, calls, input_tokens FROM judgements"))

    assert judgements("two") == judgements("one") != []
    assert sum(one.model == "referee" for one in server.ledger) == 24


async def test_an_answer_that_waits_for_its_judge_outlives_a_stop(exam, server, tmp_path):
    """It was paid for: it is kept, and judged when the run goes on; the contestant is not asked again."""
    stop, slow = Stop(), asyncio.Event()
    server.answer = lambda prompt: '{"reason": "fine", "grade": 8}' if "Rubric:" in prompt else "It is a line."
    server.fault = lambda one, number: Fault(status=503) if one.model == "referee" and not slow.is_set() else None
    options = {"chosen_scorers": ("judge",), "judges": (make_ref("anthropic", "referee"),), "max_connections": 4, "limit": 4}

    async def twice():
        await asyncio.sleep(2.0)
        stop.ask()
        stop.ask()

    stopping = asyncio.ensure_future(twice())
    await run_on(FakeCluster("a", "b"), plan_for(exam, tmp_path / "run", **options), stop=stop)
    await stopping
    slow.set()
    await run_on(FakeCluster("a"), plan_for(exam, tmp_path / "run", **options))
    assert sum(one.model == "gpt-x" for one in server.ledger) == 4
    assert {row[1] for row in results(tmp_path / "run").values()} == {0.8}


class Watched(FakeCluster):
    """A cluster that keeps what its nodes were told."""

    def __init__(self, *names):
        super().__init__(*names)
        self.told = []

    async def start(self, member, resources):
        link = await super().start(member, resources)
        obey = link.worker._obey

        def seen(order):
            self.told.append((member.name, order))
            obey(order)

        link.worker._obey = seen
        return link


@pytest.mark.needs("bubblewrap")
async def test_coding_tasks_are_done_where_their_files_travel_once(tmp_path):
    """Two contestants and two repeats of one large task: its files go to each node once."""
    task = (ROOT / "benchmark" / "tasks" / "easy" / "fix_typo.md").read_text()
    (tmp_path / "tasks").mkdir()
    padding = "```text file=notes.txt\n" + "note\n" * 10_000 + "```\n\n"
    (tmp_path / "tasks" / "typo.md").write_text(task.replace("## Verify", f"{padding}## Verify"))
    models = [make_ref("baseline", "constant"), make_ref("baseline", "random")]
    spec = spec_of(models, f"tasks:{tmp_path / 'tasks'}", tmp_path / "run", agents=("solution",), repeats=2)
    cluster, events = Watched("a", "b"), []
    await run_on(cluster, make_plan(spec), watch=events.append, flags=Flags(per_node=2))
    works = [e.result.work for e in events if isinstance(e, TrialFinished)]
    assert [work.outcome for work in works] == ["passed"] * 4
    assert {work.isolation.level for work in works} == {"bubblewrap"}
    assert any(isinstance(e, TrialStep) for e in events)
    for node in "ab":
        parcels = [order for name, order in cluster.told if name == node and isinstance(order, Parcel)]
        assert len(parcels) <= 1


async def test_a_race_is_decided_by_the_driver(tmp_path, server):
    rows = [{"id": f"q{i}", "question": f"What is {i}?", "answer": "A"} for i in range(150)]
    (tmp_path / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    answers = [{"when": "What", "text": "A"}]
    for name, text in (("good", "A"), ("bad", "B")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"answers": [{**answers[0], "text": text}]}))
    models = [make_ref("scripted", str(tmp_path / f"{name}.json")) for name in ("good", "bad")]
    spec = spec_of(models, str(tmp_path / "exam.jsonl"), tmp_path / "run", until="leader", max_workers=2)
    events = []
    await run_on(FakeCluster("a", "b"), make_plan(spec), watch=events.append)
    assert ContestantState.DECIDED in {state for state, _ in ended(events).values()}
    assert sum(isinstance(e, TrialFinished) for e in events) < 300


async def test_keys_are_in_no_order_but_the_first(exam, server, tmp_path):
    """And nothing that shows an order shows them."""
    plan, cluster = plan_for(exam, tmp_path / "run", limit=3), Watched("a")
    await run_on(cluster, plan, flags=Flags(send_keys=True))
    key = server.environment()["OPENAI_API_KEY"]
    with_key = [order for _, order in cluster.told if key.encode() in msgspec.msgpack.encode(order)]
    assert [type(order).__name__ for order in with_key] == ["Begin"]
    assert key not in repr(with_key)


# --- whatever goes wrong on a node is that node's loss --------------------------------------------------


class Faulty(FakeCluster):
    """A cluster in which one act of one node's first link fails, after some that did not."""

    def __init__(self, *names, act, error, who="b", after=0):
        super().__init__(*names)
        self.act, self.error, self.who, self.after = act, error, who, after

    async def start(self, member, resources):
        link = await super().start(member, resources)
        if member.name == self.who and self.started[self.who] == 1:
            setattr(link, self.act, self._failing(link, getattr(link, self.act), count(1)))
        return link

    def _failing(self, link, working, numbers):
        def ends():
            working()
            raise self.error

        async def fails(*given):
            if next(numbers) > self.after:
                raise self.error
            return await working(*given)

        return ends if self.act == "end" else fails


ODD = [OSError("no more threads"), asyncio.CancelledError("given up"), KeyError("odd")]


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("act", "after"), [("inspect", 0), ("tell", 2), ("hear", 8), ("close", 0)])
async def test_an_error_on_the_way_to_a_node_is_that_nodes_loss(exam, server, tmp_path, act, after, error):
    """Whatever it is, every trial ends once, nothing is asked more often than nodes were lost, and no place is lost."""
    events = []
    plan = plan_for(exam, tmp_path / "run", max_connections=8)
    cluster = Faulty("a", "b", act=act, error=error, after=after)
    await run_on(cluster, plan, watch=events.append, flags=Flags(per_node=4))
    assert len(results(tmp_path / "run")) == len(ROWS)
    assert ended(events) == {"openai/gpt-x": (ContestantState.FINISHED, "")}
    assert len(server.ledger) <= len(ROWS) + 4 * len(lost(events))
    assert {name for name, _ in lost(events)} <= {"b"}


async def test_a_worker_that_cannot_be_ended_keeps_no_trial(exam, server, tmp_path):
    """The loss itself meets an error: its trials go to others all the same."""
    cluster = Faulty("a", "b", act="end", error=OSError("no more threads"))
    watch = Disturbed(after=10, act=lambda: cluster.link("b").cut())
    await run_on(cluster, plan_for(exam, tmp_path / "run", max_connections=8), watch=watch, flags=Flags(per_node=4))
    assert len(results(tmp_path / "run")) == len(ROWS)
    assert ended(watch.events) == {"openai/gpt-x": (ContestantState.FINISHED, "")}


class Sick(FakeCluster):
    """A cluster in which attempts on some nodes meet an error nobody expected."""

    def __init__(self, *names, who, error=None):
        super().__init__(*names, patience=CALM)
        self.who, self.error, self.met = who, error or RuntimeError("a disk is sick"), []

    async def start(self, member, resources):
        link = await super().start(member, resources)
        if member.name in self.who:
            begin = link.worker._begin

            def begun(order):
                begin(order)
                link.worker._servings._result = fails

            async def fails(order):
                self.met.append((member.name, order.trial))
                raise self.error

            link.worker._begin = begun
        return link


@pytest.mark.parametrize("error", [RuntimeError("odd"), asyncio.CancelledError(), Interrupted()], ids=lambda e: type(e).__name__)
async def test_an_attempt_that_breaks_on_one_node_is_made_on_another(exam, server, tmp_path, error):
    """Also one that is left there, though nobody asked for that: it is not lost in silence."""
    cluster, events = Sick("a", "b", who="b", error=error), []
    await run_on(cluster, plan_for(exam, tmp_path / "run", max_connections=4), watch=events.append, flags=Flags(per_node=2))
    assert len(results(tmp_path / "run")) == len(ROWS)
    assert {row[0] for row in results(tmp_path / "run").values()} == {"answered"}
    assert ended(events) == {"openai/gpt-x": (ContestantState.FINISHED, "")}
    assert len(cluster.met) == len(set(cluster.met)), "no trial is made twice where it broke"
    assert lost(events) == []


async def test_an_attempt_that_breaks_everywhere_ends_its_contestant_in_words(exam, server, tmp_path):
    """As on one machine: every further trial would end alike."""
    cluster, events = Sick("a", "b", who="ab"), []
    await run_on(cluster, plan_for(exam, tmp_path / "run", max_connections=4), watch=events.append, flags=Flags(per_node=2))
    state, message = ended(events)["openai/gpt-x"]
    assert state is ContestantState.FAILED
    assert "unexpected RuntimeError: a disk is sick" in message
    assert {message.partition(": ")[0], message.partition("; ")[2].partition(": ")[0]} == {"a", "b"}
    assert len(cluster.met) <= 12


async def test_a_contestant_whose_time_is_over_costs_no_node_and_no_other_contestant(exam, server, tmp_path):
    """Trials that were given away in the very moment it ended are left, and their places free."""
    models = [make_ref("openai", name) for name in ("gpt-slow", "gpt-x")]
    spec = spec_of(models, str(exam), tmp_path / "run", max_connections=3, timeout_s=4.0, max_workers=2, limit=12)
    server.latency_of = {"gpt-slow": 60.0}
    cluster, events = FakeCluster("a", "b", patience=CALM), []
    await run_on(cluster, make_plan(spec), watch=events.append, flags=Flags(per_node=3))
    states = {label: state for label, (state, _) in ended(events).items()}
    assert states == {"openai/gpt-slow": ContestantState.TIMED_OUT, "openai/gpt-x": ContestantState.FINISHED}
    assert lost(events) == []


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk I/O error"), OSError(5, "Input/output error")])
async def test_a_result_that_cannot_be_written_ends_the_run_with_its_reason(exam, server, tmp_path, monkeypatch, error):
    """At once, whatever the nodes still do; they are let go of."""

    def commit(writer, batch, committing=Writer._commit):
        if any(isinstance(event, TrialFinished) for event in batch.events):
            raise error
        committing(writer, batch)

    monkeypatch.setattr(Writer, "_commit", commit)
    cluster = FakeCluster("a", "b")
    with pytest.raises(StoreError, match=r"the results could not be written .*; resume the run to continue"):
        await run_on(cluster, plan_for(exam, tmp_path / "run", max_connections=4))
    assert all(link.dead for link in cluster.links)


async def test_a_node_that_hangs_at_the_start_holds_nobody_up(exam, server, tmp_path):
    """The others begin without it; when it is there after all, it joins them."""
    cluster, made, events = FakeCluster("a", "b"), FakeCluster.start, []

    async def start(member, resources):
        while member.name == "b" and not any(isinstance(e, TrialFinished) for e in events):
            await asyncio.sleep(0.05)
        return await made(cluster, member, resources)

    cluster.start, server.latency_s = start, 0.5
    plan = plan_for(exam, tmp_path / "run", max_connections=6)
    await run_on(cluster, plan, watch=events.append, flags=Flags(per_node=4))
    assert len(results(tmp_path / "run")) == len(ROWS)
    ready = [index for index, e in enumerate(events) if isinstance(e, NodeChanged) and e.state is NodeState.READY]
    first = next(index for index, e in enumerate(events) if isinstance(e, TrialFinished))
    assert ready[0] < first < ready[1]


async def test_a_worker_that_is_being_started_is_waited_for(exam, server, tmp_path):
    """Longer than for a node that is not there: on a busy machine a start takes its time."""
    cluster, made = FakeCluster("a"), FakeCluster.start

    async def start(member, resources):
        await asyncio.sleep(QUICK.nobody_s + 1.5 if cluster.links else 0)
        return await made(cluster, member, resources)

    cluster.start = start
    watch = Disturbed(after=10, act=lambda: cluster.link("a").kill())
    await run_on(cluster, plan_for(exam, tmp_path / "run", max_connections=4), watch=watch)
    assert len(results(tmp_path / "run")) == len(ROWS)
    assert ended(watch.events) == {"openai/gpt-x": (ContestantState.FINISHED, "")}


async def test_a_run_that_no_node_can_take_part_in_leaves_no_folder(exam, server, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="no node of the cluster can take part"):
        await run_on(Told("a", who="a", version="0.0.9"), plan_for(exam, tmp_path / "run"))
    with pytest.raises(UsageError, match="--strict"):
        plan = plan_for(exam, tmp_path / "run")
        await run_on(Told("a", "b", who="b", python="3.9"), plan, flags=Flags(strict=True))
    assert sorted(tmp_path.rglob("*")) == before
