"""The command line as the documents show it: what is typed, what is seen, which code it ends with."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.command import ROOT, clean_environment, events, only_run, read_csv, run, start
from support.seeds import RUN_LINES, make_checkout, run_as_printed
from support.server import KEY, Asked, FakeServer, Fault


@pytest.fixture
def quick(server: FakeServer) -> dict[str, str]:
    """An environment in which every provider is the fake server."""
    return server.environment()


@pytest.mark.parametrize("line", RUN_LINES)
def test_every_documented_command_line_runs(line: str, tmp_path: Path, server: FakeServer) -> None:
    """Each command line of the documents ends with 0 and asks every sample of every model exactly once."""
    done = run_as_printed(line, make_checkout(tmp_path), **server.environment())

    assert done.returncode == 0, done.stdout + done.stderr
    asked = {(a.model, a.prompt) for a in server.ledger}
    assert len(asked) == len(server.ledger)
    assert len(server.ledger) % 365 == 0
    assert len(server.ledger) > 0


def test_single_model_gets_the_detailed_view(tmp_path: Path, quick: dict[str, str]) -> None:
    done = run("--model", "gpt-4", "--dataset", "truthfulness", "--limit", "40", cwd=tmp_path, **quick)

    assert done.returncode == 0
    for word in ("GPT-4", "Score", "Right", "Wrong", "No answer", "Failed", "Tokens", "Category", "did not get right"):
        assert word in done.stdout


def test_several_models_get_a_table_sorted_by_score(tmp_path: Path) -> None:
    """The best stands first, whatever order they were named in; the answers decide, by model."""
    dataset = tmp_path / "d.jsonl"
    dataset.write_text("".join(json.dumps({"id": i, "input": f"Say {i}", "target": f"w{i}"}) + "\n" for i in range(20)))
    with FakeServer(lambda prompt: "w" + prompt.split()[-1]) as right, FakeServer(lambda prompt: "nonsense") as wrong:
        environment = right.environment() | {"ANTHROPIC_BASE_URL": wrong.url}
        line = "--models claude-3-opus,gpt-4 --dataset d.jsonl --markdown"
        done = run(*line.split(), cwd=tmp_path, **environment)

    table = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in table[1:]] == ["| gpt-4", "| claude-3-opus"]
    assert "gpt-4 is better than claude-3-opus by 100.0 points on 20 common samples (95 % interval " in done.stdout


def test_one_invalid_name_stops_the_run_before_anything_is_asked(tmp_path: Path, server: FakeServer) -> None:
    done = run("--models", "gpt-4,gpt4o", "--dataset", "truthfulness", cwd=tmp_path, **server.environment())

    assert done.returncode == 1
    assert "✓ gpt-4" in done.stdout
    assert "✗ gpt4o" in done.stdout
    assert "did you mean 'gpt-4o'" in done.stdout
    assert "Available models: " in done.stdout
    assert server.ledger == []
    assert not (tmp_path / "benchmark").exists()


def test_missing_key_is_found_before_anything_is_sent(tmp_path: Path) -> None:
    done = run("--model", "gpt-4", "--dataset", "truthfulness", cwd=tmp_path)

    assert done.returncode == 1
    assert "needs an API key: set OPENAI_API_KEY" in done.stdout


def test_name_that_fits_two_providers_is_refused_with_both(tmp_path: Path) -> None:
    with FakeServer(ollama_models=("gpt-4o:latest",)) as server:
        done = run("--model", "gpt-4o", "--dataset", "warmup", cwd=tmp_path, **server.environment())

    assert done.returncode == 1
    assert "write openai/gpt-4o or ollama/gpt-4o:latest" in done.stdout


def test_bare_name_of_a_detected_ollama_model_runs(tmp_path: Path, server: FakeServer) -> None:
    done = run("--model", "llama3", "--dataset", "warmup", "--limit", "3", cwd=tmp_path, **server.environment())

    assert done.returncode == 0
    assert {(a.dialect, a.model) for a in server.ledger} == {("ollama", "llama3:latest")}
    assert all(a.body["options"]["num_ctx"] for a in server.ledger)


def test_csv_holds_every_model_and_trial(tmp_path: Path, quick: dict[str, str]) -> None:
    out = tmp_path / "out.csv"
    run("--models", "gpt-4,llama3", "--dataset", "warmup", "--output", str(out), cwd=tmp_path, **quick)

    rows = read_csv(out)
    assert len(rows) == 100
    assert {row["model"] for row in rows} == {"gpt-4", "llama3"}
    assert all(row["outcome"] == "answered" and row["prompt"] for row in rows)


def test_no_csv_writes_none(tmp_path: Path) -> None:
    run("--model", "baseline/random", "--dataset", "warmup", "--no-csv", cwd=tmp_path)

    pages = ["comparison_report.html", "comparison_report.json"]
    assert sorted(p.name for p in only_run(tmp_path).iterdir()) == [*pages, "run.lock", "run.sqlite"]


def test_json_streams_events_on_standard_output_alone(tmp_path: Path, quick: dict[str, str]) -> None:
    done = run("--models", "gpt-4,llama3", "--dataset", "warmup", "--json", cwd=tmp_path, **quick)

    told = events(done.stdout)
    assert [e["event"] for e in told].count("trial_finished") == 100
    assert told[0]["event"] == "contestant_started"
    assert told[-1]["event"] == "run_finished"
    assert told[-1]["exit_code"] == 0
    assert "✓ gpt-4" in done.stderr


def test_plain_output_says_which_model_is_processed(tmp_path: Path, quick: dict[str, str]) -> None:
    done = run("--models", "gpt-4,llama3", "--dataset", "warmup", cwd=tmp_path, **quick)

    assert "[1/2] Processing: gpt-4" in done.stdout
    assert "[2/2] Processing: llama3" in done.stdout


def test_failing_model_leaves_the_others_alone(tmp_path: Path) -> None:
    """A dead key ends its model within its concurrency; the others finish; the code says partial."""

    def fault(asked: Asked, number: int) -> Fault | None:
        return Fault(401, '{"error": {"message": "Incorrect API key provided"}}') if asked.dialect == "messages" else None

    with FakeServer(fault=fault) as server:
        line = "--models gpt-4,claude-3-opus,gemini-1.5-flash --dataset truthfulness --parallel --max-connections 8"
        done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 2
    assert sum(a.dialect == "messages" for a in server.ledger) <= 8
    assert sum(a.dialect != "messages" for a in server.ledger) == 2 * 365
    assert "claude-3-opus: failed: HTTP 401: Incorrect API key provided" in done.stdout


def test_every_model_failing_is_nothing_usable(tmp_path: Path) -> None:
    with FakeServer(fault=lambda asked, number: Fault(404)) as server:
        done = run("--model", "openai/nope", "--dataset", "warmup", cwd=tmp_path, **server.environment())

    assert done.returncode == 1


def test_server_that_is_gone_ends_the_model_and_not_the_day(tmp_path: Path) -> None:
    """When every trial fails, the model is given up long before the dataset is through."""
    with FakeServer(fault=lambda asked, number: Fault(400)) as server:
        done = run("--model", "gpt-4", "--dataset", "truthfulness", cwd=tmp_path, **server.environment())

    assert done.returncode == 1
    assert "20 trials in a row failed, the last with: HTTP 400: scripted fault" in done.stdout
    assert len(server.ledger) < 60


def test_gate_missed_exits_3(tmp_path: Path, quick: dict[str, str]) -> None:
    line = "--model gpt-4 --dataset warmup --fail-under 0.9"
    assert run(*line.split(), cwd=tmp_path, **quick).returncode == 3


def test_some_failed_trials_are_partial_unless_allowed(tmp_path: Path) -> None:
    def fault(asked: Asked, number: int) -> Fault | None:
        return Fault(400) if number == 7 else None

    for allowed, code in (("0%", 2), ("5%", 0)):
        with FakeServer(fault=fault) as server:
            line = f"--model gpt-4 --dataset warmup --allow-failures {allowed}"
            assert run(*line.split(), cwd=tmp_path, **server.environment()).returncode == code


def test_timeout_ends_the_model_and_keeps_what_finished(tmp_path: Path) -> None:
    with FakeServer(latency_s=0.3) as server:
        line = "--models openai/slow,baseline/random --dataset truthfulness --timeout 2 --max-connections 4"
        done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 2
    # Four at once, each for 0.3 s: in two seconds, and however busy the machine is, no more than these were asked.
    assert len(server.ledger) <= 4 * (2 / 0.3 + 2)
    assert "timed out after 2 seconds; raise --timeout" in done.stdout
    rows = read_csv(only_run(tmp_path) / "trials.csv")
    assert 0 < sum(row["model"] == "openai/slow" for row in rows) < 365
    assert sum(row["model"] == "baseline/random" for row in rows) == 365


def test_parallel_runs_models_at_once_and_sequential_does_not(tmp_path: Path) -> None:
    for flags, most in (("", 1), ("--parallel", 3)):
        with FakeServer(latency_s=0.02) as server:
            line = f"--models openai/a,openai/b,openai/c --dataset warmup --max-connections 1 {flags}"
            run(*line.split(), cwd=tmp_path, **server.environment())
        assert server.most_in_flight == most


def test_key_never_appears_in_anything_kept_or_shown(tmp_path: Path) -> None:
    """Even a server that repeats the key in its error does not get it into a file."""

    def fault(asked: Asked, number: int) -> Fault | None:
        return Fault(400, json.dumps({"error": {"message": f"bad request with {KEY}"}})) if number % 2 else None

    with FakeServer(lambda prompt: f"your key is {KEY}", fault=fault) as server:
        line = "--models gpt-4,claude-3-opus,gemini-1.5-flash --dataset warmup --limit 6"
        done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert server.ledger[0].headers["Authorization"] == f"Bearer {KEY}"
    assert KEY not in done.stdout + done.stderr
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_one_model_under_two_names_is_refused(tmp_path: Path, quick: dict[str, str]) -> None:
    """It would be asked once and counted twice."""
    done = run("--models", "gpt-4o,openai/gpt-4o", "--dataset", "warmup", cwd=tmp_path, **quick)

    assert done.returncode == 1
    assert "'openai/gpt-4o' and 'gpt-4o' are the same model with the same settings" in done.stderr


# --- interruption -----------------------------------------------------------------------------------


def _stored(folder: Path) -> int:
    connection = sqlite3.connect(folder / "run.sqlite")
    try:
        return connection.execute("SELECT count(*) FROM trials").fetchone()[0]
    finally:
        connection.close()


def _wait_for(condition: object, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def test_ctrl_c_once_drains_and_leaves_a_resumable_run(tmp_path: Path) -> None:
    with FakeServer(latency_s=0.2) as server:
        line = "--model gpt-4 --dataset truthfulness --max-connections 4"
        process = start(*line.split(), cwd=tmp_path, **server.environment())
        _wait_for(lambda: len(server.ledger) >= 12)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        asked = len(server.ledger)

        assert process.returncode == 130
        assert _stored(only_run(tmp_path)) == asked
        assert f"--resume {only_run(tmp_path).relative_to(tmp_path)}" in out

        server.latency_s = 0.0
        again = run("--resume", only_run(tmp_path).name, cwd=tmp_path, **server.environment())
        assert again.returncode == 0
        assert len({a.prompt for a in server.ledger}) == len(server.ledger) == 365


PATIENT = "import sys, tiebreak.engine.execute as engine; engine._DRAIN_S = 600; from tiebreak.cli import main; sys.exit(main())"
"""The program, waiting ten minutes for what is in flight: only the second signal can end it sooner."""


def test_ctrl_c_twice_stops_at_once(tmp_path: Path) -> None:
    with FakeServer(latency_s=600) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", PATIENT, "run", "--model", "gpt-4", "--dataset", "truthfulness"],
            cwd=tmp_path,
            env=clean_environment(**server.environment(), PYTHONPATH=str(ROOT)),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        _wait_for(lambda: len(server.ledger) >= 4)
        process.send_signal(signal.SIGINT)
        # Signals that come together are one: the second is sent when the first has been understood.
        while "Once more stops at once" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert process.returncode == 130


def test_terminate_exits_143(tmp_path: Path) -> None:
    with FakeServer(latency_s=0.05) as server:
        process = start("--model", "gpt-4", "--dataset", "truthfulness", cwd=tmp_path, **server.environment())
        _wait_for(lambda: len(server.ledger) >= 4)
        process.terminate()
        process.communicate(timeout=10)

    assert process.returncode == 143


def test_stopped_and_continued_process_has_no_false_timeouts(tmp_path: Path) -> None:
    """Time in which the process did not run does not count against its deadlines."""
    with FakeServer(latency_s=0.5) as server:
        line = "--model gpt-4 --dataset warmup --timeout 6 --max-connections 10 --request-timeout 2"
        process = start(*line.split(), cwd=tmp_path, **server.environment())
        _wait_for(lambda: len(server.ledger) >= 10)
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(7)
        os.killpg(process.pid, signal.SIGCONT)
        out, err = process.communicate(timeout=20)

    assert process.returncode == 0, out + err
    assert _stored(only_run(tmp_path)) == 50


def test_second_process_on_a_run_says_so_and_leaves(tmp_path: Path) -> None:
    with FakeServer(latency_s=0.2) as server:
        line = "--model gpt-4 --dataset truthfulness --output here --max-connections 2"
        first = start(*line.split(), cwd=tmp_path, **server.environment())
        _wait_for(lambda: len(server.ledger) >= 2)
        second = run("--resume", "here", cwd=tmp_path, **server.environment())
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=10)

    assert second.returncode == 1
    assert f"owned by another process (pid {first.pid})" in second.stderr
    assert len({a.prompt for a in server.ledger}) == len(server.ledger)


# --- bad input: a clear message, the right code, nothing lost ----------------------------------------


def _dataset(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(lines) + ("\n" if lines else ""))
    return "d.jsonl"


GOOD = '{"id": "%s", "input": "q", "target": "a"}'


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "the dataset is empty"),
        ((GOOD % 1, GOOD % 2, "{broken"), "line 3: not readable as JSON"),
        ((GOOD % 1, GOOD % 2, GOOD % 1), "the id '1' is used twice, on lines 1 and 3"),
        ((GOOD % 1, '{"id": 2, "target": "a"}'), "line 2: field 'input' is missing"),
        ((GOOD % 1, "[1]"), "line 2: a JSON object is needed"),
    ],
)
def test_broken_dataset_is_named_with_its_line(lines: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = run("--model", "baseline/random", "--dataset", _dataset(tmp_path, *lines), cwd=tmp_path)

    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "benchmark").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "no model was named"),
        ("--dataset truthfulness", "no model was named"),
        ("--model baseline/random --dataset truthfulnes", "did you mean 'truthfulness'"),
        ("--model baseline/rnd --dataset warmup", "there is no baseline 'rnd'"),
        ("--model baseline/random --dataset warmup --limit 0", "Invalid value for '--limit'"),
        ("--model baseline/random --dataset warmup --limt 3", "No such option"),
        ("--model baseline/random --dataset warmup --timeout -1", "Invalid value for '--timeout'"),
        ("--model baseline/random --dataset warmup --allow-failures lots", "is not a share"),
        ("--resume run_none", "there is no run 'run_none'"),
        ("--category nope --dataset warmup", "there is no category 'nope'"),
        ("--category fast --dataset warmup", "no model of the category 'fast'"),
        ("--provider nope --dataset warmup", "there is no provider 'nope'"),
        ("--model baseline/random --dataset warmup --config none.yaml", "there is no configuration file"),
        ("--models baseline/random,baseline/random@a --dataset warmup", "after @ come settings"),
        pytest.param(
            *("--model llama_cpp/none.gguf --dataset warmup", "there is no file 'none.gguf'"), marks=pytest.mark.needs("embedded")
        ),
        ("--models baseline/random,baseline/random --dataset warmup --repeats 0", "Invalid value for '--repeats'"),
        ("--model baseline/random@temprature=0 --dataset warmup", "did you mean 'temperature'"),
        ("frobnicate", "there is no run file frobnicate"),
    ],
)
def test_bad_flags_are_explained(line: str, said: str, tmp_path: Path) -> None:
    done = run(*line.split(), cwd=tmp_path)

    assert done.returncode == 1
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_broken_configuration_names_file_line_and_key(tmp_path: Path) -> None:
    (tmp_path / "models_config.yaml").write_text("models:\n  - name: x\n    provider: openai\n    enabled: maybe\n")
    done = run("--model", "baseline/random", "--dataset", "warmup", cwd=tmp_path)

    assert done.returncode == 1
    assert "models_config.yaml, line 4: models.0.enabled: expected true or false, got a text (it is 'maybe')" in done.stderr


def test_damaged_store_is_named_and_left_alone(tmp_path: Path) -> None:
    run("--model", "baseline/random", "--dataset", "warmup", "--output", "r", cwd=tmp_path)
    database = tmp_path / "r" / "run.sqlite"
    damaged = database.read_bytes()[:4096] + os.urandom(20_000)
    database.write_bytes(damaged)
    done = run("--resume", "r", cwd=tmp_path)

    assert done.returncode == 1
    assert "run.sqlite is damaged" in done.stderr
    assert database.read_bytes() == damaged


def test_folder_that_holds_a_run_is_not_overwritten(tmp_path: Path) -> None:
    line = "--model baseline/random --dataset warmup --output r"
    assert run(*line.split(), cwd=tmp_path).returncode == 0
    done = run(*line.split(), cwd=tmp_path)

    assert done.returncode == 1
    assert "holds a run already" in done.stderr


@pytest.mark.needs("root")
@pytest.mark.parametrize(("options", "said"), [("size=64k", "disk of"), ("size=64m,ro", "Read-only file system")])
def test_full_or_read_only_disk_is_found_before_the_first_call(
    options: str, said: str, tmp_path: Path, server: FakeServer
) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    if os.system(f"mount -t tmpfs -o {options} tmpfs {place} 2>/dev/null") != 0:
        pytest.skip("this machine lets nobody mount")
    try:
        line = f"--model gpt-4 --dataset warmup --output {place}/run"
        done = run(*line.split(), cwd=tmp_path, **server.environment())
    finally:
        os.system(f"umount {place}")

    assert done.returncode == 1
    assert said in done.stderr
    assert server.ledger == []


@pytest.mark.needs("root")
def test_disk_that_fills_up_mid_run_loses_nothing_reported(tmp_path: Path) -> None:
    """The run stops with a sentence, what was reported is kept, and it can be resumed."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.system(f"mount -t tmpfs -o size=18m tmpfs {place} 2>/dev/null") != 0:
        pytest.skip("this machine lets nobody mount")
    try:
        with FakeServer(lambda prompt: "x" * 120_000) as server:
            line = f"--model gpt-4 --dataset truthfulness --output {place}/run --json"
            done = run(*line.split(), cwd=tmp_path, **server.environment())
        reported = sum(e["event"] == "trial_finished" for e in events(done.stdout))
        assert done.returncode == 1
        assert "disk is full" in done.stderr
        assert 0 < reported <= _stored(place / "run")
    finally:
        os.system(f"umount {place}")


