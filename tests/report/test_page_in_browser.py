"""The report page as a person meets it: opened from disk, in a real browser, with keys, in the dark, on paper."""

from __future__ import annotations

from support.packages import need_packages

need_packages("playwright")

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser import OPEN_EVERYTHING, chromium, opened, wait_until
from support.command import run
from support.hostile_texts import PAYLOADS, hostile_run
from support.made import Planted, Trials, samples, write_run

from tiebreak.pipeline import write_reports

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten models on a thousand samples; number 7 has a word of its own."""
    chance = random.Random(2)
    contestants = [
        Planted(
            label=f"maker/model-{skill}",
            planted=["timeout" if (number, skill) == (3, 9) else float(chance.random() < skill / 10) for number in range(1000)],
            seconds=[chance.lognormvariate(0, 0.5) for _ in range(1000)],
            cost_usd=0.001 * (skill + 1),
            texts=["only here: zanzibar" if number == 7 and skill == 4 else "some words " * 27 for number in range(1000)],
        )
        for skill in range(10)
    ]
    kinds = [f"kind {number % 7}" for number in range(1000)]
    folder = write_run(tmp_path_factory.mktemp("page") / "run", contestants, Trials(samples(1000, categories=kinds)))
    write_reports(folder, csv_path=None)
    return folder / "comparison_report.html"


def shown(page: Page) -> list[str]:
    return [text.partition(" ")[0] for text in page.locator("#rows .id").all_inner_texts()]


def test_it_opens_from_disk_and_asks_nothing_of_anyone(browser: Browser, report: Path) -> None:
    """One file, no request but for itself, nothing in the console, and all samples there."""
    with opened(browser, report) as (page, seen):
        expect(page.locator("#found")).to_have_text("1,000 samples found.")
        page.locator("#rows .row").first.click()
        expect(page.locator("#rows .answer")).to_have_count(10)
        assert seen.requests == [report.as_uri()]
        assert seen.trouble == []


def test_it_can_be_used_by_keys_alone(browser: Browser, report: Path) -> None:
    """Search, filter, order, open a sample, turn a page, sort the table: nothing needs a mouse."""
    with opened(browser, report) as (page, seen):
        expect(page.locator("#found")).to_have_text("1,000 samples found.")
        page.keyboard.press("/")
        page.keyboard.type("ZANZIBAR")
        expect(page.locator("#found")).to_have_text("1 sample found.")
        assert shown(page) == ["s00007"]
        page.keyboard.press("Control+a")
        page.keyboard.press("Delete")
        expect(page.locator("#found")).to_have_text("1,000 samples found.")
        page.keyboard.press("Tab")
        page.keyboard.type("Failed")
        expect(page.locator("#found")).to_have_text("1 sample found.")
        assert shown(page) == ["s00003"]
        page.keyboard.press("Home")
        expect(page.locator("#found")).to_have_text("1,000 samples found.")
        page.keyboard.press("Tab")
        page.keyboard.type("kind 6")
        expect(page.locator("#found")).to_have_text("142 samples found.")
        page.keyboard.press("Tab")
        page.keyboard.type("Hardest")
        wait_until(page, lambda: page.evaluate(_HARDEST_FIRST))
        page.keyboard.press("Tab")
        expect(page.locator("#rows .row").first).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#rows .row").first).to_have_attribute("aria-expanded", "true")
        expect(page.locator("#rows .answer")).to_have_count(10)
        page.locator("#after").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#page")).to_have_text("Page 2 of 6")
        assert seen.trouble == []


def test_tables_are_sorted_by_key_and_say_so(browser: Browser, report: Path) -> None:
    with opened(browser, report) as (page, _):
        head = page.locator("#table th", has_text="Wrong").first
        head.locator("button").focus()
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        column = [int(text) for text in page.locator("#table tbody td:nth-child(6)").all_inner_texts()]
        assert column == sorted(column)
        assert page.locator("#table th[aria-sort]").count() == 1


@pytest.mark.parametrize(
    "settings",
    [{"viewport": {"width": 360, "height": 740}}, {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"}, {}],
    ids=["phone", "dark", "desktop"],
)
def test_nothing_runs_over_the_edge_and_everything_can_be_read(
    browser: Browser, report: Path, settings: dict[str, object]
) -> None:
    """No sideways scrolling of the page; every text has a contrast of at least 4.5 to 1."""
    with opened(browser, report, **settings) as (page, _):
        page.locator("#rows .row").first.click()
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.evaluate(_LOW_CONTRAST) == []


def test_it_prints(browser: Browser, report: Path) -> None:
    """On paper there are no controls, and the page is light."""
    with opened(browser, report, color_scheme="dark") as (page, _):
        page.emulate_media(media="print")
        assert not page.locator(".tools").is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert len(page.pdf(format="A4")) > 20_000


def test_two_hundred_payloads_in_every_field_run_nowhere(browser: Browser, tmp_path: Path) -> None:
    """All samples, diffs, transcripts and check outputs opened: nothing runs, nothing is asked for, all is shown as text."""
    folder = hostile_run(tmp_path / "hostile")
    path = folder / "comparison_report.html"
    with opened(browser, path) as (page, seen):
        title = page.title()
        found = []
        for number in range(8):
            expect(page.locator("#page")).to_have_text(f"Page {number + 1} of 8")
            page.evaluate(OPEN_EVERYTHING)
            found += page.locator("#rows .answer > pre").all_text_contents()
            if number < 7:
                page.locator("#after").click()
        assert set(PAYLOADS) <= set(found)
        assert page.evaluate("window.pwned") is None
        assert page.title() == title
        assert seen.requests == [path.as_uri()]
        assert seen.trouble == []


_HARDEST_FIRST = """() => {
  const right = [...document.querySelectorAll('#rows .strip')].map((strip) => strip.querySelectorAll('.right').length);
  return right.every((count, place) => !place || right[place - 1] <= count);
}"""
_LOW_CONTRAST = """() => {
  const channel = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const colour = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length > 3 && n[3] === 0 ? null : n; };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const found = colour(getComputedStyle(e).backgroundColor);
      if (found) return found;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const style = getComputedStyle(e);
    if (!own || e.closest('script, noscript, option, title, desc, .hidden, :disabled') || !e.getClientRects().length) continue;
    const ink = colour(e.closest('svg') ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push(`${e.tagName}.${e.getAttribute('class')} ${e.textContent.slice(0, 20)} ${ratio.toFixed(2)}`);
  }
  return [...new Set(bad)];
}"""


LONG_WAY = [
    *(f"I look at part {number}.\n```shell\nseq {number} 40\n```" for number in range(17)),
    "I clean up.\n```shell\nrm numbers.txt\n```",
    "```shell\ncat numbers.txt\n```",
    "FINISH",
]


@pytest.fixture(scope="module")
def transcript_of_forty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An attempt with forty steps, of which the thirty-ninth and the check failed."""
    home = tmp_path_factory.mktemp("forty")
    (home / "task.md").write_text(
        "Sum up.\n\n## Workspace\n\n```text file=numbers.txt\n1\n```\n\n## Verify\n\n```bash\nfalse\n```\n"
    )
    (home / "script.json").write_text(json.dumps({"answers": LONG_WAY, "default": "FINISH"}))
    models = ("--models", "scripted/script.json", "--follow-ups", "0")
    run("batch", "--task", "task.md", *models, "--output", "out", cwd=home, timeout=100)
    return home / "out" / "comparison_report.html"


@pytest.mark.parametrize("width", [1280, 390])
def test_one_sees_at_a_glance_where_an_attempt_went_wrong(browser: Browser, transcript_of_forty: Path, width: int) -> None:
    with opened(browser, transcript_of_forty, viewport={"width": width, "height": 900}) as (page, seen):
        page.locator("#rows .row").first.click()
        page.get_by_text("Transcript (42 steps)").click()
        expect(page.locator(".walk button")).to_have_count(42)
        expect(page.locator(".failing")).to_have_text("2 of 42 steps failed: 3942")
        assert page.locator(".walk .bad").all_inner_texts() == ["39", "42"]
        page.locator(".failing button").first.click()
        step = page.locator(".steps li:focus")
        expect(step).to_contain_text("39. tool · agent · failed")
        expect(step).to_contain_text("No such file or directory")
        expect(step).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".steps li").nth(2).locator("details").count() == 1, "what is long is folded"
        assert seen.trouble == []
