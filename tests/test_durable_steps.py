"""Ended or failing at any durable step: every write, flush, rename and removal, of a first run and of a resume.

A sample of the steps in turn; `DURABLE_EVERY=1` takes them all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import ROOT, clean_environment

MODES = "kill before,kill after,EIO,ENOSPC"
EVERY = os.environ.get("DURABLE_EVERY", "31")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that counts durable acts, and fails or ends the program at one of them."""
    library = tmp_path_factory.mktemp("disk") / "faulty.so"
    source = ROOT / "tests" / "support" / "faulty_disk.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True, timeout=60)
    return library


@pytest.mark.needs("cc")
@pytest.mark.parametrize("going_on", [False, True], ids=["a first run", "a resume"])
def test_every_step_can_be_the_last(disk: Path, tmp_path: Path, going_on: bool) -> None:
    """The run goes on to the same results, and what went wrong was said in a sentence."""
    rows = ({"question": f"Capital {n} of France?", "answer": "Paris"} for n in range(8))
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "s.json").write_text('{"answers": [{"when": "France", "text": "Paris"}]}')
    line = ["run", "--models", "scripted/s.json,baseline/constant", "--dataset", "q.jsonl", "--max-total-tokens", "1000000"]
    program = [
        sys.executable,
        str(ROOT / "tests" / "support" / "durable_steps.py"),
        str(tmp_path),
        json.dumps(line),
        MODES,
        EVERY,
    ]
    environment = clean_environment(LD_PRELOAD=str(disk))
    done = subprocess.run(
        [*program, *(["resume"] if going_on else [])], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    tries = [json.loads(out) for out in done.stdout.splitlines()]

    assert done.returncode == 0, done.stderr
    assert tries[0]["steps"] > (30 if going_on else 100)
    assert len(tries) > 4
    assert [one for one in tries[1:] if not one["good"]] == []
    assert {one["mode"] for one in tries[1:] if one["code"]} >= {"kill before", "kill after"}
