"""What all runs cost together, and old runs removed: nothing twice, nothing that is still wanted."""

import contextlib
import json
import os
import random
import shutil
import sqlite3
import time

import pytest
from support.command import run, start
from support.server import FakeServer

from tiebreak.cli.main import run_command_line

PRICED = """
models:
  - {name: cheap, provider: openai, model: gpt-a, price: {input: 1.0, output: 2.0}}
  - {name: dear, provider: openai, model: gpt-b, price: {input: 10.0, output: 20.0}}
  - {name: free, provider: openai, model: gpt-c}
"""


@pytest.fixture
def place(tmp_path):
    """Two priced runs, one shared between two shards and their merge, and one of a model without a price."""
    rows = ({"id": f"q{i}", "input": f"Question {i}?", "target": "A", "choices": ["A", "B"]} for i in range(10))
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "models_config.yaml").write_text(PRICED)
    with FakeServer(lambda prompt: "A") as server:
        for name, models, more in (
            ("first", "cheap,dear", ()),
            ("part1", "cheap", ("--shard", "1/2")),
            ("part2", "cheap", ("--shard", "2/2")),
            ("unpriced", "free", ()),
        ):
            line = ("run", "--config", "models_config.yaml", "--models", models, "--dataset", "q.jsonl", "--yes", *more)
            done = run(*line, "--output", f"runs/{name}", "--no-preflight", cwd=tmp_path, **server.environment())
            assert done.returncode == 0, done.stdout + done.stderr
    done = run("run", "--model", "baseline/random", "--dataset", "q.jsonl", "--output", "runs/local", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run("merge", "runs/whole", "runs/part1", "runs/part2", cwd=tmp_path).returncode == 0
    return tmp_path


def ledger(place):
    done = run("spent", "--results", "runs", "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    return {row["model"]: row for row in json.loads(done.stdout)["spent"]}


def costs(place, name):
    with contextlib.closing(sqlite3.connect(place / "runs" / name / "run.sqlite")) as connection:
        return connection.execute("SELECT total(cost_usd) FROM trials").fetchone()[0]


def test_spending_is_that_of_the_stores_and_a_merged_run_counts_once(place):
    found = ledger(place)
    assert set(found) == {"cheap", "dear", "free"}
    assert (found["cheap"]["calls"], found["dear"]["calls"], found["free"]["calls"]) == (20, 10, 10)
    total = costs(place, "first") + costs(place, "whole")
    assert found["cheap"]["cost_usd"] + found["dear"]["cost_usd"] == pytest.approx(total)
    assert found["dear"]["cost_usd"] == pytest.approx(10 * found["cheap"]["cost_usd"] / 2)
    assert (found["free"]["cost_usd"], found["free"]["unknown"]) == (0, 10)
    said = run("spent", "--results", "runs", cwd=place).stdout
    assert "unknown" in said
    assert "In all: ≥ $" in said
    assert "Of 10 of 40 calls no price is known." in said


def test_spending_of_nothing_and_of_damage(tmp_path):
    (tmp_path / "runs" / "bad").mkdir(parents=True)
    (tmp_path / "runs" / "bad" / "run.sqlite").write_bytes(b"no database")
    done = run("spent", "--results", "runs", cwd=tmp_path)
    assert done.returncode == 0
    assert "none has spent anything" in done.stdout
    assert "left out: bad" in done.stdout + done.stderr


def names(place):
    return sorted(path.name for path in (place / "runs").iterdir())


def test_prune_removes_the_oldest_and_leaves_what_is_labelled(place):
    run("label", "runs/first", "the one for the board", cwd=place)
    (place / "runs" / "notes").mkdir()
    listed = run("prune", "--results", "runs", "--keep", "2", "--dry-run", cwd=place)
    assert listed.returncode == 0
    assert "would be removed" in listed.stdout
    assert len(names(place)) == 7
    asked = run("prune", "--results", "runs", "--keep", "2", cwd=place)
    assert (asked.returncode, len(names(place))) == (1, 7)
    assert "say --yes" in asked.stdout
    done = run("prune", "--results", "runs", "--keep", "2", "--yes", cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "first stays: it is called 'the one for the board'" in done.stdout
    assert "freed" in done.stdout
    left = names(place)
    assert {"first", "notes"} <= set(left)
    assert len(left) == 4
    assert "Nothing to remove" in run("prune", "--results", "runs", "--older-than", "1d", "--yes", cwd=place).stdout


def test_prune_leaves_links_strangers_and_running_runs_alone(place):
    outside = place / "elsewhere"
    (place / "runs" / "local").rename(outside)
    (place / "runs" / "linked").symlink_to(outside)
    (place / "runs" / "foreign").mkdir()
    with contextlib.closing(sqlite3.connect(place / "runs" / "foreign" / "run.sqlite")) as connection:
        connection.execute("CREATE TABLE mine (x)")
    with FakeServer(lambda prompt: "A", latency_s=0.5) as server:
        line = ("run", "--config", "models_config.yaml", "--model", "cheap", "--dataset", "q.jsonl", "--yes", "--no-preflight")
        process = start(*line, "--max-connections", "1", "--output", "runs/going", cwd=place, **server.environment())
        while not (place / "runs" / "going" / "run.sqlite-wal").exists():
            time.sleep(0.05)
        done = run("prune", "--results", "runs", "--keep", "0", "--yes", cwd=place)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert "going stays: it is running" in done.stdout
    assert names(place) == ["foreign", "going", "linked"]
    assert (outside / "run.sqlite").exists()


@pytest.mark.parametrize(
    ("more", "told"),
    [((), "say which runs"), (("--older-than", "soon"), "as in 12h, 30d or 8w"), (("--keep", "-1"), "--keep")],
)
def test_prune_without_a_sensible_choice_does_nothing(tmp_path, more, told):
    os.mkdir(tmp_path / "runs")
    done = run("prune", "--results", "runs", *more, cwd=tmp_path)
    assert done.returncode == 1
    assert told in done.stderr


def test_prune_leaves_folders_alone_that_hold_something_else(place):
    """A project that a run was written into, notes beside a run, and a run inside a run."""
    (place / "runs" / "first" / "src").mkdir()
    (place / "runs" / "first" / "src" / "main.py").write_text("mine")
    (place / "runs" / "part1" / "notes.txt").write_text("mine")
    shutil.copytree(place / "runs" / "part2", place / "runs" / "unpriced" / "attempts" / "inner")
    done = run("prune", "--results", "runs", "--keep", "0", "--yes", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "first stays: its folder holds what is not of the run: src" in done.stdout
    assert names(place) == ["first", "part1", "unpriced"]
    assert (place / "runs" / "first" / "src" / "main.py").read_text() == "mine"


def test_advice_to_take_a_label_away_works(place):
    run("label", "runs/first", "keep me", cwd=place)
    done = run("prune", "--results", "runs", "--keep", "0", "--dry-run", cwd=place)
    line = next(line for line in done.stdout.splitlines() if line.startswith("first stays"))
    assert "label runs/first ''" in " ".join(line.split())


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_store_is_named_and_the_others_are_counted(tmp_path, monkeypatch, capsys, good_stores, seed):
    """Cut short, with pages of nothing or of noise, or with bits turned: no command over many runs ends in a traceback."""
    shutil.copytree(good_stores, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "runs" / "r1" / "run.sqlite"
    store.write_bytes(_damaged(store.read_bytes(), random.Random(seed), kind=seed % 6))

    lines = (
        ["spent", "--results", "runs"],
        ["list", "runs", "--results", "runs"],
        ["history", "random", "--results", "runs"],
        ["compare", "runs/r0", "runs/r1"],
        ["report", "runs/r1"],
        ["merge", "merged", "runs/r1"],
        ["prune", "--older-than", "0h", "--results", "runs", "--dry-run"],
    )
    for line in lines:
        run_command_line(line)
        said = capsys.readouterr()
        if line[0] in ("spent", "prune"):
            assert "r0" in said.out + said.err or "3 runs" in said.out, said


def _damaged(good, chance, kind):
    data = bytearray(good)
    page = chance.randrange(len(data) // 4096) * 4096
    match kind:
        case 0:
            return data[: chance.randrange(1, len(data))]
        case 1:
            data[page : page + 4096] = chance.randbytes(4096)
        case 2:
            data[chance.randrange(100)] ^= chance.randrange(1, 256)
        case 3:
            for _ in range(50):
                data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
        case 4:
            data[page : page + 4096] = bytes(4096)
        case _:
            data = chance.randbytes(5000)
    return data


@pytest.fixture(scope="module")
def good_stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    for name in ("r0", "r1", "r2"):
        line = ("run", "--model", "random", "--dataset", "truthfulness", "--limit", "40", "--output", str(folder / name))
        assert run(*line, cwd=folder).returncode == 0
    return folder
