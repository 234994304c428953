"""The viewer's list: leader, score, cost and state of each run, labels, filter, and two runs compared."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner
from support.made import Planted, Trials, samples, write_run
from support.viewing import TOKEN, serving

from tiebreak.cli.main import tiebreak
from tiebreak.core.errors import UsageError
from tiebreak.core.events import ContestantState
from tiebreak.store.folder import LABEL, run_label, set_run_label
from tiebreak.store.reader import StoreReader
from tiebreak.viewer.app import Viewer
from tiebreak.viewer.run_list import comparison

COUNT = 40
GOOD, BAD = [1.0] * 36 + [0.0] * 4, [0.0] * 30 + [1.0] * 10


def planted(label: str, scores: list[float], **more: Any) -> Planted:
    return Planted(label=label, planted=scores, **more)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run with a leader, a tie without a price, and a run that was stopped half-way."""
    write_run(tmp_path / "led", [planted("good", GOOD), planted("bad", BAD)], COUNT, run_id="led")
    write_run(tmp_path / "tied", [planted("x", GOOD, cost_usd=None), planted("y", GOOD[::-1])], COUNT, run_id="tied")
    stopped = ContestantState.INTERRUPTED
    half = [planted("good", GOOD[:20], state=stopped), planted("bad", BAD[:20], state=stopped)]
    write_run(tmp_path / "half", half, Trials(samples(COUNT)), run_id="half")
    return tmp_path


def listed(root: Path) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in Viewer(root)._listed()}


def test_the_list_shows_leader_score_cost_and_state(root: Path) -> None:
    rows = listed(root)
    led, tied = rows["led"], rows["tied"]
    assert (led["leader"], led["state"], led["score_value"]) == ("good", "finished", 0.9)
    assert led["score"].startswith("0.90 [0.7")
    assert led["cost"] == "$0.080"
    assert tied["leader"] == "tie: x, y"
    assert tied["cost"] == "≥ $0.040"


def test_an_unfinished_run_shows_nobody_ahead_and_is_not_looked_into(root: Path) -> None:
    """To say who leads would be a look at its comparison, which later tests would have to pay for."""
    row = listed(root)["half"]
    assert (row["state"], row["leader"], row["score"], row["done"], row["planned"]) == ("not finished", "", "", 40, 80)
    with StoreReader(root / "half") as reader:
        assert next(reader.rows("SELECT count(*) FROM looks"))[0] == 0


def test_a_label_is_shown_and_changes_nothing_else(root: Path) -> None:
    before = (root / "led" / "run.sqlite").read_bytes()
    done = CliRunner().invoke(tiebreak, ["label", str(root / "led"), "  after the  new prompt "], standalone_mode=False)
    assert done.output == "led is called 'after the new prompt'.\n"
    assert listed(root)["led"]["label"] == "after the new prompt"
    assert (root / "led" / "run.sqlite").read_bytes() == before
    CliRunner().invoke(tiebreak, ["label", str(root / "led"), ""], standalone_mode=False)
    assert run_label(root / "led") == ""
    assert not (root / "led" / LABEL).exists()
    with pytest.raises(UsageError, match="at most 80 characters"):
        set_run_label(root / "led", "x" * 81)


def test_labels_are_in_the_list_of_the_terminal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    shutil.copytree(root / "led", root / "benchmark" / "results" / "led")
    set_run_label(root / "benchmark" / "results" / "led", "mine")
    assert "mine" in CliRunner().invoke(tiebreak, ["list", "runs"], standalone_mode=False).output


def test_two_finished_runs_are_compared(root: Path) -> None:
    write_run(root / "later", [planted("good", BAD), planted("bad", BAD)], COUNT, run_id="later")
    found = comparison(root / "led", root / "later")
    rows = {row["label"]: row for row in found["rows"]}
    assert (rows["good"]["before"], rows["good"]["after"], rows["good"]["more_broken"]) == ("0.90", "0.25", 10)
    assert "worse than before" in rows["good"]["sentence"]
    assert rows["bad"]["points"].startswith("+0.0")
    with pytest.raises(UsageError, match="half is not finished"):
        comparison(root / "led", root / "half")


@pytest.fixture
def address(root: Path) -> Iterator[str]:
    with serving(root) as viewer:
        yield f"http://127.0.0.1:{viewer.port}"


def page_of(address: str, path: str) -> str:
    request = Request(f"{address}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    with urlopen(request, timeout=30) as reply:
        return str(reply.read().decode())


def test_the_comparison_is_a_page_of_its_own(root: Path, address: str) -> None:
    shutil.copytree(root / "led", root / "<copy>")
    page = page_of(address, "/compare?before=led&after=%3Ccopy%3E")
    assert "&lt;copy&gt;" in page and "<copy>" not in page
    assert "What changed" in page
    with pytest.raises(OSError, match="404"):
        page_of(address, "/compare?before=led&after=none")
    with pytest.raises(OSError, match="503"):
        page_of(address, "/compare?before=led&after=half")


@pytest.mark.needs("chromium")
def test_runs_are_filtered_and_compared_in_the_browser(root: Path, address: str) -> None:
    """Typing filters, also after the list has refreshed itself; two ticks make a link, a third lets go of the first."""
    from playwright.sync_api import expect
    from support.browser import chromium, opened

    set_run_label(root / "tied", "the calm one")
    with chromium() as browser, opened(browser, f"{address}/?token={TOKEN}") as (page, seen):
        rows = page.locator("#runs tbody tr:visible")
        expect(rows).to_have_count(3)
        page.locator("#run-filter").fill("calm")
        expect(rows).to_have_count(1)
        expect(page.locator("#run-count")).to_have_text("1 of 3 runs")
        shutil.copytree(root / "led", root / "new")
        expect(page.locator("#run-count")).to_have_text("1 of 4 runs")
        page.locator("#run-filter").fill("")
        expect(rows).to_have_count(4)
        assert page.locator("input[value=half]").is_disabled()
        for name in ("tied", "led", "new"):
            page.locator(f"input[value={name}]").check()
        expect(page.locator("#runs input:checked")).to_have_count(2)
        page.locator("#run-compare").click()
        expect(page.locator("h1")).to_have_text("What changed")
        expect(page.locator("#changes tbody tr")).to_have_count(2)
        assert seen.trouble == []


CUT = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.ariaLabel)"


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [390, 820, 1280, 1600])
def test_no_table_is_cut(width: int, tmp_path: Path) -> None:
    """With long names, in the list, the comparison and a run's page; on a phone only the matrices scroll."""
    from support.browser import chromium, opened

    long = "openrouter/meta-llama/llama-3.3-70b-instruct@temperature=0.7 · step by step"
    for name in ("run_20261115_203300", "run_20261116_203300"):
        write_run(tmp_path / name, [planted(long, GOOD), planted("gpt-4o-mini", BAD)], COUNT, run_id=name)
    compare = "/compare?before=run_20261115_203300&after=run_20261116_203300"
    with serving(tmp_path) as viewer, chromium() as browser:
        address = f"http://127.0.0.1:{viewer.port}"
        with opened(browser, f"{address}/?token={TOKEN}", viewport={"width": width, "height": 900}) as (page, _):
            for path in ("/", compare, "/run/run_20261115_203300"):
                page.goto(f"{address}{path}")
                matrices = {"Differences between models", "Scores by category"} if width == 390 else set()
                assert set(page.evaluate(CUT)) - matrices == set(), path
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
