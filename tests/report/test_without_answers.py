"""A run that is published without what was asked and answered: its scores are whole, and its texts are nowhere."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import sqlite3
import zlib
from pathlib import Path

import pytest
from support.made import Planted, Trials, samples, write_run
from support.packages import need_packages

from tiebreak.core.errors import UsageError
from tiebreak.core.events import ContestantState
from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.work import Changes, Step, TestResult, Work, WorkOutcome
from tiebreak.pipeline import read_summary, write_elsewhere
from tiebreak.registry import PLUGINS, export_with
from tiebreak.report.tabular import summary_data
from tiebreak.store.folder import DATABASE
from tiebreak.store.reader import StoreReader

CANARY = "canary-7b1d9e"
SAID = f"{CANARY} said"
JUDGED = (
    "INSERT INTO judgements (trial, scorer, judge, value, calls, seconds, at, because, failure, reply_text)"
    " SELECT id, 'judge', 'j', 1.0, 1, 0.1, finished_at, ?1, ?1, ?1 FROM trials WHERE outcome = 'answered'"
)
PREFERRED = (
    "INSERT INTO preferences"
    " (sample, first, second, scorer, judge, better, calls, seconds, local, at, because, failure, reply_text)"
    " SELECT DISTINCT sample, 'a', 'b', 'pairwise', 'j', 1, 1, 0.1, 0, finished_at, ?1, ?1, ?1 FROM trials"
)
EXCHANGED = "INSERT INTO exchanges SELECT id, finished_at, ?1 FROM trials WHERE outcome = 'answered'"


def asked(count: int) -> list[Sample]:
    return [
        Sample(id=f"s{i}", messages=(user(f"{CANARY} asked {i}"),), targets=(f"{CANARY} right",), category="kind")
        for i in range(count)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two contestants and a coding task's work, with the word in every place that takes a text."""
    work = Work(
        outcome=WorkOutcome.WRONG_RESULT,
        seconds=2.0,
        changes=Changes(files=(f"{CANARY}.py", "two.py"), files_changed=2, lines_added=3, diff=f"+{CANARY}"),
        check_output=CANARY,
        tests=(TestResult(id=CANARY, status="passed"), TestResult(id="other", status="failed", group="fail_to_pass")),
        hosts=(f"{CANARY}.example",),
    )
    steps = (Step(at_s=0.1, kind="prompt", text=CANARY), Step(at_s=0.2, kind="call", text=CANARY, data={"tools": []}))
    contestants = [
        Planted(label="a", planted=[1.0, 0.0, "timeout", "refused"], texts=[SAID] * 4, work=work, transcript=steps),
        Planted(label="b", planted=[1.0, 1.0, 0.5, 0.0], texts=[SAID] * 4, message=CANARY, state=ContestantState.FAILED),
    ]
    made = write_run(tmp_path / "run", contestants, Trials(asked(4)))
    with contextlib.closing(sqlite3.connect(made / DATABASE)) as connection, connection:
        connection.execute("UPDATE trials SET thinking = ?1, because = ?1, answer = iif(answer IS NULL, NULL, ?1)", (CANARY,))
        connection.execute("UPDATE trials SET scores = ?1 WHERE score IS NOT NULL", (json.dumps(scores_of(0.5)),))
        connection.execute("UPDATE samples SET metadata = ?1, choices = ?2", (f'{{"k":"{CANARY}"}}', f'["{CANARY}"]'))
        connection.execute(
            "UPDATE samples SET media = ?", (json.dumps([{"digest": "d", "media_type": "image/png", "name": CANARY}]),)
        )
        connection.execute("INSERT INTO blobs VALUES ('d', 'image/png', ?)", (CANARY.encode(),))
        for query in (JUDGED, PREFERRED):
            connection.execute(query, (CANARY,))
        connection.execute(EXCHANGED, (f'[{{"role":"assistant","content":[{{"type":"text","text":"{CANARY}"}}]}}]',))
    return made


def scores_of(value: float) -> dict[str, object]:
    return {name: {"value": value, "answer": CANARY, "because": CANARY} for name in ("match", "judge")}


