"""Blind votes in a real browser: by keyboard and by touch, with the viewer killed in between."""

from __future__ import annotations

from support.packages import need_packages

need_packages("playwright")

import contextlib
import json
import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser import chromium, wait_until
from support.command import run, start
from support.made import Planted, write_run

NAMES = ("secret-alpha", "secret-beta")
COUNT = 60


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with a name that tells who is in it."""
    planted = [
        Planted(
            label=name,
            planted=[float((i + place) % 3 == 0) for i in range(COUNT)],
            texts=[f"{'Good' if place else 'Fine'} answer {i}." + " More." * (i % 4) for i in range(COUNT)],
        )
        for place, name in enumerate(NAMES)
    ]
    return write_run(tmp_path / f"{NAMES[0]}-against-{NAMES[1]}", planted, COUNT)


@contextlib.contextmanager
def voting(folder: Path, person: str = "ann") -> Iterator[tuple[str, int]]:
    """The real command, in a process of its own: its address and its number."""
    process = start("vote", str(folder), "--person", person, "--no-browser", cwd=folder.parent)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextlib.contextmanager
def page_of(browser: Browser, address: str, **settings: object) -> Iterator[tuple[Page, list[str]]]:
    """A page, and everything that came over the network into it before a vote was kept."""
    context = browser.new_context(**settings)
    page, told = context.new_page(), list[str]()
    page.set_default_timeout(30_000)

    def note(response: object) -> None:
        request = response.request
        told.append(f"{request.method} {request.url} {json.dumps(request.all_headers())} {response.all_headers()}")
        if request.method == "GET" and response.status == 200:
            told.append(response.text())

    page.on("response", note)
    try:
        page.goto(address)
        yield page, told
    finally:
        context.close()


def opened(page: Page) -> str:
    """Wait for answers to vote on; the ticket of them."""
    expect(page.locator('#ballot[data-state="open"]')).to_be_visible()
    return str(page.locator("#ballot").get_attribute("data-ticket"))


def nothing_tells(page: Page, told: list[str]) -> None:
    """Neither the page nor its title, its address, nor anything it was sent holds a name."""
    seen = [page.content(), page.title(), page.url, *told]
    assert not [text for text in seen for name in (*NAMES, "secret") if name in text]


def standing(folder: Path) -> list[tuple[str, str, str, int]]:
    done = run("report", str(folder), cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    with contextlib.closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        query = "SELECT scorer, min(first, second), max(first, second), better FROM preferences WHERE superseded = 0"
        return connection.execute(query).fetchall()


def vote_by_key(page: Page, key: str) -> None:
    page.keyboard.press(key)
    expect(page.locator('#ballot[data-state="kept"]')).to_be_visible()
    assert all(name in page.locator("#sides").inner_text() for name in NAMES)


@pytest.mark.needs("chromium")
def test_fifty_votes_by_keyboard_survive_a_kill_in_the_middle(browser: Browser, folder: Path) -> None:
    """Names are nowhere before the vote: not in the page, its title or address, nor in anything sent to it."""
    keys, tickets = ["ArrowLeft", "ArrowRight", "ArrowDown", "x"], set[str]()
    for part in range(2):
        with voting(folder) as (address, pid), page_of(browser, address) as (page, told):
            for number in range(25):
                tickets.add(opened(page))
                nothing_tells(page, told)
                vote_by_key(page, keys[number % 4])
                if part == 0 and number == 24:
                    os.kill(pid, signal.SIGKILL)
                    break
                page.keyboard.press("Enter")
    assert len(tickets) == 50
    kept = standing(folder)
    assert len(kept) == len(set(kept)) == 50
    assert sorted({row[3] for row in kept}) == [-1, 0, 1, 2]


@pytest.mark.needs("chromium")
def test_fifty_votes_by_touch_survive_a_kill_in_the_middle(browser: Browser, folder: Path) -> None:
    phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
    verdicts = ["left", "tie", "bad", "right"]
    for part in range(2):
        with voting(folder, "bob") as (address, pid), page_of(browser, address, **phone) as (page, told):
            for number in range(25):
                opened(page)
                nothing_tells(page, told)
                page.locator(f'#bar [data-verdict="{verdicts[number % 4]}"]').tap()
                expect(page.locator('#ballot[data-state="kept"]')).to_be_visible()
                if part == 0 and number == 24:
                    os.kill(pid, signal.SIGKILL)
                    break
                page.locator('#bar [data-verdict="next"]').tap()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
    kept = standing(folder)
    assert len(kept) == len(set(kept)) == 50
    assert {row[0] for row in kept} == {"human:bob"}


@pytest.mark.needs("chromium")
def test_a_vote_on_a_dead_viewer_is_not_taken_for_kept(browser: Browser, folder: Path) -> None:
    with voting(folder) as (address, pid), page_of(browser, address) as (page, _):
        opened(page)
        os.kill(pid, signal.SIGKILL)
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#message")).to_contain_text("cannot be reached")
        expect(page.locator('#ballot[data-state="open"]')).to_be_visible()
    assert standing(folder) == []


@pytest.mark.needs("chromium")
def test_a_vote_is_taken_back_and_given_again(browser: Browser, folder: Path) -> None:
    with voting(folder) as (address, _), page_of(browser, address) as (page, _told):
        ticket = opened(page)
        vote_by_key(page, "ArrowLeft")
        page.keyboard.press("u")
        assert opened(page) == ticket
        assert not [name for name in NAMES if name in page.content()]
        vote_by_key(page, "ArrowRight")
        page.keyboard.press("Enter")
        assert opened(page) != ticket
    assert [row[3] for row in standing(folder)] == [2]


@pytest.mark.needs("chromium")
def test_single_answers_are_voted_right_or_wrong_and_correct_the_scores(browser: Browser, folder: Path) -> None:
    with voting(folder) as (address, _), page_of(browser, address) as (page, told):
        opened(page)
        page.locator('[data-kind="answer"]').click()
        wait_until(page, lambda: "Is this answer right?" in page.content())
        page.locator("#asked").focus()
        for number in range(24):
            opened(page)
            nothing_tells(page, told)
            page.keyboard.press("y" if number % 2 else "n")
            expect(page.locator('#ballot[data-state="kept"]')).to_be_visible()
            page.keyboard.press("Enter")
    assert standing(folder) == []
    report = json.loads((folder / "comparison_report.json").read_text())
    assert report["judging"]["votes"] == 24
    assert {one["contestant"]: one["votes"] for one in report["judging"]["corrected"]} == dict.fromkeys(NAMES, 12)


@pytest.mark.needs("chromium")
def test_two_people_are_shown_the_same_first_and_their_agreement_is_told(browser: Browser, folder: Path) -> None:
    """Contestants that were scored differently come first."""
    tickets: dict[str, list[str]] = {}
    for person in ("ann", "bob"):
        with voting(folder, person) as (address, _), page_of(browser, address) as (page, _told):
            for number in range(6):
                tickets.setdefault(person, []).append(opened(page))
                vote_by_key(page, "ArrowLeft" if number < 5 or person == "ann" else "ArrowRight")
                page.keyboard.press("Enter")
    assert tickets["ann"] == tickets["bob"]
    samples = {row[1] for row in standing(folder)}
    assert len(samples) == 6
    done = run("report", str(folder), cwd=folder.parent)
    assert re.search(r"People agree on 83% of 6\s+pairs", done.stdout)
    with contextlib.closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        differ = "SELECT count(*) FROM preferences p JOIN trials a ON a.id = p.first JOIN trials b ON b.id = p.second"
        assert connection.execute(f"{differ} WHERE p.superseded = 0 AND a.score = b.score").fetchone() == (0,)
