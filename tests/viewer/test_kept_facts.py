"""The viewer shows the same of a run that keeps its figures and of one that does not."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import msgspec
import pytest
from support.made import Planted, Trials, samples, write_run

from tiebreak.pipeline import settle
from tiebreak.report.browse import FILTERS, SORTS
from tiebreak.viewer.run_view import RunView

CONTESTANTS = [
    Planted(label="a", planted=[float(i % 3 == 0) for i in range(60)], texts=[f"word{i % 4} of {i}" for i in range(60)]),
    Planted(label="b", planted=["timeout" if i == 5 else float(i % 2 == 0) for i in range(60)]),
    Planted(label="line", planted=[0.0] * 60, reference=True),
]


@pytest.fixture
def views(tmp_path: Path) -> tuple[RunView, RunView]:
    """A run that keeps its figures, and the same without."""
    trials = Trials(samples(60, categories=["x", "y"] * 30))
    folders = [write_run(tmp_path / name / "run_1", CONTESTANTS, trials) for name in ("kept", "bare")]
    settle(folders[0])
    return RunView(folders[0]), RunView(folders[1])


def test_the_page_is_the_same(views: tuple[RunView, RunView]) -> None:
    """Verdict, tables, charts and counts; and how far everybody is."""
    one, other = (view.page.get(view.stamp()) for view in views)
    assert one == other
    states = [view.state.get(view.stamp()) for view in views]
    assert states[0] == states[1]


def test_samples_are_the_same(views: tuple[RunView, RunView]) -> None:
    """By every filter, category, order and search."""
    for only, category, sort, q, page in product(("", *FILTERS), ("", "x"), SORTS, ("", "word2"), (0, 1)):
        asked = {"q": q, "only": only, "category": category, "sort": sort, "page": page, "per_page": 7}
        one, other = (msgspec.json.encode(view.samples(**asked)) for view in views)
        assert one == other, asked
