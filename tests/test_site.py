"""The documentation site: it builds without a warning, has every page and public name, and asks no other host for anything."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tiebreak

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
START, COMPARE = ["install", "quickstart", "datasets"], ["prompts", "agents", "ci", "statistics"]
JOBS = [*START, *COMPARE, "security", "plugins", "python", "reference"]

pytestmark = pytest.mark.needs("site")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make site` builds it, from a copy: the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(ROOT / "tiebreak", folder / "tiebreak", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", folder)
    zensical = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(zensical, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    return folder / "build" / "site"


def test_every_page_is_there_and_leads_to_every_job(site: Path) -> None:
    assert [name for name in PAGES if not (site / f"{name}.html").is_file()] == []
    start = (site / "index.html").read_text(encoding="utf-8")
    assert [name for name in JOBS if f'href="{name}.html"' not in start] == []


def test_the_python_reference_has_every_public_name(site: Path) -> None:
    """Each with its own heading and what its docstring says."""
    page = (site / "api.html").read_text(encoding="utf-8")
    names = [name for name in [*tiebreak.__all__, "open"] if name != "__version__"]
    assert [name for name in names if f'.{name}"' not in page] == []
    assert "nothing more is sent" in page


def test_search_finds_words_of_the_pages(site: Path) -> None:
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    texts = json.dumps(index)
    assert all(word in texts for word in ("McNemar", "bubblewrap", "contestant"))


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on a port of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")])
def test_pages_fit_and_ask_no_other_host(width: int, scheme: str, address: str) -> None:
    """On a phone and on a desktop: no page is wider than its window, and no request leaves this machine."""
    from support.browser import chromium, opened

    settings = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with chromium() as browser, opened(browser, f"{address}/index.html", **settings) as (page, seen):
        for name in PAGES:
            page.goto(f"{address}/{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        foreign = [url for url in seen.requests if not url.startswith((f"{address}/", "data:", "blob:"))]
        assert foreign == []
        assert [line for line in seen.trouble if "error" in line] == []


@pytest.mark.needs("chromium")
def test_a_search_in_the_browser_finds_a_page(address: str) -> None:
    from support.browser import chromium, opened, wait_until

    with chromium() as browser, opened(browser, f"{address}/index.html", viewport={"width": 1280, "height": 800}) as (page, seen):
        page.wait_for_load_state("networkidle")
        page.locator("button.md-search__button:visible").click()
        page.keyboard.type("Pareto", delay=20)
        wait_until(page, lambda: page.get_by_text("Many models").count() > 0, timeout_s=60)
        assert [url for url in seen.requests if not url.startswith((f"{address}/", "data:", "blob:"))] == []
