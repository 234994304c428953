"""On a real terminal, with answers, names, files and errors that mean no good: they are shown, and act on nothing."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import ROOT, clean_environment
from support.server import FakeServer, Fault

from tiebreak.cli.terminal import harmless, harmless_json

EVIL = "\x1b]52;c;RVZJTA==\x07\x1b]0;title\x1b\\\x1b[777m\x9b31m\x08\x7f\u202egnp\u2066\u2028\u200f\rover"
"""The clipboard, the title, colours, moves and right-to-left words."""
OURS = re.compile(rb"\x1b\[(?!777)(?:[0-9;]{0,30}m|\?25[lh]|\d{0,3}[AFGKJ]|\?1049[lh])")
"""Styles, the cursor hidden and shown, lines redrawn: what the live view itself needs."""


def on_terminal(*arguments: str, cwd: Path, **environment: str) -> bytes:
    """Everything a terminal gets to see of a command."""
    master, slave = pty.openpty()
    command = [sys.executable, str(ROOT / "run_benchmarks.py"), *arguments]
    env = clean_environment(TERM="xterm-256color", **environment)
    with contextlib.closing(os.fdopen(master, "rb", buffering=0)) as screen:
        process = subprocess.Popen(command, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        return b"".join(_shown(screen.fileno(), process))


def _shown(screen: int, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    until = time.monotonic() + 90
    while time.monotonic() < until:
        if select.select([screen], [], [], 0.1)[0]:
            try:
                yield os.read(screen, 65536)
            except OSError:
                break
        elif process.poll() is not None:
            break
    else:
        process.kill()
        raise AssertionError("the command did not end")
    process.wait()


def acts(shown: bytes) -> list[bytes]:
    """What on the screen would act on the terminal and is not ours."""
    text = OURS.sub(b"", shown).replace(b"\r\n", b"\n").replace(b"\r", b"")
    bad = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")
    return bad.findall(text)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, FakeServer]]:
    folder = tmp_path_factory.mktemp("evil")
    name = f"q{EVIL}.jsonl".replace("/", "_")
    rows = [{"id": f"i{n}{EVIL}", "question": f"Q{n}{EVIL}?", "answer": f"a{n}", "category": f"c{EVIL}"} for n in range(4)]
    (folder / name).write_text("\n".join(map(json.dumps, rows)))
    (folder / "broken.jsonl").write_text(json.dumps({"question": f"{EVIL}", "scorer": f"x{EVIL}"}))
    asserting = {"input": f"Q{EVIL}?", "assert": [{"type": "contains", "value": f"z{EVIL}"}, {"type": "equals", "value": EVIL}]}
    (folder / "asserting.jsonl").write_text(json.dumps(asserting))
    (folder / "votes.csv").write_text(f"sample,contestant,verdict\n{EVIL!r},b,right\n")
    (folder / "tasks").mkdir()
    (folder / "tasks" / f"t{EVIL}.md".replace("/", "_")).write_text(
        f"# Title {EVIL}\n\nDo {EVIL}.\n\n## Check\n\n```\ntrue\n```\n"
    )
    fault = Fault(status=400, body=json.dumps({"error": {"message": f"no{EVIL}"}}))
    with FakeServer(lambda prompt: f"a1 {EVIL}", fault=lambda asked, n: fault if "Q3" in asked.prompt else None) as server:
        yield folder, server


def test_no_answer_name_or_path_acts_on_the_terminal(world: tuple[Path, FakeServer]) -> None:
    folder, server = world
    (name,) = (path.name for path in folder.glob("q*.jsonl"))
    asked = ["--dataset", name, "--yes", "--no-preflight"]
    models = ["--models", f"openai/x{EVIL},openai/b"]
    commands = {
        "one model": ["run", "--model", f"openai/x{EVIL}", *asked, "--output", "one"],
        "two models": ["run", *models, *asked, "--output", "two"],
        "prompts": [
            "run",
            "--model",
            "openai/b",
            *asked,
            "--prompt",
            f"p{EVIL}=Say {EVIL}",
            "--prompt",
            "plain=",
            "--output",
            "p",
        ],
        "json": ["run", *models, *asked, "--json", "--output", "three"],
        "markdown": ["run", *models, *asked, "--markdown", "--quiet", "--output", "four"],
        "dry run": ["run", *models, *asked, "--dry-run"],
        "ask": ["ask", f"What{EVIL}?", *models],
        "report": ["report", "two"],
        "report as JSON": ["report", "two", "--json"],
        "compare": ["compare", "two", "three"],
        "score": ["score", "two", "--scorer", "exact"],
        "audit": ["audit", name],
        "a broken row": ["run", *models, "--dataset", "broken.jsonl"],
        "no such file": ["run", *models, "--dataset", f"none{EVIL}.jsonl"],
        "no such model": ["run", "--model", f"none{EVIL}", *asked],
        "no such run": ["report", f"none{EVIL}"],
        "no such flag": ["run", f"--none{EVIL}"],
        "label": ["label", "two", f"mine{EVIL}"],
        "runs": ["list", "runs"],
        "race": ["run", *models, *asked, "--until", "leader", "--output", "race"],
        "shard": ["run", *models, *asked, "--shard", "1/2", "--output", f"s{EVIL}".replace("/", "_")],
        "merge": ["merge", "merged", "one", "three"],
        "audit of a run": ["audit", "two"],
        "assertions": ["run", *models, "--dataset", "asserting.jsonl", "--yes", "--no-preflight", "--output", "asserted"],
        "its audit": ["audit", "asserted"],
        "votes": ["score", "two", "--human", "votes.csv"],
        "export": ["export", "two", "--to", "markdown", "--output", "-"],
        "import": ["import", name],
        "batch": ["batch", *models, "--task", "tasks", "--dry-run"],
        "check-tasks": ["check-tasks", "tasks"],
        "check-plugin": ["check-plugin", "scorer", f"./none{EVIL}.py:x"],
        "vote": ["vote", f"none{EVIL}"],
        "view": ["view", f"none{EVIL}"],
    }
    found = {what: acts(on_terminal(*line, cwd=folder, **server.environment())) for what, line in commands.items()}
    assert {what: bad for what, bad in found.items() if bad} == {}


def test_the_test_sees_what_acts(tmp_path: Path) -> None:
    """The same words printed as they are would be found."""
    assert len(acts(EVIL.encode())) > 8
    assert acts(harmless(EVIL).encode()) == []


@pytest.mark.parametrize("character", ["\x7f", "\x9b", "\u202e", "\u2028", "\U000e0041"])
def test_json_says_the_same_without_acting(character: str) -> None:
    data = json.dumps({"text": f"a{character}b"}, ensure_ascii=False).encode()
    assert character.encode() not in harmless_json(data)
    assert json.loads(harmless_json(data)) == json.loads(data)
