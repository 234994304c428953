"""Python, as pleasant as the command: the same limits, guards and verdict, and runs that can be stopped."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from support.command import run as command
from support.packages import need_packages
from support.server import Asked, FakeServer, Fault

import tiebreak
from tiebreak.api import _Events
from tiebreak.core.errors import DatasetError, MissingExtra, ModelError, StoreError
from tiebreak.core.events import ContestantFinished, ContestantStarted, TrialFinished
from tiebreak.core.message import user
from tiebreak.core.model import Price
from tiebreak.core.sample import Keywords
from tiebreak.pipeline import rescore
from tiebreak.registry import make_ref
from tiebreak.report.tabular import COLUMNS, StoredTrial
from tiebreak.spec.flags import Flags
from tiebreak.spec.keywords import _ELSEWHERE, _FLAGS, Options

COUNT = 20
ROWS = [{"id": f"q{i:02}", "input": f"Q{i:02}?", "target": "yes"} for i in range(COUNT)]
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def scripted(tmp_path: Path) -> Callable[..., str]:
    """A model that answers so many of the rows right."""

    def make(name: str, right: int = COUNT, *, delay_s: float = 0.0) -> str:
        answers = [{"when": f"Q{i:02}?", "text": "yes" if i < right else "no", "delay_s": delay_s} for i in range(COUNT)]
        (tmp_path / f"{name}.json").write_text(json.dumps({"answers": answers}))
        return f"scripted/{tmp_path}/{name}.json"

    return make


@pytest.fixture
def yes_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """A server that answers every question right, after a moment, and where every provider is sent."""
    with FakeServer(lambda prompt: "yes", latency_s=0.1) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must come, however slow the machine."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def asked_by(server: FakeServer) -> list[str]:
    return [asked.prompt for asked in server.ledger]


# --- a run and what it says -------------------------------------------------------------------------


def test_a_run_says_who_is_better(scripted: Callable[..., str]) -> None:
    good, bad = scripted("good", 18), scripted("bad", 4)

    run = tiebreak.run(models=[good, bad], dataset=ROWS)

    assert run.complete
    assert f"{good} is better than {bad}" in run.verdict[0]
    assert run.verdict.text.startswith(run.verdict[0])
    first, second = run.contestants
    assert (first.label, first.right, first.wrong, first.failed) == (good, 18, 2, 0)
    assert first.score == 0.9
    assert first.low < 0.9 < first.high
    assert second.right == 4
    pair = run.comparison(bad, good)
    assert (pair.first, pair.difference) == (good, pytest.approx(0.7))
    assert pair.separated
    assert run.report() == run.folder / "comparison_report.html"
    assert good in run.report().read_text()
    assert repr(run).startswith(f"<Run {str(run.folder)!r}: 2 contestants, 40 of 40 trials, complete; {good} is better")


def test_a_comparison_of_nobody_is_refused(scripted: Callable[..., str]) -> None:
    good = scripted("good")
    run = tiebreak.run(models=[good, "baseline/constant"], dataset=ROWS)

    with pytest.raises(tiebreak.UsageError, match="there is no contestant 'goof'"):
        run.comparison("goof", good)
    with pytest.raises(tiebreak.UsageError, match="were not compared"):
        run.comparison(good, "baseline/constant")


def test_everything_asked_for_reaches_the_models(yes_server: FakeServer) -> None:
    """Settings, prompts, limit and repeats are those of the command."""
    run = tiebreak.run(
        models=["openai/a", "openai/b@temperature=1"],
        dataset=ROWS,
        prompts={"plain": "", "terse": "One word."},
        temperature=0,
        max_tokens=5,
        limit=3,
        repeats=2,
        parallel=True,
        max_connections=4,
    )

    assert [c.label for c in run.contestants] == [
        *("openai/a · plain", "openai/a · terse"),
        *("openai/b@temperature=1 · plain", "openai/b@temperature=1 · terse"),
    ]
    assert len(yes_server.ledger) == 4 * 3 * 2
    assert {(a.model, a.body["temperature"]) for a in yes_server.ledger} == {("a", 0), ("b", 1)}
    assert {a.body["max_tokens"] for a in yes_server.ledger} == {5}
    assert sum(a.body["messages"][0]["content"] == "One word." for a in yes_server.ledger) == 12
    assert [c.right for c in run.contestants] == [6, 6, 6, 6]


def test_agents_compete_and_speeds_are_measured(yes_server: FakeServer) -> None:
    run = tiebreak.run(
        models="openai/a", dataset=ROWS, limit=2, agents=["direct", "self-consistency@votes=3"], temperature=1, timing=1
    )

    assert [c.contestant.agent.label for c in run.contestants] == ["direct", "self-consistency@votes=3"]
    assert len(yes_server.ledger) == 2 + 2 * 3 + 1 + 3
    assert all(c.latency and c.latency.alone_p50_s for c in run.contestants)


@pytest.mark.needs("bubblewrap")
def test_coding_tasks_are_run_from_python(scripted: Callable[..., str]) -> None:
    task = Path(__file__).parents[1] / "benchmark" / "tasks" / "easy" / "fix_typo.md"

    run = tiebreak.run(models=scripted("m"), tasks=task, agents=["nothing", "solution"])

    assert [c.right for c in run.contestants] == [0, 1]


def test_models_may_be_records(yes_server: FakeServer) -> None:
    ref = replace(make_ref("openai", "a"), label="mine", settings={"top_p": 0.5})

    run = tiebreak.run(models=[ref, "openai/b"], dataset=ROWS, limit=2)

    assert [c.label for c in run.contestants] == ["mine", "openai/b"]
    assert {a.body.get("top_p") for a in yes_server.ledger if a.model == "a"} == {0.5}


def test_two_records_of_one_label_are_refused(yes_server: FakeServer) -> None:
    ref = make_ref("openai", "a")
    with pytest.raises(tiebreak.UsageError, match="two models are called 'openai/a'"):
        tiebreak.run(models=[ref, replace(ref, settings={"top_p": 0.5})], dataset=ROWS)


def test_contestants_may_be_written_out(scripted: Callable[..., str]) -> None:
    model = scripted("m")

    run = tiebreak.run(
        dataset=ROWS,
        limit=2,
        contestants=[{"model": model, "label": "kind", "system": "Be kind."}, f"plain: {model}"],
    )

    assert {c.label for c in run.contestants} == {"kind", "plain"}
    assert run.summary.contestants[0].contestant.model.label == model


def test_notebooks_show_a_table_with_everything_escaped(scripted: Callable[..., str]) -> None:
    run = tiebreak.run(models=scripted("m"), dataset=ROWS, limit=2, prompts={"<b>x</b>": "Hi there.", "plain": ""})

    page = run._repr_html_()

    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>" not in page
    assert page.count("<tr>") == 3
    assert "<p>" in page


def test_trials_are_read_from_the_store(scripted: Callable[..., str]) -> None:
    run = tiebreak.run(models=scripted("m", 15), dataset=ROWS)

    trials = list(run.trials())

    assert len(trials) == COUNT
    assert sum(trial.score or 0 for trial in trials) == 15
    assert (trials[0].sample, trials[0].prompt, trials[0].answer, trials[0].expected) == ("q00", "Q00?", "yes", "yes")
    assert StoredTrial.__struct_fields__ == tuple(COLUMNS)


def test_trials_as_a_data_frame(scripted: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    need_packages("pandas")
    run = tiebreak.run(models=scripted("m", 15), dataset=ROWS)

    frame = run.trials(frame=True)

    assert list(frame.columns) == list(COLUMNS)
    assert frame["score"].sum() == 15
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match="needs pandas, which is not installed: pip install pandas"):
        run.trials(frame=True)


def test_a_run_is_opened_by_its_folder_or_its_id(scripted: Callable[..., str], tmp_path: Path) -> None:
    run = tiebreak.run(models=scripted("m"), dataset=ROWS, results_dir=tmp_path / "mine")
    other = tiebreak.run(models=scripted("m"), dataset=ROWS)

    assert tiebreak.open(tmp_path / "mine").contestants == run.contestants
    assert tiebreak.open(other.folder.name).verdict == other.verdict
    assert not tiebreak.open(other.folder).running
    with pytest.raises(StoreError, match="there is no run 'nowhere'"):
        tiebreak.open("nowhere")


# --- datasets ---------------------------------------------------------------------------------------


def test_a_dataset_is_a_name_or_a_file(scripted: Callable[..., str], tmp_path: Path) -> None:
    model = scripted("m")
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    by_path = tiebreak.run(models=model, dataset=tmp_path / "q.jsonl")
    by_text = tiebreak.run(models=model, dataset="q.jsonl")
    by_name = tiebreak.run(models=model, dataset="warmup", limit=3)

    assert by_path.contestants[0].right == by_text.contestants[0].right == COUNT
    assert not (by_path.folder / "samples.jsonl").exists()
    assert by_name.summary.info.protocol.dataset == "warmup"


def test_samples_are_kept_whole(scripted: Callable[..., str]) -> None:
    """A Sample may say more than a row of a file can; a run of them goes on from another folder, also by the command."""
    samples = [
        tiebreak.Sample(
            id=row["id"],
            messages=(user(row["input"]),),
            targets=("yes",),
            keywords=Keywords(accept=("yes", "sure"), reject=("no",)),
            scorers=("keywords",),
            group=f"g{place % 3}",
        )
        for place, row in enumerate(ROWS)
    ]
    model = scripted("m", 15)
    first = tiebreak.run(models=model, dataset=samples, limit=5)
    moved = first.folder.rename(first.folder.with_name("moved"))

    longer = tiebreak.resume(moved, limit=12)
    assert longer.contestants[0].answered == 12
    whole = command("--resume", str(moved), "--limit", str(COUNT), cwd=Path.cwd())

    assert whole.returncode == 0, whole.stderr
    assert longer.contestants[0].right == tiebreak.open(moved).contestants[0].right == 15
    assert asyncio.run(rescore(moved, "match")) == COUNT
    assert asyncio.run(rescore(moved)) == COUNT
    assert tiebreak.open(moved).contestants[0].by_scorer == {"keywords": 0.75, "match": 0.75}


def test_a_resumed_run_of_rows_asks_nothing_twice(yes_server: FakeServer) -> None:
    run = tiebreak.run(models="openai/a", dataset=ROWS, limit=5)
    tiebreak.resume(run.folder)
    assert len(yes_server.ledger) == 5
    tiebreak.resume(run.folder, limit=8)
    assert len(set(asked_by(yes_server))) == len(yes_server.ledger) == 8


def test_samples_that_were_changed_are_not_mixed(scripted: Callable[..., str]) -> None:
    run = tiebreak.run(models=scripted("m"), dataset=ROWS, limit=5)
    kept = run.folder / "samples.jsonl"
    kept.write_text(kept.read_text().replace("Q03?", "Q04?"))

    with pytest.raises(StoreError, match="made with other questions"):
        tiebreak.resume(run.folder, limit=9)


class Frame:
    """What pandas' frames can do, as far as it is used."""

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return [{**row, "category": float("nan")} for row in ROWS]


