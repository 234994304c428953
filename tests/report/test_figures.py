"""What a run at rest keeps for its reports is what they would work out, and is forgotten when the run changes."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.command import ROOT
from support.made import Planted, Trials, described, samples, write_run

import tiebreak.store.reader
from tiebreak import pipeline
from tiebreak.core.errors import StoreError
from tiebreak.core.work import Work, WorkOutcome
from tiebreak.pipeline import rebuild, settle
from tiebreak.report import spread, summary
from tiebreak.report.browse import FILTERS, Census, in_order, kept_census, kept_facts, pick, sample_facts
from tiebreak.store.folder import DATABASE, owned
from tiebreak.store.reader import StoreReader
from tiebreak.store.store import Store

SECONDS = [0.1 * (1 + i % 7) for i in range(60)]
QUESTIONS = [
    Planted(
        label="a", planted=[float(i % 3 == 0) for i in range(60)], seconds=SECONDS, second=[float(i % 4 == 0) for i in range(60)]
    ),
    Planted(label="b", planted=["timeout" if i == 5 else i % 5 / 4 for i in range(60)], cost_usd=None),
    Planted(label="c", planted=["refused" if i % 9 == 0 else 1 / 3 for i in range(60)], cost_usd=0.1 + 0.2),
    Planted(label="line", planted=[0.0] * 60, reference=True),
]
DONE = Work(outcome=WorkOutcome.PASSED, seconds=3.0, first_try=True, checked=True)
RUNS = {
    "questions": (QUESTIONS, 60, 1),
    "repeats": (QUESTIONS, 20, 3),
    "not finished": ([Planted(label="a", planted=[1.0]), Planted(label="b", planted=[])], 3, 1),
    "tasks": ([Planted(label="a", agent="builtin", planted=[1.0, 0.0], work=DONE)], 2, 1),
    "nothing asked": ([Planted(label="a", planted=[])], 2, 1),
}


def made(folder: Path, kind: str = "questions") -> Path:
    contestants, count, repeats = RUNS[kind]
    groups, categories = [f"g{i % 4}" for i in range(count)], ["", "x", "y"] * count
    return write_run(folder, contestants, Trials(samples(count, groups=groups, categories=categories)), repeats=repeats)


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(folder / DATABASE)) as connection:
        found = connection.execute(query).fetchall()
        connection.commit()
        return found


def kept(folder: Path) -> list[object]:
    return [name for (name,) in rows(folder, "SELECT name FROM figures ORDER BY name")]


@pytest.mark.parametrize("kind", RUNS)
def test_kept_figures_are_those_worked_out(tmp_path: Path, kind: str) -> None:
    """To the last digit, and in the same order."""
    folder = made(tmp_path / "r", kind)
    with StoreReader(folder) as reader:
        whole = summary.work_out(reader)
        spreads, facts, census = spread.work_out(reader, whole), list(sample_facts(reader, whole)), Census()
        assert kept_census(reader) is None
        assert list(census.of(facts)) == facts
    settle(folder)
    with StoreReader(folder) as reader:
        assert reader.figures("summary", summary.Summary) == whole
        assert reader.figures("spreads", spread.Spreads) == spreads
        assert kept_census(reader) == census
        assert list(kept_facts(reader)) == list(sample_facts(reader, whole)) == facts


def contents(paths: Sequence[Path]) -> dict[str, bytes]:
    """Every file by its name; of a folder, those in it."""
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return {file.as_posix().rpartition("/r/")[2]: file.read_bytes() for file in files}


@pytest.mark.parametrize("kind", RUNS)
def test_files_are_the_same_from_kept_figures(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the byte: the page, the JSON and the CSV."""
    folder = made(tmp_path / "kept" / "r", kind)
    shutil.copytree(folder, tmp_path / "bare" / "r")
    first = rebuild(folder)
    again = contents(first)
    assert contents(rebuild(folder)) == again
    monkeypatch.setattr(pipeline, "settle", lambda folder: True)
    bare = rebuild(tmp_path / "bare" / "r")
    assert kept(folder) == ["census", "spreads", "summary"]
    assert kept(tmp_path / "bare" / "r") == []
    assert contents(bare) == again


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE trials SET score = 0",
        "UPDATE trials SET superseded = 1 WHERE number = 1",
        "DELETE FROM trials WHERE number = 3",
        "INSERT INTO trials SELECT 999, 'new', contestant, asked, sample, category, repeat, outcome, score, NULL, NULL,"
        " 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, '', 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM trials LIMIT 1",
        "UPDATE run SET info = info",
        "DELETE FROM samples WHERE rowid = 1",
        "UPDATE contestants SET label = 'z' WHERE contestant = 1",
        "INSERT INTO ends VALUES (1, 'failed', '', 1, '')",
        "INSERT INTO work VALUES ('x', '', '{}', '[]')",
    ],
)
def test_any_change_makes_them_forgotten(tmp_path: Path, change: str) -> None:
    """Also one by hand, with any program."""
    folder = made(tmp_path / "r")
    settle(folder)
    assert len(kept(folder)) == 3
    rows(folder, change)
    assert kept(folder) == []


