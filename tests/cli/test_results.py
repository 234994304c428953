"""What is done with a run once it is there: report, compare, score, export, open, and the gate of a baseline."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ET
from html import unescape
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import yaml
from click.testing import CliRunner
from support.command import clean_environment, read_csv, run
from support.made import Planted, write_run
from support.server import FakeServer
from support.viewing import TOKEN, serving

from tiebreak.cli.main import run_command_line, tiebreak
from tiebreak.core.work import Work, WorkOutcome
from tiebreak.multi_runner import MultiModelBenchmarkRunner

ROOT = Path(__file__).resolve().parents[2]
COUNT = 24


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """A dataset, and two scripted models of which one is better."""
    path = tmp_path / "d.jsonl"
    path.write_text(
        "".join(json.dumps({"id": f"q{i:02}", "input": f"Say w{i:02}!", "target": f"w{i:02}"}) + "\n" for i in range(COUNT))
    )
    write_script(tmp_path / "good.json", right=range(20))
    write_script(tmp_path / "bad.json", right=range(2, 6))
    return path


WORK = Work(outcome=WorkOutcome.PASSED, seconds=1.0, first_try=True, checked=True)


def write_script(path: Path, right: range) -> None:
    answers = [{"when": f"w{i:02}!", "text": f"w{i:02}", "times": 99} for i in right]
    path.write_text(json.dumps({"answers": answers, "default": "no idea"}))


def ask(tmp_path: Path, name: str, models: str, *more: str) -> tuple[Path, str, int]:
    done = run("--models", models, "--dataset", "d.jsonl", "--output", name, *more, cwd=tmp_path)
    return tmp_path / name, done.stdout + done.stderr, done.returncode


def test_terminal_pages_json_csv_and_python_show_the_same_numbers(
    tmp_path: Path, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run, six ways to read it."""
    folder, shown, code = ask(tmp_path, "r", "scripted/good.json,scripted/bad.json")
    report = json.loads((folder / "comparison_report.json").read_text())
    rows = read_csv(folder / "trials.csv")
    monkeypatch.chdir(tmp_path)
    records = MultiModelBenchmarkRunner(None).run(["scripted/good.json", "scripted/bad.json"], "d.jsonl")

    with serving(folder.parent) as viewer:
        key = {"Authorization": f"Bearer {TOKEN}"}
        live = urlopen(Request(viewer.address(f"/run/{folder.name}", key=False), headers=key), timeout=10).read().decode()
    pages = {"report": unescape((folder / "comparison_report.html").read_text()), "viewer": unescape(live)}

    assert code == 0
    for model, record in zip(report["contestants"], records.model_results, strict=True):
        own = [row for row in rows if row["model"] == model["model"]]
        right = sum(float(row["score"]) >= 1 for row in own)
        mean = sum(float(row["score"]) for row in own) / len(own)
        line = next(line for line in shown.splitlines() if model["model"] in line and " [0." in line)
        printed = re.search(r"(\d\.\d\d) \[(\d\.\d\d), (\d\.\d\d)\]\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", line)
        assert printed is not None, line
        low, high = model["interval"]
        counts = (model["right"], model["wrong"], model["no_answer"], sum(model["failed"].values()))
        assert printed.groups() == (f"{mean:.2f}", f"{low:.2f}", f"{high:.2f}", *map(str, counts))
        words = (model["provider"], f"{mean:.2f} [{low:.2f}, {high:.2f}]", *map(str, counts))
        assert {name: table_row(page, model["model"])[:6] for name, page in pages.items()} == dict.fromkeys(pages, words)
        assert model["right"] == right == record.successful_evaluations
        assert model["score"] == pytest.approx(mean, abs=1e-12)
        assert record.overall_score == model["score"]
        assert record.failed_evaluations == COUNT - right
    for said in report["claims"]:
        assert said["sentence"] in " ".join(shown.split())
        assert all(said["sentence"] in page for page in pages.values())
    assert "scripted/good.json is better than scripted/bad.json by 66.7 points on 24 common samples" in shown


