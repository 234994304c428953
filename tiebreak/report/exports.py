"""A run in forms that other programs read. An exporter is a function of the run's folder and the file to write.

The built-in ones leave out what was asked and answered, if they are told to.
"""

from __future__ import annotations

from pathlib import Path

from tiebreak.core.files import atomic_writer
from tiebreak.report.summary import summarise
from tiebreak.store.looks import look_into
from tiebreak.store.reader import StoreReader

FILES = {"junit": "junit.xml", "markdown": "summary.md", "parquet": "trials.parquet", "baseline": "baseline.json"}
"""What each form is called in the run's folder, where no other file is named."""


def junit(folder: Path, path: Path, *, answers: bool = True) -> None:
    """A test case per trial, for CI."""
    from tiebreak.report.junit import write_junit

    seen = look_into(folder)
    with StoreReader(folder, answers=answers) as reader:
        write_junit(reader, summarise(reader, seen=seen), path)


def markdown(folder: Path, path: Path, *, answers: bool = True) -> None:
    """For a pull request or GITHUB_STEP_SUMMARY."""
    from tiebreak.report.markdown import markdown_report

    seen = look_into(folder)
    with StoreReader(folder, answers=answers) as reader, atomic_writer(path) as file:
        file.write(markdown_report(summarise(reader, seen=seen)).encode("utf-8", "replace"))


def parquet(folder: Path, path: Path, *, answers: bool = True) -> None:
    """Every trial, for data frames."""
    from tiebreak.report.parquet import write_parquet

    look_into(folder)
    with StoreReader(folder, answers=answers) as reader:
        write_parquet(reader, path)


def baseline(folder: Path, path: Path, *, answers: bool = True) -> None:
    """A small file to commit, for --baseline."""
    from tiebreak.report.baseline import baseline_of, write_baseline

    look_into(folder)
    with StoreReader(folder, answers=answers) as reader:
        write_baseline(baseline_of(reader), path)
