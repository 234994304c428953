"""Contestants side by side: the end of one, however it comes, is its own."""

import asyncio
import contextlib

from support.specs import spec_of

from tiebreak.core.events import ContestantFinished, ContestantState, TrialFinished
from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Outcome, Output, TrialResult, make_trial
from tiebreak.engine.execute import Assignment, execute
from tiebreak.engine.traffic import Account
from tiebreak.registry import make_ref

TRIALS = 30


class ByHand:
    """An executor that makes of a trial what a test says."""

    machines = 1

    def __init__(self, conditions, attempting, closing):
        self.conditions, self.attempting, self.closing = conditions, attempting, closing

    @contextlib.asynccontextmanager
    async def opened(self, judges):
        yield

    @contextlib.asynccontextmanager
    async def serving(self, service):
        async def attempt(trial):
            await self.attempting(service, trial)
            now = self.conditions.clock.now()
            return TrialResult(trial=trial, outcome=Outcome.ANSWERED, output=Output(text="A"), finished_at=now)

        yield attempt
        await self.closing()


async def nothing(*_):
    """Takes no time."""


async def run(folder, names, *, attempting=nothing, closing=nothing, **pace):
    """Trials of some contestants on one account: the events, once all have ended."""
    models = [make_ref("openai", name) for name in names]
    spec = spec_of(models, "none", folder, max_workers=len(names), **pace)
    samples = [Sample(id=str(i), messages=(user("?"),)) for i in range(TRIALS)]
    todo = [
        Assignment(contestant=c, trials=iter([make_trial(sample, c) for sample in samples]), count=TRIALS)
        for c in spec.contestants
    ]
    happening = execute(todo, spec, executor_of=lambda conditions: ByHand(conditions, attempting, closing))
    return [event async for event in happening]


def ended(events):
    return {e.contestant: (e.state, e.message) for e in events if isinstance(e, ContestantFinished)}


async def test_a_contestant_whose_trials_are_all_done_is_not_out_of_time(tmp_path):
    """Its time is over while its model is being closed: nothing is left to resume."""
    events = await run(tmp_path, ["gpt-x"], closing=lambda: asyncio.sleep(5), timeout_s=0.5)
    assert sum(isinstance(e, TrialFinished) for e in events) == TRIALS
    assert ended(events) == {"openai/gpt-x": (ContestantState.FINISHED, "")}


async def test_a_contestant_out_of_time_is_no_error_for_another_of_its_account(tmp_path, monkeypatch):
    """The account's limit grows while one contestant is leaving: nobody is hired for it any more."""
    accounts = []
    monkeypatch.setattr(Account, "join", lambda self, join=Account.join: (accounts.append(self), join(self))[1])

    async def attempting(service, trial):
        if service.contestant.label == "openai/quick":
            await asyncio.sleep(0.02)
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # As on a cluster, where a trial that is recalled has a last word: its crew is still at work meanwhile.
            leaving.set()
            await asyncio.sleep(0.2)
            raise

    async def grow():
        await leaving.wait()
        accounts[0]._set_limit(accounts[0].limit + 5)
        return accounts[0].limit

    leaving = asyncio.Event()
    growing = asyncio.ensure_future(grow())
    events = await run(tmp_path, ["quick", "slow"], attempting=attempting, timeout_s=0.5)
    assert await growing > 20
    states = {label: state for label, (state, _) in ended(events).items()}
    assert states == {"openai/quick": ContestantState.FINISHED, "openai/slow": ContestantState.TIMED_OUT}


async def test_a_cancellation_that_nobody_asked_for_loses_no_trial_in_silence(tmp_path):
    """A future that is cancelled somewhere below ends the contestant loudly; it is not taken for done."""

    async def attempting(service, trial):
        if trial.sample.id == "7":
            raise asyncio.CancelledError

    events = await run(tmp_path, ["gpt-x"], attempting=attempting)
    state, message = ended(events)["openai/gpt-x"]
    assert state is ContestantState.FAILED
    assert "cancelled, and nobody had asked for that" in message