def test_a_data_frame_is_a_dataset(scripted: Callable[..., str]) -> None:
    run = tiebreak.run(models=scripted("m", 15), dataset=Frame())
    assert run.contestants[0].right == 15
    assert {trial.category for trial in run.trials()} == {""}


def test_a_frame_of_pandas_is_a_dataset(scripted: Callable[..., str]) -> None:
    """Empty cells are missing ones, arrays are lists, numbers are numbers."""
    need_packages("pandas")
    import numpy
    import pandas

    frame = pandas.DataFrame(
        {
            "question": ["Q00?", "Q01?", "Q02?"],
            "answer": ["yes", "yes", "yes"],
            "choices": [numpy.array(["yes", "no"]), None, numpy.array(["no", "yes"])],
            "id": pandas.array([7, None, 9], dtype="Int64"),
        }
    )

    run = tiebreak.run(models=scripted("m"), dataset=frame)

    assert [trial.sample for trial in run.trials()] == ["2", "7", "9"]


def test_columns_of_rows_are_named_as_those_of_files(scripted: Callable[..., str]) -> None:
    rows = [{"q": row["input"], "a": row["target"]} for row in ROWS]
    run = tiebreak.run(models=scripted("m", 15), dataset=rows, fields={"q": "input", "a": "target"})
    assert run.contestants[0].right == 15