def words_of(path: Path) -> str:
    """All that a file says, also what is compressed in it."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return repr(pq.read_table(path).to_pylist())
    text = path.read_bytes().decode("utf-8")
    packed = re.search(r'id="data">([^<]*)<', text)
    return text + (zlib.decompress(base64.b64decode(packed[1]), -zlib.MAX_WBITS).decode() if packed else "")


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def export_all(folder: Path, into: Path, *, answers: bool) -> None:
    """The run in every form that there is, one that is added later included."""
    for form in PLUGINS["exporters"]:
        export_with(form, folder, into / f"out.{form}", answers=answers)


def test_no_text_is_in_any_file_and_every_number_is(folder: Path, tmp_path: Path) -> None:
    """CSV, JSON and HTML of the report, those of coding tasks, and every exporter; with answers, the same files have them."""
    need_packages("pyarrow")
    whole, bare = tmp_path / "whole", tmp_path / "bare"
    for into, answers in ((whole, True), (bare, False)):
        write_elsewhere(folder, into, answers=answers)
        export_all(folder, into, answers=answers)

    telling = {path.relative_to(whole).as_posix() for path in files_below(whole) if CANARY in words_of(path)}
    assert {
        "comparison_report.html",
        "comparison_report.json",
        "trials.csv",
        "out.junit",
        "out.parquet",
        "out.markdown",
    } < telling
    assert "a_result.json" in telling
    assert {path.parts[0] for name in telling for path in [Path(name)] if len(path.parts) > 1} == {"attempts"}
    assert [path for path in files_below(bare) if CANARY in words_of(path)] == []
    assert {path.name for path in files_below(bare)} == {path.name for path in whole.iterdir() if path.is_file()}
    assert numbers(bare) == numbers(whole)


def numbers(into: Path) -> list[object]:
    """What a report says in numbers; whether there was an answer is one of them."""
    report = json.loads((into / "comparison_report.json").read_text())
    texts = {
        "answer",
        "expected",
        "because",
        "text",
        "failure",
        "prompt",
        "said",
        "check_output",
        "diff",
        "files",
        "tests",
        "hosts",
    }
    for one in report["contestants"]:
        del one["message"]
    results = [{name: value for name, value in one.items() if name not in texts} for one in report["results"]]
    given = [one["answer"] is None for one in report["results"]]
    return [results, given, [len(one.get("files", ())) for one in report["results"]], *(report[key] for key in NUMBERS)]


NUMBERS = ("contestants", "comparisons", "tiers", "leader", "rankings_full", "summary_stats", "judging", "common_samples")


def test_a_store_without_answers_has_no_text_for_any_query(folder: Path) -> None:
    """Also for a query that nobody has written yet: no column of any table has the word."""
    with StoreReader(folder) as whole, StoreReader(folder, answers=False) as bare:
        tables = [name for (name,) in whole.rows("SELECT name FROM main.sqlite_master WHERE type = 'table'")]
        telling = {table for table in tables if CANARY in repr(list(whole.rows(f"SELECT * FROM {table}")))}
        assert telling >= {"samples", "trials", "ends", "work", "judgements", "preferences", "exchanges", "blobs"}
        assert {table for table in tables if CANARY in repr(list(bare.rows(f"SELECT * FROM {table}")))} == set()
        counts = "SELECT count(*), total(score), total(answer IS NULL) FROM trials"
        assert list(bare.rows(counts)) == list(whole.rows(counts))


def test_what_was_kept_for_reports_does_not_bring_texts_back(folder: Path) -> None:
    """A run at rest keeps its summary, with the words in it: it is worked out anew."""
    assert CANARY in repr(summary_data(read_summary(folder)))
    assert CANARY in repr(read_summary(folder)), "the summary is kept by now"
    assert CANARY not in repr(read_summary(folder, answers=False))


def test_a_report_is_not_put_where_something_else_would_go_with_it(folder: Path, tmp_path: Path) -> None:
    """A file from before could have the answers; the run's own folder has the store."""
    for into in (folder, tmp_path):
        with pytest.raises(UsageError, match="is not empty; name a new folder"):
            write_elsewhere(folder, into, answers=False)


def test_an_exporter_of_ones_own_cannot_promise_it(folder: Path, tmp_path: Path) -> None:
    """It reads the run by itself: it is refused, and not run."""
    (tmp_path / "mine.py").write_text("def mine(folder, path): path.write_text('x')\n")
    with pytest.raises(UsageError, match=r"only junit, markdown, parquet, baseline can leave the answers out"):
        export_with(f"{tmp_path / 'mine.py'}:mine", folder, tmp_path / "out", answers=False)
    assert not (tmp_path / "out").exists()


def test_questions_alone_are_left_out_too(tmp_path: Path) -> None:
    """A run without coding tasks; ids and categories stay, so that rows can be told apart."""
    folder = write_run(tmp_path / "run", [Planted(label="a", planted=[1.0, 0.0])], Trials(samples(2)))
    write_elsewhere(folder, tmp_path / "out", csv=False, answers=False)
    said = "".join(map(words_of, files_below(tmp_path / "out")))
    assert "Question" not in said
    assert "s00001" in said
    assert "What was asked and answered is left out of this page." in said
