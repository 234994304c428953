"""`tiebreak export`: a run in forms other programs read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmark.cli.console import Console
from benchmark.config import results_root
from benchmark.core.errors import StoreError
from benchmark.core.files import atomic_writer
from benchmark.report.summary import summarise
from benchmark.store.folder import find_run
from benchmark.store.reader import StoreReader

_NAMES = {"junit": "junit.xml", "markdown": "summary.md", "parquet": "trials.parquet", "baseline": "baseline.json"}


def export_run(run: str, form: str, output: Path | None) -> int:
    """Write the run in one form and say where."""
    folder = find_run(run, results_root())
    path = output or folder / _NAMES[form]
    write: dict[str, Callable[[StoreReader, Path], None]] = {
        "junit": _junit,
        "markdown": _markdown,
        "parquet": _parquet,
        "baseline": _baseline,
    }
    try:
        with StoreReader(folder) as reader:
            write[form](reader, path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}; name another file with --output") from None
    Console().written([path])
    return 0


def _junit(reader: StoreReader, path: Path) -> None:
    from benchmark.report.junit import write_junit

    write_junit(reader, summarise(reader), path)


def _markdown(reader: StoreReader, path: Path) -> None:
    from benchmark.report.markdown import markdown_report

    with atomic_writer(path) as file:
        file.write(markdown_report(summarise(reader)).encode("utf-8", "replace"))


def _parquet(reader: StoreReader, path: Path) -> None:
    from benchmark.report.parquet import write_parquet

    write_parquet(reader, path)


def _baseline(reader: StoreReader, path: Path) -> None:
    from benchmark.report.baseline import baseline_of, write_baseline

    write_baseline(baseline_of(reader), path)
