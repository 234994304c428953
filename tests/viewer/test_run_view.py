"""What the viewer finds in a run's store."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.made import Planted, Trials, described, result_of, samples, summary_of, write_run

from tiebreak.core.errors import StoreError
from tiebreak.core.events import Event, TrialFinished
from tiebreak.core.trial import TrialResult
from tiebreak.report.browse import FILTERS, SORTS, in_order, pick, sample_facts
from tiebreak.report.summary import summarise
from tiebreak.store.folder import DATABASE, is_running
from tiebreak.store.reader import StoreReader
from tiebreak.store.store import Store
from tiebreak.viewer.app import Viewer
from tiebreak.viewer.run_view import Counts, RunView

ASKED = {"q": "", "only": "", "category": "", "sort": "sample", "page": 0, "per_page": 25}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two models on sixty samples, of which they disagree on some; with words to be searched for."""
    contestants = [
        Planted(label="a", planted=[float(i % 3 == 0) for i in range(60)], texts=[f"word{i} 100%_x" for i in range(60)]),
        Planted(label="b", planted=["timeout" if i == 5 else float(i % 2 == 0) for i in range(60)]),
        Planted(label="line", planted=[0.0] * 60, reference=True),
    ]
    return write_run(tmp_path / "run_1", contestants, Trials(samples(60, categories=["x", "y"] * 30)))


def test_pages_filters_and_orders_are_those_of_the_report(run: Path) -> None:
    """Every filter in every order, page by page, is what the report's own code picks."""
    watched = RunView(run)
    with StoreReader(run) as reader:
        facts = list(sample_facts(reader, summary_of(run)))
    for only in ("", *FILTERS):
        for sort in SORTS:
            wanted = [f.sample for f in pick(in_order(facts, sort), only=only)]
            pages = [watched.samples(**{**ASKED, "only": only, "sort": sort, "page": number}) for number in range(4)]
            assert [row.sample for page in pages for row in page["rows"]] == wanted
            assert {page["total"] for page in pages} == {len(wanted)}
    assert watched.samples(**{**ASKED, "category": "x"})["total"] == 30


@pytest.mark.parametrize(
    ("q", "found"),
    [("WORD7 ", ["s00007"]), ("answer 12", ["s00012"]), ("s00033", ["s00033"]), ("planted timeout", ["s00005"]),
     ("100%_x", None), ("100_", []), ("%", None), ("'; DROP TABLE trials --", []), ("\\", []), ("word", None)],
)  # fmt: skip
def test_search_finds_words_anywhere_and_takes_them_literally(run: Path, q: str, found: list[str] | None) -> None:
    """In names, questions, right answers, answers and failures; nothing in them is a pattern or a command."""
    page = RunView(run).samples(**{**ASKED, "q": q, "per_page": 100})
    assert [row.sample for row in page["rows"]] == ([f"s{i:05}" for i in range(60)] if found is None else found)


def test_looking_changes_nothing_and_leaves_nothing(run: Path) -> None:
    """The store is the same to the byte, and no file is beside it."""
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    watched = RunView(run)
    watched.page.get(watched.stamp())
    watched.state.get(watched.stamp())
    watched.samples(**ASKED)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_a_finished_run_is_worked_out_once(run: Path) -> None:
    watched = RunView(run)
    assert watched.page.get(watched.stamp()) is watched.page.get(watched.stamp())
    assert watched.state.get(watched.stamp())["running"] is False


def test_the_list_names_every_run_and_what_is_wrong_with_it(run: Path) -> None:
    """A damaged or foreign file is told, and hides no other run; the newest comes first."""
    shutil.copytree(run, run.parent / "run_2")
    (run.parent / "broken").mkdir()
    (run.parent / "broken" / DATABASE).write_bytes(b"rubbish" * 1000)
    (run.parent / "empty").mkdir()
    (run.parent / "empty" / DATABASE).write_bytes(b"")
    viewer = Viewer(run.parent)
    listed = {row["name"]: row for row in viewer._listed()}
    assert set(listed) == {"run_1", "run_2", "broken"}
    assert "damaged" in listed["broken"]["problem"] or "something else" in listed["broken"]["problem"]
    assert (listed["run_1"]["done"], listed["run_1"]["planned"], listed["run_1"]["state"]) == (180, 180, "finished")
    assert viewer.view("nothing") is None
    broken = viewer.view("broken")
    assert broken is not None
    with pytest.raises(StoreError):
        broken.listed()


def test_counting_goes_on_where_it_stopped_and_counts_a_trial_asked_again_once(tmp_path: Path) -> None:
    """A failed trial that was asked again stands for one, not two."""
    first = Planted(label="a", planted=[1.0, "timeout"])
    folder = write_run(tmp_path / "r", [first], 3)
    counts = Counts()
    with StoreReader(folder) as reader:
        assert counts.of(reader) == {1: (2, 1)}
    write_run(folder, [Planted(label="a", planted=[1.0, 0.0, 1.0])], 3)
    with StoreReader(folder) as reader:
        assert counts.of(reader) == {1: (3, 0)}


def test_a_reader_sees_one_moment_of_a_run_that_goes_on(tmp_path: Path) -> None:
    """Numbers that were read one after another fit together, and the writer is not held up."""
    contestant, trials = Planted(label="a", planted=[1.0] * 4), Trials(samples(4))
    folder = tmp_path / "r"
    with Store.open(folder, described([contestant], 4)) as store:
        asyncio.run(_write(store, [result_of(trial, 1.0, 0.001, 0.5) for trial in trials.of(contestant, 0)[:2]]))
        with StoreReader(folder) as early:
            assert len(summarise(early).contestants) == 1
            asyncio.run(_write(store, [result_of(trial, 1.0, 0.001, 0.5) for trial in trials.of(contestant, 0)[2:]]))
            assert summarise(early).contestants[0].right == 2
            assert len(list(sample_facts(early, summarise(early)))) == 2
        with StoreReader(folder) as late:
            assert summarise(late).contestants[0].right == 4
            assert is_running(folder)
    assert not is_running(folder)


async def _write(store: Store, results: list[TrialResult]) -> None:
    async def events() -> AsyncIterator[Event]:
        for result in results:
            yield TrialFinished(result)

    async for _ in store.committed(events()):
        pass