def table_row(page: str, label: str) -> tuple[str, ...]:
    """What the comparison table of a page says of a model."""
    row = re.search(rf"<th [^>]*>{re.escape(label)}</th>(.*?)</tr>", page.partition('id="table"')[2], re.DOTALL)
    assert row is not None
    return tuple(re.findall(r"<td[^>]*>(.*?)</td>", row[1]))


def test_report_writes_every_file_anew(tmp_path: Path, questions: Path) -> None:
    """Damaged or deleted files come back as they were; the last run is meant where none is named."""
    folder, _, _ = ask(tmp_path, "benchmark/results/run_1", "scripted/good.json,scripted/bad.json")
    before = {name: (folder / name).read_bytes() for name in ("comparison_report.html", "comparison_report.json", "trials.csv")}
    (folder / "comparison_report.json").unlink()
    (folder / "trials.csv").write_text("rubbish")

    for arguments in (["report", "run_1"], ["report", str(folder)], ["report"]):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "scripted/good.json is better than scripted/bad.json" in done.stdout
        assert {name: (folder / name).read_bytes() for name in before} == before
    data = json.loads(run("report", "run_1", "--json", cwd=tmp_path).stdout)
    assert data["tiers"] == [["scripted/good.json"], ["scripted/bad.json"]]