def test_resuming_a_finished_run_asks_nothing(tmp_path: Path, server: FakeServer) -> None:
    run("--model", "gpt-4", "--dataset", "warmup", "--output", "r", cwd=tmp_path, **server.environment())
    before = (tmp_path / "r" / "trials.csv").read_text()
    done = run("--resume", "r", cwd=tmp_path, **server.environment())

    assert done.returncode == 0
    assert len(server.ledger) == 50
    assert (tmp_path / "r" / "trials.csv").read_text() == before


def test_resume_refuses_other_questions_and_takes_more_of_the_same(tmp_path: Path, server: FakeServer) -> None:
    line = "--model gpt-4 --dataset warmup --limit 10 --output r"
    run(*line.split(), cwd=tmp_path, **server.environment())
    other = run("--resume", "r", "--dataset", "truthfulness", cwd=tmp_path, **server.environment())
    longer = run("--resume", "r", "--limit", "20", cwd=tmp_path, **server.environment())

    assert other.returncode == 1
    assert "was made with other questions" in other.stderr
    assert longer.returncode == 0
    assert len({a.prompt for a in server.ledger}) == len(server.ledger) == 20


def test_resume_can_add_a_model(tmp_path: Path, server: FakeServer) -> None:
    run("--model", "gpt-4", "--dataset", "warmup", "--output", "r", cwd=tmp_path, **server.environment())
    done = run("--resume", "r", "--model", "gemini-1.5-flash", cwd=tmp_path, **server.environment())

    assert done.returncode == 0
    assert [a.dialect for a in server.ledger].count("chat") == 50
    assert [a.dialect for a in server.ledger].count("gemini") == 50