def test_a_run_that_goes_on_forgets_them_before_it_asks(tmp_path: Path) -> None:
    """And what is shown meanwhile comes from its rows."""
    folder = made(tmp_path / "r")
    settle(folder)
    with Store.open(folder, described(QUESTIONS, 60)), StoreReader(folder) as reader:
        assert reader.figures("summary", summary.Summary) is None
        assert kept_census(reader) is None


def test_figures_of_another_version_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have been worked out otherwise."""
    folder = made(tmp_path / "r")
    settle(folder)
    monkeypatch.setattr(tiebreak.store.reader, "__version__", "another")
    with StoreReader(folder) as reader:
        assert kept_census(reader) is None


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """A run that somebody is at work on."""
    folder = made(tmp_path / "r")
    with owned(folder):
        yield folder


def test_a_run_somebody_is_at_work_on_is_reported_all_the_same(held: Path) -> None:
    """It keeps nothing."""
    assert all(path.is_file() for path in rebuild(held))
    assert kept(held) == []


def test_a_store_that_cannot_be_written_to_is_reported_all_the_same(tmp_path: Path) -> None:
    """Here, because a reader does not let go of it."""
    folder = made(tmp_path / "r")
    with contextlib.closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert all(path.is_file() for path in rebuild(folder))
    assert kept(folder) == []


def test_a_run_that_was_left_by_an_error_is_settled(tmp_path: Path) -> None:
    """Its database never came back from the way it is written."""
    folder = made(tmp_path / "r")
    with contextlib.suppress(KeyboardInterrupt), Store.open(folder, described(QUESTIONS, 60)):
        raise KeyboardInterrupt
    assert rows(folder, "PRAGMA journal_mode") == [("wal",)]
    assert all(path.is_file() for path in rebuild(folder))
    assert len(kept(folder)) == 3


def test_facts_are_found_by_filter_category_and_order_as_in_memory(tmp_path: Path) -> None:
    """Every combination of them."""
    folder = made(tmp_path / "r")
    settle(folder)
    with StoreReader(folder) as reader:
        facts = list(kept_facts(reader))
        for only in ("", *FILTERS):
            for category in ("", "x", "none such"):
                for sort in ("readings", "sample", "hardest", "apart", "slowest"):
                    wanted = pick(in_order(facts, sort), only=only, category=category)
                    assert list(kept_facts(reader, only=only, category=category, sort=sort)) == wanted
                    assert list(kept_facts(reader, only=only, category=category, sort=sort, start=3, most=4)) == wanted[3:7]


def test_facts_hold_after_the_file_was_compacted(tmp_path: Path) -> None:
    """VACUUM may give rows other numbers, unless they are their own."""
    folder = made(tmp_path / "r")
    rows(folder, "DELETE FROM trials WHERE number % 2 = 0")
    settle(folder)
    rows(folder, "VACUUM")
    with StoreReader(folder) as reader:
        for facts in kept_facts(reader):
            found = list(reader.rows(f"SELECT DISTINCT sample FROM trials WHERE rowid IN ({facts.trials})"))
            assert found == [(facts.sample,)]


def test_damage_in_a_run_left_in_order_is_named_where_it_is_met(tmp_path: Path) -> None:
    """It is not looked through at every opening; whoever comes upon the damage says so."""
    folder = made(tmp_path / "r")
    settle(folder)
    root = rows(folder, "SELECT rootpage FROM sqlite_master WHERE name = 'trials'")[0][0]
    data = bytearray((folder / DATABASE).read_bytes())
    assert isinstance(root, int)
    data[4096 * (root - 1) : 4096 * root] = b"\xab" * 4096
    (folder / DATABASE).write_bytes(data)
    with pytest.raises(StoreError, match="damaged"), StoreReader(folder) as reader:
        list(reader.rows("SELECT text FROM trials"))


def test_a_kill_while_they_are_written_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    """What was half written is undone by whoever comes next."""
    folder = made(tmp_path / "r")
    before = rows(folder, "SELECT * FROM trials")
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tiebreak import pipeline\n"
        "def killed(keeper, summary):\n"
        "    keeper._connection.execute('PRAGMA cache_size = 1')\n"
        "    keeper.keep_facts('SELECT hex(zeroblob(9000)), 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM trials')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "pipeline.keep_facts = killed\n"
        "pipeline.settle(Path(sys.argv[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(folder)], check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert (folder / f"{DATABASE}-journal").exists()
    with StoreReader(folder) as reader:
        assert kept_census(reader) is None
        assert list(reader.rows("SELECT * FROM trials")) == before
        assert list(reader.rows("SELECT count(*) FROM facts")) == [(0,)]
    settle(folder)
    assert len(kept(folder)) == 3
