"""The viewer in a real browser, while a real run goes on in another process."""

from __future__ import annotations

from support.packages import need_packages

need_packages("playwright")

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser import OPEN_EVERYTHING, chromium, opened, wait_until
from support.command import start
from support.hostile_texts import PAYLOADS, hostile_run
from support.made import Planted, write_run
from support.server import FakeServer
from support.viewing import TOKEN, serving

COUNT = 60


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def write_questions(folder: Path) -> None:
    rows = [{"id": f"q{i:02}", "input": f"Say w{i:02}!", "target": f"w{i:02}"} for i in range(COUNT)]
    (folder / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def said(prompt: str) -> str:
    """The right word."""
    return re.findall(r"w\d\d", prompt)[-1] if re.search(r"w\d\d", prompt) else "ready"


def asked_so_far(page: Page) -> int:
    found = re.findall(r"(\d+) of", page.locator("#state").inner_text())
    return int(found[0]) if found else 0


@pytest.mark.needs("chromium")
def test_progress_moves_tiers_update_and_the_stream_comes_back(browser: Browser, tmp_path: Path) -> None:
    """A slow run watched from its middle to its end; the stream breaks off every second and is taken up again."""
    write_questions(tmp_path)
    root = tmp_path / "benchmark" / "results"
    (tmp_path / "bad.json").write_text(json.dumps({"answers": [], "default": "no idea"}))
    with FakeServer(said, latency_s=0.12) as models, serving(root, stream_s=1.0) as viewer:
        line = (
            "--models scripted/bad.json,openai/good --dataset d.jsonl --max-connections 1 --output benchmark/results/run_1 --yes"
        )
        process = start(*line.split(), cwd=tmp_path, **models.environment())
        try:
            _until(lambda: (root / "run_1" / "run.sqlite-wal").exists() and len(models.ledger) > 10)
            with opened(browser, viewer.address("/run/run_1")) as (page, seen):
                expect(page.locator("#state")).to_contain_text("running", timeout=10_000)
                first = asked_so_far(page)
                expect(page.locator("#bars li")).to_have_count(2)
                expect(page.locator("#so-far")).to_be_visible()
                wait_until(page, lambda: asked_so_far(page) > first + 15)
                expect(page.locator("#table .badge")).to_have_text(["1", "2"], timeout=10_000)
                expect(page.locator("#state")).to_have_text(f"finished, {2 * COUNT} of {2 * COUNT} trials", timeout=30_000)
                expect(page.locator("#so-far")).to_have_count(0, timeout=10_000)
                expect(page.locator("#verdict h2")).to_contain_text("good leads")
                expect(page.locator("#found")).to_have_text(f"{COUNT} samples found.")
                streams = [url for url in seen.requests if url.endswith("/events")]
                assert len(streams) > 2
                assert {url.split("/")[2] for url in seen.requests} == {f"127.0.0.1:{viewer.port}"}
                assert [trouble for trouble in seen.trouble if "ERR_INCOMPLETE_CHUNKED" not in trouble] == []
            assert process.wait(30) == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert not (root / "run_1" / "run.sqlite-wal").exists()


@pytest.mark.needs("chromium")
def test_the_list_follows_runs_that_begin_go_on_and_disappear(browser: Browser, tmp_path: Path) -> None:
    """Opened on an empty folder; a run appears, its count grows, it ends, and goes when its folder goes."""
    write_questions(tmp_path)
    root = tmp_path / "benchmark" / "results"
    root.mkdir(parents=True)
    with (
        FakeServer(said, latency_s=0.15) as models,
        serving(root) as viewer,
        opened(browser, viewer.address("/")) as (page, seen),
    ):
        expect(page.locator("#all-runs")).to_contain_text("There are no runs here yet")
        line = "--model openai/good --dataset d.jsonl --max-connections 1 --output benchmark/results/run_1 --yes --no-preflight"
        process = start(*line.split(), cwd=tmp_path, **models.environment())
        try:
            cells = page.locator("#runs tbody td")
            expect(cells.nth(4)).to_have_text("running", timeout=20_000)
            first = cells.nth(3).inner_text()
            wait_until(page, lambda: cells.nth(3).inner_text() != first)
            page.locator("#runs a").focus()
            expect(cells.nth(4)).to_have_text("finished", timeout=30_000)
            expect(cells.nth(3)).to_have_text(f"{COUNT} / {COUNT}")
            expect(page.locator("#runs a")).to_be_focused()
            assert process.wait(30) == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        shutil.rmtree(root / "run_1")
        expect(page.locator("#all-runs")).to_contain_text("There are no runs here yet", timeout=10_000)
        assert seen.trouble == []


def _until(true: object, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


@pytest.mark.needs("chromium")
def test_two_hundred_payloads_run_nowhere_in_the_viewer(browser: Browser, tmp_path: Path) -> None:
    """In the list, on the run's page, and in every sample, diff and transcript."""
    hostile_run(tmp_path / "hostile <img src=x onerror=window.pwned=1>")
    with serving(tmp_path) as viewer, opened(browser, viewer.address()) as (page, seen):
        page.locator("#runs a").click()
        expect(page.locator("#found")).to_have_text("200 samples found.")
        found: list[str] = []
        for number in range(8):
            expect(page.locator("#page")).to_have_text(f"Page {number + 1} of 8")
            page.evaluate(OPEN_EVERYTHING)
            found += page.locator("#rows .answer > pre").all_text_contents()
            if number < 7:
                page.locator("#after").click()
        assert set(PAYLOADS) <= set(found)
        assert page.evaluate("window.pwned") is None
        assert "pwned" not in page.title().partition("<")[0]
        assert {url.split("/")[2] for url in seen.requests} == {f"127.0.0.1:{viewer.port}"}
        assert seen.trouble == []


def test_the_command_prints_an_address_that_works_and_ends_quietly(tmp_path: Path) -> None:
    """Ctrl-C, even with a stream open: no traceback, exit code 0."""
    write_run(tmp_path / "benchmark" / "results" / "r", [Planted(label="a", planted=[1.0])], 1)
    process = start("view", "r", "--no-browser", cwd=tmp_path)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        hint = process.stdout.readline()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/run/r\?token=[\w-]{40,}", address)
        base, _, token = address.partition("?token=")
        with urlopen(Request(f"{base}/events", headers={"Authorization": f"Bearer {token}"}), timeout=10) as stream:
            assert stream.readline() == b"retry: 1000\n"
            os.kill(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "Ctrl-C ends the viewer" in hint


def test_a_taken_port_and_an_unknown_run_are_told(tmp_path: Path) -> None:
    """In a sentence, with what to do."""
    from support.command import run

    with serving(tmp_path) as other:
        done = run("view", "--no-browser", "--port", str(other.port), cwd=tmp_path)
    assert (done.returncode, "choose another with --port" in done.stderr) == (1, True)
    done = run("view", "nothing", "--no-browser", cwd=tmp_path)
    assert (done.returncode, "there is no run 'nothing'" in done.stderr) == (1, True)


def test_the_key_is_new_every_time() -> None:
    """Nothing of it can be guessed from the program."""
    source = (Path(__file__).parents[2] / "tiebreak" / "viewer" / "serve.py").read_text()
    assert "secrets.token_urlsafe(32)" in source
    assert TOKEN not in source