# --- finding your way --------------------------------------------------------------------------------


def test_dry_run_asks_nothing_and_shows_the_first_prompt(tmp_path: Path, server: FakeServer) -> None:
    line = "--models gpt-4,llama3 --dataset truthfulness --limit 5 --dry-run"
    done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 0
    assert "2 models × 5 samples × 1 repeat = 10 trials" in done.stdout
    assert "Answer with the letter" in done.stdout
    assert server.ledger == []
    assert not (tmp_path / "benchmark").exists()


@pytest.mark.parametrize("what", ["models", "datasets", "scorers", "providers", "runs"])
def test_everything_that_can_be_named_is_listed(what: str, tmp_path: Path) -> None:
    done = run("list", what, cwd=tmp_path)

    assert done.returncode == 0
    assert {"models": "gpt-4", "datasets": "warmup", "scorers": "keywords", "providers": "ollama", "runs": "No runs"}[
        what
    ] in done.stdout


def test_doctor_says_which_keys_are_set_but_not_their_value(tmp_path: Path, quick: dict[str, str]) -> None:
    done = run("doctor", cwd=tmp_path, **quick)

    assert "OPENAI_API_KEY is set" in done.stdout
    assert "Ollama is up with 2 models" in done.stdout
    assert KEY not in done.stdout


