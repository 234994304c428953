"""`tiebreak report`, `export`, `open`, `view` and `vote`: what is done with runs that are there."""

from __future__ import annotations

import contextlib
import getpass
import html
import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from tiebreak.cli.console import Console
from tiebreak.cli.run import show
from tiebreak.cli.terminal import echo, harmless_json
from tiebreak.config import results_root
from tiebreak.core.errors import StoreError, UsageError
from tiebreak.pipeline import REPORT_JSON, read_summary, rebuild, write_elsewhere
from tiebreak.registry import export_with, plugin
from tiebreak.report.exports import FILES
from tiebreak.report.tabular import summary_data
from tiebreak.store.folder import find_run, is_of_run, last_run
from tiebreak.store.store import bring_in_votes

_SHOWN_FIRST = ("comparison_report.html", REPORT_JSON)


def report_runs(
    runs: Sequence[str], *, csv: bool, markdown: bool, as_json: bool, output: Path | None = None, answers: bool = True
) -> int:
    """Rewrite every file of the runs, or write them elsewhere, and show what they say."""
    console = Console(to_stderr=as_json or markdown)
    folders = [find_run(run, results_root()) for run in runs] or [last_run(results_root())]
    if output is None and not answers:
        raise UsageError("name a new folder for the report, with --output: the run keeps its own, with the answers")
    if output is not None and len(folders) > 1:
        raise UsageError("--output takes the report of one run; name one")
    for folder in folders:
        summary = read_summary(folder, answers=answers)
        if output is None:
            written = rebuild(folder, csv=csv, summary=summary)
        else:
            written = write_elsewhere(folder, output, csv=csv, answers=answers)
        if as_json:
            click.echo(harmless_json(msgspec.json.encode(summary_data(summary))))
        else:
            show(summary, folder, console, markdown=markdown, answers=answers)
        console.written(written)
    return 0


def export_run(run: str, form: str, output: Path | None, *, answers: bool = True) -> int:
    """Write the run in one form that other programs read, and say where; - is standard output."""
    folder = find_run(run, results_root())
    plugin("exporters", form)
    if output == Path("-"):
        return _to_standard_output(folder, form, answers=answers)
    if output is None and form not in FILES:
        raise UsageError(f"name the file that {form} is to write, with --output")
    path = output or folder / FILES[form]
    suffix = Path(FILES.get(form, path)).suffix
    if form not in FILES and is_of_run(path):
        raise UsageError(f"{path} is a file of the run itself, and is not written over; name another")
    if path.exists() and path.suffix != suffix:
        raise UsageError(f"{path} is there already, and is no {suffix} file: it is not written over; name another")
    _export(folder, form, path, answers=answers)
    Console().written([path])
    return 0


def _to_standard_output(folder: Path, form: str, *, answers: bool) -> int:
    """The file's own bytes in a pipe, its words on a terminal; bytes that are no words have no place on one."""
    if form == "parquet" and sys.stdout.isatty():
        raise UsageError("Parquet is not text: send it to a program or a file, or name one with --output")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / FILES.get(form, "export")
        _export(folder, form, path, answers=answers)
        data = path.read_bytes()
    if sys.stdout.isatty():
        echo(data.decode("utf-8", "replace").rstrip("\n"))
    else:
        click.echo(data, nl=False)
    return 0


def _export(folder: Path, form: str, path: Path, *, answers: bool) -> None:
    try:
        export_with(form, folder, path, answers=answers)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}; name another file with --output") from None


def open_report(run: str | None) -> int:
    """Open the report of a run, or of the last one, in a browser; where there is none, say where it is."""
    console = Console()
    folder = find_run(run, results_root()) if run else last_run(results_root())
    if not any((folder / name).is_file() for name in _SHOWN_FIRST):
        rebuild(folder)
    path = next(folder / name for name in _SHOWN_FIRST if (folder / name).is_file()).resolve()
    if not (_can_show() and webbrowser.open(path.as_uri())):
        console.line("There is no browser here. The report is in:")
    console.line(str(path))
    return 0


def view_runs(run: str | None, *, port: int, browser: bool, voter: str | None = None) -> int:
    """Serve the pages of the runs, also while they go, until Ctrl-C; with a voter, the page for votes on one of them."""
    from tiebreak.viewer.serve import serve

    console = Console()
    folder = find_run(run, results_root()).resolve() if run else None

    with contextlib.ExitStack() as stack:

        def ready(address: str) -> None:
            console.line(address)
            console.line("The address holds a key: do not pass it on. Ctrl-C ends the viewer.", style="dim")
            if browser and _can_show():
                webbrowser.open(stack.enter_context(_private_page(address)))

        serve(results_root(), folder, port=port, ready=ready, voter=voter)
    if folder is not None and voter is not None:
        bring_in_votes(folder)
    return 0


def voter_name(person: str | None) -> str:
    """Who votes: as they say, else the name of their account."""
    try:
        return person or getpass.getuser()
    except (OSError, KeyError):
        return "me"  # An account without a name, as in some containers.


@contextlib.contextmanager
def _private_page(address: str) -> Iterator[str]:
    """The address of a page that leads to another one, and that only this user can read.

    What a browser is started with can be read by everybody on the machine, and the address holds a key.
    """
    with tempfile.TemporaryDirectory(prefix="tiebreak-view-") as folder:
        page = Path(folder, "view.html")
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address)}">', encoding="utf-8")
        yield page.as_uri()


def _can_show() -> bool:
    """Whether someone could see a window; a browser in the terminal would only be in the way."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