def test_compare_names_what_was_fixed_and_broken(tmp_path: Path, questions: Path) -> None:
    ask(tmp_path, "one", "scripted/good.json")
    write_script(tmp_path / "good.json", right=range(12, 22))
    ask(tmp_path, "two", "scripted/good.json")

    done = run("compare", "one", "two", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "is worse than before" in done.stdout
    assert "  broken: 12\n    q00: expected 'w00', got 'no idea': Say w00!\n    q01: " in done.stdout
    assert "    and 2 more\n  fixed: 2\n    q20: expected 'w20', got 'w20': Say w20!\n    q21: " in done.stdout
    data = json.loads(run("compare", "one", "two", "--json", cwd=tmp_path).stdout)["changes"][0]
    assert (len(data["broken"]), len(data["fixed"]), data["samples"]) == (12, 2, COUNT)


def test_compare_refuses_other_questions_unless_forced(tmp_path: Path, questions: Path) -> None:
    """One edited sample is another dataset."""
    ask(tmp_path, "one", "scripted/good.json")
    questions.write_text(questions.read_text().replace("Say w00!", "Please say w00!"))
    ask(tmp_path, "two", "scripted/good.json")

    refused = run("compare", "one", "two", cwd=tmp_path)
    assert refused.returncode == 1
    assert "differ in their samples" in refused.stderr
    forced = run("compare", "one", "two", "--force", cwd=tmp_path)
    assert forced.returncode == 0
    assert "Compared by --force: the runs differ in their samples." in forced.stdout


def test_score_judges_kept_answers_anew_and_asks_nothing(tmp_path: Path, questions: Path) -> None:
    """Another scorer, another score; the old one is kept, the text is untouched, and the way back is open."""
    folder, _, _ = ask(tmp_path, "r", "scripted/good.json")
    (tmp_path / "good.json").unlink()  # whoever asked now would notice
    texts = "SELECT text FROM trials ORDER BY id"

    def stored(query: str) -> list[tuple[str, ...]]:
        with contextlib.closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
            return connection.execute(query).fetchall()

    before = stored(texts), json.loads((folder / "comparison_report.json").read_text())["contestants"][0]["score"]
    done = run("score", "r", "--scorer", "numeric", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{COUNT} answers judged by the scorer numeric; nothing was asked." in done.stdout
    report = json.loads((folder / "comparison_report.json").read_text())
    assert report["protocol"]["scorers"] == ["numeric/5"]
    kept = [json.loads(row[0]) for row in stored("SELECT scores FROM trials")]
    assert all(set(scores) == {"match", "numeric"} for scores in kept)
    assert sum(scores["match"]["value"] for scores in kept) == 20
    assert stored(texts) == before[0]

    assert run("score", "r", cwd=tmp_path).returncode == 0
    report = json.loads((folder / "comparison_report.json").read_text())
    assert (report["contestants"][0]["score"], report["protocol"]["scorers"]) == (before[1], ["match/5"])


def test_score_knows_the_words_a_run_was_asked_with(tmp_path: Path, questions: Path) -> None:
    """A system prompt, worked examples and a scorer of the user's choice belong to the run: its answers are found."""
    folder, shown, code = ask(tmp_path, "r", "scripted/good.json", "--system", "Be brief.", "--shots", "2", "--scorer", "exact")
    assert code == 0, shown
    done = run("score", "r", cwd=tmp_path)
    assert f"{COUNT - 2} answers judged by the dataset's own scorers" in done.stdout
    model = json.loads((folder / "comparison_report.json").read_text())["contestants"][0]
    assert model["by_scorer"] == {"match": model["score"], "exact": model["score"]}
    assert model["score"] > 0.7


def test_every_scorer_is_reported_and_the_first_ranks(tmp_path: Path, questions: Path) -> None:
    """An answer that is none counts as wrong by every scorer, as it does in the score."""
    script = {"answers": [{"when": "w00!", "text": "w00"}, {"when": "w01!", "text": "It is w01"}], "default": ""}
    (tmp_path / "good.json").write_text(json.dumps(script))
    folder, shown, _ = ask(tmp_path, "r", "scripted/good.json", "--scorer", "includes", "--scorer", "exact")
    model = json.loads((folder / "comparison_report.json").read_text())["contestants"][0]
    assert model["empty"] == COUNT - 2
    assert model["by_scorer"] == pytest.approx({"includes": 2 / COUNT, "exact": 1 / COUNT})
    assert model["score"] == pytest.approx(2 / COUNT)
    assert "By scorer" in shown
    assert "includes ranks; the others are shown beside it" in (folder / "comparison_report.html").read_text()


@pytest.mark.parametrize(("scorer", "words"), [("choice", "judges by choices"), ("likelihood", "judges by likelihoods")])
def test_a_scorer_without_what_it_judges_by_is_refused_before_anything_is_asked(
    tmp_path: Path, questions: Path, scorer: str, words: str
) -> None:
    folder, shown, code = ask(tmp_path, "r", "scripted/good.json", "--scorer", scorer)
    assert code == 1
    assert words in shown
    assert not (folder / "run.sqlite").exists()


def test_score_refuses_a_dataset_that_has_changed_and_an_unknown_scorer(tmp_path: Path, questions: Path) -> None:
    ask(tmp_path, "r", "scripted/good.json")
    assert (
        "there is no scorer 'nemeric'; did you mean 'numeric'?" in run("score", "r", "--scorer", "nemeric", cwd=tmp_path).stderr
    )
    questions.write_text(questions.read_text().replace("Say w00!", "Please say w00!"))
    done = run("score", "r", cwd=tmp_path)
    assert done.returncode == 1
    assert "has changed since the run" in done.stderr


def test_a_scorer_that_needs_more_than_the_answer_changes_nothing(tmp_path: Path, questions: Path) -> None:
    """A check needs the workspace, which is gone: said in a sentence, and every score is as it was."""
    folder, _, _ = ask(tmp_path, "r", "scripted/good.json")
    before = (folder / "comparison_report.json").read_bytes()
    done = run("score", "r", "--scorer", "check", cwd=tmp_path)
    assert done.returncode == 1
    assert "needs the workspace, which is gone" in done.stderr
    assert run("report", "r", cwd=tmp_path).returncode == 0
    assert (folder / "comparison_report.json").read_bytes() == before


@pytest.mark.parametrize(
    ("form", "name"),
    [("junit", "junit.xml"), ("markdown", "summary.md"), ("parquet", "trials.parquet"), ("baseline", "baseline.json")],
)
def test_export_writes_into_the_runs_folder_or_where_it_is_told(form: str, name: str, tmp_path: Path, questions: Path) -> None:
    folder, _, _ = ask(tmp_path, "r", "scripted/good.json,scripted/bad.json")
    assert run("export", "r", "--to", form, cwd=tmp_path).returncode == 0
    assert run("export", "r", "--to", form, "--output", "out.x", cwd=tmp_path).returncode == 0
    assert (folder / name).read_bytes() == (tmp_path / "out.x").read_bytes()
    if form == "junit":
        assert len(ET.parse(folder / name).getroot().findall("testsuite/testcase")) == 2 * COUNT
    with (tmp_path / "piped").open("wb") as pipe:
        command = [sys.executable, str(ROOT / "run_benchmarks.py"), "export", "r", "--to", form, "--output", "-"]
        assert subprocess.run(command, cwd=tmp_path, env=clean_environment(), stdout=pipe, check=False).returncode == 0
    assert (tmp_path / "piped").read_bytes() == (folder / name).read_bytes()
    assert not (tmp_path / "-").exists()
    refused = run("export", "r", "--to", form, "--output", "good.json/x", cwd=tmp_path)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr


def test_a_report_without_answers_goes_into_a_new_folder_and_says_none(tmp_path: Path) -> None:
    """Nor does the terminal: the worst samples are not listed. The run keeps its own files, with the answers."""
    folder = write_run(tmp_path / "r", [Planted(label="a", planted=[1.0, 0.0], texts=["SECRET"] * 2)], 2)
    asked = [["report", "r"], ["report", "r", "--without-answers", "--output", "public"]]
    (_, whole), (code, bare) = (invoked(*line, cwd=tmp_path) for line in asked)

    assert "got 'SECRET'" in whole
    assert (code, "answer 1" in bare, "SECRET" in bare) == (0, False, False)
    assert {path.name for path in (tmp_path / "public").iterdir()} == {
        "comparison_report.html", "comparison_report.json", "trials.csv"
    }  # fmt: skip
    assert "SECRET" in (folder / "trials.csv").read_text()
    assert "SECRET" not in (tmp_path / "public" / "trials.csv").read_text()
    for line, said in [
        (["report", "r", "--without-answers"], "name a new folder for the report, with --output"),
        (["report", "r", "r", "--output", "two"], "--output takes the report of one run"),
        (["report", "r", "--output", "public"], "public is not empty; name a new folder"),
    ]:
        code, shown = invoked(*line, cwd=tmp_path)
        assert (code, said in " ".join(shown.split())) == (1, True), shown
    code, shown = invoked("export", "r", "--to", "junit", "--without-answers", "--output", "-", cwd=tmp_path)
    assert (code, "<failure" in shown, "SECRET" in shown) == (0, True, False)


def invoked(*line: str, cwd: Path) -> tuple[int, str]:
    """A command in this process, in a folder: its exit code and all that it said."""
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(tiebreak, list(line))
    return done.exit_code, done.output + (str(done.exception) if done.exception else "")


def test_the_gate_fails_only_when_the_test_says_worse(tmp_path: Path, questions: Path) -> None:
    """The same model passes; a slightly worse one passes, and is told what would have been caught; a much worse one fails."""
    ask(tmp_path, "r", "scripted/good.json")
    assert run("export", "r", "--to", "baseline", "--output", "b.json", cwd=tmp_path).returncode == 0

    _, shown, code = ask(tmp_path, "same", "scripted/good.json", "--baseline", "b.json")
    assert code == 0
    assert "Against the baseline: scripted/good.json has not been shown to change: +0.0 points" in shown
    write_script(tmp_path / "good.json", right=range(19))
    _, shown, code = ask(tmp_path, "luck", "scripted/good.json", "--baseline", "b.json")
    assert code == 0
    assert re.search(r"A change of \d+\.\d points would have been seen", shown)
    write_script(tmp_path / "good.json", right=range(5))
    _, shown, code = ask(tmp_path, "worse", "scripted/good.json", "--baseline", "r")
    assert code == 3
    assert "scripted/good.json is worse than before" in shown


def test_a_baseline_of_other_questions_is_refused_before_anything_is_asked(tmp_path: Path, questions: Path) -> None:
    ask(tmp_path, "r", "scripted/good.json")
    questions.write_text(questions.read_text().replace("Say w00!", "Please say w00!"))
    folder, shown, code = ask(tmp_path, "new", "scripted/good.json", "--baseline", "r")
    assert code == 1
    assert "was made with other samples" in shown
    assert not (folder / "run.sqlite").exists()


def test_open_shows_the_last_report_or_says_where_it_is(tmp_path: Path, questions: Path) -> None:
    folder, _, _ = ask(tmp_path, "benchmark/results/run_1", "scripted/good.json")
    quiet = run("open", cwd=tmp_path)
    assert quiet.returncode == 0
    assert "There is no browser here" in quiet.stdout
    assert str(folder) in "".join(quiet.stdout.split())
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    assert run("open", "run_1", cwd=tmp_path, BROWSER=f"{browser} %s").returncode == 0
    assert (tmp_path / "opened").read_text().strip().startswith("file:///")


@pytest.mark.parametrize(
    "line",
    ["report nobody", "compare nobody nothing", "score nobody", "export nobody --to junit", "open nobody", "report", "open"],
)
def test_a_run_that_is_not_there_is_a_sentence(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line(line.split()) == 1
    assert "there " in capsys.readouterr().err


def test_the_workflow_in_the_documents_is_valid_and_names_real_flags() -> None:
    """YAML with steps, and every tiebreak command in it is understood by the program."""
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    workflow = yaml.safe_load(blocks[0])
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = [
        line
        for step in steps
        for line in step.get("run", "").replace("\\\n", " ").splitlines()
        if line.strip().startswith("tiebreak ")
    ]

    assert workflow[True]  # YAML reads the key `on` as true
    assert len(commands) >= 3
    for command in commands:
        name, *rest = command.split()[1:]
        flags = {option for parameter in tiebreak.commands[name].params for option in parameter.opts}
        used = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert used <= flags, command
        assert CliRunner().invoke(tiebreak, [name, "--help"]).exit_code == 0


def test_report_knows_a_batch(tmp_path: Path) -> None:
    """The files of a batch are those of a batch, not those of a run."""
    contestants = [
        Planted(label="m", agent="builtin", planted=[1.0, 0.0], work=WORK),
        Planted(label="m", agent="nothing", planted=[0.0, 0.0], work=WORK),
    ]
    folder = write_run(tmp_path / "batch_1", contestants, 2, run_id="batch_1", dataset="tasks:easy")
    done = run("report", str(folder), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "comparison_report.json").read_text())["batch_id"] == "batch_1"
    assert (folder / "m_result.json").is_file()
    assert (folder / "trials.csv").is_file()


def test_answers_of_an_earlier_run_are_never_passed_off_as_new(tmp_path: Path, questions: Path) -> None:
    """Held against a baseline they show no change, whatever has changed since."""
    with FakeServer(lambda prompt: "Paris") as server:
        line = ("run", "--model", "openai/a", "--dataset", str(questions), "--cache", "kept")
        run(*line, "--output", "one", cwd=tmp_path, **server.environment())
        asked = len(server.ledger)
        again = run(*line, "--output", "two", "--baseline", "one", cwd=tmp_path, **server.environment())
    assert len(server.ledger) - asked <= 1, "the check that it answers"
    count = json.loads((tmp_path / "two" / "comparison_report.json").read_text())["contestants"][0]["remembered"]
    assert count > 0
    assert f"Remembered {count} of an earlier run (--cache or --replay)" in flat(again.stdout)
    held = run("compare", "one", "two", cwd=tmp_path)
    assert "of an earlier run (--cache or --replay): whatever has changed since, they cannot show it" in flat(held.stdout)
    assert json.loads(run("compare", "one", "two", "--json", cwd=tmp_path).stdout)["remembered"] == {"openai/a": count}


def flat(text: str) -> str:
    """Without the breaks of lines."""
    return " ".join(text.split())