def test_columns_that_are_not_read_are_told(scripted: Callable[..., str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tiebreak"):
        tiebreak.run(models=scripted("m"), dataset=[{**row, "catgory": "x"} for row in ROWS], limit=2)
    assert "columns that are not read: catgory" in caplog.text


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROWS[0], {"inptu": "x", "target": "y"}], "row 2: field 'input' is missing; the row has 'inptu', 'target'"),
        ([ROWS[0], {"input": "", "target": "y"}], "row 2: the column 'input' is empty in this row"),
        ([ROWS[0], ROWS[1], ROWS[0]], "the id 'q00' is used twice, in rows 1 and 3"),
        ([ROWS[0], "Q?"], "row 2: must be a Sample or a dictionary, not 'Q"),
        ([], "the dataset is empty"),
        (7, "a dataset is a name, a file, a list of samples or dictionaries, or a data frame, not 7"),
        ([ROWS[0], {"input": "\ud800", "target": "y"}], "row 2: cannot be kept in a file: "),
        ([{**ROWS[0], "scorer": "os:getcwd"}], "a row names the scorer 'os:getcwd', which is not a registered one"),
    ],
)
def test_rows_that_cannot_be_read_are_named(rows: Any, message: str, scripted: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as raised:
        tiebreak.run(models=scripted("m"), dataset=rows, results_dir=tmp_path / "r")
    assert message in str(raised.value)
    assert not (tmp_path / "r").exists()


# --- what is refused before anything is sent --------------------------------------------------------


def test_names_and_keys_are_checked_first(yes_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match=r"cannot use gpt-4o-minni: .*did you mean 'gpt-4o-mini'"):
        tiebreak.run(models=["openai/a", "gpt-4o-minni"], dataset=ROWS)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ModelError, match="set ANTHROPIC_API_KEY"):
        tiebreak.run(models=["openai/a", "anthropic/b"], dataset=ROWS)
    assert yes_server.ledger == yes_server.tried == []
    assert not list(Path.cwd().glob("*results*/*"))


