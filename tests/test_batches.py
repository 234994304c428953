"""Questions asked in batches: half the price, nothing paid twice, and whatever providers do with a part of them."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.batch_kills import MODELS, write_questions
from support.batch_server import BAD, CANCELLED, CREATES, ERROR, EXPIRED, GARBLED, BatchServer
from support.command import clean_environment, read_csv, start
from support.server import KEY

import tiebreak
from tiebreak.cli.main import run_command_line
from tiebreak.core.errors import UsageError
from tiebreak.engine import batches
from tiebreak.providers.batches_openai import OpenAIBatches

QUESTIONS = 8
LINE = ["run", "--config", "models.yaml", "--dataset", "q.jsonl", "--no-preflight"]
PRICES = """
models:
  - name: cheap
    provider: openai
    model: gpt-4o-mini
    price: {input: 10, output: 20}
  - name: claude
    provider: anthropic
    model: claude-3-5-haiku-latest
    settings: {max_tokens: 100}
    price: {input: 10, output: 20}
"""
"""Of an answer with 100 tokens in and 50 out: $0.002, and $0.001 in a batch."""


@pytest.fixture(scope="module")
def shared() -> Iterator[BatchServer]:
    with BatchServer() as served:
        yield served


@pytest.fixture
def server(shared: BatchServer) -> BatchServer:
    shared.reset()
    return shared


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_questions(tmp_path, QUESTIONS)
    (tmp_path / "models.yaml").write_text(PRICES)
    return tmp_path


class Command:
    """The program, run in this process: its exit code, and everything it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str]:
        code = run_command_line(arguments)
        said = self._capsys.readouterr()
        return code, said.out + said.err

    def batch(self, *more: str, model: str = "cheap") -> tuple[int, str]:
        return self(*LINE, "--model", model, "--batch", "--poll", "0.05", "--yes", "--output", "out", *more)

    def resume(self, *more: str) -> tuple[int, str]:
        return self("run", "--resume", "out", "--no-preflight", "--yes", *more)


