"""What a terminal shows at the end of a run, kept as text: `UPDATE_SCREENS=1` rewrites the files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from support.screens import STORIES, UNDER_WAY, WAITS, WIDTHS, shown_progress, shown_summary

from tiebreak.core.events import ContestantStarted, ContestantWaiting
from tiebreak.report.summary import Summary
from tiebreak.report.table import cells
from tiebreak.report.work_words import work_cells

SCREENS = Path(__file__).parent / "screens"


@pytest.fixture(scope="module", params=STORIES)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Summary, Path]:
    folder = tmp_path_factory.mktemp(request.param) / "run"
    return request.param, STORIES[request.param](folder), folder


def check_screen(name: str, width: int, shown: str) -> None:
    """The screen is the one that is kept."""
    path = SCREENS / f"{name}_{width}.txt"
    text = "".join(f"{line.rstrip()}\n" for line in shown.splitlines())
    if os.environ.get("UPDATE_SCREENS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", WIDTHS)
def test_screen_is_the_one_we_looked_at(story: tuple[str, Summary, Path], width: int) -> None:
    name, summary, folder = story
    check_screen(name, width, shown_summary(summary, folder, width))


@pytest.mark.parametrize("width", [40, 60, *WIDTHS, 250])
def test_every_line_fits_and_every_number_is_whole(story: tuple[str, Summary, Path], width: int) -> None:
    """Each contestant's name, and then all it must show, stand in this order with nothing cut."""
    _, summary, folder = story
    shown = shown_summary(summary, folder, width)
    assert max(map(cell_len, shown.splitlines())) <= width
    words = " ".join(shown.split())
    for contestant in summary.listed:
        if contestant.work is not None:
            name, solved, first_try, seconds, *_, cost, _, _, outcome = work_cells(contestant)
            promised = [solved, first_try, seconds, cost, outcome]
        else:
            name, _, *numbers, _, cost = cells(contestant)
            promised = [*numbers, cost]
        names = {name, name.removeprefix(f"{contestant.model.provider}/")}
        anywhere = r"(?:(?!Tier \d).)*?".join(rf"(?<!\S){re.escape(word)}(?!\S)" for word in promised)
        assert any(re.search(rf"{re.escape(own)} (?:\S+ ){{0,12}}?{anywhere}", words) for own in names), (name, promised)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", UNDER_WAY)
def test_progress_is_the_one_we_looked_at(name: str, width: int) -> None:
    check_screen(name, width, shown_progress(UNDER_WAY[name](), at=100.0 if "tasks" in name else 61.0, width=width))


@pytest.mark.parametrize("width", [60, *WIDTHS, 250])
def test_progress_says_what_is_done_what_waits_what_it_costs_and_when_it_ends(width: int) -> None:
    """Whole words and numbers, whatever the width; a reason that is too long ends between two words."""
    shown = shown_progress(UNDER_WAY["progress"](), at=61.0, width=width)
    assert max(map(cell_len, shown.splitlines())) <= width
    done = ("200/200", "57/200", "19/200", "1/200")
    words = " ".join(shown.split())
    for said in (*done, "$0.2600", "$0.0689 of ~$0.2600", "waiting 8 s", "finished", "2:31 left"):
        assert re.search(rf"(?<!\S){re.escape(said)}(?!\S)", words), said
    assert "In all: 277 of 1,000 done, 5 failed, $0.3523 so far, about 2:39 left" in words
    reason = re.search(r"mistral-large-2411 waits: (.*)", shown)
    assert reason is not None
    kept = reason[1].removesuffix("…").split()
    assert len(kept) >= 4
    assert [word.strip(":") for word in WAITS.split()[: len(kept)]] == [word.strip(":") for word in kept]


def test_a_coding_task_has_a_bar() -> None:
    shown = shown_progress(UNDER_WAY["progress_tasks"](), at=100.0, width=80)
    assert "━━━━········" in shown
    assert "2/6" in shown


def test_a_servers_words_are_not_mark_up() -> None:
    """Square brackets in a reason are shown as they are, and end no view."""
    started = ContestantStarted(contestant="a [b]", position=1, contestants=1, trials=10)
    waiting = ContestantWaiting(contestant="a [b]", reason="[/red] [bold]busy[/bold]", seconds=9.0)
    shown = shown_progress([(0.0, started), (1.0, waiting)], at=2.0, width=80)
    assert "a [b] waits: [/red] [bold]busy[/bold]" in shown