def test_above_a_dollar_somebody_must_agree(yes_server: FakeServer) -> None:
    ref = replace(make_ref("openai", "a"), price=Price(input_usd=30.0, output_usd=60.0))
    costly: dict[str, Any] = {"models": ref, "dataset": ROWS, "repeats": 100}
    with pytest.raises(tiebreak.UsageError, match=r"Expected cost: about \$.*say yes=True, or set max_cost_usd"):
        tiebreak.run(**costly)
    assert yes_server.ledger == yes_server.tried == []

    run = tiebreak.run(**costly, max_cost_usd=0.002, max_tokens=5)

    assert 0 < len(yes_server.ledger) < 100
    assert (run.contestants[0].cost_usd or 0) <= 0.002
    assert run.contestants[0].state == "out_of_budget"
    assert tiebreak.run(**costly, limit=2, yes=True, max_connections=50).complete


def test_limits_end_a_run_and_more_of_them_goes_on(yes_server: FakeServer) -> None:
    run = tiebreak.run(models="openai/a", dataset=ROWS, max_tokens=5, max_total_tokens=150)
    assert not run.complete
    assert run.contestants[0].state == "out_of_budget"

    assert tiebreak.resume(run.folder, max_total_tokens=100_000).complete
    assert len(yes_server.ledger) == len(set(asked_by(yes_server))) == COUNT


def test_models_are_tried_first(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """One that can never answer stops the run where nobody is left, and is told of where others are."""

    def refuse(asked: Asked) -> Fault | None:
        return Fault(401, '{"error": {"message": "bad key"}}') if asked.dialect == "chat" else None

    with FakeServer(lambda prompt: "yes", preflight_fault=refuse) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        with pytest.raises(ModelError, match=r"Nothing was asked: openai/a  auth: .*say preflight=False"):
            tiebreak.run(models="openai/a", dataset=ROWS)
        assert server.ledger == []
        with caplog.at_level(logging.WARNING, logger="tiebreak"):
            tiebreak.run(models=["openai/a", "anthropic/b"], dataset=ROWS, limit=2)
        assert "openai/a  auth" in caplog.text
        tried = len(server.tried)
        assert tiebreak.run(models="openai/a", dataset=ROWS, limit=2, preflight=False).complete
        assert len(server.tried) == tried


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"limit": -3}, {"limit": 2.5}, {"repeats": True}, {"max_cost_usd": 0}, {"max_time_s": float("nan")}]
)
def test_numbers_that_mean_nothing_are_refused(wrong: dict[str, Any], scripted: Callable[..., str]) -> None:
    with pytest.raises(tiebreak.UsageError, match=next(iter(wrong))):
        tiebreak.run(models=scripted("m"), dataset=ROWS, **wrong)


