"""What was said is kept as it was said; what cannot be used is refused with a reason."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.specs import trial_of

from tiebreak.core.errors import FailureKind, ProtocolMismatch, StoreBusy, StoreError, UsageError
from tiebreak.core.events import TrialFinished
from tiebreak.core.message import Usage, user
from tiebreak.core.model import ModelRef
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Failure, Outcome, Output, Score, TrialResult
from tiebreak.store.folder import DATABASE, check_writable, find_run, new_run_folder
from tiebreak.store.ledger import Ledger
from tiebreak.store.reader import StoreReader
from tiebreak.store.store import Store

MODEL = ModelRef(provider="scripted", name="script", label="model")
STRANGER = ModelRef(provider="scripted", name="script", label="stranger")
"""Not in the run: its results cannot be written."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANY_TEXT = st.text(st.characters(exclude_categories=()))


def result_of(text, *, question="Why?"):
    sample = Sample(id=text, messages=(user(question),), targets=(text,), category=text, group=text)
    trial = trial_of(sample, MODEL)
    output = Output(text=text, thinking=text, usage=Usage(input_tokens=1, output_tokens=2, cost_usd=0.5), attempts=3)
    scores = {"match": Score(value=1.0, answer=text, because=text)}
    return TrialResult(trial=trial, outcome=Outcome.ANSWERED, output=output, scores=scores, finished_at=NOW)


async def told(*results):
    for result in results:
        yield TrialFinished(result)


async def stored(folder, info, *results):
    with Store.open(folder, info) as store:
        return [event async for event in store.committed(told(*results))]


def rows(folder, query):
    with StoreReader(folder) as reader:
        return list(reader.rows(query))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(text=ANY_TEXT)
def test_any_text_comes_back(tmp_path_factory, info, text):
    """Letter by letter; only a lone surrogate, which has no bytes, becomes a question mark."""
    folder = tmp_path_factory.mktemp("run")
    asyncio.run(stored(folder, info(), result_of(text, question=text)))
    kept = text.encode("utf-8", "replace").decode()
    assert rows(folder, "SELECT sample, category, text, answer, because FROM trials") == [(kept,) * 5]
    assert rows(folder, "SELECT prompt, target, grouped FROM samples") == [(kept,) * 3]


async def test_numbers_come_back(tmp_path, info):
    """Score, tokens, money and attempts."""
    await stored(tmp_path, info(), result_of("x"))
    query = "SELECT score, outcome, input_tokens, output_tokens, cost_usd, attempts FROM trials"
    assert rows(tmp_path, query) == [(1.0, "answered", 1, 2, 0.5, 3)]


async def test_events_are_heard_once_they_are_on_disk(tmp_path, info):
    """Whoever hears of a trial finds it in the database."""
    results = [result_of(str(i), question=f"{i}?") for i in range(20)]

    async def events():
        for result in results:
            yield TrialFinished(result)

    heard = 0
    with Store.open(tmp_path, info()) as store:
        async for _ in store.committed(events()):
            heard += 1
            assert rows(tmp_path, "SELECT count(*) FROM trials")[0][0] >= heard
    assert heard == 20


async def test_a_result_that_cannot_be_written_down_ends_the_run_in_words(tmp_path, info):
    """Whoever waits for it hears why, at once; whoever makes results is ended, and what was there before is kept."""
    stranger = replace(result_of("b"), trial=trial_of(Sample(id="b", messages=(user("?"),)), STRANGER))
    ended = []

    async def events():
        try:
            yield TrialFinished(result_of("a"))
            await asyncio.sleep(0.2)
            yield TrialFinished(stranger)
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with (
        pytest.raises(StoreError, match=r"the results could not be written .*resume the run"),
        Store.open(tmp_path, info()) as store,
    ):
        async with asyncio.timeout(10):
            async for _ in store.committed(events()):
                pass
    assert ended == [True]
    assert rows(tmp_path, "SELECT sample FROM trials") == [("a",)]


async def test_a_last_result_that_cannot_be_written_down_is_heard_of_too(tmp_path, info):
    stranger = replace(result_of("b"), trial=trial_of(Sample(id="b", messages=(user("?"),)), STRANGER))
    with pytest.raises(StoreError, match="the results could not be written"):
        await asyncio.wait_for(stored(tmp_path, info(), result_of("a"), stranger), 10)


def test_a_new_run_that_is_refused_leaves_nothing_behind(tmp_path, info):
    """Nothing was asked: there is nothing to resume, and the folder's name is free. What else lies there stays."""
    folder, used = tmp_path / "new", tmp_path / "used"
    used.mkdir()
    (used / "notes.txt").write_text("mine")
    for place in (folder, used):
        with pytest.raises(UsageError), Store.open(place, info()):
            raise UsageError("no node can take part")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["notes.txt", "used"]


