"""Who saw a comparison before the end of the plan is written down first, and what it costs is paid."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from support import planted
from support.made import Planted, Trials, described, result_of, samples, write_run

from tiebreak.core.contestant import Contestant
from tiebreak.core.events import TrialFinished
from tiebreak.core.model import ModelRef
from tiebreak.core.run import Pace, Protocol, RunSpec
from tiebreak.pipeline import read_summary, rebuild, run_benchmark
from tiebreak.report.summary import Summary, summarise
from tiebreak.report.verdict import claims
from tiebreak.store.folder import DATABASE
from tiebreak.store.looks import look_into
from tiebreak.store.reader import StoreReader
from tiebreak.store.store import Store
from tiebreak.viewer.run_view import RunView

HALF = [Planted(label=label, planted=[1.0] * 10) for label in "ab"]
"""Two contestants that were asked 10 samples; the runs below plan 20."""


def unfinished(folder: Path) -> Path:
    return write_run(folder, HALF, Trials(samples(20)))


def looks(folder: Path) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(folder / DATABASE)) as connection:
        return connection.execute("SELECT contestant, answered, planned FROM looks ORDER BY rowid").fetchall()


def test_a_report_of_an_unfinished_run_is_a_look(tmp_path: Path) -> None:
    """Once, however often the same is seen; again when there is more to see."""
    folder = unfinished(tmp_path / "r")
    assert looks(folder) == []
    rebuild(folder)
    read_summary(folder)
    assert looks(folder) == [(1, 10, 20), (2, 10, 20)]
    with Store.open(folder, described(HALF, 20)) as store:
        more = result_of(Trials(samples(20)).of(HALF[0], 0)[10], 1.0, 0.001, 0.5)
        asyncio.run(_write(store, more))
    assert read_summary(folder).looks == 2
    assert looks(folder)[2:] == [(1, 11, 20), (2, 10, 20)]


async def _write(store: Store, *results: object) -> None:
    async def events():
        for result in results:
            yield TrialFinished(result)

    async for _ in store.committed(events()):
        pass


def test_a_page_of_the_viewer_is_a_look(tmp_path: Path) -> None:
    """Of a run that is not finished; turning its pages is no other."""
    folder = unfinished(tmp_path / "r")
    view = RunView(folder)
    view.page.get(view.stamp())
    view.samples(q="", only="", category="", sort="sample", page=0, per_page=5)
    assert looks(folder) == [(1, 10, 20), (2, 10, 20)]


@pytest.mark.parametrize(
    "contestants",
    [
        [Planted(label=label, planted=[1.0] * 20) for label in "ab"],
        [Planted(label="a", planted=[1.0] * 10)],
        [Planted(label="a", planted=[1.0] * 20), Planted(label="b", planted=[])],
        [Planted(label="a", planted=[1.0] * 10), Planted(label="line", planted=[1.0] * 10, reference=True)],
    ],
    ids=["finished", "one alone", "the other not begun", "against a baseline"],
)
def test_where_nothing_is_compared_early_there_is_no_look(contestants: list[Planted], tmp_path: Path) -> None:
    """A finished run, and one in which there is nobody to compare with yet."""
    folder = write_run(tmp_path / "r", contestants, Trials(samples(20)))
    rebuild(folder)
    assert looks(folder) == []


def test_a_look_that_cannot_be_written_down_is_not_shown(tmp_path: Path) -> None:
    """Scores are; who is better is not."""
    folder = unfinished(tmp_path / "r")
    with contextlib.closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as connection:
        connection.execute("CREATE TRIGGER full BEFORE INSERT ON looks BEGIN SELECT RAISE(ROLLBACK, 'no'); END")
    seen = look_into(folder)
    with StoreReader(folder) as reader:
        summary = summarise(reader, seen=seen)
    assert not seen
    assert summary.comparisons == ()
    assert "cannot be written to" in claims(summary)[0].sentence
    assert [c.score for c in summary.contestants] == [1.0, 1.0]


# --- what it costs ----------------------------------------------------------------------------------


def test_who_is_shown_better_early_stays_so(tmp_path: Path) -> None:
    """A clear difference is shown before the end, by a test that may be looked at any number of times."""
    contestants = [Planted(label="a", planted=[1.0] * 60), Planted(label="b", planted=[0.0] * 60)]
    folder = write_run(tmp_path / "r", contestants, Trials(samples(80)))
    pair = read_summary(folder).comparisons[0]
    assert (pair.method, pair.separated, pair.first) == ("anytime", True, "a")


def test_an_early_difference_that_a_fixed_test_would_show_is_not_shown(tmp_path: Path) -> None:
    """Twelve against two: p = 0.013 for a test that was to be made here, and not for one that may be made at any time."""
    ahead, behind = [0.0] * 2 + [1.0] * 58, [1.0] * 2 + [0.0] * 12 + [1.0] * 46
    early = write_run(
        tmp_path / "early", [Planted(label="a", planted=ahead), Planted(label="b", planted=behind)], Trials(samples(80))
    )
    whole = write_run(
        tmp_path / "whole", [Planted(label="a", planted=ahead), Planted(label="b", planted=behind)], Trials(samples(60))
    )
    assert not read_summary(early).comparisons[0].separated
    assert read_summary(whole).leader == "a"


def says(table: np.ndarray) -> None:
    """Have models a and b answer as the table says, by the number in the question."""
    planted.answers["says"] = lambda model, question: "yes" if table["ab".index(model), int(question.split()[-1])] else "no"


def grow(folder: Path, table: np.ndarray, limit: int, rows: int) -> Summary:
    """Run so many samples of the dataset, or go on until so many."""
    dataset = folder / "questions.jsonl"
    dataset.write_text(
        "".join(json.dumps({"id": f"s{i}", "input": f"Question {i}", "target": "yes"}) + "\n" for i in range(rows))
    )
    says(table)
    spec = RunSpec(
        protocol=Protocol(dataset=str(dataset), limit=limit),
        contestants=tuple(
            Contestant(label=label, model=ModelRef(provider=planted.PROVIDER, name=label, label=label)) for label in "ab"
        ),
        pace=Pace(max_workers=2, max_connections=4),
        results_dir=folder / "run",
    )
    try:
        return asyncio.run(run_benchmark(spec))
    finally:
        del planted.answers["says"]


def test_a_run_that_grows_says_so_and_is_tested_at_one_percent_more(tmp_path: Path) -> None:
    """Three extensions: the verdict states the total."""
    table = np.random.default_rng(0).random((2, 80)) < 0.6
    seen = [grow(tmp_path, table, limit, 80) for limit in (20, 40, 60, 80)]
    assert [(summary.extensions, summary.looks) for summary in seen] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert [round(summary.error, 9) for summary in seen] == [0.05, 0.06, 0.07, 0.08]
    told = {claim.kind: claim.sentence for claim in claims(seen[-1])}
    assert told["looks"] == (
        "The run was extended 3 times: p-values allow for that, and over its whole life the chance of a false difference is at"
        " most 8%."
    )
    assert "looks" not in {claim.kind for claim in claims(seen[0])}


def test_a_difference_that_growing_brings_must_be_clearer(tmp_path: Path) -> None:
    """A tie at its planned end that is extended to p = 0.04 is still one."""
    table = np.ones((2, 60), dtype=bool)
    first = grow(tmp_path, table, 30, 60)
    with StoreReader(tmp_path / "run") as reader:
        done = {int(name.removeprefix("s")) for (name,) in reader.rows("SELECT sample FROM samples")}
    # Of the samples still to come a wins ten and b two: p = 0.039.
    rest = [place for place in range(60) if place not in done]
    table[1, rest[:10]] = False
    table[0, rest[10:12]] = False
    grown = grow(tmp_path, table, 60, 60)
    pair = grown.comparisons[0]
    assert first.leader is None
    assert (pair.first_better, pair.second_better) == (10, 2)
    assert pair.p == pytest.approx(5 * 0.03857, rel=0.01)
    assert not pair.separated
