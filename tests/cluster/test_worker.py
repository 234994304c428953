"""A worker by itself: every trial it is given comes to its end, and is said to have."""

import asyncio
import json

import msgspec
import pytest
from support.fake_cluster import QUICK
from support.server import FakeServer
from support.specs import spec_of

from tiebreak.cluster import worker as working
from tiebreak.cluster.messages import (
    Ask,
    Attempt,
    Beat,
    Begin,
    CallFailed,
    Done,
    GaveUp,
    Left,
    Recall,
    Release,
    Serve,
    encode,
    words,
)
from tiebreak.cluster.servings import _STUB
from tiebreak.cluster.worker import Worker
from tiebreak.core.clock import SystemClock
from tiebreak.core.errors import FailureKind
from tiebreak.core.trial import Outcome, TrialResult
from tiebreak.pipeline import make_plan
from tiebreak.registry import make_ref


@pytest.fixture
def plan(tmp_path, monkeypatch):
    with FakeServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        (tmp_path / "exam.jsonl").write_text(json.dumps({"id": "q", "question": "What?", "answer": "A"}) + "\n")
        yield make_plan(spec_of([make_ref("openai", "gpt-x")], str(tmp_path / "exam.jsonl"), tmp_path / "run"))


@pytest.fixture
async def worker(plan):
    worker = Worker(patience=QUICK)
    spec = plan.spec
    begin = Begin(pace=spec.pace, rules=spec.protocol.tasks, kinds=("question",), judges=())
    serve = Serve(contestant=spec.contestants[0], connections=4, tasks_at_once=1, asks=True)
    await worker.tell(encode([begin, serve]))
    yield worker
    await worker.close()


def attempt(plan, lease=1):
    trial = next(plan.trials(plan.spec.contestants[0]))
    label, sample = trial.contestant.label, msgspec.msgpack.encode(trial.sample)
    return Attempt(lease=lease, label=label, sample=sample, repeat=0, asked=trial.asked, trial=trial.id)


async def heard(worker, kind):
    """What it says, until a word of a kind is among it."""
    said = []
    async with asyncio.timeout(20):
        while not any(isinstance(word, kind) for word in said):
            said += words(await worker.hear())
    return said


@pytest.mark.parametrize("more", [(), (Release(label="openai/gpt-x"),)], ids=["", "released"])
async def test_a_trial_that_is_recalled_before_it_began_is_left(worker, plan, more):
    """Its contestant's time was over: else its place would never be free, and the whole node be given up for it."""
    await worker.tell(encode([attempt(plan), Recall(lease=1), *more]))
    said = await heard(worker, Left)
    assert [word.lease for word in said if isinstance(word, Left)] == [1]
    assert (await heard(worker, Beat))[-1].leases == ()


async def test_a_trial_that_is_given_and_released_in_one_breath_is_left(worker, plan):
    await worker.tell(encode([Release(label="openai/gpt-x"), attempt(plan)]))
    left = next(word for word in await heard(worker, Left) if isinstance(word, Left))
    assert (left.unexpected, left.state) == (False, None)


async def test_a_result_that_cannot_travel_is_the_end_of_its_trial_alone(worker, monkeypatch):
    """A word that cannot be written as bytes keeps no other from being heard."""
    refused = CallFailed(call=7, kind=FailureKind.TRANSIENT, message="refused", retry_after=None, status=500)

    def encoding(batch, encode=encode):
        if any(isinstance(word, Done | CallFailed) for word in batch):
            raise TypeError("no bytes")
        return encode(batch)

    monkeypatch.setattr(working, "encode", encoding)
    result = TrialResult(trial=_STUB, outcome=Outcome.ANSWERED, finished_at=SystemClock().now())
    for word in (Done(lease=5, result=result), refused, Ask(call=8, lease=6, channel="x", size=1, settings={})):
        worker._say(word)
    said = await heard(worker, Left)
    left = next(word for word in said if isinstance(word, Left))
    assert (left.lease, left.unexpected, left.message) == (5, True, "its result cannot be sent: no bytes")
    assert [word.call for word in said if isinstance(word, GaveUp | Ask)] == [7, 8]


def test_a_text_without_bytes_travels_as_it_would_be_stored():
    """A lone surrogate, which some models emit."""
    (left,) = words(encode([Left(lease=1, message="half a \ud83d")]))
    assert left.message == "half a ?"
