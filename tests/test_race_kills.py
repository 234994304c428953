"""A race that is killed at a random moment and resumed decides as one that was let alone. `RACE_KILLS` says how often."""

import hashlib
import json
import os
import random
import re
import signal
import time

import pytest
from support.command import run, start
from support.server import FakeServer

KILLS = int(os.environ.get("RACE_KILLS", "3"))
SAMPLES, LATENCY_S = 400, 0.02
SHARES = {"good": 85, "fair": 60, "poor": 55}
"""Of a hundred questions, how many are answered rightly."""


def answer(prompt):
    """Right or wrong by the words around the question, the same every time."""
    (kind,), (number,) = re.findall("good|fair|poor", prompt), re.findall(r"q\d+", prompt)
    drawn = hashlib.sha256(f"{kind} {number}".encode()).digest()
    return "yes" if int.from_bytes(drawn[:4]) % 100 < SHARES[kind] else "no"


@pytest.fixture
def place(tmp_path):
    rows = [{"id": f"q{n}", "input": f"Is it q{n}?", "target": "yes"} for n in range(SAMPLES)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def line(output):
    prompts = [word for kind in SHARES for word in ("--prompt", f"{kind}=Be {kind}. {{question}}")]
    return ["run", "--model", "openai/fake", *prompts, "--dataset", "q.jsonl", "--until", "leader", "--yes", "--output", output]


def decisions(folder):
    """Who was stopped and why, and who leads; how far somebody was ahead when it was decided is chance."""
    report = json.loads((folder / "comparison_report.json").read_text())
    return report["leader"], {c["label"]: (c["state"], c["message"]) for c in report["contestants"]}


def test_race_killed_at_any_moment_decides_the_same(place):
    chance = random.Random(3)
    with FakeServer(answer, latency_s=LATENCY_S) as server:
        begun = time.monotonic()
        done = run(*line("calm"), cwd=place, **server.environment())
        calm_s = time.monotonic() - begun
        assert done.returncode == 0, done.stdout + done.stderr
        expected = decisions(place / "calm")
        assert {state for state, _ in expected[1].values()} == {"decided"}
        inside = 0
        for number in range(KILLS):
            name = f"killed{number}"
            process = start(*line(name), cwd=place, **server.environment())
            time.sleep(chance.uniform(0.3, 1.0) * calm_s)
            inside += process.poll() is None
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            again = ["run", "--resume", name] if (place / name / "run.sqlite").exists() else line(name)
            done = run(*again, cwd=place, **server.environment())
            assert done.returncode == 0, done.stdout + done.stderr
            assert decisions(place / name) == expected
    print(f"{inside} of {KILLS} kills fell before the end of their race")
    assert inside
