"""A run that is killed at any moment, however often, ends with the same results as one that never was."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.command import ROOT, clean_environment, read_csv, run
from support.server import FakeServer

KILLS = 20
SAMPLES = 500
TIMES = ("model_s", "first_token_s", "first_answer_s", "queue_s", "retry_s", "in_flight", "finished_at")
COMPLAINT = "stderr.txt"


def _write_dataset(folder: Path) -> None:
    rows = ({"id": f"s{i}", "input": f"Question {i}", "target": "b", "choices": ["a", "b", "c", "d"]} for i in range(SAMPLES))
    (folder / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _start(arguments: str, folder: Path, told: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with told.open("ab") as out, (folder / COMPLAINT).open("wb") as complaint:
        return subprocess.Popen(
            [sys.executable, str(ROOT / "run_benchmarks.py"), *arguments.split(), "--json"],
            cwd=folder,
            env=clean_environment(**environment),
            stdout=out,
            stderr=complaint,
            start_new_session=True,
        )


def _reported(told: Path) -> list[str]:
    """Samples that were reported finished; a kill may cut the last line."""
    found = []
    for line in told.read_text().splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if event["event"] == "trial_finished":
            found.append(event["sample"])
    return found


def _wait_until_asking(server: FakeServer, asked: int, process: subprocess.Popen[bytes], complaint: Path) -> None:
    deadline = time.monotonic() + 120
    while len(server.ledger) == asked:
        assert process.poll() is None, f"it ended with {process.returncode} before it asked anything: {complaint.read_text()}"
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _without_times(path: Path) -> list[dict[str, str]]:
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_csv(path)]


def test_killed_twenty_times_ends_as_if_never_killed(tmp_path: Path) -> None:
    """kill -9 costs the trials in flight and nothing else; nothing reported finished is asked again."""
    _write_dataset(tmp_path)
    chance = random.Random(20)
    told = tmp_path / "told.jsonl"
    told.touch()
    line = "--model openai/fake --dataset d.jsonl --max-connections 8"
    kills = 0
    asked_again: list[str] = []
    # Slow enough that twenty kills come long before the end, also on a machine that stalls for a second or two.
    with FakeServer(latency_s=0.15) as server:
        while kills < KILLS:
            known = set(_reported(told))
            asked = len(server.ledger)
            arguments = "--resume killed" if (tmp_path / "killed" / "run.sqlite").exists() else f"{line} --output killed"
            process = _start(arguments, tmp_path, told, server.environment())
            _wait_until_asking(server, asked, process, tmp_path / COMPLAINT)
            time.sleep(chance.uniform(0.0, 0.25))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            prompts = [a.prompt for a in server.ledger[asked:]]
            asked_again += [s for s in known if any(f"Question {s[1:]}\n" in p for p in prompts)]
        assert 0 < len(set(_reported(told))) < SAMPLES, "the kills came too late to show anything"
        server.latency_s = 0.0
        known, asked = set(_reported(told)), len(server.ledger)
        done = run("--resume", "killed", cwd=tmp_path, **server.environment())
        prompts = [a.prompt for a in server.ledger[asked:]]
        asked_again += [s for s in known if any(f"Question {s[1:]}\n" in p for p in prompts)]
        control = run(*line.split(), "--output", "calm", cwd=tmp_path, **server.environment())

    assert done.returncode == control.returncode == 0
    assert asked_again == []
    assert _without_times(tmp_path / "killed" / "trials.csv") == _without_times(tmp_path / "calm" / "trials.csv")
    assert len(read_csv(tmp_path / "killed" / "trials.csv")) == SAMPLES
    reports = [json.loads((tmp_path / name / "comparison_report.json").read_text()) for name in ("killed", "calm")]
    scores = [report["contestants"][0]["score"] for report in reports]
    assert scores[0] == scores[1]