def test_samples_in_memory_take_the_place_of_no_file(scripted: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").write_text("mine")
    with pytest.raises(tiebreak.UsageError, match=r"holds samples\.jsonl, which a run would write over"):
        tiebreak.run(models=scripted("m"), dataset=ROWS, results_dir=tmp_path)
    assert (tmp_path / "samples.jsonl").read_text() == "mine"


def test_an_option_nobody_has_is_refused(scripted: Callable[..., str]) -> None:
    with pytest.raises(TypeError, match="there is no option 'max_cost'; did you mean 'max_cost_usd'"):
        tiebreak.run(models=scripted("m"), dataset=ROWS, max_cost=1)  # type: ignore[call-arg]
    with pytest.raises(tiebreak.UsageError, match="models are names or ModelRefs, not 7"):
        tiebreak.run(models=[7], dataset=ROWS)  # type: ignore[list-item]


def test_errors_speak_of_keywords(scripted: Callable[..., str], tmp_path: Path) -> None:
    """Where the command has flags, a program has keywords."""
    with pytest.raises(tiebreak.UsageError, match=r"the scorer 'judge' asks a model: name one with judge$"):
        tiebreak.run(models=scripted("m"), dataset=ROWS, scorers="judge")
    run = tiebreak.run(models=scripted("m"), dataset=ROWS, limit=2)
    with pytest.raises(tiebreak.UsageError, match=r"go on with it by tiebreak.resume"):
        tiebreak.run(models=scripted("m"), dataset=ROWS, results_dir=run.folder)


def test_every_flag_is_a_keyword() -> None:
    """What only makes sense at a terminal, in a build or in a file is named here."""
    keywords = {_FLAGS.get(name, name) for name in Options.__annotations__}
    ours = {field.name for field in fields(Flags)}
    assert keywords - ours - set(_ELSEWHERE) == set()
    assert (
        ours - keywords
        == {
            *("model", "models", "refs", "dataset", "all_models", "category", "provider"),  # said by `models` and `dataset`
            *("prompt", "contestant", "entries", "field", "map", "scorer", "no_preflight", "door"),  # under other names
            *("file", "variants", "exclude"),  # a run file's
            *("quiet", "verbose", "as_json", "markdown", "no_csv", "dry_run", "save", "use_engine"),  # a terminal's
            *("attended", "ask_permissions"),
            *("allow_failures", "fail_under", "baseline", "changed"),  # a build's
        }
        - keywords
    )


@pytest.mark.parametrize("function", ["run", "arun", "start", "stream", "resume"])
def test_signatures_list_every_option(function: str) -> None:
    assert set(Options.__annotations__) <= set(inspect.signature(getattr(tiebreak, function)).parameters)


# --- scorers that are functions ---------------------------------------------------------------------


def says_yes(sample: tiebreak.Sample, text: str) -> bool:
    return text == sample.target


async def half(sample: tiebreak.Sample, text: str) -> float:
    return 0.5


def reasoned(sample: tiebreak.Sample, text: str) -> tiebreak.Score:
    return tiebreak.Score(value=1.0, answer=text, because=f"{sample.id} is easy")


def test_functions_judge(scripted: Callable[..., str]) -> None:
    run = tiebreak.run(models=scripted("m", 15), dataset=ROWS, scorers=[says_yes, half, reasoned, "match"])

    assert run.contestants[0].right == 15
    assert run.contestants[0].by_scorer == {
        "says_yes()": 0.75,
        "half()": 0.5,
        "reasoned()": 1.0,
        "match": 0.75,
    }


def test_a_function_is_given_again_to_go_on(scripted: Callable[..., str]) -> None:
    run = tiebreak.run(models=scripted("m", 15), dataset=ROWS, limit=5, scorers=says_yes)

    with pytest.raises(
        tiebreak.UsageError, match=r"judged by a Python function, says_yes.*resume\(folder, scorers=\[says_yes\]\)"
    ):
        tiebreak.resume(run.folder, limit=COUNT)
    with pytest.raises(tiebreak.UsageError, match="leave out scorer"):
        tiebreak.resume(run.folder, limit=COUNT, scorers=half)
    refused = command("--resume", str(run.folder), "--limit", "9", cwd=Path.cwd())
    assert refused.returncode == 1
    assert "judged by a Python function, says_yes" in refused.stderr

    assert tiebreak.resume(run.folder, limit=COUNT, scorers=[says_yes]).contestants[0].right == 15
    assert tiebreak.open(run.folder).contestants[0].right == 15


def test_what_a_function_raises_is_no_wrong_answer(scripted: Callable[..., str]) -> None:
    def broken(sample: tiebreak.Sample, text: str) -> bool:
        raise RuntimeError("oops")

    run = tiebreak.run(models=scripted("m"), dataset=ROWS, limit=3, scorers=broken)

    assert (run.contestants[0].answered, run.contestants[0].failed) == (0, 3)
    assert {trial.score for trial in run.trials()} == {None}


async def test_two_runs_may_have_functions_of_one_name(scripted: Callable[..., str]) -> None:
    """Each is judged by its own, also at the same time."""

    def judged_by(value: float) -> Callable[[tiebreak.Sample, str], float]:
        def grade(sample: tiebreak.Sample, text: str) -> float:
            return value

        return grade

    runs = await asyncio.gather(
        *(
            tiebreak.arun(models=scripted("m", delay_s=0.02), dataset=ROWS, scorers=judged_by(v), results_dir=f"r{v}")
            for v in (0.25, 0.75)
        )
    )

    assert [run.contestants[0].score for run in runs] == [0.25, 0.75]


def test_two_functions_of_one_name_are_refused(scripted: Callable[..., str]) -> None:
    with pytest.raises(tiebreak.UsageError, match="two scorers are called 'lambda'"):
        tiebreak.run(models=scripted("m"), dataset=ROWS, scorers=[lambda s, t: True, lambda s, t: False])


# --- loops and threads ------------------------------------------------------------------------------


async def test_run_works_where_a_loop_is_running(scripted: Callable[..., str]) -> None:
    """As in a cell of a notebook."""
    run = tiebreak.run(models=scripted("m", 15), dataset=ROWS)
    assert run.contestants[0].right == 15


async def test_arun_uses_the_loop_it_is_awaited_in(scripted: Callable[..., str]) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    run = await tiebreak.arun(models=scripted("m", delay_s=0.02), dataset=ROWS)
    ticking.cancel()

    assert run.complete
    assert ticks > 3


async def test_a_stream_tells_what_happens(scripted: Callable[..., str]) -> None:
    stream = tiebreak.stream(models=scripted("m", 15), dataset=ROWS)
    with pytest.raises(tiebreak.UsageError, match="the run has not begun"):
        _ = stream.run

    stored = []
    events = []
    async for event in stream:
        events.append(event)
        if isinstance(event, TrialFinished):
            stored.append(sum(1 for _ in stream.run.trials()))

    assert isinstance(events[0], ContestantStarted)
    assert isinstance(events[-1], ContestantFinished)
    assert sum(isinstance(event, TrialFinished) for event in events) == COUNT
    assert all(on_disk >= place for place, on_disk in enumerate(stored, start=1))
    assert stream.run.complete
    with pytest.raises(tiebreak.UsageError, match="read once"):
        async for _ in stream:
            pass


async def test_a_slow_reader_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody has read yet does not fill the memory."""
    monkeypatch.setattr("tiebreak.api._LARGEST_BACKLOG", 2)
    events, written = _Events(), []

    async def write() -> None:
        for position in range(5):
            event = ContestantStarted(contestant="m", position=position, contestants=1, trials=1)
            await events.put(event)
            written.append(position)

    writing = asyncio.create_task(write())
    await asyncio.sleep(0.05)
    assert written == [0, 1]
    assert await events.take() is not None
    await asyncio.sleep(0.05)
    assert written == [0, 1, 2]
    events.leave()
    await asyncio.wait_for(writing, PATIENCE_S)


async def test_a_stream_is_left_while_the_run_waits_for_its_reader(
    yes_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiebreak.api._LARGEST_BACKLOG", 2)
    stream = tiebreak.stream(**OPTIONS)
    async for _ in stream:
        await asyncio.to_thread(until, lambda: len(yes_server.ledger) >= COUNT)
        break
    await asyncio.to_thread(until, lambda: not stream.run.running)
    assert tiebreak.resume("r").contestants[0].right == COUNT


async def test_a_callback_may_be_async(scripted: Callable[..., str]) -> None:
    seen = []

    async def watch(event: object) -> None:
        await asyncio.sleep(0)
        seen.append(event)

    await tiebreak.arun(models=scripted("m"), dataset=ROWS, on_event=watch)
    assert len(seen) == COUNT + 2


async def test_a_stream_raises_what_goes_wrong() -> None:
    with pytest.raises(ModelError, match="cannot use gpt-4o-minni"):
        async for _ in tiebreak.stream(models="gpt-4o-minni", dataset=ROWS):
            pass


def test_what_a_callback_raises_ends_the_run(yes_server: FakeServer) -> None:
    def complain(event: object) -> None:
        if isinstance(event, TrialFinished):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        tiebreak.run(models="openai/a", dataset=ROWS, max_connections=1, on_event=complain)
    assert len(yes_server.ledger) < COUNT
    (folder,) = {path.parent for path in Path.cwd().rglob("run.sqlite")}
    assert tiebreak.resume(folder).complete


def test_a_run_goes_on_in_the_background(yes_server: FakeServer) -> None:
    events: list[object] = []
    run = tiebreak.start(models="openai/a", dataset=ROWS, on_event=events.append)
    assert run.running
    assert "running" in repr(run)
    with pytest.raises(TimeoutError, match="still going on"):
        run.wait(timeout_s=0)

    assert run.wait() is run
    assert run.complete
    assert not run.running
    assert len(events) == COUNT + 2
    run.cancel()
    assert run.complete


# --- stopping ---------------------------------------------------------------------------------------


def check_stopped(server: FakeServer, folder: Path, at_cancel: int, *, connections: int = 2) -> None:
    """What was on its way arrived, nothing was sent after that, and the run goes on to the same end as one never stopped."""
    stopped_at = len(server.ledger)
    assert at_cancel <= stopped_at <= at_cancel + connections
    assert stopped_at < COUNT
    time.sleep(0.5)
    assert len(server.ledger) == stopped_at
    run = tiebreak.open(folder)
    assert not run.complete
    kept = [trial.prompt for trial in run.trials()]
    assert "not complete" in repr(run)

    assert tiebreak.resume(folder).contestants[0].right == COUNT
    again = asked_by(server)[stopped_at:]
    assert not set(again) & set(kept)
    assert len(again) == COUNT - len(kept)


OPTIONS: dict[str, Any] = {"models": "openai/a", "dataset": ROWS, "max_connections": 2, "results_dir": "r"}


async def test_cancelling_a_task_sends_nothing_more(yes_server: FakeServer) -> None:
    reported: list[str] = []
    enough = asyncio.Event()

    def watch(event: object) -> None:
        if isinstance(event, TrialFinished):
            reported.append(event.result.trial.sample.prompt)
            if len(reported) >= 4:
                enough.set()

    task = asyncio.create_task(tiebreak.arun(**OPTIONS, on_event=watch))
    await enough.wait()
    at_cancel = len(yes_server.ledger)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert set(reported) <= {trial.prompt for trial in tiebreak.open("r").trials()}
    await asyncio.to_thread(check_stopped, yes_server, Path("r"), at_cancel)


async def test_cancelling_before_the_first_question_asks_nothing(yes_server: FakeServer) -> None:
    task = asyncio.create_task(tiebreak.arun(**OPTIONS))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.5)
    assert yes_server.ledger == []


async def test_leaving_a_stream_early_sends_nothing_more(yes_server: FakeServer) -> None:
    """Also while somebody keeps the stream."""
    stream = tiebreak.stream(**OPTIONS)
    seen = 0
    async for event in stream:
        seen += isinstance(event, TrialFinished)
        if seen == 4:
            break
    at_leave = len(yes_server.ledger)
    await asyncio.to_thread(until, lambda: not stream.run.running)

    await asyncio.to_thread(check_stopped, yes_server, Path("r"), at_leave)


def test_a_loop_that_ends_with_its_stream_sends_nothing_more(yes_server: FakeServer) -> None:
    """The program leaves the stream and ends at once: its loop cancels what is left."""

    async def main() -> None:
        async for event in tiebreak.stream(**OPTIONS):
            if isinstance(event, TrialFinished):
                return

    asyncio.run(main())
    check_stopped(yes_server, Path("r"), len(yes_server.ledger))


@pytest.mark.parametrize("way", ["async with", "aclose"])
def test_a_stream_that_is_left_and_closed_keeps_what_was_in_flight(way: str) -> None:
    """All that the server was asked is answered and stored before the event loop ends."""

    async def main() -> None:
        stream = tiebreak.stream(**{**OPTIONS, "max_connections": 8})
        async with stream if way == "async with" else contextlib.AsyncExitStack():
            async for event in stream:
                if isinstance(event, TrialFinished):
                    break
        await stream.aclose()

    with FakeServer(lambda prompt: "yes", latency_s=0.7) as server, pytest.MonkeyPatch.context() as patched:
        for name, value in server.environment().items():
            patched.setenv(name, value)
        asyncio.run(main())
        asked = asked_by(server)
    assert len(asked) > 1
    assert len(list(tiebreak.open("r").trials())) == len(asked)


def test_no_filter_that_leaves_nothing_means_everything(scripted: Callable[..., str]) -> None:
    for name in ("sample_ids", "sample_categories", "scorers", "judge", "tasks"):
        with pytest.raises(tiebreak.UsageError, match=f"{name} is empty"):
            tiebreak.run(models=scripted("m"), dataset=ROWS, **{name: []})  # type: ignore[arg-type]


def test_text_that_has_no_bytes_is_refused(scripted: Callable[..., str]) -> None:
    with pytest.raises(tiebreak.UsageError, match="not UTF-8"):
        tiebreak.run(models=scripted("m"), dataset=ROWS, system="a\ud800b")


def test_too_many_contestants_are_refused_at_once(scripted: Callable[..., str]) -> None:
    prompts: dict[str, Any] = {f"p{n}": f"Say {n}." for n in range(201)}
    with pytest.raises(tiebreak.UsageError, match="201 contestants are named"):
        tiebreak.run(models=scripted("m"), dataset=ROWS, prompts=prompts)


def test_cancelling_a_run_in_the_background_sends_nothing_more(yes_server: FakeServer) -> None:
    run = tiebreak.start(**OPTIONS)
    until(lambda: len(yes_server.ledger) >= 4)
    at_cancel = len(yes_server.ledger)
    run.cancel()
    run.wait(PATIENCE_S)

    assert not run.running
    assert run.contestants[0].state == "interrupted"
    check_stopped(yes_server, Path("r"), at_cancel)


def test_stopping_is_no_look_at_the_result(yes_server: FakeServer) -> None:
    """Nobody has seen who was ahead: the verdict of the run that goes on need not allow for it."""
    options = {**OPTIONS, "models": ["openai/a", "openai/b"]}
    run = tiebreak.start(**options, parallel=True)
    until(lambda: len({trial.contestant for trial in run.trials()}) == 2)
    run.cancel()
    run.wait(PATIENCE_S)
    assert not run.complete

    assert tiebreak.resume("r").summary.looks == 0


def test_an_answer_whose_judge_is_not_asked_any_more_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that was on its way when the run was stopped comes and is kept; no judge is asked about it any more."""
    with FakeServer(lambda prompt: "yes", latency_s=3.0) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        run = tiebreak.start(**{**OPTIONS, "max_connections": 1}, scorers="judge", judge="anthropic/b")
        until(lambda: len(server.ledger) >= 1)
        run.cancel()
        run.wait(PATIENCE_S)

        assert [asked.dialect for asked in server.ledger] == ["chat"]
    (trial,) = run.trials()
    assert (trial.text, trial.score, trial.failure_kind) == ("yes", None, "unjudged")


def test_cancelled_twice_it_lets_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers in a minute is not waited for."""
    with FakeServer(lambda prompt: "yes", latency_s=3600.0) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        run = tiebreak.start(**OPTIONS)
        until(lambda: len(server.ledger) >= 2)
        began = time.monotonic()
        run.cancel()
        run.cancel()
        run.wait(PATIENCE_S)
        assert time.monotonic() - began < 7.0, "the time that one request to stop leaves to what is in flight"
    assert not run.complete


SCRIPT = """
    import json, sys, tiebreak
    rows = json.loads(sys.argv[1])
    try:
        tiebreak.run(models="openai/a", dataset=rows, max_connections=2, results_dir="r")
    except KeyboardInterrupt:
        sys.exit(42)
"""


def test_an_interrupt_sends_nothing_more(yes_server: FakeServer) -> None:
    root = Path(tiebreak.__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{textwrap.dedent(SCRIPT)}", json.dumps(ROWS)]
    )
    until(lambda: len(yes_server.ledger) >= 4)
    at_interrupt = len(yes_server.ledger)
    process.send_signal(signal.SIGINT)

    assert process.wait(PATIENCE_S) == 42
    # A request or two may have been on their way while the signal was.
    check_stopped(yes_server, Path("r"), at_interrupt, connections=6)


def test_a_killed_run_of_rows_goes_on(yes_server: FakeServer, tmp_path: Path) -> None:
    """The rows are on disk before the first question is."""
    run = tiebreak.start(**OPTIONS)
    until(lambda: len(yes_server.ledger) >= 4)
    shutil.copytree(run.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("*.tmp"))
    run.cancel()
    run.wait(PATIENCE_S)

    assert tiebreak.resume(tmp_path / "copy").contestants[0].right == COUNT


@pytest.mark.parametrize(
    "options",
    [
        {"models": 5},
        {"models": [None]},
        {"models": {"a": 1}},
        {"prompts": ["a"]},
        {"prompts": {"a": 5}},
        {"fields": ["a"]},
        {"contestants": 5},
        {"judge": 5},
        {"agents": 5},
        {"stop": 5},
        {"results_dir": 5},
        {"data": 5},
        {"system": 5},
        {"until": 5},
        {"on_event": 5},
    ],
)
def test_an_option_of_another_kind_is_refused_by_name(options: dict[str, Any], tmp_path: Path) -> None:
    """It would else go wrong somewhere inside, in words that nobody who called this has ever seen."""
    [(name, value)] = options.items()
    with pytest.raises(tiebreak.UsageError, match=rf"{name}.* (must be|not {value}|are names)"):
        tiebreak.run(**{"models": "baseline/random", "dataset": ROWS, **options})
    assert not list(tmp_path.iterdir())
