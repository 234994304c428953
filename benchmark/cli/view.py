"""`tiebreak view`: the runs in a browser, also while they go."""

from __future__ import annotations

from benchmark.cli.console import Console
from benchmark.cli.report import can_show
from benchmark.config import results_root
from benchmark.store.folder import find_run
from benchmark.viewer.serve import serve


def view_runs(run: str | None, *, port: int, browser: bool) -> int:
    """Serve the pages until Ctrl-C."""
    console = Console()
    folder = find_run(run, results_root()).resolve() if run else None

    def ready(address: str) -> None:
        console.line(address)
        console.line("The address holds a key: do not pass it on. Ctrl-C ends the viewer.", style="dim")
        if browser and can_show():
            import webbrowser

            webbrowser.open(address)

    serve(results_root(), folder, port=port, ready=ready)
    return 0