@pytest.fixture
def command(server: BatchServer, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(home)
    monkeypatch.setattr(batches, "SETTLE_S", 0.1)
    for name, value in clean_environment(**server.environment()).items():
        monkeypatch.setenv(name, value)
    return Command(capsys)


def rows(home: Path) -> list[dict[str, str]]:
    return read_csv(home / "out" / "trials.csv")


class Fated:
    """Gives the n-th request it sees its own fate, once or every time."""

    def __init__(self, *fates: str, always: bool = False) -> None:
        self._fates = list(fates)
        self._by_id: dict[str, str] = {}
        self._always = always

    def __call__(self, custom_id: str, times: int) -> str:
        if custom_id not in self._by_id:
            self._by_id[custom_id] = self._fates.pop() if self._fates else "answered"
        return self._by_id[custom_id] if times == 1 or self._always else "answered"


@pytest.mark.parametrize("dialect", MODELS)
def test_answers_come_home_from_every_dialect(server: BatchServer, home: Path, command: Command, dialect: str) -> None:
    """One job, every question paid once, no time claimed, and the batch's files gone."""
    server.behave(delay_s=0.1)

    code, said = command.batch(model=MODELS[dialect])

    assert code == 0, said
    assert [row["score"] for row in rows(home)] == ["1.0"] * QUESTIONS
    assert {(row["model_s"], row["in_flight"], row["queue_s"]) for row in rows(home)} == {("", "", "")}
    assert sorted(server.batches.paid.values()) == [1] * QUESTIONS
    assert len(server.batches.jobs) == 1 and not server.ledger
    assert "samples/s" not in said and "Answers in" not in said
    assert not list((home / "out").glob("batch-*"))
    assert KEY not in said and not [p for p in (home / "out").iterdir() if p.is_file() and KEY.encode() in p.read_bytes()]


def test_half_price_in_estimate_and_report(server: BatchServer, home: Path, command: Command) -> None:
    """The estimate is half of what it is without batches; the report has what the batch cost."""
    _, estimated = command.batch("--dry-run")
    _, without = command(*LINE, "--model", "cheap", "--dry-run")
    code, _ = command.batch()

    def dollars(text: str) -> float:
        return float(text.split("about $")[1].split(",", maxsplit=1)[0])

    assert dollars(estimated) == pytest.approx(dollars(without) / 2, rel=0.05)
    assert code == 0
    assert [float(row["cost_usd"]) for row in rows(home)] == [pytest.approx(0.001)] * QUESTIONS
    assert "nswers from batches cost 50% of the usual price" in (home / "out" / "comparison_report.html").read_text()


@pytest.mark.parametrize("dialect", ["chat", "messages", "gemini"])
def test_parts_that_fail_are_asked_again_or_reported_by_kind(
    server: BatchServer, home: Path, command: Command, dialect: str
) -> None:
    """What expired or failed by the server's doing goes into another job; a refused request and a cancelled one do not."""
    server.behave(fate=Fated(ERROR, EXPIRED, EXPIRED, BAD))

    code, said = command.batch(model=MODELS[dialect])

    kinds = sorted(row["failure_kind"] for row in rows(home))
    assert code == 2, said
    assert kinds == [""] * (QUESTIONS - 1) + ["bad_request"]
    assert len(server.batches.jobs) == 2
    assert max(server.batches.paid.values()) == 1


def test_a_cancelled_batch_is_asked_again_only_by_a_resume(server: BatchServer, home: Path, command: Command) -> None:
    """Whoever cancelled it at the provider did so for a reason."""
    server.behave(fate=Fated(CANCELLED, CANCELLED))

    code, _ = command.batch()
    failed = [row["failure"] for row in rows(home) if row["failure"]]
    jobs = len(server.batches.jobs)
    again, _ = command.resume()

    assert (code, jobs, len(failed)) == (2, 1, 2)
    assert "cancelled at the provider" in failed[0]
    assert again == 0 and sorted(server.batches.paid.values()) == [1] * QUESTIONS


def test_what_expires_every_time_fails_after_three_jobs(server: BatchServer, home: Path, command: Command) -> None:
    """A run ends."""
    server.behave(fate=Fated(EXPIRED, always=True))

    code, _ = command.batch()

    assert code == 2
    assert [row["failure_kind"] for row in rows(home) if row["failure_kind"]] == ["timeout"]
    assert len(server.batches.jobs) == 3 and sorted(server.batches.paid.values()) == [1] * (QUESTIONS - 1)


def test_a_line_nobody_can_read_is_reported(server: BatchServer, home: Path, command: Command) -> None:
    """The others count; this one was paid for, and is not paid for again behind the user's back."""
    server.behave(fate=Fated(GARBLED))

    code, _ = command.batch()

    assert code == 2
    assert [row["failure_kind"] for row in rows(home) if row["failure_kind"]] == ["malformed"]
    assert len(server.batches.jobs) == 1


def test_detached_it_ends_and_a_resume_collects(server: BatchServer, home: Path, command: Command) -> None:
    """Sent: 0. Asked for too early: 2, and nothing is sent again. Collected: 0."""
    server.behave(delay_s=3600.0)

    sent, said = command.batch("--detach")
    early, _ = command.resume("--detach")
    server.behave(delay_s=0.0)
    collected, _ = command.resume()

    assert sent == 0 and f"cheap: {QUESTIONS} questions in batches since" in said and "--resume out" in said
    assert early == 2
    assert collected == 0 and [row["score"] for row in rows(home)] == ["1.0"] * QUESTIONS
    assert len(server.batches.jobs) == 1


def test_the_viewer_shows_what_waits(server: BatchServer, home: Path, command: Command) -> None:
    """How many answers, since when, in the list and on the run's page."""
    from tiebreak.viewer.run_list import list_row
    from tiebreak.viewer.run_view import RunView

    server.behave(delay_s=3600.0)
    command.batch("--detach")
    view = RunView(home / "out")

    (state,) = view.state.get(view.stamp())["contestants"]

    assert state["state"].startswith(f"{QUESTIONS} answers in batches, sent 20")
    assert list_row(home / "out", *view.listed())["state"] == f"waiting for {QUESTIONS} answers in batches"


def test_the_cap_holds_for_batches(server: BatchServer, home: Path, command: Command) -> None:
    """Jobs are as large as the rest of the budget allows at its worst; what is left over goes into the next ones."""
    code, said = command.batch("--max-cost", "0.0055", model="claude")

    spent = 0.001 * sum(server.batches.paid.values())
    assert code == 2, said
    assert "--max-cost 0.0055" in said
    assert [len(job.lines) for job in server.batches.jobs.values()] == [4, 1]
    assert spent <= 0.0055

    code, said = command.resume("--max-cost", "1")

    assert code == 0, said
    assert sorted(server.batches.paid.values()) == [1] * QUESTIONS


@pytest.mark.parametrize("dialect", ["chat", "messages", "gemini"])
def test_a_lost_reply_costs_nothing(server: BatchServer, home: Path, command: Command, dialect: str) -> None:
    """The job was created and the answer lost: it is found by its name, or by looking into it; never sent again."""
    server.behave(fault=lambda step, times: -1 if step in CREATES and times == 1 else 0, metadata=dialect != "chat", delay_s=0.3)

    code, said = command.batch(model=MODELS[dialect])

    assert code == 0, said
    assert len(server.batches.jobs) == 1


def test_a_lost_request_is_sent_again(server: BatchServer, home: Path, command: Command) -> None:
    """Not in the list after a while: it was never created."""
    server.behave(fault=lambda step, times: -2 if step in CREATES and times == 1 else 0)

    code, said = command.batch()

    assert code == 0, said
    assert len(server.batches.jobs) == 1 and server.batches.steps["openai_create"] == 2


def test_somebody_elses_jobs_of_unknown_contents_are_no_answer(server: BatchServer, home: Path, command: Command) -> None:
    """They are waited for and looked into, and left alone."""
    theirs = {f"theirs-{n}": {"model": "m", "messages": [{"role": "user", "content": "x"}]} for n in range(QUESTIONS)}

    def lost_while_somebody_sends(step: str, times: int) -> int:
        if step not in CREATES or times > 1:
            return 0
        server.create("messages", "", "", theirs)
        return -2

    server.behave(fault=lost_while_somebody_sends, delay_s=0.4)

    code, said = command.batch(model="claude")

    assert code == 0, said
    assert server.batches.order.count("anthropic_results") == 2  # theirs, and ours
    assert [row["score"] for row in rows(home)] == ["1.0"] * QUESTIONS


def test_a_limit_of_waiting_tokens_is_nobodys_failure(
    server: BatchServer, home: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a job is refused because others wait, its questions are asked in the end."""
    monkeypatch.setattr(OpenAIBatches, "limits", type(OpenAIBatches.limits)(lines=4, bytes=10**6))
    server.behave(refuses=lambda n: ("token_limit_exceeded", "Enqueued token limit reached") if 1 < n < 7 else None, delay_s=0.1)

    code, said = command.batch("--poll", "0.01")

    assert code == 0, said
    assert len(server.batches.jobs) >= 7 and sorted(server.batches.paid.values()) == [1] * QUESTIONS


def test_where_nothing_is_listed_a_person_decides(server: BatchServer, home: Path, command: Command) -> None:
    """Nobody knows whether the job was created: that is said, and only --retry-failed sends it again."""
    server.behave(fault=lambda step, times: -2 if step in CREATES and times == 1 else 0, lists=False)

    code, said = command.batch()
    again, _ = command.resume()
    assert (code, again) == (1, 1)
    assert "nobody knows whether a batch" in said and "--retry-failed" in said
    assert not server.batches.paid

    code, said = command.resume("--retry-failed")
    assert code == 0, said
    assert sorted(server.batches.paid.values()) == [1] * QUESTIONS


def test_what_is_over_a_limit_now_is_sent_later(server: BatchServer, home: Path, command: Command) -> None:
    """A 429 at creation, and a job that is refused because too many tokens wait."""
    limit = "token_limit_exceeded", "Enqueued token limit reached"
    server.behave(
        fault=lambda step, times: 429 if step in CREATES and times == 1 else 0, refuses=lambda n: limit if n == 1 else None
    )

    code, said = command.batch()

    assert code == 0, said
    assert len(server.batches.jobs) == 2 and sorted(server.batches.paid.values()) == [1] * QUESTIONS


def test_a_refused_job_fails_its_questions(server: BatchServer, home: Path, command: Command) -> None:
    """The provider's reason is told, without our key in it."""
    server.behave(refuses=lambda n: ("invalid_json", f"line 1, {KEY}"))

    code, said = command.batch()

    assert code == 1, said
    assert {row["failure_kind"] for row in rows(home)} == {"bad_request"}
    assert "invalid_json" in rows(home)[0]["failure"] and KEY not in rows(home)[0]["failure"]


def test_a_rejected_key_ends_the_contestant(server: BatchServer, home: Path, command: Command) -> None:
    server.behave(fault=lambda step, times: 401)

    code, said = command.batch()

    assert code == 1
    assert "HTTP 401" in said and KEY not in said and "Traceback" not in said


def test_jobs_are_split_by_the_providers_limits(
    server: BatchServer, home: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By lines and by bytes."""
    options = {"models": "openai/gpt-4o-mini", "batch": True, "poll_s": 0.05, "preflight": False, "yes": True}

    monkeypatch.setattr(OpenAIBatches, "limits", type(OpenAIBatches.limits)(lines=3, bytes=10**6))
    tiebreak.run(dataset="q.jsonl", results_dir="by_lines", **options)  # type: ignore[arg-type]
    by_lines = [len(job.lines) for job in server.batches.jobs.values()]
    server.reset()
    monkeypatch.setattr(OpenAIBatches, "limits", type(OpenAIBatches.limits)(lines=100, bytes=500))
    result = tiebreak.run(dataset="q.jsonl", results_dir="by_bytes", **options)  # type: ignore[arg-type]

    assert by_lines == [3, 3, 2]
    assert all(len(data) <= 500 for _, data in server.batches.files.values())
    assert len(server.batches.files) > 2 and result.contestants[0].score == 1.0


def test_who_cannot_be_batched_is_asked_as_usual_and_named(server: BatchServer, home: Path, command: Command) -> None:
    """Another agent asks more than once."""
    entries = ("--contestant", "twice: cheap, agent=self-consistency@votes=2", "--contestant", "once: cheap")

    code, said = command(*LINE, "--batch", "--poll", "0.05", "--yes", *entries, "--output", "out")

    assert code == 0, said
    assert "Asked as usual, at the full price, and in no batch: twice (the agent" in " ".join(said.split())
    assert len(server.ledger) == 2 * QUESTIONS and sum(server.batches.paid.values()) == QUESTIONS


def test_turns_after_the_first_are_asked_as_usual(server: BatchServer, home: Path, command: Command) -> None:
    """They go on from an answer, which the batch has to bring first."""
    talk = {"id": "talk", "input": "One", "turns": ["Two"], "target": "Answer to Two"}
    (home / "q.jsonl").write_text(json.dumps(talk) + "\n")

    code, said = command.batch()

    assert code == 0, said
    assert "turns after the first" in said
    assert [asked.prompt for asked in server.ledger] == ["Two"]
    assert sum(server.batches.paid.values()) == 1


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--batch", "--stream"], "--stream"),
        (["--batch", "--cache", "c"], "--cache"),
        (["--detach"], "--detach goes with --batch"),
        (["--poll", "5"], "--poll goes with --batch"),
        (["--batch", "--until", "leader", "--model", "openai/gpt-4.1"], "leave one out"),
        (["--batch", "--agent", "self-consistency"], "nobody here can be asked in batches"),
    ],
)
def test_what_makes_no_sense_is_refused(server: BatchServer, home: Path, command: Command, flags: list[str], reason: str) -> None:
    code, said = command(*LINE, "--model", "cheap", "--yes", *flags)

    assert code == 1
    assert reason in " ".join(said.split())
    assert set(server.batches.order) <= {"tags"}


def test_a_shard_that_waits_is_not_merged(server: BatchServer, home: Path, command: Command) -> None:
    """Its questions would be asked, and paid for, once more."""
    from tiebreak.store.merge import merge

    server.behave(delay_s=3600.0)
    command.batch("--detach", "--shard", "1/2")
    (home / "all").mkdir()

    with pytest.raises(UsageError, match="collect them first"):
        merge(home / "all", [home / "out"])


def test_a_damaged_book_is_named_and_nothing_is_sent(server: BatchServer, home: Path, command: Command) -> None:
    """It says what was paid for: without it everything would be paid for again."""
    server.behave(delay_s=3600.0)
    command.batch("--detach")
    (home / "out" / "batches.sqlite").write_bytes(b"no database at all" * 100)
    before = server.requests

    code, said = command.resume()

    assert code == 1 and "batches.sqlite cannot be used" in said and "Traceback" not in said
    assert server.requests == before


def test_without_the_book_nothing_is_sent(server: BatchServer, home: Path, command: Command) -> None:
    """A store that was copied alone does not say which jobs wait."""
    server.behave(delay_s=3600.0)
    command.batch("--detach")
    (home / "out" / "batches.sqlite").unlink()

    code, said = command.resume()

    assert code == 1 and "batches.sqlite is missing" in " ".join(said.split())
    assert len(server.batches.jobs) == 1


def test_shards_that_were_collected_later_make_a_whole_run(server: BatchServer, home: Path, command: Command) -> None:
    """That a shard once waited is over when it is merged."""
    for number in "12":
        line = [*LINE, "--model", "cheap", "--batch", "--yes", "--detach", "--shard", f"{number}/2", "--output", f"s{number}"]
        assert command(*line)[0] == 0
        assert command("run", "--resume", f"s{number}", "--no-preflight")[0] == 0

    code, said = command("merge", "out", "s1", "s2")

    assert code == 0, said
    assert command.resume()[0] == 0
    assert [row["score"] for row in rows(home)] == ["1.0"] * QUESTIONS
    assert sorted(server.batches.paid.values()) == [1] * QUESTIONS


def test_stopped_while_it_waits_it_goes_on_later(server: BatchServer, home: Path, command: Command) -> None:
    """Ctrl-C leaves the job at the provider."""
    server.behave(delay_s=3600.0)
    line = [*LINE, "--model", "cheap", "--batch", "--poll", "0.05", "--yes", "--output", "out"]
    process = start(*line, cwd=home, **server.environment())
    while server.batches.steps["openai_look"] < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    server.behave(delay_s=0.0)
    code, said = command.resume()

    assert process.returncode == 130
    assert code == 0, said
    assert len(server.batches.jobs) == 1


def test_answers_are_kept_until_they_are_in_the_store_and_no_longer(server: BatchServer, home: Path, command: Command) -> None:
    """The file beside the store says which jobs there were; answers are in it only while they are needed."""
    command.batch()

    with sqlite3.connect(home / "out" / "batches.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM lines").fetchone() == (0,)
        assert connection.execute("SELECT state, lines FROM jobs").fetchall() == [("collected", QUESTIONS)]
    connection.close()


@pytest.mark.needs("clients")
def test_official_clients_find_the_fake_servers_in_order(server: BatchServer, tmp_path: Path) -> None:
    """What the tests are run against speaks as the providers' own clients expect."""
    import anthropic
    import openai
    from google import genai

    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    one = openai.OpenAI(base_url=f"{server.url}/v1", api_key="k")
    line = {"custom_id": "t1", "method": "POST", "url": "/v1/chat/completions", "body": asked}
    file = one.files.create(file=("tiebreak-k.jsonl", json.dumps(line).encode()), purpose="batch")
    created = one.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"tiebreak_batch": "k"},
    )
    batch = one.batches.retrieve(created.id)
    assert (batch.status, batch.metadata) == ("completed", {"tiebreak_batch": "k"})
    assert "Answer to hi" in one.files.content(batch.output_file_id or "").text
    assert [listed.id for listed in one.batches.list()] == [created.id]

    two = anthropic.Anthropic(base_url=server.url, api_key="k")
    message = two.messages.batches.create(requests=[{"custom_id": "t2", "params": {**asked, "max_tokens": 5}}])  # type: ignore[typeddict-item]
    assert two.messages.batches.retrieve(message.id).processing_status == "ended"
    assert [(found.custom_id, found.result.type) for found in two.messages.batches.results(message.id)] == [("t2", "succeeded")]
    assert [listed.id for listed in two.messages.batches.list()] == [message.id]

    three = genai.Client(api_key="k", http_options={"base_url": server.url, "api_version": "v1beta"})
    path = tmp_path / "lines.jsonl"
    path.write_text(json.dumps({"key": "t3", "request": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}}) + "\n")
    sent = three.files.upload(file=path, config={"mime_type": "application/jsonl"})
    job = three.batches.create(model="gemini-2.0-flash", src=sent.name or "", config={"display_name": "k"})
    ended = three.batches.get(name=job.name or "")
    assert (str(ended.state), ended.display_name) == ("JobState.JOB_STATE_SUCCEEDED", "k")
    assert ended.dest and b"Answer to hi" in three.files.download(file=ended.dest.file_name or "")
    assert [listed.name for listed in three.batches.list()] == [job.name]
    three.close()
