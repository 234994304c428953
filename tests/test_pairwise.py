"""Answers compared two at a time: both orders, durable, within a budget, on the judge's own account."""

import contextlib
import json
import re
import signal
import sqlite3
import time

import pytest
from support.command import run, start
from support.server import FakeServer, Fault

ROWS = [{"id": f"s{i}", "input": f"Write line {i}.", "target": f"line {i}"} for i in range(12)]
CONFIG = """
models:
  - {name: long, provider: openai, model: long}
  - {name: short, provider: openai, model: short}
  - {name: third, provider: openai, model: third}
  - {name: fourth, provider: openai, model: fourth}
  - {name: fifth, provider: openai, model: fifth}
  - {name: sixth, provider: openai, model: sixth}
  - {name: referee, provider: anthropic, model: referee, price: {input: 10, output: 100}, settings: {max_tokens: 64}}
"""
ANSWERS = re.compile(r"Answer 1:\n<<\w+>>\n(.*?)\n<<\w+>>\n\nAnswer 2:\n<<\w+>>\n(.*?)\n<<", re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "models_config.yaml").write_text(CONFIG)
    return tmp_path


def answers(model, prompt):
    """Everyone writes something of their own; the contestants differ in what they write of each line."""
    line = re.findall(r"line (\d+)", prompt)[-1]
    more = int(line) * (3 if model == "long" else 7) % 5
    return f"{model} wrote line {line}." + " It is a fine line." * more


class Referee(FakeServer):
    """Contestants answer under their name, and the judge says which of two answers is better."""

    def __init__(self, prefers, **settings):
        super().__init__(lambda prompt: self.said(prompt), **settings)
        self.prefers = prefers

    def said(self, prompt):
        shown = ANSWERS.search(prompt)
        if shown is None:
            return "It is a line."
        return json.dumps({"reason": "as planted", "better": self.prefers(*shown.groups())})


def prefer_long(first, second):
    """The answer of `long`, in whichever place; else a tie."""
    return 1 if first.startswith("long") else 2 if second.startswith("long") else 0


@pytest.fixture
def scripted(folder):
    """A run whose contestants have scripted answers, so that only the judge needs a server."""
    for name in ("long", "short", "third", "fourth", "fifth", "sixth"):
        told = {"answers": [{"when": f"line {i}.", "text": answers(name, f"line {i}")} for i in reversed(range(12))]}
        (folder / f"{name}.json").write_text(json.dumps(told))
    return folder


def run_scripted(folder, *names, code=0):
    models = ",".join(f"scripted/{name}.json" for name in names)
    done = run("run", "--models", models, "--dataset", "rows.jsonl", "--output", "r", "--yes", cwd=folder)
    assert done.returncode == code, done.stdout + done.stderr


def compare(folder, server, *arguments, code=0):
    line = ("score", "r", "--scorer", "pairwise", "--judge", "referee")
    done = run(*line, *arguments, cwd=folder, **server.environment())
    assert done.returncode == code, done.stdout + done.stderr
    return done


def rows(folder, query):
    with contextlib.closing(sqlite3.connect(folder / "r" / "run.sqlite")) as connection:
        return connection.execute(query).fetchall()


def preferences(folder):
    report = json.loads((folder / "r" / "comparison_report.json").read_text())
    return report["judging"]["preferences"][0], report


def test_both_orders_are_asked_and_the_preferred_contestant_leads(scripted):
    run_scripted(scripted, "long", "short")
    with Referee(prefer_long) as server:
        done = compare(scripted, server)
        assert len(server.ledger) == 2 * len(ROWS)
    found, report = preferences(scripted)
    assert found["leader"].endswith("long.json")
    assert (found["compared"], found["possible"], found["consistency"]["mean"]) == (12, 12, 1.0)
    (pair,) = found["pairs"]
    assert (pair["wins"], pair["ties"], pair["losses"]) == (12, 0, 0)
    assert report["judges"][0]["label"] == "referee"
    assert report["judges"][0]["cost_usd"] > 0
    assert report["judges"][0]["verdicts"] == 24
    assert "is preferred to every other contestant" in done.stdout
    assert "is preferred to every other contestant" in (scripted / "r" / "comparison_report.html").read_text()


