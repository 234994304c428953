"""Limits, outages and budgets as a user meets them: the server's ledger says what was really sent."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from support.command import events, run, start
from support.server import Asked, FakeServer, Fault

TOKENS_PER_ANSWER = 11 + 3


class Enforcer:
    """A server's own limits: two token buckets, and 429 with Retry-After for what is too much."""

    def __init__(self, *, rpm: int, tpm: int) -> None:
        self.rates = (rpm / 60, tpm / 60)
        self.sizes = (max(1.0, rpm / 60), tpm / 15)
        self.levels = list(self.sizes)
        self.at = time.monotonic()
        self.accepted: list[float] = []
        self.rejected = 0
        self.lock = threading.Lock()

    def __call__(self, asked: Asked, number: int) -> Fault | None:
        with self.lock:
            now = time.monotonic()
            filled = [level + rate * (now - self.at) for level, rate in zip(self.levels, self.rates, strict=True)]
            self.levels, self.at = [min(level, size) for level, size in zip(filled, self.sizes, strict=True)], now
            if self.levels[0] < 1 or self.levels[1] < TOKENS_PER_ANSWER:
                self.rejected += 1
                return Fault(429, '{"error": {"message": "rate limit"}}', {"Retry-After": "1"})
            self.levels = [self.levels[0] - 1, self.levels[1] - TOKENS_PER_ANSWER]
            self.accepted.append(now)
            return None


@pytest.mark.parametrize(("rpm", "tpm"), [(600, 60_000), (6000, 600 * TOKENS_PER_ANSWER)])
def test_declared_limits_are_used_and_kept(rpm: int, tpm: int, tmp_path: Path) -> None:
    """Ten requests a second are allowed, by the one limit or the other: nearly all are used, hardly any is rejected."""
    enforcer = Enforcer(rpm=rpm, tpm=tpm)
    with FakeServer(latency_s=0.02, fault=enforcer) as server:
        line = f"--model openai/a --dataset truthfulness --limit 120 --max-tokens 8 --rpm {rpm} --tpm {tpm}"
        done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 0, done.stdout
    warm = [at for at in enforcer.accepted if at - enforcer.accepted[0] >= 3.0]
    used = (len(warm) - 1) / (warm[-1] - warm[0]) / 10.0
    assert 0.85 <= used <= 1.01
    assert enforcer.rejected < 0.05 * len(server.ledger)


def test_an_account_finds_its_own_concurrency(tmp_path: Path) -> None:
    """It starts with twenty at once and has more as long as nobody objects."""
    with FakeServer(latency_s=0.1) as server:
        done = run("--model", "openai/a", "--dataset", "truthfulness", cwd=tmp_path, **server.environment())

    assert done.returncode == 0
    assert 40 <= server.most_in_flight <= 200


def test_a_key_that_dies_stops_its_model_within_its_concurrency(tmp_path: Path) -> None:
    asked_after: list[str] = []

    def fault(asked: Asked, number: int) -> Fault | None:
        if asked.model != "c" or sum(a.model == "c" for a in server.ledger) <= 40:
            return None
        asked_after.append(asked.prompt)
        return Fault(401, '{"error": {"message": "Incorrect API key provided"}}')

    with FakeServer(latency_s=0.01, fault=fault) as server:
        models = ",".join(f"openai/{name}" for name in "abcde")
        line = f"--models {models} --dataset truthfulness --parallel --max-workers 5 --max-connections 8"
        done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 2
    assert 1 <= len(asked_after) <= 8
    assert sum(a.model != "c" for a in server.ledger) == 4 * 365
    assert "openai/c: failed: HTTP 401: Incorrect API key provided" in done.stdout


def test_an_outage_is_waited_out_by_probes(tmp_path: Path) -> None:
    """While the server is down one request at a time asks whether it is back; then all trials get their answer."""
    down: list[float] = []

    def fault(asked: Asked, number: int) -> Fault | None:
        if number < 100 or (down and time.monotonic() - down[0] > 4.0):
            return None
        down.append(time.monotonic())
        return Fault(503)

    with FakeServer(latency_s=0.02, fault=fault) as server:
        line = "--model openai/a --dataset truthfulness --limit 300 --max-connections 20 --json"
        done = run(*line.split(), cwd=tmp_path, **server.environment())

    told = events(done.stdout)
    assert done.returncode == 0
    assert len(down) <= 40
    waits = [e for e in told if e["event"] == "waiting"]
    assert any(e["reason"].startswith("circuit open: HTTP 503") and e["seconds"] > 0 for e in waits)
    assert len(waits) <= 12, "at most one a second"


# --- budgets ------------------------------------------------------------------------------------------

PRICED = """
models:
  - {name: priced, provider: openai, model: p, price: {input: 10, output: 100}, settings: {max_tokens: 16}}
"""
PRICE_OF_ANSWER = (11 * 10 + 3 * 100) / 1e6


