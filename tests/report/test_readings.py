"""Answers that a second rule judges otherwise: counted, listed first, and found by a filter."""

from __future__ import annotations

from pathlib import Path

from support.made import Planted, Trials, samples, summary_of, write_run

from tiebreak.pipeline import settle
from tiebreak.report.browse import Census, in_order, kept_facts, pick, sample_facts, view_samples
from tiebreak.report.html import write_page
from tiebreak.report.overview import account, browser
from tiebreak.report.tabular import summary_data
from tiebreak.store.reader import StoreReader
from tiebreak.viewer.run_view import RunView

SECOND: list[float | None] = [1.0, 0.0, None, 1.0, 0.0, 0.0]
CONTESTANTS = [
    Planted(label="a", planted=[1.0, 1.0, 1.0, 0.0, 0.0, "timeout"], second=SECOND),
    Planted(label="b", planted=[1.0, 0.0, 1.0, 1.0, "refused", 1.0]),
]
"""The second rule differs on the answers of a to s00001 and s00003; it says nothing of b."""


def made(tmp_path: Path) -> Path:
    return write_run(tmp_path / "r", CONTESTANTS, Trials(samples(6)))


def test_they_are_counted_for_each_contestant(tmp_path: Path) -> None:
    summary = summary_of(made(tmp_path))
    a, b = summary.contestants
    assert (a.second_readings, a.readings_differ) == (4, 2)
    assert (b.second_readings, b.readings_differ) == (0, 0)
    assert [account(one)["readings"] for one in (a, b)] == ["2 of 4", "–"]
    assert summary_data(summary)["contestants"][0]["readings_differ"] == 2


def test_they_come_first_and_have_a_filter(tmp_path: Path) -> None:
    """The same from the trials and from what a run at rest keeps."""
    folder = made(tmp_path)
    summary = summary_of(folder)
    with StoreReader(folder) as reader:
        facts = list(sample_facts(reader, summary))
    settle(folder)
    with StoreReader(folder) as reader:
        kept = list(kept_facts(reader, sort="readings"))
        assert [f.sample for f in kept_facts(reader, only="readings_differ")] == ["s00001", "s00003"]
        shown = view_samples(reader, summary, kept[:1], 100)[0]
    assert [f.sample for f in pick(facts, only="readings_differ")] == ["s00001", "s00003"]
    assert kept == in_order(facts, "readings")
    assert [f.sample for f in kept][:2] == ["s00001", "s00003"]
    places = [c.label for c in summary.listed]
    assert shown.answers[places.index("a")][0].second == 0.0
    assert shown.answers[places.index("b")][0].second is None


def test_the_page_and_the_viewer_offer_the_filter_and_the_order_first(tmp_path: Path) -> None:
    folder = made(tmp_path)
    summary = summary_of(folder)
    with StoreReader(folder) as reader:
        census = Census()
        list(census.of(sample_facts(reader, summary)))
        offered = browser(summary, census)
        page = write_page(reader, summary, tmp_path / "page.html").read_text(encoding="utf-8")
    assert offered["filters"][0] == ("readings_differ", "Readings differ", 2)
    assert next(iter(offered["sorts"])) == "readings"
    assert "Readings differ (2)" in page
    found = RunView(folder).samples(q="", only="readings_differ", category="", sort="readings", page=0, per_page=5)
    assert [row.sample for row in found["rows"]] == ["s00001", "s00003"]