def test_doctor_names_a_foreign_package_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "tiebreak").mkdir()
    (tmp_path / "tiebreak" / "__init__.py").write_text("")
    done = run("doctor", cwd=tmp_path, PYTHONPATH=str(tmp_path))

    assert done.returncode == 1
    assert "another package named tiebreak is in the way" in done.stdout


def test_ask_shows_answers_side_by_side(tmp_path: Path) -> None:
    with FakeServer(lambda prompt: f"echo of {prompt}") as server:
        done = run("ask", "Why is the sky blue?", "--models", "gpt-4,llama3", cwd=tmp_path, **server.environment())

    assert done.returncode == 0
    assert done.stdout.count("echo of Why is the sky blue?") == 2
    assert any("gpt-4" in line and "llama3" in line for line in done.stdout.splitlines())


def test_keys_may_come_from_an_env_file(tmp_path: Path, server: FakeServer) -> None:
    variables = server.environment()
    (tmp_path / ".env").write_text(f'OPENAI_API_KEY="{variables["OPENAI_API_KEY"]}"\n')
    line = "--model gpt-4 --dataset warmup --limit 2"
    done = run(*line.split(), cwd=tmp_path, OPENAI_BASE_URL=variables["OPENAI_BASE_URL"])

    assert done.returncode == 0
    assert len(server.ledger) == 2