def test_a_cost_budget_stops_cleanly_and_more_of_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "models_config.yaml").write_text(PRICED)
    with FakeServer() as server:
        line = "--model priced --dataset truthfulness --output r --max-cost 0.05"
        first = run(*line.split(), cwd=tmp_path, **server.environment())
        asked = len(server.ledger)
        same = run(*["--resume", "r", "--max-cost", "0.05"], cwd=tmp_path, **server.environment())
        more = run(*["--resume", "r", "--max-cost", "1", "--json"], cwd=tmp_path, **server.environment())

    assert (first.returncode, same.returncode, more.returncode) == (2, 2, 0), first.stdout + more.stderr
    assert 0.8 * 0.05 < asked * PRICE_OF_ANSWER <= 0.05
    assert "may not fit into --max-cost 0.05" in first.stdout
    assert len({a.prompt for a in server.ledger}) == len(server.ledger) == 365
    ended = events(more.stdout)[-1]
    assert ended["contestants"][0]["cost_usd"] == pytest.approx(365 * PRICE_OF_ANSWER)


def test_failed_attempts_count_as_spent_at_their_worst(tmp_path: Path) -> None:
    """A server that breaks after it may have charged does not make us pass the cap."""
    (tmp_path / "models_config.yaml").write_text(PRICED)
    with FakeServer(fault=lambda asked, number: Fault(500) if number % 3 == 0 else None) as server:
        line = "--model priced --dataset truthfulness --max-cost 0.05 --max-connections 4"
        done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 2
    assert len(server.ledger) * (50 * 10 + 3 * 100) / 1e6 < 0.05


def _at_worst(server: FakeServer) -> float:
    """What a provider would ask for where no answer arrived, and each was as long as it may be."""
    return sum((len(asked.prompt) / 3 * 10 + 16 * 100) / 1e6 for asked in server.ledger)


def _cost_of(tmp_path: Path, server: FakeServer, *more: str) -> tuple[float | None, float | None, str]:
    """What a run of five questions cost as its report says: exactly, at least, and in the terminal."""
    (tmp_path / "models_config.yaml").write_text(PRICED)
    line = ("--model", "priced", "--dataset", "truthfulness", "--limit", "5", "--output", "r", "--no-preflight", *more)
    done = run(*line, cwd=tmp_path, **server.environment())
    (contestant,) = json.loads((tmp_path / "r" / "comparison_report.json").read_text())["contestants"]
    return contestant["cost_usd"], contestant["known_cost_usd"], done.stdout


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_cost_is_called_exact_only_where_no_call_is_in_doubt(tmp_path: Path, status: int) -> None:
    """An answer that came at the second attempt may have been paid for twice."""
    with FakeServer(fault=lambda asked, number: Fault(status) if number == 1 else None) as server:
        exact, known, shown = _cost_of(tmp_path, server)
    assert (exact, known) == (None, pytest.approx(5 * PRICE_OF_ANSWER)), shown
    assert "≥ $" in shown


def test_a_request_that_was_refused_costs_nothing(tmp_path: Path) -> None:
    refused = Fault(400, '{"error": {"message": "not like that", "type": "invalid_request_error"}}')
    with FakeServer(fault=lambda asked, number: refused if number == 1 else None) as server:
        exact, known, shown = _cost_of(tmp_path, server)
    assert (exact, known) == (pytest.approx(4 * PRICE_OF_ANSWER), pytest.approx(4 * PRICE_OF_ANSWER)), shown
    assert "≥ $" not in shown


@pytest.mark.parametrize("choices", ["[]", '"none"', "[{}]"])
def test_answers_that_cannot_be_read_have_cost_something(tmp_path: Path, choices: str) -> None:
    usage = '{"prompt_tokens": 1000, "completion_tokens": 500}'
    unreadable = Fault(200, f'{{"id": "x", "model": "p", "choices": {choices}, "usage": {usage}}}')
    with FakeServer(fault=lambda asked, number: unreadable) as server:
        exact, known, shown = _cost_of(tmp_path, server)
    assert (exact, known) == (None, None), shown
    assert "unknown" in shown