def test_a_refused_run_takes_no_file_of_the_users_with_it(tmp_path, info):
    (tmp_path / "samples.jsonl").write_text("mine")
    with pytest.raises(UsageError), Store.open(tmp_path, info()):
        raise UsageError("not here")
    assert [path.name for path in tmp_path.iterdir()] == ["samples.jsonl"]
    assert (tmp_path / "samples.jsonl").read_text() == "mine"


def test_a_refused_run_that_may_have_spent_something_stays(tmp_path, info):
    with pytest.raises(UsageError), Store.open(tmp_path, info()):
        with Ledger.open(tmp_path) as ledger:
            ledger.keep(5, 0)
        raise UsageError("not here")
    with Ledger.open(tmp_path) as ledger:
        assert ledger.risked == (5, 0)


async def test_a_run_that_has_results_stays_when_it_is_refused(tmp_path, info):
    await stored(tmp_path / "run", info(), result_of("a"))
    with pytest.raises(UsageError), Store.open(tmp_path / "run", info()):
        raise UsageError("no node can take part")
    assert rows(tmp_path / "run", "SELECT count(*) FROM trials") == [(1,)]


async def test_the_same_trial_is_never_counted_twice(tmp_path, info):
    """A second result for a trial that has one is dropped."""
    first = result_of("first")
    second, third = (replace(first, output=replace(first.output, text=text)) for text in ("second", "third"))
    await stored(tmp_path, info(), first, second)
    await stored(tmp_path, info(), third)
    assert rows(tmp_path, "SELECT text FROM trials") == [("first",)]


async def test_a_superseded_row_keeps_its_tokens(tmp_path, info):
    """What a failed attempt consumed stays in the books when the trial is asked again."""
    answered = result_of("x")
    failure = Failure(kind=FailureKind.TRANSIENT, message="cut", at=NOW)
    await stored(tmp_path, info(), replace(answered, outcome=Outcome.FAILED, scores={}, failure=failure))
    await stored(tmp_path, info(), answered)
    query = "SELECT outcome, superseded, input_tokens, output_tokens, cost_usd FROM trials ORDER BY rowid"
    assert rows(tmp_path, query) == [("failed", 1, 1, 2, 0.5), ("answered", 0, 1, 2, 0.5)]


async def test_no_secret_is_stored(tmp_path, info, monkeypatch):
    """Neither in what a model said nor in what a server complained."""
    monkeypatch.setenv("SOME_API_KEY", "hunter2hunter2")
    said = result_of("hunter2hunter2")
    failure = Failure(kind=FailureKind.AUTH, message="bad key hunter2hunter2", at=NOW)
    other = Sample(id="o", messages=(user("other"),))
    trial = trial_of(other, MODEL)
    failed = TrialResult(trial=trial, outcome=Outcome.FAILED, failure=failure, finished_at=NOW)
    await stored(tmp_path, info(), said, failed)
    kept = rows(tmp_path, "SELECT text, thinking, answer, failure FROM trials")
    assert "hunter2" not in str(kept)
    assert "[hidden]" in str(kept)


def test_a_second_owner_is_refused(tmp_path, info):
    """And told who owns the run; nothing is changed."""
    refused = pytest.raises(StoreBusy, match="owned by another process")
    with Store.open(tmp_path, info()), refused as caught, Store.open(tmp_path, info()):
        pass
    assert tmp_path.name in str(caught.value)
    with Store.open(tmp_path, info()):
        pass


def test_another_process_is_refused_too(tmp_path, info):
    """The lock holds between processes and goes with its owner."""
    hold = "import sys; from pathlib import Path; from tiebreak.store.folder import owned\n"
    hold += "with owned(Path(sys.argv[1])): print('mine', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"mine\n"
        with pytest.raises(StoreBusy, match=f"pid {process.pid}"), Store.open(tmp_path, info()):
            pass
        process.kill()
    with Store.open(tmp_path, info()):
        pass


def test_a_reader_is_welcome_while_the_run_goes_on(tmp_path, info):
    """Reading needs no ownership."""
    with Store.open(tmp_path, info()), StoreReader(tmp_path) as reader:
        assert reader.info == info()


@pytest.mark.parametrize("garbage", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_named_and_left_alone(tmp_path, info, garbage):
    """Reading and writing both say what and where, and nothing is lost."""
    (tmp_path / DATABASE).write_bytes(garbage)
    with pytest.raises(StoreError, match="damaged") as caught:
        StoreReader(tmp_path)
    assert DATABASE in str(caught.value)
    with pytest.raises(StoreError, match="damaged"), Store.open(tmp_path, info()):
        pass
    assert (tmp_path / DATABASE).read_bytes() == garbage


async def test_damage_within_is_found(tmp_path, info):
    """A page of nonsense in the middle is seen before anything is asked."""
    await stored(tmp_path, info(), *(result_of("x" * 3000, question=f"{i}?") for i in range(30)))
    data = bytearray((tmp_path / DATABASE).read_bytes())
    data[4096:] = b"\xab" * (len(data) - 4096)
    (tmp_path / DATABASE).write_bytes(data)
    with pytest.raises(StoreError, match="damaged"), Store.open(tmp_path, info()):
        pass


def test_a_foreign_database_is_left_alone(tmp_path, info):
    """A file of the right name that is not ours is not written to."""
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as foreign:
        foreign.execute("CREATE TABLE recipes (name)")
        foreign.commit()
    before = (tmp_path / DATABASE).read_bytes()
    with pytest.raises(StoreError, match="something else"):
        StoreReader(tmp_path)
    with pytest.raises(StoreError, match="something else"), Store.open(tmp_path, info()):
        pass
    assert (tmp_path / DATABASE).read_bytes() == before


def test_a_newer_run_is_not_guessed_at(tmp_path, info):
    """It says to update the tool."""
    with Store.open(tmp_path, info()):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="newer version"), Store.open(tmp_path, info()):
        pass


