"""A run that is finished is resumed without asking, writing or rewriting anything; one that is not quite, is not."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from support.command import run as command
from support.server import FakeServer
from support.specs import spec_of

from tiebreak.core.errors import ProtocolMismatch
from tiebreak.core.events import ContestantFinished, ContestantStarted, TrialFinished
from tiebreak.core.model import ModelRef
from tiebreak.core.run import RetryPolicy, Source
from tiebreak.pipeline import make_plan, rebuild, run_benchmark, summary_if_done
from tiebreak.store.folder import DATABASE

RIGHT = [{"when": word, "text": word} for word in ("one", "two", "three")]


def asked(events):
    return sorted(event.result.trial.sample.id for event in events if isinstance(event, TrialFinished))


async def test_a_finished_run_is_not_written_to(run):
    """Not even opened for it; who watches is told that everyone began and ended."""
    first, _ = await run(RIGHT)
    before = (run.folder / DATABASE).read_bytes()
    again, events = await run([])
    assert again == first
    assert (run.folder / DATABASE).read_bytes() == before
    assert [type(event) for event in events] == [ContestantStarted, ContestantFinished]


async def test_what_failed_is_asked_again_and_what_was_refused_only_on_request(run):
    """As many results as trials are all of them only where every result stands."""
    await run([{"when": "two", "error": "transient"}, *RIGHT])
    assert asked((await run([{"when": "two", "error": "bad_request"}, *RIGHT]))[1]) == ["two"]
    assert asked((await run(RIGHT))[1]) == []
    assert asked((await run(RIGHT, retry_failed=True))[1]) == ["two"]


async def test_a_longer_run_asks_the_rest(run):
    """All of one that was limited is not all of one that is not."""
    assert len(asked((await run(RIGHT, limit=1))[1])) == 1
    assert asked((await run(RIGHT, limit=1))[1]) == []
    assert len(asked((await run(RIGHT, limit=2))[1])) == 1
    summary, events = await run(RIGHT, limit=3)
    assert len(asked(events)) == 1
    assert (summary.contestants[0].right, summary.contestants[0].not_asked) == (3, 0)


async def test_an_end_that_was_never_written_down_is(run):
    """A run killed after its last answer has every result, and no end."""
    await run(RIGHT)
    with sqlite3.connect(run.folder / DATABASE) as connection:
        connection.execute("DELETE FROM ends")
    summary, events = await run([])
    assert (asked(events), summary.contestants[0].state) == ([], "finished")


async def test_a_new_contestant_is_asked(tmp_path):
    """The results of the others are not its own."""
    (tmp_path / "d.jsonl").write_text("".join(json.dumps({"id": w, "input": w, "target": w}) + "\n" for w in ("a", "b")))
    (tmp_path / "s.json").write_text(json.dumps({"answers": [], "default": "?"}))
    one = ModelRef(provider="scripted", name=str(tmp_path / "s.json"), label="one")
    two = replace(one, label="two", settings={"seed": 1})
    events = []
    for models in ([one], [one, two]):
        events.clear()
        spec = spec_of(models, str(tmp_path / "d.jsonl"), tmp_path / "r", retry=RetryPolicy(max_attempts=1))
        await run_benchmark(spec, watch=events.append)
    assert {e.result.trial.contestant.label for e in events if isinstance(e, TrialFinished)} == {"two"}
    assert summary_if_done(make_plan(spec)) is not None


async def test_other_samples_of_the_same_file_are_refused(run):
    """They may be as many as those asked before, and are others."""
    await run(RIGHT, source=Source(ids=("one",)))
    with pytest.raises(ProtocolMismatch, match="another choice or reading of the samples"):
        await run(RIGHT, source=Source(ids=("two",)))


def test_a_finished_run_calls_no_model(tmp_path):
    """Not even to see whether it is there."""
    (tmp_path / "d.jsonl").write_text(json.dumps({"id": "a", "input": "Say a", "target": "a"}) + "\n")
    with FakeServer() as server:
        line = ("--model", "openai/fake", "--dataset", "d.jsonl", "--output", "r")
        assert command(*line, cwd=tmp_path, **server.environment()).returncode == 0
        calls = len(server.ledger)
        assert command("--resume", "r", cwd=tmp_path, **server.environment()).returncode == 0
        assert len(server.ledger) == calls


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A finished run with its reports, by the command."""
    (tmp_path / "d.jsonl").write_text(json.dumps({"id": "a", "input": "Say a", "target": "a"}) + "\n")
    (tmp_path / "s.json").write_text(json.dumps({"answers": [], "default": "a"}))
    done = command("--model", "scripted/s.json", "--dataset", "d.jsonl", "--output", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Clocks of file systems are coarse: the reports are younger than the store by more than their step.
    for path in (tmp_path / "r").iterdir():
        os.utime(path, ns=(10**18, 10**18 + (path.name != DATABASE)))
    return tmp_path / "r"


def test_reports_that_are_there_and_younger_than_the_store_stay(finished: Path) -> None:
    """One that is missing, or older, has all of them rewritten."""
    before = {path.name: path.stat().st_mtime_ns for path in finished.iterdir()}
    again = command("--resume", "r", cwd=finished.parent)
    assert (again.returncode, "up to date" in again.stdout) == (0, True)
    assert {path.name: path.stat().st_mtime_ns for path in finished.iterdir()} == before
    page = (finished / "comparison_report.html").read_bytes()
    (finished / "comparison_report.html").unlink()
    assert "Wrote" in command("--resume", "r", cwd=finished.parent).stdout
    assert (finished / "comparison_report.html").read_bytes() == page
    os.utime(finished / "trials.csv", ns=(1, 1))
    assert "Wrote" in command("--resume", "r", cwd=finished.parent).stdout


def test_the_report_command_always_rewrites(finished: Path) -> None:
    """Files can be rebuilt from the store, whatever they hold."""
    good = (finished / "trials.csv").read_bytes()
    (finished / "trials.csv").write_text("spoiled")
    assert finished / "trials.csv" in rebuild(finished)
    assert (finished / "trials.csv").read_bytes() == good