def test_setting_the_provider_has_no_word_for_is_refused_before_the_run(tmp_path: Path, server: FakeServer) -> None:
    line = "--model claude-3-opus@seed=1 --dataset warmup"
    done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 1
    assert "the provider 'anthropic' cannot take 'seed'" in done.stderr
    assert server.ledger == []


def test_settings_not_given_are_not_sent_and_given_ones_are(tmp_path: Path, server: FakeServer) -> None:
    models = "openai/a,openai/b@temperature=0.5,effort=high,claude-3-haiku"
    line = f"--models {models} --dataset warmup --limit 1 --temperature 0 --max-tokens 99"
    done = run(*line.split(), cwd=tmp_path, **server.environment())

    sent = {a.model: a.body for a in server.ledger}
    assert sent["a"].keys() == {"model", "messages", "temperature", "max_tokens"}
    assert (sent["b"]["temperature"], sent["b"]["reasoning_effort"]) == (0.5, "high")
    assert sent["claude-3-haiku-20240307"]["max_tokens"] == 99
    assert "different settings" in done.stdout


# --- before anything is paid for, and without paying again ---------------------------------------------


DEAD = Fault(401, '{"error": {"message": "Incorrect API key provided"}}')


@pytest.mark.parametrize(
    ("fault", "models", "flags"),
    [
        (DEAD, "gpt-4,claude-3-opus", "--strict"),
        (DEAD, "claude-3-opus", ""),
        (Fault(404, '{"error": {"message": "no such model"}}'), "gpt-4,claude-3-opus", ""),
    ],
)
def test_a_tiny_call_finds_what_cannot_work(tmp_path: Path, fault: Fault, models: str, flags: str) -> None:
    """A wrong name, or no key that works: nothing of the dataset is asked of anybody."""
    with FakeServer(preflight_fault=lambda asked: fault if asked.dialect == "messages" else None) as server:
        done = run(*f"--models {models} --dataset truthfulness {flags}".split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 1
    assert f"✗ claude-3-opus  {'auth: HTTP 401: Incorrect API key provided' if fault is DEAD else 'not found'}" in done.stdout
    assert server.ledger == []
    assert server.tried[0].body.get("max_tokens") == 16
    assert not (tmp_path / "benchmark").exists()


def test_one_dead_key_does_not_stop_the_others(tmp_path: Path) -> None:
    """They are compared, the run is partial, and the report says why one is missing."""
    with FakeServer(
        preflight_fault=lambda asked: DEAD if asked.dialect == "messages" else None,
        fault=lambda asked, number: DEAD if asked.dialect == "messages" else None,
    ) as server:
        line = "--models gpt-4,claude-3-opus,llama3 --dataset warmup --limit 5"
        done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 2
    assert "These models will answer nothing; the others are asked." in done.stdout
    assert [asked.dialect for asked in server.ledger].count("chat") == 5
    assert "claude-3-opus: failed: HTTP 401" in done.stdout


def test_expensive_run_needs_consent(tmp_path: Path, server: FakeServer) -> None:
    """Above a dollar, where nobody can be asked, it takes --yes or a limit."""
    (tmp_path / "models_config.yaml").write_text(
        "models:\n  - {name: dear, provider: openai, price: {input: 1000, output: 1000}}\n"
    )
    line = "--model dear --dataset truthfulness --limit 20"
    refused = run(*line.split(), cwd=tmp_path, **server.environment())
    asked = len(server.ledger)
    granted = run(*line.split(), "--yes", cwd=tmp_path, **server.environment())

    assert refused.returncode == 1
    assert "Expected cost: about $" in refused.stdout
    assert "say --yes, or set a limit with --max-cost" in refused.stdout
    assert asked == 0
    assert granted.returncode == 0
    assert len(server.ledger) == 20


def test_a_limit_that_the_provider_demands_is_the_models_own(tmp_path: Path) -> None:
    """Two models that are both right in 5,000 tokens: neither is stopped sooner than it need be, and the limit is told."""
    (tmp_path / "q.jsonl").write_text('{"question": "Capital of France?", "answer": "Paris"}\n')
    with FakeServer(lambda prompt: "Paris", answer_tokens=5000) as server:
        line = "--models openai/gpt-x,anthropic/claude-sonnet-4-5 --dataset q.jsonl --output r"
        done = run(*line.split(), cwd=tmp_path, **server.environment())
        limits = {asked.dialect: asked.body.get("max_tokens") for asked in server.ledger}

    assert limits == {"chat": None, "messages": 64_000}
    assert "max_tokens=64000 as its provider requires" in done.stdout
    assert "different settings" not in done.stdout
    report = json.loads((tmp_path / "r" / "comparison_report.json").read_text())
    assert {c["label"]: (c["score"], c["settings"]) for c in report["contestants"]} == {
        "openai/gpt-x": (1.0, {}),
        "anthropic/claude-sonnet-4-5": (1.0, {"max_tokens": 64_000}),
    }


def test_a_server_with_few_slots_is_not_called_slow_for_our_load(tmp_path: Path) -> None:
    """While the run goes, the faster server is the slower one; timed one at a time, it is what it is."""
    rows = (json.dumps({"question": f"Capital of France, {n}?", "answer": "Paris"}) for n in range(24))
    (tmp_path / "q.jsonl").write_text("\n".join(rows))
    line = "--models openai-api/few/x,openai-api/many/x --dataset q.jsonl --no-preflight --output"
    with (
        FakeServer(lambda prompt: "Paris", latency_s=0.1, slots=2) as few,
        FakeServer(lambda prompt: "Paris", latency_s=0.25) as many,
    ):
        addresses = {"FEW_BASE_URL": f"{few.url}/v1", "MANY_BASE_URL": f"{many.url}/v1"}
        plain = run(*line.split(), "plain", cwd=tmp_path, **addresses)
        timed = run(*line.split(), "timed", "--timing", "8", cwd=tmp_path, **addresses)
        later = run("run", "--resume", "plain", "--timing", "8", cwd=tmp_path, **addresses)
        asked = len(few.ledger)

    assert "fastest" not in plain.stdout
    assert "openai-api/few/x is the fastest" in timed.stdout
    assert "openai-api/few/x is the fastest" in later.stdout
    assert asked == 24 + (24 + 8) + 8


def test_cost_is_shown_where_the_price_is_known(tmp_path: Path, server: FakeServer) -> None:
    price = "{input: 150, output: 600, cached: 75}"
    (tmp_path / "models_config.yaml").write_text(f"models:\n  - {{name: priced, provider: openai, price: {price}}}\n")
    line = "--models priced,openai/nobody-knows,llama3 --dataset warmup --limit 10 --markdown --yes"
    done = run(*line.split(), cwd=tmp_path, **server.environment())

    rows = [row.strip("| ").split(" | ") for row in done.stdout.splitlines() if row.startswith("| ")]
    cost = {row[0]: row[-1] for row in rows}
    # 10 answers of 11 tokens in, 2 of them cached, and 3 out.
    assert cost["priced"] == f"${10 * (9 * 150 + 2 * 75 + 3 * 600) / 1e6:.4f}"
    assert (cost["openai/nobody-knows"], cost["llama3"]) == ("unknown", "local")


def test_recorded_run_is_replayed_without_a_server_or_a_key(tmp_path: Path) -> None:
    with FakeServer() as server:
        line = "--models gpt-4,claude-3-opus --dataset warmup --record tape --output first"
        assert run(*line.split(), cwd=tmp_path, **server.environment()).returncode == 0
    line = "--models gpt-4,claude-3-opus --dataset warmup --replay tape --output second"
    done = run(*line.split(), cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    first, second = ([row["text"] for row in read_csv(tmp_path / name / "trials.csv")] for name in ("first", "second"))
    assert first == second
    assert all(KEY.encode() not in path.read_bytes() for path in (tmp_path / "tape").iterdir())


def test_cached_answers_are_marked_and_count_nothing(tmp_path: Path, server: FakeServer) -> None:
    line = "--model gpt-4o-mini --dataset warmup --limit 10 --cache memory"
    for name in ("first", "second"):
        assert run(*line.split(), "--output", name, cwd=tmp_path, **server.environment()).returncode == 0

    rows = read_csv(tmp_path / "second" / "trials.csv")
    assert len(server.ledger) == 10
    assert {(row["cached"], row["cost_usd"], row["input_tokens"]) for row in rows} == {("1", "", "")}
    assert json.loads((tmp_path / "second" / "comparison_report.json").read_text())["contestants"][0]["latency"] is None


def test_models_of_one_ollama_server_take_turns(tmp_path: Path) -> None:
    """Two at once would push each other out of its memory."""
    with FakeServer(latency_s=0.02) as server:
        line = "--models ollama/llama3,ollama/qwen2.5-coder:7b --dataset warmup --limit 10 --parallel"
        assert run(*line.split(), cwd=tmp_path, **server.environment()).returncode == 0
    assert server.most_in_flight == 1
    assert [a.model for a in server.ledger] == sorted(a.model for a in server.ledger)


def test_retry_failed_asks_again_what_was_refused_as_a_request(tmp_path: Path) -> None:
    """By itself a resumed run leaves those alone: the same request would be refused again."""
    with FakeServer(fault=lambda asked, number: Fault(400) if number == 3 else None) as server:
        run("--model", "gpt-4", "--dataset", "warmup", "--output", "r", cwd=tmp_path, **server.environment())
        plain = run("--resume", "r", cwd=tmp_path, **server.environment())
        asked = len(server.ledger)
        again = run("--resume", "r", "--retry-failed", cwd=tmp_path, **server.environment())

    assert (plain.returncode, asked) == (2, 50)
    assert (again.returncode, len(server.ledger)) == (0, 51)


def test_reasoning_effort_is_sent_as_each_provider_spells_it(tmp_path: Path, server: FakeServer) -> None:
    line = "--models openai/a,anthropic/b --dataset warmup --limit 1 --reasoning-effort high"
    assert run(*line.split(), cwd=tmp_path, **server.environment()).returncode == 0

    sent = {a.dialect: a.body for a in server.ledger}
    assert sent["chat"]["reasoning_effort"] == "high"
    assert sent["messages"]["output_config"]["effort"] == "high"


@pytest.mark.needs("embedded")
def test_streamed_run_knows_the_time_to_the_first_token(tmp_path: Path) -> None:
    line = "--model llama_cpp/smollm2-135m --dataset warmup --limit 2 --max-tokens 20 --stream --output r"
    done = run(*line.split(), cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "first token" in done.stdout
    assert all(0 < float(row["first_token_s"]) <= float(row["model_s"]) for row in read_csv(tmp_path / "r" / "trials.csv"))


@pytest.mark.parametrize("name", ["trials.csv", "comparison_report.json", "comparison_report.html", "comparison_report.csv"])
def test_a_run_writes_over_nothing_that_is_not_its_own(tmp_path, name):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("measured by hand")
    done = run("--model", "random", "--dataset", "truthfulness", "--limit", "2", "--output", "mine", cwd=tmp_path)

    assert (done.returncode, f"mine holds {name}, which a run would write over" in done.stderr) == (1, True), done
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [name]
    assert (tmp_path / "mine" / name).read_text() == "measured by hand"


@pytest.mark.parametrize("emptied", [True, False])
def test_a_run_that_lost_its_answers_is_not_called_one_that_asked_nothing(tmp_path, emptied):
    run("--model", "random", "--dataset", "truthfulness", "--limit", "2", "--output", "r", cwd=tmp_path)
    store = tmp_path / "r" / "run.sqlite"
    store.write_bytes(b"") if emptied else store.unlink()

    for line in (["report", "r"], ["run", "--resume", "r"], ["open", "r"], ["export", "r", "--to", "junit"]):
        done = run(*line, cwd=tmp_path)
        assert (done.returncode, "run.sqlite is missing or empty: the answers were in it" in done.stderr) == (1, True), done