async def test_what_was_said_is_kept_where_nobody_judged_it(tmp_path, info):
    """An answer from another tool's log may have no score, and be judged by us later."""
    failure = Failure(kind=FailureKind.UNCHECKED, message="the log has no score for it", at=NOW)
    await stored(tmp_path, info(), replace(result_of("said"), outcome=Outcome.FAILED, scores={}, failure=failure))
    assert rows(tmp_path, "SELECT text, score, failure_kind FROM trials") == [("said", None, "unchecked")]


INDEXES = ("one_result_per_trial", "one_row_per_sample")
_INDEXES_THERE = "SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE 'one_%' ORDER BY name"


async def test_indexes_that_were_put_off_are_there_in_the_end(tmp_path, info):
    """While a new run is written they are missing, so that its ten-thousandth row costs what its first did."""
    with Store.open(tmp_path, info(), without=INDEXES) as store:
        assert rows(tmp_path, _INDEXES_THERE) == []
        events = store.committed(told(result_of("a"), result_of("b")))
        assert len([event async for event in events]) == 2
        assert rows(tmp_path, "SELECT text FROM trials JOIN samples USING (asked) ORDER BY 1") == [("a",), ("b",)]
    assert rows(tmp_path, _INDEXES_THERE) == [(name,) for name in INDEXES]


async def test_a_run_that_was_cut_down_gets_its_indexes_when_it_goes_on(tmp_path, info):
    """And then the same trial is not counted twice."""
    with contextlib.suppress(KeyboardInterrupt), Store.open(tmp_path, info(), without=INDEXES) as store:
        assert len([event async for event in store.committed(told(result_of("a")))]) == 1
        raise KeyboardInterrupt
    assert rows(tmp_path, _INDEXES_THERE) == []
    with Store.open(tmp_path, info(), without=INDEXES) as store:
        assert rows(tmp_path, _INDEXES_THERE) == [(name,) for name in INDEXES]
        assert len([event async for event in store.committed(told(result_of("a")))]) == 1
    assert rows(tmp_path, "SELECT count(*) FROM trials") == rows(tmp_path, "SELECT count(*) FROM samples") == [(1,)]


def test_an_unknown_run_lists_the_known_ones(tmp_path, info):
    """A typing error is met with what there is."""
    with pytest.raises(StoreError, match="no runs in"):
        find_run("nothing", tmp_path)
    with Store.open(tmp_path / "run_a", info()):
        pass
    with pytest.raises(StoreError, match=r"'run_b'.*run_a"):
        find_run("run_b", tmp_path)
    assert find_run("run_a", tmp_path) == find_run(str(tmp_path / "run_a"), tmp_path) == tmp_path / "run_a"
    with pytest.raises(StoreError, match="no run in"):
        StoreReader(tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"dataset_digest": "11"}, "other questions"),
        ({"seed": 1}, "another seed"),
        ({"limit": 5}, "limit"),
        ({"scorers": ("match/2",)}, "other scorers"),
    ],
)
def test_other_questions_are_not_mixed_in(tmp_path, info, change, named):
    """A run goes on with what it was made with, or not at all; the message names the difference."""
    with Store.open(tmp_path, info()):
        pass
    with pytest.raises(ProtocolMismatch, match=named), Store.open(tmp_path, info(**change)):
        pass


def test_runs_started_in_the_same_second_get_their_own_folders(tmp_path):
    """No run writes into another's."""
    assert len({new_run_folder(tmp_path, NOW) for _ in range(5)}) == 5


def test_a_folder_that_cannot_be_written_is_found_at_once(tmp_path, info):
    """Before the first paid answer, not after it."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="--output"), Store.open(tmp_path / "file" / "run", info()):
        pass


def test_trying_the_disk_leaves_nothing_behind_when_it_is_killed(tmp_path, monkeypatch):
    """At the moment of the flush there is no file that a kill could leave."""
    seen = []
    flush = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (seen.append(list(tmp_path.iterdir())), flush(descriptor)))
    check_writable(tmp_path, 1)
    assert seen == [[]]
