"""A run that was stopped goes on where it stopped."""

import pytest

from benchmark.core.errors import ProtocolMismatch
from benchmark.core.events import ModelStarted, TrialFinished
from benchmark.store.reader import StoreReader

RIGHT = [{"when": word, "text": word} for word in ("one", "two", "three")]


def asked(events):
    return sorted(event.result.trial.sample.id for event in events if isinstance(event, TrialFinished))


def rows(folder, query):
    with StoreReader(folder) as reader:
        return list(reader.rows(query))


async def test_a_finished_run_asks_nothing(run):
    """Its results are read from the disk, whatever the model would say now."""
    first, events = await run(RIGHT)
    assert asked(events) == ["one", "three", "two"]
    again, events = await run([])
    assert asked(events) == []
    assert (again.models[0].right, again.models[0].score) == (first.models[0].right, first.models[0].score) == (3, 1.0)


async def test_finished_trials_are_not_asked_again(run):
    """Only what failed by somebody else's doing is."""
    first, _ = await run([{"when": "two", "error": "transient"}, *RIGHT])
    assert (first.models[0].right, dict(first.models[0].failures)) == (2, {"transient": 1})
    again, events = await run(RIGHT)
    assert asked(events) == ["two"]
    assert next(e for e in events if isinstance(e, ModelStarted)).trials == 1
    assert (again.models[0].right, again.models[0].failed, again.models[0].not_asked) == (3, 0, 0)


@pytest.mark.parametrize("kind", ["bad_request", "context_length"])
async def test_what_the_model_is_to_blame_for_stays(run, kind):
    """Unless asking again was asked for."""
    await run([{"when": "two", "error": kind}, *RIGHT])
    _, events = await run(RIGHT)
    assert asked(events) == []
    summary, events = await run(RIGHT, retry_failed=True)
    assert asked(events) == ["two"]
    assert summary.models[0].right == 3


async def test_a_superseded_row_is_kept_for_what_it_cost(run):
    """The failed attempt stays on disk beside the result that counts."""
    await run([{"when": "two", "error": "overloaded", "text": "busy"}, *RIGHT])
    await run(RIGHT)
    query = "SELECT outcome, superseded, attempts, failure FROM trials WHERE sample = 'two' ORDER BY superseded DESC"
    assert rows(run.folder, query) == [("failed", 1, 1, "busy"), ("answered", 0, 1, None)]


async def test_wrong_and_empty_answers_are_results(run):
    """They are not asked again in the hope of better ones."""
    await run([{"when": "one", "text": "wrong"}, {"when": "two", "text": ""}, {"when": "three", "finish": "refused"}])
    summary, events = await run(RIGHT)
    assert asked(events) == []
    assert (summary.models[0].right, summary.models[0].wrong, summary.models[0].no_answer) == (0, 1, 2)


async def test_another_file_of_the_same_name_is_refused(run):
    """A dataset of another digest asks other questions."""
    await run(RIGHT)
    with pytest.raises(ProtocolMismatch, match="dataset_digest"):
        await run(RIGHT, questions=("one", "two", "four"))


async def test_every_planned_trial_ends_in_one_state(run):
    """Right, wrong, no answer, failed and not asked add up to the plan."""
    summary, _ = await run([{"when": "one", "text": "one"}, {"when": "two", "error": "auth"}])
    model = summary.models[0]
    assert model.right + model.wrong + model.no_answer + model.failed + model.not_asked == model.planned == 3