def test_a_winner_that_always_writes_more_is_a_tie_that_says_so(scripted):
    """Whether it is preferred for its length or for what it says cannot be told."""
    for name, more in (("long", " And more." * 9), ("short", "")):
        told = {"answers": [{"when": f"line {i}.", "text": f"{name} wrote line {i}.{more}"} for i in reversed(range(12))]}
        (scripted / f"{name}.json").write_text(json.dumps(told))
    run_scripted(scripted, "long", "short")
    with Referee(prefer_long) as server:
        done = compare(scripted, server)
    assert preferences(scripted)[0]["leader"] is None
    assert "by 12 to 0, but at equal length no preference is shown" in " ".join(done.stdout.split())


def test_a_judge_that_goes_by_the_place_makes_ties(scripted):
    run_scripted(scripted, "long", "short")
    with Referee(lambda first, second: 1) as server:
        compare(scripted, server)
    found, _ = preferences(scripted)
    assert found["leader"] is None
    assert found["consistency"]["mean"] == 0.0
    assert (found["pairs"][0]["ties"], found["pairs"][0]["separated"]) == (12, False)
    assert found["position"]["low"] > 0.9


def test_what_is_compared_is_never_asked_again(scripted):
    """A judge that dies leaves the rest missing; the same command asks only that."""
    run_scripted(scripted, "long", "short")
    asked = []

    def dies(request, number):
        asked.append(request)
        return Fault(status=401) if len(asked) > 10 else None

    with Referee(prefer_long, fault=dies) as server:
        done = compare(scripted, server, code=2)
        assert "14 comparisons missing" in done.stdout
        kept = rows(scripted, "SELECT count(*) FROM preferences WHERE better IS NOT NULL")[0][0]
        assert kept == 10
        server.fault = lambda request, number: None
        before = len(server.ledger)
        compare(scripted, server)
        assert len(server.ledger) - before == 14
        compare(scripted, server)
        assert len(server.ledger) - before == 14


def test_a_kill_costs_only_what_was_in_flight(scripted):
    run_scripted(scripted, "long", "short")
    with Referee(prefer_long, latency_s=0.3) as server:
        line = ("score", "r", "--scorer", "pairwise", "--judge", "referee")
        with start(*line, cwd=scripted, **server.environment()) as process:
            deadline = time.monotonic() + 60
            while len(server.ledger) < 17 and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            process.wait(30)
        kept = rows(scripted, "SELECT count(*) FROM preferences WHERE better IS NOT NULL")[0][0]
        before = len(server.ledger)
        compare(scripted, server)
        assert len(server.ledger) - before == 24 - kept
    assert rows(scripted, "SELECT count(*), count(DISTINCT first || second) FROM preferences WHERE better IS NOT NULL") == [
        (24, 24)
    ]


def test_the_budget_covers_comparisons(scripted):
    run_scripted(scripted, "long", "short")
    with Referee(prefer_long) as server:
        done = compare(scripted, server, "--max-cost", "0.012", code=2)
        assert "missing; the same command goes on" in done.stdout
        assert len(server.ledger) < 24
    assert rows(scripted, "SELECT sum(cost_usd) <= 0.012 FROM preferences") == [(1,)]


def test_many_contestants_are_compared_in_circles(scripted):
    """Six contestants: six pairs of a sample instead of fifteen, and everyone meets everyone."""
    run_scripted(scripted, "long", "short", "third", "fourth", "fifth", "sixth")
    with Referee(prefer_long) as server:
        done = compare(scripted, server)
        assert len(server.ledger) == 2 * 6 * len(ROWS)
    assert "The schedule has 72 of 180 pairs of answers" in done.stdout
    found, _ = preferences(scripted)
    assert found["contestants"][0]["contestant"].endswith("long.json")
    assert all(pair["wins"] + pair["ties"] + pair["losses"] > 0 for pair in found["pairs"])


def test_equal_and_empty_answers_need_no_judge(scripted):
    told = json.loads((scripted / "long.json").read_text())
    (scripted / "short.json").write_text(json.dumps(told))
    run_scripted(scripted, "long", "short")
    with Referee(prefer_long) as server:
        compare(scripted, server)
        assert not server.ledger
    assert preferences(scripted)[0]["pairs"][0]["ties"] == 12


def test_a_run_is_not_scored_by_pairwise_alone(folder):
    """An answer by itself has nothing to be compared with; the message says what to do."""
    with Referee(prefer_long) as server:
        line = ("run", "--models", "long,short", "--dataset", "rows.jsonl", "--scorer", "pairwise", "--judge", "referee")
        done = run(*line, cwd=folder, **server.environment())
    assert done.returncode == 1
    assert "score RUN --scorer pairwise --judge MODEL`" in done.stderr
