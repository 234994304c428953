"""A run that was stopped goes on where it stopped."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tiebreak.core.errors import ProtocolMismatch, StoreError
from tiebreak.core.events import ContestantStarted, TrialFinished
from tiebreak.store import store
from tiebreak.store.folder import find_run, has_database
from tiebreak.store.reader import StoreReader

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
    assert (
        (again.contestants[0].right, again.contestants[0].score)
        == (first.contestants[0].right, first.contestants[0].score)
        == (3, 1.0)
    )


async def test_finished_trials_are_not_asked_again(run):
    """Only what failed by somebody else's doing is."""
    first, _ = await run([{"when": "two", "error": "transient"}, *RIGHT])
    assert (first.contestants[0].right, dict(first.contestants[0].failures)) == (2, {"transient": 1})
    again, events = await run(RIGHT)
    assert asked(events) == ["two"]
    assert next(e for e in events if isinstance(e, ContestantStarted)).trials == 1
    assert (again.contestants[0].right, again.contestants[0].failed, again.contestants[0].not_asked) == (3, 0, 0)


@pytest.mark.parametrize("kind", ["bad_request", "context_length"])
async def test_what_the_model_is_to_blame_for_stays(run, kind):
    """Unless asking again was asked for."""
    await run([{"when": "two", "error": kind}, *RIGHT])
    _, events = await run(RIGHT)
    assert asked(events) == []
    summary, events = await run(RIGHT, retry_failed=True)
    assert asked(events) == ["two"]
    assert summary.contestants[0].right == 3


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
    assert (summary.contestants[0].right, summary.contestants[0].wrong, summary.contestants[0].no_answer) == (0, 1, 2)


async def test_another_file_of_the_same_name_is_refused(run):
    """A dataset of another digest asks other questions."""
    await run(RIGHT)
    with pytest.raises(ProtocolMismatch, match="made with other questions"):
        await run(RIGHT, questions=("one", "two", "four"))


async def test_every_planned_trial_ends_in_one_state(run):
    """Right, wrong, no answer, failed and not asked add up to the plan."""
    summary, _ = await run([{"when": "one", "text": "one"}, {"when": "two", "error": "auth"}])
    model = summary.contestants[0]
    assert model.right + model.wrong + model.no_answer + model.failed + model.not_asked == model.planned == 3


def left_half_done(folder, *, mode):
    """A process that was killed while the journal mode changed: its journal is there, and the change is not undone."""
    program = (
        "import os, signal, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        f"c.execute('PRAGMA journal_mode = {mode}')\n"
        "c.execute('PRAGMA cache_size = 1')\n"
        "c.execute('BEGIN IMMEDIATE')\n"
        'c.execute("UPDATE trials SET text = hex(zeroblob(20000))")\n'
        'c.execute("UPDATE samples SET prompt = hex(zeroblob(20000))")\n'
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(folder / "run.sqlite")], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
async def test_a_run_killed_in_the_middle_of_a_write_is_read_and_goes_on(run, mode):
    """A hot journal is rolled back by whoever comes next, also by one who only reads."""
    await run([{"when": "two", "error": "transient"}, *RIGHT])
    left_half_done(run.folder, mode=mode)
    assert mode == "WAL" or (run.folder / "run.sqlite-journal").exists()
    assert rows(run.folder, "SELECT count(*) FROM trials WHERE text LIKE '00%'") == [(0,)]
    summary, events = await run(RIGHT)
    assert (asked(events), summary.contestants[0].right) == (["two"], 3)


@pytest.mark.parametrize("step", ["owned", "create", "migrate", "_record", "replace", "connected", "put_off"])
async def test_a_run_killed_while_it_begins_can_begin_again(run, step, monkeypatch):
    """There is a whole run or none: never one that is both there and not."""

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*((Path, "replace") if step == "replace" else (store, step)), killed)
        with pytest.raises(KeyboardInterrupt):
            await run(RIGHT)
    if not has_database(run.folder) and (run.folder / "run.lock").exists():
        with pytest.raises(StoreError, match="before it asked anything"):
            find_run(str(run.folder), run.folder.parent)
    summary, _ = await run(RIGHT)
    assert summary.contestants[0].right == 3
