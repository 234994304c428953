"""A run in the forms other programs read."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support.made import Planted, summary_of, write_run
from support.packages import need_packages

from tiebreak.core.errors import MissingExtra, UsageError
from tiebreak.report.baseline import baseline_of, read_baseline, write_baseline
from tiebreak.report.junit import write_junit
from tiebreak.report.markdown import markdown_report
from tiebreak.report.parquet import write_parquet
from tiebreak.report.tabular import COLUMNS
from tiebreak.store.reader import StoreReader

NASTY = "=x|<b>&\"' `*[a](b)*"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of two models and a reference."""
    contestants = [
        Planted(label=NASTY, planted=[1.0, 0.0, "timeout", "refused"]),
        Planted(label="b", planted=[1.0, 1.0, 0.5, 0.0]),
        Planted(label="baseline", planted=[0.0] * 4, reference=True),
    ]
    return write_run(tmp_path / "run", contestants, 4)


def test_junit_has_a_case_per_trial_and_tells_failures_from_errors(folder: Path, tmp_path: Path) -> None:
    """Wrong is a failure, failed is an error; counts are those of the summary; references are left out."""
    with StoreReader(folder) as reader:
        write_junit(reader, summary_of(folder), tmp_path / "j.xml")
    suites = ET.parse(tmp_path / "j.xml").getroot()

    assert [suite.get("name") for suite in suites] == [NASTY, "b"]
    for suite, (failures, errors) in zip(suites, [(2, 1), (2, 0)], strict=True):
        assert int(suite.get("tests") or 0) == len(suite) == 4
        assert int(suite.get("failures") or 0) == len(suite.findall("testcase/failure")) == failures
        assert int(suite.get("errors") or 0) == len(suite.findall("testcase/error")) == errors
    error = suites[0].find("testcase/error")
    assert error is not None
    assert (error.get("type"), error.text) == ("timeout", "planted timeout")


def test_junit_takes_any_text(tmp_path: Path) -> None:
    """Control characters have no place in XML; the file is read all the same."""
    with StoreReader(write_run(tmp_path / "r", [Planted(label="a\x00\x1b\ufffe", planted=[0.0])], 1)) as reader:
        write_junit(reader, summary_of(reader.folder), tmp_path / "j.xml")
    assert ET.parse(tmp_path / "j.xml").getroot()[0].get("name") == "a\ufffd\ufffd\ufffd"


def test_markdown_shows_the_verdict_and_the_table_and_acts_on_nothing(folder: Path) -> None:
    """A label is only text: no link, no tag, no column of its own, no formula when pasted."""
    text = markdown_report(summary_of(folder))
    rows = [line for line in text.splitlines() if line.startswith("|")]

    assert len(rows) == 2 + 3
    assert "<b>" not in text
    assert "[a](b)" not in text
    assert rows[2:][["x" in row.split(" | ")[0] for row in rows[2:]].index(True)].startswith("| '=x\\|&lt;b&gt;")
    assert "neither is shown to be better" in text


def test_parquet_holds_every_trial_typed(folder: Path, tmp_path: Path) -> None:
    """The same rows as the CSV, with numbers as numbers."""
    need_packages("pyarrow")
    import pyarrow.parquet as pq

    with StoreReader(folder) as reader:
        write_parquet(reader, tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")

    assert table.column_names == list(COLUMNS)
    assert table.num_rows == 12
    assert sum(score or 0 for score in table["score"].to_pylist()) == pytest.approx(3.5)
    assert table["failure_kind"].to_pylist().count("timeout") == 1


def test_parquet_without_its_library_names_the_extra(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with StoreReader(folder) as reader, pytest.raises(MissingExtra, match=r"tiebreak\[parquet\]"):
        write_parquet(reader, tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()


def test_a_baseline_comes_back_as_it_was_written(folder: Path, tmp_path: Path) -> None:
    """Small, readable, without answers, prompts, references or paths of this machine."""
    with StoreReader(folder) as reader:
        made = baseline_of(reader)
    write_baseline(made, tmp_path / "b.json")
    text = (tmp_path / "b.json").read_text()

    assert read_baseline(str(tmp_path / "b.json"), tmp_path).contestants == made.contestants
    assert made.contestants["b"].scores == {"s00000": 1.0, "s00001": 1.0, "s00002": 0.5, "s00003": 0.0}
    assert "s00002" not in made.contestants[NASTY].scores
    assert "baseline" not in json.loads(text)["contestants"]
    assert "Question" not in text
    assert text.count("\n") > 8


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"baseline_version": 99}', '{"run_id": 3}', "\x00"])
def test_a_file_that_is_no_baseline_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"is not a baseline file"):
        read_baseline(str(path), tmp_path)