def test_an_answer_without_a_usage_that_cannot_be_judged_has_cost_something(tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text("def judge(sample, text):\n    raise ValueError('no')\n")
    told_nothing = Fault(200, '{"model": "p", "choices": [{"message": {"content": "A"}, "finish_reason": "stop"}]}')
    with FakeServer(fault=lambda asked, number: told_nothing) as server:
        exact, known, shown = _cost_of(tmp_path, server, "--scorer", "./raises.py:judge")
    assert (exact, known) == (None, None), shown


def test_a_rate_limit_leaves_the_cost_exact(tmp_path: Path) -> None:
    with FakeServer(fault=lambda asked, number: Fault(429) if number == 1 else None) as server:
        exact, _, shown = _cost_of(tmp_path, server)
    assert exact == pytest.approx(5 * PRICE_OF_ANSWER), shown


def _wait_until_asked(server: FakeServer, enough: int) -> None:
    ends = time.monotonic() + 60
    while len(server.ledger) < enough:
        assert time.monotonic() < ends, f"{len(server.ledger)} of {enough} questions were asked"
        time.sleep(0.02)


def test_killed_runs_remember_what_they_may_have_spent(tmp_path: Path) -> None:
    """Killed three times in the middle of its calls, a run with all its resumes stays within its budget."""
    (tmp_path / "models_config.yaml").write_text(PRICED)
    with FakeServer(latency_s=0.2) as server:
        line = ["--model", "priced", "--dataset", "truthfulness", "--output", "r", "--max-connections", "8", "--max-cost", "0.1"]
        for kill in range(3):
            process = start(
                *(["--resume", "r", "--max-connections", "8"] if kill else line), cwd=tmp_path, **server.environment()
            )
            enough = len(server.ledger) + 12
            _wait_until_asked(server, enough)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        asked = len(server.ledger)
        last = run("--resume", "r", cwd=tmp_path, **server.environment())

    assert last.returncode == 2, last.stdout + last.stderr
    assert len(server.ledger) > asked
    lost = 3 * 8
    at_worst = PRICE_OF_ANSWER * (len(server.ledger) - lost) + _at_worst(server) / len(server.ledger) * lost
    assert 0.05 < at_worst <= 0.1


def test_failures_of_every_resume_count_in_one_budget(tmp_path: Path) -> None:
    """Each resume asks what failed again, and no resume begins with an empty purse."""
    (tmp_path / "models_config.yaml").write_text(PRICED)
    with FakeServer(fault=lambda asked, number: Fault(500)) as server:
        line = ["--model", "priced", "--dataset", "truthfulness", "--output", "r", "--limit", "20", "--max-cost", "0.2"]
        run(*line, cwd=tmp_path, **server.environment())
        for _ in range(4):
            run("--resume", "r", "--retry-failed", cwd=tmp_path, **server.environment())

    assert len(server.ledger) > 20
    assert _at_worst(server) <= 0.2


def test_a_token_budget_stops_cleanly(tmp_path: Path, server: FakeServer) -> None:
    line = "--models openai/a,openai/b --dataset truthfulness --parallel --max-total-tokens 2000 --max-tokens 8 --json"
    done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 2
    assert 1500 < len(server.ledger) * TOKENS_PER_ANSWER <= 2000
    ends = [e for e in events(done.stdout) if e["event"] == "contestant_finished"]
    assert [e["state"] for e in ends] == ["out_of_budget"] * 2
    assert all("--max-total-tokens 2000" in e["message"] for e in ends)


def test_a_time_budget_is_the_whole_runs(tmp_path: Path) -> None:
    with FakeServer(latency_s=0.2) as server:
        line = "--models openai/a,openai/b --dataset truthfulness --max-time 2 --max-connections 2"
        began = time.monotonic()
        done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 2
    assert time.monotonic() - began < 8
    assert done.stdout.count("the run's time is over: --max-time 2") >= 2
    assert {a.model for a in server.ledger} == {"a"}


def test_a_model_without_a_price_is_refused_before_anything_is_asked(tmp_path: Path, server: FakeServer) -> None:
    line = "--models openai/nobody-knows,llama3 --dataset warmup --max-cost 1"
    done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 1
    assert "--max-cost needs the price of 'openai/nobody-knows': give it in models_config.yaml" in done.stderr
    assert server.ledger == []


def test_limits_of_the_configuration_are_the_models_own(tmp_path: Path) -> None:
    """Two of a kind, only one of them slow: 60 a minute lets one through at once and the next a second later."""
    entry = "{name: %s, provider: openai, limits: {rpm: %d}}"
    (tmp_path / "models_config.yaml").write_text(f"models:\n  - {entry % ('slow', 60)}\n  - {entry % ('quick', 60_000)}\n")
    with FakeServer() as server:
        line = "--models slow,quick --dataset warmup --limit 4 --json"
        done = run(*line.split(), cwd=tmp_path, **server.environment())

    seconds = {e["contestant"]: e["seconds"] for e in events(done.stdout) if e["event"] == "contestant_finished"}
    assert seconds["slow"] >= 2.9
    assert seconds["quick"] < 1.0
    assert "rpm limit" in {e["reason"] for e in events(done.stdout) if e["event"] == "waiting"}


def test_a_price_given_later_counts_on_resume(tmp_path: Path) -> None:
    """What was spent before anyone knew the price is counted by its tokens."""
    bare = PRICED.replace("price: {input: 10, output: 100}, ", "")
    (tmp_path / "models_config.yaml").write_text(bare)
    with FakeServer() as server:
        run(
            *["--model", "priced", "--dataset", "truthfulness", "--limit", "40", "--output", "r"],
            cwd=tmp_path,
            **server.environment(),
        )
        (tmp_path / "models_config.yaml").write_text(PRICED)
        line = "--resume r --model priced --limit 365 --max-cost 0.05"
        done = run(*line.split(), cwd=tmp_path, **server.environment())

    assert done.returncode == 2, done.stdout + done.stderr
    assert 0.8 * 0.05 < len(server.ledger) * PRICE_OF_ANSWER <= 0.05
