"""A real browser, and everything it does that a page of ours must never make it do."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

# A loaded machine is slow, and no reason to fail.
expect.set_options(timeout=30_000)


@dataclass
class Seen:
    """What happened in a page besides being shown."""

    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    @property
    def trouble(self) -> list[str]:
        """Errors, warnings, and windows that popped up."""
        return self.console + self.dialogs


OPEN_EVERYTHING = """() => {
  document.querySelectorAll('#rows .row[aria-expanded=false]').forEach((row) => row.click());
  document.querySelectorAll('details').forEach((part) => { part.open = true; });
}"""


def wait_until(page: Page, true: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Wait in the page's own time; its policy forbids what the browser's driver would do for it."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        page.wait_for_timeout(50)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(browser: Browser, address: str | Path, **settings: Any) -> Iterator[tuple[Page, Seen]]:
    """A page in a context of its own, and what it does."""
    context = browser.new_context(**settings)
    page, seen = context.new_page(), Seen()
    page.set_default_timeout(15_000)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("console", lambda message: seen.console.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.console.append(f"error: {error}"))

    def refuse(dialog: Any) -> None:
        seen.dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", refuse)
    try:
        page.goto(address.as_uri() if isinstance(address, Path) else address)
        yield page, seen
    finally:
        context.close()
